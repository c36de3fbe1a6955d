"""What every synthesizer gives back: a model that can be sampled, saved and described for free, and its facts."""

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
from typing import Any, Literal, Self, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.constraints.forbidden import constraints_of, soft_rules_of
from gapless.constraints.predicates import cell_of
from gapless.constraints.rules import rules_of
from gapless.data import Table
from gapless.data.checks import check_public
from gapless.data.filling import Chance, fill_given
from gapless.data.table import write_frames
from gapless.draw.page import Html
from gapless.draw.ring import MOST_LINES, Edge, legend_kinds, legend_text, ring
from gapless.errors import Argument, Call, Hint, ModelError
from gapless.model import archive
from gapless.model.distribution import CanFill, Distribution, HasMarginal, Product
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import cramers_v
from gapless.privacy import Guarantee, Rows
from gapless.schema import Schema
from gapless.schema.numeric import BinnedColumn
from gapless.synth.adversarial.generative import Critic, GappedGenerator, GeneratorModel
from gapless.synth.constraint_sampler import ConstraintSampler, Values, chance_of_rows
from gapless.synth.copies import Copies
from gapless.synth.marginal.bayesian_network import BayesianNetwork
from gapless.synth.marginal.mixture_model import MixtureModel
from gapless.synth.measurements import Measurements
from gapless.synth.sequential.autoregressive import AutoregressiveModel
from gapless.text import listing, nearest, plural, shortened
from gapless.threads import one_thread
from gapless.types import is_number, is_whole, whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public and released values alone, for `describe`, `picture`, the report, the statement and the model file.

    Attributes:
        method: the name of the synthesizer, as on the command line.
        guarantee: of the ledger that paid, at the end of the fit.
        settings: what was chosen by the holder or followed from it, by name.
        structure: what was measured, one line each.
        noise: the standard deviation in a count of one cell, by column; a column that was not measured has none.
        limits: sentences on what the model could not take in.
        edges: the pairs of columns, by position, that were measured together.
        broken: the share of pairs of rows that break each constraint whose weight is learned, and the noise in it.
    """

    method: str
    guarantee: Guarantee
    settings: Mapping[str, str | int] = field(default_factory=dict)
    structure: tuple[str, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    broken: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether anything was promised: not if the noise was that of a test."""
        return self.guarantee.private

    def to_json(self) -> dict[str, Any]:
        """What a model file holds of them."""
        told = asdict(self)
        if not self.private:
            told["guarantee"]["epsilon"] = None  # JSON has no infinity
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The facts that a model file holds.

        Raises:
            ValueError: One of them is of another kind than it should be.
        """
        promise = dict(told["guarantee"])
        texts = [told["method"], promise["table"], promise["basis"], *told["structure"], *told["limits"]]
        shares = told.get("broken", {})
        if not (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(value, str) or is_whole(value) for value in told["settings"].values())
            and all(is_number(value) for value in (promise["delta"], *told["noise"].values()))
            and (promise["epsilon"] is None or is_number(promise["epsilon"]))
            and all(is_whole(place) for edge in told["edges"] for place in edge)
            and all(is_number(value) for pair in shares.values() for value in pair)
        ):
            raise ValueError("the facts of this model are not made of texts and numbers")
        promise["protect"] = Rows(**promise["protect"])
        if promise["epsilon"] is None:
            promise["epsilon"] = math.inf
        return cls(
            method=told["method"],
            guarantee=Guarantee(**promise),
            settings=told["settings"],
            structure=tuple(told["structure"]),
            noise=told["noise"],
            limits=tuple(told["limits"]),
            edges=tuple((one, other) for one, other in told["edges"]),
            broken={rule: (share, noise_std) for rule, (share, noise_std) in shares.items()},
        )


Gaps: TypeAlias = Literal["filled", "as-observed"]
Progress: TypeAlias = Callable[[str, int, int], object]  # the phase, how much is done, of how much

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
PART_ROWS = 1 << 20  # of a sample that is written
MOST_ROWS = 1 << 40  # of a sample
_PICTURED = 10_000  # rows in which pairs are counted
_TRIED = 1_000  # rows that are given values where no row of a sample could be made to keep the rules
_KNOWN_CELLS = 1 << 20  # of the marginal by which given cells are found impossible


def seed_or_new(seed: int | None) -> int:
    """The seed of a sample: a new one unless it is given."""
    return secrets.randbits(64) if seed is None else whole("seed", seed, error=ModelError)


@dataclass(frozen=True, repr=False)
class FittedModel:
    """A distribution of complete rows, perhaps one of rows with their gaps, and what was promised for it.

    Attributes:
        schema: of the rows it samples.
        filled: the distribution over observed cells, gaps completed.
        gapped: the distribution over all cells, gap states included; None if the gaps were not measured.
        total: the noisy number of rows; the default size of a sample.
        facts: how it was made and what was promised for it.
        within_bin_counts: released counts of the cells of columns with learned bins; values in a bin are drawn by
            them.
        measurements: the released tables that it was learned from; None if it cannot be learned from tables again.
        critic: that of a generative network, if it was paid for itself; None else.
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
        """Whether anything was promised for it: not if the noise was that of a test."""
        return self.facts.private

    @one_thread()
    def sample(
        self,
        rows: int | None = None,
        *,
        seed: int | None = None,
        gaps: Gaps = "filled",
        given: Mapping[str, object] | None = None,
    ) -> Table:
        """Draw synthetic rows: free, as often as you like, repeatable with a seed.

        Args:
            rows: how many; by default the noisy number of rows of the private table.
            seed: repeat a sample; by default every sample is new.
            gaps: "filled" for complete rows, "as-observed" to draw the missing states as well.
            given: what every row has in some columns, by their names: a value, or the name of a cell. The other cells
                are drawn from the model's law given these; a number tells the model no more than its bin does.
        """
        rows, seed = self._rows(rows), seed_or_new(seed)
        try:
            return self._sample(rows, seed, gaps, given)
        except MemoryError:
            raise ModelError(f"not enough memory for {plural(rows, 'row')}", hint="draw fewer rows") from None

    def _rows(self, rows: int | None) -> int:
        """How many rows are drawn: by default the noisy number of rows of the private table."""
        return whole(
            "rows", max(0, round(self.total)) if rows is None else rows, error=ModelError, least=0, most=MOST_ROWS
        )

    def _sample(self, rows: int, seed: int, gaps: Gaps, given: Mapping[str, object] | None) -> Table:
        rng = np.random.default_rng(seed)
        cells = {
            place: cell_of(self.schema.columns[place], value)
            for place, value in zip(self.schema.positions(given or ()), (given or {}).values(), strict=True)
        }
        # A cell without a position is a whole bin that was given.
        told = {place: position for place, (_, position) in cells.items() if not math.isnan(position)}
        rules = self._rules_for(told) if told else self._rules
        law = self._distribution(gaps)
        if cells:
            known = self._known({place: code for place, (code, _) in cells.items()}, gaps, rows, rules)
            codes, broken = self._fill(law, known, lambda: rng.random(rows), rules)
        else:
            codes, broken = rules.draw(lambda some: law.sample(len(some), rng), rows, lambda: rng.random(rows))
        values, out = self._draw_values(rules, codes, rng, told)
        out[broken] = True
        if out.all() and rows and not cells:  # chosen one by one, rules may contradict each other; or few keep them
            codes, values, out = self._around_possible_rows(codes, rng)
        if out.any():  # after all tries: others of the rows in their place
            if out.all():
                raise ModelError(
                    "the constraints leave hardly any possible row", hint="choose other given cells, or fewer of them"
                )
            kept = np.arange(rows)
            kept[out] = rng.choice(np.flatnonzero(~out), int(out.sum()))
            codes, values = codes[kept], [None if known is None else known[kept] for known in values]
        return Table(self.schema, list(codes.T), rows=rows, seed=seed, values=values)

    def _draw_values(
        self, rules: ConstraintSampler, codes: NDArray[Any], rng: np.random.Generator, given: Mapping[int, float]
    ) -> tuple[Values, NDArray[np.bool_]]:
        """Values inside the bins of rows, by column where there are any; and which rows break a rule by them."""
        draw = partial(self._draw_within_bins, rng)
        names = enumerate(self.schema.names)
        values = [draw(place, codes[:, place]) if name in self.within_bin_counts else None for place, name in names]
        return values, rules.write(codes, values, draw, given=given)

    def _around_possible_rows(
        self, codes: NDArray[Any], rng: np.random.Generator
    ) -> tuple[NDArray[Any], Values, NDArray[np.bool_]]:
        """The rows, with cells that keep all rules in the columns that rules name, and their values."""
        named = sorted({column for rule in rules_of(self.schema) for column in rule.columns})
        for row in ConstraintSampler.possible_rows(self.schema, self.filled, self.within_bin_counts):
            rules = self._rules_for({}, row=row)
            tried = codes[np.arange(max(len(codes), _TRIED)) % len(codes)]
            tried[:, named] = row[named]
            values, out = self._draw_values(rules, tried, rng, {})
            kept = np.flatnonzero(~(out | rules.breaks(tried)))
            if len(kept):
                kept = kept[np.arange(len(codes)) % len(kept)]
                values = [None if known is None else known[kept] for known in values]
                return tried[kept], values, np.zeros(len(codes), dtype=np.bool_)
        raise ModelError("no row was found that keeps all constraints", hint="check them for conflicts")

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
        """Draw synthetic rows into a CSV (also .csv.gz, .tsv) or Parquet file; how many they are.

        A million rows are drawn and written at a time, so that memory does not grow with their number. Each of these
        parts is a sample as `sample` draws it, the first with the very seed, the others with seeds that follow from it.
        A file that is cut short, by a full disk or Ctrl-C, is not there, and one that was there before stays.

        Args:
            path: the file.
            rows: how many; by default the noisy number of rows of the private table.
            seed: repeat a sample; by default every sample is new.
            gaps: "filled" or "as-observed".
            given: what every row has in some columns, by their names.
            progress: called with the phase, how many parts are done, of how many.
        """
        rows, seed, path = self._rows(rows), seed_or_new(seed), Path(path)
        parts = max(1, -(-rows // PART_ROWS))
        tell = progress or (lambda *_: None)

        def frames() -> Iterator[pl.DataFrame]:
            for part in range(parts):
                tell("sampling", part, parts)
                many = min(PART_ROWS, rows - part * PART_ROWS)
                yield self.sample(many, seed=_seed_of(seed, part), gaps=gaps, given=given).frame_to_write(path)
            tell("sampling", parts, parts)

        write_frames(frames(), path, self.schema)
        return rows

    def copies(self, many: int = 20, *, seed: int | None = None, progress: Progress | None = None) -> Copies:
        """Tables that might have come out as well, for honest intervals by `gapless.pool`: free, as all samples are.

        Args:
            many: how many; at least 2.
            seed: repeat them; by default they are new.
            progress: called with the phase, how much of it is done, of how much, while they are made.
        """
        many = whole("many", many, error=ModelError, least=2)  # their differences show the noise
        if self.measurements is None:
            raise ModelError(
                f"this model by {self.method} keeps no released tables from which it could be learned again",
                hint="a model by mst, aim, mixture, privbayes or independent, fitted by this gapless or a newer one",
            )
        return Copies(self, many, seed_or_new(seed), self.measurements, progress)

    def _draw_within_bins(self, rng: np.random.Generator, place: int, codes: NDArray[Any]) -> NDArray[np.float64]:
        """Positions inside the bins of a column on a line: by what was released of its cells, else evenly."""
        column = self.schema.columns[place]
        assert isinstance(column, BinnedColumn)  # noqa: S101 for mypy: others have no bins
        return column.draw_positions(self.within_bin_counts.get(column.name), codes, rng)

    @cached_property
    def _rules(self) -> ConstraintSampler:
        """The schema's rules as this model keeps them: a function of released values, computed once."""
        return self._rules_for({})

    def _rules_for(self, values: Mapping[int, float], *, row: NDArray[np.int64] | None = None) -> ConstraintSampler:
        """The same where all rows have these values, computed anew if a rule between rows looks at them.

        Or so that a `row` is possible.
        """
        if values and not self._rules.names(values):
            return self._rules
        return ConstraintSampler.of(
            self.schema, self.filled, self.within_bin_counts, self.facts.broken, values, row=row
        )

    @one_thread()
    def impute(self, table: Table, *, seed: int | None = None) -> Table:
        """A public table with its gaps drawn from the model, given the other cells of each row, which stay as they are.

        For a private table: `ImputeFirst(FromModel(model))` before a synthesizer.
        """
        private = Call("ImputeFirst", Call("FromModel", ...))
        check_public(
            table,
            "impute() fills",
            private=Hint("pass ", Argument("missing", private), " to fill a private table unseen"),
        )
        if [(c.name, c.size) for c in self.schema.columns] != [(c.name, c.size) for c in table.schema.columns]:
            if self.schema.finest.columns != table.schema.finest.columns:
                raise ModelError(
                    "the table has other columns or cells than the model", hint="read it with the model's schema"
                )
            table = table.rebin(self.schema)  # in the bins that were learned
        seed = seed_or_new(seed)
        rng = np.random.default_rng(seed)
        codes = fill_given(table.codes, self, lambda: rng.random(table.rows))
        return table.with_codes(codes, schema=table.schema, seed=seed)

    @one_thread()
    def fill(self, given: NDArray[np.int64], chance: Chance) -> NDArray[np.integer]:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws.

        A row that breaks a constraint is mended or drawn again, a fixed number of times at the most; one that must
        break it because of what is observed in it stays so.
        """
        return self._fill(self.filled, given, chance, self._rules)[0]

    def _fill(
        self, distribution: Distribution, given: NDArray[np.int64], chance: Chance, rules: ConstraintSampler
    ) -> tuple[NDArray[np.integer], NDArray[np.intp]]:
        if not isinstance(distribution, CanFill):
            raise ModelError(
                f"a model by {self.method} cannot be drawn from given some cells of a row",
                hint="a model by mst, aim or mixture",
            )
        law: CanFill = distribution
        return rules.draw(
            lambda rows: law.fill(given[rows], partial(chance_of_rows, chance, rows)),
            len(given),
            chance,
            free=given < 0,
        )

    def marginal(self, columns: str | Sequence[str], *, gaps: Gaps = "filled") -> NDArray[np.float64]:
        """The model's probabilities of each combination of cells of these columns."""
        places = self.schema.positions((columns,) if isinstance(columns, str) else columns)
        distribution = self._distribution(gaps)
        if not isinstance(distribution, HasMarginal):
            raise ModelError(f"a model by {self.method} has no marginals", hint="count them in a large sample instead")
        return distribution.marginal(places)

    def marginal_if_known(self, columns: str | Sequence[str], *, gaps: Gaps = "filled") -> NDArray[np.float64] | None:
        """The same; None if the model has no marginals, or its columns lie too far apart to be computed."""
        if not isinstance(self._distribution(gaps), HasMarginal):
            return None
        try:
            return self.marginal(columns, gaps=gaps)
        except ModelError:  # the cells of the tables on the way are known only on the way
            return None

    def _distribution(self, gaps: Gaps) -> Distribution:
        """The distribution with or without gaps, which are one where no column may be missing."""
        if gaps == "filled":
            return self.filled
        if gaps != "as-observed":
            raise ModelError(
                f"no gaps called {gaps!r}",
                hint=Hint("pass ", Argument("gaps", "filled")) | Hint("pass ", Argument("gaps", "as-observed")),
            )
        if not any(column.gaps for column in self.schema.columns):
            return self.filled
        if self.gapped is None:
            raise ModelError(
                "this model did not measure the gaps", hint=Hint("fit it with ", Argument("missing", Call("Extended")))
            )
        return self.gapped

    def _known(self, given: Mapping[int, int], gaps: Gaps, rows: int, rules: ConstraintSampler) -> NDArray[np.int64]:
        """Rows that have these cells, -1 in all others.

        Cells that the model, or one of its rules, holds impossible together are refused: there is no law given them.
        """
        columns = [self.schema.columns[place] for place in given]
        few = prod(column.extended_size for column in columns) <= _KNOWN_CELLS
        law = self.marginal_if_known([column.name for column in columns], gaps=gaps) if few else None
        # Where gaps are drawn too, a cell that is not given may be one, and breaks no rule.
        perhaps = {} if gaps == "filled" else {i: c.size for i, c in enumerate(self.schema.columns) if c.gaps}
        if (law is not None and not law[tuple(given.values())] > 0) or not rules.leaves({**perhaps, **given}):
            cells = (f"{c.name} = {c.cells[code]}" for c, code in zip(columns, given.values(), strict=True))
            raise ModelError(f"no row of this model has {listing(cells)}", hint="other cells, or fewer of them")
        known = np.full((rows, len(self.schema.columns)), -1, dtype=np.int64)
        known[:, list(given)] = list(given.values())
        return known

    def constraints(self) -> list[str]:
        """The schema's rules and what becomes of them in samples, a line for each."""
        not_enforced = self.not_enforced()
        soft = {rule.rule.text: self._rules.soft_rules[rule.rule.text] for rule in soft_rules_of(self.schema)}
        told = []
        for rule in (constraint.forbidden for constraint in self.schema.constraints):
            if rule in soft:
                counted = self.facts.broken.get(rule)
                noisy = ""
                if counted is not None:
                    noisy = f" (of some pairs {counted[0]:.2%} did, ± {1.96 * counted[1]:.2%} by noise)"
                told.append(
                    f"constraint soft, {soft[rule].violating_share:.2%} of pairs expected to break it{noisy}: {rule}"
                )
            else:
                told.append(f"constraint {'not enforced' if rule in not_enforced else 'kept'}: {rule}")
        return [*told, *([self.pinned()] if self.pinned() else [])]

    def pinned(self) -> str:
        """A sentence on the columns whose bins have one value each because of constraints, else nothing."""
        pinned = sorted({column for chosen in self._rules.allowed_sets for column in chosen.pinned})
        if not pinned:
            return ""
        names = listing(self.schema.names[column] for column in pinned)
        return (
            f"so that values keep the constraints, bins have one value each where that is needed: {names}. "
            "Narrower bins, or edges in the schema, would keep more values"
        )

    def not_enforced(self) -> list[str]:
        """The schema's rules that samples of this model may break."""
        return constraints_of(self.schema)[2]

    def __repr__(self) -> str:
        columns = plural(len(self.schema.columns), "column")
        return f"<{type(self).__name__} by {self.method} of {self.schema.name!r}: {columns}>"

    def describe(self) -> str:
        """What was measured and how, in words."""
        lines = [
            f"{self.method}: {plural(len(self.schema.columns), 'column')} of '{self.schema.name}', "
            f"about {plural(max(0, round(self.total)), 'row')}",
            *(f"  {name}: {value}" for name, value in self.facts.settings.items()),
            *(f"  {sentence}" for sentence in self.facts.limits),
            *(f"  {line}" for line in self.constraints()),
            *(f"  {line}" for line in self.facts.structure),
        ]
        return "\n".join(lines)

    def noise_warning(self) -> str:
        """A sentence if a typical cell of a typical column is lost in noise, else nothing; from released values only.

        A cell of a column with k cells holds n/k rows on average, n the noisy number of rows. It is lost if 1.96
        standard deviations of its noise reach that far; so is the release if that holds for half of the columns.
        """
        known = self.facts.noise
        shares = [
            known[column.name] * column.size / max(1.0, self.total)
            for column in self.schema.columns
            if column.name in known
        ]
        if not shares or 1.96 * (typical := float(np.median(shares))) < 1:
            return ""
        return (
            f"noise dominates this release: in a typical column its standard deviation is {100 * typical:,.0f}% of the "
            "mean cell. More of the budget, fewer columns or fewer cells in them would help."
        )

    def picture(self) -> str:
        """An SVG drawing of the columns that are modelled together, from released values.

        Where the model has no marginals, they are counted in a sample.
        """
        rows = None if isinstance(self.filled, HasMarginal) else self.sample(_PICTURED, seed=0)
        edges = [(column, other, self._strength(column, other, rows)) for column, other in self.facts.edges]
        title = f"Columns of '{shortened(self.schema.name, 30)}' that are modelled together"
        return draw_structure(self.schema.names, edges, title=title)

    def _strength(self, column: int, other: int, rows: Table | None) -> float:
        names = [self.schema.names[column], self.schema.names[other]]
        law = self.marginal_if_known(names) if rows is None else rows.marginal(names) / _PICTURED
        return 0.0 if law is None else cramers_v(law) or 0.0  # what is not known is a thin line

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the model to a file; `gapless.load` reads it. There is no row and no pickle in it.

        What lies there was perhaps paid for, so that only `overwrite` replaces it.
        """
        if not overwrite and os.path.lexists(path):
            raise ModelError(
                f"{path} exists",
                hint=Hint("choose another name")
                | Hint("pass ", Argument("overwrite", True), " if nobody needs the old file"),
            )
        archive.save(Path(path), *self._parts())

    def sanitized(self) -> FittedModel:
        """The same model, made anew of plain numbers and text as from a file: what else it held stays behind."""
        head, arrays = self._parts()
        plain = {name: np.array(array) for name, array in arrays.items()}
        if any(array.dtype.hasobject for array in plain.values()):
            raise ModelError("this model holds more than numbers", hint="a model that was fitted or loaded here")
        return FittedModel.from_file(json.loads(json.dumps(head)), plain)

    def _parts(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """What a file holds of it."""
        head: dict[str, Any] = {"schema": self.schema.to_toml(), "total": self.total, "facts": self.facts.to_json()}
        head |= {part: getattr(self, part).kind for part in ("filled", "gapped") if getattr(self, part) is not None}
        names = enumerate(self.schema.names)
        arrays = {
            f"inside/{place}": self.within_bin_counts[name] for place, name in names if name in self.within_bin_counts
        }
        parts = {"filled": self.filled, "gapped": self.gapped, "evidence": self.measurements, "critic": self.critic}
        for part, held in parts.items():
            if held is not None:
                arrays |= {f"{part}/{name}": array for name, array in held.to_arrays().items()}
        return head, arrays

    @classmethod
    def from_file(cls, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that a file holds."""
        if "filled" not in head:
            raise ModelError("the model file holds no distribution", hint="fit and save it again")
        parts: dict[str, Any] = {"evidence": Measurements, "critic": Critic}
        for part in ("filled", "gapped"):
            if part in head and head[part] not in _DISTRIBUTIONS:
                hint = nearest(str(head[part]), _DISTRIBUTIONS)
                raise ModelError(f"there is no distribution called {head[part]!r}", hint=hint)
            parts[part] = _DISTRIBUTIONS.get(head.get(part, ""))
        for part, kind in parts.items():
            held = {
                name.removeprefix(f"{part}/"): array for name, array in arrays.items() if name.startswith(f"{part}/")
            }
            parts[part] = kind.from_arrays(held) if kind and (held or part in head) else None
        schema = Schema.from_toml(head["schema"])
        places = enumerate(schema.names)
        counts = {name: arrays[f"inside/{place}"] for place, name in places if f"inside/{place}" in arrays}
        return cls(
            schema,
            total=head["total"],
            facts=Facts.from_json(head["facts"]),
            within_bin_counts=counts,
            measurements=parts.pop("evidence"),
            **parts,
        )


def _seed_of(seed: int, part: int) -> int:
    """The seed of a part of a sample: that of the first is the sample's own."""
    return seed if part == 0 else int(np.random.SeedSequence([seed, part]).generate_state(1, np.uint64)[0])


LONGEST_NAME = 30


def draw_structure(names: Sequence[str], edges: Sequence[Edge], *, title: str = "Columns modelled together") -> str:
    """Columns on a circle, and a line for each two that are modelled together; the stronger, the thicker.

    Of very many lines the weakest are left out, with a word on it.

    Args:
        names: of the columns.
        edges: two columns and how strongly they depend on each other in the model, from 0 to 1.
        title: above the drawing.

    >>> draw_structure(["age", "sex"], [(0, 1, 0.5)]).count('class="strong"')
    2
    """
    labels = [shortened(name, LONGEST_NAME) for name in names]
    return ring(title, names, edges, labels=labels, legend=_legend(edges))


def _legend(edges: Sequence[Edge]) -> list[Html]:
    """What the lines mean, and how many there are of each kind."""
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
