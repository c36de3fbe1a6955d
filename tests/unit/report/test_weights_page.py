"""The page of weights shows what they change, from the rows and the weights alone."""

import re

import numpy as np
import pytest

import gapless as gl
from gapless.report.weights_page import weights_page
from gapless.testing.audit import letters_schema, private

SCHEMA = letters_schema([2, 3])


def drawn(weights, folder):
    rng = np.random.default_rng(0)
    rows = gl.Table(SCHEMA, [rng.integers(0, 2, 100), rng.integers(0, SCHEMA.columns[1].extended_size, 100)], rows=100)
    table = private([("a", "b")] * 9, SCHEMA, folder, budget=gl.Budget(1.0, 0))
    return rows, weights_page(rows, weights, table.ledger)


def test_shares_with_and_without_weights_and_the_rows_in_effect(tmp_path):
    weights = gl.weights.Weights(np.where(np.arange(100) < 50, 3.0, 1.0), method="by hand")
    rows, page = drawn(weights, tmp_path)
    for text in (
        "By hand weights of 100 rows: 80 rows in effect",
        "0.2 to 0.5",
        "1 to 2",
        "mean weight is 1",
        "x0 × x1",
        "missing: ",
    ):
        assert text in page
    moved = gl.evaluate.compare_pairs(rows, rows, weights=weights)[0].distance
    assert f"{100 * moved:.1f}%" in page
    assert "Warning" not in page
    assert not re.search("<script|https?://(?!www.w3.org)", page)


def test_weights_that_leave_few_rows_have_a_warning(tmp_path):
    with pytest.warns(gl.weights.FewRowsWarning):
        weights = gl.weights.Weights(np.eye(100)[3], method="by hand")
    _, page = drawn(weights, tmp_path)
    assert "Warning: these weights leave 1 of 100 rows in effect" in page
    assert "10 or more" in page
