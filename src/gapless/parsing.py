"""Files that a stranger may have written: read up to a limit, parsed in bounded time, and wrong in one way only.

Whatever is wrong with a text is a `ValueError`, which the caller turns into an error about its own kind of file.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from pathlib import Path
from typing import IO, Any

from gapless.errors import ReadError

MEGABYTE = 1 << 20
PIECE = 1 << 16  # bytes that are read at once: a buffer of this size is made for each
LARGEST_TEXT = 32 * MEGABYTE  # of a schema, a manifest, the copy of a ledger: the largest that we know has 3
DEEPEST = 32  # lists and tables within each other
LONGEST_NUMBER = 400  # characters: as many as any number that a float can hold has without an exponent
_WORD = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')"""
_LONG_KEY = re.compile(rf"""(?<![\w\-"'\\])(?:{_WORD}[ \t]*+\.[ \t]*+){{{DEEPEST}}}""")


def read_up_to(path: Path, most: int = LARGEST_TEXT) -> bytes:
    """The bytes of a file of at most so many.

    Raises:
        ReadError: It is larger.
        OSError: It cannot be read.
    """
    try:
        with path.open("rb") as file:
            return take_up_to(file, most)
    except ValueError:
        raise ReadError(
            f"{path} is larger than {most // MEGABYTE} MB", hint="check the path, or pass a smaller file"
        ) from None


def take_up_to(file: IO[bytes], most: int) -> bytes:
    """All bytes that an open file still has; memory grows with what is there, not with the limit.

    Raises:
        ValueError: They are more than so many.
    """
    pieces, left = [], most
    while left >= 0 and (piece := file.read(min(left + 1, PIECE))):
        pieces.append(piece)
        left -= len(piece)
    if left < 0:
        raise ValueError("too large")
    return b"".join(pieces)


def parse_json(text: str | bytes) -> Any:
    """The content of JSON text, of finite numbers of at most 64 bits and not nested deeply.

    >>> parse_json('{"spent": [0.5, 2]}')
    {'spent': [0.5, 2]}

    Raises:
        ValueError: It is anything else.
    """
    try:
        content = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(content, bits=64)
    return content


def parse_toml(text: str) -> dict[str, Any]:
    r"""The content of TOML text, without very long numbers and not nested deeply.

    Keys with many dots are refused before they are parsed: the time they take grows with the square of their length.

    >>> parse_toml("[column.age]\nbounds = [0, 120]")
    {'column': {'age': {'bounds': [0, 120]}}}

    Raises:
        ValueError: It is anything else.
    """
    text.encode()  # half of a surrogate pair has no encoding, which is a ValueError
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {DEEPEST} parts")
    try:
        content = tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(content, bits=LONGEST_NUMBER * 4)
    return content


def _check(content: Any, *, bits: int) -> None:
    """Refuse what is nested too deeply, and whole numbers of more bits."""
    level = [content]
    for _ in range(DEEPEST):
        if any(type(part) is int and part.bit_length() > bits for part in level):
            raise ValueError(f"a whole number has more than {bits} bits")
        inside = [part.values() if isinstance(part, dict) else part for part in level if isinstance(part, dict | list)]
        level = [part for parts in inside for part in parts]
        if not level:
            return
    raise ValueError("nested too deeply")


def _whole(digits: str) -> int:
    if len(digits) > LONGEST_NUMBER:
        raise ValueError("a number is too long")
    return int(digits)


def _finite(digits: str) -> float:
    number = float(digits) if len(digits) <= LONGEST_NUMBER else math.inf
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not a number")
