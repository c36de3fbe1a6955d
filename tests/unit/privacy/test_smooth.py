"""Noise that follows a smooth bound: its certificate, the paper's counterexample, and what the ledger shows."""

import math
from fractions import Fraction

import numpy as np
import pytest

from gapless.data.neighbors import Matching
from gapless.data.sums import neighbour_sum
from gapless.errors import BudgetError, SchemaError
from gapless.privacy import L1, Budget, DiscreteLaplace, Loss, Rows, Smooth, SmoothCauchy, SmoothValue
from gapless.privacy.smooth import LN2, joint_loss
from gapless.schema import Boolean, Categorical, Integer, Ordinal, Schema
from gapless.testing.audit import private
from gapless.testing.noise import NoNoise, fixed_noise, no_noise
from helpers.open_sealed import reveal

PURE = math.inf
ONE_ROW = Smooth(1, 2.0)


def log_ratio(y, q, s, q2, s2, g):
    """log of the density of q + s·X at y over that of q2 + s2·X."""
    here, there = np.abs((y - q) / s), np.abs((y - q2) / s2)
    return math.log(s2 / s) + np.log1p(there**g) - np.log1p(here**g)


def worst_ratio(q, s, q2, s2, g):
    y = np.concatenate([[q, q2], np.geomspace(1e-4, 1e7, 40_000), -np.geomspace(1e-4, 1e7, 40_000)])
    return float(np.abs(log_ratio(np.concatenate([q + y, q2 + y]), q, s, q2, s2, g)).max())


# ---------------------------------------------------------------------- the certificate


@pytest.mark.parametrize(
    ("g", "alpha"), [(2, 0.3), (2, 1.04), (2.25, 1.3), (2.25, 2.01), (3.5, 2.81), (4, 4.01), (9, 30)]
)
def test_the_certificate_is_above_every_pair_and_tight(g, alpha):
    """Against the densities themselves, over ratios of bounds and shifts that `joint_loss` says cannot matter."""
    certified = joint_loss(g, alpha)
    worst = 0.0
    for ratio in np.geomspace(0.5, 2, 9):
        for shift in np.linspace(0, min(1, ratio), 5):
            worst = max(worst, worst_ratio(0.0, 1 / alpha, shift, ratio / alpha, g))
    assert worst <= certified
    assert worst >= certified - 2e-3


def test_the_certificate_is_below_the_closed_form():
    for g in (2, 2.25, 3, 5, 10):
        for alpha in (0.01, 0.5, 2, 10):
            assert joint_loss(g, alpha) <= alpha * (g - 1) ** (1 - 1 / g) + max(g - 1, 1) * LN2 + 2e-5


@pytest.mark.parametrize("epsilon", [0.71, 0.8, 1.0, 1.386, 2.0, 4.159, 6.0, 12.0])
def test_the_calibration_costs_what_it_may_and_hardly_less(epsilon):
    mechanism = SmoothCauchy.for_loss(Loss(epsilon, PURE), ONE_ROW)
    assert mechanism.loss(ONE_ROW, PURE).value <= epsilon
    assert mechanism.loss(ONE_ROW, PURE).value > 0.995 * epsilon


def test_the_calibration_at_the_known_points():
    """At ε = 1 a median of 0.96 S, where the paper has 2.05 S; at 6 ln 2 the paper's own experiment."""
    assert SmoothCauchy.for_loss(Loss(1.0, PURE), ONE_ROW).median_per_bound == pytest.approx(0.96, abs=0.01)
    at_six_ln2 = SmoothCauchy.for_loss(Loss(6 * LN2, PURE), ONE_ROW)
    assert at_six_ln2.exponent == 3.5
    assert at_six_ln2.alpha == pytest.approx(2.81, abs=0.01)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, LN2])
def test_too_small_epsilon_for_one_row_is_refused_with_a_hint(epsilon):
    with pytest.raises(BudgetError, match=r"needs ε above ln 2") as refused:
        SmoothCauchy.for_loss(Loss(epsilon, PURE), ONE_ROW)
    assert "HotDeck" in refused.value.hint


def test_rows_of_one_person_add_up():
    mechanism = SmoothCauchy.for_loss(Loss(4.0, PURE), Smooth(2, 2.0))
    assert mechanism.loss(Smooth(2, 2.0), PURE).value == 2 * mechanism.loss(ONE_ROW, PURE).value <= 4.0
    with pytest.raises(BudgetError, match="ln 2"):
        SmoothCauchy.for_loss(Loss(1.0, PURE), Smooth(2, 2.0))


def test_only_a_smooth_value_takes_this_noise():
    with pytest.raises(BudgetError, match="bounded as Smooth"):
        SmoothCauchy.for_loss(Loss(1.0, PURE), L1(1))
    with pytest.raises(BudgetError, match="bounded as Smooth"):
        SmoothCauchy(2.0, 1.0, 1.0).loss(L1(1), PURE)
    with pytest.raises(BudgetError, match="bounded as L1"):
        DiscreteLaplace(1.0).loss(ONE_ROW, PURE)


@pytest.mark.parametrize(("exponent", "alpha", "grid"), [(1.5, 1, 1), (2.1, 1, 1), (17, 1, 1), (2, 0, 1), (2, 1, 0)])
def test_parameters_that_make_no_sense(exponent, alpha, grid):
    with pytest.raises(BudgetError):
        SmoothCauchy(exponent, alpha, grid)


def test_answers_lie_on_a_public_grid_and_are_clamped():
    mechanism = SmoothCauchy.for_loss(Loss(1.0, PURE), ONE_ROW)
    assert math.log2(mechanism.grid).is_integer()
    assert mechanism.grid <= ONE_ROW.least / mechanism.alpha * 2**-10 < 2 * mechanism.grid
    value = SmoothValue(Fraction(1, 3), Fraction(2))
    assert mechanism(value, NoNoise()) == round(Fraction(1, 3) / Fraction(mechanism.grid)) * mechanism.grid
    assert mechanism(SmoothValue(Fraction(10**40), Fraction(2)), NoNoise()) == 2.0**60 * mechanism.grid


# ---------------------------------------------------------------------- the paper's counterexample

LINE = Schema("line", [Integer("place", bounds=(0, 9), bins=10), Boolean("a", may_be_missing=True)])
MATCHING = Matching(on=("place",))
DONEE = ("0", None)
# Labels are the order of rows here: ten donees, then the donor that is next on the circle, twice; one donor far away.
BEFORE = [*[DONEE] * 10, ("0", "true"), *[DONEE] * 10, ("0", "false"), ("9", "false")]
AFTER = [row for row in BEFORE if row != ("0", "true")]


def how_many(columns):
    return columns["a"] == 1


def question(rows, folder, **options):
    table = private(rows, LINE, folder, **options)
    return table, neighbour_sum(table, how_many, targets=["a"], matching=MATCHING, low=0, high=1)


@pytest.fixture
def pair(tmp_path):
    with no_noise():
        return [reveal(value, table.ledger) for table, value in (question(rows, tmp_path) for rows in (BEFORE, AFTER))]


def test_the_counterexample_of_23_rows(pair):
    before, after = pair
    assert len(BEFORE) == 23
    assert (before.answer, before.bound) == (11, 11)
    assert (after.answer, after.bound) == (0, 21)


@pytest.mark.parametrize(("claimed", "true"), [(0.1, 0.937), (0.25, 0.911), (0.5, 0.875)])
def test_the_papers_calibration_breaks_its_promise_there(pair, claimed, true):
    before, after = ((float(value.answer), float(value.bound) / LN2) for value in pair)
    found = worst_ratio(*before, *after, 1 + claimed / (2 * LN2))
    assert found > claimed
    assert found == pytest.approx(true, abs=2e-3)


@pytest.mark.parametrize("claimed", [0.7, 1.0, 1.386, 2.0, 6 * LN2, 10.0])
def test_ours_keeps_it(pair, claimed):
    mechanism = SmoothCauchy.for_loss(Loss(claimed, PURE), ONE_ROW)
    before, after = ((float(value.answer), float(value.bound) / mechanism.alpha) for value in pair)
    assert worst_ratio(*before, *after, mechanism.exponent) <= claimed


# ---------------------------------------------------------------------- through the gate


@pytest.mark.parametrize("budget", [Budget(8.0, 0), Budget(8.0, 1e-6)])
def test_a_release_charges_its_loss_and_shows_nothing_private(budget, tmp_path):
    entries = []
    for rows in (BEFORE, AFTER, []):
        table, value = question(rows, tmp_path, budget=budget)
        grant = table.ledger.grant(table.ledger.share("80%"), to="test")
        mechanism = SmoothCauchy.for_loss(grant.left, value.distance)
        answer = grant.release(value, mechanism, what="how many").value
        assert (answer / mechanism.grid).is_integer()
        (entry,) = table.ledger.entries
        assert entry.loss <= table.ledger.share("80%").value * (1 + 1e-9)
        entries.append((entry.mechanism, entry.distance, entry.reads, entry.loss))
    assert entries[0] == entries[1] == entries[2]
    assert entries[0][0].keys() == {"name", "exponent", "alpha", "grid"}
    assert entries[0][1] == {"Smooth": 1}
    assert not hasattr(mechanism, "noise_std")


def test_a_small_share_of_an_approximate_budget_is_refused(tmp_path):
    table, value = question(BEFORE, tmp_path, budget=Budget(1.0, 1e-6))
    with pytest.raises(BudgetError, match="ln 2"):
        SmoothCauchy.for_loss(table.ledger.share("50%"), value.distance)


def test_rows_per_person_reach_the_distance(tmp_path):
    _, value = question(BEFORE, tmp_path, protect=Rows(3))
    assert value.distance == Smooth(3, 2.0)
    assert value.reads is None


def test_labels_are_drawn_once_and_links_are_found_once(tmp_path):
    with fixed_noise(1):
        table, value = question(BEFORE, tmp_path)
        again = neighbour_sum(table, how_many, targets=["a"], matching=MATCHING, low=0, high=1)
        assert reveal(table._random_order, table.ledger) is reveal(table._random_order, table.ledger)
        assert len(table._donor_links) == 1
        (links,) = table._donor_links.values()
        assert reveal(links, table.ledger) is reveal(links, table.ledger)
        assert reveal(value, table.ledger) == reveal(again, table.ledger)
        there, _ = question(BEFORE, tmp_path)
        assert reveal(there._random_order, there.ledger).tolist() != reveal(table._random_order, table.ledger).tolist()


def test_several_targets_come_from_one_donor_and_observed_cells_stay(tmp_path):
    schema = Schema(
        "two", [Ordinal("x", ["0", "1", "2"]), *(Categorical(n, ["a", "b"], may_be_missing=True) for n in ("u", "v"))]
    )
    rows = [("0", "a", "b"), ("2", "b", "a"), ("0", "b", None), ("2", None, None)]

    def value(columns):
        return 10.0 * columns["u"] + columns["v"]

    with no_noise():
        table = private(rows, schema, tmp_path)
        sealed = neighbour_sum(table, value, targets=["u", "v"], matching=Matching(on=("x",)), low=0, high=11)
        assert reveal(sealed, table.ledger).answer == 1 + 10 + 11 + 10
        kept = neighbour_sum(
            table.where("u", ["b"]), value, targets=["v"], matching=Matching(on=("x",)), low=0, high=11
        )
        assert kept.reads == {"u"}
        assert reveal(kept, table.ledger).answer == 10 + 10


# ---------------------------------------------------------------------- what is refused

WIDE = Schema(
    "wide", [Integer("n", bounds=(0, 2000)), *(Boolean(c, may_be_missing=True) for c in "ab"), *LINE.columns[:1]]
)


@pytest.mark.parametrize(
    ("options", "targets", "message"),
    [
        ({"on": ()}, ["a"], "on has no column"),
        ({"on": "place"}, ["a"], "not a list"),
        ({"on": ["place"], "neighbors": 0}, ["a"], "neighbors = 0"),
        ({"on": ["place"], "neighbors": 2}, ["a"], 'scheme = "nearest" takes 1 neighbor'),
        ({"on": ["place"], "scheme": "median"}, ["a"], "scheme = .*, but scheme must be one of"),
        ({"on": ["place"], "distance": "cosine"}, ["a"], "distance = .*, but distance must be one of"),
        ({"on": ["place"], "cover": ["b"]}, ["a"], "cover may have only columns of on"),
        ({"on": ["hour"]}, ["a"], "no column 'hour'"),
        ({"on": ["a"]}, ["a"], "matched on and asked for"),
        ({"on": ["place"]}, [], "no target"),
        ({"on": ["place"], "neighbors": 3, "scheme": "majority"}, ["a", "b"], 'scheme = "majority" fills 1 column'),
        ({"on": ["n"]}, ["a"], "too many to match on"),
    ],
)
def test_a_matching_that_does_not_fit(options, targets, message, tmp_path):
    if "n" in options["on"]:
        schema = Schema("wide", [Integer("n", bounds=(0, 2000), bins=2000), *WIDE.columns[1:]])
    else:
        schema = WIDE
    table = private([], schema, tmp_path)
    with pytest.raises(SchemaError, match=message):
        neighbour_sum(table, how_many, targets=targets, matching=Matching(**options), low=0, high=1)


@pytest.mark.parametrize(("low", "high"), [(1, 0), (0, 0), (0, math.inf), (math.nan, 1)])
def test_bounds_that_make_no_sense(low, high, tmp_path):
    table = private([], LINE, tmp_path)
    with pytest.raises(SchemaError, match="do not bound contributions"):
        neighbour_sum(table, how_many, targets=["a"], matching=MATCHING, low=low, high=high)


@pytest.mark.parametrize("epsilon", [0.7, 1.0, 10.0, 50.0, 100.0, 500.0])
def test_however_little_noise_there_is_large_answers_are_not_clamped(epsilon):
    mechanism = SmoothCauchy.for_loss(Loss(epsilon, math.inf), Smooth(1, 1.0))
    with no_noise() as source:
        assert mechanism(SmoothValue(Fraction(10**9), Fraction(1)), source) == 10**9


# ---------------------------------------------------------------------- who is read

MATCHED = Schema(
    "matched",
    [
        Ordinal("place", ["0", "1", "2"], may_be_missing=True),
        Categorical("sex", ["F", "M"], may_be_missing=True),
        Boolean("a", may_be_missing=True),
    ],
)
# Rows with a gap in a column that is matched on: a donor, a donee, and one that lacks everything.
LACKING = [(None, "F", "true"), ("0", None, "true"), (None, None, "true"), (None, "F", None), (None, None, None)]


@pytest.mark.parametrize("row", LACKING)
@pytest.mark.parametrize("scheme", ["nearest", "mean", "majority"])
def test_a_row_with_a_gap_in_a_matching_column_is_read(row, scheme, tmp_path):
    """It gives or takes like any other, so `reads` must not name the columns that are matched on, nor the targets."""
    matching = Matching(on=("place", "sex"), scheme=scheme, neighbors=1 if scheme == "nearest" else 2)
    rows = [("1", "M", "false"), ("2", "F", "true"), ("0", "F", None), (None, "F", None)]
    seen = []
    with no_noise():
        for some in (rows, [*rows, row]):
            table = private(some, MATCHED, tmp_path)
            value = neighbour_sum(
                table, lambda columns: 1.0 + columns["a"], targets=["a"], matching=matching, low=0, high=2
            )
            assert value.reads is None
            seen.append(reveal(value, table.ledger))
    assert seen[0].answer != seen[1].answer


def test_a_row_that_was_left_out_before_is_not_read(tmp_path):
    seen = []
    with no_noise():
        for some in ([("1", "M", "false")], [("1", "M", "false"), ("0", None, "true")]):
            table = private(some, MATCHED, tmp_path).where("sex", ["F", "M"])
            value = neighbour_sum(table, how_many, targets=["a"], matching=Matching(on=("place", "sex")), low=0, high=1)
            assert value.reads == {"sex"}
            seen.append(reveal(value, table.ledger))
    assert seen[0] == seen[1]
