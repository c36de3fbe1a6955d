"""The modules of the package and their source texts, for tests that read them."""

from collections.abc import Iterator
from pathlib import Path

import gapless

_ROOT = Path(gapless.__file__).parent


def sources() -> Iterator[tuple[str, str]]:
    """Each module's name without the package's (privacy.ledger; privacy for the package `privacy`) and its source."""
    for path in sorted(_ROOT.rglob("*.py")):
        parts = path.relative_to(_ROOT).with_suffix("").parts
        yield ".".join(part for part in parts if part != "__init__"), path.read_text(encoding="utf-8")


def package_of(module: str) -> str:
    """The package that a module belongs to."""
    return module.partition(".")[0]
