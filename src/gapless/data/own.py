"""What may be handed rows: code of this library alone, whose stability is proved."""

from __future__ import annotations

import sys


def is_own(thing: object) -> bool:
    """Whether its class is one of this library's: the very one, no subclass of it and no class of the same name."""
    kind = type(thing)
    home = sys.modules.get(kind.__module__)
    return kind.__module__.startswith("gapless.") and getattr(home, kind.__name__, None) is kind
