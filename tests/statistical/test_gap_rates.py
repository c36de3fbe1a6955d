"""The bounds on the rates of gaps hold as often as they say.

50 tables of 300 rows with two columns, failure 0.01: a correct estimate fails more than 12 times with probability below
1e-12 (Binomial(50, 0.01)). The empirical rate, which [MD]'s code plugs in, is above the true one about half of the time
in each column, and is caught: fewer than 13 failures of 50 at 3/4 have probability below 1e-12.
"""

import numpy as np

import gapless as gl
from gapless.testing.audit import letters_schema, private

TABLES, ROWS, RATES = 50, 300, (0.3, 0.6)


def test_bounds_hold_where_the_empirical_rate_does_not(tmp_path):
    rng = np.random.default_rng(2)
    wrong = plugged_in = 0
    for _ in range(TABLES):
        gaps = rng.random((ROWS, 2)) < RATES
        rows = [tuple(None if gap else "a" for gap in row) for row in gaps]
        table = private(rows, letters_schema([2, 2]), tmp_path, budget=gl.Budget(2.0, 0))
        found = gl.missing.gap_rates(table, spend=table.ledger.left, failure=0.01)
        wrong += any(bound > rate for bound, rate in zip(found.rates.values(), RATES, strict=True))
        plugged_in += bool((gaps.mean(axis=0) > RATES).any())
    assert wrong <= 12
    assert plugged_in > 12
