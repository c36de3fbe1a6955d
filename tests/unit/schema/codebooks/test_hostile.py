"""Codebooks that somebody wrote to do harm, or that are damaged: a clear error, or text that is escaped."""

import json
import random
import tomllib
import zipfile
from unittest import mock

import pytest

import gapless as gl
from gapless.errors import GaplessError, SchemaError
from gapless.schema.codebooks import read_codebook
from gapless.text import CONTROL
from helpers.codebooks import DDI, EXAMPLES, REDCAP, TABLE_SCHEMA
from helpers.workbooks import workbook

BOMB = '<!DOCTYPE codeBook [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>'
EXTERNAL = '<!DOCTYPE codeBook SYSTEM "file:///etc/passwd">'
NASTY = (
    'a"b',
    "a'b",
    "a\nb",
    "a]\n[table]\nname = 'x'",
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "\u202egnp.exe",
    "\x1b[31mred\x07",
    "a\u2028b",
    "#comment",
    "q01..q80",
    "{{x}}",
    "é\u0301",
    "\\u0000",
)


def refused(tmp_path, text, name):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    with pytest.raises(GaplessError) as caught:
        read_codebook(path)
    return str(caught.value)


@pytest.mark.parametrize("head", [BOMB, EXTERNAL, "<!DOCTYPE codeBook>"])
def test_document_types_and_entities_are_refused(tmp_path, head):
    text = DDI.replace('<?xml version="1.0"?>\n', f'<?xml version="1.0"?>\n{head}\n').replace("A survey", "&a;")
    message = refused(tmp_path, text.replace("&a;", "&b;" if head == BOMB else "x"), "d.xml")
    assert "line 2 of d.xml has a document type or an entity" in message


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("<codeBook>", "is not well-formed XML"),
        ("", "is not well-formed XML"),
        ("<x/>", "is not a DDI-Codebook: its root is <x>"),
        ("<codeBook>" + "<a>" * 100_000, "elements that are nested more than 60 deep"),
        (DDI.replace("min", "low").replace('low="97"', 'min="x"'), "has the end 'x' of a range of 'age'"),
        (DDI.replace('name="sex"', 'name="age"'), "declares the column 'age', which variable 1 of d.xml"),
        (DDI.replace('name="sex"', ""), "variable 1 of d.xml has a column without a name"),
        (DDI.replace("<catValu>2<", "<catValu>1<"), "has two labels for the code '1' of column 'sex'"),
    ],
)
def test_a_malformed_ddi_codebook_is_refused_with_its_place(tmp_path, text, wrong):
    assert wrong in refused(tmp_path, text, "d.xml")


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        ([], "must be an object, but is a list"),
        ({}, "resources of p.json must be a list, but is a null"),
        ({"fields": {}}, "fields of p.json must be a list, but is a object"),
        ({"fields": [1]}, "field 1 of p.json must be an object"),
        ({"fields": [{"name": 3}]}, "the name of field 1 of p.json must be a text"),
        ({"fields": [{"name": "a", "type": "blob"}]}, "field 1 of p.json has an unknown type 'blob'"),
        (
            {"fields": [{"name": "a"}, {"name": "a"}]},
            "declares the column 'a', which field 1 of p.json declares as well",
        ),
        ({"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": "x"}}]}, "has the bound 'x' of 'a'"),
        (
            {"fields": [{"name": "a", "type": "integer", "constraints": {"minimum": 9, "maximum": 1}}]},
            "gives 'a' a lowest value, 9, above the highest, 1",
        ),
        ({"fields": [{"name": "a", "categories": ["x"], "constraints": {"enum": ["y"]}}]}, "has the value 'y' in enum"),
        ({"resources": [{"name": "r", "schema": "http://example.org/s.json"}]}, "names another file for its schema"),
        ({"fields": [{"name": "a", "type": "string"}]}, "describes no column that can be used"),
    ],
)
def test_a_malformed_table_schema_is_refused_with_its_place(tmp_path, content, wrong):
    assert wrong in refused(tmp_path, json.dumps(content), "p.json")


@pytest.mark.parametrize("text", ["{", "[" * 100_000, '{"fields": 1e999}', "\xff", '"\ud800"', "null", "3"])
def test_text_that_is_no_usable_json_is_refused(tmp_path, text):
    refused(tmp_path, text, "p.json")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", "c.csv is empty"),
        ("a,b\n1,2\n", "the header of c.csv has no column called"),
        ("column,code,label\n,1,Yes\n", "row 2 of c.csv names no column"),
        ("column,code,label\na,1,Yes\nb,1,Yes\na,2,No\n", "row 4 of c.csv declares the column 'a' again"),
        ("column,code,label\na,1,Yes\na,1,No\n", "has two labels for the code '1' of column 'a'"),
        ("column,code,label,missing\na,1,Yes,perhaps\n", "row 2 of c.csv has an unknown kind of gap 'perhaps'"),
        ("column,code,min\na,,x\n", "row 2 of c.csv has the bound 'x' of 'a'"),
        ('column,code,label\n"' + "x" * 2_000_000 + '",1,Yes\n', "cannot be read: field larger than field limit"),
    ],
)
def test_a_malformed_table_of_codes_is_refused_with_its_row(tmp_path, text, wrong):
    assert wrong in refused(tmp_path, text, "c.csv")


def test_a_million_levels_are_left_out_by_name(tmp_path):
    rows = "".join(f",{code},x{code}\n" for code in range(1_000_000))
    (tmp_path / "c.csv").write_text(f"column,code,label\nsmoker,0,No\n,1,Yes\nicd{rows}")
    found = read_codebook(tmp_path / "c.csv")
    assert found.schema.names == ("smoker",)
    assert any(line.startswith("icd: left out (in ignore): it has 1,000,000 levels") for line in found.asked)


def nasty_package(text):
    fields = [
        {
            "name": f"x{text}",
            "description": text,
            "type": "string",
            "categories": [{"value": "1", "label": text}, {"value": f"b{text}", "label": text[::-1]}],
            "missingValues": [{"value": "-9", "label": text}],
        },
        {"name": f"n{text}", "title": text, "type": "number"},
        {"name": f"t{text}", "type": "string", "format": text},
    ]
    return {"name": text, "resources": [{"name": text, "title": text, "schema": {"fields": fields}}]}


@pytest.mark.parametrize("text", NASTY)
def test_names_and_labels_are_escaped_in_the_schema_file_and_in_the_list(tmp_path, text):
    (tmp_path / "p.json").write_text(json.dumps(nasty_package(text)))
    found = read_codebook(tmp_path / "p.json")
    written = found.to_toml()
    assert gl.Schema.from_toml(written) == found.schema
    assert set(tomllib.loads(written)) == {"table", "column"}
    assert found.schema.columns[0].name == f"x{text}"
    assert not CONTROL.search(written.replace("\n", ""))
    assert not any(CONTROL.search(line) for line in found.asked)


@pytest.mark.parametrize("text", NASTY)
def test_names_in_errors_are_escaped(tmp_path, text):
    message = refused(tmp_path, json.dumps({"fields": [{"name": text}, {"name": text}]}), "p.json")
    assert not CONTROL.search(message.replace("\n  Try: ", ""))


MUTANTS = 120


@pytest.mark.parametrize("name", EXAMPLES)
def test_damaged_codebooks_raise_no_other_error(tmp_path, name):
    """Cut, repeated, changed and swapped parts of valid codebooks either work or raise an error of this library."""
    rng = random.Random(name)
    text = EXAMPLES[name]
    path = tmp_path / name
    works = 0
    for _ in range(MUTANTS):
        path.write_text(_mutant(text, rng), encoding="utf-8", errors="surrogatepass")
        try:
            found = read_codebook(path)
            assert gl.Schema.from_toml(found.to_toml()) == found.schema
            works += 1
        except GaplessError:
            pass
    assert works > 0


def test_json_codebooks_with_values_of_other_types_raise_no_other_error(tmp_path):
    rng = random.Random(5)
    for example in (json.dumps(TABLE_SCHEMA), EXAMPLES["package.json"], EXAMPLES["csvw.json"]):
        for _ in range(MUTANTS):
            content = json.loads(example)
            _spoil(content, rng)
            (tmp_path / "p.json").write_text(json.dumps(content))
            try:
                found = read_codebook(tmp_path / "p.json")
                assert gl.Schema.from_toml(found.to_toml()) == found.schema
            except GaplessError:
                pass


PIECES = (
    '"',
    ",",
    "\n",
    "|",
    "<",
    ">",
    "&",
    "]]>",
    "1e400",
    "-9",
    "nan",
    "inf",
    "\x00",
    "\u202e",
    "=",
    "''",
    "0",
    ";",
    "9" * 400,
)


def _mutant(text, rng):
    for _ in range(rng.randint(1, 3)):
        start = rng.randrange(len(text))
        end = min(len(text), start + rng.randint(0, 30))
        other = rng.randrange(len(text))
        insert = rng.choice([*PIECES, text[other : other + rng.randint(1, 60)], ""])
        text = text[:start] + insert + text[end:]
    return text


def _spoil(content, rng):
    """Replace one value anywhere by one of another type."""
    places = []

    def walk(part):
        for key, value in part.items() if isinstance(part, dict) else enumerate(part):
            places.append((part, key))
            if isinstance(value, dict | list):
                walk(value)

    walk(content)
    part, key = rng.choice(places)
    part[key] = rng.choice([None, True, 3, -1.5, "", "x", [], {}, [None], {"a": 1}, 10**18, "1e999", ["", 3], "nan"])


def test_a_contradictory_schema_error_names_the_place(tmp_path):
    content = {"fields": [{"name": "a", "type": "boolean", "trueValues": ["x"], "falseValues": ["x"]}]}
    (tmp_path / "p.json").write_text(json.dumps(content))
    with pytest.raises(SchemaError, match=r"field 1 of p\.json: column 'a' has the spelling"):
        read_codebook(tmp_path / "p.json")


def field_list(many):
    return json.dumps({"fields": [{"name": f"a{2 * place}", "type": "integer"} for place in range(many)]})


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.json", field_list(20_001)),
        ("p.json", '{"fields": [' + "{}," * 1_000_000 + "{}]}"),
        ("w.json", json.dumps({"tableSchema": {"columns": [{"name": f"a{place}"} for place in range(20_001)]}})),
        ("d.xml", "<codeBook><dataDscr>" + '<var name="a"/>' * 20_001 + "</dataDscr></codeBook>"),
        ("c.csv", "column,code\n" + "".join(f"a{place},1\n" for place in range(20_001))),
        ("r.csv", REDCAP + "".join(f"x{place},base,,yesno,X,,,,,,,,\n" for place in range(20_001))),
    ],
)
def test_more_columns_than_can_be_handled_are_refused(tmp_path, name, text):
    assert "describes more than 20,000 columns" in refused(tmp_path, text, name)


def test_half_of_a_pair_of_escapes_is_refused_and_a_pair_is_a_character(tmp_path):
    """What was found: such a title could not be written into the schema file."""
    text = '{"fields": [{"name": "a", "type": "boolean", "title": "x\\ud83d%s"}]}'
    assert "p.json is not valid JSON" in refused(tmp_path, text % "y", "p.json")
    (tmp_path / "p.json").write_text(text % "\\ude00")
    assert read_codebook(tmp_path / "p.json").schema["a"].description == "x\U0001f600"


def test_parts_beyond_the_limits_are_refused(tmp_path):
    with mock.patch("gapless.schema.codebooks.ddi.MOST_PARTS", 20):
        assert "more than 20 elements and attributes" in refused(tmp_path, DDI, "d.xml")
    with mock.patch("gapless.schema.codebooks.code_tables.MOST_ROWS", 3):
        assert "c.csv has more than 3 rows" in refused(tmp_path, EXAMPLES["codes.csv"], "c.csv")
    with mock.patch("gapless.schema.codebooks.MOST_JSON_BYTES", 100):
        assert "is larger than 0 MB, the limit for codebooks" in refused(tmp_path, EXAMPLES["package.json"], "p.json")


def test_a_column_with_many_missing_ranges_is_left_out(tmp_path):
    ranges = "".join(f'<range min="{place}" max="{place}.5"/>' for place in range(20_000))
    codes = "".join(f"<catgry><catValu>{place}</catValu><labl>x{place}</labl></catgry>" for place in range(20_000))
    text = DDI.replace('<var ID="V2"', f'<var name="z"><invalrng>{ranges}</invalrng>{codes}</var><var ID="V2"')
    (tmp_path / "d.xml").write_text(text)
    found = read_codebook(tmp_path / "d.xml")
    assert "z: left out (in ignore): it has more than 100 ranges of missing numbers" in found.asked


@pytest.mark.parametrize("part", ["far cell", "large part", "no workbook"])
def test_a_hostile_workbook_is_refused_before_its_cells_are_allocated(tmp_path, part):
    """What was found: one cell in the last row and column made the reader panic with 600 GB of cells."""
    pytest.importorskip("fastexcel")
    path = tmp_path / "c.xlsx"
    workbook(path, [["column", "code", "label"], ["sex", "1", "Male"], ["sex", "2", "Female"]])
    assert read_codebook(path).schema.names == ("sex",)
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name).decode() for name in archive.namelist()}
    (sheet,) = [name for name in parts if "sheet1" in name and not name.endswith(".rels")]
    far = '<row r="1048576"><c r="XFD1048576" t="inlineStr"><is><t>x</t></is></c></row></sheetData>'
    parts[sheet] = {
        "far cell": parts[sheet].replace("</sheetData>", far),
        "large part": parts[sheet].replace("</sheetData>", " " * (300 << 20) + "</sheetData>"),
        "no workbook": "<worksheet",
    }[part]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    with pytest.raises(GaplessError, match=r"8,388,608 cells|268,435,456 bytes|is not a valid Excel file"):
        read_codebook(path)


def test_a_person_with_control_characters_in_its_name_is_escaped_in_the_list(tmp_path):
    (tmp_path / "r.csv").write_text(REDCAP.replace("record_id", "reco\u202erd_id"))
    found = read_codebook(tmp_path / "r.csv")
    assert not any(CONTROL.search(line) for line in found.asked)
