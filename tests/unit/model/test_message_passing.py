"""Messages on a junction tree, and the sweeps that fit it."""

import numpy as np
import pytest

from gapless.errors import ModelError
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Measurement
from gapless.model.message_passing import ROW_STEPS, JunctionTreeInference
from helpers.noisy_tables import measured, wave


def test_contradicting_constraints_are_refused():
    left = np.array([True, False])
    with pytest.raises(ModelError, match=r"forbid every row\n  Try: remove one of the constraints"):
        GraphicalModel.fit((2,), [measured((0,), [3.0, 4.0])], zeros=[((0,), left), ((0,), ~left)])


def test_marginals_far_apart():
    sizes = (2, 3, 2, 3, 2, 2)
    chain = {(i, i + 1): np.log(wave(sizes[i], sizes[i + 1])) for i in range(5)}
    model = GraphicalModel(sizes, chain, 1.0)
    joint = model.marginal(range(6))
    pairs = [(5, 0), (0, 5), (1, 4), (2, 3), (3,), (0, 2, 5), ()]
    for columns, table in zip(pairs, model.marginals(pairs), strict=True):
        order = np.argsort(np.argsort(columns))
        summed = joint.sum(axis=tuple(column for column in range(6) if column not in columns))
        np.testing.assert_allclose(table, summed.transpose(order), atol=1e-15)


def test_extreme_potentials_stay_finite():
    opposed = {(0, 1): np.array([[0.0, -900.0], [-900.0, 0.0]]), (1, 2): np.array([[-900.0, -900.0], [0.0, 0.0]])}
    model = GraphicalModel((2, 2, 2), opposed, 1.0)
    np.testing.assert_allclose(model.marginal([0]), [0, 1], atol=1e-12)
    np.testing.assert_allclose(model.marginal([0, 2]), [[0, 0], [0.5, 0.5]], atol=1e-12)


def test_a_table_that_noise_explains_gets_no_further_sweeps(monkeypatch):
    sweep, calls = JunctionTreeInference.sweep, []
    monkeypatch.setattr(JunctionTreeInference, "sweep", lambda *given: (calls.append(1), sweep(*given))[1])
    table = 100.0 + np.random.default_rng(2).normal(0, 30, (6, 6))
    GraphicalModel.fit((6, 6), [Measurement((0, 1), table, 30.0)])
    assert len(calls) == len(ROW_STEPS)
