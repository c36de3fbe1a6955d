"""Mixture as a synthesizer: what is measured, in which order and at which price; gaps, constraints, refusals, words."""

from itertools import combinations
from math import prod

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.missing import STRATEGIES
from gapless.schema import Constraint
from gapless.synth import learners
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise, no_noise

SCHEMA = letters_schema((2, 3, 1, 4))
ROWS = [("a", "b", "a", "c"), ("b", "c", "a", "a"), (None, "a", "a", "d"), ("a", "-", None, "n/a")] * 250
OBSERVED = (2, 4, 1, 5)  # cells: of the odd columns one more, that a value does not apply
EXTENDED = (3, 6, 2, 7)  # and the kinds of gaps


def table_of(folder, **more):
    return private(ROWS, SCHEMA, folder, **more)


def fitted(table, missing="extended", **more):
    return gl.Mixture(missing=STRATEGIES[missing](), **more).fit(table, spend=table.ledger.left)


@pytest.mark.parametrize(
    ("missing", "sizes"),
    [("extended", EXTENDED), ("observed", OBSERVED), ("complete-rows", OBSERVED), ("impute-random", OBSERVED)],
)
def test_one_batch_of_every_pair(missing, sizes, tmp_path):
    """By the sixth root of a pair's cells; the number of rows as little as any."""
    table = table_of(tmp_path)
    fitted(table, missing)
    varying = [column for column in range(4) if sizes[column] > 1]
    pairs = list(combinations(varying, 2))
    shares = [prod(sizes[column] for column in pair) ** (1 / 6) for pair in pairs]
    names = [f"x{first} × x{other}" for first, other in pairs]
    if missing != "extended":
        shares.append(min(shares))
        names.append("number of rows")
    entries = table.ledger.entries
    assert [entry.what for entry in entries] == names
    assert {(entry.batch, entry.to, entry.distance["L1"]) for entry in entries} == {(1, "Mixture.fit", 1)}
    losses = np.array([entry.loss for entry in entries])
    assert losses / losses.sum() == pytest.approx(np.array(shares) / sum(shares), rel=1e-6)
    noise = np.array([entry.mechanism["std"] for entry in entries])
    assert noise * np.sqrt(shares) == pytest.approx(np.full(len(shares), noise[0] * shares[0] ** 0.5), rel=1e-6)
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-6)


def test_a_single_column_is_measured_by_itself(tmp_path):
    table = private([("a",), ("b",)] * 50, letters_schema((2,)), tmp_path)
    fitted(table)
    assert [entry.what for entry in table.ledger.entries] == ["x0"]


@pytest.mark.parametrize("missing", list(STRATEGIES))
def test_entries_say_which_rows_are_read(missing, tmp_path):
    table = table_of(tmp_path)
    fitted(table, missing)
    for entry in table.ledger.entries:
        columns = entry.what.split(" × ")
        if entry.what == "number of rows" or missing == "extended":
            expected = None
        elif missing == "observed" or entry.what.endswith("to fill gaps"):
            expected = [columns[0].split(",")[0], *columns[1:]]
        elif missing == "complete-rows":
            expected = ["x0", "x1", "x2", "x3"]
        else:  # a filled row is always read
            expected = None
        assert entry.reads == expected, entry.what


def noise_of_pair(table):
    (entry,) = (entry for entry in table.ledger.entries if entry.what == "x0 × x1")
    return entry.mechanism["std"]


def test_a_fresh_ledger_prices_the_batch_as_one_and_a_used_one_does_not(tmp_path):
    fresh, used, pure = table_of(tmp_path), table_of(tmp_path), table_of(tmp_path, budget=gl.Budget(1.0, 0))
    used.ask(gl.Count(), spend=used.ledger.share("1e-3%"))
    for table in (fresh, used, pure):
        fitted(table)
    assert all(entry.together for entry in fresh.ledger.entries)
    assert not any(entry.together for entry in (*used.ledger.entries, *pure.ledger.entries))
    assert 1.06 < noise_of_pair(used) / noise_of_pair(fresh) < 1.08
    assert {entry.mechanism["name"] for entry in pure.ledger.entries} == {"DiscreteLaplace"}
    assert fresh.ledger.guarantee().epsilon == pytest.approx(1.0)
    assert "exact total" in fresh.ledger.guarantee().basis
    assert "exact total" not in used.ledger.guarantee().basis


def test_an_imputer_that_pays_comes_first(tmp_path):
    """Then the tables are no first batch."""
    table = table_of(tmp_path)
    fitted(table, "impute-mean")
    first, *_, last = table.ledger.entries
    assert first.what.endswith("to fill gaps")
    assert last.batch != first.batch
    assert not any(entry.together for entry in table.ledger.entries)


@pytest.mark.parametrize(("missing", "sizes"), [("extended", EXTENDED), ("impute-mean", OBSERVED)])
def test_too_many_cells_are_refused_before_anything_is_spent(missing, sizes, tmp_path):
    table = table_of(tmp_path)
    cells = sum(sizes) ** 2
    with pytest.raises(gl.errors.ModelError) as error:
        fitted(table, missing, cap_cells=cells - 1)
    assert str(error.value) == (
        f"Mixture.fit: all columns together have {sum(sizes)} cells, which makes {cells} pairs of cells; "
        f"the cap is {cells - 1}\n"
        "  Try: choose another method, such as mst, declare fewer levels or bins for these columns in the schema, keep "
        'fewer columns, with people.select(["age", "sex"]), or pass a larger cap_cells='
    )
    assert not table.ledger.entries
    fitted(table, missing, cap_cells=cells)


@pytest.mark.parametrize(("cells", "cap_cells"), [(3400, 50_000_000), (5000, 10**9)])
def test_pairs_that_no_model_can_hold_are_refused_before_any_charge(cells, cap_cells, tmp_path):
    columns = [gl.Integer(name, bounds=(0, cells - 1), bins=cells) for name in "xy"]
    table = private([(1, 2)] * 20, gl.Schema("t", columns), tmp_path)
    with pytest.raises(gl.errors.ModelError) as error:
        fitted(table, cap_cells=cap_cells)
    assert str(error.value) == (
        f"Mixture.fit: the marginal of x × y has {cells**2:,} cells; the cap is 10,000,000\n"
        "  Try: declare fewer levels or bins for these columns in the schema, or keep fewer columns, with "
        'people.select(["age", "sex"])'
    )
    assert table.ledger.entries == ()


def test_one_column_and_columns_of_one_cell(tmp_path):
    for sizes in ((3,), (1,), (1, 1)):
        schema = gl.Schema("few", [gl.Categorical(f"x{i}", list("abc"[:size])) for i, size in enumerate(sizes)])
        table = private([("a",) * len(sizes)] * 100, schema, tmp_path)
        with no_noise():
            model = fitted(table, "observed")
        assert model.marginal(["x0"])[0] == pytest.approx(1, abs=0.02)


# ---------------------------------------------------------------------- gaps


def gappy(rows=4000, seed=0):
    """x1 mostly repeats x0; where x0 is b, half of x1 is missing."""
    rng = np.random.default_rng(seed)
    x0 = rng.integers(0, 2, rows)
    x1 = np.where(rng.random(rows) < 0.1, 1 - x0, x0)
    lost = (x0 == 1) & (rng.random(rows) < 0.5)
    truth = np.array(list("ab"), dtype=object)
    frame = pl.DataFrame({"x0": truth[x0].tolist(), "x1": np.where(lost, None, truth[x1]).tolist()})
    return frame, np.bincount(2 * x0 + x1, minlength=4).reshape(2, 2) / rows, float(lost.mean())


GAPPY = gl.Schema("gappy", [gl.Categorical("x0", ["a", "b"]), gl.Categorical("x1", ["a", "b"], may_be_missing=True)])


def test_gaps_come_out_as_observed_and_filled_rows_see_through_them(tmp_path):
    frame, truth, rate = gappy()
    with fixed_noise(1):
        model = fitted(private(frame, GAPPY, tmp_path, budget=gl.Budget(10.0, 1e-6)))
    assert model.marginal("x1", gaps="as-observed")[2] == pytest.approx(rate, abs=0.01)
    both = model.marginal(["x0", "x1"], gaps="as-observed")
    assert both[0, 2] == pytest.approx(0, abs=0.01)
    assert both[1, 2] == pytest.approx(rate, abs=0.01)
    sample = model.sample(4000, seed=0, gaps="as-observed").to_polars()
    assert sample["x1"].null_count() / 4000 == pytest.approx(rate, abs=0.02)
    assert sample["x0"].null_count() == 0
    complete = (
        frame.drop_nulls().filter((pl.col("x0") == "b") & (pl.col("x1") == "b")).height / frame.drop_nulls().height
    )
    assert truth[1, 1] - complete > 0.1
    assert model.marginal(["x0", "x1"]) == pytest.approx(truth, abs=0.03)
    assert model.sample(1000, seed=0).to_polars().null_count().sum_horizontal()[0] == 0


@pytest.mark.parametrize("missing", ["observed", "complete-rows", "impute-random"])
def test_gaps_that_were_not_measured_are_not_made_up(missing, tmp_path):
    model = fitted(table_of(tmp_path), missing)
    with pytest.raises(gl.errors.ModelError, match="did not measure the gaps"):
        model.sample(10, gaps="as-observed")


def test_imputing_from_a_mixture(tmp_path):
    """Given x0 the gaps are filled as the complete rows say, and what is observed stays."""
    frame, truth, _ = gappy()
    with fixed_noise(1):
        model = fitted(private(frame, GAPPY, tmp_path, budget=gl.Budget(10.0, 1e-6)))
    path = tmp_path / "gappy.csv"
    frame.write_csv(path)
    before, after = frame, model.impute(gl.Table.read(path, GAPPY), seed=0).to_polars()
    seen = before["x1"].is_not_null()
    assert after["x0"].to_list() == before["x0"].to_list()
    assert after.filter(seen)["x1"].to_list() == before.filter(seen)["x1"].to_list()
    new = after.filter(~seen)["x1"]
    assert new.null_count() == 0
    assert (new == "b").mean() == pytest.approx(truth[1, 1] / truth[1].sum(), abs=0.05)


def test_a_mixture_fills_gaps_before_another_method(tmp_path):
    frame, truth, _ = gappy()
    table = private(frame, GAPPY, tmp_path, budget=gl.Budget(20.0, 1e-6))
    model = gl.MST(missing=gl.ImputeFirst(gl.missing.FromModel(gl.Mixture()), share=0.5)).fit(
        table, spend=table.ledger.left
    )
    assert [entry.what for entry in table.ledger.entries[:2]] == ["x0 × x1", "x0"]
    assert model.marginal(["x0", "x1"]) == pytest.approx(truth, abs=0.04)


# ---------------------------------------------------------------------- constraints


def ruled(*rules):
    columns = [gl.Categorical(name, list("abcd"), may_be_missing=True) for name in ("zip", "town", "other")]
    return gl.Schema("ruled", columns, constraints=[Constraint(rule) for rule in rules])


def ruled_rows(seed=0, rows=2000):
    """Zip decides town; a town b never has other = d; some cells are missing."""
    rng = np.random.default_rng(seed)
    zips = rng.integers(0, 4, rows)
    towns = np.array([1, 0, 1, 3])[zips]
    others = np.where(towns == 1, rng.integers(0, 3, rows), rng.integers(0, 4, rows))
    cells = np.array(list("abcd"), dtype=object)[np.array([zips, towns, others])]
    cells[rng.random(cells.shape) < 0.1] = None
    return [tuple(row) for row in cells.T]


DECIDES, NEVER = "t1.zip == t2.zip and t1.town != t2.town", "t1.town == 'b' and t1.other == 'd'"


@pytest.mark.parametrize("gaps", ["filled", "as-observed"])
def test_rules_hold_in_samples(gaps, tmp_path):
    """At an ε at which noise alone would break them."""
    table = private(ruled_rows(), ruled(DECIDES, NEVER), tmp_path, budget=gl.Budget(0.3, 1e-6))
    model = fitted(table)
    assert not model.not_enforced()
    sample = model.sample(5000, seed=0, gaps=gaps).to_polars()
    assert sample.filter((pl.col("town") == "b") & (pl.col("other") == "d")).is_empty()
    towns = sample.drop_nulls(["zip", "town"]).group_by("zip").agg(pl.col("town").n_unique())
    assert towns["town"].to_list() == [1] * 4


def test_without_the_rules_noise_breaks_them(tmp_path):
    """So the test above can fail; under some noise the cell that nobody is in stays empty."""
    with fixed_noise(3):
        model = fitted(private(ruled_rows(), ruled(), tmp_path, budget=gl.Budget(0.3, 1e-6)))
    frame = model.sample(5000, seed=0).to_polars()
    assert not frame.filter((pl.col("town") == "b") & (pl.col("other") == "d")).is_empty()
    assert frame.group_by("zip").agg(pl.col("town").n_unique())["town"].max() > 1


def test_forbidden_pairs_are_targets_of_the_fit(tmp_path):
    """The model itself leaves them hardly anything, so that hardly a row is drawn again."""
    expected = []
    for rules in ((NEVER,), ()):
        table = private(ruled_rows(), ruled(*rules), tmp_path, budget=gl.Budget(0.3, 1e-6))
        with fixed_noise(3):
            expected.append(fitted(table).marginal(["town", "other"])[1, 3])
    assert 2 * expected[0] < expected[1]


# ---------------------------------------------------------------------- words


def test_describe_names_the_measured_pairs(tmp_path):
    table = table_of(tmp_path)
    model = fitted(table)
    assert model.method == "mixture"
    assert model.facts.settings["pairs"] == 6
    assert model.facts.settings["components"] == model.filled.components >= 1000
    assert model.facts.structure == tuple(
        f"{entry.what}: noise std {entry.mechanism['std']:.1f}" for entry in table.ledger.entries
    )
    assert set(model.facts.edges) == set(combinations(range(4), 2))
    assert "x0 × x1: noise std" in model.describe()
    assert all(limit.startswith("Further from the model than noise explains: x") for limit in model.facts.limitations)
    assert model.total == pytest.approx(len(ROWS), abs=100)


def test_describe_names_tables_that_noise_does_not_explain(tmp_path, monkeypatch):
    plain = learners.fit_mixture

    def short(*given, **named):
        return plain(*given, **named)._replace(unexplained=((0,), (0, 3)))

    monkeypatch.setattr(learners, "fit_mixture", short)
    model = fitted(table_of(tmp_path))
    assert model.facts.limitations == ("Further from the model than noise explains: x0, x0 × x3.",)
    assert model.facts.limitations[0] in model.describe()


def test_the_same_released_values_give_the_same_model_and_its_file_keeps_it(tmp_path):
    models = []
    for _ in range(2):
        table = table_of(tmp_path)
        with fixed_noise(2):
            models.append(fitted(table))
    models[0].save(tmp_path / "mixture.model")
    models.append(gl.load(tmp_path / "mixture.model"))
    for model in models[1:]:
        for gaps in ("filled", "as-observed"):
            frames = [some.sample(200, seed=4, gaps=gaps).to_polars() for some in (models[0], model)]
            assert frames[0].equals(frames[1])


def test_progress_names_its_phases(tmp_path):
    calls = []
    table = table_of(tmp_path)
    gl.Mixture().fit(table, spend=table.ledger.left, progress=lambda *given: calls.append(given))
    assert calls[0] == ("measuring", 0, 1)
    assert {phase for phase, *_ in calls[1:]} == {"fitting"}
    assert calls[-1][1] == calls[-1][2]
