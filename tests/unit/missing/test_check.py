"""What the holder is told about bins that hide what is in them, and about constraints that rows break."""

import json

import numpy as np
import polars as pl
from typer.testing import CliRunner

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


def test_a_bin_that_holds_most_rows_is_told_and_a_frequent_value_in_company():
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
    told = CliRunner().invoke(app, ["check", str(tmp_path / "movies.csv"), "-s", str(tmp_path / "movies.toml")]).output
    assert "Bins that hide what is in them:" in told
    assert "96% of the rows fall into one bin of votes, 0..99" in told
    assert 'Try: bins = "learned" in the schema, or edges' in told
    even = SCHEMA.select(["even", "town"])
    even.write(tmp_path / "even.toml")
    FRAME.select("even", "town").write_csv(tmp_path / "even.csv")
    told = CliRunner().invoke(app, ["check", str(tmp_path / "even.csv"), "-s", str(tmp_path / "even.toml")]).output
    assert "Bins that hide" not in told


def test_constraints_that_rows_break_are_counted_by_their_values(tmp_path):
    rules = [Constraint("t1.a > t1.b"), Constraint("t1&t2&LT(t1.a,t2.a)&GT(t1.b,t2.b)")]
    columns = [Integer(name, bounds=(0, 99), bins=2) for name in "ab"]
    Schema("numbers", columns, constraints=rules).write(tmp_path / "numbers.toml")
    pl.DataFrame({"a": [1, 2, 3, 40], "b": [9, 8, 30, 39]}).write_csv(tmp_path / "numbers.csv")
    command = ["check", str(tmp_path / "numbers.csv"), "-s", str(tmp_path / "numbers.toml")]
    told = CliRunner().invoke(app, command).output
    assert "         1 row  t1.a > t1.b\n" in told
    assert "        2 rows, 16.67% of pairs  t1&t2&LT(t1.a,t2.a)&GT(t1.b,t2.b)\n" in told
    broken = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)["broken"]
    assert [found["rows"] for found in broken] == [1, 2]
