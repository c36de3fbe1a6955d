"""Files of strangers at the command line, in a process whose memory and time are limited: refused in words."""

import json
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.model import archive
from helpers.hostile_files import npy, zip_bomb, zip_of

MEMORY = 6 << 30  # libraries take some of it
SECONDS = 120  # far more than any of these takes
HEAD = json.dumps({"gapless": "model", "version": archive.VERSION})
SCHEMA = '[table]\nname = "t"\n[column.a]\nkind = "categorical"\nlevels = ["x", "y"]\n'
HUGE = npy(np.zeros(3)).replace(b"'shape': (3,), }          ", b"'shape': (10000000000,), }")


CHILD = """
import json, sys
sys.path.insert(0, sys.argv[1])
from helpers.command_line import run
for folder, arguments in json.load(sys.stdin):
    done = run(*arguments, cwd=folder)
    print(json.dumps([done.returncode, done.stdout, done.stderr]), flush=True)
"""


def run(*commands):
    """Exit codes and what was said, of (folder, arguments) each, in one process that gets no more memory than this."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(Path(__file__).parents[1])],
        input=json.dumps([(str(folder), arguments) for folder, arguments in commands]),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=SECONDS,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    )
    assert done.returncode == 0, (done.stdout[-500:], done.stderr[-500:])  # else the next command ended the process
    return [json.loads(line) for line in done.stdout.splitlines()]


def refused(*commands, error):
    for (_, arguments), (code, _, printed) in zip(commands, run(*commands), strict=True):
        assert code in {1, 2, 3}, (arguments, printed)
        assert printed.startswith(error), (arguments, printed)
        assert "\n  Try: " in printed
        assert "Internal error" not in printed


def folders(names, tmp_path):
    """A folder for each name, by its number."""
    for number, name in enumerate(names):
        (tmp_path / str(number)).mkdir()
        yield tmp_path / str(number), name


MODELS = {
    "zeros in place of the head": lambda path: zip_bomb(path, "model.json", gigabytes=3),
    "an array of 80 GB": lambda path: zip_of(path, [("model.json", HEAD), ("filled/0.npy", HUGE)]),
    "a deep head": lambda path: zip_of(path, [("model.json", "[" * 10**6)]),
    "no end of a version": lambda path: zip_of(path, [("model.json", '{"gapless": "model", "version": Infinity}')]),
}


def test_models_that_are_none(tmp_path):
    commands = []
    for folder, name in folders(MODELS, tmp_path):
        MODELS[name](folder / "a.model")
        commands.append((folder, ["sample", "a.model", "-o", "fake.csv"]))
    refused(*commands, error="ModelError")
    assert not list(tmp_path.rglob("fake.csv"))


TEXTS = {
    "20,000 dots": ".".join("a" * 20_000) + " = 1",
    "deep": "x = " + "[" * 100_000,
    "5,000 digits": SCHEMA + "[column.n]\nkind = 'integer'\nbounds = [0, " + "9" * 5000 + "]",
    "a rule of many blanks": SCHEMA + "[[constraint]]\nnot = 't1.a == " + "x" + " " * 10**6 + "y'",
    "many codes": SCHEMA.replace(
        "[column", "[column.b]\nkind='boolean'\nmay_be_missing=true\nmissing=[" + "1," * 10**5 + "]\n[column"
    ),
}


def test_schemas_that_are_none(tmp_path):
    commands = []
    for folder, name in folders(TEXTS, tmp_path):
        (folder / "a.toml").write_text(TEXTS[name])
        (folder / "a.csv").write_text("a\nx\n")
        commands.append((folder, ["check", "a.csv", "--schema", "a.toml"]))
    refused(*commands, error="SchemaError")


LEDGERS = {
    "deep": "[" * 10**6 + "\n",
    "no end of a version": '{"gapless": "ledger", "version": Infinity}\n',
    "only ends of lines": "\n" * 10**7,
}


def test_ledgers_that_are_none(tmp_path):
    commands = []
    for folder, name in folders(LEDGERS, tmp_path):
        (folder / "a.ledger").write_text(LEDGERS[name])
        commands.append((folder, ["ledger", "a.ledger"]))
    refused(*commands, error="LedgerError")


def test_files_that_take_no_room_on_the_disk_are_not_read_to_their_end(tmp_path):
    for name in ("a.ledger", "a.toml", "release/manifest.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 40)
    commands = [["ledger", "a.ledger"], ["check", "a.toml", "--schema", "a.toml"], ["verify", "release"]]
    refused(*((tmp_path, arguments) for arguments in commands), error=("LedgerError", "ReadError"))


def test_manifests_that_are_none(tmp_path):
    commands = []
    texts = ["[" * 100_000, '{"sha256": Infinity}', '{"sha256": {"a": ' + "9" * 5000 + "}}"]
    for folder, text in folders(texts, tmp_path):
        (folder / "release").mkdir()
        (folder / "release/manifest.json").write_text(text)
        commands.append((folder, ["verify", "release"]))
    refused(*commands, error="ReadError")


def test_a_noise_that_no_memory_holds_has_a_figure_all_the_same(tmp_path):
    """Once a loss distribution of 56 TB was asked for."""
    schema = gl.Schema("t", [gl.Categorical("a", ["x", "y"])])
    table = gl.read(
        pl.DataFrame({"a": ["x", "y"]}),
        schema,
        protect=gl.Rows(1),
        budget=gl.Budget(1e-3, 1e-6),
        ledger=tmp_path / "a.ledger",
    )
    table.ledger.grant(table.ledger.share("1e-9%"), to="t").release(
        table.marginal(["a"]), gl.privacy.DiscreteGaussian(1e12), what="a"
    )
    ((code, printed, _),) = run((tmp_path, ["ledger", "a.ledger"]))
    assert code == 0
    assert "ε = 0.001" in printed


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.toml").write_text(SCHEMA)
    (tmp_path / "a.csv").write_text("a\nx\n")
    return tmp_path


@pytest.mark.parametrize("epsilon", ["nan", "inf", "1e999", "-1"])
def test_an_invalid_epsilon_is_refused(epsilon, folder, run_here):
    code, _, printed = run_here("synth", "a.csv", "-s", "a.toml", "-o", "out", "--epsilon", epsilon, "--delta", 0)
    assert (code, printed.splitlines()[0][:12]) == (3, "BudgetError:")
    assert not (folder / "a.ledger").exists()


@pytest.mark.parametrize("spend", ["nan", "inf", "1e999%", "9" * 5000, "-1"])
def test_an_invalid_share_is_refused(spend, folder, run_here):
    code, _, printed = run_here(
        "synth", "a.csv", "-s", "a.toml", "-o", "out", "--epsilon", "1", "--delta", "0", "--spend", spend
    )
    assert (code, printed.splitlines()[0][:12]) == (3, "BudgetError:")
    assert not (folder / "a.ledger").exists()


@pytest.mark.parametrize("option", ["--rows", "--seed", "--copies", "--expected-rows"])
def test_whole_numbers_of_5000_digits(option, folder, run_here):
    code, _, printed = run_here(
        "synth", "a.csv", "-s", "a.toml", "-o", "out", "--epsilon", "1", "--delta", "0", option, "9" * 5000
    )
    assert code == 2
    assert "Internal error" not in printed
    assert not (folder / "a.ledger").exists()
