"""`gapless weigh`: from a release folder to the same rows with weights, in a real process."""

import json
import shutil

import pytest

import gapless as gl
from helpers.command_line import run

SCHEMA = """\
[table]
name = "people"
[column.age]
kind = "integer"
bounds = [0, 99]
bins = 4
[column.sex]
kind = "categorical"
levels = ["F", "M"]
may_be_missing = true
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A table, a release that took half of its budget, and the ledger."""
    folder = tmp_path_factory.mktemp("released")
    (folder / "people.toml").write_text(SCHEMA)
    rows = [f"{i % 100},{'' if i % 10 == 3 else 'F' if i % 100 < 50 else 'M'}" for i in range(2000)]
    (folder / "people.csv").write_text("age,sex\n" + "\n".join(rows) + "\n")
    paid = ("--epsilon", 4, "--delta", 1e-6, "--spend", "50%", "-m", "independent")
    assert run("synth", "people.csv", "-s", "people.toml", *paid, "-o", "out", cwd=folder).returncode == 0
    return folder


@pytest.fixture
def folder(released, tmp_path):
    """A copy, of which a test may spend the rest of the budget."""
    return shutil.copytree(released, tmp_path, dirs_exist_ok=True)


def test_a_release_gets_weights(folder):
    weigh = ("weigh", "people.csv", "out", "-s", "people.toml", "--spend", "30%")
    done = run(*weigh, "-o", "weighted.csv", cwd=folder)
    assert done.returncode == 0
    assert "calibration weights of" in done.stdout
    assert "Spent 80.00% of the budget, left 20.00%" in done.stdout
    schema = gl.Schema.read(folder / "people.toml")
    truth = gl.Table.read(folder / "people.csv", schema)
    plain, weighted = (gl.Table.read(folder / name, schema) for name in ("out/synthetic.csv", "weighted.csv"))
    assert weighted.weights is not None
    assert plain["age"].to_list() == weighted["age"].to_list()
    assert gl.evaluate.kway_distance(truth, weighted) < 0.3 * gl.evaluate.kway_distance(truth, plain)
    statement = (folder / "weighted.csv.privacy.md").read_text(encoding="utf-8")
    assert "Spent on the weights: 30.00% of the budget" in statement
    assert "| CalibrationWeights.fit | age × sex | DiscreteGaussian(" in statement
    assert "Independent.fit" in statement
    assert "Unit of privacy: one row" in statement
    page = (folder / "weighted.csv.report.html").read_text(encoding="utf-8")
    for text in ("rows in effect", "age × sex", "with weights", "differential privacy"):
        assert text in page
    # `evaluate` counts by the weights of the file.
    done = run("evaluate", "people.csv", "weighted.csv", "-s", "people.toml", "--json", cwd=folder)
    found = {score["name"]: score["value"] for score in json.loads(done.stdout)["scores"]}
    assert found["two-way distance"] == pytest.approx(gl.evaluate.kway_distance(truth, weighted), abs=1e-6)
    # The file is public, and weighting it again pays again.
    done = run(*weigh[:-1], "10%", "-o", "again.parquet", "--json", cwd=folder)
    text = json.loads(done.stdout)
    assert (text["file"], text["spent"]) == ("again.parquet", pytest.approx(90, abs=0.01))
    assert text["rows"] >= text["effective_rows"] > 0


def test_wrong_options_are_refused_before_anything_is_spent(folder):
    before = (folder / "people.ledger").read_bytes()
    weigh = ("weigh", "people.csv", "out", "-s", "people.toml", "--spend", "30%", "-o")
    for output, message in [
        ("w.pdf", "unknown ending"),
        ("people.csv", "people.csv exists"),
        ("no/w.csv", "write"),
    ]:
        done = run(*weigh, output, cwd=folder)
        assert done.returncode == 1
        assert message in done.stderr
    done = run("weigh", "people.csv", "nothing.csv", "-s", "people.toml", "-o", "w.csv", cwd=folder)
    assert done.returncode == 1
    assert (folder / "people.ledger").read_bytes() == before
    assert not [*folder.glob("*.privacy.md"), *folder.glob("*.html")]


def test_evaluate_counts_by_weights_under_a_drafted_schema(folder, run_here):
    """Found by review: bins that are learned for the comparison removed the weights without a message."""
    assert run_here("schema", "draft", "people.csv", "-o", "draft.toml")[0] == 0
    draft = (folder / "draft.toml").read_text(encoding="utf-8")
    assert 'bins = "learned"' in draft
    (folder / "checked.toml").write_text(draft.replace('origin = "data"', 'origin = "typed"'), encoding="utf-8")
    schema = gl.Schema.read(folder / "checked.toml")
    plain = gl.Table.read(folder / "out" / "synthetic.csv", schema)
    weights = [1.0 + 9.0 * (age >= 50) for age in plain["age"]]
    weighted = plain.with_weights(weights)
    weighted.write(folder / "weighted.csv")
    truth = gl.Table.read(folder / "people.csv", schema)
    expected = gl.compare(truth, plain, weights=weighted.weights)
    assert gl.compare(truth, weighted).scores == expected.scores
    assert gl.compare(folder / "people.csv", folder / "weighted.csv", schema=schema).weighted
    code, out, err = run_here("evaluate", "people.csv", "weighted.csv", "-s", "checked.toml", "-o", "page.html")
    assert (code, err) == (0, "")
    assert f"2,000 rows of truth, {plain.rows:,} rows compared with it, weighted" in out
    parsed = json.loads(run_here("evaluate", "people.csv", "weighted.csv", "-s", "checked.toml", "--json")[1])
    assert parsed["weighted"]
    found = {score["name"]: score["value"] for score in parsed["scores"]}
    assert found == pytest.approx({score.name: score.value for score in expected.scores}, abs=1e-6)
    assert found["one-way distance"] > gl.evaluate.kway_distance(truth, plain, k=1) + 0.1
    pay = ("evaluate", "people.csv", "weighted.csv", "-s", "people.toml", "--spend", "10%", "--json")
    assert json.loads(run_here(*pay)[1])["weighted"]
    # The truth is not counted by weights, and says so.
    code, _, err = run_here("evaluate", "weighted.csv", "people.csv", "-s", "checked.toml")
    assert code == 2
    assert "the truth has weights, in a column 'weight', but each of its rows counts once" in err
