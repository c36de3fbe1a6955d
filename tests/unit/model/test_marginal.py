"""Noisy tables: their total, what they agree on, their margins."""

import numpy as np
import pytest

from gapless.model.marginal import Measurement, estimate_total, multiply, pooled_margin, project_to_simplex, reconcile
from helpers.noisy_tables import measured, wave


def test_project_to_simplex():
    table = project_to_simplex(np.array([[5.0, -1.0], [2.0, 0.0]]), 4.0)
    assert table.tolist() == [[3.5, 0.0], [0.5, 0.0]]
    assert project_to_simplex(np.array([1.0, 1.0]), 6.0).tolist() == [3.0, 3.0]


def test_estimate_total_trusts_the_precise():
    both = [measured((0,), [60.0, 40.0], 1.0), measured((1,), [55.0, 55.0], 3.0)]
    assert estimate_total(both) == pytest.approx((100 * 9 + 110) / 10)
    assert estimate_total([]) == 0


@pytest.mark.parametrize("shape", [(1, 20_000, 3), (40, 900, 50), (600, 5, 700), (2, 0, 3), (0, 4, 2)])
def test_multiply_in_portions(shape):
    rows, inner, columns = shape
    left, right = wave(2, rows, inner), wave(2, inner, columns)
    np.testing.assert_allclose(multiply(left, right), left @ right)


def test_reconcile_is_the_least_squares_answer():
    sizes, total = (2, 3, 2), 60.0
    given = [
        measured((0, 1), 10 * wave(2, 3), 2.0),
        measured((2, 1), 9 * wave(2, 3)[::-1], 0.7),
        measured((1,), 20 * wave(3), 1.5),
        measured((0, 1), 11 * wave(2, 3), 1.0),
    ]
    codes = np.indices(sizes).reshape(3, -1)
    rows, goal = [], []
    for measurement in given:
        shape = [sizes[column] for column in measurement.columns]
        cell = np.ravel_multi_index([codes[column] for column in measurement.columns], shape)
        rows.append(np.eye(measurement.counts.size)[:, cell] / measurement.noise_std)
        goal.append(measurement.counts.ravel() / measurement.noise_std)
    rows, goal = np.vstack(rows), np.concatenate(goal)
    free = np.linalg.svd(np.ones((1, 12)))[2][1:]  # directions that keep the total
    even = np.full(12, total / 12)
    joint = even + free.T @ np.linalg.lstsq(rows @ free.T, goal - rows @ even, rcond=None)[0]
    joint = joint.reshape(sizes)
    found = reconcile(sizes, given, total)
    assert set(found) == {(0, 1), (1, 2), (1,)}
    np.testing.assert_allclose(found[0, 1][0], joint.sum(axis=2))
    np.testing.assert_allclose(found[1, 2][0], joint.sum(axis=0))
    np.testing.assert_allclose(found[1,][0], joint.sum(axis=(0, 2)))
    assert found[0, 1][1] == pytest.approx((1 / 4 + 1) ** -0.5)


def test_a_smaller_table_pools_the_larger_ones_by_precision():
    """A margin adds up the noise of its cells: of two tables with equal noise, the one with fewer cells weighs more."""
    counts, precision = pooled_margin(
        (1,),
        [
            Measurement((0, 1), np.array([[10.0, 0.0], [10.0, 0.0]]), 3.0),  # 2 cells added up: weight 1/2
            Measurement((1, 2), np.array([[2.0, 2.0, 2.0, 2.0], [3.0, 3.0, 3.0, 3.0]]), 3.0),  # 4 cells: weight 1/4
            Measurement((0, 2), np.ones((2, 4)), 3.0),  # knows nothing of column 1
        ],
    )
    np.testing.assert_allclose(counts, [(20 / 2 + 8 / 4) / 0.75, (0 / 2 + 12 / 4) / 0.75])
    assert precision == pytest.approx(0.75 / 9)


def test_a_smaller_table_of_several_columns_keeps_their_order():
    counts = np.arange(24.0).reshape(2, 3, 4)
    margin, _ = pooled_margin((3, 1), [Measurement((1, 2, 3), counts, 1.0)])
    np.testing.assert_allclose(margin, counts.sum(axis=1).T)
