"""Many marginals of one sealed table, counted once, and the scores by which synthesizers choose among them.

Every score is a sealed vector with one number for each candidate; its distance says how far each of them can
move when one protected unit comes or goes. Proofs in docs/proofs/scores.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.data.private_table import PrivateTable, WhichRows
from gapless.errors import ModelError
from gapless.privacy.mechanisms import Floats, Integers
from gapless.privacy.private import L1, Columns, Linf, Private


class Workload:
    """The marginals that may be measured or chosen: each is a set of columns, by position."""

    def __init__(self, table: PrivateTable, marginals: Sequence[tuple[int, ...]], *, rows: WhichRows) -> None:
        names = table.schema.names
        self._places = {marginal: place for place, marginal in enumerate(marginals)}
        self._sealed = table.marginals([[names[c] for c in marginal] for marginal in marginals], rows=rows)
        self._all = Private.gather(self._sealed)
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
            scores, distance=Linf(self._unit * float(weights.max())), reads=self._reads(candidates)
        )

    def dependence(self, candidates: Sequence[tuple[int, ...]]) -> Private[Floats, Linf]:
        r"""How much the first column of each candidate depends on the others, in rows.

        .. math:: s = \tfrac12 \lVert c(x, \pi) - c(x) c(\pi) / m \rVert_1, \qquad m = \sum c

        Distance: 2 for each row. Adding a row at (x₀, π₀) changes the matrix by m/(m+1) (e - r)(f - s)ᵀ with
        r = c(x)/m, s = c(π)/m, whose L1 norm is below 4 (PRIVACY C1); no total is needed, gaps or not.
        """

        def scores(counts: Sequence[Integers]) -> Floats:
            return np.array([_dependence(c) for c in self._chosen(counts, candidates)])

        return self._all.transform(scores, distance=Linf(2.0 * self._unit), reads=self._reads(candidates))

    def _chosen(self, counts: Sequence[Integers], candidates: Sequence[tuple[int, ...]]) -> list[NDArray[np.int64]]:
        return [counts[self._places[one]] for one in candidates]

    def _reads(self, candidates: Sequence[tuple[int, ...]]) -> Columns | None:
        """A row is read if it is observed on any candidate, so only what all of them need is needed."""
        needed = [self._sealed[self._places[one]].reads for one in candidates]
        if any(reads is None for reads in needed):
            return None
        return frozenset.intersection(*(reads for reads in needed if reads is not None)) or None


def _dependence(counts: Integers) -> float:
    table = counts.reshape(counts.shape[0], -1)
    total = table.sum()
    if total == 0:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * (table.sum(axis=0, keepdims=True) / total)
    return 0.5 * float(np.abs(table - expected).sum())
