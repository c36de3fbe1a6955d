"""DPautoGAN: an autoencoder that is trained privately, and a generator of what its decoder takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless.data.training import train
from gapless.model.marginal import Floats, estimate_total
from gapless.model.neural.adversarial import Side
from gapless.model.neural.descent import Cells, Descent, begun
from gapless.model.neural.layers import Chain, Linear
from gapless.model.neural.optimizers import Adam, Cosine
from gapless.synth.adversarial import RATE, WARMUP, Adversarial, rows_side
from gapless.synth.fitting import Fitting

CODE = 15  # numbers that a row is told by
AUTO_SHARE = 0.5  # of what columns leave of the budget, for the autoencoder
AUTO_RATE, AUTO_CLIP = 0.02, 2.0  # of its steps; the length that gradients are cut to


@dataclass(frozen=True, slots=True, kw_only=True)
class DPautoGAN(Adversarial):
    """As `DPGAN`, with a generator that ends in the decoder of an autoencoder.

    First a linear map of a row's cells to few numbers and one back, to the logits of all cells, are trained to foretell
    the row; then a generator of these numbers against a critic of decoded rows. Each training has half of what the
    tables of one column leave. [MD]'s baseline among generative networks, on complete rows.

    Guarantee: two trainings in place of one.

    Args:
        missing: what to do about gaps.
        steps: how many steps each training has; by default 100.

    References: Tantipongpipat, Waites, Boob, Siva, Cummings 2021.
    """

    name = "dpautogan"

    def sides(self, fitting: Fitting, laws: Sequence[Floats], *, several: bool) -> list[Side]:
        """Rows, from what the decoder takes."""
        side = rows_side(fitting, laws, fitting.sizes)
        if not several:
            return [side]
        steps = self.many_steps
        shown, every = tuple(map(len, side.lines)), tuple(range(len(fitting.sizes)))
        points = tuple(np.asarray(lines) for lines in side.lines)
        network = Chain((Linear(sum(fitting.sizes), CODE), Linear(CODE, sum(fitting.sizes), gain=0.0)))
        place = sum(network.shapes) - sum(fitting.sizes)
        program = Descent(
            network=network,
            cells=Cells(given=every, sizes=shown, targets=every, cells=fitting.sizes, points=points),
            optimizer=Adam(rate=Cosine(rate=AUTO_RATE, steps=steps, warmup=WARMUP)),
            lot=RATE * max(1.0, estimate_total(fitting.measured)),
            begin=begun(network, side.generator.bias, place=place),
        )
        trained = train(
            fitting.prepared,
            program,
            fitting.grant,
            spend=fitting.grant.left * AUTO_SHARE,
            rate=RATE,
            steps=steps,
            clip=AUTO_CLIP,
            what="autoencoder",
            progress=lambda step, _: fitting.tell("training the autoencoder", step, steps),
        )
        _, (decoder, _) = network.unpack(trained.value)
        return [rows_side(fitting, laws, fitting.sizes, decoder=decoder)]
