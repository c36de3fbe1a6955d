r"""Logistic regression of private rows against public ones, with a sensitivity that floating point cannot break.

.. math:: J(b) = \sum_{\text{private } x} \log(1 + e^{-b \cdot x}) + \sum_{\text{public } x} \log(1 + e^{b \cdot x})
          + \tfrac\Lambda2 \lVert b \rVert^2, \qquad \lVert x \rVert \le R = \sqrt{1 + \text{columns}}

J is Λ-strongly convex, the intercept included, and a row adds a gradient of length at most R. So k rows move the
minimum by at most kR/Λ. A point whose gradient has length at most τ is at most τ/Λ from the minimum. So the sensitivity
of the coefficients that `minimize` finds is

.. math:: S = (kR + 2\tau)/\Lambda.

This needs exact products b·x, exact sums over rows, and a nondecreasing function in place of the logistic function.
Then it holds in floating point, for every number of rows. Proved in docs/proofs/weights.md.
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
from gapless.data.points import unit_positions
from gapless.data.private_table import PrivateTable
from gapless.data.table import Table
from gapless.privacy.private import L1, L2, Private
from gapless.schema import Column, Schema
from gapless.threads import one_thread
from gapless.types import Floats, Integers

Blocks: TypeAlias = Callable[[], Iterator[tuple[Floats, float]]]

GRID_BITS = 20  # coefficients are rounded to about R/Λ·2^-GRID_BITS, so that integer noise can be added
TOLERANCE_BITS = 10  # the gradient of the result has length at most τ = R·2^-TOLERANCE_BITS
BLOCK_ROWS = 1 << 13  # rows of a block: their points stay in the cache, and sums over them are exact floats
POINT_BITS = 16  # coordinates are multiples of 2^-POINT_BITS
PROBABILITY_BITS, PROBABILITY_PARTS = 24, 3  # probabilities are cut to 72 bits, and summed in parts of 24 bits
TABLE_END, TABLE_STEPS = (
    40,
    1 << 10,
)  # the logistic function is interpolated in a table: -40 to 40 in steps of 1/1024
_FLOAT_BITS = 53  # significant bits of a float


@dataclass(frozen=True, slots=True)
class Points:
    """A public map from rows of a schema to vectors of length at most `radius`.

    An ordered column becomes one coordinate from 0 to 1, and an indicator for each of *not applicable* and its gaps.
    Another column becomes an indicator for each of its codes. The last coordinate is 1, for the intercept. Coordinates
    are multiples of 2^-POINT_BITS, and a row has at most one nonzero coordinate for each column.
    """

    tables: tuple[Floats, ...]  # for each column, the coordinates of each of its codes

    @classmethod
    def of(cls, schema: Schema) -> Points:
        """The map for a schema."""
        return cls(tuple(_coordinates(column) for column in schema.columns))

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return 1 + sum(int(table.shape[1]) for table in self.tables)

    @property
    def radius(self) -> float:
        """The largest length: each column and the intercept add at most 1 to its square."""
        return math.sqrt(1 + len(self.tables))

    def __call__(self, columns: Sequence[NDArray[np.integer]]) -> Floats:
        """The points of these rows."""
        coordinates = [table[codes] for table, codes in zip(self.tables, columns, strict=True)]
        return np.hstack([*coordinates, np.ones((len(columns[0]), 1))])

    def split(self, coefficients: Floats) -> Floats:
        """Coefficients in two parts with few enough bits for exact products with points; lower bits are cut off."""
        _, top = np.frexp(np.abs(coefficients).max())
        return _split(coefficients, int(top), _FLOAT_BITS - POINT_BITS - len(self.tables).bit_length(), 2)

    def products(self, rows: Floats, coefficients: Floats) -> Floats:
        """b·x for each of these points, exact but for one rounding if `split` cuts no bit of the coefficients.

        So it is nondecreasing in the exact product.
        """
        parts = rows @ self.split(coefficients)
        return np.asarray(parts[:, 0] + parts[:, 1])


def _coordinates(column: Column) -> Floats:
    if not column.is_ordered:
        return np.eye(column.extended_size)
    others = column.extended_size - column.values_size
    numbers = np.zeros((column.extended_size, 1 + others))
    numbers[: column.values_size, 0] = (
        np.rint(np.clip(unit_positions(column), 0.0, 1.0) * 2.0**POINT_BITS) / 2.0**POINT_BITS
    )
    numbers[column.values_size :, 1:] = np.eye(others)
    return numbers


def grid_step(points: Points, regularization: float) -> float:
    """The step of the grid that coefficients are rounded to: a power of two of at most R/Λ·2^-GRID_BITS."""
    return float(2.0 ** math.floor(math.log2(points.radius / regularization) - GRID_BITS))


def logistic_coefficients(
    table: PrivateTable, public: Table, *, regularization: float, norm: Literal["L1", "L2"]
) -> Private[Integers, L1] | Private[Integers, L2]:
    r"""The coefficients of a logistic regression of a sealed table's rows against public rows, in steps of `grid_step`.

    Distance: :math:`D = S/h + 2\sqrt d` in L2 for the step h and d coefficients, with S as above, τ = R·2⁻¹⁰ and k rows
    of one person. Division and rounding move each coefficient by at most 2 more. In L1 it is √d D. Every row is read.
    """
    check_private(table, "logistic_coefficients()")
    points, regularization = Points.of(table.schema), float(regularization)
    step = grid_step(points, regularization)
    fit = _regression(table, points([np.array(codes) for codes in public.codes]), points, regularization)

    def rounded(engine: Engine) -> Integers:
        return np.rint(fit(engine) / step).astype(np.int64)

    length = _sensitivity(table, points, regularization) / step + 2 * math.sqrt(points.dimension)
    distance = L2(length) if norm == "L2" else L1(math.sqrt(points.dimension) * length)
    return table._seal(rounded, distance=distance, reads=table._required or None)  # noqa: SLF001 same package


def logistic_odds(
    table: PrivateTable, public: Table, *, regularization: float, largest: float
) -> tuple[Private[Integers, L2], float]:
    r"""The odds of each public row in such a regression, cut at `largest`, in steps of a public grid; and the step.

    .. math:: w_i = \min(c, e^{\hat b \cdot x_i}), \qquad |w_i - w_i'| \le c\,(1 - e^{-RS})

    Distance: :math:`\sqrt m\,(c\,(1 - e^{-RS})/h + 2)` in L2 for m public rows, c `largest` and the step h. Rounding
    moves each by at most 1 more, floating point by less. Without the cut there is no bound. Every row is read.
    """
    check_private(table, "logistic_odds()")
    points, regularization, largest = Points.of(table.schema), float(regularization), float(largest)
    step = float(2.0 ** math.floor(math.log2(largest) - GRID_BITS))
    public_points = points([np.array(codes) for codes in public.codes])
    fit = _regression(table, public_points, points, regularization)

    def rounded(engine: Engine) -> Integers:
        odds = np.exp(np.minimum(points.products(public_points, fit(engine)), math.log(largest)))
        return np.rint(np.minimum(odds, largest) / step).astype(np.int64)

    moved = -largest * math.expm1(-points.radius * _sensitivity(table, points, regularization))
    distance = L2(math.sqrt(public.rows) * (moved / step + 2))
    return table._seal(rounded, distance=distance, reads=table._required or None), step  # noqa: SLF001 same package


def _sensitivity(table: PrivateTable, points: Points, regularization: float) -> float:
    """S: the largest change of the coefficients, before rounding, by one protected unit."""
    return (table.protect.at_most + 2 * 2.0**-TOLERANCE_BITS) * points.radius / regularization


def _regression(
    table: PrivateTable, public: Floats, points: Points, regularization: float
) -> Callable[[Engine], Floats]:
    """A function that fits the coefficients to an engine's rows and these public points."""
    columns = range(len(table.schema.columns))

    def fit(engine: Engine) -> Floats:
        def blocks() -> Iterator[tuple[Floats, float]]:
            for batch in engine.batches(columns):
                for start in range(0, batch.rows, BLOCK_ROWS):
                    yield points([codes[start : start + BLOCK_ROWS] for codes in batch.columns]), 1.0
            yield from labelled_blocks(public, -1.0)

        return minimize(blocks, points, regularization, tolerance=points.radius * 2.0**-TOLERANCE_BITS)

    return fit


def labelled_blocks(rows: Floats, label: float) -> Iterator[tuple[Floats, float]]:
    """The points of public rows in blocks, as `minimize` takes them."""
    return ((rows[start : start + BLOCK_ROWS], label) for start in range(0, len(rows), BLOCK_ROWS))


@one_thread()
def minimize(blocks: Blocks, points: Points, regularization: float, *, tolerance: float) -> Floats:
    r"""Find a point at which the gradient of J has length at most `tolerance`, for any rows.

    Damped Newton steps of length :math:`\log(1 + R\lVert\Delta\rVert)/R\lVert\Delta\rVert` times Δ. J decreases at
    every step, and the steps converge, since the third derivative of a logistic loss is at most R times its second (Sun
    and Tran-Dinh 2019). There is no limit on the number of steps: stopping early would break the declared distance.

    Args:
        blocks: gives points of up to `BLOCK_ROWS` rows at a time, labelled 1 for private rows and -1 for public ones.
        points: the map that made them.
        regularization: Λ.
        tolerance: the largest length of the gradient. The computed gradient must be half as long.
    """
    coefficients = np.zeros(points.dimension)
    while True:
        gradient, curvature = gradient_and_hessian(coefficients, blocks, points, regularization)
        if np.sqrt(gradient @ gradient) <= tolerance / 2:
            return coefficients
        move = np.linalg.solve(curvature, gradient)
        far = points.radius * float(np.sqrt(move @ move))
        coefficients = points.split(coefficients - move * (math.log1p(far) / far)).sum(axis=1)


def gradient_and_hessian(
    coefficients: Floats, blocks: Blocks, points: Points, regularization: float
) -> tuple[Floats, Floats]:
    """The gradient of J, exact but for the last rounding of each coordinate, and an approximate Hessian.

    Exact with `logistic_function`, of products as they are computed, in place of the logistic function.
    """
    curvature = regularization * np.eye(points.dimension)
    total: NDArray[np.object_] = np.zeros(points.dimension, dtype=object)  # integers of any length
    for rows, label in blocks():
        probability, slope = logistic_function(-label * points.products(rows, coefficients))
        parts = _split(label * probability, 0, PROBABILITY_BITS, PROBABILITY_PARTS).T @ rows
        for place, part in enumerate(parts, 1):
            steps = (part * 2.0 ** (POINT_BITS + PROBABILITY_BITS * place)).astype(np.int64)
            total += steps.astype(object) * (1 << PROBABILITY_BITS * (PROBABILITY_PARTS - place))
        curvature += (rows * slope[:, None]).T @ rows
    scale, unit = Fraction(regularization), 1 << POINT_BITS + PROBABILITY_BITS * PROBABILITY_PARTS
    exact = [
        scale * Fraction(coefficient) - Fraction(steps, unit)
        for coefficient, steps in zip(coefficients.tolist(), total.tolist(), strict=True)
    ]
    return np.array([float(number) for number in exact]), curvature


def logistic_function(logits: Floats) -> tuple[Floats, Floats]:
    """The logistic function to seven digits, by linear interpolation in a table, and its slope.

    It is nondecreasing to the last bit. The proof needs this, and no library guarantees it for exp. Each operation is
    nondecreasing: the table, products with a fixed rise, sums with a constant, the minimum of two numbers.
    """
    table, rises = _logistic_table()
    places = np.clip(logits * TABLE_STEPS, -TABLE_END * TABLE_STEPS, TABLE_END * TABLE_STEPS)
    below = np.minimum(np.floor(places).astype(np.int64), TABLE_END * TABLE_STEPS - 1)
    rise = rises[below + TABLE_END * TABLE_STEPS]
    line = table[below + TABLE_END * TABLE_STEPS] + rise * (places - below)
    return np.minimum(line, table[below + TABLE_END * TABLE_STEPS + 1]), rise * TABLE_STEPS


@cache
def _logistic_table() -> tuple[Floats, Floats]:
    """The function at the points of the table, and the rise to the next point; above 0 mirrored, to keep digits."""
    exact = 1 / (1 + np.exp(-np.arange(-TABLE_END * TABLE_STEPS, TABLE_END * TABLE_STEPS + 1) / TABLE_STEPS))
    table = np.minimum(np.maximum.accumulate(exact), 1.0)
    rises = np.diff(table[: TABLE_END * TABLE_STEPS + 1])
    return table, np.concatenate([rises, rises[::-1]])


def _split(numbers: Floats, top: int, bits: int, parts: int) -> Floats:
    """Numbers of size up to 2^top as sums of parts, a column for each part.

    The first part is a multiple of 2^(top - bits), the second of 2^(top - 2·bits) and so on, each at most 2^bits times
    that. Bits below the last part are cut off.
    """
    columns = []
    for place in range(1, parts + 1):
        unit = 2.0 ** (top - place * bits)
        columns.append(np.trunc(numbers / unit) * unit)
        numbers = numbers - columns[-1]
    return np.stack(columns, axis=1)
