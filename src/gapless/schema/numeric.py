"""Columns on a line: their cells and their bins; integers and numbers. Moments have a file of their own.

A column on a line has *cells*, the finest public grid on which a value is kept, and *bins*, groups of neighbouring
cells that enter joint tables. Both follow from the codebook. With `bins = "learned"` the codebook leaves the bins to a
paid release (`synth/learning.py`); until then each cell is a bin by itself.

>>> hours = Integer("hours", bounds=(0, 99), bins="learned")
>>> hours.size, hours.with_cuts([0, 40, 41, 100]).cells
(100, ('0..39', '40', '41..99'))
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gapless.schema.bins import Bins, Scale, equal_width_cells, round_number_cells
from gapless.schema.columns import MOST_LEVELS, Column, Outside, as_python
from gapless.text import listing
from gapless.types import Codes, Floats, Values, is_number, is_whole

DEFAULT_BINS = 10
DEFAULT_CELLS = 1024  # about: they begin at round numbers
LARGEST_WHOLE, LARGEST = 2**53, 1e300  # beyond, whole numbers are not exact, and widths of bins overflow
SCALES: tuple[Scale, ...] = ("linear", "log", "symlog")
LEARNED = "learned"
TINY = 5e-324  # the smallest number above 0: the cell of 0 ends there
CLOSE = 1e-9  # of the range: as near to a declared edge a cell does not begin


@dataclass(frozen=True)
class BinnedColumn(Column):
    """Columns on a line, cut into bins: equal ones, or between edges or quantiles. See `bins.Bins`."""

    is_ordered: ClassVar[bool] = True
    extra_keys: ClassVar[tuple[str, ...]] = ("bounds", "bins", "edges", "quantiles")
    outside_rules: ClassVar[tuple[Outside, ...]] = ("clamp", "missing", "refuse")
    has_whole_values: ClassVar[bool] = True
    scale: ClassVar[Scale] = "linear"  # on which equal cells are equally wide
    _example: ClassVar[str] = "bounds = [0, 100]"

    bounds: tuple[Any, Any] = field(default=(), kw_only=True)  # type: ignore[assignment] # checked below
    bins: int | str | None = field(default=None, kw_only=True)
    edges: tuple[Any, ...] | None = field(default=None, kw_only=True)
    quantiles: tuple[Any, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("bounds", "edges", "quantiles"):
            given = getattr(self, key)
            if isinstance(given, list | tuple):
                object.__setattr__(self, key, tuple(map(as_python, given)))
            elif given is not None:
                raise self._error(f"needs a list for {key}, not {given!r}", hint=self._example)
        self._check_bounds()
        self._check_scale()
        self._check_bins()

    def _check_bounds(self) -> None:
        if len(self.bounds or ()) != 2:
            raise self._error("needs bounds: the lowest and the highest possible value", hint=self._example)
        lower, upper = (self._position(bound, "bound") for bound in self.bounds)
        if not lower < upper:
            raise self._error(
                f"has empty bounds [{self.bounds[0]}, {self.bounds[1]}]",
                hint="the first bound must be below the second",
            )
        if both := [code.code for code in self.missing if lower <= self._read(code.code) <= upper]:
            raise self._error(
                f"has {both[0]!r} as a missing code and inside its bounds [{self.bounds[0]}, {self.bounds[1]}]",
                hint="bounds without it: a missing code is never a value",
            )

    def _check_scale(self) -> None:
        """What a kind says of its grid."""

    def _check_bins(self) -> None:
        given = [key for key in ("bins", "edges", "quantiles") if getattr(self, key) is not None]
        if len(given) > 1:
            raise self._error(f"has {listing(given)}", hint="keep one of bins, edges and quantiles")
        object.__setattr__(self, "bins", as_python(self.bins))
        if not (self.bins in (None, LEARNED) or is_whole(self.bins, least=1)):
            raise self._error(
                f"has bins = {self.bins!r}", hint='a whole number, such as bins = 10, or bins = "learned"'
            )
        if self.values_size > MOST_LEVELS:
            raise self._error(f"has more than {MOST_LEVELS} bins", hint="fewer bins")
        lower, upper = self.limits
        for cut in self.edges or self.quantiles or ():
            if not lower <= self._position(cut, "bin edge") <= (self._past if self.edges else upper):
                raise self._error(
                    f"has the bin edge {cut} outside its bounds [{self.bounds[0]}, {self.bounds[1]}]",
                    hint="widen the bounds, or leave the edge out",
                )
        if self.edges is not None and (
            len(self.edges) < 2 or self.intervals.cuts[0] != lower or self.intervals.cuts[-1] not in (upper, self._past)
        ):
            raise self._error(
                "has edges that do not start and end at its bounds",
                hint=f"edges = [{self.bounds[0]}, …, {self.bounds[1]}]",
            )
        if np.any(np.diff(self.intervals.cuts) <= 0):
            raise self._error("has bin edges that do not rise", hint="sort them and leave doubles out")
        if self.step and np.any(np.diff(self.intervals.first_steps) < 1):
            raise self._error("has bins without a value in them", hint="fewer bins, or edges at least one step apart")

    def _position(self, value: object, what: str) -> float:
        """A public value as a number on the line."""
        if not (is_number(value) and abs(value) < math.inf) or (self.has_whole_values and value != int(value)):
            wanted = "whole number" if self.has_whole_values else "number"
            raise self._error(f"has the {what} {value!r}, which is not a {wanted}", hint=self._example)
        most = LARGEST_WHOLE if self.has_whole_values else LARGEST
        if abs(value) > most:
            raise self._error(f"has a {what} beyond {most:g}", hint="smaller numbers: thousands, millions …")
        return float(value)

    def _read(self, text: str) -> float:
        """A text as a number on the line, NaN if it is none."""
        try:
            return float(text)
        except ValueError:
            return math.nan

    def label(self, position: float) -> str:
        """A number on the line as people write it."""
        return f"{position:.12g}"

    @property
    def _value_facts(self) -> list[float | str]:
        return list(self.limits)

    @property
    def _outside_summary(self) -> str:
        within = f" from {self.bounds[0]} to {self.bounds[1]}" if self.outside == "missing" else ""
        return f"whatever is no {self.kind}{within}"

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The bounds as positions."""
        return self._position(self.bounds[0], "bound"), self._position(self.bounds[1], "bound")

    @property
    def step(self) -> float:
        """The distance of neighbouring values, 0 if there is none."""
        return 1.0

    @cached_property
    def _past(self) -> float:
        """One step past the upper bound: where the last bin ends if only that bound is in it."""
        line = Bins(*self.limits, 1, self.step)
        return float(line.from_steps(line.to_steps(self.limits[1]) + 1)) if self.step else self.limits[1]

    @property
    def has_learned_bins(self) -> bool:
        """Whether its bins are left to a paid release, so that each cell is a bin until then."""
        return self.bins == LEARNED

    @property
    def values_size(self) -> int:
        """The number of bins."""
        return self.intervals.number

    @cached_property
    def intervals(self) -> Bins:
        """Where the bins begin and end."""
        lower, upper = self.limits
        given: list[float] | Floats | None = None
        number = self.bins if isinstance(self.bins, int) else DEFAULT_BINS
        if self.edges is not None:
            given = [self._position(edge, "bin edge") for edge in self.edges]
        elif self.quantiles is not None:
            given = [lower, *(self._position(cut, "quantile") for cut in self.quantiles), upper]
        elif self.has_learned_bins:
            given = self.grid
        elif self.scale != "linear":
            given = self._on_values(equal_width_cells(lower, upper, number, self.scale))
        elif self.bins is None and self.step:
            number = min(DEFAULT_BINS, int((upper - lower) / self.step) + 1)
        return Bins(lower, upper, number if given is None else len(given) - 1, self.step, given)

    @cached_property
    def grid(self) -> Floats:
        """Where each cell begins, and where the last one ends: at every value if they are few enough for codes.

        Else so many on the scale, and so that 0, which is often a spike, has a cell of its own.
        """
        lower, upper = self.limits
        if self.step and (upper - lower) / self.step < MOST_LEVELS:
            values = Bins(lower, upper, round((upper - lower) / self.step) + 1, self.step)
            return np.unique(np.append(values.cuts[:-1], self._past))
        cuts = round_number_cells(lower, upper, DEFAULT_CELLS, self.scale)
        if lower <= 0 < upper:
            cuts = np.union1d(cuts, [0.0, self.step or TINY])
        return self._on_values(cuts)

    def _on_values(self, cuts: Floats) -> Floats:
        """Cuts moved up to the next value of a line with steps, the last one past the upper bound."""
        if not self.step:
            return cuts
        line = Bins(*self.limits, 1, self.step)
        return np.unique(np.append(line.from_steps(line.to_steps(cuts[:-1])), self._past))

    @cached_property
    def finest(self) -> Self:
        """The same column with each cell as a bin: those of its grid, cut also where a declared bin begins.

        >>> (
        ...     Integer("age", bounds=(18, 90), bins=3).finest.size,
        ...     Number("x", bounds=(1, 2), edges=(1, 1.77, 2)).finest.size,
        ... )
        (73, 1000)
        """
        cells = replace(self, bins=LEARNED, edges=None, quantiles=None)
        declared, cuts = self._on_values(self.intervals.cuts), cells.grid
        if np.isin(declared, cuts).all():
            return cells
        above = np.clip(np.searchsorted(declared, cuts), 1, len(declared) - 1)
        beside = np.minimum(np.abs(cuts - declared[above - 1]), np.abs(cuts - declared[above]))
        near = (beside > 0) & (beside <= CLOSE * (cuts[-1] - cuts[0])) & (cuts != TINY) & (not self.step)
        cuts = np.union1d(cuts[~near], declared)
        return self.with_cuts(cuts) if len(cuts) <= MOST_LEVELS else self

    def with_cuts(self, cuts: Iterable[float]) -> Self:
        """The same column with bins that begin at these positions on its line, the last of which is its end."""
        return replace(self, bins=None, quantiles=None, edges=tuple(self._value(cut) for cut in cuts))

    def regroup(self, into: BinnedColumn) -> NDArray[np.int64]:
        """The code in another column of the same values, whose bins hold whole ones of these, of each code here."""
        first, last = self.bin_ranges()
        bins = into.bin_of(first if self.step else (first + last) / 2)
        others = np.arange(self.values_size, self.extended_size) - self.values_size + into.values_size
        return np.concatenate([bins, others])

    def _value(self, position: float) -> Any:
        """A number on the line as a schema writes it."""
        return int(position) if self.has_whole_values else float(position)

    @property
    def value_cells(self) -> tuple[str, ...]:
        """The values of each bin: `18..41`, or `[0, 0.5)` without steps."""
        if self.step:
            return tuple(
                self.label(low) if low == high else f"{self.label(low)}..{self.label(high)}"
                for low, high in zip(*self.bin_ranges(), strict=True)
            )
        cuts = [self.label(cut) if cut != TINY else "0" for cut in self.intervals.cuts]
        names = [f"[{low}, {high})" if low != high else low for low, high in pairwise(cuts)]
        names = [
            f"({name[1:]}" if cut == TINY else name for name, cut in zip(names, self.intervals.cuts[:-1], strict=True)
        ]
        return (*names[:-1], f"{names[-1][:-1]}]")

    def position(self, text: str) -> float:
        """A public value, as text, as a number on the line; one between two values of a grid is refused."""
        position = self._read(text)
        if math.isnan(position):
            article = "an" if self.kind == "integer" else "a"
            raise self._error(f"is compared with {text!r}", hint=f"{article} {self.kind}")
        if not self.has_whole_values and self.step and abs(position / self.step - round(position / self.step)) > 1e-6:
            raise self._error(
                f"is compared with {text}, and is kept in multiples of {self.step:g}",
                hint="such a multiple, or a finer resolution in the schema",
            )
        return position

    def bin_of(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each position on the line, positions beyond the bounds clamped to the end bins."""
        return self.intervals.bin_of(positions)

    def bin_ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest value of each bin."""
        return self.intervals.bin_ranges()

    def bin_midpoints(self, cell_counts: Floats | None = None) -> NDArray[np.float64]:
        """A value in the middle of each bin or, if counts of its cells are known, of the heaviest cell in it."""
        if cell_counts is None:
            return self.intervals.midpoints()
        fine = self.finest
        bins = fine.regroup(self)[: fine.values_size]
        order = np.lexsort((-cell_counts, bins))
        heaviest = order[np.searchsorted(bins[order], np.arange(self.values_size))]
        return fine.bin_midpoints()[heaviest]

    def contains(self, positions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which positions are values of this column: inside the bounds and, if it is of whole numbers, whole."""
        lower, upper = self.limits
        inside: NDArray[np.bool_] = (positions >= lower) & (positions <= upper)
        return inside & (positions == np.floor(positions)) if self.has_whole_values else inside

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """A value drawn uniformly from the bin of each code; whole numbers stay whole."""
        return self.intervals.draw(codes, rng)

    def draw_positions(self, cell_counts: Floats | None, codes: Codes, rng: np.random.Generator) -> Floats:
        """A position in the bin of each code: by these counts of its cells if they are known, else evenly.

        NaN for other codes.
        """
        drawn = np.full(len(codes), np.nan)
        valued = codes < self.values_size
        if cell_counts is None:
            drawn[valued] = self.intervals.draw(codes[valued], rng)
        else:
            drawn[valued] = self.finest.intervals.draw(self.draw_cells(cell_counts, codes[valued], rng), rng)
        return drawn

    def draw_cells(self, cell_counts: Floats, codes: Codes, rng: np.random.Generator) -> Codes:
        """A cell in each of these bins, as likely as these counts say; in a bin without any count all are alike."""
        fine = self.finest
        bins = fine.regroup(self)[: fine.values_size]
        rows = np.bincount(bins, weights=cell_counts)[bins]
        shares = np.where(rows > 0, cell_counts / np.maximum(rows, 1e-300), 1 / np.bincount(bins)[bins])
        ends = np.append(0.0, np.cumsum(shares))
        places = np.searchsorted(ends, codes + rng.random(len(codes)), side="right") - 1
        first, last = np.searchsorted(bins, codes), np.searchsorted(bins, codes, side="right") - 1
        return np.clip(places, first, last)


_GROUPING = {"": "", ".": r"\.", ",": ",", " ": "[ \u00a0\u202f]", "'": "['’]"}


@dataclass(frozen=True)
class NumericColumn(BinnedColumn):
    """Numbers, and how a text file writes them: 1234.5, unless `decimal` and `thousands` say otherwise.

    Bounds, edges and missing codes are public facts, not cells: they are always written plainly.
    """

    extra_keys: ClassVar[tuple[str, ...]] = (*BinnedColumn.extra_keys, "scale", "decimal", "thousands")

    scale: Scale = field(default="linear", kw_only=True)  # type: ignore[misc] # of each column, where there is a choice
    decimal: str = field(default=".", kw_only=True)
    thousands: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise self._error(f"has decimal = {self.decimal!r}", hint='write decimal = "," or decimal = "."')
        if self.thousands not in tuple(_GROUPING) or self.thousands == self.decimal:
            raise self._error(
                f"has thousands = {self.thousands!r}", hint="one of . , ' or a space, and not the decimal sign"
            )
        super().__post_init__()

    def _check_scale(self) -> None:
        self._check_one_of("scale", SCALES)
        if self.scale == "log" and self.limits[0] <= 0:
            raise self._error("is on a log scale, and not all its values are above 0", hint='scale = "symlog"')

    @property
    def written_plainly(self) -> bool:
        """Whether a text file writes 1234.5."""
        return (self.decimal, self.thousands) == (".", "")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        group = _GROUPING[self.thousands]
        whole = rf"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]+)" if group else "[0-9]+"
        return re.compile(
            rf"([+-]?{whole}|[+-]?(?={re.escape(self.decimal)}))(?:{re.escape(self.decimal)}([0-9]*))?([eE][+-]?[0-9]+)?"
        )

    def plain(self, text: str) -> str | None:
        """A number of a text file as 1234.5; None if it is none. Digits are grouped by threes or not at all.

        >>> Number("x", bounds=(0, 1), decimal=",", thousands=".").plain("1.234,5")
        '1234.5'
        """
        if not (found := self._pattern.fullmatch(text)):
            return None
        whole, fraction, power = found.groups(default="")
        return re.sub(r"[^0-9+-]", "", whole) + (f".{fraction}" if fraction else "") + power

    @property
    def _value_facts(self) -> list[float | str]:
        return super()._value_facts + ([] if self.written_plainly else [self.decimal, self.thousands])

    @property
    def _outside_summary(self) -> str:
        return super()._outside_summary + (
            "" if self.written_plainly else f" written 1{self.thousands}234{self.decimal}5"
        )


@dataclass(frozen=True)
class Integer(NumericColumn):
    """Whole numbers between bounds, cut into bins.

    >>> Integer("age", bounds=(18, 90), bins=3).cells
    ('18..41', '42..65', '66..90')
    """

    kind: ClassVar[str] = "integer"


@dataclass(frozen=True)
class Number(NumericColumn):
    """Real numbers between bounds, cut into bins. With a `resolution` they are kept as its multiples.

    >>> Number("price", bounds=(0, 2), resolution=0.5, edges=(0, 1, 2)).cells
    ('0..0.5', '1..2')
    """

    kind: ClassVar[str] = "number"
    extra_keys: ClassVar[tuple[str, ...]] = ("bounds", "resolution", *NumericColumn.extra_keys[1:])
    has_whole_values: ClassVar[bool] = False

    resolution: float | None = field(default=None, kw_only=True)

    @property
    def step(self) -> float:
        """The resolution."""
        return self.resolution or 0.0

    def _check_scale(self) -> None:
        super()._check_scale()
        object.__setattr__(self, "resolution", as_python(self.resolution))
        if self.resolution is None:
            return
        if not (is_number(self.resolution) and 0 < self.resolution <= LARGEST):
            raise self._error(f"has resolution = {self.resolution!r}", hint="a step above 0, such as resolution = 0.01")
        with np.errstate(over="ignore"):  # of a resolution that is far too fine: refused below
            steps = np.array(self.limits) / self.resolution
        if np.abs(steps).max() > LARGEST_WHOLE or np.abs(steps - np.round(steps)).max() > 1e-6:
            raise self._error(
                f"has bounds that are no multiples of its resolution {self.resolution:g}",
                hint="bounds on the grid of the resolution",
            )
