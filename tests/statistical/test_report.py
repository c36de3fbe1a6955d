"""The whiskers of a release's report: how far shares of synthetic rows really lie from the truth."""

import numpy as np

import gapless as gl
from gapless.release.report import _noisy_column
from gapless.testing.tables import letters_schema, private

FITS, CELLS, COLUMNS = 100, 6, 2


def test_whiskers_are_as_long_as_shares_are_off(tmp_path):
    """The mean square of 1,200 deviations, in the report's standard deviations.

    It is 5/6 where all is noise: shares add up to 1, so that of K equal cells each moves by 1 - 1/K of the noise
    squared. The mean has a standard deviation below 0.05; the bounds are 5 of these apart on either side (false alarm
    below 1e-6 if deviations are about normal), and whiskers that are too long or short by a quarter fall outside.
    """
    truth = np.full(CELLS, 1 / CELLS)
    letters = [chr(ord("a") + cell) for cell in range(CELLS)]
    rows = [(letter,) * COLUMNS for letter in letters] * 500
    table = private(rows, letters_schema((CELLS,) * COLUMNS), tmp_path, budget=gl.Budget(10.0))
    deviations = []
    for fit in range(FITS):
        model = gl.Independent().fit(table, spend=table.ledger.share(percent=1))
        sample = model.sample(20_000, seed=fit)
        for place in range(COLUMNS):
            column = _noisy_column(model, sample, place, lambda _: 1.0)
            deviations += ((np.array(column.shares) - truth) / column.stds).tolist()
    square = float(np.mean(np.square(deviations)))
    assert 0.6 < square < 1.1
    assert not 0.6 < square / 1.25**2 < 1.1
    assert not 0.6 < square / 0.8**2 < 1.1
