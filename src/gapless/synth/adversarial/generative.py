r"""Distributions given by a generator, and the critic that a fitted model keeps.

A generator maps noise z through a small network to probabilities of each column's cells. Cells are drawn from these:

.. math:: p(x) = \mathbb E_z \prod_j \operatorname{softmax}(b_j + V_j\, h(z))_{x_j}, \qquad h(z) = \max(Uz + c,\,
          \lambda (Uz + c))

The network was trained against private critics. The biases b are shifted afterwards, as post-processing: each column's
mean distribution, over many draws of noise, then equals its released table.

A critic estimates how much more likely each row is among private rows than among generated rows. It was paid for in
training. The critic of a game (`game`) is :math:`W = A - \mathbb E\,\varphi(G(z))`, with A the released private
gradients. W has no natural scale. So rows are weighted by :math:`e^{t f(x)}` with :math:`f(x) = \langle W,
\varphi(x)\rangle`. To first order this moves the mean of :math:`\varphi` over generated rows by :math:`t\,\Sigma W`,
where :math:`\Sigma` is the covariance of :math:`\varphi` among them. The distance to private rows is smallest for

.. math:: t = \frac{\langle W, \Sigma W\rangle - s^2 \operatorname{tr} \Sigma}{\lVert \Sigma W\rVert^2}

s² is the variance of the noise in each entry of A, which W contains too. Without this term, t would follow noise. If
the numerator is not positive, t is 0 and all weights are equal. All of this is a function of released values and of
rows drawn from the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from gapless.model.distribution import Distribution
from gapless.model.neural.layers import Chain, Linear, PairwiseCritic, ReLU
from gapless.model.sampling import LEAST_SHARE, SORT_COLUMNS, code_dtype, systematic_by_row
from gapless.privacy.private import Released
from gapless.privacy.sgd import RowGradients
from gapless.synth.adversarial.game import Generator, Opponents
from gapless.types import Codes, Floats

__all__ = ["Critic", "CriticFacts", "GappedGenerator", "GeneratorModel", "network"]

LEAK = 0.2
RAKED = 1 << 13  # draws of noise for raking columns to their tables
RAKES, CLOSE = 60, 1e-4  # most steps of raking; largest error in a probability at which raking stops
_PORTION = 1 << 15  # rows drawn at a time


def network(inputs: int, hidden: int, outputs: int) -> Chain:
    """Return a network with one hidden layer."""
    return Chain((Linear(inputs, hidden), ReLU(LEAK), Linear(hidden, outputs)))


@dataclass(frozen=True, eq=False)
class GeneratorModel:
    """A distribution over columns 0 … d-1 given by a generator; public, free to sample."""

    kind: ClassVar[str] = "generator"

    generator: Generator
    parameters: Floats

    @classmethod
    def of(cls, generator: Generator, numbers: Floats) -> Self:
        """Build the model from a trained generator; a decoder becomes part of its last layer."""
        if generator.decoder is None:
            return cls(generator, numbers)
        (first, first_bias), _, (last, bias) = generator.network.unpack(numbers)
        plain = network(len(first), len(first_bias), generator.decoder.shape[1])
        parts = first, first_bias, last @ generator.decoder, bias @ generator.decoder
        return cls(replace(generator, network=plain, decoder=None), np.concatenate([np.ravel(part) for part in parts]))

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each column."""
        return self.generator.sizes

    def chances(self, rows: int, rng: np.random.Generator) -> Floats:
        """Draw noise for each row; return rows × cells of all columns, the probabilities given the noise."""
        generator = self.generator
        return generator.forward(generator.network.unpack(self.parameters), generator.inputs(rows, rng))[0]

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Draw rows × columns of codes.

        Every cell follows its probabilities given the row's noise. In each column the draws of rows depend on each
        other, by systematic sampling along rows sorted by some other columns. So the count of a cell differs from its
        expectation by less than one.
        """
        codes = np.zeros((rows, len(self.sizes)), dtype=code_dtype(self.sizes), order="F")
        starts = self.generator.starts
        for begin in range(0, rows, _PORTION):
            some = codes[begin : begin + _PORTION]
            chances = self.chances(len(some), rng)
            for column in range(len(self.sizes)):
                key = np.zeros(len(some), dtype=np.int64)
                for other in rng.permutation(column)[:SORT_COLUMNS]:
                    key = key * self.sizes[other] + some[:, other]
                order = np.argsort(key, kind="stable")
                part = chances[order, starts[column] : starts[column + 1]]
                some[order, column] = systematic_by_row(np.log(np.maximum(part, 1e-300)), rng)
        return codes

    def raked(self, targets: Sequence[Floats]) -> Self:
        """Return the model with biases for which the columns have these marginals, over many draws of noise."""
        generator = self.generator
        shown, held = generator.inputs(RAKED, np.random.default_rng(0))  # public: the same values give the same model
        logits = generator.network.forward(generator.network.unpack(self.parameters), shown)[0] + generator.bias
        wanted, shift = np.maximum(np.concatenate(targets), LEAST_SHARE), np.zeros(logits.shape[1])
        for _ in range(RAKES):
            mean = np.maximum(generator.chances(logits + shift, held)[0].mean(axis=0), LEAST_SHARE / 10)
            shift += np.log(wanted / mean)
            if np.abs(mean - wanted).max() < CLOSE:
                break
        return replace(self, generator=replace(generator, bias=generator.bias + shift))

    def restricted(self, sizes: Sequence[int]) -> Self:
        """Return the model conditioned on each column's first cells, for every noise: gap states get no probability."""
        generator = self.generator
        starts = zip(generator.starts[:-1], sizes, strict=True)
        kept = np.concatenate([np.arange(start, start + size) for start, size in starts])
        (first, first_bias), _, (last, bias) = generator.network.unpack(self.parameters)
        smaller = replace(
            generator,
            network=network(len(first), len(first_bias), len(kept)),
            sizes=tuple(sizes),
            bias=generator.bias[kept],
        )
        if generator.given:  # the network has the same inputs as before, but gap states are never drawn
            marginals = (
                np.r_[marginal[: sizes[c]], np.zeros(len(marginal) - sizes[c])]
                for c, marginal in zip(generator.given, generator.marginals, strict=True)
            )
            smaller = replace(smaller, marginals=tuple(marginals))
        parts = first, first_bias, last[:, kept], bias[kept]
        return replace(self, generator=smaller, parameters=np.concatenate([np.ravel(part) for part in parts]))

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the model as plain arrays, to be saved."""
        generator = self.generator
        hidden = generator.network.shapes[1]
        arrays: dict[str, NDArray[Any]] = {
            "sizes": np.array(self.sizes, dtype=np.int64),
            "widths": np.array([generator.noise, hidden], dtype=np.int64),
            "given": np.array(generator.given, dtype=np.int64),
            "bias": generator.bias,
            "parameters": self.parameters,
        }
        return arrays | {f"marginal{place}": marginal for place, marginal in enumerate(generator.marginals)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild a model from the result of `to_arrays`."""
        sizes, (noise, hidden), given = (arrays[name].tolist() for name in ("sizes", "widths", "given"))
        marginals = tuple(arrays[f"marginal{place}"] for place in range(len(given)))
        generator = Generator(
            network=network(noise + sum(map(len, marginals)), hidden, sum(sizes)),
            sizes=tuple(sizes),
            noise=noise,
            bias=arrays["bias"],
            given=tuple(given),
            marginals=marginals,
        )
        return cls(generator, arrays["parameters"])


@dataclass(frozen=True, eq=False)
class GappedGenerator:
    """Rows of one generator with gaps from the masks of another, which do not depend on the rows.

    A mask's column has a state for no gap and one for each kind of gap.
    """

    kind: ClassVar[str] = "generator with gaps"

    rows: GeneratorModel
    masks: GeneratorModel

    @property
    def sizes(self) -> tuple[int, ...]:
        """The cells of each column, gap states included."""
        return tuple(size + states - 1 for size, states in zip(self.rows.sizes, self.masks.sizes, strict=True))

    def sample(self, rows: int, rng: np.random.Generator) -> Codes:
        """Rows × columns of codes, gap states included."""
        codes, states = self.rows.sample(rows, rng), self.masks.sample(rows, rng)
        for column, size in enumerate(self.rows.sizes):
            codes[:, column] = np.where(states[:, column] > 0, size - 1 + states[:, column], codes[:, column])
        return codes

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays of both generators."""
        models = {"rows": self.rows, "masks": self.masks}
        return {f"{part}.{name}": array for part, model in models.items() for name, array in model.to_arrays().items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild a model from the result of `to_arrays`."""
        parts: dict[str, dict[str, NDArray[Any]]] = {"rows": {}, "masks": {}}
        for key, array in arrays.items():
            part, _, name = key.partition(".")
            parts.setdefault(part, {})[name] = array
        return cls(GeneratorModel.from_arrays(parts["rows"]), GeneratorModel.from_arrays(parts["masks"]))


DRAWN = 1 << 14
WIDEST = 1.0  # largest standard deviation of log weights among generated rows
_SCORED_AT_ONCE = 1 << 12  # rows scored at a time


class CriticFacts(NamedTuple):
    """Facts about the running mean of private gradients in a game.

    Attributes:
        kept: the total weight of all steps in the mean.
        noise_std: the standard deviation of the noise in each of its numbers.
        clip: the clipping norm of a row's gradient.
    """

    kept: float
    noise_std: float
    clip: float


@dataclass(frozen=True, slots=True, eq=False)
class Critic:
    """The log odds that a row is private, up to a constant.

    Attributes:
        code_points: the point of each code of each column.
        weights: t W, one block for each pair of columns after the other.
        clip: the clipping norm of a row's products, as in the training of the critic.
        entry: the ledger entry that paid for the critic. Every critic has one.
    """

    code_points: tuple[Floats, ...]
    weights: Floats
    clip: float
    entry: int

    @classmethod
    def from_release(cls, released: Released[Floats], side: Opponents, model: Distribution, known: CriticFacts) -> Self:
        """Build the critic from the released result of a game.

        Its scale is computed from rows drawn from the model with a public seed.
        """
        size, clip = sum(side.critic.shapes), known.clip
        aim, noise = released.value[:size] / known.kept, known.noise_std / known.kept
        plain = cls(side.code_points, np.zeros(size), clip, released.entry)
        made = model.sample(DRAWN, np.random.default_rng(0)).astype(np.int64)
        halves = made[::2], made[1::2]  # one half to compute W, the other to evaluate it
        numbers = aim - plain._mean(halves[0], np.ones(len(halves[0])))
        scores = cls(side.code_points, numbers, clip, released.entry).log_odds(halves[1])
        mean = plain._mean(halves[1], np.ones(len(scores)))
        moved = plain._mean(halves[1], scores) - scores.mean() * mean
        spread = plain._square(halves[1]) - float(mean @ mean)
        gain = float((aim - mean) @ moved) - noise**2 * spread
        scale = max(0.0, gain) / max(float(moved @ moved), 1e-300)
        widest = WIDEST / max(float(scores.std()), 1e-300)
        return cls(side.code_points, min(scale, widest) * numbers, clip, released.entry)

    def _blocks(self, codes: NDArray[np.integer]) -> Iterator[tuple[slice, Floats, RowGradients, Floats]]:
        """Yield blocks of rows: their slice, points, products of points, and the factors that clip the products."""
        pairs = PairwiseCritic(tuple(lines.shape[1] for lines in self.code_points))
        for begin in range(0, len(codes), _SCORED_AT_ONCE):
            some = slice(begin, begin + _SCORED_AT_ONCE)
            points = np.concatenate([lines[codes[some, c]] for c, lines in enumerate(self.code_points)], axis=1)
            _, (products,) = pairs.backward(np.zeros(0), points, np.ones((len(points), 1)), to_inputs=False)
            lengths = np.sqrt(products.squared_norms())
            yield some, points, products, np.minimum(1.0, self.clip / np.maximum(lengths, 1e-300))

    def _mean(self, codes: NDArray[np.integer], weights: Floats) -> Floats:
        """Return the mean of the rows' clipped products times their weights."""
        total = np.zeros(len(self.weights))
        for some, _, products, cut in self._blocks(codes):
            total += products.total(cut * weights[some])
        return total / len(codes)

    def _square(self, codes: NDArray[np.integer]) -> float:
        """Return the mean squared norm of the rows' clipped products."""
        return sum(float((cut**2) @ products.squared_norms()) for *_, products, cut in self._blocks(codes)) / len(codes)

    def log_odds(self, codes: NDArray[np.integer]) -> Floats:
        """Return the log odds of each row, from rows × columns of codes."""
        pairs = PairwiseCritic(tuple(lines.shape[1] for lines in self.code_points))
        matrix, scores = pairs.unpack(self.weights), np.zeros(len(codes))
        for some, points, _, cut in self._blocks(codes):
            scores[some] = cut * pairs.forward(matrix, points)[0][:, 0]
        return scores

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the critic as plain arrays for a model file."""
        facts = {"weights": self.weights, "clip": np.array(self.clip), "entry": np.array(self.entry)}
        return facts | {f"code_points{place}": points for place, points in enumerate(self.code_points)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild the critic from a model file."""
        many = sum(name.startswith("code_points") for name in arrays)
        code_points = tuple(arrays[f"code_points{place}"] for place in range(many))
        return cls(code_points, arrays["weights"], float(arrays["clip"]), int(arrays["entry"]))
