"""`gapless copies`, `gapless estimate` and releases with copies, from the command line and in one call."""

import json
import re
import shutil
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.inference.intervals import bootstrap, rubin
from gapless.publish import model_of
from helpers.read_and_release import read_and_release

TABLE = """
[table]
name = "people"

[column.age]
kind = "integer"
bounds = [0, 9]
bins = 10

[column.sex]
kind = "categorical"
levels = ["F", "M"]

[column.income]
kind = "integer"
bounds = [0, 4]
bins = 5
may_be_missing = true
"""


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        f"{rng.integers(10)},{'FM'[rng.integers(2)]},{rng.integers(5) if rng.random() < 0.9 else ''}"
        for _ in range(400)
    ]
    (tmp_path / "people.toml").write_text(TABLE)
    (tmp_path / "people.csv").write_text("age,sex,income\n" + "\n".join(rows) + "\n")
    return tmp_path


SYNTH = (
    "synth",
    "people.csv",
    "-s",
    "people.toml",
    "--epsilon",
    3,
    "--delta",
    1e-6,
    "-o",
    "out",
    "--method",
    "mixture",
)


def test_a_release_with_copies_is_whole_and_explains_its_analysis(folder, run_here):
    code, _, _ = run_here(*SYNTH, "--copies", 3, "--seed", 5)
    assert code == 0
    code, printed, _ = run_here("verify", "out")
    assert code == 0, printed
    copies = pl.read_csv(folder / "out" / "copies.csv.gz")
    assert copies.columns == ["copy", "age", "sex", "income"]
    assert sorted(copies["copy"].unique()) == [1, 2, 3]
    assert copies.null_count().sum_horizontal().item() == 0
    replicates = pl.read_csv(folder / "out" / "replicates.csv.gz")
    assert sorted(replicates["copy"].unique()) == [1, 2, 3]
    assert len(pl.read_csv(folder / "out" / "model_rows.csv.gz")) == 40_000
    guide = (folder / "out" / "analysis.md").read_text()
    assert "every pair of columns" in guide
    (python,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    printed = subprocess.run(
        [sys.executable, "-c", python],
        cwd=folder / "out",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert "by noise" in printed


def in_r(table, tmp_path, *, method="aim"):
    """The line of the guide in which R estimates, and the one in which a shell does."""
    release = read_and_release(
        table.to_polars(),
        table.schema,
        tmp_path / "out",
        protect=gl.Rows(1),
        budget=gl.Budget(3.0, 1e-6),
        ledger=tmp_path / "l.ledger",
        method=method,
        copies=2,
    )
    guide = (release.folder / "analysis.md").read_text()
    (formula,) = re.findall(r"lm\((.*), rows\)", guide)
    (coefficient,) = set(re.findall(r"coef\(fit\)\[\[(\d)", guide)) & set(re.findall(r"vcov\(fit\)\[(\d)", guide))
    (shell,) = re.findall(r"`gapless estimate (.*)`", guide)
    return formula, coefficient, shell


BABIES = pl.DataFrame({"BABY_BY": [1, 2, 3, 4] * 50, "EXPLAINED": ["BY", "b"] * 100})
YES = pl.DataFrame({"smoker": [True, False] * 100, "asked": ["Yes", "No"] * 100})


@pytest.mark.parametrize(
    ("frame", "columns", "method", "expected"),
    [
        (
            BABIES,
            [gl.Integer("BABY_BY", bounds=(1, 4)), gl.Categorical("EXPLAINED", ["BY", "b"])],
            "aim",
            ("`BABY_BY` ~ `EXPLAINED`", "2", '. "mean(BABY_BY) by EXPLAINED"'),
        ),
        (
            BABIES,
            [gl.Integer("BABY_BY", bounds=(1, 4)), gl.Categorical("EXPLAINED", ["BY", "b"])],
            "independent",
            ("`BABY_BY` ~ 1", "1", '. "mean(BABY_BY)"'),
        ),
        (
            YES,
            [gl.Boolean("asked", spelling=("No", "Yes")), gl.Boolean("smoker")],
            "aim",
            ("(`smoker` %in% c(TRUE, 'true')) ~ `asked`", "2", ". \"proportion(smoker == 'true')\""),
        ),
        (
            YES,
            [gl.Boolean("asked", spelling=("No", "Yes")), gl.Boolean("smoker")],
            "independent",
            ("(`asked` %in% c(TRUE, 'Yes')) ~ 1", "1", ". \"proportion(asked == 'true')\""),
        ),
    ],
)
def test_the_r_code_of_the_guide_fits_the_columns(frame, columns, method, expected, tmp_path):
    """Names that hold words of the template, levels that R reads as TRUE, columns that were counted alone."""
    table = gl.Table.read(frame, gl.Schema("t", columns))
    assert in_r(table, tmp_path, method=method) == expected


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_the_guide_pools_in_r_as_gapless_does(folder, run_here):
    """R's numbers against the formulas, from the same files."""
    run_here(*SYNTH, "--copies", 3, "--seed", 5)
    guide = (folder / "out" / "analysis.md").read_text()
    (code,) = re.findall(r"```r\n(.*?)```", guide, re.DOTALL)
    (explained, by) = re.findall(r"lm\(`(\w+)` ~ `(\w+)`", code)[0]
    assert (explained, by) == ("age", "sex")
    printed = subprocess.run(
        ["Rscript", "-e", f"options(digits = 12)\n{code}"],
        cwd=folder / "out",
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    in_r = np.array([line.split() for line in printed.splitlines()[1::2]], dtype=float)

    def slopes(file):
        for (_,), rows in pl.read_csv(folder / "out" / file).group_by("copy", maintain_order=True):
            yield slope(rows)

    def slope(rows):
        """The coefficient of the second level and its variance: means of two groups with one variance."""
        groups = [rows.filter(pl.col(by) == level)[explained].to_numpy() for level in "FM"]
        within = sum(((group - group.mean()) ** 2).sum() for group in groups) / (len(rows) - 2)
        return groups[1].mean() - groups[0].mean(), within * sum(1 / len(group) for group in groups)

    estimates, variances = np.array(list(slopes("copies.csv.gz"))).T
    replicates = np.array([value for value, _ in slopes("replicates.csv.gz")])
    original = np.array([slope(pl.read_csv(folder / "out" / "model_rows.csv.gz"))[0]])
    pooled = rubin(original, estimates[:, None], variances[:, None])
    wide = bootstrap(original, replicates[:, None])
    half = max(pooled.half[0], wide.half[0])
    for found, centre, width in zip(in_r, (pooled.centre[0], wide.centre[0]), (pooled.half[0], half), strict=True):
        assert found == pytest.approx([centre, centre - width, centre + width], rel=1e-6)


def test_estimates_are_printed_with_intervals_and_spend_nothing(folder, run_here):
    run_here(*SYNTH, "--spend", "50%")
    before = (folder / "people.ledger").read_bytes()
    code, printed, _ = run_here("estimate", "out", "mean(age) by sex", "median(income)", "--copies", 3, "--seed", 2)
    assert code == 0
    assert "by noise" in printed
    assert "nothing was spent" in printed
    code, printed, _ = run_here("estimate", "out/synthetic.model", "mean(age) by sex", "--copies", 3, "--json")
    (pooled,) = json.loads(printed)
    assert [estimate["name"] for estimate in pooled["estimates"]] == ["F", "M"]
    assert all(estimate["interval"] for estimate in pooled["estimates"])
    assert (folder / "people.ledger").read_bytes() == before


def test_an_unsupported_estimate_is_reported_at_a_terminal(folder, run_here):
    run_here(*SYNTH)
    code, printed, _ = run_here("estimate", "out", "mean(age) where sex == F and income >= 2", "--copies", 2)
    assert code == 0
    assert "not supported by this release: age × sex × income was not measured" in printed


@pytest.mark.parametrize(
    ("question", "code"),
    [("count()", 2), ("mean(nothing)", 2), ("mean(sex)", 2), ("mean(income) where age is missing", 2)],
)
def test_impossible_estimates_are_refused(question, code, folder, run_here):
    run_here(*SYNTH)
    assert run_here("estimate", "out", question)[0] == code


def test_copies_are_written_and_replace_nothing(folder, run_here):
    run_here(*SYNTH)
    code, printed, _ = run_here("copies", "out", "-o", "all.parquet", "--copies", 2)
    assert (code, "2 copies in all.parquet" in printed) == (0, True)
    assert run_here("copies", "out", "-o", "people.csv", "--copies", 2)[0] == 1
    code, printed, _ = run_here("copies", "out", "-o", "each", "--copies", 2, "--json")
    assert json.loads(printed) == {"files": ["each/copy-1.csv", "each/copy-2.csv"], "copies": 2}


def test_wrong_options_for_copies_are_refused_before_anything_is_spent(folder, monkeypatch):
    monkeypatch.chdir(folder)
    promise = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6)}
    with pytest.raises(gl.errors.ModelError, match="copies = 1"):
        read_and_release("people.csv", gl.Schema.read("people.toml"), "out", **promise, copies=1)
    other = gl.Schema.from_toml(TABLE.replace("column.sex", "column.copy"))
    with pytest.raises(gl.errors.ModelError, match="needs the column name 'copy', but the schema has it"):
        renamed = (folder / "people.csv").read_text().replace("sex", "copy", 1)
        (folder / "renamed.csv").write_text(renamed)
        read_and_release("renamed.csv", other, "out", **promise, copies=5)
    with pytest.raises(
        gl.errors.ModelError, match="estimates from copies would have no interval\n  Try: pass missing=Extended"
    ):
        read_and_release(
            "people.csv", gl.Schema.read("people.toml"), "out", **promise, copies=5, method="mst", missing=gl.Observed()
        )
    assert all(gl.Ledger.open(folder / name).entries == () for name in ("people.ledger", "renamed.ledger"))
    assert not (folder / "out").exists()


def test_always_selects_sets_of_columns_by_name(folder, run_here):
    synth = [*SYNTH[:-2], "--always", "age+sex+income"]
    code, _, printed = run_here(*synth, "--method", "mst")
    assert (
        code,
        "only the method aim can always measure sets of columns jointly, got the method mst" in printed,
        "leave --always out" in printed,
    ) == (
        1,
        True,
        True,
    )
    for slip in ("age", "age+age", "age+", "age+nothing"):
        assert run_here(*SYNTH[:-2], "--always", slip)[0] == 2
    assert not (folder / "people.ledger").exists()
    assert run_here(*synth)[0] == 0
    code, printed, _ = run_here("estimate", "out", "mean(age) where sex == F and income >= 2", "--copies", 2)
    assert (code, "by noise" in printed) == (0, True)
    assert "aim" in (folder / "out" / "privacy.md").read_text()


def test_notes_for_several_questions_are_printed_once(folder, run_here):
    run_here(*SYNTH)
    asked = [f"mean(age) where sex == {sex} and income >= 2" for sex in "FM"]
    _, printed, _ = run_here("estimate", "out", *asked, "mean(age)", "--copies", 2)
    assert printed.count("not supported by this release") == printed.count("nothing was spent") == 1
    assert "--method aim --always age+sex+income measures it" in printed


def test_a_model_is_found_in_a_folder_and_by_its_file(folder, run_here):
    run_here(*SYNTH)
    assert model_of(folder / "out").schema == model_of(folder / "out" / "synthetic.model").schema


def test_relations_are_estimated_with_other_questions(folder, run_here):
    assert run_here(*SYNTH)[0] == 0
    questions = ("mean(age)", "corr(age, income)", "ols(age ~ income + sex)", "table(sex, income)", "logit(sex ~ age)")
    code, printed, _ = run_here("estimate", "out", *questions, "--copies", 2)
    assert code == 0
    lines = printed.splitlines()
    assert all(any(line.startswith(question) for line in lines) for question in questions)
    assert any(line.startswith("  sex == M ") for line in lines)
    assert any("corr(age, income): Pearson's correlation." in line for line in lines)
    assert any("Coefficients are log odds of sex == M." in line for line in lines)
    code, printed, _ = run_here("estimate", "out", *questions, "--copies", 2, "--json")
    results = json.loads(printed)
    assert [result["question"] for result in results] == list(questions)
    assert [len(result["estimates"]) for result in results] == [1, 1, 3, 10, 2]
