"""Fitted models, which can be sampled, saved and described for free, and the public facts on how they were made."""

from __future__ import annotations

import json
import math
import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from math import prod
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.constraints.forbidden import constraints_of, soft_rules_of
from gapless.constraints.predicates import cell_of
from gapless.constraints.rules import rules_of
from gapless.data import Table
from gapless.data.checks import check_public
from gapless.data.filling import RowRandomness, fill_given
from gapless.data.io.table_files import check_output, write_frames
from gapless.draw.page import Html
from gapless.draw.ring import MOST_LINES, Edge, legend_kinds, legend_text, ring
from gapless.errors import Argument, Call, Hint, ModelError, Variable
from gapless.model import archive
from gapless.model.distribution import CanFill, Distribution, HasMarginal, Product
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import cramers_v
from gapless.privacy import Guarantee, Persons, Rows
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.adversarial.generative import Critic, GappedGenerator, GeneratorModel
from gapless.synth.constraint_sampler import ConstraintSampler, Values, chance_of_rows
from gapless.synth.copies import Copies
from gapless.synth.marginal.bayesian_network import BayesianNetwork
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.synth.measurements import Measurements
from gapless.synth.sequential.autoregressive import AutoregressiveModel
from gapless.synth.within_bins import spread
from gapless.text import listing, plural, shortened
from gapless.threads import one_thread
from gapless.types import Floats, is_number, is_whole, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public facts on a model, for `describe`, `picture`, the report, the statement and the model file.

    Attributes:
        method: the name of the synthesizer, as on the command line.
        guarantee: of the ledger that paid, at the end of the fit.
        settings: the holder's choices and what follows from them, by name.
        structure: a line for each measurement.
        noise: the standard deviation in the count of one cell, by column; without columns that were not measured.
        limitations: sentences on what the model could not represent.
        edges: the pairs of columns, by position, that were measured together.
        broken: for each constraint with a learned weight, the share of pairs of rows that break it, and its noise.
    """

    method: str
    guarantee: Guarantee
    settings: Mapping[str, str | int] = field(default_factory=dict)
    structure: tuple[str, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    limitations: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    broken: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON for a model file."""
        content = {"limits" if name == "limitations" else name: value for name, value in asdict(self).items()}
        if not self.guarantee.private:
            content["guarantee"]["epsilon"] = None  # JSON has no infinity
        return content

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read the facts of a model file.

        Raises:
            ValueError: A value has the wrong type.
        """
        promise = dict(content["guarantee"])
        texts = [content["method"], promise["table"], promise["basis"], *content["structure"], *content["limits"]]
        shares = content.get("broken", {})
        if not (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(value, str) or is_whole(value) for value in content["settings"].values())
            and all(is_number(value) for value in (promise["delta"], *content["noise"].values()))
            and (promise["epsilon"] is None or is_number(promise["epsilon"]))
            and all(is_whole(place) for edge in content["edges"] for place in edge)
            and all(is_number(value) for pair in shares.values() for value in pair)
        ):
            raise ValueError("facts of a model must be texts and numbers")
        protect = promise["protect"]
        promise["protect"] = (Persons if "id" in protect else Rows)(**protect)
        if promise["epsilon"] is None:
            promise["epsilon"] = math.inf
        return cls(
            method=content["method"],
            guarantee=Guarantee(**promise),
            settings=content["settings"],
            structure=tuple(content["structure"]),
            noise=content["noise"],
            limitations=tuple(content["limits"]),
            edges=tuple((column, other) for column, other in content["edges"]),
            broken={rule: (share, noise_std) for rule, (share, noise_std) in shares.items()},
        )


Gaps: TypeAlias = Literal["filled", "as-observed"]
Progress: TypeAlias = Callable[[str, int, int], object]  # called with the phase, how much is done, and of how much

_DISTRIBUTIONS: dict[str, type[Distribution]] = {
    kind.kind: kind
    for kind in (
        Product,
        GraphicalModel,
        BayesianNetwork,
        MixtureModel,
        AutoregressiveModel,
        GeneratorModel,
        GappedGenerator,
    )
}
PART_ROWS = 1 << 20  # rows of a sample that are drawn and written at a time
MOST_ROWS = 1 << 40  # of a sample
LONGEST_NAME = 30  # letters of a column's name in a picture
_PICTURE_ROWS = 10_000  # sampled to estimate dependence where a model has no marginals
_TRIED_ROWS = 1_000  # tried around each possible row, where no sampled row satisfies the constraints
_GIVEN_CELLS = 1 << 20  # of the largest marginal that is computed to test given cells


OTHER_CELLS = "choose other given cells, or fewer of them"
DAMAGED = "load another copy of the model file, or write the file again with gapless fit"


def check_gaps(gaps: str) -> None:
    """Refuse an unknown name for how samples show gaps."""
    if gaps not in get_args(Gaps):
        raise ModelError(
            f"gaps must be 'filled' or 'as-observed', got {gaps!r}",
            hint=Hint("pass ", Argument("gaps", "filled")) | Hint("pass ", Argument("gaps", "as-observed")),
        )


def seed_or_new(seed: int | None) -> int:
    """Return the seed, or a new random one."""
    return secrets.randbits(64) if seed is None else whole("seed", seed, error=ModelError)


@dataclass(frozen=True, repr=False)
class FittedModel:
    """A distribution of rows, without and perhaps with gaps, and the facts on how it was fitted.

    Attributes:
        schema: of the rows that it samples.
        filled: the distribution over observed cells, gaps completed.
        gapped: the distribution over all cells with gap states; None if gaps were not measured.
        total: the noisy number of rows; the default size of a sample.
        facts: how it was made, and its guarantee.
        within_bin_counts: released counts of the cells of columns with learned bins; values in bins follow them.
        measurements: the released tables that it was learned from; None if it cannot be learned from tables again.
        critic: the critic of a generative network, if it is part of the release.
    """

    schema: Schema
    filled: Distribution
    gapped: Distribution | None
    total: float
    facts: Facts
    within_bin_counts: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    measurements: Measurements | None = None
    critic: Critic | None = None

    @property
    def method(self) -> str:
        """The name of the synthesizer."""
        return self.facts.method

    @property
    def private(self) -> bool:
        """Whether the fit was private; False if it used test noise."""
        return self.facts.guarantee.private

    @one_thread()
    def sample(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        gaps: Gaps = "filled",
        given: Mapping[str, object] | None = None,
    ) -> Table:
        """Draw synthetic rows. Samples are free, and the same seed repeats a sample.

        Args:
            rows: number of rows; by default the noisy number of rows of the private table.
            seed: to repeat a sample; by default every sample is new.
            gaps: "filled" for complete rows, "as-observed" to draw gaps as well.
            given: values, or names of cells, that every row has, by column name. The other cells are drawn from the
                conditional distribution. Of a number, the model uses only its bin.
        """
        rows, seed = self._rows(rows), seed_or_new(seed)
        try:
            return self._sample(rows, seed, gaps, given)
        except MemoryError:
            raise ModelError(
                f"there is not enough memory for {plural(rows, 'row')}", hint="pass a smaller number of rows"
            ) from None

    def _rows(self, rows: int | None) -> int:
        """Check the number of rows to draw; by default the noisy number of rows of the private table."""
        return whole(
            "rows", max(0, round(self.total)) if rows is None else rows, error=ModelError, least=0, most=MOST_ROWS
        )

    def _sample(self, rows: int, seed: int, gaps: Gaps, given: Mapping[str, object] | None) -> Table:
        rng = np.random.default_rng(seed)
        cells = {
            place: cell_of(self.schema.columns[place], value)
            for place, value in zip(self.schema.positions(given or ()), (given or {}).values(), strict=True)
        }
        # A cell without a position is a whole bin.
        positions = {place: position for place, (_, position) in cells.items() if not math.isnan(position)}
        rules = self._rules_for(positions) if positions else self._rules
        distribution = self._distribution(gaps)
        if cells:
            known = self._known({place: code for place, (code, _) in cells.items()}, gaps, rows, rules)
            codes, broken = self._fill(distribution, known, lambda: rng.random(rows), rules)
        else:
            codes, broken = rules.draw(lambda some: distribution.sample(len(some), rng), rows, lambda: rng.random(rows))
        values, out = self._draw_values(rules, codes, rng, positions)
        out[broken] = True
        if out.all() and rows and not cells:  # the rules contradict each other, or few rows satisfy them
            codes, values, out = self._around_possible_rows(codes, rng)
        if out.any():  # after all tries: copy other rows in their place
            if out.all():
                raise ModelError(
                    "no row was found that has the given cells and satisfies all constraints", hint=OTHER_CELLS
                )
            kept = np.arange(rows)
            kept[out] = rng.choice(np.flatnonzero(~out), int(out.sum()))
            codes, values = codes[kept], [None if known is None else known[kept] for known in values]
        return Table(self.schema, list(codes.T), rows=rows, seed=seed, values=values)

    def _draw_values(
        self, rules: ConstraintSampler, codes: NDArray[Any], rng: np.random.Generator, given: Mapping[int, float]
    ) -> tuple[Values, NDArray[np.bool_]]:
        """Draw values within the bins of rows; return them by column, and which rows break a rule."""
        draw = partial(self._draw_within_bins, rng)
        places = range(len(self.schema.columns))
        values = [draw(place, codes[:, place]) if place in self._cell_counts else None for place in places]
        return values, rules.write(codes, values, draw, given=given)

    def _around_possible_rows(
        self, codes: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[Any], Values, NDArray[np.bool_]]:
        """Replace the cells that rules restrict by those of a possible row; return the rows and their values."""
        named = sorted({column for rule in rules_of(self.schema) for column in rule.columns})
        for row in ConstraintSampler.possible_rows(self.schema, self.filled, self.within_bin_counts):
            rules = self._rules_for({}, row=row)
            tried = codes[np.arange(max(len(codes), _TRIED_ROWS)) % len(codes)]
            tried[:, named] = row[named]
            values, out = self._draw_values(rules, tried, rng, {})
            kept = np.flatnonzero(~(out | rules.breaks(tried)))
            if len(kept):
                kept = kept[np.arange(len(codes)) % len(kept)]
                values = [None if known is None else known[kept] for known in values]
                return tried[kept], values, np.zeros(len(codes), dtype=np.bool_)
        raise ModelError(
            "no row was found that satisfies all constraints of the schema",
            hint="remove one of the constraints that contradict each other, and fit the model again",
        )

    def write_sample(
        self,
        path: str | Path,
        rows: int | None = None,
        *,
        seed: int | None = None,
        gaps: Gaps = "filled",
        given: Mapping[str, object] | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Draw synthetic rows into a CSV (also .csv.gz, .tsv), Parquet, .sav, .dta or .xlsx file; return their number.

        A million rows are drawn and written at a time, so that memory does not grow with their number, but
        for .sav and .dta files, which are written at once. The first
        million is what `sample` draws with this seed; the other seeds are derived from it. An interrupted write, by a
        full disk or Ctrl-C, leaves no file, and keeps a file that was there before.

        Args:
            path: the file.
            rows: number of rows, as in `sample`.
            seed: as in `sample`.
            gaps: as in `sample`.
            given: as in `sample`.
            progress: called with the phase, how many parts are done, and of how many.
        """
        rows, seed, path = self._rows(rows), seed_or_new(seed), Path(path)
        check_output(path, self.schema)
        parts = max(1, -(-rows // PART_ROWS))
        notify = progress or (lambda *_: None)

        def frames() -> Iterator[pl.DataFrame]:
            for part in range(parts):
                notify("sampling", part, parts)
                many = min(PART_ROWS, rows - part * PART_ROWS)
                yield self.sample(many, seed=_seed_of(seed, part), gaps=gaps, given=given).frame_to_write(path)
            notify("sampling", parts, parts)

        write_frames(frames(), path, self.schema)
        return rows

    def copies(self, many: int = 20, *, seed: int | None = None, progress: Progress | None = None) -> Copies:
        """Return tables that might have come out as well, for confidence intervals with `gapless.pool`; free.

        Args:
            many: number of copies, at least 2.
            seed: of the copies; by default one that follows from the released tables, so copies are the same each time.
            progress: called with the phase, how much of it is done, and of how much.
        """
        many = whole("many", many, error=ModelError, least=2)  # their differences estimate the noise
        if self.measurements is None:
            raise ModelError(
                f"copies are learned from released tables of counts, but this {self.method} model stores none",
                hint="fit a model by factors, mst, aim, mixture, privbayes or independent with this version of gapless",
            )
        seed = self.measurements.derived_seed if seed is None else seed_or_new(seed)
        return Copies(self, many, seed, self.measurements, progress)

    def _draw_within_bins(self, rng: np.random.Generator, place: int, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Draw positions within the bins of a numeric column, by estimated counts of its cells."""
        column = self.schema.columns[place]
        assert isinstance(column, BinnedColumn)  # noqa: S101 for mypy: others have no bins
        return column.draw_positions(self._cell_counts.get(place), codes, rng)

    @cached_property
    def _cell_counts(self) -> dict[int, Floats]:
        """The counts of cells of the columns whose bins have several: released, or smooth between those of bins."""
        found = {}
        for place, column in enumerate(self.schema.columns):
            if column.name in self.within_bin_counts:
                found[place] = self.within_bin_counts[column.name]
            elif isinstance(column, BinnedColumn) and column.values_size < column.finest.values_size:
                bins = self.marginal_if_known(column.name)
                if bins is not None:
                    found[place] = spread(column, bins[: column.values_size])
        return found

    @cached_property
    def _rules(self) -> ConstraintSampler:
        """The sampler that enforces the schema's rules: a function of released values, computed once."""
        return self._rules_for({})

    def _rules_for(self, values: Mapping[int, float], *, row: NDArray[np.int64] | None = None) -> ConstraintSampler:
        """Return the sampler for rows that all have these values, or one that allows a `row`.

        It is computed again only if a rule between rows uses one of the columns.
        """
        if values and not self._rules.names(values):
            return self._rules
        return ConstraintSampler.of(
            self.schema, self.filled, self.within_bin_counts, self.facts.broken, values, row=row
        )

    @one_thread()
    def impute(self, table: Table, *, seed: int | None = None) -> Table:
        """Fill the gaps of a public table with draws given the observed cells of each row, which stay unchanged.

        To fill a private table, pass `ImputeFirst(FromModel(model))` to a synthesizer.
        """
        private = Call("ImputeFirst", Call("gapless.missing.FromModel", Variable("model")))
        check_public(
            table,
            "impute() needs",
            private=Hint("pass ", Argument("missing", private), " to fill a private table unseen"),
        )
        if [(c.name, c.size) for c in self.schema.columns] != [(c.name, c.size) for c in table.schema.columns]:
            if self.schema.finest.columns != table.schema.finest.columns:
                raise ModelError(
                    "impute() needs a table with the columns and cells of the model, but the schemas differ",
                    hint=Hint(
                        "read the table with ", Call("gapless.Table.read", Variable("data"), Variable("model.schema"))
                    ),
                )
            table = table.rebin(self.schema)  # in the learned bins
        seed = seed_or_new(seed)
        rng = np.random.default_rng(seed)
        codes = fill_given(table.codes, self, lambda: rng.random(table.rows))
        return table.with_codes(codes, schema=table.schema, seed=seed)

    @one_thread()
    def fill(self, given: NDArray[np.int64], chance: RowRandomness) -> NDArray[np.integer]:
        """Draw the codes that are -1 given the other codes of each row: a function of each row and its random draws.

        A row that breaks a constraint is repaired or drawn again, up to a fixed number of times. A row whose observed
        cells break it stays as it is.

        Args:
            given: rows × columns of codes.
            chance: returns a fresh uniform number for each row.
        """
        return self._fill(self.filled, given, chance, self._rules)[0]

    def _fill(
        self, distribution: Distribution, given: NDArray[np.int64], chance: RowRandomness, rules: ConstraintSampler
    ) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        if not isinstance(distribution, CanFill):
            raise ModelError(
                f"a model by {self.method} cannot be sampled given some cells of a row",
                hint="fit a model by factors, mst, aim or mixture",
            )
        filler: CanFill = distribution
        return rules.draw(
            lambda rows: filler.fill(given[rows], partial(chance_of_rows, chance, rows)),
            len(given),
            chance,
            free=given < 0,
        )

    def marginal(self, columns: str | Sequence[str], *, gaps: Gaps = "filled") -> NDArray[np.float64]:
        """Return the model's probabilities of all combinations of cells of these columns."""
        places = self.schema.positions((columns,) if isinstance(columns, str) else columns)
        distribution = self._distribution(gaps)
        if not isinstance(distribution, HasMarginal):
            raise ModelError(f"a model by {self.method} has no marginals", hint="use counts of a large sample instead")
        return distribution.marginal(places)

    def marginal_if_known(self, columns: str | Sequence[str], *, gaps: Gaps = "filled") -> NDArray[np.float64] | None:
        """Return the same, or None if the model has no marginals or this one would take too many cells."""
        if not isinstance(self._distribution(gaps), HasMarginal):
            return None
        try:
            return self.marginal(columns, gaps=gaps)
        except ModelError:  # the size of intermediate tables is known only while computing
            return None

    def _distribution(self, gaps: Gaps) -> Distribution:
        """Return the distribution with or without gaps; they are the same if no column may be missing."""
        check_gaps(gaps)
        if gaps == "filled" or not any(column.gaps for column in self.schema.columns):
            return self.filled
        if self.gapped is None:
            raise ModelError(
                "this model did not measure the gaps, so its rows cannot have gaps",
                hint=Hint("fit a model with ", Argument("missing", Call("Extended")))
                | Hint("pass ", Argument("gaps", "filled")),
            )
        return self.gapped

    def _known(self, given: Mapping[int, int], gaps: Gaps, rows: int, rules: ConstraintSampler) -> NDArray[np.int64]:
        """Return rows of codes with the given cells, and -1 in all others.

        Raises:
            ModelError: The model or a rule gives these cells probability 0, so there is no conditional distribution.
        """
        columns = [self.schema.columns[place] for place in given]
        few = prod(column.extended_size for column in columns) <= _GIVEN_CELLS
        marginal = self.marginal_if_known([column.name for column in columns], gaps=gaps) if few else None
        # Where gaps are drawn too, a cell that is not given may be a gap, which breaks no rule.
        gap_codes = {} if gaps == "filled" else {i: c.size for i, c in enumerate(self.schema.columns) if c.gaps}
        impossible = marginal is not None and not marginal[tuple(given.values())] > 0
        if impossible or not rules.leaves({**gap_codes, **given}):
            cells = (f"{c.name} = {c.cells[code]}" for c, code in zip(columns, given.values(), strict=True))
            raise ModelError(f"no row of this model has {listing(cells)}", hint=OTHER_CELLS)
        known = np.full((rows, len(self.schema.columns)), -1, dtype=np.int64)
        known[:, list(given)] = list(given.values())
        return known

    def constraints(self) -> list[str]:
        """Return a line for each rule of the schema: whether samples satisfy it."""
        not_enforced = self.not_enforced()
        soft = {rule.rule.text: self._rules.soft_rules[rule.rule.text] for rule in soft_rules_of(self.schema)}
        lines = []
        for rule in (constraint.forbidden for constraint in self.schema.constraints):
            if rule in soft:
                noisy = ""
                if counted := self.facts.broken.get(rule):
                    noisy = f" (of some pairs {counted[0]:.2%} did, ± {1.96 * counted[1]:.2%} by noise)"
                lines.append(
                    f"constraint soft, {soft[rule].violating_share:.2%} of pairs expected to break it{noisy}: {rule}"
                )
            else:
                lines.append(f"constraint {'not enforced' if rule in not_enforced else 'kept'}, forbidden: {rule}")
        return [*lines, *filter(None, [self.pinned()])]

    def pinned(self) -> str:
        """Return a sentence on columns whose bins have one value each because of constraints, or an empty text."""
        pinned = sorted({column for chosen in self._rules.allowed_sets for column in chosen.pinned})
        if not pinned:
            return ""
        names = listing(self.schema.names[column] for column in pinned)
        return (
            f"so that values keep the constraints, bins have one value each where that is needed: {names}. "
            "Narrower bins, or edges in the schema, would keep more values"
        )

    def not_enforced(self) -> list[str]:
        """Return the rules of the schema that samples may break."""
        return constraints_of(self.schema)[2]

    def __repr__(self) -> str:
        columns = plural(len(self.schema.columns), "column")
        return f"<{type(self).__name__} by {self.method} of {self.schema.name!r}: {columns}>"

    def describe(self) -> str:
        """Return a text on what was measured and how."""
        is_of_persons = isinstance(self.facts.guarantee.protect, Persons)
        lines = [
            f"{self.method}: {plural(len(self.schema.columns), 'column')} of '{self.schema.name}', "
            f"about {plural(max(0, round(self.total)), 'kept row' if is_of_persons else 'row')}",
            *(f"  {name}: {value}" for name, value in self.facts.settings.items()),
            *(f"  {sentence}" for sentence in self.facts.limitations),
            *(f"  {line}" for line in self.constraints()),
            *(f"  {line}" for line in self.facts.structure),
        ]
        return "\n".join(lines)

    def picture(self) -> str:
        """Return an SVG drawing of the columns that are modelled together, from released values.

        Where the model has no marginals, they are estimated from a sample.
        """
        rows = None if isinstance(self.filled, HasMarginal) else self.sample(_PICTURE_ROWS, seed=0)
        edges = [(column, other, self._strength(column, other, rows)) for column, other in self.facts.edges]
        title = f"Columns of '{shortened(self.schema.name, 30)}' that are modelled together"
        return draw_structure(self.schema.names, edges, title=title)

    def _strength(self, column: int, other: int, rows: Table | None) -> float:
        names = [self.schema.names[column], self.schema.names[other]]
        marginal = self.marginal_if_known(names) if rows is None else rows.marginal(names) / _PICTURE_ROWS
        return 0.0 if marginal is None else cramers_v(marginal) or 0.0  # unknown strengths become thin lines

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a file for `gapless.load`. The file has no rows and no pickle in it.

        An existing file may hold a model that was paid for, so only `overwrite` replaces it.
        """
        if not overwrite and os.path.lexists(path):
            raise ModelError(
                f"'{path}' exists, and may hold a model that was paid for",
                hint=Hint("choose another name")
                | Hint("pass ", Argument("overwrite", True), " if the old file is not needed"),
            )
        archive.save(Path(path), *self._parts())

    def sanitized(self) -> FittedModel:
        """Return the same model, rebuilt from plain numbers and text as from a file, without any other object."""
        head, arrays = self._parts()
        plain = {name: np.array(array) for name, array in arrays.items()}
        if any(array.dtype.hasobject for array in plain.values()):
            raise ModelError(
                "the arrays of a model must hold numbers only, but one holds other objects",
                hint="use a model that gapless fitted or loaded, without changes",
            )
        return FittedModel.from_file(json.loads(json.dumps(head)), plain)

    def _parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the header and the arrays of a model file."""
        head: dict[str, Any] = {"schema": self.schema.to_toml(), "total": self.total, "facts": self.facts.to_json()}
        head |= {part: getattr(self, part).kind for part in ("filled", "gapped") if getattr(self, part) is not None}
        arrays = {
            f"within_bin_counts/{place}": self.within_bin_counts[name]
            for place, name in enumerate(self.schema.names)
            if name in self.within_bin_counts
        }
        for part in ("filled", "gapped", "measurements", "critic"):
            if (held := getattr(self, part)) is not None:
                arrays |= {f"{part}/{name}": array for name, array in held.to_arrays().items()}
        return head, arrays

    @classmethod
    def from_file(cls, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild the model from the header and the arrays of a model file."""
        if "filled" not in head:
            raise ModelError("the model has no distribution", hint=DAMAGED)
        parts: dict[str, Any] = {"measurements": Measurements, "critic": Critic}
        for part in ("filled", "gapped"):
            if part in head and head[part] not in _DISTRIBUTIONS:
                known = listing(_DISTRIBUTIONS)
                raise ModelError(f"the distribution must be one of {known}, got {head[part]!r}", hint=DAMAGED)
            parts[part] = _DISTRIBUTIONS.get(head.get(part, ""))
        for part, kind in parts.items():
            held = {
                name.removeprefix(f"{part}/"): array for name, array in arrays.items() if name.startswith(f"{part}/")
            }
            parts[part] = kind.from_arrays(held) if kind and (held or part in head) else None
        schema = Schema.from_toml(head["schema"])
        keys = {name: f"within_bin_counts/{place}" for place, name in enumerate(schema.names)}
        counts = {name: arrays[key] for name, key in keys.items() if key in arrays}
        facts = Facts.from_json(head["facts"])
        return cls(schema, total=head["total"], facts=facts, within_bin_counts=counts, **parts)


def _seed_of(seed: int, part: int) -> int:
    """Return the seed of a part of a sample; the first part has the seed of the sample."""
    return seed if part == 0 else int(np.random.SeedSequence([seed, part]).generate_state(1, np.uint64)[0])


def draw_structure(names: Sequence[str], edges: Sequence[Edge], *, title: str = "Columns modelled together") -> str:
    """Draw columns on a circle, and a line between columns that are modelled together; thicker if stronger.

    If there are too many lines, the weakest are left out, and the legend says so.

    Args:
        names: of the columns.
        edges: two columns and the strength of their dependence in the model, from 0 to 1.
        title: above the drawing.

    >>> draw_structure(["age", "sex"], [(0, 1, 0.5)]).count('class="strong"')
    2
    """
    labels = [shortened(name, LONGEST_NAME) for name in names]
    return ring(title, names, edges, labels=labels, legend=_legend(edges))


def _legend(edges: Sequence[Edge]) -> list[Html]:
    """Return the legend: what the lines mean, and how many there are of each kind."""
    if not edges:
        return [legend_text("No two columns were measured together: the model takes them as independent.")]
    rows = [
        legend_text("Drawn from released values. How strongly two columns go together in the model:"),
        legend_text("Cramér’s V, from 0 (not at all) to 1 (one decides the other)"),
        *legend_kinds(edges),
    ]
    if len(edges) > MOST_LINES:
        left_out = len(edges) - MOST_LINES
        rows.append(legend_text(f"The {left_out} weakest are left out here; model.describe() names them all."))
    return rows
