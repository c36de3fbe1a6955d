"""The metrics on small cases counted by hand, and what must not change them."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless import evaluate as ev
from gapless.schema import Boolean, Categorical, Integer, MissingCode, Ordinal, Schema
from gapless.testing.audit import letters_schema
from helpers.mixed_tables import MIXED, mixed, table


def repeated(table, times):
    return gl.Table(table.schema, [np.repeat(codes, times) for codes in table.codes], rows=int(np.sum(times)))


TIMES = np.random.default_rng(5).integers(0, 4, 150)


METRICS = {
    "kway 1": lambda a, b, **w: ev.kway_distance(a, b, k=1, **w),
    "kway 3": lambda a, b, **w: ev.kway_distance(a, b, k=3, **w),
    "wasserstein": ev.wasserstein_distance,
    "pairs": lambda a, b, **w: [x for p in ev.compare_pairs(a, b, **w) for x in (p.distance, p.other or 0)],
    "subgroups": lambda a, b, **w: [s.error for s in ev.compare_subgroups(a, b, **w)],
    "gaps": lambda a, b, **w: [*ev.compare_gaps(a, b, **w).other.values(), ev.compare_gaps(a, b, **w).pattern_distance],
    "coefficients": lambda a, b, **w: ev.coefficient_error(a, b, label="age", **w),
}


DISTANCES = {
    **METRICS,
    "pairs": lambda a, b: [x for p in ev.compare_pairs(a, b) for x in (p.distance, p.difference or 0)],
    "gaps": lambda a, b: [ev.compare_gaps(a, b).rate_error, ev.compare_gaps(a, b).pattern_distance],
}


@pytest.mark.parametrize("name", METRICS)
def test_a_weight_counts_like_the_row_written_again(name):
    truth, other = mixed(200, 0), mixed(150, 1)
    weighted = METRICS[name](truth, other, weights=TIMES * 0.7)
    assert weighted == pytest.approx(METRICS[name](truth, repeated(other, TIMES)), rel=1e-9, abs=1e-12)
    assert weighted != pytest.approx(METRICS[name](truth, other))


@pytest.mark.parametrize("name", DISTANCES)
def test_equal_tables_have_distance_zero_and_others_do_not(name):
    truth = mixed(200, 0)
    assert np.max(np.abs(DISTANCES[name](truth, truth))) < 1e-12
    assert np.max(DISTANCES[name](truth, mixed(200, 1))) > 1e-6


@pytest.mark.parametrize("name", ["kway 1", "kway 3", "wasserstein", "pairs", "subgroups", "gaps"])
@pytest.mark.parametrize("rows", [(0, 0), (0, 20), (20, 0), (1, 20)])
def test_tiny_tables_crash_nothing(name, rows):
    result = np.atleast_1d(METRICS[name](mixed(rows[0], 0), mixed(rows[1], 1)))
    assert np.isfinite(result).all()


def test_all_cells_missing_crash_nothing():
    gone = table(MIXED, [np.full(30, c.extended_size - 1) for c in MIXED.columns])
    for name, metric in DISTANCES.items():
        if name != "coefficients":
            assert np.isfinite(np.atleast_1d(metric(mixed(30, 0), gone))).all()
    assert ev.coefficient_error(mixed(30, 0), gone, label="age") is None
    assert ev.kway_distance(gone, gone, k=1) == 0


def test_sets_with_very_many_cells_are_compared_as_well():
    wide = Schema("wide", [Categorical(f"x{i}", [str(j) for j in range(3000)]) for i in range(4)])
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 3000, 50) for _ in range(4)]
    truth, other = table(wide, rows), table(wide, [codes[:25] for codes in rows])
    assert ev.kway_distance(truth, other, k=4) == pytest.approx(0.5)
    assert ev.kway_distance(truth, other, k=4, weights=np.ones(25)) == pytest.approx(0.5)


def test_wasserstein_of_a_column_is_the_area_between_the_distribution_functions():
    ages = Integer("age", bounds=(0, 99), bins=5)  # middles 9.5, 29.5 … of 99
    truth, other = np.array([1.0, 0, 0, 0, 0]), np.array([0, 0.5, 0, 0, 0.5])
    assert ev.column_wasserstein(ages, truth, other) == pytest.approx((0.5 * 20 + 0.5 * 80) / 99)
    towns = MIXED["town"]
    assert ev.column_wasserstein(towns, np.array([1.0, 0, 0, 0]), np.array([0, 0.5, 0.5, 0])) == 1
    some = Ordinal("x", ["a", "b", "c"], missing=[MissingCode("-", "not-applicable")])
    assert ev.column_wasserstein(some, np.array([1.0, 0, 0, 0]), np.array([0, 0, 0.5, 0.5])) == 0.5 + 0.5
    assert ev.column_wasserstein(some, np.array([0, 0, 0, 1.0]), np.array([1.0, 0, 0, 0])) == 1
    assert ev.column_wasserstein(some, None, np.array([1.0, 0, 0, 0])) == 1


def test_sliced_wasserstein_of_one_column_is_its_wasserstein():
    line = Schema("line", [Ordinal("x", ["a", "b", "c"])])
    truth, other = table(line, [[0, 0, 2]]), table(line, [[1, 1, 2, 2]])
    assert ev.wasserstein_distance(truth, other) == pytest.approx(0.5 * (2 / 3) + 0.5 * (2 / 3 - 0.5))


def test_gaps_against_fills_are_not_what_the_distance_of_rows_sees():
    truth, filled = mixed(2000, 0), mixed(2000, 1, gaps=False)
    complete = np.all([codes < c.size for codes, c in zip(truth.codes, MIXED.columns, strict=True)], axis=0)
    kept = table(MIXED, [codes[complete] for codes in truth.codes])
    assert ev.wasserstein_distance(truth, filled) == ev.wasserstein_distance(kept, filled)
    assert ev.wasserstein_distance(truth, filled) == pytest.approx(ev.wasserstein_distance(filled, truth))
    assert ev.wasserstein_distance(truth, filled) < 2 * ev.wasserstein_distance(truth, mixed(2000, 1))
    assert ev.wasserstein_distance(truth, filled, weights=np.arange(2000) % 2) > 0
    gone = table(MIXED, [np.full(30, c.extended_size - 1) for c in MIXED.columns])
    assert ev.wasserstein_distance(gone, filled) == 1


def test_associations_by_hand():
    pair = (MIXED["town"], MIXED["grade"])
    assert ev.association(np.full((4, 3), 1 / 12), pair) == pytest.approx(0)
    assert ev.association(np.diag([0.2, 0.3, 0.5]), pair) == pytest.approx(1)
    assert ev.association(np.array([[0.4, 0.1], [0.1, 0.4]]), (MIXED["smoker"], MIXED["smoker"])) == pytest.approx(0.6)
    assert ev.association(np.array([[0.4, 0.1], [0.1, 0.4]]), pair) == pytest.approx(0.6)
    assert ev.association(np.array([[1.0, 0.0]]), pair) is None
    from scipy.stats import spearmanr

    truth = mixed(300, 3, gaps=False)
    found = {p.columns: p for p in ev.compare_pairs(truth, truth)}
    ranked = spearmanr(truth.codes[0], truth.codes[2]).statistic
    assert found["age", "grade"].truth == pytest.approx(ranked)
    assert found["age", "grade"].measure == "Spearman's ρ"
    assert found["age", "only"].truth is None
    assert found["age", "only"].difference is None


def test_not_applicable_is_a_level_for_cramers_v():
    """Cigarettes apply to smokers only: a rank among the others would see nothing."""
    schema = Schema(
        "smoke",
        [Boolean("smoker"), Ordinal("many", ["few", "more"], missing=[MissingCode("-", "not-applicable")])],
    )
    truth = table(schema, [[0] * 80 + [1] * 20, [2] * 80 + [0, 1] * 10])
    (pair,) = ev.compare_pairs(truth, truth)
    assert pair.measure == "Cramér's V"
    assert pair.truth == pytest.approx(1)


def test_an_association_that_is_undefined_is_not_zero():
    schema = Schema("two", [Boolean("x"), Boolean("y")])
    truth, flat = table(schema, [[0, 1, 1, 0], [0, 1, 1, 0]]), table(schema, [[0, 1], [1, 1]])
    (pair,) = ev.compare_pairs(truth, flat)
    assert (pair.truth, pair.other, pair.difference) == (1, None, None)


def test_subgroups_by_hand():
    schema = letters_schema((2, 2))
    truth = table(schema, [[0, 0, 1, 1], [0, 0, 1, 1]])
    other = table(schema, [[0, 0, 0, 0], [0, 1, 1, 1]])
    found = {(subgroup.column, subgroup.cell): subgroup for subgroup in ev.compare_subgroups(truth, other)}
    assert found["x0", "a"].error == pytest.approx(0.75)
    assert (found["x0", "a"].truth, found["x0", "a"].other, found["x0", "a"].rows) == (0.5, 1.0, 2)
    assert found["x0", "b"].error == 1  # nobody there
    assert found["x1", "b"].error == 1
    errors = [subgroup.error for subgroup in ev.compare_subgroups(truth, other)]
    assert errors == sorted(errors, reverse=True)
    assert {subgroup.column for subgroup in ev.compare_subgroups(truth, other, columns=["x1"])} == {"x1"}


def test_wrong_arguments_are_refused(tmp_path):
    a, b = mixed(20, 0), mixed(20, 1)
    with pytest.raises(gl.errors.SchemaError, match="19 weights for 20 rows"):
        ev.kway_distance(a, b, weights=np.ones(19))
    for bad in (np.full(20, np.nan), np.full(20, -1.0), np.zeros(20)):
        with pytest.raises(gl.errors.SchemaError, match="finite, not negative and not all zero"):
            ev.wasserstein_distance(a, b, weights=bad)
    with pytest.raises(gl.errors.SchemaError, match="most_sets = 0"):
        ev.kway_distance(a, b, most_sets=0)
    with pytest.raises(gl.errors.SchemaError, match="different schemas"):
        ev.compare_pairs(a, table(letters_schema((2,)), [[0]]))
    sealed = gl.read(
        pl.DataFrame({"x0": ["a"]}),
        letters_schema((2,)),
        protect=gl.Rows(1),
        ledger=tmp_path / "x.ledger",
        budget=gl.Budget(1.0, 0),
    )
    for metric in (ev.kway_distance, ev.compare_pairs, ev.compare_subgroups, ev.compare_gaps, ev.wasserstein_distance):
        with pytest.raises(gl.errors.SealedError, match="a public Table, not a PrivateTable"):
            metric(sealed, a)
        with pytest.raises(
            gl.errors.ReadError, match=r"a public Table, not a DataFrame\n  Try: use gapless.Table.read\("
        ):
            metric(pl.DataFrame({"x0": ["a"]}), a)
    for slip in ({"k": 1.5}, {"k": 0}, {"k": 6}, {"most_sets": 2.5}):
        with pytest.raises(gl.errors.SchemaError, match=r"k = |most_sets = "):
            ev.kway_distance(a, b, **slip)
    with pytest.raises(gl.errors.SchemaError, match="weights must be numbers"):
        gl.compare(a, b, weights="a")
    pytest.importorskip("sklearn")
    assert ev.f1_scores(a, b, labels=[]) == {}
    with pytest.raises(
        gl.errors.SchemaError,
        match=r"labels must be a list of column names, got 'grade'\n  Try: pass labels=\[.grade.\]",
    ):
        ev.f1_scores(a, b, labels="grade")
    with pytest.raises(gl.errors.SchemaError, match="positive names every cell of the label 'grade'"):
        ev.f1_scores(a, b, labels=["grade"], positive={"grade": ["low", "middle", "high"]})
    with pytest.raises(gl.errors.SchemaError, match="positive names no cell of the label 'grade'"):
        ev.f1_scores(a, b, labels=["grade"], positive={"grade": []})
    with pytest.raises(gl.errors.SchemaError, match="positive names cells of column 'town', which is not in labels"):
        ev.f1_scores(a, b, labels=["grade"], positive={"town": ["a"]})
    assert ev.positive_cells(a, "grade", "high").tolist() == [False, False, True]
    with pytest.raises(gl.errors.SchemaError, match="nothing can be learned"):
        ev.f1_scores(mixed(0, 0), b)
    with pytest.raises(gl.errors.SchemaError, match="no column 'agee'"):
        ev.f1_scores(a, b, positive={"agee": [1]})


def random_table(rows, seed, sizes=(2, 3, 2, 4)):
    rng = np.random.default_rng(seed)
    schema = letters_schema(sizes)
    return gl.Table(schema, [rng.integers(0, c.extended_size, rows) for c in schema.columns], rows=rows)


def by_hand(a, b, k):
    distances = []
    for places in combinations(range(4), k):
        shares = []
        for part in (a, b):
            cells = {}
            for row in zip(*(part.codes[p].tolist() for p in places), strict=True):
                if all(code < part.schema.columns[p].size for code, p in zip(row, places, strict=True)):
                    cells[row] = cells.get(row, 0) + 1
            shares.append({cell: n / sum(cells.values()) for cell, n in cells.items()})
        distances.append(sum(abs(shares[0].get(c, 0) - shares[1].get(c, 0)) for c in {*shares[0], *shares[1]}) / 2)
    return sum(distances) / len(distances)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_distance_is_what_counting_by_hand_gives(k):
    a, b = random_table(200, 0), random_table(150, 1)
    assert gl.evaluate.kway_distance(a, b, k=k) == pytest.approx(by_hand(a, b, k))
    assert gl.evaluate.kway_distance(a, a, k=k) == 0


def test_a_sample_of_sets_is_fixed():
    a, b = random_table(200, 0), random_table(150, 1)
    assert gl.evaluate.kway_distance(a, b, most_sets=3) == gl.evaluate.kway_distance(a, b, most_sets=3)


def test_an_empty_table_is_as_far_as_can_be():
    assert gl.evaluate.kway_distance(random_table(20, 0), random_table(0, 0)) == 1


def test_wrong_tables_and_sets_are_refused():
    with pytest.raises(gl.errors.SchemaError, match="different schemas"):
        gl.evaluate.kway_distance(random_table(5, 0), random_table(5, 0, (2, 3, 2, 5)))
    with pytest.raises(gl.errors.SchemaError, match="k = 5"):
        gl.evaluate.kway_distance(random_table(5, 0), random_table(5, 0), k=5)
