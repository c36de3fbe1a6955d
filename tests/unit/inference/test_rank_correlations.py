"""Rank correlations of values, from what was measured of bins or features."""

import numpy as np
import polars as pl
import pytest
from scipy.stats import multivariate_normal, norm, spearmanr

import gapless as gl
from gapless.inference.associations import pair_precision
from gapless.inference.rank_correlations import correlations, hermite_coefficients
from gapless.schema import Integer, Schema
from gapless.testing import fixed_noise
from gapless.testing.audit import private


def test_the_correlation_of_numbers_of_cells_follows_from_that_of_normal_scores():
    """Compared with the probabilities of cells of two correlated normal variables."""
    shares = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4])
    numbers = np.array([-1.0, 0.5, 2.0]), np.array([0.0, 1.0])
    ends = [np.clip(norm.ppf(np.append(0.0, np.cumsum(share))), -9, 9) for share in shares]
    series = hermite_coefficients(numbers[0], shares[0]) * hermite_coefficients(numbers[1], shares[1])
    standard = [
        (value - share @ value) / np.sqrt(share @ (value - share @ value) ** 2)
        for value, share in zip(numbers, shares, strict=True)
    ]
    for r in (-0.8, -0.3, 0.0, 0.5, 0.9):
        below = multivariate_normal(cov=[[1, r], [r, 1]]).cdf(np.stack(np.meshgrid(*ends, indexing="ij"), axis=-1))
        joint = np.diff(np.diff(below, axis=0), axis=1)
        found = float(r ** np.arange(1, len(series) + 1) @ series)
        assert found == pytest.approx(standard[0] @ joint @ standard[1], abs=0.004)


@pytest.mark.parametrize("method", [gl.MST, gl.Factors])
@pytest.mark.parametrize("bins", [2, 3, 8])
def test_rank_correlations_are_of_values_although_few_bins_are_measured(method, bins, tmp_path):
    """Scores of two bins have a correlation of .59 where ranks have one of .78."""
    rng = np.random.default_rng(bins)
    x = rng.normal(0, 1, 20_000)
    y = 0.8 * x + 0.6 * rng.normal(0, 1, 20_000)
    columns = [gl.Number(name, bounds=(-4, 4), bins=bins) for name in "xy"]
    frame = pl.DataFrame({"x": x.clip(-4, 4), "y": y.clip(-4, 4)})
    table = private(frame, Schema("t", columns), tmp_path, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        model = method().fit(table, spend=table.ledger.left)
    (pair,) = pair_precision(model)
    assert pair.value == pytest.approx(spearmanr(x, y).statistic, abs=0.03)
    if method is gl.MST:  # if bins were all, the correlation would be that of their ranks
        shares = np.bincount(((x.clip(-4, 3.99) + 4) * bins / 8).astype(int), minlength=bins) / len(x)
        assert pair.low < pair.value * (1 - (shares**3).sum())
    assert pair.half > (0.15 if bins < 8 else 0.05)  # how values are inside declared bins is not known


def test_a_relation_of_another_shape_is_inside_the_interval(tmp_path):
    """Half of y is 0 whatever x is, so its scores are not normal: in a large table the error exceeds the noise."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, 300_000)
    y = np.where(x % 2 == 0, 0, (x + rng.integers(0, 2, len(x))).clip(0, 19))
    schema = Schema("t", [Integer(name, bounds=(0, 19), bins="learned") for name in "xy"])
    table = private(pl.DataFrame({"x": x, "y": y}), schema, tmp_path, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        model = gl.Factors().fit(table, spend=table.ledger.left)
    (pair,) = pair_precision(model)
    truth = spearmanr(x, y).statistic
    assert pair.low < truth < pair.high < truth + 0.03
    assert pair.sampling_std == pytest.approx(np.sqrt((1 + truth**2 / 2) / len(x)) * (1 - truth**2), rel=0.02)


def test_columns_that_are_equal_have_a_correlation_of_one_although_most_values_are_tied(tmp_path):
    """A column of zeros with few other numbers has a long series."""
    rng = np.random.default_rng(1)
    x = (rng.random(50_000) < 0.01) * rng.integers(1, 50, 50_000)
    schema = Schema("t", [Integer(name, bounds=(0, 60), edges=(0, 1, 20, 40, 60)) for name in "xy"])
    table = private(pl.DataFrame({"x": x, "y": x}), schema, tmp_path, budget=gl.Budget(10.0, 1e-6))
    with fixed_noise(1):
        model = gl.MST().fit(table, spend=table.ledger.left)
    (pair,) = pair_precision(model)
    assert pair.value > 0.98
    assert pair.high == 1.0


def test_long_series_end_at_the_correlation_of_equal_and_of_opposite_columns():
    """Most rows of both columns are 0, so their series are long; opposite ones can hardly be correlated."""
    shares = np.array([0.97, 0.02, 0.01])
    series = hermite_coefficients(np.array([0.0, 1.0, 2.0]), shares)
    found = correlations(series, series)
    assert found[-1] == pytest.approx(1.0, abs=0.01)
    assert found[200] == 0.0
    assert (np.diff(found) > -0.01).all()
    assert -0.2 < found[0] < 0.0
