"""The price of a first batch: monotone, never above the sum of losses; the bound on later releases always holds."""

import math
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.privacy import Budget
from gapless.privacy.first_batch import BatchPart, GaussianBatch, remainder_divergence, smallest_noise_factor
from helpers.examples import examples

BUDGETS = st.builds(Budget, st.sampled_from([0.05, 0.3, 1.0, 4.0, 12.0]), st.sampled_from([1e-9, 1e-6, 1e-4]))


@st.composite
def batches(draw):
    budget = draw(BUDGETS)
    distance = draw(st.sampled_from([1, 2, 5]))
    share = draw(st.floats(0.3, 1.05))
    shares = draw(st.lists(st.floats(0.2, 5.0), min_size=1, max_size=12))
    spend = share * budget.capacity.value
    stds = [distance * math.sqrt(budget.order * sum(shares) / (2 * spend * share)) for share in shares]
    return GaussianBatch(tuple(BatchPart(std, distance, distance) for std in stds), budget, budget.order)


@examples(12)
@given(batches(), st.floats(1.001, 1.2))
def test_more_noise_never_costs_more_and_no_batch_costs_more_than_its_losses(batch, factor):
    most = batch.budget.capacity.value
    price, less = batch.price(most), batch.scale_noise(factor).price(most)
    if price < math.inf:
        assert price <= batch.loss
        assert batch.fits(price)
        assert batch.fits((price + most) / 2)  # and a larger price is no harm
        assert not batch.fits(price * (1 - 1e-6))
        assert min(less, batch.scale_noise(factor).loss) <= price * (1 + 1e-9)
        fewer = GaussianBatch(batch.parts[:-1], batch.budget, batch.order)
        assert not fewer.parts or min(fewer.price(most), fewer.loss) <= price * (1 + 1e-9)
    elif batch.loss < most:
        assert not batch.fits(batch.loss)


@examples(12)
@given(batches(), st.floats(0.05, 1.0))
def test_noise_for_a_spend_is_priced_at_it_and_is_never_more_than_the_filter_asks(batch, share):
    spend = share * batch.budget.capacity.value
    factor = smallest_noise_factor(batch, spend)
    alone = math.sqrt(batch.loss / spend)
    assert 0.8 * alone < factor <= alone * (1 + 1e-9)
    found = batch.scale_noise(factor)
    price = min(found.price(batch.budget.capacity.value), found.loss)
    assert spend * (1 - 1e-8) <= price <= spend * (1 + 1e-12)


@st.composite
def pairs(draw):
    """Two distributions on a few points, all of them possible under both."""
    size = draw(st.integers(2, 5))
    weights = st.lists(st.floats(1e-6, 1.0), min_size=size, max_size=size)
    p, q = np.array(draw(weights)), np.array(draw(weights))
    mixed = draw(st.floats(0.001, 1.0))
    p, q = p / p.sum(), q / q.sum()
    return mixed * p + (1 - mixed) * q, q


@examples(300)
@given(pairs(), st.floats(1.05, 200.0), st.floats(-3.0, 3.0))
def test_later_releases_are_bounded_for_any_distributions(pair, order, log_gamma):
    p, q = pair
    lost = max(
        float(np.logaddexp.reduce(order * np.log(first) + (1 - order) * np.log(other))) / (order - 1)
        for first, other in ((p, q), (q, p))
    )
    true = float(np.maximum(p - math.exp(log_gamma) * q, 0).sum())
    (bound,) = remainder_divergence(order, max(lost, 1e-12))(np.array([log_gamma]))
    assert true <= bound * (1 + 1e-9) + 1e-15


@examples(50)
@given(st.floats(1.2, 200.0), st.floats(1e-6, 3.0), st.floats(0.0, 1.0))
def test_the_bound_on_what_follows_grows_with_its_loss_from_none_at_all(order, loss, more):
    logs = np.linspace(-3, 3, 200)
    bound = remainder_divergence(order, loss)(logs)
    assert np.all(bound <= remainder_divergence(order, loss * (1 + more))(logs) + 1e-12)
    assert np.all((bound >= remainder_divergence(order, 0.0)(logs)) & (bound <= 1))


@examples(10)
@given(batches(), st.floats(0.0, 1.0))
def test_delta_falls_with_epsilon_and_grows_with_what_follows(batch, share):
    pair = batch.dominating_pair()
    if pair is None:  # noise that is too small for the rule
        return
    rest = share * batch.budget.capacity.value
    epsilons = batch.budget.epsilon * np.linspace(0.2, 2, 8)
    deltas = [pair.delta(epsilon, remainder_divergence(batch.order, rest)) for epsilon in epsilons]
    alone = [pair.delta(epsilon, remainder_divergence(batch.order, 0.0)) for epsilon in epsilons]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(deltas))
    assert all(single <= both * (1 + 1e-9) for single, both in zip(alone, deltas, strict=True))
