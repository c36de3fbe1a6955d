r"""Autoregressive models: each column has a conditional distribution given the columns before it.

.. math:: p(x) = \prod_i p(x_{s_i} \mid x_{s_1}, \dots, x_{s_{i-1}}), \qquad
          p(x_s = v \mid \cdot) \propto e^{z_{s,v}(x) + b_{s,v}}

The logits z come from privately trained networks. The shifts b are computed afterwards, as post-processing: with them,
the columns of a large sample match the released one-way tables (`raked`). The shifts are computed once and stored in
the networks' biases. So the distribution is the same for any number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from gapless.errors import ModelError
from gapless.model.completion import FILL_ROUNDS, SAMPLE_ROWS, james_stein
from gapless.model.neural.gradients import row_wise_product
from gapless.model.neural.layers import Attention, Chain, Embedding, Linear, one_hot
from gapless.model.sampling import (
    LEAST_SHARE,
    SORT_COLUMNS,
    UniformDraws,
    code_dtype,
    inverse_sample,
    softmax,
    systematic_by_row,
)
from gapless.text import plural
from gapless.types import Codes, Floats, Integers

__all__ = ["AutoregressiveModel", "ColumnConditional", "ColumnConditionals", "SharedConditionals", "complete_gaps"]

SWEEPS = 3  # of Gibbs sampling over the gaps of a row
RAKES = 8  # raking steps of a column
FILLING = 1 << 30  # rows times cells squared in a round of filling: fewer rows if there are many cells
FEW_ROWS = 2_000  # least rows in a round of filling
MANY_NETWORKS = 60  # with more columns than this, a network for each column fills gaps without Gibbs sampling

_BLOCK = 256  # rows filled at a time. The size is fixed, so that a row's result does not depend on other rows
_CELLS = 1 << 20  # working memory, in cells
_FARTHEST = 500.0  # largest absolute logit, so that its exponential is finite


@dataclass(frozen=True, eq=False)
class SharedConditionals:
    """One network for all columns: each depends on the earlier ones through a linear skip and a hidden layer.

    In blocks of one size, outputs are a function of each row, to the last bit. Cells of all columns are stored one
    after the other. `skip` is cells × cells, `first` cells × units, `last` units × cells. Weights from a column to
    itself or to earlier columns are zero.
    """

    order: tuple[int, ...]
    sizes: tuple[int, ...]
    bias: Floats
    skip: Floats
    first: Floats
    first_bias: Floats
    last: Floats

    PARAMETERS: ClassVar = ("bias", "skip", "first", "first_bias", "last")

    def __post_init__(self) -> None:
        _keep_plain(self, *self.PARAMETERS)

    @classmethod
    def of(cls, weights: Any, order: tuple[int, ...], sizes: tuple[int, ...], points: Sequence[Floats]) -> Self:
        """Build from the weights of a `masked_network` for these points; only the first `sizes` codes are kept."""
        (skip, bias), *hidden = weights
        nothing = (np.zeros((len(skip), 0)), np.zeros(0)), None, (np.zeros((0, len(bias))), 0.0)
        (first, first_bias), _, (last, more) = hidden[0] if hidden else nothing
        spans = list(pairwise(accumulate(map(len, points), initial=0)))

        def looked_up(matrix: Floats) -> Floats:
            columns = zip(points, sizes, spans, strict=True)
            return np.concatenate([codes[:size] @ matrix[slice(*span)] for codes, size, span in columns])

        return cls(order, sizes, bias + more, looked_up(skip), looked_up(first), first_bias, last)

    def logits(self, column: int, codes: Integers) -> Floats:
        """Return rows × cells of the column. Only columns before it in the order are read."""
        span, starts = self._span(column), self.starts
        skip = np.ascontiguousarray(self.skip[:, span])
        sums, hidden = (np.tile(bias, (len(codes), 1)) for bias in (self.bias[span], self.first_bias))
        for earlier in self.order[: self.order.index(column)]:
            rows = starts[earlier] + codes[:, earlier]
            sums += skip[rows]
            hidden += self.first[rows]
        return np.clip(sums + row_wise_product(np.maximum(hidden, 0.0), self.last[:, span]), -_FARTHEST, _FARTHEST)

    def scores(self, column: int, codes: Integers) -> Floats:
        """Return rows × cells of the column: log probabilities given all other columns, up to a constant.

        They are the log conditional of the column plus those of the later columns.
        """
        place = self.order.index(column)
        later, span = self.order[place + 1 :], self._span(column)
        found = self.logits(column, codes)
        if not later:
            return found
        cells = np.concatenate([np.arange(self.starts[other], self.starts[other + 1]) for other in later])
        begins = np.cumsum([0, *(self.sizes[other] for other in later)])
        seen = begins[:-1] + codes[:, later]
        shown = one_hot(list(codes.T), self.sizes)
        shown[:, span] = 0.0
        sums = self.bias[cells] + row_wise_product(shown, self.skip[:, cells])
        hidden = self.first_bias + row_wise_product(shown, self.first)
        last, step = self.last[:, cells], max(1, _CELLS // (len(codes) * len(cells)))
        for begin in range(0, self.sizes[column], step):
            some = slice(begin, min(begin + step, self.sizes[column]))
            units = np.maximum(hidden[:, None] + self.first[span][some], 0.0)
            many = units.shape[0] * units.shape[1]
            logits = row_wise_product(units.reshape(many, len(last)), last).reshape(*units.shape[:2], len(cells))
            logits += sums[:, None]
            logits += self.skip[span][some][:, cells]
            np.clip(logits, -_FARTHEST, _FARTHEST, out=logits)
            found[:, some] += np.take_along_axis(logits, seen[:, None], axis=2).sum(axis=2)
            np.exp(logits, out=logits)
            found[:, some] -= np.log(np.add.reduceat(logits, begins[:-1], axis=2)).sum(axis=2)
        return found

    def restricted(self, sizes: Sequence[int]) -> Self:
        """Return the conditionals given that every column is in its first cells."""
        spans = zip(self.starts[:-1], sizes, strict=True)
        kept = np.concatenate([np.arange(start, start + size) for start, size in spans])
        return replace(
            self,
            sizes=tuple(sizes),
            bias=self.bias[kept],
            skip=self.skip[np.ix_(kept, kept)],
            first=self.first[kept],
            last=self.last[:, kept],
        )

    def shifted(self, column: int, shift: Floats) -> Self:
        """Add a shift to the logits of a column."""
        bias = self.bias.copy()
        bias[self._span(column)] += shift
        return replace(self, bias=bias)

    @property
    def starts(self) -> Integers:
        """The position of each column's first cell, and the end of the last column."""
        return np.cumsum([0, *self.sizes], dtype=np.int64)

    def _span(self, column: int) -> slice:
        starts = self.starts
        return slice(int(starts[column]), int(starts[column + 1]))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a model file."""
        order, sizes = np.array(self.order, dtype=np.int64), np.array(self.sizes, dtype=np.int64)
        return {"order": order, "sizes": sizes} | {name: getattr(self, name) for name in self.PARAMETERS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild the conditionals from a model file."""
        order, sizes = (tuple(arrays[name].tolist()) for name in ("order", "sizes"))
        return cls(order, sizes, *(arrays[name] for name in cls.PARAMETERS))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnConditional:
    """The distribution of one column given others: embeddings of their cells, attention, softmax (AimNet).

    Attributes:
        given: the number of input codes of each of the other columns.
        outputs: the number of codes that the network predicts.
        cells: the first codes, to which the distribution is restricted.
        width: the dimension of embeddings.
        parameters: of the network; the last `outputs` ones are biases. Without other columns there are only biases.
    """

    given: tuple[int, ...]
    outputs: int
    cells: int
    width: int
    parameters: Floats

    def __post_init__(self) -> None:
        _keep_plain(self, "parameters")

    def sanitized(self) -> ColumnConditional:
        """Return a copy rebuilt from plain numbers; refuse parameters that are too few or not finite."""
        wanted = sum(attention_network(self.given, self.outputs, self.width).shapes) if self.given else self.outputs
        if self.parameters.shape != (wanted,) or not np.isfinite(self.parameters).all() or self.cells > self.outputs:
            raise ModelError(
                f"the network of a column with {plural(self.cells, 'cell')} must have {wanted:,} finite parameters "
                f"and an output for each cell, got shape {self.parameters.shape} and {plural(self.outputs, 'output')}",
                hint="fit the model again",
            )
        return ColumnConditional(self.given, self.outputs, self.cells, self.width, np.array(self.parameters))

    def logits(self, others: Integers) -> Floats:
        """Return rows × cells, from rows × other columns."""
        if not self.given:
            return np.tile(self.parameters[: self.cells], (len(others), 1))
        network = attention_network(self.given, self.outputs, self.width)
        outputs, _ = network.forward(network.unpack(self.parameters), tuple(others.T))
        return np.asarray(np.clip(outputs[:, : self.cells], -_FARTHEST, _FARTHEST))

    def draw(self, others: Integers, draws: Floats) -> Integers:
        """Draw a cell for each row; it depends only on this row and its draw."""
        cells = np.empty(len(draws), dtype=np.int64)
        for rows, block in _blocks(np.arange(len(draws))):
            cells[rows] = _pick(self.logits(others[block]), draws[block])[: len(rows)]
        return cells


def attention_network(given: Sequence[int], outputs: int, width: int) -> Chain:
    """Return a network from the cells of several columns to the logits of one; all logits are 0 at first.

    Embeddings have variance 1 at first. With a smaller variance, a mean over many columns and its gradients would be
    very short.
    """
    points = Embedding(tuple(given), width, gain=math.sqrt(width))
    return Chain((points, Attention(len(given), width), Linear(width, outputs, gain=0.0)))


@dataclass(frozen=True, eq=False)
class ColumnConditionals:
    """A network for each column, in the order of the columns."""

    order: tuple[int, ...]
    conditionals: tuple[ColumnConditional, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each column."""
        return tuple(self.conditionals[self.order.index(column)].cells for column in range(len(self.order)))

    def logits(self, column: int, codes: Integers) -> Floats:
        """Return the logits of the column's network."""
        position = self.order.index(column)
        return self.conditionals[position].logits(codes[:, self.order[:position]])

    def scores(self, column: int, codes: Integers) -> Floats:
        """Return the scores as `SharedConditionals.scores` does, one cell after the other."""
        scores, tried = self.logits(column, codes), codes.copy()
        for cell in range(scores.shape[1]):
            tried[:, column] = cell
            for other in self.order[self.order.index(column) + 1 :]:
                logits = self.logits(other, tried)
                log_power = np.take_along_axis(logits, tried[:, other, None], axis=1)[:, 0]
                scores[:, cell] += log_power - np.log(np.exp(logits).sum(axis=1))
        return scores

    def restricted(self, sizes: Sequence[int]) -> Self:
        """Return the conditionals given that every column is in its first cells."""
        parts = zip(self.order, self.conditionals, strict=True)
        return replace(self, conditionals=tuple(replace(part, cells=sizes[column]) for column, part in parts))

    def shifted(self, column: int, shift: Floats) -> Self:
        """Add a shift to the logits of a column: to the biases of its network."""
        conditionals, position = list(self.conditionals), self.order.index(column)
        conditional = conditionals[position]
        numbers = conditional.parameters.copy()
        begin = len(numbers) - conditional.outputs
        numbers[begin : begin + conditional.cells] += shift
        conditionals[position] = replace(conditional, parameters=numbers)
        return replace(self, conditionals=tuple(conditionals))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return plain arrays for a model file."""
        facts = [[part.outputs, part.cells, part.width] for part in self.conditionals]
        arrays: dict[str, NDArray[Any]] = {"order": np.array(self.order), "facts": np.array(facts)}
        for place, part in enumerate(self.conditionals):
            arrays |= {f"given{place}": np.array(part.given, dtype=np.int64), f"parameters{place}": part.parameters}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild the conditionals from a model file."""
        conditionals = [
            ColumnConditional(
                tuple(arrays[f"given{place}"].tolist()), outputs, cells, width, arrays[f"parameters{place}"]
            )
            for place, (outputs, cells, width) in enumerate(arrays["facts"].tolist())
        ]
        return cls(tuple(arrays["order"].tolist()), tuple(conditionals))


@dataclass(frozen=True, eq=False)
class AutoregressiveModel:
    """A distribution over columns 0 … d-1, column by column; public, free to sample and to fill gaps from.

    Marginals would need sums over all earlier columns. So there is no method for them.
    """

    kind: ClassVar[str] = "autoregressive"

    conditionals: SharedConditionals | ColumnConditionals

    def __post_init__(self) -> None:
        # Conditionals read rows when gaps are filled, so subclasses and other classes are refused.
        given = self.conditionals
        if type(given) is not SharedConditionals and not (
            type(given) is ColumnConditionals and all(type(part) is ColumnConditional for part in given.conditionals)
        ):
            raise ModelError(
                f"conditionals must be SharedConditionals or ColumnConditionals, not {type(given).__name__}",
                hint="use a model that the method kamino fitted",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each column."""
        return self.conditionals.sizes

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Draw rows × columns of codes, column by column.

        Every cell follows its conditional given the row's earlier cells. In each column the draws of rows depend on
        each other, by systematic sampling along rows sorted by some earlier columns (`systematic_by_row`). The count of
        a cell differs from its expectation by less than one. So tables of the column, also with these earlier columns,
        are closer to the model's than with independent draws.
        """
        codes = np.zeros((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        for place, column in enumerate(self.conditionals.order):
            for some in self._portions(codes, place, rng):
                logits = self.conditionals.logits(column, codes[some].astype(np.int64))
                codes[some, column] = systematic_by_row(logits, rng)
        return codes

    def _portions(self, codes: NDArray[np.integer], place: int, rng: np.random.Generator) -> Iterator[Integers]:
        """Yield all rows, sorted by some columns before this position in the order, in parts of bounded memory."""
        key = np.zeros(len(codes), dtype=np.int64)
        for column in rng.permutation(np.array(self.conditionals.order[:place], dtype=np.int64))[:SORT_COLUMNS]:
            key = key * self.sizes[column] + codes[:, column]
        shuffled = rng.permutation(len(codes))
        order = shuffled[np.argsort(key[shuffled], kind="stable")]
        step = max(_BLOCK, _CELLS // self.sizes[self.conditionals.order[place]])
        return (order[begin : begin + step] for begin in range(0, len(codes), step))

    def raked(self, targets: Mapping[int, Floats]) -> Self:
        """Return the model whose columns have these marginals in a large sample.

        One column after the other gets the shifts for which its mean probabilities over the sample equal its target.
        """
        conditionals, rng = self.conditionals, np.random.default_rng(0)  # public: equal values give the same model
        codes = np.zeros((SAMPLE_ROWS, len(self.sizes)), dtype=np.int64)
        for place, column in enumerate(conditionals.order):
            logits = conditionals.logits(column, codes)
            if column in targets:
                target = np.maximum(targets[column] / targets[column].sum(), LEAST_SHARE)
                shift = np.zeros(len(target))
                for _ in range(RAKES):
                    mean = softmax(logits + shift).mean(axis=0)
                    shift += np.log(target / np.maximum(mean, LEAST_SHARE / 10))
                conditionals, logits = conditionals.shifted(column, shift), logits + shift
            for some in self._portions(codes, place, rng):
                codes[some, column] = systematic_by_row(logits[some], rng)
        return replace(self, conditionals=conditionals)

    def fill(self, given: Integers, chance: UniformDraws, *, sweeps: int = SWEEPS) -> Integers:
        """Replace each -1 in rows × columns of codes by a draw given the other cells of its row.

        The missing cells of a row are first drawn column by column, given the earlier columns. Then, `sweeps` times,
        each is drawn again given all other cells of the row (Gibbs sampling). A row's result depends only on the row
        and its random numbers.
        """
        codes = np.maximum(given, 0)
        for sweep in range(1 + sweeps):
            for column in self.conditionals.order:
                draws = chance()
                for rows, block in _blocks(np.flatnonzero(given[:, column] < 0)):
                    score = self.conditionals.scores if sweep else self.conditionals.logits
                    codes[rows, column] = _pick(score(column, codes[block]), draws[block])[: len(rows)]
        return codes

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the model as plain arrays, to be saved."""
        return self.conditionals.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild a model from the result of `to_arrays`."""
        return cls((SharedConditionals if "skip" in arrays else ColumnConditionals).from_arrays(arrays))


def complete_gaps(gapped: AutoregressiveModel, sizes: Sequence[int]) -> AutoregressiveModel:
    """Estimate the distribution of complete rows from a model with gap states after the first `sizes` cells.

    If gaps depend only on earlier columns, observed cells have the distribution of all cells. If gaps depend on later
    columns, one-way tables are biased. So rows are drawn with their gaps, and filled given all their observed cells.
    Then columns are raked to the result, with James-Stein shrinkage. If there are many columns with a network each,
    gaps are filled given earlier columns only. Trying each cell in all later networks would take hours.
    """
    sweeps = 0 if isinstance(gapped.conditionals, ColumnConditionals) and len(sizes) > MANY_NETWORKS else SWEEPS
    rng = np.random.default_rng(0)  # public: the same released values always give the same model
    drawn = min(SAMPLE_ROWS, max(FEW_ROWS, FILLING // sum(sizes) ** 2))
    rows = gapped.sample(drawn, rng).astype(np.int64)
    observed = np.where(rows < np.array(sizes), rows, -1)
    filled = AutoregressiveModel(gapped.conditionals.restricted(sizes))
    if not (observed < 0).any():
        return filled
    for _ in range(FILL_ROUNDS):
        before = filled.sample(drawn, rng).astype(np.int64)
        after = filled.fill(observed, lambda: rng.random(drawn), sweeps=sweeps)
        filled = filled.raked(
            {
                column: james_stein(_shares(after[:, column], size), _shares(before[:, column], size), int(gaps))
                for column, (size, gaps) in enumerate(zip(sizes, (observed < 0).sum(axis=0), strict=True))
            }
        )
    return filled


def _shares(codes: Integers, size: int) -> Floats:
    return np.bincount(codes, minlength=size) / len(codes)


def _keep_plain(conditionals: object, *names: str) -> None:
    """Copy these fields to plain numpy arrays that nobody else can change; private rows index them."""
    for name in names:
        object.__setattr__(conditionals, name, np.array(getattr(conditionals, name), dtype=np.float64))


def _blocks(rows: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Yield rows in blocks, and each block padded to one size: then a row's result does not depend on other rows."""
    for begin in range(0, len(rows), _BLOCK):
        some = rows[begin : begin + _BLOCK]
        yield some, np.concatenate([some, np.full(_BLOCK - len(some), some[0])])


def _pick(logits: Floats, draws: Floats) -> Integers:
    return inverse_sample(softmax(logits), np.arange(len(logits)), draws)
