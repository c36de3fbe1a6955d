"""Questions to a table: frozen, public, and each able to answer itself from a sealed table under a grant."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeAlias

from gapless.arguments import is_number
from gapless.data import PrivateTable
from gapless.errors import QuestionError
from gapless.privacy import Grant
from gapless.query.answers import Answer
from gapless.query.compiled import (
    Compiled,
    Shape,
    compile_question,
    count_shape,
    mean_shape,
    proportion_shape,
    sum_shape,
    variance_shape,
)
from gapless.query.condition import EXAMPLE, Always, known, parse_condition, quoted
from gapless.query.numbers import Numbers, numbers_of
from gapless.query.treatments import Drop, Missing
from gapless.schema import Schema

Bounds: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """What all questions share: which rows, in which groups, and what is done about gaps.

    Groups are all cells of a column as the schema lists them, so that their names tell nothing. A row is in one group:
    all groups together cost as much as one.
    """

    where: str = ""
    by: str | None = None
    missing: Missing = field(default_factory=Drop)

    def __post_init__(self) -> None:
        parse_condition(self.where)
        if not (self.by is None or isinstance(self.by, str)):
            raise QuestionError(f"by is {self.by!r}", hint='the name of one column: by="sex"')
        if not callable(getattr(self.missing, "answer", None)):
            raise QuestionError(
                f"missing is {self.missing!r}", hint="Drop(), Knn(neighbors=1, on=[…]) or HotDeck(cells=[…])"
            )

    def answer(self, table: PrivateTable, grant: Grant) -> Answer:
        """Release what is needed within the grant. Gaps are filled only where the question looks at some."""
        return self.treatment(table.schema, filled=table.filled).answer(self, table, grant)

    def treatment(self, schema: Schema, *, filled: bool) -> Missing:
        """What is done about gaps; leaving rows out, which leaves out none, if the question looks at no gaps."""
        return self.missing if self.compile(schema).targets and not filled else Drop()

    def compile(self, schema: Schema) -> Compiled:
        """Fit the question to a schema; names, values and bins are checked here, before anything is spent."""
        shape, about = self._shape(schema)
        return compile_question(
            str(self), shape, where=parse_condition(self.where), by=self.by, schema=schema, about=about
        )

    def _shape(self, schema: Schema) -> tuple[Shape, str]:
        raise NotImplementedError

    def _head(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        where = f" where {self.where.strip()}" if self.where.strip() else ""
        return self._head() + where + (f" by {quoted(self.by)}" if self.by is not None else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Count(_Question):
    """How many rows there are, or how many for which `where` is true.

    >>> print(Count(where="age >= 20", by="sex"))
    count() where age >= 20 by sex
    """

    def _shape(self, schema: Schema) -> tuple[Shape, str]:  # noqa: ARG002 rows are rows
        return count_shape(), ""

    def _head(self) -> str:
        return "count()"


@dataclass(frozen=True, slots=True)
class Proportion(_Question):
    """The share of rows for which `of` is true, among those with `where`.

    Rows for which `of` is neither true nor false, because something is not applicable, are left out.

    >>> print(Proportion("smoker == true", where="age >= 20"))
    proportion(smoker == true) where age >= 20
    """

    of: str

    def __post_init__(self) -> None:
        _Question.__post_init__(self)
        if isinstance(parse_condition(self.of), Always):
            raise QuestionError("a proportion of what?", hint=f"a condition: {EXAMPLE}")

    def _shape(self, schema: Schema) -> tuple[Shape, str]:
        return proportion_shape(parse_condition(self.of), schema), ""

    def _head(self) -> str:
        return f"proportion({self.of.strip()})"


@dataclass(frozen=True, slots=True)
class _OfNumbers(_Question):
    """Questions about the numbers in a column.

    `bounds` are public; values beyond them count as the bound. Without, all cells count as they are. A value of a
    binned column counts as the middle of its bin. *Not applicable* is no number: such rows are left out.
    """

    column: str
    bounds: Bounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        _Question.__post_init__(self)
        if not isinstance(self.column, str):
            raise QuestionError(f"column is {self.column!r}", hint='the name of one column: Mean("income")')
        if self.bounds is not None:
            object.__setattr__(self, "bounds", _checked(self.bounds))

    def _shape(self, schema: Schema) -> tuple[Shape, str]:
        numbers = numbers_of(schema, known(schema, self.column), self.bounds)
        return self._shape_of(numbers), numbers.about

    def _shape_of(self, numbers: Numbers) -> Shape:
        raise NotImplementedError

    def _head(self) -> str:
        bounds = "" if self.bounds is None else f", {self.bounds[0]:g}, {self.bounds[1]:g}"
        return f"{type(self).__name__.lower()}({quoted(self.column)}{bounds})"


@dataclass(frozen=True, slots=True)
class Sum(_OfNumbers):
    """The sum of a column's values."""

    def _shape_of(self, numbers: Numbers) -> Shape:
        return sum_shape(numbers)


@dataclass(frozen=True, slots=True)
class Mean(_OfNumbers):
    """The mean of a column's values; its denominator is released with it, and at least one row.

    >>> print(Mean("income", bounds=(0, 100_000), where="age >= 20"))
    mean(income, 0, 100000) where age >= 20
    """

    def _shape_of(self, numbers: Numbers) -> Shape:
        return mean_shape(numbers)


@dataclass(frozen=True, slots=True)
class Variance(_OfNumbers):
    """The sample variance of a column's values, over n − 1; n is released with it, and at least two rows."""

    def _shape_of(self, numbers: Numbers) -> Shape:
        return variance_shape(numbers)


AnyQuestion: TypeAlias = Count | Proportion | Sum | Mean | Variance


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
