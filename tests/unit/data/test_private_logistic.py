"""The regression between private and public rows: its slopes never fall, and its sums over rows are exact."""

import math
from fractions import Fraction
from itertools import compress
from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.data import private_logistic
from gapless.data.private_logistic import (
    BLOCK_ROWS,
    POINT_BITS,
    PROBABILITY_BITS,
    TABLE_END,
    TABLE_STEPS,
    Points,
    gradient_and_hessian,
    labelled_blocks,
    logistic_function,
    minimize,
)
from gapless.testing.audit import letters_schema

SCHEMA = gl.Schema(
    "mixed",
    [
        *letters_schema((2, 3)).columns,
        gl.Integer("age", bounds=(0, 92), bins=31, may_be_missing=True),
        gl.Number("income", bounds=(0.0, 1.7), bins=7),
    ],
)
POINTS = Points.of(SCHEMA)


def rows(many, seed=0):
    rng = np.random.default_rng(seed)
    return POINTS([rng.integers(0, column.extended_size, many) for column in SCHEMA.columns])


def coefficients(seed, spread=30):
    """Numbers of very different sizes and signs, as exact products need them."""
    rng = np.random.default_rng(seed)
    drawn = rng.standard_normal(POINTS.dimension) * 2.0 ** rng.integers(-spread, 3, POINTS.dimension)
    return POINTS.split(drawn).sum(axis=1)


def test_points_have_few_bits_and_few_numbers():
    found = rows(500)
    assert np.array_equal(found * 2.0**POINT_BITS, np.rint(found * 2.0**POINT_BITS))
    assert ((found != 0).sum(axis=1) <= 1 + len(SCHEMA.columns)).all()
    assert 0 <= found.min() <= found.max() <= 1
    assert 2**PROBABILITY_BITS * 2**POINT_BITS * BLOCK_ROWS <= 2**53  # the sum of a block in its unit


@pytest.mark.parametrize("seed", range(5))
def test_products_are_exact_but_for_one_rounding(seed):
    b, some = coefficients(seed), rows(40, seed)
    exact = [sum(map(Fraction.__mul__, map(Fraction, b.tolist()), map(Fraction, row.tolist()))) for row in some]
    assert POINTS.products(some, b).tolist() == [float(product) for product in exact]


def test_coefficients_that_were_cut_once_are_not_cut_again():
    drawn = np.random.default_rng(3).standard_normal(POINTS.dimension) * 10.0 ** np.arange(-9, POINTS.dimension - 9)
    once = POINTS.split(drawn).sum(axis=1)
    assert np.array_equal(POINTS.split(once).sum(axis=1), once)
    assert np.abs(once - drawn).max() <= np.abs(drawn).max() * 2.0**-60
    assert not POINTS.split(np.zeros(POINTS.dimension)).any()


def test_the_gradient_is_computed_at_the_returned_coefficients():
    """A step leads to coefficients with more bits than products can have; the bits that are cut are not given back."""
    asked = []
    wide = 10.0 ** -np.arange(POINTS.dimension) / 3

    def slopes(coefficients, *_):
        asked.append(coefficients)
        return np.zeros(POINTS.dimension) if len(asked) > 1 else wide, np.eye(POINTS.dimension)

    with mock.patch.object(private_logistic, "gradient_and_hessian", slopes):
        found = minimize(lambda: iter(()), POINTS, 1.0, tolerance=1e-3)
    assert found is asked[-1]
    assert np.array_equal(POINTS.split(found).sum(axis=1), found)


def test_chances_never_fall():
    """To the last bit: at the points of the table, beside them, between them, and far beyond them."""
    rng = np.random.default_rng(1)
    ends = np.arange(-TABLE_END * TABLE_STEPS, TABLE_END * TABLE_STEPS + 1) / TABLE_STEPS
    beside = [np.nextafter(ends, -math.inf), np.nextafter(ends, math.inf), ends + 1e-13, ends - 1e-13]
    far = np.array([-1e300, -700.0, -TABLE_END - 1e-9, TABLE_END + 1e-9, 700.0, 1e300, -1e-300, 0.0, 1e-300])
    close = rng.uniform(-2, 2, 50_000)
    every = np.concatenate([ends, *beside, far, rng.uniform(-50, 50, 50_000), close, np.nextafter(close, 9)])
    found, slope = logistic_function(np.sort(every))
    assert (np.diff(found) >= 0).all()
    assert 0 <= found[0] < 1e-17
    assert found[-1] == 1
    assert (slope > 0).all()


def test_probabilities_are_those_of_the_logistic_function():
    logits = np.random.default_rng(2).uniform(-60, 60, 100_000)
    found, slope = logistic_function(logits)
    true = 1 / (1 + np.exp(-logits))
    assert np.abs(found - true).max() < 2.0**-26
    in_table, lower = np.abs(logits) < TABLE_END, 1 / (1 + np.exp(np.abs(logits)))
    np.testing.assert_allclose(slope[in_table], (lower * (1 - lower))[in_table], rtol=1e-3)
    np.testing.assert_allclose(found[in_table], true[in_table], rtol=1e-6)


def exact_gradient(b, blocks, regularization):
    """In fractions, from the chances as they are."""
    found = [Fraction(regularization) * Fraction(number) for number in b.tolist()]
    for some, label in blocks:
        chance, _ = logistic_function(-label * POINTS.products(some, b))
        for row, share in zip(some.tolist(), chance.tolist(), strict=True):
            found = [
                so_far - int(label) * Fraction(share) * Fraction(number)
                for so_far, number in zip(found, row, strict=True)
            ]
    return [float(number) for number in found]


@pytest.mark.parametrize("seed", range(3))
def test_the_gradient_is_exact_and_does_not_depend_on_the_order_of_rows(seed):
    """Exact chances are added exactly: 72 binary places hold all digits of a chance above 2^-19."""
    b, private, public = coefficients(seed, spread=3), rows(150, seed), rows(90, seed + 50)
    both = [(private, 1.0), (public, -1.0)]
    gradient, curvature = gradient_and_hessian(b, lambda: iter(both), POINTS, 0.3)
    np.testing.assert_allclose(gradient, exact_gradient(b, both, 0.3), rtol=1e-15, atol=1e-19)
    assert np.linalg.eigvalsh(curvature).min() >= 0.299
    order = np.random.default_rng(9).permutation(150)
    other = [(public[40:], -1.0), (private[order][:1], 1.0), (private[order][1:], 1.0), (public[:40], -1.0)]
    assert gradient_and_hessian(b, lambda: iter(other), POINTS, 0.3)[0].tolist() == gradient.tolist()


def test_sums_over_many_blocks_are_exact():
    """The same rows in 60 blocks: each number is 60 times that of one block, in fractions."""
    b, some = coefficients(4, spread=3), rows(BLOCK_ROWS, 5)
    chance, _ = logistic_function(-POINTS.products(some, b))
    shares = [Fraction(share) for share in chance.tolist()]
    exact = [sum(compress(shares, column)) for column in (some == 1).T.tolist()]
    gradient, _ = gradient_and_hessian(b, lambda: ((some, 1.0) for _ in range(60)), POINTS, 1.0)
    for place in np.flatnonzero(((some == 0) | (some == 1)).all(axis=0)):
        assert gradient[place] == float(Fraction(b[place]) - 60 * exact[place])


def test_public_rows_come_in_blocks_that_floats_can_sum():
    many = list(labelled_blocks(rows(2 * BLOCK_ROWS + 3), -1.0))
    assert [len(some) for some, _ in many] == [BLOCK_ROWS, BLOCK_ROWS, 3]
    assert {label for _, label in many} == {-1.0}
