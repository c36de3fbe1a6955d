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
Values need no quotes there: they end where the comparison does.

One tokenizer and one parser, `Reader`, read both, and questions too (`query/questions.py`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from gapless.errors import QuestionError, SchemaError

T = TypeVar("T")

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
    """A column beside a public value; with the sign "is", beside *not applicable*. Rules have a second `row`, 1."""

    column: str
    sign: str
    value: str
    row: int = 0


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """In a rule: a column of a row beside a column of the same row or of the other one."""

    column: str
    sign: str
    other: str
    row: int
    other_row: int


@dataclass(frozen=True, slots=True)
class IsMissing:
    """The cell is a gap, of whatever kind; *not applicable* is none."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite."""

    negated: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of them."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one of them."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Always | Comparison | IsMissing | Not | And | Or


def _atoms(condition: Condition) -> Iterator[Comparison | IsMissing]:
    """What a condition is made of."""
    match condition:
        case Not(negated):
            yield from _atoms(negated)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _atoms(part)
        case Comparison() | IsMissing():
            yield condition


def comparisons(condition: Condition) -> list[Comparison]:
    """The comparisons that a condition is made of."""
    return [atom for atom in _atoms(condition) if isinstance(atom, Comparison)]


def value_columns(condition: Condition) -> frozenset[str]:
    """The columns whose values the condition looks at."""
    return frozenset(comparison.column for comparison in comparisons(condition))


def gap_columns(condition: Condition) -> frozenset[str]:
    """The columns whose gaps the condition looks at."""
    return frozenset(atom.column for atom in _atoms(condition) if isinstance(atom, IsMissing))


def required_columns(condition: Condition, *, truth: bool = True) -> frozenset[str]:
    """Columns without a gap wherever the condition is true (or false): a gap in one of them rules the row out."""
    match condition:
        case Comparison(column):
            return frozenset({column})
        case IsMissing(column):
            return frozenset() if truth else frozenset({column})
        case Not(negated):
            return required_columns(negated, truth=not truth)
        case And(parts) | Or(parts):
            each = [required_columns(part, truth=truth) for part in parts]
            return each[0].union(*each) if isinstance(condition, And) == truth else each[0].intersection(*each)
    return frozenset()


def quote_name(name: str) -> str:
    """The name of a column as it is written in a question."""
    return name if _WORD.fullmatch(name) and name.lower() not in KEYWORDS else f'"{name}"'


_TOKEN = re.compile(
    r"""
      (?P<text>(?<!\w)'[^']*')
    | (?P<quoted>(?<!\w)"[^"]*")
    | (?P<number>[+-]?\d[\w.:+-]*|[+-]?\.\d[\w.+-]*)
    | (?P<word>[^\W\d][\w.-]*)
    | (?P<sign>==|!=|<=|>=|<|>|=)
    | (?P<mark>\S)
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d][\w.-]*")
# Columns of a row and values, in the two forms of a rule.
_READABLE = re.compile(r"""t([12])\.([\w-]+|"[^"]+")"""), re.compile(".+", re.DOTALL)
_SHORT = re.compile(r"""t([12])\.("[^"]+"|[^,()&"']+)"""), re.compile(r""""[^"]*"|'[^']*'|[^,()&"']+""")
_CALLS = {"EQ": "==", "IQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
KEYWORDS = ("and", "or", "not", "in", "between", "is", "missing", "where", "by")


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text: its kind, what it says, where it stands."""

    kind: str
    text: str
    at: int

    def matches(self, *words: str) -> bool:
        """Whether this is one of these keywords, signs or marks; a quoted word never is."""
        return self.kind in ("word", "sign", "mark") and self.text.lower() in words


class Parser:
    """Reads a text word by word."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise QuestionError(f"{text!r} is not a condition", hint=f"a text, such as {EXAMPLE}")
        if len(text) > LONGEST:
            raise QuestionError(f"a question of more than {LONGEST} characters", hint="a shorter one")
        self.text = text
        self._tokens = [Token(str(found.lastgroup), found[0], found.start()) for found in _TOKEN.finditer(text)]
        self._place = 0
        self._depth = 0

    @property
    def current(self) -> Token:
        """The word that comes next; at the end one that means nothing."""
        if self._place < len(self._tokens):
            return self._tokens[self._place]
        return Token("end", "", len(self.text))

    def advance(self) -> Token:
        """Go on by a word."""
        token = self.current
        self._place += 1
        return token

    def accept(self, *words: str) -> bool:
        """Go on if the next word is one of these."""
        found = self.current.matches(*words)
        self._place += found
        return found

    def expect(self, *words: str, hint: str = EXAMPLE) -> None:
        """Go on, or say what should stand here."""
        if not self.accept(*words):
            raise self.error_here(f"expected {' or '.join(map(repr, words))}", hint=hint)

    def error_here(self, what: str, hint: str = EXAMPLE) -> QuestionError:
        """An error that shows the place."""
        found = f"found {self.current.text!r}" if self.current.kind != "end" else "the text ends"
        return QuestionError(
            f"cannot read {self.text!r} at character {self.current.at + 1}: {what}, {found}", hint=hint
        )

    def column(self) -> str:
        """The name of a column."""
        if self.current.kind not in ("word", "quoted") or self.current.matches(*KEYWORDS):
            raise self.error_here("expected a column", hint=f'{EXAMPLE}; names with blanks stand in "double quotes"')
        return self.advance().text.strip('"')

    def value(self) -> str:
        """A public value: a number, a date, a quoted or plain word."""
        if self.current.kind not in ("word", "quoted", "text", "number") or self.current.matches(*KEYWORDS):
            raise self.error_here("expected a value", hint=f"{EXAMPLE}; texts with blanks stand in 'quotes'")
        token = self.advance()
        return token.text[1:-1] if token.kind in ("text", "quoted") else token.text

    def separated(self, part: Callable[[], T], joint: str) -> list[T]:
        """One or more parts, joined by a word."""
        parts = [part()]
        while self.accept(joint):
            parts.append(part())
        return parts

    def condition(self) -> Condition:
        """Alternatives joined by or."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise QuestionError(f"more than {DEEPEST} parentheses within each other", hint="a simpler condition")
        parts = self.separated(self._both, "or")
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _both(self) -> Condition:
        parts = self.separated(self._term, "and")
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _term(self) -> Condition:
        negations = 0
        while self.accept("not"):
            negations += 1
        if self.accept("("):
            one = self.condition()
            self.expect(")")
        else:
            one = self._atom()
        return Not(one) if negations % 2 else one

    def _atom(self) -> Condition:
        column = self.column()
        if self.accept("is"):
            negated = self.accept("not")
            if self.accept("applicable"):
                absent = Comparison(column, "is", "not applicable")
                return absent if negated else Not(absent)
            self.expect("missing")
            return Not(IsMissing(column)) if negated else IsMissing(column)
        negated = self.accept("not")
        one: Condition
        if self.accept("in"):
            self.expect("(")
            one = Or(tuple(Comparison(column, "==", value) for value in self.separated(self.value, ",")))
            self.expect(")")
        elif self.accept("between"):
            low = self.value()
            self.expect("and")
            one = And((Comparison(column, ">=", low), Comparison(column, "<=", self.value())))
        elif negated or self.current.text not in SIGNS:
            hint = "== compares" if self.current.text == "=" else EXAMPLE
            raise self.error_here("expected a comparison", hint=hint)
        else:
            one = Comparison(column, self.advance().text, self.value())
        return Not(one) if negated else one

    def rule(self) -> list[Comparison | ColumnComparison]:
        """Comparisons joined by and; or calls such as EQ(t1.a, t2.a) joined by &, after the rows they are about."""
        if self.accept("t1"):
            self.expect("&")
            if self.accept("t2"):
                self.expect("&")
            parts = self.separated(self._call, "&")
        else:
            parts = self.separated(self._row_comparison, "and")
        if self.current.kind != "end":
            raise self.error_here("expected the end")
        return parts

    def _row_comparison(self) -> Comparison | ColumnComparison:
        left, sign = self._text_until(*SIGNS), self.advance().text
        return self._of_rows(_READABLE, left, sign, self._text_until("and"))

    def _call(self) -> Comparison | ColumnComparison:
        sign = _CALLS.get(self.advance().text, "")
        self.expect("(")
        left = self._text_until(",")
        self.expect(",")
        right = self._text_until(")")
        self.expect(")")
        return self._of_rows(_SHORT, left, sign, right)

    def _of_rows(
        self, form: tuple[re.Pattern[str], re.Pattern[str]], left: str, sign: str, right: str
    ) -> Comparison | ColumnComparison:
        columns, values = form
        first, second = columns.fullmatch(left), columns.fullmatch(right)
        if first is None or sign not in SIGNS or not (second or values.fullmatch(right)):
            raise self.error_here("expected a column of t1 or t2 and what it is compared with")
        name, row = first[2].strip('"'), int(first[1]) - 1
        if second:
            return ColumnComparison(name, sign, second[2].strip('"'), row, int(second[1]) - 1)
        return Comparison(name, sign, right.strip("'\""), row)

    def _text_until(self, *words: str) -> str:
        """The text up to one of these words, written exactly so and not in quotes, or to the end."""
        start = self.current.at
        while self.current.kind != "end" and self.current.text not in words:
            self.advance()
        return self.text[start : self.current.at].strip()


def parse_condition(text: str) -> Condition:
    """A condition from its text; the empty text is always true.

    >>> parse_condition("age >= 20")
    Comparison(column='age', sign='>=', value='20', row=0)
    """
    reader = Parser(text)
    if reader.current.kind == "end":
        return Always()
    condition = reader.condition()
    if reader.current.kind != "end":
        raise reader.error_here("expected the end, and, or or")
    return condition


def parse_rule(text: str) -> list[Comparison | ColumnComparison]:
    """The comparisons of a rule, which must not hold all at once.

    >>> parse_rule("t1.age < 15 and t1.zip == t2.zip")[1]
    ColumnComparison(column='zip', sign='==', other='zip', row=0, other_row=1)
    """
    try:
        return Parser(text).rule()
    except QuestionError:
        raise SchemaError(
            f"the constraint {text!r} cannot be read",
            hint="comparisons such as t1.age < 15 or t1.zip == t2.zip, joined by and",
        ) from None
