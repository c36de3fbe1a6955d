"""The hot deck: equal to its definition, and its sensitivity searched exhaustively: never above 1 + K, and attained."""

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.data.row_contribution import (
    RowContribution,
    _DistinctRows,
    _donated_sums,
    hot_deck_distance,
    hot_deck_total,
)
from gapless.errors import SchemaError
from helpers.examples import examples

UNIT = 1 << 20
GAP = 4  # code of a gap in x; codes 0 … 3 are values


def tally_of(table, *, unit=UNIT, signed=False):
    """A tally that looks a row's code up in a public table of numbers."""
    table = np.asarray(table, dtype=np.int64).reshape(len(table), -1)
    padded = np.vstack([table, np.zeros_like(table[:1])])  # a gap by itself adds nothing
    return RowContribution(
        ("x",), lambda rows: padded[np.minimum(rows["x"], len(table))], table.shape[1], unit, signed=signed
    )


def total(tally, xs, limit, classes=None):
    rows = {"x": np.array(xs, dtype=np.int64), "c": np.array(classes or [0] * len(xs), dtype=np.int64)}
    return hot_deck_total(
        tally, rows, np.ones(len(xs), dtype=np.int64), targets={"x": GAP}, classes=[rows["c"]], limit=limit
    )


def searched(tally, limit, most_donors, most_donees, codes):
    """The largest change, in L1, that one more row makes in one class: all numbers of donors and donees."""
    worst = 0
    for n in range(most_donors + 1):
        for donors in itertools.combinations_with_replacement(codes, n):
            for m in range(most_donees + 1):
                rows = [*donors, *[GAP] * m]
                before = total(tally, rows, limit)
                for cell in (*codes, GAP):
                    worst = max(worst, int(np.abs(total(tally, [*rows, cell], limit) - before).sum()))
    return worst


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_one_number_moves_by_at_most_one_and_the_limit_and_attains_it(limit):
    tally = tally_of([0, UNIT // 2, UNIT])
    worst = searched(tally, limit, 4, 9, (0, 1, 2))
    assert worst <= hot_deck_distance(tally, limit, 1).at_most == (1 + limit) * UNIT + 1
    assert worst >= (1 + limit) * UNIT  # attained: a donor comes to a class of donees without one


@pytest.mark.parametrize("limit", [1, 2])
def test_signed_numbers_and_vectors_move_by_at_most_one_and_twice_the_limit(limit):
    signed = tally_of([-UNIT, 0, UNIT], signed=True)
    pair = tally_of([[UNIT, 0], [UNIT // 2, UNIT // 2], [0, UNIT]])
    for tally in (signed, pair):
        worst = searched(tally, limit, 4, 9, (0, 1, 2))
        assert worst <= hot_deck_distance(tally, limit, 1).at_most == (1 + 2 * limit) * UNIT + tally.width
    # Nearly attained: a new donor takes from many others of the other kind what he gives.
    rows = [2] * 40 + [GAP] * (40 * limit)
    moved = np.abs(total(pair, [*rows, 0], limit) - total(pair, rows, limit)).sum()
    assert moved > (1 + 1.9 * limit) * UNIT


def test_the_search_finds_a_distance_that_is_too_small():
    """Planted: without a limit a new donor takes over all donees."""
    tally = tally_of([0, UNIT])
    assert searched(tally, 8, 1, 9, (0, 1)) > (1 + 2) * UNIT + 1


@examples(150)
@given(
    rows=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5), st.integers(0, 2)), max_size=12),
    limit=st.integers(1, 4),
)
def test_the_total_is_its_definition(rows, limit):
    """Two targets and a third column, over classes: donors give what a donee lacks and nothing else."""
    sizes = {"x": 4, "y": 5}
    columns = dict(zip(("x", "y", "c"), np.array(rows, dtype=np.int64).reshape(-1, 3).T, strict=True))
    f = np.random.default_rng(7).integers(0, 1000, (4, 5, 3))

    def value(named):
        gap = (named["x"] >= 4) | (named["y"] >= 5)
        found = f[np.minimum(named["x"], 3), np.minimum(named["y"], 4), named["c"]]
        return np.where(gap, 0, found)[:, None]

    tally = RowContribution(("x", "y", "c"), value, 1, 1000)
    found = hot_deck_total(
        tally, columns, np.ones(len(rows), dtype=np.int64), targets=sizes, classes=[columns["c"]], limit=limit
    )
    expected = 0
    for c in range(3):
        here = [r for r in rows if r[2] == c]
        donors = [r for r in here if r[0] < 4 and r[1] < 5]
        donees = [r for r in here if r not in donors]
        expected += sum(int(f[r]) for r in donors)
        if donors and donees:
            share = min(Fraction(1, len(donors)), Fraction(limit, len(donees)))
            gifts = sum(
                int(f[d[0] if r[0] == 4 else r[0], d[1] if r[1] == 5 else r[1], c]) for r in donees for d in donors
            )
            expected += share * gifts // 1
    assert found.tolist() == [expected]


def test_classes_do_not_share(tmp_path):
    tally = tally_of([0, UNIT])
    assert total(tally, [1, GAP, GAP], 5, classes=[0, 1, 1]).tolist() == [UNIT]
    assert total(tally, [1, GAP, GAP], 5, classes=[0, 0, 1]).tolist() == [2 * UNIT]
    assert total(tally, [], 5).tolist() == [0]
    assert total(tally, [GAP], 5).tolist() == [0]


def test_sums_beyond_63_bits_are_exact():
    """A million donors and donees with the largest numbers that questions use: counted, not held in memory."""
    giving = _DistinctRows(np.zeros(1, dtype=np.int64), {"x": np.array([1])}, np.array([1_000_000]))
    taking = _DistinctRows(np.zeros(1, dtype=np.int64), {"x": np.array([GAP])}, np.array([1_000_000]))
    for number in (1 << 28, (1 << 28) - 1, -(1 << 28) + 1):
        tally = tally_of([0, number], unit=1 << 28, signed=True)
        assert _donated_sums(tally, giving, taking, {"x": GAP}) == {(0, 0): number * 10**12}


@pytest.mark.parametrize("rows", [48 * 10**6, 4 * 10**9])
def test_no_half_of_a_sum_wraps(rows):
    """Found by review: at 48 million rows a sum of halves passed 63 bits, and one row moved the total far too much."""
    unit = (1 << 28) - 1
    tally = tally_of([0, unit], unit=unit)
    kinds = np.zeros(1, dtype=np.int64)
    giving = _DistinctRows(kinds, {"x": np.array([1])}, np.array([rows // 2]))
    for donees in (rows // 2, rows // 2 + 1):
        taking = _DistinctRows(kinds, {"x": np.array([GAP])}, np.array([donees]))
        assert _donated_sums(tally, giving, taking, {"x": GAP}) == {(0, 0): unit * (rows // 2) * donees}


def test_a_unit_whose_sums_could_wrap_is_refused():
    with pytest.raises(SchemaError, match="a unit of 268435457"):
        tally_of([0, 1], unit=(1 << 28) + 1)
