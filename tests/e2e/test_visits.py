"""The story of a new user: 4,505 visits of 900 patients, from a draft to a release that protects patients."""

import re
import tomllib

import polars as pl
import pytest

from helpers.visits import visits


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("story")
    visits(900, 4505).write_csv(folder / "visits.csv")
    return folder


def test_visits_become_a_release_that_protects_patients(folder, run_here):
    # A draft finds the id and does not make it a column.
    code, _, err = run_here("schema", "draft", "visits.csv", "-o", "visits.toml")
    assert code == 0
    assert "look at patient_id: looks like the id of persons with several rows: add rows_per_person" in err
    drafted = (folder / "visits.toml").read_text()
    content = tomllib.loads(drafted)
    assert content["table"]["person"] == "patient_id"
    assert [*content["column"]] == ["age", "sex", "pressure"]

    # The holder checks the draft, and looks at the rows per person.
    (folder / "visits.toml").write_text(drafted.replace('origin = "data"', 'origin = "typed"'))
    code, out, err = run_here("check", "visits.csv", "-s", "visits.toml")
    assert code == 0
    assert "The schema does not say how many rows of each person to keep" in err
    assert "Rows per person (patient_id): 4,505 rows of 900 persons, 0 rows without an id" in out
    assert "the same in all rows of each person: age, sex" in out

    # A release needs the number of rows that are kept, and asks for it before it reads or makes anything.
    given = ("--epsilon", 1, "--delta", 1e-6, "-o", "release")
    code, _, err = run_here("synth", "visits.csv", "-s", "visits.toml", *given)
    assert code == 2
    assert "names the id of a person, patient_id, but not how many rows of each to keep" in err
    assert "Try: write rows_per_person = 3" in err
    assert {path.name for path in folder.iterdir()} == {"visits.csv", "visits.toml"}

    # A small paid release helps to choose it.
    text = (folder / "visits.toml").read_text()
    (folder / "visits.toml").write_text(re.sub("(person = .*\n)", r"\1rows_per_person = 3\n", text))
    budget = ("--epsilon", 1, "--delta", 1e-6, "--spend", "10%")
    code, out, _ = run_here("ask", "visits.csv", "-s", "visits.toml", *budget, "rows_per_person(10)", "mean(age)")
    assert code == 0
    assert re.search(r"at most 3: keeps \d\d% of the rows, noise × 3", out)
    assert "Per row: each kept row weighs 1, so a patient_id weighs up to 3" in out

    # The release names whom it protects, and says how far it can be trusted and what its numbers are.
    code, out, err = run_here("synth", "visits.csv", "-s", "visits.toml", "-o", "release", "-m", "mst")
    assert code == 0, err
    assert "Verdict:" in out
    statement = (folder / "release/privacy.md").read_text()
    assert re.search(r"any one patient\\?_id in the original table", statement)
    assert "At most 3 of them were kept, by a secret key, before anything was counted" in statement
    report = (folder / "release/report.html").read_text()
    assert "Judged from released values alone" in report
    assert "All numbers are per row: each kept row weighs 1, so a patient_id weighs up to 3" in report
    assert pl.read_csv(folder / "release/synthetic.csv").columns == ["age", "sex", "pressure"]
    ids = visits(900, 4505)["patient_id"].cast(pl.String).to_list()
    published = (folder / "release/synthetic.csv").read_text() + (folder / "release/ledger.json").read_text()
    assert not set(re.findall(r"\b1\d{4}\b", published)) & set(ids)


def test_a_question_per_person_from_the_command_line(folder, run_here):
    (folder / "few.toml").write_text(
        """
[table]
name = "few"
person = "patient_id"
rows_per_person = 5

[column.sex]
kind = "categorical"
levels = ["f", "m"]
per_person = true

[column.age]
kind = "integer"
bounds = [18, 97]
bins = 8

[column.pressure]
kind = "integer"
bounds = [80, 199]
bins = 12
may_be_missing = true
missing = ["NA"]
"""
    )
    visits(200, 800, seed=3).write_csv(folder / "few.csv")
    budget = ("--epsilon", 1, "--delta", 1e-6, "--spend", "90%")
    questions = ("table(sex) per person", "mean(pressure) per person", "mean(pressure)")
    code, out, err = run_here("ask", "few.csv", "-s", "few.toml", *budget, *questions)
    assert (code, err) == (0, "")
    by_sex = [float(number) for number in re.findall(r"^  [fm]  (-?[\d.]+)", out, re.MULTILINE)]
    assert abs(sum(by_sex) - 200) < 7 * 12  # the noise of one row per person, whatever the limit
    assert out.count("er person: each patient_id weighs 1") == 2
    assert "Per row: each kept row weighs 1" in out or "per row: each kept row weighs 1" in out
    code, _, err = run_here("synth", "few.csv", "-s", "few.toml", "-o", "few", "-m", "independent")
    assert code == 0, err
    assert "- the same in all rows of a person" in (folder / "few/dictionary.md").read_text()
    code, out, _ = run_here("ask", "few.csv", "-s", "few.toml", "--spend", "5%", "--preview", "count() per person")
    assert code == 0
    assert out.startswith("count() per person: ±")
