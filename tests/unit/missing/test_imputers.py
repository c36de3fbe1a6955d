"""Imputers on a private table: what gaps are filled with, what is paid, what is refused."""

import numpy as np
import pytest

import gapless as gl
from gapless.errors import ModelError
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise
from helpers.open_sealed import reveal

SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("town", ["a", "b", "c"], may_be_missing=True),
        gl.Ordinal("health", ["bad", "fair", "good"], may_be_missing=True),
        gl.Integer("age", bounds=(0, 99), bins=10, may_be_missing=True),
    ],
)
ROWS = [("a", "bad", "5"), ("a", "good", "95"), ("b", "good", "95"), ("a", "good", None), (None, None, None)]


def filled(imputer, folder):
    """Counts of each column's cells after filling, without noise."""
    table = private(ROWS, SCHEMA, folder)
    with no_noise():
        grant = table.ledger.grant(table.ledger.left, to="test")
        after = gl.ImputeFirst(imputer).prepare(table, grant)
    counts = [reveal(after.marginal([name]), table.ledger) for name in SCHEMA.names]
    return counts, table.ledger


def test_the_mode_is_put_into_every_gap(tmp_path):
    (town, health, age), ledger = filled(gl.missing.FromMode(), tmp_path)
    assert town.tolist() == [4, 1, 0]
    assert health.tolist() == [1, 0, 4]
    assert age[0] == 1
    assert age[9] == 4
    assert {entry.batch for entry in ledger.entries} == {1}  # all columns in one batch
    assert ledger.spent.value <= ledger.capacity.value / 4 * (1 + 1e-9)


def test_the_mean_is_put_into_gaps_of_ordered_columns(tmp_path):
    """Of health 0, 2, 2, 2 in places of the order; of age 5, 95, 95 in the middle of bins."""
    (town, health, age), _ = filled(gl.missing.FromMean(), tmp_path)
    assert town.sum() == 5
    assert health.tolist() == [1, 0, 4]
    assert age[6] == 2


def test_filling_evenly_is_free(tmp_path):
    counts, ledger = filled(gl.missing.FromDomain(), tmp_path)
    assert [column.sum() for column in counts] == [5, 5, 5]
    assert not ledger.entries


@pytest.mark.parametrize(("choice", "rows"), [(gl.Extended(), 2), (gl.Observed(), 2), (gl.CompleteRows(), 1)])
def test_choices_that_cost_nothing(choice, rows, tmp_path):
    table = private([("a", "b"), ("b", None)], letters_schema([2, 2]), tmp_path)
    grant = table.ledger.grant(table.ledger.left, to="test")
    prepared = choice.prepare(table, grant)
    assert np.sum(reveal(prepared.marginal(["x0"], rows="extended"), table.ledger)) == rows
    assert choice.share == 0
    assert not table.ledger.entries


@pytest.mark.parametrize("wrong", [0, 1, True, "half"])
def test_a_share_that_leaves_nothing_is_refused(wrong):
    with pytest.raises(ModelError, match=r"share = .*\n  Try: pass a number in \(0, 1\), such as 0.25"):
        gl.ImputeFirst(share=wrong)


@pytest.mark.parametrize("wrong", [gl.missing.FromMean, "mean", None])
def test_refuses_other_objects_as_imputers(wrong):
    with pytest.raises(
        ModelError, match=r"must be an imputer, got .*\n  Try: use ImputeFirst\(gapless.missing.FromMean\(\)\)"
    ):
        gl.ImputeFirst(wrong)
    with pytest.raises(ModelError, match=r"use gapless.missing.FromModel\(MST\(\)\)"):
        gl.missing.FromModel(wrong)
