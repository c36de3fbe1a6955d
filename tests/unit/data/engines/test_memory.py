"""What needs all rows at hand is refused on an engine that does not hold them: by a public fact, before a charge."""

import numpy as np
import pytest

import gapless as gl
from gapless.data.engines.memory import Engine, Memory, RowAccess
from gapless.data.neighbors import Matching
from gapless.data.sums import neighbour_sum
from gapless.query import ask_all
from gapless.synth import METHODS
from gapless.synth.sequential.autoregressive import ColumnConditional
from gapless.testing.audit import letters_schema, private
from helpers.chunked_engine import ChunkedEngine, chunked

SCHEMA = letters_schema([2, 3, 2])
ROWS = [("a", "b", "a"), ("b", None, "?"), (None, "-", "b"), ("a", "n/a", "b"), ("b", "c", None)] * 4


@pytest.fixture
def far(tmp_path):
    return chunked(private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1e3, 1e-6)), 3)


class Broken(ChunkedEngine):
    """Fails when a row is read."""

    def count(self, *_):
        raise AssertionError("rows were read")

    select = recode = keep = poisson_sample = batches = count


REFUSED = {
    "fill": lambda table: table.fill([np.ones(c.size) for c in table.schema.columns]),
    "fill a column": lambda table: table.fill_column("x0", ColumnConditional((), 2, 2, 1, np.zeros(2)), given=[]),
    "kamino column by column": lambda table: gl.Kamino(architecture="columns", missing=gl.Observed()).fit(
        table, spend=table.ledger.left
    ),
    "neighbours": lambda table: neighbour_sum(
        table, lambda rows: rows["x0"], targets=["x0"], matching=Matching(on=("x1",)), low=0, high=1
    ),
    **{
        f"{question} by Knn": lambda table, question=question: table.ask(question, spend=table.ledger.share("50%"))
        for question in (
            gl.Count(where="x0 == a", missing=gl.Knn(on=["x1"])),
            gl.Proportion("x0 == a", missing=gl.Knn(on=["x1"])),
            gl.Proportion("x0 == a", by="x2", missing=gl.Knn(on=["x1"])),
        )
    },
    "several questions, the last by Knn": lambda table: ask_all(
        table, [gl.Count(), gl.Proportion("x0 == a", missing=gl.Knn(on=["x1"]))], spend=table.ledger.left
    ),
    **{
        f"{method} after {imputer}": lambda table, method=method, imputer=imputer: METHODS[method](
            missing=gl.ImputeFirst(imputer)
        ).fit(table, spend=table.ledger.left)
        for method in METHODS
        for imputer in (
            gl.missing.FromDomain(),
            gl.missing.FromDistribution(),
            gl.missing.FromMean(),
            gl.missing.FromModel(gl.Independent()),
        )
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_refuses_operations_on_all_rows_before_charging_or_reading(name, far):
    far = chunked(far, 3, Broken)
    with pytest.raises(
        gl.errors.EngineError,
        match=r'needs all rows in memory, but the engine broken does not hold them\n  Try: read .* engine="memory"',
    ):
        REFUSED[name](far)
    assert not far.ledger.entries


def test_a_table_made_by_public_maps_stays_where_it_is(far):
    for table in (far.select(["x0", "x1"]), far.where("x0", ["a"]), far.complete_rows()):
        with pytest.raises(gl.errors.EngineError):
            table.fill([np.ones(c.size) for c in table.schema.columns])


def test_a_capability_is_a_fact_about_a_class():
    assert issubclass(Memory, RowAccess)
    assert not issubclass(ChunkedEngine, RowAccess)
    engine: Engine = ChunkedEngine(())
    assert not isinstance(engine, RowAccess)
