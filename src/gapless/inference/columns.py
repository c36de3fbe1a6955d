"""The shares and the mean of every column of a release, as `pool` estimates them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from gapless.errors import QuestionError
from gapless.inference.pooled import Pooled, PooledEstimate
from gapless.inference.pooling import pool
from gapless.query import CrossTable, Mean
from gapless.synth.copies import Copies


class ColumnEstimates(NamedTuple):
    """The estimates for one column.

    Attributes:
        shares: of the cells of the column, in the order of the schema: levels, or bins of numbers.
        mean: of the numbers of the column; None if it has no numbers.
    """

    shares: Pooled
    mean: PooledEstimate | None


def column_estimates(copies: Copies, names: Iterable[str] | None = None) -> dict[str, ColumnEstimates]:
    """Return the shares of the cells of every column, and the means of its numbers, with 95 % intervals.

    The numbers are those of `pool` for `CrossTable(name)` and `Mean(name)`. Copies are drawn once. An estimate has no
    interval where `unsupported` says why: for example, if noise hides the rows in which the column is observed.

    Args:
        copies: `model.copies(20)`.
        names: of the columns; by default all.
    """
    schema = copies.model.schema
    found = {}
    for name in schema.names if names is None else names:
        shares = pool(copies, CrossTable(name))
        found[name] = ColumnEstimates(shares, _mean(copies, name))
    return found


def _mean(copies: Copies, name: str) -> PooledEstimate | None:
    try:
        Mean(name).compile(copies.model.schema)
    except QuestionError:  # a column without numbers, or with one number only
        return None
    return pool(copies, Mean(name)).estimates[0]
