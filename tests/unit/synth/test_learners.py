"""Learning from released tables: warm starts, and the noise of tables that were measured repeatedly."""

import numpy as np
import pytest

from gapless.model.marginal import Measurement, reconcile
from gapless.synth.learners import noise_of
from gapless.synth.measurements import Measurements
from helpers.fitted_letters import PAIRS, WHOLE


def test_a_mixture_follows_tables_nearby_from_where_it_was():
    """In fewer steps: of the way to other tables at most a tenth is left."""
    rng = np.random.default_rng(1)
    tables = [Measurement(pair, rng.uniform(50, 150, shape), 20.0) for pair, shape in PAIRS.items()]
    measurements = Measurements(kind="mixture", tables=tuple(tables), extended=True)
    start = measurements.learn(WHOLE, follow_noise=True)
    other = measurements.resampled(rng)
    moved = other.learn(WHOLE, follow_noise=True, start=start)
    agreed = reconcile((3, 2, 4), other.tables, other.total)
    before, after = (
        sum(np.abs(model.filled.marginal(pair) * other.total - agreed[pair][0]).sum() for pair in PAIRS)
        for model in (start, moved)
    )
    assert after < before / 10


def test_repeated_measurements_are_known_better():
    known = [((0,), 3.0), ((0,), 4.0), ((1,), 5.0)]
    measured = [Measurement(columns, np.zeros(2), noise_std) for columns, noise_std in known]
    assert noise_of(measured) == {(0,): pytest.approx(2.4), (1,): pytest.approx(5.0)}
