"""Columns: what is publicly known about each. Columns with levels are here; `numeric` and `calendar` have the others.

The codes of a column count its cells. First come the levels or bins. Then, if declared, one cell for *not applicable*
(a legitimate value, never imputed). Last comes one state for each kind of gap. Everything here comes from the codebook;
nothing looks at data.

>>> smoker = Boolean("smoker", may_be_missing=True)
>>> smoker.size, smoker.extended_size, smoker.cells
(2, 3, ('false', 'true', 'missing'))
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from gapless.errors import SchemaError
from gapless.schema.gap_codes import (
    GAP_KINDS,
    Level,
    MissingCode,
    MissingKind,
    MissingRange,
    as_python,
    as_text,
    gap_state,
)
from gapless.text import listing, nearest, repeated
from gapless.types import Codes, GapRule, Values

Outside: TypeAlias = Literal["clamp", "missing", "refuse", "other"]
Origin: TypeAlias = Literal["codebook", "typed", "data", "proposed"]

ORIGINS: tuple[Origin, ...] = ("codebook", "typed", "data", "proposed")
UNCONFIRMED: tuple[Origin, ...] = ("data", "proposed")  # read from the data, or guessed from a name: no release
READING = 1  # increase it when data/io/encode.py or date_texts.py changes which cells are gaps
MOST_LEVELS = 65_000  # with a not-applicable cell and the gap states, codes stay within 16 bits
LEVELS_HINT = 'write levels = ["low", "high"]'
LABELS_HINT = 'write labels = { 1 = "Yes", 2 = "No" }, with a label for some or all levels'
SPELLING_HINT = 'write the text for false first, then that for true: spelling = ["no", "yes"]'


@dataclass(frozen=True)
class Column:
    """What every kind of column shares: its name, its missing codes, and the rule for cells outside the schema.

    A column *is ordered* if its values have an order: numbers, dates, ordinal levels. Booleans are not ordered: true
    and false compare by == and != alone, as "yes" and "no" would. So a boolean column and a categorical column with two
    levels give the same figures.
    """

    kind: ClassVar[str]
    is_ordered: ClassVar[bool] = False
    # Keys of this kind besides the common ones, in the order in which a file has them.
    extra_keys: ClassVar[tuple[str, ...]]
    outside_rules: ClassVar[tuple[Outside, ...]]
    has_missing_ranges: ClassVar[bool] = False  # whether `missing` may declare ranges

    name: str
    may_be_missing: bool = field(default=False, kw_only=True)
    missing: tuple[MissingCode | MissingRange, ...] = field(default=(), kw_only=True)
    outside: Outside | None = field(default=None, kw_only=True)
    description: str = field(default="", kw_only=True)
    per_person: bool = field(default=False, kw_only=True)  # the same in all rows of a person, such as the year of birth
    origin: Origin = field(
        default="typed", kw_only=True
    )  # where the facts come from; nothing is released of UNCONFIRMED

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            wrong = f"a column's name must be a text with at least one character, got {self.name!r}"
            raise SchemaError(wrong, hint='write a name such as "age"')
        if not isinstance(self.description, str):
            wrong = f"has a description that is not a text: {self.description!r}"
            raise self._error(wrong, hint='write description = "in years"')
        if not isinstance(self.per_person, bool):
            wrong = f"has per_person = {self.per_person!r}, but it must be true or false"
            raise self._error(wrong, hint="write per_person = true")
        if not isinstance(self.missing, list | tuple):
            wrong = f"has missing codes that are not a list but a {type(self.missing).__name__}"
            raise self._error(wrong, hint='write missing = ["", "NA"]')
        known = MissingCode | MissingRange
        codes = tuple(code if isinstance(code, known) else MissingCode(code) for code in self.missing)
        object.__setattr__(self, "missing", codes)
        self._check_one_of("origin", ORIGINS, "typed")
        self._check_missing()
        self._check_outside()

    def _check_missing(self) -> None:
        if not isinstance(self.may_be_missing, bool):
            wrong = f"has may_be_missing = {self.may_be_missing!r}, but it must be true or false"
            raise self._error(wrong, hint="write may_be_missing = true")
        if self.missing_ranges and not self.has_missing_ranges:
            wrong = f"is {self.kind}, but declares the missing range {self.missing_ranges[0]}: only numbers have ranges"
            raise self._error(wrong, hint="write each code of the range, such as missing = [97, 98, 99]")
        texts = [code.code for code in self.missing_codes]
        if twice := repeated(texts):
            raise self._error(
                f"declares the missing code {twice[0]!r} twice", hint="remove one of the two from missing"
            )
        if not self.may_be_missing and not all(code.is_structural for code in self.missing):
            hint = "add may_be_missing = true, or remove the missing codes"
            raise self._error("has missing codes but may_be_missing is not true", hint=hint)
        if self.may_be_missing and "" in texts and all(code.is_structural for code in self.missing):
            wrong = "has may_be_missing = true, but its empty cell means not applicable and no code means a gap"
            hint = 'add a code for gaps to missing, such as "NA", or remove may_be_missing = true'
            raise self._error(wrong, hint=hint)

    def _check_outside(self) -> None:
        if self.outside is None:
            object.__setattr__(self, "outside", self.default_outside)
            return
        self._check_one_of("outside", self.outside_rules, self.default_outside)
        if self.outside == "missing" and not self.may_be_missing:
            hint = 'write may_be_missing = true, or outside = "refuse"'
            raise self._error("has outside = 'missing', which makes gaps, but may_be_missing is not true", hint=hint)

    def _check_one_of(self, key: str, known: Sequence[str], default: str) -> None:
        """Refuse a value of `key` that is not known. The hint writes the known value most like it, or the default."""
        if (given := getattr(self, key)) not in known:
            close = difflib.get_close_matches(str(given), known, n=1) or [default]
            wrong = f"has {key} = {given!r}, but {key} must be one of: {listing(known)}"
            raise self._error(wrong, hint=f'write {key} = "{close[0]}"')

    @property
    def default_outside(self) -> Outside:
        """The rule for cells outside the schema if none is declared: nearest bound, gap, or refusal."""
        if "clamp" in self.outside_rules:
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
    def missing_codes(self) -> tuple[MissingCode, ...]:
        """The single codes of `missing`."""
        return tuple(code for code in self.missing if isinstance(code, MissingCode))

    @cached_property
    def missing_ranges(self) -> tuple[MissingRange, ...]:
        """The ranges of `missing`."""
        return tuple(code for code in self.missing if isinstance(code, MissingRange))

    @cached_property
    def not_applicable(self) -> str | None:
        """The text of *not applicable* in a file, or None if the column has no structural code."""
        return next((self.text_of(code) for code in self.missing if code.is_structural), None)

    @property
    def empty_is_a_gap(self) -> bool:
        """Whether an empty cell is a gap. It is not if the empty code means *not applicable*."""
        return not any(code.code == "" and code.is_structural for code in self.missing_codes)

    @cached_property
    def gaps(self) -> tuple[MissingKind, ...]:
        """The kinds of gaps this column can have, one state each.

        An empty cell is an unknown gap unless a missing code declares it. A cell that becomes a gap because it is
        outside the schema takes the first kind.
        """
        if not self.may_be_missing:
            return ()
        declared = {code.kind for code in self.missing}
        if all(code.code for code in self.missing_codes):
            declared.add("unknown")
        return tuple(kind for kind in GAP_KINDS if kind in declared)

    def without_gaps(self) -> Self:
        """The same column where no cell is a gap; *not applicable* stays a value."""
        kept = tuple(code for code in self.missing if code.is_structural)
        return replace(self, may_be_missing=False, missing=kept, outside=None)

    def without_remarks(self) -> Self:
        """The same column without what is only for readers: description, labels, and where the facts come from."""
        plain = tuple(replace(code, kind=gap_state(code.kind), label="") for code in self.missing)
        return replace(self, description="", origin="typed", missing=plain)

    @cached_property
    def gap_rule(self) -> GapRule:
        """What counts as a gap here. With equal digests the same cells of any table are gaps.

        Bins, descriptions, labels and origins are not in the digest, since they make no cell a gap
        (docs/proofs/ground_truth.md, section 11). Nor is the difference between the structural kinds.

        >>> print(Categorical("sex", ["F", "M"], may_be_missing=True, missing=("NA", -8)).gap_rule.description)
        an empty cell, 'NA', '-8', or whatever is none of its levels
        """
        facts: dict[str, Any] = {
            "reading": READING,
            "kind": self.kind,
            "may_be_missing": self.may_be_missing,
            "missing": sorted((code.code, gap_state(code.kind)) for code in self.missing_codes),
            "outside": self.outside,
            "values": self._value_facts,
        }
        if self.missing_ranges:
            facts["ranges"] = sorted(
                [float(gap.least), float(gap.most), gap_state(gap.kind)] for gap in self.missing_ranges
            )
        digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
        if not self.gaps:
            return GapRule("nothing", digest)
        texts = ["an empty cell"] * self.empty_is_a_gap
        texts += [repr(code.code) for code in self.missing_codes if code.code and code.kind in self.gaps]
        texts += [f"a number from {gap}" for gap in self.missing_ranges if gap.kind in self.gaps]
        texts += [self._outside_summary] * (self.outside not in ("refuse", "other"))
        *first, last = texts
        return GapRule(f"{', '.join(first)}, or {last}" if first else last, digest)

    @property
    def _value_facts(self) -> Any:
        """The public facts that decide whether a cell without a missing code is a value."""
        raise NotImplementedError

    @property
    def _outside_summary(self) -> str:
        """Which cells become gaps because they are not values. Only used if such cells are not refused."""
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
        return self.values_size if gap_state(kind) == "not-applicable" else self.size + self.gaps.index(kind)

    def text_of_gap(self, kind: MissingKind) -> str:
        """The text of such a cell in a file: the empty text if declared, else the first code."""
        codes = [self.text_of(code) for code in self.missing if code.kind == kind]
        return "" if "" in codes or not codes else codes[0]

    def text_of(self, gap: MissingCode | MissingRange) -> str:
        """The text of such a gap in a file; of a range a number that no code of another kind declares."""
        if isinstance(gap, MissingCode):
            return gap.code
        state = gap_state(gap.kind)
        text = gap.text_besides({code.code for code in self.missing_codes if gap_state(code.kind) != state})
        if text is None:
            wrong = f"declares each number of the missing range {gap} also as a code of another kind"
            raise self._error(wrong, hint="remove the range, or remove one of the codes")
        decimal: str = getattr(self, "decimal", ".")
        return text.replace(".", decimal)

    def code_of(self, cell: object) -> int:
        """The code of an observed cell by its name or level.

        >>> Categorical("sex", ["F", "M"]).code_of("M")
        1
        """
        names = tuple(as_text(name) for name in self.cells[: self.size])
        if as_text(cell) not in names:
            raise self._error(f"has no cell {cell!r}", hint=f"use {nearest(as_text(cell), names)}")
        return names.index(as_text(cell))

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:
        """Draw one value for each code of a level or bin (codes below `values_size`)."""
        raise NotImplementedError


@dataclass(frozen=True)
class LevelColumn(Column):
    """Columns with named levels. A level may have a label for readers, such as "Yes" for 1.

    >>> Categorical("smoker", [1, 2], labels={1: "Yes", 2: "No"}).label_of("1")
    'Yes'
    """

    extra_keys: ClassVar[tuple[str, ...]] = ("levels", "labels")
    outside_rules: ClassVar[tuple[Outside, ...]] = ("missing", "refuse")

    levels: Sequence[Level] = ()  # kept as a tuple
    labels: Mapping[Any, str] | Sequence[tuple[str, str]] = field(default=(), kw_only=True)  # kept as pairs of texts

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.levels, list | tuple):
            wrong = f"has levels that are not a list but a {type(self.levels).__name__}"
            raise self._error(wrong, hint=LEVELS_HINT)
        object.__setattr__(self, "levels", tuple(map(as_python, self.levels)))
        if not self.levels:
            raise self._error("has no levels", hint=LEVELS_HINT)
        if odd := [level for level in self.levels if not isinstance(level, Level)]:
            wrong = f"has the level {odd[0]!r}, but levels must be texts, numbers, true or false"
            raise self._error(wrong, hint=LEVELS_HINT)
        if len(self.levels) > MOST_LEVELS:
            wrong = f"has {len(self.levels)} levels, more than {MOST_LEVELS}, the most that are allowed"
            hint = f"join levels, or leave the column out: write ignore = [{json.dumps(self.name)}] below [table]"
            raise self._error(wrong, hint=hint)
        if "" in self.value_cells:
            hint = 'remove "" from levels, and write missing = [""] to declare the empty cell as a gap'
            raise self._error("has an empty level", hint=hint)
        if twice := repeated(self.value_cells):
            raise self._error(f"has the level {twice[0]!r} twice", hint="remove one of the two from levels")
        if both := sorted({code.code for code in self.missing_codes} & set(self.value_cells)):
            hint = f"remove {both[0]!r} from levels if it means a gap, or from missing if it is a value"
            raise self._error(f"has {both[0]!r} both as a level and as a missing code", hint=hint)
        self._check_labels()

    def _check_labels(self) -> None:
        given = self.labels
        if not isinstance(given, Mapping | list | tuple):
            wrong = f"has labels that are not a table but a {type(given).__name__}"
            raise self._error(wrong, hint=LABELS_HINT)
        pairs = tuple(given.items() if isinstance(given, Mapping) else given)
        if not all(isinstance(pair, list | tuple) and len(pair) == 2 and isinstance(pair[1], str) for pair in pairs):
            raise self._error("has a label that is not a text", hint=LABELS_HINT)
        pairs = tuple((as_text(as_python(level)), label) for level, label in pairs)
        known = set(self.value_cells)
        if unknown := [level for level, _ in pairs if level not in known]:
            hint = f"write labels only for levels, which are: {listing(self.value_cells)}"
            raise self._error(f"has a label for {unknown[0]!r}, which is none of its levels", hint=hint)
        if twice := repeated(level for level, _ in pairs):
            raise self._error(f"has two labels for the level {twice[0]!r}", hint="write one label for each level")
        object.__setattr__(self, "labels", pairs)

    def label_of(self, level: str) -> str:
        """The label of a level; empty if it has none."""
        return str(dict(self.labels).get(level, ""))

    def without_remarks(self) -> Self:
        """The same column without what is only for readers: description, labels, and where the facts come from."""
        return replace(super().without_remarks(), labels=())

    @property
    def _value_facts(self) -> list[str]:
        return sorted(self.value_cells)

    @property
    def _outside_summary(self) -> str:
        return "whatever is none of its levels"

    @property
    def values_size(self) -> int:
        """The number of levels."""
        return len(self.levels)

    @property
    def value_cells(self) -> tuple[str, ...]:
        """The levels as text."""
        return tuple(as_text(level) for level in self.levels)

    def draw(self, codes: Codes, rng: np.random.Generator) -> Values:  # noqa: ARG002 a level needs no drawing
        """The level of each code."""
        return np.array(self.levels, dtype=object)[codes]


@dataclass(frozen=True)
class Categorical(LevelColumn):
    """Named levels without an order. With `outside="other"` the level `other` takes all texts that are not levels."""

    kind: ClassVar[str] = "categorical"
    extra_keys: ClassVar[tuple[str, ...]] = ("levels", "labels", "other")
    outside_rules: ClassVar[tuple[Outside, ...]] = ("missing", "refuse", "other")

    other: Level = field(default="other", kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "other", as_python(self.other))
        if self.outside == "other" and as_text(self.other) not in self.value_cells:
            hint = f'add {self.other!r} to levels, or name the level for all other texts, such as other = "elsewhere"'
            raise self._error(f"has outside = 'other' but no level {self.other!r}", hint=hint)
        if self.outside != "other" and self.other != "other":
            wrong = f"has other = {self.other!r}, which needs outside = 'other'"
            raise self._error(wrong, hint='write outside = "other", or remove the key other')


@dataclass(frozen=True)
class Ordinal(LevelColumn):
    """Named levels from low to high."""

    kind: ClassVar[str] = "ordinal"
    is_ordered: ClassVar[bool] = True


@dataclass(frozen=True)
class Boolean(LevelColumn):
    """True or false. In a text file also yes/no, 1/0, t/f, y/n in any case.

    `spelling` declares two other texts, first false, then true. Then only these two in any case, and true and false,
    are values. Text files are written with them.

    >>> Boolean("smoker", spelling=("N", "J")).reads["j"]
    True
    """

    kind: ClassVar[str] = "boolean"
    extra_keys: ClassVar[tuple[str, ...]] = ("spelling", "labels")
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
        if both := sorted({code.code.lower() for code in self.missing_codes} & set(self.reads)):
            wrong = f"has the missing code {both[0]!r}, which a boolean reads as a value"
            hint = f'remove {both[0]!r} from missing, or write kind = "categorical" and list the levels'
            raise self._error(wrong, hint=hint)

    def _check_spelling(self) -> None:
        given = self.spelling
        if not isinstance(given, list | tuple) or not all(isinstance(as_python(text), Level) for text in given):
            raise self._error("has a spelling that is not a list of texts", hint=SPELLING_HINT)
        texts = tuple(as_text(as_python(text)) for text in given)
        object.__setattr__(self, "spelling", texts)
        different = {text.lower(): bool(place) for place, text in enumerate(texts)}
        contrary = different.get("true") is False or different.get("false") is True
        if len(texts) != 2 or len(different) != 2 or "" in different or contrary:
            wrong = f"has the spelling {listing(texts)}, but it must be two different texts, false first"
            raise self._error(wrong, hint=SPELLING_HINT)

    @cached_property
    def reads(self) -> dict[str, bool]:
        """The texts that are read as false and as true, in lower case."""
        if self.spelling is None:
            return self.spellings
        no, yes = (str(text).lower() for text in self.spelling)
        return {"false": False, "true": True, no: False, yes: True}

    @property
    def _value_facts(self) -> list[str]:
        return super()._value_facts if self.spelling is None else ["spelling", *sorted(self.reads)]
