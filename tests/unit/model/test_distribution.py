"""A distribution that can be sampled and saved is enough for a model; what else it can do is asked for by type."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest

import gapless as gl
from gapless.model import distribution as product
from gapless.model.distribution import CanFill, HasMarginal, Product
from gapless.model.graphical import GraphicalModel
from gapless.report.release_page import release_page
from gapless.report.statement import privacy_statement
from gapless.schema.schema import Constraint
from gapless.synth import fitted
from gapless.synth.marginal.bayesian_network import BayesianNetwork
from gapless.testing.audit import letters_schema, private

DECIDES = Constraint("t1.x0 == t2.x0 and t1.x1 != t2.x1")
SCHEMA = replace(letters_schema([2, 3]), constraints=(DECIDES,))
ROWS = [("a", "b"), ("b", "a"), (None, "c")] * 20


@dataclass(frozen=True)
class Fixed:
    """The same row again and again: no marginals, nothing to be filled."""

    kind: ClassVar[str] = "fixed"
    row: np.ndarray

    def sample(self, rows, rng):
        return np.tile(self.row, (rows, 1))

    def to_arrays(self):
        return {"row": self.row}

    @classmethod
    def from_arrays(cls, arrays):
        return cls(arrays["row"])


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(5.0, 0))


@pytest.fixture
def model(table):
    whole = gl.MST().fit(table, spend=table.ledger.share("50%"))
    return replace(whole, filled=Fixed(np.array([1, 2])), gapped=Fixed(np.array([0, 3])))


def test_capabilities_of_each_distribution():
    for kind in (Product, GraphicalModel, BayesianNetwork):
        assert issubclass(kind, HasMarginal)
        assert issubclass(kind, CanFill)
    assert not issubclass(Fixed, HasMarginal)
    assert not issubclass(Fixed, CanFill)


def test_sampling_and_saving_are_enough_for_a_model_and_its_release(model, table, tmp_path, monkeypatch):
    monkeypatch.setitem(fitted._DISTRIBUTIONS, "fixed", Fixed)
    model.save(tmp_path / "m")
    for some in (model, gl.load(tmp_path / "m")):
        sample = some.sample(7, seed=1)
        assert [codes.tolist() for codes in sample.codes] == [[1] * 7, [2] * 7]
        assert "Shares of x0" in release_page(some, sample, table.ledger)
        assert "Shares of x0" in release_page(some, some.sample(7, gaps="as-observed"), table.ledger)
        assert f"- Constraint kept, forbidden: {DECIDES.forbidden}." in privacy_statement(some, sample, table.ledger)
        assert some.facts.edges == ((0, 1),)
        assert "<svg" in some.picture()


def test_refuses_unsupported_operations_with_a_hint(model):
    with pytest.raises(gl.errors.ModelError, match=r"by mst has no marginals\n  Try: use counts of a large sample"):
        model.marginal("x0")
    assert model.marginal_if_known("x0") is None
    with pytest.raises(
        gl.errors.ModelError, match=r"by mst cannot be sampled given some cells of a row\n  Try: fit a model by factors"
    ):
        model.impute(model.sample(7, gaps="as-observed"))


def test_a_model_that_cannot_fill_is_refused_before_anything_is_spent(model, table, monkeypatch):
    monkeypatch.setattr(Fixed, "__module__", product.__name__)
    monkeypatch.setattr(product, "Fixed", Fixed, raising=False)  # as if it were one of ours
    before = len(table.ledger.entries)
    with pytest.raises(gl.errors.ModelError, match="this model cannot draw the gaps of a row given its observed cells"):
        gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(model))).fit(table, spend=table.ledger.left)
    assert len(table.ledger.entries) == before


def test_slips_are_not_taken_for_a_marginal_that_is_not_known(table):
    model = gl.MST(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    with pytest.raises(gl.errors.ModelError, match="did not measure the gaps"):
        model.marginal_if_known("x0", gaps="as-observed")
    with pytest.raises(gl.errors.SchemaError):
        model.marginal_if_known("x9")
