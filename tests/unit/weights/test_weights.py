"""Weights, and tables that carry them."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless import evaluate as ev
from gapless.schema import Constraint
from gapless.weights import FewRowsWarning

SCHEMA = gl.Schema("people", [gl.Integer("age", bounds=(0, 99), bins=4), gl.Categorical("sex", ["F", "M"])])
PEOPLE = gl.Table.read(pl.DataFrame({"age": [10, 30, 60, 90], "sex": ["F", "M", "M", "F"]}), SCHEMA)
W = [2.0, 0.0, 1.0, 5.0]


def test_weights_have_mean_one_and_tell_how_many_rows_count():
    weights = gl.weights.Weights([1.0, 3.0, 4.0, 0.0], method="by hand")
    assert np.asarray(weights).tolist() == [0.5, 1.5, 2.0, 0.0]
    assert weights.effective_rows == pytest.approx(64 / 26)
    assert weights.largest_share == 0.5
    assert str(weights) == "by hand weights of 4 rows: 2 rows in effect (62%), the heaviest has 50.00% of all weight"
    assert np.asarray(weights.truncated(1.5)).tolist() == pytest.approx([4 / 7, 12 / 7, 12 / 7, 0])
    with pytest.raises(ValueError, match="read-only"):
        weights.values[0] = 9.0


@pytest.mark.parametrize("values", [[], [1.0, -1.0], [np.nan], [np.inf], [[1.0]], [0.0, 0.0]])
def test_what_is_no_weight_is_refused(values):
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
    again = gl.Table.read(tmp_path / name, SCHEMA)
    assert again.weights == pytest.approx(table.weights, rel=1e-15)
    assert again["age"].to_list() == table["age"].to_list()


def test_a_private_table_has_no_weights(tmp_path):
    PEOPLE.with_weights(W).write(tmp_path / "people.csv")
    with pytest.raises(gl.errors.SchemaError, match="'weight'"):
        gl.read(
            tmp_path / "people.csv", SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "p.ledger"
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
        gl.Table.read(tmp_path / "people.csv", SCHEMA)


def test_a_column_of_that_name_is_a_column():
    schema = gl.Schema("bodies", [gl.Number("weight", bounds=(0, 200), bins=4)])
    table = gl.Table.read(pl.DataFrame({"weight": [70.0, 90.0]}), schema)
    assert table.weights is None
    with pytest.raises(gl.errors.SchemaError, match="a column 'weight' of its own"):
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
        "other bins": table.told_by(halves),
        "other bins and back": table.told_by(halves).told_by(LEARNED),
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
    assert table.told_by(halves)["age"].to_list() == [10, 30, 60, 90]


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
