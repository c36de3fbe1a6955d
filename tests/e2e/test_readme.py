"""What the README shows is what happens: its code and its commands, as typed, in the folder that it names."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from helpers import command_line

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# `gapless` as the shell finds it, with the package of this repository.
SHELL = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}


def blocks(kind):
    return re.findall(rf"^```{kind}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)


def commands():
    for block in blocks("console"):
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE):
            yield command, [shape(line) for line in shown.splitlines() if line.strip()]


def shape(line):
    """A line with every number the same and blanks of any width: noise is fresh in each run."""
    return re.sub(r"\d[\d,.]*", "0", " ".join(line.split()))


def shell(command, folder, environment):
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The example folder as it is in the repository, after the Python of the README has run in it."""
    assert "runs as typed in the folder `examples/`" in README
    there = tmp_path_factory.mktemp("examples")
    for name in ("people.csv", "people.toml", "codebook.csv"):
        shutil.copy(ROOT / "examples" / name, there)
    (code,) = blocks("python")
    done = subprocess.run([sys.executable, "-c", code], cwd=there, capture_output=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr) == (0, "")
    (there / "printed.txt").write_text(done.stdout, encoding="utf-8")
    assert {"fake.parquet", "people.ledger"} < {path.name for path in there.iterdir()}
    return there


def test_the_python_of_the_readme_prints_what_it_shows(folder):
    """An interval, and a promise for the complete data that differs from the one for the incomplete table."""
    (shown,) = blocks("text")
    printed = (folder / "printed.txt").read_text(encoding="utf-8")
    check_printed(printed, [shape(line) for line in shown.splitlines()], "the Python example")
    assert re.search(r"^  F  [\d.]+  \[[\d.]+, [\d.]+\]$", printed, re.MULTILINE)
    for text in (shown, printed):  # by public facts alone: not even the digits change from run to run
        assert re.findall(r"\((\S+), 1e-06\)-differential privacy", text)[-2:] == ["1", "0.9931"]
    assert "0.9931 in place of 1" in README


def check_printed(printed, shown, of):
    """The shown lines occur in this order, and where nothing is left out they are all. A line may end with "…"."""
    lines = [shape(line) for line in printed.splitlines() if line.strip()]
    place = 0
    for line in shown:
        if line == "…":
            continue
        is_shown = str.startswith if line.endswith("…") else str.__eq__
        found = [at for at, text in enumerate(lines) if at >= place and is_shown(text, line.removesuffix("…"))]
        assert found, (of, line)
        place = found[0] + 1
    if "…" not in shown:
        assert len(lines) == len(shown), of


def test_the_commands_of_the_readme_work_as_typed_and_print_what_it_shows(folder):
    examples = list(commands())
    assert [shlex.split(command)[1] for command, _ in examples] == [
        *(
            "schema",
            "schema",
            "check",
            "synth",
            "ledger",
            "synth",
            "evaluate",
            "sample",
            "sample",
            "verify",
            "estimate",
            "archive",
        )
    ]
    for place, (command, shown) in enumerate(examples):
        # The first command in a shell, as typed; the others as a shell would split them, without its start.
        done = shell(command, folder, SHELL) if place == 0 else command_line.run(*shlex.split(command)[1:], cwd=folder)
        check_printed(done.stdout + done.stderr, shown, command)
        assert done.returncode == (3 if shown[0].startswith("BudgetError") else 0), command


def test_the_last_line_of_the_demo_works_as_typed(tmp_path):
    """As after `make demo`: the program is in an environment that is not on the path of the shell."""
    home = tmp_path / "of the program"
    home.mkdir()
    (home / "gapless").symlink_to(Path(sys.executable).parent / "gapless")
    unknowing = os.environ | {"PATH": os.defpath}
    done = shell("'./of the program/gapless' demo -o 'my demo'", tmp_path, unknowing)
    *_, last = done.stdout.splitlines()
    assert "ask" in last
    asked = shell(last, tmp_path, unknowing)
    assert (asked.returncode, asked.stderr) == (0, "")
    assert "mean(systolic) where age >= 50 by sex" in asked.stdout
    assert (tmp_path / "my demo" / "release" / "manifest.json").exists()
