"""Pool the estimates of copies: intervals for noise, sampling and gaps, or the reason why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, overload

import numpy as np

from gapless.data import Table
from gapless.errors import Call, Hint, ModelError
from gapless.inference import estimates
from gapless.inference.associations import cell_noise
from gapless.inference.closed_form import Answers, closed_form
from gapless.inference.estimates import Estimates
from gapless.inference.intervals import TWO_SIDED, bootstrap, quantile, rubin, widened, within_ends
from gapless.inference.pooled import FREE, Pooled, PooledEstimate
from gapless.inference.support import binned, reassign_within_bins, required_columns, unsupported, varies_inside_bins
from gapless.query import Correlation, CrossTable, Mean, Proportion, Quantile, RankCorrelation, Regression
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import cell_numbers
from gapless.query.parsing import AnyQuestion
from gapless.query.questions import Question
from gapless.query.relations import is_dummy
from gapless.query.treatments import as_sentence
from gapless.schema.numeric import BinnedColumn
from gapless.synth.copies import Copies
from gapless.synth.fitted import FittedModel
from gapless.synth.measurements import Measurements
from gapless.text import listing
from gapless.types import Floats

BELOW_NOISE = (
    "not supported by this release: too few rows are behind it, compared with the noise; "
    "larger groups, or more of the budget, would help"
)
MOSTLY_NOISE = 3.0  # width of an interval, relative to the width without noise
_Asker: TypeAlias = Callable[[Table, Measurements | None], Estimates]  # of a table and the measurements behind it
TOO_FEW = "no interval: some copies have no row that it could rest on, or too few"


@overload
def pool(copies: Copies, estimator: AnyQuestion | Callable[[Table], Any]) -> Pooled: ...
@overload
def pool(copies: Copies, estimator: list[Any] | tuple[Any, ...]) -> list[Pooled]: ...
def pool(
    copies: Copies, estimator: AnyQuestion | Callable[[Table], Any] | list[Any] | tuple[Any, ...]
) -> Pooled | list[Pooled]:
    """Pool the estimates of all copies, with 95 % intervals for the population of the private rows.

    The intervals cover noise, sampling and gaps (`gapless.inference.intervals`). An estimate that depends on tables
    that were not measured has no interval, and says what to measure.

    Args:
        copies: `model.copies(20)`.
        estimator: a question: `Mean("income", by="sex")`, `Proportion(…)`, `Median(…)`, `Quantile(…)`, or a
            `CrossTable`, `Correlation` or `Regression` of `gapless.query`; or a function from a table to estimates and
            their variances, or to a fitted model of statsmodels; or a list of these, for a list of results. Copies are
            drawn once.
    """
    if not isinstance(copies, Copies):
        raise ModelError(
            f"pool() takes copies, not a {type(copies).__name__}",
            hint=Hint("pass ", Call("model.copies", 20)),
        )
    several = list(estimator) if isinstance(estimator, list | tuple) else [estimator]
    asked = [_Asked.of(single, copies.model) for single in several]  # refuse before anything is learned
    pooled = [_pool(copies, single) for single in asked]
    return pooled if isinstance(estimator, list | tuple) else pooled[0]


class _Asked(NamedTuple):
    """What to estimate: a compiled question, or a function without one; and a function from a table to `Estimates`.

    For a quantile, the function returns cumulative shares.
    """

    compiled: CompiledQuestion | None
    ask: _Asker

    @classmethod
    def of(cls, estimator: AnyQuestion | Callable[[Table], Any], model: FittedModel) -> _Asked:
        if isinstance(estimator, Question):
            estimator.check_is_per_row("a release")
            estimates.columns_used(estimator, model.schema)
            compiled = estimator.compile(model.schema)
            how = estimates.cumulative_shares if isinstance(estimator, Quantile) else estimates.estimate
            return cls(compiled, partial(how, compiled))
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
        return cls(None, lambda table, _: estimates.estimates_of(estimator(table)))

    @property
    def question(self) -> Any:
        """The question; None for a function."""
        return None if self.compiled is None else self.compiled.question


def _pool(copies: Copies, asked: _Asked) -> Pooled:
    model, question = copies.model, asked.question
    released = None if copies.weighted or asked.compiled is None else closed_form(model, asked.compiled)
    if released is None or asked.compiled is None:
        names, needs, intervals, hidden = _from_copies(copies, asked)
    else:
        names, needs, intervals, hidden = _from_counts(released, model, asked.compiled, question)
    if isinstance(question, Quantile):
        names, intervals = _quantiles(question, model, intervals)
        many = len(needs) // len(names)
        needs, hidden = [[c for need in some for c in need] for some in _parts(needs, many)], hidden[::many]
    used = frozenset().union(*(columns for need in needs for columns in need))
    notes = _notes(model, used)
    if asked.compiled is not None:
        hides = [False] * len(names) if released else _rests_on_hidden_cells(asked.compiled, copies, used)
        hidden = [few or below for few, below in zip(hidden, hides, strict=True)]
        intervals = _within_ends(asked.compiled, intervals)
    reasons = [
        unsupported(model, need)
        or ("" if released else _inside_bins(copies, question, need))
        or (BELOW_NOISE if few else "" if np.isfinite(width) else TOO_FEW)
        for need, few, width in zip(needs, hidden, intervals.high - intervals.low, strict=True)
    ]
    if isinstance(question, Mean):
        noises = [noise for noise, reason in zip(intervals.noise, reasons, strict=True) if not reason]
        notes = [*_tail_notes(question, model, max(noises, default=0.0)), *notes]
    if isinstance(question, CrossTable):
        notes = ["Each number is the share of the rows that are in this cell.", *notes]
    elif isinstance(question, Correlation | Regression) and asked.compiled is not None and asked.compiled.caveat:
        notes = [as_sentence(asked.compiled.caveat), *notes]
    return Pooled(
        question="pooled" if question is None else str(question),
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
        copies=0 if released else len(copies),
        notes=tuple(notes),
        levels=None if question is None else question.levels(model.schema),
    )


_Found: TypeAlias = tuple[tuple[str, ...], list[list[frozenset[int]]], "_Intervals", list[bool]]


def _from_counts(released: Answers, model: FittedModel, asked: CompiledQuestion, question: Any) -> _Found:
    """Return names, needed columns, intervals, and whether noise hides the rows: from counts, in closed form."""
    values, halves, sampling, hidden = released
    names = tuple(", ".join(names) for names in asked.groups or [()])
    needs = [estimates.needed_together(question, model.schema)] * len(values)
    with np.errstate(divide="ignore", invalid="ignore"):
        noise = halves / (TWO_SIDED * sampling)
    return names, needs, _Intervals(values, values - halves, values + halves, noise, np.ones(len(values))), hidden


def _from_copies(copies: Copies, asked: _Asked) -> _Found:
    """Return the same from copies."""
    results = [asked.ask(*drawn) for drawn in copies.drawn_copies]
    names = results[0].names
    if any(result.names != names for result in results):
        raise ModelError(
            "the estimator must return the same names for every copy, but it returned different names",
            hint="write an estimator whose names do not depend on the rows of a copy",
        )
    needs = _needs(copies, asked, results[0])
    used = [frozenset().union(*need) for need in needs]
    is_relation = isinstance(asked.question, Correlation | Regression)
    averaged = estimates.bin_mean_column(asked.question)
    intervals = _intervals(copies, results, asked.ask, used, averaged, is_relation=is_relation)
    if isinstance(asked.question, Proportion | CrossTable) and not copies.weighted:
        intervals = _with_noise_of_rare_cells(copies.model, intervals, results, used[0])
    return names, needs, intervals, _below_noise(results)


def _inside_bins(copies: Copies, question: Any, need: Sequence[frozenset[int]]) -> str:
    """Return the reason why a relation of numbers has no interval if values inside single bins decide it."""
    if not (question is None or isinstance(question, Correlation | Regression)) or isinstance(
        question, RankCorrelation
    ):
        return ""
    names = copies.model.schema.names
    rows = copies.smooth_cells_sample or copies.reference_sample
    found = [names[c] for c in varies_inside_bins(rows, frozenset().union(*need))]
    if not found:
        return ""
    return (
        f"not supported by this release: most of what {listing(found)} vary is inside one bin of each, and how they go "
        f"together there was not measured; {RankCorrelation(*found)}, or narrower bounds, would be supported"
    )


def _needs(copies: Copies, asked: _Asked, first: Estimates) -> list[list[frozenset[int]]]:
    """Return, for each estimate, the sets of columns that must have been measured in one table each."""
    together = []
    if asked.compiled is not None:
        together = estimates.needed_together(asked.question, copies.model.schema)
        if not copies.weighted:
            return [together] * len(first.names)
    # A function depends on the columns that it reads, and a weighted estimate on those of the weights too.
    drawn = copies.drawn_copies[0]
    if not np.array_equal(asked.ask(*drawn).values, first.values, equal_nan=True):
        raise ModelError(
            "the estimator must return the same result for the same table, but it returned two different results",
            hint="use a fixed seed in the estimator, and keep no state between its calls",
        )
    found = required_columns(lambda table: asked.ask(copies.weigh(table), drawn.measurements), copies[0], first)
    return [[part.union(*together) for part in need] for need in found]


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
    *,
    is_relation: bool = False,
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
            [[len(used) > 1 and bool(binned(model.schema, used))] for used in columns],
        )
    )
    original = ask(copies.reference_sample, measurements).values
    pooled = rubin(original, values, variances)
    centre, half, bias = pooled.centre, pooled.half, np.abs(pooled.centre - original)
    if (gappy | learned).any() and copies.drawn_replicates:
        truth = ask(copies.reference_sample, measurements.nonnegative(model.schema)).values if averaged else None
        found = bootstrap(original, np.array([ask(*drawn).values for drawn in copies.drawn_replicates]), truth)
        centre = np.where(gappy | learned, found.centre, centre)
        half = np.where(gappy | learned, np.maximum(half, found.half), half)
        bias = np.where(gappy | learned, 2 * np.abs(found.centre - original), bias)
    # In learned bins that noise hides, and for relations, the bias of clipped counts is known to its size only. With
    # gaps the half of it is that the centre leaves.
    uncertain = learned | is_relation
    half = np.where(uncertain | gappy, widened(half, np.where(uncertain, bias, bias / 2)), half)
    with np.errstate(divide="ignore", invalid="ignore"):
        if gappy.any() and copies.loose_rates_sample is not None:  # centre between both fits; widen by half the gap
            move = np.where(gappy, (ask(copies.loose_rates_sample, measurements).values - original) / 2, 0.0)
            centre, half = centre + move, np.where(gappy, widened(half, np.abs(move)), half)
        gaps = np.where(gappy, half / pooled.half, 1.0)
        if learned.any() and copies.smooth_cells_sample is not None:
            # The same for cells of learned bins. Rows far out that are only noise inflate variances, so an estimate of
            # several columns is centred at that of smooth cells.
            move = np.where(learned, (ask(copies.smooth_cells_sample, measurements).values - original) / 2, 0.0)
            centre, half = centre + np.where(mixed, 2 * move, move), widened(half, np.abs(move))
        if mixed.any():
            used = frozenset().union(*(some for some, is_mixed in zip(columns, mixed, strict=True) if is_mixed))
            rng = np.random.default_rng([copies.seed, 4])
            rows = copies.weigh(reassign_within_bins(copies.reference_sample, used, rng))
            moved = ask(rows, None).values - ask(copies.reference_sample, None).values
            centre = np.where(mixed, centre + moved, centre)
            half = np.where(mixed, widened(half, np.abs(moved)), half)
        noise = half / gaps / (quantile(np.array(np.inf)) * np.sqrt(variances.mean(axis=0)))
    return _Intervals(centre, centre - half, centre + half, noise, gaps)


def _with_noise_of_rare_cells(
    model: FittedModel, intervals: _Intervals, results: Sequence[Estimates], columns: frozenset[int]
) -> _Intervals:
    """Return intervals in which a share of few rows is at least as uncertain as the noise in one cell makes it.

    Copies show too little of this noise where it exceeds the count: most of them have no row in the cell, since their
    counts are clipped at 0, and what one cell lacks is in others. Clipping brings an estimate no farther from the true
    share than noise did, so the noise without clipping is enough.
    """
    noise = cell_noise(model, columns)
    rows, variances = (np.mean(some, axis=0) for some in zip(*((r.rows, r.variances) for r in results), strict=True))
    share = np.clip(intervals.value, 0.0, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        least = TWO_SIDED * np.sqrt(np.square(noise / rows) + variances)
        is_rare = np.minimum(share, 1 - share) * rows <= TWO_SIDED * noise
        half = (intervals.high - intervals.low) / 2
        wider = np.where(is_rare & np.isfinite(least) & (half < least), least / half, 1.0)
    half = half * wider
    return intervals._replace(low=intervals.value - half, high=intervals.value + half, noise=intervals.noise * wider)


def _quantiles(question: Quantile, model: FittedModel, shares: _Intervals) -> tuple[tuple[str, ...], _Intervals]:
    """Return the names of groups, and the intervals of quantiles from the intervals of shares."""
    numbers, lows, highs = estimates.support(question, model.schema)
    names = tuple(", ".join(names) for names in question.compile(model.schema).groups or [()])
    found = np.full((len(names), 5), np.nan)
    for group, (value, low, high, noise, gaps) in enumerate(
        zip(*(_parts(part, len(numbers)) for part in shares), strict=True)
    ):
        if np.isfinite(high[:-1] - low[:-1]).all():
            bounds = estimates.quantile_bounds(question.q, value, (high - low) / 2)
            place = min(bounds.place, max(0, len(numbers) - 2))  # the share up to the last number is 1 without noise
            ends = lows[bounds.low], highs[bounds.high]  # of cells: a number counts as the middle of its cell
            found[group] = (numbers[bounds.place], *ends, noise[place], gaps[place])
    return names, _Intervals(*found.T)


def _parts(values: Any, size: int) -> list[Any]:
    return [values[begin : begin + size] for begin in range(0, len(values), size)]


def _within_ends(asked: CompiledQuestion, intervals: _Intervals) -> _Intervals:
    """Return intervals within the least and the largest possible value, between which the true value is."""
    ends = _ends(asked)
    if ends is None:
        return intervals
    value, low, high = within_ends(intervals.value, (intervals.high - intervals.low) / 2, *ends)
    return intervals._replace(value=value, low=low, high=high)


def _ends(asked: CompiledQuestion) -> tuple[float, float] | None:
    question = asked.question
    if isinstance(question, Proportion | CrossTable):
        return 0.0, 1.0
    if isinstance(question, Correlation):
        return -1.0, 1.0
    if not isinstance(question, Mean):
        return None
    values = cell_numbers(asked.schema, question.column, question.bounds).values
    if asked.contribution.columns == (question.column,):  # under a condition on the column
        _, added = asked.contribution.evaluate({question.column: np.arange(len(values), dtype=np.uint32)})
        values = values[added.any(axis=1)] if added.any() else values
    return float(values.min()), float(values.max())


def _rests_on_hidden_cells(asked: CompiledQuestion, copies: Copies, columns: frozenset[int]) -> list[bool]:
    """Return, for each estimate, whether it is about a cell that is below noise in the released tables.

    It is the cell of a group, or a level of a regressor or its first level. Models clip negative counts, so rare cells
    have more rows in copies than in the data. The share of a rare cell is known all the same. An estimate is hidden too
    if noise hides the rows in which a column with gaps is observed: if nobody above 75 has a wage, copies complete it.
    """
    question, schema, measurements = asked.question, copies.model.schema, copies.measurements
    if isinstance(question, CrossTable):
        return [False] * len(asked.groups or ())
    if isinstance(question, Regression):
        is_hidden = [False]
        for name in question.regressors:
            position, outcome = schema.positions([name, question.outcome])
            if is_dummy(schema[name]):
                first, *levels = measurements.cells_below_noise(schema, position, [outcome])
                is_hidden += [bool(first or level) for level in levels]
            else:
                is_hidden.append(False)
        return is_hidden
    groups = asked.groups or [()]
    is_hidden = [False] * len(groups)
    for axis, position in enumerate(schema.positions(question.grouped_by)):
        hidden_cells = measurements.cells_below_noise(schema, position, columns)
        rare = dict(zip(schema.columns[position].cells, hidden_cells, strict=False))
        is_hidden = [few or bool(rare.get(names[axis], False)) for few, names in zip(is_hidden, groups, strict=True)]
    return [few or seldom for few, seldom in zip(is_hidden, _hides_observed_rows(asked, copies), strict=True)]


def _hides_observed_rows(asked: CompiledQuestion, copies: Copies) -> list[bool]:
    """Return, for each group, whether noise hides the rows in which a column with gaps is observed.

    Only the cells that the rows of the group have in one other column are checked.
    """
    schema, measurements = copies.model.schema, copies.measurements
    place, found = {name: place for place, name in enumerate(schema.names)}, []
    for cells in estimates.cells_of_groups(asked, copies.reference_sample):
        rows = [
            measurements.observed_rows(schema, place[name], place[other], cells[other])
            for name in asked.targets
            for other in cells
            if schema[name].gaps and other != name and 0 < len(cells[other]) < schema[other].size
        ]
        found.append(any(many <= TWO_SIDED * noise for many, noise in rows))
    return found


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


_NOT_COVERED = "Intervals do not cover the error of this."


def _notes(model: FittedModel, columns: frozenset[int]) -> list[str]:
    names = model.schema.names
    with_bins = [names[c] for c in binned(model.schema, columns)]
    blind = [name for name in with_bins if name not in model.within_bin_counts]
    gaps = any(model.schema.columns[c].gaps for c in columns)
    held = "sampling, noise, and gaps if values are missing at random" if gaps else "sampling and noise"
    notes = [f"95% intervals for the population. They cover {held}."]
    if weight := as_sentence(model.facts.guarantee.protect.row_weight):
        notes.append(weight)
    if blind:
        notes.append(f"Positions of values within the bins of {listing(blind)} were not measured. {_NOT_COVERED}")
    if with_bins and len(columns) > 1:
        notes.append(
            f"Dependence within the bins of {listing(with_bins)} was not measured. Values inside bins are taken to "
            "follow the trend across bins, and intervals are widened by the change that this makes."
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
        f"Most of this width comes from noise in rare, extreme values of {column}. Estimate {shorter} for a narrower "
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
