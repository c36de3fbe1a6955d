"""A table on a Spark cluster, here in local mode: the same codes, counts and releases as from memory."""

import datetime as dt
import math
from dataclasses import replace
from decimal import Decimal

import polars as pl
import pytest

import gapless as gl
from gapless.data.engines.spark import Spark, SparkSource
from gapless.data.engines.sql_engine import materialize
from gapless.data.io.encode import encode
from gapless.data.io.persons import RowLimit
from gapless.data.io.reading import open_engine
from gapless.data.io.source import clip_dates
from gapless.synth import METHODS
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise
from helpers.databases import spark_frame
from helpers.differences import CALENDAR, SCHEMAS, SMALL, TAKES_ALL
from helpers.odd_cells import DATES, DAYS, FAR, FAR_DAYS, FAR_STEPS, LEVELS, MOMENTS, NUMBERS, TEXTS, near
from helpers.open_sealed import reveal

pytestmark = pytest.mark.slow


def check(columns, frame, session):
    """Several columns at once, each with different cells: the same codes, row by row."""
    schema = gl.Schema("t", columns)
    here = encode([frame], schema.finest).columns
    there = materialize(Spark.read(SparkSource(spark_frame(session, frame)), schema.finest)).columns
    rows = [sorted(zip(*(codes.tolist() for codes in side), strict=True)) for side in (here, there)]
    assert rows[0] == rows[1]


def columns_of(declared, cells_of):
    """Columns that take any cell, each with different cells, and a number of the row."""
    chosen = {name: column for name, column in declared.items() if column.may_be_missing and column.outside != "refuse"}
    cells = {name: cells_of(name, column) for name, column in chosen.items()}
    rows = max(map(len, cells.values()))
    number = gl.Integer("row", bounds=(0, rows), bins=1)
    return number, [(column, (cells[name] * rows)[:rows]) for name, column in chosen.items()], rows


@pytest.mark.parametrize(
    "kind",
    [
        "texts",
        "dates as texts",
        pl.Float64,
        pl.Float32,
        pl.Int64,
        pl.Decimal(30, 2),
        pl.Boolean,
        pl.Date,
        pl.Datetime("us"),
        pl.Datetime("us", "UTC"),
    ],
)
def test_cells_have_the_codes_that_memory_gives_them(kind, spark):
    declared = {"texts": LEVELS | NUMBERS, "dates as texts": DATES, pl.Boolean: LEVELS}.get(kind, NUMBERS)
    if kind in (pl.Date, pl.Datetime("us"), pl.Datetime("us", "UTC")):
        declared = DATES
    dtype = pl.String if isinstance(kind, str) else kind
    number, columns, rows = columns_of(declared, lambda name, column: cells_of(kind, name, column))
    for column, cells in columns:
        series = pl.Series("x", cells, dtype=dtype)
        frame = pl.DataFrame({"row": pl.Series(range(rows), dtype=pl.Int64), "x": series})
        check([number, column], frame, spark)


def cells_of(kind, name, column):
    if kind == "texts":
        return [None, *TEXTS]
    if kind == "dates as texts":
        return [*MOMENTS, *DAYS, *(f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in DAYS)]
    if kind in (pl.Float64, pl.Float32):
        return pl.Series(near(column), dtype=kind).to_list()
    if kind == pl.Int64:
        return [None if cell is None else int(cell) for cell in near(column) if cell is None or abs(cell) < 2**62]
    if kind == pl.Boolean:
        return [True, False, None]
    if kind == pl.Decimal(30, 2):
        return [None, *(Decimal(cents) / 100 for cents in (0, 1, 5, 10, 30, 100, 150, 250, 1000))]
    bounds = [dt.datetime.fromisoformat(str(bound)) for bound in column.bounds]
    skipped = dt.datetime.fromisoformat("2024-03-10 02:30:01.000005")  # an hour that New York left out
    moments = [None, *bounds, *FAR, skipped]
    if kind == pl.Date:
        return [moment and moment.date() for moment in moments]
    return pl.Series(moments, dtype=pl.Datetime("us")).dt.replace_time_zone(kind.time_zone).to_list()


@pytest.mark.parametrize("dtype", [pl.Date, pl.Datetime("us"), pl.Datetime("us", "UTC")])
def test_no_moment_makes_reading_fail(dtype, spark, tmp_path):
    """Also one that does not fit where it is multiplied; in milliseconds Spark itself fails to read it."""
    cells = pl.Series(
        "x", FAR_DAYS if dtype == pl.Date else FAR_STEPS, dtype=pl.Int32 if dtype == pl.Date else pl.Int64
    )
    frame = pl.DataFrame({"x": cells.cast(dtype)})
    frame.write_parquet(tmp_path / "t.parquet")
    frame = pl.DataFrame({"x": clip_dates(frame["x"])})
    for column in DATES.values():
        schema = gl.Schema("t", [replace(column, may_be_missing=True)]).finest
        (here,) = encode([frame], schema).columns
        (there,) = materialize(Spark.read(SparkSource(spark.read.parquet(str(tmp_path / "t.parquet"))), schema)).columns
        assert sorted(here.tolist()) == sorted(there.tolist())


SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("sex", ["female", "male"], may_be_missing=True),
        gl.Integer("age", bounds=(0, 99), bins=5),
        gl.Number("income", bounds=(0, 1000), edges=(0, 10, 100, 1000), may_be_missing=True, missing=(-1,)),
        gl.Date("born", bounds=("1920-01-01", "2020-12-31"), resolution="year", bins=4, may_be_missing=True),
    ],
)
AGES = [(37 * row) % 120 for row in range(300)]
PEOPLE = pl.DataFrame(
    {
        "sex": [("female", " male ", None, "other")[row * row % 4] for row in range(300)],
        "age": AGES,
        "income": [(-1.0, math.nan, math.inf, age * 3.7, None)[age % 5] for age in AGES],
        "born": [None if age % 7 == 0 else dt.date(2020 - age, 1 + age % 12, 15) for age in AGES],
    }
)


def far(spark, folder):
    given = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6)}
    return gl.read(spark_frame(spark, PEOPLE), SCHEMA, ledger=folder / "spark.ledger", **given)


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].pure and name != "auto"])
def test_the_same_noise_gives_the_same_rows(method, spark, tmp_path):
    made = []
    for table in (private(PEOPLE, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6)), far(spark, tmp_path)):
        with fixed_noise(3):
            model = METHODS[method]().fit(table, spend=table.ledger.left)
        made.append(model.sample(100, seed=1).to_polars().rows())
    assert made[0] == made[1]


def test_the_same_noise_gives_the_same_answers_and_diagnostics(spark, tmp_path):
    questions = [gl.Mean("income", by="sex"), gl.Median("age"), gl.Mean("income", missing=gl.HotDeck(on=["age"]))]
    answers = []
    for table in (private(PEOPLE, SCHEMA, tmp_path, budget=gl.Budget(2.0, 1e-6)), far(spark, tmp_path)):
        with fixed_noise(7):
            answers.append([str(table.ask(question, spend=table.ledger.share("10%"))) for question in questions])
            answers[-1].append(str(gl.missing.describe_gaps(table, spend=table.ledger.share("40%"))))
    assert answers[0] == answers[1]


def test_paths_of_parquet_are_read_by_spark(spark, tmp_path):
    folder = tmp_path / "people.parquet"
    folder.mkdir()
    for part in range(3):
        PEOPLE[100 * part : 100 * part + 100].write_parquet(folder / f"{part}.parquet")
    given = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6)}
    table = gl.read(str(folder), SCHEMA, engine="spark", **given)
    assert table._engine is Spark
    assert (tmp_path / "people.ledger").exists()
    memory = private(PEOPLE, SCHEMA, tmp_path)
    for columns in ("sex", ("age", "born"), ("sex", "income", "age")):
        here, there = (reveal(side.marginal(columns, rows="extended"), side.ledger) for side in (memory, table))
        assert (here == there).all()
    (folder / "0.parquet").unlink()
    with pytest.raises(gl.errors.ReadError, match=r"Spark cannot compute this|has changed since it was read"):
        reveal(table.marginal("sex"), table.ledger)
    with pytest.raises(gl.errors.ReadError, match="Spark reads only Parquet by its path"):
        gl.read(tmp_path / "people.csv", SCHEMA, engine="spark", **given)


NUMBERED = gl.Schema("t", [gl.Integer("x", bounds=(0, 99), bins=100)])


def rows_by_spark(data, folder):
    """The numbers that Spark counts in files of one column."""
    given = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6), "ledger": folder / "t.ledger"}
    table = gl.read(data, NUMBERED, engine="spark", **given)
    counts = reveal(table.marginal("x"), table.ledger)
    return [value for value, many in enumerate(counts) for _ in range(many)]


def put(path, *numbers):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        pl.DataFrame({"x": numbers}).write_parquet(file)


ODD = ["people[1]", "people*", "people?", "{people1,a}", "back\\slash", "a b%20#é'", "rel[1]/people", "x=7/people"]


def test_an_existing_name_is_literal_for_spark(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for other in ("people1", "a", "rel1/people", "back/slash"):
        put(tmp_path / f"{other}.parquet", 1)
    for name in ODD:
        put(tmp_path / f"{name}.parquet", 50, 51)
        assert rows_by_spark(f"{name}.parquet", tmp_path) == [50, 51]
        assert rows_by_spark(tmp_path / f"{name}.parquet", tmp_path) == [50, 51]


def test_spark_reads_each_file_of_a_pattern_once(spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "big" / "part1.parquet", 1)
    put(tmp_path / "big" / "part[1].parquet", 2, 3)
    (tmp_path / "big" / "part-latest.parquet").symlink_to("part1.parquet")
    assert rows_by_spark("big/*.parquet", tmp_path) == [1, 2, 3]
    assert rows_by_spark("**/**/*.parquet", tmp_path) == [1, 2, 3]
    put(tmp_path / "big" / "_part.parquet", 4)
    with pytest.raises(gl.errors.ReadError, match=r"Spark skips a file of big/\*.parquet.*\n  Try: rename the file"):
        rows_by_spark("big/*.parquet", tmp_path)
    with pytest.raises(gl.errors.ReadError, match=r"Spark cannot compute this"):
        rows_by_spark("nothing/*.parquet", tmp_path)


def test_a_link_in_a_folder_that_spark_reads_is_refused(spark, tmp_path):
    put(tmp_path / "people.parquet" / "a.parquet", 1)
    put(tmp_path / "people.parquet" / "b.parquet", 2)
    assert rows_by_spark(tmp_path / "people.parquet", tmp_path) == [1, 2]
    (tmp_path / "people.parquet" / "c.parquet").symlink_to("a.parquet")
    with pytest.raises(
        gl.errors.ReadError, match=r"two names in .* lead to one file.*\n  Try: remove one of the two names"
    ):
        rows_by_spark(tmp_path / "people.parquet", tmp_path)


def test_a_table_that_changes_between_two_scans_is_noticed(spark, tmp_path):
    """By the number of its rows, and by cells that the schema refuses, which would be counted as others."""
    rows = "SELECT CAST(id % 90 + IF(id < {cut}, 0, {more}) AS INT) AS age FROM RANGE({rows})"
    schema = gl.Schema("ages", [gl.Integer("age", bounds=(0, 99), bins=5, outside="refuse")])
    given = {"protect": gl.Rows(1), "budget": gl.Budget(2.0, 1e-6)}
    for number, change in enumerate(({"rows": 299}, {"cut": 299})):
        numbers = {"rows": 300, "cut": 300, "more": 100}
        frame = spark.sql(rows.format(**numbers))
        table = gl.read(frame, schema, ledger=tmp_path / f"{number}.ledger", **given)
        assert reveal(table.marginal("age"), table.ledger).sum() == 300
        name = reveal(table._rows, table.ledger).encoding.source._name
        spark.sql(rows.format(**numbers | change)).toDF("r0").createOrReplaceTempView(name)
        with pytest.raises(gl.errors.ReadError, match="the table has changed since it was read"):
            reveal(table.marginal("age", rows="extended"), table.ledger)


def test_spark_messages_about_cells_are_withheld(spark, tmp_path, capfd):
    frame = spark_frame(spark, PEOPLE).selectExpr("sex", "CAST(CONCAT('secret', age) AS INT) AS age", "income", "born")
    with pytest.raises(gl.errors.ReadError, match="Spark cannot compute this") as error:
        gl.read(frame, SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "x.ledger")
    assert error.value.__context__ is None
    assert not any("secret" in text for text in (str(error.value), *capfd.readouterr()))


@pytest.mark.parametrize("name", TAKES_ALL)
def test_differences_are_computed_as_in_memory(name, spark):
    schema = SCHEMAS[name].finest
    texts = CALENDAR if isinstance(schema["a"], gl.Date | gl.DateTime) else [*SMALL, *TEXTS]
    frame = pl.DataFrame({"a": texts * 7, "b": [text for step in range(7) for text in texts[step:] + texts[:step]]})
    here = encode([frame], schema).columns
    there = materialize(Spark.read(SparkSource(spark_frame(spark, frame)), schema)).columns
    rows = [sorted(zip(*(codes.tolist() for codes in side), strict=True)) for side in (here, there)]
    assert rows[0] == rows[1]


def test_rows_of_persons_are_those_that_memory_keeps_and_the_key_is_in_no_plan(spark):
    """Ids of two parts, missing ones and padded ones; equal rows."""
    cells = {"household": [None, "1", " 1", "日本", "3"], "number": [None, 1, 12, -2], "age": [5, 6, None]}
    picked = {
        name: [values[(row * row + row // 7) % len(values)] for row in range(300)] for name, values in cells.items()
    }
    frame = pl.DataFrame(picked, schema_overrides={"number": pl.Int64, "age": pl.Int64})
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 9), may_be_missing=True)], person=["household", "number"])
    limit = RowLimit(schema.person, 3, bytes(range(32)))
    here, there = (
        open_engine(data, schema, engine=None, query=None, encoding=None, limit=limit)
        for data in (frame, spark_frame(spark, frame))
    )
    assert isinstance(there, Spark)
    counted = [engine.count([(0,)], [11], [11])[0].tolist() for engine in (here, there)]
    assert counted[0] == counted[1]
    assert sum(counted[0]) < 200
    query = f"EXPLAIN EXTENDED SELECT COUNT(*) FROM {there.encoding.table([0])}"
    plan = spark.sql(query).collect()[0][0]
    assert "secret" in plan
    assert limit.key.hex() not in plan.lower()


def test_files_of_which_some_have_no_id_are_refused(spark, tmp_path):
    """Spark would read NULL there, so each row would be a person by itself, and all rows would be kept."""
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 9))], person="id")
    limit = RowLimit(schema.person, 3, bytes(range(32)))

    def opened(**files):
        folder = tmp_path / "-".join(files)
        folder.mkdir()
        for name, columns in files.items():
            pl.DataFrame({column: [1] * 8 for column in columns}).write_parquet(folder / f"{name} [x]%20ä.parquet")
        data = folder / "*.parquet"
        return open_engine(data, schema, engine="spark", query=None, encoding=None, limit=limit)

    assert opened(both=("id", "age"), all=("age", "id")).encoding.rows == 3
    for lacking in ({"a": ("id", "age"), "b": ("age",)}, {"c": ("age",), "d": ("age", "id")}):
        with pytest.raises(
            gl.errors.ReadError, match="some of the files have no column 'id', which is the id of a person"
        ):
            opened(**lacking)
