"""MisGAN: a generator of rows and a generator of gaps, trained against critics of rows with gaps ([MD] Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from gapless.data.training import teacher_rows
from gapless.errors import ModelError
from gapless.missing import CompleteRows, ImputeFirst, Missing, Observed
from gapless.model.distribution import Distribution
from gapless.model.neural.descent import Adam, CosineSchedule
from gapless.privacy import SubsampledTeacher
from gapless.synth.adversarial import gan
from gapless.synth.adversarial.game import Game, Generator, GradientGame, Opponents
from gapless.synth.adversarial.gan import Adversarial, GameResult
from gapless.synth.adversarial.generative import GappedGenerator, GeneratorModel, network
from gapless.synth.fitting import FitContext
from gapless.types import Floats

CLIP = 0.1  # clipping norm of the gradient by a generated row; most gradients are longer


@dataclass(frozen=True, slots=True, kw_only=True)
class MisGAN(Adversarial):
    """Two generators, of complete rows and of masks: DP-MisGAN ([MD] Algorithm 1) with a corrected guarantee.

    One critic compares private rows with their gaps to generated rows with generated gaps. The other critic sees only
    masks. The gradients of both critics for one row are clipped together, so one noise per step covers both. With
    `Observed()`, all rows are read with their masks, and rows with gaps can be sampled. Masks do not depend on rows.
    With the other treatments there is no mask, and the method is `DPGAN`.

    In [MD], critics see rows without noise, and the generators' gradients get noise. The cost stated there is far too
    small (docs/proofs/teachers.md). `noised="generators"` is that variant with a correct cost, for comparison. Rows are
    split among up to 1,000 pairs of critics, and each step asks one pair. It needs so much noise that little is
    learned. Its critics saw rows without noise, so the fitted model has no critic.

    Args:
        missing: how to treat gaps.
        steps: the number of training steps; by default 100.
        noised: where noise is added: "critics" for sums of critics' gradients, "generators" for gradients by generated
            rows.

    References: Li, Jiang, Marlin 2019; Chen, Orekondy, Fritz 2020.
    """

    name = "misgan"
    treatments = (Observed, CompleteRows, ImputeFirst)
    learns_gaps = (Observed,)

    missing: Missing = field(default_factory=Observed)
    noised: Literal["critics", "generators"] = "critics"

    def check(self, fitting: FitContext) -> None:
        """Check the settings, also `noised`."""
        Adversarial.check(self, fitting)
        if self.noised not in ("critics", "generators"):
            raise ModelError(
                f"noised must be 'critics' or 'generators', got {self.noised!r}", hint='pass "critics" or "generators"'
            )

    def settings(self, fitting: FitContext) -> dict[str, str | int]:  # noqa: ARG002 public already
        """Return where noise was added."""
        return {"noised": self.noised}

    def play(self, fitting: FitContext, game: Game, marginals: Sequence[Floats]) -> GameResult:
        """Train the critics, or ask one of many pairs of critics per step, with the rest of the grant."""
        if self.noised == "critics":
            return Adversarial.play(self, fitting, game, marginals)
        steps = self.step_count
        schedule = CosineSchedule(rate=gan.LEARNING_RATE, steps=steps, warmup=gan.WARMUP)
        game = replace(game, optimizer=Adam(rate=schedule))
        teachers = GradientGame(game=game, teachers=gan.teacher_count(fitting), made=gan.ASKED)
        rows = teacher_rows(fitting.prepared, teachers, progress=lambda step: fitting.notify("training", step, steps))
        vectors, width = teachers.answers
        noise = SubsampledTeacher.for_loss(
            fitting.grant.left,
            rows.distance,
            teachers=teachers.teachers,
            steps=steps,
            clip=CLIP,
            vectors=vectors,
            numbers=vectors * width,
        )
        return GameResult(fitting.grant.release(rows, noise, what="gradients"), None)

    def opponents(self, fitting: FitContext, marginals: Sequence[Floats]) -> list[Opponents]:
        """Return the opponents for rows, and for masks if gaps are read."""
        columns = fitting.schema.columns
        rows = gan.row_opponents(fitting, marginals, [column.size for column in columns])
        if not any(column.gaps for column in columns) or not fitting.extended:
            return [rows]
        states = _states(fitting, marginals)
        heads = [np.eye(len(marginal))[:, 1:] - marginal[1:] for marginal in states]
        lines = [
            points[np.r_[np.zeros(column.size, dtype=np.int64), 1 : len(points)]]
            for points, column in zip(heads, columns, strict=True)
        ]
        sizes = tuple(map(len, states))
        made = network(gan.NOISE, gan.HIDDEN, sum(sizes))
        generator = Generator(network=made, sizes=sizes, noise=gan.NOISE, bias=np.log(np.concatenate(states)))
        return [rows, Opponents.of(generator, lines, heads)]

    def model(
        self, fitting: FitContext, made: Sequence[GeneratorModel], marginals: Sequence[Floats]
    ) -> tuple[Distribution, Distribution | None]:
        """Return the distribution of complete rows, and of rows with generated gaps."""
        sizes = [column.size for column in fitting.schema.columns]
        rows = made[0].raked(gan.condition_on_first_cells(marginals, sizes))
        if not fitting.extended:
            return rows, None
        if len(made) == 1:
            return rows, rows
        return rows, GappedGenerator(rows, made[1].raked(_states(fitting, marginals)))


def _states(fitting: FitContext, marginals: Sequence[Floats]) -> list[Floats]:
    """Return the probabilities of each column's states: no gap, then each kind of gap."""
    columns = fitting.schema.columns
    return [np.r_[marginal[: c.size].sum(), marginal[c.size :]] for marginal, c in zip(marginals, columns, strict=True)]
