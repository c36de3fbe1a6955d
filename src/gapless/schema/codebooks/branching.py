"""REDCap's branching logic as constraints: which columns have no value where others have certain values.

A field is shown where a condition holds. So no row may have a value of the field where the condition does not hold.
Its negation is a list of conjunctions, each of which becomes a `[[constraint]]`. Logic with dates, functions, other
events or empty values is not translated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from gapless.schema import toml
from gapless.schema.codebooks.entries import Entry, number_of
from gapless.schema.schema import Constraint
from gapless.text import shortened

_TOKEN = re.compile(
    r"\s*(?:(?P<field>\[[a-zA-Z0-9_]+(?:\([^()\]]{1,80}\))?\])|(?P<sign><>|!=|<=|>=|=|<|>)"
    r"|(?P<value>'[^']*'|\"[^\"]*\"|-?\d+(?:\.\d+)?)|(?P<word>and|or)\b|(?P<bracket>[()]))",
    re.IGNORECASE,
)
_NEGATED = {"=": "!=", "!=": "==", "<>": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
MOST_TOKENS = 400
MOST_RULES = 20  # conjunctions of the negation of one condition
MOST_DEPTH = 20  # of brackets


@dataclass(frozen=True)
class Translation:
    """The rules of a condition, or a remark if it was not translated."""

    rules: tuple[tuple[Constraint, frozenset[str]], ...] = ()  # each with the columns that it names
    remark: str = ""


class _UntranslatableError(Exception):
    """A condition has a part that no rule can say."""


Term = tuple[str, str, str]  # a column, a negated comparison, a value
Clauses = list[frozenset[Term]]  # any of these conjunctions


def rules_of_branching(logic: str, columns: Sequence[str], known: Mapping[str, Entry]) -> Translation:
    """The rules that follow from the branching logic of a field with these columns.

    >>> smoker, number = Entry("smoker", "row 2", codes=(("0", "No"), ("1", "Yes"))), Entry("cigarettes", "row 3")
    >>> found = rules_of_branching("[smoker] = '1'", ["cigarettes"], {"smoker": smoker, "cigarettes": number})
    >>> [rule.forbidden for rule, _ in found.rules]
    ["t1.smoker != '1' and t1.cigarettes == t1.cigarettes"]
    """
    try:
        hidden = _Parser(logic, known).parse()
    except _UntranslatableError as reason:
        text = shortened(" ".join(logic.split()), 120)
        return Translation(remark=f"its branching logic is not a rule of the schema ({reason}): {text}")
    usable = [column for column in columns if not known[column].left_out]
    rules = []
    for column, clause in product(usable, hidden):
        others = {name for name, _, _ in clause}
        if column not in others:
            about = f"branching logic: {column} is asked where {' '.join(logic.split())[:200]}"
            rules.append((Constraint(_rule(clause, column), about), frozenset({column, *others})))
    return Translation(tuple(rules))


def _rule(clause: frozenset[Term], column: str) -> str:
    name = _name(column)
    terms = [f"{_name(other)} {sign} {value}" for other, sign, value in sorted(clause)]
    return " and ".join([*terms, f"{name} == {name}"])  # what equals itself has a value


def _name(column: str) -> str:
    return f"t1.{column}" if re.fullmatch(r"[A-Za-z_]\w*", column) else f"t1.{toml.quoted(column)}"


class _Parser:
    """Parses a condition into the conjunctions of its negation."""

    def __init__(self, logic: str, known: Mapping[str, Entry]) -> None:
        self.tokens: list[tuple[str, str]] = []
        self.place = 0
        self.known = known
        end = 0
        text = logic.strip()
        while end < len(text):
            found = _TOKEN.match(text, end)
            if found is None or len(self.tokens) >= MOST_TOKENS:
                raise _UntranslatableError("it has other parts than comparisons of fields with values")
            self.tokens.append((str(found.lastgroup), found[str(found.lastgroup)]))
            end = found.end()

    def parse(self) -> Clauses:
        hidden = self._disjunction(0)
        if self.place != len(self.tokens):
            raise _UntranslatableError("its brackets do not match")
        return hidden

    def _peek(self) -> tuple[str, str]:
        return self.tokens[self.place] if self.place < len(self.tokens) else ("", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        self.place += 1
        return token

    def _disjunction(self, depth: int) -> Clauses:
        """`a or b` is hidden where both are."""
        parts = [self._conjunction(depth)]
        while self._peek()[0] == "word" and self._peek()[1].lower() == "or":
            self._next()
            parts.append(self._conjunction(depth))
        if len(parts) == 1:
            return parts[0]
        many = 1
        for part in parts:
            many *= max(1, len(part))
        if many > MOST_RULES:
            raise _UntranslatableError("it would become too many rules")
        return [frozenset().union(*chosen) for chosen in product(*parts)]

    def _conjunction(self, depth: int) -> Clauses:
        """`a and b` is hidden where one of them is."""
        hidden = self._comparison(depth)
        while self._peek()[0] == "word" and self._peek()[1].lower() == "and":
            self._next()
            hidden = hidden + self._comparison(depth)
        if len(hidden) > MOST_RULES:
            raise _UntranslatableError("it would become too many rules")
        return hidden

    def _comparison(self, depth: int) -> Clauses:
        kind, text = self._next()
        if (kind, text) == ("bracket", "("):
            if depth >= MOST_DEPTH:
                raise _UntranslatableError("its brackets are nested too deeply")
            inner = self._disjunction(depth + 1)
            if self._next() != ("bracket", ")"):
                raise _UntranslatableError("its brackets do not match")
            return inner
        sign, value = self._next(), self._next()
        if kind != "field" or sign[0] != "sign" or value[0] != "value":
            raise _UntranslatableError("it has other parts than comparisons of fields with values")
        return [frozenset([self._term(text[1:-1], sign[1], value[1].strip("'\""))])]

    def _term(self, field: str, sign: str, value: str) -> Term:
        """The negation of a comparison, if the schema knows the column and the value."""
        column, bracket, code = field.partition("(")
        if bracket:
            column = f"{column}___{re.sub(r'[^a-z0-9_]', '_', code.rstrip(')').lower())}"
        entry = self.known.get(column)
        if entry is None or entry.left_out:
            raise _UntranslatableError(f"{column} is no column of the schema")
        if not value.strip():
            raise _UntranslatableError("it asks whether a field is empty")
        negated = _NEGATED[sign]
        if entry.type == "boolean":
            if value not in ("0", "1") or negated not in ("==", "!="):
                raise _UntranslatableError(f"{column} is true or false")
            return column, negated, "true" if value == "1" else "false"
        if entry.codes:
            levels = {text for text, _ in entry.codes} - {getattr(gap, "code", "") for gap in entry.missing}
            if value not in levels or negated not in ("==", "!="):
                raise _UntranslatableError(f"{value!r} is no level of {column}, or is compared by an order")
            return column, negated, f"'{value}'"
        if entry.type not in ("integer", "number") or number_of(value) is None:
            raise _UntranslatableError(f"{column} is not a number")
        return column, negated, value
