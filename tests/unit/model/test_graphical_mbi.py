"""The loss we reach against mbi's mirror descent, on domains too large to write out."""

import numpy as np
import pytest

from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Measurement

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

STRUCTURES = {
    "10 columns, 17 pairs": (
        [2, 3, 12, 5, 4, 7, 6, 9, 3, 8],
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9), (0, 2), (2, 4), (4, 6), (6, 8), (1, 3),
         (5, 7), (7, 9), (0, 9)],
    ),
    "12 columns, 10 triples": ([4] * 12, [(i, i + 1, i + 2) for i in range(10)]),
    "8 columns, star with nested marginals": ([5] * 8, [(0, i) for i in range(1, 8)] + [(i,) for i in range(8)]),
}  # fmt: skip


@pytest.mark.parametrize("noise_std", [5.0, 50.0])
@pytest.mark.parametrize("name", STRUCTURES)
def test_loss_is_no_higher_than_mbi(name, noise_std):
    mbi = pytest.importorskip("mbi")
    import jax

    jax.config.update("jax_enable_x64", True)
    sizes, marginals = STRUCTURES[name]
    rng = np.random.default_rng(7)
    total = 20_000
    hidden = rng.integers(0, 6, total)
    data = [np.where(rng.random(total) < 0.6, hidden % size, rng.integers(0, size, total)) for size in sizes]
    measurements = []
    for number, columns in enumerate(marginals):
        shape = [sizes[column] for column in columns]
        cell = np.ravel_multi_index([data[column] for column in columns], shape)
        counts = np.bincount(cell, minlength=np.prod(shape)).reshape(shape)
        std = noise_std * (1 + number % 3)
        measurements.append(Measurement(columns, counts + rng.normal(0, std, shape), std))
    domain = mbi.Domain.fromdict({str(column): size for column, size in enumerate(sizes)})
    theirs = mbi.estimation.MirrorDescent().estimate(
        domain,
        [mbi.LinearMeasurement(m.counts.ravel(), tuple(map(str, m.columns)), m.noise_std) for m in measurements],
        known_total=float(total),
        iters=1000,
    )
    loss = sum(
        0.5 * float((((np.asarray(theirs.project(tuple(map(str, m.columns))).datavector()).reshape(m.counts.shape)
                       - m.counts) / m.noise_std) ** 2).sum())
        for m in measurements
    )  # fmt: skip
    ours = GraphicalModel.fit(sizes, measurements, total=total, polish=1000)
    assert ours.loss(measurements) <= loss * (1 + 1e-4)
