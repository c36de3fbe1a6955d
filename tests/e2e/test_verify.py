"""`gapless verify` and `verify_release`: a release that is whole, and everything that makes it another one."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

import gapless as gl
from gapless.publish import verify_release
from gapless.testing.noise import fixed_noise
from helpers import command_line
from helpers.hostile_files import changes, works
from helpers.read_and_release import read_and_release


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two releases of two tables, made once."""
    folder = tmp_path_factory.mktemp("verify")
    for name in ("people", "others"):
        columns = [
            gl.Integer("age", bounds=(0, 99)),
            gl.Categorical("sex", ["F", "M"], may_be_missing=True, missing=("", "-8")),
        ]
        cells = {"age": [row % 99 for row in range(200)], "sex": [("F", "M", None)[row % 3] for row in range(200)]}
        pl.DataFrame(cells).write_csv(folder / f"{name}.csv")
        promise = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6)}
        read_and_release(
            folder / f"{name}.csv",
            gl.Schema(name, columns),
            folder / name,
            **promise,
            gaps="as-observed",
            rows=120,
            seed=1,
        )
    return folder


@pytest.fixture
def release(made, tmp_path):
    return shutil.copytree(made / "people", tmp_path / "release")


def sign(release, **changes):
    """Write the manifest anew, as somebody would who covers a change up."""
    manifest = json.loads((release / "manifest.json").read_text())
    for name in manifest["sha256"]:
        if (release / name).exists():
            manifest["sha256"][name] = hashlib.sha256((release / name).read_bytes()).hexdigest()
    (release / "manifest.json").write_text(json.dumps(manifest | changes))


def test_a_release_is_intact(release):
    result = verify_release(release)
    assert result.problems == ()
    assert set(result.files) == {path.name for path in release.iterdir()} - {"manifest.json"}
    digest = hashlib.sha256((release / "manifest.json").read_bytes()).hexdigest()
    assert result.sha256 == digest
    assert str(result).startswith(f"{release} is intact: 10 files as in manifest.json, and nothing else.\nSHA-256")
    assert digest in str(result)
    assert "\nNext: compare this hash with the one that the holder has published" in str(result)
    (release / "copies.cache").write_text("numbers that somebody chose")
    result = verify_release(release)
    assert result.problems == ()
    assert result.to_dict()["unchecked"] == ["copies.cache"]
    assert "10 files as in manifest.json; not checked: copies.cache.\nDelete what was not checked" in str(result)


@pytest.mark.parametrize("name", ["rel[1]", "rel*", "rel?", "a=b", "~"])
def test_a_folder_whose_name_looks_like_a_pattern_is_verified_itself(name, made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made / "people", name)
    shutil.copytree(made / "others", "rel1")  # what the name would find
    assert verify_release(name).problems == ()
    assert gl.Table.read(f"{name}/synthetic.parquet", gl.Schema.read(f"{name}/schema.toml")).schema.name == "people"
    if name == "rel[1]":
        run = subprocess.run([command_line.PROGRAM, "verify", name], capture_output=True, text=True, check=False)
        assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    "name",
    [
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
    ],
)
def test_every_file_counts(release, name):
    content = (release / name).read_bytes()
    (release / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert verify_release(release).problems == (f"{name} was changed",)
    (release / name).unlink()
    assert verify_release(release).problems == (f"{name} is not there",)
    (release.parent / name).write_bytes(content)
    (release / name).symlink_to(release.parent / name)
    assert verify_release(release).problems == (f"{name} is no file of this folder",)
    (release / name).unlink()
    manifest = json.loads((release / "manifest.json").read_text())
    del manifest["sha256"][name]
    (release / "manifest.json").write_text(json.dumps(manifest))
    assert verify_release(release).problems == (f"{name} is not in the manifest",)


def test_nothing_else_may_lie_there(release):
    (release / "people.csv").write_text("age\n34\n")
    (release / ".hidden").write_text("")
    (release / "folder").mkdir()
    (release / "folder" / "x.ledger").write_text("")
    names = [".hidden", "folder", "folder/x.ledger", "people.csv"]
    assert verify_release(release).problems == tuple(f"{name} does not belong to the release" for name in names)


def test_a_ledger_may_lie_there(release, made):
    for name in ("people.ledger", "people.ledger.seal"):
        shutil.copy(made / name, release)
    assert verify_release(release).problems == ()


@pytest.mark.parametrize(
    ("taken", "problem"),
    [
        (["schema.toml"], "schema.toml is not the schema of synthetic.model"),
        (["synthetic.model"], "schema.toml is not the schema of synthetic.model"),
        (["ledger.json"], "ledger.json is of another table, or protects something else than synthetic.model says"),
        (["ledger.json"], "manifest.json promises something else than ledger.json"),
        (["schema.toml", "synthetic.model", "ledger.json"], "manifest.json is of another table or method"),
    ],
)
def test_files_of_another_release_are_found(release, made, taken, problem):
    for name in taken:
        shutil.copy(made / "others" / name, release)
    sign(release)
    assert problem in verify_release(release).problems


def test_another_number_of_rows_is_found(release):
    rows = pl.read_csv(release / "synthetic.csv", infer_schema=False)
    (release / "synthetic.csv").write_text(rows.reverse().write_csv())
    sign(release)
    assert verify_release(release).problems == ("synthetic.csv and synthetic.parquet hold different rows",)
    (release / "synthetic.csv").write_text(rows.head(50).write_csv())
    sign(release)
    assert "manifest.json has another number of rows" in verify_release(release).problems
    (release / "synthetic.csv").write_text(rows.write_csv())
    sign(release, rows=7)
    assert verify_release(release).problems == ("manifest.json has another number of rows",)
    (release / "synthetic.csv").write_text(rows.select("age").write_csv())
    sign(release)
    (problem,) = verify_release(release).problems
    assert problem.startswith("a file cannot be read, or not under schema.toml: ")


def test_a_promise_cannot_be_made_smaller(release):
    copy = json.loads((release / "ledger.json").read_text())
    for epsilon, problems in (
        (0.01, ["manifest.json promises something else than ledger.json"]),
        (
            None,
            [
                "manifest.json promises something else than ledger.json",
                "synthetic.model is private and ledger.json is not, or the reverse",
            ],
        ),
    ):
        copy["guarantee"]["epsilon"] = epsilon
        (release / "ledger.json").write_text(json.dumps(copy))
        sign(release)
        assert list(verify_release(release).problems) == problems
    for content in ("[]", "{}", "nonsense"):
        (release / "ledger.json").write_text(content)
        sign(release)
        assert verify_release(release).problems == ("ledger.json is no copy of a ledger",)


def test_a_release_with_test_noise_is_reported_consistently(tmp_path):
    pl.DataFrame({"age": [1, 2, 3]}).write_csv(tmp_path / "people.csv")
    schema = gl.Schema("people", [gl.Integer("age", bounds=(0, 9))])
    with fixed_noise(1):
        promise = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6)}
        read_and_release(tmp_path / "people.csv", schema, tmp_path / "release", **promise, rows=5)
    assert verify_release(tmp_path / "release").problems == ()


def test_an_unfinished_release_is_refused(release):
    (release / "README.txt").write_text("This release is not finished: …\n")
    assert verify_release(release).problems[0] == "the release is not finished"


def test_a_folder_that_is_no_release_is_refused(tmp_path):
    with pytest.raises(
        gl.errors.ReadError, match=r"manifest\.json: No such file or directory\n  Try: name a release folder"
    ):
        verify_release(tmp_path)
    for content in ("{}", "[]", "x", '{"sha256": 1}'):
        (tmp_path / "manifest.json").write_text(content)
        with pytest.raises(
            gl.errors.ReadError,
            match=r"manifest\.json' is not the manifest of a release, or is damaged\n  Try: name a release folder",
        ):
            verify_release(tmp_path)


def run(*arguments):
    return command_line.run(*arguments, cwd=Path())


def test_the_command(release):
    done = run("verify", release)
    assert (done.returncode, done.stdout) == (0, f"{verify_release(release)}\n")
    assert json.loads(run("verify", release, "--json").stdout) == verify_release(release).to_dict()
    (release / "notes.txt").write_text("mine")
    done = run("verify", release, "--json")
    assert done.returncode == 1
    parsed = json.loads(done.stdout)
    assert (parsed["intact"], parsed["problems"]) == (False, ["notes.txt does not belong to the release"])
    done = run("verify", release)
    assert (done.returncode, done.stdout.splitlines()[1]) == (1, "  notes.txt does not belong to the release")
    assert run("verify", release.parent).returncode == 1
    assert "Example: gapless verify release/" in run("verify", "--help").stdout


def test_given_on_the_command_line(release):
    model, rows = release / "synthetic.model", release.parent / "more.csv"
    assert (
        run("sample", model, "--rows", 20, "--seed", 1, "--given", "sex=F", "--given", "age=34", "-o", rows).returncode
        == 0
    )
    assert pl.read_csv(rows).select("age", "sex").unique().rows() == [(34, "F")]
    for given, code, message in (
        (["sex=Q"], 2, "column 'sex' has no cell 'Q'"),
        (["sex"], 2, "--given must be COLUMN=VALUE, got 'sex'. Try: write --given sex=female"),
        (["age=3", "age=4"], 2, "--given names column 'age' twice"),
        (["size=3"], 2, "no column 'size' in the schema"),
    ):
        options = [word for value in given for word in ("--given", value)]
        done = run("sample", model, *options, "-o", release.parent / "none.csv")
        assert done.returncode == code
        assert message in " ".join(done.stderr.replace("│", " ").split())
    assert not (release.parent / "none.csv").exists()


def test_kinds_of_gaps_that_parquet_merges_are_the_same_rows(tmp_path):
    income = gl.Number(
        "income", bounds=(0, 9), bins=3, may_be_missing=True, missing=("", gl.MissingCode("-8", "refused"))
    )
    (tmp_path / "t.csv").write_text("income,age\n" + "-8,3\n,4\n5,5\n" * 60)
    read_and_release(
        tmp_path / "t.csv",
        gl.Schema("t", [income, gl.Integer("age", bounds=(0, 9), bins=5)]),
        tmp_path / "release",
        protect=gl.Rows(1),
        budget=gl.Budget(5.0, 1e-6),
        gaps="as-observed",
        method="mst",
    )
    assert "-8" in (tmp_path / "release" / "synthetic.csv").read_text()
    assert not verify_release(tmp_path / "release").problems


@pytest.mark.slow
@pytest.mark.parametrize("name", ["manifest.json", "ledger.json"])
def test_each_value_of_a_manifest_and_of_a_ledgers_copy_is_checked(name, release):
    content, manifest = (json.loads((release / file).read_text()) for file in (name, "manifest.json"))
    if name == "ledger.json":
        content["entries"] = content["entries"][:1]
    for place, text in changes(content):
        (release / name).write_text(text)
        if name == "ledger.json":
            (release / "manifest.json").write_text(json.dumps(manifest))
            sign(release)
        found = []
        works(lambda found=found: found.extend(verify_release(release).problems))
        if name == "ledger.json" and place and place[0] == "guarantee":
            assert found, (place, text)


@pytest.mark.parametrize("epsilon", ['""', "[]", "{}", "null", "1e999", "NaN", "[" * 100_000])
def test_a_copy_of_a_ledger_with_an_invalid_promise_is_found(epsilon, release):
    text = (release / "ledger.json").read_text()
    (release / "ledger.json").write_text(re.sub(r'"delta": [^,]*,\s*"basis"', f'"delta": {epsilon}, "basis"', text))
    sign(release)
    assert verify_release(release).problems == ("ledger.json is no copy of a ledger",)
