"""What may be handed rows: code of this library alone, whose stability is proved."""

from __future__ import annotations

import sys
from dataclasses import fields, is_dataclass

import numpy as np

_PLAIN = (int, float, str, bool, type(None), np.int64, np.float64)  # by the very type


def is_own(thing: object) -> bool:
    """Whether its class is one of this library's: the very one, no subclass of it and no class of the same name."""
    kind = type(thing)
    home = sys.modules.get(kind.__module__)
    return kind.__module__.startswith("gapless.") and getattr(home, kind.__name__, None) is kind


def all_own(thing: object) -> bool:
    """Whether an object and all that it is made of are plain or of this library: no function is."""
    if isinstance(thing, tuple):
        return all(map(all_own, thing))
    if is_dataclass(thing) and is_own(thing):
        return all(all_own(getattr(thing, field.name)) for field in fields(thing))
    if type(thing) is np.ndarray:
        return not thing.dtype.hasobject  # objects are multiplied by what their own class says
    return type(thing) in _PLAIN
