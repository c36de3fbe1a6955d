"""Mixtures: for any distributions and any observed cells, a filled row depends only on itself and its draws."""

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.synth.marginal import mixture_model
from gapless.synth.marginal.mixture_fit import _Softmax
from gapless.synth.marginal.mixture_model import MixtureModel
from helpers.examples import examples


@st.composite
def models(draw):
    """Mixtures of a few columns and components, some of whose cells are impossible."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=5))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    components = draw(st.integers(1, 6))
    distributions = []
    for size in sizes:
        distribution = rng.dirichlet(np.full(size, 0.5), components) * (rng.random((components, size)) < 0.8)
        distribution[:, 0] += 1e-3
        distributions.append(distribution / distribution.sum(axis=1, keepdims=True))
    return MixtureModel(distributions)


@given(model=models(), seed=st.integers(0, 2**32 - 1), rows=st.integers(1, 40))
@examples(60)
def test_a_filled_row_depends_on_itself_and_its_draws_alone(model, seed, rows):
    """Among others or by itself, in whatever order: the same cells, and those that were given stay."""
    rng = np.random.default_rng(seed)
    known = np.stack([rng.integers(-1, size, rows) for size in model.sizes], axis=1)
    draws = rng.random((1 + len(model.sizes), rows))

    def filled(some):
        numbers = iter(draws[:, some])
        return model.fill(known[some], lambda: next(numbers))

    together = filled(np.arange(rows))
    with mock.patch.object(mixture_model, "_CACHE_CELLS", 3 * model.components):  # three rows at a time
        assert np.array_equal(filled(np.arange(rows)), together)
    order = rng.permutation(rows)
    assert np.array_equal(filled(order), together[order])
    assert np.array_equal(np.vstack([filled(np.array([row])) for row in range(rows)]), together)
    assert np.array_equal(together[known >= 0], known[known >= 0])
    assert (together < np.array(model.sizes)).all()


@given(model=models(), seed=st.integers(0, 2**32 - 1))
@examples(60)
def test_marginals_agree_with_each_other_and_with_the_archive(model, seed):
    columns = np.random.default_rng(seed).permutation(len(model.sizes)).tolist()
    table = model.marginal(columns)
    assert np.isclose(table.sum(), 1)
    for axis, column in enumerate(columns):
        others = tuple(other for other in range(len(columns)) if other != axis)
        assert np.allclose(table.sum(axis=others), model.marginal([column]), atol=1e-7)
    again = MixtureModel.from_arrays(model.to_arrays())
    assert np.array_equal(again.marginal(columns), table)


@given(model=models(), rows=st.integers(0, 200), seed=st.integers(0, 2**32 - 1))
@examples(60)
def test_samples_hold_possible_cells_in_even_parts(model, rows, seed):
    """Nothing impossible, and each column's counts within one row per component of what they should be."""
    codes = model.sample(rows, np.random.default_rng(seed)).astype(np.int64)
    for column, size in enumerate(model.sizes):
        counts, distribution = np.bincount(codes[:, column], minlength=size), model.marginal([column])
        assert (counts[distribution == 0] == 0).all()
        assert (np.abs(counts - rows * distribution) <= 2 * model.components + 1e-3).all()


@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple),
    components=st.integers(1, 3),
    seed=st.integers(0, 2**32 - 1),
)
@examples(60)
def test_softmax_and_its_gradient(sizes, components, seed):
    """Against differences, for any blocks and logits."""
    rng = np.random.default_rng(seed)
    softmax = _Softmax(sizes)
    logits, slope = rng.normal(size=(2, sum(sizes), components)) * 3
    distributions = softmax(logits)
    assert np.allclose(softmax.sums(distributions), 1)
    found = softmax.back(distributions, slope)
    for place in np.ndindex(logits.shape):
        step = np.zeros_like(logits)
        step[place] = 1e-6
        difference = ((softmax(logits + step) - softmax(logits - step)) * slope).sum() / 2e-6
        assert np.isclose(found[place], difference, rtol=1e-4, atol=1e-6)
