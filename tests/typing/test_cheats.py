"""mypy rejects exactly the lines of cheats.py that are marked, each with the code that is written there."""

import re
import subprocess
import sys
from pathlib import Path

CHEATS = Path(__file__).with_name("cheats.py")
ROOT = Path(__file__).parents[2]


def test_mypy_rejects_every_cheat_and_nothing_else():
    result = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--hide-error-context", str(CHEATS)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    found: dict[int, set[str]] = {}
    for number, code in re.findall(r"cheats\.py:(\d+): error: .*\[([a-z-]+)\]", result.stdout):
        found.setdefault(int(number), set()).add(code)
    marked = {
        number: set(match[1].split(","))
        for number, line in enumerate(CHEATS.read_text().splitlines(), 1)
        if (match := re.search(r"# error: \[([a-z,-]+)\]", line))
    }
    assert found.keys() == marked.keys(), result.stdout
    for number, codes in found.items():
        assert codes <= marked[number], (number, codes)
    assert len(marked) >= 15
