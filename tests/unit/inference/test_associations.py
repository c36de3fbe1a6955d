"""Errors by noise, from released values: what is certain, what noise hides, and what is not known."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.inference.associations import CRAMER, SPEARMAN, cell_noise, pair_precision, table_association
from gapless.inference.precision import column_precision
from gapless.schema import Categorical, Integer, Ordinal, Schema
from gapless.testing import fixed_noise
from gapless.testing.audit import private

SCHEMA = Schema(
    "t",
    [
        Ordinal("x", list("abcd")),
        Ordinal("y", list("abcd")),
        Categorical("k", list("pqr")),
        Integer("n", bounds=(0, 7)),
    ],
)


def rows(many, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, 4, many)
    y = np.where(rng.random(many) < 0.6, x, rng.integers(0, 4, many))
    k = np.where(rng.random(many) < 0.5, x % 3, rng.integers(0, 3, many))
    letters = np.array(list("abcd")), np.array(list("pqr"))
    columns = {"x": letters[0][x], "y": letters[0][y], "k": letters[1][k], "n": rng.integers(0, 8, many).astype(str)}
    return pl.DataFrame(columns)


@pytest.fixture(scope="module", params=["mixture", "factors", "aim"])
def model(request, tmp_path_factory):
    table = private(rows(20_000), SCHEMA, tmp_path_factory.mktemp("precision"), budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        return gl.synth.METHODS[request.param]().fit(table, spend=table.ledger.left)


def test_relations_are_found_by_every_kind_of_measurement(model):
    truth = gl.Table.read(rows(20_000), SCHEMA)
    found = {pair.columns: pair for pair in pair_precision(model)}
    for pair, precision in found.items():
        names = [SCHEMA.names[c] for c in pair]
        joint = truth.marginal(names) / truth.rows
        exact = gl.evaluate.association(joint, tuple(SCHEMA[name] for name in names))
        assert abs(precision.value - exact) < 4 * precision.half + 0.02
        assert precision.measure == (CRAMER if 2 in pair else SPEARMAN)
        assert precision.low <= precision.value <= precision.high
        low, high = precision.at_once
        assert low <= precision.low < precision.high <= high
        assert precision.is_known
    assert found[0, 1].is_certain
    assert found[0, 1].least > 0.4
    if (0, 3) in found:
        assert abs(found[0, 3].value) < 0.12


def test_means_of_released_counts_are_near_the_truth(model):
    *_, numbers = column_precision(model)
    value, low, high = numbers.mean_interval()
    assert low < value < high
    assert abs(value - 3.5) < 0.15
    std = (high - low) / 2 / 1.959964 / np.sqrt(5.25)  # noise and sampling, in standard deviations
    assert std == pytest.approx(np.hypot(numbers.mean_std, 20_000**-0.5), rel=0.1)
    shares = numbers.share_intervals()
    assert all(low < 1 / 8 + 0.02 and high > 1 / 8 - 0.02 for _, low, high in shares)


def test_more_noise_makes_wider_intervals_and_several_rows_of_a_person_too(model):
    guarantee = replace(model.facts.guarantee, protect=gl.Rows(100))
    fewer = pair_precision(replace(model, facts=replace(model.facts, guarantee=guarantee)))
    half = {pair.columns: pair.half for pair in pair_precision(model)}
    assert all(pair.half > half[pair.columns] for pair in fewer if pair.columns == (0, 1))
    assert any(pair.columns == (0, 1) for pair in fewer)
    counts = np.full((4, 4), 10.0) + 200 * np.eye(4)
    both = SCHEMA["x"], SCHEMA["y"]
    measure, value, half = table_association(both, counts, 1.0)
    assert (measure, round(value, 1)) == (SPEARMAN, 0.8)
    assert half < table_association(both, counts, 20.0)[2]
    assert table_association((SCHEMA["x"], SCHEMA["k"]), counts[:, :3], 1.0)[0] == CRAMER


def test_noise_alone_is_no_relation():
    rng = np.random.default_rng(0)
    counts = 10 + rng.normal(0, 50.0, (4, 3))
    _, value, half = table_association((SCHEMA["x"], SCHEMA["k"]), counts, 50.0)
    assert value - half <= 0


def test_a_method_without_measurements_has_no_pairs(model):
    silent = replace(model, measurements=None)
    assert pair_precision(silent) == []
    assert len(column_precision(silent)) == len(SCHEMA.columns)


def test_noise_of_a_joint_cell_is_that_of_all_tables_that_hold_it(model):
    known = model.measurements
    assert cell_noise(model, frozenset({0, 1, 2, 3})) == np.inf
    for pair in ({0, 1}, {0, 2}, {0, 3}):
        tables = [table for table in known.tables if pair <= set(table.columns)]
        cells = np.prod([SCHEMA.columns[c].size for c in pair])
        precision = sum(cells / table.counts.size / table.noise_std**2 for table in tables)
        found = cell_noise(model, frozenset(pair))
        if tables:
            assert found == pytest.approx(precision**-0.5)
        else:
            (product,) = [p for p in known.products if set(p.columns) == pair]
            assert product.noise_std < found < 6 * product.noise_std


def test_noise_in_the_shares_widens_strong_rank_correlations_only(model):
    """Scores have variance 1 by the noisy shares. In truth it is another, which scales a correlation."""
    known = model.measurements
    if not known.products:
        pytest.skip("a table of cells has its own margins")
    found = {pair.columns: pair for pair in pair_precision(model)}
    loud = replace(known, tables=tuple(replace(table, noise_std=40 * table.noise_std) for table in known.tables))
    wider = {pair.columns: pair for pair in pair_precision(replace(model, measurements=loud))}
    assert wider[0, 1].half > 1.1 * found[0, 1].half  # a strong relation
    assert wider[0, 3].half < 1.05 * found[0, 3].half  # none


def test_a_table_without_rows_and_without_noise_shows_no_association():
    counts = np.zeros((3, 3))
    _, value, half = table_association((SCHEMA["k"], SCHEMA["k"]), counts, 0.0)
    assert value == 0.0
    assert half >= 0.0


def test_the_noise_in_a_rank_correlation_is_that_of_tables_released_again(model):
    """Of 300 releases of the same counts with noise of the same size again."""
    rng, wanted, loud = np.random.default_rng(2), frozenset({0, 3}), {}  # unrelated columns
    for name in ("tables", "products"):
        parts = getattr(model.measurements, name)
        loud[name] = tuple(replace(part, noise_std=30 * part.noise_std) for part in parts)
    known = replace(model.measurements, **loud)
    if (first := pair_precision(replace(model, measurements=known), only=wanted)) == []:
        pytest.skip("this pair was not measured")
    again = [pair_precision(replace(model, measurements=known.resampled(rng)), only=wanted)[0] for _ in range(300)]
    noise = np.sqrt((first[0].half / 1.959964) ** 2 - first[0].sampling_std ** 2)
    assert np.std([pair.value for pair in again]) == pytest.approx(noise, rel=0.25)
