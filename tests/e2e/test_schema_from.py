"""From a codebook to a release on the command line, and codebooks with hostile names."""

import json
import re

import polars as pl
import pytest

import gapless as gl
from helpers.codebooks import REDCAP

NASTY = '<script>alert("x")</script> | =1+1 \u202e \x1b[31m `code` & "quotes"'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_what_is_confirmed_has_its_labels(folder, run_here):
    rows = "column,code,label\nnews,1,Never\n,2,Sometimes\n,3,Often\n,9,Don't know\n"
    (folder / "codes.csv").write_text(rows)
    assert run_here("schema", "from", "codes.csv", "-o", "codes.toml")[0] == 0
    out = run_here("schema", "confirm", "codes.toml", "--list")[1]
    assert 'levels = [1, 2, 3], labels = { 1 = "Never", 2 = "Sometimes", 3 = "Often" }' in " ".join(out.split())
    assert """missing = [{ code = "9", kind = "dont-know", label = "Don't know" }]""" in " ".join(out.split())


def test_from_a_redcap_dictionary_to_a_release(folder, run_here):
    (folder / "dictionary.csv").write_text(REDCAP)
    code, out, err = run_here("schema", "from", "dictionary.csv", "-o", "study.toml")
    assert (code, out) == (0, "")
    assert "born: bounds are not known: write the lowest and the highest possible value" in err
    assert "cigs, dose, preg: empty cells are taken as not asked" in err
    assert "Wrote study.toml: 12 columns, 3 of them not confirmed" not in err
    assert "run `gapless schema confirm study.toml`" in err
    assert run_here("schema", "from", "dictionary.csv", "-o", "study.toml")[0] == 2  # it exists

    # What is proposed stops a release; what is not known stops the confirmation.
    rows = pl.DataFrame(
        {
            "record_id": range(60),
            "age": [20 + row % 50 for row in range(60)],
            "born": ["1980-01-01"] * 60,
            "smoker": [row % 2 for row in range(60)],
            "cigs": [row if row % 2 else None for row in range(60)],
            **{name: [row % 3 == 0 for row in range(60)] for name in ("meds___1", "meds___2", "meds____9")},
            "dose": [None] * 60,
            "preg": [row % 2 for row in range(60)],
            "bmi": [20 + row / 10 for row in range(60)],
            "mood": list(range(60)),
        }
    )
    rows.with_columns(pl.selectors.boolean().cast(pl.Int8)).write_csv("study.csv")
    given = ("--epsilon", 10, "--delta", 1e-6, "-o", "release", "--method", "independent")
    (folder / "study.toml").write_text(
        (folder / "study.toml").read_text().replace("person = ", "rows_per_person = 1\nperson = ")
    )
    code, _, err = run_here("synth", "study.csv", "-s", "study.toml", *given)
    assert code == 2
    assert "this schema has facts that are not confirmed: proposed for 'born', 'bmi'" in err
    code, out, err = run_here("schema", "confirm", "study.toml")
    assert code == 2
    assert 'born: kind = "date", bounds = NOT KNOWN' in out
    assert "Confirmed in study.toml: bmi" in out
    assert "bounds are not known for 'born'" in err
    text = (folder / "study.toml").read_text()
    (folder / "study.toml").write_text(text.replace('"9999-12-31"', '"2010-12-31"'))
    assert run_here("schema", "confirm", "study.toml", "age")[0] == 2  # it came from the codebook
    assert run_here("schema", "confirm", "study.toml", "--list")[1].startswith('born: kind = "date"')
    assert gl.Schema.read("study.toml").unconfirmed
    assert "# Look at each of these" in (folder / "study.toml").read_text()
    assert run_here("schema", "confirm", "study.toml", "born")[0] == 0
    assert "Nothing is left to confirm" in run_here("schema", "confirm", "study.toml")[1]
    text = (folder / "study.toml").read_text()
    assert text.startswith("# From the codebook dictionary.csv.\n\n[table]\n")  # nothing is left to look at
    assert 'bounds = ["1900-01-01", "2010-12-31"]\n' in text  # no longer with the comment that they are not known

    code, out, _ = run_here("check", "study.csv", "-s", "study.toml")
    assert code == 0
    assert "born: all cells with a value are the same" in out
    code, _, err = run_here("synth", "study.csv", "-s", "study.toml", *given)
    assert code == 0, err
    synthetic = pl.read_csv("release/synthetic.csv", infer_schema=False)
    assert not {"record_id", "full_name"} & set(synthetic.columns)
    assert synthetic.filter(pl.col("smoker") == "0")["cigs"].is_null().all()


def test_hostile_names_and_labels_are_escaped_in_all_pages(folder, run_here):
    fields = [
        {
            "name": "a" + NASTY,
            "description": NASTY,
            "type": "string",
            "categories": [{"value": "1", "label": NASTY}, {"value": "2" + NASTY, "label": "B"}],
            "missingValues": [{"value": "-9", "label": "Refused " + NASTY}],
        },
        {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 9}, "title": NASTY},
    ]
    (folder / "p.json").write_text(
        json.dumps({"resources": [{"name": "t", "title": NASTY, "schema": {"fields": fields}}]})
    )
    code, _, err = run_here("schema", "from", "p.json", "-o", "t.toml")
    assert code == 0
    assert not re.search("[\x1b\u202e]", err)
    schema = gl.Schema.read("t.toml")
    levels = list(schema.columns[0].levels)
    pl.DataFrame({schema.names[0]: levels * 20, "b": [1, 2] * 20}).write_csv("t.csv")
    code, out, err = run_here("check", "t.csv", "-s", "t.toml")
    assert code == 0, err
    assert not re.search("[\x1b\u202e]", out + err)
    given = ("--epsilon", 10, "--delta", 1e-6, "--method", "independent")
    code, out, err = run_here("synth", "t.csv", "-s", "t.toml", "-o", "release", *given)
    assert code == 0, err
    assert not re.search("[\x1b\u202e]", out + err)
    for page in [*(folder / "release").glob("*.html"), *(folder / "release").glob("*.md")]:
        text = page.read_text(encoding="utf-8")  # in Markdown, code is inert
        assert "<script>alert" not in (text if page.suffix == ".html" else re.sub("`[^\n]*`", "", text))
        assert not re.search("[\x1b\u202e]", text)
