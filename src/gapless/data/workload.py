"""Many marginals of one sealed table, counted once, and the scores by which synthesizers choose among them.

Every score is a sealed vector with one number for each candidate; its distance says how far each of them can
move when one protected unit comes or goes. Proofs in docs/proofs/scores.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.data.counting import count
from gapless.data.private_table import Encoded, PrivateTable, WhichRows, once
from gapless.errors import ModelError
from gapless.privacy.mechanisms import Floats, Integers
from gapless.privacy.private import L1, Columns, Linf, Private


class Workload:
    """The marginals that may be measured or chosen: each is a set of columns, by position."""

    def __init__(self, table: PrivateTable, marginals: Sequence[tuple[int, ...]], *, rows: WhichRows) -> None:
        names = table.schema.names
        self._places = {marginal: place for place, marginal in enumerate(marginals)}
        self._sealed = table.marginals([[names[c] for c in marginal] for marginal in marginals], rows=rows)
        self._all = Private.gather(self._sealed).transform(once(list), distance=None, reads=None)
        self._unit = table.protect.at_most

    def counts(self, marginal: tuple[int, ...]) -> Private[Integers, L1]:
        """The counts of one marginal."""
        return self._sealed[self._places[marginal]]

    def misfit(
        self,
        candidates: Sequence[tuple[int, ...]],
        expected: Sequence[Floats],
        weights: Floats,
        offsets: Floats,
    ) -> Private[Floats, Linf]:
        r"""How badly public probabilities p describe each candidate's counts c, by their own total.

        .. math:: s = w \bigl(\tfrac12 \lVert c - |c|\,p \rVert_1 - o\bigr)

        Distance: one row at cell e changes c - |c| p by e - p, so s by at most :math:`w \tfrac12 \lVert e - p\rVert_1
        \le w`; k rows by k w. Unlike ‖c - N p‖ it does not prefer marginals with many gaps (PRIVACY C3).
        """
        laws = [np.maximum(p, 0.0) / np.maximum(p, 0.0).sum() for p in expected]  # the proof needs probabilities
        if not (weights >= 0).all():
            raise ModelError("a weight of the workload is negative", hint="weights of 0 or more")

        def scores(counts: Sequence[Integers]) -> Floats:
            misfits = [
                0.5 * np.abs(c - c.sum() * p).sum() for c, p in zip(self._chosen(counts, candidates), laws, strict=True)
            ]
            weighted: Floats = weights * (np.array(misfits) - offsets)
            return weighted

        return self._all.transform(
            once(scores), distance=Linf(self._unit * float(weights.max())), reads=self._reads(candidates)
        )

    def among(self, scores: Private[Floats, Linf], places: Sequence[int]) -> Private[Floats, Linf]:
        """The scores of some of the candidates: leaving numbers out moves none of the others."""
        return scores.transform(
            lambda all_scores: all_scores[list(places)], distance=scores.distance, reads=scores.reads
        )

    def dependence(self, candidates: Sequence[tuple[int, ...]]) -> Private[Floats, Linf]:
        r"""How much the first column of each candidate depends on the others, in rows.

        .. math:: s = \tfrac12 \lVert c(x, \pi) - c(x) c(\pi) / m \rVert_1, \qquad m = \sum c

        Distance: 2 for each row. Adding a row at (x₀, π₀) changes the matrix by m/(m+1) (e - r)(f - s)ᵀ with
        r = c(x)/m, s = c(π)/m, whose L1 norm is below 4 (PRIVACY C1); no total is needed, gaps or not.
        """

        def scores(counts: Sequence[Integers]) -> Floats:
            return np.array([_dependence(c) for c in self._chosen(counts, candidates)])

        return self._all.transform(once(scores), distance=Linf(2.0 * self._unit), reads=self._reads(candidates))

    def _chosen(self, counts: Sequence[Integers], candidates: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
        return [counts[self._places[one]] for one in candidates]

    def _reads(self, candidates: Sequence[tuple[int, ...]]) -> Columns | None:
        return _needed_by_all([self._sealed[self._places[one]].reads for one in candidates])


class Views:
    """Columns of a sealed table, each whole or with some of its cells merged, and marginals of these.

    A view is a column, by position, and the public code that takes the place of each of its codes. Codes of observed
    cells stay below those of gaps. Each row is recoded by itself, so the distance in rows stays; marginals are counted
    when they are asked for, which suits candidates that become known step by step.
    """

    def __init__(self, table: PrivateTable, views: Sequence[tuple[int, Integers]], *, rows: WhichRows) -> None:
        columns = [table.schema.columns[c] for c, _ in views]
        extended = [int(merged.max()) + 1 for _, merged in views]
        observed = [int(merged[: c.size].max()) + 1 for (_, merged), c in zip(views, columns, strict=True)]
        for column, (_, merged), size in zip(columns, views, observed, strict=True):
            if merged.shape != (column.extended_size,) or merged.min() < 0 or (merged[column.size :] < size).any():
                raise ModelError(
                    f"column {column.name!r}: these codes do not keep observed cells and gaps apart",
                    hint="one new code for each old one, gaps last",
                )

        def recode(inside: Encoded) -> Encoded:
            return Encoded(
                tuple(merged.astype(inside.columns[c].dtype)[inside.columns[c]] for c, merged in views), inside.rows
            )

        self.sizes = tuple(observed if rows == "observed" else extended)
        self._names = [column.name for column in columns] if rows == "observed" else None
        self._extended = extended
        self._table = table
        self._rows = table._rows.transform(once(recode), distance=table.protect, reads=None)  # noqa: SLF001 one room
        self._known: dict[tuple[int, ...], float] = {}  # private scores: never looked at but by `dependence`

    def counts(self, marginal: tuple[int, ...]) -> Private[Integers, L1]:
        """The counts of one marginal of views. A row is in one cell of it, as in `PrivateTable.marginal`."""

        def counted(inside: Encoded) -> Integers:
            return self._count(inside, [marginal])[0]

        return self._rows.transform(
            once(counted), distance=L1(self._table.protect.at_most), reads=self._reads(marginal)
        )

    def dependence(self, candidates: Sequence[tuple[int, ...]]) -> Private[Floats, Linf]:
        """As `Workload.dependence`; what was computed for an earlier step is not computed again."""

        def scores(inside: Encoded) -> Floats:
            fresh = [one for one in candidates if one not in self._known]
            self._known |= zip(fresh, map(_dependence, self._count(inside, fresh)), strict=True)
            return np.array([self._known[one] for one in candidates])

        return self._rows.transform(
            once(scores),
            distance=Linf(2.0 * self._table.protect.at_most),
            reads=_needed_by_all([self._reads(one) for one in candidates]),
        )

    def _count(self, inside: Encoded, marginals: Sequence[tuple[int, ...]]) -> list[Integers]:
        all_counts = count(inside.columns, self._extended, marginals, inside.rows)
        return [
            counts[tuple(slice(self.sizes[v]) for v in one)] for one, counts in zip(marginals, all_counts, strict=True)
        ]

    def _reads(self, marginal: tuple[int, ...]) -> Columns | None:
        named = () if self._names is None else (self._names[v] for v in marginal)
        return self._table._required | frozenset(named) or None  # noqa: SLF001 one room


def _needed_by_all(reads: Sequence[Columns | None]) -> Columns | None:
    """A row is read if it is observed on any candidate, so only what all of them need is needed."""
    if any(one is None for one in reads):
        return None
    return frozenset.intersection(*(one for one in reads if one is not None)) or None


def _dependence(counts: Integers) -> float:
    table = counts.reshape(counts.shape[0], -1)
    total = table.sum()
    if total == 0:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * (table.sum(axis=0, keepdims=True) / total)
    return 0.5 * float(np.abs(table - expected).sum())
