"""Released tables: fresh noise, counts of other rows, and which columns were counted together."""

import numpy as np
import pytest

import gapless as gl
from gapless.model.marginal import Measurement
from gapless.schema import Integer, Schema
from gapless.synth.marginal.bayesian_network import JointStartNetwork, Node
from gapless.synth.measurements import Measurements
from gapless.testing.audit import private
from helpers.fitted_letters import SCHEMA, WHOLE, fitted


def test_resampled_tables_have_the_noise_twice(tmp_path):
    measurements = fitted("mst", tmp_path).measurements
    resampled = [measurements.resampled(np.random.default_rng(number)) for number in range(400)]
    for place, table in enumerate(measurements.tables):
        moves = np.array([other.tables[place].counts - table.counts for other in resampled])
        assert moves.std() == pytest.approx(table.noise_std, rel=0.15)
        assert abs(moves.mean()) < 6 * table.noise_std / np.sqrt(moves.size)


def test_counts_of_other_rows(tmp_path):
    for method in ("mst", "privbayes"):
        measurements = fitted(method, tmp_path).measurements
        codes = np.stack([np.full(50, 2), np.full(50, 1), np.full(50, 3)], axis=1)
        counted = measurements.measure_rows(codes, SCHEMA, np.random.default_rng(1))
        for table in counted.tables:
            assert abs(table.counts.sum() - 50) < 8 * table.noise_std * np.sqrt(table.counts.size)
            assert table.counts.max() > 50 - 8 * table.noise_std


def test_values_of_other_rows_are_counted_in_the_bins_of_their_rows(tmp_path):
    schema = Schema("line", [Integer("wage", bounds=(0, 199), bins="learned")])
    table = private([(wage,) for wage in range(200)] * 20, schema, tmp_path, budget=gl.Budget(50.0, 1e-6))
    model = gl.Independent().fit(table, spend=table.ledger.left)
    wage = model.schema["wage"]
    codes = np.full((5000, 1), wage.size - 1)
    *_, leaves = model.measurements.measure_rows(codes, model.schema, np.random.default_rng(1)).bin_hierarchy
    is_last_bin = wage.finest.regroup(wage)[:200] == wage.size - 1
    noise = leaves.noise_std * np.sqrt(200)
    assert abs(leaves.counts[is_last_bin].sum() - 5000) < 6 * noise
    assert abs(leaves.counts[~is_last_bin].sum()) < 6 * noise
    assert noise < 100


def test_merged_columns_are_not_taken_for_whole_ones(tmp_path):
    measurements = fitted("privbayes", tmp_path).measurements
    for columns in measurements.jointly_measured(SCHEMA):
        assert any(
            set(columns)
            <= {c for c, size in zip(t.columns, t.counts.shape, strict=True) if size == SCHEMA.columns[c].extended_size}
            for t in measurements.tables
        )


def network(cap_cells):
    """Released tables of a network in which the last column has two parents that no other table holds."""
    nodes = (Node(0), Node(1), Node(2, (0, 1), (np.arange(3), np.arange(2))))
    counts = [np.array([500.0, 300, 200]), np.array([600.0, 400]), np.full((3, 2, 4), 1000 / 24)]
    tables = [Measurement((*n.parents, n.column), c, 1.0) for n, c in zip(nodes, counts, strict=True)]
    return Measurements(kind="network", tables=tuple(tables), nodes=nodes, extended=True, cap_cells=cap_cells)


def test_a_table_that_rows_of_a_network_do_not_keep_supports_nothing():
    assert network(100).jointly_measured(WHOLE) == [frozenset({0, 1, 2})]
    assert sorted(map(sorted, network(4).jointly_measured(WHOLE))) == [[0], [1]]
    assert isinstance(network(100).learn(WHOLE, follow_noise=True).filled, JointStartNetwork)
