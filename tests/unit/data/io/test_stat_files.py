"""Data files of SPSS, Stata and SAS: how their cells are read, in parts of any size, and what damage does."""

import datetime as dt
from itertools import pairwise
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pyreadstat
import pytest

import gapless as gl
from gapless.data.io import stat_files
from gapless.data.io.persons import RowLimit
from gapless.data.io.reading import open_engine
from gapless.data.io.stat_files import STAT_ENDINGS, StatFile, stat_frames
from gapless.schema.stat_dates import dates_of

ROWS = 23


def people():
    """A column of each type, as an SPSS file has it: -9 means refused."""
    rng = np.random.default_rng(5)
    return pl.DataFrame(
        {
            "id": [float(number // 2) for number in range(ROWS)],
            "answer": pl.Series(rng.choice([1.0, 2.0, -9.0, None], ROWS).tolist(), dtype=pl.Float64),
            "weight": [float(number) + 0.25 for number in range(ROWS)],
            "town": rng.choice(["Ulm", "Bern", ""], ROWS),
            "born": [dt.date(1950, 1, 1) + dt.timedelta(days=int(number)) for number in rng.integers(0, 20_000, ROWS)],
            "seen": [dt.datetime.fromisoformat("2020-05-04T03:02:01")] * (ROWS - 1) + [None],
        }
    )


SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("answer", [1, 2], may_be_missing=True, missing=(gl.MissingCode(-9, "refused"),)),
        gl.Number("weight", bounds=(0, 30), resolution=0.25),
        gl.Categorical("town", ["Ulm", "Bern"], may_be_missing=True),
        gl.Date("born", bounds=("1950-01-01", "2009-12-31")),
        gl.DateTime("seen", bounds=("2020-01-01T00:00:00", "2020-12-31T00:00:00"), may_be_missing=True),
    ],
    ignore=["id"],
)


@pytest.fixture
def files(tmp_path):
    frame = people()
    pyreadstat.write_sav(frame, tmp_path / "plain.sav", missing_ranges={"answer": [-9]})
    pyreadstat.write_sav(frame, tmp_path / "rows.sav", missing_ranges={"answer": [-9]}, row_compress=True)
    pyreadstat.write_sav(frame, tmp_path / "packed.zsav", missing_ranges={"answer": [-9]}, compress=True)
    pyreadstat.write_dta(frame, tmp_path / "t.dta")
    for version in (5, 8):
        pyreadstat.write_xport(frame, tmp_path / f"v{version}.xpt", file_format_version=version)
    pyreadstat.write_por(frame.rename(str.upper), tmp_path / "t.por")
    return tmp_path


NAMES = ("plain.sav", "rows.sav", "packed.zsav", "t.dta", "v5.xpt", "v8.xpt")


def rows(path, schema=None, columns=None):
    return pl.concat(stat_frames(path, schema, None, columns)).rows()


def expected():
    def text(cell):
        if isinstance(cell, float):
            return f"{cell:.0f}" if cell.is_integer() else str(cell)
        return cell if cell is None or isinstance(cell, str) else str(cell)

    return [tuple(map(text, row)) for row in people().rows()]


@pytest.mark.parametrize("name", NAMES)
def test_cells_are_the_texts_that_a_csv_file_would_have(files, name):
    assert rows(files / name) == expected()


def test_a_portable_file_is_read_as_well(files):
    assert rows(files / "t.por") == expected()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cells", [1, 13, 40])
def test_the_size_of_parts_changes_nothing(files, name, cells):
    with mock.patch.multiple(stat_files, CELLS=cells, GROWTH=4):
        assert rows(files / name) == expected()
        assert rows(files / name, columns=["town", "id"]) == [(row[3], row[0]) for row in expected()]


def test_parts_grow_only_where_skipping_costs_time(files):
    def sizes(name):
        with mock.patch.multiple(stat_files, CELLS=6, GROWTH=2):
            file = StatFile(files / name, None)
            return [len(part["id"]) for part in file.parts(file.names)]

    assert max(sizes("plain.sav")) == max(sizes("t.dta")) == max(sizes("v8.xpt")) == 1
    grown = sizes("rows.sav")
    assert sum(grown) == ROWS
    assert all(first <= second for first, second in pairwise(grown[:-1]))
    assert max(grown) <= ROWS / 2


@pytest.mark.parametrize("name", NAMES)
def test_engines_agree(files, name):
    found = []
    for engine, cells in (("memory", 1 << 20), ("disk", 12), ("duckdb", 40)):
        with mock.patch.object(stat_files, "CELLS", cells):
            held = open_engine(files / name, SCHEMA.finest, engine=engine, query=None, encoding=None)
            sizes = [column.extended_size for column in SCHEMA.finest.columns]
            found.append([held.count([(place,)], sizes, sizes)[0].tolist() for place in range(len(sizes))])
    assert found[0] == found[1] == found[2]
    refused = SCHEMA["answer"].code_of_gap("refused")
    assert found[0][0][refused] == (people()["answer"] == -9).sum()


def test_the_engine_on_the_disk_refuses_a_portable_file(files):
    with pytest.raises(gl.errors.ReadError, match=r"cannot stay on the disk"):
        open_engine(files / "t.por", SCHEMA.finest, engine="disk", query=None, encoding=None)


def test_whole_numbers_are_ids_of_persons(files):
    schema = gl.Schema("people", SCHEMA.columns, person="id", rows_per_person=1)
    limit = RowLimit(("id",), 1, bytes(32))
    kept = [
        open_engine(files / name, schema.finest, engine=engine, query=None, encoding=None, limit=limit).rows
        for name in ("plain.sav", "t.dta", "v8.xpt")
        for engine in ("memory", "disk")
    ]
    assert set(kept) == {(ROWS + 1) // 2}


def test_letters_of_stata_and_sas_are_codes(tmp_path):
    cells = pl.Series([1.0, "a", "z", None], dtype=pl.Object)
    pyreadstat.write_dta(pl.DataFrame({"x": cells}), tmp_path / "t.dta", missing_user_values={"x": ["a", "z"]})
    assert rows(tmp_path / "t.dta") == [("1",), (".a",), (".z",), (None,)]
    column = gl.Number("x", bounds=(0, 5), decimal=",", may_be_missing=True, missing=(gl.MissingCode(".a", "refused"),))
    table = gl.Table.read(tmp_path / "t.dta", gl.Schema("t", [column]))
    assert table.codes[0].tolist() == [2, column.code_of_gap("refused"), *[column.code_of_gap("unknown")] * 2]
    pyreadstat.write_xport(pl.DataFrame({"x": [1.0, 2.0, 3.0]}), tmp_path / "t.xpt", file_format_version=5)
    content = bytearray((tmp_path / "t.xpt").read_bytes())
    first = len(content) - 80
    content[first : first + 16] = b"C" + bytes(7) + b"_" + bytes(7)
    (tmp_path / "t.xpt").write_bytes(content)
    assert rows(tmp_path / "t.xpt") == [(".C",), ("._",), ("3",)]


def test_blank_rows_are_rows_and_padding_is_not(tmp_path):
    cells = ["", "x", "", "", "y", ""]
    frames = {
        8: pl.DataFrame({"t": cells}),
        5: pl.DataFrame({"t": cells, "n": [None] * 6}, schema_overrides={"n": pl.Float64}),
    }
    for version, frame in frames.items():
        pyreadstat.write_xport(frame, tmp_path / "t.xpt", file_format_version=version)
        for size in (1, 2, 100):
            with mock.patch.object(stat_files, "CELLS", size):
                assert [row[0] for row in rows(tmp_path / "t.xpt")] == cells


def test_texts_alone_in_an_old_format_are_refused(tmp_path):
    """One row more would decide whether the empty rows before it are rows."""
    pyreadstat.write_xport(pl.DataFrame({"t": ["x", "", ""]}), tmp_path / "t.xpt", file_format_version=5)
    with pytest.raises(gl.errors.ReadError, match="does not say how many rows it has"):
        rows(tmp_path / "t.xpt")


def test_a_file_of_several_tables_is_refused(tmp_path):
    pyreadstat.write_xport(pl.DataFrame({"x": [1.0]}), tmp_path / "t.xpt", file_format_version=5)
    content = (tmp_path / "t.xpt").read_bytes()
    (tmp_path / "t.xpt").write_bytes(content + content[240:])
    with pytest.raises(gl.errors.ReadError, match="holds several tables"):
        rows(tmp_path / "t.xpt")


def test_a_code_in_a_column_of_dates_stays_a_code(tmp_path):
    seconds = float((dt.date(2020, 2, 1) - dt.date(1582, 10, 14)).days * 86_400)
    frame = pl.DataFrame({"d": [seconds, -9.0, 1e300, None, seconds + 3600]})
    pyreadstat.write_sav(
        frame, tmp_path / "t.sav", variable_format={"d": "EDATE10"}, missing_ranges={"d": [-9, seconds]}
    )
    assert rows(tmp_path / "t.sav") == [("2020-02-01",), ("-9",), ("1e+300",), (None,), ("2020-02-01",)]
    dated = gl.Date("d", bounds=("2000-01-01", "2029-12-31"), format="%d.%m.%Y", may_be_missing=True, missing=(-9,))
    found = rows(tmp_path / "t.sav", gl.Schema("t", [dated]))
    assert found[:2] == [("01.02.2020",), ("-9",)]
    number = gl.Number("d", bounds=(0, 1e300))  # a schema that declares a number gets what is stored
    assert rows(tmp_path / "t.sav", gl.Schema("t", [number]))[0] == (seconds,)


def test_numbers_of_spss_stay_numbers_where_the_schema_has_numbers(files):
    first = next(stat_frames(files / "plain.sav", SCHEMA, None))
    assert first.height == 0
    assert first.schema["weight"] == pl.Float64
    assert set(first.drop("weight").dtypes) == {pl.String}


@pytest.mark.parametrize(
    ("program", "form", "unit"),
    [
        ("SPSS", "DATE11", 86_400 / 86_400),
        ("SPSS", "DATETIME20", 1),
        ("SPSS", "F8.2", None),
        ("SPSS", "TIME8", None),
        ("Stata", "%td", 86_400),
        ("Stata", "%tdD_m_Y", 86_400),
        ("Stata", "%tc", 0.001),
        ("Stata", "%tcHH:MM", None),
        ("Stata", "%9.0g", None),
        ("Stata", "%dg", None),
        ("SAS", "MMDDYY10", 86_400),
        ("SAS", "DATETIME20", 1),
        ("SAS", "BEST12", None),
        ("SAS", None, None),
    ],
)
def test_formats_say_which_columns_are_dates(program, form, unit):
    found = dates_of(program, form)
    assert (None if found is None else found.seconds) == unit


def test_months_of_stata_are_dates(tmp_path):
    frame = pl.DataFrame({"m": [0.0, 720.0, -1.0]})
    pyreadstat.write_dta(frame, tmp_path / "t.dta", variable_format={"m": "%tm"})
    assert rows(tmp_path / "t.dta") == [("1960-01-01",), ("2020-01-01",), ("1959-12-01",)]


HIDDEN = "hidden-cell"


@pytest.mark.parametrize("ending", STAT_ENDINGS)
@pytest.mark.parametrize("content", [b"", b"name,town\n1,hidden-cell\n" * 40, bytes(range(256)) * 20])
def test_garbage_is_an_error_that_quotes_no_cell(tmp_path, ending, content):
    path = tmp_path / f"t{ending}"
    path.write_bytes(content)
    with pytest.raises(gl.errors.ReadError, match="is not a valid") as error:
        rows(path)
    assert HIDDEN not in str(error.value)
    assert error.value.__cause__ is None
    assert error.value.__suppress_context__ or error.value.__context__ is None


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_a_column_without_a_readable_name_is_an_error(tmp_path, ending):
    """What was found: pyreadstat gives None for such a name, and a frame of it raised another error."""
    path = tmp_path / f"t{ending}"
    frame = pl.DataFrame({"zyx": [1.0]})
    (pyreadstat.write_sav if ending == ".sav" else pyreadstat.write_dta)(frame, path)
    path.write_bytes(path.read_bytes().replace(b"zyx", b"   "))
    with pytest.raises(gl.errors.ReadError, match=r"is not a valid .* file, or is damaged"):
        rows(path)


def test_a_text_that_is_not_in_the_encoding_is_an_error_that_quotes_no_cell(tmp_path):
    pyreadstat.write_sav(pl.DataFrame({"town": [HIDDEN, "Zürich"]}), tmp_path / "t.sav")
    content = (tmp_path / "t.sav").read_bytes().replace("Zürich".encode(), b"Z\xfcrich ")
    (tmp_path / "t.sav").write_bytes(content)
    schema = gl.Schema("t", [gl.Categorical("town", [HIDDEN, "Zürich"])])
    with pytest.raises(gl.errors.ReadError, match="is not a valid SPSS file") as error:
        gl.Table.read(tmp_path / "t.sav", schema)
    assert HIDDEN not in str(error.value)
    assert gl.Table.read(tmp_path / "t.sav", schema, encoding="latin-1")["town"].to_list() == [HIDDEN, "Zürich"]


def test_a_file_that_is_cut_off_is_an_error(files):
    whole = (files / "plain.sav").read_bytes()
    (files / "cut.sav").write_bytes(whole[: len(whole) - 100])
    with pytest.raises(gl.errors.ReadError, match=r"cut\.sav is not a valid SPSS file"):
        rows(files / "cut.sav")


def test_without_pyreadstat_the_error_names_the_extra(files):
    with mock.patch.dict("sys.modules", {"pyreadstat": None}), pytest.raises(gl.errors.ReadError) as error:
        rows(files / "plain.sav")
    assert "gapless[stat]" in str(error.value)


def test_other_columns_than_the_schema_has_are_refused(files):
    with pytest.raises(gl.errors.SchemaError, match="columns that the schema does not have: 'seen'"):
        gl.Table.read(files / "t.dta", gl.Schema("t", SCHEMA.columns[:-1], ignore=["id"]))
    schema = gl.Schema("t", SCHEMA.columns[:-1], ignore=["id"])
    with pytest.raises(gl.errors.SchemaError, match="columns that the schema does not have: 'seen'"):
        open_engine(files / "t.dta", schema.finest, engine="disk", query=None, encoding=None)


def test_a_draft_reads_such_files(files):
    drafted = gl.data.draft_schema(files / "rows.sav", name="people").schema
    assert drafted["town"].levels == ("Bern", "Ulm")
    assert isinstance(drafted["born"], gl.Date)


def test_a_pattern_of_files_is_one_table(files):
    (files / "parts").mkdir()
    for name in ("a.sav", "b.sav"):
        (files / "parts" / name).write_bytes((files / "plain.sav").read_bytes())
    held = open_engine(Path(files / "parts/*.sav"), SCHEMA.finest, engine=None, query=None, encoding=None)
    assert held.rows == 2 * ROWS
