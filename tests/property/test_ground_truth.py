"""The figure for the complete table on random instances: against enumeration, partitions, and itself."""

import math
import operator
from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.privacy.accounting import amplified_epsilon, best_partition
from gapless.privacy.ground_truth import comonotone_loss, independent_loss, merge_releases
from helpers.examples import examples

NAMES = [f"c{i}" for i in range(12)]


@st.composite
def instances(draw, most_columns=12, most_releases=10):
    names = NAMES[: draw(st.integers(1, most_columns))]
    releases = draw(
        st.lists(st.tuples(st.floats(0, 2), st.frozensets(st.sampled_from(names), max_size=5)), max_size=most_releases)
    )
    rates = {name: draw(st.floats(0, 0.95)) for name in names}
    return releases, rates


def enumerated(releases, rates):
    """Every pattern of gaps, one by one."""
    names = sorted(rates)
    patterns = np.arange(1 << len(names))
    chance, lost = np.ones(len(patterns)), np.zeros(len(patterns))
    for i, name in enumerate(names):
        chance *= np.where(patterns >> i & 1, 1 - rates[name], rates[name])
    for loss, columns in releases:
        mask = sum(1 << names.index(name) for name in columns)
        lost += np.where(patterns & mask == mask, loss, 0)
    return math.log((chance * np.exp(lost)).sum())


@given(instances())
def test_elimination_is_enumeration(instance):
    releases, rates = instance
    exact = enumerated(releases, rates)
    assert exact - 1e-12 <= gl.privacy.ground_truth(releases, gl.MCAR(rates)) <= exact + 1e-8 * (1 + exact)


def test_elimination_is_enumeration_with_twenty_columns():
    rng = np.random.default_rng(3)
    for _ in range(5):
        names = [f"c{i:02}" for i in range(20)]
        releases = [
            (float(rng.uniform(0, 1)), frozenset(rng.choice(names, rng.integers(1, 6), replace=False).tolist()))
            for _ in range(25)
        ]
        rates = {name: float(rng.uniform(0, 0.9)) for name in names}
        exact = enumerated(releases, rates)
        assert exact - 1e-12 <= gl.privacy.ground_truth(releases, gl.MCAR(rates)) <= exact + 1e-8 * (1 + exact)


@given(instances(), st.integers(1, 4))
def test_where_tables_are_too_wide_the_figure_is_above_the_exact_one_and_below_the_sum(instance, width):
    releases, rates = instance
    sets = merge_releases(releases)
    bound = independent_loss(sets, {name: 1 - rate for name, rate in rates.items()}, width=width)
    assert enumerated(releases, rates) - 1e-12 <= bound <= math.fsum(sets.values()) + 1e-12


@given(instances(), st.data())
def test_it_falls_with_every_rate_and_grows_with_every_loss(instance, data):
    releases, rates = instance
    figure = gl.privacy.ground_truth(releases, gl.MCAR(rates))
    name = data.draw(st.sampled_from(sorted(rates)))
    rarer = rates | {name: rates[name] * data.draw(st.floats(0, 1))}
    more = [*releases, (data.draw(st.floats(0, 1)), frozenset({name}))]
    for columns in ("independent", "dependent"):
        figure = gl.privacy.ground_truth(releases, gl.MCAR(rates, columns=columns))
        assert gl.privacy.ground_truth(releases, gl.MCAR(rarer, columns=columns)) >= figure - 1e-8
        assert gl.privacy.ground_truth(more, gl.MCAR(rates, columns=columns)) >= figure - 1e-8


@given(instances())
def test_at_rate_zero_it_is_the_sum_of_the_losses(instance):
    releases, rates = instance
    total = math.fsum(loss for loss, _ in releases)
    for kind in (gl.MCAR, gl.privacy.MissingAtLeast):
        assert math.isclose(gl.privacy.ground_truth(releases, kind(dict.fromkeys(rates, 0.0))), total, abs_tol=1e-12)


@given(instances())
def test_any_relation_between_columns_is_covered_by_the_robust_figure(instance):
    releases, rates = instance
    robust = gl.privacy.ground_truth(releases, gl.privacy.MissingAtLeast(rates))
    assert gl.privacy.ground_truth(releases, gl.MCAR(rates)) <= robust + 1e-8
    # Blocks of columns that go missing together: the larger rate of a block is the chance of its gap.
    order = sorted(rates, key=lambda name: rates[name])
    half = {name: "first" if i < len(order) // 2 else "second" for i, name in enumerate(order)}
    least = {block: min([rates[n] for n in rates if half[n] == block], default=0.0) for block in ("first", "second")}
    blocks = [(loss, frozenset(half[name] for name in columns)) for loss, columns in releases]
    together = gl.privacy.ground_truth(releases, gl.privacy.MissingAtLeast({n: least[half[n]] for n in rates}))
    assert gl.privacy.ground_truth(blocks, gl.MCAR(least)) <= together + 1e-8


@given(instances(), instances())
def test_figures_of_two_ledgers_add_up_to_less_than_the_figure_of_both(first, other):
    rates = first[1] | other[1]
    both = gl.privacy.ground_truth([*first[0], *other[0]], gl.MCAR(rates))
    apart = gl.privacy.ground_truth(first[0], gl.MCAR(rates)) + gl.privacy.ground_truth(other[0], gl.MCAR(rates))
    assert both >= apart - 1e-7


def partitions_of(releases, rates):
    """Every valid partition, slowly: a block or none for each release, blocks equal or disjoint."""
    options = [
        [frozenset(block) for size in range(len(columns) + 1) for block in combinations(sorted(columns), size)]
        for _, columns in releases
    ]

    def go(place, chosen):
        if place == len(releases):
            yield list(chosen)
            return
        for block in options[place]:
            if all(block == other or not block & other for other in chosen):
                yield from go(place + 1, [*chosen, block])

    for blocks in go(0, []):
        groups = {}
        for (loss, _), block in zip(releases, blocks, strict=True):
            groups[block] = groups.get(block, 0.0) + loss
        chance = {block: math.prod(1 - rates[name] for name in block) for block in groups}
        yield (
            sum(chance[block] * loss for block, loss in groups.items()),
            sum(amplified_epsilon(chance[block], loss) for block, loss in groups.items()),
        )


@examples(40)
@given(instances(most_columns=5, most_releases=4))
def test_branch_and_bound_finds_the_best_partition_and_f_is_below_every_rigorous_one(instance):
    releases, rates = instance
    every = list(partitions_of(releases, rates))
    linear, rigorous = best_partition(releases, rates, price=operator.mul), best_partition(releases, rates)
    assert linear.exact
    assert rigorous.exact
    assert math.isclose(linear.cost, min(cost for cost, _ in every), abs_tol=1e-9)
    assert math.isclose(rigorous.cost, min(other for _, other in every), abs_tol=1e-9)
    assert gl.privacy.ground_truth(releases, gl.MCAR(rates)) <= min(other for _, other in every) + 1e-8


@given(instances())
def test_the_comonotone_figure_never_falls_below_the_share_that_is_always_read(instance):
    releases, rates = instance
    always = math.fsum(loss for loss, columns in releases if not columns)
    assert comonotone_loss(merge_releases(releases), {name: 1 - rate for name, rate in rates.items()}) >= always - 1e-12
