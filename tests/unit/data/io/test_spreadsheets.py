"""Excel files: rows without a value, and limits that hostile files meet before anything is allocated for them."""

import io
import struct
import subprocess
import sys
import zipfile
from unittest import mock

import pytest

import gapless as gl
from gapless.data.io import source
from helpers.workbooks import FORMATTED, MAIN, PARTS, SHEET, STRINGS, pack, row, workbook

pytest.importorskip("fastexcel")

SCHEMA = gl.Schema(
    "t",
    [
        gl.Categorical("a", ["x", "y"], may_be_missing=True),
        gl.Integer("b", bounds=(0, 9), bins=10, may_be_missing=True),
    ],
)
HEADER = row(1, ["a", "b"])
ROWS = HEADER + row(2, ["x", 1])
TOO_LARGE = r"has a sheet of more than 67,108,864 cells from A1 to its last row and column\n  Try: remove all rows and "
NOT_EXCEL = r"is not a valid Excel file\n  Try: save the table again as .xlsx, or save it as CSV"


def read(path):
    return [tuple(values.values()) for values in gl.Table.read(path, SCHEMA)]


# ---------------------------------------------------------------------- rows without a value

EMPTY_ROWS = {
    "nothing": [],
    "formats": [FORMATTED, FORMATTED],
    "a format far off": [None, None, FORMATTED],
    "spaces": [" ", "\u3000\t"],
    "empty texts": ["", ""],
}


@pytest.mark.parametrize("name", EMPTY_ROWS)
def test_all_rows_without_a_value_are_dropped(name, tmp_path):
    empty = EMPTY_ROWS[name]
    rows = [empty, empty, ["a", "b"], empty, ["x", 1], empty, empty, ["y", None], empty, [None, 2], empty, empty]
    workbook(tmp_path / "t.xlsx", rows)
    assert read(tmp_path / "t.xlsx") == [("x", 1), ("y", None), (None, 2)]


def test_one_row_less_is_one_row_less_however_many_empty_ones_stand_before_it(tmp_path):
    """What was found: 41 rows vanished with the last that had a value, since a sheet ends with that one."""
    rows = [["a", "b"], *[["x", 1]] * 4, *[[FORMATTED, None]] * 40, ["y", 2]]
    counts = []
    for many in (46, 45):
        workbook(tmp_path / "t.xlsx", rows[:many])
        counts.append(gl.Table.read(tmp_path / "t.xlsx", SCHEMA).marginal(["a", "b"], rows="extended"))
    assert abs(counts[0] - counts[1]).sum() == 1


def test_a_header_alone_is_a_table_without_rows_and_an_empty_sheet_is_none(tmp_path):
    workbook(tmp_path / "t.xlsx", [[], ["a", "b"], []])
    assert read(tmp_path / "t.xlsx") == []
    workbook(tmp_path / "t.xlsx", [[FORMATTED], [" "]])
    with pytest.raises(gl.errors.ReadError, match=r"is empty\n  Try: write a header"):
        read(tmp_path / "t.xlsx")


def test_a_table_that_begins_elsewhere_and_columns_that_hold_only_formats(tmp_path):
    workbook(
        tmp_path / "t.xlsx", [[], [FORMATTED, "a", "b", FORMATTED], [None, "x", 1], [FORMATTED, None, 2, FORMATTED]]
    )
    assert read(tmp_path / "t.xlsx") == [("x", 1), (None, 2)]


# ---------------------------------------------------------------------- limits

CORNER = {
    "as Excel writes it": '<c r="XFD1048576"><v>1</v></c>',
    "in other quotes": "<c s='0'  r = 'XFD1048576'><v>1</v></c>",
    "in small letters": '<c r="xfd1048576"><v>1</v></c>',
    "with a sign that ends tags in an attribute": '<c x=">" r="XFD1048576"><v>1</v></c>',
    "on another line": '<c\nr="XFD1048576"><v>1</v></c>',
    "beyond what a sheet can have": '<c r="ZZZ9999999"><v>1</v></c>',
    "with a format alone": '<c r="XFD1048576" s="1"/>',
}


@pytest.mark.parametrize("name", CORNER)
@pytest.mark.parametrize("dimension", ["", '<dimension ref="A1:B2"/>'])
def test_one_cell_in_the_far_corner_is_refused(name, dimension, tmp_path):
    rows = f'{ROWS}<row r="1048576">{CORNER[name]}</row>'
    sheet = f'<worksheet xmlns="{MAIN}">{dimension}<sheetData>{rows}</sheetData></worksheet>'
    pack(tmp_path / "t.xlsx", "", **{SHEET: sheet})
    with pytest.raises(gl.errors.ReadError, match=TOO_LARGE):
        read(tmp_path / "t.xlsx")


def test_cells_without_a_position_are_counted(tmp_path):
    head = '<row><c t="str"><v>a</v></c><c t="str"><v>b</v></c></row>'
    pack(tmp_path / "t.xlsx", head + "<row/>" * 3 + '<row><c t="str"><v>x</v></c><c><v>1</v></c></row>')
    assert read(tmp_path / "t.xlsx") == [("x", 1)]
    far = "<row/>" * 20_000 + "<row>" + "<c/>" * 4_000 + "<c><v>1</v></c></row>"
    pack(tmp_path / "t.xlsx", head + far)
    with pytest.raises(gl.errors.ReadError, match=TOO_LARGE):
        read(tmp_path / "t.xlsx")
    pack(tmp_path / "t.xlsx", head + '<row r="16777216"/><row><c/><c/><c/><c><v>1</v></c></row>')
    with pytest.raises(gl.errors.ReadError, match=TOO_LARGE):
        read(tmp_path / "t.xlsx")


def test_names_with_a_prefix_are_read_and_measured(tmp_path):
    def sheet(place):
        cells = f'<x:c r="A1" t="str"><x:v>a</x:v></x:c><x:c r="{place}" t="str"><x:v>b</x:v></x:c>'
        return f'<x:worksheet xmlns:x="{MAIN}"><x:sheetData><x:row r="1">{cells}</x:row></x:sheetData></x:worksheet>'

    pack(tmp_path / "t.xlsx", "", **{SHEET: sheet("B1")})
    assert read(tmp_path / "t.xlsx") == []
    pack(tmp_path / "t.xlsx", "", **{SHEET: sheet("XFD1048576")})
    with pytest.raises(gl.errors.ReadError, match=TOO_LARGE):
        read(tmp_path / "t.xlsx")


def test_a_sheet_that_declares_more_than_it_has_is_read(tmp_path):
    sheet = f'<worksheet xmlns="{MAIN}"><dimension ref="A1:XFD1048576"/><sheetData>{ROWS}</sheetData></worksheet>'
    pack(tmp_path / "t.xlsx", "", **{SHEET: sheet})
    assert read(tmp_path / "t.xlsx") == [("x", 1)]


def test_the_largest_box_that_is_allowed_is_read(tmp_path):
    rows = [["a", "b"], *[["x", 1]] * 6]
    with mock.patch("gapless.workbooks.MOST_CELLS", 14):
        workbook(tmp_path / "t.xlsx", rows)
        assert len(read(tmp_path / "t.xlsx")) == 6
        workbook(tmp_path / "t.xlsx", [*rows, ["x", 1]])
        with pytest.raises(gl.errors.ReadError, match="more than 14 cells"):
            read(tmp_path / "t.xlsx")


@pytest.mark.parametrize("attributes", ['uniqueCount="99999999999"', "x=\">\" count = '99999999999'"])
def test_texts_that_are_only_declared_are_not_allocated(attributes, tmp_path):
    texts = f'<sst xmlns="{MAIN}" {attributes}><si><t>x</t></si></sst>'
    pack(tmp_path / "t.xlsx", ROWS, **{STRINGS: texts})
    with pytest.raises(gl.errors.ReadError, match=r"has more than 67,108,864 texts\n  Try: save"):
        read(tmp_path / "t.xlsx")
    nested = f'<worksheet xmlns="{MAIN}">{texts}</worksheet>'
    pack(tmp_path / "t.xlsx", ROWS, **{STRINGS: nested})
    with pytest.raises(gl.errors.ReadError, match=NOT_EXCEL):
        read(tmp_path / "t.xlsx")


def test_texts_may_look_like_what_is_measured(tmp_path):
    """Only tags are: a cell that quotes some is as good as any."""
    odd = '<c r="XFD1048576"> &lt;!DOCTYPE <sst uniqueCount="99999999999"> count="999999999" :c x:c />'
    schema = gl.Schema("t", [gl.Categorical("a", [odd])])
    workbook(tmp_path / "t.xlsx", [["a"], [odd]])
    assert gl.Table.read(tmp_path / "t.xlsx", schema).to_polars()["a"].to_list() == [odd]


# Run with less memory than the old code asked for: it aborted the process, or filled the machine.
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
import gapless as gl
try:
    gl.Table.read(sys.argv[1], gl.Schema("t", [gl.Integer("b", bounds=(0, 9))]))
except gl.GaplessError as error:
    print(error)
"""


def refused(path):
    """What a process with 3 GiB of memory prints of a file; it must be able to print something."""
    run = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_far_corner_is_refused_in_little_memory(tmp_path):
    pack(tmp_path / "corner.xlsx", f'{HEADER}<row r="1048576">{CORNER["as Excel writes it"]}</row>')
    assert (tmp_path / "corner.xlsx").stat().st_size < 2000
    assert "more than 67,108,864 cells" in refused(tmp_path / "corner.xlsx")


@pytest.mark.slow
def test_gigabytes_in_a_small_file_are_refused_in_little_memory(tmp_path):
    path = tmp_path / "spaces.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in PARTS.items():
            file.writestr(name, text)
        with file.open(SHEET, "w", force_zip64=True) as sheet:
            sheet.write(f'<worksheet xmlns="{MAIN}"><sheetData>{ROWS}'.encode())
            for _ in range(4 << 10):
                sheet.write(b" " * (1 << 20))
            sheet.write(b"</sheetData></worksheet>")
    assert path.stat().st_size < 5_000_000
    assert "unpacks to more than 1,073,741,824 bytes\n  Try: save the table as CSV" in refused(path)
    path.write_bytes(with_size(path.read_bytes(), SHEET, 1000))
    assert "is not a valid Excel file" in refused(path)


def with_size(content, name, size):
    """The same archive, in whose directory a part has another size."""
    place = content.index(b"PK\x01\x02")
    while content[place + 46 : place + 46 + len(name)] != name.encode():
        place = content.index(b"PK\x01\x02", place + 4)
    return content[: place + 24] + struct.pack("<I", size) + content[place + 28 :]


def test_ignores_the_sizes_that_an_archive_declares(tmp_path):
    path = tmp_path / "t.xlsx"
    pack(path, f'{ROWS}{" " * 100_000}<row r="1048576">{CORNER["as Excel writes it"]}</row>')
    honest = path.read_bytes()
    path.write_bytes(with_size(honest, SHEET, 600))  # it would be cut off before the far corner
    with pytest.raises(gl.errors.ReadError, match=NOT_EXCEL):
        read(path)
    path.write_bytes(with_size(honest, SHEET, 2**32 - 2))
    with pytest.raises(gl.errors.ReadError, match=r"unpacks to more than 1,073,741,824 bytes"):
        read(path)


def packed_by(method):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", method) as file:
        for name, text in (
            PARTS | {SHEET: f'<worksheet xmlns="{MAIN}"><sheetData>{ROWS}</sheetData></worksheet>'}
        ).items():
            file.writestr(name, text)
    return content.getvalue()


def test_invalid_excel_files_are_errors(tmp_path):
    path = tmp_path / "t.xlsx"
    whole = packed_by(zipfile.ZIP_DEFLATED)
    path.write_bytes(packed_by(zipfile.ZIP_STORED))
    assert read(path) == [("x", 1)]
    entity = f'<!DOCTYPE x [<!ENTITY a "aaaaaaaa">]><worksheet xmlns="{MAIN}"><sheetData>{ROWS}</sheetData></worksheet>'
    late = " " * 100_000 + entity
    wide = f'<?xml version="1.0" encoding="UTF-16"?><worksheet xmlns="{MAIN}"><sheetData>{ROWS}</sheetData></worksheet>'
    for sheet in (entity, late, wide.encode("utf-16"), "", "<worksheet", "no xml"):
        pack(path, "", **{SHEET: sheet})
        with pytest.raises(gl.errors.ReadError, match=NOT_EXCEL):
            read(path)
    odd = ['<row r="2"><c r="B0"><v>1</v></c></row>', '<row r="2"><c r="$B$2"><v>1</v></c></row>']
    odd += [f'<row r="{"9" * 5000}"><c><v>1</v></c></row>', '<row r="2"><c r="B2" t="s"><v>9</v></c></row>']
    for rows in odd:
        pack(path, HEADER + rows)
        with pytest.raises(gl.errors.ReadError, match=NOT_EXCEL):
            read(path)
    for content in (b"", b"PK", whole[:-5], whole[:300], packed_by(zipfile.ZIP_LZMA), packed_by(zipfile.ZIP_BZIP2)):
        path.write_bytes(content)
        with pytest.raises(gl.errors.ReadError, match=NOT_EXCEL):
            read(path)


def test_a_panic_of_the_reader_is_an_error_without_a_cell(tmp_path, capfd):
    pack(tmp_path / "t.xlsx", HEADER + '<row r="2"><c r="A2" s="1"><v>-1e300</v></c></row>')
    with pytest.raises(gl.errors.ReadError, match=NOT_EXCEL) as caught:
        read(tmp_path / "t.xlsx")
    assert caught.value.__context__ is None
    assert "1e300" not in "".join(capfd.readouterr())


def test_parts_that_the_reader_does_not_need_are_not_unpacked(tmp_path):
    more = {"customXml/item1.xml": '<!DOCTYPE a><c r="odd"/>', "docProps/app.xml": "no xml", "xl/media/image.xml": ""}
    pack(tmp_path / "t.xlsx", ROWS, **more, **{"xl/calcChain.xml": '<calcChain><c r="XFD1048576"/></calcChain>'})
    assert read(tmp_path / "t.xlsx") == [("x", 1)]


def test_other_errors_are_not_hidden(tmp_path):
    pack(tmp_path / "t.xlsx", ROWS)
    with (
        mock.patch("gapless.workbooks._measured", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        list(source.read_parts(tmp_path / "t.xlsx"))
