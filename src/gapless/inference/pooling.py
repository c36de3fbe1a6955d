"""Pool what copies say: one estimate with an interval that noise, sampling and gaps are in, or why there is none."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.data import Table
from gapless.errors import ModelError
from gapless.inference.asked import estimate, looked_at
from gapless.inference.estimates import FORMS, Estimates, estimates_of
from gapless.inference.rubin import bootstrap, quantile, rubin
from gapless.inference.support import needs_of, not_measured
from gapless.model.marginal import Floats
from gapless.query.questions import AnyQuestion, Proportion, _Question
from gapless.schema.line import _Binned
from gapless.schema.words import listing
from gapless.synth.copies import Copies
from gapless.synth.fitted import FittedModel

Bools = NDArray[np.bool_]

FREE = "Computed from released values: nothing was spent."


@dataclass(frozen=True, slots=True, kw_only=True)
class PooledEstimate:
    """One number, and how far it may be from the population's.

    Attributes:
        name: of the group or the coefficient; "" if there is one number alone.
        value: the estimate.
        interval: the 95 % interval, None where none would be honest.
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

    def __str__(self) -> str:
        if self.interval is None:
            return "no estimate" if np.isnan(self.value) else f"({self.value:.6g})  no interval"
        low, high = self.interval
        gaps = f", × {self.gap_factor:.2f} by gaps" if self.gap_factor > 1 else ""
        return f"{self.value:.6g}  [{low:.6g}, {high:.6g}]  × {self.noise_factor:.2f} by noise{gaps}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Pooled:
    """What several copies say together.

    Attributes:
        question: in words.
        estimates: one, or several by name.
        copies: how many tables were pooled.
        notes: what the intervals do not cover.
    """

    question: str
    estimates: tuple[PooledEstimate, ...]
    copies: int
    notes: tuple[str, ...]

    def __getitem__(self, name: str) -> PooledEstimate:
        for found in self.estimates:
            if found.name == name:
                return found
        raise ModelError(f"no estimate {name!r}", hint=f"one of: {listing(each.name for each in self.estimates)}")

    def to_dict(self) -> dict[str, Any]:
        """Everything, for a machine."""
        return {
            "question": self.question,
            "estimates": [
                {
                    "name": each.name,
                    "estimate": None if np.isnan(each.value) else each.value,
                    "interval": None if each.interval is None else list(each.interval),
                    "noise_factor": None if each.interval is None else each.noise_factor,
                    "gap_factor": None if each.interval is None else each.gap_factor,
                    "unsupported": each.unsupported,
                }
                for each in self.estimates
            ],
            "copies": self.copies,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join([*self.answers, *(f"  {note}" for note in self.told)])

    @property
    def answers(self) -> list[str]:
        """A line for each estimate."""
        if len(self.estimates) == 1 and not self.estimates[0].name:
            lines = [f"{self.question} = {self.estimates[0]}"]
        else:
            width = max(len(each.name) for each in self.estimates)
            lines = [self.question, *(f"  {each.name:<{width}}  {each}" for each in self.estimates)]
        return lines

    @property
    def told(self) -> tuple[str, ...]:
        """What goes for several estimates, once: why some have no interval, and what the others do not cover."""
        reasons: dict[str, list[str]] = {}
        for each in self.estimates:
            if each.unsupported:
                reasons.setdefault(each.unsupported, []).append(each.name)
        of_all = len(reasons) == 1 and all(each.unsupported for each in self.estimates)
        why = [why if of_all else f"{listing(names)}: {why}" for why, names in reasons.items()]
        return (*why, *(self.notes if any(each.interval for each in self.estimates) else ()))


def pool(copies: Copies, estimator: AnyQuestion | Callable[[Table], Any]) -> Pooled:
    """One estimate from all copies, with a 95 % interval for the population from which the private rows were drawn.

    Noise, sampling and gaps are in the interval (`gapless.inference.rubin`). Estimates that lie outside of what was
    measured get none, and say what to measure.

    Args:
        copies: `model.copies(20)`.
        estimator: a question, `Mean("income", by="sex")`, `Proportion(…)`, `Median(…)` or `Quantile(…)`; or a function
            from a table to estimates and their variances, or to a fitted model of statsmodels.
    """
    if not isinstance(copies, Copies):
        raise ModelError(f"pool() takes copies, not a {type(copies).__name__}", hint="model.copies(20)")
    model, ask = copies.model, _asker(estimator)
    columns: list[frozenset[int]] = []
    if isinstance(estimator, _Question):  # what cannot be answered is told before anything is learned
        columns = [frozenset(model.schema.positions(sorted(looked_at(estimator, model.schema))))]
    said = [ask(table) for table in copies]
    first = said[0]
    if any(each.names != first.names for each in said):
        raise ModelError("an estimator gave other names for some copies", hint="the same estimates for every table")
    if columns and not copies.weighted:
        needs = [columns] * len(first.names)
    else:  # what weights look at an estimate looks at too
        found = needs_of(lambda table: ask(copies.weigh(table)), copies[0], first)
        needs = [[part.union(*columns) for part in need] for need in found]
    # A copy in which a group is empty says that there is too little to go by.
    values, variances = np.array([each.values for each in said]), np.array([each.variances for each in said])
    used = [[model.schema.columns[c] for c in frozenset().union(*need)] for need in needs]
    gappy = np.array([any(column.gaps for column in some) for some in used])
    learned = np.array([any(column.name in model.inside for column in some) for some in used])
    centre, half, noise, gaps = _intervals(copies, values, variances, ask, gappy, learned)
    low, high = centre - half, centre + half
    if isinstance(estimator, Proportion):  # the truth lies there
        centre, low, high = (np.clip(ends, 0, 1) for ends in (centre, low, high))
    reasons = [
        _unsupported(model, need) or ("" if np.isfinite(width) else "no interval: too few rows in some copies")
        for need, width in zip(needs, half, strict=True)
    ]
    return Pooled(
        question=str(estimator) if isinstance(estimator, _Question) else "pooled",
        estimates=tuple(
            PooledEstimate(
                name=name,
                value=float(centre[place]),
                interval=None if reason else (float(low[place]), float(high[place])),
                noise_factor=float(noise[place]),
                gap_factor=float(gaps[place]),
                unsupported=reason,
            )
            for place, (name, reason) in enumerate(zip(first.names, reasons, strict=True))
        ),
        copies=len(copies),
        notes=tuple(_notes(model, frozenset().union(*(columns for need in needs for columns in need)))),
    )


def _asker(estimator: AnyQuestion | Callable[[Table], Any]) -> Callable[[Table], Estimates]:
    """What a table says to an estimator, in one form."""
    if isinstance(estimator, _Question):
        return partial(estimate, estimator)
    if not callable(estimator):
        raise ModelError(f"an estimator that is a {type(estimator).__name__}", hint=f"a question; a function: {FORMS}")
    return lambda table: estimates_of(estimator(table))


def _intervals(
    copies: Copies, values: Floats, variances: Floats, ask: Callable[[Table], Estimates], gappy: Bools, learned: Bools
) -> tuple[Floats, Floats, Floats, Floats]:
    """Centres, half-widths, and by what noise and gaps widen them.

    What gaps do, and counts that cannot be below zero on a line of `learned` cells, replicates show.
    """
    original = ask(copies.original).values
    pooled = rubin(original, values, variances)
    centre, half, bootstrapped = pooled.centre, pooled.half, gappy | learned
    if bootstrapped.any() and copies.replicates:
        found = bootstrap(original, np.array([ask(table).values for table in copies.replicates]))
        centre = np.where(bootstrapped, found.centre, centre)
        half = np.where(bootstrapped, np.maximum(half, found.half), half)
    with np.errstate(divide="ignore", invalid="ignore"):
        gaps = np.where(gappy, half / pooled.half, 1.0)
        return centre, half, half / gaps / (quantile(np.array(np.inf)) * np.sqrt(variances.mean(axis=0))), gaps


def _unsupported(model: FittedModel, needs: Sequence[frozenset[int]]) -> str:
    """Why there is no interval, in words; nothing if there is one."""
    evidence, names = model.evidence, model.schema.names
    assert evidence is not None  # noqa: S101 for mypy: else there are no copies
    lacking = not_measured(needs, evidence.together(model.schema))
    if lacking:
        told = [" × ".join(names[c] for c in sorted(columns)) for columns in lacking]
        tables = [tuple(names[c] for c in sorted(columns)) for columns in lacking]
        was, them = ("was", "it") if len(told) == 1 else ("were", "them")
        kept = " in a table that rows of a network keep" if evidence.nodes else ""
        return (
            f"not supported by this release: {listing(told)} {was} not measured{kept}; "
            f"AIM(always={tables}) measures {them}"
        )
    if not evidence.extended and any(column.gaps for column in model.schema.columns):
        return "not supported by this release: gaps were not measured; missing=Extended() measures them"
    columns = sorted(frozenset().union(*needs))
    hidden = [names[c] for c in columns if model.schema.columns[c].gaps and evidence.lost(model.schema, c)]
    if hidden:
        return (
            f"not supported by this release: noise hides the rows in which {listing(hidden)} "
            f"{'is' if len(hidden) == 1 else 'are'} observed; more of the budget, or fewer cells, would show them"
        )
    return ""


def _notes(model: FittedModel, columns: frozenset[int]) -> list[str]:
    looked_at = (model.schema.columns[c] for c in sorted(columns))
    binned = [column for column in looked_at if isinstance(column, _Binned) and column.size < column.fine.size]
    blind = [column.name for column in binned if column.name not in model.inside]
    notes = ["95% intervals for the population: sampling, noise and, where there are any, gaps at random are in them."]
    if blind:
        notes.append(
            f"Where in its bin a value of {listing(blind)} lies was not measured: intervals do not cover that."
        )
    alone = [column.name for column in binned if column.name in model.inside]
    if alone and len(columns) > 1:
        notes.append(
            f"Where in its bin a value of {listing(alone)} lies was measured by itself, not with other columns: "
            "intervals do not cover that."
        )
    return [*notes, *_gap_notes(model, columns), FREE]


def _gap_notes(model: FittedModel, columns: Iterable[int]) -> list[str]:
    """With which other columns gaps were counted, if not with all: on those they may depend and be at random."""
    evidence, names = model.evidence, model.schema.names
    assert evidence is not None  # noqa: S101 for mypy: else there are no copies
    together, notes = evidence.together(model.schema), []
    for gappy in sorted(c for c in columns if model.schema.columns[c].gaps):
        known = frozenset().union(*(table for table in together if gappy in table)) - {gappy}
        if len(known) < len(names) - 1:
            given = f" given {listing(names[c] for c in sorted(known))} alone" if known else ", whatever the others are"
            notes.append(f"Gaps of {names[gappy]} are taken to be at random{given}: they were counted with no other.")
    return notes
