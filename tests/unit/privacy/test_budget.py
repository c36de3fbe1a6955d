"""Budgets, losses, and the conversion between them."""

import math
from fractions import Fraction

import mpmath
import pytest

from gapless.errors import BudgetError
from gapless.privacy import (
    L2,
    Budget,
    DiscreteGaussian,
    Loss,
    Rows,
)
from gapless.privacy.budget import epsilon_of, pure_loss


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, "1", True, None])
def test_epsilon_must_be_a_positive_finite_number(epsilon):
    with pytest.raises(BudgetError, match="epsilon"):
        Budget(epsilon, 0)


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9, math.nan, "0"])
def test_delta_must_be_a_probability_below_one(delta):
    with pytest.raises(BudgetError, match="delta"):
        Budget(1.0, delta)


@pytest.mark.parametrize("rows", [0, -1, 1.5, True])
def test_the_protected_unit_has_at_least_one_row(rows):
    with pytest.raises(BudgetError, match="whole number from 1"):
        Rows(rows)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1, 1e-6), (0.01, 1e-9), (100, 1e-5), (3, 0.0), (1e-6, 1e-12), (1, 0.9)]
)
def test_the_whole_capacity_amounts_to_no_more_than_the_promise(epsilon, delta):
    budget = Budget(epsilon, delta)
    reached = epsilon_of(budget.capacity, delta)
    assert reached <= epsilon
    assert reached == pytest.approx(epsilon, rel=1e-6)


def test_the_order_leaves_the_most_zcdp():
    budget = Budget(1.0, 1e-6)
    best = budget.capacity.value / budget.order
    for order in (2, 5, 10, 18, 22, 26, 40, 100, 1000):
        room = 1.0 - math.log1p(-1 / order) + (math.log(1e-6) + math.log(order)) / (order - 1)
        assert room / order <= best * (1 + 1e-6)


def test_conversion_agrees_with_an_independent_accountant():
    """dp-accounting's Rényi accountant at the very same order."""
    from dp_accounting import GaussianDpEvent
    from dp_accounting.rdp import RdpAccountant

    budget = Budget(1.0, 1e-6)
    std = DiscreteGaussian.for_loss(budget.capacity, L2(1)).std
    theirs = RdpAccountant(orders=[budget.order]).compose(GaussianDpEvent(std)).get_epsilon(1e-6)
    assert theirs == pytest.approx(1.0, rel=1e-6)


def test_losses_of_different_orders_do_not_mix():
    with pytest.raises(BudgetError, match="losses of different Rényi orders"):
        Loss(1.0, 2.0) + Loss(1.0, 3.0)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_loss_is_finite_and_not_negative(value):
    with pytest.raises(BudgetError):
        Loss(value, 2.0)


@pytest.mark.parametrize("order", [1.5, 2.0, 22.0, 1000.0, math.inf])
@pytest.mark.parametrize("epsilon", [1e-7, 1e-4, 0.1, 1.0, 10.0])
def test_the_pure_loss_is_that_of_randomised_response(order, epsilon):
    loss = pure_loss(epsilon, order)
    assert loss <= epsilon
    if order < math.inf:
        with mpmath.workdps(60):
            p = mpmath.exp(epsilon) / (1 + mpmath.exp(epsilon))
            q = 1 / (1 + mpmath.exp(epsilon))
            order = mpmath.mpf(order)
            by_hand = mpmath.log(p**order * q ** (1 - order) + q**order * p ** (1 - order)) / (order - 1)
        assert float(by_hand) <= loss
        assert loss == pytest.approx(float(by_hand), rel=1e-10)


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, Fraction(10**20 - 1, 10**20)), (Fraction(10**400), 1e-6)])
def test_a_fraction_that_rounds_to_an_excluded_number_is_refused(epsilon, delta):
    with pytest.raises(BudgetError, match="must be in"):
        Budget(epsilon, delta)
