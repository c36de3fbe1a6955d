"""Kamino: column by column, each from the earlier ones, by networks that are trained privately ([MD] Algorithm 3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, TypeAlias

import numpy as np

from gapless.arguments import whole
from gapless.data import PrivateTable
from gapless.data.private_table import check_held
from gapless.data.training import train
from gapless.errors import ModelError
from gapless.missing import Observed
from gapless.model.autoregressive import (
    LEAST,
    AutoregressiveModel,
    ColumnLaw,
    ColumnLaws,
    SharedLaws,
    attentive,
    complete,
)
from gapless.model.marginal import Floats, project_to_simplex
from gapless.model.neural.descent import Cells, Descent, begun
from gapless.model.neural.layers import Layer
from gapless.model.neural.masked import masked
from gapless.model.neural.optimizers import Adam, Cosine
from gapless.privacy import Loss, PrivateTraining, Sampled
from gapless.schema import Schema
from gapless.schema.constraints import constraints_of
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Fitting, Synthesizer

Architecture: TypeAlias = Literal["shared", "columns"]


@dataclass(frozen=True, slots=True)
class Course:
    """How a training runs; all of it public. Chosen on Adult and a simulated table (bench/kamino.py)."""

    rate: float  # the chance of each row to be in a lot
    steps: int
    clip: float
    learning_rate: float


COURSES = {"shared": Course(0.1, 200, 2.0, 0.03), "columns": Course(0.05, 100, 1.0, 0.04)}
COLUMNS_SHARE = 0.2  # of the budget, for tables of one column
WARMUP = 20  # steps
HIDDEN = 32  # units of the hidden layer, where noise is small enough for one
QUIET = 6e-4  # noise in a sum of gradients, in units of their length, for each row of a lot: up to which it is
WIDTH = 16  # of the points that cells are embedded as
MOST_NUMBERS = 4_000_000  # parameters of a network


@dataclass(frozen=True, slots=True, kw_only=True)
class Kamino(Synthesizer):
    """Column by column, each given the earlier ones, by networks: for dependence of many columns at larger budgets.

    "shared" trains one network for all columns at once: a linear map and a hidden layer, masked so that a column sees
    the earlier ones alone; a row's loss is the sum over the columns that are observed in it. "columns" is [MD]'s: a
    network for each column, embeddings of the earlier ones and attention over them (AimNet), trained one after the
    other. With `Observed()`, which is KaminoI there, a network is trained on the rows whose own column is observed and
    then fills this column's gaps by draws, before the next one is trained. `CompleteRows()` is Kamino.

    Guarantee: the releases are the one-way marginals and, unless every row is counted in them, the number of rows; then
        one training on all rows, or one for each column but the first, with `Observed()` on the rows where this column
        is observed. Order, chance of lots, steps and clipping are public, and follow no number of rows but the noisy.

    Args:
        missing: what to do about gaps.
        architecture: one network, or one for each column.
        order: columns that come first, by name; the others follow. By default columns that decide others by a rule of
            the schema come before these, else smaller ones first.
        hidden: how many units the hidden layer of the shared network has; by default some where the budget and the
            noisy number of rows leave little noise, else none.
        steps: how many steps each training has; by default 200 for the shared network, 100 for one of several.
    """

    name = "kamino"
    pure = False

    architecture: Architecture = "shared"
    order: Sequence[str] | None = None
    hidden: int | None = None
    steps: int | None = None

    def check(self, fitting: Fitting) -> None:
        """Refuse settings that are none, and columns whose network would be too large."""
        if self.architecture not in ("shared", "columns"):
            raise ModelError(f"no architecture called {self.architecture!r}", hint='"shared" or "columns"')
        for name, least in (("hidden", 0), ("steps", 1)):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name), error=ModelError, least=least)
        order_of(fitting.schema, self.order)
        if _fills(self, fitting):
            check_held(fitting.table, "filling gaps column by column")
        cells = sum(fitting.sizes)
        if cells**2 > MOST_NUMBERS and self.architecture == "shared":
            raise ModelError(
                f"all columns together have {cells:,} cells, too many for one network",
                hint='fewer levels or bins, leave columns out with select(), or architecture="columns"',
            )

    def fit(self, table: PrivateTable, *, spend: Loss, progress: Progress | None = None) -> FittedModel:
        """Measure columns by themselves, train, and bring the columns of the model to what was measured."""
        fitting = Fitting(self, table, spend=spend, progress=progress)
        order = order_of(fitting.schema, self.order)
        columns = _measured(fitting)
        networks = _shared if self.architecture == "shared" else _columns
        model = AutoregressiveModel(networks(self, fitting, order, columns)).raked(dict(enumerate(columns)))
        fitting.tell("completing", 0, 1)
        names = fitting.schema.names
        return fitting.fitted(
            complete(model, [column.size for column in fitting.schema.columns]) if fitting.extended else model,
            model if fitting.extended else None,
            settings={"architecture": self.architecture, "order": ", ".join(names[column] for column in order)},
            structure=fitting.structure(),
            edges=combinations(range(len(names)), 2),
        )


def order_of(schema: Schema, first: Sequence[str] | None) -> tuple[int, ...]:
    """The columns by position: those named, then each as soon as what decides it is there, the smallest first."""
    placed = list(schema.positions(first or ()))
    _, between, _ = constraints_of(schema)
    dependencies = [rule for rule in between if rule.decides]
    waiting = sorted(set(range(len(schema.columns))) - set(placed), key=lambda column: schema.columns[column].size)
    while waiting:
        decided = {rule.columns[-1] for rule in dependencies if set(rule.columns[:-1]) & set(waiting)}
        free = [column for column in waiting if column not in decided]
        placed.append((free or waiting)[0])  # columns that decide each other: the smallest
        waiting.remove(placed[-1])
    return tuple(placed)


def _measured(fitting: Fitting) -> list[Floats]:
    """The law of each column by itself, as noisy counts tell it, no cell quite impossible."""
    spend = fitting.prepare()
    fitting.tell("measuring", 0, 1)
    laws = [np.ones(size) / size for size in fitting.sizes]
    for marginal in fitting.measure(fitting.columns, spend * COLUMNS_SHARE if _several(fitting) else spend):
        (column,) = marginal.columns
        total = max(1.0, marginal.counts.sum())
        law = np.maximum(project_to_simplex(marginal.counts, total) / total, LEAST)
        laws[column] = law / law.sum()
    return laws


def _several(fitting: Fitting) -> bool:
    """Whether there is anything to train: else all is told by one column."""
    return len(fitting.columns) > 1


def _shared(kamino: Kamino, fitting: Fitting, order: Sequence[int], laws: Sequence[Floats]) -> SharedLaws:
    """One network for all columns."""
    columns = fitting.schema.columns
    points = tuple(centred(law, c.size, c.extended_size) for law, c in zip(laws, columns, strict=True))
    shown = tuple(map(len, points))
    network = masked(shown, fitting.sizes, order, _hidden(kamino, fitting) if _several(fitting) else 0)
    numbers = begun(network, np.log(np.concatenate(laws)), place=network.layers[0].shapes[0])
    if _several(fitting):
        every = tuple(range(len(columns)))
        cells = Cells(given=every, sizes=shown, targets=every, cells=fitting.sizes, points=points)
        numbers = _trained(kamino, fitting, fitting.prepared, network, cells, begin=numbers, spend=fitting.grant.left)
    return SharedLaws.of(network.unpack(numbers), tuple(order), fitting.sizes, points)


def _hidden(kamino: Kamino, fitting: Fitting) -> int:
    """How many units the hidden layer has: by public settings and the noisy number of rows."""
    if kamino.hidden is not None:
        return kamino.hidden
    distance = Sampled(fitting.table.protect.at_most)
    course = _course(kamino)
    training = PrivateTraining.for_loss(
        fitting.grant.left, distance, rate=course.rate, steps=course.steps, clip=course.clip, numbers=1
    )
    return HIDDEN if training.std <= QUIET * course.rate * max(1.0, fitting.total) else 0


def _course(kamino: Kamino) -> Course:
    """That of the architecture, with as many steps as were asked for."""
    course = COURSES[kamino.architecture]
    return course if kamino.steps is None else replace(course, steps=kamino.steps)


def _columns(kamino: Kamino, fitting: Fitting, order: Sequence[int], laws: Sequence[Floats]) -> ColumnLaws:
    """A network for each column; where gaps are filled, each fills its own before the next is trained."""
    table, names = fitting.prepared, fitting.schema.names
    telling = [column for column in order if (column,) in fitting.columns]
    found = {
        column: ColumnLaw((), len(laws[column]), len(laws[column]), WIDTH, np.log(laws[column])) for column in order
    }
    for place, column in enumerate(telling):
        called = [names[other] for other in telling[:place]]
        if called:
            shown, size = tuple(fitting.sizes[other] for other in telling[:place]), fitting.sizes[column]
            network = attentive(shown, size, WIDTH)
            begin = begun(network, np.log(laws[column]), place=sum(network.shapes) - size)
            cells = Cells(given=tuple(range(place)), sizes=shown, targets=(place,), cells=(size,), coded=True)
            numbers = _trained(
                kamino,
                fitting,
                table,
                network,
                cells,
                begin=begin,
                spend=fitting.grant.left / (len(telling) - place),
                columns=[*called, names[column]],
                done=place - 1,
                of=len(telling) - 1,
            )
            found[column] = ColumnLaw(shown, size, size, WIDTH, numbers)
        if _fills(kamino, fitting) and fitting.schema.columns[column].gaps:
            table = table.fill_column(names[column], found[column], given=called)
    others = [column for column in order if column not in telling]  # they tell nothing, and are shown to nobody
    return ColumnLaws((*telling, *others), tuple(found[column] for column in (*telling, *others)))


def _fills(kamino: Kamino, fitting: Fitting) -> bool:
    """Whether gaps are filled on the way."""
    return kamino.architecture == "columns" and isinstance(fitting.missing, Observed)


def _trained(
    kamino: Kamino,
    fitting: Fitting,
    table: PrivateTable,
    network: Layer,
    cells: Cells,
    *,
    begin: Floats,
    spend: Loss,
    columns: Sequence[str] | None = None,
    done: int = 0,
    of: int = 1,
) -> Floats:
    """The parameters after one training: on all rows, or on those observed on `columns`, whose last one is foretold."""
    course = _course(kamino)
    program = Descent(
        network=network,
        cells=cells,
        optimizer=Adam(rate=Cosine(rate=course.learning_rate, steps=course.steps, warmup=WARMUP)),
        lot=course.rate * max(1.0, fitting.total),
        begin=begin,
    )
    return train(
        table,
        program,
        fitting.grant,
        spend=spend,
        rate=course.rate,
        steps=course.steps,
        clip=course.clip,
        what="network" if columns is None else f"network for {columns[-1]}",
        columns=columns,
        needs=() if columns is None or fitting.extended else columns,
        progress=lambda step: fitting.tell("training", done * course.steps + step, of * course.steps),
    ).value.numbers


def centred(law: Floats, cells: int, codes: int) -> Floats:
    """A point for each code of a column: a 1 in its own place, less the mean of observed cells; a gap is in the mean.

    A network then learns how columns go together and leaves each column's own law, which is known already, as it is;
    and rows of usual cells, which teach little, have short gradients.
    """
    points = np.eye(codes)
    points[:cells, :cells] -= law[:cells] / law[:cells].sum()
    return points
