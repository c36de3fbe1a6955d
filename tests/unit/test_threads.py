"""Small matrix products take one thread: set once, wherever it is asked for, and set back at the end."""

import threading
from unittest import mock

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import gapless as gl
from gapless import threads
from gapless.data.private_logistic import Points, labelled_blocks, minimize
from gapless.model.distribution import Product
from gapless.privacy import Budget, PrivateTraining
from gapless.synth.marginal import factors_fit
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import NoNoise, fixed_noise
from gapless.threads import one_thread


def in_use():
    """The most threads that any library would take for a product now."""
    return max(library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas")


@pytest.fixture(autouse=True)
def two_threads():
    with threadpool_limits(2):
        yield


def test_one_thread_inside_and_as_many_as_before_afterwards():
    assert in_use() == 2
    with one_thread():
        assert in_use() == 1
        with one_thread():
            assert in_use() == 1
        assert in_use() == 1
    assert in_use() == 2
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert in_use() == 2
    assert one_thread()(in_use)() == 1


def test_a_second_thread_of_python_waits_until_the_first_has_left():
    """Else the first that leaves would give the other one all threads back, while it still computes."""
    entered = threading.Event()

    def other():
        with one_thread():
            entered.set()

    started = threading.Thread(target=other)
    with one_thread(), one_thread():  # the same thread may enter again
        started.start()
        assert not entered.wait(0.2)
        assert in_use() == 1
    assert entered.wait(30)
    started.join(30)
    assert in_use() == 2


class Watched:
    """A training that notes how many threads there are at each step."""

    numbers = 1

    def __init__(self):
        self.program, self.seen = self, []

    def start(self):
        return 0

    def follow(self, state, noisy, step):
        self.seen.append(in_use())
        return state + 1

    def outcome(self, state):
        return np.array([state])

    def poisson_sample(self, row_sampler):
        return iter(())

    def report_progress(self, steps):
        pass


def test_a_training_takes_one_thread_and_sets_it_once():
    mechanism, value = PrivateTraining(rate=0.1, steps=4, clip=1.0, std=1.0, numbers=1), Watched()
    with mock.patch.object(threads, "threadpool_limits", side_effect=threadpool_limits) as limits:
        mechanism(value, NoNoise())
    assert value.seen == [1] * 4
    assert limits.call_count == 1
    assert in_use() == 2


def test_fits_of_networks_and_samples_take_one_thread(tmp_path):
    rows = [("a", "b"), ("b", "a"), ("a", "a")] * 30
    table = private(rows, letters_schema([2, 2]), tmp_path, budget=Budget(3.0, 1e-6))
    seen = []
    for method in (gl.Kamino(steps=2), gl.synth.DPGAN(steps=2)):
        model = method.fit(
            table, spend=table.ledger.share("20%"), progress=lambda phase, *_: seen.append((phase, in_use()))
        )
    assert {phase for phase, _ in seen} >= {"measuring", "training"}
    assert {many for _, many in seen} == {1}
    model = gl.Independent().fit(table, spend=table.ledger.share("20%"))
    drawn = Product.sample
    with mock.patch.object(Product, "sample", lambda self, many, rng: seen.append(in_use()) or drawn(self, many, rng)):
        model.sample(10, seed=1)
    assert seen[-1] == 1
    assert in_use() == 2


def test_factors_are_fitted_in_one_thread_for_copies_too(tmp_path):
    """Else the first estimate takes a minute more on a busy machine."""
    rows = [("a", "b"), ("b", "a"), ("a", "a")] * 30
    table = private(rows, letters_schema([2, 2]), tmp_path, budget=Budget(3.0, 1e-6))
    seen, minimise = [], factors_fit._Problem.minimise

    def watched(self, *given):
        seen.append(in_use())
        return minimise(self, *given)

    with mock.patch.object(factors_fit._Problem, "minimise", watched):
        model = gl.Factors().fit(table, spend=table.ledger.left)
        fits = len(seen)
        assert len(model.copies(2).tables) == 2
    assert 0 < fits < len(seen)
    assert set(seen) == {1}
    assert in_use() == 2


def test_the_regression_of_weights_takes_one_thread():
    seen = []
    points = Points.of(letters_schema([2, 2]))

    def blocks():
        seen.append(in_use())
        return labelled_blocks(points([np.array([0, 1]), np.array([1, 1])]), 1.0)

    minimize(blocks, points, 1.0, tolerance=1e-3)
    assert set(seen) == {1}
    assert in_use() == 2


def test_a_fit_is_the_same_for_every_number_of_threads(tmp_path):
    rng = np.random.default_rng(0)
    rows = [tuple("abcde"[code] for code in row) for row in rng.integers(0, 5, (600, 6))]
    found = []
    for many in (1, 2):
        table = private(rows, letters_schema([5] * 6), tmp_path, budget=Budget(3.0, 1e-6))
        with threadpool_limits(many), fixed_noise(3):
            model = gl.Kamino(steps=5, hidden=16).fit(table, spend=table.ledger.left)
            found.append(model.sample(300, seed=2).to_polars())
    assert found[0].equals(found[1])
