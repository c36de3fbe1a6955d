"""Types that several packages share: arrays, gap rules, checks of numbers, and checks for classes of this library.

Booleans do not count as numbers; numpy's numbers do.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from numbers import Integral, Real
from typing import Any, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import NDArray

from gapless.errors import GaplessError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
Values: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class GapRule:
    """The definition of a gap in a column: as text, and as a digest of all public facts that it depends on."""

    description: str
    digest: str

    @classmethod
    def from_dict(cls, content: Mapping[str, str]) -> GapRule:
        """Rebuild the rule from the result of `to_dict`."""
        return cls(**content)

    def to_dict(self) -> dict[str, str]:
        """Return the rule as a ledger stores it."""
        return asdict(self)

    def given(self, facts: object) -> GapRule:
        """Return the rule with further facts in its digest."""
        more = json.dumps([self.digest, facts])
        return replace(self, digest=hashlib.sha256(more.encode()).hexdigest())


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a real number. The caller checks its range, and that it is finite.

    >>> is_number(0.5), is_number(3), is_number(True), is_number("3")
    (True, True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: object, *, least: int = 0, most: float = math.inf) -> TypeGuard[int]:
    """Return whether a value is an integer from `least` to `most`.

    >>> is_whole(3, least=1), is_whole(0, least=1), is_whole(True), is_whole(3.0)
    (True, False, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most


def whole(name: str, value: object, *, error: type[GaplessError], least: int = 0, most: int | None = None) -> int:
    """Check that the argument `name` is an integer in range, and return it as a Python int.

    >>> whole("limit", 0, error=GaplessError, least=1)
    Traceback (most recent call last):
    gapless.errors.GaplessError: limit = 0, but limit must be a whole number of at least 1
      Try: pass a whole number of at least 1
    """
    if not is_whole(value, least=least, most=math.inf if most is None else most):
        possible = f"of at least {least}" if most is None else f"from {least} to {most}"
        wrong = f"{name} = {value!r}, but {name} must be a whole number {possible}"
        raise error(wrong, hint=f"pass a whole number {possible}")
    return int(value)


def checked_number(
    name: str, value: object, low: float, high: float, ends: str, *, error: type[GaplessError], example: float
) -> float:
    """Check that the argument `name` is in an interval, and return it as a Python float; `ends` are its brackets.

    >>> checked_number("rate", 0, 0, 1, "(]", error=GaplessError, example=0.1)
    Traceback (most recent call last):
    gapless.errors.GaplessError: rate = 0, but rate must be in (0, 1]
      Try: pass a number in (0, 1], such as 0.1
    """
    excluded = [bound for bound, end in zip((low, high), ends, strict=True) if end in "()"]
    # The float is checked too: a fraction just below an open end can round to it.
    if not (is_number(value) and all(low <= v <= high and v not in excluded for v in (value, _as_float(value)))):
        interval = f"{ends[0]}{low:g}, {high:g}{ends[1]}"
        wrong = f"{name} = {value!r}, but {name} must be in {interval}"
        raise error(wrong, hint=f"pass a number in {interval}, such as {example:g}")
    return float(value)


def _as_float(value: Any) -> float:
    """The value as a float; infinite if it is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return math.inf


_PLAIN = (int, float, str, bool, type(None), np.int64, np.float64)  # exact types, no subclasses


def is_trusted(value: object) -> bool:
    """Return whether a value's class is defined in this library; not a subclass, nor a class of the same name."""
    kind = type(value)
    home = sys.modules.get(kind.__module__)
    return kind.__module__.startswith("gapless.") and getattr(home, kind.__name__, None) is kind


def all_trusted(value: object) -> bool:
    """Return whether an object and all its parts are plain values or of this library. Functions are not."""
    if isinstance(value, tuple):
        return all(map(all_trusted, value))
    if is_dataclass(value) and is_trusted(value):
        return all(all_trusted(getattr(value, field.name)) for field in fields(value))
    if type(value) is np.ndarray:
        return not value.dtype.hasobject  # arithmetic on object arrays calls methods of foreign classes
    return type(value) in _PLAIN
