"""Parser for conditions on rows and for rules. The text is read and never executed.

**Conditions** are the `where` of a question, or say which rows to leave out::

    age >= 20 and age < 30
    sex in (F, M) and not (income is missing or smoker == true)
    born between 1950-01-01 and 1959-12-31

A column is on the left, a public value on the right. Names and values with spaces or operators need quotes:
``"marital status" == 'never married'``.

**Rules** of a schema are conjunctions of comparisons of one row or two. There are two forms::

    t1.education == t2.education and t1.education_num != t2.education_num
    t1 & t2 & EQ(t1.education, t2.education) & IQ(t1.education_num, t2.education_num)

A comparison has a column of a row on its left. On its right is a value, or a column of the same or of the other row.
Values need no quotes there: they end where the comparison ends.

One `Parser` reads conditions, rules and questions (`query/parsing.py`).
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
MAX_LENGTH = 10_000  # characters of a question
MAX_DEPTH = 50  # nested parentheses
CONDITION_HINT = (
    "write a condition such as age >= 20 and sex == F; it may use == != < <= > >=, in (1, 2), between 1 and 2, is "
    "missing, and, or, not"
)
RULE_HINT = (
    "write t1. before each column, == for equal, and join comparisons with and: t1.age < 15 and t1.married == 'yes'"
)


@dataclass(frozen=True, slots=True)
class Always:
    """The empty condition: true for every row."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a public value.

    With the operator "is", it tests for *not applicable*. In a rule, `row` is 0 for t1 and 1 for t2.
    """

    column: str
    sign: str
    value: str
    row: int = 0


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """In a rule: a comparison of a column with a column of the same row or of the other row."""

    column: str
    sign: str
    other: str
    row: int
    other_row: int


@dataclass(frozen=True, slots=True)
class IsMissing:
    """Whether the cell is a gap of any kind. *Not applicable* is not a gap."""

    column: str


@dataclass(frozen=True, slots=True)
class Not:
    """The negation of a condition."""

    negated: Condition


@dataclass(frozen=True, slots=True)
class And:
    """A conjunction."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """A disjunction."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Always | Comparison | IsMissing | Not | And | Or


def _atoms(condition: Condition) -> Iterator[Comparison | IsMissing]:
    """The comparisons and tests for gaps in a condition."""
    match condition:
        case Not(negated):
            yield from _atoms(negated)
        case And(parts) | Or(parts):
            for part in parts:
                yield from _atoms(part)
        case Comparison() | IsMissing():
            yield condition


def comparisons(condition: Condition) -> list[Comparison]:
    """The comparisons in a condition."""
    return [atom for atom in _atoms(condition) if isinstance(atom, Comparison)]


def value_columns(condition: Condition) -> frozenset[str]:
    """The columns whose values the condition reads."""
    return frozenset(comparison.column for comparison in comparisons(condition))


def gap_columns(condition: Condition) -> frozenset[str]:
    """The columns whose gaps the condition tests."""
    return frozenset(atom.column for atom in _atoms(condition) if isinstance(atom, IsMissing))


def required_columns(condition: Condition, *, truth: bool = True) -> frozenset[str]:
    """Columns that must be observed for the condition to be true, or false if `truth` is False."""
    match condition:
        case Comparison(column):
            return frozenset({column})
        case IsMissing(column):
            return frozenset() if truth else frozenset({column})
        case Not(negated):
            return required_columns(negated, truth=not truth)
        case And(parts) | Or(parts):
            columns = [required_columns(part, truth=truth) for part in parts]
            combine = frozenset.union if isinstance(condition, And) == truth else frozenset.intersection
            return combine(*columns)
    return frozenset()


def quote_name(name: str) -> str:
    """The name of a column as a question writes it: in quotes where needed."""
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
_JOINED = re.compile(r"(\bor\b|\band\b|[&|,;])\W*(?:not\W+)?t[12]\.", re.IGNORECASE)  # the next comparison follows
_CALLS = {"EQ": "==", "IQ": "!=", "LT": "<", "LTE": "<=", "GT": ">", "GTE": ">="}
KEYWORDS = ("and", "or", "not", "in", "between", "is", "missing", "where", "by")


@dataclass(frozen=True, slots=True)
class Token:
    """A token: its kind, its text, its position."""

    kind: str
    text: str
    position: int

    def matches(self, *texts: str) -> bool:
        """Whether this is one of these keywords, operators or marks. A quoted word never is."""
        return self.kind in ("word", "sign", "mark") and self.text.lower() in texts


class Parser:
    """A recursive-descent parser of one text."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            shown = repr(text) if isinstance(text, int | float) else f"a {type(text).__name__}"  # never a table
            raise QuestionError(
                f"{shown} is not a condition, which must be a text",
                hint='pass a text, such as "age >= 20 and sex == F"',
            )
        if len(text) > MAX_LENGTH:
            raise QuestionError(
                f"the text of a question or condition has more than {MAX_LENGTH} characters",
                hint="write a shorter text, or ask several questions",
            )
        self.text = text
        self._tokens = [Token(str(found.lastgroup), found[0], found.start()) for found in _TOKEN.finditer(text)]
        self._next = 0
        self._depth = 0

    @property
    def current(self) -> Token:
        """The current token. After the last one, a token of kind `end`."""
        if self._next < len(self._tokens):
            return self._tokens[self._next]
        return Token("end", "", len(self.text))

    def advance(self) -> Token:
        """Return the current token and move to the next one."""
        token = self.current
        self._next += 1
        return token

    def accept(self, *texts: str) -> bool:
        """Move on if the current token is one of these."""
        found = self.current.matches(*texts)
        self._next += found
        return found

    def expect(self, text: str, hint: str = CONDITION_HINT) -> None:
        """Move on if the current token is this one, or refuse the text."""
        if not self.accept(text):
            raise self.error_here(f"expected {text!r}", hint=hint)

    def error_here(self, what: str, hint: str = CONDITION_HINT) -> QuestionError:
        """An error that shows the position."""
        found = f"found {self.current.text!r}" if self.current.kind != "end" else "the text ends"
        place = f"at character {self.current.position + 1}"
        return QuestionError(f"cannot read {self.text!r} {place}: {what}, {found}", hint=hint)

    def column(self) -> str:
        """The name of a column."""
        if self.current.kind not in ("word", "quoted") or self.current.matches(*KEYWORDS):
            raise self.error_here(
                "expected a column", hint=f'{CONDITION_HINT}; put names with spaces in "double quotes"'
            )
        return self.advance().text.strip('"')

    def value(self) -> str:
        """A public value: a number, a date, a quoted or plain word."""
        if self.current.kind not in ("word", "quoted", "text", "number") or self.current.matches(*KEYWORDS):
            raise self.error_here("expected a value", hint=f"{CONDITION_HINT}; put values with spaces in 'quotes'")
        token = self.advance()
        return token.text[1:-1] if token.kind in ("text", "quoted") else token.text

    def separated(self, part: Callable[[], T], separator: str) -> list[T]:
        """One or more parts with a separator between them."""
        parts = [part()]
        while self.accept(separator):
            parts.append(part())
        return parts

    def condition(self) -> Condition:
        """A condition: conjunctions joined by `or`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            wrong = f"the condition has more than {MAX_DEPTH} nested parentheses"
            raise QuestionError(wrong, hint="remove parentheses that are not needed, or ask several questions")
        parts = self.separated(self._conjunction, "or")
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Condition:
        parts = self.separated(self._negation, "and")
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Condition:
        negations = 0
        while self.accept("not"):
            negations += 1
        if self.accept("("):
            condition = self.condition()
            self.expect(")")
        else:
            condition = self._comparison()
        return Not(condition) if negations % 2 else condition

    def _comparison(self) -> Condition:
        column = self.column()
        if self.accept("is"):
            negated = self.accept("not")
            if self.accept("applicable"):
                absent = Comparison(column, "is", "not applicable")
                return absent if negated else Not(absent)
            self.expect("missing")
            return Not(IsMissing(column)) if negated else IsMissing(column)
        negated = self.accept("not")
        condition: Condition
        if self.accept("in"):
            self.expect("(")
            condition = Or(tuple(Comparison(column, "==", value) for value in self.separated(self.value, ",")))
            self.expect(")")
        elif self.accept("between"):
            low = self.value()
            self.expect("and")
            condition = And((Comparison(column, ">=", low), Comparison(column, "<=", self.value())))
        elif negated or self.current.text not in SIGNS:
            hint = "write == to compare" if self.current.text == "=" else CONDITION_HINT
            raise self.error_here("expected a comparison", hint=hint)
        else:
            condition = Comparison(column, self.advance().text, self.value())
        return Not(condition) if negated else condition

    def rule(self) -> list[Comparison | ColumnComparison]:
        """A rule: comparisons joined by `and`, or names of rows and calls such as EQ(t1.a, t2.a), joined by &."""
        if self.accept("t1"):
            self.expect("&")
            if self.accept("t2"):
                self.expect("&")
            parts = self.separated(self._call, "&")
        else:
            parts = self.separated(self._row_comparison, "and")
        if self.current.kind != "end":
            raise self.error_here("expected no more text")
        return parts

    def _row_comparison(self) -> Comparison | ColumnComparison:
        left, sign = self._text_until(*SIGNS), self.advance().text
        right = self._text_until("and")
        if right[:1] not in ("'", '"') and _JOINED.search(right):  # else the rest of the rule would be its value
            raise self.error_here("expected 'and' between two comparisons")
        return self._of_rows(_READABLE, left, sign, right)

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
            raise self.error_here("expected a column of t1 or t2 and a value or column to compare it with")
        name, row = first[2].strip('"'), int(first[1]) - 1
        if second:
            return ColumnComparison(name, sign, second[2].strip('"'), row, int(second[1]) - 1)
        return Comparison(name, sign, right.strip("'\""), row)

    def _text_until(self, *texts: str) -> str:
        """The text up to one of these texts, written exactly so and not in quotes, or to the end."""
        start = self.current.position
        while self.current.kind != "end" and self.current.text not in texts:
            self.advance()
        return self.text[start : self.current.position].strip()


def parse_condition(text: str) -> Condition:
    """Parse a condition. The empty text is always true.

    >>> parse_condition("age >= 20")
    Comparison(column='age', sign='>=', value='20', row=0)
    """
    parser = Parser(text)
    if parser.current.kind == "end":
        return Always()
    condition = parser.condition()
    if parser.current.kind != "end":
        raise parser.error_here("expected 'and', 'or' or no more text")
    return condition


def parse_rule(text: str) -> list[Comparison | ColumnComparison]:
    """Parse a rule into its comparisons, which must not all hold at once.

    >>> parse_rule("t1.age < 15 and t1.zip == t2.zip")[1]
    ColumnComparison(column='zip', sign='==', other='zip', row=0, other_row=1)
    """
    try:
        return Parser(text).rule()
    except QuestionError:
        joined = _JOINED.search(text)
        if joined is not None and joined[1].lower() in ("or", "|"):
            wrong = f"the constraint {text!r} has {joined[1]!r}, but comparisons can only be joined by and"
            raise SchemaError(wrong, hint=f"write two constraints, one for each side of {joined[1]!r}") from None
        raise SchemaError(f"the constraint {text!r} cannot be read", hint=RULE_HINT) from None
