"""Gradients kept as factors, and products of rows: the same to the last bit wherever a row stands in its block."""

import numpy as np
import pytest

from gapless.model.neural import gradients as products
from gapless.model.neural.gradients import (
    BLOCK,
    DenseGradients,
    JointGradients,
    Mask,
    OuterGradients,
    is_row_wise,
    multiply_single_rows,
    row_wise_product,
)
from gapless.model.neural.layers import (
    Linear,
)
from gapless.privacy.sgd import SUM_BITS
from gapless.threads import one_thread
from helpers.row_gradients import whole_vectors

# Widths at which kernels for AVX-512 compute the last rows of a block in another order.
SHAPES = [(16, 246), (32, 198), (48, 255), (64, 300), (100, 302), (33, 129), (207, 330), (7, 3), (1, 1), (300, 399)]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
@one_thread()
def test_a_row_does_not_depend_on_its_place(shape, transposed):
    rng = np.random.default_rng(1)
    rows, matrix = rng.standard_normal((BLOCK, shape[0])), rng.standard_normal(shape)
    if transposed:
        matrix = np.asfortranarray(matrix)
    found = row_wise_product(rows, matrix)
    np.testing.assert_allclose(found, rows @ matrix, rtol=1e-12, atol=1e-12)
    for shift in (1, 4, 100, 255):
        assert np.array_equal(row_wise_product(np.roll(rows, shift, axis=0), matrix), np.roll(found, shift, axis=0))


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_one_by_one_do_not_depend_on_their_place(shape, monkeypatch):
    monkeypatch.setattr(products, "is_row_wise", lambda *_: False)
    test_a_row_does_not_depend_on_its_place.__wrapped__(shape, transposed=False)


def test_a_kernel_that_treats_places_differently_is_found_out(monkeypatch):
    """Planted: the last rows of a block come out a little larger."""

    class Odd(np.ndarray):
        def __matmul__(self, other):
            found = np.asarray(self) @ np.asarray(other)
            found[-4:] *= 1 + 2.0**-52
            return found

    monkeypatch.setattr(products.np, "tile", lambda row, times: np.repeat(row[None], times[0], axis=0).view(Odd))
    is_row_wise.cache_clear()
    try:
        assert not is_row_wise(BLOCK, 8, 16)
    finally:
        is_row_wise.cache_clear()


def test_one_by_one_is_the_product():
    rng = np.random.default_rng(2)
    rows, matrix = rng.standard_normal((BLOCK, 5)), rng.standard_normal((5, 3))
    np.testing.assert_allclose(multiply_single_rows(rows, matrix), rows @ matrix, rtol=1e-12)


@pytest.mark.parametrize("hidden", [198, 255, 300, 302])
@one_thread()
def test_wide_layers_do_not_look_at_the_place_of_a_row(hidden):
    """A last bit more or less decides the derivative of a ReLU, and so a row's whole gradient."""
    rng, layer = np.random.default_rng(4), Linear(48, hidden)
    weights = layer.unpack(layer.start(rng))
    points, slopes = rng.standard_normal((BLOCK, 48)), rng.standard_normal((BLOCK, hidden))
    outputs, _ = layer.forward(weights, points)
    back, _ = layer.backward(weights, points, slopes, to_inputs=True)
    for shift in (1, 4, 252):
        moved = np.roll(points, shift, axis=0), np.roll(slopes, shift, axis=0)
        assert np.array_equal(layer.forward(weights, moved[0])[0], np.roll(outputs, shift, axis=0))
        again, _ = layer.backward(weights, *moved, to_inputs=True)
        assert np.array_equal(again, np.roll(back, shift, axis=0))


SIZES_OF_FACTORS = [(1.0, 1.0), (2.0**300, 2.0**-300), (2.0**-300, 2.0**300), (2.0**-20, 2.0**21)]


@pytest.mark.parametrize("sizes", SIZES_OF_FACTORS)
@pytest.mark.parametrize("masked", [False, True])
def test_exact_sums_take_factors_of_any_size(sizes, masked):
    """Inputs may be huge and slopes tiny: what counts is their product. A mask hides the largest of both."""
    rng = np.random.default_rng(7)
    inputs, slopes = rng.standard_normal((BLOCK, 5)) * sizes[0], rng.standard_normal((BLOCK, 3)) * sizes[1]
    inputs[::3] = 0
    mask = None
    if masked:
        allowed = np.ones((5, 3), dtype=bool)
        allowed[0, :2] = False
        inputs[:, 0] *= 2.0**25
        mask = Mask.of(allowed)
    gradients = OuterGradients(inputs, slopes, mask)
    with np.errstate(all="ignore"):
        lengths = np.sqrt(gradients.squared_norms())
        weights = np.minimum(1, 1 / lengths) * 2.0**SUM_BITS
    vectors = whole_vectors(gradients, weights)
    assert [int(number) for number in gradients.integer_total(weights)] == vectors.sum(axis=0).tolist()
    squares = [sum(number * number for number in vector) for vector in vectors]
    assert 0.99 < max(squares) / 2 ** (2 * SUM_BITS) <= 1 + 2.0**-40


def test_a_row_that_is_not_finite_adds_nothing_if_its_weight_is_zero():
    for bad in (np.nan, np.inf):
        inputs, slopes = np.ones((3, 2)), np.ones((3, 2))
        inputs[1] = slopes[1] = bad
        parts = JointGradients([OuterGradients(inputs, slopes), DenseGradients(slopes)])
        assert not np.isfinite(parts.squared_norms()[1])
        assert parts.total(np.array([1.0, 0.0, 1.0])).tolist() == [2.0] * 6
        assert parts.integer_total(np.array([1.0, 0.0, 1.0]) * 2.0**SUM_BITS).tolist() == [2.0 ** (SUM_BITS + 1)] * 6
