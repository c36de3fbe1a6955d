"""Every exception of gapless.

::

    GaplessError                what is wrong and what to do
     ├── SchemaError            the public description is malformed, or does not fit the file's header
     ├── ReadError              a file or frame that cannot be read or written
     ├── BudgetError            not enough budget left, or a budget that makes no sense
     ├── LedgerError            a ledger file that is damaged, foreign or out of step
     ├── SealedError            an attempt to look at private data, or a public table instead of a private one
     ├── QuestionError          a question that cannot be read, or not be answered by this table
     ├── EngineError            an operation that the engine of a table does not support
     └── ModelError             a model that cannot be fitted, sampled, saved or loaded as asked

Each error names the object, the rule and the given value if it is public. It never contains a cell, a row number or a
count from private data.

A hint that names arguments is a `Hint`. It stores their names and values, so that Python and the command line can each
write them in their form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument in a hint, with a `value` to pass if there is one. The reader chooses a value of `...`.

    >>> print(Argument("spend"), Argument("engine", "disk"), Argument("missing", Call("Extended")))
    spend= engine="disk" missing=Extended()
    """

    name: str
    value: object = None

    def __str__(self) -> str:
        return f"{self.name}={'' if self.value is None else _to_python(self.value)}"


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of the reader in a hint, such as a table, which is written without quotes."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, init=False)
class Call:
    """A call in a hint, or a value that is written as a call. The reader chooses arguments of `...`.

    A name that `gapless` itself does not have is written with its package.

    >>> print(Call("Rows", 3), Call("MCAR", {"income": 0.2}), Call("gapless.missing.patterns", Variable("table")))
    Rows(3) MCAR({"income": 0.2}) gapless.missing.patterns(table)
    """

    name: str
    arguments: tuple[object, ...]

    def __init__(self, name: str, *arguments: object) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "arguments", arguments)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(_to_python, self.arguments))})"


class Hint(str):
    """What to do about an error: parts of a sentence, some of which are arguments or calls.

    As a string it is the Python form. `|` joins alternatives. The command line leaves out alternatives with an argument
    for which it has no option.

    >>> hint = Hint("use ", Argument("engine", "disk")) | Hint("raise ", Argument("cap_cells"))
    >>> print(hint)
    use engine="disk", or raise cap_cells=
    >>> hint.render(lambda named: "--engine disk" if named.name == "engine" else None)
    'use --engine disk'
    """

    __slots__ = ("alternatives",)
    alternatives: tuple[tuple[str | Argument | Call, ...], ...]

    def __new__(cls, *parts: str | Argument | Call) -> Self:
        """A hint without alternatives."""
        return cls._from_alternatives((parts,))

    @classmethod
    def _from_alternatives(cls, alternatives: tuple[tuple[str | Argument | Call, ...], ...]) -> Self:
        made = super().__new__(cls, _join_alternatives(["".join(map(str, parts)) for parts in alternatives]))
        made.alternatives = alternatives
        return made

    def __or__(self, other: Hint) -> Self:
        """This hint or the other."""
        return self._from_alternatives(self.alternatives + other.alternatives)

    def render(self, form: Callable[[Argument | Call], str | None]) -> str:
        """The hint in another form: all alternatives that have one; the Python form if none has.

        Args:
            form: writes an argument or a call; returns None if it has no such form.
        """
        offered = []
        for parts in self.alternatives:
            texts = [part if isinstance(part, str) else form(part) for part in parts]
            if None not in texts:
                offered.append("".join(filter(None, texts)))
        return _join_alternatives(offered) if offered else str(self)


def _join_alternatives(texts: Sequence[str]) -> str:
    return ", or ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))


def _to_python(value: object) -> str:
    """The value as Python code, with double quotes."""
    match value:
        case str() | Path():
            return json.dumps(str(value), ensure_ascii=False)
        case list():
            return f"[{', '.join(map(_to_python, value))}]"
        case tuple():
            return f"({', '.join(map(_to_python, value))}{',' if len(value) == 1 else ''})"
        case Mapping():
            return f"{{{', '.join(f'{_to_python(key)}: {_to_python(value[key])}' for key in value)}}}"
        case float():
            return float.__repr__(value).replace("e-0", "e-")
        case Argument() | Call() | Variable():
            return str(value)
    return "…" if value is ... else repr(value)


class GaplessError(Exception):
    """An error of this library: what is wrong, and what to do about it.

    >>> print(GaplessError("no column 'hour' in the schema", hint="use one of: sex, hours"))
    no column 'hour' in the schema
      Try: use one of: sex, hours
    """

    def __init__(self, wrong: str, *, hint: str) -> None:
        super().__init__(f"{wrong}\n  Try: {hint}")
        self.message = wrong
        self.hint = hint


class SchemaError(GaplessError):
    """The public description is malformed, or does not fit the header of the data."""


class ReadError(GaplessError):
    """A file or frame cannot be read, or a result cannot be written."""


@contextmanager
def requires_extra(module: str, extra: str, more: str = "") -> Iterator[None]:
    """Raise a helpful error if the import inside fails: the module belongs to an extra of this package.

    >>> with requires_extra("pandas", "pandas", ", or save the table as CSV"):
    ...     raise ImportError
    Traceback (most recent call last):
    gapless.errors.ReadError: pandas is not installed
      Try: run pip install 'gapless[pandas]', or save the table as CSV
    """
    try:
        yield
    except ImportError:
        raise ReadError(f"{module} is not installed", hint=f"run pip install 'gapless[{extra}]'{more}") from None


class BudgetError(GaplessError):
    """Not enough budget is left, or the budget makes no sense."""


class LedgerError(GaplessError):
    """The ledger file is damaged, foreign, or out of step with its seal."""


class SealedError(GaplessError):
    """An operation would reveal private data without a charge, or a public table was passed for a private one."""


class QuestionError(GaplessError):
    """A question cannot be read, or cannot be answered by this table."""


class EngineError(GaplessError):
    """The engine of a table does not support an operation; this is known before a row is read."""


class ModelError(GaplessError):
    """A model cannot be fitted, sampled, saved or loaded as asked."""
