"""What a distribution over the codes of all columns must be able to do, and what it may be able to do besides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from gapless.model.sampling import Chance
from gapless.types import Floats


class Distribution(Protocol):
    """Built from released values; it can be sampled and kept in a file."""

    @property
    def kind(self) -> str:
        """Its name in a model file."""
        ...

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of cells of each column."""
        ...

    def sample(self, rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Rows × columns of codes."""
        ...

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """What a model file holds of it."""
        ...

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The distribution that a model file holds."""
        ...


@runtime_checkable
class HasMarginal(Protocol):
    """A distribution whose marginals can be computed; of another one they are counted in a sample."""

    def marginal(self, columns: Sequence[int]) -> Floats:
        """The probabilities of each combination of cells of these columns.

        Raises:
            ModelError: A table on the way would have too many cells.
        """
        ...


@runtime_checkable
class CanFill(Protocol):
    """A distribution that can be drawn from given some of a row's cells."""

    def fill(self, given: NDArray[np.int64], chance: Chance) -> NDArray[np.integer]:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws."""
        ...
