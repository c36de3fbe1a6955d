"""Sealed values made from sealed values: only the room `data/` does this, with its ledger's key.

Whoever calls `transform` owes a proof of the distance and a property test of it. It is no method of `Private`: a sealed
value that was handed out cannot be given another distance by whoever holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from gapless.privacy.private import Columns, Key, Private, check_sealed

T = TypeVar("T")
U = TypeVar("U")
D = TypeVar("D")


def transform(
    value: Private[T, Any], function: Callable[[T], U], *, distance: D, reads: Columns | None, key: Key
) -> Private[U, D]:
    """A new sealed value: `function` of the old one, computed when it is opened."""
    check_sealed(value, key)
    return Private(lambda: function(value._open(key)), distance=distance, reads=reads, key=key)  # noqa: SLF001 one room


def gather(values: Sequence[Private[T, Any]], *, key: Key) -> Private[list[T], None]:
    """Several sealed values of one ledger as one, without a distance of its own: a step to a `transform`."""
    values = list(values)
    for value in values:
        check_sealed(value, key)
    return Private(lambda: [value._open(key) for value in values], distance=None, reads=None, key=key)  # noqa: SLF001 one room
