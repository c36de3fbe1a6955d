"""The exact figure for the complete table against enumeration, worked examples and known numbers."""

import importlib.util
import math
import runpy
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gapless as gl
from gapless.errors import BudgetError
from gapless.privacy.accounting import amplified_epsilon, best_partition, observed_probability
from gapless.privacy.budget import pure_loss
from gapless.privacy.ground_truth import (
    calibrate_loss,
    comonotone_loss,
    complete_data_loss,
    independent_loss,
    max_incomplete_loss,
    merge_releases,
    renyi_loss,
)

# The figures of [MD] that are no guarantees are no part of the package.
bench = SimpleNamespace(**runpy.run_path(str(Path(__file__).parents[3] / "bench/ground_truth.py")))

# [MD] Figure 1: four marginals, a quarter of the cells missing in three columns.
RATES = {"state": 0.25, "occupation": 0.0, "gender": 0.25, "income": 0.25}
MARGINALS = [frozenset({"state"}), frozenset({"occupation"}), frozenset({"gender"}), frozenset({"gender", "income"})]


def released(marginals, epsilon=1.0):
    return [(epsilon / len(marginals), columns) for columns in marginals]


# ---------------------------------------------------------------------- the theorem, by enumeration


def randomised_response(present, epsilon, answer):
    """ε-DP and extreme: a person who is read turns the coin."""
    return 1 / (1 + math.exp(-epsilon if present == answer else epsilon))


def transcripts(plan, rates):
    """For every transcript of three adaptive steps: its probability with the person, and without."""
    columns = sorted(rates)
    for answers in product((0, 1), repeat=3):
        steps = [plan(answers[:j]) for j in range(3)]  # (ε, columns) may depend on earlier answers
        without = math.prod(randomised_response(False, e, a) for (e, _), a in zip(steps, answers, strict=True))
        with_person = 0.0
        for seen in product((0, 1), repeat=len(columns)):
            chance = math.prod(1 - rates[c] if s else rates[c] for c, s in zip(columns, seen, strict=True))
            observed = {c for c, s in zip(columns, seen, strict=True) if s}
            with_person += chance * math.prod(
                randomised_response(read <= observed, e, a) for (e, read), a in zip(steps, answers, strict=True)
            )
        yield with_person, without, steps


def fixed(_earlier):
    return [(0.5, {"a"}), (0.7, {"a", "b"}), (0.4, {"b", "c"})][len(_earlier)]


def adaptive(earlier):
    """The second and third release read other columns, at another loss, if the first answer was yes."""
    if not earlier:
        return (0.5, {"a"})
    return (0.9, {"a", "b"}) if earlier[0] else (0.3, {"c"})


@pytest.mark.parametrize("plan", [fixed, adaptive])
def test_no_transcript_exceeds_f_and_one_attains_it(plan):
    rates = {"a": 0.3, "b": 0.5, "c": 0.1}
    slack = []
    for with_person, without, steps in transcripts(plan, rates):
        figure = gl.privacy.ground_truth(steps, gl.MCAR(rates))
        assert abs(math.log(with_person / without)) <= figure
        slack.append(figure - math.log(with_person / without))
    assert min(slack) <= 3e-9  # attained: no smaller figure is true


def test_the_linear_rule_of_the_paper_is_not_a_bound():
    rates = {"a": 0.9, "b": 0.0, "c": 0.0}
    (worst,) = [
        math.log(p / q)
        for p, q, steps in transcripts(lambda y: (3.0, {"a"}) if not y else (0.0, set()), rates)
        if p > q
    ][:1]
    assert worst > 3 * (0.1 * 3.0)
    assert worst == pytest.approx(gl.privacy.ground_truth([(3.0, {"a"})], gl.MCAR(rates)), abs=1e-8)


def test_renyi_losses_of_fixed_columns():
    order, rates = 4.0, {"a": 0.3, "b": 0.5, "c": 0.1}
    pairs = list(transcripts(fixed, rates))
    sets = merge_releases((pure_loss(e, order), columns) for e, columns in pairs[0][2])
    bound = renyi_loss(sets, gl.MCAR(rates), order)
    for here, there in ((0, 1), (1, 0)):
        total = sum(pair[here] ** order * pair[there] ** (1 - order) for pair in pairs)
        assert math.log(total) / (order - 1) <= bound
    assert bound < math.fsum(sets.values())
    assert renyi_loss(sets, gl.MCAR(rates), math.inf) == complete_data_loss(sets, gl.MCAR(rates))


def hockey_stick(pairs, epsilon):
    return max(
        sum(max(0.0, p - math.exp(epsilon) * q) for p, q in pairs),
        sum(max(0.0, q - math.exp(epsilon) * p) for p, q in pairs),
    )


# ---------------------------------------------------------------------- robust, rows, bounds


def test_columns_that_go_missing_together():
    both = {frozenset({"a", "b"}): 1.0}
    assert complete_data_loss(both, gl.MCAR({"a": 0.5, "b": 0.5})) == pytest.approx(
        amplified_epsilon(0.25, 1.0), abs=1e-8
    )
    assert complete_data_loss(both, gl.MCAR({"a": 0.5, "b": 0.5}, columns="dependent")) == pytest.approx(0.62, abs=5e-4)
    assert complete_data_loss(both, gl.privacy.MissingAtLeast({"a": 0.5, "b": 0.5})) == pytest.approx(
        amplified_epsilon(0.5, 1.0), abs=1e-8
    )


def test_the_comonotone_integral_against_a_fine_grid():
    sets = {frozenset("a"): 0.7, frozenset("ab"): 0.4, frozenset("c"): 0.9, frozenset(): 0.3}
    seen = {"a": 0.8, "b": 0.35, "c": 0.5}
    u = (np.arange(1000) + 0.5) / 1000
    total = sum(w * (u < min([seen[c] for c in columns], default=1)) for columns, w in sets.items())
    assert comonotone_loss(sets, seen) == pytest.approx(math.log(np.exp(total).mean()), abs=1e-8)


def test_several_rows_of_one_person_are_several_chances_to_be_seen():
    sets, assumption = {frozenset("ab"): 1.0}, gl.MCAR({"a": 0.5, "b": 0.2})
    # Two rows, each read or not by itself: the exact figure is below the bound.
    observed = 0.5 * 0.8
    assert amplified_epsilon(1 - (1 - observed) ** 2, 1.0) <= complete_data_loss(sets, assumption, rows=2)
    assert complete_data_loss(sets, assumption, rows=2) == pytest.approx(amplified_epsilon(0.75 * 0.96, 1.0), abs=1e-8)


def test_the_incomplete_table_loses_no_more_than_the_bound():
    assumption = gl.MCAR({"a": 0.5, "b": 0.2})
    worst = max_incomplete_loss(1.0, assumption)
    assert complete_data_loss({frozenset("ab"): worst}, assumption) == pytest.approx(1.0, abs=1e-8)
    assert complete_data_loss({frozenset("a"): worst / 2, frozenset("b"): worst / 2}, assumption) > 1.0
    assert max_incomplete_loss(1.0, gl.MCAR({"a": 0.5, "b": 0.2}, columns="dependent")) == pytest.approx(
        math.log1p(math.expm1(1.0) / 0.5)
    )


def test_calibration_reaches_the_target_from_below():
    assumption, before = gl.MCAR({"a": 0.4, "b": 0.3}), {frozenset(): 0.2, frozenset("a"): 0.1}
    loss = calibrate_loss(before, [{"a"}, {"a", "b"}, None], 1.0, assumption)
    after = complete_data_loss(
        merge_releases([(0.2, None), (0.1, {"a"}), (loss, {"a"}), (loss, {"a", "b"}), (loss, None)]), assumption
    )
    assert 1.0 - 1e-6 < after <= 1.0
    assert loss > (1.0 - 0.3) / 3


def test_fifty_columns_and_two_hundred_releases_take_a_second_or_two():
    rng = np.random.default_rng(5)
    columns = [f"c{i}" for i in range(50)]
    sets = merge_releases(
        (1 / 200, {columns[i] for i in rng.choice(50, rng.integers(1, 5), replace=False)}) for _ in range(200)
    )
    seen = dict.fromkeys(columns, 0.8)
    start = time.perf_counter()
    figure = independent_loss(sets, seen)
    assert time.perf_counter() - start < 5
    drawn = rng.random((20_000, 50)) < 0.8
    lost = sum(w * drawn[:, [columns.index(c) for c in chosen]].all(axis=1) for chosen, w in sets.items())
    sampled = np.exp(lost)
    assert figure >= math.log(sampled.mean()) - 6 * sampled.std() / sampled.mean() / math.sqrt(len(sampled))
    assert figure < 0.75  # and far from the sum of the losses, 1


# ---------------------------------------------------------------------- [MD]'s examples and Table 1


def test_example_5_5_complete_rows():
    everything = [frozenset(RATES)] * 4
    assert observed_probability(frozenset(RATES), RATES) == pytest.approx(0.421875)
    assert gl.privacy.ground_truth(released(everything), gl.MCAR(RATES)) == pytest.approx(0.545, abs=5e-4)


def test_example_5_7_disjoint_marginals():
    three = [MARGINALS[0], MARGINALS[1], MARGINALS[3]]
    assert bench.theorem_5_6(released(three), RATES) == pytest.approx(0.771, abs=5e-4)
    assert gl.privacy.ground_truth(released(three), gl.MCAR(RATES)) == pytest.approx(0.794, abs=5e-4)
    with pytest.raises(ValueError, match="disjoint"):
        bench.theorem_5_6(released(MARGINALS), RATES)


def test_examples_5_8_and_5_11_overlapping_marginals():
    best = bench.linear_partition(released(MARGINALS), RATES)
    assert best.cost == pytest.approx(0.8125)
    assert best_partition(released(MARGINALS), RATES).cost == pytest.approx(0.829, abs=5e-4)
    assert best.blocks == (frozenset({"state"}), frozenset(), frozenset({"gender"}), frozenset({"gender"}))
    assert best.exact
    assert gl.privacy.ground_truth(released(MARGINALS), gl.MCAR(RATES)) == pytest.approx(0.792, abs=5e-4)
    assert bench.linear_partition(released(MARGINALS, 3.0), RATES).cost == pytest.approx(2.4375)
    assert gl.privacy.ground_truth(released(MARGINALS, 3.0), gl.MCAR(RATES)) == pytest.approx(2.51, abs=5e-3)


def test_example_5_13_one_model_for_each_column():
    losses = dict.fromkeys(RATES, 0.25)
    assert bench.theorem_5_12(losses, RATES) == pytest.approx(0.9375)
    exact = gl.privacy.ground_truth([(loss, {column}) for column, loss in losses.items()], gl.MCAR(RATES))
    assert exact == pytest.approx(sum(amplified_epsilon(1 - RATES[c], 0.25) for c in RATES), abs=1e-8)
    assert exact < 0.9375


def test_fifteen_models_of_one_column_each():
    for rate, paper, true in ((0.1, 0.993, 0.903), (0.3, 0.980, 0.707), (0.5, 0.967, 0.508)):
        columns = [f"c{i}" for i in range(15)]
        rates = dict.fromkeys(columns, rate)
        assert bench.theorem_5_12(dict.fromkeys(columns, 1 / 15), rates) == pytest.approx(paper, abs=6e-4)
        assert gl.privacy.ground_truth(released([{c} for c in columns]), gl.MCAR(rates)) == pytest.approx(
            true, abs=6e-4
        )


# The columns, by number, of the marginals that PrivBayes chose on two tables with half of the cells missing.
BR2000_HALF = "7|4 7|12 4|3 4|2 3|9 4 12|13 4 9|1 2 9 13|0 2 12 13|6 2 3 7 12|10 9 13|5 4 10 13|11 0 12 13|8 1 4 6 11"
ADULT_TENTH = "13|14 13|5 14|7 5 14|9 7 14|0 5|6 0 9 14|4 0 14|3 4|12 5|1 0 4|10 0 14|8 0 7 12|11 10 14|2 0"


@pytest.mark.parametrize(
    ("lists", "rate", "exact", "linear"), [(BR2000_HALF, 0.5, 0.167, 0.326), (ADULT_TENTH, 0.1, 0.785, 0.858)]
)
def test_numbers_of_table_1(lists, rate, exact, linear):
    marginals = [frozenset(numbers.split()) for numbers in lists.split("|")]
    rates = dict.fromkeys(map(str, range(15)), rate)
    assert gl.privacy.ground_truth(released(marginals), gl.MCAR(rates)) == pytest.approx(exact, abs=5e-4)
    assert bench.linear_partition(released(marginals), rates).cost == pytest.approx(linear, abs=5e-4)


def test_adult_in_the_robust_mode():
    marginals = [frozenset(numbers.split()) for numbers in ADULT_TENTH.split("|")]
    rates = dict.fromkeys(map(str, range(15)), 0.1)
    assert gl.privacy.ground_truth(released(marginals), gl.MCAR(rates, columns="dependent")) == pytest.approx(
        0.935, abs=5e-4
    )


# ---------------------------------------------------------------------- sums and assumptions


def test_figures_of_two_releases_must_not_be_added_up():
    """The same gaps serve both: with the person observed, both read it."""
    assumption, ten = gl.MCAR({"a": 0.5}), [(0.3, {"a"})] * 10
    together, alone = gl.privacy.ground_truth(ten, assumption), gl.privacy.ground_truth(ten[:1], assumption)
    assert 10 * alone == pytest.approx(1.61, abs=5e-3)
    assert together == pytest.approx(2.36, abs=5e-3)


def test_nothing_missing_nothing_gained():
    releases = [(0.1, {"a"}), (0.2, {"a", "b"}), (0.3, None)]
    for assumption in (gl.MCAR({}), gl.MCAR({"a": 0.0}), gl.MCAR(0.0), gl.privacy.MissingAtLeast({})):
        assert gl.privacy.ground_truth(releases, assumption) == pytest.approx(0.6, abs=1e-12)
    assert gl.privacy.ground_truth([], gl.MCAR(0.2)) == 0


@pytest.mark.parametrize("release", [(0.1, "age"), (-0.1, {"a"}), (math.inf, None), (True, None), ("0.1", {"a"})])
def test_a_release_is_a_loss_and_its_columns(release):
    with pytest.raises(BudgetError):
        gl.privacy.ground_truth([release], gl.MCAR(0.2))


# ------------------------------------------------------------------ Table 1 from its marginals; needs the shared data


SCRIPT = Path(__file__).parents[3] / "bench/ground_truth.py"
EXACT = {"adult": (0.785, 0.604, 0.447, 0.309, 0.209), "br2000": (0.750, 0.532, 0.359, 0.247, 0.167)}
LINEAR = {"adult": (0.858, 0.736, 0.608, 0.499, 0.417), "br2000": (0.843, 0.667, 0.569, 0.453, 0.326)}
ROBUST = {"adult": (0.935, 0.865, 0.790, 0.709, 0.620)}
STRUCTURE = {"adult": (0.887, 0.796, 0.717, 0.649, 0.601), "br2000": (0.869, 0.759, 0.673, 0.619, 0.581)}


@pytest.mark.slow
@pytest.mark.parametrize("place", range(5))
@pytest.mark.parametrize("table", EXACT)
def test_table_1(table, place):
    spec = importlib.util.spec_from_file_location("bench_ground_truth", SCRIPT)
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    if not bench.MARGINALS.is_dir():
        pytest.skip("no shared data beside the repository")
    found = bench.figures(table, bench.RATES[place], rigorous=False)
    for name, known in (("exact", EXACT), ("linear", LINEAR), ("robust", ROBUST), ("with structure", STRUCTURE)):
        if table in known:
            assert found[name] == pytest.approx(known[table][place], abs=7e-4)
    assert found["exact"] < found["linear"]
    assert found["calibrated"] > 0.5
