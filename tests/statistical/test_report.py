"""The whiskers of a release's report: how far shares of synthetic rows really lie from the truth."""

import numpy as np

import gapless as gl
from gapless.report.release_page import _noisy_column
from gapless.schema import Categorical, Schema
from gapless.testing.audit import private

FITS, CELLS, COLUMNS = 300, 6, 2


def test_whiskers_are_as_long_as_shares_are_off(tmp_path):
    """The mean square of 3,600 deviations, in the report's standard deviations.

    It is 5/6: shares add up to 1, so that of K equal cells each moves by 1 - 1/K of the noise squared. The mean has a
    standard deviation of about 0.02; the bounds are 6 of these away (false alarm below 1e-6), and whiskers that are too
    long or too short by a quarter fall far outside.
    """
    truth = np.full(CELLS, 1 / CELLS)
    letters = [chr(ord("a") + cell) for cell in range(CELLS)]
    rows = [(letter,) * COLUMNS for letter in letters] * 2000
    schema = Schema("letters", [Categorical(f"x{place}", letters) for place in range(COLUMNS)])
    table = private(rows, schema, tmp_path, budget=gl.Budget(10.0, 1e-6))
    deviations = []
    for fit in range(FITS):
        model = gl.Independent().fit(table, spend=table.ledger.share("0.3%"))
        sample = model.sample(12_000, seed=fit)
        for place in range(COLUMNS):
            column = _noisy_column(model, sample, place, lambda _: 1.0)
            deviations += ((np.array(column.shares) - truth) / column.std).tolist()
    square = float(np.mean(np.square(deviations)))
    assert 0.71 < square < 0.95
    assert not 0.71 < square / 1.25**2 < 0.95
    assert not 0.71 < square / 0.8**2 < 0.95
