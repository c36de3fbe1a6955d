"""Binned columns: their cells and bins; columns of integers and numbers. `calendar` has dates.

A binned column has *cells*, the finest public grid on which a value is kept, and *bins*, groups of neighbouring cells
that enter contingency tables. Both follow from the codebook. With `bins = "learned"` the bins come from a paid release
(`synth/learning.py`); until then each cell is a bin.

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
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gapless.schema.bins import (
    Bins,
    Scale,
    equal_width_cells,
    multiples,
    on_scale,
    round_number_cells,
    stratified,
)
from gapless.schema.columns import MOST_LEVELS, Column, Outside
from gapless.schema.gap_codes import as_python
from gapless.text import listing
from gapless.types import Codes, Floats, Values, is_number, is_whole

if TYPE_CHECKING:
    from gapless.schema.difference import Difference

DEFAULT_BINS = 10
DEFAULT_CELLS = 1024  # about: they begin at round numbers
LARGEST_WHOLE, LARGEST = 2**53, 1e300  # larger whole numbers are not exact; larger widths of bins overflow
SCALES: tuple[Scale, ...] = ("linear", "log", "symlog")
LEARNED = "learned"
NARROWEST = 1e-290  # between the bounds: floats cannot distinguish smaller cells
TINY = 5e-324  # the smallest number above 0: the cell of 0 ends there
CLOSE = 1e-9  # of the range: no cell begins so near to a declared edge


@dataclass(frozen=True)
class BinnedColumn(Column):
    """Columns with numeric positions, cut into bins: equal ones, or between edges or quantiles. See `bins.Bins`."""

    is_ordered: ClassVar[bool] = True
    extra_keys: ClassVar[tuple[str, ...]] = ("bounds", "bins", "edges", "quantiles")
    outside_rules: ClassVar[tuple[Outside, ...]] = ("clamp", "missing", "refuse")
    has_whole_values: ClassVar[bool] = True
    scale: ClassVar[Scale] = "linear"  # equal cells have equal widths on it
    heaping: ClassVar[tuple[float, ...]] = ()
    _example: ClassVar[str] = "write bounds = [0, 100]"

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
                example = self._example.replace("bounds", key)
                raise self._error(f"has {key} = {given!r}, but {key} must be a list", hint=example)
        self._check_bounds()
        self._check_scale()
        self._check_heaping()
        self._check_bins()

    def _check_bounds(self) -> None:
        if len(self.bounds or ()) != 2:
            wrong = "must have two bounds: the lowest and the highest possible value"
            given = "none" if self.bounds is None else str(len(self.bounds))
            raise self._error(f"{wrong}, got {given}", hint=self._example)
        lower, upper = (self._position(bound, "bound") for bound in self.bounds)
        if not lower < upper:
            wrong = f"has bounds {self._bounds_text}, but the lower bound must come first and be below the other"
            first, second = self.bounds
            hint = f"write bounds = [{second}, {first}]" if lower > upper else "write two different bounds"
            raise self._error(wrong, hint=f"{hint}: the lowest possible value, then the highest")
        if upper - lower < NARROWEST:
            wrong = f"has bounds {self._bounds_text}, which are less than {NARROWEST:g} apart"
            raise self._error(wrong, hint="use a smaller unit in the data and the schema")
        if both := [code.code for code in self.missing_codes if lower <= self._read(code.code) <= upper]:
            wrong = f"has the missing code {both[0]!r} within its bounds {self._bounds_text}"
            hint = f"write bounds that do not include {both[0]}, or remove it from missing if it is a value"
            raise self._error(wrong, hint=hint)

    @property
    def _bounds_text(self) -> str:
        return f"[{self.bounds[0]}, {self.bounds[1]}]"

    def _check_scale(self) -> None:
        """Check the scale and the resolution, for kinds that have them."""

    def _check_heaping(self) -> None:
        """Check the steps at which values pile up, for kinds that have them."""

    def _check_bins(self) -> None:
        given = [key for key in ("bins", "edges", "quantiles") if getattr(self, key) is not None]
        if len(given) > 1:
            wrong = f"has {listing(given)}, but only one of bins, edges and quantiles is allowed"
            raise self._error(wrong, hint="keep one of these keys, and remove the others")
        object.__setattr__(self, "bins", as_python(self.bins))
        if not (self.bins in (None, LEARNED) or is_whole(self.bins, least=1)):
            wrong = f'has bins = {self.bins!r}, but bins must be a whole number above 0, or "learned"'
            raise self._error(wrong, hint='write bins = 10, or bins = "learned"')
        if self.values_size > MOST_LEVELS:
            raise self._error(f"has more than {MOST_LEVELS} bins", hint="declare fewer bins, such as bins = 10")
        lower, upper = self.limits
        for cut in self.edges or self.quantiles or ():
            if not lower <= self._position(cut, "bin edge") <= (self._past if self.edges else upper):
                wrong = f"has the bin edge {cut} outside its bounds {self._bounds_text}"
                raise self._error(wrong, hint="remove the edge, or declare wider bounds")
        cuts = self.intervals.cuts
        if self.edges is not None and (len(cuts) < 2 or cuts[0] != lower or cuts[-1] not in (upper, self._past)):
            hint = f"write {self.bounds[0]} as the first edge and {self.bounds[1]} as the last"
            raise self._error(f"has edges that do not start and end at its bounds {self._bounds_text}", hint=hint)
        if np.any(np.diff(cuts) <= 0):
            raise self._error(
                "has bin edges that do not increase", hint="write the edges in increasing order, each once"
            )
        if self.step and np.any(np.diff(self.intervals.first_steps) < 1):
            hint = "declare fewer bins, or edges at least one step apart"
            raise self._error("has bins without a value: some are narrower than one step between values", hint=hint)
        for computed in ("intervals", "grid"):  # large, and a schema may have thousands of columns that nobody uses
            self.__dict__.pop(computed, None)

    def _position(self, value: object, what: str) -> float:
        """The position of a public value; `what` names it in an error."""
        if not (is_number(value) and abs(value) < math.inf) or (self.has_whole_values and value != int(value)):
            wanted = "whole number" if self.has_whole_values else "number"
            raise self._error(f"has the {what} {value!r}, which is not a {wanted}", hint=self._example)
        most = LARGEST_WHOLE if self.has_whole_values else LARGEST
        if abs(value) > most:
            wrong = f"has a {what} beyond {most:g}, the largest number that is allowed"
            raise self._error(wrong, hint="use a larger unit in the data and the schema, such as thousands")
        return float(value)

    def _read(self, text: str) -> float:
        """The position of a text; NaN if it is not a value."""
        try:
            return float(text)
        except ValueError:
            return math.nan

    def label(self, position: float) -> str:
        """A position as people write it."""
        return f"{position:.12g}"

    @property
    def _value_facts(self) -> list[float | str]:
        return list(self.limits)

    @property
    def _outside_summary(self) -> str:
        limits = f" from {self.bounds[0]} to {self.bounds[1]}" if self.outside == "missing" else ""
        return f"whatever is no {self.kind}{limits}"

    @cached_property
    def limits(self) -> tuple[float, float]:
        """The bounds as positions."""
        return self._position(self.bounds[0], "bound"), self._position(self.bounds[1], "bound")

    @property
    def step(self) -> float:
        """The distance of neighbouring values; 0 for a continuous scale."""
        return 1.0

    @cached_property
    def _past(self) -> float:
        """One step past the upper bound: the end of a last bin that holds that bound alone."""
        line = Bins(*self.limits, 1, self.step)
        return float(line.from_steps(line.to_steps(self.limits[1]) + 1)) if self.step else self.limits[1]

    @property
    def has_learned_bins(self) -> bool:
        """Whether a paid release is to learn the bins. Until then each cell is a bin."""
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
        """Where each cell begins, and where the last one ends. Each value is a cell if they are few enough for codes.

        Otherwise there are about `DEFAULT_CELLS` cells of equal width on the scale. 0, which is often a spike, has a
        separate cell, and so has each value at which values pile up.
        """
        lower, upper = self.limits
        if self.step and (upper - lower) / self.step < MOST_LEVELS:
            values = Bins(lower, upper, round((upper - lower) / self.step) + 1, self.step)
            return np.unique(np.append(values.cuts[:-1], self._past))
        cuts = round_number_cells(lower, upper, DEFAULT_CELLS, self.scale)
        if lower <= 0 < upper:
            cuts = np.union1d(cuts, [0.0, self.step or TINY])
        for step in self.heaping:
            heaps = self._multiples(step)
            cuts = np.union1d(cuts, [*heaps, *heaps + self.step])
        return self._on_values(cuts)

    def _multiples(self, step: float) -> Floats:
        """The multiples of a step within the bounds."""
        line = Bins(*self.limits, 1, step)
        first, last = line.to_steps(self.limits[0]), line.to_steps(self.limits[1], up=False)
        return multiples(np.arange(first, last + 1), step)

    def _on_values(self, cuts: Floats) -> Floats:
        """Move cuts up to the next value of a scale with steps, and the last one past the upper bound."""
        if not self.step:
            return cuts
        line = Bins(*self.limits, 1, self.step)
        return np.unique(np.append(line.from_steps(line.to_steps(cuts[:-1])), self._past))

    @cached_property
    def finest(self) -> Self:
        """The same column with each cell as a bin: the cells of its grid, also cut where a declared bin begins.

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

    @cached_property
    def cell_widths(self) -> Floats:
        """The width of each cell of `finest` on the scale; a cell of one number, without width, counts as the median.

        >>> Integer("votes", bounds=(1, 4), scale="log").cell_widths.round(2).tolist()
        [0.69, 0.41, 0.29, 0.22]
        """
        cuts = self.finest.intervals.cuts
        widths = np.diff(on_scale(cuts, self.scale))
        return np.where(widths > CLOSE * widths.sum(), widths, np.median(widths))

    @cached_property
    def heap_of_cell(self) -> NDArray[np.int64]:
        """For each cell of `finest` the place in `heaping` of the largest step of which it is a multiple, or past it.

        >>> Integer("cigarettes", bounds=(8, 12), heaping=(5, 10)).heap_of_cell.tolist()
        [2, 2, 1, 2, 2]
        """
        low, high = self.finest.bin_ranges()
        heap = np.full(len(low), len(self.heaping))
        for place in sorted(range(len(self.heaping)), key=self.heaping.__getitem__):
            heap[(low == high) & np.isin(low, self._multiples(self.heaping[place]))] = place
        return heap

    def with_cuts(self, cuts: Iterable[float]) -> Self:
        """The same column with bins that begin at these positions; the last position is the end of the last bin."""
        return replace(self, bins=None, quantiles=None, edges=tuple(self._value(cut) for cut in cuts))

    def regroup(self, into: BinnedColumn) -> NDArray[np.int64]:
        """The code in `into` of each code here. Each bin of `into` must be a union of bins of this column."""
        first, last = self.bin_ranges()
        bins = into.bin_of(first if self.step else (first + last) / 2)
        others = np.arange(self.values_size, self.extended_size) - self.values_size + into.values_size
        return np.concatenate([bins, others])

    def _value(self, position: float) -> Any:
        """A position as a schema file writes it."""
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
        starts = self.intervals.cuts[:-1]
        names = [f"({name[1:]}" if start == TINY else name for name, start in zip(names, starts, strict=True)]
        return (*names[:-1], f"{names[-1][:-1]}]")

    def position(self, text: str) -> float:
        """The position of a public value that is given as text. A value between two steps is refused."""
        position = self._read(text)
        if math.isnan(position):
            article = "an" if self.kind == "integer" else "a"
            wrong = f"is compared with {text!r}, which is not {article} {self.kind}"
            raise self._error(wrong, hint=f"write {article} {self.kind} in place of {text!r}")
        if not self.has_whole_values and self.step and abs(position / self.step - round(position / self.step)) > 1e-6:
            wrong = f"is compared with {text}, but its values are multiples of {self.step:g}"
            raise self._error(wrong, hint=f"use a multiple of {self.step:g}, or declare a finer resolution")
        return position

    def bin_of(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each position. Positions beyond the bounds are clamped to the first or last bin."""
        return self.intervals.bin_of(positions)

    def bin_ranges(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest value of each bin."""
        return self.intervals.bin_ranges()

    def bin_midpoints(self, cell_counts: Floats | None = None) -> NDArray[np.float64]:
        """The middle of each bin or, given counts of the cells, the middle of its heaviest cell."""
        if cell_counts is None:
            return self.intervals.midpoints()
        bins = self.finest.regroup(self)[: self.finest.values_size]
        order = np.lexsort((-cell_counts, bins))
        heaviest = order[np.searchsorted(bins[order], np.arange(self.values_size))]
        return self.finest.bin_midpoints()[heaviest]

    def contains(self, positions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which positions are values of this column: within the bounds, and whole if its values are whole."""
        lower, upper = self.limits
        is_value: NDArray[np.bool_] = (positions >= lower) & (positions <= upper)
        return is_value & (positions == np.floor(positions)) if self.has_whole_values else is_value

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """Draw a value uniformly from the bin of each code; whole numbers stay whole."""
        return self.intervals.draw(codes, rng)

    def draw_positions(self, cell_counts: Floats | None, codes: Codes, rng: np.random.Generator) -> Floats:
        """Draw a position in the bin of each code: by counts of its cells if they are given, else uniformly.

        By counts, the rows of a bin are spread over its cells by stratified sampling: their shares hardly differ from
        those of the counts. Codes that are no bin get NaN.
        """
        drawn = np.full(len(codes), np.nan)
        valued = codes < self.values_size
        if cell_counts is None:
            drawn[valued] = self.intervals.draw(codes[valued], rng)
        else:
            chances = stratified(codes[valued], rng)
            drawn[valued] = self.finest.intervals.draw(self.draw_cells(cell_counts, codes[valued], chances), rng)
        return drawn

    def draw_cells(self, cell_counts: Floats, codes: Codes, chances: Floats) -> Codes:
        """Draw a cell in each of these bins with probability proportional to its count; uniformly if all are 0.

        `chances` are numbers from [0, 1), one for each code.
        """
        bins = self.finest.regroup(self)[: self.finest.values_size]
        rows = np.bincount(bins, weights=cell_counts)[bins]
        shares = np.where(rows > 0, cell_counts / np.maximum(rows, 1e-300), 1 / np.bincount(bins)[bins])
        ends = np.append(0.0, np.cumsum(shares))
        places = np.searchsorted(ends, codes + chances, side="right") - 1
        first, last = np.searchsorted(bins, codes), np.searchsorted(bins, codes, side="right") - 1
        return np.clip(places, first, last)


_GROUPING = {"": "", ".": r"\.", ",": ",", " ": "[ \u00a0\u202f]", "'": "['’]"}


@dataclass(frozen=True)
class NumericColumn(BinnedColumn):
    """Numbers, and the signs that a text file writes them with: `decimal` and `thousands`, by default as in 1234.5.

    Bounds, edges and missing codes are public facts, not cells. A schema always writes them as 1234.5.

    With a `difference`, such as "discharge - admission", the file has the two columns and not this one. A schema makes
    a `Difference` of the text.
    """

    extra_keys: ClassVar[tuple[str, ...]] = (
        *BinnedColumn.extra_keys,
        "scale",
        "heaping",
        "decimal",
        "thousands",
        "difference",
    )

    has_missing_ranges: ClassVar[bool] = True

    scale: Scale = field(default="linear", kw_only=True)  # type: ignore[misc] # a field of each column here
    heaping: tuple[float, ...] = field(default=(), kw_only=True)  # type: ignore[misc]
    decimal: str = field(default=".", kw_only=True)
    thousands: str = field(default="", kw_only=True)
    difference: str | Difference | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            wrong = f"has decimal = {self.decimal!r}, but it must be a point or a comma"
            raise self._error(wrong, hint='write decimal = "," or decimal = "."')
        if self.thousands not in tuple(_GROUPING) or self.thousands == self.decimal:
            wrong = f"has thousands = {self.thousands!r}, but it must be . , ' or a space, and not the decimal sign"
            raise self._error(wrong, hint=f'write thousands = "{"," if self.decimal == "." else "."}"')
        super().__post_init__()

    def _check_bounds(self) -> None:
        super()._check_bounds()
        lower, upper = self.limits
        ranges = sorted(self.missing_ranges, key=lambda gap: (gap.least, gap.most))
        if within := [gap for gap in ranges if gap.least <= upper and lower <= gap.most]:
            wrong = f"has the missing range {within[0]}, which overlaps its bounds {self._bounds_text}"
            raise self._error(wrong, hint="write bounds without these numbers, or another range")
        if both := [pair for pair in pairwise(ranges) if pair[1].least <= pair[0].most]:
            wrong = f"has the missing ranges {both[0][0]} and {both[0][1]}, which overlap"
            raise self._error(wrong, hint="write ranges without common numbers")
        for gap in ranges:
            self.text_of(gap)  # refuses one that is nothing but single codes

    def _check_scale(self) -> None:
        self._check_one_of("scale", SCALES, "linear")
        if self.scale == "log" and self.limits[0] <= 0:
            wrong = f"has scale = 'log', which needs a lower bound above 0, but its bounds are {self._bounds_text}"
            raise self._error(wrong, hint='write scale = "symlog", or a lower bound above 0')

    def _check_heaping(self) -> None:
        if not isinstance(self.heaping, list | tuple):
            wrong = f"has heaping = {self.heaping!r}, but heaping must be a list of steps"
            raise self._error(wrong, hint="write heaping = [5, 10] if values pile up at multiples of 5 and of 10")
        object.__setattr__(self, "heaping", tuple(map(as_python, self.heaping)))
        if self.heaping and not self.step:
            wrong = "has heaping, but no resolution: a value and a multiple beside it would be in one cell"
            raise self._error(wrong, hint="write resolution = 0.1, or the step between values, or remove heaping")
        for step in self.heaping:
            if not is_number(step) or step <= self.step or abs(step / self.step - round(step / self.step)) > CLOSE:
                wrong = f"has heaping at {step!r}, which is no multiple of {self.step:g}, the step between its values"
                raise self._error(wrong, hint="write steps above that between values, such as heaping = [5, 10]")
            lower, upper = self.limits
            if not 1 <= len(range(math.ceil(lower / step), math.floor(upper / step) + 1)) <= MOST_LEVELS // 8:
                wrong = f"has none or more than {MOST_LEVELS // 8} multiples of {step:g} within its bounds"
                raise self._error(wrong, hint=f"write another step than {step:g}, or remove it from heaping")

    @property
    def written_plainly(self) -> bool:
        """Whether a text file writes numbers as 1234.5."""
        return (self.decimal, self.thousands) == (".", "")

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        group = _GROUPING[self.thousands]
        whole = rf"(?:[0-9]{{1,3}}(?:{group}[0-9]{{3}})+|[0-9]+)" if group else "[0-9]+"
        point = re.escape(self.decimal)
        return re.compile(rf"([+-]?{whole}|[+-]?(?={point}))(?:{point}([0-9]*))?([eE][+-]?[0-9]+)?")

    def plain(self, text: str) -> str | None:
        """Rewrite a number of a text file as 1234.5; None for other texts. Digits are grouped by threes or not at all.

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
        example = "" if self.written_plainly else f" written 1{self.thousands}234{self.decimal}5"
        return super()._outside_summary + example


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
            wrong = f"has resolution = {self.resolution!r}, but it must be a number above 0"
            raise self._error(wrong, hint="write resolution = 0.01")
        with np.errstate(over="ignore"):  # if the resolution is far too fine, which is refused below
            steps = np.array(self.limits) / self.resolution
        if np.abs(steps).max() > LARGEST_WHOLE or np.abs(steps - np.round(steps)).max() > 1e-6:
            wrong = f"has bounds {self._bounds_text} that are not multiples of its resolution {self.resolution:g}"
            hint = f"write bounds that are multiples of {self.resolution:g}, or another resolution"
            raise self._error(wrong, hint=hint)
