"""The page of a comparison."""

import json

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.comparison_page import comparison_page
from gapless.schema import Categorical, Schema
from gapless.testing.audit import private
from helpers.compared_tables import SCHEMA, people


@pytest.mark.parametrize("rows", [(0, 0), (0, 30), (30, 0), (1, 1)])
def test_tiny_tables_make_a_page_too(tmp_path, rows):
    result = gl.compare(people(rows[0], 0), people(rows[1], 1))
    assert ("without rows there is nothing to compare" in str(result)) == (0 in rows)
    result.write(tmp_path / "report.html")
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_single_column_and_a_filled_table(tmp_path):
    schema = Schema("one", [Categorical("x", ["a"], may_be_missing=True)])
    truth = gl.Table(schema, [np.array([0, 1, 1])], rows=3)
    fake = gl.Table(schema, [np.array([0, 0])], rows=2)
    result = gl.compare(truth, fake)
    assert [score.name for score in result.scores if "gap" in score.name] == []
    result.write(tmp_path / "report.html")
    assert "is filled" in (tmp_path / "report.html").read_text(encoding="utf-8")


def sealed(folder, rows=2000, *, budget=None):
    return private(people(rows, 0).to_text().cast(pl.String), SCHEMA, folder, budget=budget)


def test_exact_and_noisy_pages_look_different_and_explain_what_is_empty(tmp_path):
    exact = comparison_page(gl.compare(people(50, 0), people(50, 1)))
    assert 'class="note warn"' in exact
    assert "Share only if the truth is public" in exact
    table = sealed(tmp_path)
    noisy = comparison_page(
        gl.evaluate.compare_private(table, people(50, 1), spend=table.ledger.left, pairs=[("age", "sex")])
    )
    assert 'class="note warn"' not in noisy
    assert "Shown: 1 of 6 pairs; the others were not measured" in noisy
    assert "; with noise " in noisy
    assert '<p class="soft">About ' in noisy
