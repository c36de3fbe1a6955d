"""Feature maps: short vectors of whole numbers, and no more features than public facts say."""

from itertools import product

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.workload import FEATURE_LENGTH
from gapless.synth.learning import MOST_BINS
from gapless.synth.marginal.factors import GROUP_SHARE
from gapless.synth.marginal.features import feature_map, most_features
from gapless.testing import fixed_noise
from gapless.testing.audit import private

STATES = {
    "may_be_missing": True,
    "missing": ("?", gl.MissingCode("-", "refused"), gl.MissingCode("n/a", "not-applicable")),
}
COLUMNS = [
    gl.Categorical("levels", ["a", "b", "c"], **STATES),
    gl.Categorical("two", ["a", "b"]),
    gl.Categorical("numbers", list(range(MOST_BINS)), **STATES),
    gl.Ordinal("grades", ["low", "middle", "high"]),
    gl.Integer("few", bounds=(0, 99), bins=3, **STATES),
    gl.Integer("most", bounds=(0, 99), bins=MOST_BINS),
    gl.Integer("many", bounds=(0, 99), bins=90, **STATES),
]


@pytest.mark.parametrize("column", COLUMNS, ids=lambda column: column.name)
def test_vectors_are_short_and_features_few(column):
    schema, rng = gl.Schema("t", [column]), np.random.default_rng(1)
    each_value = [None] if column.values_size <= MOST_BINS else []
    sizes = set()
    for groups, counted, even in product([1, 6, MOST_BINS, *each_value], (column.size, column.extended_size), (0, 1)):
        shares = np.full(counted, 1.0) if even else rng.random(counted) ** 8 + 1e-12
        found = feature_map(schema, 0, shares / shares.sum(), {}, groups=groups, group_share=GROUP_SHARE)
        assert found.vectors.dtype == np.int64
        assert ((found.vectors**2).sum(axis=1) <= FEATURE_LENGTH**2).all()
        sizes.add(found.size)
    assert max(sizes) <= most_features(column, MOST_BINS)
    if column.values_size <= MOST_BINS or column.name == "many":  # each bound is reached
        assert max(sizes) == most_features(column, min(MOST_BINS, column.values_size))


def test_two_learned_bins_have_features_of_ranks(tmp_path):
    """Noise leaves two bins of each number. The ranks of values inside them are measured all the same."""
    rng = np.random.default_rng(0)
    x = rng.normal(50, 15, 300).clip(0, 99).round().astype(int)
    y = (x + rng.normal(0, 8, 300)).clip(0, 99).round().astype(int)
    numbers = gl.Integer("x", bounds=(0, 99), bins="learned"), gl.Integer("y", bounds=(0, 99), bins="learned", **STATES)
    frame = pl.DataFrame({"x": x, "y": y}).cast(pl.String)
    table = private(frame, gl.Schema("t", numbers), tmp_path, budget=gl.Budget(1.0, 1e-6))
    with fixed_noise(1):
        model = gl.Factors().fit(table, spend=table.ledger.left)
    assert [column.values_size for column in model.schema.columns] == [2, 2]
    for column, found in zip(numbers, model.measurements.features, strict=True):
        states = column.extended_size - column.values_size
        assert found.size == 2 + 2 + states <= most_features(column, MOST_BINS)
        assert ((found.vectors**2).sum(axis=1) <= FEATURE_LENGTH**2).all()
        assert len(np.unique(found.vectors[:50], axis=0)) > 10  # values of one bin differ
    model.save(tmp_path / "two.model")
    again = gl.load(tmp_path / "two.model")
    assert again.sample(50, seed=1).to_polars().equals(model.sample(50, seed=1).to_polars())


def test_two_declared_bins_have_a_feature_each():
    """Where values are inside them is not known, so there are no ranks."""
    column = gl.Integer("x", bounds=(0, 99), bins=2)
    shares = np.array([0.4, 0.6])
    declared = feature_map(gl.Schema("t", [column]), 0, shares, {}, groups=6, group_share=GROUP_SHARE)
    assert (declared.size, declared.groups) == (2, None)
    heaped = {"x": np.ones(100)}  # counts of heaps are no reason
    declared = feature_map(gl.Schema("t", [column]), 0, shares, heaped, groups=6, group_share=GROUP_SHARE)
    assert declared.size == most_features(column, MOST_BINS) == 2
    schema = gl.Schema("t", [column])
    learned = feature_map(schema, 0, shares, heaped, groups=6, group_share=GROUP_SHARE, is_learned=True)
    assert (learned.size, learned.groups.tolist()) == (4, [0, 1])
    assert (
        feature_map(
            gl.Schema("t", [gl.Integer("x", bounds=(0, 1), bins=2)]),
            0,
            shares,
            {},
            groups=6,
            group_share=GROUP_SHARE,
            is_learned=True,
        ).size
        == 2
    )
