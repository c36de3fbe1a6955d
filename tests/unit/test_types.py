"""Numbers that are passed, and objects that are this library's own."""

import math
from dataclasses import dataclass

import numpy as np
import pytest

from gapless.errors import ModelError
from gapless.model.neural.layers import Chain, Linear, ReLU
from gapless.types import GapRule, all_trusted, checked_number, is_number, is_trusted, is_whole, whole


@pytest.mark.parametrize("number", [3, 3.5, np.float32(3), np.int8(3), math.inf])
def test_numpys_numbers_are_numbers(number):
    assert is_number(number)


@pytest.mark.parametrize("other", [True, np.bool_(True), "3", None, 3j])
def test_truth_values_and_texts_are_not(other):
    assert not is_number(other)
    assert not is_whole(other)


def test_whole_numbers_are_pythons_own_and_within_their_limits():
    assert type(whole("limit", np.int64(3), error=ModelError)) is int
    with pytest.raises(ModelError, match=r"limit = 9, .*\n  Try: pass a whole number from 1 to 8"):
        whole("limit", 9, error=ModelError, least=1, most=8)
    with pytest.raises(ModelError, match="of at least 0"):
        whole("limit", -1, error=ModelError)


def test_the_brackets_decide_whether_the_ends_are_possible():
    assert [checked_number("rate", bound, 0, 1, "[]", error=ModelError, example=0.5) for bound in (0, 1)] == [0.0, 1.0]
    assert checked_number("std", math.inf, 0, math.inf, "(]", error=ModelError, example=10) == math.inf
    for ends, bound in (("(]", 0), ("[)", 1), ("[]", 2), ("[]", math.nan), ("[]", True), ("[]", "1")):
        with pytest.raises(ModelError, match=r"rate = .*\n  Try: pass a number in .0, 1., such as 0.5"):
            checked_number("rate", bound, 0, 1, ends, error=ModelError, example=0.5)


def test_only_this_librarys_classes_are_trusted():
    class Subclass(Linear):
        pass

    same_name = dataclass(type("Linear", (), {"__module__": "gapless.model.neural.layers"}))
    assert is_trusted(Linear(2, 3))
    assert not is_trusted(Subclass(2, 3))
    assert not is_trusted(same_name())
    assert not is_trusted(3)


def test_all_parts_must_be_plain_or_own():
    assert all_trusted(Chain((Linear(2, 3), ReLU(), Linear(3, 1))))
    assert all_trusted((1, "a", None, np.zeros(3)))
    assert not all_trusted(Chain((Linear(2, 3), lambda rows: rows)))
    assert not all_trusted((np.array([print]),))
    assert not all_trusted([1])


def test_a_gap_rule_with_more_facts_is_another():
    rule = GapRule("an empty cell", "abc")
    assert rule.given(["x"]) != rule
    assert rule.given(["x"]) == rule.given(["x"]) != rule.given(["y"])
    assert rule.given(["x"]).description == rule.description
