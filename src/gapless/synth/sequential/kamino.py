"""Kamino: an autoregressive model by privately trained networks ([MD] Algorithm 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from math import isqrt
from typing import Literal, TypeAlias

import numpy as np

from gapless.constraints.forbidden import constraints_of
from gapless.data import PrivateTable
from gapless.data.private_table import check_in_memory
from gapless.data.training import train, training_rows
from gapless.errors import Argument, Call, Hint, ModelError
from gapless.missing import Observed
from gapless.model.neural.descent import Adam, CosineSchedule, PredictionTask, PredictionTraining, initial_parameters
from gapless.model.neural.layers import Chain, Layer, MaskedLinear, ReLU, Sum
from gapless.privacy import PrivateTraining, Request, Sampled, Spend
from gapless.privacy.budget import Loss
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.learners import LearnedModel
from gapless.synth.sequential.autoregressive import (
    AutoregressiveModel,
    ColumnConditional,
    ColumnConditionals,
    SharedConditionals,
    attention_network,
    complete_gaps,
)
from gapless.threads import one_thread
from gapless.types import Floats, whole

Architecture: TypeAlias = Literal["shared", "columns"]


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Settings of a training; all are public. Chosen on Adult and a simulated table (bench/kamino.py)."""

    rate: float  # the probability of each row to be sampled at a step
    steps: int
    clip: float
    learning_rate: float

    def mechanism(self, loss: Loss, distance: Sampled, numbers: int) -> PrivateTraining:
        """Return the training with the least noise that costs at most `loss`."""
        return PrivateTraining.for_loss(
            loss, distance, rate=self.rate, steps=self.steps, clip=self.clip, numbers=numbers
        )


TRAINING_PLANS = {"shared": TrainingPlan(0.1, 200, 2.0, 0.03), "columns": TrainingPlan(0.05, 100, 3.0, 0.04)}
COLUMNS_SHARE = 0.2  # of the budget, for tables of one column
WARMUP = 20  # steps
HIDDEN = 32  # units of the hidden layer, if noise is small enough for one
QUIET_NOISE = 6e-4  # largest noise, in clipping norms per sampled row, for a hidden layer
WIDTH = 16  # dimension of the embedding of cells
MOST_NUMBERS = 4_000_000  # parameters of a network


@dataclass(frozen=True, slots=True, kw_only=True)
class Kamino(Synthesizer):
    """An autoregressive model by networks, each column given the earlier ones; for many columns and larger budgets.

    "shared" trains one network for all columns at once: a linear map and a hidden layer, masked so that a column sees
    only earlier columns. A row's loss is the sum over its observed columns.

    "columns" is [MD]'s version: a network for each column, with embeddings of the earlier columns and attention over
    them (AimNet), trained one after the other. With `Observed()` (KaminoI in [MD]) a network is trained on the rows
    whose column is observed. It then fills this column's gaps by draws before the next network is trained.
    `CompleteRows()` is [MD]'s Kamino.

    Guarantee: the releases are the one-way marginals, the number of rows unless these count every row, and then one
        training on all rows. With "columns" there is one training for each column but the first, with `Observed()` on
        the rows where this column is observed. Order, sampling rate, steps and clipping norm are public. They depend on
        the number of rows only through its noisy release.

    Args:
        missing: how to treat gaps.
        architecture: "shared" for one network, "columns" for one for each column.
        order: columns that come first, by name; the others follow. By default columns that determine others by a rule
            of the schema come before these, else smaller columns first.
        hidden: the number of units in the hidden layer of the shared network. By default there is a hidden layer only
            if the budget and the noisy number of rows leave little noise.
        steps: the number of steps of each training; by default 200 for "shared", 100 for "columns".
    """

    name = "kamino"
    pure = False

    architecture: Architecture = "shared"
    order: Sequence[str] | None = None
    hidden: int | None = None
    steps: int | None = None

    def check(self, fitting: FitContext) -> None:
        """Refuse invalid settings, and columns whose network would be too large."""
        if self.architecture not in ("shared", "columns"):
            raise ModelError(
                f"architecture must be 'shared' or 'columns', got {self.architecture!r}",
                hint='pass "shared" or "columns"',
            )
        for name, least in (("hidden", 0), ("steps", 1)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), error=ModelError, least=least)
        column_order(fitting.schema, self.order)
        if _fills(self, fitting):
            check_in_memory(fitting.table, "filling gaps column by column")
        cells = sum(fitting.sizes)
        if cells**2 > MOST_NUMBERS and self.architecture == "shared":
            raise ModelError(
                f"all columns together have {cells:,} cells, but one network takes at most {isqrt(MOST_NUMBERS):,}",
                hint=Hint("declare fewer levels or bins in the schema")
                | Hint("keep fewer columns, with ", Call("people.select", ["age", "sex"]))
                | Hint("pass ", Argument("architecture", "columns")),
            )

    @one_thread()
    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure one-way marginals, train, and rake the model's columns to the measured marginals."""
        fitting = FitContext(self, table, spend=spend, progress=progress)
        order = column_order(fitting.schema, self.order)
        networks, columns = (_shared if self.architecture == "shared" else _columns)(self, fitting, order)
        model = AutoregressiveModel(networks).raked(dict(enumerate(columns)))
        fitting.notify("completing", 0, 1)
        names = fitting.schema.names
        filled, gapped = model, None
        if fitting.extended:
            filled, gapped = complete_gaps(model, [column.size for column in fitting.schema.columns]), model
        return fitting.fitted(
            LearnedModel(filled, gapped, fitting.total),
            settings={"architecture": self.architecture, "order": ", ".join(names[column] for column in order)},
            edges=combinations(range(len(names)), 2),
        )


def column_order(schema: Schema, first: Sequence[str] | None) -> tuple[int, ...]:
    """Return the columns by position: first those named, then the others, each after the columns that determine it.

    Among several candidates the smallest column comes first.
    """
    placed = list(schema.positions(first or ()))
    _, between, _ = constraints_of(schema)
    dependencies = [rule for rule in between if rule.is_dependency]
    waiting = sorted(set(range(len(schema.columns))) - set(placed), key=lambda column: schema.columns[column].size)
    while waiting:
        decided = {rule.columns[-1] for rule in dependencies if set(rule.columns[:-1]) & set(waiting)}
        free = [column for column in waiting if column not in decided]
        placed.append((free or waiting)[0])  # of columns that determine each other, the smallest
        waiting.remove(placed[-1])
    return tuple(placed)


def _shared(kamino: Kamino, fitting: FitContext, order: Sequence[int]) -> tuple[SharedConditionals, list[Floats]]:
    """Train one network for all columns; return it with the one-way marginals."""
    spend, several = fitting.prepare(), len(fitting.one_way_marginals) > 1
    marginals = fitting.column_probabilities(spend * COLUMNS_SHARE if several else spend)
    columns = fitting.schema.columns
    points = tuple(centered_points(p, c.size, c.extended_size) for p, c in zip(marginals, columns, strict=True))
    shown = tuple(map(len, points))
    network = masked_network(shown, fitting.sizes, order, _hidden(kamino, fitting) if several else 0)
    numbers = initial_parameters(network, np.log(np.concatenate(marginals)), place=network.layers[0].shapes[0])
    if several:
        every, course = tuple(range(len(columns))), _course(kamino)
        cells = PredictionTask(given=every, sizes=shown, targets=every, cells=fitting.sizes, points=points)
        numbers = train(
            fitting.prepared,
            _program(course, fitting, network, cells, begin=numbers),
            fitting.grant,
            spend=fitting.grant.left,
            rate=course.rate,
            steps=course.steps,
            clip=course.clip,
            what="network",
            progress=lambda step: fitting.notify("training", step, course.steps),
        ).value
    return SharedConditionals.of(network.unpack(numbers), tuple(order), fitting.sizes, points), marginals


def _hidden(kamino: Kamino, fitting: FitContext) -> int:
    """Return the number of hidden units, from public settings and the noisy number of rows."""
    if kamino.hidden is not None:
        return kamino.hidden
    distance = Sampled(fitting.table.protect.at_most)
    course = _course(kamino)
    training = course.mechanism(fitting.grant.left, distance, 1)
    return HIDDEN if training.std <= QUIET_NOISE * course.rate * max(1.0, fitting.total) else 0


def _course(kamino: Kamino) -> TrainingPlan:
    """Return the plan of the architecture, with the number of steps from the settings."""
    course = TRAINING_PLANS[kamino.architecture]
    return course if kamino.steps is None else replace(course, steps=kamino.steps)


def _columns(kamino: Kamino, fitting: FitContext, order: Sequence[int]) -> tuple[ColumnConditionals, list[Floats]]:
    """Train a network for each column; with `Observed()`, each fills its column's gaps before the next is trained.

    All trainings are charged in one batch with the one-way counts. The filled cells that a network is trained on depend
    on earlier answers, but its privacy loss and the rows that it leaves out do not.
    """
    spend = fitting.prepare()
    names, sizes, course = fitting.schema.names, fitting.sizes, _course(kamino)
    nontrivial = [column for column in order if (column,) in fitting.one_way_marginals]
    shown = [tuple(sizes[other] for other in nontrivial[:place]) for place in range(len(nontrivial))]
    networks = [attention_network(given, sizes[column], WIDTH) for given, column in zip(shown, nontrivial, strict=True)]
    distance = Sampled(fitting.table.protect.at_most)
    ahead: list[Request] = []
    for column, network in zip(nontrivial[1:], networks[1:], strict=True):
        part = spend * ((1 - COLUMNS_SHARE) / (len(nontrivial) - 1))
        training = course.mechanism(part, distance, sum(network.shapes))
        reads = fitting.prepared.marginal(names[column], rows=fitting.missing.rows).reads
        ahead.append(Request(distance, reads, training, f"network for {names[column]}"))
    marginals = fitting.column_probabilities(spend * COLUMNS_SHARE if ahead else spend, planned=ahead)
    found = {c: ColumnConditional((), size, size, WIDTH, np.log(marginals[c])) for c, size in enumerate(sizes)}
    table = fitting.prepared
    for place, (column, network) in enumerate(zip(nontrivial, networks, strict=True)):
        size, called = sizes[column], [names[other] for other in nontrivial[: place + 1]]
        if place:
            begin = initial_parameters(network, np.log(marginals[column]), place=sum(network.shapes) - size)
            given = tuple(range(place))
            cells = PredictionTask(given=given, sizes=shown[place], targets=(place,), cells=(size,), coded=True)
            rows = training_rows(
                table,
                _program(course, fitting, network, cells, begin=begin),
                columns=called,
                needs=() if fitting.extended else called,
                progress=partial(_notify_steps, fitting, place - 1, len(nontrivial) - 1, course.steps),
            )
            numbers = fitting.plan.release(rows).value
            found[column] = ColumnConditional(shown[place], size, size, WIDTH, numbers)
        if _fills(kamino, fitting) and fitting.schema.columns[column].gaps:
            table = table.fill_column(names[column], found[column], given=called[:-1])
    ordered = (*nontrivial, *(column for column in order if column not in nontrivial))  # the last ones have one cell
    return ColumnConditionals(ordered, tuple(found[column] for column in ordered)), marginals


def _notify_steps(fitting: FitContext, done: int, of: int, steps: int, step: int) -> None:
    """Report the progress of one of several trainings."""
    fitting.notify("training", done * steps + step, of * steps)


def _fills(kamino: Kamino, fitting: FitContext) -> bool:
    """Return whether gaps are filled between trainings."""
    return kamino.architecture == "columns" and isinstance(fitting.missing, Observed)


def _program(
    course: TrainingPlan, fitting: FitContext, network: Layer, cells: PredictionTask, *, begin: Floats
) -> PredictionTraining:
    """Return the training program of a network."""
    return PredictionTraining(
        network=network,
        cells=cells,
        optimizer=Adam(rate=CosineSchedule(rate=course.learning_rate, steps=course.steps, warmup=WARMUP)),
        batch_size=course.rate * max(1.0, fitting.total),
        initial=begin,
    )


def centered_points(marginal: Floats, cells: int, codes: int) -> Floats:
    """Return a point for each code of a column: its one-hot vector; for observed cells, less their mean.

    A network then learns dependence between columns, and the known marginals stay as they are. Rows with frequent
    cells carry little information, and have short gradients.
    """
    points = np.eye(codes)
    points[:cells, :cells] -= marginal[:cells] / marginal[:cells].sum()
    return points


def masked_network(shown: Sequence[int], cells: Sequence[int], order: Sequence[int], hidden: int) -> Sum:
    r"""Return one network that predicts each column from the columns before it in the order only.

    .. math:: z = b + x\,(W \circ M) + \max(x\,(U \circ M') + c,\, 0)\,(V \circ M'')

    x has the points of the columns' codes. M connects a cell to the cells of earlier columns. A hidden unit also has a
    position in the order. It sees the columns before it, and only the columns from there on see it (MADE: Germain,
    Gregor, Murray, Larochelle 2015). Weights into the outputs are zero at first.

    Args:
        shown: the number of input codes of each column.
        cells: the number of predicted cells of each column.
        order: the columns in their order.
        hidden: the number of hidden units.
    """
    places = np.argsort(order)
    of_shown, of_cells = np.repeat(places, shown), np.repeat(places, cells)
    units = 1 + np.arange(hidden) % max(1, len(places) - 1)
    skip = MaskedLinear(np.less.outer(of_shown, of_cells), gain=0.0)
    if not hidden:
        return Sum((skip,))
    into, out = np.less.outer(of_shown, units), np.less_equal.outer(units, of_cells)
    return Sum((skip, Chain((MaskedLinear(into), ReLU(), MaskedLinear(out, gain=0.0)))))
