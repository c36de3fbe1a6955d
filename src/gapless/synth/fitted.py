"""What every synthesizer gives back: a model that can be sampled, saved and described for free."""

from __future__ import annotations

import math
import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from math import prod
from pathlib import Path
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.arguments import whole
from gapless.data import Table
from gapless.data.checks import check_public
from gapless.data.filling import Chance, fill_given
from gapless.errors import ModelError
from gapless.model import archive
from gapless.model.autoregressive import AutoregressiveModel
from gapless.model.distribution import CanFill, Distribution, HasMarginal
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import cramers_v
from gapless.model.mixture import MixtureModel
from gapless.model.network import BayesianNetwork
from gapless.model.product import Product
from gapless.schema import Schema
from gapless.schema.comparison import cell_of
from gapless.schema.constraints import Dependency, Forbidden, breaks, constraints_of, decide
from gapless.schema.line import _Binned
from gapless.schema.words import listing, nearest, shortened
from gapless.synth.drawing import draw_structure
from gapless.synth.facts import Facts

Gaps: TypeAlias = Literal["filled", "as observed"]
Progress: TypeAlias = Callable[[str, int, int], object]  # the phase, how much is done, of how much

_DISTRIBUTIONS: dict[str, type[Distribution]] = {
    kind.kind: kind for kind in (Product, GraphicalModel, BayesianNetwork, MixtureModel, AutoregressiveModel)
}
_TRIES = 50
_PICTURED = 10_000  # rows in which pairs are counted
_KNOWN_CELLS = 1 << 20  # of the marginal by which given cells are found impossible


def seed_or_new(seed: int | None) -> int:
    """The seed of a sample: a new one unless it is given."""
    return secrets.randbits(64) if seed is None else whole("seed", seed, error=ModelError)


def _some(chance: Chance, rows: NDArray[np.intp]) -> NDArray[np.float64]:
    """Fresh numbers of some rows: each row keeps its own place in what chance gives."""
    return chance()[rows]


def _kept(codes: NDArray[Any], forbidden: list[Forbidden], rng: np.random.Generator, *, hint: str) -> NDArray[Any]:
    """The rows, those that break a rule after all tries replaced by others of them."""
    lawful = np.flatnonzero(~breaks(codes, forbidden))
    if len(lawful) == len(codes):
        return codes
    if not len(lawful):
        raise ModelError("the constraints leave hardly any possible row", hint=hint)
    kept: NDArray[Any] = codes[rng.choice(lawful, len(codes))]
    return kept


@dataclass(frozen=True, repr=False)
class FittedModel:
    """A distribution of complete rows, perhaps one of rows with their gaps, and what was promised for it.

    Attributes:
        schema: of the rows it samples.
        filled: the distribution over observed cells, gaps completed.
        gapped: the distribution over all cells, gap states included; None if the gaps were not measured.
        total: the noisy number of rows; the default size of a sample.
        facts: how it was made and what was promised for it.
        inside: what was released of the cells of columns whose bins were learned; values in a bin are drawn by it.
    """

    schema: Schema
    filled: Distribution
    gapped: Distribution | None
    total: float
    facts: Facts
    inside: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The name of the synthesizer."""
        return self.facts.method

    @property
    def private(self) -> bool:
        """Whether anything was promised for it: not if the noise was that of a test."""
        return self.facts.private

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
            gaps: "filled" for complete rows, "as observed" to draw the missing states as well.
            given: what every row has in some columns, by their names: a value, or the name of a cell. The other cells
                are drawn from the model's law given these; a number tells the model no more than its bin does.
        """
        rows = whole("rows", max(0, round(self.total)) if rows is None else rows, error=ModelError)
        seed = seed_or_new(seed)
        rng = np.random.default_rng(seed)
        if not given:
            codes = self._lawful(self._distribution(gaps), rows, rng)
            return Table(self.schema, list(codes.T), rows=rows, seed=seed, values=self._values(codes, rng))
        places = self.schema.positions(given)
        cells = [
            cell_of(self.schema.columns[place], value) for place, value in zip(places, given.values(), strict=True)
        ]
        codes = self._lawful_given(
            {place: code for place, (code, _) in zip(places, cells, strict=True)}, gaps, rows, rng
        )
        values = self._values(codes, rng)
        for place, (_, position) in zip(places, cells, strict=True):
            if not math.isnan(position):  # else a whole bin was given
                values[place] = np.full(rows, position)
        return Table(self.schema, list(codes.T), rows=rows, seed=seed, values=values)

    def _values(self, codes: NDArray[Any], rng: np.random.Generator) -> list[NDArray[np.float64] | None]:
        """Positions inside the bins, for columns of which more than bins was released."""
        return [
            column.draw_by(self.inside[column.name], codes[:, place], rng)
            if column.name in self.inside and isinstance(column, _Binned)
            else None
            for place, column in enumerate(self.schema.columns)
        ]

    def impute(self, table: Table, *, seed: int | None = None) -> Table:
        """A public table with its gaps drawn from the model, given the other cells of each row, which stay as they are.

        For a private table: `ImputeFirst(FromModel(model))` before a synthesizer.
        """
        told = "missing=ImputeFirst(FromModel(model)) fills a private one, and never shows it"
        check_public(table, "impute() fills", private=told)
        if [(c.name, c.size) for c in self.schema.columns] != [(c.name, c.size) for c in table.schema.columns]:
            if self.schema.fine.columns != table.schema.fine.columns:
                raise ModelError(
                    "the table has other columns or cells than the model", hint="read it with the model's schema"
                )
            table = table.told_by(self.schema)  # in the bins that were learned
        seed = seed_or_new(seed)
        rng = np.random.default_rng(seed)
        codes = fill_given(table.codes, self, lambda: rng.random(table.rows))
        return table.with_codes(codes, schema=table.schema, seed=seed)

    def fill(self, given: NDArray[np.int64], chance: Chance) -> NDArray[np.integer]:
        """Rows × columns of codes, those that are -1 drawn given the others: a map of each row and its own draws.

        A row that breaks a constraint is drawn again, a fixed number of times at the most; one that must break it
        because of what is observed in it stays so.
        """
        return self._fill(self.filled, given, chance, *self._rules())

    def _fill(
        self,
        distribution: Distribution,
        given: NDArray[np.int64],
        chance: Chance,
        decided: list[Forbidden],
        forbidden: list[Forbidden],
    ) -> NDArray[np.integer]:
        if not isinstance(distribution, CanFill):
            raise ModelError(
                f"a model by {self.method} cannot be drawn from given some cells of a row",
                hint="a model by mst, aim or mixture",
            )
        codes = decide(distribution.fill(given, chance), decided, free=given < 0)
        for _ in range(_TRIES if forbidden else 0):
            broken = np.flatnonzero(breaks(codes, forbidden) & (given < 0).any(axis=1))
            if not len(broken):
                break
            again = distribution.fill(given[broken], partial(_some, chance, broken))
            codes[broken] = decide(again, decided, free=given[broken] < 0)
        return codes

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
        if gaps == "filled":
            return self.filled
        if gaps.replace("-", " ") != "as observed":  # the command line has as-observed
            raise ModelError(f"no gaps called {gaps!r}", hint='gaps="filled" or gaps="as observed"')
        if self.gapped is None:
            raise ModelError("this model did not measure the gaps", hint="fit it with missing=Extended()")
        return self.gapped

    def _lawful(self, distribution: Distribution, rows: int, rng: np.random.Generator) -> NDArray[Any]:
        """Rows that keep the schema's constraints.

        What a dependency decides is put in; rows that break a rule are drawn again, so the law is the one given them. A
        graphical model has the constraints as structural zeros, and nothing is ever changed.
        """
        decided, forbidden = self._rules()
        codes = decide(distribution.sample(rows, rng), decided)
        for _ in range(_TRIES if forbidden else 0):
            broken = np.flatnonzero(breaks(codes, forbidden))
            if not len(broken):
                return codes
            codes[broken] = decide(distribution.sample(len(broken), rng), decided)
        return _kept(codes, forbidden, rng, hint="check them for conflicts")

    def _lawful_given(
        self, given: Mapping[int, int], gaps: Gaps, rows: int, rng: np.random.Generator
    ) -> NDArray[np.integer]:
        """Rows that have these cells and keep the schema's constraints, from the law given the cells.

        Cells that the model holds impossible together are refused: there is no law given them.
        """
        hint = "other cells, or fewer of them"
        columns = [self.schema.columns[place] for place in given]
        few = prod(column.extended_size for column in columns) <= _KNOWN_CELLS
        law = self.marginal_if_known([column.name for column in columns], gaps=gaps) if few else None
        if law is not None and not law[tuple(given.values())] > 0:
            cells = (f"{c.name} = {c.cells[code]}" for c, code in zip(columns, given.values(), strict=True))
            raise ModelError(f"no row of this model has {listing(cells)}", hint=hint)
        known = np.full((rows, len(self.schema.columns)), -1, dtype=np.int64)
        known[:, list(given)] = list(given.values())
        decided, forbidden = self._rules()
        codes = self._fill(self._distribution(gaps), known, lambda: rng.random(rows), decided, forbidden)
        return _kept(codes, forbidden, rng, hint=hint)

    def _rules(self) -> tuple[list[Forbidden], list[Forbidden]]:
        """What learned dependencies forbid, and all that no row may hold: that and the schema's own combinations."""
        forbidden, dependencies, _ = constraints_of(self.schema)
        if not isinstance(law := self.filled, HasMarginal):
            return [], list(forbidden)
        decided = [rule.forbidden(law.marginal(rule.columns)) for rule in dependencies if self._learned(rule)]
        return decided, [*forbidden, *decided]

    def _learned(self, rule: Dependency) -> bool:
        """Whether the columns of a dependency were measured together, so that the model knows what decides what."""
        together = all(pair in self.facts.edges for pair in combinations(sorted(rule.columns), 2))
        return together and isinstance(self.filled, HasMarginal)

    def not_enforced(self) -> list[str]:
        """The schema's rules that samples of this model may break."""
        _, dependencies, others = constraints_of(self.schema)
        names = self.schema.names
        unknown = [rule for rule in dependencies if not self._learned(rule)]
        return [
            *(" and ".join(names[c] for c in r.columns[:-1]) + f" decides {names[r.columns[-1]]}" for r in unknown),
            *others,
        ]

    def __repr__(self) -> str:
        return f"<{type(self).__name__} by {self.method} of {self.schema.name!r}: {len(self.schema.columns)} columns>"

    def describe(self) -> str:
        """What was measured and how, in words."""
        lines = [
            f"{self.method}: {len(self.schema.columns)} columns of '{self.schema.name}', "
            f"about {max(0, round(self.total))} rows",
            *(f"  {name}: {value}" for name, value in self.facts.settings.items()),
            *(f"  {sentence}" for sentence in self.facts.limits),
            *(f"  constraint not enforced: {rule}" for rule in self.not_enforced()),
            *(f"  {line}" for line in self.facts.structure),
        ]
        return "\n".join(lines)

    def lost_in_noise(self) -> str:
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
            raise ModelError(f"{path} exists", hint="another name; overwrite=True if nobody needs what lies there")
        head: dict[str, Any] = {
            "schema": self.schema.to_toml(),
            "total": self.total,
            "facts": self.facts.to_json(),
        }
        arrays: dict[str, NDArray[Any]] = {}
        for part in ("filled", "gapped"):
            distribution: Distribution | None = getattr(self, part)
            if distribution is not None:
                head[part] = distribution.kind
                arrays |= {f"{part}/{name}": array for name, array in distribution.to_arrays().items()}
        names = enumerate(self.schema.names)
        arrays |= {f"inside/{place}": self.inside[name] for place, name in names if name in self.inside}
        archive.save(Path(path), head, arrays)

    @classmethod
    def from_file(cls, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The model that a file holds."""
        parts: dict[str, Distribution | None] = {"filled": None, "gapped": None}
        for part in parts:
            if part in head:
                if head[part] not in _DISTRIBUTIONS:
                    raise ModelError(
                        f"there is no distribution called {head[part]!r}", hint=nearest(str(head[part]), _DISTRIBUTIONS)
                    )
                inside = {
                    name.removeprefix(f"{part}/"): array
                    for name, array in arrays.items()
                    if name.startswith(f"{part}/")
                }
                parts[part] = _DISTRIBUTIONS[head[part]].from_arrays(inside)
        filled = parts["filled"]
        if filled is None:
            raise ModelError("the model file holds no distribution", hint="fit and save it again")
        schema = Schema.from_toml(head["schema"])
        inside = {
            name: arrays[f"inside/{place}"] for place, name in enumerate(schema.names) if f"inside/{place}" in arrays
        }
        return cls(schema, filled, parts["gapped"], head["total"], Facts.from_json(head["facts"]), inside)
