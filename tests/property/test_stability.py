"""Every stable transformation, on random neighbouring tables: it moves by at most the distance it declares.

Tables have gaps of every kind, may be empty or have one row; the neighbour has up to k more rows.
"""

import itertools
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.data.engines.memory import Memory
from gapless.data.row_contribution import Groups, RowContribution
from gapless.data.sums import rank_scores
from gapless.data.workload import FEATURE_LENGTH, Views, planned_products
from gapless.errors import SchemaError
from gapless.privacy import L1, LinfByGroup, Rows
from gapless.testing.audit import letters_schema, private
from helpers.examples import examples
from helpers.open_sealed import reveal

SIZES = (2, 3, 2)
SCHEMA = letters_schema(SIZES)
CELLS = [[*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)]

row = st.tuples(*(st.sampled_from(cells) for cells in CELLS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=6), st.lists(row, min_size=1, max_size=k))
)
marginals = st.lists(
    st.permutations(SCHEMA.names).flatmap(lambda names: st.sampled_from([names[:n] for n in range(4)]))
)

TRANSFORMATIONS = {
    "itself": lambda table: table,
    "select": lambda table: table.select(["x2", "x1"]),
    "where": lambda table: table.where("x1", ["a", "not applicable"]),
    "complete rows": lambda table: table.complete_rows(),
    "clamp": lambda table: table.clamp("x1", lowest="a", highest="b"),
    "clamp then where": lambda table: table.clamp("x1", lowest="b", highest="c").where("x0", ["b"]),
    "where then select": lambda table: table.where("x0", ["a"]).select(["x1"]),
}


def sealed_pair(k, rows, more):
    folder = Path(tempfile.mkdtemp())
    return [private(r, SCHEMA, folder, protect=Rows(k)) for r in (rows, rows + more)]


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("which", ["observed", "extended"])
@examples(30)
@given(pair=neighbours)
def test_every_marginal_of_every_transformation_keeps_its_distance(name, which, pair):
    k, rows, more = pair
    less, greater = (TRANSFORMATIONS[name](table) for table in sealed_pair(k, rows, more))
    names = less.schema.names
    sets = [s for n in range(len(names) + 1) for s in itertools.combinations(names, n)]
    for a, b in zip(less.marginals(sets, rows=which), greater.marginals(sets, rows=which), strict=True):
        assert a.distance == b.distance == L1(k)
        moved = np.abs(reveal(a, less.ledger) - reveal(b, greater.ledger)).sum()
        assert moved <= a.distance.at_most


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@examples(30)
@given(pair=neighbours)
def test_every_transformation_is_stable_in_rows(name, pair):
    """The rows of the neighbour are the same rows and at most k more."""
    k, rows, more = pair
    less, greater = (TRANSFORMATIONS[name](table) for table in sealed_pair(k, rows, more))
    a, b = (sorted(zip(*reveal(t._rows, t.ledger).columns, strict=True)) for t in (less, greater))
    assert 0 <= len(b) - len(a) <= k
    for changed in a:
        b.remove(changed)


@examples(40)
@given(pair=neighbours, begin=st.integers(0, 3), chosen=st.sets(st.integers(0, 7)))
def test_patterns_of_gaps_keep_their_distance_and_are_those_of_the_rows(pair, begin, chosen):
    k, rows, more = pair
    among = sorted({tuple(bool(number >> i & 1) for i in range(begin)) for number in chosen})
    tables = sealed_pair(k, rows, more)
    less, greater = (table.gap_patterns(SCHEMA.names, among=among) for table in tables)
    a, b = (reveal(value, table.ledger) for value, table in zip((less, greater), tables, strict=True))
    assert less.distance == L1(k)
    assert less.reads is None
    assert np.abs(a - b).sum() <= k
    counted = np.zeros_like(a)
    for entry in rows:
        gaps = tuple(cell in (None, "-") for cell in entry)
        if gaps[:begin] in among:
            counted[among.index(gaps[:begin]), int("".join(str(int(g)) for g in gaps[begin:]) or "0", 2)] += 1
    assert np.array_equal(a, counted)


LOOKED_AT = {
    "all": ("x1",),
    "of some": ("x1", "x2"),
    "by": ("x1", "x0"),
}


def counted(name):
    """What a question about the values of x1 counts: all rows, those with x2 == a, or groups by x0."""

    def value(rows):
        kept = rows["x2"] == 0 if name == "of some" else np.ones(len(rows["x1"]), dtype=np.bool_)
        return kept[:, None].astype(np.int64)

    by = (Groups("x0", np.arange(SCHEMA["x0"].extended_size), 2),) if name == "by" else ()
    return RowContribution(LOOKED_AT[name], value, 1, 1, by=by, needs=frozenset(LOOKED_AT[name]))


def scored(name, rows, quantile, shift):
    """The definition, row by row."""
    groups = ["ab".index(r[0]) if name == "by" and r[0] in ("a", "b") else 0 for r in rows]
    kept = [
        r[1] in ("a", "b", "c") and (name != "of some" or r[2] == "a") and (name != "by" or r[0] in ("a", "b"))
        for r in rows
    ]
    table = []
    for group in range(2 if name == "by" else 1):
        values = ["abc".index(r[1]) for r, g, k in zip(rows, groups, kept, strict=True) if k and g == group]
        rank = quantile * len(values) + shift
        scores = []
        for cell in range(3):
            before, up_to = sum(v < cell for v in values), sum(v <= cell for v in values)
            away = [0, *([before - rank] if cell > 0 else []), *([rank - up_to] if cell < 2 else [])]
            scores.append(-quantile.denominator * max(away))
        table.append(scores)
    return table


@pytest.mark.parametrize("name", LOOKED_AT)
@examples(40)
@given(pair=neighbours, quantile=st.fractions(Fraction(1, 100), Fraction(99, 100), max_denominator=100))
def test_scores_by_rank_keep_their_distance_and_are_those_of_the_definition(name, pair, quantile):
    k, rows, more = pair
    shifts = (-2, 0, 3)
    tables = sealed_pair(k, rows, more)
    pairs = [rank_scores(table, counted(name), "x1", quantile=quantile, shifts=shifts) for table in tables]
    for shift, less, greater in zip(shifts, *pairs, strict=True):
        assert less.distance == LinfByGroup(k * max(quantile.numerator, quantile.denominator - quantile.numerator))
        assert less.reads == set(LOOKED_AT[name])
        a, b = (reveal(value, table.ledger) for value, table in zip((less, greater), tables, strict=True))
        moved = np.abs(a - b).max(axis=1)
        seen = sum(all(r[SCHEMA.names.index(column)] not in (None, "-") for column in less.reads) for r in more)
        assert moved.sum() <= less.distance.at_most
        assert moved.sum() <= less.distance.at_most / k * seen  # what `reads` promises
        assert a.tolist() == scored(name, rows, quantile, shift)


@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(1, 10), Fraction(9, 10)])
def test_the_distance_of_scores_by_rank_is_attained(quantile):
    """By a row at one end or at the other, and by rows in several groups together."""
    rows = [("a", "a", "a"), ("a", "c", "a"), ("b", "a", "a"), ("b", "c", "a")] * 3
    most = 0.0
    for cells in (("a", "b"), ("c", "c"), ("a", "a")):
        more = [(group, cell, "a") for group, cell in zip("ab", cells, strict=True)]
        tables = sealed_pair(2, rows, more)
        values = [rank_scores(table, counted("by"), "x1", quantile=quantile, shifts=[0])[0] for table in tables]
        a, b = (reveal(value, table.ledger) for value, table in zip(values, tables, strict=True))
        most = max(most, np.abs(a - b).max(axis=1).sum() / values[0].distance.at_most)
    assert most == 1


def test_scores_by_rank_leave_out_rows_with_a_gap_in_a_needed_column():
    lying = replace(counted("all"), needs=frozenset({"x1", "x2"}))
    rows = [("a", "a", "a"), ("a", "c", None), ("a", "c", None), ("a", "b", "a")]
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    (value,) = rank_scores(table, lying, "x1", quantile=Fraction(1, 2), shifts=[0])
    assert value.reads == {"x1", "x2"}
    assert reveal(value, table.ledger).tolist() == scored("of some", rows, Fraction(1, 2), 0)


def test_scores_by_rank_are_of_rows_counted_once():
    table = private([], SCHEMA, Path(tempfile.mkdtemp()))
    for tally, quantile in (
        (counted("all").scaled(2), Fraction(1, 2)),
        (replace(counted("all"), components=2), Fraction(1, 2)),
        (replace(counted("all"), signed=True), Fraction(1, 2)),
        (counted("all"), Fraction(1, 2**30)),
    ):
        with pytest.raises(SchemaError, match=r"ranks are of rows|a quantile must be a fraction"):
            rank_scores(table, tally, "x1", quantile=quantile, shifts=[0])


@examples(30)
@given(rows=st.lists(row, max_size=8))
def test_filling_is_a_map_of_each_row_by_itself(rows):
    """Observed cells stay, gaps become observed cells, no row comes, goes or moves; then every row is read."""
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    filled = table.fill([np.arange(column.size, dtype=float) for column in SCHEMA.columns])
    before, after = (reveal(t._rows, t.ledger) for t in (table, filled))
    assert after.rows == before.rows == len(rows)
    for old, new, column in zip(before.columns, after.columns, SCHEMA.columns, strict=True):
        gaps = old >= column.size
        assert np.array_equal(old[~gaps], new[~gaps])
        assert (new < column.size).all()
        assert (new[gaps] > 0).all()  # the distribution gives the first cell no probability
    assert filled.marginal("x0").reads is None
    assert filled.complete_rows().marginal(["x0", "x1"]).reads is None
    assert filled.where("x0", ["a"]).marginal("x1").reads is None
    assert table.where("x0", ["a"]).fill([np.ones(c.size) for c in SCHEMA.columns]).marginal("x1").reads == {"x0"}


@examples(40)
@given(pair=neighbours)
def test_a_row_that_is_not_observed_on_what_a_marginal_reads_changes_nothing(pair):
    """What `reads` promises to ground-truth accounting."""
    k, rows, more = pair
    less, greater = (table.where("x0", ["a", "b"]) for table in sealed_pair(k, rows, more))
    for columns, which in [(("x1",), "observed"), (("x1", "x2"), "observed"), (("x1",), "extended"), ((), "observed")]:
        a, b = less.marginal(columns, rows=which), greater.marginal(columns, rows=which)
        observed = [all(row[SCHEMA.names.index(name)] not in (None, "-") for name in a.reads or ()) for row in more]
        moved = np.abs(reveal(a, less.ledger) - reveal(b, greater.ledger)).sum()
        assert moved <= sum(observed)


def products(table, which, seed):
    """Products of random features of full length for all pairs of columns, with what a plan says about them."""
    names, rng = table.schema.names, np.random.default_rng(seed)
    views = Views(table, [(c, np.arange(x.extended_size)) for c, x in enumerate(table.schema.columns)], rows=which)
    vectors = [rng.normal(size=(size, rng.integers(1, 4))) for size in views.sizes]
    whole = [np.trunc(FEATURE_LENGTH * v / np.linalg.norm(v, axis=1, keepdims=True)).astype(np.int64) for v in vectors]
    pairs = list(itertools.combinations(range(len(names)), 2))
    planned = [planned_products(table, [names[a], names[b]], rows=which, numbers=10) for a, b in pairs]
    return list(zip(views.feature_products(pairs, whole, numbers=10), planned, strict=True))


@pytest.mark.parametrize("name", TRANSFORMATIONS)
@pytest.mark.parametrize("which", ["observed", "extended"])
@examples(30)
@given(pair=neighbours, seed=st.integers(0, 10**6))
def test_products_of_features_keep_their_distance_and_read_what_was_planned(name, which, pair, seed):
    """A row that is not observed on what is declared changes nothing; the squared change is compared exactly."""
    k, rows, more = pair
    less, greater = (TRANSFORMATIONS[name](table) for table in sealed_pair(k, rows, more))
    for (a, planned), (b, _) in zip(products(less, which, seed), products(greater, which, seed), strict=True):
        assert (a.distance, a.reads) == (b.distance, b.reads) == (planned.distance, planned.reads)
        change = (reveal(b, greater.ledger) - reveal(a, less.ledger)).tolist()
        assert len(change) <= a.distance.numbers
        square = sum(number**2 for number in change)
        assert square <= Fraction(a.distance.at_most) ** 2
        observed = [all(row[SCHEMA.names.index(name)] not in (None, "-") for name in a.reads or ()) for row in more]
        assert square <= (Fraction(a.distance.at_most) * sum(observed) / k) ** 2


@examples(30)
@given(rows=st.lists(row, max_size=12), wanted=marginals)
def test_marginals_counted_together_are_those_counted_alone(rows, wanted):
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    together = table.marginals(wanted, rows="extended")
    for marginal, columns in zip(together, wanted, strict=True):
        alone = np.zeros([SCHEMA[name].extended_size for name in columns], dtype=np.int64)
        for r in rows:
            alone[tuple(_code(name, r[SCHEMA.names.index(name)]) for name in columns)] += 1
        assert np.array_equal(reveal(marginal, table.ledger), alone)


def _code(name, cell):
    column = SCHEMA[name]
    kind = {None: "unknown", "-": "refused", "n/a": "not-applicable"}.get(cell)
    return ord(cell) - 97 if kind is None else column.code_of_gap(kind)


def test_the_test_itself_finds_a_transformation_that_is_not_stable():
    """Planted: keep every second row, which swaps the two halves when a row comes in front."""
    rows = [("a", "a", "a"), ("b", "b", "b")] * 3

    def every_second(some_rows):
        table = private(some_rows, SCHEMA, Path(tempfile.mkdtemp()))
        halved = table._derive(lambda t: Memory(tuple(codes[::2] for codes in t.columns), len(t.columns[0][::2])))
        return reveal(halved.marginal("x0"), halved.ledger)

    assert np.abs(every_second(rows) - every_second([("a", "a", "a"), *rows])).sum() > 1


# ------------------------------------------------------------------ observed cells only

NO_CELLS = [None, "", "?", "-", "missing", "unknown", "refused", "not-applicable", "n/a", "z"]


@pytest.mark.parametrize("cell", NO_CELLS)
def test_a_gap_is_no_cell_that_rows_can_be_chosen_by(cell):
    """Else rows with a gap would be kept, and `reads` would name the column all the same."""
    table = private([], SCHEMA, Path(tempfile.mkdtemp()))
    for column in SCHEMA.columns:
        with pytest.raises(SchemaError, match="has no cell"):
            column.code_of(cell)
        with pytest.raises(SchemaError, match="has no cell"):
            table.where(column.name, ["a", cell])
        with pytest.raises(SchemaError, match="has no cell"):
            table.clamp(column.name, lowest="a", highest=cell)


def test_every_observed_cell_has_its_code():
    for column in SCHEMA.columns:
        assert [column.code_of(cell) for cell in column.cells[: column.size]] == list(range(column.size))


@examples(30)
@given(rows=st.lists(row, max_size=8), chosen=st.sets(st.sampled_from(["a", "b", "c", "not applicable"])))
def test_where_keeps_the_rows_with_these_cells_and_no_other(rows, chosen):
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    kept = table.where("x1", chosen)
    found = sorted(zip(*reveal(kept._rows, table.ledger).columns, strict=True))
    cells = chosen - {"not applicable"} | ({"n/a"} if "not applicable" in chosen else set())
    wanted = [
        tuple(_code(name, cell) for name, cell in zip(SCHEMA.names, entry, strict=True))
        for entry in rows
        if entry[1] in cells
    ]
    assert found == sorted(wanted)
