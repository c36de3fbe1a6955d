r"""Layers of small networks: forward, backward, and each row's gradient in a form whose norm is exact.

A layer has public shapes and masks. Its parameters are one vector. `unpack` reshapes it for computing, once for each
step. `forward` returns the outputs, and the values that `backward` needs. `backward` turns derivatives by the outputs
(*slopes*) into those by the inputs, and into the gradients of each row. Every layer maps each row by itself: there is
no batch normalisation.

`one_hot` turns codes into inputs. `cross_entropy` is the loss of predicted cells:

.. math:: \ell = -\sum_{j\ \text{observed}} \log \operatorname{softmax}(z_j)_{c_j}, \qquad
          \frac{\partial \ell}{\partial z_j} = \operatorname{softmax}(z_j) - e_{c_j}

A gap is not predicted: its column adds nothing to the loss of its row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.model.neural.gradients import DenseGradients, EmbeddingGradients, Mask, OuterGradients, row_wise_product
from gapless.privacy.sgd import RowGradients
from gapless.types import Floats, Values

# Slopes of the inputs, and the gradients of each group of parameters.
Backward: TypeAlias = tuple[Floats | None, list[RowGradients]]
WeightsAndBias: TypeAlias = tuple[Floats, Floats]  # a matrix and a bias
Scored: TypeAlias = tuple[Floats, Floats]  # inputs, and their attention weights
CodeColumns: TypeAlias = tuple[NDArray[np.integer], ...]


class Layer(Protocol):
    """A map of each row, with parameters."""

    @property
    def shapes(self) -> tuple[int, ...]:
        """The number of parameters in each group of parameters, in their order."""

    def start(self, rng: np.random.Generator) -> Floats:
        """Return initial parameters; by default zeros."""
        del rng
        return np.zeros(sum(self.shapes))

    def unpack(self, numbers: Floats) -> Any:
        """Reshape the parameters for computing."""

    def forward(self, weights: Any, inputs: Any) -> tuple[Any, Any]:
        """Return the outputs, and the values that `backward` needs."""

    def backward(self, weights: Any, memory: Any, slopes: Floats, *, to_inputs: bool) -> Backward:
        """Return the slopes of the inputs (None unless `to_inputs`), and the gradients of each group of parameters."""


class Affine:
    """x W + b, where all cells of W are parameters, or those of a mask."""

    __slots__ = ()

    @property
    def mask(self) -> Mask | None:
        """Which cells of W are parameters; None if all are."""
        return None

    def forward(self, weights: WeightsAndBias, inputs: Floats) -> tuple[Floats, Floats]:
        """Return x W + b."""
        matrix, bias = weights
        return row_wise_product(inputs, matrix) + bias, inputs

    def backward(self, weights: WeightsAndBias, memory: Floats, slopes: Floats, *, to_inputs: bool) -> Backward:
        """Return δ Wᵀ; and the gradients x ⊗ δ, in the cells of the mask, and δ."""
        return row_wise_product(slopes, weights[0].T) if to_inputs else None, [
            OuterGradients(memory, slopes, self.mask),
            DenseGradients(slopes),
        ]


@dataclass(frozen=True, slots=True)
class Linear(Affine):
    """x W + b, where W starts at random with entries of variance gain²/inputs; gain 0 starts at zero."""

    inputs: int
    outputs: int
    gain: float = 1.0

    @property
    def shapes(self) -> tuple[int, ...]:
        """The sizes of W and b."""
        return self.inputs * self.outputs, self.outputs

    def start(self, rng: np.random.Generator) -> Floats:
        """Draw W at random; b is zero."""
        drawn = rng.standard_normal(self.inputs * self.outputs) * (self.gain / math.sqrt(self.inputs))
        return np.concatenate([drawn, np.zeros(self.outputs)])

    def unpack(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return W and b."""
        matrix, bias = split(numbers, self.shapes)
        return matrix.reshape(self.inputs, self.outputs), bias


@dataclass(frozen=True, slots=True, eq=False)
class MaskedLinear(Affine):
    """x (W ∘ M) + b: only the cells allowed by the mask M, inputs × outputs, are parameters."""

    allowed: NDArray[np.bool_]
    gain: float = 1.0
    mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", Mask.of(self.allowed))

    @property
    def shapes(self) -> tuple[int, ...]:
        """The sizes of the allowed cells of W, and of b."""
        return self.mask.free.size, self.allowed.shape[1]

    def start(self, rng: np.random.Generator) -> Floats:
        """Draw W as for a linear layer, scaled by the number of inputs that each output sees; b is zero."""
        seen = np.maximum(1, self.allowed.sum(axis=0))
        drawn = rng.standard_normal(self.allowed.shape) * (self.gain / np.sqrt(seen))
        return np.concatenate([drawn[self.allowed], np.zeros(self.allowed.shape[1])])

    def unpack(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return W, with zeros in cells that are not allowed, and b."""
        cells, bias = split(numbers, self.shapes)
        return self.mask.matrix(cells), bias


@dataclass(frozen=True, slots=True, eq=False)
class PairwiseCritic(Layer):
    r"""A critic of pairs of columns: one number for each row, linear in the point of each column.

    .. math:: y = \sum_{j<k} x_j^{\mathsf T} W_{jk}\, x_k

    `sizes` are the dimensions of each column's point. No column is paired with itself.
    """

    sizes: tuple[int, ...]
    mask: Mask = field(init=False)

    def __post_init__(self) -> None:
        column = np.repeat(np.arange(len(self.sizes)), self.sizes)
        object.__setattr__(self, "mask", Mask.of(np.less.outer(column, column)))

    @property
    def shapes(self) -> tuple[int, ...]:
        """The size of the blocks of W above the diagonal."""
        return (self.mask.free.size,)

    def unpack(self, numbers: Floats) -> Floats:
        """Return W, with zeros below and on the diagonal blocks."""
        return self.mask.matrix(numbers)

    def forward(self, weights: Floats, inputs: Floats) -> tuple[Floats, Floats]:
        """Return the quadratic form xᵀ W x of each row."""
        return (row_wise_product(inputs, weights) * inputs).sum(axis=1, keepdims=True), inputs

    def backward(self, weights: Floats, memory: Floats, slopes: Floats, *, to_inputs: bool) -> Backward:
        """Return δ x (W + Wᵀ); and the gradient δ x ⊗ x above the diagonal."""
        back = slopes * row_wise_product(memory, weights + weights.T) if to_inputs else None
        return back, [OuterGradients(memory, slopes * memory, self.mask)]


@dataclass(frozen=True, slots=True)
class Embedding:
    """A learned point for each code of each column: columns of codes in, rows × columns × width out."""

    sizes: tuple[int, ...]
    width: int
    gain: float = 1.0

    @property
    def shapes(self) -> tuple[int, ...]:
        """The size of all tables together, one after another."""
        return (sum(self.sizes) * self.width,)

    def start(self, rng: np.random.Generator) -> Floats:
        """Draw points at random, with entries of variance gain²/width."""
        return rng.standard_normal(self.shapes[0]) * (self.gain / math.sqrt(self.width))

    def unpack(self, numbers: Floats) -> list[Floats]:
        """Return a table for each column."""
        tables = split(numbers, [size * self.width for size in self.sizes])
        return [table.reshape(-1, self.width) for table in tables]

    def forward(self, weights: list[Floats], inputs: CodeColumns) -> tuple[Floats, CodeColumns]:
        """Look up the point of each code."""
        looked = [table[codes] for table, codes in zip(weights, inputs, strict=True)]
        return np.stack(looked, axis=1), inputs

    def backward(self, weights: list[Floats], memory: CodeColumns, slopes: Floats, *, to_inputs: bool) -> Backward:
        """Return the gradients of the lines that were looked up. Codes have no slopes."""
        del weights, to_inputs
        return None, [EmbeddingGradients(memory, self.sizes, slopes)]


@dataclass(frozen=True, slots=True)
class Attention(Layer):
    r"""The mean of the columns' points, weighted by learned attention.

    .. math:: y = \sum_j p_j x_j, \qquad p = \operatorname{softmax}_j(\langle x_j, k\rangle / \sqrt{w} + b_j)

    Rows × columns × width in, rows × width out. k weights cells, b weights columns.
    """

    columns: int
    width: int

    @property
    def shapes(self) -> tuple[int, ...]:
        """The sizes of k and b."""
        return self.width, self.columns

    def unpack(self, numbers: Floats) -> tuple[Floats, Floats]:
        """Return k/√w and b."""
        key, bias = split(numbers, self.shapes)
        return key / math.sqrt(self.width), bias

    def forward(self, weights: WeightsAndBias, inputs: Floats) -> tuple[Floats, Scored]:
        """Return the weighted mean."""
        key, bias = weights
        scores = (inputs * key).sum(axis=2) + bias
        attention = np.exp(scores - scores.max(axis=1, keepdims=True))
        attention /= attention.sum(axis=1, keepdims=True)
        return (inputs * attention[:, :, None]).sum(axis=1), (inputs, attention)

    def backward(self, weights: WeightsAndBias, memory: Scored, slopes: Floats, *, to_inputs: bool) -> Backward:
        """Differentiate the mean and the softmax of the scores."""
        inputs, attention = memory
        of_attention = (inputs * slopes[:, None, :]).sum(axis=2)
        mean = (attention * of_attention).sum(axis=1, keepdims=True)
        of_scores = attention * (of_attention - mean)
        of_key = (inputs * of_scores[:, :, None]).sum(axis=1) / math.sqrt(self.width)
        gradients: list[RowGradients] = [DenseGradients(of_key), DenseGradients(of_scores)]
        if not to_inputs:
            return None, gradients
        return attention[:, :, None] * slopes[:, None, :] + of_scores[:, :, None] * weights[0], gradients


@dataclass(frozen=True, slots=True)
class ReLU(Layer):
    """max(x, 0), or `leak`·x below 0."""

    leak: float = 0.0

    @property
    def shapes(self) -> tuple[int, ...]:
        """No parameters."""
        return ()

    def unpack(self, numbers: Floats) -> None:
        """Nothing."""
        del numbers

    def forward(self, weights: None, inputs: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Return max(x, leak·x)."""
        del weights
        return np.maximum(inputs, self.leak * inputs), inputs > 0

    def backward(self, weights: None, memory: NDArray[np.bool_], slopes: Floats, *, to_inputs: bool) -> Backward:
        """Return δ where x > 0, leak·δ elsewhere."""
        del weights
        return np.where(memory, slopes, self.leak * slopes) if to_inputs else None, []


@dataclass(frozen=True, slots=True)
class Layers:
    """Several layers, their parameters one after another."""

    layers: tuple[Layer, ...]

    @property
    def shapes(self) -> tuple[int, ...]:
        """The sizes of all layers' parameters, one layer after another."""
        return tuple(size for layer in self.layers for size in layer.shapes)

    def start(self, rng: np.random.Generator) -> Floats:
        """Return the initial parameters of all layers."""
        return np.concatenate([layer.start(rng) for layer in self.layers])

    def unpack(self, numbers: Floats) -> list[Any]:
        """Return the unpacked parameters of each layer."""
        parts = split(numbers, [sum(layer.shapes) for layer in self.layers])
        return [layer.unpack(part) for layer, part in zip(self.layers, parts, strict=True)]


@dataclass(frozen=True, slots=True)
class Chain(Layers):
    """One layer after another."""

    def forward(self, weights: list[Any], inputs: Any) -> tuple[Any, list[Any]]:
        """Apply all layers in order."""
        memories = []
        for layer, part in zip(self.layers, weights, strict=True):
            inputs, memory = layer.forward(part, inputs)
            memories.append(memory)
        return inputs, memories

    def backward(self, weights: list[Any], memory: list[Any], slopes: Floats, *, to_inputs: bool) -> Backward:
        """Go back through all layers, the last first."""
        gradients: list[RowGradients] = []
        onward: Floats | None = slopes
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            onward, of_layer = layer.backward(weights[index], memory[index], onward, to_inputs=to_inputs or index > 0)  # type: ignore[arg-type]
            gradients = of_layer + gradients
        return onward, gradients


@dataclass(frozen=True, slots=True)
class Sum(Layers):
    """The sum of the outputs of several layers with the same inputs, such as a skip connection and a hidden layer."""

    def forward(self, weights: list[Any], inputs: Any) -> tuple[Floats, list[Any]]:
        """Return the sum of the layers' outputs."""
        results = [layer.forward(part, inputs) for layer, part in zip(self.layers, weights, strict=True)]
        return np.asarray(sum(outputs for outputs, _ in results)), [memory for _, memory in results]

    def backward(self, weights: list[Any], memory: list[Any], slopes: Floats, *, to_inputs: bool) -> Backward:
        """Pass the same slopes to each layer."""
        results = [
            layer.backward(part, layer_memory, slopes, to_inputs=to_inputs)
            for layer, part, layer_memory in zip(self.layers, weights, memory, strict=True)
        ]
        all_gradients = [gradient for _, gradients in results for gradient in gradients]
        back = [slopes for slopes, _ in results if slopes is not None]
        return np.asarray(sum(back)) if to_inputs else None, all_gradients


def split(numbers: Floats, sizes: Sequence[int]) -> list[Floats]:
    """Split a vector into parts of these sizes."""
    return [numbers[start:stop] for start, stop in pairwise(accumulate(sizes, initial=0))]


def one_hot(columns: Sequence[NDArray[np.integer]], sizes: Sequence[int]) -> Floats:
    """Return rows × codes of all columns: 1 at the code of each column, 0 elsewhere."""
    starts = np.array([0, *accumulate(sizes)])[:-1]
    places = np.stack(columns, axis=1) + starts
    inputs = np.zeros((len(places), sum(sizes)))
    inputs[np.arange(len(places))[:, None], places] = 1.0
    return inputs


def cross_entropy(outputs: Floats, columns: Sequence[Values], sizes: Sequence[int]) -> tuple[Floats, Floats]:
    """Return the loss of each row, and its derivatives by the outputs; codes from `sizes` on are gaps."""
    starts = np.array([0, *accumulate(sizes)])[:-1]
    column_of = np.repeat(np.arange(len(sizes)), sizes)
    chances = np.exp(outputs - np.maximum.reduceat(outputs, starts, axis=1).take(column_of, axis=1))
    chances /= np.add.reduceat(chances, starts, axis=1).take(column_of, axis=1)
    observed = np.stack([codes < size for codes, size in zip(columns, sizes, strict=True)], axis=1)
    places = np.stack([codes.astype(np.intp) for codes in columns], axis=1) + starts
    rows, which = np.nonzero(observed)
    cells = places[rows, which]
    losses = np.zeros(observed.shape)
    losses[rows, which] = -np.log(np.maximum(chances[rows, cells], np.finfo(np.float64).tiny))
    chances[rows, cells] -= 1.0
    if len(rows) < observed.size:
        chances *= observed[:, column_of]
    return np.asarray(losses.sum(axis=1)), chances
