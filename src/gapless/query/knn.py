"""Nearest-neighbour imputation with noise by smooth sensitivity: [KNN], corrected (docs/proofs/neighbours.md)."""

from __future__ import annotations

import math
import operator
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Literal

import numpy as np

from gapless.data import PrivateTable
from gapless.data.neighbors import Matching, Scheme
from gapless.data.row_contribution import CodesByName
from gapless.data.sums import neighbour_sum, plain_sum
from gapless.privacy import Grant, Loss, Private, Smooth, SmoothCauchy, SmoothValue, for_counts
from gapless.query.answers import Answer
from gapless.query.compiled import CompiledQuestion, TotalEstimand, VarianceEstimand
from gapless.query.condition import known_column
from gapless.query.treatments import (
    Preview,
    as_sentence,
    check_filling,
    checked_names,
    guarantee_text,
    noise_target,
    rows_for,
    weight_note,
)
from gapless.schema import Schema
from gapless.text import listing
from gapless.types import Floats, Integers

ROW_COUNT_SHARE = 0.1  # of the budget, for a number of rows that does not depend on filled values
MAX_EXACT = 1 << 20  # combinations of cells for which the exact bound is computed
NO_INTERVAL = "No interval: the size of the noise is itself private (smooth sensitivity)."


@dataclass(frozen=True, slots=True, kw_only=True)
class Knn:
    r"""Fill gaps from the most similar rows. The noise is proportional to the influence of one row in this table.

    Rows are compared `on` public columns. One row can be the nearest to many rows with gaps and so change many of them.
    The bound :math:`1 + L_1` on this number is private, and the noise scales with it. The answer is consistent if rows
    that are alike on these columns are alike in the missing values. Each sum needs a share of the budget above ε =
    ln 2; below, use `HotDeck`.

    A count or a sum is one release for each group. A proportion or a mean also pays for the number of rows, a variance
    for the mean as well. If the number of rows does not depend on filled values, it is counted without filling, for all
    groups at once, with a tenth of the budget.

    The search for the exact bound can be slow if there are many combinations of cells. `cover` names some columns of
    `on`. The bound is then computed over boxes that fix these columns and leave the others free. This is faster, and
    the bound is never smaller; `[]` uses one box for all gaps. By default the schema decides: exact up to 2²⁰
    combinations, else a cover by the first columns of `on` that have no more. The table does
    not decide, nor does the search time.

    Guarantee: `neighbour_sum` with SmoothCauchy: docs/proofs/neighbours.md, docs/proofs/smooth_cauchy.md.
    """

    on: Sequence[str]  # kept as a tuple
    neighbors: int = 1
    scheme: Scheme = "nearest"
    distance: Literal["gower", "euclidean"] = "gower"
    cover: Sequence[str] | None = None  # kept as a tuple

    def __post_init__(self) -> None:
        object.__setattr__(self, "on", checked_names(self.on, "on"))
        if self.cover is not None:
            object.__setattr__(self, "cover", checked_names(self.cover, "cover"))
        self._with_cover(self.cover)

    @property
    def uses_majority(self) -> bool:
        """Whether gaps are filled with the most frequent value of the neighbours."""
        return self.scheme == "majority"

    def _with_cover(self, cover: Sequence[str] | None) -> Matching:
        return Matching(**asdict(self) | {"cover": cover})

    def matching(self, schema: Schema) -> Matching:
        """How rows are matched: a function of this treatment and the public schema only."""
        combinations = list(accumulate((schema[known_column(schema, name)].size for name in self.on), operator.mul))
        if self.cover is None and combinations[-1] > MAX_EXACT:
            return self._with_cover(self.on[: bisect_right(combinations, MAX_EXACT)])
        return self._with_cover(self.cover)

    def answer(self, asked: CompiledQuestion, table: PrivateTable, grant: Grant) -> Answer:
        """Release the number of rows, if it is needed, and a sum for each group."""
        rows = rows_for(table, asked)
        check_filling(asked, self.on)
        parts, entries = _KnnRelease(asked, self.matching(table.schema), table, rows, grant).parts()
        estimates = asked.estimates(parts, 1, None)
        return Answer(
            asked.text,
            estimates,
            as_sentence(self.describe(asked), weight_note(asked, table), asked.caveat),
            guarantee_text(table),
            entries,
            NO_INTERVAL,
            asked.question.levels(table.schema),
        )

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The median size of the noise, for each row of the private bound."""
        check_filling(asked, self.on)
        self.matching(asked.declared_schema).check(asked.declared_schema, asked.targets)
        share = _shares(asked, loss)[1] / asked.contribution.groups
        mechanism = SmoothCauchy.for_loss(share, Smooth(per_person, 1.0))
        rows = rows if asked.estimand.is_ratio else None
        changed = "for each row that one row can change (itself and those filled from it: private)"
        scale = (
            asked.estimand.std_factor
            / (math.sqrt(2) if isinstance(asked.estimand, VarianceEstimand) else 1)
            / (rows or 1)
        )
        return Preview(
            asked.text,
            None,
            f"{noise_target(asked, rows)}, {changed}",
            mechanism.median_per_bound * scale,
            depends_on_rows=asked.estimand.is_ratio,
            rows=rows,
        )

    def describe(self, asked: CompiledQuestion) -> str:
        """How gaps are filled, for the answer."""
        rows = "row" if self.neighbors == 1 else f"{self.neighbors} rows"
        how = "" if self.scheme == "nearest" else f", by their {self.scheme}"
        return f"gaps in {listing(asked.targets)} are filled from the {rows} nearest in {listing(self.on)}{how}"


def _shares(asked: CompiledQuestion, loss: Loss) -> tuple[Loss, Loss]:
    """The budget for the number of rows of all groups, and for each of the other sums of all groups."""
    sums = 2 if isinstance(asked.estimand, VarianceEstimand) else 1  # of values, and of squares around their mean
    if not asked.estimand.is_ratio:
        return loss * 0.0, loss
    for_rows = loss / (sums + 1) if asked.is_row_count_filled else loss * ROW_COUNT_SHARE
    return for_rows, (loss - for_rows) / sums


@dataclass(frozen=True)
class _KnnRelease:
    """The releases for one question: separate sums, from which the parts of its estimand follow."""

    asked: CompiledQuestion
    matching: Matching
    table: PrivateTable  # rows are matched by its bins
    rows: PrivateTable  # the same, by the cells that the question reads
    grant: Grant

    def parts(self) -> tuple[Floats, tuple[int, ...]]:
        """The parts of each group, in rows, and the numbers of the ledger entries."""
        shape = self.asked.estimand
        for_rows, for_sum = _shares(self.asked, self.grant.left)
        if isinstance(shape, TotalEstimand):
            sums, paid = self._release(self._declare(lambda added: added[:, 0], shape.low, shape.high), for_sum, "")
            return sums[:, None], paid
        # u - 1/2 for each row: centring halves the row's own contribution to the bound
        centred = self._declare(lambda added: _membership(added) * (_value(added) - 0.5), -0.5, 0.5)
        _mechanisms(centred, for_sum)  # refuses a share that is too small, before anything is spent
        rows, first = self._count_rows(for_rows)
        sums, second = self._release(centred, for_sum, "")
        if not isinstance(shape, VarianceEstimand):
            return np.stack([rows / 2 + sums, rows / 2 - sums], axis=1), first + second
        means = np.clip(0.5 + sums / np.maximum(2.0, rows), 0, 1)
        # (u - mean)² around released means, each centred at half of its largest value
        most = np.maximum(means, 1 - means) ** 2
        around = [
            self._declare_group(group, _square_around(mean, top), -top / 2, top / 2)
            for group, (mean, top) in enumerate(zip(means.tolist(), most.tolist(), strict=True))
        ]
        spreads, third = self._release(around, for_sum, "squares of ")
        values = rows * means
        squares = spreads + rows * most / 2 + rows * means**2
        return np.stack([squares, values - squares, rows - values], axis=1), first + second + third

    def _count_rows(self, loss: Loss) -> tuple[Floats, tuple[int, ...]]:
        """The number of rows of each group: counted for all groups at once, unless it depends on filled values."""
        if self.asked.is_row_count_filled:
            return self._release(self._declare(_membership, 0.0, 1.0), loss, "number of rows of ")
        value = plain_sum(self.rows, self.asked.row_count)
        what = f"number of rows of {self.asked.text}"
        released = self.grant.release(value, for_counts(loss, value.distance), what=what)
        return released.value.astype(np.float64), (released.entry,)

    def _declare(self, f: Callable[[Floats], Floats], low: float, high: float) -> list[Private[SmoothValue, Smooth]]:
        return [self._declare_group(group, f, low, high) for group in range(self.asked.contribution.groups)]

    def _declare_group(
        self, number: int, f: Callable[[Floats], Floats], low: float, high: float
    ) -> Private[SmoothValue, Smooth]:
        """The sum over the filled rows of a group of f(parts of the row)."""
        contribution = self.asked.contribution

        def value(columns: CodesByName) -> Floats:
            group: Integers
            group, added = contribution.evaluate(columns)
            return np.where(group == number, f(added / contribution.unit), 0.0)

        return neighbour_sum(
            self.table,
            value,
            targets=self.asked.targets,
            matching=self.matching,
            low=low,
            high=high,
            values_from=self.rows,
        )

    def _release(
        self, sealed: Sequence[Private[SmoothValue, Smooth]], loss: Loss, what: str
    ) -> tuple[Floats, tuple[int, ...]]:
        """One release for each group. One row can donate to all groups, so each is paid for."""
        groups = self.asked.groups or ((),)
        names = [what + self.asked.text + (f" = {', '.join(group)}" if group else "") for group in groups]
        released = self.grant.release_all(list(zip(sealed, _mechanisms(sealed, loss), names, strict=True)))
        return np.array([answer.value for answer in released]), tuple(answer.entry for answer in released)


def _mechanisms(sealed: Sequence[Private[SmoothValue, Smooth]], loss: Loss) -> list[SmoothCauchy]:
    return [SmoothCauchy.for_loss(loss / len(sealed), value.distance) for value in sealed]


def _square_around(mean: float, most: float) -> Callable[[Floats], Floats]:
    return lambda added: _membership(added) * ((_value(added) - mean) ** 2 - most / 2)


def _membership(added: Floats) -> Floats:
    """1 for a row that the answer is about, else 0."""
    return np.asarray(added.sum(axis=1))


def _value(added: Floats) -> Floats:
    """The value u in [0, 1] of a row from its parts: (u, 1 - u) or (u², u - u², 1 - u)."""
    return np.asarray(added[:, :-1].sum(axis=1))
