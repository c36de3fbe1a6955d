"""What pooling relies on: copies differ by noise alone, and intervals hold the truth as often as they say."""

import math

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.model import distribution as product
from gapless.model import sampling
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Measurement
from gapless.schema import Categorical, Integer, Schema
from gapless.synth.learners import noise_of
from gapless.synth.learning import hierarchy_levels, nonnegative_counts
from gapless.synth.marginal import bayesian_network
from gapless.synth.measurements import Measurements
from gapless.testing.audit import private

ROWS, COPIES = 4000, 120
SCHEMA = Schema("people", [Categorical(name, ["0", "1"]) for name in ("x", "y", "z")])


def people(seed, rows=ROWS):
    rng = np.random.default_rng(seed)
    x = rng.integers(2, size=rows)
    y, z = ((rng.random(rows) < 0.3 + 0.4 * x).astype(int) for _ in range(2))
    return pl.DataFrame({"x": x, "y": y, "z": z}).cast(pl.String)


def between(copies):
    """The variance of a share among the copies, over that of noise in the released table of its columns."""
    shares = np.array([(t.codes[0] & t.codes[1]).sum() / t.rows for t in copies])
    return shares.var(ddof=1) / (noise_of(copies.measurements.tables)[0, 1] / ROWS) ** 2


def independent(probabilities, groups, rng):
    """What `systematic_by_group` does, but each row by itself."""
    return sampling.inverse_sample(probabilities, groups, rng.random(len(groups)))


def alone(probabilities, rows, rng):
    return rng.choice(len(probabilities), size=rows, p=probabilities / probabilities.sum())


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    table = private(people(1), SCHEMA, tmp_path_factory.mktemp("copies"), budget=gl.Budget(8.0, 1e-6))
    return gl.AIM(always=[("x", "y")]).fit(table, spend=table.ledger.left)


def test_copies_differ_by_noise_alone_and_not_by_drawing_rows(model, monkeypatch):
    """b is at most that of the noise, since tables agree with each other; independent rows would add p (1 - p) / n.

    Of 120 copies the ratio has a relative standard deviation of 0.13: bounds are 6 of these above the one and below the
    other, which is more than 3 times as large. So the sampler is part of the contract: with independent rows the same
    test fails.
    """
    share = 0.35
    assert share * (1 - share) / ROWS > 5 * (noise_of(model.measurements.tables)[0, 1] / ROWS) ** 2
    most = 1 + 6 * math.sqrt(2 / (COPIES - 1))
    assert 0.1 < between(model.copies(COPIES, seed=1)) < most
    for module in (sampling, bayesian_network):
        monkeypatch.setattr(module, "systematic_by_group", independent)
    monkeypatch.setattr(product, "systematic_codes", alone)
    assert between(model.copies(COPIES, seed=1)) > most


def spreads(*, scale=1.0, std=45.0):
    """Of the mean on a line with a spike, by its tree of noisy counts: over fresh noise, over noise put on again."""
    rng, cells = np.random.default_rng(0), np.arange(100)
    counts = 200 * np.exp(-((cells - 45.0) ** 2) / 200)
    counts[40] = 2500
    whole = [np.bincount(level, weights=counts) for level in hierarchy_levels(100, 0)]

    def mean(tables):
        rows = nonnegative_counts(tables, std, follow_noise=True)
        return rows @ cells / rows.sum()

    fresh, again = [], []
    for _ in range(800):
        released = [table + rng.normal(0, std, table.shape) for table in whole]
        resampled = [table + rng.normal(0, scale * std, table.shape) for table in released]
        fresh.append(mean(released))
        again.append(mean(resampled) - fresh[-1])
    return np.std(again) / np.std(fresh)


def test_copies_vary_by_what_noise_does_to_learned_cells():
    """The ratio of two standard deviations of 800 draws errs by 0.035: false alarm below 1e-8 with six of these.

    Noise that is a third smaller or two fifths larger is caught.
    """
    most = 6 * 0.035
    assert abs(spreads() - 1) < most
    for scale in (2 / 3, 1.4):
        assert abs(spreads(scale=scale) - 1) > most


def tail_means(*, planted, std=45.0, bins_std=12.0):
    """Errors of the mean on a line of which a tail has fewer rows than noise, by tables that might be released."""
    rng, cells = np.random.default_rng(3), np.arange(256)
    line = Integer("gain", bounds=(0, 255), bins="learned").with_cuts([0, 1, 256])
    schema = Schema("tail", [line])
    counts = np.where(cells == 0, 4500.0, 500 * np.exp(-cells / 20) / 20)
    whole = [np.bincount(level, weights=counts) for level in hierarchy_levels(256, 0)]
    bins, errors = np.array([counts[0], counts[1:].sum()]), []
    for _ in range(2000):
        tables = (Measurement((0,), bins + rng.normal(0, bins_std, 2), bins_std),)
        hierarchy = tuple(Measurement((0,), table + rng.normal(0, std, table.shape), std) for table in whole)
        measurements = Measurements(kind="product", tables=tables, bin_hierarchy=hierarchy, extended=True)
        held = measurements.within_bin_counts(schema, follow_noise=True)["gain"]
        clipped = np.array([0.0, held[1:] @ cells[1:] / held[1:].sum()])
        means = clipped if planted else measurements.bin_means(schema, 0, cells.astype(float))
        errors.append(means @ tables[0].counts / tables[0].counts.sum() - counts @ cells / counts.sum())
    return np.array(errors)


def test_means_of_a_tail_that_noise_hides_have_no_bias():
    """2,000 draws, in standard errors of their mean: false alarm below 1e-6 with five of these.

    Counts clipped at zero are caught: 20 of these and more.
    """
    for planted in (False, True):
        errors = tail_means(planted=planted)
        assert (abs(errors.mean()) > 5 * errors.std() / math.sqrt(len(errors))) == planted


@pytest.mark.slow
@pytest.mark.parametrize("method", [gl.MST, gl.Mixture])
def test_intervals_hold_the_truth(method, tmp_path):
    """120 samples of 4 estimates: coverage has a standard error of 0.02 if those of a sample depend on each other.

    Between 0.87 and 1; rows of a single synthetic table, taken for real, are far below at this budget.
    """
    truth = {"y|0": 0.3, "y|1": 0.7, "x": 0.5, "y": 0.5}
    hits, naive = [], []
    for seed in range(120):
        table = private(people(seed, 600), SCHEMA, tmp_path, budget=gl.Budget(0.5, 1e-6))
        model = method().fit(table, spend=table.ledger.left)
        copies = model.copies(6, seed=seed)
        found = {
            "y|0": gl.pool(copies, gl.Proportion("y == 1", by="x"))["0"],
            "y|1": gl.pool(copies, gl.Proportion("y == 1", by="x"))["1"],
            "x": gl.pool(copies, gl.Proportion("x == 1")).estimates[0],
            "y": gl.pool(copies, gl.Proportion("y == 1")).estimates[0],
        }
        hits += [
            estimate.interval[0] <= truth[name] <= estimate.interval[1]
            for name, estimate in found.items()
            if estimate.interval
        ]
        sample = model.sample(seed=seed)
        given = sample.codes[1][sample.codes[0] == 1]
        naive.append(abs(given.mean() - 0.7) <= 1.96 * math.sqrt(0.21 / len(given)))
    assert np.mean(hits) > 0.87
    assert np.mean(naive) < 0.85


def test_signs_of_nearly_empty_cells_do_not_move_pairs():
    """Cells below zero are lifted, and what pays for it should not be a pair of columns that is known well.

    Errors are in units of what noise changes, so the mean of 80 has a standard error of at most 0.11. It is about 0.36,
    and 1.2 for a fit that follows the large table alone: the bound is more than 3 of these away from both.
    """
    sizes, noise_std = (12, 10, 2), 10.0
    counts = np.full(sizes, 40.0)
    counts[..., 1] = 4  # less than noise in a cell; in those of a pair it is more
    rng = np.random.default_rng(17)

    def error(whole):
        """Of the rare rows in half of the second column, in standard deviations of their noisy number."""
        noisy = Measurement((0, 1, 2), counts + rng.normal(0, noise_std, sizes), noise_std)
        model = GraphicalModel.fit(sizes, [noisy], total=counts.sum(), follow_noise=True, unmerged=whole)
        off = (model.total * model.marginal([1, 2]) - counts.sum(axis=0))[:5, 1].sum()
        return off / (noise_std * math.sqrt(12 * 5))

    together, alone = (np.mean([error(whole) for _ in range(80)]) for whole in (3, 0))
    assert abs(together) < 0.75 < alone
