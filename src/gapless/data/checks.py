"""Check the tables that were passed: public, sealed, or comparable."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapless.data.cutting import cut_schema
from gapless.data.private_table import PrivateTable
from gapless.data.table import WEIGHT, Table, check_weights
from gapless.errors import Argument, Call, Hint, ReadError, SchemaError, SealedError, Variable
from gapless.privacy.budget import RECOMMENDED_BUDGET
from gapless.schema import Schema
from gapless.schema.numeric import DEFAULT_BINS, BinnedColumn

_DATA, _SCHEMA, _OTHER = Variable("data"), Variable("schema"), Variable("other")
READ = Hint(
    "read the data with ",
    Call("gapless.read", _DATA, _SCHEMA, Argument("protect", Call("Rows", 1)), Argument("budget", RECOMMENDED_BUDGET)),
)
READ_PUBLIC = Hint("use ", Call("gapless.Table.read", _DATA, _SCHEMA), ", if the rows are public or synthetic")


def check_public(table: object, what: str, *, private: str) -> None:
    """Refuse what is not a public table; `private` is the hint for a sealed one.

    `what` begins the message and ends with a verb: "patterns() needs", "reference must be".
    """
    if isinstance(table, Table):
        return
    wrong = f"{what} a public Table, not a {type(table).__name__}"
    if isinstance(table, PrivateTable):
        raise SealedError(wrong, hint=private)
    raise ReadError(wrong, hint=READ_PUBLIC)


def check_private(table: object, what: str, *, public: str = READ) -> None:
    """Refuse what is not a sealed table; `public` is the hint for a public one.

    By exact class: distances follow from the protected unit of a table, and a subclass could state another.
    """
    if type(table) is not PrivateTable:
        hint = public if isinstance(table, Table) else READ
        raise SealedError(f"{what} takes a PrivateTable, not a {type(table).__name__}", hint=hint)


def check_comparable(*schemas: Schema) -> None:
    """Refuse schemas in which the same code can mean different cells."""
    first, *others = ([(column.name, column.cells) for column in schema.columns] for schema in schemas)
    for other in others:
        if other != first:
            odd = [column[0] for column in (*first, *other) if column not in first or column not in other]
            which = f"column {odd[0]!r}" if odd else "the order of the columns"
            wrong = f"the two tables have different schemas: they differ in {which}"
            raise SchemaError(wrong, hint="read both with the same schema")


def to_shared_bins(truth: Table, other: Table) -> tuple[Table, Table]:
    """Two public tables under the same bins; sealed tables, and tables with other cells, are refused.

    Bins that were learned for one of them are used for both. If neither has learned bins, they are learned from the
    first. The second may have weights; the first may not, since each of its rows counts once.
    """
    for table in (truth, other):
        check_public(
            table,
            "a comparison of cells needs",
            private=Hint(
                "compare it with ",
                Call("gapless.evaluate.compare_private", Variable("people"), _OTHER, Argument("spend", "5%")),
            ),
        )
    if truth.weights is not None:
        raise SchemaError(
            f"the truth has weights, in a column {WEIGHT!r}, but each of its rows counts once",
            hint=f"read the truth from data without a column {WEIGHT!r}",
        )
    if truth.schema.finest.columns == other.schema.finest.columns:
        bins = shared_bins(truth.schema, other, counted=truth)
        truth, other = truth.rebin(bins), other.rebin(bins)
    check_comparable(truth.schema, other.schema)
    return truth, other


def shared_bins(schema: Schema, other: Table, *, counted: Table) -> Schema:
    """A schema with the bins of a public table where its bins are to be learned; else learned from `counted`."""
    shared = schema.with_columns({column.name: other.schema[column.name] for column in _columns_to_bin(schema)})
    counts = {c.name: counted.marginal(c.name)[: c.values_size].astype(np.float64) for c in _columns_to_bin(shared)}
    return cut_schema(shared, counts, DEFAULT_BINS)


def _columns_to_bin(schema: Schema) -> list[BinnedColumn]:
    return [column for column in schema.columns if isinstance(column, BinnedColumn) and column.has_learned_bins]


def given_weights(table: Table, weights: ArrayLike | None) -> NDArray[np.float64] | None:
    """The weights that were passed, checked (`check_weights`), or else the table's own, if it has any."""
    return table.weights if weights is None else check_weights(table.rows, weights)
