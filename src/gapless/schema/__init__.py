"""What is publicly known: columns, levels, bounds, bins, missing codes, constraints."""

from gapless.schema.columns import (
    Boolean,
    Categorical,
    Column,
    Date,
    DateTime,
    Integer,
    MissingCode,
    Number,
    Ordinal,
)
from gapless.schema.schema import Constraint, Schema

__all__ = [
    "Boolean",
    "Categorical",
    "Column",
    "Constraint",
    "Date",
    "DateTime",
    "Integer",
    "MissingCode",
    "Number",
    "Ordinal",
    "Schema",
]
