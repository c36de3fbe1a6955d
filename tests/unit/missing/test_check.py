"""Checks of data by their holder: gaps and patterns, cells outside, bins that hide values, broken rules."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import gapless as gl
from gapless.cli.app import app
from gapless.missing import check
from gapless.schema import Categorical, Constraint, Date, Integer, Number, Schema

SCHEMA = Schema(
    "movies",
    [
        Integer("votes", bounds=(0, 999), bins=10, may_be_missing=True, missing=[""]),
        Integer("educ", bounds=(0, 19), bins=10),
        Integer("rating", bounds=(0, 1)),
        Number("even", bounds=(0, 100), bins=10),
        Date("day", bounds=("2020-01-01", "2020-12-31"), bins=4),
        Categorical("town", ["a", "b"]),
    ],
)
ROWS = 100
FRAME = pl.DataFrame(
    {
        "votes": ["30"] * 94 + ["500"] * 4 + [""] * 2,
        "educ": ["12"] * 30 + ["13"] * 9 + [str(value) for value in range(10)] * 6 + ["18"],
        "rating": ["1"] * 99 + ["0"],
        "even": [str(value) for value in np.linspace(0, 99.5, ROWS)],
        "day": ["2020-02-03"] * 60 + ["2020-11-12"] * 40,
        "town": ["a"] * ROWS,
    }
)


def test_reports_crowded_bins_and_frequent_values_that_share_a_bin():
    hidden = {column.name: column.hidden for column in check(FRAME, SCHEMA).columns}
    assert hidden["votes"] == "96% of the rows fall into one bin of votes, 0..99"  # of those that are not missing
    assert hidden["educ"] == "30% of the rows are 12 in educ, one value of the bin 12..13"
    assert hidden["day"].startswith("60% of the rows fall into one bin of day, 2020-01-01..")
    assert hidden["rating"] == hidden["even"] == hidden["town"] == ""  # bins of one value, even values, levels


def test_a_table_without_values_hides_nothing():
    empty = FRAME.with_columns(pl.lit("").alias("votes"))
    assert check(empty, SCHEMA).columns[0].hidden == ""
    assert all(column.hidden == "" for column in check(FRAME.head(0), SCHEMA).columns)


def test_the_command_prints_it_with_a_way_out(tmp_path):
    FRAME.write_csv(tmp_path / "movies.csv")
    SCHEMA.write(tmp_path / "movies.toml")
    output = (
        CliRunner().invoke(app, ["check", str(tmp_path / "movies.csv"), "-s", str(tmp_path / "movies.toml")]).output
    )
    assert "Bins that hide what is in them:" in output
    assert "96% of the rows fall into one bin of votes, 0..99" in output
    assert 'Try: write bins = "learned" in the schema, or edges' in output
    even = SCHEMA.select(["even", "town"])
    even.write(tmp_path / "even.toml")
    FRAME.select("even", "town").write_csv(tmp_path / "even.csv")
    output = CliRunner().invoke(app, ["check", str(tmp_path / "even.csv"), "-s", str(tmp_path / "even.toml")]).output
    assert "Bins that hide" not in output


def test_constraints_that_rows_break_are_counted_by_their_values(tmp_path):
    rules = [Constraint("t1.a > t1.b"), Constraint("t1&t2&LT(t1.a,t2.a)&GT(t1.b,t2.b)")]
    columns = [Integer(name, bounds=(0, 99), bins=2) for name in "ab"]
    Schema("numbers", columns, constraints=rules).write(tmp_path / "numbers.toml")
    pl.DataFrame({"a": [1, 2, 3, 40], "b": [9, 8, 30, 39]}).write_csv(tmp_path / "numbers.csv")
    command = ["check", str(tmp_path / "numbers.csv"), "-s", str(tmp_path / "numbers.toml")]
    output = CliRunner().invoke(app, command).output
    assert "         1 row  t1.a > t1.b\n" in output
    assert "        2 rows, 16.67% of pairs  t1&t2&LT(t1.a,t2.a)&GT(t1.b,t2.b)\n" in output
    broken = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)["broken"]
    assert [found["rows"] for found in broken] == [1, 2]


LETTERS = gl.Schema(
    "t",
    [
        gl.Categorical("a", ["x", "y"], may_be_missing=True),
        gl.Integer("b", bounds=(0, 9), may_be_missing=True, missing=[gl.MissingCode("n/a", "not-applicable")]),
        gl.Boolean("c"),
    ],
)


def read(a, b, c):
    return gl.Table.read(pl.DataFrame({"a": a, "b": b, "c": c}), LETTERS)


def test_patterns_have_rates_and_columns_missing_together():
    found = gl.missing.patterns(read(["x", None, None, None], ["1", "n/a", None, None], [True] * 4))
    assert found.rows == 4
    assert found.rates == {"a": 0.75, "b": 0.5, "c": 0.0}  # not applicable is a value, not a gap
    assert found.frequent == ((("a", "b"), 2), ((), 1), (("a",), 1))
    assert found.different == 3


def test_the_picture_shows_gappy_columns_only_and_cuts_the_tail():
    table = read(["x", None, None], ["1", None, None], [True] * 3)
    assert gl.missing.patterns(table).picture().splitlines() == [
        "       rows   share   1  2",
        "          2   66.7%   ·  ·",
        "          1   33.3%   ■  ■",
        "  columns: 1 a, 2 b",
    ]
    assert "  … and 1 rarer pattern\n" in gl.missing.patterns(table, most=1).picture()


def test_patterns_print_as_their_picture_and_need_a_number_of_them():
    found = gl.missing.patterns(read(["x", None, None], ["1", None, None], [True] * 3))
    assert str(found) == f"3 rows, 1 of them complete (■ observed, · missing):\n{found.picture()}"
    for most in (-1, 0, True, 1.5):
        with pytest.raises(gl.errors.SchemaError, match="most = "):
            gl.missing.patterns(read(["x"], ["1"], [True]), most=most)


@pytest.mark.parametrize("rows", [0, 1])
def test_tables_without_rows_or_gaps_have_a_picture_too(rows):
    table = read(["x"] * rows, ["1"] * rows, [True] * rows)
    assert gl.missing.patterns(table).picture() == "  no gaps at all"
    assert gl.missing.patterns(table).different == rows


def test_patterns_of_many_columns_are_distinguished():
    schema = gl.Schema("wide", [gl.Boolean(f"c{i}", may_be_missing=True) for i in range(70)])
    codes = np.eye(70, dtype=int) * 2
    found = gl.missing.patterns(gl.Table(schema, list(codes), rows=70), most=100)
    assert found.different == 70
    assert {missing for missing, _ in found.frequent} == {(f"c{i}",) for i in range(70)}


def test_a_sealed_table_shows_no_patterns(tmp_path):
    private = gl.read(
        pl.DataFrame({"a": ["x"], "b": [1], "c": [True]}),
        LETTERS,
        protect=gl.Rows(1),
        ledger=tmp_path / "t.ledger",
        budget=gl.Budget(1.0, 0),
    )
    with pytest.raises(gl.errors.SealedError, match="needs a public Table, not a PrivateTable"):
        gl.missing.patterns(private)


def test_a_check_counts_gaps_and_cells_outside_and_reports_their_treatment():
    frame = pl.DataFrame({"a": ["x", "z", ""], "b": ["5", "12", "rubbish"], "c": ["yes", "1", ""]})
    result = check(frame, LETTERS)
    a, b, c = result.columns
    assert (a.gaps, a.outside, a.unreadable, a.empty, a.rule, a.refused) == (2, 1, 1, 0, "missing", False)
    assert (b.gaps, b.outside, b.unreadable, b.empty, b.rule, b.refused) == (1, 2, 1, 0, "clamp", False)
    assert b.examples == ("rubbish", "12")
    assert (c.gaps, c.outside, c.unreadable, c.empty, c.rule, c.refused) == (1, 0, 0, 1, "refuse", True)
    assert [column.invalid for column in result.columns] == [1, 1, 0]
    assert result.refused == ("c",)
    assert result.patterns.rates["a"] == 2 / 3
    written = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    assert [list(pair) for pair in written["patterns"]["pairs"]] == [["column", "other", "both", "association"]] * 3


def test_the_command_reports_invalid_cells_as_missing_and_unconfirmed_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\nx,5,yes\nz,rubbish,yes\n,12,no\n")
    outputs, results = [], []
    for origin in ("codebook", "data"):
        first = replace(LETTERS.columns[0], origin=origin)
        LETTERS.with_columns({first.name: first}).write(tmp_path / f"{origin}.toml")
        command = ["check", str(tmp_path / "t.csv"), "-s", str(tmp_path / f"{origin}.toml")]
        outputs.append(CliRunner().invoke(app, command))
        results.append(json.loads(CliRunner().invoke(app, [*command, "--json"]).output))
    checked, draft = (done.output for done in outputs)
    assert "missing includes 2 invalid cells: not empty, but no value of the schema\n" in checked
    assert "will be refused" not in checked
    refusal = "Facts that were read from the data or proposed are not confirmed for a\n"
    refusal += "  Try: check the facts of these columns against a codebook, then run `gapless schema confirm SCHEMA`"
    assert f"Any release under this schema will be refused. {refusal}" in draft
    assert [result["unconfirmed"] for result in results] == [[], ["a"]]
    assert [done.exit_code for done in outputs] == [0, 0]


def test_a_check_agrees_with_what_reading_refuses():
    frames = [
        pl.DataFrame({"a": ["x"], "b": ["5"], "c": ["maybe"]}),
        pl.DataFrame({"a": ["x"], "b": ["5"], "c": [""]}),
        pl.DataFrame({"a": ["?"], "b": ["?"], "c": ["no"]}),
    ]
    for frame in frames:
        if check(frame, LETTERS).refused:
            with pytest.raises(gl.errors.ReadError):
                gl.Table.read(frame, LETTERS)
        else:
            gl.Table.read(frame, LETTERS)
    refuse = gl.Schema("t", [gl.Number("x", bounds=(0, 1), outside="refuse", may_be_missing=True)])
    assert check(pl.DataFrame({"x": ["2"]}), refuse).refused == ("x",)
    assert check(pl.DataFrame({"x": ["1", None]}), refuse).refused == ()


@pytest.mark.parametrize(
    ("column", "cell", "advice"),
    [
        (gl.Number("x", bounds=(0, 9)), "1,5", "a number is written 1234.5"),
        (gl.Number("x", bounds=(0, 9)), "1.234,50 €", "a number is written 1234.5"),
        (gl.Integer("x", bounds=(0, 9)), "1,234", "thousands declare another separator"),
        (gl.Date("x", bounds=("2020-01-01", "2021-01-01")), "31.12.2020", "a date is written 2024-12-31"),
        (gl.Date("x", bounds=("2020-01-01", "2021-01-01")), "12/31/20", "a date is written 2024-12-31"),
        (gl.DateTime("x", bounds=("2020-01-01", "2021-01-01")), "31-12-2020 10:00", "a date is written 2024-12-31"),
        (gl.Categorical("x", ["Yes", "No"]), "yes", "'yes' is not 'Yes': capitals count"),
        (gl.Categorical("x", ["Yes", "No"]), "perhaps", ""),
        (gl.Number("x", bounds=(0, 9)), "rubbish", ""),
    ],
)
def test_a_check_knows_what_spreadsheets_do(column, cell, advice):
    (found,) = check(pl.DataFrame({"x": [cell]}), gl.Schema("t", [column])).columns
    assert advice in found.advice
    assert bool(advice) == bool(found.advice)


def test_an_empty_table_is_checked():
    result = check(pl.DataFrame({"a": [], "b": [], "c": []}), LETTERS)
    assert result.rows == 0
    assert result.refused == ()
