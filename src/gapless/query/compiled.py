r"""Questions compiled for a schema: what each row adds, and how the answer follows from the sums.

Every row divides one unit among a few parts. One release of the vector of sums then gives all that an answer needs,
including its denominator:

========== ============================== =====================================================
question   a row adds                     answer
========== ============================== =====================================================
count      1                              the sum, at least 0
sum        v / max(|a|, |b|)              the sum · max(|a|, |b|)
proportion (1, 0) if true, (0, 1) if not  p₁ / (p₁ + p₂)
mean       (u, 1 - u)                     a + (b - a) p₁ / (p₁ + p₂)
variance   (u², u - u², 1 - u)            (b - a)² (p₁ - (p₁ + p₂)² / n) / (n - 1), n = p₁ + p₂ + p₃
========== ============================== =====================================================

with u = (v - a) / (b - a). The vectors of the groups are concatenated, and a row is in one group. The absolute parts of
a row add up to at most 1, so one row changes the whole vector by at most 1 in L1.
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
from gapless.query.condition import MAX_VALUES, TRUE, compile_condition, has_many_undeclared_bins, known_column
from gapless.query.numbers import SQUARE_STEPS, CellNumbers
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.text import listing
from gapless.types import Floats, Integers

if TYPE_CHECKING:
    from gapless.query.questions import Question

MAX_GROUPS = 1 << 16


@dataclass(frozen=True)
class Estimand:
    """The quantity that a question estimates: what a row adds, and how the sums give the answer.

    Attributes:
        parts: the parts of each row, rows × width, before `where` and `by`.
        unit: the maximum of the sum of the absolute parts of a row.
        value_columns: the columns whose values it reads.
        gap_columns: the columns whose gaps it tests.
        required_columns: a row with a gap in one of these columns adds nothing.
        low: the smallest value.
        high: the largest value.
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
        """The noise on the answer divided by that on a part. For ratios: an upper bound, times the number of rows."""
        return self.high - self.low

    def noise_limit(self, noise: Noise) -> float:
        """A bound on the noise in 95 % of runs. For ratios it is times the number of rows."""
        return noise.limit() * self.std_factor

    @property
    def max_error(self) -> float:
        """The largest possible error of the answer."""
        return math.inf

    def estimate(self, parts: Floats) -> float:
        """The answer from the sums of parts, in units."""
        raise NotImplementedError

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """The 95 % confidence interval over the noise."""
        raise NotImplementedError


@dataclass(frozen=True)
class TotalEstimand(Estimand):
    """A count or a sum. The answer is `scale` times the single part, and at least `least`.

    A row adds between `low` and `high`, in units.
    """

    width = 1
    is_ratio = False

    scale: float = 1.0
    least: float = 0.0

    @property
    def std_factor(self) -> float:
        """One unit, in the answer."""
        return self.scale

    def estimate(self, parts: Floats) -> float:
        """The sum."""
        return max(self.least, float(parts[0]) * self.scale)

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """The sum plus and minus the limit of the noise."""
        t = noise.limit()
        low, high = ((float(parts[0]) + limit) * self.scale for limit in (-t, t))
        return max(self.least, low), max(self.least, high)


class RatioEstimand(Estimand):
    r"""A proportion or a mean of values from `low` to `high`: (u, 1 - u).

    With n rows, ratio r and noises Z, Z′ on the parts, the answer is too high by t if
    :math:`(1 - r - t) Z - (r + t) Z' > tn`. The answer is between 0 and 1, so :math:`r + t \le 1`. Then the noise on
    the left exceeds a limit no more often than Z alone. So 95 % of answers are within the limit of Z, divided by n. The
    same holds for answers that are too low.
    """

    width = 2

    @property
    def max_error(self) -> float:
        """The width of the range that contains all answers."""
        return self.std_factor

    def estimate(self, parts: Floats) -> float:
        """The first part divided by the sum of both (at least one row), scaled to the range of values."""
        part, rest = map(float, parts)
        return self.low + (self.high - self.low) * min(1.0, max(0.0, part / max(1.0, part + rest)))

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """The ratios that are consistent with the noise, scaled to the range of values."""
        low, high = ratio_interval(float(parts[0]), float(parts[1]), noise)
        return self.low + (self.high - self.low) * low, self.low + (self.high - self.low) * high


class VarianceEstimand(Estimand):
    """A variance of values from `low` to `high`: (u², u - u², 1 - u).

    To first order its error is (1 - m)², -m (2 - m) and m² times the noises on these, divided by the number of rows.
    Here m is the mean. The error is largest where m = 1: the difference of two noises.
    """

    width = 3

    @property
    def scale(self) -> float:
        """The squared width of the range."""
        return (self.high - self.low) ** 2

    @property
    def std_factor(self) -> float:
        """For the difference of two noises."""
        return math.sqrt(2) * self.scale

    def noise_limit(self, noise: Noise) -> float:
        """A bound on the noise in 95 % of runs, times the number of rows."""
        return noise.limit_of_difference() * self.std_factor / math.sqrt(2)

    @property
    def max_error(self) -> float:
        """A sample variance of values between 0 and 1 is at most 1/2."""
        return self.std_factor / math.sqrt(2) / 2

    def estimate(self, parts: Floats) -> float:
        """The sample variance of at least two rows. It is at most 1/2 for values from 0 to 1."""
        squares, values, rows = float(parts[0]), float(parts[:2].sum()), max(2.0, float(parts.sum()))
        return min(0.5, max(0.0, (squares - values**2 / rows) / (rows - 1))) * self.scale

    def interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """The variances that are consistent with limits on all three noises."""
        low, high = variance_interval(parts, noise)
        return low * self.scale, high * self.scale


def count_estimand(*columns: str) -> TotalEstimand:
    """The number of rows, or of rows with a value in each of these columns."""
    only = frozenset(columns)

    def parts(rows: CodesByName) -> Integers:
        return np.ones((len(next(iter(rows.values()))), 1), dtype=np.int64)

    return TotalEstimand(parts, 1, value_columns=only, required_columns=only)


def sum_estimand(numbers: CellNumbers) -> Estimand:
    """The sum of the values."""
    sizes, step = numbers.signed_steps
    unit = int(np.abs(sizes).max())
    low, high = min(0, int(sizes.min())) / unit, max(0, int(sizes.max())) / unit
    return _estimand_of_column(
        TotalEstimand, numbers, [sizes], unit, low=low, high=high, scale=unit * step, least=-math.inf
    )


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
    return _estimand_of_column(RatioEstimand, numbers, [steps, size - steps], size, low=numbers.low, high=numbers.high)


def variance_estimand(numbers: CellNumbers) -> Estimand:
    """The sample variance of the values."""
    steps, size = numbers.steps_above_low(SQUARE_STEPS)
    parts = [steps**2, steps * size - steps**2, size**2 - steps * size]
    return _estimand_of_column(VarianceEstimand, numbers, parts, size**2, low=numbers.low, high=numbers.high)


def _estimand_of_column(
    kind: type[Estimand], numbers: CellNumbers, parts: list[Integers], unit: int, **more: Any
) -> Estimand:
    """An estimand whose parts follow from the cell of one column."""
    column, size = numbers.column, len(parts[0])
    table = np.zeros((size + 1, len(parts)), dtype=np.int64)  # the last row is for cells without a value
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
    """A question of this library, compiled for a schema. Names, values and bins are checked before anything is spent.

    All other fields follow from the first three and cannot be passed. So no foreign function is ever given rows.

    Attributes:
        question: the question.
        declared_schema: the schema as declared. Its bins are the groups.
        at_full_resolution: whether the question may read cells that are finer than bins.
        text: the question as text.
        schema: the schema with the cells or bins by which the question reads each column.
        estimand: the quantity to estimate.
        contribution: what each row adds, with `where` and `by`.
        row_count: the number of rows that the answer is about, without regard to gaps in the columns of the estimand.
        groups: the cells of each group, or None.
        targets: columns that may be missing and whose values the question reads.
        gap_columns: columns whose gaps the question tests.
        is_row_count_filled: whether the number of rows depends on how gaps in the targets are filled.
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
        selecting = value_columns(where) | frozenset(known_column(schema, name) for name in by)
        values = estimand.value_columns | selecting
        gaps = estimand.gap_columns | gap_columns(where)
        # Complete cases: the columns that a question reads must be observed, except where it tests their gaps itself.
        observed = required_columns(where) | frozenset(by) | (selecting - gaps)
        contribution = RowContribution(
            columns=tuple(name for name in schema.names if name in values | gaps),
            value=lambda rows: np.where((truth(rows) == TRUE)[:, None], estimand.parts(rows), 0),
            components=estimand.width,
            unit=estimand.unit,
            by=tuple(Groups(name, bin_of_code(schema[name], declared[name]), declared[name].size) for name in by),
            signed=isinstance(estimand, TotalEstimand) and estimand.low < 0,
            needs=observed | estimand.required_columns | (estimand.value_columns - gaps),
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
                needs=observed,
            ),
            groups=self.question.groups(declared),
            targets=targets,
            gap_columns=gaps,
            is_row_count_filled=without_value or not selecting.isdisjoint(targets),
            caveat=caveat,
        )

    def estimates(self, sums: Integers | Floats, unit: int, noise: Noise | None) -> tuple[Estimate, ...]:
        """The estimates from the released sums, with intervals from the distribution of the noise."""
        std = None if noise is None or self.estimand.is_ratio else noise.std * self.estimand.std_factor
        estimates = []
        sums = sums.astype(np.float64).reshape(-1, self.estimand.width) / unit
        for group, parts in zip(self.groups or (None,), sums, strict=True):
            value, interval = self.estimand.estimate(parts), None
            if noise is not None:  # the interval contains the estimate, which counts a denominator below one row as one
                low, high = self.estimand.interval(parts, noise)
                interval = min(low, value), max(high, value)
            estimates.append(Estimate(group, value, std, interval))
        return tuple(estimates)


def check_declared_bins(schema: Schema, names: Sequence[str], what: str) -> None:
    """Refuse columns without declared bins as groups or classes, unless they have few values."""
    for column in (schema[name] for name in names):
        if isinstance(column, BinnedColumn) and has_many_undeclared_bins(column):
            raise QuestionError(
                f"a column to {what} must have declared bins or at most {MAX_VALUES:,} values, "
                f"but column {column.name!r} has {column.size:,} values and no declared bins",
                hint=f"write bins = 10 for column {column.name!r} in the schema, or choose another column",
            )


def group_labels(schema: Schema, by: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """All combinations of cells of these columns, in the order of the schema."""
    check_declared_bins(schema, by, "group by")
    if (count := math.prod(schema[name].size for name in by)) > MAX_GROUPS:
        hint = "name fewer columns to group by, or declare fewer bins or levels for them in the schema"
        groups = f"{count:,} groups by {listing(by)}"
        raise QuestionError(f"a question may have at most {MAX_GROUPS:,} groups, got {groups}", hint=hint)
    return tuple(product(*(schema[name].cells[: schema[name].size] for name in by)))
