"""What counts as a whole number, and as a number, wherever one is passed. True and False are neither; numpy's are."""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import TypeGuard

from gapless.errors import GaplessError


def is_number(value: object) -> TypeGuard[float]:
    """Whether it is a real number. Ranges, and whether it must be finite, are the caller's.

    >>> is_number(0.5), is_number(3), is_number(True), is_number("3")
    (True, True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object, *, least: int = 0, most: float = math.inf) -> TypeGuard[int]:
    """Whether it is a whole number from `least` to `most`.

    >>> is_whole(3, least=1), is_whole(0, least=1), is_whole(True), is_whole(3.0)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most


def whole(name: str, value: object, *, error: type[GaplessError], least: int = 0, most: int | None = None) -> int:
    """The whole number that was passed as `name`, as Python's own; the error says which ones are possible.

    >>> whole("limit", 0, error=GaplessError, least=1)
    Traceback (most recent call last):
    gapless.errors.GaplessError: limit = 0
      Try: a whole number of at least 1
    """
    if not is_whole(value, least=least, most=math.inf if most is None else most):
        possible = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise error(f"{name} = {value!r}", hint=f"a whole number {possible}")
    return int(value)
