r"""A question fitted to a schema: what each row adds, and how the answer follows from the sums.

Every row shares out one unit among a few parts, so that one release of the vector of sums pays for all that an answer
needs, its denominator included:

========== ============================== =====================================================
question   a row adds                     answer
========== ============================== =====================================================
count      1                              the sum, at least 0
sum        v / max(|a|, |b|)              the sum · max(|a|, |b|)
proportion (1, 0) if true, (0, 1) if not  p₁ / (p₁ + p₂)
mean       (u, 1 - u)                     a + (b - a) p₁ / (p₁ + p₂)
variance   (u², u - u², 1 - u)            (b - a)² (p₁ - (p₁ + p₂)² / n) / (n - 1), n = p₁ + p₂ + p₃
========== ============================== =====================================================

with u = (v - a) / (b - a). Groups lie side by side: a row is in one of them. The absolute parts of a row add up to at
most 1, so one row moves the whole vector, groups and all, by at most 1 in L1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from gapless.constraints.grammar import Condition, gap_columns, required_columns, value_columns
from gapless.data.private_table import check_question
from gapless.data.row_contribution import CodesByName, Groups, RowContribution, bin_of_code
from gapless.errors import QuestionError
from gapless.query.answers import Estimate, Noise, ratio_interval, variance_interval
from gapless.query.condition import MOST_VALUES, TRUE, compile_condition, known_column
from gapless.query.numbers import FOR_SQUARES, CellNumbers
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.types import Floats, Integers

if TYPE_CHECKING:
    from gapless.query.questions import Question

MOST_GROUPS = 1 << 16


@dataclass(frozen=True)
class Estimand:
    """How one kind of question shares a row out, and how it reads the sums: a `Total`, a `Ratio` or a `Spread`.

    Attributes:
        parts: what rows add, rows × width, before `where` and `by`.
        unit: the most that the absolute parts of a row add up to.
        value_columns: the columns whose values it looks at.
        gap_columns: the columns whose gaps it looks at.
        required_columns: a row with a gap in one of these columns adds nothing.
    """

    width: ClassVar[int]  # the number of parts
    is_ratio: ClassVar[bool] = True  # whether the noise on the answer depends on the number of rows

    parts: Callable[[CodesByName], Integers]
    unit: int
    value_columns: frozenset[str] = field(default=frozenset(), kw_only=True)
    gap_columns: frozenset[str] = field(default=frozenset(), kw_only=True)
    required_columns: frozenset[str] = field(default=frozenset(), kw_only=True)
    low: float = field(default=0.0, kw_only=True)
    high: float = field(default=1.0, kw_only=True)

    @property
    def std_factor(self) -> float:
        """The noise on the answer, in noise on a part; for ratios: times the number of rows, at most."""
        return self.high - self.low

    def noise_limit(self, noise: Noise) -> float:
        """What the noise on the answer stays below in 95 % of runs; for ratios: times the number of rows, at most."""
        return noise.limit() * self.std_factor

    @property
    def max_error(self) -> float:
        """How far the answer can be from the true one at all."""
        return math.inf

    def estimate(self, parts: Floats) -> float:
        """The answer from the sums of parts, in units."""
        raise NotImplementedError

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """Its 95 % interval."""
        raise NotImplementedError


@dataclass(frozen=True)
class TotalEstimand(Estimand):
    """A count or a sum: one part, `scale` times which is the answer, but not below `least`.

    What a row adds is between `low` and `high`, in units.
    """

    width = 1
    is_ratio = False

    scale: float = 1.0
    least: float = 0.0

    @property
    def std_factor(self) -> float:
        """A unit in the answer."""
        return self.scale

    def estimate(self, parts: Floats) -> float:
        """The sum."""
        return max(self.least, float(parts[0]) * self.scale)

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """As far around the sum as the noise reaches."""
        t = noise.limit()
        low, high = ((float(parts[0]) + limit) * self.scale for limit in (-t, t))
        return max(self.least, low), max(self.least, high)


class RatioEstimand(Estimand):
    r"""A proportion or a mean of values from `low` to `high`: (u, 1 - u).

    With n rows, ratio r and noises Z, Z′ on the parts, the answer is too high by t if
    :math:`(1 - r - t) Z - (r + t) Z' > tn`. It lies between 0 and 1, so :math:`r + t \le 1`, and the noise on the left
    exceeds a limit no more often than Z alone: 95 % of answers are within the limit of Z, divided by n. The same holds
    for answers that are too low.
    """

    width = 2

    @property
    def max_error(self) -> float:
        """The width of the range: all answers are in it."""
        return self.std_factor

    def estimate(self, parts: Floats) -> float:
        """The first part as a share of both, of at least one row, on the line of values."""
        part, rest = map(float, parts)
        return self.low + (self.high - self.low) * min(1.0, max(0.0, part / max(1.0, part + rest)))

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """The ratios that the noise does not speak against, on the line of values."""
        low, high = ratio_interval(float(parts[0]), float(parts[1]), noise)
        return self.low + (self.high - self.low) * low, self.low + (self.high - self.low) * high


class VarianceEstimand(Estimand):
    """A variance of values from `low` to `high`: (u², u - u², 1 - u).

    To first order it moves by (1 - m)², -m (2 - m) and m² times the noises on these, divided by the number of rows,
    with m the mean: the most where m = 1, by the difference of two noises.
    """

    width = 3

    @property
    def scale(self) -> float:
        """The variance of values with a standard deviation of the whole range."""
        return (self.high - self.low) ** 2

    @property
    def std_factor(self) -> float:
        """The difference of two noises."""
        return math.sqrt(2) * self.scale

    def noise_limit(self, noise: Noise) -> float:
        """What the noise on the answer stays below in 95 % of runs, times the number of rows, at most."""
        return noise.limit_of_difference() * self.std_factor / math.sqrt(2)

    @property
    def max_error(self) -> float:
        """A variance of values between 0 and 1 is at most 1/2, with one row less in the denominator."""
        return self.std_factor / math.sqrt(2) / 2

    def estimate(self, parts: Floats) -> float:
        """The sample variance, of at least two rows: 1/2 at most on a line from 0 to 1."""
        squares, values, rows = float(parts[0]), float(parts[:2].sum()), max(2.0, float(parts.sum()))
        return min(0.5, max(0.0, (squares - values**2 / rows) / (rows - 1))) * self.scale

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """Variances that limits on all three noises allow."""
        low, high = variance_interval(parts, noise)
        return low * self.scale, high * self.scale


def count_estimand(column: str | None = None) -> Estimand:
    """How many rows, or how many with a value in a column."""
    only = frozenset() if column is None else frozenset({column})

    def parts(rows: CodesByName) -> Integers:
        return np.ones((len(next(iter(rows.values()))), 1), dtype=np.int64)

    return TotalEstimand(parts, 1, value_columns=only, required_columns=only)


def sum_estimand(numbers: CellNumbers) -> Estimand:
    """The sum of the values."""
    sizes, step = numbers.signed_steps
    unit = int(np.abs(sizes).max())
    low, high = min(0, int(sizes.min())) / unit, max(0, int(sizes.max())) / unit
    return _of_values(TotalEstimand, numbers, [sizes], unit, low=low, high=high, scale=unit * step, least=-math.inf)


def proportion_estimand(condition: Condition, schema: Schema) -> Estimand:
    """The share of rows for which a condition is true, among those for which it is true or false."""
    truth = compile_condition(condition, schema)

    def parts(rows: CodesByName) -> Integers:
        known_truth = truth(rows)
        return np.stack([known_truth == TRUE, known_truth == -TRUE], axis=1).astype(np.int64)

    return RatioEstimand(parts, 1, value_columns=value_columns(condition), gap_columns=gap_columns(condition))


def mean_estimand(numbers: CellNumbers) -> Estimand:
    """The mean of the values."""
    steps, size = numbers.steps_above_low()
    return _of_values(RatioEstimand, numbers, [steps, size - steps], size, low=numbers.low, high=numbers.high)


def variance_estimand(numbers: CellNumbers) -> Estimand:
    """The sample variance of the values."""
    steps, size = numbers.steps_above_low(FOR_SQUARES)
    parts = [steps**2, steps * size - steps**2, size**2 - steps * size]
    return _of_values(VarianceEstimand, numbers, parts, size**2, low=numbers.low, high=numbers.high)


def _of_values(kind: type[Estimand], numbers: CellNumbers, parts: list[Integers], unit: int, **more: Any) -> Estimand:
    """A shape whose parts are looked up by the cell of one column."""
    column, size = numbers.column, len(parts[0])
    table = np.zeros((size + 1, len(parts)), dtype=np.int64)  # the last row for cells without a value
    table[:size] = np.stack(parts, axis=1)
    only = frozenset({column})
    return kind(
        lambda rows: table[np.minimum(rows[column].astype(np.int64), size)],  # 256 cells may be codes of 8 bits
        unit,
        value_columns=only,
        required_columns=only,
        **more,
    )


@dataclass(frozen=True)
class CompiledQuestion:
    """A question of ours fitted to a schema: names, values and bins are checked here, before anything is spent.

    All else follows from these three and cannot be given: what rows are handed to comes from nowhere else.

    Attributes:
        question: the question.
        declared_schema: the schema as it is declared; groups are its bins.
        at_full_resolution: whether the question may look at more than bins.
        text: the question in words.
        schema: by which cells or bins it reads each column.
        estimand: how rows are shared out.
        contribution: what each row adds, `where` and `by` considered.
        row_count: how many rows the answer is about, gaps in the shape's columns not considered.
        groups: the cells that each group is of, or None.
        targets: columns with values that the question looks at and that may be missing.
        gap_columns: columns whose gaps it looks at.
        is_row_count_filled: whether the number of rows that the answer is about depends on how these are filled.
        caveat: what the numbers leave out.
    """

    question: Question
    declared_schema: Schema
    at_full_resolution: bool = True
    text: str = field(init=False)
    schema: Schema = field(init=False)
    estimand: Estimand = field(init=False)
    contribution: RowContribution = field(init=False)
    row_count: RowContribution = field(init=False)
    groups: tuple[tuple[str, ...], ...] | None = field(init=False)
    targets: tuple[str, ...] = field(init=False)
    gap_columns: frozenset[str] = field(init=False)
    is_row_count_filled: bool = field(init=False)
    caveat: str = field(init=False)

    def __post_init__(self) -> None:
        check_question(self.question)
        declared = self.declared_schema
        where, by = self.question.condition, self.question.grouped_by
        schema, estimand, caveat = self.question.fit(declared, at_full_resolution=self.at_full_resolution)
        truth = compile_condition(where, schema)
        chosen = value_columns(where) | frozenset(known_column(schema, name) for name in by)
        values = estimand.value_columns | chosen
        gaps = estimand.gap_columns | gap_columns(where)
        groups = group_labels(declared, by) if by else None
        # Complete cases: what is looked at must be observed, except where the question itself looks at gaps.
        choosing = required_columns(where) | frozenset(by) | (chosen - gaps)
        contribution = RowContribution(
            columns=tuple(name for name in schema.names if name in values | gaps),
            value=lambda rows: np.where((truth(rows) == TRUE)[:, None], estimand.parts(rows), 0),
            components=estimand.width,
            unit=estimand.unit,
            by=tuple(Groups(name, bin_of_code(schema[name], declared[name]), declared[name].size) for name in by),
            signed=isinstance(estimand, TotalEstimand) and estimand.low < 0,
            needs=choosing | estimand.required_columns | (estimand.value_columns - gaps),
        )
        targets = tuple(column.name for column in schema.columns if column.name in values and column.may_be_missing)
        without_value = any(schema[name].not_applicable is not None for name in estimand.value_columns)
        vars(self).update(
            text=str(self.question),
            schema=schema,
            estimand=estimand,
            contribution=contribution,
            row_count=replace(
                contribution,
                value=lambda rows: (truth(rows) == TRUE)[:, None],
                components=1,
                unit=1,
                signed=False,
                needs=choosing,
            ),
            groups=groups,
            targets=targets,
            gap_columns=gaps,
            is_row_count_filled=without_value or not chosen.isdisjoint(targets),
            caveat=caveat,
        )

    def estimates(self, sums: Integers | Floats, unit: int, noise: Noise | None) -> tuple[Estimate, ...]:
        """The answer from the released sums; intervals and the noise from its law."""
        std = None if noise is None or self.estimand.is_ratio else noise.std * self.estimand.std_factor
        estimates = []
        for group, parts in zip(
            self.groups or (None,), sums.astype(np.float64).reshape(-1, self.estimand.width) / unit, strict=True
        ):
            value, interval = self.estimand.estimate(parts), None
            if noise is not None:  # the estimate is in it: a denominator of less than a row counts as one there
                low, high = self.estimand.interval(parts, noise)
                interval = min(low, value), max(high, value)
            estimates.append(Estimate(group, value, std, interval))
        return tuple(estimates)


def check_declared_bins(schema: Schema, names: Sequence[str], what: str) -> None:
    """Refuse columns whose bins are not declared to make groups or classes of, unless they have few values."""
    for name in names:
        column = schema[name]
        if isinstance(column, BinnedColumn) and column.has_learned_bins and column.size > MOST_VALUES:
            raise QuestionError(
                f"column {name!r} has {column.size:,} cells and no declared bins to {what}",
                hint=f"bins = 10 or edges = […] in the schema, or a column of at most {MOST_VALUES} values",
            )


def group_labels(schema: Schema, by: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The combinations of cells of these columns, as the schema lists them."""
    check_declared_bins(schema, by, "group by")
    if (many := math.prod(schema[name].size for name in by)) > MOST_GROUPS:
        raise QuestionError(f"{many:,} groups, more than {MOST_GROUPS:,}", hint="fewer columns after by, or fewer bins")
    return tuple(product(*(schema[name].cells[: schema[name].size] for name in by)))
