"""From a survey's SPSS, Stata or Excel file to a release with files of the same kind, on the command line."""

import json
import shutil

import numpy as np
import pyreadstat
import pytest

import gapless as gl
from gapless import MissingCode
from gapless.publish.folder import digest_of
from helpers import command_line

ROWS = 300


def survey(refused):
    gaps = {"may_be_missing": True, "missing": (MissingCode(refused, "refused", "Refused"),)}
    return gl.Schema(
        "survey",
        [
            gl.Integer("age", bounds=(18, 90), bins=4, description="Age in years", **gaps),
            gl.Categorical("vote", [1, 2, 3], labels={1: "Yes", 2: "No", 3: "Abstain"}, **gaps),
        ],
    )


@pytest.fixture
def run(tmp_path):
    return lambda *arguments: command_line.run(*arguments, cwd=tmp_path)


@pytest.fixture(params=[".sav", ".dta", ".xlsx"])
def data(request, tmp_path):
    schema = survey(".a" if request.param == ".dta" else -9)
    rng = np.random.default_rng(2)
    codes = [rng.choice([*range(c.size), c.code_of_gap("refused")], ROWS) for c in schema.columns]
    path = tmp_path / f"survey{request.param}"
    gl.Table(schema, codes, rows=ROWS).write(path)
    schema.write(tmp_path / "survey.toml")
    return path


BUDGET = ("--epsilon", 5, "--delta", 1e-6)


def test_a_release_has_the_files_that_the_scripts_of_analysts_read(data, run, tmp_path):
    ending, folder = data.suffix, tmp_path / "release"
    made = run(
        "synth", data, "-s", tmp_path / "survey.toml", *BUDGET, "-o", folder, "--method", "independent",
        "--gaps", "as-observed", "--also", ending[1:],
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    name = f"synthetic{ending}"
    assert name in json.loads((folder / "manifest.json").read_text())["sha256"]
    assert name in (folder / "README.txt").read_text()
    assert run("verify", folder).returncode == 0
    schema = gl.Schema.read(folder / "schema.toml")
    rows = gl.Table.read(folder / name, schema)
    csv = gl.Table.read(folder / "synthetic.csv", schema)
    refused = schema["vote"].code_of_gap("refused")
    assert (rows.codes[1] == refused).sum() == (csv.codes[1] == refused).sum() > 0
    for copy in ("sample.sav", "sample.dta", "sample.xlsx"):
        drawn = run("sample", folder, "--rows", 7, "--seed", 1, "-o", tmp_path / copy)
        fits = (ending == ".dta") <= (copy != "sample.sav")  # SPSS has no letters as missing values
        assert (drawn.returncode == 0) == fits, drawn.stderr
        assert not fits or len(gl.Table.read(tmp_path / copy, schema)) == 7


def test_a_file_of_other_rows_is_noticed(data, run, tmp_path):
    if data.suffix == ".dta":
        pytest.skip("one format for statistics is enough")
    folder = tmp_path / "release"
    run(
        "synth",
        data,
        "-s",
        tmp_path / "survey.toml",
        *BUDGET,
        "-o",
        folder,
        "--also",
        data.suffix[1:],
        "-m",
        "independent",
    )
    name = f"synthetic{data.suffix}"
    (folder / name).write_bytes((folder / name).read_bytes() + b"\0")
    assert f"{name} was changed" in run("verify", folder).stdout
    run("sample", folder, "--rows", 3, "-o", tmp_path / f"other{data.suffix}")
    shutil.copy(tmp_path / f"other{data.suffix}", folder / name)
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["sha256"][name] = digest_of(folder / name)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert f"{name} holds other rows than synthetic.csv" in run("verify", folder).stdout


def test_what_a_format_cannot_hold_is_refused_before_a_charge(run, tmp_path):
    schema = survey("NA")
    rng = np.random.default_rng(2)
    codes = [rng.integers(0, column.extended_size, ROWS) for column in schema.columns]
    gl.Table(schema, codes, rows=ROWS).write(tmp_path / "survey.csv")
    schema.write(tmp_path / "survey.toml")
    refused = run(
        "synth", tmp_path / "survey.csv", "-s", tmp_path / "survey.toml", *BUDGET, "-o", tmp_path / "r", "--also", "sav"
    )
    assert refused.returncode != 0
    assert "column 'age' does not fit into a .sav file: its code 'NA' (refused) is not a number" in refused.stderr
    assert not (tmp_path / "survey.ledger").exists()
    assert not (tmp_path / "r").exists()
    unknown = run(
        "synth", tmp_path / "survey.csv", "-s", tmp_path / "survey.toml", *BUDGET, "-o", tmp_path / "r", "--also", "csv"
    )
    assert "there is no format 'csv'" in unknown.stderr
    assert "--also sav" in unknown.stderr


def test_all_commands_read_such_files(data, run, tmp_path):
    schema = tmp_path / "survey.toml"
    checked = run("check", data, "-s", schema)
    assert f"{ROWS} rows" in checked.stdout
    assert run("schema", "draft", data).returncode == 0
    assert run("evaluate", data, data, "-s", schema, "-o", tmp_path / "same.html").returncode == 0
    asked = run("ask", data, "-s", schema, *BUDGET, "--spend", "10%", "count() by vote")
    assert asked.returncode == 0, asked.stderr
    made = run("fit", data, "-s", schema, "--spend", "20%", "-m", "independent", "-o", tmp_path / "survey.model")
    assert made.returncode == 0, made.stderr


def test_a_file_of_spss_is_its_own_codebook(tmp_path):
    """The header of what is written says again what the schema said."""
    schema = survey(-9)
    rng = np.random.default_rng(2)
    gl.Table(schema, [rng.integers(0, c.extended_size, 50) for c in schema.columns], rows=50).write(tmp_path / "t.sav")
    read = gl.Schema.from_codebook(tmp_path / "t.sav")
    assert read["vote"].levels == (1, 2, 3)
    assert read["vote"].label_of("3") == "Abstain"
    assert read["age"].description == "Age in years"
    for column in read.columns:
        assert [(gap.code, gap.kind, gap.label) for gap in column.missing] == [("-9", "refused", "Refused")]
    assert pyreadstat.read_sav(tmp_path / "t.sav", metadataonly=True)[1].file_label == "survey"
