"""A release of a table with a difference: the files have the columns of the data, and everything reads them again."""

import json

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.errors import ReadError, SchemaError
from gapless.missing import check
from gapless.missing.gap_mechanisms import frame_with_gaps, schema_with_gaps, with_gaps
from helpers.command_line import run
from helpers.hospital import DECLARED, lengths, stays
from helpers.repeatable_noise import repeatable_noise

SCHEMA = """\
[table]
name = "stays"

[column.severity]
kind = "categorical"
levels = ["low", "middle", "high"]

[column.admission]
kind = "date"
bounds = [2023-01-01, 2025-12-31]
bins = 12
format = "%d.%m.%Y"

[column.discharge]
kind = "date"
description = "the day on which the patient left"
bounds = [2023-01-01, 2025-12-31]
format = "%d.%m.%Y"
may_be_missing = true
missing = [{ code = "still in", kind = "not-applicable" }, "?"]

[column.length_of_stay]
kind = "integer"
difference = "discharge - admission"
bounds = [0, 120]
edges = [0, 1, 2, 4, 8, 15, 30, 120]
"""


def read(folder, ledger):
    schema, budget = gl.Schema.read(folder / "stays.toml"), gl.Budget(3.0, 1e-6)
    frame = pl.read_csv(folder / "stays.csv", infer_schema=False)
    return gl.read(frame, schema, protect=gl.Rows(1), ledger=folder / ledger, budget=budget)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A file as a hospital has it, its schema, and a release."""
    folder = tmp_path_factory.mktemp("stays")
    (folder / "stays.toml").write_text(SCHEMA)
    frame = stays(2000).with_columns(pl.col("admission", "discharge").dt.strftime("%d.%m.%Y"))
    left = pl.Series(np.arange(2000) % 40)
    texts = pl.when(left == 0).then(pl.lit("still in")).when(left == 1).then(pl.lit("?")).otherwise("discharge")
    frame.with_columns(texts.alias("discharge")).write_csv(folder / "stays.csv")
    with repeatable_noise(1):
        table = read(folder, "release.ledger")
        gl.release(
            table, folder / "release", spend="100%", method="mst", gaps="as-observed", rows=1500, copies=2, seed=1
        )
    return folder


def read_dates(path):
    texts = pl.read_csv(path, infer_schema=False)
    return texts, texts.select(pl.col("admission", "discharge").str.to_date("%d.%m.%Y", strict=False))


def test_the_files_have_the_columns_of_the_data_in_their_form(folder):
    texts, dates = read_dates(folder / "release" / "synthetic.csv")
    assert texts.columns == ["severity", "admission", "discharge"]
    assert set(texts["discharge"].filter(dates["discharge"].is_null())) == {"still in", "?"}
    assert lengths(dates).min() >= 0
    assert lengths(dates).max() <= 120
    assert pl.read_parquet(folder / "release" / "synthetic.parquet").columns == texts.columns
    copies = pl.read_csv(folder / "release" / "copies.csv.gz", infer_schema=False)
    assert copies.columns == ["copy", *texts.columns]


def test_the_dictionary_explains_both_columns(folder):
    text = (folder / "release" / "dictionary.md").read_text()
    assert "- `discharge - admission`: the files have `discharge` in its place" in text
    assert "date. the day on which the patient left" in text
    assert "- `admission + length_of_stay`, within `2023-01-01 to 2025-12-31`" in text
    # R reads the files, which do not have the difference.
    assert "length_of_stay" not in (folder / "release" / "analysis.md").read_text().split("```r")[1].split("```")[0]


def test_a_release_is_verified_evaluated_and_estimated(folder):
    assert run("verify", "release", cwd=folder).returncode == 0
    files = "stays.csv", "release/synthetic.csv", "--schema", "stays.toml"
    names = {column["name"] for column in json.loads(run("evaluate", *files, "--json", cwd=folder).stdout)["columns"]}
    assert names == {"severity", "admission", "length_of_stay"}
    answered = run("estimate", "release", "mean(length_of_stay)", cwd=folder)
    assert answered.returncode == 0, answered.stderr
    refused = run("estimate", "release", "mean(discharge)", cwd=folder)
    assert "the column 'discharge' is not modelled" in refused.stderr


def test_a_model_keeps_the_difference(folder):
    model = gl.load(folder / "release" / "synthetic.model")
    assert model.schema.file_names == ("severity", "admission", "discharge")
    given = model.sample(50, seed=1, given={"length_of_stay": 3, "severity": "low"})
    assert set(lengths(given.to_polars())) == {3}
    with pytest.raises(SchemaError, match="'discharge' is not modelled"):
        model.sample(50, seed=1, given={"discharge": "2024-01-01"})
    truth = gl.Table.read(folder / "stays.csv", model.schema)
    complete = model.impute(truth, seed=1)
    filled = complete.to_polars()
    observed = truth["length_of_stay"].is_not_null()
    assert (filled["discharge"] == truth["discharge"]).filter(observed).all()
    assert (complete.codes[2] < model.schema["length_of_stay"].size).all()
    assert lengths(filled).min() >= 0


def test_questions_are_about_the_difference(folder):
    table = read(folder, "questions.ledger")
    with pytest.raises(SchemaError, match="'discharge' is not modelled"):
        table.ask(gl.Mean("discharge"), spend="1%")
    assert not table.ledger.entries
    with repeatable_noise(1):
        answer = table.ask(gl.Mean("length_of_stay"), spend="100%")
    assert abs(answer.estimate - 6.9) < 1


def test_check_shows_both_columns_to_the_holder(folder):
    rows = [("low", "05.01.2023", "03.01.2023"), ("low", "05.01.2023", "07.01.2023"), ("high", "05.01.2023", "?")]
    frame = pl.DataFrame(rows, schema=["severity", "admission", "discharge"], orient="row")
    found = check(frame, gl.Schema.read(folder / "stays.toml"))
    columns = {column.name: column for column in found.columns}
    assert [*columns] == ["severity", "admission", "discharge", "length_of_stay"]
    assert columns["discharge"].gaps == columns["length_of_stay"].gaps == 1
    assert columns["length_of_stay"].outside == 1
    assert columns["length_of_stay"].examples == ("-2",)
    shown = run("check", "stays.csv", "--schema", "stays.toml", cwd=folder)
    assert "length_of_stay" in shown.stdout


def test_the_file_must_not_have_the_difference_already():
    frame = stays(10).with_columns(length_of_stay=pl.lit(3))
    with pytest.raises(SchemaError) as caught:
        gl.Table.read(frame, DECLARED)
    assert str(caught.value) == (
        "the data have a column 'length_of_stay', which the schema computes: discharge - admission\n"
        "  Try: give the difference another name in the schema, and add this one to ignore"
    )
    with pytest.raises(SchemaError, match="the data have no column 'discharge'"):
        gl.Table.read(stays(10).drop("discharge"), DECLARED)


def test_a_refused_discharge_is_named_and_not_its_difference(tmp_path):
    frame = stays(10).with_columns(discharge=pl.lit(None, dtype=pl.Date))
    with pytest.raises(ReadError, match="column 'discharge' has gaps or unreadable cells"):
        gl.read(frame, DECLARED, protect=gl.Rows(1), ledger=tmp_path / "a.ledger", budget=gl.Budget(1.0, 1e-6))


def test_gaps_go_with_both_dates_and_no_rate_is_assumed_for_them(tmp_path):
    schema = gl.Schema.from_toml(SCHEMA)
    budget = gl.Budget(1.0, 0, ground_truth=gl.MCAR({"length_of_stay": 0.1}))
    with pytest.raises(SchemaError, match="'length_of_stay' is a difference, whose gaps follow from two columns"):
        gl.read(stays(10), schema, protect=gl.Rows(1), ledger=tmp_path / "a.ledger", budget=budget)


def test_no_rate_is_estimated_for_a_difference(folder):
    table = read(folder, "rates.ledger")
    for part in (table, table.select(["length_of_stay"])):
        with pytest.raises(SchemaError, match="but the schema has no such column"):
            gl.missing.gap_rates(part, spend="50%")  # only the difference may be missing
    assert not table.ledger.entries


def test_gaps_can_be_made_in_a_public_table():
    """The frame and the table have the same gaps: where one of the dates is missing, the second is."""
    table = gl.Table.read(stays(300), DECLARED)
    flags = gl.MCAR({"admission": 0.2, "length_of_stay": 0.3}).mask(table, seed=1)
    gapped = with_gaps(table, flags).to_polars()
    read_again = gl.Table.read(frame_with_gaps(stays(300), DECLARED, flags), schema_with_gaps(DECLARED, flags))
    assert read_again.to_polars().equals(gapped)
    assert gapped["discharge"].null_count() == flags[:, 1:].any(axis=1).sum()
