"""Recorded releases: which ones a ledger accepts, and that their loss is computed again from the record."""

import pytest

from gapless.errors import BudgetError, LedgerError
from gapless.privacy import (
    L1,
    L2,
    DiscreteGaussian,
    DiscreteLaplace,
    L2Vector,
    Linf,
    LinfByGroup,
    Rows,
    Sampled,
    Smooth,
    SmoothCauchy,
)
from gapless.privacy.budget import PURE
from gapless.privacy.registry import (
    MECHANISMS,
    UNKNOWN_MECHANISM,
    check_known_mechanism,
    distance_of,
    mechanism_of,
    recomputed_loss,
    record_of,
)
from gapless.privacy.teachers import SubsampledTeacher


@pytest.mark.parametrize(
    ("mechanism", "distance", "order"),
    [
        (DiscreteLaplace(3.0), L1(2), PURE),
        (DiscreteGaussian(3.0), L2(2), 8.0),
        (DiscreteGaussian(3.0), L2Vector(2.5, 7), 8.0),
        (SmoothCauchy(2.0, 1.0, 1.0), Smooth(1, 5.0), PURE),
    ],
)
def test_the_loss_of_a_record_is_that_of_the_release(mechanism, distance, order):
    check_known_mechanism(mechanism, distance)
    assert mechanism_of(mechanism.parameters()) == mechanism
    assert recomputed_loss(mechanism.parameters(), record_of(distance), order) == mechanism.loss(distance, order).value


@pytest.mark.parametrize(
    ("distance", "record"),
    [
        (L1(2), {"L1": 2}),
        (L2(1.5), {"L2": 1.5}),
        (L2Vector(2.0**24, 1025), {"L2Vector": 2.0**24, "numbers": 1025}),
        (Linf(3.0), {"Linf": 3.0}),
        (LinfByGroup(1), {"LinfByGroup": 1}),
        (Sampled(2), {"Sampled": 2}),
    ],
)
def test_a_distance_is_recorded_by_its_name_and_read_again(distance, record):
    # Ledgers on disk contain these records.
    assert record_of(distance) == record
    assert distance_of(record) == distance
    assert type(distance_of(record)) is type(distance)


@pytest.mark.parametrize(
    "record",
    [
        {"L2Vector": 1.0},
        {"L2Vector": 1.0, "numbers": 0},
        {"L2Vector": 1.0, "numbers": -3},
        {"L2Vector": 1.0, "numbers": 2.0},
        {"L2Vector": 1.0, "numbers": True},
        {"L2Vector": 1.0, "numbers": "5"},
        {"L2Vector": 1.0, "numbers": 5, "more": 1},
        {"L2Vector": 1.0, "at_most": 0.5},
        {"numbers": 5, "L2Vector": 1.0},
        {"L2Vector": 0.0, "numbers": 5},
        {"L1": 1, "numbers": 5},
        {"L2": 1.0, "numbers": 5},
    ],
)
def test_a_record_that_is_no_distance_is_refused(record):
    """These errors are what `Ledger` takes for a changed entry."""
    with pytest.raises((TypeError, KeyError, BudgetError)):
        distance_of(record)


def test_every_mechanism_is_recorded_by_its_name():
    # Ledgers on disk contain these names.
    assert list(MECHANISMS) == [
        "DiscreteLaplace",
        "DiscreteGaussian",
        "KNorm",
        "ExponentialChoice",
        "ChoiceByGroup",
        "SmoothCauchy",
        "PrivateTraining",
        "TeacherVotes",
        "SubsampledTeacher",
    ]
    assert all(name == kind.__name__ for name, kind in MECHANISMS.items())
    assert MECHANISMS["SubsampledTeacher"] is SubsampledTeacher


def test_a_half_written_entry_has_lost_nothing():
    assert mechanism_of(UNKNOWN_MECHANISM) is None
    assert recomputed_loss(UNKNOWN_MECHANISM, {"Linf": 0.0}, 8.0) == 0


def test_subclasses_and_strangers_are_refused():
    cheaper = type("DiscreteLaplace", (DiscreteLaplace,), {"__slots__": ()})(1.0)
    wider = type("L1", (L1,), {"__slots__": ()})(1)
    for mechanism, distance in [(cheaper, L1(1)), (DiscreteLaplace(1.0), wider), (DiscreteLaplace(1.0), Rows(1))]:
        with pytest.raises(BudgetError, match="a ledger has no formula for the loss"):
            check_known_mechanism(mechanism, distance)
    with pytest.raises(LedgerError, match="does not know the mechanism 'Levy'"):
        mechanism_of({"name": "Levy", "scale": 1.0})
    check_known_mechanism(DiscreteLaplace(1.0), Linf(1))  # refused by its loss: the registry knows both
    check_known_mechanism(DiscreteLaplace(1.0), Sampled(1))
