r"""A logistic regression that tells private rows from public ones, its coefficients sealed, on a public grid.

.. math:: J(b) = \sum_{\text{private } x} \log(1 + e^{-b \cdot x}) + \sum_{\text{public } x} \log(1 + e^{b \cdot x})
          + \tfrac\Lambda2 \lVert b \rVert^2, \qquad \lVert x \rVert \le R = \sqrt{1 + \text{columns}}

J is Λ-strongly convex, the intercept included, and a row adds a gradient of at most R: k rows move its minimum by at
most kR/Λ. A point whose gradient is at most τ is at most τ/Λ from the minimum. So what is found moves by at most

.. math:: S = (kR + 2\tau)/\Lambda.

This needs no exact logistic function, only one that never falls, of exact products b·x, and exact sums over rows: then
it holds for every number of rows, with all that floats do. Proved in docs/proofs/weights.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.data.checks import check_private
from gapless.data.engines.memory import Engine
from gapless.data.points import positions
from gapless.data.private_table import PrivateTable
from gapless.data.table import Table
from gapless.privacy.private import L1, L2, Private
from gapless.schema import Column, Schema
from gapless.threads import one_thread
from gapless.types import Floats, Integers

Blocks: TypeAlias = Callable[[], Iterator[tuple[Floats, float]]]

GRID = 20  # coefficients are rounded to R/Λ·2^-GRID, so that noise on them is integer noise
CLOSE = 10  # the gradient of what is found is at most τ = R·2^-CLOSE
ROWS = 1 << 13  # of a block: their points stay in the cache, and floats hold sums over them exactly
POINT_BITS = 16  # the numbers of points are multiples of 2^-POINT_BITS
CHANCE_BITS, CHANCE_PARTS = 24, 3  # chances are cut to 72 binary places, and summed in parts of 24
REACH, STEPS = 40, 1 << 10  # the logistic function is a line between points of a table: from -40 to 40, 1024 for each 1
_EXACT = 53  # bits of a float


@dataclass(frozen=True, slots=True)
class Points:
    """The rows of a schema as points no further than `radius` from the origin: public, from the schema alone.

    A column on a line is one number from 0 to 1, and a number that is 1 for each of its other states: *not applicable*,
    gaps. Another column has a number for each of its states. The last number is 1, for the intercept. All numbers are
    multiples of 2^-POINT_BITS, and a row has at most one for each column that is not 0.
    """

    tables: tuple[Floats, ...]  # for each column, the numbers of each of its codes

    @classmethod
    def of(cls, schema: Schema) -> Points:
        """Those of a schema."""
        return cls(tuple(_numbers(column) for column in schema.columns))

    @property
    def numbers(self) -> int:
        """How many coordinates there are."""
        return 1 + sum(int(table.shape[1]) for table in self.tables)

    @property
    def radius(self) -> float:
        """Each column adds at most 1 to the square of a length, and so does the intercept."""
        return math.sqrt(1 + len(self.tables))

    def __call__(self, columns: Sequence[NDArray[np.integer]]) -> Floats:
        """The points of these rows."""
        told = [table[codes] for table, codes in zip(self.tables, columns, strict=True)]
        return np.hstack([*told, np.ones((len(columns[0]), 1))])

    def split(self, coefficients: Floats) -> Floats:
        """Coefficients in two parts with few enough bits for exact products with points; what is below is cut off."""
        _, top = np.frexp(np.abs(coefficients).max())
        return _split(coefficients, int(top), _EXACT - POINT_BITS - len(self.tables).bit_length(), 2)

    def products(self, rows: Floats, coefficients: Floats) -> Floats:
        """b·x for each of these points, for coefficients that `split` cuts nothing from: exact but for one rounding.

        So it never falls where the exact product rises.
        """
        parts = rows @ self.split(coefficients)
        return np.asarray(parts[:, 0] + parts[:, 1])


def _numbers(column: Column) -> Floats:
    if not column.on_scale:
        return np.eye(column.extended_size)
    others = column.extended_size - column.values_size
    numbers = np.zeros((column.extended_size, 1 + others))
    numbers[: column.values_size, 0] = np.rint(np.clip(positions(column), 0.0, 1.0) * 2.0**POINT_BITS) / 2.0**POINT_BITS
    numbers[column.values_size :, 1:] = np.eye(others)
    return numbers


def grid(points: Points, regularization: float) -> float:
    """The step of the grid that coefficients are rounded to: a power of two below R/Λ·2^-GRID, so that none is lost."""
    return float(2.0 ** math.floor(math.log2(points.radius / regularization) - GRID))


def logistic_coefficients(
    table: PrivateTable, fake: Table, *, regularization: float, norm: Literal["L1", "L2"]
) -> Private[Integers, L1] | Private[Integers, L2]:
    r"""The coefficients of a logistic regression between a sealed table's rows and public ones, in steps of `grid`.

    Distance: :math:`D = S/h + 2\sqrt d` in L2 for the step h and d coefficients, S as above with τ = R·2⁻¹⁰ and k rows
    of a person: rounding, and the division before it, move each by at most 2 more. In L1 it is √d times that, which
    rows with all coordinates alike come near. Every row is read.
    """
    check_private(table, "logistic_coefficients()")
    points, regularization = Points.of(table.schema), float(regularization)
    step, found = grid(points, regularization), _regression(table, fake, points, regularization)

    def rounded(engine: Engine) -> Integers:
        return np.rint(found(engine) / step).astype(np.int64)

    length = _moved(table, points, regularization) / step + 2 * math.sqrt(points.numbers)
    distance = L2(length) if norm == "L2" else L1(math.sqrt(points.numbers) * length)
    return table._sealed(rounded, distance=distance, reads=table._required or None)  # noqa: SLF001 one room


def logistic_odds(
    table: PrivateTable, fake: Table, *, regularization: float, largest: float
) -> tuple[Private[Integers, L2], float]:
    r"""The odds of each public row in such a regression, cut at `largest`, in steps of a public grid; and the step.

    .. math:: w_i = \min(c, e^{\hat b \cdot x_i}), \qquad |w_i - w_i'| \le c\,(1 - e^{-RS})

    Distance: :math:`\sqrt m\,(c\,(1 - e^{-RS})/h + 2)` in L2 for m public rows, c `largest` and the step h: rounding
    moves each by at most 1 more, floats by less. Without the cut there is no bound. Every row is read.
    """
    check_private(table, "logistic_odds()")
    points, regularization, largest = Points.of(table.schema), float(regularization), float(largest)
    step = float(2.0 ** math.floor(math.log2(largest) - GRID))
    found, public = _regression(table, fake, points, regularization), points([np.array(codes) for codes in fake.codes])

    def rounded(engine: Engine) -> Integers:
        odds = np.exp(np.minimum(points.products(public, found(engine)), math.log(largest)))
        return np.rint(np.minimum(odds, largest) / step).astype(np.int64)

    moved = -largest * math.expm1(-points.radius * _moved(table, points, regularization))
    distance = L2(math.sqrt(fake.rows) * (moved / step + 2))
    return table._sealed(rounded, distance=distance, reads=table._required or None), step  # noqa: SLF001 one room


def _moved(table: PrivateTable, points: Points, regularization: float) -> float:
    """S: how far what is found can move."""
    return (table.protect.at_most + 2 * 2.0**-CLOSE) * points.radius / regularization


def _regression(table: PrivateTable, fake: Table, points: Points, regularization: float) -> Callable[[Engine], Floats]:
    """What finds the coefficients in an engine's rows."""
    public = points([np.array(codes) for codes in fake.codes])
    everything = range(len(table.schema.columns))

    def found(engine: Engine) -> Floats:
        def blocks() -> Iterator[tuple[Floats, float]]:
            for batch in engine.batches(everything):
                for start in range(0, batch.rows, ROWS):
                    yield points([codes[start : start + ROWS] for codes in batch.columns]), 1.0
            yield from blocks_of(public, -1.0)

        return minimum(blocks, points, regularization, near=points.radius * 2.0**-CLOSE)

    return found


def blocks_of(rows: Floats, label: float) -> Iterator[tuple[Floats, float]]:
    """The points of public rows in blocks, as `minimum` takes them."""
    return ((rows[start : start + ROWS], label) for start in range(0, len(rows), ROWS))


@one_thread()
def minimum(blocks: Blocks, points: Points, regularization: float, *, near: float) -> Floats:
    r"""A point at which the gradient of J is at most `near`, whatever the rows are.

    Newton's steps, each as far as :math:`\log(1 + R\lVert\Delta\rVert)/R\lVert\Delta\rVert` of the way: then J falls at
    every step and the steps arrive, since the third derivative of a logistic loss is at most R times its second (Sun
    and Tran-Dinh 2019). There is no other end: one that gave up would move by more than was declared.

    Args:
        blocks: gives points of up to `ROWS` rows at a time, with 1 for private rows and -1 for public ones.
        points: their radius, and how to multiply with them.
        regularization: Λ.
        near: how long a gradient may be; half of it is asked for.
    """
    coefficients = np.zeros(points.numbers)
    while True:
        gradient, curvature = slopes_at(coefficients, blocks, points, regularization)
        if np.sqrt(gradient @ gradient) <= near / 2:
            return coefficients
        move = np.linalg.solve(curvature, gradient)
        far = points.radius * float(np.sqrt(move @ move))
        coefficients = points.split(coefficients - move * (math.log1p(far) / far)).sum(axis=1)


def slopes_at(coefficients: Floats, blocks: Blocks, points: Points, regularization: float) -> tuple[Floats, Floats]:
    """The gradient of J, exact but for the last rounding of each number, and about its second derivatives.

    Exact means: of the function whose slopes are `chances` of products as they are computed.
    """
    curvature = regularization * np.eye(points.numbers)
    total: NDArray[np.object_] = np.zeros(points.numbers, dtype=object)  # integers of any length
    for rows, label in blocks():
        chance, slope = chances(-label * points.products(rows, coefficients))
        parts = _split(label * chance, 0, CHANCE_BITS, CHANCE_PARTS).T @ rows
        for place, part in enumerate(parts, 1):
            steps = (part * 2.0 ** (POINT_BITS + CHANCE_BITS * place)).astype(np.int64)
            total += steps.astype(object) * (1 << CHANCE_BITS * (CHANCE_PARTS - place))
        curvature += (rows * slope[:, None]).T @ rows
    scale, unit = Fraction(regularization), 1 << POINT_BITS + CHANCE_BITS * CHANCE_PARTS
    exact = [
        scale * Fraction(coefficient) - Fraction(steps, unit)
        for coefficient, steps in zip(coefficients.tolist(), total.tolist(), strict=True)
    ]
    return np.array([float(number) for number in exact]), curvature


def chances(logits: Floats) -> tuple[Floats, Floats]:
    """The logistic function to seven digits, and its slope: between points of a table it is a line.

    It never falls, to the last bit, which is what the proof needs and no library claims of exp: table, products with a
    fixed rise, sums with a fixed number and the smaller of two numbers never fall.
    """
    table, rises = _logistic_table()
    places = np.clip(logits * STEPS, -REACH * STEPS, REACH * STEPS)
    below = np.minimum(np.floor(places).astype(np.int64), REACH * STEPS - 1)
    rise = rises[below + REACH * STEPS]
    line = table[below + REACH * STEPS] + rise * (places - below)
    return np.minimum(line, table[below + REACH * STEPS + 1]), rise * STEPS


@cache
def _logistic_table() -> tuple[Floats, Floats]:
    """The function at its points, and how far it rises to the next; above 0, where digits are lost, as below it."""
    exact = 1 / (1 + np.exp(-np.arange(-REACH * STEPS, REACH * STEPS + 1) / STEPS))
    table = np.minimum(np.maximum.accumulate(exact), 1.0)
    rises = np.diff(table[: REACH * STEPS + 1])
    return table, np.concatenate([rises, rises[::-1]])


def _split(numbers: Floats, top: int, bits: int, parts: int) -> Floats:
    """Numbers of a size of up to 2^top in some parts, a column each.

    The first part is a multiple of 2^(top - bits), the second of 2^(top - 2·bits) and so on, each at most 2^bits times
    that. They add up to the number, but for what is below the last one.
    """
    columns = []
    for place in range(1, parts + 1):
        unit = 2.0 ** (top - place * bits)
        columns.append(np.trunc(numbers / unit) * unit)
        numbers = numbers - columns[-1]
    return np.stack(columns, axis=1)
