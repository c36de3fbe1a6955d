"""Names in error messages and in tables of text."""

import difflib
from collections import Counter
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
    >>> nearest("AIM", ["aim", "mst"])
    'aim'
    """
    names = list(names)
    same = [each for each in names if each.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return listing(close or [f"one of: {listing(names)}"])


def repeated(names: Iterable[str]) -> list[str]:
    """The names that are there more than once, sorted.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return sorted(name for name, times in Counter(names).items() if times > 1)


def shortened(text: str, most: int) -> str:
    """At most so many letters, cut in the middle: names that look alike differ at their ends.

    >>> shortened("household_income × marital_status", 19)
    'household…al_status'
    """
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def aligned(names: Iterable[str], *, most: int = 40) -> list[str]:
    """Names for the first column of a table of text: equally wide, the long ones shortened.

    >>> aligned(["age", "income"])
    ['age   ', 'income']
    """
    short = [shortened(name, most) for name in names]
    width = max(map(len, short), default=0)
    return [name.ljust(width) for name in short]
