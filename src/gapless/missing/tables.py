"""Which table was passed: a public one to look at, or a sealed one to pay for."""

from __future__ import annotations

from typing import Any

from gapless.data import PrivateTable, Table
from gapless.errors import ReadError, SealedError


def check_public(table: Any, what: str, *, private: str) -> None:
    """Refuse what is not a public table; `private` is what to do with a sealed one."""
    if isinstance(table, Table):
        return
    wrong = f"{what} a public Table, not a {type(table).__name__}"
    if isinstance(table, PrivateTable):
        raise SealedError(wrong, hint=private)
    raise ReadError(wrong, hint="Table.read(data, schema), for data that are nobody's secret")


def check_private(table: Any, what: str) -> None:
    """Refuse what is not a sealed table."""
    if not isinstance(table, PrivateTable):
        raise ReadError(
            f"{what} pays for a PrivateTable, and this is a {type(table).__name__}",
            hint="patterns(table), for free"
            if isinstance(table, Table)
            else "people = gapless.read(data, schema, protect=Rows(1), budget=…, ledger=…)",
        )
