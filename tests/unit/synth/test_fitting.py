"""What every fit does: batches and their shares, the number of rows, refusals, facts."""

from dataclasses import dataclass

import numpy as np
import pytest

import gapless as gl
from gapless.missing import STRATEGIES
from gapless.model.distribution import Product
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.learners import LearnedModel
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise

SCHEMA = letters_schema((2, 3, 1))
ROWS = [("a", "b", "a"), ("b", "c", "a"), (None, "a", "a"), ("a", None, None)] * 25


def table_of(folder, **more):
    return private(ROWS, SCHEMA, folder, **more)


def fitting_of(table, missing="observed"):
    return FitContext(gl.Independent(missing=STRATEGIES[missing]()), table, spend=table.ledger.left)


def test_shares_of_one_batch(tmp_path):
    """Three to one, and the number of rows as little as any."""
    table = table_of(tmp_path)
    fitting = fitting_of(table)
    fitting.measure([(0,), (0, 1)], fitting.prepare(), shares=[1.0, 3.0])
    entries = table.ledger.entries
    assert [entry.what for entry in entries] == ["x0", "x0 × x1", "number of rows"]
    assert [entry.loss for entry in entries] == pytest.approx([table.ledger.capacity.value / 5 * n for n in (1, 3, 1)])
    assert len({entry.batch for entry in entries}) == 1
    assert [measured.noise_std for measured in fitting.measured] == [e.mechanism["std"] for e in entries[:2]]
    assert fitting.structure() == [f"{e.what}: noise std {e.mechanism['std']:.1f}" for e in entries[:2]]


@pytest.mark.parametrize(("missing", "times"), [("extended", 0), ("observed", 1), ("complete-rows", 1)])
def test_the_number_of_rows_is_paid_once_and_only_where_needed(missing, times, tmp_path):
    table = table_of(tmp_path)
    fitting = fitting_of(table, missing)
    spend = fitting.prepare()
    with no_noise():
        for marginal in ((0,), (1,)):
            fitting.measure([marginal], spend / 2)
    assert [entry.what for entry in table.ledger.entries].count("number of rows") == times
    assert fitting.total == pytest.approx(len(ROWS))
    assert [measured.counts.sum() for measured in fitting.scaled_tables] == pytest.approx([len(ROWS)] * 2)


def test_constant_columns_are_not_measured(tmp_path):
    """x2 has one level, and two cells with its gap."""
    assert fitting_of(table_of(tmp_path)).one_way_marginals == [(0,), (1,)]
    assert fitting_of(table_of(tmp_path), "extended").one_way_marginals == [(0,), (1,), (2,)]
    single = private([("a",)], letters_schema((1,)), tmp_path)
    assert fitting_of(single).one_way_marginals == [(0,)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Trained(Synthesizer):
    """Measures a column, then spends the rest by a separate release, as private training does."""

    name = "trained"
    pure = False
    treatments = (gl.Extended, gl.Observed)

    def fit(self, table, *, spend, progress=None):
        fitting = FitContext(self, table, spend=spend, progress=progress)
        spend = fitting.prepare()
        fitting.measure([(0,)], spend * 0.1)
        fitting.release([(fitting.prepared.gap_patterns(["x1"]), "steps")], fitting.grant.left)
        probabilities = Product(tuple(np.full(column.size, 1 / column.size) for column in table.schema.columns))
        return fitting.fitted(LearnedModel(probabilities, None, fitting.total), settings={"steps": 1})


@pytest.mark.parametrize("missing", ["extended", "observed"])
def test_a_method_may_release_what_is_no_marginal(missing, tmp_path):
    table = table_of(tmp_path)
    model = Trained(missing=STRATEGIES[missing]()).fit(table, spend=table.ledger.left)
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-6)
    assert {entry.to for entry in table.ledger.entries} == {"Trained.fit"}
    assert model.method == "trained"
    assert list(model.facts.noise) == ["x0"]
    assert dict(model.facts.settings) == {"missing": repr(STRATEGIES[missing]()), "steps": 1}
    assert model.facts.edges == ()


@pytest.mark.parametrize("missing", [gl.CompleteRows(), gl.ImputeFirst(gl.missing.FromMean())])
def test_refuses_undeclared_settings_before_an_imputer_spends(missing, tmp_path):
    table = table_of(tmp_path)
    with pytest.raises(gl.errors.ModelError) as error:
        Trained(missing=missing).fit(table, spend=table.ledger.left)
    assert str(error.value) == (
        f"Trained.fit: this method does not accept missing = {missing!r}\n"
        "  Try: pass missing=Extended(), or pass missing=Observed()"
    )
    assert not table.ledger.entries


@pytest.mark.parametrize("budget", [gl.Budget(1.0, 0), gl.Budget(1.0, 0, ground_truth=gl.MCAR(0.1))])
def test_a_pure_budget_is_refused_by_what_cannot_keep_it(budget, tmp_path):
    table = table_of(tmp_path, budget=budget)
    with pytest.raises(gl.errors.BudgetError) as error:
        Trained().fit(table, spend=table.ledger.left)
    assert str(error.value) == (
        "Trained.fit: this method needs a δ above 0, but the budget has δ = 0\n"
        "  Try: choose another method, such as mst, or pass delta=1e-6 with a new ledger"
    )
    assert not table.ledger.entries


class HalfMade:
    """No treatment: which rows are counted, and what it costs, is not said."""

    def prepare(self, table, grant):
        raise AssertionError


@pytest.mark.parametrize("method", [gl.Independent, gl.MST, gl.AIM, gl.PrivBayes, gl.synth.Auto])
def test_refuses_other_objects_as_treatments(method, tmp_path):
    table = table_of(tmp_path)
    with pytest.raises(gl.errors.ModelError, match=r"\.fit: missing must be a treatment of gaps, got <.*HalfMade"):
        method(missing=HalfMade()).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_a_model_in_place_of_an_imputer_is_refused_when_it_is_named(tmp_path):
    """It has an `impute` too, for public tables: to find that out during a fit would cost the bins that it learns."""
    table = table_of(tmp_path)
    with no_noise():
        model = gl.MST().fit(table, spend=table.ledger.share("50%"))
    with pytest.raises(
        gl.errors.ModelError,
        match=r"got a fitted model: .*\n  Try: use ImputeFirst\(gapless\.missing\.FromModel\(model\)\)",
    ):
        gl.ImputeFirst(model)
    paid = len(table.ledger.entries)
    with pytest.raises(
        gl.errors.ModelError, match=r"\n  Try: pass missing=ImputeFirst\(gapless\.missing\.FromModel\(model\)\)"
    ):
        gl.MST(missing=model).fit(table, spend=table.ledger.left)
    assert len(table.ledger.entries) == paid
