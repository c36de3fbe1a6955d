"""Columns of moments: days, hours, seconds on a line, counted in whole steps of a resolution."""

from __future__ import annotations

import datetime as dt
import math
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np

from gapless.errors import SchemaError
from gapless.schema.numeric import BinnedColumn
from gapless.types import Codes, Values

_FORMAT = "YymbBdHIMSp"  # what a format may say: year, month, day, hour, minute, second, half of the day
_CLOCKS = ("", "HM", "HMS", "IMp", "IMSp")  # and what of the time of day together

# How a moment becomes a whole number of steps since 1970, and back.
_STEP_OF_RESOLUTION = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}


@dataclass(frozen=True)
class CalendarColumn(BinnedColumn):
    """Moments, counted in whole steps of the resolution; so are the bounds.

    In a text file they are written as ISO 8601 says, or as `format` does. Bounds are always as in ISO 8601.
    """

    extra_keys: ClassVar[tuple[str, ...]] = ("bounds", "resolution", "bins", "edges", "quantiles", "format")
    resolutions: ClassVar[tuple[str, ...]]
    moment: ClassVar[type[dt.date]]
    _example: ClassVar[str] = "bounds = [2000-01-01, 2024-12-31]"

    resolution: str = field(default="day", kw_only=True)
    format: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.format is not None:
            self._check_format(self.format)
        self._check_one_of("resolution", self.resolutions)
        super().__post_init__()

    def _check_format(self, form: object) -> None:
        parts = set(found := re.findall(r"%(.?)", form) if isinstance(form, str) else [])
        kinds = [len(parts & set(same)) for same in ("Yy", "mbB", "HI")]
        clock = "".join(sorted(parts & set("HIMSp")))
        known = len(parts) == len(found) and parts <= set(_FORMAT) and clock in _CLOCKS
        if not known or kinds[0] != 1 or max(kinds) > 1:
            hint = 'format = "%d.%m.%Y" or "%m/%d/%Y %H:%M"; ' + " ".join(f"%{part}" for part in _FORMAT)
            raise self._error(f"has the format {form!r}", hint=hint)

    @property
    def _value_facts(self) -> list[float | str]:
        return [self.resolution, *super()._value_facts, *([] if self.format is None else [self.format])]

    @property
    def _outside_summary(self) -> str:
        return super()._outside_summary + ("" if self.format is None else f" written {self.format}")

    @property
    def unit(self) -> np.dtype[np.datetime64]:
        """The numpy type that counts steps of the resolution."""
        return np.dtype(f"datetime64[{_STEP_OF_RESOLUTION[self.resolution]}]")

    def _position(self, value: object, what: str) -> float:
        value = self._moment(value) if isinstance(value, str) else value
        if not isinstance(value, dt.date) or (isinstance(value, dt.datetime) and value.tzinfo is not None):
            raise self._error(f"has a {what} that is not a plain {self.kind}", hint=self._example)
        return float(np.datetime64(value).astype(self.unit).astype(np.int64))

    def _read(self, text: str) -> float:
        """A text as a moment: by ISO 8601, or a code as the file writes it."""
        try:
            return self._position(text, "code")
        except SchemaError:
            if self.format is None:
                return math.nan
        try:
            moment = dt.datetime.strptime(text, self.format)  # noqa: DTZ007 moments are plain, without a zone
            return float(np.datetime64(moment).astype(self.unit).astype(np.int64))
        except ValueError:
            return math.nan

    def position(self, text: str) -> float:
        """A public moment, as text, in steps; one inside a step is refused."""
        position = super().position(text)
        moment = self._moment(text)
        if moment is not None and np.int64(position).astype(self.unit) != np.datetime64(moment):
            raise self._error(
                f"is compared with {text}, and is kept by the {self.resolution}",
                hint=f"the beginning of its {self.resolution}, or a finer resolution in the schema",
            )
        return position

    def _moment(self, text: str) -> dt.date | None:
        try:
            return self.moment.fromisoformat(text)
        except ValueError:
            return None

    def label(self, position: float) -> str:
        """A step as ISO 8601 writes it, to the resolution."""
        return str(np.int64(position).astype(self.unit))

    @cached_property
    def _past(self) -> float:
        upper = self.limits[1]
        return upper if np.int64(upper + 1).astype(self.unit) > np.datetime64(self.moment.max) else upper + 1

    def _value(self, position: float) -> str:
        kind = "s" if issubclass(self.moment, dt.datetime) else "D"
        moment: dt.date = np.int64(position).astype(self.unit).astype(f"datetime64[{kind}]").item()
        return moment.isoformat()

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """A moment drawn uniformly from the bin of each code, at the declared resolution."""
        return super().draw(codes, rng).astype(self.unit)


@dataclass(frozen=True)
class Date(CalendarColumn):
    """Days, months or years between bounds, cut into bins.

    >>> Date("born", bounds=("1900-01-01", "1999-12-31"), resolution="year", bins=2).cells
    ('1900..1949', '1950..1999')
    """

    kind: ClassVar[str] = "date"
    resolutions: ClassVar[tuple[str, ...]] = ("day", "month", "year")
    moment: ClassVar[type[dt.date]] = dt.date


@dataclass(frozen=True)
class DateTime(CalendarColumn):
    """Moments between bounds, cut into bins."""

    kind: ClassVar[str] = "datetime"
    resolutions: ClassVar[tuple[str, ...]] = ("second", "minute", "hour", "day", "month", "year")
    moment: ClassVar[type[dt.date]] = dt.datetime

    resolution: str = field(default="second", kw_only=True)
