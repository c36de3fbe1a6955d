"""Sets of compatible combinations."""

import numpy as np
import pytest

import gapless as gl
from gapless.constraints.compatible import ForbiddenCells
from gapless.constraints.forbidden import constraints_of
from gapless.schema import Constraint

COLUMNS = [gl.Categorical("zip", ["z1", "z2"]), gl.Categorical("town", ["A", "B", "C"])]
DEPENDENCY = "t1.zip == t2.zip and t1.town != t2.town"


def between(text):
    (rule,) = constraints_of(gl.Schema("p", COLUMNS, constraints=[Constraint(text)]))[1]
    return rule


@pytest.mark.parametrize(
    ("text", "is_dependency"),
    [
        (DEPENDENCY, True),
        ("t1&t2&IQ(t1.town,t2.town)&EQ(t1.zip,t2.zip)", True),
        ("t1.zip != t2.zip and t1.town != t2.town", False),
        ("t1.town == 'A' and t2.town == 'B'", False),
    ],
)
def test_recognizes_dependencies(text, is_dependency):
    assert between(text).is_dependency == is_dependency


def test_chooses_the_most_probable_partners_of_a_dependency():
    probabilities = np.array([[0.1, 0.2, 0.0], [0.4, 0.2, 0.1]])
    rule = between(DEPENDENCY)
    chosen = rule.choose(*rule.combinations(probabilities), np.random.default_rng(0))
    assert chosen.violates(np.array([[0, 0], [0, 1], [1, 0], [1, 2]])).tolist() == [True, False, False, True]
    assert [chosen.allows({1: town}) for town in range(3)] == [True, True, False]
    assert rule.forbidden_cells(probabilities).table.tolist() == [[True, False, True], [False, True, True]]


def test_cells_are_allowed_unless_all_their_combinations_are_forbidden():
    forbidden = ForbiddenCells((0, 1), np.array([[True, True], [False, True]]))
    assert [forbidden.allows({0: code}) for code in (0, 1, 2)] == [False, True, True]  # a gap may always be there
    assert not forbidden.allows({1: 1})
