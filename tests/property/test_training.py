"""Sums of clipped gradients on random neighbouring tables: they move by no more than Δ, and only by rows that are read.

The same steps of the grid as the mechanism adds noise to, before noise; every subset of rows is a lot that chance may
have drawn, so all rows are drawn here. Networks are taken far from their start, where gradients are long.
"""

import math
import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gapless.data.training import training_rows
from gapless.model.neural.descent import PredictionTask, PredictionTraining
from gapless.model.neural.layers import Attention, Chain, Embedding, Linear, MaskedLinear, ReLU, Sum
from gapless.privacy import PrivateTraining, Rows, Sampled
from gapless.privacy.sgd import BLOCK, GRID_BITS, SLACK, SUM_BITS, ExactSum
from gapless.synth.sequential.kamino import masked_network
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import NoNoise
from helpers.chunked_engine import chunked
from helpers.examples import examples
from helpers.open_sealed import reveal
from helpers.optimizers import plain_steps

SIZES = (2, 3, 2)
SCHEMA = letters_schema(SIZES)
EXTENDED = tuple(column.extended_size for column in SCHEMA.columns)
OBSERVED = tuple(column.size for column in SCHEMA.columns)
LETTERS = [
    [*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)
]
INTO, OUT = np.repeat(np.arange(3), EXTENDED), np.repeat(np.arange(3), OBSERVED)
SHARED = Sum(
    (
        MaskedLinear(INTO[:, None] < OUT),
        Chain((MaskedLinear(INTO[:, None] < np.array([1, 2, 1, 2])), ReLU(), MaskedLinear(np.ones((4, OUT.size)) > 0))),
    )
)
COLUMN = Chain((Embedding(EXTENDED[:2], 3), Attention(2, 3), Linear(3, 4), ReLU(), Linear(4, 2)))
POINTS = tuple(np.random.default_rng(5).standard_normal((size, size)) for size in EXTENDED)
PROGRAMS = {
    "shared": (SHARED, {"given": (0, 1, 2), "sizes": EXTENDED, "targets": (0, 1, 2), "cells": OBSERVED}),
    "by points": (
        masked_network(EXTENDED, OBSERVED, (2, 0, 1), 4),
        {"given": (0, 1, 2), "sizes": EXTENDED, "targets": (0, 1, 2), "cells": OBSERVED, "points": POINTS},
    ),
    "column": (COLUMN, {"given": (0, 1), "sizes": EXTENDED[:2], "targets": (2,), "cells": (2,), "coded": True}),
}

row = st.tuples(*(st.sampled_from(letters) for letters in LETTERS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=8), st.lists(row, min_size=1, max_size=k))
)


def program(kind, scale, seed):
    network, cells = PROGRAMS[kind]
    begin = scale * np.random.default_rng(seed).standard_normal(sum(network.shapes))
    return PredictionTraining(
        network=network, cells=PredictionTask(**cells), optimizer=plain_steps(), batch_size=1.0,
        initial=begin,
    )  # fmt: skip


def moved(trained, clip, table, **more):
    """The first step's sum in steps of the grid: what a step of rate 1 without noise has moved the parameters by."""
    value = reveal(training_rows(table, trained, **more), table.ledger)
    mechanism = PrivateTraining(rate=1.0, steps=1, clip=clip, std=1.0, numbers=trained.numbers)
    return (trained.initial - mechanism(value, NoNoise())) / (clip * 2.0**-20)


settings_of_a_network = st.tuples(
    st.sampled_from(list(PROGRAMS)), st.sampled_from([0.1, 1.0, 30.0]), st.integers(0, 99), st.sampled_from([0.25, 2.0])
)


@examples(120)
@given(pair=neighbours, chosen=settings_of_a_network, cut=st.integers(1, 4), before=st.sampled_from([0, BLOCK - 1]))
def test_a_sum_moves_by_no_more_than_its_distance(pair, chosen, cut, before):
    k, rows, more = pair
    kind, scale, seed, clip = chosen
    rows = [("a", "a", "b")] * before + rows  # the added rows may begin a new block
    folder = Path(tempfile.mkdtemp())
    trained = program(kind, scale, seed)
    tables = [private(r, SCHEMA, folder, protect=Rows(k)) for r in (rows, more[:1] + rows + more[1:])]
    assert training_rows(tables[0], trained).distance == Sampled(k)
    less, greater = (moved(trained, clip, table) for table in tables)
    far = np.linalg.norm(np.rint(greater) - np.rint(less)) / 2**20
    assert far <= len(more) * (1 + math.sqrt(trained.numbers) * 2.0**-20 + SLACK)
    assert np.array_equal(moved(trained, clip, chunked(tables[1], cut)), greater)


@examples(40)
@given(
    rows=st.lists(row, max_size=12), coming=row, chosen=settings_of_a_network, before=st.sampled_from([0, BLOCK - 2])
)
def test_a_row_adds_the_same_vector_in_every_batch(rows, coming, chosen, before):
    """In integers of any length: a sum with the row less one without it is the vector of a lot of this row alone."""
    kind, scale, seed, clip = chosen
    trained, folder = program(kind, scale, seed), Path(tempfile.mkdtemp())
    mechanism = PrivateTraining(rate=1.0, steps=1, clip=clip, std=1.0, numbers=trained.numbers)

    def exact_sum(*batch):
        table = private(list(batch), SCHEMA, folder)
        total = ExactSum.zeros(trained.numbers)
        with np.errstate(all="ignore"):
            for block in reveal(training_rows(table, trained), table.ledger).poisson_sample(
                lambda many: np.ones(many, dtype=bool)
            ):
                total.add(mechanism.clipped(trained.gradients(trained.start(), block), block.rows))
        return total.high.astype(object) * 2 ** (SUM_BITS - GRID_BITS) + total.low.astype(object), total.rounded()

    others = [("a", "a", "b")] * before + rows
    (without, steps_without), (with_it, steps_with), (alone, _) = (
        exact_sum(*others), exact_sum(coming, *others), exact_sum(coming)
    )  # fmt: skip
    assert (with_it - without).tolist() == alone.tolist()
    assert sum(number * number for number in alone) <= (2**SUM_BITS * (1 + 2.0**-15)) ** 2
    # Rounding to the grid moves each number by less than a step.
    apart = (steps_with - steps_without).astype(object) * 2 ** (SUM_BITS - GRID_BITS) - alone
    assert all(abs(number) < 2 ** (SUM_BITS - GRID_BITS) for number in apart)


@examples(60)
@given(rows=st.lists(row, max_size=8), coming=row, seed=st.integers(0, 99), needs=st.sampled_from([[0], [1], [0, 2]]))
def test_a_row_with_a_gap_in_what_is_needed_changes_nothing(rows, coming, seed, needs):
    names = [SCHEMA.names[place] for place in needs]
    folder = Path(tempfile.mkdtemp())
    trained = program("shared", 1.0, seed)
    less, greater = (private(r, SCHEMA, folder) for r in (rows, [*rows, coming]))
    before, after = (moved(trained, 1.0, table, needs=names) for table in (less, greater))
    if any(coming[place] in (None, "-") for place in needs):
        assert np.array_equal(before, after)
    assert training_rows(less, trained, needs=names).reads == set(names)
