"""Many marginals of one sealed table, counted once, and the scores by which synthesizers choose among them.

Every score is a sealed vector with one number for each candidate; its distance says how far each of them can
move when one protected unit comes or goes. Proofs in docs/proofs/scores.md.

How many pairs of rows break a rule: among rows that chance has put into pairs.

The number of all pairs that break a rule moves by as many as there are rows when one comes. So every row is put into a
bucket, by chance and by itself, and only buckets with exactly two rows are looked at: a row changes its own bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import prod
from operator import itemgetter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.constraints.compatible import PairRule
from gapless.constraints.rules import parse_constraint
from gapless.constraints.violations import terms_hold
from gapless.data.checks import check_private
from gapless.data.engines.memory import Engine
from gapless.data.private_table import PrivateTable, WhichRows, cached
from gapless.errors import ModelError, SchemaError
from gapless.privacy import noise
from gapless.privacy.private import L1, Columns, Linf, Private, transform
from gapless.schema.schema import Constraint
from gapless.text import plural
from gapless.types import Floats, Integers, whole

Marginals: TypeAlias = Sequence[tuple[int, ...]]  # columns, by position

HELD_CELLS = 1 << 24


class Workload:
    """The marginals that may be measured or chosen: each is a set of columns, by position."""

    def __init__(self, table: PrivateTable, marginals: Marginals, *, rows: WhichRows) -> None:
        check_private(table, "Workload")
        names = table.schema.names
        self._places = {marginal: place for place, marginal in enumerate(marginals)}
        named = [[names[c] for c in marginal] for marginal in marginals]
        self._all, self._sealed = table._count_marginals(named, rows)
        self._key = table._key
        self._unit = table.protect.at_most
        columns = table.schema.columns
        sizes = [column.extended_size if rows == "extended" else column.size for column in columns]
        self._shapes = {marginal: tuple(sizes[c] for c in marginal) for marginal in marginals}
        self._observed = {marginal: tuple(slice(columns[c].size) for c in marginal) for marginal in marginals}

    def counts(self, marginal: tuple[int, ...]) -> Private[Integers, L1]:
        """The counts of one marginal."""
        return self._sealed[self._places[marginal]]

    def misfit(
        self, candidates: Marginals, expected: Sequence[Floats], weights: Floats, offsets: Floats
    ) -> Private[Floats, Linf]:
        r"""How badly public probabilities p describe each candidate's counts c, by their own total.

        .. math:: s = w \bigl(\tfrac12 \lVert c - |c|\,p \rVert_1 - o\bigr)

        Distance: one row at cell e changes c - |c| p by e - p, so s by at most :math:`w \tfrac12 \lVert e - p\rVert_1
        \le w`; k rows by k w. Unlike ‖c - N p‖ it does not prefer marginals with many gaps (PRIVACY C3).
        """
        candidates, plain = self._plain(candidates, expected)
        positive = [np.maximum(p, 0.0) for p in plain]
        laws = [p / p.sum() for p in positive]  # the proof needs probabilities

        def misfits(counts: Sequence[Integers]) -> Iterator[float]:
            for c, law in zip(self._chosen(counts, candidates), laws, strict=True):
                yield 0.5 * float(np.abs(c - c.sum() * law).sum())

        return self._weighted(misfits, candidates, weights, offsets)

    def conditional_misfit(
        self, candidates: Marginals, expected: Sequence[Floats], weights: Floats, offsets: Floats
    ) -> Private[Floats, Linf]:
        r"""How badly public probabilities p describe how observed cells go together, given the best of the columns.

        .. math:: s = w \bigl(\min_j \tfrac12 \lVert c(x) - c_j(x_j)\,p(x \mid x_j) \rVert_1 - o\bigr)

        c counts the rows observed on the candidate, also where every row is counted. Which these are may depend on a
        column: the old leave out their income, so those with an income are young. That shifts :math:`c_j` and says
        nothing about income given age, so the column whose own counts explain the most is taken as it is. A candidate
        with a single column has a score of 0, less its offset.

        Distance: a row is in one slice of column j, and each slice has a total of its own, so each term moves by at
        most 1 as in `misfit`, and so does the least of them; k rows move s by at most k w.
        """
        candidates, plain = self._plain(candidates, expected)
        shown = [p[self._observed[candidate]] for candidate, p in zip(candidates, plain, strict=True)]
        laws = [[_conditional(p, column) for column in range(p.ndim)] for p in shown]

        def misfits(counts: Sequence[Integers]) -> Iterator[float]:
            for candidate, c, given in zip(candidates, self._chosen(counts, candidates), laws, strict=True):
                yield _least_misfit(c[self._observed[candidate]], given)

        return self._weighted(misfits, candidates, weights, offsets)

    def _plain(self, candidates: Marginals, expected: Sequence[Floats]) -> tuple[list[tuple[int, ...]], list[Floats]]:
        """Candidates and their laws as lists and arrays that nobody else holds, so that they stay what was checked."""
        candidates, plain = list(candidates), [np.array(p, dtype=np.float64) for p in expected]
        if any(p.shape != self._shapes[candidate] for candidate, p in zip(candidates, plain, strict=True)):
            raise ModelError("a law does not have the shape of its marginal", hint="one probability for each cell")
        return candidates, plain

    def _weighted(
        self,
        misfits: Callable[[Sequence[Integers]], Iterable[float]],
        candidates: Marginals,
        weights: Floats,
        offsets: Floats,
    ) -> Private[Floats, Linf]:
        """Misfits that move by at most 1 for each row, less public offsets, times public weights."""
        # Plain copies: what is declared now must be what is used then.
        weights, offsets = np.array(weights, dtype=np.float64), np.array(offsets, dtype=np.float64)
        if not (weights >= 0).all():
            raise ModelError("a weight of the workload is negative", hint="weights of 0 or more")

        def scores(counts: Sequence[Integers]) -> Floats:
            weighted: Floats = weights * (np.array(list(misfits(counts))) - offsets)
            return weighted

        distance = Linf(self._unit * float(weights.max()))
        return transform(self._all, cached(scores), distance=distance, reads=self._reads(candidates), key=self._key)

    def restrict(self, scores: Private[Floats, Linf], places: Sequence[int]) -> Private[Floats, Linf]:
        """The scores of some of the candidates: leaving numbers out moves none of the others.

        Whatever the distance was, what is declared is how far each number moves: one place may be asked for twice.
        """
        places, distance = list(places), Linf(scores.distance.at_most)
        return transform(scores, lambda values: values[places], distance=distance, reads=scores.reads, key=self._key)

    def dependence(self, candidates: Marginals) -> Private[Floats, Linf]:
        r"""How much the first column of each candidate depends on the others, in rows.

        .. math:: s = \tfrac12 \lVert c(x, \pi) - c(x) c(\pi) / m \rVert_1, \qquad m = \sum c

        Distance: 2 for each row. Adding a row at (x₀, π₀) changes the matrix by m/(m+1) (e - r)(f - s)ᵀ with
        r = c(x)/m, s = c(π)/m, whose L1 norm is below 4 (PRIVACY C1); no total is needed, gaps or not.
        """
        candidates = list(candidates)

        def scores(counts: Sequence[Integers]) -> Floats:
            return np.array([_dependence(c) for c in self._chosen(counts, candidates)])

        distance = Linf(2.0 * self._unit)
        return transform(self._all, cached(scores), distance=distance, reads=self._reads(candidates), key=self._key)

    def _chosen(self, counts: Sequence[Integers], candidates: Marginals) -> list[NDArray[np.int64]]:
        return [counts[self._places[candidate]] for candidate in candidates]

    def _reads(self, candidates: Marginals) -> Columns | None:
        return _common_reads(self._sealed[self._places[candidate]].reads for candidate in candidates)


class Views:
    """Columns of a sealed table, each whole or with some of its cells merged, and marginals of these.

    A view is a column, by position, and the public code that takes the place of each of its codes; gaps keep codes of
    their own, above those of observed cells. Each row is recoded by itself, so the distance in rows stays. Marginals
    are counted when they are asked for, which suits candidates that become known step by step.

    Attributes:
        sizes: the cells of each view as they are counted: with gap states if every row is counted.
    """

    def __init__(self, table: PrivateTable, views: Sequence[tuple[int, Integers]], *, rows: WhichRows) -> None:
        check_private(table, "Views")
        columns = [table.schema.columns[c] for c, _ in views]
        views = [(c, np.array(codes, dtype=np.int64)) for c, codes in views]  # plain ones: rows are looked up in them
        observed = [int(codes[: column.size].max()) + 1 for column, (_, codes) in zip(columns, views, strict=True)]
        for column, (_, codes), size in zip(columns, views, observed, strict=True):
            if (
                codes.shape != (column.extended_size,)
                or codes.min() < 0
                or (codes[column.size :] < size).any()
                or (codes.max() >= column.extended_size)
            ):
                raise ModelError(
                    f"column {column.name!r}: these codes do not keep observed cells and gaps apart",
                    hint="one code for each cell, those of gaps above all others",
                )

        self._extended = [int(codes.max()) + 1 for _, codes in views]
        self.sizes = tuple(observed if rows == "observed" else self._extended)
        self._unit = table.protect.at_most
        needed = [[column.name] if rows == "observed" else [] for column in columns]
        self._reads = [table._declared_reads(table._observed_on(names)) or frozenset() for names in needed]
        places, recoded = [c for c, _ in views], {view: codes for view, (_, codes) in enumerate(views)}
        self._rows = table._seal(
            lambda engine: engine.select(places).recode(recoded), distance=table.protect, reads=None
        )
        self._key = table._key
        self._score = _cached_by_marginal(self._dependences)

    def counts(self, marginal: tuple[int, ...]) -> Private[Integers, L1]:
        """The counts of one marginal."""
        return self.counts_of([marginal])[0]

    def counts_of(self, marginals: Marginals) -> list[Private[Integers, L1]]:
        """The counts of each marginal, all of them in one pass when the first is opened.

        A row is in at most one cell of each, as in `PrivateTable.marginal`.
        """
        marginals = list(marginals)
        count = cached(lambda engine: self._count(engine, marginals))
        counted = transform(self._rows, count, distance=None, reads=None, key=self._key)
        return [
            transform(
                counted,
                itemgetter(number),
                distance=L1(self._unit),
                reads=frozenset().union(*(self._reads[view] for view in marginal)) or None,
                key=self._key,
            )
            for number, marginal in enumerate(marginals)
        ]

    def dependence(self, candidates: Marginals) -> Private[Floats, Linf]:
        """As `Workload.dependence`. What was computed for an earlier choice is not computed again."""
        candidates = list(candidates)
        return transform(
            self._rows,
            cached(lambda engine: np.array(self._score(engine, candidates))),
            distance=Linf(2.0 * self._unit),
            reads=_common_reads(frozenset().union(*map(self._reads.__getitem__, views)) for views in candidates),
            key=self._key,
        )

    def _dependences(self, engine: Engine, marginals: Marginals) -> Iterator[float]:
        """Candidates can be many and wide: as many are counted at once as memory should hold."""
        held = np.cumsum([prod(self._extended[view] for view in marginal) for marginal in marginals]) // HELD_CELLS
        for _, some in groupby(zip(held, marginals, strict=True), key=itemgetter(0)):
            yield from map(_dependence, self._count(engine, [marginal for _, marginal in some]))

    def _count(self, engine: Engine, marginals: Marginals) -> list[Integers]:
        return engine.count(marginals, self._extended, self.sizes)


def _cached_by_marginal(
    function: Callable[[Engine, Marginals], Iterable[float]],
) -> Callable[[Engine, Marginals], list[float]]:
    """Compute a sealed number for each marginal at most once; the first argument is the same at every call."""
    known: dict[tuple[int, ...], float] = {}

    def compute(engine: Engine, marginals: Marginals) -> list[float]:
        fresh = [marginal for marginal in dict.fromkeys(marginals) if marginal not in known]
        known.update(zip(fresh, function(engine, fresh), strict=True))
        return [known[marginal] for marginal in marginals]

    return compute


def _common_reads(reads: Iterable[Columns | None]) -> Columns | None:
    """A row is read if it is observed on any candidate, so only what all of them need is needed."""
    needed = [columns or frozenset() for columns in reads]
    return (needed and frozenset.intersection(*needed)) or None


def _conditional(law: Floats, column: int) -> Floats:
    """The law of all columns given one of them; even where that one has no probability: the proof needs a law."""
    possible = np.maximum(law, 1e-300)
    given: Floats = possible / possible.sum(axis=_other_axes(law.ndim, column), keepdims=True)
    return given


def _least_misfit(counts: Integers, given: Sequence[Floats]) -> float:
    """The misfit to laws given one column, each slice with its own total, for the column where it is least."""
    totals = (counts.sum(axis=_other_axes(counts.ndim, column), keepdims=True) for column in range(counts.ndim))
    return min(0.5 * float(np.abs(counts - total * law).sum()) for total, law in zip(totals, given, strict=True))


def _other_axes(columns: int, column: int) -> tuple[int, ...]:
    return tuple(other for other in range(columns) if other != column)


def _dependence(counts: Integers) -> float:
    table = counts.reshape(counts.shape[0], -1)
    total = table.sum()
    if total == 0:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * (table.sum(axis=0, keepdims=True) / total)
    return 0.5 * float(np.abs(table - expected).sum())


def grouped_counts(
    table: PrivateTable, column: str, groupings: Sequence[Integers], *, rows: WhichRows
) -> list[Private[Integers, L1]]:
    """The counts of a column's cells, summed by several public groupings; each gives the group of every code.

    Distance: a row is in one group, so k rows change the sums by at most k in L1 (docs/proofs/stability.md, section 4).
    """
    check_private(table, "grouped_counts()")
    counts = table.marginal(column, rows=rows)
    size = table.schema[column].extended_size if rows == "extended" else table.schema[column].size
    groupings = [np.array(groups, dtype=np.int64) for groups in groupings]  # plain copies that no caller can change
    if any(groups.shape != (size,) or groups.min(initial=0) < 0 for groups in groupings):
        raise SchemaError(
            f"column {column!r} has {plural(size, 'cell')}, and its groups do not match them",
            hint="pass one group number, not negative, for each cell",
        )

    def sums(cells: Integers, groups: Integers) -> Integers:
        return np.bincount(groups, weights=cells).astype(np.int64)

    distance = L1(table.protect.at_most)
    return [
        transform(counts, partial(sums, groups=groups), distance=distance, reads=counts.reads, key=table._key)
        for groups in groupings
    ]


def violating_pairs(table: PrivateTable, rule: str, *, buckets: int) -> Private[Integers, L1]:
    """How many buckets of exactly two rows break a rule between two rows, and how many keep it; told by bins.

    Rows with a gap in one of the rule's columns are left out. A row's bucket is one of `buckets`, a public number, by
    secret chance of its own. About half as many buckets as rows make the most pairs.

    Distance: one row more takes its bucket from one row to two, and one count grows by 1; or from two to three, and one
    count falls by 1; or it changes nothing. So k rows move the counts by at most k in L1, for any fixed chance
    (docs/proofs/stability.md, section 4).
    """
    check_private(table, "violating_pairs()")
    schema, many = table.schema, whole("buckets", buckets, error=SchemaError, least=1)
    between = PairRule(parse_constraint(Constraint(str(rule)), schema), schema)
    if not between.rule.is_between_rows:
        raise SchemaError(f"the constraint {rule!r} is about one row", hint="a marginal counts the rows that break it")
    columns = between.columns
    observed = np.array([schema.columns[column].size for column in columns])
    needed = [schema.names[column] for column in columns]

    def count(engine: Engine) -> Integers:
        held = np.zeros(many, dtype=np.int64)  # rows in each bucket
        pairs = np.zeros((2, many, len(columns)), dtype=np.int64)  # the first two of them
        for batch in engine.batches(columns):
            bucket = (noise.current().uniform_words(batch.rows) % np.uint64(many)).astype(np.int64)
            cells = np.stack(batch.columns, axis=1).astype(np.int64)
            seen = (cells < observed).all(axis=1)
            bucket, cells = bucket[seen], cells[seen]
            order = np.argsort(bucket, kind="stable")
            bucket, cells = bucket[order], cells[order]
            place = held[bucket] + np.arange(len(bucket)) - np.searchsorted(bucket, bucket)
            for which in (0, 1):
                pairs[which, bucket[place == which]] = cells[place == which]
            held += np.bincount(bucket, minlength=many)
        one, other = (between.rows(rows[held == 2]) for rows in pairs)
        broken = terms_hold(between.rule.terms, one, other) | terms_hold(between.rule.terms, other, one)
        return np.array([broken.sum(), (~broken).sum()], dtype=np.int64)

    return table._seal(count, distance=L1(table.protect.at_most), reads=table._observed_on(needed))
