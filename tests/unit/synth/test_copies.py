"""What models keep of their release, and the copies that are made of it."""

import json
import zipfile

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data import Table
from gapless.model.marginal import Measurement, reconcile
from gapless.schema import Categorical, Integer, Schema
from gapless.synth import METHODS
from gapless.synth.marginal.bayesian_network import Begun, Node
from gapless.synth.measurements import Evidence
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise
from helpers.chain_synthesizer import Chain

SCHEMA = letters_schema([3, 2, 4])
WHOLE = Schema("whole", [Categorical(f"x{i}", list("abcd")[:size]) for i, size in enumerate([3, 2, 4])])
PAIRS = {(0, 1): (3, 2), (0, 2): (3, 4), (1, 2): (2, 4)}
KEEPING = [name for name, method in METHODS.items() if method.keeps_tables and name != "auto"]


def rows(many=400):
    rng = np.random.default_rng(3)
    letters = np.array(list("abcd"))
    first = rng.integers(3, size=many)
    second = (first + rng.integers(2, size=many)) % 2
    cells = np.stack([letters[first], letters[second], letters[rng.integers(4, size=many)]], axis=1).astype(object)
    cells[rng.random((many, 3)) < 0.1] = None
    return [tuple(row) for row in cells]


def fitted(method, folder, **settings):
    table = private(rows(), SCHEMA, folder, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        return METHODS[method](**settings).fit(table, spend=table.ledger.left)


@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed()])
@pytest.mark.parametrize("method", KEEPING)
def test_a_file_keeps_what_the_model_is_learned_from(method, missing, tmp_path):
    model = fitted(method, tmp_path, missing=missing)
    model.save(tmp_path / "m")
    loaded = gl.load(tmp_path / "m")
    for kept in (model, loaded):
        learned = kept.evidence.learn(kept.schema)
        assert learned.total == model.total
        for place in range(3):
            assert np.allclose(learned.filled.marginal([place]), model.filled.marginal([place]), atol=1e-6)
    pairs = zip(model.copies(2, seed=4), loaded.copies(2, seed=4), strict=True)
    assert all(np.array_equal(one.codes, other.codes) for one, other in pairs)


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


def test_a_file_of_version_2_opens_and_has_no_copies(tmp_path):
    model = fitted("mst", tmp_path)
    model.save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as new:
        inside = {name: new.read(name) for name in new.namelist() if not name.startswith("evidence/")}
    head = json.loads(inside["model.json"]) | {"version": 2}
    with zipfile.ZipFile(tmp_path / "old", "w") as old:
        for name, content in (inside | {"model.json": json.dumps(head)}).items():
            old.writestr(name, content)
    loaded = gl.load(tmp_path / "old")
    assert len(loaded.sample(10, seed=1)) == 10
    with pytest.raises(gl.errors.ModelError, match=r"keeps no released tables .*\n.*a model by mst"):
        loaded.copies(5)


def test_a_method_that_keeps_no_tables_has_no_copies(tmp_path):
    table = private(rows(), SCHEMA, tmp_path)
    model = Chain(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    with pytest.raises(gl.errors.ModelError, match="this model by chain keeps no released tables"):
        model.copies(5)


def test_one_copy_shows_nothing(tmp_path):
    with pytest.raises(gl.errors.ModelError, match=r"many = 1\n  Try: a whole number of at least 2"):
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
        gl.errors.ReadError, match="folder holds other files"
    ):  # two calls' copies would be pooled as one
        copies.write(tmp_path / "folder")


def test_shaken_tables_have_their_noise_once_more(tmp_path):
    evidence = fitted("mst", tmp_path).evidence
    shaken = [evidence.shaken(np.random.default_rng(number)) for number in range(400)]
    for place, table in enumerate(evidence.tables):
        moves = np.array([other.tables[place].counts - table.counts for other in shaken])
        assert moves.std() == pytest.approx(table.noise_std, rel=0.15)
        assert abs(moves.mean()) < 6 * table.noise_std / np.sqrt(moves.size)


def test_counts_of_other_rows(tmp_path):
    for method in ("mst", "privbayes"):
        evidence = fitted(method, tmp_path).evidence
        codes = np.stack([np.full(50, 2), np.full(50, 1), np.full(50, 3)], axis=1)
        counted = evidence.of_rows(codes, SCHEMA, np.random.default_rng(1))
        for table in counted.tables:
            assert abs(table.counts.sum() - 50) < 8 * table.noise_std * np.sqrt(table.counts.size)
            assert table.counts.max() > 50 - 8 * table.noise_std


def test_values_of_other_rows_are_counted_in_the_bins_of_their_rows(tmp_path):
    schema = Schema("line", [Integer("wage", bounds=(0, 199), bins="learned")])
    table = private([(wage,) for wage in range(200)] * 20, schema, tmp_path, budget=gl.Budget(50.0, 1e-6))
    model = gl.Independent().fit(table, spend=table.ledger.left)
    wage = model.schema["wage"]
    codes = np.full((5000, 1), wage.size - 1)
    *_, leaves = model.evidence.of_rows(codes, model.schema, np.random.default_rng(1)).trees
    inside = wage.fine.group(wage)[:200] == wage.size - 1
    noise = leaves.noise_std * np.sqrt(200)
    assert abs(leaves.counts[inside].sum() - 5000) < 6 * noise
    assert abs(leaves.counts[~inside].sum()) < 6 * noise
    assert noise < 100


def test_merged_columns_are_not_taken_for_whole_ones(tmp_path):
    evidence = fitted("privbayes", tmp_path).evidence
    for columns in evidence.together(SCHEMA):
        assert any(
            set(columns)
            <= {c for c, size in zip(t.columns, t.counts.shape, strict=True) if size == SCHEMA.columns[c].extended_size}
            for t in evidence.tables
        )


def network(cap_cells):
    """Released tables of a network in which the last column has two parents that no other table holds."""
    nodes = (Node(0), Node(1), Node(2, (0, 1), (np.arange(3), np.arange(2))))
    counts = [np.array([500.0, 300, 200]), np.array([600.0, 400]), np.full((3, 2, 4), 1000 / 24)]
    tables = [Measurement((*n.parents, n.column), c, 1.0) for n, c in zip(nodes, counts, strict=True)]
    return Evidence(kind="network", tables=tuple(tables), nodes=nodes, extended=True, cap_cells=cap_cells)


def test_a_table_that_rows_of_a_network_do_not_keep_supports_nothing():
    assert network(100).together(WHOLE) == [frozenset({0, 1, 2})]
    assert sorted(map(sorted, network(4).together(WHOLE))) == [[0], [1]]
    assert isinstance(network(100).learn(WHOLE, closely=True).filled, Begun)


def test_a_mixture_follows_tables_nearby_from_where_it_was():
    """In fewer steps: of the way to other tables at most a tenth is left."""
    rng = np.random.default_rng(1)
    tables = [Measurement(pair, rng.uniform(50, 150, shape), 20.0) for pair, shape in PAIRS.items()]
    evidence = Evidence(kind="mixture", tables=tuple(tables), extended=True)
    start = evidence.learn(WHOLE, closely=True)
    other = evidence.shaken(rng)
    moved = other.learn(WHOLE, closely=True, start=start)
    agreed = reconcile((3, 2, 4), other.tables, other.total)
    before, after = (
        sum(np.abs(model.filled.marginal(pair) * other.total - agreed[pair][0]).sum() for pair in PAIRS)
        for model in (start, moved)
    )
    assert after < before / 10


def test_progress_is_told_copy_by_copy(tmp_path):
    told = []
    copies = fitted("mst", tmp_path).copies(2, seed=1, progress=lambda *what: told.append(what))
    assert told == []
    assert len(list(copies)) == len(copies.replicates) == 2
    assert told == [(phase, done, 2) for phase in ("copies", "replicates") for done in (0, 1, 2)]


def test_what_is_always_measured_is_measured(tmp_path):
    model = fitted("aim", tmp_path, always=[("x2", "x0"), ("x0", "x1", "x2")])
    assert {(0, 2), (0, 1, 2)} <= {table.columns for table in model.evidence.tables}
    assert frozenset({0, 1, 2}) in model.evidence.together(SCHEMA)
    assert model.facts.settings["always measured"] == 2


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"always": [("x0", "x1", "x2")], "cap_cells": 40}, "tables that are always measured need a junction tree of"),
        ({"always": "x0"}, "always = 'x0'"),
        ({"always": ["x0", "x1"]}, "always ="),
    ],
)
def test_what_cannot_always_be_measured_is_refused_before_anything_is_spent(settings, told, tmp_path):
    table = private(rows(), SCHEMA, tmp_path)
    with pytest.raises(gl.errors.ModelError, match=told):
        gl.AIM(**settings).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_what_is_always_measured_is_paid_within_the_fit(tmp_path):
    table = private(rows(), SCHEMA, tmp_path)
    gl.AIM(always=[("x0", "x2")]).fit(table, spend=table.ledger.share("60%"))
    assert table.ledger.percentages()[0] == pytest.approx(60, abs=1e-6)
