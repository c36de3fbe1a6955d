"""The language of conditions on rows and of rules: read from text and never executed.

**Conditions**, of questions (`where`) and of rows that are left out::

    age >= 20 and age < 30
    sex in (F, M) and not (income is missing or smoker == true)
    born between 1950-01-01 and 1959-12-31

Columns stand on the left, public values on the right. Names and values with blanks or signs in them are quoted:
``"marital status" == 'never married'``.

**Rules** of a schema, on one row or two: conjunctions of comparisons, in one of two forms::

    t1.education == t2.education and t1.education_num != t2.education_num
    t1 & t2 & EQ(t1.education, t2.education) & IQ(t1.education_num, t2.education_num)

A comparison has a column of a row on its left and, on its right, a value or a column of the same or of the other row.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from gapless.errors import QuestionError, SchemaError

SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
LONGEST = 10_000  # characters of a question
DEEPEST = 50  # parentheses within parentheses
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


def comparisons(condition: Condition) -> Iterator[Comparison]:
    """The comparisons that a condition is made of."""
    match condition:
        case Not(one):
            yield from comparisons(one)
        case And(parts) | Or(parts):
            for part in parts:
                yield from comparisons(part)
        case Comparison():
            yield condition


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


def quoted(name: str) -> str:
    """The name of a column as it is written in a question."""
    return name if _WORD.fullmatch(name) and name.lower() not in KEYWORDS else f'"{name}"'


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
    return _parse_condition(text) if isinstance(text, str) else Reader(text).condition()


@lru_cache(maxsize=256)  # a question asks for its conditions at every step from its check to its answer
def _parse_condition(text: str) -> Condition:
    reader = Reader(text)
    if reader.next.kind == "end":
        return Always()
    condition = reader.condition()
    if reader.next.kind != "end":
        raise reader.wrong("expected the end, and, or or")
    return condition


_NAME = r"""t([12])\.([\w-]+|"[^"]+")"""
_TERM = re.compile(rf"\s*{_NAME}\s*(==|!=|<=|>=|<|>)\s*(?:{_NAME}|(.+?))\s*")
_WORDS = {"EQ": "==", "IQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
_COLUMN = r"""t([12])\.("[^"]+"|[^,()&"']+?)"""
_BEGIN = re.compile(r"\s*t1\s*&\s*(?:t2\s*&\s*)?")
_CALL = re.compile(rf"""({"|".join(_WORDS)})\(\s*{_COLUMN}\s*,\s*(?:{_COLUMN}|("[^"]*"|'[^']*'|[^,()&"']+?))\s*\)""")


class RowComparison(NamedTuple):
    """A comparison as it is written: with another row's column, or with a value."""

    row: int
    name: str
    sign: str
    other_row: int | None
    other: str | None
    value: str | None


def parse_rule(text: str) -> Iterator[RowComparison]:
    """The comparisons of a rule."""
    if begin := _BEGIN.match(text):
        body = text[begin.end() :]
        calls = list(_CALL.finditer(body))
        found = [(row, name, _WORDS[word], *rest) for word, row, name, *rest in (call.groups() for call in calls)]
        readable = bool(calls) and re.sub(r"\s", "", _CALL.sub("#", body)) == "&".join("#" * len(calls))
    else:
        terms = [_TERM.fullmatch(term) for term in re.split(r"\s+and\s+", text)]
        found = [term.groups() for term in terms if term is not None]
        readable = len(found) == len(terms)
    if not readable:
        raise SchemaError(
            f"the constraint {text!r} cannot be read",
            hint="comparisons such as t1.age < 15 or t1.zip == t2.zip, joined by and",
        )
    for row, name, sign, other_row, other, value in found:
        left = int(row) - 1, name.strip('"'), sign
        if other_row is None:
            yield RowComparison(*left, None, None, value.strip("'\""))
        else:
            yield RowComparison(*left, int(other_row) - 1, other.strip('"'), None)
