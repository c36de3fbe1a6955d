"""What models keep of their release, and the copies that are made of it."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data import Table
from gapless.synth import METHODS
from gapless.testing.audit import private
from helpers.chain_synthesizer import Chain
from helpers.fitted_letters import SCHEMA, fitted, rows

KEEPING = [name for name, method in METHODS.items() if method.keeps_measurements and name != "auto"]


@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed()])
@pytest.mark.parametrize("method", KEEPING)
def test_a_file_keeps_what_the_model_is_learned_from(method, missing, tmp_path):
    model = fitted(method, tmp_path, missing=missing)
    model.save(tmp_path / "m")
    loaded = gl.load(tmp_path / "m")
    for kept in (model, loaded):
        learned = kept.measurements.learn(kept.schema)
        assert learned.total == model.total
        for place in range(3):
            assert np.allclose(learned.filled.marginal([place]), model.filled.marginal([place]), atol=1e-6)
    pairs = zip(model.copies(2, seed=4), loaded.copies(2, seed=4), strict=True)
    assert all(np.array_equal(first.codes, other.codes) for first, other in pairs)


@pytest.mark.parametrize("method", KEEPING)
def test_copies_repeat_with_their_seed_and_differ_from_each_other(method, tmp_path):
    model = fitted(method, tmp_path)
    copies = model.copies(3, seed=7)
    assert len(copies) == 3
    assert isinstance(copies[0], Table)
    assert [len(table) for table in copies] == [len(table) for table in model.copies(3, seed=7)]
    assert not np.array_equal(copies[0].codes[0][:300], copies[1].codes[0][:300])
    assert all((codes < column.size).all() for codes, column in zip(copies[0].codes, SCHEMA.columns, strict=True))
    assert len(copies.replicates) == 3


def test_without_a_seed_the_released_tables_decide_the_copies(tmp_path):
    model = fitted("independent", tmp_path)
    model.save(tmp_path / "m")
    loaded = gl.load(tmp_path / "m")
    assert model.copies(2).seed == loaded.copies(2).seed == model.measurements.derived_seed
    for first, other in zip(model.copies(2), loaded.copies(2), strict=True):
        assert all(map(np.array_equal, first.codes, other.codes))
    another = fitted("independent", tmp_path, seed=2)
    assert another.copies(2).seed != model.copies(2).seed  # so that errors of two releases are independent
    assert model.copies(2, seed=0).seed == 0


def test_a_method_that_keeps_no_tables_has_no_copies(tmp_path):
    table = private(rows(), SCHEMA, tmp_path)
    model = Chain(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    with pytest.raises(gl.errors.ModelError, match="this chain model stores none"):
        model.copies(5)


def test_one_copy_shows_nothing(tmp_path):
    with pytest.raises(gl.errors.ModelError, match=r"many = 1, .*\n  Try: pass a whole number of at least 2"):
        fitted("independent", tmp_path).copies(1)


def test_copies_are_written_together_or_one_by_one(tmp_path):
    copies = fitted("independent", tmp_path).copies(2, seed=1)
    (path,) = copies.write(tmp_path / "all.csv.gz")
    whole = pl.read_csv(path)
    assert whole["copy"].value_counts(sort=True).height == 2
    assert len(whole) == sum(map(len, copies))
    paths = copies.write(tmp_path / "folder")
    assert [path.name for path in paths] == ["copy-1.csv", "copy-2.csv"]
    assert np.array_equal(Table.read(paths[1], SCHEMA).codes, copies[1].codes)
    with pytest.raises(
        gl.errors.ReadError, match="copies need an empty folder"
    ):  # two calls' copies would be pooled as one
        copies.write(tmp_path / "folder")


def test_progress_is_reported_for_each_copy(tmp_path):
    calls = []
    copies = fitted("mst", tmp_path).copies(2, seed=1, progress=lambda *what: calls.append(what))
    assert calls == []
    assert len(list(copies)) == len(copies.replicates) == 2
    assert calls == [(phase, done, 2) for phase in ("copies", "replicates") for done in (0, 1, 2)]
