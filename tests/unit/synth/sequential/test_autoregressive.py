"""Distributions column by column, against all of their rows written out."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from gapless.errors import ModelError
from gapless.model.distribution import CanFill, HasMarginal
from gapless.synth.sequential import autoregressive
from gapless.synth.sequential.autoregressive import (
    AutoregressiveModel,
    ColumnConditional,
    ColumnConditionals,
    SharedConditionals,
    attention_network,
    complete_gaps,
)
from gapless.synth.sequential.kamino import masked_network

SIZES = (3, 2, 4)
ORDER = (1, 2, 0)


def shared(sizes=SIZES, order=ORDER, *, seed=0, hidden=5, points=None):
    network = masked_network(sizes, sizes, order, hidden)
    numbers = 0.7 * np.random.default_rng(seed).standard_normal(sum(network.shapes))
    points = points or [np.eye(size) for size in sizes]
    return SharedConditionals.of(network.unpack(numbers), order, sizes, points)


def columns(sizes=SIZES, order=ORDER, *, seed=0, width=4):
    rng = np.random.default_rng(seed)
    conditionals = []
    for place, column in enumerate(order):
        given = tuple(sizes[other] for other in order[:place])
        many = sum(attention_network(given, sizes[column], width).shapes) if given else sizes[column]
        conditionals.append(ColumnConditional(given, sizes[column], sizes[column], width, rng.standard_normal(many)))
    return ColumnConditionals(order, tuple(conditionals))


KINDS = {"shared": shared, "columns": columns}


def every_row(sizes=SIZES):
    return np.array(list(product(*map(range, sizes))), dtype=np.int64)


def chances(conditionals):
    """Of every row, by the definition."""
    rows = every_row(conditionals.sizes)
    logs = np.zeros(len(rows))
    for column in conditionals.order:
        logits = conditionals.logits(column, rows)
        logs += logits[np.arange(len(rows)), rows[:, column]] - np.log(np.exp(logits).sum(axis=1))
    return np.exp(logs)


def shares(codes, sizes=SIZES):
    places = np.ravel_multi_index(tuple(codes.T.astype(np.int64)), sizes)
    return np.bincount(places, minlength=np.prod(sizes)) / len(codes)


@pytest.mark.parametrize("kind", KINDS)
def test_chances_add_up_and_no_column_sees_what_comes_after_it(kind):
    conditionals = KINDS[kind]()
    assert chances(conditionals).sum() == pytest.approx(1)
    rows = every_row()
    for place, column in enumerate(ORDER):
        other = rows.copy()
        other[:, ORDER[place:]] = 0
        assert np.array_equal(conditionals.logits(column, rows), conditionals.logits(column, other))


def test_the_logits_of_a_shared_network_are_its_outputs():
    rng = np.random.default_rng(1)
    points = [rng.standard_normal((size, size)) for size in SIZES]
    network = masked_network(SIZES, SIZES, ORDER, 6)
    numbers = rng.standard_normal(sum(network.shapes))
    rows = every_row()
    inputs = np.concatenate([part[codes] for part, codes in zip(points, rows.T, strict=True)], axis=1)
    outputs, _ = network.forward(network.unpack(numbers), inputs)
    conditionals = SharedConditionals.of(network.unpack(numbers), ORDER, SIZES, points)
    for column, start in enumerate(conditionals.starts[:-1]):
        assert conditionals.logits(column, rows) == pytest.approx(outputs[:, start : start + SIZES[column]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("memory", [1 << 20, 16])
def test_scores_are_the_distributions_given_all_other_columns(kind, memory, monkeypatch):
    monkeypatch.setattr(autoregressive, "_CELLS", memory)
    conditionals = KINDS[kind]()
    table, rows = chances(conditionals).reshape(SIZES), every_row()
    for column in range(3):
        given = np.moveaxis(table, column, -1)[tuple(np.delete(rows, column, axis=1).T)]
        found = np.exp(conditionals.scores(column, rows))
        assert found / found.sum(axis=1, keepdims=True) == pytest.approx(given / given.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_sample_is_closer_to_the_model_than_independent_draws_and_repeats(kind):
    model = AutoregressiveModel(KINDS[kind]())
    joint = chances(model.conditionals)
    drawn = model.sample(20_000, np.random.default_rng(5))
    by_chance = np.random.default_rng(5).multinomial(20_000, joint) / 20_000
    assert np.abs(shares(drawn) - joint).sum() < np.abs(by_chance - joint).sum()
    assert np.array_equal(drawn, model.sample(20_000, np.random.default_rng(5)))
    assert model.sample(0, np.random.default_rng(5)).shape == (0, 3)


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_are_filled_from_the_distribution_given_the_observed_cells(kind):
    """One gap needs one sweep; several gaps need some: the first draws look at earlier columns alone."""
    model = AutoregressiveModel(KINDS[kind]())
    table = chances(model.conditionals).reshape(SIZES)
    for known in [{0: 2}, {2: 1}, {0: 0, 2: 3}, {1: 1, 2: 0}, {}]:
        given = np.full((20_000, 3), -1)
        given[:, list(known)] = list(known.values())
        rng = np.random.default_rng(0)
        filled = model.fill(given, lambda rng=rng: rng.random(20_000))
        assert all((filled[:, column] == code).all() for column, code in known.items())
        joint = np.zeros(SIZES)
        place = tuple(known.get(column, slice(None)) for column in range(3))
        joint[place] = table[place] / table[place].sum()
        assert np.abs(shares(filled) - joint.ravel()).sum() / 2 < 0.02, known


@pytest.mark.parametrize("kind", KINDS)
def test_a_filled_row_does_not_depend_on_other_rows(kind):
    sizes, order = (3, 4, 5, 2, 6, 3), (3, 0, 5, 1, 2, 4)
    model = AutoregressiveModel(KINDS[kind](sizes, order))
    rng = np.random.default_rng(0)
    given = np.stack([rng.integers(-1, size, 2_500) for size in sizes], axis=1)
    draws = [rng.random(2_500) for _ in range(6 * (1 + autoregressive.SWEEPS))]

    def filled(rows):
        calls = iter(draws)
        return model.fill(given[rows], lambda: next(calls)[rows])

    whole = filled(np.arange(2_500))
    for rows in (np.arange(300, 301), np.arange(1, 2_500, 2), np.arange(2_500)[::-1]):
        assert np.array_equal(filled(rows), whole[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_raking_brings_columns_to_their_tables_and_leaves_what_goes_together(kind):
    model = AutoregressiveModel(KINDS[kind]())
    targets = {0: np.array([0.5, 0.3, 0.2]), 2: np.array([0.1, 0.2, 0.3, 0.4])}
    raked = model.raked(targets)
    before, after = (chances(distribution.conditionals).reshape(SIZES) for distribution in (model, raked))
    assert after.sum(axis=(1, 2)) == pytest.approx(targets[0], abs=0.01)
    assert after.sum(axis=(0, 1)) == pytest.approx(targets[2], abs=0.01)
    assert after.sum(axis=(0, 2)) == pytest.approx(before.sum(axis=(0, 2)))
    pairs = [table.sum(axis=0) for table in (before, after)]  # columns 1 and 2: odds ratios are those of the network
    odds = [pair[0, 1:] * pair[1, :1] / (pair[0, :1] * pair[1, 1:]) for pair in pairs]
    assert odds[0] == pytest.approx(odds[1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_restricted_model_is_the_distribution_given_the_remaining_cells(kind):
    conditionals, left = KINDS[kind](), (2, 2, 3)
    cut = conditionals.restricted(left)
    rows = every_row(left)
    assert cut.sizes == left
    for column, size in enumerate(left):
        assert cut.logits(column, rows) == pytest.approx(conditionals.logits(column, rows)[:, :size])


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_hold_the_model(kind):
    model = AutoregressiveModel(KINDS[kind]().restricted((2, 2, 3)))
    again = AutoregressiveModel.from_arrays(model.to_arrays())
    assert type(again.conditionals) is type(model.conditionals)
    assert np.array_equal(*(distribution.sample(50, np.random.default_rng(1)) for distribution in (model, again)))


def test_capabilities():
    model = AutoregressiveModel(shared())
    assert isinstance(model, CanFill)
    assert not isinstance(model, HasMarginal)


def test_foreign_conditionals_are_refused():
    class Watching(ColumnConditional):
        pass

    conditionals = columns()
    watching = Watching(
        *(getattr(conditionals.conditionals[0], name) for name in ("given", "outputs", "cells", "width", "parameters"))
    )
    for foreign in (replace(conditionals, conditionals=(watching, *conditionals.conditionals[1:])), "text"):
        with pytest.raises(
            ModelError, match=r"conditionals must be .*\n  Try: use a model that the method kamino fitted"
        ):
            AutoregressiveModel(foreign)


def test_arrays_of_another_class_are_not_kept():
    """They would be asked for the numbers of a row."""

    class Watching(np.ndarray):
        def __getitem__(self, place):
            raise AssertionError("shown a row")

    conditionals, single = shared(), columns().conditionals[1]
    kept = replace(conditionals, skip=conditionals.skip.view(Watching), first=conditionals.first.view(Watching))
    assert type(kept.skip) is type(kept.first) is np.ndarray
    assert type(replace(single, parameters=single.parameters.view(Watching)).parameters) is np.ndarray


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_gaps_that_hang_on_another_column_are_completed(order):
    """Column 0 has a gap in 9 of 13 rows with 1 in column 1, and in no other: whichever comes first."""
    table = np.array([[0.36, 0.04], [0.12, 0.12], [0.0, 0.36]])
    truth = np.array([[0.36, 0.04 + 0.09], [0.12, 0.12 + 0.27]])  # gaps are as the observed ones beside the same 1
    filled = complete_gaps(AutoregressiveModel(pair_of(table, order)), (2, 2))
    assert chances(filled.conditionals).reshape(2, 2) == pytest.approx(truth, abs=0.012)


def pair_of(table, order):
    """The conditional distributions of two columns with this table."""
    table = np.maximum(table, 1e-9) / np.maximum(table, 1e-9).sum()
    first, second = order
    margin = table.sum(axis=second)
    given = np.log(table if first == 0 else table.T) - np.log(margin)[:, None]
    sizes = table.shape
    starts = np.cumsum([0, *sizes])
    skip = np.zeros((sum(sizes), sum(sizes)))
    skip[starts[first] : starts[first + 1], starts[second] : starts[second + 1]] = given
    bias = np.zeros(sum(sizes))
    bias[starts[first] : starts[first + 1]] = np.log(margin)
    nothing = np.zeros((sum(sizes), 0))
    return SharedConditionals(order, sizes, bias, skip, nothing, np.zeros(0), nothing.T)
