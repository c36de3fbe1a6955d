"""Weights by classifiers: what is released, refused and estimated."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.private_logistic import Points, minimize
from gapless.model.neural.descent import OddsTraining
from gapless.privacy import DiscreteGaussian, DiscreteLaplace, KNorm
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise, no_noise
from gapless.weights.discriminators import has_mean, log_means

SCHEMA = gl.Schema(
    "mixed",
    [
        gl.Categorical("x", ["a", "b"], may_be_missing=True),
        gl.Number("y", bounds=(0, 1), bins=10, may_be_missing=True),
    ],
)
BUDGET = gl.Budget(2.0, 1e-6)


def rows(many, seed, *, share):
    """x is b for a share of the rows, and y is larger there."""
    rng = np.random.default_rng(seed)
    x = rng.random(many) < share
    return pl.DataFrame({"x": np.where(x, "b", "a").tolist(), "y": (rng.beta(1 + 2 * x, 2)).astype(str).tolist()})


FAKE = gl.Table.read(rows(2000, 1, share=0.5), SCHEMA)
TRUTH = gl.Table.read(rows(4000, 2, share=0.8), SCHEMA)
B = FAKE.codes[0] == 1


def people(folder, frame=None, budget=BUDGET):
    return private(rows(4000, 2, share=0.8) if frame is None else frame, SCHEMA, folder, budget=budget)


def share_of_b(weights):
    return float(np.asarray(weights) @ B / len(weights))


@pytest.mark.parametrize("method", [gl.weights.LogReg(regularization=1.0), gl.weights.MLP()])
def test_without_noise_the_share_of_a_level_is_the_truths(method):
    weights = method.fit(TRUTH, FAKE)
    assert share_of_b(weights) == pytest.approx(0.8, abs=0.04)
    assert "NOT PRIVATE" in str(weights)
    assert np.asarray(weights).tolist() == np.asarray(method.fit(TRUTH, FAKE)).tolist()


@pytest.mark.parametrize(
    "method",
    [
        gl.weights.LogisticWeights(),
        gl.weights.LogisticWeights(debias=False),
        gl.weights.LogisticWeights(noise="laplace"),
        gl.weights.LogisticWeights(noise="knorm"),
        gl.weights.NetworkWeights(steps=100),
    ],
)
def test_private_ones_come_near(method, tmp_path):
    table = people(tmp_path)
    with fixed_noise(5):
        weights = method.fit(table, FAKE, spend=table.ledger.left)
    assert 0.65 < share_of_b(weights) < 0.9
    (entry,) = table.ledger.entries
    assert entry.what in ("coefficients", "network")
    assert entry.reads is None
    assert table.ledger.percentages()[0] == pytest.approx(100, abs=0.01)


def test_without_noise_they_are_those_of_a_regression(tmp_path):
    table = people(tmp_path)
    with no_noise():
        found = gl.weights.LogisticWeights(debias=False).fit(table, FAKE, spend=table.ledger.left)
    assert np.asarray(found) == pytest.approx(np.asarray(gl.weights.LogReg().fit(TRUTH, FAKE)), rel=1e-3)


def test_noised_weights_without_noise_are_cut_odds(tmp_path):
    points = Points.of(SCHEMA)
    both = [(points(TRUTH.codes), 1.0), (points(FAKE.codes), -1.0)]
    odds = np.exp(both[1][0] @ minimize(lambda: iter(both), points, 0.1 * FAKE.rows, tolerance=1e-6))
    for largest in (10.0, 2.0):
        table = people(tmp_path)
        with no_noise():
            found = gl.weights.NoisedWeights(largest=largest).fit(table, FAKE, spend=table.ledger.left)
        cut = np.minimum(odds, largest)
        assert np.asarray(found) == pytest.approx(cut / cut.mean(), rel=1e-3)
    assert (odds > 2).any()


def test_weights_of_which_noise_leaves_none_are_those_of_the_rows_as_they_are(tmp_path):
    """A single row: noise on its weight is below 0 half of the time, and nothing is said of the private rows."""
    table = people(tmp_path)
    for seed in range(6):
        with fixed_noise(seed):
            weights = gl.weights.NoisedWeights().fit(table, FAKE[:1], spend=table.ledger.share("1%"))
        assert np.asarray(weights) == pytest.approx(1.0)


def test_noise_on_weights_keeps_a_pure_promise_by_the_length_of_all(tmp_path):
    for budget, name in ((gl.Budget(2.0, 0), "KNorm"), (BUDGET, "DiscreteGaussian")):
        table = people(tmp_path, budget=budget)
        gl.weights.NoisedWeights().fit(table, FAKE[:20], spend=table.ledger.left)
        assert table.ledger.entries[0].mechanism["name"] == name


def test_a_regression_is_that_of_scikit_learn():
    sklearn = pytest.importorskip("sklearn.linear_model")
    points = Points.of(SCHEMA)
    features = np.vstack([points(TRUTH.codes), points(FAKE.codes)])
    label = np.repeat([1, 0], [TRUTH.rows, FAKE.rows])
    theirs = sklearn.LogisticRegression(C=1 / 200.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    odds = np.exp(theirs.fit(features, label).decision_function(points(FAKE.codes)))
    ours = np.asarray(gl.weights.LogReg(regularization=200.0).fit(TRUTH, FAKE))
    assert ours == pytest.approx(odds / odds.mean(), rel=1e-4)


@pytest.mark.parametrize("method", [gl.weights.LogisticWeights(), gl.weights.NetworkWeights(steps=5)])
def test_an_empty_private_table_works(method, tmp_path):
    table = people(tmp_path, rows(0, 1, share=0.5).cast(pl.String))
    with fixed_noise(5):
        weights = method.fit(table, FAKE, spend=table.ledger.left)
    assert len(weights) == FAKE.rows


def test_a_pure_budget_takes_laplace_and_knorm_noise_only(tmp_path):
    table = people(tmp_path, budget=gl.Budget(20.0, 0))
    for method in (gl.weights.LogisticWeights(), gl.weights.NetworkWeights(steps=5)):
        with pytest.raises(gl.errors.BudgetError):
            method.fit(table, FAKE, spend=table.ledger.left)
    assert not table.ledger.entries
    for noise, name in (("laplace", "DiscreteLaplace"), ("knorm", "KNorm")):
        gl.weights.LogisticWeights(noise=noise).fit(table, FAKE, spend=table.ledger.share("50%"))
        assert table.ledger.entries[-1].mechanism["name"] == name


@pytest.mark.parametrize("noise", ["laplace", "knorm"])
def test_a_mean_that_is_infinite_is_refused_before_anything_is_spent(noise, tmp_path):
    table = people(tmp_path)
    little = gl.weights.LogisticWeights(noise=noise, regularization=0.1)
    with pytest.raises(gl.errors.ModelError, match="this mean is infinite") as refused:
        little.fit(table, FAKE, spend=table.ledger.left)
    assert 'noise="gaussian"' in refused.value.hint
    assert "debias=False" in refused.value.hint
    assert not table.ledger.entries


@pytest.mark.parametrize(
    ("method", "wrong"),
    [
        (gl.weights.LogisticWeights(noise="cauchy"), "noise = 'cauchy', but noise must be one of"),
        (gl.weights.LogisticWeights(regularization=0), "regularization = 0"),
        (gl.weights.NoisedWeights(regularization=0), "regularization = 0"),
        (gl.weights.NoisedWeights(largest=float("inf")), "largest = inf"),
        (gl.weights.NetworkWeights(hidden=0), "hidden"),
        (gl.weights.NetworkWeights(learning_rate=-1.0), "learning_rate"),
    ],
)
def test_settings_are_checked_before_anything_is_spent(method, wrong, tmp_path):
    table = people(tmp_path)
    with pytest.raises(gl.errors.ModelError, match=wrong):
        method.fit(table, FAKE, spend=table.ledger.left)
    assert not table.ledger.entries


def test_public_methods_refuse_private_tables(tmp_path):
    table = people(tmp_path)
    for method in (gl.weights.LogReg(), gl.weights.MLP(steps=1)):
        with pytest.raises(gl.errors.SealedError):
            method.fit(table, FAKE)
        with pytest.raises(gl.errors.ModelError, match="table has none"):
            method.fit(TRUTH[:0], FAKE)


POINTS = np.array([[0.0, 0.0], [0.5, -1.0], [1.0, 1.0]])


def test_factors_are_sums_over_the_noise_as_it_is_drawn():
    """The discrete distributions written out, on a coarse grid where they differ much from the continuous ones."""
    for noise, weight in [
        (DiscreteLaplace(1.5), lambda z: np.exp(-np.abs(z) / 1.5)),
        (DiscreteGaussian(2.5), lambda z: np.exp(-(z**2) / 12.5)),
    ]:
        z = np.arange(-400, 401)
        probabilities = weight(z) / weight(z).sum()
        step = 0.3
        means = [np.prod([probabilities @ np.exp(step * z * x) for x in point]) for point in POINTS]
        assert np.exp(log_means(POINTS, noise, step)) == pytest.approx(np.array(means), rel=1e-9)


def test_factors_on_a_fine_grid_are_those_of_continuous_noise():
    step, rho = 2.0**-30, 0.4
    assert np.exp(-log_means(POINTS, DiscreteLaplace(rho / step), step)) == pytest.approx(
        np.prod(1 - rho**2 * POINTS**2, axis=1), rel=1e-6
    )
    assert has_mean(DiscreteLaplace(0.999 / step), step, 2.0)
    assert not has_mean(DiscreteLaplace(1.0 / step), step, 2.0)
    assert has_mean(DiscreteGaussian(1e3 / step), step, 2.0)
    assert has_mean(KNorm(0.499 / step), step, 2.0)
    assert not has_mean(KNorm(0.5 / step), step, 2.0)


def test_the_knorm_factor_is_an_integral_over_its_density():
    """In the plane, in polar coordinates: the radius has the density r e^(-r/b), the direction is even."""
    step, scale = 0.01, 40.0
    r, angle = np.meshgrid(np.linspace(0, 60, 4001)[1:], np.linspace(0, 2 * np.pi, 721)[:-1], indexing="ij")
    density = r * np.exp(-r)
    for point in POINTS:
        along = step * scale * r * (point[0] * np.cos(angle) + point[1] * np.sin(angle))
        mean = (density * np.exp(along)).sum() / density.sum()
        assert np.exp(log_means(point[None], KNorm(scale), step))[0] == pytest.approx(mean, rel=1e-4)


def test_one_factor_for_all_rows_cancels():
    """With levels alone all points are as far from the origin: debiasing changes nothing once weights have mean 1."""
    schema = gl.Schema("letters", [gl.Categorical(name, ["a", "b", "c"]) for name in "xy"])
    fake = gl.Table(schema, np.random.default_rng(0).integers(3, size=(2, 50)), rows=50)
    points = Points.of(schema)(fake.codes)
    plain = np.exp(points @ np.arange(7.0))
    debiased = plain / np.exp(log_means(points, DiscreteGaussian(900.0), 0.001))
    assert not np.allclose(plain, debiased)
    assert plain / plain.mean() == pytest.approx(debiased / debiased.mean())


class Counting:
    """Noise that notes what is asked of it."""

    def __init__(self):
        self.asked = []

    def uniform_words(self, size):
        return np.zeros(size, dtype=np.uint64)  # every row is in every lot

    def discrete_gaussian(self, std, size):
        self.asked.append((std, size))
        return np.zeros(size, dtype=np.int64)


def test_step_noise_does_not_depend_on_the_sampled_rows(tmp_path):
    """[IW], Algorithm 1, adds noise for each private row that is drawn: none if there is none."""
    from gapless.data.training import training_rows
    from gapless.privacy import PrivateTraining
    from gapless.weights.discriminators import NetworkSettings
    from helpers.open_sealed import reveal

    asked = []
    for many in (0, 1, 300):
        table = people(tmp_path, rows(many, 1, share=0.5).cast(pl.String))
        program = NetworkSettings(hidden=4, steps=3, rate=0.5, learning_rate=0.1).program(FAKE)
        assert isinstance(program, OddsTraining)
        value = training_rows(table, program)
        mechanism = PrivateTraining(rate=0.5, steps=3, clip=1.0, std=2.0, numbers=program.numbers)
        noise = Counting()
        mechanism(reveal(value, table.ledger), noise)
        asked.append(noise.asked)
    assert asked[0] == asked[1] == asked[2] == [(2.0 * 2**20, program.numbers)] * 3
