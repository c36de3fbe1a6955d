"""Independent: one batch of all columns, in even shares, and a product of their marginals."""

import numpy as np
import pytest

import gapless as gl
from gapless.model.distribution import Product
from gapless.testing.noise import no_noise
from helpers.letters_tables import SCHEMA, letters, table_of


def test_every_column_is_measured_in_one_batch_with_an_even_share(tmp_path):
    table = table_of(tmp_path)
    gl.Independent().fit(table, spend=table.ledger.left)
    entries = table.ledger.entries
    assert [entry.what for entry in entries] == list(SCHEMA.names)
    assert len({entry.batch for entry in entries}) == 1
    assert len({entry.mechanism["std"] for entry in entries}) == 1
    assert all(entry.together for entry in entries)  # priced by the exact total


def test_the_number_of_rows_is_measured_where_marginals_leave_rows_out(tmp_path):
    table = table_of(tmp_path)
    gl.Independent(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    assert [entry.what for entry in table.ledger.entries] == [*SCHEMA.names, "number of rows"]


def test_without_noise_the_model_is_the_product_of_its_marginals(tmp_path):
    rows = letters()
    table = table_of(tmp_path, rows, budget=gl.Budget(1e4, 1e-6))
    with no_noise():
        model = gl.Independent().fit(table, spend=table.ledger.left)
    assert isinstance(model.filled, Product)
    seen = [row[0] for row in rows if row[0] is not None]
    assert model.marginal("x0") == pytest.approx([seen.count(letter) / len(seen) for letter in "ab"])
    np.testing.assert_allclose(model.marginal(["x0", "x2"]), np.outer(model.marginal("x0"), model.marginal("x2")))
    assert model.facts.edges == ()
    assert model.facts.structure == ()
