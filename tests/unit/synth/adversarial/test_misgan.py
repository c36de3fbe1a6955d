"""MisGAN: masks of gaps beside rows, what it refuses, and what its facts name."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.synth.adversarial.generative import GappedGenerator, GeneratorModel
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise

SCHEMA = gl.Schema(
    "people",
    [gl.Categorical("sex", ["f", "m"], may_be_missing=True), gl.Categorical("region", ["n", "s", "w"])],
)


def people(folder, rows=600):
    """Region without gaps; sex is missing in three rows of ten."""
    rng = np.random.default_rng(0)
    sex = np.where(rng.random(rows) < 0.3, None, rng.choice(["f", "m"], rows))
    frame = pl.DataFrame({"sex": sex.tolist(), "region": rng.choice(["n", "s", "w"], rows).tolist()})
    return private(frame, SCHEMA, folder, budget=gl.Budget(5.0, 1e-6))


def fit(folder, **settings):
    table = people(folder)
    with fixed_noise(seed=0):
        return gl.synth.MisGAN(steps=4, **settings).fit(table, spend=table.ledger.left)


def test_with_observed_masks_are_made_beside_rows(tmp_path):
    model = fit(tmp_path)
    assert isinstance(model.filled, GeneratorModel)
    assert isinstance(model.gapped, GappedGenerator)
    assert model.gapped.masks.sizes == (2, 1)  # no gap or a gap; a column without gaps has one state
    rows = model.sample(4_000, seed=0, gaps="as-observed").to_polars()
    assert rows["sex"].is_null().mean() == pytest.approx(0.3, abs=0.1)
    assert rows["region"].null_count() == 0
    assert model.sample(500, seed=0).to_polars()["sex"].null_count() == 0


def test_without_masks_there_is_one_generator(tmp_path):
    model = fit(tmp_path, missing=gl.CompleteRows())
    assert isinstance(model.filled, GeneratorModel)
    assert model.gapped is None


@pytest.mark.parametrize("noised", ["critics", "generators"])
def test_the_facts_name_what_was_noised_and_only_paid_critics_are_kept(noised, tmp_path):
    model = fit(tmp_path, noised=noised)
    assert model.facts.settings["noised"] == noised
    assert (model.critic is not None) == (noised == "critics")


def test_noise_on_anything_else_is_refused_before_anything_is_spent(tmp_path):
    table = people(tmp_path)
    with pytest.raises(gl.errors.ModelError, match="noised must be 'critics' or 'generators', got 'rows'"):
        gl.synth.MisGAN(noised="rows").fit(table, spend=table.ledger.left)
    assert not table.ledger.entries
