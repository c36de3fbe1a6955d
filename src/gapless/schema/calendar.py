"""Columns of dates and datetimes, counted in whole steps of a resolution."""

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

_FORMAT = "YymbBdHIMSp"  # the parts that a format may have: year, month, day, hour, minute, second, AM or PM
_CLOCKS = ("", "HM", "HMS", "IMp", "IMSp")  # the parts of the time of day that it may have together

# Units of numpy, in which a datetime is a whole number of steps since 1970.
_STEP_OF_RESOLUTION = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}


@dataclass(frozen=True)
class CalendarColumn(BinnedColumn):
    """Dates or datetimes, counted in whole steps of the resolution.

    A text file writes them as ISO 8601 does, or by `format`. Bounds are always written as in ISO 8601.
    """

    extra_keys: ClassVar[tuple[str, ...]] = ("bounds", "resolution", "bins", "edges", "quantiles", "format")
    resolutions: ClassVar[tuple[str, ...]]
    python_type: ClassVar[type[dt.date]]
    _example: ClassVar[str] = "write bounds = [2000-01-01, 2024-12-31]"

    resolution: str = field(default="day", kw_only=True)
    format: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.format is not None:
            self._check_format(self.format)
        self._check_one_of("resolution", self.resolutions, self.resolutions[0])
        super().__post_init__()

    def _check_format(self, form: object) -> None:
        parts = set(found := re.findall(r"%(.?)", form) if isinstance(form, str) else [])
        kinds = [len(parts & set(same)) for same in ("Yy", "mbB", "HI")]
        clock = "".join(sorted(parts & set("HIMSp")))
        known = len(parts) == len(found) and parts <= set(_FORMAT) and clock in _CLOCKS
        if not known or kinds[0] != 1 or max(kinds) > 1:
            allowed = " ".join(f"%{part}" for part in _FORMAT)
            wrong = f"has the format {form!r}, but a format must have one year, no part twice, and only {allowed}"
            raise self._error(wrong, hint='write format = "%d.%m.%Y", or format = "%m/%d/%Y %H:%M"')

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
        given, value = value, self._from_iso(value) if isinstance(value, str) else value
        if not isinstance(value, dt.date) or (isinstance(value, dt.datetime) and value.tzinfo is not None):
            wrong = f"has the {what} {str(given)!r}, which is not a {self.kind} without a time zone"
            raise self._error(wrong, hint=self._example)
        return float(np.datetime64(value).astype(self.unit).astype(np.int64))

    def _read(self, text: str) -> float:
        """The position of a text in ISO 8601 or in the format of the file; NaN if it is neither."""
        try:
            return self._position(text, "code")
        except SchemaError:
            if self.format is None:
                return math.nan
        try:
            return self._position(dt.datetime.strptime(text, self.format), "code")  # noqa: DTZ007 without a zone
        except ValueError:
            return math.nan

    def position(self, text: str) -> float:
        """The position of a public date that is given as text. One within a step is refused."""
        position = super().position(text)
        date = self._from_iso(text)
        if date is not None and np.int64(position).astype(self.unit) != np.datetime64(date):
            wrong = f"is compared with {text}, but its values are kept by the {self.resolution}"
            hint = f"write the beginning of the {self.resolution}, or declare a finer resolution in the schema"
            raise self._error(wrong, hint=hint)
        return position

    def _from_iso(self, text: str) -> dt.date | None:
        try:
            return self.python_type.fromisoformat(text)
        except ValueError:
            return None

    def label(self, position: float) -> str:
        """A step as ISO 8601 writes it, to the resolution."""
        return str(np.int64(position).astype(self.unit))

    @cached_property
    def _past(self) -> float:
        upper = self.limits[1]
        return upper if np.int64(upper + 1).astype(self.unit) > np.datetime64(self.python_type.max) else upper + 1

    def _value(self, position: float) -> str:
        unit = "s" if issubclass(self.python_type, dt.datetime) else "D"
        date: dt.date = np.int64(position).astype(self.unit).astype(f"datetime64[{unit}]").item()
        return date.isoformat()

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """Draw a date uniformly from the bin of each code, at the declared resolution."""
        return super().draw(codes, rng).astype(self.unit)


@dataclass(frozen=True)
class Date(CalendarColumn):
    """Days, months or years between bounds, cut into bins.

    >>> Date("born", bounds=("1900-01-01", "1999-12-31"), resolution="year", bins=2).cells
    ('1900..1949', '1950..1999')
    """

    kind: ClassVar[str] = "date"
    resolutions: ClassVar[tuple[str, ...]] = ("day", "month", "year")
    python_type: ClassVar[type[dt.date]] = dt.date


@dataclass(frozen=True)
class DateTime(CalendarColumn):
    """Datetimes between bounds, cut into bins."""

    kind: ClassVar[str] = "datetime"
    resolutions: ClassVar[tuple[str, ...]] = ("second", "minute", "hour", "day", "month", "year")
    python_type: ClassVar[type[dt.date]] = dt.datetime

    resolution: str = field(default="second", kw_only=True)
