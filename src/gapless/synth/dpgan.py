"""DPGAN: a generator of rows, and a critic that is trained privately."""

from __future__ import annotations

from dataclasses import dataclass

from gapless.synth.adversarial import Adversarial


@dataclass(frozen=True, slots=True, kw_only=True)
class DPGAN(Adversarial):
    """A generator against a critic that sees private rows through noisy sums of clipped gradients alone.

    The generator is a network with one hidden layer that turns noise into chances for each column's cells; the critic
    looks at pairs of columns (`gapless.model.neural.adversarial`). The fitted model carries its critic, which was paid
    for with it: `CriticWeights(model)` are free. With `Extended()` gaps are cells, and are filled by the chances of the
    other cells for the same noise; columns by themselves then have the law of what is observed in them.

    Args:
        missing: what to do about gaps.
        steps: how many steps the training has; by default 100.

    References: Xie, Lin, Wang, Wang, Zhou 2018.
    """

    name = "dpgan"
