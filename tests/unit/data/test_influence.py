"""How many donees one row can move, on tables small enough to count by hand."""

import numpy as np

import gapless as gl
from gapless.data.influence import influence, largest_overlap
from gapless.data.neighbors import Matching, Space, link

SCHEMA = gl.Schema("t", [gl.Categorical("c", ["a", "b"]), gl.Categorical("d", ["a", "b"])])


def moved(cells, observed, *, cover=None):
    space = Space.of(Matching(on=("c", "d")), SCHEMA)
    columns = [np.array([row[SCHEMA.names.index(name)] for row in cells], dtype=np.uint8) for name in space.names]
    links = link(space, columns, np.array(observed), np.arange(len(cells)), 1)
    return influence(links, space, cover)


def test_without_donors_a_new_one_serves_all():
    assert moved([(0, 0), (1, 1)], [False, False]) == 2
    assert moved([(0, 0)], [True]) == 1


def test_a_donor_has_its_donees_and_a_new_one_takes_those_that_are_farther_away():
    cells = [(0, 0), (1, 1), (1, 1), (0, 0)]
    assert moved(cells, [True, False, False, False]) == 3
    near = [(0, 0), (1, 1), (0, 0), (1, 1)]
    assert moved(near, [True, True, False, False]) <= 2


def test_a_cover_is_never_smaller():
    cells, observed = [(0, 0), (1, 1), (1, 0), (0, 1), (1, 1)], [True, True, False, False, False]
    exact = moved(cells, observed)
    assert exact <= moved(cells, observed, cover=("c",)) <= moved(cells, observed, cover=()) == 3


def test_arcs_that_share_a_point():
    groups, starts, ends = np.array([0, 0, 1]), np.array([0, 1, 5]), np.array([2, 3, 1])
    assert largest_overlap(groups, starts, ends, 2).tolist() == [2, 1]
