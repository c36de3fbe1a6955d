"""Feature maps: short vectors of whole numbers, and no more features than public facts say."""

from itertools import product

import numpy as np
import pytest

import gapless as gl
from gapless.data.workload import FEATURE_LENGTH
from gapless.synth.learning import MOST_BINS
from gapless.synth.marginal.factors import GROUP_SHARE
from gapless.synth.marginal.features import feature_map, most_features

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
