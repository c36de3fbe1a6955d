r"""The gaps of a private table, described under a budget: rates, frequent patterns, and whether they look random.

**Rates.** For every column that may be missing the counts of observed and missing cells.

**Patterns.** The histogram of all patterns of gaps; where more than 16 columns may be missing it grows block by block
of columns, each step among the most frequent beginnings found so far. A pattern is listed if its count exceeds
a bound on the noise: with probability 95 % every listed pattern has a row.

**Are gaps completely at random?** If so, whether a cell of column g is missing does not depend on the value in another
column c, among rows observed on c. From the noisy counts :math:`t_{1x}` (missing) and :math:`t_{0x}` (observed) of rows
with cell x of c, with :math:`\hat r` the share of missing cells,

.. math:: Q = \sum_x (t_{1x} - \hat r\,(t_{0x} + t_{1x}))^2 / v_x, \qquad
          v_x = \hat n_x \hat r (1 - \hat r) + \sigma^2 (\hat r^2 + (1 - \hat r)^2)

grows with the dependence. Its distribution under independence is simulated: estimated counts, gaps with the same
probability everywhere, and noise as it was added. P-values are multiplied by the number of tables (Bonferroni). So the
probability of any false alarm is at most about 5 %.

The check cannot detect dependence on the missing value itself, which no data can show. It cannot detect dependence on
several columns at once, nor any association smaller than `detectable`. The patterns show which columns are missing
together; this does not contradict "completely at random".

`gap_rates` estimates how often cells are missing, and pays for it. This is the only way from data to an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import chndtr, gammainccinv

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.workload import Views
from gapless.errors import BudgetError, Call, Hint, SchemaError, Variable
from gapless.model.marginal import project_to_simplex
from gapless.privacy import MCAR, DiscreteGaussian, DiscreteLaplace, Grant, Loss, Spend, for_counts
from gapless.schema import Column
from gapless.text import aligned, plural
from gapless.types import Floats, checked_number

Noise: TypeAlias = DiscreteLaplace | DiscreteGaussian
Pattern: TypeAlias = tuple[bool, ...]

RATES_SHARE, PATTERNS_SHARE = 0.2, 0.3  # of the budget; the rest is for the check
LEVEL = 0.05  # the probability of a false alarm, for all patterns together and for all tables of the check together
POWER = 0.8
AT_ONCE = 16  # columns whose patterns are counted in one histogram
BLOCK = 12  # columns of a step if there are more
MAX_PATTERNS = 64  # that are continued in the next step, or listed
MAX_CELLS = 12  # of a column in the check: neighbouring cells are merged
MAX_TABLES = 1500  # of the check: if there are more, a subset is spread evenly over all
DRAWS = 999
_FREE = Hint("use ", Call("gapless.missing.patterns", Variable("table")), ", which is free")


@dataclass(frozen=True, slots=True)
class Link:
    """Whether the gaps of a column depend on the value in another.

    Attributes:
        gaps_of: the column whose gaps are looked at.
        on: the other column.
        p_value: of the noisy counts, if the gaps did not depend on it; multiplied by the number of tables.
        association: an estimate of Cramér's V: how far the missing rate moves over the cells of the other column,
            in standard deviations of a single missing state; 0 if not at all.
        detectable: the association that would be found with a probability of 80 % at this noise, if it spreads over
            all cells; infinite if none would.
    """

    gaps_of: str
    on: str
    p_value: float
    association: float
    detectable: float

    @property
    def found(self) -> bool:
        """Whether the gaps are called dependent."""
        return self.p_value <= LEVEL


@dataclass(frozen=True, slots=True)
class GapReport:
    """The gaps of a private table, in noisy numbers: public.

    Attributes:
        columns: those that may be missing.
        rows: the noisy number of rows.
        rates: the noisy share of missing cells of each column.
        rate_std: the noise in a rate, as a standard deviation.
        patterns: the columns missing together and the noisy number of rows, the most frequent first.
        pattern_std: the noise in such a number.
        links: for every column that may be missing and every other column (1,500 of these pairs at the most), the
            strongest evidence first.
        weight: whether rows or persons weigh 1, where these differ.
    """

    columns: tuple[str, ...]
    rows: float
    rates: dict[str, float]
    rate_std: float
    patterns: tuple[tuple[tuple[str, ...], float], ...]
    pattern_std: float
    links: tuple[Link, ...]
    weight: str = ""

    @property
    def dependence_found(self) -> bool:
        """Whether gaps of some column were found to depend on another. If not, `detectable` says what was looked for.

        That none was found does not show that gaps are completely at random.
        """
        return any(link.found for link in self.links)

    def __str__(self) -> str:
        rates = [
            f"  {name}  {100 * rate:5.1f}% ± {100 * self.rate_std:.1f}"
            for name, rate in zip(aligned(self.rates), self.rates.values(), strict=True)
        ]
        rows = f"About {plural(max(0, round(self.rows)), 'row')}. Missing (± noise):"
        noise = f"Patterns, noise ± {plural(round(self.pattern_std), 'row')} (■ observed, · missing):"
        weight = [f"All numbers are {self.weight}."] if self.weight else []
        return "\n".join([rows, *rates, "", noise, *self._picture(), "", *self._verdict(), *weight])

    def _picture(self) -> list[str]:
        if not self.patterns:
            return ["  none is frequent enough to be distinguished from noise"]
        lines = [f"  {'rows':>9}  " + " ".join(f"{i:>2}" for i in range(1, len(self.columns) + 1))]
        for missing, count in self.patterns[:12]:
            lines.append(f"  {count:>9.0f}  " + " ".join(" ·" if name in missing else " ■" for name in self.columns))
        if len(self.patterns) > 12:
            lines.append(f"  … and {len(self.patterns) - 12} more beyond noise")
        return [*lines, "  columns: " + ", ".join(f"{i} {name}" for i, name in enumerate(self.columns, 1))]

    def _verdict(self) -> list[str]:
        if not self.links:
            return ["There is no other column on which gaps could depend."]
        found = [link for link in self.links if link.found]
        lines = [
            f"Gaps depend on another column ({100 * LEVEL:.0f}% chance of any false alarm):"
            if found
            else "No dependence of gaps on another column was found. This does not show that there is none:"
        ]
        lines += [
            f"  {link.gaps_of} on {link.on}: association {link.association:.2f}, p = {link.p_value:.2g}"
            for link in found[:12]
        ]
        return [*lines, f"  {self._detectable_range()}"]

    def _detectable_range(self) -> str:
        """The associations that the check can detect at this noise, over all pairs of columns."""
        reach = [link.detectable for link in self.links]
        best, worst = min(reach), max(reach)
        if best > 1:
            return (
                f"at this noise no association, however strong, would be found with {100 * POWER:.0f}% probability: "
                "a larger spend= sees more"
            )
        rest = "not even the strongest" if worst > 1 else f"{worst:.2f} and above"
        return (
            f"associations that would be found with {100 * POWER:.0f}% probability: "
            f"{best:.2f} and above for the pair of columns that is seen best, {rest} for the one that is seen worst"
        )


def describe_gaps(table: PrivateTable, *, spend: Spend) -> GapReport:
    """Describe the gaps of a private table: noisy rates, the most frequent patterns, a check for randomness.

    Guarantee: a fifth of `spend` pays for the rates, three tenths for the patterns, half for the check; each part is
    shared evenly by its counts, all of distance 1 for a row. What is computed from them is free. All noise of the rates
    and the check is fixed before anything is read.
    """
    check_private(table, "describe_gaps()", public=_FREE)
    columns = table.schema.columns
    incomplete = [place for place, column in enumerate(columns) if column.gaps]
    if not incomplete:
        raise SchemaError(
            "the schema has may_be_missing = true for no column, so there are no gaps to describe",
            hint="write may_be_missing = true in the schema for each column with gaps, then read the table again",
        )
    spend = table.ledger.share(spend)
    grant = table.ledger.grant(spend, to="describe_gaps")
    names = tuple(columns[place].name for place in incomplete)
    counts, noise, tables, table_noise = _count(table, incomplete, grant, spend)
    rows = max(0.0, float(counts.sum(axis=1).mean()))
    rates = np.clip(counts[:, 1] / max(1.0, rows), 0.0, 1.0)
    found, pattern_std = _patterns(table, names, grant, spend * PATTERNS_SHARE)
    rng = np.random.default_rng(0)  # public: the same released values always give the same report
    links = []
    for (gaps_of, on), noisy in tables.items():
        p_value, association, detectable = check_table(noisy, table_noise, rng, tables=len(tables))
        links.append(Link(gaps_of, on, min(1.0, len(tables) * p_value), association, detectable))
    return GapReport(
        columns=names,
        rows=rows,
        rates=dict(zip(names, rates.tolist(), strict=True)),
        rate_std=noise.noise_std / max(1.0, rows),
        patterns=tuple(
            (tuple(n for n, gap in zip(names, pattern, strict=True) if gap), count) for pattern, count in found
        ),
        pattern_std=pattern_std,
        links=tuple(sorted(links, key=lambda link: (link.p_value, -link.association))),
        weight=table.protect.row_weight,
    )


def _count(
    table: PrivateTable, incomplete: Sequence[int], grant: Grant, spend: Loss
) -> tuple[Floats, Noise, dict[tuple[str, str], Floats], Noise]:
    """Noisy counts of observed and missing cells, alone and for each cell of every other column: one batch."""
    columns = table.schema.columns
    states = {place: view for view, place in enumerate(incomplete)}
    merged = [_merged(column) for column in columns]
    missing = [np.arange(columns[place].extended_size) >= columns[place].size for place in incomplete]
    views = [(g, gap.astype(np.int64)) for g, gap in zip(incomplete, missing, strict=True)] + list(enumerate(merged))
    data = Views(table, views, rows="extended")
    pairs = [(g, c) for g in incomplete for c in range(len(columns)) if c != g]
    pairs = pairs[:: math.ceil(len(pairs) / MAX_TABLES) or 1]
    counts = data.counts_of(
        [*((states[place],) for place in incomplete), *((states[g], len(incomplete) + c) for g, c in pairs)]
    )
    singles, joints = counts[: len(incomplete)], counts[len(incomplete) :]
    distance = singles[0].distance
    noise = for_counts(spend * RATES_SHARE / len(singles), distance)
    table_noise = for_counts(spend * (1 - RATES_SHARE - PATTERNS_SHARE) / max(1, len(pairs)), distance)
    asked = [(value, noise, f"gaps of {columns[g].name}") for g, value in zip(incomplete, singles, strict=True)]
    asked += [
        (value, table_noise, f"gaps of {columns[g].name} × {columns[c].name}")
        for (g, c), value in zip(pairs, joints, strict=True)
    ]
    released = [answer.value.astype(np.float64) for answer in grant.release_all(asked)]
    observed = [int(codes[: column.size].max()) + 1 for column, codes in zip(columns, merged, strict=True)]
    tables = {
        (columns[g].name, columns[c].name): value[:, : observed[c]]
        for (g, c), value in zip(pairs, released[len(singles) :], strict=True)
    }
    return np.stack(released[: len(singles)]), noise, tables, table_noise


def _merged(column: Column) -> NDArray[np.int64]:
    """Codes with neighbouring cells merged into a few; gaps stay apart."""
    many = min(column.size, MAX_CELLS)
    codes = np.arange(column.extended_size)
    return np.where(codes < column.size, codes * many // column.size, codes - column.size + many)


# ---------------------------------------------------------------------- patterns


def _patterns(
    table: PrivateTable, names: Sequence[str], grant: Grant, spend: Loss
) -> tuple[list[tuple[Pattern, float]], float]:
    """The patterns beyond noise, most frequent first, and the standard deviation of the noise."""
    steps = 1 if len(names) <= AT_ONCE else math.ceil(len(names) / BLOCK)
    ends = [len(names) * (step + 1) // steps for step in range(steps)]
    found: list[tuple[Pattern, float]] = [((), 0.0)]
    noise = None
    for begin, end in zip([0, *ends], ends, strict=False):
        counts = table.gap_patterns(names[:end], among=[pattern for pattern, _ in found])
        noise = for_counts(spend / steps, counts.distance)
        what = f"patterns of gaps in {plural(end, 'column')}"
        noisy = grant.release(counts, noise, what=what).value.astype(np.float64)
        beyond = _largest_noise(noise, noisy.size, LEVEL / steps)
        best = np.argsort(-noisy, axis=None, kind="stable")[:MAX_PATTERNS]
        found = [
            (
                (*found[place // noisy.shape[1]][0], *_bits(place % noisy.shape[1], end - begin)),
                float(noisy.flat[place]),
            )
            for place in best.tolist()
            if noisy.flat[place] > beyond
        ]
        if not found:
            break
    return found, 0.0 if noise is None else noise.noise_std


def _bits(number: int, many: int) -> Pattern:
    return tuple(bool(number >> place & 1) for place in reversed(range(many)))


def _largest_noise(noise: Noise, cells: int, level: float) -> float:
    """A bound that noise exceeds in any of these cells with probability at most `level`, by a union bound.

    P(Z > t) ≤ exp(-t²/2σ²) for the discrete Gaussian (sub-Gaussian, Canonne, Kamath and Steinke 2020), and
    ≤ exp(-t/b) for the discrete Laplace.
    """
    if isinstance(noise, DiscreteLaplace):
        return noise.scale * math.log(cells / level)
    return noise.std * math.sqrt(2 * math.log(cells / level))


# ---------------------------------------------------------------------- the check


def check_table(noisy: Floats, noise: Noise, rng: np.random.Generator, *, tables: int) -> tuple[float, float, float]:
    """The p-value of one 2 × m table of noisy counts, its association, and the association that would be found."""
    (seen,) = _statistic(noisy[None], noise.noise_std)
    simulated = _simulate_null(noisy, noise, rng, DRAWS)
    p_value = (1 + int((simulated >= seen).sum())) / (1 + DRAWS)
    mean = max(float(simulated.mean()), 1e-9)
    variance = max(float(simulated.var()), 1e-9)
    if p_value <= 0.02 and tables > 1:  # more draws: a small p-value is multiplied by the number of tables
        draws = max(DRAWS, math.ceil(3 * tables / LEVEL))
        beyond = sum(
            int((_simulate_null(noisy, noise, rng, min(10_000, draws - done)) >= seen).sum())
            for done in range(0, draws, 10_000)
        )
        p_value = (1 + beyond) / (1 + draws)
    cells, rate = _cells_and_rate(noisy[None])
    variances = _variances(cells, rate, noise.noise_std)[0]
    weight = float(rate[0] * (1 - rate[0]) * (cells[0] ** 2 / variances).sum())  # Q grows by V² times this
    if weight <= 0 or noisy.shape[1] < 2:
        return p_value, 0.0, math.inf
    critical = variance / mean * float(gammainccinv(mean**2 / variance, LEVEL / tables))
    needed = _noncentrality(critical, noisy.shape[1] - 1)
    return p_value, min(1.0, math.sqrt(max(0.0, seen - mean) / weight)), math.sqrt(needed / weight)


def _cells_and_rate(noisy: Floats) -> tuple[Floats, Floats]:
    """For each table (the first axis) the rows in each cell, not negative, and the share of missing ones."""
    cells = np.maximum(noisy.sum(axis=1), 0.0)
    total = np.maximum(noisy.sum(axis=(1, 2)), 1.0)
    return cells, np.clip(noisy[:, 1].sum(axis=1) / total, 0.0, 1.0)


def _variances(cells: Floats, rate: Floats, noise_std: float) -> Floats:
    """The variance of t₁ - r (t₀ + t₁) in each cell, from random gaps and noise."""
    rate = rate[:, None]
    return np.asarray(cells * rate * (1 - rate) + noise_std**2 * (rate**2 + (1 - rate) ** 2))


def _statistic(noisy: Floats, noise_std: float) -> Floats:
    """Q of each table."""
    cells, rate = _cells_and_rate(noisy)
    off = noisy[:, 1] - rate[:, None] * noisy.sum(axis=1)
    return np.asarray((off**2 / _variances(cells, rate, noise_std)).sum(axis=1))


def _simulate_null(noisy: Floats, noise: Noise, rng: np.random.Generator, draws: int) -> Floats:
    """Q of simulated tables in which gaps do not depend on the cell."""
    _, rate = _cells_and_rate(noisy[None])
    total = max(1.0, float(noisy.sum()))
    rows = np.rint(project_to_simplex(noisy.sum(axis=0), total)).astype(np.int64)
    gaps = rng.binomial(rows, rate[0], size=(draws, len(rows)))
    tables = np.stack([rows - gaps, gaps], axis=1).astype(np.float64)
    return _statistic(tables + _draw_noise(noise, tables.shape, rng), noise.noise_std)


def _draw_noise(noise: Noise, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Noise of the same distribution, for simulation."""
    if isinstance(noise, DiscreteLaplace):
        up, down = rng.geometric(-math.expm1(-1 / noise.scale), (2, *shape))
        return np.asarray(up - down, dtype=np.float64)
    return np.rint(rng.normal(0.0, noise.std, shape))


def _noncentrality(critical: float, freedom: int) -> float:
    """The noncentrality with which a noncentral χ² exceeds a critical value with probability POWER."""
    low, high = 0.0, 10.0
    while chndtr(critical, freedom, high) > 1 - POWER and high < 1e9:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if chndtr(critical, freedom, middle) > 1 - POWER else (low, middle)
    return high


def gap_rates(
    table: PrivateTable,
    *,
    spend: Spend,
    failure: float = 1e-6,
    columns: Literal["independent", "dependent"] = "independent",
) -> MCAR:
    r"""Lower bounds on the rate of gaps in every column that may be missing, as an assumption that carries its risk.

    The noisy number of rows and, for each column, of rows observed on it are released in even shares. With t so large
    that noise exceeds it with probability :math:`\beta/2(k+1)`, the chance to be observed is at most the
    Clopper-Pearson limit, at level :math:`\beta/2k`, of :math:`\tilde c + t` in :math:`\tilde n - t` rows.

    Guarantee: if cells are missing completely at random, at the same rate in every row, all bounds hold together with
        probability at least 1 - `failure` over noise and gaps; `failure` is added to δ wherever they are used. What the
        estimate costs is on the ledger. The rates themselves, unlike these bounds, would be a release for free.
        Proved in docs/proofs/gap_rates.md.

    Args:
        table: the sealed table.
        spend: what the counts may cost together.
        failure: the probability β that some bound is wrong.
        columns: what is assumed of columns: "independent" of each other, or "dependent".
    """
    check_private(table, "gap_rates()", public=_FREE)
    checked_number("failure", failure, 0, 1, "()", error=BudgetError, example=1e-6)
    ruled = table.ledger.receipt().gaps  # as the table was read: without differences, also after `select`
    lacking = [column for column in table.schema.columns if column.gaps and column.name in ruled]
    if not lacking:
        raise SchemaError(
            "gap rates are estimated for columns with may_be_missing = true, but the schema has no such column",
            hint=Hint("write may_be_missing = true for each column that can have gaps")
            | Hint("use ", Call("MCAR", {}), ", which assumes that no column has gaps"),
        )
    grant = table.ledger.grant(spend, to="gap_rates")
    counts = [table.where(column.name, column.cells[: column.size]).marginal(()) for column in lacking]
    counts.append(table.marginal(()))
    names = [f"rows observed on {column.name}" for column in lacking] + ["number of rows"]
    noise = for_counts(grant.even_loss(counts, grant.left), counts[0].distance)
    released = grant.release_all([(value, noise, name) for value, name in zip(counts, names, strict=True)])
    *seen, rows = (int(answer.value) for answer in released)
    margin = math.ceil(_largest_noise(noise, len(counts), failure / 2))
    level = failure / (2 * len(lacking))
    rates = {
        column.name: 1 - _upper_limit(hits + margin, rows - margin, level)
        for column, hits in zip(lacking, seen, strict=True)
    }
    return MCAR(rates, columns=columns, failure=failure, paid=table.ledger.receipt())


def _upper_limit(hits: int, trials: int, level: float) -> float:
    """The Clopper-Pearson upper limit of a probability; it falls with trials and rises with hits."""
    if hits >= trials:
        return 1.0
    from scipy import stats  # noqa: PLC0415 it takes a while to import

    return min(1.0, float(stats.beta.isf(level, max(0, hits) + 1, trials - max(0, hits))))
