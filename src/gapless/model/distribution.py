"""What a distribution over the codes of all columns must be able to do, and the simplest: columns as independent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.model.sampling import UniformDraws, inverse_sample
from gapless.types import Floats


class Distribution(Protocol):
    """Built from released values; it can be sampled and kept in a file."""

    @property
    def kind(self) -> str:
        """Its name in a model file."""

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Rows × columns of codes."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds of it."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The distribution that a model file holds."""


@runtime_checkable
class HasMarginal(Protocol):
    """A distribution whose marginals can be computed; of another one they are counted in a sample."""

    def marginal(self, columns: Sequence[int]) -> Floats:
        """The probabilities of each combination of cells of these columns.

        Raises:
            ModelError: A table on the way would have too many cells.
        """


@runtime_checkable
class CanFill(Protocol):
    """A distribution that can be drawn from given some of a row's cells."""

    def fill(self, given: NDArray[np.int64], chance: UniformDraws) -> NDArray[np.integer]:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws."""


@dataclass(frozen=True)
class Product:
    r"""The product of one-way distributions: :math:`p(x) = \prod_i p_i(x_i)`."""

    kind: ClassVar[str] = "product"

    probabilities: tuple[Floats, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        return tuple(len(marginal) for marginal in self.probabilities)

    def marginal(self, columns: Sequence[int]) -> Floats:
        """The probabilities of each combination of cells of these columns."""
        result = np.ones(())
        for column in columns:
            result = np.multiply.outer(result, self.probabilities[column])
        return result

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Rows × columns of codes; each column's counts are as near to their expectation as whole numbers are."""
        codes = np.empty((rows, len(self.probabilities)), dtype=np.int64, order="F")
        for column, marginal in enumerate(self.probabilities):
            codes[:, column] = systematic_codes(marginal, rows, rng)
        return codes

    def fill(self, given: NDArray[np.int64], chance: UniformDraws) -> NDArray[np.int64]:
        """Rows × columns of codes, those that are -1 drawn: a map of each row and its own draws."""
        codes = given.copy()
        for column, marginal in enumerate(self.probabilities):
            cells = inverse_sample(marginal[None, :], np.zeros(len(given), dtype=np.int64), chance())
            codes[:, column] = np.where(given[:, column] < 0, cells, given[:, column])
        return codes

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds."""
        return {str(i): marginal for i, marginal in enumerate(self.probabilities)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Product:
        """The distribution that a model file holds."""
        return cls(tuple(arrays[str(i)] for i in range(len(arrays))))


def systematic_codes(probabilities: Floats, rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Codes in random order whose counts differ from rows × probabilities by less than one each.

    The whole parts are certain, the fractions are drawn by systematic sampling: expectations are exact.
    """
    ends = np.cumsum(probabilities / probabilities.sum()) * rows
    ends[-1] = rows
    reached = np.floor(ends + rng.random()).clip(0, rows)
    reached[-1] = rows
    counts = np.diff(reached, prepend=0.0).astype(np.int64)
    return rng.permutation(np.repeat(np.arange(len(counts)), counts))
