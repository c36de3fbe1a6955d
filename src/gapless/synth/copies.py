r"""Copies for inference: tables that might have come out as well, so that their differences show what noise does.

Copy j is learned anew from the released tables y with as much noise again, and drawn with as many rows as they speak
for:

.. math:: y^{(j)} = y + N(0, \sigma^2), \qquad \hat p^{(j)} = \mathrm{learn}\bigl(y^{(j)}\bigr),
          \qquad \hat n^{(j)} = \mathrm{total}\bigl(y^{(j)}\bigr).

It is learned *closely*: a model for rows stops where noise explains the rest, which draws columns towards independence,
a bias that no difference between copies shows.

Rows are drawn so that their tables hardly differ from the model's: that is part of what pooling relies on, and
tests/statistical/test_copies.py fails with independent draws. So copies differ by noise alone, and each of them differs
from the population as a sample of n rows does.

Gaps took information that complete rows do not show. For models that know them there are *replicates* too: n
independent rows from the model of rows with their gaps, counted, with fresh noise, learned and completed like the
first ones: a parametric bootstrap, in which everything varies that varied before.

Everything here is a function of released values: it costs nothing (docs/proofs/post_processing.md).

References: Rubin 1987; Efron, Tibshirani 1993, chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from gapless.data import Table
from gapless.data.table import check_ending, write_frame
from gapless.errors import ModelError, ReadError
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.synth.measurements import LearnedModel, Measurements

if TYPE_CHECKING:
    from gapless.synth.fitted import FittedModel, Progress

ROWS = 10_000  # of a replicate, at least: its own draws should add nothing
COPY = "copy"  # the column that tells copies apart in one file


class Drawn(NamedTuple):
    """Rows of a model, and the released tables, or such as might have been, that it was learned from."""

    table: Table
    measurements: Measurements


@dataclass(frozen=True, repr=False, eq=False)
class Copies(Sequence[Table]):
    """Tables from one release, for `gapless.pool`; made when they are first asked for, and free.

    Attributes:
        model: of the release.
        many: how many copies there are.
        seed: of all chance in them; the same seed gives the same copies.
        measurements: the released tables.
        progress: called with the phase, how much of it is done, of how much.
    """

    model: FittedModel
    many: int
    seed: int
    measurements: Measurements
    progress: Progress | None = None
    _weigh: Callable[[Table], ArrayLike] | None = None

    def __len__(self) -> int:
        return self.many

    def __iter__(self) -> Iterator[Table]:
        return iter(self.tables)

    @overload
    def __getitem__(self, place: int) -> Table: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Table, ...]: ...
    def __getitem__(self, place: int | slice) -> Table | tuple[Table, ...]:
        return self.tables[place]

    def __repr__(self) -> str:
        return f"<{self.many} copies by {self.model.method} of {self.model.schema.name!r}, seed {self.seed}>"

    @property
    def tables(self) -> tuple[Table, ...]:
        """The copies."""
        return tuple(drawn.table for drawn in self.drawn_copies)

    @property
    def replicates(self) -> tuple[Table, ...]:
        """As many tables from rows that the model might have been learned from; none without gaps and learned bins."""
        return tuple(drawn.table for drawn in self.drawn_replicates)

    @cached_property
    def drawn_copies(self) -> tuple[Drawn, ...]:
        """The copies, each with what it was learned from."""
        return tuple(
            self._drawn(self.measurements.resampled(rng), None, rng, near=True) for rng in self._chances("copies", 1)
        )

    @cached_property
    def drawn_replicates(self) -> tuple[Drawn, ...]:
        """The replicates, each with what it was learned from.

        Rows that are drawn again from many that follow the model closely are as good as independent ones.
        """
        gaps = any(column.gaps for column in self.model.schema.columns)
        law = self.noise_following.gapped if gaps else self.noise_following.filled
        if law is None or not (gaps or self.measurements.bin_hierarchy):
            return ()
        rows = max(1, round(self.model.total))
        many = law.sample(4 * max(ROWS, rows), np.random.default_rng([self.seed, 3]))
        return tuple(
            self._drawn(
                self.measurements.measure_rows(many[rng.integers(len(many), size=rows)], self.model.schema, rng),
                max(rows, ROWS),
                rng,
            )
            for rng in self._chances("replicates", 2)
        )

    @cached_property
    def noise_following(self) -> FittedModel:
        """The model of the released tables, learned as closely as those of copies are."""
        return self._model(self._noise_following)

    @cached_property
    def _noise_following(self) -> LearnedModel:
        return self.measurements.learn(self.model.schema, seed=self.seed, follow_noise=True)

    @cached_property
    def reference_sample(self) -> Table:
        """Many rows of the closest model, with which copies and replicates are compared."""
        return self.weigh(self.noise_following.sample(4 * max(ROWS, round(self.model.total)), seed=self.seed))

    @cached_property
    def loose_rates_sample(self) -> Table | None:
        """As many rows of a mixture whose rates of gaps move more freely; None for other models and without gaps.

        How freely they move is a choice that no table decides: what it changes is a bias of unknown size and sign.
        """
        if self.measurements.kind != MixtureModel.kind or self.noise_following.gapped is None:
            return None
        learned = self.measurements.learn(self.model.schema, seed=self.seed, follow_noise=True, loose_gap_rates=True)
        return self.weigh(self._model(learned).sample(self.reference_sample.rows, seed=self.seed))

    def with_weights(self, weigh: Callable[[Table], ArrayLike]) -> Copies:
        """The same copies, each with the weights that `weigh` gives its rows."""
        return replace(self, _weigh=weigh)

    @property
    def weighted(self) -> bool:
        """Whether the rows of each copy have weights."""
        return self._weigh is not None

    def weigh(self, table: Table) -> Table:
        """A table with the weights that rows of these copies get, if they get any."""
        return table if self._weigh is None else table.with_weights(self._weigh(table))

    def write(self, path: str | Path) -> list[Path]:
        """Write one file with a first column `copy` (.csv, .csv.gz, .tsv, .parquet), or into a folder one file each.

        Args:
            path: of the file; without such an ending, of the folder.
        """
        path = Path(path)
        if not path.suffix:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise ReadError(f"{path} holds other files", hint="a folder of their own for the copies")
            names = [path / f"copy-{number:0{len(str(self.many))}}.csv" for number in range(1, self.many + 1)]
            for table, name in zip(self, names, strict=True):
                table.write(name)
            return names
        check_ending(path)  # before copies are drawn
        return [write_together(self.tables, path)]

    def _chances(self, phase: str, stream: int) -> Iterator[np.random.Generator]:
        """Where the chance in each of them comes from, one after the other."""
        tell = self.progress or (lambda *_: None)
        for number in range(self.many):
            tell(phase, number, self.many)
            yield np.random.default_rng([self.seed, stream, number])
        tell(phase, self.many, self.many)

    def _drawn(
        self, measurements: Measurements, rows: int | None, rng: np.random.Generator, *, near: bool = False
    ) -> Drawn:
        """A sample of what is learned from tables, `near` the released ones or not; the chance in it is new each time.

        Replicates are learned from the start, as the closest model was: they show what that varies by.
        """
        seed, other = rng.integers(1 << 32, size=2).tolist()
        start = self._noise_following if near else None
        learned = measurements.learn(self.model.schema, seed=seed, follow_noise=True, start=start)
        return Drawn(self.weigh(self._model(learned).sample(rows, seed=other)), measurements)

    def _model(self, learned: LearnedModel) -> FittedModel:
        filled, gapped, total, _, measurements = learned
        within_bin_counts = (measurements or self.measurements).within_bin_counts(self.model.schema, follow_noise=True)
        return replace(self.model, filled=filled, gapped=gapped, total=total, within_bin_counts=within_bin_counts)


def write_together(tables: Sequence[Table], path: Path) -> Path:
    """One file of all copies, the first column of which is the number of the copy."""
    check_ending(path)
    schema = tables[0].schema
    if COPY in schema.names:
        raise ModelError(f"the schema has a column {COPY!r} of its own", hint="a folder: one file for each copy")
    frames = [
        table.frame_to_write(path).insert_column(0, pl.Series(COPY, np.full(table.rows, number, dtype=np.int64)))
        for number, table in enumerate(tables, start=1)
    ]
    write_frame(pl.concat(frames), path, schema)
    return path
