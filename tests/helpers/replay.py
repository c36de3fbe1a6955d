"""The replay: everything that is released, on a table and on the same table with more rows, under the same answers.

tests/audit/test_replay.py says what must hold.
"""

import math
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias
from unittest import mock

import numpy as np

from gapless.data import PrivateTable
from gapless.data.training import TrainingRows
from gapless.privacy import (
    L1,
    L2,
    Budget,
    ChoiceByGroup,
    Columns,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    Grant,
    KNorm,
    Linf,
    LinfByGroup,
    Persons,
    Plan,
    PrivateTraining,
    Rows,
    Sampled,
    Smooth,
    SmoothCauchy,
    SmoothValue,
    SubsampledTeacher,
    TeacherVotes,
)
from gapless.schema import Schema
from gapless.schema.difference import difference_of
from gapless.testing.audit import Row, private
from gapless.testing.noise import FixedNoise, fixed_noise

Act: TypeAlias = Callable[[PrivateTable], object]

MECHANISMS = (
    ChoiceByGroup,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    SubsampledTeacher,
    PrivateTraining,
    SmoothCauchy,
    TeacherVotes,
)
ROUNDING = 1e-9  # scores are floats; the choice pays for much more than this (docs/proofs/scores.md)


@dataclass(frozen=True)
class Event:
    """One release: what was asked for, in public; what was read, and what was answered."""

    to: str
    what: str
    mechanism: dict[str, Any]
    distance: Linf | Smooth
    reads: Columns | None
    raw: Any
    answer: Any

    @property
    def public(self) -> tuple[Any, ...]:
        return self.to, self.what, self.mechanism, self.distance, self.reads


@contextmanager
def noted(past: Sequence[Event] = ()) -> Iterator[list[Event]]:
    """The releases of a `with` block; if there is a past, its answers are given again."""
    events: list[Event] = []
    waiting: list[Any] = []
    grants: dict[Plan, Grant] = {}
    real_plan, real_release = Grant.charge_plan, Plan._draw

    def plan(grant: Grant, requests: Iterable[Any], *, together: bool = False) -> Plan:
        requests = list(requests)
        made = real_plan(grant, requests, together=together)
        grants[made] = grant
        return made

    def release(made: Plan, value: Any, request: Any, number: int) -> Any:
        waiting.append((grants[made], request.what, value))
        return real_release(made, value, request, number)

    def noting(draw: Callable[..., Any]) -> Callable[..., Any]:
        def call(mechanism: Any, raw: Any, noise: Any) -> Any:
            grant, what, value = waiting.pop(0)
            parameters, seen = mechanism.parameters(), raw.copy() if isinstance(raw, np.ndarray) else raw
            if isinstance(raw, TrainingRows):
                parameters, seen = parameters | {"program": written(raw.program)}, rows_of(raw)
            reads = grant._ledger.recorded_reads(value.reads)
            event = Event(grant.to, what, parameters, value.distance, reads, seen, None)
            again = len(events) < len(past) and past[len(events)].public == event.public
            answer = past[len(events)].answer if again else draw(mechanism, raw, noise)
            events.append(replace(event, answer=answer))
            return answer

        return call

    with ExitStack() as patches:
        patches.enter_context(mock.patch.object(Grant, "charge_plan", plan))
        patches.enter_context(mock.patch.object(Plan, "_draw", release))
        for kind in MECHANISMS:
            patches.enter_context(mock.patch.object(kind, "__call__", noting(kind.__call__)))
        yield events
    assert not waiting
    assert not any(made._waiting for made in grants), "something was charged for and not released"


def written(program: Any) -> str:
    """All that a program is, as text; arrays with all their numbers."""
    with np.printoptions(threshold=sys.maxsize, floatmode="unique"):
        return repr(program)


def rows_of(raw: TrainingRows[Any]) -> Counter[Any]:
    """How often each row is among those that a training may draw."""
    return Counter(row for batch in raw.engine.batches(raw.columns) for row in zip(*batch.columns, strict=True))


def labels(noise: FixedNoise, size: int, draw: Callable[..., Any] = FixedNoise.uniform_words) -> Any:
    """Places on the circle that a row keeps when others follow; single words are for noise."""
    return draw(noise, 1) if size == 1 else np.random.default_rng(5).integers(0, 2**64, size, dtype=np.uint64)


def run(
    schema: Schema, act: Act, rows: list[Row], *, unit: int, budget: Budget, past: Sequence[Event] = ()
) -> list[Event]:
    """The releases of `act` from a table of these rows; of persons, always with the same key."""
    protect = Persons(schema.person, unit) if schema.person else Rows(unit)
    with mock.patch("gapless.data.io.reading.row_key", return_value=b"k" * 32):
        table = private(rows, schema, Path(tempfile.mkdtemp()), budget=budget, protect=protect)
    with (
        mock.patch.object(FixedNoise, "uniform_words", labels),
        mock.patch("gapless.data.filling.secrets.randbits", return_value=11),
        fixed_noise(2),
        noted(past) as events,
    ):
        act(table)
    return events


def moved(distance: Any, before: Any, after: Any) -> float:
    """How far a value has moved, in the sense of its distance, as a share of what was declared."""
    if isinstance(distance, Smooth):
        low = min(before.bound, after.bound)
        if low < Fraction(distance.least) or max(before.bound, after.bound) > 2 * low:
            return math.inf
        return float(abs(before.answer - after.answer) / low)
    if isinstance(distance, Sampled):
        return float(((before - after).total() + (after - before).total()) / distance.at_most)
    table = np.abs(np.asarray(before, dtype=np.float64) - np.asarray(after, dtype=np.float64))
    if isinstance(distance, LinfByGroup):
        return float(table.max(axis=1).sum() / distance.at_most)
    change = table.ravel()
    if isinstance(distance, L1):
        size = change.sum()
    elif isinstance(distance, L2):
        size = math.sqrt((change**2).sum())
    else:
        size = change.max(initial=0.0)
    return float(size / distance.at_most)


def same(before: Any, after: Any) -> bool:
    return before == after if isinstance(before, SmoothValue | Counter) else np.array_equal(before, after)


def violations(
    schema: Schema, act: Act, rows: list[Row], added: list[Row], *, budget: Budget, unit: int | None = None
) -> list[str]:
    """What goes wrong when these rows come, one after another, all of one person; nothing should.

    With the id of a person in the schema, they may be more than the `unit` rows of a person that are kept. One row more
    can then take the place of another, so a smooth bound is compared for the first row alone.
    """
    options: dict[str, Any] = {"unit": len(added) if unit is None else unit, "budget": budget}
    first = last = run(schema, act, rows, **options)
    assert first, "nothing was released"
    found = []
    for many in range(1, len(added) + 1):
        events = run(schema, act, rows + added[:many], past=first, **options)
        if [event.public for event in events] != [event.public for event in first]:
            found.append("the runs part: something public depends on the rows")
            break
        for event, start, before in zip(events, first, last, strict=True):
            # A smooth bound is one for a single row; the other distances are for all rows of a person.
            since = before if isinstance(event.distance, Smooth) else start
            swaps = many > 1 and schema.person and isinstance(event.distance, Smooth)
            if not swaps and moved(event.distance, since.raw, event.raw) > 1 + ROUNDING:
                found.append(f"{event.to}, {event.what}: moved by more than {event.distance}")
            if lacks(schema, added[many - 1], event.reads) and not same(before.raw, event.raw):
                found.append(f"{event.to}, {event.what}: a row that is not observed on {event.reads} was read")
        last = events
    return found


GAPS = {None, "", "?", "-"}


def lacks(schema: Schema, row: Row, reads: Columns | None) -> bool:
    """Whether a row has a gap in a column that it would have to be observed on.

    A difference is one where its first column is, or where that has a value and its second column has none.
    """
    cells = dict(zip((*schema.person, *schema.file_names), row, strict=True))
    for name in reads or ():
        needed = [name]
        if (difference := difference_of(schema[name])) is not None:
            first = difference.minuend
            applies = first.not_applicable is None or cells[first.name] != first.not_applicable
            needed = [first.name, *[difference.subtrahend] * applies]
        if any(cells[column] in GAPS for column in needed):
            return True
    return False
