"""AIM: which marginals it chooses, how its rounds anneal, the workload and its weights, and the cap of the tree."""

import itertools
import math

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.model.marginal import Measurement
from gapless.synth.marginal import aim
from gapless.synth.marginal.aim import _beyond_noise, _closure, _noise_error
from gapless.synth.marginal.selection import MarginalSelection
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise, no_noise
from helpers.letters_tables import PAIRS, SCHEMA, fit, letters, table_of


def test_the_columns_that_choices_read_if_all_candidates_share_one(tmp_path):
    """Pairs of x1 with others: a row without x1 is not read by any of them."""
    table = table_of(tmp_path)
    fit("aim", "observed", table, workload={("x0", "x1"): 1.0, ("x1", "x2"): 1.0})
    choices = [e for e in table.ledger.entries if e.what.startswith("choice")]
    assert choices
    assert choices[0].reads == ["x1"]
    assert all("x1" in entry.reads for entry in choices)  # a single one is left if the others are not followed


def test_gaps_do_not_attract_the_choice(tmp_path):
    """x0 is nearly always missing and depends on nothing; a score against all rows would look nowhere else."""
    rows = [(row[0] if i % 20 == 0 else None, *row[1:]) for i, row in enumerate(letters(4000, gaps=0.0))]
    rows = [("ab"[i % 2] if row[0] else None, *row[1:]) for i, row in enumerate(rows)]
    table = table_of(tmp_path, rows, budget=gl.Budget(10.0, 1e-6))
    with no_noise():
        fit("aim", "observed", table)
    first = next(e.what for e in table.ledger.entries if " × " in e.what)
    assert first == "x2 × x3"


def choice_losses(table):
    return [e.loss for e in table.ledger.entries if e.what.startswith("choice")]


def test_rounds_that_teach_something_keep_their_size(tmp_path, monkeypatch):
    monkeypatch.setattr(aim, "_beyond_noise", lambda *_: True)
    table = table_of(tmp_path)
    model = fit("aim", "extended", table)
    assert model.facts.settings["rounds"] == len(choice_losses(table)) == aim.ROUNDS_PER_COLUMN * 4
    assert choice_losses(table) == pytest.approx([choice_losses(table)[0]] * 16, rel=1e-3)


def test_rounds_that_teach_nothing_double(tmp_path, monkeypatch):
    """1 + 2 + 4 of 16 parts; the 9 that are left are less than two of 8, so the last round takes them all."""
    monkeypatch.setattr(aim, "_beyond_noise", lambda *_: False)
    table = table_of(tmp_path)
    model = fit("aim", "extended", table)
    losses = choice_losses(table)
    assert model.facts.settings["rounds"] == 4
    assert [loss / losses[0] for loss in losses] == pytest.approx([1, 2, 4, 9], rel=1e-2)
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-6)


def test_annealing_on_a_table_without_any_relation(tmp_path):
    """Large noise beside weak relations: fewer rounds than there would be at most."""
    rows = [tuple("ab"[bit] for bit in bits) for bits in itertools.product(range(2), repeat=4)] * 10
    table = table_of(tmp_path, rows)
    with fixed_noise(seed=3):
        model = fit("aim", "extended", table)
    assert 1 <= model.facts.settings["rounds"] < aim.ROUNDS_PER_COLUMN * 4


def test_beyond_noise_is_right_half_of_the_time_for_noise_alone():
    rng = np.random.default_rng(0)
    probabilities = np.full((4, 4), 1 / 16)
    found = [
        _beyond_noise(Measurement((0, 1), 1e4 * probabilities + rng.normal(0, 9, (4, 4)), 9.0), probabilities)
        for _ in range(400)
    ]
    assert 0.3 < np.mean(found) < 0.6
    assert _beyond_noise(Measurement((0, 1), np.diag([2500.0] * 4), 9.0), probabilities)


def test_the_offset_of_a_score_is_no_more_than_half_of_the_rows():
    assert _noise_error(np.full(4, 100.0), 1.0) == pytest.approx(2 * math.sqrt(2 / math.pi))
    assert _noise_error(np.array([5.0, 0.0]), 1e9) == 2.5


def candidates_seen(monkeypatch):
    """The candidates of each call of `misfit`."""
    seen = []
    honest = aim._scores

    def spy(selection, candidates, *rest):
        seen.append(list(candidates))
        return honest(selection, candidates, *rest)

    monkeypatch.setattr(aim, "_scores", spy)
    return seen


def wide(folder, columns=8, rows=300, eps=5.0, levels=3, seed=0):
    rng = np.random.default_rng(seed)
    base = rng.integers(0, levels, (rows, 3))
    codes = [np.where(rng.random(rows) < 0.8, base[:, i % 3], rng.integers(0, levels, rows)) for i in range(columns)]
    schema = gl.Schema("wide", [gl.Categorical(f"c{i}", [f"l{j}" for j in range(levels)]) for i in range(columns)])
    frame = pl.DataFrame({f"c{i}": [f"l{code}" for code in column] for i, column in enumerate(codes)})
    return private(frame, schema, folder, budget=gl.Budget(eps, 1e-6))


def test_a_wide_table_looks_at_a_part_of_its_pairs_at_a_time(tmp_path, monkeypatch):
    """28 pairs, five at a time; over the rounds many come to be looked at, the same ones in every run."""
    monkeypatch.setattr(aim, "POOL", 5)
    seen = candidates_seen(monkeypatch)
    for _ in range(2):
        with fixed_noise(seed=1):
            fit("aim", "extended", wide(tmp_path))
    half = len(seen) // 2
    assert seen[:half] == seen[half:]
    assert all(1 <= len(some) <= 5 for some in seen)
    assert all(len(set(some)) == len(some) for some in seen)
    assert len({candidate for candidates in seen for candidate in candidates}) >= 15


def test_other_candidates_each_time_also_with_several_choices_between_two_fits(tmp_path, monkeypatch):
    """28 pairs in three parts. With 200 columns it is 14 choices and 7 parts: six sevenths are never looked at."""
    monkeypatch.setattr(aim, "POOL", 10)
    monkeypatch.setattr(aim, "REFITS", 6)
    monkeypatch.setattr(aim, "_beyond_noise", lambda *_: True)
    seen = candidates_seen(monkeypatch)
    fit("aim", "extended", wide(tmp_path))
    assert len({candidate for candidates in seen for candidate in candidates}) >= 20


def test_a_wide_table_chooses_several_pairs_between_two_fits(tmp_path, monkeypatch):
    """32 rounds, 4 fits: eight choices from one vector of scores, no pair twice among them."""
    monkeypatch.setattr(aim, "REFITS", 4)
    monkeypatch.setattr(aim, "_beyond_noise", lambda *_: True)
    seen = candidates_seen(monkeypatch)
    table = wide(tmp_path)
    fit("aim", "extended", table)
    pairs = [e.what for e in table.ledger.entries if " × " in e.what]
    assert len(pairs) == 32
    assert len(seen) >= 4
    assert len(seen) < 16
    for begin in range(0, 32, 8):
        assert len(set(pairs[begin : begin + 8])) >= min(8, *map(len, seen))


def test_the_tree_stays_below_the_cap(tmp_path):
    table = wide(tmp_path, columns=8, levels=4, rows=2000, eps=30.0)
    with fixed_noise(seed=0):  # the bound holds for most trees, not for all: test_junction.py
        model = fit("aim", "extended", table, cap_cells=600)
    assert model.filled.tree.cells <= 600


def test_the_tree_stays_below_the_cap_with_several_pairs_between_two_fits(tmp_path, monkeypatch):
    monkeypatch.setattr(aim, "REFITS", 4)
    table = wide(tmp_path, columns=12, levels=6, rows=5000, eps=30.0)
    with fixed_noise(seed=0):
        model = fit("aim", "extended", table, cap_cells=3000)
    assert model.filled.tree.cells <= 3000


def test_the_default_workload_is_all_pairs_with_equal_weights():
    assert _closure(SCHEMA, None) == dict.fromkeys(PAIRS, 1.0)


def test_weights_by_hand():
    """A triple of weight 1 and a pair of weight 2: (1, 2) shares two columns with each, 2·1 + 2·2 = 6."""
    weights = _closure(SCHEMA, {("x0", "x1", "x2"): 1.0, ("x2", "x1"): 2.0})
    assert weights == pytest.approx({(0, 1): 4 / 7, (0, 1, 2): 1.0, (0, 2): 4 / 7, (1, 2): 6 / 7})


@pytest.mark.parametrize(
    ("workload", "error"),
    [
        ({}, "at least one marginal"),
        ({("x0", "x1"): 0.0}, "weight in workload must be a finite number above 0"),
        ({("x0", "x1"): -1.0, ("x0", "x2"): 1.0}, "weight in workload must be a finite number above 0"),
        ({("x0", "x1"): math.nan}, "weight in workload must be a finite number above 0"),
        ({("x0", "x1"): math.inf}, "weight in workload must be a finite number above 0"),
        ({("x0", "y"): 1.0}, "no column 'y'"),
        ({("x0", "x0"): 1.0}, "named twice"),
        ([("x0", "x1")], "workload must be a dict from tuples of column names to weights, got a list"),
    ],
)
def test_a_workload_that_makes_no_sense_is_refused_before_anything_is_spent(workload, error, tmp_path):
    table = table_of(tmp_path)
    with pytest.raises((gl.errors.ModelError, gl.errors.SchemaError), match=error):
        fit("aim", "extended", table, workload=workload)
    assert not table.ledger.entries


def test_single_columns_as_a_workload_need_no_choice(tmp_path):
    table = table_of(tmp_path)
    model = fit("aim", "extended", table, workload={("x0",): 1.0})
    assert model.facts.settings["rounds"] == 0
    assert [e.what for e in table.ledger.entries] == list(SCHEMA.names)


def test_columns_outside_the_workload_are_measured_alone(tmp_path):
    table = table_of(tmp_path)
    fit("aim", "extended", table, workload={("x0", "x1"): 1.0})
    assert {e.what for e in table.ledger.entries if " × " in e.what} == {"x0 × x1"}
    assert list(SCHEMA.names) == [e.what for e in table.ledger.entries[:4]]


def test_weights_turn_the_choice(tmp_path):
    """x0 × x1 and x2 × x3 are equally dependent; the heavier one is taken first."""
    for heavy, light in itertools.permutations([("x0", "x1"), ("x2", "x3")]):
        table = table_of(tmp_path, letters(4000, gaps=0.0), budget=gl.Budget(10.0, 1e-6))
        with no_noise():
            fit("aim", "extended", table, workload={heavy: 3.0, light: 1.0})
        first = next(e.what for e in table.ledger.entries if " × " in e.what)
        assert first == " × ".join(heavy)


def test_weights_beyond_all_numbers_are_refused_before_anything_is_spent(tmp_path):
    table = table_of(tmp_path)
    with pytest.raises(gl.errors.ModelError):
        fit("aim", "extended", table, workload={("x0", "x1"): 1e308, ("x1", "x2"): 1e308})
    assert not table.ledger.entries


def test_one_marginal_in_two_orders_has_both_weights():
    doubled = _closure(SCHEMA, {("x0", "x1"): 1.0, ("x1", "x0"): 1.0, ("x2", "x3"): 1.0})
    assert doubled[(0, 1)] == 2 * doubled[(2, 3)]


def test_a_marginal_that_the_model_cannot_fit_is_not_measured_a_third_time(tmp_path, monkeypatch):
    """With the pair x0 × x1, by far the worst described, reported as never reached by the fit."""
    plain = MarginalSelection.fit_model

    def stuck(selection, **given):
        model = plain(selection, **given)
        model.unexplained = ((0, 1),)
        return model

    def times(table):
        fit("aim", "observed", table)
        return sum(entry.what == "x0 × x1" for entry in table.ledger.entries)

    rows = [(a, a, b, c) for a in "ab" for b in "ab" for c in "ab"] * 500
    with no_noise():
        monkeypatch.setattr(MarginalSelection, "fit_model", stuck)
        assert times(table_of(tmp_path, rows)) <= 2
        monkeypatch.setattr(aim, "SWEEPS", 0)  # a model that follows nothing, and is not known for it
        monkeypatch.setattr(MarginalSelection, "fit_model", plain)
        assert times(table_of(tmp_path, rows)) > 2


def test_describe_lists_marginals_that_exceed_the_tree(tmp_path):
    narrow, wide = (fit("aim", "observed", table_of(tmp_path), cap_cells=cap) for cap in (18, 10**6))
    assert "The tree (cap_cells = 18) has no room for " in narrow.describe()
    assert "of 6 marginals of the workload" in narrow.describe()
    assert "no room" not in wide.describe()


def test_without_noise_the_worst_described_pair_is_measured_first(tmp_path):
    """x0 decides x1; x3 follows x2 half of the time: a model of single columns describes x0 × x1 worst."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (2000, 4))
    codes[:, 1] = codes[:, 0]
    codes[:, 3] = np.where(rng.random(2000) < 0.5, codes[:, 2], codes[:, 3])
    table = table_of(tmp_path, [tuple("ab"[code] for code in row) for row in codes], budget=gl.Budget(10.0, 1e-6))
    with no_noise():
        fit("aim", "extended", table)
    pairs = [e.what for e in table.ledger.entries if " × " in e.what]
    assert pairs[:2] == ["x0 × x1", "x2 × x3"]


def test_the_same_noise_gives_the_same_choices(tmp_path):
    found = []
    for _ in range(2):
        table = table_of(tmp_path)
        with fixed_noise(seed=5):
            model = fit("aim", "extended", table)
        found.append(([e.what for e in table.ledger.entries], model.marginal(("x0", "x1")).tolist()))
    assert found[0] == found[1]


def test_always_measures_the_named_columns(tmp_path):
    model = fit("aim", "extended", table_of(tmp_path), always=[("x2", "x0"), ("x0", "x1", "x2")])
    assert {(0, 2), (0, 1, 2)} <= {table.columns for table in model.measurements.tables}
    assert frozenset({0, 1, 2}) in model.measurements.jointly_measured(SCHEMA)
    assert model.facts.settings["always measured"] == 2


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"always": [("x0", "x1", "x2")], "cap_cells": 40}, "the sets of columns in always need a junction tree of"),
        ({"always": "x0"}, "always must be a list of tuples of column names, got 'x0'"),
        ({"always": ["x0", "x1"]}, "always must be a list"),
    ],
)
def test_refuses_unmeasurable_columns_in_always_before_spending(settings, error, tmp_path):
    table = table_of(tmp_path)
    with pytest.raises(gl.errors.ModelError, match=error):
        gl.AIM(**settings).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_always_measured_columns_are_paid_within_the_fit(tmp_path):
    table = table_of(tmp_path)
    gl.AIM(always=[("x0", "x2")]).fit(table, spend=table.ledger.share("60%"))
    assert table.ledger.percentages()[0] == pytest.approx(60, abs=1e-6)
