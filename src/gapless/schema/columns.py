"""The kinds of columns: what is publicly known about one column of a table.

A column's cells are numbered: first its levels or bins, then, if declared, one cell for *not applicable* (a
legitimate value, never imputed), and last one state for each kind of gap. Everything here comes from the
codebook; nothing looks at data.

>>> income = Number("income", bounds=(0, 100_000), bins=4, may_be_missing=True)
>>> income.size, income.extended_size
(4, 5)
>>> income.cells
('[0, 25000)', '[25000, 50000)', '[50000, 75000)', '[75000, 100000]', 'missing')
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.arguments import is_number, is_whole
from gapless.errors import SchemaError
from gapless.schema.bins import Bins
from gapless.schema.words import listing, nearest

Level: TypeAlias = str | int | float | bool
MissingKind: TypeAlias = Literal["unknown", "refused", "not-applicable"]
Outside: TypeAlias = Literal["clamp", "missing", "refuse", "other"]
Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
Values: TypeAlias = NDArray[Any]

GAP_KINDS: tuple[MissingKind, ...] = ("unknown", "refused")
DEFAULT_BINS = 10
READING = 1  # raised when data/encode.py takes other cells for gaps than before
MOST_LEVELS = 65_000  # with a not-applicable cell and the gap states, codes stay within 16 bits
LARGEST_WHOLE, LARGEST = 2**53, 1e300  # beyond, whole numbers are not exact, and widths of bins overflow


def as_text(value: object) -> str:
    """The one way in which cells, levels and codes are compared: trimmed text, 13.0 the same as 13.

    >>> as_text(" 13.0 "), as_text(True), as_text(-9)
    ('13', 'true', '-9')
    """
    text = str(value).strip()
    if isinstance(value, bool):
        return text.lower()
    whole, dot, zeros = text.partition(".")
    return whole if dot and zeros and not zeros.strip("0") and whole.lstrip("-").isdigit() else text


def _plain(value: Any) -> Any:
    """A number from numpy as Python's own: it must read the same in a file; -0.0 is 0.0, to which it is equal."""
    value = value.item() if isinstance(value, np.generic) else value
    return value + 0.0 if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class MissingCode:
    """A text that stands for a gap, and why the cell is empty."""

    code: str
    kind: MissingKind = "unknown"

    def __post_init__(self) -> None:
        if not isinstance(_plain(self.code), Level):
            raise SchemaError(f"{self.code!r} is not a missing code", hint='a text or a number: missing = ["NA", -9]')
        object.__setattr__(self, "code", as_text(self.code))
        if self.kind not in (*GAP_KINDS, "not-applicable"):
            kinds = (*GAP_KINDS, "not-applicable")
            raise SchemaError(f"no kind of missing called {self.kind!r}", hint=nearest(str(self.kind), kinds))


@dataclass(frozen=True, slots=True)
class GapRule:
    """What counts as a gap in a column: in words, and as a digest of every public fact that decides it."""

    told: str
    digest: str

    def given(self, facts: object) -> GapRule:
        """The same rule where more facts decide."""
        more = json.dumps([self.digest, facts])
        return replace(self, digest=hashlib.sha256(more.encode()).hexdigest())


@dataclass(frozen=True)
class Column:
    """What every kind of column shares: its name, and what may stand in place of a value.

    A column is *on a scale* if its values lie on a line, so that some are nearer to each other than others: numbers,
    dates, ordinal levels. True and false are two levels without an order, as "yes" and "no" would be: they compare by
    == and != alone, and the two ways to declare such a column give the same figures.
    """

    kind: ClassVar[str]
    on_scale: ClassVar[bool] = False
    # What may be said besides the common keys, in the order in which it is written to a file.
    own_keys: ClassVar[tuple[str, ...]]
    outsides: ClassVar[tuple[Outside, ...]]

    name: str
    may_be_missing: bool = field(default=False, kw_only=True)
    missing: tuple[MissingCode, ...] = field(default=(), kw_only=True)
    outside: Outside | None = field(default=None, kw_only=True)
    description: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"a column's name must be a text, not {self.name!r}", hint='"age"')
        if not isinstance(self.description, str):
            raise self._error("has a description that is not a text", hint='description = "in years"')
        if isinstance(self.missing, str) or not isinstance(self.missing, list | tuple):
            raise self._error("needs a list of missing codes", hint='missing = ["", "NA"]')
        codes = tuple(code if isinstance(code, MissingCode) else MissingCode(code) for code in self.missing)
        object.__setattr__(self, "missing", codes)
        self._check_missing()
        self._check_outside()

    def _check_missing(self) -> None:
        if not isinstance(self.may_be_missing, bool):
            raise self._error("may_be_missing must be true or false", hint="may_be_missing = true")
        texts = [code.code for code in self.missing]
        if twice := sorted({text for text in texts if texts.count(text) > 1}):
            raise self._error(f"declares the missing code {twice[0]!r} twice", hint="leave one of them out")
        if not self.may_be_missing and any(code.kind != "not-applicable" for code in self.missing):
            raise self._error(
                "has missing codes but may_be_missing is not true",
                hint="add may_be_missing = true, or take the missing codes away",
            )
        if self.may_be_missing and "" in texts and {code.kind for code in self.missing} == {"not-applicable"}:
            raise self._error(
                "may be missing, but its empty cell means not applicable and no code means a gap",
                hint='another missing code, such as "NA"',
            )

    def _check_outside(self) -> None:
        rule = self.outside
        if rule is not None and rule not in self.outsides:
            raise self._error(f"has no rule outside = {rule!r}", hint=nearest(str(rule), self.outsides))
        if rule is None:
            object.__setattr__(self, "outside", self.default_outside)
        elif rule == "missing" and not self.may_be_missing:
            raise self._error(
                "turns outside cells into gaps but may not be missing",
                hint='may_be_missing = true, or outside = "refuse"',
            )

    @property
    def default_outside(self) -> Outside:
        """What becomes of a cell outside the schema if nothing is said: nearest bound, gap, or refusal."""
        if "clamp" in self.outsides:
            return "clamp"
        return "missing" if self.may_be_missing else "refuse"

    def _error(self, wrong: str, *, hint: str) -> SchemaError:
        return SchemaError(f"column {self.name!r} {wrong}", hint=hint)

    @property
    def values_size(self) -> int:
        """The number of levels or bins."""
        raise NotImplementedError

    @property
    def value_cells(self) -> tuple[str, ...]:
        """The names of the levels or bins, in order."""
        raise NotImplementedError

    @cached_property
    def not_applicable(self) -> str | None:
        """The code that says a value makes no sense here, if one is declared."""
        return next((code.code for code in self.missing if code.kind == "not-applicable"), None)

    @property
    def empty_is_a_gap(self) -> bool:
        """Whether an empty cell is missing; else a code says that it means *not applicable*."""
        return not any(code.code == "" and code.kind == "not-applicable" for code in self.missing)

    @cached_property
    def gaps(self) -> tuple[MissingKind, ...]:
        """The kinds of gaps this column can show, one state each.

        An empty cell is an unknown gap unless its code says otherwise. A cell that is lost because it is
        outside the schema takes the first of them.
        """
        if not self.may_be_missing:
            return ()
        declared = {code.kind for code in self.missing}
        if all(code.code for code in self.missing):
            declared.add("unknown")
        return tuple(kind for kind in GAP_KINDS if kind in declared)

    @cached_property
    def gap_rule(self) -> GapRule:
        """What counts as a gap here. Equal digests: the same cells are gaps, whatever the table holds.

        Bins and descriptions are not in it, since they make no cell a gap (docs/proofs/ground_truth.md, section 11).

        >>> print(Integer("age", bounds=(18, 90), may_be_missing=True, missing=("NA", -8)).gap_rule.told)
        an empty cell, 'NA', '-8', or whatever is no integer
        """
        facts = {
            "reading": READING,
            "kind": self.kind,
            "may_be_missing": self.may_be_missing,
            "missing": sorted((code.code, code.kind) for code in self.missing),
            "outside": self.outside,
            "values": self._value_facts,
        }
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        if not self.gaps:
            return GapRule("nothing", digest)
        told = ["an empty cell"] * self.empty_is_a_gap
        told += [repr(code.code) for code in self.missing if code.code and code.kind in self.gaps]
        told += [self._outside_told] * (self.outside not in ("refuse", "other"))
        *first, last = told
        return GapRule(f"{', '.join(first)}, or {last}" if first else last, digest)

    @property
    def _value_facts(self) -> Any:
        """What decides whether a cell that is no code is a value."""
        raise NotImplementedError

    @property
    def _outside_told(self) -> str:
        """Which cells become gaps because they are no value, in words; not asked where such cells are refused."""
        raise NotImplementedError

    @cached_property
    def size(self) -> int:
        """The number of observed cells: levels or bins, and *not applicable* if declared."""
        return self.values_size + (self.not_applicable is not None)

    @cached_property
    def extended_size(self) -> int:
        """The observed cells and one state for each kind of gap."""
        return self.size + len(self.gaps)

    @cached_property
    def cells(self) -> tuple[str, ...]:
        """The names of all cells in the order of their codes."""
        applicable = () if self.not_applicable is None else ("not applicable",)
        gaps = ("missing",) if len(self.gaps) == 1 else self.gaps
        return (*self.value_cells, *applicable, *(gaps if self.gaps else ()))

    def code_of_gap(self, kind: MissingKind) -> int:
        """The code of one kind of gap, or of *not applicable*."""
        return self.values_size if kind == "not-applicable" else self.size + self.gaps.index(kind)

    def text_of_gap(self, kind: MissingKind) -> str:
        """What a text file says in place of such a cell: the empty text if declared, else the first code."""
        codes = [code.code for code in self.missing if code.kind == kind]
        return "" if "" in codes or not codes else codes[0]

    def code_of(self, cell: object) -> int:
        """The code of an observed cell by its name or level.

        >>> Categorical("sex", ["F", "M"]).code_of("M")
        1
        """
        names = tuple(as_text(name) for name in self.cells[: self.size])
        if as_text(cell) not in names:
            raise self._error(f"has no cell {cell!r}", hint=nearest(as_text(cell), names))
        return names.index(as_text(cell))

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """One value for each code of a level or bin (codes below `values_size`)."""
        raise NotImplementedError


@dataclass(frozen=True)
class _Levels(Column):
    """Columns with named levels."""

    own_keys: ClassVar[tuple[str, ...]] = ("levels",)
    outsides: ClassVar[tuple[Outside, ...]] = ("missing", "refuse")

    levels: Sequence[Level] = ()  # kept as a tuple

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.levels, str) or not isinstance(self.levels, list | tuple):
            raise self._error("needs a list of levels", hint='levels = ["low", "high"]')
        object.__setattr__(self, "levels", tuple(map(_plain, self.levels)))
        if not self.levels:
            raise self._error("has no levels", hint='levels = ["low", "high"]')
        if odd := [level for level in self.levels if not isinstance(level, Level)]:
            raise self._error(f"has the level {odd[0]!r}", hint="levels are texts, numbers, true or false")
        if len(self.levels) > MOST_LEVELS:
            raise self._error(
                f"has {len(self.levels)} levels, more than {MOST_LEVELS}", hint="group them into fewer levels"
            )
        texts = [as_text(level) for level in self.levels]
        if "" in texts:
            raise self._error("has an empty level", hint='missing = [""] declares the empty cell as a gap')
        if twice := sorted({text for text in texts if texts.count(text) > 1} if len(set(texts)) < len(texts) else ()):
            raise self._error(f"has the level {twice[0]!r} twice", hint="leave one of them out")
        if both := sorted({code.code for code in self.missing} & set(texts)):
            raise self._error(
                f"has {both[0]!r} both as a level and as a missing code",
                hint="a missing code is a gap; keep it in one of the two lists",
            )

    @property
    def _value_facts(self) -> list[str]:
        return sorted(as_text(level) for level in self.levels)

    @property
    def _outside_told(self) -> str:
        return "whatever is none of its levels"

    @property
    def values_size(self) -> int:
        return len(self.levels)

    @property
    def value_cells(self) -> tuple[str, ...]:
        return tuple(as_text(level) for level in self.levels)

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:  # noqa: ARG002 a level needs no drawing
        return np.array(self.levels, dtype=object)[codes]


@dataclass(frozen=True)
class Categorical(_Levels):
    """Named levels without an order. With `outside="other"` one of them, `other`, takes whatever is not listed."""

    kind: ClassVar[str] = "categorical"
    own_keys: ClassVar[tuple[str, ...]] = ("levels", "other")
    outsides: ClassVar[tuple[Outside, ...]] = ("missing", "refuse", "other")

    other: Level = field(default="other", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "other", _plain(self.other))
        if self.outside == "other" and as_text(self.other) not in self.value_cells:
            raise self._error(
                f"has outside = 'other' but no level {self.other!r}",
                hint='add it to levels, or name the level that takes the rest: other = "elsewhere"',
            )
        if self.outside != "other" and self.other != "other":
            raise self._error("names a level for other cells but does not use it", hint='outside = "other"')


@dataclass(frozen=True)
class Ordinal(_Levels):
    """Named levels from low to high."""

    kind: ClassVar[str] = "ordinal"
    on_scale: ClassVar[bool] = True


@dataclass(frozen=True)
class Boolean(_Levels):
    """True or false. In a text file also yes/no, 1/0, t/f, y/n in any case.

    Or as `spelling` says, first false, then true: then only these two, in any case, and what a typed frame says are
    values, and a text file is written with them.

    >>> Boolean("smoker", spelling=("N", "J")).reads["j"]
    True
    """

    kind: ClassVar[str] = "boolean"
    own_keys: ClassVar[tuple[str, ...]] = ("spelling",)
    spellings: ClassVar[dict[str, bool]] = {
        **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
        **dict.fromkeys(("false", "f", "no", "n", "0"), False),
    }

    levels: Sequence[Level] = field(default=(False, True), init=False)
    spelling: Sequence[Level] | None = field(default=None, kw_only=True)  # kept as a tuple of texts

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.spelling is not None:
            self._check_spelling()
        if both := sorted({code.code.lower() for code in self.missing} & set(self.reads)):
            raise self._error(
                f"has the missing code {both[0]!r}, which a boolean reads as a value",
                hint="make it categorical, with levels of its own",
            )

    def _check_spelling(self) -> None:
        given = self.spelling
        if not isinstance(given, list | tuple) or not all(isinstance(_plain(text), Level) for text in given):
            raise self._error("has a spelling that is no list", hint='false first: spelling = ["no", "yes"]')
        texts = tuple(as_text(_plain(text)) for text in given)
        object.__setattr__(self, "spelling", texts)
        different = {text.lower(): bool(place) for place, text in enumerate(texts)}
        contrary = different.get("true") is False or different.get("false") is True
        if len(texts) != 2 or len(different) != 2 or "" in different or contrary:
            raise self._error(f"is spelled {listing(texts)}", hint='false first, then true: spelling = ["no", "yes"]')

    @cached_property
    def reads(self) -> dict[str, bool]:
        """What is read as false and as true, in small letters."""
        if self.spelling is None:
            return self.spellings
        no, yes = (str(text).lower() for text in self.spelling)
        return {"false": False, "true": True, no: False, yes: True}

    @property
    def _value_facts(self) -> list[str]:
        return super()._value_facts if self.spelling is None else ["spelling", *sorted(self.reads)]


@dataclass(frozen=True)
class _Binned(Column):
    """Columns on a line, cut into bins: equal ones, or between edges or quantiles. See `bins.Bins`."""

    on_scale: ClassVar[bool] = True
    own_keys: ClassVar[tuple[str, ...]] = ("bounds", "bins", "edges", "quantiles")
    outsides: ClassVar[tuple[Outside, ...]] = ("clamp", "missing", "refuse")
    whole: ClassVar[bool] = True

    bounds: tuple[Any, Any] = field(default=(), kw_only=True)  # type: ignore[assignment] # checked below
    bins: int | None = field(default=None, kw_only=True)
    edges: tuple[Any, ...] | None = field(default=None, kw_only=True)
    quantiles: tuple[Any, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        for key in ("bounds", "edges", "quantiles"):
            given = getattr(self, key)
            if isinstance(given, list | tuple):
                object.__setattr__(self, key, tuple(map(_plain, given)))
            elif given is not None:
                raise self._error(f"needs a list for {key}, not {given!r}", hint=self._example)
        self._check_bounds()
        self._check_bins()

    @property
    def _example(self) -> str:
        return "bounds = [0, 100]"

    def _check_bounds(self) -> None:
        if len(self.bounds) != 2:
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

    def _check_bins(self) -> None:
        given = [key for key in ("bins", "edges", "quantiles") if getattr(self, key) is not None]
        if len(given) > 1:
            raise self._error(f"has {listing(given)}", hint="keep one of bins, edges and quantiles")
        object.__setattr__(self, "bins", _plain(self.bins))
        if not (self.bins is None or is_whole(self.bins, least=1)):
            raise self._error(f"has bins = {self.bins!r}", hint="a whole number of bins, such as bins = 10")
        if self.values_size > MOST_LEVELS:
            raise self._error(f"has more than {MOST_LEVELS} bins", hint="fewer bins")
        lower, upper = self._ends
        for cut in self.edges or self.quantiles or ():
            if not lower <= self._position(cut, "bin edge") <= upper:
                raise self._error(
                    f"has the bin edge {cut} outside its bounds [{self.bounds[0]}, {self.bounds[1]}]",
                    hint="widen the bounds, or leave the edge out",
                )
        if self.edges is not None and (
            len(self.edges) < 2 or (self._bins.cuts[0], self._bins.cuts[-1]) != (lower, upper)
        ):
            raise self._error(
                "has edges that do not start and end at its bounds",
                hint=f"edges = [{self.bounds[0]}, …, {self.bounds[1]}]",
            )
        if np.any(np.diff(self._bins.cuts) <= 0):
            raise self._error("has bin edges that do not rise", hint="sort them and leave doubles out")
        if self.whole and np.any(np.diff(self._bins.firsts) < 1):
            raise self._error("has bins without a value in them", hint="fewer bins, or edges at least one step apart")

    def _position(self, value: object, what: str) -> float:
        """A public value as a number on the line."""
        if not (is_number(value) and abs(value) < math.inf) or (self.whole and value != int(value)):
            wanted = "whole number" if self.whole else "number"
            raise self._error(f"has the {what} {value!r}, which is not a {wanted}", hint=self._example)
        most = LARGEST_WHOLE if self.whole else LARGEST
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
        return list(self._ends)

    @property
    def _outside_told(self) -> str:
        within = f" from {self.bounds[0]} to {self.bounds[1]}" if self.outside == "missing" else ""
        return f"whatever is no {self.kind}{within}"

    @cached_property
    def _ends(self) -> tuple[float, float]:
        return self._position(self.bounds[0], "bound"), self._position(self.bounds[1], "bound")

    @cached_property
    def values_size(self) -> int:
        if self.edges is not None:
            return len(self.edges) - 1
        if self.quantiles is not None:
            return len(self.quantiles) + 1
        if self.bins is not None:
            return self.bins
        lower, upper = self._ends
        return min(DEFAULT_BINS, int(upper - lower) + 1) if self.whole else DEFAULT_BINS

    @cached_property
    def _bins(self) -> Bins:
        lower, upper = self._ends
        given: list[float] | None = None
        if self.edges is not None:
            given = [self._position(edge, "bin edge") for edge in self.edges]
        elif self.quantiles is not None:
            given = [lower, *(self._position(cut, "quantile") for cut in self.quantiles), upper]
        return Bins(lower, upper, self.values_size, self.whole, given)

    @property
    def value_cells(self) -> tuple[str, ...]:
        if self.whole:
            return tuple(
                self.label(low) if low == high else f"{self.label(low)}..{self.label(high)}"
                for low, high in zip(*self.ends_of_bins(), strict=True)
            )
        cuts = [self.label(cut) for cut in self._bins.cuts]
        last = self.values_size - 1
        return tuple(f"[{cuts[i]}, {cuts[i + 1]}{']' if i == last else ')'}" for i in range(self.values_size))

    def position(self, text: str) -> float:
        """A public value, as text, as a number on the line."""
        position = self._read(text)
        if math.isnan(position):
            article = "an" if self.kind == "integer" else "a"
            raise self._error(f"is compared with {text!r}", hint=f"{article} {self.kind}")
        return position

    def bin_of(self, positions: NDArray[np.float64]) -> NDArray[np.int64]:
        """The bin of each position on the line, positions beyond the bounds clamped to the end bins."""
        return self._bins.of(positions)

    def ends_of_bins(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest value of each bin."""
        return self._bins.ends()

    def within(self, positions: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which positions are values of this column: inside the bounds and, if it is of whole numbers, whole."""
        return self._bins.within(positions)

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """A value drawn uniformly from the bin of each code; whole numbers stay whole."""
        return self._bins.draw(codes, rng)


_GROUPING = {"": "", ".": r"\.", ",": ",", " ": "[ \u00a0\u202f]", "'": "['’]"}


@dataclass(frozen=True)
class _Numeric(_Binned):
    """Numbers, and how a text file writes them: 1234.5, unless `decimal` and `thousands` say otherwise.

    Bounds, edges and missing codes are public facts, not cells: they are always written plainly.
    """

    own_keys: ClassVar[tuple[str, ...]] = (*_Binned.own_keys, "decimal", "thousands")

    decimal: str = field(default=".", kw_only=True)
    thousands: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        if self.decimal not in (".", ","):
            raise self._error(f"has decimal = {self.decimal!r}", hint='decimal = "," or "."')
        if self.thousands not in tuple(_GROUPING) or self.thousands == self.decimal:
            raise self._error(
                f"has thousands = {self.thousands!r}", hint="one of . , ' or a space, and not the decimal sign"
            )
        super().__post_init__()

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
    def _outside_told(self) -> str:
        return super()._outside_told + ("" if self.written_plainly else f" written 1{self.thousands}234{self.decimal}5")


@dataclass(frozen=True)
class Integer(_Numeric):
    """Whole numbers between bounds, cut into bins.

    >>> Integer("age", bounds=(18, 90), bins=3).cells
    ('18..41', '42..65', '66..90')
    """

    kind: ClassVar[str] = "integer"


@dataclass(frozen=True)
class Number(_Numeric):
    """Real numbers between bounds, cut into bins."""

    kind: ClassVar[str] = "number"
    whole: ClassVar[bool] = False


_FORMAT = "YymbBdHIMSp"  # what a format may say: year, month, day, hour, minute, second, half of the day
_CLOCKS = ("", "HM", "HMS", "IMp", "IMSp")  # and what of the time of day together

# How a moment becomes a whole number of steps since 1970, and back.
_STEP_OF_RESOLUTION = {"year": "Y", "month": "M", "day": "D", "hour": "h", "minute": "m", "second": "s"}


@dataclass(frozen=True)
class _Calendar(_Binned):
    """Moments, counted in whole steps of the resolution; so are the bounds.

    In a text file they are written as ISO 8601 says, or as `format` does. Bounds are always as in ISO 8601.
    """

    own_keys: ClassVar[tuple[str, ...]] = ("bounds", "resolution", "bins", "edges", "quantiles", "format")
    resolutions: ClassVar[tuple[str, ...]]
    moment: ClassVar[type[dt.date]]

    resolution: str = field(default="day", kw_only=True)
    format: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.format is not None:
            self._check_format(self.format)
        if self.resolution not in self.resolutions:
            raise self._error(
                f"has no resolution {self.resolution!r}", hint=nearest(str(self.resolution), self.resolutions)
            )
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
    def _outside_told(self) -> str:
        return super()._outside_told + ("" if self.format is None else f" written {self.format}")

    @property
    def step(self) -> np.dtype[np.datetime64]:
        """The numpy type whose unit is one step of the resolution."""
        return np.dtype(f"datetime64[{_STEP_OF_RESOLUTION[self.resolution]}]")

    @property
    def _example(self) -> str:
        return "bounds = [2000-01-01, 2024-12-31]"

    def _position(self, value: object, what: str) -> float:
        if isinstance(value, str):
            try:
                value = self.moment.fromisoformat(value)
            except ValueError:
                value = None
        if not isinstance(value, dt.date) or (isinstance(value, dt.datetime) and value.tzinfo is not None):
            raise self._error(f"has a {what} that is not a plain {self.kind}", hint=self._example)
        return float(np.datetime64(value).astype(self.step).astype(np.int64))

    def _read(self, text: str) -> float:
        """A text as a moment: by ISO 8601, or a code as the file writes it."""
        try:
            return self._position(text, "code")
        except SchemaError:
            if self.format is None:
                return math.nan
        try:
            return float(np.datetime64(dt.datetime.strptime(text, self.format)).astype(self.step).astype(np.int64))  # noqa: DTZ007 plain
        except ValueError:
            return math.nan

    def label(self, position: float) -> str:
        return str(np.int64(position).astype(self.step))

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """A moment drawn uniformly from the bin of each code, at the declared resolution."""
        return super().draw(codes, rng).astype(self.step)


@dataclass(frozen=True)
class Date(_Calendar):
    """Days, months or years between bounds, cut into bins.

    >>> Date("born", bounds=("1900-01-01", "1999-12-31"), resolution="year", bins=2).cells
    ('1900..1949', '1950..1999')
    """

    kind: ClassVar[str] = "date"
    resolutions: ClassVar[tuple[str, ...]] = ("day", "month", "year")
    moment: ClassVar[type[dt.date]] = dt.date


@dataclass(frozen=True)
class DateTime(_Calendar):
    """Moments between bounds, cut into bins."""

    kind: ClassVar[str] = "datetime"
    resolutions: ClassVar[tuple[str, ...]] = ("second", "minute", "hour", "day", "month", "year")
    moment: ClassVar[type[dt.date]] = dt.datetime

    resolution: str = field(default="second", kw_only=True)


KINDS: dict[str, type[Column]] = {
    kind.kind: kind for kind in (Categorical, Ordinal, Integer, Number, Boolean, Date, DateTime)
}
