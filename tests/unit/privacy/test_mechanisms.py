"""Mechanisms against their exact divergences: losses, calibration and refusals."""

import math
from types import SimpleNamespace

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

from gapless.errors import BudgetError
from gapless.privacy import (
    L1,
    L2,
    Budget,
    ChoiceByGroup,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    Linf,
    LinfByGroup,
    Rows,
)
from gapless.privacy.private import Sampled, Smooth


@pytest.mark.parametrize("order", [1.2, 22.0, 1240.0])
def test_discrete_laplace_never_loses_more_than_its_bound(order):
    """The exact Rényi divergence of the shifted distribution, summed by hand, against the bound that is charged."""
    for scale, shift in [(0.5, 1), (3.0, 1), (3.0, 4), (20.0, 2)]:
        zs = range(-int(60 * scale) - 60, int(60 * scale) + 60)
        exact = _divergence([-abs(z) / scale for z in zs], [-abs(z - shift) / scale for z in zs], order)
        assert exact <= DiscreteLaplace(scale).loss(L1(shift), order).value * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.2, 3.0, 22.0])
def test_discrete_gaussian_never_loses_more_than_its_bound(order):
    for std, shift in [(0.4, 1), (2.0, 1), (2.0, 3), (8.0, 5)]:
        reach = int(40 * std + order * shift) + 20
        zs = range(-reach, reach + 1)
        width = 2 * std * std
        exact = _divergence([-z * z / width for z in zs], [-((z - shift) ** 2) / width for z in zs], order)
        assert exact <= DiscreteGaussian(std).loss(L2(shift), order).value * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.2, 3.0, 22.0])
def test_knorm_never_loses_more_than_its_bound(order):
    """The rounded distribution in one dimension, by differences of e^(-|y|/b), and the density in the plane."""
    for scale, shift in [(0.5, 1), (3.0, 1), (3.0, 4)]:
        cuts = np.arange(-int(60 * scale) - 60, int(60 * scale) + 60) + 0.5
        above = np.where(cuts > 0, np.exp(-np.abs(cuts) / scale) / 2, 0)
        below = np.where(cuts < 0, np.exp(-np.abs(cuts) / scale) / 2, 0)
        cells = np.abs(np.diff(above - below))
        cells[np.flatnonzero(cuts == -0.5)] = 1 - np.exp(-0.5 / scale)
        logs = np.log(cells)
        exact = _divergence(logs[shift:], logs[:-shift], order)
        assert exact <= KNorm(scale).loss(L2(shift), order).value * (1 + 1e-6)
        x, y = np.meshgrid(np.linspace(-40, 40, 801) * scale, np.linspace(-40, 40, 801) * scale)
        plane = [-np.hypot(x, y).ravel() / scale, -np.hypot(x - shift * 0.6, y - shift * 0.8).ravel() / scale]
        assert _divergence(*plane, order) <= KNorm(scale).loss(L2(shift), order).value * (1 + 1e-6)


@pytest.mark.parametrize("order", [1.2, 3.0, 22.0, 1e4])
def test_the_exponential_choice_never_loses_more_than_its_bound(order):
    """Every pattern of scores moving by ±1 on five candidates: exact divergences against the charge."""
    from itertools import product

    for scale in (0.5, 2.0, 50.0):
        scores = [0.0, 1.0, 3.0, 3.0, -2.0]
        for moves in product((-1.0, 0.0, 1.0), repeat=5):
            moved = [(s + m) / scale for s, m in zip(scores, moves, strict=True)]
            exact = _divergence([s / scale for s in scores], moved, order)
            assert exact <= ExponentialChoice(scale).loss(Linf(1), order).value * (1 + 1e-9)


@pytest.mark.parametrize("order", [1.2, 3.0, 22.0, 1e4])
def test_choices_by_group_never_lose_more_than_their_bound(order):
    """One row moves one group by up to 1, two rows two groups or one of them twice: exact divergences, added up."""
    from itertools import product

    scores = [0.0, 1.0, 3.0, -2.0]
    moves = list(product((-1.0, 0.0, 1.0), repeat=4))
    for scale in (0.5, 2.0, 50.0):
        groups = {
            size: max(
                _divergence(
                    [s / scale for s in scores],
                    [(s + size * m) / scale for s, m in zip(scores, move, strict=True)],
                    order,
                )
                for move in moves
            )
            for size in (1, 2)
        }
        one_row, two_rows = (ChoiceByGroup(scale).loss(LinfByGroup(rows), order).value * (1 + 1e-9) for rows in (1, 2))
        assert groups[1] <= one_row
        assert max(2 * groups[1], groups[2]) <= two_rows


def test_choices_by_group_are_of_whole_scores_and_by_their_own_distance():
    from gapless.privacy.noise import current

    assert ChoiceByGroup(0.01)(np.array([[0, 9], [9, 0], [-(2**62), 3]]), current()).tolist() == [1, 0, 1]
    with pytest.raises(BudgetError, match="does not protect fractions"):
        ChoiceByGroup(1.0)(np.array([[0.5]]), current())


@pytest.mark.parametrize("score", [2**53 - 1, 2**53, 2**53 + 1, 2**60 + 128, -(2**53) - 1, -(2**62) + 256])
def test_the_distribution_of_a_choice_by_group_moves_no_further_than_its_scores(score):
    """Floats beyond 2⁵³ are more than a step apart, so that rounding alone could move them by more."""
    drawn_from = []
    source = SimpleNamespace(choose=lambda scores, _: drawn_from.append(scores) or 0)
    for moved in (score, score + 1):
        ChoiceByGroup(1.0)(np.array([[moved, 0]]), source)
    assert np.abs(drawn_from[1] - drawn_from[0]).max() <= 1


def _divergence(ps, qs, order):
    """The Rényi divergence of two distributions given by logarithms of their weights."""
    ps, qs = np.array(ps) - logsumexp(ps), np.array(qs) - logsumexp(qs)
    return logsumexp(order * ps + (1 - order) * qs) / (order - 1)


@pytest.mark.parametrize("mechanism", [DiscreteLaplace, DiscreteGaussian, KNorm, ExponentialChoice])
@pytest.mark.parametrize("budget", [Budget(1.0, 1e-6), Budget(0.01, 1e-9), Budget(50, 1e-6), Budget(1.0, 0)])
@pytest.mark.parametrize("parts", [1, 15, 1000])
@pytest.mark.parametrize("distance", [1, 3])
def test_a_calibrated_mechanism_costs_what_was_asked_and_never_more(mechanism, budget, parts, distance):
    asked = budget.capacity / parts
    if mechanism is DiscreteGaussian and asked.order == math.inf:
        with pytest.raises(BudgetError, match="needs δ above 0"):
            DiscreteGaussian.for_loss(asked, L1(distance))
        return
    cost = mechanism.for_loss(asked, L1(distance)).loss(L1(distance), asked.order)
    assert cost.value <= asked.value
    assert cost.value == pytest.approx(asked.value, rel=1e-3)
    by_group = ChoiceByGroup.for_loss(asked, LinfByGroup(distance)).loss(LinfByGroup(distance), asked.order)
    assert asked.value * (1 - 1e-6) <= by_group.value <= asked.value


def test_noise_follows_the_rows_per_person():
    asked = Budget(1.0, 1e-6).capacity
    assert DiscreteGaussian.for_loss(asked, L2(4)).std == pytest.approx(4 * DiscreteGaussian.for_loss(asked, L2(1)).std)


@pytest.mark.parametrize("scale", [0.05, 1.0, 3.7, 1e6])
def test_the_std_of_discrete_laplace_is_exact(scale):
    q = mpmath.exp(-1 / mpmath.mpf(scale))
    assert DiscreteLaplace(scale).noise_std == pytest.approx(float(mpmath.sqrt(2 * q) / (1 - q)), rel=1e-9)


@pytest.mark.parametrize("epsilon", [1e4, 1e5, 1e12])
def test_laplace_noise_at_a_very_large_budget_has_std_zero(epsilon):
    noise = DiscreteLaplace.for_loss(Budget(epsilon, 0).capacity, L1(1))
    assert noise.noise_std == 0


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
@pytest.mark.parametrize("mechanism", [DiscreteLaplace, DiscreteGaussian, KNorm, ExponentialChoice, ChoiceByGroup])
def test_a_scale_of_nothing_or_no_end_is_refused(mechanism, value):
    with pytest.raises(BudgetError):
        mechanism(value)


@pytest.mark.parametrize(
    ("mechanism", "distance"),
    [
        (DiscreteLaplace, L2(1)),
        (DiscreteLaplace, Linf(1)),
        (DiscreteGaussian, Linf(1)),
        (KNorm, Linf(1)),
        (ExponentialChoice, Rows(1)),
        (ChoiceByGroup, Linf(1)),
        (ChoiceByGroup, L1(1)),
    ],
)
def test_a_distance_of_another_kind_is_refused_at_run_time_too(mechanism, distance):
    with pytest.raises(BudgetError, match="the mechanism needs a value whose distance is bounded"):
        mechanism(1.0).loss(distance, 2.0)


@pytest.mark.parametrize("mechanism", [DiscreteLaplace, DiscreteGaussian, KNorm])
def test_integer_noise_does_not_take_fractions(mechanism):
    from gapless.privacy.noise import current

    with pytest.raises(BudgetError, match="does not protect fractions"):
        mechanism(1.0)(np.array([0.5]), current())


@pytest.mark.parametrize("mechanism", [DiscreteLaplace, DiscreteGaussian, KNorm])
def test_integer_noise_takes_signed_integers_only(mechanism):
    """In numpy uint64 + int64 is float64, which rounds large counts."""
    from gapless.privacy.noise import current

    with pytest.raises(BudgetError, match="signed integers, got uint64"):
        mechanism(1.0)(np.array([3], dtype=np.uint64), current())


@pytest.mark.parametrize("at_most", [0, -1, math.nan, math.inf])
@pytest.mark.parametrize("distance", [L1, L2, Linf, LinfByGroup, Sampled, lambda at_most: Smooth(at_most, 1.0)])
def test_a_distance_is_finite_and_positive(distance, at_most):
    with pytest.raises(BudgetError, match="must be finite and above 0, got"):
        distance(at_most)
