"""The command line in this process; each file has the `folder` in which it runs."""

import re
import sys

import pytest

from gapless.cli import main

PYTHON = re.compile(r"(?<![-\w])(?!income)[a-z_]+=(?!=)|[A-Z]\w+\(|cap_cells|select\(\)|\b(?:Budget|True|None)\b")


@pytest.fixture
def run_here(folder, monkeypatch, capsys):
    """The same in this process, which is faster: `main` from its arguments to its exit code."""

    def run_main(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["gapless", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        for hint in re.findall(r"Try: (.*)", printed.err):  # whatever went wrong, at a terminal no hint speaks Python
            assert not PYTHON.search(hint), hint
        return left.value.code, printed.out, printed.err

    return run_main
