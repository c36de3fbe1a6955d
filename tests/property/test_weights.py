"""Coefficients that tell private rows from public ones: they move by no more than was declared, whoever comes or goes.

Tables are adversarial: few rows, gaps of every kind, none at all, many copies of one row at a corner; with little
regularisation one row moves the coefficients far.
"""

import math
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data import private_logistic as logistic
from gapless.data.private_logistic import (
    GRID_BITS,
    TOLERANCE_BITS,
    Points,
    grid_step,
    logistic_coefficients,
    logistic_odds,
    minimize,
)
from gapless.privacy import L1, L2, Rows
from gapless.testing.audit import letters_schema, private
from helpers.chunked_engine import chunked
from helpers.examples import examples
from helpers.open_sealed import reveal

SIZES = (2, 3)
LETTERS = letters_schema(SIZES)
SCHEMA = gl.Schema("mixed", [*LETTERS.columns, gl.Integer("age", bounds=(0, 9), bins=3, may_be_missing=True)])
CELLS = [["a", "b", None], ["a", "b", "c", None, "-", "n/a"], ["0", "5", "9", None]]
row = st.tuples(*(st.sampled_from(cells) for cells in CELLS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=6), st.lists(row, min_size=1, max_size=k))
)
CORNER = ("b", "c", "9")


def public(rows):
    columns = {name: [row[place] for row in rows] for place, name in enumerate(SCHEMA.names)}
    return gl.Table.read(pl.DataFrame(columns, schema=dict.fromkeys(SCHEMA.names, pl.String)), SCHEMA)


def coefficients(rows, fake, *, regularization, k=1, norm="L2"):
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()), protect=Rows(k))
    value = logistic_coefficients(table, fake, regularization=regularization, norm=norm)
    return value, reveal(value, table.ledger)


@pytest.mark.parametrize("k", [1, 2, 5])
@pytest.mark.parametrize("many", [1, 7])
@pytest.mark.parametrize("regularization", [0.1, 30.0])
def test_distances_are_those_that_are_proved(k, many, regularization):
    """docs/proofs/weights.md, sections 1 and 6: tests that move rows see a bound that is twice too small only."""
    table, fake, points = (
        private([], SCHEMA, Path(tempfile.mkdtemp()), protect=Rows(k)),
        public([CORNER] * many),
        Points.of(SCHEMA),
    )
    moved = (k * points.radius + 2 * points.radius * 2.0**-10) / regularization
    length = moved / grid_step(points, regularization) + 2 * math.sqrt(points.dimension)
    of = {norm: logistic_coefficients(table, fake, regularization=regularization, norm=norm) for norm in ("L1", "L2")}
    assert (type(of["L1"].distance), type(of["L2"].distance)) == (L1, L2)
    assert of["L2"].distance.at_most == pytest.approx(length)
    assert of["L1"].distance.at_most == pytest.approx(math.sqrt(points.dimension) * length)
    odds, step = logistic_odds(table, fake, regularization=regularization, largest=8.0)
    cut = 8.0 * (1 - math.exp(-points.radius * moved)) / step + 2
    assert type(odds.distance) is L2
    assert odds.distance.at_most == pytest.approx(math.sqrt(many) * cut)


@examples(60)
@given(
    pair=neighbours,
    fake=st.lists(row, min_size=1, max_size=5),
    regularization=st.sampled_from([2.0**-6, 0.1, 1.0, 30.0]),
    norm=st.sampled_from(["L1", "L2"]),
)
def test_coefficients_move_by_at_most_their_distance(pair, fake, regularization, norm):
    k, rows, more = pair
    fake = public(fake)
    less, before = coefficients(rows, fake, regularization=regularization, k=k, norm=norm)
    greater, after = coefficients(rows + more, fake, regularization=regularization, k=k, norm=norm)
    assert less.distance == greater.distance
    assert isinstance(less.distance, L1 if norm == "L1" else L2)
    moved = np.abs(after - before).sum() if norm == "L1" else np.sqrt(((after - before) ** 2).sum())
    assert moved <= less.distance.at_most
    assert less.reads is greater.reads is None


def odds(rows, fake, *, regularization, largest, k=1):
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()), protect=Rows(k))
    value, step = logistic_odds(table, fake, regularization=regularization, largest=largest)
    found = reveal(value, table.ledger)
    assert found.min() >= 0
    assert found.max() * step <= largest
    return value, found


@examples(60)
@given(
    pair=neighbours,
    fake=st.lists(row, min_size=1, max_size=5),
    regularization=st.sampled_from([2.0**-6, 0.1, 1.0, 30.0]),
    largest=st.sampled_from([2.0**-10, 0.3, 1.0, 10.0, 1000.0]),
)
def test_odds_move_by_at_most_their_distance(pair, fake, regularization, largest):
    k, rows, more = pair
    fake = public(fake)
    less, before = odds(rows, fake, regularization=regularization, largest=largest, k=k)
    greater, after = odds(rows + more, fake, regularization=regularization, largest=largest, k=k)
    assert less.distance == greater.distance
    assert np.sqrt(((after - before) ** 2).sum()) <= less.distance.at_most
    assert less.reads is greater.reads is None


def test_the_more_odds_are_released_the_further_they_move():
    """A distance that forgot how many rows there are would be too small."""
    fake = public([CORNER] * 25)
    value, before = odds([], fake, regularization=100.0, largest=1.0)
    _, after = odds([CORNER], fake, regularization=100.0, largest=1.0)
    moved = float(np.sqrt(((after - before) ** 2).sum()))
    assert value.distance.at_most / 5 < moved <= value.distance.at_most


@pytest.mark.parametrize("regularization", [0.01, 1.0, 100.0])
def test_every_row_of_adversarial_tables_one_by_one(regularization):
    """With and without each row; the worst comes near to what is declared, so that nothing is wasted."""
    fake = public([("a", "a", "0")])
    tables = [[CORNER], [CORNER] * 5, [CORNER, ("a", "a", "0")], [("a", None, None), CORNER], [CORNER] * 40]
    worst = 0.0
    for rows in tables:
        value, whole = coefficients(rows, fake, regularization=regularization)
        for gone in range(min(len(rows), 3)):
            _, rest = coefficients(rows[:gone] + rows[gone + 1 :], fake, regularization=regularization)
            worst = max(worst, float(np.sqrt(((whole - rest) ** 2).sum())) / value.distance.at_most)
    assert worst <= 1
    if regularization == 100.0:  # the slope of a row that is alone is half of R: as near as it gets
        assert worst > 0.45


def test_an_empty_table_is_a_table():
    value, found = coefficients([], public([CORNER]), regularization=1.0)
    assert np.isfinite(found).all()
    assert value.distance.at_most < 2.0**22


def test_a_wrong_gradient_bound_would_be_caught():
    """A solver that stops early moves by more than is declared: what the check above is for."""
    fake, rows = public([("a", "a", "0")] * 3), [CORNER] * 30
    real = logistic.minimize
    stops = iter([0.0, 2.0])  # the first is solved, the second is told that any gradient will do

    def early(blocks, points, regularization, *, tolerance):
        return real(blocks, points, regularization, tolerance=tolerance + 1e3 * next(stops))

    with mock.patch.object(logistic, "minimize", early):
        value, whole = coefficients(rows, fake, regularization=1.0)
        _, rest = coefficients(rows[1:], fake, regularization=1.0)
    assert np.sqrt(((whole - rest) ** 2).sum()) > value.distance.at_most


@examples(30)
@given(rows=st.lists(row, max_size=30), regularization=st.sampled_from([0.01, 1.0]))
def test_the_gradient_is_as_small_as_is_claimed(rows, regularization):
    points, fake = Points.of(SCHEMA), public([CORNER, ("a", "a", None)])
    both = [(points(fake.codes), -1.0), *([(points(public(rows).codes), 1.0)] if rows else [])]
    tolerance = points.radius * 2.0**-TOLERANCE_BITS
    found = minimize(lambda: iter(both), points, regularization, tolerance=tolerance)
    slope = regularization * found
    for some, label in both:
        slope = slope - label * ((1 / (1 + np.exp(label * (some @ found)))) @ some)
    assert np.sqrt(slope @ slope) <= tolerance


def test_points_are_within_their_radius_and_the_grid_is_fine_enough():
    points = Points.of(SCHEMA)
    every = [(x, y, z) for x in CELLS[0] for y in CELLS[1] for z in CELLS[2]]
    lengths = np.sqrt((points(public(every).codes) ** 2).sum(axis=1))
    assert lengths.max() <= points.radius == 2.0
    assert points(public([("a", "n/a", "9")]).codes)[0].tolist()[-3:] == [pytest.approx(5 / 6, abs=0.1), 0, 1]
    for regularization in (0.3, 1.0, 1000.0):
        finest = points.radius / regularization * 2.0**-GRID_BITS
        assert finest / 2 < grid_step(points, regularization) <= finest


def test_engines_agree():
    rows, fake = [CORNER, ("a", None, "5"), ("b", "-", None)] * 4, public([("a", "a", "0")] * 2)
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    for other in (chunked(table, 5), table):
        value = logistic_coefficients(other, fake, regularization=1.0, norm="L2")
        found = reveal(value, other.ledger)
        assert math.isclose(float(np.abs(found - coefficients(rows, fake, regularization=1.0)[1]).max()), 0, abs_tol=2)
