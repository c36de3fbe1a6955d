"""Errors of noisy tables before and after their empty cells are drawn to zero.

Each test compares squared errors of the same `TABLES` noisy tables, by the mean difference in units of its standard
error. False alarm: 3e-7, the chance that this exceeds `LIMIT` where nothing gets worse. Seeds are fixed.
"""

import numpy as np

from gapless.model.denoise import denoise

TABLES = 200
LIMIT = 5.0
NOISE = 15.0
MARGINS = (0.1 * NOISE,) * 2  # as if other tables knew them well


def worse(truth, change):
    """By how many standard errors a change of noisy tables makes them worse."""
    rng = np.random.default_rng(0)
    differences = []
    for _ in range(TABLES):
        table = truth + NOISE * rng.normal(size=truth.shape)
        differences.append(((change(table) - truth) ** 2).sum() - ((table - truth) ** 2).sum())
    return float(np.mean(differences) / (np.std(differences) / TABLES**0.5 + 1e-300))


def denoised(table):
    return denoise(table, NOISE, MARGINS).counts


def thresholded(table):
    """What a rule for sparse tables does to every table."""
    return np.where(table > 2 * NOISE, table, 0.0)


def dense():
    """As many rows for a cell as noise has."""
    wave = np.sin(np.arange(20))
    return NOISE * (1.5 + np.outer(wave, wave))


def sparse():
    steps = np.abs(np.subtract.outer(np.arange(20), np.arange(20)))
    return np.where(steps < 3, 3_000.0 * 0.75 ** np.add.outer(np.arange(20), np.arange(20)), 0.0)


def test_sparse_tables_get_better():
    assert worse(sparse(), denoised) < -LIMIT


def test_dense_tables_get_no_worse():
    for truth in (dense(), np.full((30, 30), NOISE / 3), np.full((10, 10), 10 * NOISE)):
        assert worse(truth, denoised) < LIMIT


def test_a_threshold_for_all_tables_would_be_found_out():
    assert worse(dense(), thresholded) > LIMIT
