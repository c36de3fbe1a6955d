"""Kamino: the order of columns, what is released and what each release reads, and what is refused."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.missing import STRATEGIES
from gapless.privacy.budget import Loss, epsilon_of
from gapless.schema import Constraint
from gapless.synth import TREATMENTS
from gapless.synth.sequential import kamino
from gapless.synth.sequential.kamino import column_order
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise
from helpers.chunked_engine import chunked


def schema(*rules, sizes=(4, 3, 2, 3), gaps=True):
    columns = [
        gl.Categorical(name, [f"{name}{level}" for level in range(size)], may_be_missing=gaps and name != "a")
        for name, size in zip("abcd", sizes, strict=True)
    ]
    return gl.Schema("people", columns, constraints=[Constraint(rule) for rule in rules])


def people(rows=400, *, sizes=(4, 3, 2, 3), gaps=0.2, seed=0):
    """Columns that follow the first, some cells missing."""
    rng = np.random.default_rng(seed)
    first = rng.integers(sizes[0], size=rows)
    frame = {}
    for name, size in zip("abcd", sizes, strict=True):
        codes = np.where(rng.random(rows) < 0.8, first % size, rng.integers(size, size=rows))
        lost = (rng.random(rows) < gaps) & (name != "a")
        frame[name] = [None if gone else f"{name}{code}" for code, gone in zip(codes, lost, strict=True)]
    return pl.DataFrame(frame)


def fit(folder, missing="observed", *, budget=None, rows=400, **settings):
    folder.mkdir(exist_ok=True)
    table = private(people(rows), schema(), folder, budget=budget or gl.Budget(5.0, 1e-6))
    model = gl.Kamino(missing=TREATMENTS[missing](), **{"steps": 5} | settings).fit(table, spend=table.ledger.left)
    return model, table.ledger.entries


def decides(*names):
    *first, last = names
    return " and ".join([*(f"t1.{name} == t2.{name}" for name in first), f"t1.{last} != t2.{last}"])


# ------------------------------------------------------------------ order


@pytest.mark.parametrize(
    ("rules", "first", "order"),
    [
        ([], None, "cbda"),  # small ones first, else as in the schema
        ([], ["d"], "dcba"),
        ([], ["a", "b", "c", "d"], "abcd"),
        ([decides("a", "c")], None, "bdac"),
        ([decides("a", "b", "c")], None, "bdac"),
        ([decides("b", "c"), decides("c", "d")], None, "bcda"),
        ([decides("a", "c"), decides("c", "a")], None, "bdca"),  # each decides the other: the smaller one
        ([decides("a", "c")], ["c"], "cbda"),  # what is asked for wins
    ],
)
def test_order(rules, first, order):
    assert "".join("abcd"[place] for place in column_order(schema(*rules), first)) == order


def test_the_order_is_in_the_facts(tmp_path):
    model, _ = fit(tmp_path, order=["d"])
    assert model.facts.settings["order"] == "d, c, b, a"
    assert "order: d, c, b, a" in model.describe()


# ------------------------------------------------------------------ releases


def releases(entries):
    return [(entry.what, entry.mechanism["name"], entry.reads) for entry in entries]


COUNTS = [(name, "DiscreteGaussian", None if name == "a" else [name]) for name in "abcd"]
COUNTS.append(("number of rows", "DiscreteGaussian", None))


def test_the_shared_network_is_one_training_that_reads_every_row(tmp_path):
    _, entries = fit(tmp_path)
    assert releases(entries) == [*COUNTS, ("network", "PrivateTraining", None)]


def test_the_parts_of_the_budget(tmp_path):
    _, entries = fit(tmp_path)
    whole = sum(entry.loss for entry in entries)
    assert entries[-1].loss / whole == pytest.approx(0.8)
    assert [entry.loss / whole for entry in entries[:-1]] == pytest.approx([0.04] * 5)


def test_each_network_of_its_own_reads_its_column(tmp_path):
    """KaminoI: the columns before it are filled, so that it is trained on the rows whose own column is observed."""
    _, entries = fit(tmp_path, architecture="columns")
    trained = [(f"network for {name}", "PrivateTraining", None if name == "a" else [name]) for name in "bda"]
    assert releases(entries) == [*COUNTS, *trained]
    whole = sum(entry.loss for entry in entries)
    assert [entry.loss / whole for entry in entries] == pytest.approx([0.04] * 5 + [0.8 / 3] * 3)


def test_every_network_has_its_factor_for_the_people_behind_the_gaps(tmp_path):
    """All was charged in one batch, so sets and losses are known in advance: a sum over columns."""
    (tmp_path / "t").mkdir()
    table = private(people(), schema(), tmp_path / "t", budget=gl.Budget(1.0, 1e-6))
    gl.Kamino(architecture="columns", steps=5, missing=gl.Observed()).fit(table, spend=table.ledger.left)
    ledger = table.ledger
    assert {entry.batch for entry in ledger.entries} == {1}
    losses = {name: sum(e.loss for e in ledger.entries if e.reads == [name]) for name in "bcd"}
    every = sum(entry.loss for entry in ledger.entries if entry.reads is None)
    order = ledger.order
    bound = every + sum(np.log1p(0.5 * np.expm1((order - 1) * loss)) / (order - 1) for loss in losses.values())
    found = ledger.ground_truth(gl.MCAR(0.5))
    assert found.epsilon == pytest.approx(epsilon_of(Loss(bound, order), 1e-6), rel=1e-6)
    assert found.epsilon < 0.95
    _, entries = fit(tmp_path / "shared")
    assert {entry.batch for entry in entries} == {1, 6}  # there the network follows from the noisy number of rows


def test_complete_rows_read_all_columns_that_may_be_missing(tmp_path):
    for architecture in ("shared", "columns"):
        _, entries = fit(tmp_path / architecture, "complete-rows", architecture=architecture)
        assert {tuple(entry.reads or ()) for entry in entries if entry.what != "number of rows"} == {("b", "c", "d")}


def test_with_gaps_as_levels_every_row_is_read(tmp_path):
    for architecture in ("shared", "columns"):
        model, entries = fit(tmp_path / architecture, "extended", architecture=architecture)
        assert all(entry.reads is None for entry in entries)
        assert gl.missing.patterns(model.sample(500, seed=0, gaps="as-observed")).rates["a"] == 0


def test_nothing_public_follows_the_number_of_rows(tmp_path):
    """But what is released: noise, shares, steps and rates are the same for 0, 7 and 400 rows."""
    runs = [
        [(entry.what, entry.mechanism, entry.loss) for entry in fit(tmp_path / str(rows), rows=rows)[1]]
        for rows in (0, 7, 400)
    ]
    assert runs[0] == runs[1] == runs[2]


def test_the_hidden_layer_comes_with_the_budget(tmp_path):
    numbers = [
        fit(tmp_path / str(epsilon), budget=gl.Budget(epsilon, 1e-6), rows=3000)[1][-1].mechanism["numbers"]
        for epsilon in (1.0, 1e4)
    ]
    assert numbers[0] < numbers[1]
    shown, cells = 4 + 4 + 3 + 4, 12
    assert fit(tmp_path / "none", hidden=0)[1][-1].mechanism["numbers"] < shown * cells


def test_a_table_of_one_column_is_measured_and_not_trained_on(tmp_path):
    table = private(people().select("a"), schema().select(["a"]), tmp_path, budget=gl.Budget(1.0, 1e-6))
    model = gl.Kamino(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    assert [entry.what for entry in table.ledger.entries] == ["a", "number of rows"]
    assert model.sample(400, seed=0).marginal("a").sum() == 400


def test_progress(tmp_path):
    for architecture, last in (("shared", 5), ("columns", 15)):
        (tmp_path / architecture).mkdir()
        table = private(people(50), schema(), tmp_path / architecture, budget=gl.Budget(1.0, 1e-6))
        seen = []
        gl.Kamino(architecture=architecture, steps=5, missing=gl.Observed()).fit(
            table, spend=table.ledger.left, progress=lambda *call, seen=seen: seen.append(call)
        )
        assert [call for call in seen if call[0] == "training"] == [("training", n + 1, last) for n in range(last)]


# ------------------------------------------------------------------ what comes out


def together(table):
    """How often the last column follows the first."""
    return float(np.mean(table.codes[0] % 3 == table.codes[3]))


@pytest.mark.parametrize("missing", ["observed", "extended", "complete-rows"])
@pytest.mark.parametrize("architecture", ["shared", "columns"])
def test_columns_that_go_together_still_do(architecture, missing, tmp_path):
    table = private(people(4000), schema(), tmp_path, budget=gl.Budget(20.0, 1e-6))
    with fixed_noise(1):
        model = gl.Kamino(architecture=architecture, missing=STRATEGIES[missing]()).fit(table, spend=table.ledger.left)
    assert together(model.sample(4000, seed=0)) == pytest.approx(
        together(gl.Table.read(people(4000, gaps=0), table.schema)), abs=0.08
    )


def test_a_public_table_is_filled(tmp_path):
    model, _ = fit(tmp_path, budget=gl.Budget(50.0, 1e-6), rows=3000, steps=60)
    table = gl.Table.read(people(500, seed=3), model.schema)
    full = model.impute(table, seed=1)
    assert full.to_polars().null_count().sum_horizontal().item() == 0
    for before, after, column in zip(table.codes, full.codes, model.schema.columns, strict=True):
        assert np.array_equal(before[before < column.size], after[before < column.size])
    truth = gl.Table.read(people(500, seed=3, gaps=0), model.schema)
    lost = table.codes[3] >= 3
    assert np.mean(full.codes[3][lost] == truth.codes[3][lost]) > 0.5  # a third by chance


def test_rows_given_some_cells(tmp_path):
    model, _ = fit(tmp_path, budget=gl.Budget(50.0, 1e-6), rows=3000, steps=60)
    sample = model.sample(500, seed=1, given={"d": "d1"})
    assert (sample.codes[3] == 1).all()
    assert np.mean(sample.codes[0] == 1) > 0.5  # a quarter without


def test_a_private_table_is_filled_by_a_model_that_is_paid_for(tmp_path):
    table = private(people(), schema(), tmp_path, budget=gl.Budget(5.0, 1e-6))
    imputer = gl.missing.FromModel(gl.Kamino(steps=5, missing=gl.Observed()))
    model = gl.MST(missing=gl.ImputeFirst(imputer)).fit(table, spend=table.ledger.left)
    whole = sum(entry.loss for entry in table.ledger.entries)
    first = [entry for entry in table.ledger.entries if entry.to == "Kamino.fit"]
    assert sum(entry.loss for entry in first) / whole == pytest.approx(0.25)
    assert all(entry.reads is None for entry in table.ledger.entries if entry.to == "MST.fit")
    assert model.sample(10, seed=0).to_polars().null_count().sum_horizontal().item() == 0


def test_a_picture_shows_what_goes_together(tmp_path):
    """Counted in a sample: the model has no marginals."""
    model, _ = fit(tmp_path, budget=gl.Budget(50.0, 1e-6), rows=3000, steps=60)
    assert model.marginal_if_known(["a", "b"]) is None
    with pytest.raises(gl.errors.ModelError, match="a model by kamino has no marginals"):
        model.marginal("a")
    assert 'class="strong"' in model.picture()


# ------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"architecture": "deep"}, r"got 'deep'\n  Try: pass \"shared\" or \"columns\""),
        ({"hidden": -1}, "hidden = -1"),
        ({"steps": 0}, "steps = 0"),
        ({"order": ["e"]}, "no column 'e'"),
        ({"order": ["a", "a"]}, "twice"),
    ],
)
def test_wrong_settings_are_refused_before_anything_is_spent(settings, message, tmp_path):
    table = private(people(20), schema(), tmp_path, budget=gl.Budget(1.0, 1e-6))
    with pytest.raises(gl.GaplessError, match=message):
        gl.Kamino(**settings).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_too_many_cells_for_one_network_are_refused_before_anything_is_spent(tmp_path, monkeypatch):
    monkeypatch.setattr(kamino, "MOST_NUMBERS", 100)
    table = private(people(20), schema(), tmp_path, budget=gl.Budget(1.0, 1e-6))
    with pytest.raises(
        gl.errors.ModelError, match=r"have 15 cells, but one network takes at most \d+\n  Try: declare fewer levels"
    ):
        gl.Kamino(steps=1).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_an_imputer_that_needs_delta_is_refused_under_a_pure_budget_before_anything_is_spent(tmp_path):
    columns = [*schema().columns, gl.Number("x", bounds=(0, 1), bins="learned")]
    frame = people(20).with_columns(pl.Series("x", np.linspace(0, 1, 20)))
    table = private(frame, gl.Schema("people", columns), tmp_path, budget=gl.Budget(1.0, 0))
    with pytest.raises(
        gl.errors.BudgetError, match=r"Kamino\.fit: this method needs a δ above 0, but the budget has δ = 0"
    ):
        gl.MST(missing=TREATMENTS["impute-kamino"]()).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_rows_that_are_not_at_hand_are_refused_where_gaps_are_filled(tmp_path):
    table = chunked(private(people(20), schema(), tmp_path, budget=gl.Budget(1.0, 1e-6)), 7)
    with pytest.raises(gl.errors.EngineError, match="filling gaps column by column needs all rows in memory"):
        gl.Kamino(architecture="columns", missing=gl.Observed()).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries
    gl.Kamino(steps=2, missing=gl.Observed()).fit(table, spend=table.ledger.left)  # nothing is filled
