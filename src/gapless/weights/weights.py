"""Weights of the rows of a public table, and what they do to it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.data import PrivateTable, Table
from gapless.data.checks import check_comparable, check_private, check_public, shared_bins
from gapless.errors import Call, Hint, ModelError
from gapless.text import plural
from gapless.types import Floats

FEW = 0.1  # an effective share of the rows below which weights are warned of


class FewRowsWarning(UserWarning):
    """Weights that leave few rows to count."""


@dataclass(frozen=True, slots=True, eq=False)
class Weights:
    r"""One weight for each row of a public table, with mean 1: about p_private / p_synthetic at each row.

    They are an array wherever one is asked for: `LogisticRegression().fit(X, y, sample_weight=w)`,
    `compare(truth, fake, weights=w)`, `fake.with_weights(w)`.

    Attributes:
        values: the weights.
        method: how they were made.
        effective_rows: :math:`(\sum w)^2 / \sum w^2`, of how many rows without weights means would vary as much.
        largest_share: the share of all weight that the heaviest row has.
    """

    values: Floats
    method: str

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=np.float64)
        if values.ndim != 1 or not values.size or not (np.isfinite(values).all() and (values >= 0).all()):
            raise ModelError("these are no weights", hint="a finite number of 0 or more for each row")
        if not (total := values.sum()) > 0:
            raise ModelError("all weights are zero", hint="weights of which some are above 0")
        values *= values.size / total
        values.setflags(write=False)
        object.__setattr__(self, "values", values)
        if self.caution:
            warnings.warn(self.caution, FewRowsWarning, stacklevel=3)

    def __len__(self) -> int:
        return int(self.values.size)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:  # noqa: FBT001 a protocol
        return np.array(self.values, dtype=dtype, copy=copy)

    @property
    def effective_rows(self) -> float:
        """Of how many rows without weights a mean would vary as much."""
        return float(len(self) ** 2 / (self.values**2).sum())

    @property
    def largest_share(self) -> float:
        """The share of all weight that the heaviest row has."""
        return float(self.values.max() / len(self))

    def truncated(self, largest: float) -> Weights:
        """No weight above `largest` (in units of the mean before): less variance for some bias; the mean is 1 again."""
        if not largest > 0:
            raise ModelError(f"largest = {largest!r}", hint="a number above 0, such as 10")
        return Weights(np.minimum(self.values, largest), method=self.method)

    @property
    def caution(self) -> str | None:
        """What to be warned of: that less than a tenth of the rows is left in effect."""
        if self.effective_rows >= FEW * len(self):
            return None
        left = f"{self.effective_rows:.0f} of {plural(len(self), 'row')}"
        return (
            f"these weights leave {left} in effect: what is computed with them "
            "varies as if there were no more; truncate them, or use the rows without weights"
        )

    def __str__(self) -> str:
        share, left = self.effective_rows / len(self), plural(round(self.effective_rows), "row")
        return (
            f"{self.method} weights of {plural(len(self), 'row')}: {left} in effect ({share:.0%}), "
            f"the heaviest has {self.largest_share:.2%} of all weight"
        )

    def __repr__(self) -> str:
        return f"<Weights: {self}>"


def weighable(table: object, fake: object, what: str) -> tuple[PrivateTable, Table]:
    """A sealed table and public rows, of which there are some, told by the same bins; all else is refused.

    Bins to be learned are those of the public rows, or cut by these: nothing is read of the sealed table.
    """
    check_private(table, what, public=Hint("use ", Call("LogReg().fit", ...), ", which takes two public tables"))
    check_public(fake, f"{what} weights", private="a public table, such as a sample")
    assert isinstance(table, PrivateTable)  # noqa: S101 for mypy: checked above
    assert isinstance(fake, Table)  # noqa: S101 for mypy: checked above
    if not fake.rows:
        raise ModelError(f"{what}: there are no rows to weight", hint="a table with rows")
    if table.schema.fine.columns == fake.schema.fine.columns:
        bins = shared_bins(table.schema, fake, counted=fake)
        table, fake = table.told_by(bins), fake.told_by(bins)
    check_comparable(table.schema, fake.schema)
    return table, fake
