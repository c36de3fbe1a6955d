r"""Copies for inference: tables that might have come out as well. Their differences show the effect of noise.

Copy j is learned from the released tables y with noise of the same size added again, and has as many rows as these
tables imply:

.. math:: y^{(j)} = y + N(0, \sigma^2), \qquad \hat p^{(j)} = \mathrm{learn}\bigl(y^{(j)}\bigr),
          \qquad \hat n^{(j)} = \mathrm{total}\bigl(y^{(j)}\bigr).

Copies are learned with `follow_noise`. A model for rows is shrunk towards independent columns, or stops where noise
explains the residuals. That is a bias that no difference between copies shows.

Rows are drawn so that their tables hardly differ from the model's. Pooling relies on that, and
tests/statistical/test_copies.py fails with independent draws. So copies differ by noise alone, and each of them differs
from the population as a sample of n rows does.

Gaps lose information, which complete rows do not show. Models with gaps therefore have *replicates* too: n independent
rows from the model with gaps are counted, get fresh noise, and are learned and completed like the original rows. This
is a parametric bootstrap of the whole release.

Everything here is a function of released values, so it is free (docs/proofs/post_processing.md).

References: Rubin 1987; Efron, Tibshirani 1993, chapter 6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, overload

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from gapless.data import Table
from gapless.data.io.table_files import check_output, write_frame
from gapless.errors import ModelError, ReadError
from gapless.synth.learners import FACTORS, LearnedModel
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.synth.measurements import Measurements

if TYPE_CHECKING:
    from gapless.synth.fitted import FittedModel, Progress

ROWS = 10_000  # of a replicate, at least, so that its sampling error is negligible
COPY = "copy"  # the column with the number of the copy, in one file of all copies


class Drawn(NamedTuple):
    """A sample, and the released or resampled tables that its model was learned from."""

    table: Table
    measurements: Measurements


@dataclass(frozen=True, repr=False, eq=False)
class Copies(Sequence[Table]):
    """Copies of one release, for `gapless.pool`. They are drawn on first use, and free.

    Attributes:
        model: of the release.
        many: the number of copies.
        seed: of all random numbers; the same seed gives the same copies.
        measurements: the released tables.
        progress: called with the phase, how much of it is done, and of how much.
        parts: everything that was drawn, by name, without weights. Copies with other weights share it, and
            `gapless.synth.kept_copies` keeps it in a file.
    """

    model: FittedModel
    many: int
    seed: int
    measurements: Measurements
    progress: Progress | None = None
    parts: dict[str, tuple[Drawn, ...]] = field(default_factory=dict)
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
        """The replicates, as many as copies; none if there are neither gaps nor learned bins."""
        return tuple(drawn.table for drawn in self.drawn_replicates)

    @cached_property
    def drawn_copies(self) -> tuple[Drawn, ...]:
        """The copies with their measurements."""
        return self._part("copies", self._draw_copies)

    @cached_property
    def drawn_replicates(self) -> tuple[Drawn, ...]:
        """The replicates with their measurements."""
        return self._part("replicates", self._draw_replicates) if self.has_replicates else ()

    @property
    def has_replicates(self) -> bool:
        """Whether there are gaps, or learned bins, and every row was counted with its gaps."""
        gaps = any(column.gaps for column in self.model.schema.columns)
        return self.measurements.extended if gaps else bool(self.measurements.bin_hierarchy)

    def _draw_copies(self) -> tuple[Drawn, ...]:
        return tuple(self._drawn(self.measurements.resampled(rng), None, rng) for rng in self._generators("copies", 1))

    def _draw_replicates(self) -> tuple[Drawn, ...]:
        """Draw replicates from rows with replacement of a large sample of the model, in place of independent draws."""
        gaps = any(column.gaps for column in self.model.schema.columns)
        distribution = self.noise_following.gapped if gaps else self.noise_following.filled
        assert distribution is not None  # noqa: S101 for mypy: every row was counted
        rows = max(1, round(self.model.total))
        many = distribution.sample(4 * max(ROWS, rows), np.random.default_rng([self.seed, 3]))
        return tuple(
            self._drawn(
                self.measurements.measure_rows(many[rng.integers(len(many), size=rows)], self.model.schema, rng),
                max(rows, ROWS),
                rng,
                replicate=True,
            )
            for rng in self._generators("replicates", 2)
        )

    @cached_property
    def noise_following(self) -> FittedModel:
        """The model of the released tables, learned with `follow_noise` like those of copies."""
        return self._model(self._noise_following)

    @cached_property
    def _noise_following(self) -> LearnedModel:
        return self.measurements.learn(self.model.schema, seed=self.seed, follow_noise=True)

    @cached_property
    def reference_sample(self) -> Table:
        """A large sample of `noise_following`, with which copies and replicates are compared."""
        (drawn,) = self._part("reference", lambda: (self._large_sample(self.noise_following),))
        return drawn.table

    @cached_property
    def loose_rates_sample(self) -> Table | None:
        """The same for a mixture or factors with loose gap rates; None for other models and without gaps.

        The data do not determine how much gap rates vary between components. The difference between the two samples
        estimates the size of the resulting bias; its sign is unknown.
        """
        gaps = any(column.gaps for column in self.model.schema.columns)
        if self.measurements.kind not in (MixtureModel.kind, FACTORS) or not (gaps and self.measurements.extended):
            return None
        (drawn,) = self._part("loose_rates", lambda: (self._large_sample(self._model(self._learn_loose_rates())),))
        return drawn.table

    @cached_property
    def smooth_cells_sample(self) -> Table | None:
        """The same as `reference_sample` with cells in learned bins as rows have them; None without learned bins.

        Where a tail is below the noise, copies hold too many rows far out, because counts are clipped at zero, and rows
        hold none. The truth is between the two.
        """
        if not self.measurements.bin_hierarchy:
            return None
        (drawn,) = self._part("smooth_cells", lambda: (self._large_sample(self._smooth_cells_model()),))
        return drawn.table

    def _smooth_cells_model(self) -> FittedModel:
        return replace(self.noise_following, within_bin_counts=self.measurements.within_bin_counts(self.model.schema))

    def _learn_loose_rates(self) -> LearnedModel:
        start = self._noise_following if self.measurements.kind == FACTORS else None
        return self.measurements.learn(
            self.model.schema, seed=self.seed, follow_noise=True, loose_gap_rates=True, start=start
        )

    def _large_sample(self, model: FittedModel) -> Drawn:
        return Drawn(model.sample(4 * max(ROWS, round(self.model.total)), seed=self.seed), self.measurements)

    def _part(self, name: str, draw: Callable[[], tuple[Drawn, ...]]) -> tuple[Drawn, ...]:
        """Return the tables of this name with weights; they are drawn once."""
        if name not in self.parts:
            self.parts[name] = draw()
        return tuple(Drawn(self.weigh(table), measurements) for table, measurements in self.parts[name])

    def with_weights(self, weigh: Callable[[Table], ArrayLike]) -> Copies:
        """Return the same copies, each with row weights from `weigh`."""
        return replace(self, _weigh=weigh)

    @property
    def weighted(self) -> bool:
        """Whether the rows of copies have weights."""
        return self._weigh is not None

    def weigh(self, table: Table) -> Table:
        """Give a table the weights that rows of these copies get, if any."""
        return table if self._weigh is None else table.with_weights(self._weigh(table))

    def write(self, path: str | Path) -> list[Path]:
        """Write all copies to one file, or one CSV file per copy into a folder.

        The file may be a .csv, .csv.gz, .tsv, .parquet, .sav, .dta or .xlsx. A first column `copy`
        has the number of the copy.

        Args:
            path: of the file; without such an ending, of the folder.
        """
        path = Path(path)
        if not path.suffix:
            path.mkdir(parents=True, exist_ok=True)
            if any(path.iterdir()):
                raise ReadError(
                    f"copies need an empty folder, but '{path}' holds other files",
                    hint="choose a new folder for the copies",
                )
            names = [path / f"copy-{number:0{len(str(self.many))}}.csv" for number in range(1, self.many + 1)]
            for table, name in zip(self, names, strict=True):
                table.write(name)
            return names
        check_output(path, self.model.schema)  # before copies are drawn
        return [write_together(self.tables, path)]

    def _generators(self, phase: str, stream: int) -> Iterator[np.random.Generator]:
        """Yield the random generator of each copy, and report progress."""
        notify = self.progress or (lambda *_: None)
        for number in range(self.many):
            notify(phase, number, self.many)
            yield np.random.default_rng([self.seed, stream, number])
        notify(phase, self.many, self.many)

    def _drawn(
        self, measurements: Measurements, rows: int | None, rng: np.random.Generator, *, replicate: bool = False
    ) -> Drawn:
        """Learn a model from tables and sample it.

        Args:
            measurements: the tables.
            rows: of the sample; by default as many as the tables imply.
            rng: gives the seeds.
            replicate: whether the tables are those of rows of the model. A mixture of replicates starts cold, as
                `noise_following` did, and so shows how much that varies; a fit of factors goes on to where that ended.
        """
        seed, sample_seed = rng.integers(1 << 32, size=2).tolist()
        start = None if replicate and self.measurements.kind != FACTORS else self._noise_following
        learned = measurements.learn(self.model.schema, seed=seed, follow_noise=True, start=start)
        return Drawn(self._model(learned).sample(rows, seed=sample_seed), measurements)

    def _model(self, learned: LearnedModel) -> FittedModel:
        filled, gapped, total, _, measurements, _ = learned
        within_bin_counts = (measurements or self.measurements).within_bin_counts(self.model.schema, follow_noise=True)
        return replace(self.model, filled=filled, gapped=gapped, total=total, within_bin_counts=within_bin_counts)


def write_together(tables: Sequence[Table], path: Path) -> Path:
    """Write all tables to one file, with the number of the copy as the first column."""
    schema = tables[0].schema
    check_output(path, schema)
    if COPY in schema.names:
        raise ModelError(
            f"a file of all copies needs the column name {COPY!r}, but the schema has it",
            hint=f"pass a path without an ending, to write a folder of files, or rename the column {COPY!r}",
        )
    frames = [
        table.frame_to_write(path).insert_column(0, pl.Series(COPY, np.full(table.rows, number, dtype=np.int64)))
        for number, table in enumerate(tables, start=1)
    ]
    write_frame(pl.concat(frames), path, schema)
    return path
