"""PATEGAN: a generator against a student of teachers, each of whom knows a part of the rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gapless.data.training import teachable
from gapless.privacy import Sampled, TeacherVotes
from gapless.synth.adversarial.critic import Known
from gapless.synth.adversarial.game import Game
from gapless.synth.adversarial.gan import ASKED, Adversarial, Outcome, teachers, told, typical
from gapless.synth.adversarial.teaching import Poll
from gapless.synth.fitting import Fitting
from gapless.types import Floats

# How far the student follows the votes: less, the more noise there is in shares of them. Chosen on Adult with gaps.
REACH, MUCH_NOISE = 2.0, 0.04


@dataclass(frozen=True, slots=True, kw_only=True)
class PATEGAN(Adversarial):
    """As `DPGAN`, but the critic is a student, who sees made rows alone, with the noisy votes of teachers on them.

    Each private row goes to one of 1,000 teachers by chance (fewer, where a teacher would keep very many numbers). A
    teacher compares its rows with made ones, pair of columns by pair, and votes for the half of some made rows that
    look most like its own. Counts of votes get noise. A row can turn the votes of one teacher alone; the stated loss
    holds however teachers agree, while the original claims less where they do. The student is paid for:
    `CriticWeights(model)` are free. Teachers are never handed out.

    Args:
        missing: what to do about gaps.
        steps: how many times votes are taken; by default 100.

    References: Jordon, Yoon, van der Schaar 2019; Papernot et al. 2018.
    """

    name = "pategan"

    def play(self, fitting: Fitting, game: Game, laws: Sequence[Floats]) -> Outcome:
        """Take votes with what is left of the grant."""
        steps, many = self.many_steps, teachers(fitting)
        distance = Sampled(fitting.table.protect.at_most)
        votes = TeacherVotes.for_loss(fitting.grant.left, distance, teachers=many, steps=steps, queries=ASKED)
        reach = REACH / (1 + votes.std / many / MUCH_NOISE)
        poll = Poll(game=game, teachers=many, made=ASKED, steps=steps, reach=reach)
        rows = teachable(fitting.prepared, poll, progress=told(fitting, "votes", steps))
        released = fitting.grant.release(rows, votes, what="votes")
        clip = typical(game.sides, laws)
        length = clip / np.sqrt(game.numbers)  # of a product in one made row, about
        rates = np.sqrt(sum(poll.rate(step) ** 2 for step in range(steps)))
        noise_std = float(rates * votes.std / many * length / np.sqrt(ASKED))
        return Outcome(released, Known(kept=1.0, noise_std=noise_std, clip=clip))
