"""The modules of the package and their sources, for guards that read them."""

from pathlib import Path

import gapless

_ROOT = Path(gapless.__file__).parent


def sources():
    """The source of each module by its name without the package's: privacy.ledger, or privacy for a room itself."""
    for path in sorted(_ROOT.rglob("*.py")):
        parts = path.relative_to(_ROOT).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path.read_text(encoding="utf-8")


def room(module):
    """The room of a module."""
    return module.partition(".")[0]
