"""Generative networks: what is released and read, how many noised sums there are, what is learned, what is refused."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.missing import STRATEGIES
from gapless.synth import METHODS
from gapless.synth.adversarial import gan, misgan
from gapless.synth.adversarial.gan import Adversarial
from gapless.testing.audit import private
from gapless.testing.noise import _active, fixed_noise, scaled_noise
from helpers.counting_noise import CountingNoise

GANS = {name: method for name, method in METHODS.items() if issubclass(method, Adversarial)}
NATURAL = {name: "observed" if name == "misgan" else "extended" for name in GANS}
every_gan = pytest.mark.parametrize("name", GANS)


def schema(sizes=(4, 3, 2)):
    columns = [
        gl.Categorical(name, [f"{name}{level}" for level in range(size)], may_be_missing=name != "a")
        for name, size in zip("abc", sizes, strict=True)
    ]
    return gl.Schema("people", columns)


def people(rows=2_000, seed=0):
    """b and c follow a; where b is missing, c mostly is."""
    rng = np.random.default_rng(seed)
    a = rng.integers(4, size=rows)
    b = np.where(rng.random(rows) < 0.9, a % 3, rng.integers(3, size=rows))
    c = np.where(rng.random(rows) < 0.9, a % 2, rng.integers(2, size=rows))
    lost = rng.random(rows) < 0.3
    also = lost ^ (rng.random(rows) < 0.1)
    return pl.DataFrame(
        {
            "a": [f"a{code}" for code in a],
            "b": [None if gone else f"b{code}" for code, gone in zip(b, lost, strict=True)],
            "c": [None if gone else f"c{code}" for code, gone in zip(c, also, strict=True)],
        }
    )


def fit(name, folder, missing=None, *, rows=2_000, budget=None, **settings):
    folder.mkdir(exist_ok=True)
    table = private(people(rows), schema(), folder, budget=budget or gl.Budget(5.0, 1e-6))
    treatment = STRATEGIES[missing or NATURAL[name]]()
    model = GANS[name](missing=treatment, **{"steps": 3} | settings).fit(table, spend=table.ledger.left)
    return model, table.ledger


# ------------------------------------------------------------------ releases


@every_gan
def test_the_released_values(name, tmp_path):
    _, ledger = fit(name, tmp_path)
    released = [(entry.what, entry.mechanism["name"], entry.reads) for entry in ledger.entries]
    trainings = {
        "dpautogan": [("autoencoder", "PrivateTraining", None), ("critics", "PrivateTraining", None)],
        "pategan": [("votes", "TeacherVotes", None)],
    }.get(name, [("critics", "PrivateTraining", None)])
    columns = [(column, "DiscreteGaussian", None) for column in "abc"]
    assert released == columns + trainings
    losses = [entry.loss / ledger.capacity.value for entry in ledger.entries]
    assert sum(losses[:3]) == pytest.approx(gan.COLUMNS_SHARE, rel=1e-3)
    if name == "dpautogan":
        assert losses[3] == pytest.approx((1 - gan.COLUMNS_SHARE) * gan.AUTO_SHARE, rel=1e-3)
    assert sum(losses) == pytest.approx(1, rel=1e-3)


def test_complete_rows_are_all_that_is_read(tmp_path):
    _, ledger = fit("misgan", tmp_path, "complete-rows")
    assert [entry.what for entry in ledger.entries] == ["a", "b", "c", "number of rows", "critics"]
    assert all(entry.reads == ["b", "c"] for entry in ledger.entries if entry.what != "number of rows")


@pytest.mark.parametrize("name", ["misgan", "dpautogan"])
@pytest.mark.parametrize("protect", [1, 2])
def test_as_many_noised_sums_as_are_charged_and_of_the_noise_that_is(name, protect, tmp_path):
    table = private(people(60), schema(), tmp_path, budget=gl.Budget(5.0, 1e-6), protect=gl.Rows(protect))
    source = CountingNoise()
    with _active(source):
        GANS[name](steps=3).fit(table, spend=table.ledger.left)
    wanted = []
    for entry in table.ledger.entries:
        facts = entry.mechanism
        if facts["name"] == "PrivateTraining":
            std = facts["std"] * 2.0**20 / np.sqrt(facts["draws"])
            wanted += [(pytest.approx(std), facts["numbers"])] * (facts["steps"] * facts["draws"])
            assert facts["steps"] == 3
            assert facts["rate"] == gan.RATE
    assert source.drawn[-len(wanted) :] == wanted
    assert len(source.drawn) == len(wanted) + 3  # tables of one column


@every_gan
def test_nothing_public_follows_the_number_of_rows(name, tmp_path):
    mechanisms = []
    for rows in (0, 50, 500):
        _, ledger = fit(name, tmp_path / str(rows), rows=rows)
        mechanisms.append(
            [e.mechanism | {"clip": 0, "std": 0} for e in ledger.entries if e.mechanism["name"] != "DiscreteGaussian"]
        )
    assert mechanisms[0] == mechanisms[1] == mechanisms[2]  # the clipping norm follows from released marginals


# ------------------------------------------------------------------ what is learned


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "dpcgan" else pytest.mark.slow) for name in GANS]
)
def test_columns_that_go_together_are_learned(name, tmp_path):
    with scaled_noise(1e-9):
        model, _ = fit(name, tmp_path, steps=100)
    rows = model.sample(4_000, seed=1)
    truth = people(4_000, seed=3).drop_nulls()
    wanted = gl.Table.read(truth, schema())
    for pair in (("a", "b"), ("a", "c"), ("b", "c")):
        real, made = (table.marginal(list(pair)) / table.rows for table in (wanted, rows))
        alone = np.outer(real.sum(axis=1), real.sum(axis=0))
        assert np.abs(made[: real.shape[0], : real.shape[1]] - real).sum() < 0.6 * np.abs(alone - real).sum(), pair


def test_the_mask_generator_learns_gaps_that_come_together(tmp_path):
    with scaled_noise(1e-9):
        model, _ = fit("misgan", tmp_path, steps=100)
    rows = model.sample(4_000, seed=1, gaps="as-observed")
    gone = np.stack([codes >= column.size for codes, column in zip(rows.codes, rows.schema.columns, strict=True)])
    real = people(4_000, seed=3)
    lost = np.stack([real[column].is_null().to_numpy() for column in "abc"])
    assert not gone[0].any()
    assert np.abs(gone.mean(axis=1) - lost.mean(axis=1)).max() < 0.03
    together = (lost[1] & lost[2]).mean()
    alone = lost[1].mean() * lost[2].mean()
    assert abs((gone[1] & gone[2]).mean() - together) < 0.4 * abs(alone - together)


def test_a_label_is_drawn_from_its_table_and_named_in_the_facts(tmp_path):
    model, _ = fit("dpcgan", tmp_path, label="b")
    assert model.facts.settings["label"] == "b"
    assert model.filled.generator.given == (1,)
    assert fit("dpcgan", tmp_path / "last")[0].facts.settings["label"] == "c"


# ------------------------------------------------------------------ critics


@every_gan
def test_a_critic_is_carried_with_the_entry_that_paid_for_it_and_survives_a_file(name, tmp_path):
    model, ledger = fit(name, tmp_path)
    assert model.critic is not None
    assert ledger.entries[-1].what == ("votes" if name == "pategan" else "critics")
    assert not unpaid(model, ledger)
    rows = model.sample(300, seed=1)
    weights = gl.weights.CriticWeights(model).fit(rows)
    model.save(tmp_path / "m")
    again = gl.weights.CriticWeights(gl.load(tmp_path / "m")).fit(rows)
    assert np.array_equal(weights.values, again.values)
    assert weights.method == "critic"
    before, after = rows.marginal("a"), np.bincount(rows.codes[0], weights.values, minlength=4)
    np.testing.assert_allclose(after, before, rtol=1e-3)  # columns stay


def test_weights_bring_pairs_closer_where_the_generator_fell_short(tmp_path):
    with scaled_noise(1e-9):
        model, _ = fit("dpgan", tmp_path, "complete-rows", steps=2)
    rows = model.sample(4_000, seed=1)
    weights = gl.weights.CriticWeights(model).fit(rows)
    wanted = gl.Table.read(people(4_000, seed=3).drop_nulls(), schema())
    assert gl.evaluate.kway_distance(wanted, rows, weights=weights) < 0.9 * gl.evaluate.kway_distance(wanted, rows)


def unpaid(model, ledger):
    """Whether a model has a critic that was not paid for in its ledger."""
    if model.critic is None:
        return False
    entry = {entry.number: entry for entry in ledger.entries}[model.critic.entry]
    return entry.mechanism["name"] not in ("PrivateTraining", "TeacherVotes") or entry.to != f"{type_of(model)}.fit"


def type_of(model):
    return METHODS[model.method].__name__


def test_a_critic_that_is_handed_out_unpaid_is_found(tmp_path, monkeypatch):
    """Planted: the entry that paid for gradients by made rows is taken for one that paid for critics."""
    assert not unpaid(*fit("misgan", tmp_path / "honest", noised="generators"))
    handed = gan.CriticFacts(kept=1.0, noise_std=0.0, clip=1.0)
    monkeypatch.setattr(misgan, "GameResult", lambda released, _: gan.GameResult(released, handed))
    assert unpaid(*fit("misgan", tmp_path / "planted", noised="generators"))


def test_critics_that_saw_rows_as_they_are_are_not_handed_out(tmp_path):
    model, ledger = fit("misgan", tmp_path, noised="generators")
    assert [(entry.what, entry.mechanism["name"]) for entry in ledger.entries][3:] == [
        ("gradients", "SubsampledTeacher")
    ]
    assert ledger.left.value == pytest.approx(0, abs=1e-6 * ledger.capacity.value)
    assert model.critic is None
    assert model.facts.settings["noised"] == "generators"
    with pytest.raises(gl.errors.ModelError, match="this misgan model stores none"):
        gl.weights.CriticWeights(model).fit(model.sample(5, seed=0))
    model.save(tmp_path / "m")
    assert gl.load(tmp_path / "m").critic is None


def test_no_weights_without_a_critic_that_was_paid_for(tmp_path):
    table = private(people(50), schema(), tmp_path)
    model = gl.Independent().fit(table, spend=table.ledger.share("50%"))
    with pytest.raises(
        gl.errors.ModelError,
        match="this independent model stores none\n  Try: fit a model with the method dpgan",
    ):
        gl.weights.CriticWeights(model).fit(model.sample(5, seed=0))
    alone = private(people(50).select("b"), schema().select(["b"]), tmp_path)
    model = gl.synth.DPGAN(steps=2).fit(alone, spend=alone.ledger.left)
    with pytest.raises(gl.errors.ModelError, match="needs at least 2 columns, but this dpgan model has 1"):
        gl.weights.CriticWeights(model).fit(model.sample(5, seed=0))
    with pytest.raises(gl.errors.ModelError, match="takes a fitted model, not a"):
        gl.weights.CriticWeights(object()).fit(model.sample(5, seed=0))


def test_weights_are_for_public_rows_of_the_same_cells(tmp_path):
    model, _ = fit("dpgan", tmp_path)
    critic_weights = gl.weights.CriticWeights(model)
    with pytest.raises(gl.errors.ModelError, match="the table to weight has no rows"):
        critic_weights.fit(model.sample(0))
    with pytest.raises(gl.errors.SealedError, match="a public Table, not a PrivateTable"):
        critic_weights.fit(private(people(5), schema(), tmp_path))
    with pytest.raises(gl.errors.SchemaError, match="different schemas"):
        critic_weights.fit(gl.Table.read(pl.DataFrame({"x": ["u"]}), gl.Schema("x", [gl.Categorical("x", ["u"])])))


def test_the_same_noise_gives_the_same_critic(tmp_path):
    critics = []
    for run in "12":
        with fixed_noise(seed=4):
            critics.append(fit("dpgan", tmp_path / run)[0].critic.weights)
    assert np.array_equal(*critics)


@pytest.mark.parametrize(("name", "phase"), [("dpgan", "training"), ("pategan", "votes")])
def test_progress_reports_steps_and_nothing_that_noise_decides(name, phase, tmp_path):
    """A training that was stopped is done again under its charge: nobody may have seen how it stood."""
    table = private(people(200), schema(), tmp_path, budget=gl.Budget(5.0, 1e-6))
    seen = []
    GANS[name](steps=3).fit(table, spend=table.ledger.left, progress=lambda *step: seen.append(step))
    assert seen[-3:] == [(phase, 1, 3), (phase, 2, 3), (phase, 3, 3)]


# ------------------------------------------------------------------ refusals


def test_settings_that_are_none(tmp_path):
    with pytest.raises(gl.errors.ModelError, match="steps = 0"):
        fit("misgan", tmp_path, steps=0)
    with pytest.raises(gl.errors.ModelError, match="noised must be 'critics' or 'generators', got 'both'"):
        fit("misgan", tmp_path, noised="both")
    with pytest.raises(gl.errors.SchemaError, match="no column 'd'"):
        fit("dpcgan", tmp_path, label="d")


def test_too_many_cells_are_refused_before_anything_is_spent(tmp_path):
    wide = gl.Schema("wide", [gl.Categorical(name, [f"{name}{i}" for i in range(1_100)]) for name in "ab"])
    table = private(pl.DataFrame({"a": ["a1"], "b": ["b1"]}), wide, tmp_path)
    with pytest.raises(gl.errors.ModelError, match="2,200 cells, but one critic takes at most 2,000"):
        gl.synth.DPGAN().fit(table, spend=table.ledger.left)
    assert not table.ledger.entries
