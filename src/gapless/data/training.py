"""Private training on a sealed table: its rows, in random batches or assigned to teachers, for a program.

The loops and their privacy loss are in `privacy/sgd.py` and `privacy/teachers.py`. This module passes rows to programs
of this library only: a program that kept rows would not be a function of noisy sums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gapless.data.checks import check_private
from gapless.data.engines.memory import Engine
from gapless.data.private_table import PrivateTable, observed_codes
from gapless.errors import Argument, Hint, ModelError
from gapless.privacy.budget import Loss
from gapless.privacy.grant import Grant
from gapless.privacy.private import Columns, Private, Released, Sampled
from gapless.privacy.sgd import BLOCK, Block, PrivateTraining, Program, RowSampler
from gapless.privacy.teachers import TeacherEnsemble, TeacherSampler
from gapless.types import Codes, Floats, Integers, all_trusted

S = TypeVar("S")
R = TypeVar("R")
P_co = TypeVar("P_co", covariant=True)
Progress: TypeAlias = Callable[[int], object]


@dataclass(frozen=True, slots=True)
class TrainingRows(Generic[P_co]):
    """Some columns of the rows in an engine, and the program that is trained on them."""

    program: P_co
    engine: Engine
    columns: tuple[int, ...]
    progress: Progress | None

    def poisson_sample(self, row_sampler: RowSampler) -> Iterator[Block]:
        """The sampled rows, in blocks of one size; the last block is padded with code 0."""
        sample = self.engine.poisson_sample(self.columns, row_sampler)
        padding = -sample.rows % BLOCK
        columns = [np.concatenate([codes, np.zeros(padding, dtype=codes.dtype)]) for codes in sample.columns]
        for start in range(0, sample.rows, BLOCK):
            some = tuple(codes[start : start + BLOCK] for codes in columns)
            yield Block(some, min(BLOCK, sample.rows - start))

    def batches(self, teacher_sampler: TeacherSampler) -> Iterator[tuple[tuple[Codes, ...], Integers]]:
        """An empty batch first, so that there are teachers if the table is empty; then all rows with their teachers."""
        yield tuple(np.zeros(0, dtype=np.uint8) for _ in self.columns), np.zeros(0, dtype=np.int64)
        for batch in self.engine.batches(self.columns):
            yield batch.columns, teacher_sampler(batch.rows)

    def report_progress(self, steps: int) -> None:
        """Report the number of steps done."""
        if self.progress is not None:
            self.progress(steps)


def teacher_rows(
    table: PrivateTable, program: TeacherEnsemble[S], *, progress: Progress | None = None
) -> Private[TrainingRows[TeacherEnsemble[S]], Sampled]:
    """The rows of a sealed table for an ensemble of teachers, as `TeacherVotes` and `SubsampledTeacher` take them.

    Args:
        table: the sealed table; all of its columns are passed, gaps as separate codes.
        program: an ensemble of this library, with parts of this library only.
        progress: called after each step with the number of steps done; the state stays sealed until the end.

    Distance: each row goes to one teacher by itself, so k rows of one person change at most k of them
    (docs/proofs/teachers.md).
    """
    _check(table, program, "teacher_rows()")
    places = table.schema.positions(table.schema.names)
    sizes = [c.size if table.is_filled else c.extended_size for c in table.schema.columns]
    with _dry_run(
        sizes, hint="pass an ensemble made for the schema of this table, in which each kind of gap is a further code"
    ):
        program.summarize(_largest_codes(sizes, 1), np.zeros(1, dtype=np.int64))  # one made-up row
    return _seal_for_sampling(table, lambda engine: TrainingRows(program, engine, places, progress), table._required)  # noqa: SLF001 same package


def training_rows(
    table: PrivateTable,
    program: Program[S],
    *,
    columns: Sequence[str] | None = None,
    needs: Iterable[str] = (),
    progress: Progress | None = None,
) -> Private[TrainingRows[Program[S]], Sampled]:
    """The rows of a sealed table for the training of a program, as `PrivateTraining` takes them.

    Args:
        table: the sealed table.
        program: a program of this library, with parts of this library only.
        columns: the columns for the program, in this order; by default all. Gaps are separate codes.
        needs: columns on which a row must be observed; a row with a gap there is never sampled.
        progress: called after each step with the number of steps done; the state stays sealed until the end.

    Distance: each row is sampled by itself, so k rows of one person are k draws (docs/proofs/private_training.md).
    """
    _check(table, program, "training_rows()")
    schema = table.schema
    places = schema.positions(schema.names if columns is None else columns)
    needed = tuple(needs)
    observed = observed_codes(schema, needed)
    sizes = [
        schema.columns[place].size if place in observed or table.is_filled else schema.columns[place].extended_size
        for place in places
    ]
    with _dry_run(
        sizes,
        hint=Hint(
            "pass a program for these columns; each kind of gap is a further code, except in ", Argument("needs")
        ),
    ):
        gradients = program.gradients(program.start(), Block(_largest_codes(sizes, BLOCK), BLOCK))
        gradients.squared_norms()
        length = gradients.integer_total(np.ones(BLOCK)).size
    if length != program.numbers:
        raise ModelError(
            f"the program declares {program.numbers} as its number of parameters, but a gradient has {length}",
            hint=Hint("pass a program with ", Argument("numbers", length))
            | Hint("use gradients with one number for each declared parameter"),
        )

    def rows(engine: Engine) -> TrainingRows[Program[S]]:
        return TrainingRows(program, engine.keep(observed) if observed else engine, places, progress)

    return _seal_for_sampling(table, rows, table._observed_on(needed))  # noqa: SLF001 same package


def train(
    table: PrivateTable,
    program: Program[S],
    grant: Grant,
    *,
    spend: Loss,
    rate: float,
    steps: int,
    clip: float,
    what: str,
    columns: Sequence[str] | None = None,
    needs: Iterable[str] = (),
    progress: Progress | None = None,
) -> Released[Floats]:
    """Train a program and release its outcome for `spend`, charged in advance; the noise follows from `spend`."""
    value = training_rows(table, program, columns=columns, needs=needs, progress=progress)
    mechanism = PrivateTraining.for_loss(
        spend, value.distance, rate=rate, steps=steps, clip=clip, numbers=program.numbers
    )
    return grant.release(value, mechanism, what=what)


def _check(table: PrivateTable, program: object, caller: str) -> None:
    check_private(table, caller)
    if not all_trusted(program):
        raise ModelError(
            f"{type(program).__name__}, or a part of it, is not of this library; other code must not see private rows",
            hint="use a program of gapless.model.neural with layers of the same module",
        )


def _seal_for_sampling(table: PrivateTable, rows: Callable[[Engine], R], reads: Columns) -> Private[R, Sampled]:
    """Sealed rows that a mechanism samples one by one."""
    return table._seal(rows, distance=Sampled(table.protect.at_most), reads=reads or None)  # noqa: SLF001 same package


def _largest_codes(sizes: Sequence[int], rows: int) -> tuple[NDArray[Any], ...]:
    """Made-up rows with the largest code of each column."""
    return tuple(np.full(rows, max(size - 1, 0)) for size in sizes)


@contextmanager
def _dry_run(sizes: Sequence[int], *, hint: str) -> Iterator[None]:
    """Try a program on the largest codes: an error then depends on these, never on a row."""
    try:
        with np.errstate(all="ignore"):
            yield
    except (IndexError, ValueError) as error:
        taken = ", ".join(map(str, sizes))
        wrong = f"the program fails for columns whose numbers of codes are {taken}, as in this table"
        raise ModelError(f"{wrong} ({error})", hint=hint) from None
