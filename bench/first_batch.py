"""What a first batch gains by being priced as one mechanism, beside two other ways to price it; and how long it takes.

The gain is how much less noise a batch of equal tables needs for the same share of a budget, what is left staying the
same: *together* by the ledger's rule; *split* by giving the batch an (ε, δ) of its own and keeping a filter for the
difference, the split being the best of a grid.
"""

import math
import time

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr, ndtr

from gapless.privacy import Budget
from gapless.privacy.first_batch import BatchPart, GaussianBatch, smallest_noise_factor

SHARES = (1.0, 0.99, 0.95, 0.9, 0.8, 0.5)
BUDGETS = (Budget(0.1, 1e-6), Budget(1.0, 1e-6), Budget(1.0, 1e-9), Budget(3.0, 1e-6), Budget(10.0, 1e-6))


def batch_of(tables: int, budget: Budget, share: float) -> GaussianBatch:
    """Equal tables that cost this share of the budget by the sum of their losses."""
    std = math.sqrt(budget.order * tables / (2 * share * budget.capacity.value))
    return GaussianBatch(tuple(BatchPart(std, 1, 1) for _ in range(tables)), budget, budget.order)


def together(tables: int, budget: Budget, share: float) -> float:
    """How much more noise the sum of losses asks for, as a part."""
    return 1 / smallest_noise_factor(batch_of(tables, budget, share), share * budget.capacity.value) - 1


def split(budget: Budget, share: float) -> float:
    """The same for normal noise priced as (ε', δ') if a filter for the difference is to have as much left as before."""

    def over(mu: float, epsilon: float, most: float) -> float:
        return float(ndtr(mu / 2 - epsilon / mu) - math.exp(epsilon + log_ndtr(-mu / 2 - epsilon / mu))) - most

    whole = math.sqrt(2 * budget.capacity.value / budget.order)
    left, best = (1 - share) * budget.capacity.value / budget.order, 0.0
    for part in np.linspace(0.02, 0.98, 25):
        for epsilon in budget.epsilon * np.linspace(0.01, 0.99, 99):
            rest = Budget(budget.epsilon - epsilon, budget.delta * part)
            if rest.capacity.value / rest.order >= left:
                most = budget.delta * (1 - part)
                best = max(best, brentq(over, whole / 100, 3 * whole, args=(epsilon, most)))
    return best / (whole * math.sqrt(share)) - 1


if __name__ == "__main__":
    print("| budget, tables | " + " | ".join(f"{share:.0%}" for share in SHARES) + " |")
    print("|---|" + "---:|" * len(SHARES))
    for budget in BUDGETS:
        for tables in (1, 15, 120):
            figures = " | ".join(f"{100 * max(0.0, together(tables, budget, share)):.1f}" for share in SHARES)
            print(f"| {budget}, {tables} | {figures} |")
    budget = BUDGETS[1]
    figures = " | ".join("" if share == 1 else f"{100 * split(budget, share):.0f}" for share in SHARES)
    print(f"| {budget}, split as (ε', δ') | {figures} |")
    many = batch_of(400, budget, 1.0)
    begin = time.process_time()
    factor = smallest_noise_factor(many, budget.capacity.value)
    found = time.process_time()
    many.scale_noise(factor).fits(budget.capacity.value)
    print(f"\n400 tables: noise found in {found - begin:.2f} s, computed again in {time.process_time() - found:.3f} s")
