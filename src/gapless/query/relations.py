"""Questions about relations between columns: cross tables, correlations and regressions.

A private table answers cross tables: one histogram. Correlations and regressions are estimated from a release
(`gapless.pool`), where they cost nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NoReturn

from gapless.constraints.grammar import quote_name
from gapless.errors import Argument, Hint, QuestionError
from gapless.query.compiled import CompiledQuestion, Estimand, check_declared_bins, count_estimand
from gapless.query.condition import MAX_VALUES, known_column
from gapless.query.numbers import cell_numbers
from gapless.query.questions import Question, check_column
from gapless.query.treatments import checked_names
from gapless.schema import Boolean, Categorical, Ordinal, Schema
from gapless.schema.columns import Column


def _check_no_groups(question: Question, kind: str) -> None:
    if question.by is not None:
        raise QuestionError(
            f"a {kind} has no groups, got by={question.by!r}",
            hint=Hint("leave ", Argument("by"), " out") | Hint("ask for the rows of one group, as in where sex == F"),
        )


def _check_pair(column: object, other: object, example: str) -> None:
    for name in (column, other):
        check_column(name, example)
    if column == other:
        raise QuestionError(
            f"a relation needs two different columns, got {column!r} twice", hint=f"write two columns: {example}"
        )


@dataclass(frozen=True, slots=True)
class CrossTable(Question):
    """The rows in each combination of the cells of two columns, or in each cell of one.

    A private table answers with the number of rows in each cell. All cells are one release: a row is in one of them.
    Copies of a release answer with the share of each cell among all rows, for the population.

    >>> print(CrossTable("sex", "smoker", where="age >= 20"))
    table(sex, smoker) where age >= 20
    """

    can_be_per_person: ClassVar[bool] = True
    _EXAMPLE: ClassVar[str] = 'CrossTable("sex", "smoker")'

    column: str
    other: str | None = None

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        _check_pair(self.column, "" if self.other is None else self.other, self._EXAMPLE)
        _check_no_groups(self, "cross table")

    @property
    def grouped_by(self) -> tuple[str, ...]:
        """The columns of the table: every cell is a group."""
        return (self.column,) if self.other is None else (self.column, self.other)

    def levels(self, schema: Schema) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
        """The names of the rows and columns of a table of two columns; None for one column."""
        if self.other is None:
            return None
        rows, columns = (schema[name].cells[: schema[name].size] for name in (self.column, self.other))
        return tuple(rows), tuple(columns)

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:  # noqa: ARG002 rows are rows
        return count_estimand(), f"each number counts {'persons' if self.per_person else 'rows'}"

    def _head(self) -> str:
        return f"table({', '.join(map(quote_name, self.grouped_by))})"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Estimated(Question):
    """Questions that copies of a release answer, but no private table."""

    def treatment(self, asked: CompiledQuestion, *, filled: bool) -> NoReturn:  # noqa: ARG002 of no table
        """Refuse a private table, before anything is spent."""
        raise QuestionError(
            f"private rows do not answer {asked.text}, which a release answers without cost",
            hint=f"use a release: run gapless estimate release/ '{asked.text}'",
        )


@dataclass(frozen=True, slots=True)
class Correlation(_Estimated):
    """Pearson's correlation of the numbers of two columns.

    >>> print(Correlation("age", "income", by="sex"))
    corr(age, income) by sex
    """

    _EXAMPLE: ClassVar[str] = 'Correlation("age", "income")'
    _NAME: ClassVar[str] = "corr"

    column: str
    other: str

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        _check_pair(self.column, self.other, self._EXAMPLE)

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:
        return frozenset(known_column(schema, name) for name in (self.column, self.other))

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        for name in (self.column, self.other):
            cell_numbers(schema, name, None)  # refuse a column without numbers
        return count_estimand(self.column, self.other), "Pearson's correlation"

    def _head(self) -> str:
        return f"{self._NAME}({quote_name(self.column)}, {quote_name(self.other)})"


@dataclass(frozen=True, slots=True)
class RankCorrelation(Correlation):
    """Spearman's rank correlation of two columns whose cells have an order: numbers, dates or ordered levels.

    >>> print(RankCorrelation("age", "grade"))
    spearman(age, grade)
    """

    _EXAMPLE: ClassVar[str] = 'RankCorrelation("age", "grade")'
    _NAME: ClassVar[str] = "spearman"

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        for name in (self.column, self.other):
            if isinstance(schema[known_column(schema, name)], Categorical):
                raise QuestionError(
                    f"a rank correlation needs cells with an order, but column {name!r} has kind categorical",
                    hint=f'write kind = "ordinal" for {name!r} in the schema if its levels have an order',
                )
        return count_estimand(self.column, self.other), "Spearman's rank correlation"


@dataclass(frozen=True, slots=True)
class Regression(_Estimated):
    """The coefficients of a linear or logistic regression with an intercept.

    Levels without numbers, and true or false, enter as dummy variables: each against the first level. A logistic
    regression is about the second of the two levels of its outcome.

    >>> print(Regression("income", ["age", "sex"]))
    ols(income ~ age + sex)
    >>> print(Regression("smoker", ["age"], logistic=True))
    logit(smoker ~ age)
    """

    outcome: str
    regressors: Sequence[str]  # kept as a tuple
    logistic: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        Question.__post_init__(self)
        check_column(self.outcome, 'Regression("income", ["age", "sex"])')
        object.__setattr__(self, "regressors", checked_names(self.regressors, "regressors"))
        if not self.regressors or self.outcome in self.regressors:
            raise QuestionError(
                f"a regression of {self.outcome!r} needs other columns as regressors, got {list(self.regressors)}",
                hint="name the outcome, then other columns, as in ols(income ~ age + sex)",
            )
        _check_no_groups(self, "regression")

    @property
    def columns(self) -> tuple[str, ...]:
        """The regressors, then the outcome."""
        return (*self.regressors, self.outcome)

    def _numeric_columns(self, schema: Schema) -> frozenset[str]:
        return frozenset(name for name in self.columns if not is_dummy(schema[known_column(schema, name)]))

    def _estimand(self, schema: Schema) -> tuple[Estimand, str]:
        dummies = [name for name in self.regressors if is_dummy(schema[name])]
        check_declared_bins(schema, dummies, "use as dummy variables")
        for name in self.columns[: None if not self.logistic else -1]:
            column = schema[name]
            if name in dummies:
                check_few_levels(column)
            else:
                cell_numbers(schema, name, None)  # refuse a column without numbers
        notes = [f"coefficients of {name} are differences from {schema[name].cells[0]}" for name in dummies]
        if self.logistic:
            outcome = schema[self.outcome]
            if outcome.values_size != 2:
                raise QuestionError(
                    f"the outcome of a logistic regression must have two levels, but column {self.outcome!r} has "
                    f"{outcome.values_size:,}",
                    hint="choose a column with two levels, or write ols in place of logit for a column of numbers",
                )
            notes.insert(0, f"coefficients are log odds of {self.outcome} == {outcome.cells[1]}")
        return count_estimand(*self.columns), "; ".join(notes)

    def _head(self) -> str:
        right = " + ".join(map(quote_name, self.regressors))
        return f"{'logit' if self.logistic else 'ols'}({quote_name(self.outcome)} ~ {right})"


def is_dummy(column: Column) -> bool:
    """Whether a regression uses the levels of a column as dummy variables, and not its numbers."""
    if isinstance(column, Boolean | Categorical):
        return True
    return isinstance(column, Ordinal) and not all(type(level) in (int, float) for level in column.levels)


def check_few_levels(column: Column) -> None:
    """Refuse a column with too many levels for dummy variables."""
    if column.size > MAX_VALUES:
        raise QuestionError(
            f"a regressor may have at most {MAX_VALUES} levels, but column {column.name!r} has {column.size:,}",
            hint="choose a column with fewer levels, or merge levels in the schema",
        )
