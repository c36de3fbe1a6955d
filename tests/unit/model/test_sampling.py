"""Rows drawn from a junction tree; their distribution is tested in tests/statistical/test_sampling.py."""

import numpy as np

from gapless.model.graphical import GraphicalModel
from helpers.noisy_tables import wave


def test_sampling_edge_cases():
    model = GraphicalModel((2, 1, 3), {(0, 2): np.log(wave(2, 3))}, 1.0)
    rng = np.random.default_rng(0)
    assert model.sample(0, rng).shape == (0, 3)
    assert model.fill(np.empty((0, 3), dtype=np.int64), lambda: np.empty(0)).shape == (0, 3)
    assert model.sample(1, rng).shape == (1, 3)
    known = np.full((4, 3), -1)
    known[:3, 2] = [0, 1, 2]
    assert model.fill(known, lambda: rng.random(4))[:3, 2].tolist() == [0, 1, 2]
    assert model.sample(9, np.random.default_rng(1)).tolist() == model.sample(9, np.random.default_rng(1)).tolist()


def test_impossible_evidence_is_kept():
    never = {(0, 1): np.where(np.eye(2), 0.0, -np.inf), (1, 2): np.zeros((2, 2))}
    rng, known = np.random.default_rng(0), np.array([[0, 1, -1], [1, 1, -1]])
    rows = GraphicalModel((2, 2, 2), never, 1.0).fill(known, lambda: rng.random(2))
    assert rows[:, :2].tolist() == [[0, 1], [1, 1]]
