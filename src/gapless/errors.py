"""Every exception of gapless.

::

    GaplessError                what is wrong, and what to do
     ├── SchemaError            the public description is malformed, or does not fit the file's header
     ├── ReadError              a file or frame that cannot be read or written
     ├── BudgetError            not enough budget left, or a budget that makes no sense
     ├── LedgerError            a ledger file that is damaged, foreign or out of step
     ├── SealedError            an attempt to look at private data, or a public table where a sealed one is needed
     ├── QuestionError          a question that cannot be read, or not be answered by this table
     ├── EngineError            what the engine that holds a table cannot do
     └── ModelError             a model that cannot be fitted, sampled, saved or loaded as asked

Each error names the thing, the rule and the value given if it is public: never a cell, a row number or a
count taken from private data.
"""


class GaplessError(Exception):
    """What is wrong and, obligatory, what to do about it.

    >>> print(GaplessError("no column 'hour' in the schema", hint="one of: sex, hours"))
    no column 'hour' in the schema
      Try: one of: sex, hours
    """

    def __init__(self, wrong: str, *, hint: str) -> None:
        super().__init__(f"{wrong}\n  Try: {hint}")
        self.wrong = wrong
        self.hint = hint


class SchemaError(GaplessError):
    """The public description is malformed, or does not fit the header of the data."""


class ReadError(GaplessError):
    """A file or frame cannot be read, or a result cannot be written."""


class BudgetError(GaplessError):
    """Not enough budget is left, or the budget makes no sense."""


class LedgerError(GaplessError):
    """The ledger file is damaged, foreign, or out of step with its seal."""


class SealedError(GaplessError):
    """Somebody tried to look at private data without paying, or passed a public table where a sealed one is needed."""


class QuestionError(GaplessError):
    """A question cannot be read, or cannot be answered by this table."""


class EngineError(GaplessError):
    """The engine that holds a table cannot do what was asked, which is known before a row is read."""


class ModelError(GaplessError):
    """A model cannot be fitted, sampled, saved or loaded as asked."""
