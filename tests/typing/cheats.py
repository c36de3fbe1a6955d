"""Ways to cheat that mypy must reject: each line with an `# error:` comment, and no other."""

from typing import Any

import numpy as np

import gapless as gl
from gapless.types import Integers
from gapless.synth.adversarial.generative import Critic, CriticFacts
from gapless.model.distribution import Distribution
from gapless.synth.adversarial.game import GameState, Opponents
from gapless.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    Grant,
    L1,
    L2,
    Linf,
    Loss,
    Private,
    Released,
)
from gapless.privacy.noise import NoiseSource
from gapless.privacy.private import transform


class AnswersWithAState:
    """A mechanism whose answer is no number: a journal could not keep it."""

    def loss(self, distance: L1, order: float) -> Loss:
        return Loss(distance.at_most, order)

    def __call__(self, value: Integers, noise: NoiseSource) -> GameState:
        raise NotImplementedError

    def parameters(self) -> dict[str, Any]:
        return {}


def honest(table: gl.PrivateTable, grant: Grant) -> Released[Integers]:
    counts = table.marginal("age")
    gl.Independent().fit(table, spend=table.ledger.share("10%"))
    answer: gl.query.Answer = table.ask(gl.Count(where="age >= 20"), spend=table.ledger.share("10%"))
    grant.release(counts, DiscreteLaplace(2.0), what="age")
    return grant.release(counts, DiscreteGaussian(2.0), what="age")  # an L1 bound is an L2 bound


def cheat(
    table: gl.PrivateTable,
    grant: Grant,
    euclidean: Private[Integers, L2],
    scores: Private[Integers, Linf],
    played: GameState,
    side: Opponents,
    model: Distribution,
) -> None:
    gl.Persons("patient_id")  # error: [call-arg]
    table.protect.at_most = 9  # error: [misc]
    counts = table.marginal("age")
    counts.value  # error: [attr-defined]
    counts + 1  # error: [operator]
    counts.sum()  # error: [attr-defined]
    counts.transform(lambda value: value, distance=L1(0), reads=None)  # error: [attr-defined]
    Private.gather([counts])  # error: [attr-defined]
    counts.distance = L1(0)  # error: [misc]
    counts.reads = frozenset({"age"})  # error: [misc]
    transform(counts, lambda value: value, distance=L1(0), reads=None)  # error: [call-arg]
    table.schema = gl.Schema.read("people.toml")  # error: [misc]
    table.ledger = gl.Ledger.open("other.ledger")  # error: [misc]
    table.tally(lambda rows: rows)  # error: [attr-defined]
    table.neighbour_sum(lambda rows: rows)  # error: [attr-defined]
    table.fill_given(object())  # error: [arg-type]
    gl.missing.FromModel(object())  # error: [arg-type]
    gl.Drop().answer(gl.Count(), table, grant)  # error: [arg-type]
    public: Integers = counts  # error: [assignment]
    wanted: Released[Integers] = counts  # error: [assignment]
    table.rows  # error: [attr-defined]
    table.codes  # error: [attr-defined]
    table.to_pandas()  # error: [attr-defined]
    gl.Independent().fit(table)  # error: [call-arg]
    table.ask(gl.Count())  # error: [call-overload]
    table.ask(gl.Count(), spend=0.5)  # error: [call-overload]
    table.ask("count()", spend=table.ledger.left)  # error: [arg-type]
    gl.HotDeck(on=["age"]).release(table, ["income"])  # error: [call-arg]
    gl.query.preview(gl.Count(), table, budget=gl.Budget(1.0, 0), spend="10%")  # error: [arg-type]
    gl.Independent().fit(table, spend=0.5)  # error: [arg-type]
    gl.Independent().fit(table, table.ledger.left)  # error: [call-arg,misc]
    gl.read("people.csv", gl.Schema.read("people.toml"), ledger="people.ledger")  # error: [call-arg]
    grant.release(euclidean, DiscreteLaplace(2.0), what="age")  # error: [arg-type,misc]
    grant.release(scores, DiscreteGaussian(2.0), what="age")  # error: [arg-type,misc]
    grant.release(np.zeros(3), DiscreteGaussian(2.0), what="age")  # error: [arg-type]
    grant.release(counts, DiscreteGaussian(2.0))  # error: [call-arg]
    grant.release(counts, AnswersWithAState(), what="age")  # error: [type-var]
    gl.Table.read(table, gl.Schema.read("people.toml")).rows
    gl.Independent().fit(gl.Table.read("x.csv", gl.Schema.read("x.toml")), spend=table.ledger.left)  # error: [arg-type]
    Critic.from_release(played, side, model, CriticFacts(kept=1.0, noise_std=0.0, clip=1.0))  # error: [arg-type]
    gl.weights.CriticWeights(played).fit(gl.Table.read("x.csv", gl.Schema.read("x.toml")))  # error: [arg-type]
    table.ledger.spent = Loss(0.0, 2.0)  # error: [misc]
    table.ledger.capacity.value = 9.0  # error: [misc]
    gl.Budget(1.0, 0).epsilon = 9.0  # error: [misc]
