"""Words for error messages about names."""

import difflib
from collections.abc import Iterable


def listing(names: Iterable[str], *, most: int = 12) -> str:
    """Names in a row, the tail cut.

    >>> listing(["a", "b"])
    'a, b'
    """
    names = list(names)
    return ", ".join(names[:most]) + (f" … ({len(names) - most} more)" if len(names) > most else "")


def nearest(name: str, names: Iterable[str]) -> str:
    """The names most like the one given, or all of them.

    >>> nearest("hour", ["sex", "hours"])
    'hours'
    """
    names = list(names)
    return listing(difflib.get_close_matches(name, names, n=3, cutoff=0.6) or [f"one of: {listing(names)}"])
