"""What is publicly known: columns, levels, bounds, bins, missing codes, constraints."""

from gapless.schema.calendar import Date, DateTime
from gapless.schema.columns import Boolean, Categorical, Column, Ordinal
from gapless.schema.gap_codes import MissingCode, MissingRange
from gapless.schema.numeric import Integer, Number
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
    "MissingRange",
    "Number",
    "Ordinal",
    "Schema",
]
