r"""Gap mechanisms: they make gaps in public tables, for experiments.

- `MCAR`, completely at random: gaps depend on nothing.
- `MAR`, at random: some columns stay observed, and their values drive the gaps of the others.
- `MNAR`, not at random: the missing values drive the gaps.

If values drive gaps, a cell is missing with probability :math:`\sigma(s(x) + b)`. The score s is a sum of one term for
each driving column: a normal weight times the position of the cell on the column's scale (0 to 1). For levels without
an order and for *not applicable*, it is a normal weight for each cell. A gap that was there before adds nothing. s is
divided by its standard deviation. Bisection finds the intercept b for which the mean probability is the given rate.
Both are computed on a public `reference` table, or, without one, on the table itself. In the latter case the masks of
two rows depend on each other through these two numbers, and ground-truth figures, which assume independent rows
(docs/proofs/ground_truth.md), do not hold for the result. `calibrated_on` says which it is.

After Muzellec, Josse, Boyer and Cuturi 2020, as in [MD] §2.1 and §6.1. Nothing here is private: a `PrivateTable` is
refused.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, Literal, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data import Table
from gapless.data.checks import READ_PUBLIC, check_public
from gapless.errors import Argument, Hint, SchemaError
from gapless.privacy import assumptions
from gapless.privacy.assumptions import Rate, checked_rate
from gapless.schema import Column, MissingCode, Schema
from gapless.text import check_one_of
from gapless.types import Floats, checked_number, is_number, whole

Flags: TypeAlias = NDArray[np.bool_]


class GapMechanism(ABC):
    """A mechanism that makes gaps in public tables."""

    __slots__ = ()
    rates: Rate

    @property
    def reference(self) -> Table | None:
        """A public table on which probabilities are calibrated. Without it, the table itself."""
        return None

    def mask(self, table: Table, *, seed: int | None = None) -> Flags:
        """Which observed cells become gaps, rows × columns."""
        check_public(table, "making gaps needs", private=READ_PUBLIC)
        schema, reference = table.schema, table if self.reference is None else self.reference
        if isinstance(self.rates, Mapping):
            schema.positions(self.rates)
        if [(c.name, c.size) for c in reference.schema.columns] != [(c.name, c.size) for c in schema.columns]:
            raise SchemaError(
                "reference has other columns or cells than the table", hint="read both with the same schema"
            )
        rng = np.random.default_rng(secrets.randbits(64) if seed is None else whole("seed", seed, error=SchemaError))
        rates = np.array([_rate_of(self.rates, name) for name in schema.names])
        return self._draw(table, reference, rates, rng) & _observed(table)

    @abstractmethod
    def _draw(self, table: Table, reference: Table, rates: Floats, rng: np.random.Generator) -> Flags:
        """Which cells become gaps if they are observed, rows × columns. `rates` has one rate for each column."""

    def apply(self, table: Table, *, seed: int | None = None) -> Table:
        """The table with gaps. Columns that get gaps may be missing in its schema."""
        return with_gaps(table, self.mask(table, seed=seed))


class MCAR(assumptions.MCAR, GapMechanism):
    """Cells are missing completely at random, with one probability for each column.

    It makes such gaps in a public table, and it is an assumption about a private one for ground-truth accounting.

    Args:
        rates: the probability that a cell is missing, by column, 0 where none is named; or one number. That one holds
            for every column in which gaps are made (`apply` makes them in all), and as an assumption for every column
            that may be missing by its schema.
        columns: "independent" draws each cell by itself. "dependent" draws one number for each row, and a cell is
            missing where it is below the rate: cells of a row go missing together as much as the rates allow, the worst
            case for ground-truth accounting (docs/proofs/ground_truth.md).
        failure: as an assumption, the probability that a rate is wrong; 0 for public rates.

    >>> MCAR({"income": 0.2}).rate_of("income"), MCAR({"income": 0.2}).rate_of("age"), MCAR(0.1).rate_of("age")
    (0.2, 0.0, 0.1)
    """

    __slots__ = ()

    def rate_of(self, column: str) -> float:
        """The probability that a cell of this column is missing."""
        return _rate_of(self.rates, column)

    def _draw(self, table: Table, reference: Table, rates: Floats, rng: np.random.Generator) -> Flags:  # noqa: ARG002
        many = len(rates) if self.columns == "independent" else 1
        return rng.random((table.rows, many)) < rates


@dataclass(frozen=True, slots=True)
class ValueDrivenGaps(GapMechanism):
    """Gaps that depend on values: MAR and MNAR."""

    rates: Rate
    reference: Table | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", checked_rate(self.rates, type(self).__name__))
        if self.reference is not None:
            check_public(self.reference, "reference must be", private=READ_PUBLIC)

    @property
    def calibrated_on(self) -> Literal["reference", "table"]:
        """The table on which scores, intercepts and tails are calibrated."""
        return "table" if self.reference is None else "reference"


@dataclass(frozen=True, slots=True)
class MAR(ValueDrivenGaps):
    """Cells are missing at random: columns that stay observed drive the gaps of the others.

    Args:
        rates: of gaps in the columns that get any: one for all of them, or by column.
        observed: the columns that stay observed and drive the gaps, by name, or which share of all columns, drawn by
            chance (0.5 in [MD]). With rates by column it is those without one, unless names are given.
        reference: a public table on which scores are scaled and intercepts found; without it, the table itself.
    """

    observed: float | Sequence[str] = field(default=0.5, kw_only=True)

    def __post_init__(self) -> None:
        ValueDrivenGaps.__post_init__(self)
        object.__setattr__(self, "observed", _checked_share("observed", self.observed))

    def _draw(self, table: Table, reference: Table, rates: Floats, rng: np.random.Generator) -> Flags:
        drivers = _driving_columns(self.observed, self.rates, table.schema, rng)
        if isinstance(self.rates, Mapping) and (both := [table.schema.names[c] for c in drivers if rates[c] > 0]):
            raise SchemaError(
                f"the column {both[0]!r} stays observed and has a rate, but observed columns have no gaps",
                hint=Hint(f"remove the rate of {both[0]!r}") | Hint(f"remove {both[0]!r} from ", Argument("observed")),
            )
        if not drivers:
            raise SchemaError(
                "no column stays observed, but gaps that are MAR depend on an observed column",
                hint="leave a column without a rate, or use MCAR",
            )
        rates[list(drivers)] = 0.0
        return _logistic(table, reference, rates, dict.fromkeys(range(len(rates)), drivers), rng)


@dataclass(frozen=True, slots=True)
class MNAR(ValueDrivenGaps):
    """Cells are missing not at random: the missing values drive the gaps.

    Args:
        rates: of gaps: one for all columns, or by column.
        how: "logistic": some columns drive the gaps of the others, then get gaps completely at random themselves;
            "self": each cell's own value drives whether it is missing;
            "quantile": only cells in the two tails of their column are missing, all of them alike.
        inputs: for "logistic", the columns that drive, by name, or which share of all columns, drawn by chance
            (0.3 in [MD]).
        quantile: for "quantile", the share of rows in each tail. Levels count in the order of the schema; where one
            cell reaches across the end of a tail it is missing as often as it reaches into it.
        reference: a public table on which scores, intercepts and tails are found; without it, the table itself.
    """

    how: Literal["logistic", "self", "quantile"] = field(default="logistic", kw_only=True)
    inputs: float | Sequence[str] = field(default=0.3, kw_only=True)
    quantile: float = field(default=0.25, kw_only=True)

    def __post_init__(self) -> None:
        ValueDrivenGaps.__post_init__(self)
        object.__setattr__(self, "inputs", _checked_share("inputs", self.inputs))
        check_one_of("how", self.how, ("logistic", "self", "quantile"), error=SchemaError)
        checked_number("quantile", self.quantile, 0, 0.5, "(]", error=SchemaError, example=0.25)
        highest = max(self.rates.values(), default=0.0) if isinstance(self.rates, Mapping) else self.rates
        if self.how == "quantile" and highest > 2 * self.quantile:
            raise SchemaError(
                f"a rate of {highest:g} does not fit into two tails of {self.quantile:g}: it must be at most their sum",
                hint=Hint("pass ", Argument("quantile", min(0.5, highest / 2)), " or more")
                | Hint("pass a smaller rate"),
            )

    def _draw(self, table: Table, reference: Table, rates: Floats, rng: np.random.Generator) -> Flags:
        if self.how == "self":
            return _logistic(table, reference, rates, {c: (c,) for c in range(len(rates))}, rng)
        if self.how == "quantile":
            chances = np.zeros((table.rows, len(rates)))
            for c, codes in enumerate(table.codes):
                chances[:, c] = rates[c] / (2 * self.quantile) * _in_tails(reference, c, self.quantile)[codes]
            return rng.random(chances.shape) < chances
        inputs = list(_driving_columns(self.inputs, 1.0, table.schema, rng))
        driven = rates.copy()
        driven[inputs] = 0.0
        flags = _logistic(table, reference, driven, dict.fromkeys(range(len(rates)), tuple(inputs)), rng)
        flags[:, inputs] = rng.random((table.rows, len(inputs))) < rates[inputs]
        return flags


MECHANISMS: dict[str, type[MCAR | MAR | MNAR]] = {"mcar": MCAR, "mar": MAR, "mnar": MNAR}


# ---------------------------------------------------------------------- gaps in tables and frames


def with_gaps(table: Table, flags: Flags) -> Table:
    """The table with these cells missing, as the first kind of gap of their column."""
    schema = schema_with_gaps(table.schema, flags)
    codes = []
    for old, column, flag in zip(table.codes, schema.columns, flags.T, strict=True):
        new = old.astype(np.uint16)
        if flag.any():
            new[flag] = column.code_of_gap(column.gaps[0])
        codes.append(new)
    return table.with_codes(codes, schema=schema)


def schema_with_gaps(schema: Schema, flags: Flags) -> Schema:
    """The schema with `may_be_missing` for columns with gaps."""
    columns = [
        _may_be_missing(column) if flag.any() else column for column, flag in zip(schema.columns, flags.T, strict=True)
    ]
    return replace(schema, columns=tuple(columns))


def frame_with_gaps(frame: pl.DataFrame, schema: Schema, flags: Flags) -> pl.DataFrame:
    """A frame with these cells missing: null, or in a text column the code of the schema."""
    for column, flag in zip(schema_with_gaps(schema, flags).file_columns, flags.T, strict=True):
        if not flag.any():
            continue
        series = frame[column.name]
        code = column.text_of_gap(column.gaps[0]) if series.dtype == pl.String else ""
        gap = pl.Series([code or None], dtype=series.dtype).new_from_index(0, frame.height)
        frame = frame.with_columns(gap.zip_with(pl.Series(flag), series).alias(column.name))
    return frame


def _may_be_missing(column: Column) -> Column:
    if column.gaps:
        return column
    missing = column.missing
    if not column.empty_is_a_gap:  # the empty cell has a meaning: a gap needs another code
        taken = {code.code for code in column.missing_codes} | set(map(str, column.cells))
        codes = chain(("NA", "missing"), (f"missing {number}" for number in count(2)))
        missing = (*missing, MissingCode(next(code for code in codes if code not in taken)))
    outside = None if column.outside == column.default_outside else column.outside
    return replace(column, may_be_missing=True, missing=missing, outside=outside)


# ---------------------------------------------------------------------- from rates to probabilities


def _rate_of(rate: Rate, column: str) -> float:
    return rate.get(column, 0.0) if isinstance(rate, Mapping) else rate


def _checked_share(name: str, share: Any) -> Any:
    if is_number(share) and 0 < share < 1:
        return float(share)
    names = list(share) if isinstance(share, Sequence) and not isinstance(share, str) else []
    if names and all(isinstance(column, str) for column in names):
        return tuple(share)
    raise SchemaError(
        f"{name} = {share!r}, but {name} must be a number between 0 and 1, or a list of columns",
        hint=Hint("pass a share of the columns, ", Argument(name, 0.5)) | Hint("pass a list of names of columns"),
    )


def _driving_columns(
    share: float | Sequence[str], rate: Rate, schema: Schema, rng: np.random.Generator
) -> tuple[int, ...]:
    """The columns that drive the gaps: those named, those without a rate, or a random share of all."""
    if not isinstance(share, float):
        return schema.positions(share)
    if isinstance(rate, Mapping):
        return tuple(c for c, name in enumerate(schema.names) if not rate.get(name, 0.0) > 0)
    many = len(schema.columns)
    return tuple(sorted(rng.choice(many, max(1, int(share * many)), replace=False).tolist()))


def _observed(table: Table) -> Flags:
    return np.stack([codes < c.size for codes, c in zip(table.codes, table.schema.columns, strict=True)], axis=1)


def _logistic(
    table: Table, reference: Table, rates: Floats, drivers: Mapping[int, Sequence[int]], rng: np.random.Generator
) -> Flags:
    """Which cells go missing with a logistic probability, given the driving columns of each column."""
    flags = np.zeros((table.rows, len(rates)), dtype=np.bool_)
    known = _observed(reference)
    for column in np.flatnonzero(rates > 0).tolist():
        weights = [_weights(table.schema.columns[c], rng) for c in drivers[column]]
        here, there = (
            np.sum([w[source.codes[c]] for c, w in zip(drivers[column], weights, strict=True)], axis=0)
            for source in (table, reference)
        )
        spread = float(there.std()) if len(there) else 0.0
        if spread > 0:
            here, there = here / spread, there / spread
        intercept = _intercept(there[known[:, column]], float(rates[column]))
        flags[:, column] = rng.random(table.rows) < _sigmoid(here + intercept)
    return flags


def _weights(column: Column, rng: np.random.Generator) -> Floats:
    """The term of each cell of a driving column in the score. Gaps have 0."""
    weights = np.zeros(column.extended_size + 2)  # also codes of gaps that another schema of the same cells may have
    if column.is_ordered:
        weights[: column.values_size] = rng.normal() * np.linspace(0, 1, column.values_size)
        weights[column.values_size : column.size] = rng.normal(size=column.size - column.values_size)
    else:
        weights[: column.size] = rng.normal(size=column.size)
    return weights


def _intercept(scores: Floats, rate: float) -> float:
    """The b for which the mean of σ(score + b) is the rate, by bisection."""
    if rate in {0.0, 1.0}:
        return np.inf if rate else -np.inf
    if not len(scores):
        scores = np.zeros(1)
    low, high = -60.0 - float(scores.max()), 60.0 - float(scores.min())
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _sigmoid(scores + middle).mean() < rate else (low, middle)
    return (low + high) / 2


def _sigmoid(scores: Floats) -> Floats:
    return np.asarray(0.5 * (1 + np.tanh(scores / 2)))


def _in_tails(reference: Table, column: int, quantile: float) -> Floats:
    """For each cell of a column, the share of its rows in the lower or upper tail of all rows."""
    size = reference.schema.columns[column].size
    counts = np.bincount(reference.codes[column], minlength=size)[:size].astype(np.float64)
    shares = counts / counts.sum() if counts.sum() else np.full(size, 1 / size)
    ends = np.cumsum(shares)
    starts = ends - shares
    low = np.clip(quantile - starts, 0, shares)
    high = np.clip(ends - (1 - quantile), 0, shares)
    in_tails = np.divide(np.minimum(low + high, shares), shares, out=np.zeros(size), where=shares > 0)
    return np.concatenate([in_tails, np.zeros(4)])
