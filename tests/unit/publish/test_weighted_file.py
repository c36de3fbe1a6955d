"""Synthetic rows are written with weights, a statement and a report beside them."""

import polars as pl
import pytest

import gapless as gl
from gapless.publish.weighted_file import check_weighing
from gapless.testing import fixed_noise

SCHEMA = gl.Schema("people", [gl.Categorical("sex", ["F", "M"]), gl.Boolean("smoker")])


@pytest.fixture
def fake(tmp_path):
    pl.DataFrame({"sex": ["F"] * 30 + ["M"] * 30, "smoker": [True, False] * 30}).write_csv(tmp_path / "fake.csv")
    return tmp_path / "fake.csv"


def test_rows_statement_and_report_are_written(tmp_path, fake):
    rows = pl.DataFrame({"sex": ["F"] * 80 + ["M"] * 20, "smoker": [True, False] * 50})
    people = gl.read(rows, SCHEMA, protect=gl.Rows(1), ledger=tmp_path / "p.ledger", budget=gl.Budget(9.0, 1e-6))
    with fixed_noise(seed=0):
        made = gl.weigh(people, fake, tmp_path / "weighted.csv", spend="50%")
    weights = pl.read_csv(made.path).group_by("sex").agg(pl.col("weight").mean()).sort("sex")["weight"]
    assert weights[0] > 1 > weights[1]
    assert made.statement.read_text(encoding="utf-8").startswith("# Privacy statement: weights of weighted.csv")
    assert made.report.is_file()


def test_the_synthetic_rows_themselves_are_not_overwritten(tmp_path, fake):
    with pytest.raises(gl.GaplessError):
        check_weighing(SCHEMA, fake, fake, ledger=tmp_path / "p.ledger")
