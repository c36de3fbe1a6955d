"""Sums per person: a person moves them by at most one unit, however many of its rows are kept."""

import math
import tempfile
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless import Integer, Ordinal, Schema
from gapless.data import person_sums
from gapless.data.person_sums import FINEST, person_sum, person_sum_distance, rows_per_person, steps_of_person
from gapless.data.row_contribution import LARGEST_UNIT, Groups, RowContribution
from gapless.privacy import L1
from gapless.query import parse_question
from helpers.examples import examples
from helpers.open_sealed import reveal
from helpers.person_tables import private_persons

SCHEMA = Schema(
    "people",
    [Integer("a", bounds=(0, 3), may_be_missing=True, missing=[""]), Ordinal("d", ["x", "y"], may_be_missing=True)],
)
CONSTANT = Schema("people", [SCHEMA["a"], replace(SCHEMA["d"], per_person=True)])
QUESTIONS = [
    "count() per person",
    "count() per person where a >= 1 by d",
    "proportion(a == 1) per person by d",
    "mean(a) per person",
    "mean(a) per person where d == x by a",
    "table(a, d) per person",
]
PERSONS = ["p", "q", "r", "", None]  # the last two: no id
cells = st.sampled_from(["0", "1", "2", "3", ""]), st.sampled_from(["x", "y", ""])
rows_of_others = st.lists(st.tuples(st.sampled_from(PERSONS), *cells), max_size=10)
rows_of_new = st.lists(st.tuples(st.just("new"), *cells), min_size=1, max_size=8)
pairs = st.tuples(st.integers(1, 4), rows_of_others, rows_of_new, st.randoms(use_true_random=False))


def table(rows, at_most=3, schema=SCHEMA):
    frame = pl.DataFrame(rows, schema={"id": pl.String, "a": pl.String, "d": pl.String}, orient="row")
    return private_persons(frame, schema, Path(tempfile.mkdtemp()), at_most=at_most)


def neighbours(pair, schema=SCHEMA):
    """Two tables, the second with a new person whose rows are anywhere among the others."""
    at_most, rows, more, chance = pair
    places = sorted(chance.randrange(len(rows) + 1) for _ in more)
    mixed = list(rows)
    for place, added in reversed(list(zip(places, more, strict=True))):
        mixed.insert(place, added)
    return table(rows, at_most, schema), table(mixed, at_most, schema)


def revealed(make, *arguments):
    sealed = table(*arguments)
    return reveal(make(sealed), sealed.ledger).tolist()


def moved(make, less, greater):
    a, b = make(less), make(greater)
    assert a.distance == b.distance
    assert a.reads is b.reads is None
    return np.abs(reveal(a, less.ledger) - reveal(b, greater.ledger)).sum(), a.distance


@pytest.mark.parametrize("schema", [SCHEMA, CONSTANT], ids=["varying", "constant"])
@pytest.mark.parametrize("text", QUESTIONS)
@examples(10)
@given(pair=pairs)
def test_a_person_moves_a_sum_per_person_by_at_most_a_unit(text, schema, pair):
    asked = parse_question(text).compile(schema)
    less, greater = neighbours(pair, schema)
    for classes in (None, 3):
        change, distance = moved(
            lambda of, some=classes: person_sum(of.rebin(asked.schema), asked.contribution, classes=some), less, greater
        )
        assert distance == L1(asked.contribution.unit * steps_of_person(asked.contribution))  # of no limit of rows
        assert change <= distance.at_most


def test_a_person_with_rows_moves_it_by_just_a_unit():
    asked = parse_question("count() per person by d").compile(SCHEMA)
    persons = [[("p", "1", "x")] * 2, [("p", "1", "x"), ("p", "2", "y")], [("p", "0", "y")] * 9]
    for rows in persons:
        pair = table([]), table(rows)
        change, distance = moved(lambda of: person_sum(of, asked.contribution), *pair)
        assert change == distance.at_most == FINEST


@examples(20)
@given(pair=pairs)
def test_a_person_moves_tables_of_constant_columns_by_the_rows_that_are_kept(pair):
    less, greater = neighbours(pair, CONSTANT)
    for columns in (["d"], ["a", "d"]):
        change, distance = moved(lambda of, chosen=columns: of.marginal(chosen, rows="extended"), less, greater)
        assert change <= distance.at_most == pair[0]


@examples(20)
@given(pair=pairs)
def test_a_person_moves_the_numbers_of_persons_by_one(pair):
    less, greater = neighbours(pair)
    change, distance = moved(lambda of: rows_per_person(of, 4), less, greater)
    assert distance == L1(1)
    assert change == 1


def test_sums_per_person_are_means_over_the_counted_rows():
    rows = [("p", "1", "x"), ("p", "3", "x"), ("p", "", "y"), ("q", "2", "y"), (None, "0", "x"), (None, "3", "y")]
    asked = parse_question("mean(a) per person by d").compile(SCHEMA)
    steps = asked.contribution.unit * steps_of_person(asked.contribution)
    sums = revealed(lambda of: person_sum(of, asked.contribution), rows)
    # p: the mean of 1 and 3, as a has a gap in y; q: 2; the rows without an id are two persons.
    in_x, in_y = [Fraction(2, 3) + 0, Fraction(1, 3) + 1], [Fraction(2, 3) + 1, Fraction(1, 3) + 0]
    assert sums == [part * steps for part in (*in_x, *in_y)]


def test_a_person_with_rows_in_several_groups_is_divided_among_them():
    asked = parse_question("table(d) per person").compile(SCHEMA)
    rows = [("p", "1", "x"), ("p", "2", "y"), ("p", "3", "y"), ("q", "3", "y")]
    sums = revealed(lambda of: person_sum(of, asked.contribution), rows)
    assert sums == [FINEST // 3, FINEST * 2 // 3 + FINEST]


def test_sums_by_class_are_of_persons_with_so_many_rows_in_the_data():
    asked = parse_question("count() where a >= 2").compile(SCHEMA)
    rows = [("p", "1", "x"), ("p", "2", "y"), ("p", "", "y"), ("q", "3", "y"), *[("r", "2", "x")] * 6]
    sums = revealed(lambda of: person_sum(of, asked.contribution, classes=4), rows)
    assert sums == [FINEST, 0, FINEST // 3, FINEST]  # q; nobody; p, of whose three rows one counts; r, of whose six all


def test_the_numbers_of_persons_are_of_all_rows_and_not_of_the_kept_ones():
    rows = [("p", "1", "x")] * 5 + [("q", "2", "y")] * 2 + [(None, "1", "x"), ("", "1", "y")]
    assert revealed(lambda of: rows_per_person(of, 4), rows, 1) == [2, 1, 0, 1]
    assert revealed(lambda of: rows_per_person(of.where("d", ["y"]), 4), rows) == [2, 1, 0, 1]


# 17 rows, two or three in each cell: shares of 17 do not divide the grid, and most are more than half a step off.
UNEVEN = [("p", a, d) for a in "0123" for d in "xy"] * 2 + [("p", "3", "y")]


def test_shares_that_the_grid_does_not_have_are_rounded_towards_zero_so_that_they_add_up_to_at_most_a_unit():
    asked = parse_question("table(a, d) per person").compile(SCHEMA)
    for classes in (None, 1):
        shares = revealed(lambda of, some=classes: person_sum(of, asked.contribution, classes=some), UNEVEN, 17)
        assert shares == [*[2 * FINEST // 17] * 7, 3 * FINEST // 17]
        assert sum(shares) == FINEST - 5  # exactly a unit if nothing were rounded


@pytest.mark.parametrize("unit", [3, 1000, FINEST, FINEST + 1, LARGEST_UNIT])
def test_numbers_of_both_signs_on_grids_of_any_size_are_rounded_towards_zero(unit):
    sizes = np.array([unit, -unit, unit - 1, 2 - unit, 0])  # by the code of `a`; the last is a gap
    contribution = RowContribution(
        ("a", "d"),
        lambda rows: sizes[np.minimum(rows["a"], 4)][:, None],
        components=1,
        unit=unit,
        by=(Groups("d", np.arange(3), 2),),
        signed=True,
    )
    rows = [("p", "1", "x")] * 5 + [("p", "2", "x")] * 4 + [("p", "3", "y")] * 6 + [("p", "0", "y")] * 4
    steps = steps_of_person(contribution)
    assert unit <= steps * unit <= max(FINEST, LARGEST_UNIT)
    sums = revealed(lambda of: person_sum(of, contribution), rows, 19)
    in_x, in_y = 4 * (unit - 1) - 5 * unit, 6 * (2 - unit) + 4 * unit
    assert sums == [math.trunc(Fraction(steps * total, 19)) for total in (in_x, in_y)]
    assert min(sums) < 0
    assert person_sum_distance(contribution) == L1(steps * unit)


def of_all_rows(_persons, cells, added, _rows, width, steps):
    """Planted: rows are added up, not averaged."""
    total = np.zeros((width, added.shape[1]), dtype=np.int64)
    np.add.at(total, cells, steps * added)
    return total.ravel()


def by_cell(persons, cells, added, _rows, width, steps):
    """Planted: the number of the rows of a person in a group, in place of all its rows."""
    found, place, rows = np.unique(persons * width + cells, return_inverse=True, return_counts=True)
    sums = np.zeros((len(found), added.shape[1]), dtype=np.int64)
    np.add.at(sums, place, added)
    total = np.zeros((width, added.shape[1]), dtype=np.int64)
    np.add.at(total, found % width, steps * sums // rows[:, None])
    return total.ravel()


def rounded(to):
    """Planted: shares are rounded by another function."""

    def sum_of_means(persons, cells, added, rows, width, steps):
        total = np.zeros((width, added.shape[1]))
        np.add.at(total, cells, steps * added / rows[persons][:, None])  # of a single person
        return to(total).astype(np.int64).ravel()

    return sum_of_means


@pytest.mark.parametrize("planted", [of_all_rows, by_cell, rounded(np.ceil), rounded(np.rint)])
def test_planted_errors_are_found(monkeypatch, planted):
    monkeypatch.setattr(person_sums, "_sum_of_means", planted)
    asked = parse_question("table(a, d) per person").compile(SCHEMA)
    change, distance = moved(lambda of: person_sum(of, asked.contribution), table([]), table(UNEVEN, 17))
    assert change > distance.at_most
