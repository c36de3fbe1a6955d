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
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np

from gapless.constraints.grammar import Condition, gap_columns, needed, value_columns
from gapless.data.row_contribution import Groups, Named, Tally, in_bins
from gapless.errors import QuestionError
from gapless.query.answers import Estimate, Noise, ratio, ratio_interval, variance, variance_interval
from gapless.query.condition import MOST_VALUES, TRUE, compile_condition, known
from gapless.query.numbers import FOR_SQUARES, Numbers
from gapless.schema import Schema
from gapless.schema.numeric import _Binned
from gapless.types import Floats, Integers

MOST_GROUPS = 1 << 16


@dataclass(frozen=True)
class Shape:
    """How one kind of question shares a row out, and how it reads the sums: a `Total`, a `Ratio` or a `Spread`.

    `looks_at` are the columns whose values it looks at, `tests` those whose gaps it looks at; a row with a gap in one
    of `needs` adds nothing.
    """

    width: ClassVar[int]  # the number of parts

    parts: Callable[[Named], Integers]  # rows × width, before `where` and `by`
    unit: int
    finish: Callable[[Floats], float]
    interval: Callable[[Floats, Noise], tuple[float, float]]
    std_factor: float  # noise on the answer, in noise on a part; for ratios: times the number of rows, at most
    looks_at: frozenset[str] = frozenset()
    tests: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    low: float = 0.0  # what a row adds to the first part, in units, is between low and high
    high: float = 1.0

    @property
    def signed(self) -> bool:
        """Whether a row may add less than nothing."""
        return self.low < 0

    @property
    def is_ratio(self) -> bool:
        """Whether the noise on the answer depends on the number of rows."""
        return not isinstance(self, Total)

    def noise_limit(self, noise: Noise) -> float:
        """What the noise on the answer stays below in 95 % of runs; for ratios: times the number of rows, at most."""
        return noise.limit() * self.std_factor

    @property
    def largest_error(self) -> float:
        """How far the answer can be from the true one at all."""
        return math.inf


class Total(Shape):
    """A count or a sum: one part."""

    width = 1


class Ratio(Shape):
    r"""A proportion or a mean: (u, 1 - u).

    With n rows, ratio r and noises Z, Z′ on the parts, the answer is too high by t if
    :math:`(1 - r - t) Z - (r + t) Z' > tn`. It lies between 0 and 1, so :math:`r + t \le 1`, and the noise on the left
    exceeds a limit no more often than Z alone: 95 % of answers are within the limit of Z, divided by n. The same holds
    for answers that are too low.
    """

    width = 2

    @property
    def largest_error(self) -> float:
        """The width of the range: all answers are in it."""
        return self.std_factor


class Spread(Shape):
    """A variance: (u², u - u², 1 - u).

    To first order it moves by (1 - m)², -m (2 - m) and m² times the noises on these, divided by the number of rows,
    with m the mean: the most where m = 1, by the difference of two noises.
    """

    width = 3

    def noise_limit(self, noise: Noise) -> float:
        """What the noise on the answer stays below in 95 % of runs, times the number of rows, at most."""
        return noise.limit_of_two() * self.std_factor / math.sqrt(2)

    @property
    def largest_error(self) -> float:
        """A variance of values between 0 and 1 is at most 1/2, with one row less in the denominator."""
        return self.std_factor / math.sqrt(2) / 2


def count_shape() -> Shape:
    """How many rows."""

    def interval(parts: Floats, noise: Noise) -> tuple[float, float]:
        t = noise.limit()
        return max(0.0, float(parts[0]) - t), max(0.0, float(parts[0]) + t)

    def parts(rows: Named) -> Integers:
        return np.ones((len(next(iter(rows.values()))), 1), dtype=np.int64)

    return Total(parts, 1, lambda p: max(0.0, float(p[0])), interval, 1.0)


def sum_shape(numbers: Numbers) -> Shape:
    """The sum of the values."""
    sizes, step = numbers.sizes
    unit = int(np.abs(sizes).max())
    scale = unit * step

    def interval(parts: Floats, noise: Noise) -> tuple[float, float]:
        t = noise.limit()
        return (float(parts[0]) - t) * scale, (float(parts[0]) + t) * scale

    only = frozenset({numbers.column})
    return Total(
        _look_up(numbers.column, [sizes]),
        unit,
        lambda p: float(p[0]) * scale,
        interval,
        scale,
        looks_at=only,
        needs=only,
        low=min(0, int(sizes.min())) / unit,
        high=max(0, int(sizes.max())) / unit,
    )


def proportion_shape(condition: Condition, schema: Schema) -> Shape:
    """The share of rows for which a condition is true, among those for which it is true or false."""
    truth = compile_condition(condition, schema)

    def parts(rows: Named) -> Integers:
        known_truth = truth(rows)
        return np.stack([known_truth == TRUE, known_truth == -TRUE], axis=1).astype(np.int64)

    return Ratio(
        parts,
        1,
        lambda p: ratio(float(p[0]), float(p[1])),
        _ratio_between(0.0, 1.0),
        1.0,
        looks_at=value_columns(condition),
        tests=gap_columns(condition),
    )


def mean_shape(numbers: Numbers) -> Shape:
    """The mean of the values."""
    steps, size = numbers.parts()
    low, high = numbers.low, numbers.high
    return Ratio(
        _look_up(numbers.column, [steps, size - steps]),
        size,
        lambda p: low + (high - low) * ratio(float(p[0]), float(p[1])),
        _ratio_between(low, high),
        high - low,
        looks_at=frozenset({numbers.column}),
        needs=frozenset({numbers.column}),
    )


def variance_shape(numbers: Numbers) -> Shape:
    """The sample variance of the values."""
    steps, size = numbers.parts(FOR_SQUARES)
    scale = (numbers.high - numbers.low) ** 2

    def interval(parts: Floats, noise: Noise) -> tuple[float, float]:
        low, high = variance_interval(parts, noise)
        return low * scale, high * scale

    return Spread(
        _look_up(numbers.column, [steps**2, steps * size - steps**2, size**2 - steps * size]),
        size**2,
        lambda p: variance(float(p[0]), float(p[:2].sum()), float(p.sum())) * scale,
        interval,
        math.sqrt(2) * scale,
        looks_at=frozenset({numbers.column}),
        needs=frozenset({numbers.column}),
    )


def _look_up(column: str, parts: list[Integers]) -> Callable[[Named], Integers]:
    size = len(parts[0])
    table = np.zeros((size + 1, len(parts)), dtype=np.int64)  # the last row for cells without a value
    table[:size] = np.stack(parts, axis=1)
    return lambda rows: table[np.minimum(rows[column].astype(np.int64), size)]  # 256 cells may be codes of 8 bits


def _ratio_between(low: float, high: float) -> Callable[[Floats, Noise], tuple[float, float]]:
    def interval(parts: Floats, noise: Noise) -> tuple[float, float]:
        a, b = ratio_interval(float(parts[0]), float(parts[1]), noise)
        return low + (high - low) * a, low + (high - low) * b

    return interval


@dataclass(frozen=True)
class Compiled:
    """A question fitted to a schema.

    Attributes:
        text: the question in words.
        schema: by which cells or bins it reads each column.
        shape: how rows are shared out.
        tally: what each row adds, `where` and `by` considered.
        rows: how many rows the answer is about, gaps in the shape's columns not considered.
        groups: the cells that each group is of, or None.
        targets: columns with values that the question looks at and that may be missing.
        tests: columns whose gaps it looks at.
        fills_rows: whether the number of rows that the answer is about depends on how these are filled.
        about: what the numbers leave out.
    """

    text: str
    schema: Schema
    shape: Shape
    tally: Tally
    rows: Tally
    groups: tuple[tuple[str, ...], ...] | None
    targets: tuple[str, ...]
    tests: frozenset[str]
    fills_rows: bool
    about: str

    def estimates(self, sums: Integers | Floats, unit: int, noise: Noise | None) -> tuple[Estimate, ...]:
        """The answer from the released sums; intervals and the noise from its law."""
        parts = sums.astype(np.float64).reshape(-1, self.shape.width) / unit
        std = None if noise is None or self.shape.is_ratio else noise.std * self.shape.std_factor
        return tuple(
            Estimate(group, self.shape.finish(sums), std, None if noise is None else self._interval(sums, noise))
            for group, sums in zip(self.groups or (None,), parts, strict=True)
        )

    def _interval(self, parts: Floats, noise: Noise) -> tuple[float, float]:
        """With the estimate in it: a denominator of less than a row counts as one there."""
        low, high = self.shape.interval(parts, noise)
        estimate = self.shape.finish(parts)
        return min(low, estimate), max(high, estimate)


def compile_question(
    text: str, shape: Shape, *, where: Condition, by: Sequence[str], schema: Schema, bins: Schema, about: str = ""
) -> Compiled:
    """Fit a question to a schema: names, values and bins are checked here.

    `schema` tells the cells or bins in which rows are read; groups are those of `bins`, the schema as it is declared.
    """
    truth = compile_condition(where, schema)
    grouping = frozenset(known(schema, name) for name in by)
    values = shape.looks_at | value_columns(where) | grouping
    tests = shape.tests | gap_columns(where)
    groups = groups_of(bins, by) if by else None
    chosen = value_columns(where) | grouping
    # Complete cases: what is looked at must be observed, except where the question itself looks at gaps.
    choosing = needed(where) | grouping | (chosen - tests)

    def value(rows: Named) -> Integers:
        return np.where((truth(rows) == TRUE)[:, None], shape.parts(rows), 0)

    tally = Tally(
        columns=tuple(name for name in schema.names if name in values | tests),
        value=value,
        parts=shape.width,
        unit=shape.unit,
        by=tuple(Groups(name, in_bins(schema[name], bins[name]), bins[name].size) for name in by),
        signed=shape.signed,
        needs=choosing | shape.needs | (shape.looks_at - tests),
    )
    rows = replace(
        tally,
        value=lambda named: (truth(named) == TRUE)[:, None],
        parts=1,
        unit=1,
        signed=False,
        needs=choosing,
    )
    targets = tuple(column.name for column in schema.columns if column.name in values and column.may_be_missing)
    without_value = any(schema[name].not_applicable is not None for name in shape.looks_at)
    fills_rows = without_value or not chosen.isdisjoint(targets)
    return Compiled(text, schema, shape, tally, rows, groups, targets, tests, fills_rows, about)


def check_bins(schema: Schema, names: Sequence[str], what: str) -> None:
    """Refuse columns whose bins are not declared to make groups or classes of, unless they have few values."""
    for name in names:
        column = schema[name]
        if isinstance(column, _Binned) and column.learned and column.size > MOST_VALUES:
            raise QuestionError(
                f"column {name!r} has {column.size:,} cells and no declared bins to {what}",
                hint=f"bins = 10 or edges = […] in the schema, or a column of at most {MOST_VALUES} values",
            )


def groups_of(schema: Schema, by: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    """The combinations of cells of these columns, as the schema lists them."""
    check_bins(schema, by, "group by")
    if (many := math.prod(schema[name].size for name in by)) > MOST_GROUPS:
        raise QuestionError(f"{many:,} groups, more than {MOST_GROUPS:,}", hint="fewer columns after by, or fewer bins")
    return tuple(product(*(schema[name].cells[: schema[name].size] for name in by)))
