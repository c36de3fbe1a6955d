"""Bins learned from a paid tree of counts, and values drawn from what was released of their cells."""

from itertools import pairwise, product

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.engines.memory import Memory
from gapless.missing import STRATEGIES
from gapless.schema import Categorical, Date, Integer, Number, Schema
from gapless.schema.schema import Constraint
from gapless.synth import fitting
from gapless.synth.learning import (
    BINS_SHARE,
    FANOUT,
    bins_for,
    hierarchy_levels,
    least_squares_counts,
    level_counts,
    nonnegative_counts,
    project_rows,
    with_most_bins,
)
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.examples import examples
from helpers.fast_methods import METHODS, TRIED, takes

ROWS = 3000


def columns(*, gaps=True):
    codes = {"may_be_missing": True, "missing": ("NA",)} if gaps else {}
    return [
        Number("pay", bounds=(0, 200_000), scale="symlog", bins="learned", **codes),
        Integer("hours", bounds=(0, 99), bins="learned", heaping=(5, 10), **codes),
        Date("since", bounds=("2000-01-01", "2019-12-31"), bins="learned"),
        Categorical("sex", ["f", "m"], **codes),
    ]


def people(rows=ROWS, *, gaps=True, seed=0):
    rng = np.random.default_rng(seed)
    size = rng.normal(size=rows)
    pay = np.where(rng.random(rows) < 0.3, 0, np.exp(9 + size).round(2)).clip(0, 200_000)
    hours = np.where(rng.random(rows) < 0.5, 40, 35 + 10 * size).round().clip(0, 99)
    since = np.datetime64("2000-01-01") + (7300 * rng.beta(4, 1, rows)).astype("timedelta64[D]")
    frame = pl.DataFrame(
        {"pay": pay, "hours": hours.astype(int), "since": since, "sex": np.where(size > 0, "f", "m")}
    ).with_columns(pl.col("since").cast(pl.Date))
    if gaps:
        lost = pl.Series(rng.random(rows) < 0.2)
        frame = frame.with_columns(pay=pl.when(~lost).then("pay"), sex=pl.when(~lost).then("sex"))
    return frame


SCHEMA, COMPLETE = Schema("people", columns()), Schema("people", columns(gaps=False))


def fitted(method, folder, *, missing="extended", frame=None, schema=SCHEMA, budget=None):
    table = private(people() if frame is None else frame, schema, folder, budget=budget or gl.Budget(3.0, 1e-6))
    return table, METHODS[method](missing=STRATEGIES[missing]()).fit(table, spend=table.ledger.left)


# ---------------------------------------------------------------------- the tree


@pytest.mark.parametrize("cells", [1, 4, 5, 16, 100, 1024, 65_000])
def test_levels_are_nested_and_end_with_the_cells(cells):
    tree = hierarchy_levels(cells, 2)
    assert np.array_equal(tree[-1], np.arange(cells + 2))
    assert tree[0].max() + 1 <= FANOUT + 2
    for coarse, finest in pairwise(tree):
        nodes = {(f, c) for f, c in zip(finest[:cells].tolist(), coarse[:cells].tolist(), strict=True)}
        assert len(nodes) == finest[cells - 1] + 1  # each node of the finer level has one parent
        assert np.array_equal(np.diff(coarse[cells - 1 :]), [1, 1])  # what is no value stays by itself


@examples(100)
@given(st.lists(st.floats(-50, 50), min_size=4, max_size=4), st.floats(0, 80))
def test_projection_is_the_nearest_row_with_the_total(values, total):
    values = np.array(values)
    near = project_rows(values[None], np.array([total]))[0]
    assert near.min() >= 0
    assert near.sum() == pytest.approx(total, abs=1e-9)
    others = np.random.default_rng(0).dirichlet(np.ones(4), 200) * total
    assert ((near - values) ** 2).sum() <= ((others - values) ** 2).sum(axis=1).min() + 1e-9


@pytest.mark.parametrize("follow_noise", [False, True])
@pytest.mark.parametrize("cells", [5, 64, 1000])
def test_without_noise_the_cells_come_back(cells, follow_noise):
    counts = np.random.default_rng(0).poisson(3, cells).astype(float)
    tree = hierarchy_levels(cells, 0)
    tables = [np.bincount(level, weights=counts) for level in tree]
    assert nonnegative_counts(tables, 1e-9, follow_noise=follow_noise) == pytest.approx(counts)
    assert least_squares_counts(tables, 1.0) == pytest.approx(counts)


def test_signed_counts_are_the_least_squares_of_all_levels():
    rng, tree = np.random.default_rng(1), hierarchy_levels(64, 0)
    tables = [rng.normal(0, 9, level.max() + 1) for level in tree]
    design = np.concatenate([np.equal.outer(np.arange(level.max() + 1), level) for level in tree])
    assert least_squares_counts(tables, 9.0) == pytest.approx(np.linalg.lstsq(design, np.concatenate(tables))[0])
    assert least_squares_counts(tables, 9.0).min() < 0


@pytest.mark.parametrize("cells", [5, 64, 1000])
def test_rows_are_counted_as_the_levels_of_a_tree_count_them(cells):
    drawn = np.random.default_rng(0).integers(0, cells, 300)
    tables = [np.bincount(level[drawn], minlength=level.max() + 1) for level in hierarchy_levels(cells, 0)]
    for found, table in zip(level_counts(np.bincount(drawn, minlength=cells), tables), tables, strict=True):
        np.testing.assert_array_equal(found, table)


def test_noise_far_out_on_a_tail_does_not_make_means_and_spreads_too_large():
    """Most rows within the first hundredth of the line; without the ends the spread is twice the true one."""
    rng = np.random.default_rng(0)
    counts = np.zeros(4096)
    counts[:40] = 500
    tree, cells = hierarchy_levels(4096, 0), np.arange(4096)
    means, spreads = [], []
    for _ in range(40):
        rows = nonnegative_counts([np.bincount(g, weights=counts) + rng.normal(0, 100, g.max() + 1) for g in tree], 100)
        mean = rows @ cells / rows.sum()
        means.append(mean)
        spreads.append(np.sqrt(rows @ (cells - mean) ** 2 / rows.sum()))
    assert np.mean(means) == pytest.approx(19.5, rel=0.25)
    assert np.median(spreads) == pytest.approx(11.5, rel=0.25)


def test_a_tail_keeps_its_rows_and_its_shape():
    """Ages from 50 to 101 of 7,874 people, 3 % above 85, with the noise of a release: no cell there stands out.

    Where cells without clear counts were set to zero, a fifth of them was lost, and half of those above 90.
    """
    rng, ages = np.random.default_rng(0), np.arange(50, 102)
    shares = np.exp(-(((ages - 50) / 24) ** 2))
    counts, noise = 7874 * shares / shares.sum(), 55.0
    old, tree = ages > 85, hierarchy_levels(len(ages), 0)
    found, beyond = [], []
    for _ in range(40):
        rows = nonnegative_counts([np.bincount(g, counts) + rng.normal(0, noise, g.max() + 1) for g in tree], noise)
        found.append(rows[old].sum() / rows.sum())
        beyond.append(rows[ages > 90].sum() / rows.sum())
    assert np.mean(found) == pytest.approx(counts[old].sum() / counts.sum(), rel=0.2)
    assert np.mean(beyond) == pytest.approx(counts[ages > 90].sum() / counts.sum(), rel=0.4)


def test_ten_bins_of_a_number_have_little_more_than_the_noise_of_their_counts():
    """The total variation distance on ten equal-width bins, over what noise in these ten counts alone causes."""
    rng, values = np.random.default_rng(0), np.arange(80)
    shares = np.exp(-(((values - 25) / 18) ** 2) / 2) + 0.5 * np.exp(-(((values - 55) / 8) ** 2) / 2)
    counts, noise = 7400 * shares / shares.sum(), 42.0
    tree, tenth = hierarchy_levels(80, 0), values // 8
    errors, alone = [], []
    for _ in range(60):
        rows = nonnegative_counts([np.bincount(g, counts) + rng.normal(0, noise, g.max() + 1) for g in tree], noise)
        errors.append(np.abs(np.bincount(tenth, rows / rows.sum() - counts / counts.sum())).sum() / 2)
        alone.append(np.abs(rng.normal(0, noise, 10)).sum() / 2 / counts.sum())
    assert np.mean(errors) < 0.95 * np.mean(alone)  # even splits: 1.04


def test_a_hierarchy_is_more_accurate_than_a_flat_table_of_the_same_price():
    """On a skewed line with a spike; by the largest error of a cumulative share, mean of 20 runs: 5 times, not 2."""
    rng = np.random.default_rng(0)
    counts = np.exp(-np.arange(1024) / 60) * 300
    counts[200] = 5000
    tree = hierarchy_levels(1024, 0)
    errors = np.zeros(2)
    for _ in range(20):
        noise = 30 * np.sqrt(len(tree))
        rows = nonnegative_counts(
            [np.bincount(g, weights=counts) + rng.normal(0, noise, g.max() + 1) for g in tree], noise
        )
        flat = np.maximum(counts + rng.normal(0, 30, 1024), 0)
        for place, found in enumerate((rows, flat)):
            errors[place] += np.abs(np.cumsum(found / found.sum() - counts / counts.sum())).max()
    assert 2 * errors[0] < errors[1]


def test_bins_grow_with_what_noise_allows():
    budgets = [gl.Budget(epsilon, 1e-6).capacity for epsilon in (0.1, 1.0)]
    by_rows = [bins_for(rows, budgets[1], gl.Rows(1), 10) for rows in (100, 10_000, 10**7)]
    assert by_rows == sorted(by_rows)
    assert by_rows[0] == 6
    assert by_rows[-1] == 32
    assert bins_for(10_000, budgets[0], gl.Rows(1), 10) < by_rows[1]
    assert bins_for(10_000, budgets[1], gl.Rows(1), 60) < by_rows[1]


# ---------------------------------------------------------------------- fits


TREATMENTS = ("extended", "observed", "complete-rows", "impute-distribution")
LONG = {  # bins are learned in the same way as with fewer gaps
    *product(("kamino", "misgan", "mixture"), TREATMENTS[2:])
}
FITS = [
    pytest.param(name, missing, marks=pytest.mark.slow if (name, missing) in LONG else ())
    for name, missing in product(TRIED, TREATMENTS)
    if name != "auto" and takes(name, missing)
]


@pytest.mark.parametrize(("method", "missing"), FITS)
def test_every_method_learns_bins_and_draws_values_as_they_lie(method, missing, tmp_path):
    table, model = fitted(method, tmp_path, missing=missing)
    entries = [entry.what for entry in table.ledger.entries]
    assert entries[0].startswith("pay in ")
    assert sum(what.startswith("hours in ") for what in entries) == len(hierarchy_levels(100, 0)) + 1  # round values
    assert model.schema.is_cut_from(SCHEMA)
    assert set(model.within_bin_counts) == {"pay", "hours", "since"}
    assert "40" in model.schema["hours"].cells
    sample = model.sample(seed=1)
    again = model.sample(seed=1)
    assert sample.to_polars().equals(again.to_polars())
    truth = people()
    assert (sample["hours"] == 40).mean() == pytest.approx((truth["hours"] == 40).mean(), abs=0.05)
    assert sample["since"].median().date() > np.datetime64("2014-01-01")
    if missing in ("extended", "observed"):
        zeros = [(series.drop_nulls() == 0).mean() for series in (truth["pay"], sample["pay"])]
        assert zeros[1] == pytest.approx(zeros[0], abs=0.06)


def test_a_saved_model_draws_the_same_values(tmp_path):
    _, model = fitted("mst", tmp_path)
    model.save(tmp_path / "people.model")
    loaded = gl.load(tmp_path / "people.model")
    assert loaded.sample(200, seed=3).to_polars().equals(model.sample(200, seed=3).to_polars())
    given = loaded.sample(50, seed=3, given={"hours": 40, "sex": "f"})
    assert (given["hours"] == 40).all()


@pytest.mark.parametrize("missing", ["extended", "observed"])
def test_the_share_is_paid_once_and_everything_stays_within_the_grant(missing, tmp_path):
    table, _ = fitted("aim", tmp_path, missing=missing)
    entries = table.ledger.entries
    learned = [entry for entry in entries if " in " in entry.what]
    assert len({entry.batch for entry in learned}) == 1
    assert sum(entry.loss for entry in learned) == pytest.approx(BINS_SHARE * table.ledger.capacity.value, rel=1e-3)
    assert sum(entry.loss for entry in entries) <= table.ledger.capacity.value * (1 + 1e-9)


def test_few_values_cost_nothing(tmp_path):
    schema = Schema("s", [Integer("scale", bounds=(1, 7), bins="learned"), Categorical("sex", ["f", "m"])])
    frame = pl.DataFrame({"scale": [1, 5, 5, 7], "sex": ["f", "m", "m", "f"]})
    table, model = fitted("independent", tmp_path, frame=frame, schema=schema)
    assert [entry.what for entry in table.ledger.entries] == ["scale", "sex"]
    assert model.schema["scale"].cells == tuple("1234567")


@pytest.mark.parametrize("method", ["mixture", "mst", "aim", "privbayes"])
def test_refuses_unsupported_settings_before_paying_for_bins(method, tmp_path):
    table = private(people(50), SCHEMA, tmp_path)
    with pytest.raises(gl.errors.ModelError, match="cells"):
        METHODS[method](cap_cells=1).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


@pytest.mark.parametrize("method", ["mst", "aim", "privbayes"])
def test_a_budget_that_pays_for_no_choice_is_refused_before_bins_are_paid(method, tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(fitting.ExponentialChoice, "for_loss", lambda loss, _: seen.append(loss) or 1 / 0)
    table = private(people(50), SCHEMA, tmp_path)
    with pytest.raises(ZeroDivisionError):
        METHODS[method]().fit(table, spend=table.ledger.left)
    assert seen
    assert not table.ledger.entries


def test_bins_and_cells_are_made_of_released_values_alone(tmp_path, monkeypatch):
    """Two tables, the same released counts: the same bins and the same cells."""
    found = []

    def same(self, requests, spend, **_):
        self.noise = [fitting.for_counts(spend / len(requests), value.distance) for value, _ in requests]
        names = [what for _, what in requests]
        return [np.full(int(name.split(" in ")[1].split()[0]), 50.0) for name in names]

    monkeypatch.setattr(fitting.FitContext, "release", same)
    for seed in (0, 1):
        table = private(people(200, seed=seed), SCHEMA, tmp_path)
        now = fitting.FitContext(gl.Independent(), table, spend=table.ledger.left)
        found.append((now.schema, {name: cells.tolist() for name, cells in now.within_bin_counts.items()}))
    assert found[0] == found[1]


def test_constraints_hold_on_values(tmp_path):
    rule = Constraint("t1.hours < 16 and t1.pay >= 30000")
    schema = Schema("people", columns(), constraints=[rule])
    frame = people().filter(~((pl.col("hours") < 16) & (pl.col("pay") >= 30000)).fill_null(value=False))
    for method in ("mixture", "mst"):
        _, model = fitted(method, tmp_path, frame=frame, schema=schema)
        drawn = model.sample(3000, seed=0).to_polars()
        assert not ((drawn["hours"] < 16) & (drawn["pay"] >= 30000)).any()


def test_a_model_fills_tables_in_other_bins(tmp_path):
    table, model = fitted("mst", tmp_path)
    public = gl.Table.read(people(300, seed=5), SCHEMA)
    filled = model.impute(public, seed=0)
    known = public["pay"].is_not_null()
    assert filled["pay"].null_count() == 0
    assert filled["pay"].filter(known).equals(public["pay"].filter(known))
    other = private(people(), SCHEMA, tmp_path)
    METHODS["mst"](missing=gl.ImputeFirst(gl.missing.FromModel(model))).fit(other, spend=other.ledger.left)
    assert table.schema == SCHEMA


def test_auto_counts_the_bins_that_will_be_learned():
    numbers = [Number(f"x{i}", bounds=(0, 1), bins="learned") for i in range(4)]
    levels_too = Schema("wide", [*numbers, *[Categorical(f"y{i}", ["a", "b"]) for i in range(6)]])
    asked = gl.Budget(1.0, 1e-6).capacity, gl.Rows(1)
    pure = gl.Budget(1.0, 0).capacity, gl.Rows(1)
    method, why = gl.synth.Auto(expected_rows=100_000).choose(levels_too, *asked)
    assert isinstance(method, gl.Factors), why
    method, why = gl.synth.Auto(expected_rows=1_000_000).choose(levels_too, *pure)
    assert isinstance(method, gl.Mixture), why
    method, why = gl.synth.Auto(expected_rows=100_000).choose(Schema("numbers", numbers), *pure)
    assert isinstance(method, gl.AIM)
    assert "many numbers" in why


def test_most_bins_are_a_public_fact():
    trial = with_most_bins(SCHEMA)
    assert trial.is_cut_from(SCHEMA)
    assert max(column.size for column in trial.columns) <= 40


def test_rows_are_kept_as_cells_of_two_bytes(tmp_path):
    table = private(people(20), SCHEMA, tmp_path)
    cells = table._unbinned_rows._open(table.ledger._key)
    assert isinstance(cells, Memory)
    assert [column.dtype.itemsize for column in cells.columns] == [2, 1, 2, 1]


def test_without_noise_the_values_are_those_of_the_table(tmp_path):
    frame = people(gaps=False)
    with no_noise():
        _, model = fitted("mst", tmp_path, frame=frame, schema=COMPLETE)
        drawn = model.sample(ROWS, seed=0).to_polars()
    for name in ("pay", "hours"):
        assert drawn[name].mean() == pytest.approx(frame[name].mean(), rel=0.03)
        assert drawn[name].median() == pytest.approx(frame[name].median(), rel=0.05)


def test_as_many_bins_as_are_cut_evenly_are_refused_before_they_are_paid_for(tmp_path):
    schema = gl.Schema(
        "t", [gl.Integer("x", bounds=(0, 999), bins="learned"), gl.Integer("z", bounds=(0, 299), bins=300)]
    )
    table = private(pl.DataFrame({"x": [1, 2], "z": [3, 4]}), schema, tmp_path)
    with pytest.raises(gl.errors.ModelError, match=r"fits into 5,000 cells: x \(32 cells\), z \(300 cells\)"):
        gl.MST(cap_cells=5_000).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


@pytest.mark.parametrize("cells", [21, 64, 85, 130])
def test_signed_counts_are_least_squares_also_where_the_tree_is_not_full(cells):
    """So noise in cells is exactly that of least squares, on which confidence intervals of means rest."""
    rng, nodes = np.random.default_rng(cells), hierarchy_levels(cells, 0)
    design = np.concatenate([np.eye(level[-1] + 1)[level].T for level in nodes])
    counts = rng.normal(50, 20, len(design))
    tables = np.split(counts, np.cumsum([level[-1] + 1 for level in nodes])[:-1])
    exact = np.linalg.lstsq(design, counts, rcond=None)[0]
    assert least_squares_counts(tables, 20.0) == pytest.approx(exact)
