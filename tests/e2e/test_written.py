"""A file with semicolons, decimal commas, German dates and two bytes a letter, from its draft to an evaluation."""

import csv
import io
import json

import pytest

from helpers import command_line


@pytest.fixture
def folder(tmp_path):
    rows = [["", "Alter", "Gehalt", "Größe", "Besuch", "Raucher", "Ort"]]
    for i in range(120):
        pay = "-" if i % 7 == 0 else f"{1 + i % 9}.{i * 37 % 1000:03},{i % 100:02}"
        place = ("Köln", "Ulm", "Bonn", f"Ort {i}")[i % 4]
        rows.append(
            [i, 20 + i % 60, pay, f"1,{50 + i % 40}", f"{1 + i % 28:02}.03.2021", "Ja" if i % 2 else "Nein", place]
        )
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";").writerows(rows)
    (tmp_path / "leute.csv").write_bytes(text.getvalue().encode("utf-16"))
    return tmp_path


def run(folder, *arguments):
    done = command_line.run(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_command_reads_what_the_schema_declares_and_writes_it_so(folder):
    draft = run(folder, "schema", "draft", "leute.csv", "--max-levels", 30)
    for line in ('separator = ";"', 'encoding = "utf-16"', 'decimal = ","', 'thousands = "."', 'format = "%d.%m.%Y"'):
        assert f"{line}  # as the data are written" in draft
    assert 'ignore = ["", "Ort"]' in draft
    place = '[column.Ort]\nkind = "categorical"\nlevels = ["Köln", "Ulm", "elsewhere"]\n'
    place += 'outside = "other"\nother = "elsewhere"\n'
    smoker = '[column.Raucher]\nkind = "boolean"\nspelling = ["Nein", "Ja"]\n'
    head, _, _ = draft.partition("[column.Raucher]")
    schema = head.replace('origin = "data"\n', "").replace('ignore = ["", "Ort"]', 'ignore = [""]') + smoker + place
    (folder / "leute.toml").write_text(schema, encoding="utf-8")
    parsed = json.loads(run(folder, "check", "leute.csv", "-s", "leute.toml", "--json"))
    assert {column["name"]: column["outside"] for column in parsed["columns"] if column["outside"]} == {"Ort": 60}
    promise = ("--epsilon", 100, "--delta", 1e-6, "--method", "independent")  # all levels are seen in 120 rows
    run(folder, "synth", "leute.csv", "-s", "leute.toml", "-o", "release", "--spend", "50%", *promise)
    text = (folder / "release" / "synthetic.csv").read_bytes().decode("utf-16")
    header, *rows = csv.reader(io.StringIO(text), delimiter=";")
    assert header == ["Alter", "Gehalt", "Größe", "Besuch", "Raucher", "Ort"]
    assert {row[4] for row in rows} == {"Ja", "Nein"}
    assert {row[5] for row in rows} == {"Köln", "Ulm", "elsewhere"}
    assert all(row[2].startswith("1,") and row[3].endswith(".03.2021") for row in rows)
    dictionary = (folder / "release" / "dictionary.md").read_text(encoding="utf-8")
    assert "Text files are written with separator `';'`" in dictionary
    assert "- spelling in text files: `Nein, Ja`" in dictionary
    assert "- format in text files: `%d.%m.%Y`" in dictionary
    parsed = json.loads(run(folder, "evaluate", "leute.csv", "release/synthetic.csv", "-s", "leute.toml", "--json"))
    assert parsed
    run(folder, "gap", "leute.csv", "-s", "leute.toml", "-r", 0.2, "-o", "gapped.csv", "--schema-output", "gapped.toml")
    parsed = json.loads(run(folder, "check", "gapped.csv", "-s", "gapped.toml", "--json"))
    assert not any(column["refused"] for column in parsed["columns"])
    assert "mean(Alter) = " in run(folder, "ask", "leute.csv", "-s", "leute.toml", "--spend", "50%", "mean(Alter)")
