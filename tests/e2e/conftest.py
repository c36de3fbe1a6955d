"""The command line in this process; each file has the `folder` in which it runs."""

import sys

import pytest

from gapless.cli import main


@pytest.fixture
def run_here(folder, monkeypatch, capsys):
    """The same in this process, which is faster: `main` from its arguments to its exit code."""

    def run_main(*arguments):
        monkeypatch.chdir(folder)
        monkeypatch.setattr(sys, "argv", ["gapless", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capsys.readouterr()
        return left.value.code, printed.out, printed.err

    return run_main
