"""MisGAN: a generator of rows and one of gaps, against critics that see rows with their gaps ([MD] Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from gapless.missing import CompleteRows, ImputeFirst, Missing, Observed
from gapless.model.distribution import Distribution
from gapless.model.generative import GappedGenerator, GeneratorModel, network
from gapless.model.marginal import Floats
from gapless.model.neural.adversarial import Generator, Side
from gapless.synth.adversarial import HIDDEN, NOISE, Adversarial, rows_side
from gapless.synth.fitting import Fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class MisGAN(Adversarial):
    """Two generators, of complete rows and of masks: DP-MisGAN ([MD] Algorithm 1), with a guarantee that holds.

    One critic sees private rows with their gaps beside made rows with made gaps, the other one masks alone. The
    gradients of both for one row are clipped together, so that one noise a step pays for both. In [MD] critics see rows
    without noise, and the generators' gradients get it: the cost stated there is too small by far
    (docs/proofs/synthesizers.md). With `Observed()` all rows are read, masks included, and rows with gaps can be
    sampled; masks do not hang on rows. With the other treatments there is no mask, and nothing but `DPGAN` is left.

    Args:
        missing: what to do about gaps.
        steps: how many steps the training has; by default 100.

    References: Li, Jiang, Marlin 2019.
    """

    name = "misgan"
    treatments = (Observed, CompleteRows, ImputeFirst)
    learns_gaps = (Observed,)

    missing: Missing = field(default_factory=Observed)

    def sides(self, fitting: Fitting, laws: Sequence[Floats], *, several: bool) -> list[Side]:
        """Rows, and masks if they are read."""
        del several
        columns = fitting.schema.columns
        rows = rows_side(fitting, laws, [column.size for column in columns])
        if not any(column.gaps for column in columns) or not fitting.extended:
            return [rows]
        states = _states(fitting, laws)
        heads = [np.eye(len(law))[:, 1:] - law[1:] for law in states]
        lines = [
            points[np.r_[np.zeros(column.size, dtype=np.int64), 1 : len(points)]]
            for points, column in zip(heads, columns, strict=True)
        ]
        sizes = tuple(map(len, states))
        generator = Generator(
            network=network(NOISE, HIDDEN, sum(sizes)),
            sizes=sizes,
            noise=NOISE,
            bias=np.log(np.concatenate(states)),
        )
        return [rows, Side.of(generator, lines, heads)]

    def model(
        self, fitting: Fitting, made: Sequence[GeneratorModel], laws: Sequence[Floats]
    ) -> tuple[Distribution, Distribution | None]:
        """Complete rows; and the same with made gaps."""
        columns = fitting.schema.columns
        cells = [law[: column.size] / law[: column.size].sum() for law, column in zip(laws, columns, strict=True)]
        rows = made[0].raked(cells)
        if not fitting.extended:
            return rows, None
        if len(made) == 1:
            return rows, rows
        return rows, GappedGenerator(rows, made[1].raked(_states(fitting, laws)))


def _states(fitting: Fitting, laws: Sequence[Floats]) -> list[Floats]:
    """The law of each column's states: no gap, then each kind of gap."""
    columns = fitting.schema.columns
    return [np.r_[law[: c.size].sum(), law[c.size :]] for law, c in zip(laws, columns, strict=True)]
