"""Which cells of a workbook are the table: the sheet, the row with the names, and rows below it that are skipped."""

import zipfile

import polars as pl
import pytest

import gapless as gl
from gapless.data.io import sheet_output

ROWS = [
    ["Survey 2024, all rights reserved", None, None, "page 1"],
    [],
    ["age", "sex"],
    ["years", "code"],
    ["34", "F"],
    [],
    ["71", "M"],
]
COLUMNS = [gl.Integer("age", bounds=(0, 99)), gl.Categorical("sex", ["F", "M"])]


def cells(row):
    return [sheet_output._text(cell) for cell in row]


@pytest.fixture
def book(tmp_path):
    """A workbook with notes on its first sheet and a table on the second."""
    path, main = tmp_path / "t.xlsx", sheet_output._PARTS
    workbook = main["xl/workbook.xml"].replace(
        '<sheet name="synthetic" sheetId="1" r:id="rId1"/>',
        '<sheet name="notes" sheetId="2" r:id="rId3"/><sheet name="the data" sheetId="1" r:id="rId1"/>',
    )
    links = main["xl/_rels/workbook.xml.rels"].replace(
        "</Relationships>",
        f'<Relationship Id="rId3" Type="{sheet_output._OFFICE}/worksheet" Target="worksheets/sheet2.xml"/>'
        "</Relationships>",
    )
    begin, end = f'<worksheet xmlns="{sheet_output._MAIN}"><sheetData>', "</sheetData></worksheet>"
    table = "".join(sheet_output._row(number, cells(row)) for number, row in enumerate(ROWS, 1))
    parts = main | {
        "xl/workbook.xml": workbook,
        "xl/_rels/workbook.xml.rels": links,
        "xl/worksheets/sheet1.xml": begin + table + end,
        "xl/worksheets/sheet2.xml": begin + sheet_output._row(1, cells(["read the notes"])) + end,
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return path


@pytest.mark.parametrize("sheet", ["the data", 2])
def test_the_schema_declares_where_the_table_is(book, sheet):
    schema = gl.Schema("t", COLUMNS, sheet=sheet, header_row=3, skip_rows=1)
    assert gl.Schema.from_toml(schema.to_toml()) == schema
    assert gl.Table.read(book, schema).to_polars().rows() == [(34, "F"), (71, "M")]
    assert gl.missing.check(book, schema).rows == 2


def test_a_draft_takes_the_same_keys(book):
    drafted = gl.data.draft_schema(book, sheet="the data", header_row=3, skip_rows=1).schema
    assert (drafted.sheet, drafted.header_row, drafted.skip_rows) == ("the data", 3, 1)
    assert drafted.names == ("age", "sex")


def test_a_title_above_the_table_is_no_header(book):
    with pytest.raises(gl.errors.ReadError, match=r"columns without a name in(.|\n)*write header_row = 3"):
        gl.data.draft_schema(book, sheet="the data")


def test_rows_are_skipped_without_a_header_row_too(tmp_path):
    frame = pl.DataFrame({"age": ["years", "34"], "sex": ["code", "F"]})
    text = gl.Schema("t", [gl.Categorical("age", ["years", "34"]), gl.Categorical("sex", ["code", "F"])])
    sheet_output.write_workbook(iter([frame]), tmp_path / "u.xlsx", text)
    read = gl.Table.read(tmp_path / "u.xlsx", gl.Schema("t", COLUMNS, skip_rows=1))
    assert read.to_polars().rows() == [(34, "F")]


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"sheet": "data"}, r"has no sheet 'data'; it has 'notes', 'the data'\n  Try: write sheet = \"notes\""),
        ({"sheet": 3}, "has no sheet 3"),
        ({"sheet": 2, "header_row": 9}, "has no names in row 9 of this sheet"),
        ({"sheet": 2, "header_row": 2}, "has no names in row 2"),
    ],
)
def test_a_place_that_is_not_there_is_refused(book, keys, why):
    with pytest.raises(gl.errors.ReadError, match=why):
        gl.Table.read(book, gl.Schema("t", COLUMNS, **keys))


@pytest.mark.parametrize("keys", [{"sheet": ""}, {"sheet": 0}, {"sheet": True}, {"header_row": 0}, {"skip_rows": -1}])
def test_keys_are_checked(keys):
    with pytest.raises(gl.errors.SchemaError, match=next(iter(keys))):
        gl.Schema("t", COLUMNS, **keys)


def test_another_place_makes_other_gaps():
    """The rule of gaps covers how a file is read; a schema that says nothing has the digests that it had."""
    gappy = [gl.Integer("age", bounds=(0, 99), may_be_missing=True)]
    plain = gl.Schema("t", gappy).gap_rules["age"].digest
    assert gappy[0].gap_rule.digest == plain
    keys = ({"sheet": 1}, {"sheet": "1"}, {"header_row": 1}, {"skip_rows": 1})
    others = {gl.Schema("t", gappy, **key).gap_rules["age"].digest for key in keys}
    assert len(others | {plain}) == 5
