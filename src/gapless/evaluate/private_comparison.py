"""The comparison of a public table with a private one, from noisy marginals, with intervals for the noise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice

import numpy as np
from numpy.typing import ArrayLike

from gapless.data import PrivateTable, Table
from gapless.data.checks import check_comparable, check_private, check_public, given_weights, shared_bins
from gapless.errors import Argument, Call, Hint, SchemaError, Variable
from gapless.evaluate.comparison import ColumnScore, Comparison, Score, cell_differences, effective_rows, share_tuple
from gapless.evaluate.marginals import Pair, association, measure_of, shares, total_variation
from gapless.evaluate.values import MEAN_SIZE, Difference, chance_of_means
from gapless.inference.associations import table_association
from gapless.inference.intervals import TWO_SIDED
from gapless.model.marginal import Measurement, estimate_total
from gapless.privacy import DiscreteGaussian, DiscreteLaplace, Spend, for_counts
from gapless.query.treatments import as_sentence
from gapless.text import plural
from gapless.types import Floats

MOST_PAIRS = 20
PAIR_CELLS = 10_000

Noise = DiscreteLaplace | DiscreteGaussian


def compare_private(
    table: PrivateTable,
    other: Table,
    *,
    spend: Spend,
    pairs: Sequence[tuple[str, str]] | None = None,
    weights: ArrayLike | None = None,
) -> Comparison:
    r"""Compare a public table with a private one, from noisy marginals.

    Half of `spend` pays for the marginals of all columns, half for those of `pairs`. Gaps count as cells. All marginals
    are charged in one batch. The comparison is post-processing of these counts and is public. Its guarantee is that of
    the counts, see docs/proofs/comparison.md.

    Noise makes a distance of noisy shares too large. Let y be the noisy counts of the K observed cells, n their sum, a
    the mean absolute noise and q the other table's shares. The noisy distance is N = ‖y/n - q‖₁/2. If the true distance
    were 0, its mean would be

    .. math:: B = \frac{a}{2n} \sum_i \sqrt{1 - 2 q_i + K q_i^2}.

    The reported value is √(N² - B²). It is right on average if the true differences are spread over the cells like the
    noise. In general, the true distance is between N - B and √(π/2 · (N² - B²)) for expected N. `between` is this
    interval, with N two standard deviations lower and higher. A mean over marginals is computed from the means of N and
    B. There is no unbiased estimate of an L1 distance. The value is None if the sum of a marginal is below twice its
    noise.

    Args:
        table: the private table.
        other: the public table.
        spend: what the comparison costs; it is spent in full.
        pairs: the pairs of columns to measure, chosen without looking at the private table; by default at most 20,
            spread evenly over all pairs of at most 10,000 cells.
        weights: one for each row of `other`; by default the weights of `other`, if it has any.
    """
    check_private(
        table,
        "compare_private()",
        public=Hint("use ", Call("compare", Variable("truth"), Variable("other")), ", if the truth is public"),
    )
    check_public(other, "compare_private(): the other table must be", private="pass a public table, such as a sample")
    checked = given_weights(other, weights)
    if not other.rows:
        raise SchemaError("the other table has no rows, so there is nothing to compare", hint="pass a table with rows")
    if table.schema.finest.columns == other.schema.finest.columns:
        bins = shared_bins(table.schema, other, counted=other)
        table, other = table.rebin(bins), other.rebin(bins)
    schema = table.schema
    check_comparable(schema, other.schema)
    chosen = _chosen_pairs(table, pairs)
    spend = table.ledger.share(spend)
    grant = table.ledger.grant(spend, to="compare_private")
    requests = []
    noises: list[Noise] = []
    parts: list[list[tuple[str, ...]]] = [[(name,) for name in schema.names], [*chosen]]
    for part in filter(None, parts):
        counts = table.marginals(part, rows="extended")
        noise = for_counts(spend / (2 if chosen else 1) / len(part), counts[0].distance)
        requests += [(value, noise, " × ".join(names)) for value, names in zip(counts, part, strict=True)]
        noises += [noise] * len(part)
    released = [answer.value.astype(np.float64) for answer in grant.release_all(requests)]
    many = len(schema.columns)
    places = [*((c,) for c in range(many)), *map(schema.positions, chosen)]
    found = [
        noisy_distance(y[tuple(slice(schema.columns[c].size) for c in at)], shares(other, at, checked), noise)
        for at, y, noise in zip(places, released, noises, strict=True)
    ]
    columns = [_column(other, c, released[c], noises[c].noise_std, checked, found[c]) for c in range(many)]
    measured = [_pair(other, names, distance) for names, distance in zip(chosen, found[many:], strict=True)]
    known = [Measurement((c,), released[c], noises[c].noise_std) for c in range(many)]
    total = max(0, round(estimate_total(known)))
    rows = (float(total), float(other.rows) if checked is None else effective_rows(checked))
    return Comparison(
        schema.name,
        (total, other.rows),
        checked is not None,
        (
            _mean("one-way distance", ("column",), found[:many]),
            *([_mean("two-way distance", ("pair of columns", "pairs of columns"), found[many:])] if chosen else []),
            *_gap_error(columns),
        ),
        tuple(columns),
        tuple(measured),
        spent=f"{table.ledger.percent(spend)} of the budget",
        promise=" ".join(filter(None, [str(table.ledger.guarantee()), as_sentence(table.protect.row_weight)])),
        differences=(
            *cell_differences(columns, measured, rows),
            *_associations(other, chosen, released[many:], noises[many:], checked, rows),
        ),
    )


def _associations(
    other: Table,
    pairs: Sequence[tuple[str, str]],
    released: Sequence[Floats],
    noises: Sequence[Noise],
    weights: Floats | None,
    rows: tuple[float, float],
) -> Iterator[Difference]:
    """Yield the associations of the measured pairs in both tables; what noise may change counts as chance."""
    for names, counts, noise in zip(pairs, released, noises, strict=True):
        at = other.schema.positions(names)
        both = other.schema.columns[at[0]], other.schema.columns[at[1]]
        found = association(shares(other, at, weights), both)
        if found is None or min(column.size for column in both) < 2:
            continue
        seen = counts[: both[0].size, : both[1].size]
        measure, truth, half = table_association(both, seen, noise.noise_std)
        by_chance = math.hypot(chance_of_means(*rows), MEAN_SIZE * half / TWO_SIDED)
        yield Difference(names, measure, truth, found, abs(truth - found), by_chance)


def _chosen_pairs(table: PrivateTable, pairs: Sequence[tuple[str, str]] | None) -> list[tuple[str, str]]:
    columns = table.schema.columns
    if pairs is not None:
        for pair in pairs:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise SchemaError(
                    f"pairs must be a list of pairs of column names, but has {pair!r}",
                    hint=Hint("pass ", Argument("pairs", [("age", "sex")])),
                )
            table.schema.positions(pair)
        return [(first, second) for first, second in pairs]
    fitting = [
        (first.name, second.name)
        for first, second in combinations(columns, 2)
        if first.extended_size * second.extended_size <= PAIR_CELLS
    ]
    return list(islice(fitting, 0, None, max(1, math.ceil(len(fitting) / MOST_PAIRS))))


def _column(
    other: Table, place: int, counts: Floats, noise_std: float, weights: Floats | None, found: NoisyDistance | None
) -> ColumnScore:
    column = other.schema.columns[place]
    other_shares, total = shares(other, [place], weights), max(1.0, float(counts.sum()))
    seen, gaps = counts[: column.size], counts[column.size :]
    missing = other.codes[place] >= column.size
    mass = np.ones(other.rows) if weights is None else weights
    rate = float(mass @ missing / mass.sum()) if other.rows else 0.0
    sum_seen = max(1.0, float(seen.sum()))
    return ColumnScore(
        column.name,
        column.kind,
        column.cells[: column.size],
        tuple((np.maximum(seen, 0.0) / sum_seen).tolist()),
        share_tuple(other_shares, column.size),
        None if found is None else found.value,
        None,
        (min(1.0, max(0.0, float(gaps.sum()) / total)), rate) if column.gaps else None,
        noise_std / sum_seen,
        None if found is None else found.between,
    )


def _pair(other: Table, names: tuple[str, str], found: NoisyDistance | None) -> Pair:
    measure = measure_of((other.schema[names[0]], other.schema[names[1]]))
    return Pair(names, None, measure) if found is None else Pair(names, found.value, measure, between=found.between)


@dataclass(frozen=True, slots=True)
class NoisyDistance:
    """A total variation distance from noisy counts: docs/proofs/comparison.md.

    Attributes:
        noisy: the distance of the noisy shares.
        by_noise: its mean if the true distance were 0.
        std: the approximate standard deviation of `noisy`.

    >>> NoisyDistance(0.5, 0.3, 0.0).value
    0.4
    """

    noisy: float
    by_noise: float
    std: float

    @property
    def value(self) -> float:
        """The distance without noise, if the true differences are spread over the cells like the noise."""
        return math.sqrt(max(0.0, min(1.0, self.noisy) ** 2 - self.by_noise**2))

    @property
    def between(self) -> tuple[float, float]:
        """The interval that the noise leaves open, for any spread of the differences."""
        low, high = (self.noisy + sign * 2 * self.std for sign in (-1, 1))
        spread = math.sqrt(math.pi / 2 * max(0.0, high**2 - self.by_noise**2))
        return min(1.0, max(0.0, low - self.by_noise)), min(1.0, high, spread)


def noisy_distance(counts: Floats, other_shares: Floats | None, noise: Noise) -> NoisyDistance | None:
    """Return the distance of noisy counts from shares; None if the counts are lost in noise, or there are no shares."""
    total, std = float(counts.sum()), noise.noise_std
    if other_shares is None or total <= 2 * std * math.sqrt(counts.size):
        return None
    mean_size = math.sqrt(1 / 2 if isinstance(noise, DiscreteLaplace) else 2 / math.pi)  # mean absolute noise at std 1
    signs = np.sign(counts / total - other_shares)
    spreads = np.sqrt(np.maximum(0.0, 1 - 2 * other_shares + counts.size * other_shares**2))
    return NoisyDistance(
        total_variation(counts / total, other_shares),
        std * mean_size * float(spreads.sum()) / (2 * total),
        std * float(np.linalg.norm(signs - (signs * other_shares).sum())) / (2 * total),
    )


def _mean(name: str, what: tuple[str, ...], found: Sequence[NoisyDistance | None]) -> Score:
    """Return the mean over marginals. Their noise is independent, so the mean has a smaller standard deviation."""
    known = [distance for distance in found if distance is not None]
    about = (
        f"Mean total variation distance of {plural(len(known), *what)}, corrected for noise: 0 is equal, 1 is disjoint."
    )
    if len(known) < len(found):
        about += f" Lost in noise: {len(found) - len(known)} more."
    if not known:
        return Score(name, None, 0.0, about)
    noisy, by_noise = (
        float(np.mean([getattr(distance, part) for distance in known])) for part in ("noisy", "by_noise")
    )
    mean = NoisyDistance(noisy, by_noise, float(np.linalg.norm([distance.std for distance in known])) / len(known))
    return Score(name, mean.value, 0.0, about, mean.between)


def _gap_error(columns: Sequence[ColumnScore]) -> list[Score]:
    """Return the error of the rates of gaps, if the other table has any gaps."""
    rates = [column.gaps for column in columns if column.gaps is not None]
    if not any(other for _, other in rates):
        return []
    error = float(np.mean([abs(truth - other) for truth, other in rates]))
    return [Score("gap rate error", error, 0.0, "Mean difference of the shares of gaps; noise included.")]
