"""What methods declare, on the command line: in the help, and refused before a ledger is made."""

import subprocess
import sys

import pytest

from gapless.missing import Extended, Observed
from gapless.synth import METHODS, TREATMENTS
from helpers.chain_synthesizer import Chain


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "t.toml").write_text(
        '[table]\nname = "t"\n[column.sex]\nkind = "categorical"\nlevels = ["F", "M"]\nmay_be_missing = true\n'
    )
    (tmp_path / "t.csv").write_text("sex\nF\nM\n\n")
    return tmp_path


def plain(out):
    return " ".join(out.replace("│", " ").split())


@pytest.mark.parametrize("command", ["fit", "synth"])
def test_help_is_read_from_the_declarations(command, run_here, monkeypatch):
    _, out, _ = run_here(command, "--help")
    *newest_first, oldest = reversed(METHODS)
    needing = [name for name, method in METHODS.items() if not method.pure]
    listed = f"{', '.join(newest_first)} or {oldest}. These need --delta above 0: {', '.join(needing)}"
    observing = [name for name, method in METHODS.items() if isinstance(method().missing, Observed)]
    not_extended = [name for name, method in METHODS.items() if not isinstance(Extended(), method.treatments)]
    not_observing = [name for name, method in METHODS.items() if not isinstance(Observed(), method.treatments)]
    assert {"kamino", "misgan"} <= set(needing)
    assert f"{listed}. [default: auto]" in plain(out)
    assert f"Default: that of the method, extended or observed ({', '.join(observing)})." in plain(out)
    assert all(name in plain(out) for name in [*METHODS, *TREATMENTS])
    monkeypatch.setitem(METHODS, "chain", Chain)
    _, out, _ = run_here(command, "--help")
    assert f"chain, {listed}, chain." in plain(out)
    assert f"{', '.join(not_extended)}, chain do not take extended." in plain(out)
    assert f"{', '.join(not_observing)} do not take observed." in plain(out)


@pytest.mark.parametrize("command", ["fit", "synth"])
@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (
            ["--missing", "observed"],
            3,
            "the budget has δ = 0\n  Try: choose another method, such as mst, or pass --delta 1e-6 with a new ledger\n",
        ),
        (
            ["--delta", "1e-6"],
            1,
            "does not accept missing = Extended()\n"
            "  Try: pass --missing observed, pass --missing complete-rows, or pass --missing impute-random\n",
        ),
    ],
)
def test_undeclared_options_are_refused_before_a_ledger_is_made(
    command, options, code, message, folder, run_here, monkeypatch
):
    """A ledger's δ cannot change, so a ledger for a method that cannot use it would be useless."""
    monkeypatch.setitem(METHODS, "chain", Chain)
    before = sorted(folder.iterdir())
    left, _, printed = run_here(
        command, "t.csv", "-s", "t.toml", "-o", "x", "-m", "chain", "--epsilon", "1", "--delta", "0", *options
    )
    assert (left, printed.endswith(message)) == (code, True), printed
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("asked", [("-m", "kamino"), ("-m", "mst", "--missing", "impute-kamino")])
def test_training_needs_delta_and_is_refused_before_a_ledger_is_made(asked, folder, run_here):
    before = sorted(folder.iterdir())
    code, _, printed = run_here("fit", "t.csv", "-s", "t.toml", "-o", "x", "--epsilon", "1", "--delta", "0", *asked)
    assert code == 3
    assert "Kamino.fit: this method needs a δ above 0, but the budget has δ = 0" in printed
    assert sorted(folder.iterdir()) == before


def test_gaps_are_filled_by_kamino_first(folder, run_here):
    asked = ("--epsilon", "1", "--delta", "1e-6", "-m", "independent", "--missing", "impute-kamino")
    code, out, printed = run_here("fit", "t.csv", "-s", "t.toml", "-o", "x", *asked)
    assert code == 0, printed
    assert "FromModel(model=Kamino(" in out


def test_a_declared_combination_is_fitted(folder, run_here, monkeypatch):
    monkeypatch.setitem(METHODS, "chain", Chain)
    asked = ("--epsilon", "1", "--delta", "1e-6", "-m", "chain", "--missing", "observed")
    code, out, printed = run_here("fit", "t.csv", "-s", "t.toml", "-o", "x", *asked)
    assert code == 0, printed
    assert out.startswith("chain: 1 column of 't'")


def test_the_command_line_starts_without_the_methods():
    """They take a second to import; only help and fits need them."""
    seen = "import sys, gapless.cli.app; sys.exit('gapless.synth' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", seen], check=False).returncode == 0
