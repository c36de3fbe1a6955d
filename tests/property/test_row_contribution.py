"""Sums over rows: every question moves by at most its declared distance, and conditions follow three-valued logic."""

import operator
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from gapless import HotDeck, Integer, MissingCode, Number, Ordinal, Rows, Schema
from gapless.constraints.grammar import parse_condition, required_columns
from gapless.data.row_contribution import Groups, RowContribution
from gapless.data.sums import hot_deck_sum, plain_sum
from gapless.errors import QuestionError
from gapless.privacy import L1
from gapless.query import parse_question
from gapless.query.condition import compile_condition
from gapless.testing.audit import private
from helpers.examples import examples
from helpers.open_sealed import reveal

SCHEMA = Schema(
    "people",
    [
        Integer("a", bounds=(0, 3), may_be_missing=True, missing=["", MissingCode("-1", "not-applicable")]),
        Number("b", bounds=(-10, 10), bins=4, may_be_missing=True),
        Ordinal("c", ["low", "high"], may_be_missing=True),
        Ordinal("d", ["x", "y"]),
    ],
)
CELLS = [["0", "1", "2", "3", "", "-1"], ["-9", "-1", "1", "9", ""], ["low", "high", ""], ["x", "y"]]
QUESTIONS = [
    "count()",
    "count() where a >= 1 or c == low",
    "count() where b is missing by c",
    "count() by a",
    "proportion(a == 1)",
    "proportion(a == 1 and b >= 0) where not c == high by d",
    "sum(a)",
    "sum(b) by c",
    "mean(a) where d == x",
    "mean(b, -5, 5) by a",
    "variance(b)",
    "table(a, c)",
    "count() where b >= 2.5 by b, d",  # within a bin of b
    "mean(b) where b < 2.5 and a != 2 by c",
    "variance(a, 0, 2) where c == high by d",
]
row = st.tuples(*map(st.sampled_from, CELLS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=6), st.lists(row, min_size=1, max_size=k))
)
TREATED = {
    "dropped": lambda table, asked: plain_sum(table, asked.contribution),
    "hot deck": lambda table, asked: hot_deck_sum(
        table,
        asked.contribution.scaled(-(-64 // asked.contribution.unit)),
        targets=asked.targets or ("a",),
        cells=["d"],
        limit=1,
    ),
    "hot deck of three": lambda table, asked: hot_deck_sum(
        table,
        asked.contribution.scaled(-(-64 // asked.contribution.unit)),
        targets=asked.targets or ("a",),
        cells=[],
        limit=3,
    ),
}


@pytest.mark.parametrize("treated", TREATED)
@pytest.mark.parametrize("text", QUESTIONS)
@examples(15)
@given(pair=neighbours)
def test_every_question_keeps_its_distance(text, treated, pair):
    k, rows, more = pair
    asked = parse_question(text).compile(SCHEMA)
    tables = [private(r, SCHEMA, Path(tempfile.mkdtemp()), protect=Rows(k)) for r in (rows, rows + more)]
    less, greater = (TREATED[treated](table.rebin(asked.schema), asked) for table in tables)
    assert less.distance == greater.distance
    moved = np.abs(reveal(less, tables[0].ledger) - reveal(greater, tables[1].ledger)).sum()
    assert moved <= less.distance.at_most
    if treated == "dropped":
        assert less.distance == L1(k * asked.contribution.unit)
        seen = [all(r[SCHEMA.names.index(name)] != "" for name in less.reads or ()) for r in more]
        assert moved <= sum(seen) * asked.contribution.unit  # what `reads` promises
    else:
        assert less.reads is None


@pytest.mark.parametrize("text", QUESTIONS)
def test_the_contribution_of_a_row_depends_on_that_row_only(text):
    asked = parse_question(text).compile(SCHEMA)
    sizes = [column.extended_size for column in asked.schema.columns]
    codes = dict(zip(SCHEMA.names, np.indices(sizes).reshape(len(sizes), -1), strict=True))
    groups, all_rows = asked.contribution.evaluate(codes)
    order = np.random.default_rng(0).permutation(len(all_rows))
    for chosen in (order, *(order[i : i + 1] for i in range(20))):
        group, added = asked.contribution.evaluate({name: c[chosen] for name, c in codes.items()})
        assert np.array_equal(group, groups[chosen])
        assert np.array_equal(added, all_rows[chosen])
    assert np.abs(all_rows).sum(axis=1).max() == asked.contribution.unit  # and the unit is attained
    assert asked.contribution.needs <= set(asked.contribution.columns)


def test_a_contribution_above_its_unit_adds_nothing():
    """The distance does not rest on the caller's arithmetic."""
    lying = RowContribution(("d",), lambda rows: np.full((len(rows["d"]), 2), 4), components=2, unit=7)
    assert not lying.total({"d": np.zeros(3, dtype=np.uint8)}).any()
    negative = RowContribution(("d",), lambda rows: np.full((len(rows["d"]), 1), -4), components=1, unit=7)
    assert not negative.total({"d": np.zeros(3, dtype=np.uint8)}).any()
    grouped = RowContribution(
        ("d",), lambda rows: np.ones((len(rows["d"]), 1)), components=1, unit=1, by=(Groups("d", np.arange(3), 2),)
    )
    assert grouped.total({"d": np.array([0, 1, 2, 1], dtype=np.uint8)}).tolist() == [1, 2]


def test_the_test_itself_finds_a_sum_that_looks_at_other_rows():
    """Planted: a row's number depends on how many rows there are."""
    nosy = RowContribution(("d",), lambda rows: np.full((len(rows["d"]), 1), len(rows["d"]) % 2), components=1, unit=1)
    tables = [private([("0", "1", "low", "x")] * n, SCHEMA, Path(tempfile.mkdtemp())) for n in (4, 5)]
    a, b = (reveal(plain_sum(table, nosy), table.ledger)[0] for table in tables)
    assert abs(a - b) > nosy.unit


# ---------------------------------------------------------------------- three-valued logic

SIGNS = {"==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
comparison = st.tuples(st.just("a"), st.sampled_from(list(SIGNS)), st.integers(0, 3)) | st.tuples(
    st.just("c"), st.sampled_from(list(SIGNS)), st.sampled_from(["low", "high"])
)
atom = comparison | st.tuples(st.sampled_from("ac"), st.just("is missing"), st.just(""))
conditions = st.recursive(
    atom,
    lambda clause: (
        st.tuples(st.just("not"), clause)
        | st.tuples(st.sampled_from(["and", "or"]), clause, clause)
        | st.tuples(st.sampled_from(["and", "or"]), clause, clause, clause)
    ),
    max_leaves=6,
)


def written(tree):
    if tree[0] == "not":
        return f"not ({written(tree[1])})"
    if tree[0] in ("and", "or"):
        return "(" + f" {tree[0]} ".join(map(written, tree[1:])) + ")"
    return " ".join(map(str, tree))


def truth(tree, cells):
    """Kleene's logic by its tables: None is unknown."""
    if tree[0] == "not":
        first = truth(tree[1], cells)
        return None if first is None else not first
    if tree[0] in ("and", "or"):
        parts = [truth(part, cells) for part in tree[1:]]
        decides = tree[0] == "or"
        return decides if decides in parts else None if None in parts else not decides
    column, sign, value = tree
    cell = cells[column]
    if sign == "is missing":
        return cell == ""
    if cell in ("", "-1"):
        return None
    order = ["low", "high"].index if column == "c" else int
    return SIGNS[sign](order(cell), order(value))


@examples(300)
@given(tree=conditions, a=st.sampled_from(CELLS[0]), c=st.sampled_from(CELLS[2]))
def test_conditions_follow_three_valued_logic(tree, a, c):
    condition = parse_condition(written(tree))
    codes = {"a": CELLS[0].index(a), "c": CELLS[2].index(c)}
    if a in ("", "-1"):
        codes["a"] = {"-1": 4, "": 5}[a]
    try:
        compiled = compile_condition(condition, SCHEMA)
    except QuestionError as error:
        if "is never between" not in str(error):
            raise
        reject()  # such as a >= 1 and a <= 0: refused, not answered
    found = compiled({name: np.array([code]) for name, code in codes.items()})[0]
    assert {1: True, 0: None, -1: False}[int(found)] == truth(tree, {"a": a, "c": c})
    for name, cell in (("a", a), ("c", c)):
        if cell == "" and name in required_columns(condition):
            assert found != 1
        if cell == "" and name in required_columns(condition, truth=False):
            assert found != -1


def test_a_question_about_gaps_needs_no_filling():
    asked = parse_question("count() where b is missing", HotDeck(on=["d"])).compile(SCHEMA)
    assert asked.targets == ()


def test_a_row_with_a_gap_in_a_needed_column_is_left_out():
    """`reads` does not rest on the caller's word."""
    lying = RowContribution(
        ("d",), lambda rows: np.ones((len(rows["d"]), 1)), components=1, unit=1, needs=frozenset({"a"})
    )
    rows = [("0", "1", "low", "x"), ("", "1", "low", "x"), ("-1", "1", "low", "x")]
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    value = plain_sum(table, lying)
    assert value.reads == {"a"}
    assert reveal(value, table.ledger).tolist() == [2]


def test_numbers_near_the_ends_of_63_bits_do_not_slip_through():
    lying = RowContribution(
        ("d",), lambda rows: np.full((len(rows["d"]), 2), -(2**63)), components=2, unit=7, signed=True
    )
    assert not lying.total({"d": np.zeros(3, dtype=np.uint8)}).any()
