"""Rules on random rows and distributions: partners against all pairs, chosen combinations against values they allow.

And pairs in buckets on neighbouring tables, chance coupled: they move by no more than their distance.
"""

import tempfile
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.constraints.compatible import PairRule
from gapless.constraints.rules import parse_constraint
from gapless.constraints.violations import (
    ValueRanges,
    conflict_weights,
    partner_weights,
    select_rows,
    terms_hold,
    violations,
)
from gapless.data.workload import violating_pairs
from gapless.privacy import L1, Rows
from gapless.schema import Constraint
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise
from helpers.chunked_engine import chunked
from helpers.examples import examples
from helpers.open_sealed import reveal

SCHEMA = gl.Schema(
    "numbers",
    [
        gl.Integer("a", bounds=(0, 11), edges=(0, 1, 4, 6, 11), may_be_missing=True),
        gl.Integer("b", bounds=(0, 11), bins=3, may_be_missing=True),
        gl.Number("c", bounds=(0, 12), bins=4, may_be_missing=True),
        gl.Integer("d", bounds=(0, 3)),
    ],
)
SIGNS = ["==", "!=", "<", "<=", ">", ">="]
COMPARED = [
    f"t{row}.{column} t{other}.{another}" for row, column, other, another in product("12", "abcd", "12", "abcd")
]
WITH_VALUES = [f"t{row}.{cell}" for row in "12" for cell in ("a >= 4", "b < 4", "c >= 6", "d == 2")]

term = st.one_of(
    st.sampled_from(WITH_VALUES),
    st.builds(lambda places, sign: places.replace(" ", f" {sign} "), st.sampled_from(COMPARED), st.sampled_from(SIGNS)),
)
rules = st.lists(term, min_size=1, max_size=3).map(
    lambda terms: parse_constraint(Constraint(" and ".join(terms)), SCHEMA)
)
between = rules.filter(lambda rule: rule.is_between_rows and not rule.forbids_equal_rows)
seeds = st.integers(0, 2**32)


def random_numbers(rng, rows):
    """Cells of up to three values, some without any."""
    found = {}
    for column in range(4):
        low = rng.integers(0, 4, rows).astype(float)
        high = low + rng.integers(0, 3, rows) * (rng.random() < 0.7)
        at = np.floor((low + high) / 2)
        nothing = rng.random(rows) < 0.15
        found[column] = ValueRanges(*(np.where(nothing, np.nan, ends) for ends in (at, low, high)))
    return found


@examples(150)
@given(rule=rules, rows=st.integers(0, 12), others=st.integers(0, 12), seed=seeds)
def test_partners_are_those_of_all_pairs(rule, rows, others, seed):
    rng = np.random.default_rng(seed)
    first, second = random_numbers(rng, rows), random_numbers(rng, others)
    weights = rng.integers(1, 5, others).astype(float)
    across = select_rows(first, np.s_[:, None]), select_rows(second, np.s_[None, :])
    for reading in ("value", "may"):
        pairs = np.broadcast_to(terms_hold(rule.terms, *across, reading=reading), (rows, others))
        assert np.allclose(partner_weights(rule.terms, first, second, weights, reading=reading), pairs @ weights)
    if rule.is_between_rows:
        one_way = np.broadcast_to(
            terms_hold(rule.terms, select_rows(first, np.s_[:, None]), select_rows(first, np.s_[None, :])), (rows, rows)
        )
        either = one_way | one_way.T
        assert np.array_equal(conflict_weights(rule, first, np.ones(rows)), either.sum(axis=1))
        np.fill_diagonal(either, val=False)
        found = violations(rule, first)
        assert found.rows == either.any(axis=1).sum()
        assert found.pairs == pytest.approx(either.sum() / max(1, rows * (rows - 1)))
        weights = rng.integers(0, 4, rows).astype(float)
        by_weight, mass = violations(rule, first, weights), np.outer(weights, weights)
        np.fill_diagonal(mass, 0)
        assert by_weight.pairs == pytest.approx((either * mass).sum() / max(1, mass.sum()))
        broken = (either & (weights > 0)).any(axis=1)  # with a row that counts
        assert by_weight.share == pytest.approx(weights @ broken / max(1, weights.sum()))


@examples(150)
@given(rule=between, seed=seeds, at_random=st.booleans())
def test_rows_of_chosen_combinations_keep_the_rule_for_all_values(rule, seed, at_random):
    rng = np.random.default_rng(seed)
    pair_rule = PairRule(rule, SCHEMA)
    probabilities = rng.random([SCHEMA.columns[c].size for c in pair_rule.columns]) ** 4
    chosen = pair_rule.choose(*pair_rule.combinations(probabilities), rng, at_random=at_random)
    rows = 60
    codes = np.stack([rng.integers(0, column.extended_size, rows) for column in SCHEMA.columns], axis=1)
    before = codes.copy()
    was_broken = chosen.violates(codes)
    chosen.repair(codes, lambda: rng.random(rows))
    assert np.array_equal(codes[~was_broken], before[~was_broken])
    assert ((codes != before).sum(axis=1) <= 1).all()
    codes = codes[~chosen.violates(codes)]
    values = [column.draw_positions(None, codes[:, c], rng) for c, column in enumerate(SCHEMA.columns)]
    free = [known.copy() for known in values]
    chosen.pin(codes, values)
    assert violations(rule, {c: ValueRanges.exactly(known) for c, known in enumerate(values)}).rows == 0
    for column, known, drawn in zip(SCHEMA.columns, values, free, strict=True):  # in the same bins as before
        valued = ~np.isnan(known)
        assert np.array_equal(np.isnan(drawn), ~valued)
        assert np.array_equal(column.bin_of(known[valued]), column.bin_of(drawn[valued]))


@examples(25)
@given(seed=seeds, weight=st.floats(0.1, 30))
def test_a_weight_makes_violations_rarer_and_a_share_is_reached(seed, weight):
    rng = np.random.default_rng(seed)
    pair_rule = PairRule(parse_constraint(Constraint("t1.a == t2.a and t1.b != t2.b"), SCHEMA), SCHEMA)
    probabilities = rng.random((4, 3)) ** 3
    cells, probabilities = pair_rule.combinations(probabilities / probabilities.sum())
    plain = pair_rule.reweight(cells, probabilities, share=1.0)
    assert plain.acceptance.min() == plain.default_acceptance == 1.0
    assert pair_rule.reweight(cells, probabilities, weight=weight).violating_share <= plain.violating_share + 1e-9
    aim = plain.violating_share / 2
    assert 0.8 * aim <= pair_rule.reweight(cells, probabilities, share=aim).violating_share <= aim
    assert pair_rule.reweight(cells, probabilities / 2, share=1.0).violating_share == pytest.approx(
        plain.violating_share / 4
    )  # half have no values


# ---------------------------------------------------------------------- pairs in buckets

LETTERS = letters_schema((2, 3, 2))
CELLS = [["a", "b", None], ["a", "b", "c", None, "-", "n/a"], ["a", "b", None]]
DECIDES = "t1.x0 == t2.x0 and t1.x1 != t2.x1"
row = st.tuples(*(st.sampled_from(cells) for cells in CELLS))


@examples(60)
@given(
    rows=st.lists(row, max_size=12),
    more=st.lists(row, min_size=1, max_size=3),
    buckets=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_pairs_in_buckets_keep_their_distance(rows, more, buckets, seed):
    k, folder = len(more), Path(tempfile.mkdtemp())
    raw = []
    for people in (rows, rows + more):
        table = private(people, LETTERS, folder, protect=Rows(k))
        value = violating_pairs(table, DECIDES, buckets=buckets)
        assert value.distance == L1(k)
        assert value.reads == {"x0", "x1"}
        with fixed_noise(seed):  # rows that both tables have are put into the same buckets
            raw.append(reveal(value, table.ledger))
    assert np.abs(raw[1] - raw[0]).sum() <= k
    unseen = all(row[0] is None or row[1] in (None, "-") for row in more)
    assert not unseen or np.array_equal(*raw)


@examples(60)
@given(rows=st.lists(row, max_size=14), buckets=st.integers(1, 6), seed=st.integers(0, 1000), size=st.integers(1, 5))
def test_pairs_in_buckets_are_those_of_the_rows_in_every_engine(rows, buckets, seed, size):
    table = private(rows, LETTERS, Path(tempfile.mkdtemp()))
    found = []
    for some_table in (table, chunked(table, size)):
        with fixed_noise(seed):
            found.append(reveal(violating_pairs(some_table, DECIDES, buckets=buckets), table.ledger).tolist())
    with fixed_noise(seed) as source:
        buckets_of_rows = source.uniform_words(len(rows)) % np.uint64(buckets)
    held = [[] for _ in range(buckets)]
    for first, word in zip(rows, buckets_of_rows.tolist(), strict=True):
        if first[0] is not None and first[1] not in (None, "-"):
            held[int(word)].append(first)
    pairs = [
        first[0] == other[0] and first[1] != other[1] and "n/a" not in (first[1], other[1])
        for first, other in (bucket for bucket in held if len(bucket) == 2)
    ]
    assert found == [[sum(pairs), len(pairs) - sum(pairs)]] * 2
