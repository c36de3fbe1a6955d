"""Conditions on rows: a small language with a parser of its own, read from text and never executed.

::

    age >= 20 and age < 30
    sex in (F, M) and not (income is missing or smoker == true)
    born between 1950-01-01 and 1959-12-31

Columns stand on the left, public values on the right. Names and values with blanks or signs in them are quoted:
``"marital status" == 'never married'``.

**Gaps.** A comparison with a gap, or with *not applicable*, is neither true nor false but *unknown*. And is the least,
or the greatest of false < unknown < true; not turns true into false and leaves unknown as it is (Kleene 1952). A row is
counted if the condition is true for it. Only `is missing` and `is not missing` look at the gap itself, and only
`is not applicable` and `is applicable` at that. What becomes of gaps before, whether such rows are left out or filled,
is up to the question (treatments.py).

**Cells.** A comparison may cut through a bin of a column, but not through a cell: a sealed table knows nothing finer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.predicates import SIGNS, holds
from gapless.data.row_contribution import in_bins
from gapless.errors import QuestionError, SchemaError
from gapless.schema import Schema
from gapless.schema.columns import Column, as_text
from gapless.schema.numeric import _Binned
from gapless.types import Codes

Truth: TypeAlias = NDArray[np.int8]
Compiled: TypeAlias = Callable[[Mapping[str, Codes]], Truth]

TRUE, UNKNOWN, FALSE = np.int8(1), np.int8(0), np.int8(-1)
LONGEST = 10_000  # characters of a question
DEEPEST = 50  # parentheses within parentheses
MOST_VALUES = 100  # groups or classes of a column whose bins are not declared

EXAMPLE = "age >= 20 and sex == F; signs == != < <= > >=, in (…), between … and …, is missing, and, or, not"


@dataclass(frozen=True, slots=True)
class Always:
    """The empty condition: true for every row."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column beside a public value; with the sign "is", beside *not applicable*."""

    column: str
    sign: str
    value: str


@dataclass(frozen=True, slots=True)
class IsMissing:
    """The cell is a gap, of whatever kind; *not applicable* is none."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    one: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Always | Comparison | IsMissing | Not | And | Or


def value_columns(condition: Condition) -> frozenset[str]:
    """The columns whose values the condition looks at."""
    return _columns(condition, Comparison)


def gap_columns(condition: Condition) -> frozenset[str]:
    """The columns whose gaps the condition looks at."""
    return _columns(condition, IsMissing)


def _columns(condition: Condition, kind: type[Comparison | IsMissing]) -> frozenset[str]:
    match condition:
        case Not(one):
            return _columns(one, kind)
        case And(parts) | Or(parts):
            return frozenset().union(*(_columns(part, kind) for part in parts))
        case Comparison() | IsMissing() if isinstance(condition, kind):
            return frozenset({condition.column})
    return frozenset()


def told_for(condition: Condition, schema: Schema) -> dict[str, Column]:
    """The columns with a bin that the condition splits, cut also where it splits them; without bins, there alone.

    Rows that a condition cannot tell apart should look alike: a hot deck takes its time for each kind of row.
    """
    lines = {column.name: column for column in schema.columns if isinstance(column, _Binned)}
    compared = [found for found in _comparisons(condition) if found.column in lines and found.sign != "is"]
    split = dict.fromkeys(
        found.column for found in compared if _unbinned(lines[found.column]) or _splits(lines[found.column], found)
    )
    return {name: _cut(lines[name], [found for found in compared if found.column == name]) for name in split}


def _comparisons(condition: Condition) -> Iterator[Comparison]:
    match condition:
        case Not(one):
            yield from _comparisons(one)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _comparisons(part)
        case Comparison():
            yield condition


def _splits(column: _Binned, comparison: Comparison) -> bool:
    try:
        holds(column, comparison.sign, comparison.value)
    except SchemaError:
        return True
    return False


def _unbinned(column: _Binned) -> bool:
    """Whether nothing is grouped or matched by its bins: they are not declared, and its values are too many."""
    return column.learned and column.size > MOST_VALUES


def _cut(column: _Binned, comparisons: Sequence[Comparison]) -> _Binned:
    """Cells in groups: of one declared bin, and alike for all comparisons."""
    fine = column.fine
    begins = np.any([np.diff(holds(fine, found.sign, found.value)) for found in comparisons], axis=0)
    if not _unbinned(column):
        begins |= np.diff(in_bins(fine, column)[: fine.values_size]) > 0
    cuts = fine._bins.cuts  # noqa: SLF001 where its cells begin, and where the last one ends
    return fine.cut(cuts[np.concatenate([[True], begins, [True]])])


def needed(condition: Condition, *, truth: bool = True) -> frozenset[str]:
    """Columns without a gap wherever the condition is true (or false): a gap in one of them rules the row out."""
    match condition:
        case Comparison(column):
            return frozenset({column})
        case IsMissing(column):
            return frozenset() if truth else frozenset({column})
        case Not(one):
            return needed(one, truth=not truth)
        case And(parts) | Or(parts):
            each = [needed(part, truth=truth) for part in parts]
            return each[0].union(*each) if isinstance(condition, And) == truth else each[0].intersection(*each)
    return frozenset()


def compile_condition(condition: Condition, schema: Schema) -> Compiled:
    """The condition as a function of the codes of each row by itself; columns and values are checked here."""
    match condition:
        case Comparison(column, sign, value):
            return _look_up(column, _comparison(schema, column, sign, value))
        case IsMissing(column):
            asked = schema[known(schema, column)]
            table = np.full(asked.extended_size, FALSE)
            table[asked.size :] = TRUE
            return _look_up(column, table)
        case Not(one):
            inner = compile_condition(one, schema)
            return lambda columns: np.negative(inner(columns))
        case And((Comparison(column, ">=", low), Comparison(other, "<=", high))) if (
            column == other
            and not (
                (_comparison(schema, column, ">=", low) == TRUE) & (_comparison(schema, column, "<=", high) == TRUE)
            ).any()
        ):
            raise QuestionError(
                f"column {column!r} is never between {low} and {high}", hint="the lower value first, within its bounds"
            )
        case And(parts) | Or(parts):
            compiled = [compile_condition(part, schema) for part in parts]
            join = np.minimum if isinstance(condition, And) else np.maximum
            return lambda columns: reduce(join, (part(columns) for part in compiled))
    return lambda columns: np.full(len(next(iter(columns.values()))), TRUE)


def _comparison(schema: Schema, name: str, sign: str, value: str) -> Truth:
    column = schema[known(schema, name)]
    table = np.full(column.extended_size, UNKNOWN)
    if sign == "is":
        if column.not_applicable is None:
            raise QuestionError(f"column {name!r} is always applicable", hint=f"{quoted(name)} is missing")
        table[: column.size] = np.where(np.arange(column.size) == column.values_size, TRUE, FALSE)
        return table
    for code in column.missing:
        if code.code == as_text(value):
            states = "not applicable" if code.kind == "not-applicable" else "missing"
            raise QuestionError(
                f"{value!r} is no value of column {name!r} but a code for {states}", hint=f"{quoted(name)} is {states}"
            )
    table[: column.values_size] = np.where(holds(column, sign, value), TRUE, FALSE)
    return table


def _look_up(column: str, table: Truth) -> Compiled:
    return lambda columns: table[columns[column]]


def quoted(name: str) -> str:
    """The name of a column as it is written in a question."""
    return name if _WORD.fullmatch(name) and name.lower() not in KEYWORDS else f'"{name}"'


def known(schema: Schema, name: str) -> str:
    """The name of a column that can be asked about."""
    if name in schema.ignore:
        raise QuestionError(
            f"the schema leaves column {name!r} out, so nothing is known of its cells",
            hint="declare it with levels or bounds; free text cannot be asked about",
        )
    schema.positions([name])
    return name


# ---------------------------------------------------------------------- from text

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<text>'[^']*')
    | (?P<quoted>"[^"]*")
    | (?P<number>[+-]?\d[\w.:+-]*|[+-]?\.\d[\w.+-]*)
    | (?P<word>[^\W\d][\w.-]*)
    | (?P<sign>==|!=|<=|>=|<|>|=)
    | (?P<mark>[(),])
    )""",
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d][\w.-]*")
KEYWORDS = ("and", "or", "not", "in", "between", "is", "missing", "where", "by")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text: its kind, what it says, where it stands."""

    kind: str
    says: str
    at: int

    def means(self, *words: str) -> bool:
        """Whether this is one of these keywords, signs or marks; a quoted word never is."""
        return self.kind in ("word", "sign", "mark") and self.says.lower() in words


class Reader:
    """Reads a text word by word."""

    def __init__(self, text: str, example: str = EXAMPLE) -> None:
        if not isinstance(text, str):
            raise QuestionError(f"{text!r} is not a condition", hint=f"a text, such as {EXAMPLE}")
        if len(text) > LONGEST:
            raise QuestionError(f"a question of more than {LONGEST} characters", hint="a shorter one")
        self.text = text
        self._tokens = _split(text, example)
        self._place = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        """The word that comes next; at the end one that means nothing."""
        if self._place < len(self._tokens):
            return self._tokens[self._place]
        return Token("end", "", len(self.text))

    def take(self) -> Token:
        """Go on by a word."""
        token = self.next
        self._place += 1
        return token

    def takes(self, *words: str) -> bool:
        """Go on if the next word is one of these."""
        found = self.next.means(*words)
        self._place += found
        return found

    def expect(self, *words: str, hint: str = EXAMPLE) -> None:
        """Go on, or say what should stand here."""
        if not self.takes(*words):
            raise self.wrong(f"expected {' or '.join(map(repr, words))}", hint=hint)

    def wrong(self, what: str, hint: str = EXAMPLE) -> QuestionError:
        """An error that shows the place."""
        found = f"found {self.next.says!r}" if self.next.kind != "end" else "the text ends"
        return QuestionError(f"cannot read {self.text!r} at character {self.next.at + 1}: {what}, {found}", hint=hint)

    def column(self) -> str:
        """The name of a column."""
        if self.next.kind not in ("word", "quoted") or self.next.means(*KEYWORDS):
            raise self.wrong("expected a column", hint=f'{EXAMPLE}; names with blanks stand in "double quotes"')
        return self.take().says.strip('"')

    def value(self) -> str:
        """A public value: a number, a date, a quoted or plain word."""
        if self.next.kind not in ("word", "quoted", "text", "number") or self.next.means(*KEYWORDS):
            raise self.wrong("expected a value", hint=f"{EXAMPLE}; texts with blanks stand in 'quotes'")
        token = self.take()
        return token.says[1:-1] if token.kind in ("text", "quoted") else token.says

    def condition(self) -> Condition:
        """Alternatives joined by or."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise QuestionError(f"more than {DEEPEST} parentheses within each other", hint="a simpler condition")
        parts = [self._both()]
        while self.takes("or"):
            parts.append(self._both())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self) -> Condition:
        parts = [self._term()]
        while self.takes("and"):
            parts.append(self._term())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _term(self) -> Condition:
        negations = 0
        while self.takes("not"):
            negations += 1
        if self.takes("("):
            one = self.condition()
            self.expect(")")
        else:
            one = self._atom()
        return Not(one) if negations % 2 else one

    def _atom(self) -> Condition:
        column = self.column()
        if self.takes("is"):
            negated = self.takes("not")
            if self.takes("applicable"):
                absent = Comparison(column, "is", "not applicable")
                return absent if negated else Not(absent)
            self.expect("missing")
            return Not(IsMissing(column)) if negated else IsMissing(column)
        negated = self.takes("not")
        if self.takes("in"):
            one = self._among(column)
        elif self.takes("between"):
            low = self.value()
            self.expect("and")
            one = And((Comparison(column, ">=", low), Comparison(column, "<=", self.value())))
        elif negated or self.next.says not in SIGNS:
            hint = "== compares" if self.next.says == "=" else EXAMPLE
            raise self.wrong("expected a comparison", hint=hint)
        else:
            one = Comparison(column, self.take().says, self.value())
        return Not(one) if negated else one

    def _among(self, column: str) -> Condition:
        self.expect("(")
        parts = [Comparison(column, "==", self.value())]
        while self.takes(","):
            parts.append(Comparison(column, "==", self.value()))
        self.expect(")")
        return Or(tuple(parts))


def _split(text: str, example: str) -> list[Token]:
    tokens, place = [], 0
    while text[place:].strip():
        found = _TOKEN.match(text, place)
        if found is None:
            raise QuestionError(f"cannot read {text!r} at character {place + 1}", hint=example)
        kind = str(found.lastgroup)
        tokens.append(Token(kind, found[kind], found.start(kind)))
        place = found.end()
    return tokens


def parse_condition(text: str) -> Condition:
    """A condition from its text; the empty text is always true.

    >>> parse_condition("age >= 20")
    Comparison(column='age', sign='>=', value='20')
    """
    reader = Reader(text)
    if reader.next.kind == "end":
        return Always()
    condition = reader.condition()
    if reader.next.kind != "end":
        raise reader.wrong("expected the end, and, or or")
    return condition
