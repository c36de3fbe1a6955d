"""A private table compared with a public one: noisy marginals, paid for, and what their noise leaves open."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, islice

import numpy as np
from numpy.typing import ArrayLike

from gapless.data import PrivateTable, Table
from gapless.errors import SchemaError
from gapless.evaluate.comparison import ColumnScore, Comparison, Score
from gapless.evaluate.laws import Floats, check_tables, check_weights, half_l1, shares
from gapless.evaluate.pairs import Pair, measure_of
from gapless.model.marginal import Measurement, estimate_total
from gapless.privacy import Loss, for_counts

MOST_PAIRS = 20
PAIR_CELLS = 10_000


def compare_private(
    table: PrivateTable,
    other: Table,
    *,
    spend: Loss,
    pairs: Sequence[tuple[str, str]] | None = None,
    weights: ArrayLike | None = None,
) -> Comparison:
    r"""Compare a public table with a private one, from noisy marginals.

    Half of `spend` goes to the marginals of all columns, half to those of `pairs`, gaps counted as cells, all charged
    in one batch. The comparison is post-processing of these counts and is public. Guarantee: that of the counts, see
    docs/proofs/comparison.md.

    A distance of noisy shares is too large: noise adds to it. With y the noisy counts of the K observed cells, n their
    sum, σ the noise and q the other table's shares, noise alone would make

    .. math:: b = \frac{1}{2n} \sqrt{\tfrac{2}{\pi}} \sum_i \sigma \sqrt{1 - 2 q_i + K q_i^2},

    and the noisy distance is, on average, between the true one and the true one plus b. So the value told is the noisy
    distance less b, and `between` goes from it to the noisy distance. There is no unbiased estimate of an L1 distance.
    A marginal whose sum is below twice its noise tells nothing, and its distance is None.

    Args:
        table: the private table.
        other: the public table.
        spend: what the comparison may cost; it is spent in full.
        pairs: which pairs of columns to measure, chosen without looking at the private table; by default at most 20,
            spread evenly over all pairs of at most 10,000 cells.
        weights: one for each row of `other`.
    """
    check_tables(other)
    checked = check_weights(other, weights)
    schema = table.schema
    if [(c.name, c.cells) for c in schema.columns] != [(c.name, c.cells) for c in other.schema.columns]:
        raise SchemaError("the two tables have different schemas", hint="read both with the same schema")
    chosen = _chosen(table, pairs)
    grant = table.ledger.grant(spend, to="compare_private")
    requests = []
    stds: list[float] = []
    parts: list[list[tuple[str, ...]]] = [[(name,) for name in schema.names], [*chosen]]
    for part in filter(None, parts):
        counts = table.marginals(part, rows="extended")
        noise = for_counts(spend / (2 if chosen else 1) / len(part), counts[0].distance)
        requests += [(value, noise, " × ".join(names)) for value, names in zip(counts, part, strict=True)]
        stds += [noise.noise_std] * len(part)
    released = [one.value.astype(np.float64) for one in grant.release_all(requests)]
    many = len(schema.columns)
    columns = [_column(other, c, released[c], stds[c], checked) for c in range(many)]
    measured = [
        _pair(other, names, y, std, checked) for names, y, std in zip(chosen, released[many:], stds[many:], strict=True)
    ]
    known = [Measurement((c,), y, std) for c, (y, std) in enumerate(zip(released[:many], stds, strict=False))]
    return Comparison(
        schema.name,
        (max(0, round(estimate_total(known))), other.rows),
        checked is not None,
        (
            _mean("one-way distance", "Mean total variation distance of all columns, noise taken off.", columns),
            *([_mean("two-way distance", f"The same of {len(chosen)} pairs.", measured)] if chosen else []),
            *_gap_error(columns),
        ),
        tuple(columns),
        tuple(measured),
        (),
        (),
        (),
        f"{table.ledger.percent(spend)} of the budget",
        str(table.ledger.guarantee()),
    )


def _chosen(table: PrivateTable, pairs: Sequence[tuple[str, str]] | None) -> list[tuple[str, str]]:
    columns = table.schema.columns
    if pairs is not None:
        for pair in pairs:
            if isinstance(pair, str) or len(pair) != 2:
                raise SchemaError(f"{pair!r} is not a pair of columns", hint='pairs=[("age", "sex")]')
            table.schema.positions(pair)
        return [(one, two) for one, two in pairs]
    fitting = [
        (one.name, two.name)
        for one, two in combinations(columns, 2)
        if one.extended_size * two.extended_size <= PAIR_CELLS
    ]
    return list(islice(fitting, 0, None, max(1, math.ceil(len(fitting) / MOST_PAIRS))))


def _column(other: Table, place: int, counts: Floats, noise_std: float, weights: Floats | None) -> ColumnScore:
    column = other.schema.columns[place]
    law, total = shares(other, [place], weights), max(1.0, float(counts.sum()))
    seen, gaps = counts[: column.size], counts[column.size :]
    value, between = distance_less_noise(seen, law, noise_std)
    missing = other.codes[place] >= column.size
    mass = np.ones(other.rows) if weights is None else weights
    rate = float(mass @ missing / mass.sum()) if other.rows else 0.0
    sum_seen = max(1.0, float(seen.sum()))
    return ColumnScore(
        column.name,
        column.kind,
        column.cells[: column.size],
        tuple((np.maximum(seen, 0.0) / sum_seen).tolist()),
        tuple([0.0] * column.size if law is None else law.tolist()),
        value,
        None,
        (min(1.0, max(0.0, float(gaps.sum()) / total)), rate) if column.gaps else None,
        noise_std / sum_seen,
        between,
    )


def _pair(other: Table, names: tuple[str, str], counts: Floats, noise_std: float, weights: Floats | None) -> Pair:
    places = other.schema.positions(names)
    both = other.schema.columns[places[0]], other.schema.columns[places[1]]
    seen = counts[: both[0].size, : both[1].size]
    value, between = distance_less_noise(seen, shares(other, places, weights), noise_std)
    return Pair(names, value, measure_of(both), None, None, between)


def distance_less_noise(
    counts: Floats, law: Floats | None, noise_std: float
) -> tuple[float | None, tuple[float, float] | None]:
    """The total variation distance of noisy counts from a law, the expected share of noise taken off, and its range.

    >>> distance_less_noise(np.array([750.0, 250.0]), np.array([0.5, 0.5]), 0.0)
    (0.25, (0.25, 0.25))
    """
    total = float(counts.sum())
    if law is None or total <= 2 * noise_std * math.sqrt(counts.size):
        return None, None
    noisy = min(1.0, half_l1(counts / total, law))
    spreads = np.sqrt(np.maximum(0.0, 1 - 2 * law + counts.size * law**2))
    by_noise = noise_std * math.sqrt(2 / math.pi) * float(spreads.sum()) / (2 * total)
    least = max(0.0, noisy - by_noise)
    return least, (least, noisy)


def _mean(name: str, about: str, parts: Sequence[ColumnScore] | Sequence[Pair]) -> Score:
    known = [(part.distance, part.between) for part in parts if part.distance is not None and part.between is not None]
    if not known:
        return Score(name, None, 0.0, about)
    low, high = (float(np.mean([between[end] for _, between in known])) for end in (0, 1))
    return Score(name, float(np.mean([distance for distance, _ in known])), 0.0, about, (low, high))


def _gap_error(columns: Sequence[ColumnScore]) -> list[Score]:
    """The rates of gaps are compared if the other table has gaps at all."""
    rates = [column.gaps for column in columns if column.gaps is not None]
    if not any(other for _, other in rates):
        return []
    error = float(np.mean([abs(truth - other) for truth, other in rates]))
    return [Score("gap rate error", error, 0.0, "Mean difference of the shares of gaps; noise included.")]
