"""Calibration weights: what is chosen, measured and raked; weights, and tables that carry them."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless import evaluate as ev
from gapless.model.completion import complete_table
from gapless.model.marginal import Measurement
from gapless.privacy.budget import PURE
from gapless.schema import Constraint
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise, no_noise
from gapless.weights import FewRowsWarning
from gapless.weights import calibration as raking
from gapless.weights.calibration import _completed, rake

LETTERS = "abc"
SCHEMA = gl.Schema("letters", [gl.Categorical(name, list(LETTERS), may_be_missing=True) for name in "xyz"])


def letters(rows, seed, *, together, gaps=0.0):
    """Rows in which y is x for some; z is by itself."""
    rng = np.random.default_rng(seed)
    x, y, z = rng.choice(3, (3, rows), p=[0.5, 0.3, 0.2])
    y = np.where(rng.random(rows) < together, x, y)
    cells = {name: np.array(list(LETTERS))[codes].astype(object) for name, codes in zip("xyz", (x, y, z), strict=True)}
    for codes in cells.values():
        codes[rng.random(rows) < gaps] = None
    return pl.DataFrame(
        {name: codes.tolist() for name, codes in cells.items()}, schema=dict.fromkeys(SCHEMA.names, pl.String)
    )


FAKE = gl.Table.read(letters(5000, 1, together=0.0), SCHEMA)


def fitted(rows, folder, *, fake=FAKE, budget=None, **settings):
    table = private(rows, SCHEMA, folder, budget=budget or gl.Budget(4.0, 1e-6))
    with fixed_noise(1):
        return gl.CalibrationWeights(**settings).fit(table, fake, spend=table.ledger.left), table.ledger


@pytest.mark.parametrize("gaps", [0.0, 0.3])
def test_the_wrong_pair_is_chosen_and_corrected(gaps, tmp_path):
    weights, ledger = fitted(letters(20_000, 2, together=0.6, gaps=gaps), tmp_path, pairs=1)
    assert [entry.what for entry in ledger.entries] == ["choice 1", "x × y"]
    truth = gl.Table.read(letters(20_000, 2, together=0.6), SCHEMA)
    assert gl.evaluate.kway_distance(truth, FAKE) > 0.1
    assert gl.evaluate.kway_distance(truth, FAKE, weights=weights) < 0.02
    assert gl.evaluate.kway_distance(truth, FAKE, k=1, weights=weights) < 0.015
    assert np.asarray(weights).mean() == pytest.approx(1.0)


def test_rows_with_gaps_are_raked_with_their_gaps(tmp_path):
    fake = gl.Table.read(letters(5000, 1, together=0.0, gaps=0.3), SCHEMA)
    rows = letters(20_000, 2, together=0.6, gaps=0.3)
    weights, _ = fitted(rows, tmp_path, fake=fake)
    truth, pair = gl.Table.read(rows, SCHEMA), ["x", "y"]
    cells = np.ravel_multi_index([codes.astype(int) for codes in fake.codes[:2]], (4, 4))
    weighted = np.bincount(cells, np.asarray(weights), minlength=16).reshape(4, 4) / fake.rows
    shares = truth.marginal(pair, rows="extended") / truth.rows
    assert np.abs(fake.marginal(pair, rows="extended") / fake.rows - shares).sum() > 0.2
    assert np.abs(weighted - shares).sum() < 0.06


def test_gaps_that_depend_on_the_other_column_are_completed(tmp_path):
    """The observed rows of the pair alone would say something else."""
    rows = letters(40_000, 3, together=0.6)
    gone = (rows["x"].to_numpy() == "a") & (np.random.default_rng(0).random(len(rows)) < 0.8)
    gapped = rows.with_columns(pl.Series("y", np.where(gone, None, rows["y"].to_numpy()).tolist(), dtype=pl.String))
    weights, _ = fitted(gapped, tmp_path, pairs=1)
    truth = gl.Table.read(rows, SCHEMA)
    observed = gl.Table.read(gapped, SCHEMA)
    assert gl.evaluate.kway_distance(truth, observed) > 0.1
    assert gl.evaluate.kway_distance(truth, FAKE, weights=weights) < 0.03


def test_the_spend_is_spent_and_no_more(tmp_path):
    for budget in (gl.Budget(1.0, 0), gl.Budget(1.0, 1e-6)):
        table = private(letters(200, 1, together=0.5), SCHEMA, tmp_path, budget=budget)
        gl.CalibrationWeights(pairs=2).fit(table, FAKE, spend=table.ledger.share("20%"))
        assert table.ledger.percentages()[0] == pytest.approx(20, abs=0.01)
        kinds = {entry.mechanism["name"] for entry in table.ledger.entries}
        noise = "DiscreteLaplace" if table.ledger.order == PURE else "DiscreteGaussian"
        assert kinds == {"ExponentialChoice", noise}
        assert all(entry.reads is None for entry in table.ledger.entries if entry.what.startswith("x"))


@pytest.mark.parametrize("rows", [0, 1])
def test_hardly_any_private_row_is_enough(rows, tmp_path):
    weights, _ = fitted(letters(rows, 1, together=0.5), tmp_path, budget=gl.Budget(0.1, 1e-6))
    assert len(weights) == FAKE.rows
    assert np.isfinite(np.asarray(weights)).all()


def test_noise_that_explains_everything_moves_little(tmp_path):
    """Twenty rows say nothing at ε = 0.1: what is far from the rows is so by noise."""
    weights, _ = fitted(letters(20, 2, together=0.6), tmp_path, budget=gl.Budget(0.1, 1e-6))
    assert weights.effective_rows > 0.5 * FAKE.rows


def test_refuses_unweightable_tables_before_spending(tmp_path):
    table = private(letters(10, 1, together=0.5), SCHEMA, tmp_path)
    spend = table.ledger.left
    other = gl.Schema("letters", [gl.Categorical("x", ["a", "b"])])
    for method, fake, error, wrong in [
        (gl.CalibrationWeights(), FAKE[:0], gl.errors.ModelError, "the table to weight has no rows"),
        (gl.CalibrationWeights(), FAKE[["x"]], gl.errors.SchemaError, "different schemas"),
        (gl.CalibrationWeights(), gl.Table(other, [np.zeros(1)], rows=1), gl.errors.SchemaError, "different schemas"),
        (gl.CalibrationWeights(), table, gl.errors.SealedError, "a public Table"),
        (gl.CalibrationWeights(pairs=0), FAKE, gl.errors.ModelError, "pairs"),
        (gl.CalibrationWeights(cap_cells=3), FAKE, gl.errors.ModelError, "no two columns of the table do"),
    ]:
        with pytest.raises(error, match=wrong):
            method.fit(table, fake, spend=spend)
    with pytest.raises(gl.errors.SealedError, match="takes a PrivateTable"):
        gl.CalibrationWeights().fit(FAKE, FAKE, spend=spend)
    assert not table.ledger.entries


def test_raking_reaches_exact_tables_and_keeps_columns():
    codes = [column.astype(np.int64) for column in FAKE.codes]
    truth = gl.Table.read(letters(5000, 2, together=0.5), SCHEMA)
    columns = [FAKE.marginal(name) / FAKE.rows for name in "xyz"]
    tables = []
    for pair in combinations(range(3), 2):  # the true dependence with the rows' own columns
        table = truth.marginal([SCHEMA.names[c] for c in pair]).astype(float)
        for _ in range(200):
            table *= (5000 * columns[pair[0]] / table.sum(axis=1))[:, None]
            table *= 5000 * columns[pair[1]] / table.sum(axis=0)
        tables.append(Measurement(pair, table, 0.5))
    weights = rake(codes, (3, 3, 3), tables)
    for table in tables:
        cells = np.ravel_multi_index([codes[c] for c in table.columns], (3, 3))
        assert np.bincount(cells, weights).reshape(3, 3) == pytest.approx(table.counts, abs=3.0)
    for column, share in zip(codes, columns, strict=True):
        assert np.bincount(column, weights) / 5000 == pytest.approx(share, rel=1e-6)


def test_columns_move_as_far_as_tables_contradict_them():
    """A column that is off by much more than the noise goes to what was measured."""
    rng = np.random.default_rng(0)
    codes = [rng.choice(2, 4000, p=[0.5, 0.5]), rng.choice(2, 4000)]
    table = Measurement((0, 1), np.array([[1600.0, 1600.0], [400.0, 400.0]]), 10.0)
    weights = rake(codes, (2, 2), [table])
    assert np.bincount(codes[0], weights)[0] / 4000 == pytest.approx(0.8, abs=0.01)
    assert raking._marginals_noise_std([np.array([2000.0, 2000.0])], [table]) == pytest.approx(1200, rel=0.01)


def test_a_table_is_completed_as_a_model_completes_it():
    counts = np.array([[40.0, 3.0, 20.0], [5.0, 40.0, 30.0], [10.0, 0.0, 5.0]])
    shares = np.full((3, 3), 1 / 4)
    completed = _completed(Measurement((0, 1), counts, 2.0), shares, [2, 2])
    assert completed.counts / counts.sum() == pytest.approx(complete_table(counts, [2, 2], steps=200), abs=1e-6)
    assert completed.counts.sum() == pytest.approx(counts.sum())
    assert completed.noise_std == pytest.approx(3.0)


def test_a_complete_table_stays_as_it_is_noise_below_zero_included():
    counts = np.array([[4.0, -1.0, 0.0], [0.0, 4.0, 0.0], [0.0, 0.0, 0.0]])
    completed = _completed(Measurement((0, 1), counts, 2.0), np.full((3, 3), 1 / 4), [2, 2])
    assert completed.counts.tolist() == counts[:2, :2].tolist()


def test_without_noise_the_weights_are_what_the_counts_say(tmp_path):
    table = private(letters(20_000, 2, together=0.6), SCHEMA, tmp_path, budget=gl.Budget(1.0, 1e-6))
    with no_noise():
        weights = gl.CalibrationWeights().fit(table, FAKE, spend=table.ledger.left)
    truth = gl.Table.read(letters(20_000, 2, together=0.6), SCHEMA)
    assert gl.evaluate.kway_distance(truth, FAKE, weights=weights) < 0.03


ADULTS = gl.Schema("people", [gl.Integer("age", bounds=(0, 99), bins=4), gl.Categorical("sex", ["F", "M"])])
PEOPLE = gl.Table.read(pl.DataFrame({"age": [10, 30, 60, 90], "sex": ["F", "M", "M", "F"]}), ADULTS)
W = [2.0, 0.0, 1.0, 5.0]


def test_weights_have_mean_one_and_report_effective_rows():
    weights = gl.weights.Weights([1.0, 3.0, 4.0, 0.0], method="by hand")
    assert np.asarray(weights).tolist() == [0.5, 1.5, 2.0, 0.0]
    assert weights.effective_rows == pytest.approx(64 / 26)
    assert weights.largest_share == 0.5
    assert str(weights) == "by hand weights of 4 rows: 2 rows in effect (62%), the heaviest has 50.00% of all weight"
    assert np.asarray(weights.truncated(1.5)).tolist() == pytest.approx([4 / 7, 12 / 7, 12 / 7, 0])
    with pytest.raises(ValueError, match="read-only"):
        weights.values[0] = 9.0


@pytest.mark.parametrize("values", [[], [1.0, -1.0], [np.nan], [np.inf], [[1.0]], [0.0, 0.0]])
def test_refuses_invalid_weights(values):
    with pytest.raises(gl.errors.ModelError, match="weights"):
        gl.weights.Weights(values, method="by hand")


def test_a_tenth_of_the_rows_is_warned_of():
    with pytest.warns(FewRowsWarning, match="leave 1 of 20 rows in effect"):
        gl.weights.Weights([1.0] + [0.0] * 19, method="by hand")


def test_truncation_needs_a_bound():
    with pytest.raises(gl.errors.ModelError, match="largest = 0"):
        gl.weights.Weights(W, method="by hand").truncated(0)


def test_a_table_carries_its_weights():
    table = PEOPLE.with_weights(W)
    assert table["weight"].to_list() == [1.0, 0.0, 0.5, 2.5]
    assert repr(table) == "<Table 'people': 4 rows, 2 columns, weighted>"
    assert table[1:]["weight"].to_list() == [0.0, 0.5, 2.5]
    assert table[["sex"]]["weight"].to_list() == [1.0, 0.0, 0.5, 2.5]
    assert table.to_polars().columns == ["age", "sex", "weight"]
    assert table.to_pandas()["weight"].tolist() == [1.0, 0.0, 0.5, 2.5]
    assert table.to_arrow().column_names == ["age", "sex", "weight"]
    assert PEOPLE.weights is None
    assert "weight" not in PEOPLE.to_polars().columns
    assert gl.MCAR(0.5).apply(PEOPLE.with_weights(W), seed=1).weights is not None
    with pytest.raises(gl.errors.SchemaError):
        PEOPLE["weight"]


@pytest.mark.parametrize("name", ["people.csv", "people.csv.gz", "people.tsv", "people.parquet"])
def test_weights_survive_a_file(name, tmp_path):
    table = PEOPLE.with_weights(np.array([1 / 3, 1e-9, 2.0, 1.0]))
    table.write(tmp_path / name)
    again = gl.Table.read(tmp_path / name, ADULTS)
    assert again.weights == pytest.approx(table.weights, rel=1e-15)
    assert again["age"].to_list() == table["age"].to_list()


def test_a_private_table_has_no_weights(tmp_path):
    PEOPLE.with_weights(W).write(tmp_path / "people.csv")
    with pytest.raises(gl.errors.SchemaError, match="'weight'"):
        gl.read(
            tmp_path / "people.csv", ADULTS, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "p.ledger"
        )


@pytest.mark.parametrize(
    ("weights", "wrong"),
    [([1.0], "1 weight for 4 rows"), ([0.0] * 4, "not all zero"), ([-1, 1, 1, 1], "not neg"), (["a"] * 4, "numbers")],
)
def test_a_table_refuses_what_is_no_weight(weights, wrong):
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        PEOPLE.with_weights(weights)


def test_a_file_with_words_for_weights_is_refused(tmp_path):
    (tmp_path / "people.csv").write_text("age,sex,weight\n10,F,heavy\n")
    with pytest.raises(gl.errors.SchemaError, match="weights must be finite"):
        gl.Table.read(tmp_path / "people.csv", ADULTS)


def test_a_column_of_that_name_is_a_column():
    schema = gl.Schema("bodies", [gl.Number("weight", bounds=(0, 200), bins=4)])
    table = gl.Table.read(pl.DataFrame({"weight": [70.0, 90.0]}), schema)
    assert table.weights is None
    with pytest.raises(gl.errors.SchemaError, match="already has a column 'weight'"):
        table.with_weights([1.0, 2.0])


def test_comparisons_count_by_the_tables_own_weights():
    other = PEOPLE.with_weights(W)
    for measure in (gl.evaluate.kway_distance, gl.evaluate.wasserstein_distance):
        assert measure(PEOPLE, other) == measure(PEOPLE, PEOPLE, weights=W) > 0
        assert measure(PEOPLE, other, weights=[1.0] * 4) == pytest.approx(0.0)
    assert gl.compare(PEOPLE, other).weighted
    assert not gl.compare(PEOPLE, PEOPLE).weighted


LEARNED = gl.Schema(  # as a drafted schema has it
    "people", [gl.Integer("age", bounds=(0, 99), bins="learned"), gl.Categorical("sex", ["F", "M"])]
)


def same_weights(table):
    return table.weights is not None and table.weights.tolist() == [1.0, 0.0, 0.5, 2.5]


def test_no_part_and_no_view_of_a_table_loses_its_weights(tmp_path):
    """Every method that keeps the rows keeps their weights; `resample`, which draws rows by them, has none."""
    table = gl.Table.read(PEOPLE.to_polars(), LEARNED).with_weights(W)
    halves = LEARNED.with_columns({"age": gl.Integer("age", bounds=(0, 99), edges=(0, 50, 99))})
    kept = {
        "other bins": table.rebin(halves),
        "other bins and back": table.rebin(halves).rebin(LEARNED),
        "columns": table[["sex"]],
        "all rows": table[:],
        "the first rows": table.head(4),
        "codes": table.with_codes(table.codes, schema=LEARNED),
        "values": table.with_values({}),
        "MCAR": gl.MCAR(0.5).apply(table, seed=1),
        "MAR": gl.MAR({"sex": 0.5}).apply(table, seed=1),
        "MNAR": gl.MNAR({"age": 0.5}).apply(table, seed=1),
        "polars": gl.Table.read(table.to_polars(), LEARNED),
        "pandas": gl.Table.read(table.to_pandas(), LEARNED),
        "Arrow": gl.Table.read(table.to_arrow(), LEARNED),
        "text": gl.Table.read(table.to_text(), LEARNED),
        "itself": gl.Table.read(table, LEARNED),
    }
    assert [name for name, same in kept.items() if not same_weights(same)] == []
    assert table.rebin(halves)["age"].to_list() == [10, 30, 60, 90]


def test_every_measure_counts_by_a_tables_own_weights_under_learned_bins():
    """Found by review: bins that are learned for a comparison took the weights away, so that nothing was weighted."""
    rng = np.random.default_rng(0)
    rows = {"age": rng.integers(0, 100, 300), "sex": rng.choice(["F", "M"], 300)}
    schema = gl.Schema("people", LEARNED.columns, constraints=[Constraint("t1.sex == 'F' and t1.age > 60")])
    truth, other = (gl.Table.read(pl.DataFrame(rows)[part], schema) for part in (slice(0, 200), slice(200, None)))
    weights = np.where(other["age"].to_numpy() < 30, 5.0, 0.2)
    weighted = other.with_weights(weights)
    parts = [
        *(lambda a, b, k=k, **w: ev.kway_distance(a, b, k=k, **w) for k in (1, 2)),
        *(ev.wasserstein_distance, ev.compare_pairs, ev.compare_subgroups, ev.compare_gaps, ev.compare_values),
        lambda a, b, **w: ev.coefficient_error(a, b, label="age", **w),
        ev.detection,
    ]
    for measure in parts:
        assert measure(truth, weighted) == measure(truth, other, weights=weighted.weights)
        assert measure(truth, weighted) != measure(truth, other) or measure is ev.compare_gaps  # there are no gaps
    result = gl.compare(truth, weighted)
    assert result == gl.compare(truth, other, weights=weighted.weights)
    assert result.weighted
    assert "100 rows compared with it, weighted" in str(result)
    breaks = (other["sex"].cast(pl.String) == "F").to_numpy() & (other["age"].to_numpy() > 60)
    assert result.rules[0].other.share == pytest.approx(np.average(breaks, weights=weights))
    assert result.rules[0].other.share != pytest.approx(breaks.mean())


def test_a_private_comparison_and_a_model_that_fills_gaps_keep_the_weights_of_public_rows(tmp_path):
    schema = LEARNED.with_columns({"sex": gl.Categorical("sex", ["F", "M"], may_be_missing=True)})
    data = pl.DataFrame({"age": [10, 30, 60, 90] * 50, "sex": ["F", "M", "M", None] * 50})
    people = gl.read(data, schema, protect=gl.Rows(1), budget=gl.Budget(50.0, 1e-6), ledger=tmp_path / "p.ledger")
    model = gl.MST().fit(people, spend=people.ledger.share("50%"))
    public = gl.Table.read(data, schema).with_weights([1.0, 2.0, 3.0, 4.0] * 50)
    assert model.schema != schema  # it learned its bins
    filled = model.impute(public, seed=0)
    assert filled.weights.tolist() == public.weights.tolist()
    result = gl.evaluate.compare_private(people, public, spend=people.ledger.left)
    assert result.weighted
    assert result.columns[1].other == pytest.approx((1 / 6, 5 / 6))  # of the rows with a value


def test_a_truth_with_weights_is_refused_as_its_rows_count_once():
    with pytest.raises(
        gl.errors.SchemaError, match=r"the truth has weights.*\n  Try: read the truth from data without"
    ):
        gl.compare(PEOPLE.with_weights(W), PEOPLE)


def test_rows_are_drawn_by_their_weights():
    table = PEOPLE.with_weights(W)
    drawn = table.resample(800, seed=3)
    assert drawn.weights is None
    assert drawn["age"].value_counts().sort("age").rows() == [(10, 200), (60, 100), (90, 500)]
    assert drawn["age"].to_list() != sorted(drawn["age"].to_list())
    assert table.resample(seed=1).rows == PEOPLE.resample(seed=1).rows == 4
    assert sorted(PEOPLE.resample(seed=1)["age"].to_list()) == [10, 30, 60, 90]
    assert table.resample(0).rows == 0
    with pytest.raises(gl.errors.ReadError, match="no rows"):
        PEOPLE[:0].resample(3)
