"""Questions about the rows of a table and the numbers of a column."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, ClassVar, TypeAlias

import numpy as np

from gapless.constraints.grammar import CONDITION_HINT, Always, And, Condition, parse_condition, quote_name
from gapless.data import PrivateTable
from gapless.data.sums import MOST_QUANTILE_PARTS
from gapless.errors import Argument, Call, Hint, QuestionError
from gapless.privacy import Grant, Spend
from gapless.query.answers import Answer, Estimate
from gapless.query.compiled import (
    CompiledQuestion,
    Estimand,
    count_estimand,
    group_labels,
    mean_estimand,
    proportion_estimand,
    sum_estimand,
    variance_estimand,
)
from gapless.query.condition import known_column, refined_columns
from gapless.query.numbers import CellNumbers, cell_numbers
from gapless.query.quantiles import QuantileRelease
from gapless.query.row_classes import RowClasses
from gapless.query.treatments import Drop, GapTreatment, checked_names
from gapless.schema import Schema
from gapless.text import listing
from gapless.types import is_number

Bounds: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """The common fields of all questions: rows, groups and treatment of gaps.

    Groups are all cells of a column in the schema, or all combinations of several columns, so their names reveal
    nothing. A row is in one group, so all groups together cost as much as one.

    With `per_person` each person weighs 1: its part is the mean over its rows that the question counts, and a person
    with rows in several groups is divided among them. So the noise does not grow with the number of rows of a person.
    Otherwise each kept row weighs 1. With `all_rows`, the answer to `RowsPerPerson(20)`, the answer is about all rows
    of the data: weights undo the limit, and a person weighs about as many rows as it has (`gapless.query.row_classes`).
    """

    can_be_per_person: ClassVar[bool] = False

    where: str = ""
    by: str | Sequence[str] | None = None  # kept as a name, or a tuple of several
    missing: GapTreatment = field(default_factory=Drop)
    per_person: bool = field(default=False, repr=False)
    all_rows: Answer | None = field(default=None, repr=False)
    row_classes: RowClasses | None = field(init=False, repr=False, compare=False, default=None)
    condition: Condition = field(init=False, repr=False, compare=False)  # `where`, parsed

    def __post_init__(self) -> None:
        object.__setattr__(self, "condition", parse_condition(self.where))
        if not (self.by is None or isinstance(self.by, str)):
            names = checked_names(self.by, "by")
            if not names:
                raise QuestionError(
                    "by is an empty list, but it must name a column",
                    hint=Hint("pass ", Argument("by", "sex")) | Hint("leave ", Argument("by"), " out"),
                )
            object.__setattr__(self, "by", names if len(names) > 1 else names[0])
        if isinstance(self.missing, type) or not callable(getattr(self.missing, "answer", None)):
            raise QuestionError(
                f"missing must be a treatment of gaps for questions, got {self.missing!r}",
                hint=Hint("pass ", Argument("missing", Call("Drop")))
                | Hint("pass ", Argument("missing", Call("Knn", Argument("on", ["age", "sex"]))))
                | Hint("pass ", Argument("missing", Call("HotDeck", Argument("on", ["age", "sex"])))),
            )
        self._check_weights()

    def _check_weights(self) -> None:
        """Refuse weights of persons for questions that are about rows, and parse them."""
        if self.per_person not in (True, False) or (self.needs_persons and not self.can_be_per_person):
            given = "per person" if self.per_person is True else "with all_rows"
            if self.per_person not in (True, False):
                given = f"with per_person = {self.per_person!r}"
            raise QuestionError(
                f"only counts, shares, means and cross tables can weigh persons, got {self._head()} {given}",
                hint="ask for a mean per person, or ask per row",
            )
        if self.all_rows is not None:
            if self.per_person:
                raise QuestionError(
                    "a question is per person or about all rows, but both per_person and all_rows are given",
                    hint=Hint("leave ", Argument("all_rows"), " out"),
                )
            object.__setattr__(self, "row_classes", RowClasses.of(self.all_rows))

    def answer(self, table: PrivateTable, grant: Grant) -> Answer:
        """Answer from a sealed table under a grant. Gaps are filled only in columns that the question reads."""
        asked = self.compile(table.schema)
        return self.treatment(asked, filled=table.is_filled).answer(asked, table, grant)

    def answer_together(self, table: PrivateTable, questions: Sequence[Any], *, spend: Spend) -> list[Answer]:
        """Answer several questions, this one among them: see `ask_all`."""
        from gapless.query.ask import ask_all  # noqa: PLC0415 a circular import

        return ask_all(table, questions, spend=spend)

    def treatment(self, asked: CompiledQuestion, *, filled: bool) -> GapTreatment:
        """The treatment of gaps: `Drop`, which then drops no row, if the question reads no column with gaps."""
        if self.needs_persons and not isinstance(self.missing, Drop):
            raise QuestionError(
                "gaps cannot be filled for a question that weighs persons",
                hint=Hint("pass ", Argument("missing", Call("Drop"))) | Hint("ask per row"),
            )
        return self.missing if asked.targets and not filled else Drop()

    def compile(self, schema: Schema, *, at_full_resolution: bool = True) -> CompiledQuestion:
        """Compile the question for a schema. Checks names, values and bins before anything is spent."""
        return CompiledQuestion(self, schema, at_full_resolution)

    def fit(self, schema: Schema, *, at_full_resolution: bool) -> tuple[Schema, Estimand, str]:
        """The schema with the cells or bins to read, the estimand, and a caveat.

        A column whose numbers are asked for is read by cells. A column with a bin that a condition splits is read by
        parts of bins, others by bins.
        """
        refined = schema
        if at_full_resolution:
            finer = refined_columns(self._compared(), schema)
            finer |= {name: schema.finest[name] for name in self._numeric_columns(schema)}
            bins = {name for name in finer if self.missing.uses_majority and schema[name].may_be_missing}
            refined = schema.with_columns({name: column for name, column in finer.items() if name not in bins})
        return refined, *self._estimand(refined)

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns that define the groups."""
        return (self.by,) if isinstance(self.by, str) else tuple(self.by or ())

    @property
    def needs_persons(self) -> bool:
        """Whether only a table whose persons are known has the answer."""
        return self.per_person or self.all_rows is not None

    def check_is_per_row(self, answered: str) -> None:
        """Refuse a question about persons where only rows are known."""
        if self.needs_persons:
            raise QuestionError(
                f"{answered} does not know which rows are of one person, which {self} needs",
                hint=Hint("ask per row") | Hint("ask the private table"),
            )

    def groups(self, schema: Schema) -> tuple[tuple[str, ...], ...] | None:
        """The cells of each group, or None."""
        return group_labels(schema, self.grouped_by) if self.grouped_by else None

    def advice(self, estimates: Sequence[Estimate]) -> str:  # noqa: ARG002 the question of rows per person does
        """What follows from the released numbers."""
        return ""

    def levels(self, schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]] | None:  # noqa: ARG002 a cross table does
        """The names of the rows and columns of a cross table of two columns; else None."""
        return None

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:  # noqa: ARG002 some do
        """The columns whose numbers are asked for."""
        return frozenset()

    def _compared(self) -> Condition:
        """All conditions of the question, as one."""
        return self.condition

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        raise NotImplementedError

    def _head(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        where = f" where {self.where.strip()}" if self.where.strip() else ""
        by = (self.by,) if isinstance(self.by, str) else self.by or ()
        per = " per person" if self.per_person else " over all rows" if self.all_rows is not None else ""
        return self._head() + per + where + (f" by {', '.join(map(quote_name, by))}" if by else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(Question):
    """The number of rows, or of rows for which `where` is true. Per person: the number of persons with such a row.

    >>> print(Count(where="age >= 20", by="sex"))
    count() where age >= 20 by sex
    """

    can_be_per_person: ClassVar[bool] = True

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:  # noqa: ARG002 rows are rows
        return count_estimand(), ""

    def _head(self) -> str:
        return "count()"


@dataclass(frozen=True, slots=True)
class Proportion(Question):
    """The share of rows for which `of` is true, among those with `where`. Per person: the mean of their shares.

    Rows for which `of` is neither true nor false, because something is not applicable, are left out.

    >>> print(Proportion("smoker == true", where="age >= 20"))
    proportion(smoker == true) where age >= 20
    """

    can_be_per_person: ClassVar[bool] = True

    of: str
    event: Condition = field(init=False, repr=False, compare=False)  # `of`, parsed

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        object.__setattr__(self, "event", parse_condition(self.of))
        if isinstance(self.event, Always):
            raise QuestionError("a proportion needs a condition, but the condition is empty", hint=CONDITION_HINT)

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        return proportion_estimand(self.event, schema), ""

    def _compared(self) -> Condition:
        return And((self.condition, self.event))

    def _head(self) -> str:
        return f"proportion({self.of.strip()})"


@dataclass(frozen=True, slots=True)
class _NumericQuestion(Question):
    """Questions about the numbers in a column.

    `bounds` are public, and values are clamped to them. A value counts as itself if its cell has no other value, else
    as the middle of its cell. Rows that are *not applicable* are left out.
    """

    _make_estimand: ClassVar[staticmethod[[CellNumbers], Estimand]]

    column: str
    bounds: Bounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        check_column(self.column, f'{type(self).__name__}("income")')
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _checked_bounds(self.bounds))

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
    """The mean of a column's values. Its denominator is released with it, and is at least one row.

    Per person: the mean of the persons' means.

    >>> print(Mean("income", bounds=(0, 100_000), where="age >= 20"))
    mean(income, 0, 100000) where age >= 20
    """

    can_be_per_person: ClassVar[bool] = True

    _make_estimand = staticmethod(mean_estimand)


@dataclass(frozen=True, slots=True)
class Variance(_NumericQuestion):
    """The sample variance of a column's values, over n − 1. n is released with it, and is at least 2."""

    _make_estimand = staticmethod(variance_estimand)


@dataclass(frozen=True, slots=True)
class Quantile(Question):
    """The smallest value such that at least the share `q` of all values is at most this value.

    It is chosen among the cells of the column, whatever its bins. Rows with a gap are left out, so `missing=` must be
    `Drop()` unless the table was filled.

    >>> print(Quantile("income", 0.9, by="sex"))
    quantile(income, 0.9) by sex
    """

    _EXAMPLE: ClassVar[str] = 'Quantile("income", 0.9)'

    column: str
    q: float

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        check_column(self.column, self._EXAMPLE)
        if not (is_number(self.q) and 0 < self.q < 1):
            is_percent = is_number(self.q) and 1 < self.q < 100
            hint = f"write {self.q / 100:g} for {self.q:g} %" if is_percent else "write 0.5 for the median"
            raise QuestionError(f"the share q of a quantile must be above 0 and below 1, got {self.q!r}", hint=hint)

    def treatment(self, asked: CompiledQuestion, *, filled: bool) -> QuantileRelease:
        """The release of a quantile. Refuses treatments that fill gaps."""
        if asked.targets and not filled and not isinstance(self.missing, Drop):
            raise QuestionError(
                f"gaps in {listing(asked.targets)} cannot be filled for a median or quantile",
                hint=Hint("pass ", Argument("missing", Call("Drop"))) | Hint("ask for a mean"),
            )
        numbers = cell_numbers(asked.schema, self.column, None)
        if (np.diff(numbers.values) <= 0).any():
            raise QuestionError(
                f"a median or quantile needs levels in rising order, but those of column {self.column!r} do not rise",
                hint="write the levels of the column in rising order in the schema, or ask for a mean",
            )
        return QuantileRelease(numbers, Fraction(float(self.q)).limit_denominator(MOST_QUANTILE_PARTS))

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:
        return frozenset({known_column(schema, self.column)})

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        return count_estimand(self.column), cell_numbers(schema, self.column, None).caveat

    def _head(self) -> str:
        return f"quantile({quote_name(self.column)}, {self.q:g})"


@dataclass(frozen=True, slots=True)
class Median(Quantile):
    """The smallest value such that at least half of all values are at most this value.

    >>> print(Median("income", where="age >= 20"))
    median(income) where age >= 20
    """

    _EXAMPLE: ClassVar[str] = 'Median("income")'

    q: float = field(default=0.5, init=False)

    def _head(self) -> str:
        return f"median({quote_name(self.column)})"


def check_column(column: object, example: str) -> None:
    """Refuse a column that is not given by its name."""
    if not isinstance(column, str):
        raise QuestionError(f"column must be the name of one column, got {column!r}", hint=f"write {example}")


def _checked_bounds(bounds: Bounds) -> Bounds:
    if (
        not isinstance(bounds, list | tuple)
        or len(bounds) != 2
        or not all(is_number(bound) and abs(bound) < math.inf for bound in bounds)
    ):
        raise QuestionError(
            f"bounds must be two finite numbers, got {bounds!r}",
            hint=Hint("pass the lower and the upper bound, such as ", Argument("bounds", (0, 100))),
        )
    if not bounds[0] < bounds[1]:
        raise QuestionError(
            f"the first bound must be below the second, got {bounds[0]:g} and {bounds[1]:g}",
            hint="write two different bounds, the lower one first",
        )
    return float(bounds[0]), float(bounds[1])
