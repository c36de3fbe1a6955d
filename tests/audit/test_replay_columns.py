"""The replay of tests/audit/test_replay.py for columns with heaping, learned bins and differences.

Rules between rows give the factors one group of features for each value, but not for the many values of `stay`.
"""

from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.data import workload
from gapless.privacy import L1
from gapless.privacy.private import transform
from gapless.synth import METHODS, TREATMENTS, fitting
from gapless.synth.learning import MOST_BINS
from gapless.synth.marginal.features import most_features
from gapless.testing.audit import private
from helpers import replay

BUDGET = gl.Budget(20.0, 1e-6)
CODES = ("?", gl.MissingCode("-", "refused"), gl.MissingCode("n/a", "not-applicable"))
COLUMNS = (
    gl.Categorical("sex", ["F", "M"]),
    gl.Integer("hours", bounds=(0, 60), bins=3, heaping=(5, 10), may_be_missing=True, missing=CODES),
    gl.Integer("pay", bounds=(0, 99), bins="learned", heaping=(10,), may_be_missing=True, outside="missing"),
    gl.Integer("arrival", bounds=(0, 9), may_be_missing=True),
    gl.Integer("departure", bounds=(0, 30), may_be_missing=True, missing=CODES),
    gl.Integer("stay", bounds=(0, 40), bins=41, heaping=(7,), difference="departure - arrival"),
)
RULES = [gl.schema.Constraint(f"t1.sex == t2.sex and t1.{name} != t2.{name}") for name in ("hours", "stay")]
SCHEMA = gl.Schema("mixed", COLUMNS, constraints=RULES)
DECLARED = gl.Schema("declared", [column for column in COLUMNS if column.name != "pay"])

# Rows that come: complete, beyond all bounds, not applicable, and with each kind of gap.
COMING = [
    ("M", "40", "50", "2", "9"),
    ("M", "61", "100", "99", "-5"),
    ("F", "n/a", "x", "", "n/a"),
    ("M", "-", "", "3", ""),
    ("M", "?", "70", None, "12"),
    ("M", "35", "70", "4", "-"),
]
PERSON = [COMING[0], COMING[2], COMING[4]]


def people(many, seed=0):
    """Rows with heaps, and with all kinds of gaps."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(many):
        arrival = int(rng.integers(10))
        row = ["FM"[rng.integers(2)], str(5 * rng.integers(12)), str(rng.integers(100)), str(arrival)]
        row.append(str(arrival + 7 * int(rng.integers(3))))
        for place, gap in ((1, "?"), (1, "n/a"), (2, ""), (3, ""), (4, "-"), (4, "n/a")):
            if rng.random() < 0.08:
                row[place] = gap
        rows.append(tuple(row))
    return rows


ROWS = people(12)


def fit(method, treatment):
    return lambda table: METHODS[method](missing=TREATMENTS[treatment]()).fit(table, spend=table.ledger.left)


def cross_table(table):
    table.ask(gl.query.CrossTable("stay", "hours"), spend=table.ledger.left)


def cross_table_filled(table):
    deck = gl.HotDeck(on=["sex"], limit=2)
    table.ask(gl.query.CrossTable("stay", "hours", missing=deck), spend=table.ledger.left)


def violations(act, added, *, schema=SCHEMA, unit=None):
    places = [SCHEMA.file_names.index(name) for name in schema.file_names]
    rows, added = ([tuple(row[place] for place in places) for row in some] for some in (ROWS, added))
    return replay.violations(schema, act, rows, added, budget=BUDGET, unit=unit)


ACTS = {
    "independent, extended": fit("independent", "extended"),
    "independent, observed": fit("independent", "observed"),
    "factors, observed": fit("factors", "observed"),
    "cross table": cross_table,
    "filled cross table": cross_table_filled,
}


@pytest.mark.parametrize("name", ACTS)
def test_values_move_by_their_distances(name):
    assert not violations(ACTS[name], PERSON, unit=4)
    for row in COMING[:0] if name.startswith("factors") else COMING[1::2]:
        assert not violations(ACTS[name], [row]), row


def test_heaps_alone_move_by_their_distances():
    assert not violations(fit("independent", "observed"), PERSON, schema=DECLARED)


def test_rules_do_not_give_many_values_a_group_each(tmp_path):
    model = fit("factors", "observed")(private(ROWS, SCHEMA, tmp_path, budget=BUDGET))
    features = zip(model.measurements.features, model.schema.columns, strict=True)
    assert all(known.size <= most_features(column, MOST_BINS) for known, column in features)


def test_a_product_may_have_as_many_numbers_as_planned(tmp_path):
    """Levels have a feature each, and the number of rows is one number more."""
    levels = [gl.Categorical(name, ["w", "x", "y", "z"]) for name in ("first", "second")]
    table = private([("w", "x")] * 10, gl.Schema("levels", levels), tmp_path, budget=BUDGET)
    fit("factors", "observed")(table)
    assert table.ledger.entries[-1].distance["numbers"] == 4 * 4 + 1


def halved(at_most):
    return L1(at_most / 2)


def counted_twice(table, column, groupings, *, rows):
    return [
        transform(counts, lambda cells: 2 * cells, distance=counts.distance, reads=counts.reads, key=table._key)
        for counts in GROUPED(table, column, groupings, rows=rows)
    ]


def with_more_reads(table, column, groupings, *, rows):
    return [
        transform(counts, lambda cells: cells, distance=counts.distance, reads=READS, key=table._key)
        for counts in GROUPED(table, column, groupings, rows=rows)
    ]


GROUPED, READS = workload.grouped_counts, frozenset({"hours", "arrival"})
PLANTED = {
    "half a distance": (workload, "L1", halved, "round values: moved"),
    "a row counted twice": (fitting, "grouped_counts", counted_twice, "round values: moved"),
    "reads of another column": (fitting, "grouped_counts", with_more_reads, "round values: a row that is not"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_of_heaps_are_found(name):
    *planted, expected = PLANTED[name]
    with mock.patch.object(*planted):
        found = violations(fit("independent", "observed"), [("M", "40", "50", "", "9")], schema=DECLARED)
    assert any(expected in line for line in found), found
