"""Who gives to whom: the order of donors, ties by labels on a circle, and what cannot be matched."""

import numpy as np
import pytest

import gapless as gl
from gapless.data.neighbors import Matching, Space, concatenated_ranges, link, split_by_cost
from gapless.errors import SchemaError

SCHEMA = gl.Schema(
    "people",
    [
        gl.Ordinal("size", ["S", "M", "L"], may_be_missing=True),
        gl.Categorical("sex", ["F", "M"]),
        gl.Categorical("x", ["a", "b"], may_be_missing=True),
    ],
)


def linked(sizes, observed, *, neighbors=1, places=None):
    space = Space.of(Matching(on=("size",)), SCHEMA)
    order = np.arange(len(sizes)) if places is None else np.array(places)
    return link(space, [np.array(sizes, dtype=np.uint8)], np.array(observed), order, neighbors)


def test_the_nearest_donor_is_taken_and_a_gap_is_equally_far_from_all():
    links = linked([0, 2, 1, 3], [True, True, False, False], neighbors=2)
    assert links.donees.tolist() == [2, 3]
    assert sorted(links.donors[0].tolist()) == sorted(links.donors[1].tolist()) == [0, 1]
    assert linked([0, 2, 0], [True, True, False]).donors.tolist() == [[0]]


def test_ties_go_to_the_next_label_on_the_circle():
    assert linked([1, 1, 1], [True, True, False], places=[0, 2, 1]).donors.tolist() == [[1]]
    assert linked([1, 1, 1], [True, True, False], places=[0, 1, 2]).donors.tolist() == [[0]]


def test_fewer_donors_than_asked_for_leave_places_empty():
    links = linked([0, 1], [True, False], neighbors=2)
    assert links.donors.tolist() == [[0, -1]]
    assert links.radius is None


def test_distances_are_whole_numbers_and_other_columns_differ_or_not():
    space = Space.of(Matching(on=("size", "sex")), SCHEMA)
    costs = dict(zip(space.names, space.costs, strict=True))
    assert costs["size"][0, :3].tolist() == [0, 1, 2]
    assert costs["sex"].tolist() == [[0, 2], [2, 0]]
    assert not costs["size"][3].any()


@pytest.mark.parametrize(
    ("given", "wrong"),
    [
        ({"on": "size"}, "is not a list of columns"),
        ({"on": ()}, "on has no column"),
        ({"on": ("size",), "neighbors": 2}, 'scheme = "nearest" takes 1 neighbor'),
        ({"on": ("size",), "scheme": "median"}, "scheme = 'median', but scheme must be one of"),
        ({"on": ("size",), "cover": ("sex",)}, "cover may have only columns of on"),
    ],
)
def test_refuses_invalid_matchings(given, wrong):
    with pytest.raises(SchemaError, match=wrong):
        Matching(**given)


def test_a_target_is_not_matched_on_and_a_majority_is_of_one_column():
    with pytest.raises(SchemaError, match="is matched on and asked for"):
        Matching(on=("x",)).check(SCHEMA, ["x"])
    with pytest.raises(SchemaError, match='scheme = "majority" fills 1 column'):
        Matching(on=("sex",), neighbors=3, scheme="majority").check(SCHEMA, ["x", "size"])


def test_ranges_and_blocks():
    assert concatenated_ranges(np.array([5, 0]), np.array([2, 3])).tolist() == [5, 6, 0, 1, 2]
    assert [part.tolist() for part in split_by_cost(np.array([1, 2**21, 1]))] == [[0], [1, 2]]
    assert list(split_by_cost(np.zeros(0, dtype=np.int64))) == []
