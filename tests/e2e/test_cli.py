"""The command line: the whole story in real processes, exit codes, and no cell of the data in what it prints."""

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import polars as pl
import pytest

import gapless as gl
from gapless.report.statement import dictionary
from gapless.testing import fixed_noise
from helpers.command_line import PROGRAM, run

CELL = "Xq7cellq7X"
SCHEMA = """\
[table]
name = "people"

[column.age]
kind = "integer"
bounds = [0, 99]

[column.sex]
kind = "categorical"
levels = ["F", "M"]
may_be_missing = true
missing = ["", { code = "-8", kind = "refused" }]

[column.income]
kind = "number"
bounds = [0, 1000]
bins = 4
may_be_missing = true
"""
RELEASE = {
    "README.txt",
    "dictionary.md",
    "ledger.json",
    "privacy.md",
    "report.html",
    "schema.toml",
    "structure.svg",
    "synthetic.csv",
    "synthetic.model",
    "synthetic.parquet",
}


def run_process(*arguments, cwd):
    return subprocess.run(
        [PROGRAM, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, encoding="utf-8", check=False
    )


def fill(folder):
    (folder / "people.toml").write_text(SCHEMA)
    rows = [f"{i},{('F', 'M', '', '-8')[i % 4]},{10 * i if i % 3 else ''}" for i in range(100)]
    (folder / "people.csv").write_text("age,sex,income\n" + "\n".join(rows) + "\n")
    return folder


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A folder with a finished release in it, its budget spent."""
    folder = fill(tmp_path_factory.mktemp("released"))
    done = run("synth", "people.csv", "-s", "people.toml", "--epsilon", 1, "--delta", 1e-6, "-o", "out", cwd=folder)
    assert done.returncode == 0
    assert all(line.startswith("Warning: ") for line in done.stderr.splitlines())  # and no progress in a pipe
    assert "differential privacy" in done.stdout
    assert "\x1b" not in done.stdout
    return folder


# ---------------------------------------------------------------------- the story


def test_demo_makes_a_release_from_start_to_finish(tmp_path, folder, run_here):
    done = run_process("demo", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "FOR THE HOLDER'S EYES" in done.stdout
    demo = tmp_path / "gapless-demo"
    assert f"Wrote {demo}" in done.stdout
    assert set(json.loads((demo / "release" / "manifest.json").read_text())["sha256"]) == RELEASE
    assert gl.Ledger.open(demo / "nhanes.ledger").left.value > 0  # beside the data, and something is left to try
    code, _, err = run_here("demo", "-o", "people.csv/x")
    assert code == 1
    assert "cannot create the folder 'people.csv/x'" in err


def test_the_release_of_the_demo_keeps_the_relation_of_two_blood_pressures(tmp_path, run_here):
    for name in ("nhanes.csv.gz", "nhanes.toml"):
        (tmp_path / name).write_bytes((resources.files("gapless.demo") / name).read_bytes())
    asked = (tmp_path / "nhanes.csv.gz", "-s", tmp_path / "nhanes.toml", "--epsilon", 1, "--delta", 1e-6)
    with fixed_noise(0):
        code, *_ = run_here("synth", *asked, "--spend", "80%", "--seed", 0, "-o", tmp_path / "release")
    assert code == 0

    def correlation(name):
        frame = pl.read_csv(tmp_path / name, infer_schema=False)
        pair = frame.select(pl.col("systolic", "diastolic").cast(pl.Float64, strict=False)).drop_nulls()
        return pair.select(pl.corr("systolic", "diastolic")).item()

    truth, kept = correlation("nhanes.csv.gz"), correlation("release/synthetic.csv")
    assert truth == pytest.approx(0.427, abs=0.001)
    assert kept == pytest.approx(truth, abs=0.15)


def test_synth_prints_the_method_and_the_reason_for_it(folder, run_here):
    made = ("people.csv", "-s", "people.toml", "--epsilon", 1, "--delta", 1e-6, "--spend", "40%")
    code, out, _ = run_here("synth", *made, "-o", "chosen")
    model = gl.load(folder / "chosen" / "synthetic.model")
    assert code == 0
    assert out.splitlines()[0] == f"Method: {model.method}, chosen because: {model.facts.settings['chosen because']}"
    assert "about 10,000 rows assumed" in out
    code, out, _ = run_here("synth", *made, "-m", "independent", "-o", "named")
    assert (code, out.splitlines()[0]) == (0, "Method: independent")
    *rest, _, _ = made
    for place, command in enumerate(("synth", "fit")):
        parsed = json.loads(run_here(command, *rest, "--spend", "5%", "-o", f"auto {place}", "--json")[1])
        assert (parsed["method"], parsed["reason"]) == (model.method, model.facts.settings["chosen because"])
        parsed = json.loads(run_here(command, *rest, "--spend", "1%", "-m", "mst", "-o", f"mst {place}", "--json")[1])
        assert parsed["method"] == "mst"
        assert "reason" not in parsed


def test_a_draft_is_printed_or_written_and_never_overwrites(folder, run_here):
    done = run("schema", "draft", "people.csv", "-o", "draft.toml", "--name", "folk", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "")
    assert "private facts" in done.stderr
    text = (folder / "draft.toml").read_text(encoding="utf-8")
    assert gl.Schema.from_toml(text).name == "folk"
    assert "read from the data" in text
    code, _, err = run_here("schema", "draft", "people.csv", "-o", "draft.toml")
    assert code == 2
    assert "'draft.toml' exists" in err
    assert (folder / "draft.toml").read_text(encoding="utf-8") == text
    (folder / "latin.csv").write_bytes("name,n\nK\xf6ln,1\n".encode("latin-1"))
    _, out, _ = run_here("schema", "draft", "latin.csv", "--encoding", "latin-1")
    assert gl.Schema.from_toml(out).names == ("name", "n")


def test_a_file_in_utf_16_goes_all_the_way(folder, run_here):
    (folder / "wide.csv").write_bytes((folder / "people.csv").read_text(encoding="utf-8").encode("utf-16"))
    code, _, err = run_here("check", "wide.csv", "-s", "people.toml")
    assert (code, "--encoding utf-16" in err) == (1, True)
    wide = ("--encoding", "utf-16")
    _, plain, _ = run_here("schema", "draft", "people.csv", "--name", "people")
    _, drafted, _ = run_here("schema", "draft", "wide.csv", "--name", "people", *wide)
    line = 'encoding = "utf-16"  # as the data are written\n'
    assert line in drafted
    assert drafted.replace(line, "") == plain
    assert run_here("schema", "draft", "wide.csv", "--name", "people")[1] == drafted  # the first bytes decide
    _, plain, _ = run_here("check", "people.csv", "-s", "people.toml")
    code, checked, _ = run_here("check", "wide.csv", "-s", "people.toml", *wide)
    assert (code, checked) == (0, plain)
    made = ("-s", "people.toml", "--epsilon", "1", "--delta", "0", "--method", "independent", "--ledger", "wide.ledger")
    assert run_here("synth", "wide.csv", *made, "-o", "wide", *wide)[0] == 0
    code, out, _ = run_here("evaluate", "wide.csv", "wide/synthetic.parquet", "-s", "people.toml", *wide)
    assert (code, "two-way distance" in out) == (0, True)


def test_check_shows_violations_and_gaps_to_the_holder(folder):
    done = run("check", "people.csv", "-s", "people.toml", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "FOR THE HOLDER'S EYES, not for release. 100 rows." in done.stdout
    assert "■" in done.stdout
    parsed = json.loads(run("check", "people.csv", "-s", "people.toml", "--json", cwd=folder).stdout)
    assert parsed["for"] == "the holder's eyes"
    assert parsed["rows"] == 100
    assert [column["gaps"] for column in parsed["columns"]] == [0, 50, 34]


def test_check_helps_with_a_messy_spreadsheet(folder, run_here):
    (folder / "messy.csv").write_bytes(
        b'\xef\xbb\xbf age , sex,income\r\n 30 ,F,"1,5"\r\n31,f,12 \r\n,M,2000\r\n40.5,M,NA\r\n\r\n  \r\n'
    )
    done = run("check", "messy.csv", "-s", "people.toml", cwd=folder)
    assert done.returncode == 2
    assert "4 rows" in done.stdout
    lines = {line.split()[0]: line for line in done.stdout.splitlines() if line.startswith("  ") and "kind" not in line}
    assert "1 empty, but may_be_missing is not true → refused; 1 outside the bounds → clamp: '40.5'" in lines["age"]
    assert "1 not a value of the schema → gap: 'f' ('f' is not 'F': capitals count)" in lines["sex"]
    income = "2 not a value of the schema → gap; 1 outside the bounds → clamp: '1,5', 'NA', '2000' (a number is written"
    assert f"{income} 1234.5" in lines["income"]
    assert "will be refused because of: age" in done.stderr
    parsed = json.loads(run_here("check", "messy.csv", "-s", "people.toml", "--json")[1])
    assert [column["refused"] for column in parsed["columns"]] == [True, False, False]
    (folder / "excel.csv").write_text("age;sex;income\n30;F;1,5\n")
    code, _, err = run_here("check", "excel.csv", "-s", "people.toml")
    assert code == 1
    assert "excel.csv is not separated by commas\n  Try: write separator = " in err


def test_a_terminal_without_greek_letters_works(released):
    done = subprocess.run(
        [PROGRAM, "check", "people.csv", "-s", "people.toml"],
        cwd=released,
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii"},
        check=True,
    )
    assert b"? observed" in done.stdout


def test_the_package_runs_as_a_module(tmp_path):
    command = [sys.executable, "-m", "gapless", "check", "none.csv", "-s", "none.toml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=False)
    assert (done.returncode, done.stderr.splitlines()[0]) == (1, "ReadError: no file none.toml")


def test_a_release_holds_all_files_and_a_manifest_that_fits_them(released):
    out = released / "out"
    manifest = json.loads((out / "manifest.json").read_text())
    assert set(manifest["sha256"]) == RELEASE
    for name, digest in manifest["sha256"].items():
        assert hashlib.sha256((out / name).read_bytes()).hexdigest() == digest
    assert manifest["table"] == "people"
    assert manifest["method"] == "factors"
    assert manifest["verdict"] in ("mostly noise", "limited", "good")
    assert manifest["reasons"]
    assert f"<h2>Verdict: {manifest['verdict']}</h2>" in (out / "report.html").read_text(encoding="utf-8")
    assert manifest["versions"]["gapless"] == gl.__version__
    schema = gl.Schema.read(out / "schema.toml")
    assert schema == gl.Schema.read(released / "people.toml")
    text, typed = gl.Table.read(out / "synthetic.csv", schema), gl.Table.read(out / "synthetic.parquet", schema)
    assert text.rows == typed.rows == manifest["rows"]
    assert [codes.tolist() for codes in text.codes] == [codes.tolist() for codes in typed.codes]
    assert "ε = " in (out / "privacy.md").read_text(encoding="utf-8")
    assert json.loads((out / "ledger.json").read_text(encoding="utf-8"))["table"] == "people"
    assert "not finished" not in (out / "README.txt").read_text()
    assert "*.ledger" not in (out / "README.txt").read_text()  # the ledger is beside the data
    assert {path.name for path in out.iterdir()} == RELEASE | {"manifest.json"}
    assert {"people.ledger", "people.ledger.seal"} <= {path.name for path in released.iterdir()}


def test_a_dictionary_separates_levels_and_marks_text_columns():
    code = gl.MissingCode("", "not-applicable")
    columns = [gl.Categorical("town", ["O'Neil, East", "West"]), gl.Integer("hours", bounds=(0, 9), missing=[code])]
    text = "\n".join(dictionary(gl.Schema("t", columns)))
    assert "- cells: `O'Neil, East`, `West`\n" in text
    assert "- not applicable: an empty cell; in synthetic.parquet the column is text" in text


def test_the_ledger_shows_the_promise_for_the_complete_data(tmp_path):
    fill(tmp_path)
    options = (
        "people.csv",
        "-s",
        "people.toml",
        "--epsilon",
        1,
        "--delta",
        0,
        "--ledger",
        "p.ledger",
        "--missing",
        "observed",
    )
    assert run("fit", *options, "--method", "independent", "-o", "m.model", cwd=tmp_path).returncode == 0
    assumed = ("--mcar", "sex=0.5", "--mcar", "income=0.2")
    done = run("ledger", "p.ledger", *assumed, "--plot", "curve.svg", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout.index("of the incomplete table") < done.stdout.index("of the complete data")
    assert "0.2 in 'income', 0.5 in 'sex'" in done.stdout
    assert (tmp_path / "curve.svg").read_text(encoding="utf-8").startswith("<svg")
    figures = [
        json.loads(run("ledger", "p.ledger", "--json", *more, cwd=tmp_path).stdout)["ground_truth"]
        for more in (assumed, (*assumed, "--dependent"), ("--missing-at-least", "sex=0.5"))
    ]
    assert [figure["incomplete"]["epsilon"] for figure in figures] == [pytest.approx(1, abs=1e-6)] * 3
    assert figures[0]["epsilon"] < figures[1]["epsilon"] < figures[2]["epsilon"] < 1
    for wrong in (
        ("--mcar", "sex"),
        ("--dependent",),
        (*assumed, "--missing-at-least", "sex=0.5"),
        ("--missing-at-least", "sex=0.5", "--dependent"),
        ("--mcar", "sex=0.5,income=0.2"),
        ("--mcar", "sex=0.5", "--mcar", "sex=0.2"),
        (*assumed, "--plot", "curve.png"),
    ):
        assert run("ledger", "p.ledger", *wrong, cwd=tmp_path).returncode == 2
    done = run("ledger", "p.ledger", "--mcar", "age=0.5", cwd=tmp_path)
    assert "No release of this ledger leaves out rows with a gap in 'age'" in done.stderr
    assert run("ledger", "p.ledger", "--mcar", "sex=1.5", cwd=tmp_path).returncode == 2


def test_the_ledger_is_shown_in_words_and_for_a_machine(released):
    done = run("ledger", "people.ledger", cwd=released)
    assert done.returncode == 0
    assert "Ledger of 'people': ε = 1, δ = 1e-06" in done.stdout
    assert ".fit" in done.stdout
    parsed = json.loads(run("ledger", "people.ledger", "--json", cwd=released).stdout)
    assert parsed["budget"] == {"epsilon": 1.0, "delta": 1e-6}
    pairs = ["age × sex", "age × income", "sex × income"]
    products = [f"{pair}, products of features" for pair in pairs]
    assert [entry["what"] for entry in parsed["entries"]][:6] == ["age", "sex", "income", *products]


def test_a_fitted_model_is_sampled_as_often_as_one_likes(folder):
    promise = ("--epsilon", 1, "--delta", 1e-6)
    options = ("people.csv", "-s", "people.toml", *promise, "--ledger", "p.ledger", "--spend", "50%")
    done = run("fit", *options, "-o", "people.model", "--json", cwd=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["guarantee"]["table"] == "people"
    for name in ("one.csv", "two.csv"):
        done = run("sample", "people.model", "--rows", 7, "--seed", 7, "-o", name, cwd=folder)
        assert (done.returncode, done.stdout) == (0, f"7 rows in {name}\n")
    assert (folder / "one.csv").read_bytes() == (folder / "two.csv").read_bytes()
    done = run("sample", "people.model", "--gaps", "as-observed", "--seed", 1, "-o", "gaps.csv", cwd=folder)
    assert done.returncode == 0
    model = gl.load(folder / "people.model")
    model.sample(seed=1, gaps="as-observed").write(folder / "same.csv")
    assert (folder / "gaps.csv").read_bytes() == (folder / "same.csv").read_bytes()
    done = run("sample", "people.model", "--gaps", "as-observed", "--json", "-o", "gaps.parquet", cwd=folder)
    assert json.loads(done.stdout)["rows"] == len(pl.read_parquet(folder / "gaps.parquet"))


def test_every_command_has_help_with_an_example(tmp_path, run_here):
    commands = (("demo",), ("schema", "draft"), ("check",), ("synth",), ("fit",), ("sample",), ("ask",), ("ledger",))
    commands += (("archive",),)
    listed = run("--help", cwd=tmp_path).stdout
    for command in commands:
        assert command[0] in listed
        code, out, _ = run_here(*command, "--help")
        assert code == 0
        assert f"Example: gapless {' '.join(command)}" in " ".join(out.split())
    assert run_process("--version", cwd=tmp_path).stdout == f"gapless {gl.__version__}\n"


# ---------------------------------------------------------------------- what goes wrong


SYNTH = ("synth", "people.csv", "-s", "people.toml")
WRONG = {
    "no command": ((), 2, "Usage"),
    "unknown command": (("nope",), 2, "No such command"),
    "epsilon is no number": ((*SYNTH, "--epsilon", "x", "--delta", "0", "-o", "out"), 2, "--epsilon"),
    "epsilon is zero": (
        (*SYNTH, "--epsilon", "0", "--delta", "0", "-o", "out"),
        3,
        "BudgetError: epsilon = 0",
    ),
    "epsilon is negative": ((*SYNTH, "--epsilon", "-1", "--delta", "0", "-o", "out"), 3, "BudgetError: epsilon = -1"),
    "epsilon is nan": ((*SYNTH, "--epsilon", "nan", "--delta", "0", "-o", "out"), 3, "BudgetError: epsilon = nan"),
    "epsilon is infinite": ((*SYNTH, "--epsilon", "inf", "--delta", "0", "-o", "out"), 3, "BudgetError: epsilon = inf"),
    "no epsilon": (
        (*SYNTH, "-o", "out"),
        3,
        "people.ledger is new and needs a budget\n  Try: pass --epsilon 1 --delta 1e-6 if nothing was released",
    ),
    "delta is one": ((*SYNTH, "--epsilon", "1", "--delta", "1", "-o", "out"), 3, "BudgetError: delta = 1"),
    "unknown method": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "-m", "independant", "-o", "out"),
        2,
        "Try: choose independent",
    ),
    "unknown treatment": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "--missing", "extend", "-o", "out"),
        2,
        "Try: choose extended",
    ),
    "unknown gaps": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "--gaps", "some", "-o", "out"),
        2,
        "Try: write --gaps filled or --gaps as-observed",
    ),
    "gaps not measured": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "--gaps", "as-observed", "--missing", "observed", "-o", "out"),
        1,
        "pass --missing extended for rows with gaps, or pass --gaps filled for complete rows",
    ),
    "negative rows": ((*SYNTH, "--epsilon", "1", "--delta", "0", "--rows", "-1", "-o", "out"), 2, "--rows"),
    "negative seed": ((*SYNTH, "--epsilon", "1", "--delta", "0", "--seed", "-1", "-o", "out"), 2, "--seed"),
    "no data": (("check", "none.csv", "-s", "people.toml"), 1, "ReadError: no file none.csv"),
    "no schema": (("check", "people.csv", "-s", "none.toml"), 1, "ReadError: no file none.toml"),
    "bad schema": (("check", "people.csv", "-s", "people.csv"), 2, "SchemaError: people.csv is not valid TOML"),
    "no ledger": (("ledger", "none.ledger"), 1, "LedgerError: there is no ledger none.ledger"),
    "no model": (("sample", "none.model", "-o", "x.csv"), 1, "ModelError: there is no model file none.model"),
    "not a model": (("sample", "people.csv", "-o", "x.csv"), 1, "ModelError: people.csv is not a gapless model"),
    "output is a file": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "-o", "people.csv"),
        1,
        "ReadError: a release is a folder, but 'people.csv' is a file",
    ),
    "output in a file": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "-o", "people.csv/x"),
        1,
        "ReadError: cannot create",
    ),
    "bad data": (
        ("synth", "people.toml", *SYNTH[2:], "--epsilon", "1", "--delta", "0", "-o", "new/out"),
        1,
        "unknown ending",
    ),
    "spend is no number": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "--spend", "x", "-o", "out"),
        3,
        "a spend must be a percentage above 0% and at most 100% of the budget, got 'x'",
    ),
    "spend is too much": (
        (
            "fit",
            *SYNTH[1:],
            "--epsilon",
            "1",
            "--delta",
            "0",
            "--ledger",
            "p.ledger",
            "--spend",
            "101%",
            "-o",
            "m.model",
        ),
        3,
        "a spend must be a percentage above 0% and at most 100% of the budget, got '101%'",
    ),
    "new ledger for a comparison": (
        ("evaluate", "people.csv", "people.csv", "-s", "people.toml", "--ledger", "p.ledger", "--spend", "5%"),
        3,
        "p.ledger is new and needs a budget\n  Try: pass the path of the ledger of the releases",
    ),
    "ledger among the files": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "--ledger", "out/synthetic.csv", "-o", "out"),
        1,
        "a ledger in the release folder must end with .ledger, got ",
    ),
    "output beside the data": (
        (*SYNTH, "--epsilon", "1", "--delta", "0", "-o", "."),
        1,
        "must be new or empty, but '.' holds other files",
    ),
    "model in no folder": (
        ("fit", *SYNTH[1:], "--epsilon", "1", "--delta", "0", "--ledger", "p.ledger", "-o", "no/people.model"),
        1,
        "ReadError: cannot write no/people.model",
    ),
}


@pytest.mark.parametrize(("arguments", "code", "message"), WRONG.values(), ids=WRONG)
def test_errors_are_reported_before_anything_is_started(arguments, code, message, folder, run_here):
    before = {path: path.read_bytes() for path in folder.iterdir()}
    left, out, err = run_here(*arguments)
    assert left == code
    assert " ".join(message.split()) in " ".join((err or out).replace("│", " ").split())
    assert {path: path.read_bytes() for path in folder.iterdir()} == before  # no folder, no ledger, nothing spent


@pytest.mark.parametrize("name", ["epsilon is no number", "epsilon is zero", "no data"])
def test_real_processes_leave_with_the_same_codes(name, folder):
    arguments, code, message = WRONG[name]
    done = run_process(*arguments, cwd=folder)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


FIT = ("fit", "people.csv", "-s", "people.toml", "--epsilon", 1, "--delta", 0, "--ledger", "p.ledger")
EVALUATE = ("evaluate", "people.csv", "fake.csv", "-s", "people.toml", "--ledger", "people.ledger")
GAP = ("gap", "people.csv", "-s", "people.toml", "--rate", 0.1)
TAKEN = {
    "fit, a new ledger": (*FIT, "-o", "p.ledger"),
    "fit, its seal": (*FIT, "-o", "p.ledger.seal"),
    "fit, another ledger": (*FIT, "-o", "people.ledger"),
    "fit, the ledger beside the data": (*FIT[:-2], "-o", "people.ledger"),
    "fit, the data": (*FIT, "-o", "people.csv"),
    "fit, a model": (*FIT, "-o", "out/synthetic.model"),
    "ledger, itself": ("ledger", "people.ledger", "--plot", "people.ledger"),
    "ledger, its seal": ("ledger", "people.ledger", "--plot", "people.ledger.seal"),
    "ledger, through a link": ("ledger", "people.ledger", "--plot", "link"),
    "ledger, another": ("ledger", "people.ledger", "--plot", "other.ledger"),
    "evaluate, the truth": (*EVALUATE, "-o", "people.csv"),
    "evaluate, the fake": (*EVALUATE, "-o", "./fake.csv"),
    "evaluate, the schema": (*EVALUATE, "-o", "people.toml"),
    "evaluate, the schema through a hard link": (*EVALUATE, "-o", "hard.toml"),
    "evaluate, the ledger": (*EVALUATE, "-o", "people.ledger"),
    "gap, the data": (*GAP, "-o", "people.csv"),
    "gap, the schema": (*GAP, "-o", "g.csv", "--schema-output", "people.toml"),
    "gap, one file for both": (*GAP, "-o", "g.csv", "--schema-output", "./g.csv"),
    "sample, the private table": ("sample", "out/synthetic.model", "-o", "people.csv"),
    "sample, the release": ("sample", "out/synthetic.model", "-o", "out/synthetic.csv"),
    "sample, the model": ("sample", "out/synthetic.model", "-o", "out/synthetic.model"),
}


@pytest.mark.parametrize("arguments", TAKEN.values(), ids=TAKEN)
def test_no_output_takes_the_place_of_an_input_a_ledger_or_a_release(arguments, released, folder, run_here):
    shutil.copytree(released, folder, dirs_exist_ok=True)
    shutil.copy(folder / "people.csv", folder / "fake.csv")
    (folder / "link").symlink_to("people.ledger")
    (folder / "hard.toml").hardlink_to(folder / "people.toml")
    for seal in ("", ".seal"):
        shutil.copy(folder / f"people.ledger{seal}", folder / f"other.ledger{seal}")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    code, _, err = run_here(*arguments)
    assert code == 1
    assert "would overwrite" in err or "exists" in err or "is a ledger" in err
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_finished_release_is_not_touched(released):
    before = {path: path.read_bytes() for path in (released / "out").iterdir()}
    done = run(*SYNTH, "--epsilon", 1, "--delta", 1e-6, "-o", "out", cwd=released)
    assert done.returncode == 1
    assert "'out' holds a finished release\n  Try: choose a new folder; the new release is paid from" in done.stderr
    assert "what is left in 'people.ledger'" in done.stderr
    assert {path: path.read_bytes() for path in (released / "out").iterdir()} == before


def test_a_spent_budget_gives_nothing_more(released):
    for spend in ((), ("--spend", "10%"), ("--epsilon", 1, "--delta", 1e-6)):
        done = run(*SYNTH, *spend, "-o", "again", cwd=released)
        assert done.returncode == 3
        assert done.stderr.startswith("BudgetError: ")
    assert not (released / "again" / "manifest.json").exists()
    done = run(*SYNTH, "--epsilon", 5, "--delta", 0, "-o", "again", cwd=released)
    assert done.returncode == 1
    assert "LedgerError" in done.stderr
    assert "Try: use what was released before" in done.stderr


def test_the_ledger_is_beside_the_data_for_every_command(folder, run_here):
    """Each command finds the one budget of the table: a new folder is no new one."""
    promise = ("--epsilon", 1, "--delta", 1e-6)
    table = ("people.csv", "-s", "people.toml")
    assert run_here("fit", *table, *promise, "--spend", "20%", "-m", "independent", "-o", "p.model")[0] == 0
    code, out, _ = run_here("synth", *table, *promise, "--spend", "20%", "-m", "independent", "-o", "one")
    assert code == 0
    assert "The ledger is people.ledger; another one is refused for these files. Releases from copies of these" in out
    assert run_here("ask", *table, "--spend", "20%", "count()")[0] == 0
    assert run_here("evaluate", "people.csv", "one/synthetic.csv", "-s", "people.toml", "--spend", "20%")[0] == 0
    account = gl.Ledger.open(folder / "people.ledger")
    assert account.left.value == pytest.approx(account.capacity.value / 5)
    code, _, err = run_here(*SYNTH, "--epsilon", 5, "--delta", 0, "-o", "two")
    assert code == 1
    assert "has the budget 'ε = 1, δ = 1e-06', which cannot be changed to 'ε = 5, δ = 0'" in err
    assert "of which 20.00% is left" in err
    assert run_here(*SYNTH, *promise, "-o", "two")[0] == 0
    assert run_here(*SYNTH, *promise, "-o", "three")[0] == 3
    assert [path.name for path in folder.rglob("*.ledger")] == ["people.ledger"]
    people = gl.read(folder / "people.csv", gl.Schema.read(folder / "people.toml"), protect=gl.Rows(1))
    assert people.ledger.left.value == 0


def test_a_ledger_in_a_folder_of_an_earlier_version_is_the_ledger(folder, run_here):
    old = folder / "old" / "people.ledger"
    old.parent.mkdir()
    assert run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "--ledger", old, "--spend", "50%", "-o", "old")[0] == 0
    assert "*.ledger, *.ledger.seal, .runs " in (folder / "old" / "README.txt").read_text()
    for finished in (True, False):
        code, _, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "-o", "old")
        assert code == 1
        assert (
            f"from the ledger 'people.ledger'\n  Try: read the table with --ledger {Path('old', 'people.ledger')}"
            in err
        )
        if finished:
            (folder / "old" / "manifest.json").unlink()
            (folder / "old" / "README.txt").write_text("This release is not finished: manifest.json is written last.\n")
    assert run_here(*SYNTH, "--ledger", old, "-o", "new")[0] == 0
    assert gl.Ledger.open(old).left.value == 0
    assert not (folder / "people.ledger").exists()


NEEDS_DELTA = (
    "BudgetError: A new ledger needs --delta.\n"
    "  Try: add --delta 1e-6 (recommended, less noise) or --delta 0 (pure differential privacy, much more noise)\n"
)


@pytest.mark.parametrize("delta", [0, 1e-6])
def test_a_new_ledger_needs_a_delta_and_an_existing_one_neither(folder, run_here, delta):
    ask = ("ask", "people.csv", "-s", "people.toml", "--spend", "20%", "count()")
    assert run_here(*ask, "--epsilon", 1) == (3, "", NEEDS_DELTA)
    code, _, err = run_here(*ask, "--delta", delta)
    assert (code, "people.ledger is new and needs a budget" in err) == (3, True)
    assert not (folder / "people.ledger").exists()
    for promised in (("--epsilon", 1, "--delta", delta), (), ("--epsilon", 1), ("--delta", delta)):
        assert run_here(*ask, *promised)[::2] == (0, "")
    code, _, err = run_here(*ask, "--epsilon", 2)
    assert (code, "people.ledger has the budget" in err) == (1, True)


def test_a_spent_pure_budget_is_spent_in_spite_of_rounding(run_here):
    assert run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "--ledger", "p.ledger", "-o", "one")[0] == 0
    code, _, err = run_here(*SYNTH, "--ledger", "p.ledger", "-o", "two")
    assert code == 3
    assert "the budget of this table is spent" in err


def test_the_share_reported_as_left_can_be_spent(folder, run_here):
    """Found by a new user: 66.67% was reported as left, and refused with "asks for 66.67%, but 66.67% is left"."""
    fit = ("fit", "people.csv", "-s", "people.toml", "-m", "independent")
    for share, expected in (("33.33333%", "left 66.66%"), ("66.67%", "Spent 100.00% of the budget, left 0.00%")):
        code, out, _ = run_here(*fit, "--epsilon", 1, "--delta", 0, "--spend", share, "-o", f"{share}.model")
        assert code == 0
        assert expected in out
    account = gl.Ledger.open(folder / "people.ledger")
    assert account.left.value == 0
    assert account.spent.value <= account.capacity.value * (1 + 1e-12)


@pytest.mark.parametrize("share", ["66.66%", "66.67", "66.665%"])
def test_a_share_within_the_printed_rounding_is_all_that_is_left(share, folder, run_here):
    fit = ("fit", "people.csv", "-s", "people.toml", "-m", "independent", "--epsilon", 1, "--delta", 0, "--spend")
    assert run_here(*fit, "33.33333%", "-o", "first.model")[0] == 0
    code, out, err = run_here(*fit, "66.68%", "-o", "more.model")
    assert (code, out) == (3, "")
    assert "asks for 66.68% of the budget, but 66.66% is left\n  Try: pass a --spend of at most 66.66%" in err
    code, out, _ = run_here(*fit, share, "-o", "rest.model", "--json")
    account = json.loads(out)
    assert (code, account["spent"], account["left"], account["ledger"]) == (0, 100, 0, "people.ledger")
    assert "the budget of this table is spent" in run_here(*fit, "0.004%", "-o", "third.model")[2]


@pytest.mark.parametrize(
    ("share", "meant"), [("0.5", "--spend 0.5%, or pass --spend 50%"), ("1", "--spend 1%, or pass --spend 100%")]
)
def test_a_bare_number_up_to_1_is_asked_about(share, meant, folder, run_here):
    code, _, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "--spend", share, "-o", "out")
    assert code == 3
    assert f"a spend of {share} is ambiguous: it may mean {share}% or " in err
    assert f"\n  Try: pass {meant}\n" in err
    assert not (folder / "people.ledger").exists()


def test_synth_ends_with_what_is_spent_and_left_and_the_verdict(folder, run_here):
    synth = (*SYNTH, "-m", "independent", "--spend", "40%")
    out = run_here(*synth, "--epsilon", 1, "--delta", 0, "-o", "one")[1]
    before, _, judged = out.partition("\nSpent 40.00% of the budget, left 60.00%, in people.ledger\n\nVerdict: ")
    assert before
    manifest = json.loads((folder / "one" / "manifest.json").read_text(encoding="utf-8"))
    assert judged.startswith(f"{manifest['verdict']}. ")
    uses = {"Usable for": "usable_for", "With care": "with_care", "Not for": "not_for"}
    shown = [f"  {lead}: {'; '.join(manifest[key])}." for lead, key in uses.items() if manifest[key]]
    assert judged.splitlines()[1:] == shown
    parsed = json.loads(run_here(*synth, "-o", "two", "--json")[1])
    assert parsed["verdict"] in ("mostly noise", "limited", "good")
    assert (parsed["spent"], parsed["left"], parsed["ledger"]) == (80, 20, "people.ledger")


def test_a_refused_release_leaves_no_files(folder, run_here):
    assert run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "--ledger", "p.ledger", "-o", "one")[0] == 0
    before = sorted(folder.rglob("*"))
    for spend in ((), ("--spend", "10%")):
        assert run_here(*SYNTH, "--ledger", "p.ledger", *spend, "-o", "new/two")[0] == 3
        assert sorted(folder.rglob("*")) == before
    (folder / "mine").mkdir()
    assert run_here(*SYNTH, "--ledger", "p.ledger", "-o", "mine")[0] == 3
    assert (folder / "mine").is_dir()


def test_a_release_that_was_begun_can_be_finished(folder, run_here, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("gapless.publish.folder.release_page", lambda *_, **__: 1 / 0)
        assert run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "--spend", "50%", "-o", "out")[0] == 1
    assert "not finished" in (folder / "out" / "README.txt").read_text()
    paid = (folder / "out" / "synthetic.model").read_bytes(), (folder / "people.ledger").read_bytes()
    code, _, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "--ledger", "other.ledger", "-o", "out")
    assert code == 1
    assert "needs the ledger that it was begun with, but there is no ledger 'other.ledger'" in err
    code, out, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "-o", "out", "--json")
    expected = (
        "out was begun with mixture, Extended(). It is finished with the model that was paid for. Nothing is spent."
    )
    assert code == 0
    assert err.splitlines()[0] == expected
    assert set(json.loads(out)["files"]) == RELEASE | {"manifest.json"}
    assert ((folder / "out" / "synthetic.model").read_bytes(), (folder / "people.ledger").read_bytes()) == paid


def test_a_release_is_finished_only_with_the_method_it_was_begun_with(folder, run_here, monkeypatch):
    begun = ("--method", "mst", "--missing", "observed")
    with monkeypatch.context() as patch:
        patch.setattr("gapless.publish.folder.release_page", lambda *_, **__: 1 / 0)
        assert run_here(*SYNTH, "--epsilon", 1, "--delta", 0, *begun, "-o", "out")[0] == 1
    before = sorted(folder.rglob("*"))
    for other in (("--method", "independent"), ("--missing", "extended"), (*begun[:3], "complete-rows")):
        code, _, err = run_here(*SYNTH, *other, "-o", "out")
        assert code == 1
        assert (
            "out was begun with mst, Observed(); it must be finished with the same method and treatment of gaps\n"
            in err
        )
        assert "  Try: pass the same --method and --missing, or leave both out\n" in err
        assert sorted(folder.rglob("*")) == before
    code, _, err = run_here(*SYNTH, *begun, "-o", "out")
    assert code == 0
    assert "out was begun with mst, Observed(). It is finished" in err


def test_a_release_is_not_finished_under_a_ledger_with_equal_entries(folder, run_here, monkeypatch):
    """Another table of the same schema, released in the same way on the same day."""
    synth = (*SYNTH, "--epsilon", 1, "--delta", 0, "--spend", "50%", "-m", "independent")
    with monkeypatch.context() as patch:
        patch.setattr("gapless.publish.folder.release_page", lambda *_, **__: 1 / 0)
        assert run_here(*synth, "-o", "out")[0] == 1
    (folder / "other.csv").write_bytes((folder / "people.csv").read_bytes())
    other = (synth[0], "other.csv", *synth[2:])
    assert run_here(*other, "-o", "other")[0] == 0
    code, _, err = run_here(*other, "-o", "out")
    assert code == 1
    assert "'out' was begun with another schema or ledger" in err


BAD_DATA = {
    "ragged": f"age,sex,income\n1,F\n2,{CELL},3\n".encode(),
    "open quote": f'age,sex,income\n1,"{CELL},3\n'.encode(),
    "encoding": f"age,sex,income\n1,{CELL}\xff,3\n".encode("latin-1"),
    "refused": f"age,sex,income\n{CELL},F,3\n".encode(),
    "no header": f"1,{CELL},3\n".encode(),
    "same name twice": f"{CELL},{CELL},3\n".encode(),
    "semicolons": f"{CELL};F;3\n".encode(),
    "empty": b"",
}


@pytest.mark.parametrize("content", BAD_DATA.values(), ids=BAD_DATA)
def test_synth_never_prints_a_cell(content, folder, run_here):
    (folder / "bad.csv").write_bytes(content)
    left, out, err = run_here("synth", "bad.csv", *SYNTH[2:], "--epsilon", 1, "--delta", 0, "-o", "out")
    assert left in {1, 2}
    assert "Error: " in err
    assert "Internal" not in err
    assert CELL not in out + err
    assert not list(folder.rglob("*.ledger"))


def test_an_internal_error_is_reported_without_its_text(folder, run_here, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError(CELL)

    monkeypatch.setattr("gapless.data.read", fail)
    left, out, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 1e-6, "-o", "out")
    assert left == 1
    assert err.startswith("Internal error: RuntimeError at test_cli.py:")
    assert CELL not in out + err


def test_a_header_without_rows_makes_a_release_like_any_other(folder, run_here):
    (folder / "head.csv").write_text("age,sex,income\n")
    code, out, _ = run_here("synth", "head.csv", *SYNTH[2:], "--epsilon", 1, "--delta", 1e-6, "-o", "out")
    assert code == 0
    assert "\nVerdict: mostly noise. This release is mostly noise, and its rows are not for analysis." in out
    assert (folder / "out" / "manifest.json").exists()


# ---------------------------------------------------------------------- evaluate


def test_evaluate_compares_two_files(released, run_here):
    out = released / "out" / "synthetic.csv"
    done = run("evaluate", "people.csv", out, "-s", "people.toml", "-o", "report.html", cwd=released)
    assert (done.returncode, done.stderr) == (0, "")
    assert "two-way distance" in done.stdout
    assert "may be shown only if it is public" in done.stdout
    assert (released / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    code, printed, _ = run_here("evaluate", "people.csv", out, "-s", "people.toml", "--json")
    parsed = json.loads(printed)
    assert (code, parsed["rows"][0], parsed["spent"]) == (0, 100, None)
    ledger = released / "people.ledger"
    code, printed, _ = run_here("evaluate", "people.csv", out, "-s", "people.toml", "--ledger", ledger, "--json")
    assert "differential privacy" in json.loads(printed)["promise"]


def test_evaluate_can_pay_for_a_private_truth(folder, run_here):
    arguments = ("--epsilon", 1, "--delta", 1e-6)
    run("fit", "people.csv", "-s", "people.toml", *arguments, "--spend", "50%", "-o", "people.model", cwd=folder)
    run("sample", "people.model", "-o", "fake.csv", cwd=folder)
    pay = ("evaluate", "people.csv", "fake.csv", "-s", "people.toml", "--spend", "10%")
    before = (folder / "people.ledger").read_bytes()
    code, _, err = run_here(*pay, "-o", "report.txt")
    assert code == 1
    assert "-o report.html" in err
    assert (folder / "people.ledger").read_bytes() == before
    code, _, err = run_here(*pay, "--tasks")
    assert code == 2
    assert "reads the cells" in err
    code, printed, _ = run_here(*pay, "--json")
    assert code == 0
    assert json.loads(printed)["spent"] == "10.00% of the budget"
    assert len(gl.Ledger.open(folder / "people.ledger").entries) > 6
    code, _, err = run_here("evaluate", "people.csv", "fake.csv", "-s", "people.toml", "-o", "nowhere/report.html")
    assert code == 1
    assert "cannot write" in err


def test_gaps_in_a_public_table(tmp_path):
    rows = [f"{i % 99},{'FM'[i % 2]},{i % 1000}.25" for i in range(400)]
    (tmp_path / "truth.csv").write_text("age,sex,income\n" + "\n".join(rows) + "\n")
    (tmp_path / "truth.toml").write_text(
        SCHEMA.replace("may_be_missing = true\nmissing", "# missing").replace("may_be_missing = true\n", "")
    )
    asked = ("gap", "truth.csv", "--schema", "truth.toml", "--mechanism", "mar", "--rate", "0.3", "--observed", "age")
    done = run(*asked, "--seed", "0", "-o", "gapped.csv", "--schema-output", "gapped.toml", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    parsed = json.loads(done.stdout)
    assert parsed["rows"] == 400
    assert parsed["rates"]["age"] == 0
    truth, gapped = (pl.read_csv(tmp_path / f"{name}.csv", infer_schema_length=0) for name in ("truth", "gapped"))
    assert gapped["income"].null_count() > 50
    for name in truth.columns:  # cells that stay are not touched
        stay = gapped[name].is_not_null()
        assert truth[name].filter(stay).equals(gapped[name].filter(stay))
    table = gl.Table.read(tmp_path / "gapped.csv", gl.Schema.read(tmp_path / "gapped.toml"))
    assert gl.missing.patterns(table).complete == parsed["complete_rows"]
    again = run(*asked, "--seed", "0", "-o", "again.csv", cwd=tmp_path)
    assert "declare may_be_missing = true for sex, income" in again.stderr
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "gapped.csv").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rate", "x"], "Try: write --rate 0.2 or --rate income=0.2"),
        (["--rate", "20"], "--rate must be a share from 0 to 1, got '20'. Try: write --rate 0.2 or --rate income=0.2"),
        (["--rate", "income=0.2", "--rate", "income=0.3"], "--rate is given twice for income"),
        (["--rate", "0.2", "--rate", "0.3"], "--rate is given twice for all columns"),
        (["--rate", "0.2", "--rate", "income=0.3"], "--rate is given for all columns and again for a single column"),
        (["--rate", "0.2", "--mechanism", "odd"], "there is no --mechanism odd"),
        (["--rate", "0.2", "--how", "self"], "--how is only for --mechanism mnar"),
        (["--rate", "colour=0.2"], "no column 'colour'"),
    ],
)
def test_gaps_that_cannot_be_made(arguments, message, tmp_path):
    done = run("gap", "people.csv", "-s", "people.toml", "-o", "out.csv", *arguments, cwd=fill(tmp_path))
    assert done.returncode == 2
    assert message in " ".join(done.stderr.replace("│", "").split())


# ---------------------------------------------------------------------- hints, warnings, Ctrl-C, encodings


WIDE = '[table]\nname = "wide"\n' + "".join(
    f'[column.{name}]\nkind = "integer"\nbounds = [0, 29999]\nbins = 30000\n' for name in "ab"
)
HINTS = {
    "a column too wide": (
        ("fit", "wide.csv", "-s", "wide.toml", "--epsilon", 1, "--delta", 0, "-m", "mst", "-o", "m"),
        "ignore in the schema",
    ),
    "more than is left": (("fit", *SYNTH[1:], "--spend", "60%", "-o", "m"), "Try: pass a --spend of at most 50.00%"),
    "another budget": (("fit", *SYNTH[1:], "--epsilon", 2, "-o", "m"), "Try: leave --epsilon and --delta out"),
    "too little for knn": (
        ("ask", *SYNTH[1:], "--spend", "1%", "mean(income)", "--missing", "knn", "--on", "age"),
        "Try: use --missing hot-deck --on age,sex, which works at any ε, or pass a larger --spend",
    ),
    "matched and asked": (
        ("ask", *SYNTH[1:], "--spend", "9%", "mean(income)", "--missing", "hot-deck", "--on", "income"),
        "--missing drop",
    ),
    "gaps that were not measured": (
        ("sample", "p.model", "--gaps", "as-observed", "-o", "x.csv"),
        "--missing extended",
    ),
    "another encoding": (("check", "latin.csv", "-s", "people.toml"), "Try: pass its encoding: --encoding cp1252"),
    "more rows per person": (
        ("fit", "people.csv", "-s", "three.toml", "-o", "m"),
        "Try: release nothing more under this",
    ),
    "a rate beyond 1": (("ledger", "people.ledger", "--mcar", "sex=1.5"), "--mcar income=0.2"),
    "no place for a model": (("fit", *SYNTH[1:], "-o", "p.model"), "Try: choose another name"),
}


@pytest.mark.parametrize(("arguments", "message"), HINTS.values(), ids=HINTS)
def test_hints_at_a_terminal_name_options(arguments, message, folder, run_here):
    (folder / "wide.toml").write_text(WIDE)
    (folder / "wide.csv").write_text("a,b\n1,2\n")
    (folder / "three.toml").write_text(SCHEMA.replace('"people"\n', '"people"\nrows_per_person = 3\n'))
    (folder / "latin.csv").write_bytes("age,sex,income\n1,\xff,3\n".encode("latin-1"))
    paid = (
        "--epsilon",
        1,
        "--delta",
        0,
        "--spend",
        "50%",
        "-m",
        "independent",
        "--missing",
        "observed",
        "-o",
        "p.model",
    )
    assert run_here("fit", "people.csv", "-s", "people.toml", *paid)[0] == 0
    code, _, err = run_here(*arguments)
    assert code in {1, 2, 3}
    assert message in err


@pytest.mark.parametrize(
    ("promise", "expected"),
    [
        (("--epsilon", 1, "--delta", 1e-6), ()),
        (
            ("--epsilon", 3, "--delta", 1e-5),
            ("ε = 3 is above 1: one person can change the probability of a result by a factor of up to e^ε = 20.09",),
        ),
        (("--epsilon", 12, "--delta", 0), ("ε = 12 is above 10, A VERY WEAK PROMISE", "e^ε = 162800")),
        (
            ("--epsilon", 0.5, "--delta", 1e-3),
            ("δ = 0.001 is one in 1,000, not clearly below one in the 10,000 rows assumed",),
        ),
    ],
)
def test_a_weak_promise_is_explained_before_it_is_made(promise, expected, folder, run_here):
    code, _, err = run_here(*SYNTH, *promise, "-m", "independent", "-o", "out")
    statement = (folder / "out" / "privacy.md").read_text(encoding="utf-8")
    assert code == 0
    assert err.count("Warning: ") == statement.count("**Warning: ") == bool(expected)
    for text in expected:
        assert text in err
        assert text in statement
        assert text in run_here("ledger", "people.ledger")[1]


def test_delta_is_held_against_the_number_of_rows_that_the_schema_expects(folder, run_here):
    (folder / "people.toml").write_text(SCHEMA.replace('"people"\n', '"people"\nexpected_rows = 2000000\n'))
    code, _, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 1e-6, "-o", "out")
    assert code == 0
    assert "δ = 1e-06 is one in 1,000,000, not clearly below one in the 2,000,000 rows that the schema expects" in err
    assert "2,000,000 rows expected" in (folder / "out" / "privacy.md").read_text(encoding="utf-8")


def test_ctrl_c_reports_what_was_spent_and_how_to_resume(tmp_path):
    bundled = Path(gl.__file__).parent / "demo"
    for name in ("nhanes.csv.gz", "nhanes.toml"):
        shutil.copy(bundled / name, tmp_path)
    promise = ("--epsilon", "1", "--delta", "1e-6")
    command = [PROGRAM, "synth", "nhanes.csv.gz", "-s", "nhanes.toml", *promise, "-m", "aim", "-o", "out"]
    ledger = tmp_path / "nhanes.ledger"
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, encoding="utf-8") as process:
        while not ledger.exists() or len(ledger.read_bytes().splitlines()) < 17:  # in the middle of the rounds
            assert process.poll() is None
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    account = gl.Ledger.open(ledger)
    assert 0 < account.spent.value < account.capacity.value
    _, left = account.percentages()
    assert err == (
        f"Stopped. {account.percent(account.spent)} of the budget of 'nhanes' was spent since the command began; "
        f"{left:.2f}% is left in {ledger}\n  Try: run the same command again; synth and fit resume where they "
        "stopped and pay for no answer twice\n"
    )
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["released.journal"]


def test_a_release_that_was_stopped_is_finished_for_free(folder, run_here, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("gapless.publish.folder.release_page", lambda *_, **__: signal.raise_signal(signal.SIGTERM))
        code, _, err = run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "-o", "out")
    assert code == 128 + signal.SIGTERM
    assert "Stopped. 100.00% of the budget of 'people' was spent" in err
    assert run_here(*SYNTH, "--epsilon", 1, "--delta", 0, "-o", "out")[0] == 0
    assert (folder / "out" / "manifest.json").exists()
    with monkeypatch.context() as patch:
        patch.setattr("gapless.missing.check", lambda *_, **__: signal.raise_signal(signal.SIGINT))
        assert run_here("check", "people.csv", "-s", "people.toml") == (130, "", "Stopped. Nothing was spent.\n")


def test_evaluate_reads_each_file_in_its_own_encoding(tmp_path, folder, run_here):
    (folder / "town.toml").write_text(
        '[table]\nname = "town"\n[column.town]\nkind = "categorical"\nlevels = ["Köln", "Bonn"]\n', encoding="utf-8"
    )
    for encoding in ("latin-1", "utf-8"):
        (folder / f"{encoding}.csv").write_text("town\nKöln\nBonn\n", encoding=encoding)
    compared = ("-s", "town.toml", "--json")
    for files in (
        ("latin-1.csv", "utf-8.csv", "--encoding", "latin-1"),
        ("utf-8.csv", "latin-1.csv", "--fake-encoding", "latin-1"),
    ):
        code, out, err = run_here("evaluate", *files, *compared)
        assert (code, err) == (0, "")
        assert {score["name"]: score["value"] for score in json.loads(out)["scores"]}["one-way distance"] == 0
    code, _, err = run_here("evaluate", "utf-8.csv", "latin-1.csv", *compared)
    assert code == 1
    assert "latin-1.csv is not utf-8 text\n  Try: pass its encoding: --fake-encoding cp1252" in err


def test_absent_data_are_reported_before_a_finished_release(released, run_here, monkeypatch):
    early = "gapless.privacy.ledger.check_has_budget"
    monkeypatch.setattr(early, lambda *_: pytest.fail("the ledger was looked for first"))
    code, _, err = run_here("synth", "nope.csv", "-s", "people.toml", "-o", released / "out")
    assert (code, err) == (1, "ReadError: no file nope.csv\n  Try: check the path\n")


def test_a_rate_without_a_column_is_one_for_every_column_that_may_be_missing(folder, run_here):
    paid = ("--epsilon", 1, "--delta", 0, "-m", "independent", "--missing", "observed", "-o", "p.model")
    assert run_here("fit", "people.csv", "-s", "people.toml", *paid)[0] == 0
    code, every, err = run_here("ledger", "people.ledger", "--mcar", "0.3", "--json")
    assert (code, err) == (0, "")
    named = run_here("ledger", "people.ledger", "--mcar", "sex=0.3", "--mcar", "income=0.3", "--json")[1]
    assert json.loads(every)["ground_truth"]["epsilon"] == json.loads(named)["ground_truth"]["epsilon"] < 1
    assert run_here("ledger", "people.ledger", "--mcar", "0.3", "--mcar", "sex=0.3")[0] == 2
    code, out, err = run_here("ledger", "people.ledger", "--mcar", "Sex=0.3")
    assert (code, out) == (2, "")
    assert err.startswith("SchemaError: no column 'Sex' in ")
    assert err.endswith("Try: use sex\n")


def test_a_file_that_is_no_model_is_refused_with_a_hint(folder, run_here):
    code, _, err = run_here("sample", "people.csv", "-o", "x.csv")
    assert code == 1
    assert "Try: load a file that `gapless fit` wrote, or the folder of a release" in err


def test_ctrl_c_while_the_program_starts_is_no_traceback(tmp_path):
    start = """
import signal, sys
class Early:
    def find_spec(self, name, *_):
        if name == "typer":
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Early())
from gapless.cli import main
main()
"""
    done = subprocess.run([sys.executable, "-c", start], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Stopped. Nothing was spent.\n")
