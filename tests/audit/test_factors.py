"""Attacks on `Factors`: on the answers of its stages together, and on the fit with an error planted in it.

The attack on answers is adaptive: the features of the second stage depend on the answer of the first. A false alarm
needs a difference of two rates that is 6.7 standard deviations off, since each limit is 4.75 off: with a chance below
1e-10 for each of the three honest runs. An honest run is too weak if it is 6 off the other way: below 1e-8. Planted
errors must be found.
"""

import math
from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.data import workload
from gapless.data.workload import FEATURE_LENGTH, PRODUCT_LENGTH, FutureValue
from gapless.errors import BudgetError, ModelError
from gapless.privacy import L1, Budget, DiscreteGaussian, Grant, L2Vector, Ledger
from gapless.privacy.noise import SystemNoise
from gapless.synth import Factors
from gapless.synth.marginal import factors, features
from gapless.testing.audit import mu_at_least, private
from gapless.testing.noise import ScaledNoise

HONEST = SystemNoise()
TRIALS = 250_000
SCHEMA = gl.Schema(
    "attacked",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Ordinal("grade", ["1", "2", "3", "4"], may_be_missing=True),
        gl.Integer("age", bounds=(0, 400), bins="learned", may_be_missing=True),  # three stages
    ],
)
RNG = np.random.default_rng(7)
ROWS = [
    tuple(None if RNG.random() < 0.1 else str(RNG.choice(cells)) for cells in (["F", "M"], [1, 2, 3, 4], range(400)))
    for _ in range(300)
]
MISSING = [gl.Extended(), gl.Observed(), gl.CompleteRows()]


def opened(folder, epsilon=1.0):
    return private(ROWS, SCHEMA, folder, budget=Budget(epsilon, 1e-6))


# ---------------------------------------------------------------------- the answers


def planned_noise(table):
    """The noise of a count, and of products of two features by two, for a whole budget."""
    grant = table.ledger.grant(table.ledger.left, to="audit")
    return grant.noise_for(
        [FutureValue(L1(1), None), FutureValue(L2Vector(float(PRODUCT_LENGTH), 4), None)], grant.left
    )


def feature_products(answers, length=1.0):
    """The products that the person adds: features at an angle that depends on the answer of the first stage."""
    angles = np.pi * (np.arange(16) + 0.5) / 16
    vectors = np.trunc(length * FEATURE_LENGTH * np.stack([np.cos(angles), np.sin(angles)], axis=1)).astype(np.int64)
    chosen = vectors[np.abs(answers) % 16]
    return (chosen[:, :, None] * chosen[:, None, ::-1]).reshape(len(answers), 4)


def attacked(noises, source, *, length=1.0, second=None):
    """A lower bound on μ from the log-ratios of both stages, with the person and without.

    Args:
        noises: that were charged, by which the attacker computes.
        source: draws.
        length: of the features.
        second: the source of the second stage, if it is another.
    """
    mu = math.sqrt(
        sum((distance / noise.std) ** 2 for distance, noise in zip((1, PRODUCT_LENGTH), noises, strict=True))
    )
    above = []
    for present in (1, 0):
        first = noises[0](np.full(TRIALS, present), source)
        moved = feature_products(first, length)
        answers = noises[1](present * moved, second or source)
        ratios = (first - 0.5) / noises[0].std ** 2 + ((answers - moved / 2) * (moved / noises[1].std ** 2)).sum(axis=1)
        above.append(int((ratios > 0).sum()))
    return mu_at_least(*above, TRIALS), mu


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_features_that_follow_from_answers_lose_no_more_than_the_sum_of_squares(epsilon, tmp_path):
    lower, mu = attacked(planned_noise(opened(tmp_path, epsilon)), HONEST)
    assert lower <= mu * 1.01  # answers are whole numbers: the threshold moves a little
    assert lower > mu - 0.05  # the attack is as strong as any, but for the limits, which take 0.024 off


@pytest.mark.parametrize(
    "planted",
    [
        {"source": ScaledNoise(0.5, HONEST)},
        {"source": ScaledNoise(0.8, HONEST)},
        {"source": HONEST, "length": 1.2},
        {"source": HONEST, "second": ScaledNoise(0.6, HONEST)},
    ],
    ids=["half the noise", "less noise", "features longer than 1", "less noise after the first stage"],
)
def test_planted_errors_show_in_the_answers(planted, tmp_path):
    lower, mu = attacked(planned_noise(opened(tmp_path)), **planted)
    assert lower > mu * 1.01


# ---------------------------------------------------------------------- the fit


@pytest.mark.parametrize("missing", MISSING)
def test_every_stage_is_charged_before_the_first_read_and_drawn_as_charged(missing, tmp_path):
    table, drawn, charges = opened(tmp_path), [], []
    draw, charge = DiscreteGaussian.__call__, Ledger.charge

    def noted(mechanism, value, noise):
        drawn.append((mechanism.std, value.size))
        return draw(mechanism, value, noise)

    def charged(*args, **named):
        charges.append(len(drawn))
        return charge(*args, **named)

    with mock.patch.object(DiscreteGaussian, "__call__", noted), mock.patch.object(Ledger, "charge", charged):
        model = Factors(missing=missing).fit(table, spend=table.ledger.left)
    assert charges == [0]
    assert sum("cells" in entry.what for entry in table.ledger.entries) == 5  # the levels of ages
    entries = table.ledger.entries
    assert all(entry.together for entry in entries)
    assert [entry.mechanism["std"] for entry in entries] == [std for std, _ in drawn]
    products = [entry for entry in entries if "products" in entry.what]
    length = PRODUCT_LENGTH * (1.0 if missing == gl.Extended() else math.sqrt(1.25))
    assert [entry.distance["L2Vector"] for entry in products] == pytest.approx([length] * 3, rel=1e-15)
    assert all(size <= entry.distance.get("numbers", size) for entry, (_, size) in zip(entries, drawn, strict=True))
    assert table.ledger.left.value == pytest.approx(0.0, abs=1e-9)
    for entry in products:  # the fit knows the noise that was drawn
        assert f"{entry.what}: noise std {entry.mechanism['std'] / PRODUCT_LENGTH:.1f}" in model.facts.structure
    batch, _ = table.ledger.first_batch
    mu = math.fsum((next(iter(entry.distance.values())) / entry.mechanism["std"]) ** 2 for entry in entries)
    assert batch.loss == pytest.approx(table.ledger.order / 2 * mu)


def test_features_longer_than_1_are_refused_before_the_products_are_read(tmp_path):
    table = opened(tmp_path)
    with (
        mock.patch.object(features, "FEATURE_LENGTH", FEATURE_LENGTH + 1),
        mock.patch.object(workload.Views, "_products", side_effect=AssertionError("products were read")),
        pytest.raises(ModelError, match="the Euclidean norm of a feature vector is above 4096"),
    ):
        Factors().fit(table, spend=table.ledger.left)


def test_half_the_noise_is_refused_before_anything_is_read(tmp_path):
    table, real = opened(tmp_path), Grant.noise_for

    def halved(*args, **named):
        return [DiscreteGaussian(noise.std / 2) for noise in real(*args, **named)]

    with mock.patch.object(Grant, "noise_for", halved), pytest.raises(BudgetError, match="is left in this grant"):
        Factors().fit(table, spend=table.ledger.left)
    assert table.ledger.entries == ()


@pytest.mark.parametrize("planned", [{}, {"numbers": 10**6}, {"columns": ["sex", "age"]}])
def test_products_with_another_distance_or_reads_than_planned_are_refused(planned, tmp_path):
    """Planted: half the distance, another length, other columns."""
    table, real = opened(tmp_path), factors.planned_products

    def wrong(table, columns, *, rows, numbers):
        found = real(table, planned.get("columns", columns), rows=rows, numbers=planned.get("numbers", numbers))
        return found if planned else found._replace(distance=L2Vector(found.distance.at_most / 2, numbers))

    with (
        mock.patch.object(factors, "planned_products", wrong),
        mock.patch.object(workload.Views, "_products", side_effect=AssertionError("products were read")),
        pytest.raises(BudgetError, match="the next value of the plan has"),
    ):
        Factors(missing=gl.Observed()).fit(table, spend=table.ledger.left)


@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed()])
def test_after_another_release_the_sum_of_losses_is_charged(missing, tmp_path):
    table = opened(tmp_path)
    table.ask(gl.Count(), spend="10%")
    Factors(missing=missing).fit(table, spend=table.ledger.left)
    assert not any(entry.together for entry in table.ledger.entries)
    assert table.ledger.left.value == pytest.approx(0.0, abs=1e-9)


def test_after_an_imputation_the_sum_of_losses_is_charged(tmp_path):
    table = opened(tmp_path)
    Factors(missing=gl.ImputeFirst(gl.missing.FromMean())).fit(table, spend=table.ledger.left)
    entries = table.ledger.entries
    assert not any(entry.together for entry in entries)
    stages = [[entry.what for entry in entries if entry.batch == batch] for batch in sorted({e.batch for e in entries})]
    assert [what[0] for what in stages] == ["age in 2 cells", "sex, to fill gaps", "sex"]
    assert all(entry.reads is None for entry in entries if "products" in entry.what)
    assert math.fsum(entry.loss for entry in entries) <= table.ledger.capacity.value * (1 + 1e-9)
