"""Pool the estimates of copies: one estimate with an interval for noise, sampling and gaps, or the reason for none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from gapless.data import Table
from gapless.errors import Argument, Call, Hint, ModelError
from gapless.inference import estimates
from gapless.inference.estimates import Estimates
from gapless.inference.support import binned, not_measured, reassign_within_bins, required_columns
from gapless.query.numbers import cell_numbers
from gapless.query.questions import AnyQuestion, Mean, Proportion, Quantile, Question
from gapless.schema.numeric import BinnedColumn
from gapless.synth.copies import Copies
from gapless.synth.fitted import FittedModel
from gapless.synth.measurements import Measurements
from gapless.text import listing
from gapless.types import Floats

FREE = "Computed from released values: nothing was spent."
NOISE_LEGEND = "× by noise: with noise, an interval is this many times as wide as by sampling alone."
GAPS_LEGEND = "× by gaps: gaps widen it again by this factor."
BELOW_NOISE = (
    "not supported by this release: noise hides the rows that it rests on; "
    "larger groups, or more of the budget, would show them"
)
MOSTLY_NOISE = 3.0  # width of an interval, relative to the width without noise
_Asker: TypeAlias = Callable[[Table, Measurements | None], Estimates]  # of a table and the measurements behind it
TOO_FEW = "no interval: some copies have no row that it could rest on, or too few"


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledEstimate:
    """An estimate and its 95 % interval for the population.

    Attributes:
        name: of the group or the coefficient; "" for a single estimate.
        value: the estimate.
        interval: the 95 % interval; None if the release does not support one.
        noise_factor: how much wider the interval is than without noise.
        gap_factor: how much wider it is again because of gaps.
        unsupported: why there is no interval, and what to measure for one; else empty.
    """

    name: str
    value: float
    interval: tuple[float, float] | None
    noise_factor: float
    gap_factor: float
    unsupported: str = ""

    def known(self, factor: float) -> float | None:
        """Return a factor if there is an interval and the factor is finite, else None."""
        return factor if self.interval and np.isfinite(factor) else None

    def __str__(self) -> str:
        if self.interval is None:
            return "no estimate" if np.isnan(self.value) else f"({self.value:.6g})  no interval"
        low, high = self.interval
        noise = f"  × {self.noise_factor:.2f} by noise" if self.shows_noise else ""
        gaps = f", × {self.gap_factor:.2f} by gaps" if self.shows_gaps else ""
        return f"{self.value:.6g}  [{low:.6g}, {high:.6g}]{noise}{gaps}"

    @property
    def shows_noise(self) -> bool:
        """Whether the text has the factor of noise."""
        return self.known(self.noise_factor) is not None

    @property
    def shows_gaps(self) -> bool:
        """Whether the text has the factor of gaps."""
        return self.shows_noise and 1 < self.gap_factor < np.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """Estimates pooled from several copies.

    Attributes:
        question: as text.
        estimates: one, or several by name.
        copies: the number of pooled tables.
        notes: what the intervals do not cover.
    """

    question: str
    estimates: tuple[PooledEstimate, ...]
    copies: int
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> PooledEstimate:
        for pooled in self.estimates:
            if pooled.name == name:
                return pooled
        if len(self.estimates) == 1:
            raise ModelError(f"there is no estimate {name!r}", hint="read the only estimate as pooled.estimates[0]")
        known = listing(repr(estimate.name) for estimate in self.estimates)
        raise ModelError(f"there is no estimate {name!r}", hint=f"use one of: {known}")

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, for JSON."""
        return {
            "question": self.question,
            "estimates": [
                {
                    "name": estimate.name,
                    "estimate": None if np.isnan(estimate.value) else estimate.value,
                    "interval": None if estimate.interval is None else list(estimate.interval),
                    "noise_factor": estimate.known(estimate.noise_factor),
                    "gap_factor": estimate.known(estimate.gap_factor),
                    "unsupported": estimate.unsupported,
                }
                for estimate in self.estimates
            ],
            "copies": self.copies,
            "notes": list(self.notes) if any(estimate.interval for estimate in self.estimates) else [],
        }

    def __str__(self) -> str:
        return "\n".join([*self.answers, *(f"  {note}" for note in self.remarks())])

    @property
    def answers(self) -> list[str]:
        """A line for each estimate."""
        if len(self.estimates) == 1 and not self.estimates[0].name:
            return [f"{self.question} = {self.estimates[0]}"]
        width = max(len(estimate.name) for estimate in self.estimates)
        return [self.question, *(f"  {estimate.name:<{width}}  {estimate}" for estimate in self.estimates)]

    def remarks(self, form: Callable[[str], str] = str) -> tuple[str, ...]:
        """Return the reasons for missing intervals, each once, a legend, and what the other intervals do not cover.

        Args:
            form: how to write a reason, which may be a `Hint` that names arguments; by default as in Python.
        """
        reasons: dict[str, list[str]] = {}
        for pooled in self.estimates:
            if pooled.unsupported:
                reasons.setdefault(pooled.unsupported, []).append(pooled.name)
        of_all = len(reasons) == 1 and all(estimate.unsupported for estimate in self.estimates)
        why = [form(why) if of_all else f"{listing(names)}: {form(why)}" for why, names in reasons.items()]
        shown = {
            NOISE_LEGEND: any(estimate.shows_noise for estimate in self.estimates),
            GAPS_LEGEND: any(estimate.shows_gaps for estimate in self.estimates),
        }
        legend = [line for line, is_shown in shown.items() if is_shown]
        return (*why, *legend, *(self.notes if any(estimate.interval for estimate in self.estimates) else ()))


def pool(copies: Copies, estimator: AnyQuestion | Callable[[Table], Any]) -> Pooled:
    """Pool the estimates of all copies, with 95 % intervals for the population of the private rows.

    The intervals cover noise, sampling and gaps (`gapless.inference.estimates`). An estimate that depends on tables
    that were not measured has no interval, and says what to measure.

    Args:
        copies: `model.copies(20)`.
        estimator: a question, `Mean("income", by="sex")`, `Proportion(…)`, `Median(…)` or `Quantile(…)`; or a function
            from a table to estimates and their variances, or to a fitted model of statsmodels.
    """
    if not isinstance(copies, Copies):
        raise ModelError(
            f"pool() takes copies, not a {type(copies).__name__}",
            hint=Hint("pass ", Call("model.copies", 20)),
        )
    model, ask = copies.model, _asker(estimator)
    columns: list[frozenset[int]] = []
    if isinstance(estimator, Question):  # refuse what cannot be answered before anything is learned
        columns = [frozenset(model.schema.positions(sorted(estimates.columns_used(estimator, model.schema))))]
    results = [ask(*drawn) for drawn in copies.drawn_copies]
    first = results[0]
    if any(result.names != first.names for result in results):
        raise ModelError(
            "the estimator must return the same names for every copy, but it returned different names",
            hint="write an estimator whose names do not depend on the rows of a copy",
        )
    if columns and not copies.weighted:
        needs = [columns] * len(first.names)
    else:  # an estimate also depends on the columns that weights use
        if not np.array_equal(ask(*copies.drawn_copies[0]).values, first.values, equal_nan=True):
            raise ModelError(
                "the estimator must return the same result for the same table, but it returned two different results",
                hint="use a fixed seed in the estimator, and keep no state between its calls",
            )
        found = required_columns(
            lambda table: ask(copies.weigh(table), copies.drawn_copies[0].measurements), copies[0], first
        )
        needs = [[part.union(*columns) for part in need] for need in found]
    used = [frozenset().union(*need) for need in needs]
    intervals = _intervals(copies, results, ask, used, estimates.bin_mean_column(estimator))
    names, hidden = first.names, _below_noise(results)
    if isinstance(estimator, Quantile):
        names, intervals = _quantiles(estimator, model, intervals)
        many = len(first.names) // len(names)
        needs = [[frozenset().union(*(part for need in some for part in need))] for some in _parts(needs, many)]
        hidden = hidden[::many]
    if isinstance(estimator, Question):
        hides = _below_noise_groups(estimator, model, columns[0])
        hidden = [few or below for few, below in zip(hidden, hides, strict=True)]
    if isinstance(estimator, Proportion | Mean):  # the true value is between these ends
        ends = (0.0, 1.0) if isinstance(estimator, Proportion) else _ends(estimator, model)
        half, value = (intervals.high - intervals.low) / 2, np.clip(intervals.value, *ends)
        low, high = (np.clip(found, *ends) for found in (value - half, value + half))
        intervals = intervals._replace(value=value, low=low, high=high)
    reasons = [
        _unsupported(model, need) or (BELOW_NOISE if few else "" if np.isfinite(width) else TOO_FEW)
        for need, few, width in zip(needs, hidden, intervals.high - intervals.low, strict=True)
    ]
    notes = _notes(model, frozenset().union(*(columns for need in needs for columns in need)))
    if isinstance(estimator, Mean):
        noises = [noise for noise, reason in zip(intervals.noise, reasons, strict=True) if not reason]
        notes = [*_tail_notes(estimator, model, max(noises, default=0.0)), *notes]
    return Pooled(
        question=str(estimator) if isinstance(estimator, Question) else "pooled",
        estimates=tuple(
            PooledEstimate(
                name=name,
                value=float(intervals.value[place]),
                interval=None if reason else (float(intervals.low[place]), float(intervals.high[place])),
                noise_factor=float(intervals.noise[place]),
                gap_factor=float(intervals.gaps[place]),
                unsupported=reason,
            )
            for place, (name, reason) in enumerate(zip(names, reasons, strict=True))
        ),
        copies=len(copies),
        notes=tuple(notes),
    )


def _asker(estimator: AnyQuestion | Callable[[Table], Any]) -> _Asker:
    """Return a function from a table to `Estimates`; for a quantile it returns cumulative shares."""
    if isinstance(estimator, Quantile):
        return partial(estimates.cumulative_shares, estimator)
    if isinstance(estimator, Question):
        return partial(estimates.estimate, estimator)
    if isinstance(estimator, str):
        raise ModelError(
            f"pool() takes a question or a function, not the text {estimator!r}",
            hint=Hint("pass ", Call("gapless.parse_question", estimator)),
        )
    if not callable(estimator):
        raise ModelError(
            f"pool() takes a question or a function, not a {type(estimator).__name__}",
            hint=f"pass a question, or a function that returns {estimates.FORMS}",
        )
    return lambda table, _: estimates.estimates_of(estimator(table))


class _Intervals(NamedTuple):
    """The value of each estimate, the ends of its interval, and the factors by which noise and gaps widen it."""

    value: Floats
    low: Floats
    high: Floats
    noise: Floats
    gaps: Floats


def _intervals(
    copies: Copies,
    results: Sequence[Estimates],
    ask: _Asker,
    columns: Sequence[frozenset[int]],
    averaged: str | None,
) -> _Intervals:
    """Return the intervals of estimates that read these columns; `averaged` is the column that uses bin means.

    Replicates show the effect of gaps, and of counts that cannot be negative in learned bins. Rows with reassigned
    values show how sensitive an estimate is to unmeasured dependence within bins.
    """
    model, measurements = copies.model, copies.measurements
    # If a group is empty in some copy, its estimate is NaN, and it gets no interval.
    values = np.array([result.values for result in results])
    variances = np.array([result.variances for result in results])
    gappy, learned, mixed = (
        np.array([any(some) for some in found])
        for found in (
            [[model.schema.columns[c].gaps for c in used] for used in columns],
            [[model.schema.names[c] in model.within_bin_counts.keys() - {averaged} for c in used] for used in columns],
            [binned(model.schema, used) if len(used) > 1 else () for used in columns],
        )
    )
    original = ask(copies.reference_sample, measurements).values
    pooled = estimates.rubin(original, values, variances)
    centre, half = pooled.centre, pooled.half
    if (gappy | learned).any() and copies.drawn_replicates:
        truth = ask(copies.reference_sample, measurements.nonnegative(model.schema)).values if averaged else None
        found = estimates.bootstrap(
            original, np.array([ask(*drawn).values for drawn in copies.drawn_replicates]), truth
        )
        centre = np.where(gappy | learned, found.centre, centre)
        half = np.where(gappy | learned, np.maximum(half, found.half), half)
    with np.errstate(divide="ignore", invalid="ignore"):
        if gappy.any() and copies.loose_rates_sample is not None:  # centre between both fits; widen by half the gap
            move = np.where(gappy, (ask(copies.loose_rates_sample, measurements).values - original) / 2, 0.0)
            centre, half = centre + move, np.where(gappy, estimates.widened(half, np.abs(move)), half)
        gaps = np.where(gappy, half / pooled.half, 1.0)
        if mixed.any():
            used = frozenset().union(*(some for some, is_mixed in zip(columns, mixed, strict=True) if is_mixed))
            rng = np.random.default_rng([copies.seed, 4])
            rows = copies.weigh(reassign_within_bins(copies.reference_sample, used, rng))
            moved = ask(rows, None).values - ask(copies.reference_sample, None).values
            half = np.where(mixed, estimates.widened(half, np.abs(moved)), half)
        noise = half / gaps / (estimates.quantile(np.array(np.inf)) * np.sqrt(variances.mean(axis=0)))
    return _Intervals(centre, centre - half, centre + half, noise, gaps)


def _quantiles(question: Quantile, model: FittedModel, shares: _Intervals) -> tuple[tuple[str, ...], _Intervals]:
    """Return the names of groups, and the intervals of quantiles from the intervals of shares."""
    numbers = estimates.support(question, model.schema)
    names = tuple(", ".join(names) for names in question.compile(model.schema).groups or [()])
    found = np.full((len(names), 5), np.nan)
    for group, (value, low, high, noise, gaps) in enumerate(
        zip(*(_parts(part, len(numbers)) for part in shares), strict=True)
    ):
        if np.isfinite(high[:-1] - low[:-1]).all():
            bounds = estimates.quantile_bounds(question.q, value, (high - low) / 2)
            place = min(bounds.place, max(0, len(numbers) - 2))  # the share up to the last number is 1 without noise
            found[group] = (*numbers[[bounds.place, bounds.low, bounds.high]], noise[place], gaps[place])
    return names, _Intervals(*found.T)


def _parts(values: Any, size: int) -> list[Any]:
    return [values[begin : begin + size] for begin in range(0, len(values), size)]


def _ends(question: Mean, model: FittedModel) -> tuple[float, float]:
    """Return the least and the largest possible mean of the column's values, under a condition on the column."""
    compiled = question.compile(model.schema)
    values = cell_numbers(compiled.schema, question.column, question.bounds).values
    if compiled.contribution.columns == (question.column,):
        _, added = compiled.contribution.evaluate({question.column: np.arange(len(values), dtype=np.uint32)})
        values = values[added.any(axis=1)] if added.any() else values
    return float(values.min()), float(values.max())


def _below_noise_groups(question: AnyQuestion, model: FittedModel, columns: frozenset[int]) -> list[bool]:
    """Return, for each group, whether one of its cells is below noise in the released tables of these columns.

    Models clip negative counts, so rare groups have more rows in copies than in the data.
    """
    assert model.measurements is not None  # noqa: S101 for mypy: else there are no copies
    groups = question.compile(model.schema).groups or [()]
    is_below = [False] * len(groups)
    for axis, position in enumerate(model.schema.positions(question.grouped_by)):
        hidden_cells = model.measurements.cells_below_noise(model.schema, position, columns)
        few = dict(zip(model.schema.columns[position].cells, hidden_cells, strict=False))
        is_below = [known or bool(few.get(names[axis], False)) for known, names in zip(is_below, groups, strict=True)]
    return is_below


def _below_noise(results: Sequence[Estimates]) -> list[bool]:
    """Return, for each estimate, whether the number of its rows is below noise; False if the number is unknown.

    It is if the mean number in the copies is at most 1.96 times its standard deviation: there may be no row at all.
    """
    rows = [result.rows for result in results]
    if any(some is None for some in rows):
        return [False] * len(results[0].names)
    known = np.array(rows, dtype=np.float64)
    many = known.mean(axis=0)
    return [bool(few) for few in (many > 0) & (many <= 1.96 * known.std(axis=0, ddof=1))]


def _unsupported(model: FittedModel, needs: Sequence[frozenset[int]]) -> str:
    """Return the reason for a missing interval; an empty text if there is an interval."""
    measurements, names = model.measurements, model.schema.names
    assert measurements is not None  # noqa: S101 for mypy: else there are no copies
    lacking = not_measured(needs, measurements.jointly_measured(model.schema))
    if lacking:
        described = [" × ".join(names[c] for c in sorted(columns)) for columns in lacking]
        tables = [tuple(names[c] for c in sorted(columns)) for columns in lacking]
        was, object_form = ("was", "it") if len(described) == 1 else ("were", "them")
        kept = " in a table that rows of a network keep" if measurements.nodes else ""
        return Hint(
            f"not supported by this release: {listing(described)} {was} not measured{kept}; ",
            Call("AIM", Argument("always", tables)),
            f" measures {object_form}",
        )
    if not measurements.extended and any(column.gaps for column in model.schema.columns):
        extended = Argument("missing", Call("Extended"))
        return Hint("not supported by this release: gaps were not measured; ", extended, " measures them")
    columns = sorted(frozenset().union(*needs))
    hidden = [
        names[c] for c in columns if model.schema.columns[c].gaps and measurements.is_below_noise(model.schema, c)
    ]
    if hidden:
        return (
            f"not supported by this release: noise hides the rows in which {listing(hidden)} "
            f"{'is' if len(hidden) == 1 else 'are'} observed; more of the budget, or fewer cells, would show them"
        )
    return ""


def _notes(model: FittedModel, columns: frozenset[int]) -> list[str]:
    names = model.schema.names
    with_bins = [names[c] for c in binned(model.schema, columns)]
    blind = [name for name in with_bins if name not in model.within_bin_counts]
    gaps = any(model.schema.columns[c].gaps for c in columns)
    held = "sampling, noise and gaps at random" if gaps else "sampling and noise"
    notes = [f"95% intervals for the population: {held} are in them."]
    if blind:
        notes.append(f"The distribution of {listing(blind)} within bins was not measured: intervals do not cover it.")
    if with_bins and len(columns) > 1:
        notes.append(
            f"Dependence within the bins of {listing(with_bins)} was not measured. Intervals are widened by the change "
            "we would see if values inside bins followed the trend across bins."
        )
    return [*notes, *_gap_notes(model, columns), FREE]


def _tail_notes(question: Mean, model: FittedModel, noise: float) -> list[str]:
    """Suggest narrower bounds for a mean, if most of its interval is noise in the tails.

    A tail is the first or the last learned bin, if it is wider than all bins between these two.
    """
    column = estimates.bin_mean_column(question)
    if column is None or column not in model.within_bin_counts or question.bounds or noise < MOSTLY_NOISE:
        return []
    line = model.schema[column]
    assert isinstance(line, BinnedColumn)  # noqa: S101 for mypy: others have no learned bins
    begins, ends = line.bin_ranges()
    between = begins[-1] - ends[0]
    low = ends[0] if len(begins) > 2 and ends[0] - begins[0] > between else begins[0]
    high = begins[-1] if len(begins) > 2 and ends[-1] - begins[-1] > between else ends[-1]
    if (low, high) == (begins[0], ends[-1]):
        return []
    shorter = replace(question, bounds=(float(low), float(high)))
    return [
        f"Most of this width comes from noise in rare, extreme values of {column}. Ask {shorter} for a narrower "
        "interval: it counts values outside these bounds as the nearest bound."
    ]


def _gap_notes(model: FittedModel, columns: Iterable[int]) -> list[str]:
    """Note the columns with which gaps were counted, if not all: gaps at random may depend only on these."""
    measurements, names = model.measurements, model.schema.names
    assert measurements is not None  # noqa: S101 for mypy: else there are no copies
    together, notes = measurements.jointly_measured(model.schema), []
    for gappy in sorted(c for c in columns if model.schema.columns[c].gaps):
        known = frozenset().union(*(table for table in together if gappy in table)) - {gappy}
        if len(known) < len(names) - 1:
            given = (
                f" given {listing(names[c] for c in sorted(known))} alone"
                if known
                else " independently of all other columns"
            )
            notes.append(f"Gaps of {names[gappy]} are taken to be at random{given}: they were counted with no other.")
    return notes
