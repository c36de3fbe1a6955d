"""The private description of gaps: its price, its results, unusual columns; and rates of gaps."""

import inspect
import math

import numpy as np
import polars as pl
import pytest
from scipy import stats

import gapless as gl
from gapless.errors import BudgetError, SchemaError
from gapless.missing.diagnosis import AT_ONCE, GapReport, Link
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise

SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins=20),
        gl.Categorical("sex", ["F", "M"], may_be_missing=True, missing=["", gl.MissingCode("-", "refused")]),
        gl.Number("income", bounds=(0, 100), bins=4, may_be_missing=True),
    ],
)
BUDGETS = {"pure": gl.Budget(1.0, 0), "approximate": gl.Budget(1.0, 1e-6)}


def people(rows=2000, seed=0, driven=True):
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, rows)
    lost = rng.random(rows) < (0.1 + 0.006 * age if driven else 0.4)
    income = np.where(lost, None, rng.integers(0, 100, rows).astype(object))
    return pl.DataFrame(
        {"age": age, "sex": rng.choice(["F", "M", "", "-"], rows), "income": list(income)}, strict=False
    )


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("k", [1, 3])
def test_pays_for_rates_patterns_and_tables(budget, k, tmp_path):
    table = private(people(), SCHEMA, tmp_path, budget=BUDGETS[budget], protect=gl.Rows(k))
    spend = table.ledger.share("60%")
    gl.missing.describe_gaps(table, spend=spend)
    whats = [e.what for e in table.ledger.entries]
    assert whats == [
        "gaps of sex",
        "gaps of income",
        "gaps of sex × age",
        "gaps of sex × income",
        "gaps of income × age",
        "gaps of income × sex",
        "patterns of gaps in 2 columns",
    ]
    assert table.ledger.spent.value == pytest.approx(spend.value, rel=1e-9)
    shares = [e.loss / spend.value for e in table.ledger.entries]
    assert shares == pytest.approx([0.1, 0.1, 0.125, 0.125, 0.125, 0.125, 0.3])
    assert all(e.distance == {"L1": k} and e.reads is None and e.to == "describe_gaps" for e in table.ledger.entries)
    assert len({e.batch for e in table.ledger.entries}) == 2


def test_without_noise_the_report_is_exact(tmp_path):
    frame = people()
    table = private(frame, SCHEMA, tmp_path, budget=gl.Budget(1e4, 1e-6))
    with no_noise():
        report = gl.missing.describe_gaps(table, spend=table.ledger.left)
    exact = gl.missing.patterns(gl.Table.read(frame, SCHEMA))
    assert report.rows == 2000
    assert report.rates == pytest.approx({name: exact.rates[name] for name in ("sex", "income")})
    assert dict(report.patterns) == pytest.approx(dict(exact.frequent))
    assert report.dependence_found
    assert report.links[0].gaps_of == "income"
    assert report.links[0].on == "age"
    assert [link.found for link in report.links] == [True, False, False, False]
    text = str(report)
    assert "About 2,000 rows" in text
    assert "income on age: association" in text
    assert "columns: 1 sex, 2 income" in text


def test_a_report_states_if_nothing_could_be_detected(tmp_path):
    table = private(people(200, driven=False), SCHEMA, tmp_path, budget=gl.Budget(0.05, 1e-6))
    report = gl.missing.describe_gaps(table, spend=table.ledger.left)
    assert all(link.detectable > 1 for link in report.links)
    assert "no association, however strong, would be found with 80% probability" in str(report)


@pytest.mark.parametrize(
    ("reach", "expected"),
    [
        ((0.124, 0.5), "probability: 0.12 and above for the pair of columns that is seen best, 0.50 and above"),
        (
            (0.124, math.inf),
            "probability: 0.12 and above for the pair of columns that is seen best, not even the",
        ),
        ((1.2, math.inf), "at this noise no association, however strong, would be found with 80% probability"),
    ],
)
def test_a_report_states_the_detectable_associations(reach, expected):
    links = tuple(Link("income", "age", 1.0, 0.0, detectable) for detectable in reach)
    report = GapReport(("income",), 100.0, {"income": 0.1}, 0.01, (), 1.0, links)
    assert expected in str(report)
    assert " none " not in str(report).splitlines()[-1]


def test_only_a_private_table_is_paid_for():
    table = gl.Table.read(people(20), SCHEMA)
    for paid in (gl.missing.describe_gaps, gl.missing.gap_rates):
        with pytest.raises(
            gl.errors.SealedError, match=r"takes a PrivateTable, not a Table\n  Try: use gapless.missing.patterns\("
        ):
            paid(table, spend=gl.Loss(0.1, 2))
        with pytest.raises(gl.errors.SealedError, match=r"not a str\n  Try: read the data with gapless\.read"):
            paid("people.csv", spend=gl.Loss(0.1, 2))


@pytest.mark.parametrize("cells", [None, "F"])
def test_a_column_that_is_always_or_never_missing(cells, tmp_path):
    frame = people().with_columns(pl.lit(cells, dtype=pl.String).alias("sex"))
    table = private(frame, SCHEMA, tmp_path)
    report = gl.missing.describe_gaps(table, spend=table.ledger.left)
    assert report.rates["sex"] == pytest.approx(1.0 if cells is None else 0.0, abs=0.1)
    assert all(np.isfinite([link.p_value, link.association]).all() for link in report.links)
    assert str(report)


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_with_hardly_a_row(rows, tmp_path):
    table = private(people(rows), SCHEMA, tmp_path)
    report = gl.missing.describe_gaps(table, spend=table.ledger.left)
    assert all(0 <= rate <= 1 for rate in report.rates.values())
    assert str(report)


def test_nothing_to_describe_costs_nothing(tmp_path):
    table = private([("1",)], gl.Schema("t", [gl.Integer("x", bounds=(0, 9))]), tmp_path)
    with pytest.raises(gl.errors.SchemaError, match="may_be_missing = true"):
        gl.missing.describe_gaps(table, spend=table.ledger.left)
    assert not table.ledger.entries
    alone = private([("a",), (None,)], letters_schema((2,)), tmp_path)
    report = gl.missing.describe_gaps(alone, spend=alone.ledger.left)
    assert report.links == ()
    assert "no other column" in str(report)


def test_patterns_of_many_columns_are_found_step_by_step(tmp_path):
    many = AT_ONCE + 2
    schema = gl.Schema("wide", [gl.Boolean(f"c{i}", may_be_missing=True) for i in range(many)])
    frequent = [None if i % 3 == 0 else "yes" for i in range(many)]
    rows = (
        [tuple(frequent)] * 3000
        + [("no",) * many] * 2000
        + [(None,) * many] * 1000
        + [("no",) * (many - 1) + (None,)] * 500
    )
    table = private(rows, schema, tmp_path, budget=gl.Budget(5.0, 1e-6))
    report = gl.missing.describe_gaps(table, spend=table.ledger.left)
    assert [e.what for e in table.ledger.entries[-2:]] == [f"patterns of gaps in {n} columns" for n in (9, 18)]
    found = dict(report.patterns)
    expected = {
        tuple(f"c{i}" for i in range(0, many, 3)): 3000,
        (): 2000,
        tuple(schema.names): 1000,
        (schema.names[-1],): 500,
    }
    assert set(found) == set(expected)
    assert all(abs(found[p] - n) < 6 * report.pattern_std for p, n in expected.items())
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-9)


def test_refuses_repeated_prefixes_and_prefixes_of_several_lengths(tmp_path):
    table = private([], letters_schema((2, 2)), tmp_path)
    for among in ([(True,), (True,)], [(True,), ()]):
        with pytest.raises(gl.errors.SchemaError, match="all of one length"):
            table.gap_patterns(["x0", "x1"], among=among)


# ------------------------------------------------------------------ rates of gaps, paid for


LETTERS = letters_schema([2, 3])
LETTER_ROWS = [("a", "b"), ("b", None), (None, "c"), ("a", None)] * 500


def test_the_bounds_are_clopper_pearson_limits_beyond_the_noise(tmp_path):
    table = private(LETTER_ROWS, LETTERS, tmp_path, budget=gl.Budget(1.0, 0))
    with no_noise():
        assumption = gl.missing.gap_rates(table, spend=table.ledger.left, failure=1e-4)
    assert assumption.failure == 1e-4
    assert assumption.columns == "independent"
    scale = table.ledger.entries[0].mechanism["scale"]
    margin = math.ceil(scale * math.log(2 * 3 / 1e-4))
    for column, hits in (("x0", 1500), ("x1", 1000)):
        limit = stats.beta.ppf(1 - 1e-4 / 4, hits + margin + 1, 2000 - margin - hits - margin)
        assert assumption.rates[column] == pytest.approx(1 - limit)
        assert assumption.rates[column] < 1 - hits / 2000


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_the_estimate_is_paid_for_and_records_the_columns_it_reads(tmp_path, delta):
    table = private(LETTER_ROWS, LETTERS, tmp_path, budget=gl.Budget(1.0, delta))
    gl.missing.gap_rates(table, spend=table.ledger.share("10%"), columns="dependent")
    assert table.ledger.left.value == pytest.approx(0.9 * table.ledger.capacity.value)
    assert [entry.reads for entry in table.ledger.entries] == [["x0"], ["x1"], None]


def test_an_empty_table_has_no_rates(tmp_path):
    table = private([], LETTERS, tmp_path, budget=gl.Budget(1.0, 0))
    assert gl.missing.gap_rates(table, spend=table.ledger.left, failure=1e-9).rates == {"x0": 0.0, "x1": 0.0}


def test_refuses_invalid_calls_before_spending(tmp_path):
    table = private(LETTER_ROWS, LETTERS, tmp_path)
    with pytest.raises(BudgetError, match="failure"):
        gl.missing.gap_rates(table, spend=table.ledger.left, failure=0)
    whole = private([("a",)], gl.Schema("t", [gl.Categorical("x", ["a", "b"])]), tmp_path)
    with pytest.raises(SchemaError, match="no column"):
        gl.missing.gap_rates(whole, spend=whole.ledger.left)
    assert table.ledger.entries == whole.ledger.entries == ()


def test_spend_is_asked_for():
    assert inspect.signature(gl.missing.gap_rates).parameters["spend"].default is inspect.Parameter.empty
