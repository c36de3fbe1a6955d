r"""Column by column: an ordered distribution, each column with a conditional given those before it.

.. math:: p(x) = \prod_i p(x_{s_i} \mid x_{s_1}, \dots, x_{s_{i-1}}), \qquad
          p(x_s = v \mid \cdot) \propto e^{z_{s,v}(x) + b_{s,v}}

The logits z come from networks that were trained privately. The shifts b are found afterwards, for free: they bring
the columns of a large sample, one after the other, to tables of one column that were released (`raked`). They are found
once and kept in the networks' biases, so that the distribution is the same for any number of rows.
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
RAKES = 8  # steps of a column towards its table
FILLING = 1 << 30  # rows times cells squared, of a round of filling: fewer rows where there are many cells
FEW_ROWS = 2_000  # but not fewer
MANY_NETWORKS = 60  # one for each column, which are not asked about later columns

_BLOCK = 256  # rows that are filled at once, always as many: then what a row gets does not depend on the others
_CELLS = 1 << 20  # working memory
_FARTHEST = 500.0  # of a logit, so that its power is finite


@dataclass(frozen=True, eq=False)
class SharedConditionals:
    """One network for all columns: each sees the earlier ones through a linear skip and a hidden layer.

    In blocks of one size its numbers are a function of each row, to the last bit. Cells of all columns are stored one
    after the other. `skip` is cells × cells, `first` cells × units, `last` units × cells; what a column may not see is
    zero.
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
        """From the weights of a `masked_network` for these points, of which the first `sizes` are left."""
        (skip, bias), *hidden = weights
        nothing = (np.zeros((len(skip), 0)), np.zeros(0)), None, (np.zeros((0, len(bias))), 0.0)
        (first, first_bias), _, (last, more) = hidden[0] if hidden else nothing
        spans = list(pairwise(accumulate(map(len, points), initial=0)))

        def looked_up(matrix: Floats) -> Floats:
            columns = zip(points, sizes, spans, strict=True)
            return np.concatenate([codes[:size] @ matrix[slice(*span)] for codes, size, span in columns])

        return cls(order, sizes, bias + more, looked_up(skip), looked_up(first), first_bias, last)

    def logits(self, column: int, codes: Integers) -> Floats:
        """Rows × cells of the column; columns that do not come before it are not looked at."""
        span, starts = self._span(column), self.starts
        skip = np.ascontiguousarray(self.skip[:, span])
        sums, hidden = (np.tile(bias, (len(codes), 1)) for bias in (self.bias[span], self.first_bias))
        for earlier in self.order[: self.order.index(column)]:
            rows = starts[earlier] + codes[:, earlier]
            sums += skip[rows]
            hidden += self.first[rows]
        return np.clip(sums + row_wise_product(np.maximum(hidden, 0.0), self.last[:, span]), -_FARTHEST, _FARTHEST)

    def scores(self, column: int, codes: Integers) -> Floats:
        """Rows × cells of the column: the logarithm of its chance given all other columns, but for a constant.

        It is the conditional of the column times those of the later columns.
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
        """The conditionals given that every column is in its first cells."""
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
        """Where each column's cells begin, and where the last one's end."""
        return np.cumsum([0, *self.sizes], dtype=np.int64)

    def _span(self, column: int) -> slice:
        starts = self.starts
        return slice(int(starts[column]), int(starts[column + 1]))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All of it."""
        order, sizes = np.array(self.order, dtype=np.int64), np.array(self.sizes, dtype=np.int64)
        return {"order": order, "sizes": sizes} | {name: getattr(self, name) for name in self.PARAMETERS}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The conditionals that a model file holds."""
        order, sizes = (tuple(arrays[name].tolist()) for name in ("order", "sizes"))
        return cls(order, sizes, *(arrays[name] for name in cls.PARAMETERS))


@dataclass(frozen=True, slots=True, eq=False)
class ColumnConditional:
    """The distribution of one column given others: embeddings of their cells, attention, softmax (AimNet).

    `given` are the codes with which each of the others was shown, `outputs` those that were predicted, of which the
    first `cells` are left. The last `outputs` numbers are biases; without others there is nothing else.
    """

    given: tuple[int, ...]
    outputs: int
    cells: int
    width: int
    parameters: Floats

    def __post_init__(self) -> None:
        _keep_plain(self, "parameters")

    def sanitized(self) -> ColumnConditional:
        """The same, made anew of plain numbers; a law whose numbers are too few, or not finite, is refused."""
        wanted = sum(attention_network(self.given, self.outputs, self.width).shapes) if self.given else self.outputs
        if self.parameters.shape != (wanted,) or not np.isfinite(self.parameters).all() or self.cells > self.outputs:
            raise ModelError(
                f"the network of a column with {plural(self.cells, 'cell')} has wrong parameters",
                hint="fit the model again",
            )
        return ColumnConditional(self.given, self.outputs, self.cells, self.width, np.array(self.parameters))

    def logits(self, others: Integers) -> Floats:
        """Rows × cells, from rows × others."""
        if not self.given:
            return np.tile(self.parameters[: self.cells], (len(others), 1))
        network = attention_network(self.given, self.outputs, self.width)
        outputs, _ = network.forward(network.unpack(self.parameters), tuple(others.T))
        return np.asarray(np.clip(outputs[:, : self.cells], -_FARTHEST, _FARTHEST))

    def draw(self, others: Integers, draws: Floats) -> Integers:
        """A cell for each row, by its own draw: a map of each row by itself."""
        found = np.empty(len(draws), dtype=np.int64)
        for rows, block in _blocks(np.arange(len(draws))):
            found[rows] = _pick(self.logits(others[block]), draws[block])[: len(rows)]
        return found


def attention_network(given: Sequence[int], outputs: int, width: int) -> Chain:
    """From the cells of several columns to the logits of one, at first all of them 0.

    Points have numbers of variance 1 at first: a mean over many columns is short, and its gradients shorter.
    """
    points = Embedding(tuple(given), width, gain=math.sqrt(width))
    return Chain((points, Attention(len(given), width), Linear(width, outputs, gain=0.0)))


@dataclass(frozen=True, eq=False)
class ColumnConditionals:
    """A network for each column, in their order."""

    order: tuple[int, ...]
    conditionals: tuple[ColumnConditional, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each column."""
        return tuple(self.conditionals[self.order.index(column)].cells for column in range(len(self.order)))

    def logits(self, column: int, codes: Integers) -> Floats:
        """Those of the column's own network."""
        place = self.order.index(column)
        return self.conditionals[place].logits(codes[:, self.order[:place]])

    def scores(self, column: int, codes: Integers) -> Floats:
        """As those of a shared network, one cell after the other."""
        found, tried = self.logits(column, codes), codes.copy()
        for cell in range(found.shape[1]):
            tried[:, column] = cell
            for other in self.order[self.order.index(column) + 1 :]:
                logits = self.logits(other, tried)
                log_power = np.take_along_axis(logits, tried[:, other, None], axis=1)[:, 0]
                found[:, cell] += log_power - np.log(np.exp(logits).sum(axis=1))
        return found

    def restricted(self, sizes: Sequence[int]) -> Self:
        """The conditionals given that every column is in its first cells."""
        parts = zip(self.order, self.conditionals, strict=True)
        return replace(self, conditionals=tuple(replace(part, cells=sizes[column]) for column, part in parts))

    def shifted(self, column: int, shift: Floats) -> Self:
        """Add a shift to the logits of a column: to the biases of its network."""
        conditionals, place = list(self.conditionals), self.order.index(column)
        conditional = conditionals[place]
        numbers = conditional.parameters.copy()
        begin = len(numbers) - conditional.outputs
        numbers[begin : begin + conditional.cells] += shift
        conditionals[place] = replace(conditional, parameters=numbers)
        return replace(self, conditionals=tuple(conditionals))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """All of it."""
        facts = [[part.outputs, part.cells, part.width] for part in self.conditionals]
        arrays: dict[str, NDArray[Any]] = {"order": np.array(self.order), "facts": np.array(facts)}
        for place, part in enumerate(self.conditionals):
            arrays |= {f"given{place}": np.array(part.given, dtype=np.int64), f"numbers{place}": part.parameters}
        return arrays

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The conditionals that a model file holds."""
        conditionals = [
            ColumnConditional(tuple(arrays[f"given{place}"].tolist()), outputs, cells, width, arrays[f"numbers{place}"])
            for place, (outputs, cells, width) in enumerate(arrays["facts"].tolist())
        ]
        return cls(tuple(arrays["order"].tolist()), tuple(conditionals))


@dataclass(frozen=True, eq=False)
class AutoregressiveModel:
    """A distribution over columns 0 … d-1, column by column; public, free to sample and to fill gaps from.

    Its marginals are sums over all earlier columns, and are not computed.
    """

    kind: ClassVar[str] = "autoregressive"

    conditionals: SharedConditionals | ColumnConditionals

    def __post_init__(self) -> None:
        # They see rows when gaps are filled, so only these very classes may be there.
        found = self.conditionals
        if type(found) is not SharedConditionals and not (
            type(found) is ColumnConditionals and all(type(part) is ColumnConditional for part in found.conditionals)
        ):
            raise ModelError(
                f"conditionals must be SharedConditionals or ColumnConditionals, not {type(found).__name__}",
                hint="use a model that the method kamino fitted",
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each column."""
        return self.conditionals.sizes

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows × columns of codes, column by column.

        Every cell follows its conditional given the row's earlier ones. In each column the draws of rows depend on each
        other: along rows that are sorted by some earlier columns, as many take a cell as expected, but for one
        (`systematic_by_row`). So tables of the column, also with these, are closer to the model's than those of
        independent draws.
        """
        codes = np.zeros((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        for place, column in enumerate(self.conditionals.order):
            for some in self._portions(codes, place, rng):
                logits = self.conditionals.logits(column, codes[some].astype(np.int64))
                codes[some, column] = systematic_by_row(logits, rng)
        return codes

    def _portions(self, codes: NDArray[np.integer], place: int, rng: np.random.Generator) -> Iterator[Integers]:
        """All rows, sorted by some columns before this place, in parts of bounded memory."""
        key = np.zeros(len(codes), dtype=np.int64)
        for column in rng.permutation(np.array(self.conditionals.order[:place], dtype=np.int64))[:SORT_COLUMNS]:
            key = key * self.sizes[column] + codes[:, column]
        shuffled = rng.permutation(len(codes))
        order = shuffled[np.argsort(key[shuffled], kind="stable")]
        step = max(_BLOCK, _CELLS // self.sizes[self.conditionals.order[place]])
        return (order[begin : begin + step] for begin in range(0, len(codes), step))

    def raked(self, targets: Mapping[int, Floats]) -> Self:
        """The model whose columns, in a large sample, have these marginals; the others follow.

        One column after the other gets shifts that bring its mean probabilities over the sample to its target.
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
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws.

        The missing cells of a row are first drawn column by column, given what comes before; then, `sweeps` times, each
        is drawn anew from its distribution given all other cells of the row (Gibbs sampling), so that later ones count
        too.
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
        """Everything that makes the model, as plain arrays to be saved."""
        return self.conditionals.to_arrays()

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that `to_arrays` took apart."""
        return cls((SharedConditionals if "skip" in arrays else ColumnConditionals).from_arrays(arrays))


def complete_gaps(gapped: AutoregressiveModel, sizes: Sequence[int]) -> AutoregressiveModel:
    """The distribution of complete rows, from a model whose columns have gap states after their first `sizes` cells.

    The distribution of observed cells is that of all cells if gaps depend on earlier columns alone. Where they depend
    on later ones its table of one column is biased. So rows are drawn with their gaps and filled given all that is
    observed in them; then columns are raked to the result, as far as chance does not explain it. Where each of
    many columns has a network, gaps are filled from earlier columns alone: trying each cell in all later networks would
    take hours.
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
    """Copy these fields to plain numpy arrays with no other reference: filling gaps indexes them by rows."""
    for name in names:
        object.__setattr__(conditionals, name, np.array(getattr(conditionals, name), dtype=np.float64))


def _blocks(rows: Integers) -> Iterator[tuple[Integers, Integers]]:
    """Some rows in blocks of one size, and the same filled up: then a row's numbers do not depend on the others."""
    for begin in range(0, len(rows), _BLOCK):
        some = rows[begin : begin + _BLOCK]
        yield some, np.concatenate([some, np.full(_BLOCK - len(some), some[0])])


def _pick(logits: Floats, draws: Floats) -> Integers:
    return inverse_sample(softmax(logits), np.arange(len(logits)), draws)
