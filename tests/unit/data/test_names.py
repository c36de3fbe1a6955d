"""Names of files: an existing name is literal in every engine, a pattern is expanded once, a file is read once."""

import glob
import gzip
import itertools
import os
from pathlib import Path
from unittest import mock

import polars as pl
import pytest

import gapless as gl
from gapless.data.io import source
from gapless.data.io.source import files_of, is_pattern
from gapless.data.private_table import ledger_beside
from gapless.missing import check
from helpers.open_sealed import reveal
from helpers.workbooks import workbook

SCHEMA = gl.Schema("t", [gl.Integer("x", bounds=(0, 99), bins=100, may_be_missing=True)])
READ = [("xlsx", "memory"), *itertools.product(("csv", "csv.gz", "parquet"), ("memory", "disk", "duckdb"))]
# What a name would find if it were taken for a pattern, polars' and DuckDB's included.
ODD = {
    "people[1]": ["people1"],
    "people[[]1]": ["people[1]"],
    "people[!a]": ["peopleb"],
    "people*": ["people1", "people"],
    "people?": ["people1"],
    "**": ["people"],
    "{a,b}": ["a", "b"],
    "rel[1]/people": ["rel1/people"],
    "rel*/[a]": ["rel1/a", "rel1/[a]"],
    "x=7/people": [],
    "~/people": [],
    "a b%20#é\u200b'\"": [],
    "s3:/people": [],
    "-people": [],
}


def write(path, numbers):
    """A file of one column of whole numbers, of the kind that its name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "\n".join(["x", *map(str, numbers), ""])
    if path.suffix == ".parquet":
        with path.open("wb") as file:
            pl.DataFrame({"x": numbers}).write_parquet(file)
    elif path.suffix == ".xlsx":
        workbook(path, [["x"], *([number] for number in numbers)])
    else:
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())


def rows_of(data, engine):
    """The rows that a release would count, sorted."""
    given = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "ledger": "t.ledger"}
    table = gl.read(data, SCHEMA, engine=engine, **given)
    counts = reveal(table.marginal("x", rows="extended"), table.ledger)
    return [value for value, many in enumerate(counts) for _ in range(many)]


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("kind", "engine"), READ)
@pytest.mark.parametrize("name", ODD)
def test_an_existing_file_is_read_by_its_literal_name(name, kind, engine, here):
    for number, other in enumerate(ODD[name], start=1):
        write(here / f"{other}.{kind}", [number])
    write(here / f"{name}.{kind}", [50, 51])
    for data in (f"{name}.{kind}", here / f"{name}.{kind}"):
        assert rows_of(data, engine) == [50, 51]
        assert files_of(data) == [Path(data)]
        assert not is_pattern(data)
    assert gl.Table.read(f"{name}.{kind}", SCHEMA).rows == 2
    assert check(f"{name}.{kind}", SCHEMA).rows == 2
    assert ledger_beside(f"{name}.{kind}") == Path(f"{name}.ledger")


@pytest.mark.parametrize(("kind", "engine"), READ)
def test_a_pattern_is_expanded_once_and_what_it_finds_is_literal(kind, engine, here):
    for number, name in enumerate(("people1", "people[1]", "people*", "people?", "other"), start=1):
        write(here / f"{name}.{kind}", [number, 10 * number])
    assert rows_of(f"people?*.{kind}", engine) == [1, 2, 3, 4, 10, 20, 30, 40]
    assert rows_of(f"people*.{kind}", engine) == [3, 30]  # a file of this name is there


@pytest.mark.parametrize(("kind", "engine"), READ)
def test_a_file_with_several_names_is_read_once(kind, engine, here):
    write(here / "big" / f"2023.{kind}", [1])
    write(here / "big" / f"2024.{kind}", [2, 3])
    (here / "big" / f"latest.{kind}").symlink_to(f"2024.{kind}")
    os.link(here / "big" / f"2023.{kind}", here / "big" / f"hard.{kind}")
    (here / "big" / "again").symlink_to(".", target_is_directory=True)
    for pattern in ("big/*", "big/**/*", "**/**/*", "**/**/**/*[0-9t]", "b*/*/*"):
        assert rows_of(f"{pattern}.{kind}", engine) == [1, 2, 3], pattern
    assert files_of(f"big/*.{kind}") == [Path("big", f"{year}.{kind}") for year in (2023, 2024)]


def test_patterns_mean_what_they_mean_to_glob(here):
    for name in ("a.csv", "b/a.csv", "b/.h.csv", ".h/a.csv", ".h/c/.d.csv", "b/c/xy.csv", "b/[1].csv", "[1]/d/1.csv"):
        write(here / name, [1])
    (here / "e").symlink_to("b", target_is_directory=True)
    patterns = ["*.csv", "**/*.csv", "*/*.csv", "**/a.csv", "**/**/*.csv", "*/../*.csv", ".*/*.csv", ".*/**/.*.csv"]
    patterns += ["**/.h.csv", "*/c/x?.csv", "[!a]*/*.csv", "*/**/1.csv", "./*/*.csv", "[[]1]/*/*.csv", "e/**/x*", "*/*"]
    for pattern in itertools.chain(patterns, (str(here / pattern) for pattern in patterns)):
        meant = {Path(name).stat().st_ino for name in glob.glob(pattern, recursive=True)}  # noqa: PTH207 compared with
        found = [path.stat().st_ino for path in files_of(pattern)]
        assert sorted(found) == sorted(meant), pattern


def test_a_folder_of_an_existing_name_is_literal_before_a_pattern(here):
    write(here / "rel[1]" / "a.parquet", [7])
    write(here / "rel1" / "a.parquet", [1])
    assert source.split_pattern("rel[1]/*.parquet") == (Path("rel[1]"), "*.parquet")
    assert source.split_pattern("rel[2]/*.parquet") == (Path(), "rel[2]/*.parquet")
    for engine in ("memory", "disk", "duckdb"):
        assert rows_of("rel[1]/*.parquet", engine) == [7]
    assert ledger_beside("rel[1]/*.parquet") == Path("rel[1].ledger")
    assert ledger_beside(here / "rel[1]" / "*.parquet") == here / "rel[1].ledger"
    assert ledger_beside("rel[12]/*.parquet").name == f"{here.name}.ledger"


@pytest.mark.parametrize("engine", ["memory", "disk", "duckdb"])
def test_columns_are_those_of_the_file_and_not_of_its_folder(engine, here):
    write(here / "x=9" / "y=1" / "a.parquet", [3])
    write(here / "x=8" / "y=2" / "a.parquet", [4])
    assert rows_of("x=9/y=1/a.parquet", engine) == [3]
    assert rows_of("*/*/a.parquet", engine) == [3, 4]


@pytest.mark.parametrize("engine", ["memory", "disk", "duckdb"])
def test_a_link_that_leads_nowhere_is_told(engine, here):
    write(here / "a.csv", [1])
    (here / "b.csv").symlink_to("gone.csv")
    (here / "c[1].csv").symlink_to("gone.csv")
    write(here / "c1.csv", [2])
    with pytest.raises(gl.errors.ReadError, match=r"no file b\.csv"):
        rows_of("[ab].csv", engine)
    with pytest.raises(gl.errors.ReadError, match=r"no file c\[1\]\.csv"):
        rows_of("c[1].csv", engine)


def test_files_without_inodes_are_told_apart_by_their_paths(here):
    for number in (1, 2):
        write(here / f"{number}.csv", [number])
    found = os.stat_result((0o100644, 0, 7, 1, 0, 0, 4, 0, 0, 0))
    with mock.patch.object(Path, "stat", return_value=found):
        assert files_of("*.csv") == [Path("1.csv"), Path("2.csv")]


def test_names_that_a_reader_cannot_take_are_told(here):
    write(here / "back\\slash[1].parquet", [1])
    assert rows_of("back\\slash[1].parquet", "disk") == [1]
    with pytest.raises(
        gl.errors.ReadError, match=r'does not take the name .* literally\n  Try: rename the file, or .*"disk"'
    ):
        rows_of("back\\slash[1].parquet", "duckdb")
    name = os.fsdecode(b"no unicode \xff.parquet")
    write(here / name, [1])
    for engine in ("memory", "disk", "duckdb"):
        with pytest.raises(
            gl.errors.ReadError, match=r"xff.parquet' is not valid Unicode|dcff.parquet' is not valid Unicode"
        ):
            rows_of(name, engine)


@pytest.mark.parametrize("name", ["fake[1].parquet", "fake*.csv", "x=1/~.tsv", "fake?.csv.gz"])
def test_what_is_written_has_the_name_that_was_asked_for(name, here):
    write(here / "fake1.parquet", [5])
    (here / name).parent.mkdir(exist_ok=True)
    before = set(here.rglob("*"))
    gl.Table.read(pl.DataFrame({"x": [7]}), SCHEMA).write(name)
    assert set(here.rglob("*")) - before == {here / name}
    assert gl.Table.read(name, SCHEMA).to_polars()["x"].to_list() == [7]
