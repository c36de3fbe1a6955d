"""Many marginals of one sealed table, counted once, and the scores by which synthesizers choose among them.

A score is a sealed vector with one number for each candidate. Its distance bounds the change of each number when one
protected unit is added or removed. Proofs in docs/proofs/scores.md.

`violating_pairs` counts pairs of rows that break a constraint, among random pairs. Adding one row can add as many
violating pairs as there are rows. So each row is put into a random bucket, and only buckets with exactly two rows are
counted: a row changes one bucket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from math import inf, nextafter, prod, sqrt
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from gapless.constraints.compatible import PairRule
from gapless.constraints.rules import parse_constraint
from gapless.constraints.violations import terms_hold
from gapless.data.checks import check_private
from gapless.data.engines.memory import Engine
from gapless.data.private_table import PrivateTable, WhichRows, cached
from gapless.errors import Call, Hint, ModelError, SchemaError
from gapless.privacy import noise
from gapless.privacy.budget import Rows
from gapless.privacy.pricing import FutureValue
from gapless.privacy.private import L1, Columns, L2Vector, Linf, Private, transform
from gapless.schema.schema import Constraint
from gapless.types import Floats, Integers, whole

Marginals: TypeAlias = Sequence[tuple[int, ...]]  # columns, by position

CELLS_IN_MEMORY = 1 << 24
FEATURE_LENGTH = 1 << 12  # of the longest feature vector, in whole numbers
PRODUCT_LENGTH = FEATURE_LENGTH**2  # of the longest product of two


class Workload:
    """The marginals that may be measured or chosen; each is a set of columns, by position."""

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
        r"""The total variation, in rows, between each candidate's counts c and public probabilities p times |c|.

        .. math:: s = w \bigl(\tfrac12 \lVert c - |c|\,p \rVert_1 - o\bigr)

        w are `weights`, o are `offsets`. Distance: one row at cell e changes c - |c| p by e - p, so s by at most
        :math:`w \tfrac12 \lVert e - p\rVert_1 \le w`; k rows by k w. Unlike ‖c - N p‖ it does not prefer marginals with
        many gaps (docs/proofs/scores.md, section 2).
        """
        candidates, copies = self._copied(candidates, expected)
        positive = [np.maximum(p, 0.0) for p in copies]
        normalized = [p / p.sum() for p in positive]  # the proof needs probabilities

        def misfits(counts: Sequence[Integers]) -> Iterator[float]:
            for candidate, p in zip(candidates, normalized, strict=True):
                c = counts[self._places[candidate]]
                yield 0.5 * float(np.abs(c - c.sum() * p).sum())

        return self._weighted(misfits, candidates, weights, offsets)

    def conditional_misfit(
        self, candidates: Marginals, expected: Sequence[Floats], weights: Floats, offsets: Floats
    ) -> Private[Floats, Linf]:
        r"""The same for conditional probabilities given one column, for the column where the misfit is least.

        .. math:: s = w \bigl(\min_j \tfrac12 \lVert c(x) - c_j(x_j)\,p(x \mid x_j) \rVert_1 - o\bigr)

        c counts the rows observed on the candidate, also where every row is counted. Which rows are observed may depend
        on a column: if old people leave out their income, rows with an income are young. That changes :math:`c_j`, but
        not income given age. So the counts of the column that explains most are taken as they are. A candidate with one
        column has a score of 0, less its offset.

        Distance: a row is in one slice of column j, and each slice has a separate total. So each term moves by at most
        1 as in `misfit`, and so does the least of them; k rows move s by at most k w.
        """
        candidates, copies = self._copied(candidates, expected)
        observed = [p[self._observed[candidate]] for candidate, p in zip(candidates, copies, strict=True)]
        conditionals = [[_conditional(p, column) for column in range(p.ndim)] for p in observed]

        def misfits(counts: Sequence[Integers]) -> Iterator[float]:
            for candidate, given in zip(candidates, conditionals, strict=True):
                yield _least_misfit(counts[self._places[candidate]][self._observed[candidate]], given)

        return self._weighted(misfits, candidates, weights, offsets)

    def _copied(self, candidates: Marginals, expected: Sequence[Floats]) -> tuple[list[tuple[int, ...]], list[Floats]]:
        """Copies of candidates and probabilities, of the right shapes; no caller can change them after this check."""
        candidates, copies = list(candidates), [np.array(p, dtype=np.float64) for p in expected]
        for candidate, p in zip(candidates, copies, strict=True):
            if p.shape != self._shapes[candidate]:
                raise ModelError(
                    f"the probabilities of a marginal have shape {p.shape}, but must have {self._shapes[candidate]}",
                    hint=f"pass an array of shape {self._shapes[candidate]}, one probability for each cell",
                )
        return candidates, copies

    def _weighted(
        self,
        misfits: Callable[[Sequence[Integers]], Iterable[float]],
        candidates: Marginals,
        weights: Floats,
        offsets: Floats,
    ) -> Private[Floats, Linf]:
        """Misfits that move by at most 1 for each row, less public offsets, times public weights."""
        # Copies: the distance is declared from the same numbers that are used later.
        weights, offsets = np.array(weights, dtype=np.float64), np.array(offsets, dtype=np.float64)
        if not (weights >= 0).all():
            wrong = f"weights of a workload must be 0 or more, got {weights.min():g}"
            raise ModelError(wrong, hint="pass weights of 0 or more")

        def scores(counts: Sequence[Integers]) -> Floats:
            weighted: Floats = weights * (np.array(list(misfits(counts))) - offsets)
            return weighted

        distance = Linf(self._unit * float(weights.max()))
        reads = _common_reads(self._sealed[self._places[candidate]].reads for candidate in candidates)
        return transform(self._all, cached(scores), distance=distance, reads=reads, key=self._key)

    def restrict(self, scores: Private[Floats, Linf], places: Sequence[int]) -> Private[Floats, Linf]:
        """The scores of some of the candidates: leaving numbers out moves none of the others.

        The distance is declared as L∞ whatever it was, since a place may be asked for twice.
        """
        places, distance = list(places), Linf(scores.distance.at_most)
        return transform(scores, lambda values: values[places], distance=distance, reads=scores.reads, key=self._key)


class Views:
    """Columns of a sealed table, each whole or with some of its cells merged, and marginals of these.

    A view is a column, by position, and a public code for each of its codes. Gaps keep separate codes, above those of
    observed cells. Each row is recoded by itself, so the distance in rows is unchanged. Marginals are counted when they
    are asked for, which suits candidates that become known step by step.

    Attributes:
        sizes: the number of cells of each view: with gaps if every row is counted.
    """

    def __init__(self, table: PrivateTable, views: Sequence[tuple[int, Integers]], *, rows: WhichRows) -> None:
        check_private(table, "Views")
        columns = [table.schema.columns[c] for c, _ in views]
        views = [(c, np.array(codes, dtype=np.int64)) for c, codes in views]  # copies: rows are looked up in them
        observed = []
        for column, (_, codes) in zip(columns, views, strict=True):
            size = int(codes[: column.size].max()) + 1
            in_range = codes.shape == (column.extended_size,) and 0 <= codes.min() <= codes.max() < column.extended_size
            if not in_range or (codes[column.size :] < size).any():
                raise ModelError(
                    f"the codes for column {column.name!r} do not keep observed cells and gaps apart",
                    hint="pass one code for each cell, with those of gaps above all others",
                )
            observed.append(size)

        self._extended = [int(codes.max()) + 1 for _, codes in views]
        self.sizes = tuple(observed if rows == "observed" else self._extended)
        self._unit = table.protect.at_most
        self._leaves_out_gaps = rows == "observed"
        needed = [[column.name] if rows == "observed" else [] for column in columns]
        self._reads = [table._declared_reads(table._observed_on(names)) or frozenset() for names in needed]
        places, codes_of_views = [c for c, _ in views], dict(enumerate(codes for _, codes in views))
        self._rows = table._seal(
            lambda engine: engine.select(places).recode(codes_of_views),
            distance=Rows(table.protect.at_most),
            reads=None,
        )
        self._key = table._key
        self._score = _cached_by_marginal(self._dependences)

    def counts_of(self, marginals: Marginals) -> list[Private[Integers, L1]]:
        """The counts of each marginal, all of them in one pass when the first is opened.

        Distance: a row is in at most one cell of a marginal, as in `PrivateTable.marginal`.
        """
        marginals, distance = list(marginals), L1(self._unit)
        count = cached(lambda engine: self._count(engine, marginals))
        counts = transform(self._rows, count, distance=None, reads=None, key=self._key)
        return [
            transform(counts, itemgetter(number), distance=distance, reads=self._needed(views) or None, key=self._key)
            for number, views in enumerate(marginals)
        ]

    def dependence(self, candidates: Marginals) -> Private[Floats, Linf]:
        r"""How much the first column of each candidate depends on the others, in rows.

        .. math:: s = \tfrac12 \lVert c(x, \pi) - c(x) c(\pi) / m \rVert_1, \qquad m = \sum c

        Distance: 2 for each row. Adding a row at (x₀, π₀) changes the matrix by m/(m+1) (e - r)(f - s)ᵀ with
        r = c(x)/m, s = c(π)/m, whose L1 norm is below 4 (docs/proofs/scores.md, section 3). Scores of earlier
        candidates are kept.
        """
        candidates = list(candidates)
        return transform(
            self._rows,
            cached(lambda engine: np.array(self._score(engine, candidates))),
            distance=Linf(2.0 * self._unit),
            reads=_common_reads(map(self._needed, candidates)),
            key=self._key,
        )

    def feature_products(
        self, pairs: Marginals, vectors: Sequence[Integers], *, numbers: int
    ) -> list[Private[Integers, L2Vector]]:
        r"""For each pair of views the sum over rows of the products of their features, as one vector of whole numbers.

        .. math:: \sum_i f_a(x_{ia})\, f_b(x_{ib})^\top, \qquad \lVert f(x) \rVert_2 \le 2^{12}

        `vectors` has a feature vector for each cell of each view. Distance: a row adds a matrix of Frobenius norm
        :math:`\lVert f_a \rVert \lVert f_b \rVert \le 2^{24}`, so k rows move the sum by at most :math:`2^{24} k` in
        L2. Where rows with gaps are left out, the last number is half the number of rows, times :math:`2^{24}`. This
        makes the distance :math:`2^{24} k \sqrt{5/4}` (docs/proofs/stability.md, section 4). Sums of fewer than
        :math:`2^{38}` rows fit 64 bits.

        Args:
            pairs: of views.
            vectors: for each view cells × features, whole numbers.
            numbers: a public bound on the length of each result.
        """
        pairs, distance = list(pairs), _product_distance(self._unit, numbers, leaves_out_gaps=self._leaves_out_gaps)
        vectors = [np.array(cells, dtype=np.int64) for cells in vectors]  # copies: no caller can change them
        for cells, size in zip(vectors, self.sizes, strict=True):
            if cells.ndim != 2 or len(cells) != size:
                raise ModelError(
                    f"features have shape {cells.shape}, but must have a vector for each cell, {size} in all",
                    hint="pass one vector of features for each cell",
                )
            # Each number is checked first, so that squares do not overflow; abs() of the lowest integer would.
            is_short = cells.min(initial=0) >= -FEATURE_LENGTH and cells.max(initial=0) <= FEATURE_LENGTH
            if not is_short or ((cells * cells).sum(axis=1) > FEATURE_LENGTH**2).any():
                raise ModelError(
                    f"the Euclidean norm of a feature vector is above {FEATURE_LENGTH}",
                    hint="pass vectors of smaller norm",
                )
        if any(vectors[a].shape[1] * vectors[b].shape[1] + 1 > numbers for a, b in pairs):
            raise ModelError("a product has more numbers than planned", hint="pass a larger bound on its length")
        products = transform(
            self._rows,
            cached(lambda engine: self._products(engine, pairs, vectors)),
            distance=None,
            reads=None,
            key=self._key,
        )
        return [
            transform(products, itemgetter(number), distance=distance, reads=self._needed(pair) or None, key=self._key)
            for number, pair in enumerate(pairs)
        ]

    def _products(self, engine: Engine, pairs: Marginals, vectors: Sequence[Integers]) -> list[Integers]:
        found = []
        for pair, counts in zip(pairs, self._count_in_batches(engine, pairs), strict=True):
            first, second = (vectors[view] for view in pair)
            product = (first.T @ counts @ second).ravel()
            found.append(np.append(product, counts.sum() * (PRODUCT_LENGTH // 2)) if self._leaves_out_gaps else product)
        return found

    def _needed(self, views: tuple[int, ...]) -> Columns:
        return frozenset().union(*(self._reads[view] for view in views))

    def _dependences(self, engine: Engine, marginals: Marginals) -> Iterator[float]:
        return map(_dependence, self._count_in_batches(engine, marginals))

    def _count_in_batches(self, engine: Engine, marginals: Marginals) -> Iterator[Integers]:
        """Count marginals in batches of about `CELLS_IN_MEMORY` cells: they can be many and wide."""
        batch = (
            np.cumsum([prod(self._extended[view] for view in marginal) for marginal in marginals]) // CELLS_IN_MEMORY
        )
        for _, some in groupby(zip(batch, marginals, strict=True), key=itemgetter(0)):
            yield from self._count(engine, [marginal for _, marginal in some])

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
    """The columns that all candidates need: a row is read if it is observed on any candidate."""
    needed = [columns or frozenset() for columns in reads]
    return (needed and frozenset.intersection(*needed)) or None


def _conditional(probabilities: Floats, column: int) -> Floats:
    """The conditional distribution given one column; even where that column has probability 0, as the proof needs."""
    positive = np.maximum(probabilities, 1e-300)
    conditional: Floats = positive / positive.sum(axis=_other_axes(probabilities.ndim, column), keepdims=True)
    return conditional


def _least_misfit(counts: Integers, conditionals: Sequence[Floats]) -> float:
    """The misfit to conditional distributions given one column, for the column where it is least."""
    totals = (counts.sum(axis=_other_axes(counts.ndim, column), keepdims=True) for column in range(counts.ndim))
    return min(0.5 * float(np.abs(counts - total * p).sum()) for total, p in zip(totals, conditionals, strict=True))


def _other_axes(columns: int, column: int) -> tuple[int, ...]:
    return tuple(other for other in range(columns) if other != column)


def _dependence(counts: Integers) -> float:
    table = counts.reshape(counts.shape[0], -1)
    total = table.sum()
    if total == 0:
        return 0.0
    expected = table.sum(axis=1, keepdims=True) * (table.sum(axis=0, keepdims=True) / total)
    return 0.5 * float(np.abs(table - expected).sum())


def planned_counts(table: PrivateTable, columns: Sequence[str], *, rows: WhichRows) -> FutureValue:
    """The sensitivity of a marginal of these columns, whatever their bins will be; without columns: of all rows."""
    return FutureValue(L1(table.protect.at_most), _reads(table, columns, rows))


def planned_products(table: PrivateTable, columns: Sequence[str], *, rows: WhichRows, numbers: int) -> FutureValue:
    """The sensitivity of feature products of these columns, whatever their features will be."""
    distance = _product_distance(table.protect.at_most, numbers, leaves_out_gaps=rows == "observed")
    return FutureValue(distance, _reads(table, columns, rows))


def _product_distance(unit: int, numbers: int, *, leaves_out_gaps: bool) -> L2Vector:
    length = unit * PRODUCT_LENGTH
    return L2Vector(nextafter(length * sqrt(1.25), inf) if leaves_out_gaps else float(length), numbers)


def _reads(table: PrivateTable, columns: Sequence[str], rows: WhichRows) -> Columns | None:
    return table._declared_reads(table._observed_on(columns if rows == "observed" else ()))


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
    for groups in groupings:
        if groups.shape != (size,) or groups.min(initial=0) < 0:
            found = f"{groups.size}" if groups.shape != (size,) else f"the integer {groups.min()}"
            raise SchemaError(
                f"the groups of column {column!r} must be {size} integers of 0 or more, one for each cell, got {found}",
                hint="pass the number of a group for each cell of the column",
            )

    def sums(cells: Integers, groups: Integers) -> Integers:
        return np.bincount(groups, weights=cells).astype(np.int64)

    distance = L1(table.protect.at_most)
    return [
        transform(counts, partial(sums, groups=groups), distance=distance, reads=counts.reads, key=table._key)
        for groups in groupings
    ]


def violating_pairs(table: PrivateTable, rule: str, *, buckets: int) -> Private[Integers, L1]:
    """The number of buckets with exactly two rows that break a rule between two rows, and of those that keep it.

    Rows are compared by their bins; rows with a gap in one of the rule's columns are left out. Each row is put into one
    of `buckets` (a public number) independently and secretly. Half as many buckets as rows give the most pairs.

    Distance: one more row takes its bucket from one row to two, and one count grows by 1; or from two to three, and one
    count falls by 1; or it changes nothing. So k rows move the counts by at most k in L1, for any fixed buckets
    (docs/proofs/stability.md, section 4).
    """
    check_private(table, "violating_pairs()")
    schema, buckets = table.schema, whole("buckets", buckets, error=SchemaError, least=1)
    pair_rule = PairRule(parse_constraint(Constraint(str(rule)), schema), schema)
    if not pair_rule.rule.is_between_rows:
        raise SchemaError(
            f"the constraint {rule!r} is about one row, not about pairs of rows",
            hint=Hint("use ", Call("people.marginal", ...), " to count the rows that break it"),
        )
    columns = pair_rule.columns
    observed = np.array([schema.columns[column].size for column in columns])
    needed = [schema.names[column] for column in columns]

    def count(engine: Engine) -> Integers:
        bucket_rows = np.zeros(buckets, dtype=np.int64)  # the number of rows in each bucket
        pairs = np.zeros((2, buckets, len(columns)), dtype=np.int64)  # the first two of them
        for batch in engine.batches(columns):
            bucket = (noise.current().uniform_words(batch.rows) % np.uint64(buckets)).astype(np.int64)
            cells = np.stack(batch.columns, axis=1).astype(np.int64)
            complete = (cells < observed).all(axis=1)
            bucket, cells = bucket[complete], cells[complete]
            order = np.argsort(bucket, kind="stable")
            bucket, cells = bucket[order], cells[order]
            place = bucket_rows[bucket] + np.arange(len(bucket)) - np.searchsorted(bucket, bucket)
            for which in (0, 1):
                pairs[which, bucket[place == which]] = cells[place == which]
            bucket_rows += np.bincount(bucket, minlength=buckets)
        first, second = (pair_rule.rows(rows[bucket_rows == 2]) for rows in pairs)
        broken = terms_hold(pair_rule.rule.terms, first, second) | terms_hold(pair_rule.rule.terms, second, first)
        return np.array([broken.sum(), (~broken).sum()], dtype=np.int64)

    return table._seal(count, distance=L1(table.protect.at_most), reads=table._observed_on(needed))
