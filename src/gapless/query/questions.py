"""Questions to a table: frozen, public, and each able to answer itself from a sealed table under a grant.

Questions from text, as the command line takes them: ``mean(income) where age >= 20 by sex``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gapless.constraints.grammar import CONDITION_HINT, Always, And, Condition, Parser, parse_condition, quote_name
from gapless.data import PrivateTable
from gapless.data.sums import MOST_QUANTILE_PARTS
from gapless.errors import Argument, Call, Hint, QuestionError
from gapless.privacy import Grant, Spend
from gapless.query.answers import Answer
from gapless.query.compiled import (
    CompiledQuestion,
    Estimand,
    count_estimand,
    mean_estimand,
    proportion_estimand,
    sum_estimand,
    variance_estimand,
)
from gapless.query.condition import known_column, refined_columns
from gapless.query.numbers import CellNumbers, cell_numbers
from gapless.query.quantiles import QuantileRelease
from gapless.query.treatments import Drop, GapTreatment, checked_names
from gapless.schema import Schema
from gapless.text import listing
from gapless.types import is_number

Bounds: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What all questions share: which rows, in which groups, and what is done about gaps.

    Groups are all cells of a column as the schema lists them, or all combinations of several, so that their names tell
    nothing. A row is in one group: all groups together cost as much as one.
    """

    where: str = ""
    by: str | Sequence[str] | None = None  # kept as a name, or a tuple of several
    missing: GapTreatment = field(default_factory=Drop)
    condition: Condition = field(init=False, repr=False, compare=False)  # `where`, parsed

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", parse_condition(self.where))
        if not (self.by is None or isinstance(self.by, str)):
            names = checked_names(self.by, "by")
            if not names:
                raise QuestionError(
                    "by has no column",
                    hint=Hint("pass ", Argument("by", "sex")) | Hint("leave ", Argument("by"), " out"),
                )
            object.__setattr__(self, "by", names if len(names) > 1 else names[0])
        if not callable(getattr(self.missing, "answer", None)):
            raise QuestionError(
                f"missing is {self.missing!r}",
                hint=Hint("pass ", Argument("missing", Call("Drop")))
                | Hint("pass ", Argument("missing", Call("Knn", ...)))
                | Hint("pass ", Argument("missing", Call("HotDeck", ...))),
            )

    def answer(self, table: PrivateTable, grant: Grant) -> Answer:
        """Release what is needed within the grant. Gaps are filled only where the question looks at some."""
        asked = self.compile(table.schema)
        return self.treatment(asked, filled=table.is_filled).answer(asked, table, grant)

    def answer_together(self, table: PrivateTable, questions: Sequence[Any], *, spend: Spend) -> list[Answer]:
        """Answer several questions, this one among them: see `ask_all`."""
        from gapless.query.ask import ask_all  # noqa: PLC0415 it is made of questions

        return ask_all(table, questions, spend=spend)

    def treatment(self, asked: CompiledQuestion, *, filled: bool) -> GapTreatment:
        """What is done about gaps; leaving rows out, which leaves out none, if the question looks at no gaps."""
        return self.missing if asked.targets and not filled else Drop()

    def compile(self, schema: Schema, *, at_full_resolution: bool = True) -> CompiledQuestion:
        """Fit the question to a schema; names, values and bins are checked here, before anything is spent."""
        return CompiledQuestion(self, schema, at_full_resolution)

    def fit(self, schema: Schema, *, at_full_resolution: bool) -> tuple[Schema, Estimand, str]:
        """By which cells or bins each column is read, how rows are shared out there, and what the numbers leave out.

        Values are told by their cells; columns with a bin that a condition splits by parts of bins, the others by bins.
        """
        told = schema
        if at_full_resolution:
            finer = refined_columns(self._compared(), schema)
            finer |= {name: schema.finest[name] for name in self._numeric_columns(schema)}
            bins = {name for name in finer if self.missing.uses_majority and schema[name].may_be_missing}
            told = schema.with_columns({name: column for name, column in finer.items() if name not in bins})
        return told, *self._estimand(told)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns by whose cells it has groups."""
        return (self.by,) if isinstance(self.by, str) else tuple(self.by or ())

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:  # noqa: ARG002 some do
        """The columns whose numbers are asked for."""
        return frozenset()

    def _compared(self) -> Condition:
        """All that is compared."""
        return self.condition

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        raise NotImplementedError

    def _head(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        where = f" where {self.where.strip()}" if self.where.strip() else ""
        return self._head() + where + (f" by {', '.join(map(quote_name, self.grouped_by))}" if self.grouped_by else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Question):
    """How many rows there are, or how many for which `where` is true.

    >>> print(Count(where="age >= 20", by="sex"))
    count() where age >= 20 by sex
    """

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:  # noqa: ARG002 rows are rows
        return count_estimand(), ""

    def _head(self) -> str:
        return "count()"


@dataclass(frozen=True, slots=True)
class Proportion(Question):
    """The share of rows for which `of` is true, among those with `where`.

    Rows for which `of` is neither true nor false, because something is not applicable, are left out.

    >>> print(Proportion("smoker == true", where="age >= 20"))
    proportion(smoker == true) where age >= 20
    """

    of: str
    event: Condition = field(init=False, repr=False, compare=False)  # `of`, parsed

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        object.__setattr__(self, "event", parse_condition(self.of))
        if isinstance(self.event, Always):
            raise QuestionError("a proportion needs a condition, and it is empty", hint=CONDITION_HINT)

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        return proportion_estimand(self.event, schema), ""

    def _compared(self) -> Condition:
        return And((self.condition, self.event))

    def _head(self) -> str:
        return f"proportion({self.of.strip()})"


@dataclass(frozen=True, slots=True)
class _NumericQuestion(Question):
    """Questions about the numbers in a column.

    `bounds` are public; values beyond them count as the bound. Without, all cells count as they are. A value counts as
    itself where its cell holds no other, and else as the middle of its cell. *Not applicable* is no number: such rows
    are left out.
    """

    _make_estimand: ClassVar[staticmethod[[CellNumbers], Estimand]]

    column: str
    bounds: Bounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        check_column(self.column, f'{type(self).__name__}("income")')
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _checked(self.bounds))

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        numbers = cell_numbers(schema, known_column(schema, self.column), self.bounds)
        return self._make_estimand(numbers), numbers.caveat

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:
        return frozenset({known_column(schema, self.column)})

    def _head(self) -> str:
        bounds = "" if self.bounds is None else f", {self.bounds[0]:g}, {self.bounds[1]:g}"
        return f"{type(self).__name__.lower()}({quote_name(self.column)}{bounds})"


@dataclass(frozen=True, slots=True)
class Sum(_NumericQuestion):
    """The sum of a column's values."""

    _make_estimand = staticmethod(sum_estimand)


@dataclass(frozen=True, slots=True)
class Mean(_NumericQuestion):
    """The mean of a column's values; its denominator is released with it, and at least one row.

    >>> print(Mean("income", bounds=(0, 100_000), where="age >= 20"))
    mean(income, 0, 100000) where age >= 20
    """

    _make_estimand = staticmethod(mean_estimand)


@dataclass(frozen=True, slots=True)
class Variance(_NumericQuestion):
    """The sample variance of a column's values, over n − 1; n is released with it, and at least two rows."""

    _make_estimand = staticmethod(variance_estimand)


@dataclass(frozen=True, slots=True)
class Quantile(Question):
    """The least value that at least the share `q` of all values is no greater than.

    Chosen among the cells of the column, whatever its bins. Rows with a gap are left out, so `missing=` is `Drop()`; in
    a table that was filled there are none.

    >>> print(Quantile("income", 0.9, by="sex"))
    quantile(income, 0.9) by sex
    """

    column: str
    q: float

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        check_column(self.column, f'{type(self).__name__}("income")')
        if not (is_number(self.q) and 0 < self.q < 1):
            meant = f"{self.q / 100:g} for {self.q:g} %, " if is_number(self.q) and 1 < self.q < 100 else ""
            raise QuestionError(f"q = {self.q!r}", hint=f"a share between 0 and 1: {meant}0.5 for the median")

    def treatment(self, asked: CompiledQuestion, *, filled: bool) -> QuantileRelease:
        """A choice by rank; gaps that would have to be filled are refused."""
        if asked.targets and not filled and not isinstance(self.missing, Drop):
            raise QuestionError(
                f"gaps in {listing(asked.targets)} cannot be filled for a quantile",
                hint=Hint("pass ", Argument("missing", Call("Drop"))) | Hint("ask for a mean"),
            )
        numbers = cell_numbers(asked.schema, self.column, None)
        if (np.diff(numbers.values) <= 0).any():
            raise QuestionError(f"the levels of column {self.column!r} do not rise", hint="a mean, or rising levels")
        return QuantileRelease(numbers, Fraction(float(self.q)).limit_denominator(MOST_QUANTILE_PARTS))

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:
        return frozenset({known_column(schema, self.column)})

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        return count_estimand(self.column), cell_numbers(schema, self.column, None).caveat

    def _head(self) -> str:
        return f"quantile({quote_name(self.column)}, {self.q:g})"


@dataclass(frozen=True, slots=True)
class Median(Quantile):
    """The least value that at least half of all values are no greater than.

    >>> print(Median("income", where="age >= 20"))
    median(income) where age >= 20
    """

    q: float = field(default=0.5, init=False)

    def _head(self) -> str:
        return f"median({quote_name(self.column)})"


AnyQuestion: TypeAlias = Count | Proportion | Sum | Mean | Variance | Quantile


def check_column(column: object, example: str) -> None:
    """Refuse what is no name of a column."""
    if not isinstance(column, str):
        raise QuestionError(f"column is {column!r}", hint=f"the name of one column: {example}")


def _checked(bounds: Bounds) -> Bounds:
    if (
        not isinstance(bounds, list | tuple)
        or len(bounds) != 2
        or not all(is_number(bound) and abs(bound) < math.inf for bound in bounds)
    ):
        raise QuestionError(
            f"bounds are {bounds!r}", hint="the lowest and the highest value, two finite numbers: (0, 100)"
        )
    if not bounds[0] < bounds[1]:
        raise QuestionError(
            f"bounds ({bounds[0]:g}, {bounds[1]:g}) are empty", hint="the first bound must be below the second"
        )
    return float(bounds[0]), float(bounds[1])


KINDS = ("count", "proportion", "sum", "mean", "variance", "median", "quantile")
OF_NUMBERS: dict[str, type[Sum | Mean | Variance]] = {"sum": Sum, "mean": Mean, "variance": Variance}
GRAMMAR = (
    "count(), proportion(CONDITION), sum(COLUMN), mean(COLUMN), variance(COLUMN), median(COLUMN), "
    "quantile(COLUMN, 0.9); then where CONDITION, by COLUMN, COLUMN"
)


def parse_question(text: str, missing: GapTreatment | None = None) -> AnyQuestion:
    """A question from its text.

    >>> parse_question("mean(income, 0, 1000) where age >= 20 by sex")
    Mean(where='age >= 20', by='sex', missing=Drop(), column='income', bounds=(0.0, 1000.0))
    """
    reader = Parser(text)
    kind = reader.current.text.lower()
    if reader.current.kind != "word" or kind not in KINDS:
        called = text.strip().lower().removeprefix(kind).lstrip().startswith("(")  # as mode(age), not in a sentence
        none = f"there is no {kind}; the questions are " if called else ""
        raise reader.error_here("expected a question", hint=none + GRAMMAR)
    reader.advance()
    reader.expect("(", hint=GRAMMAR)
    make = _head(reader, kind)
    reader.expect(")", hint=GRAMMAR)
    where = _condition(reader) if reader.accept("where") else ""
    by = tuple(reader.separated(reader.column, ",")) if reader.accept("by") else None
    if by is not None and reader.current.matches("where"):
        before = reader.text.lower().rfind(" by ")
        raise reader.error_here("where comes before by", hint=f"{text[:before]} where … by {', '.join(by)}")
    if reader.current.kind != "end":
        raise reader.error_here("expected where, by or the end", hint=GRAMMAR)
    return make(where=where, by=by, missing=missing or Drop())


def _head(reader: Parser, kind: str) -> Callable[..., AnyQuestion]:
    """The question, but for what all questions share."""
    if kind == "count":
        return Count
    if kind == "proportion":
        reader.accept("where")
        return partial(Proportion, _condition(reader))
    column = reader.column()
    if kind == "median":
        return partial(Median, column)
    if kind == "quantile":
        example = f"quantile({quote_name(column)}, 0.9)"
        reader.expect(",", hint=example)
        return partial(Quantile, column, _number(reader, example))
    bounds = _bounds(reader, f"{kind}({quote_name(column)}, 0, 100)") if reader.accept(",") else None
    return partial(OF_NUMBERS[kind], column, bounds=bounds)


def _condition(reader: Parser) -> str:
    """The text of the condition that stands here: up to `by`, to a parenthesis that it does not open, or to the end."""
    start, depth = reader.current.position, 0
    while reader.current.kind != "end" and (depth > 0 or not reader.current.matches("by", ")")):
        depth += reader.current.matches("(") - reader.current.matches(")")
        reader.advance()
    if text := reader.text[start : reader.current.position].strip():
        return text
    raise reader.error_here("expected a column")


def _bounds(reader: Parser, example: str) -> tuple[float, float]:
    low = _number(reader, example)
    reader.expect(",", hint=example)
    return low, _number(reader, example)


def _number(reader: Parser, example: str) -> float:
    text = reader.value()
    try:
        return float(text)
    except ValueError:
        raise QuestionError(f"{text!r} is not a number", hint=example) from None
