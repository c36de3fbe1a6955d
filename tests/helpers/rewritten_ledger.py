"""A ledger that somebody edited, with a chain of hashes that fits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gapless.privacy.ledger_file import hash_of, seal_of


def rewritten(path: Path, change: Callable[[int, dict[str, Any]], object]) -> Path:
    """A copy of a ledger, without a seal, with its lines changed by `change(number, content)`."""
    lines: list[str] = []
    for number, line in enumerate(path.read_text().splitlines()):
        content = json.loads(line)
        change(number, content)
        if lines:
            content["previous"] = hash_of(lines[-1])
        lines.append(json.dumps(content) + "\n")
    other = path.with_name("rewritten.ledger")
    seal_of(other).unlink(missing_ok=True)
    other.write_text("".join(lines))
    return other
