"""Headers of SPSS, Stata and SAS files: what is taken, and that no row is read."""

import time

import polars as pl
import pytest

import gapless as gl
from gapless.errors import ReadError
from gapless.schema.codebooks import needs_bounds, read_codebook, stat_metadata
from gapless.schema.gap_codes import MissingCode, MissingRange

pyreadstat = pytest.importorskip("pyreadstat")

FRAME = pl.DataFrame(
    {
        "patient_id": [1.0, 2.0],
        "q1": [1.0, -9.0],
        "mood": [3.0, 10.0],
        "age": [33.0, 998.0],
        "visits": [3.0, 4.0],
        "school": [1.0, 2.0],
        "town": ["Ulm", "Bonn"],
        "sex": ["F", "M"],
    }
)
FACTS = {
    "column_labels": {"q1": "Do you smoke?", "age": "Age in years"},
    "variable_value_labels": {
        "q1": {1: "Yes", 2: "No", -9: "Refused", -8: "Don't know", -1: "Inap."},
        "mood": {0: "Very bad", 10: "Very good"},
        "age": {999: "Technical error"},
        "school": {1: "None", 2: "Primary", 3: "Secondary"},
        "sex": {"F": "Female", "M": "Male"},
    },
    "missing_ranges": {"q1": [-9, -8], "age": [{"lo": 997, "hi": 999}]},
    "variable_measure": {"q1": "nominal", "mood": "scale", "age": "scale", "school": "ordinal"},
    "variable_format": {"age": "F3.0", "visits": "F2.0"},
}


def write_sav(path, frame=FRAME, **facts):
    pyreadstat.write_sav(frame, str(path), **(FACTS | facts))


def test_the_header_of_an_spss_file(tmp_path):
    write_sav(tmp_path / "s.sav", file_label="A survey")
    found = read_codebook(tmp_path / "s.sav")
    schema = found.schema
    assert (schema.name, schema.description, schema.person, schema.ignore) == (
        "s",
        "A survey",
        ("patient_id",),
        ("town",),
    )
    smokes = schema["q1"]
    assert (smokes.kind, smokes.levels, smokes.labels) == ("categorical", (1, 2), (("1", "Yes"), ("2", "No")))
    kinds = {gap.code: gap.kind for gap in smokes.missing}
    assert kinds == {"-9": "refused", "-8": "dont-know", "-1": "not-applicable"}
    assert (schema["mood"].kind, schema["mood"].bounds) == ("integer", (0, 10))
    assert schema["age"].bounds == (0, 120)
    assert schema["age"].missing == (MissingCode("999", "technical", "Technical error"), MissingRange(997, 999))
    assert schema["visits"].bounds == (0, 99)
    assert schema["school"].kind == "ordinal"
    assert schema["sex"].levels == ("F", "M")
    assert [column.name for column in schema.unconfirmed] == ["mood", "age", "visits"]


def big_frame(cell):
    names = [f"q{number:03d}" for number in range(300)]
    return pl.DataFrame({name: [cell] * 2000 for name in names}), names


def test_no_row_is_read(tmp_path):
    """The same header with other rows, or cut off after the header, gives the same schema."""
    schemas = []
    for cell in (1.0, -777.0):
        frame, names = big_frame(cell)
        facts = {"variable_value_labels": {name: {1: "Yes", 2: "No", 9: "Refused"} for name in names}}
        pyreadstat.write_sav(frame, str(tmp_path / "big.sav"), **facts)
        begun = time.perf_counter()
        schemas.append(gl.Schema.from_codebook(tmp_path / "big.sav"))
        assert time.perf_counter() - begun < 10
    content = (tmp_path / "big.sav").read_bytes()
    rows = 2000 * 300 * 8
    assert len(content) > rows
    (tmp_path / "big.sav").write_bytes(content[:-rows])
    schemas.append(gl.Schema.from_codebook(tmp_path / "big.sav"))
    (tmp_path / "big.sav").write_bytes(content[:-rows] + b"\xff\x00garbage" * 1000)
    schemas.append(gl.Schema.from_codebook(tmp_path / "big.sav"))
    assert schemas[0] == schemas[1] == schemas[2] == schemas[3]
    assert len(schemas[0].columns) == 300
    assert schemas[0]["q299"].levels == (1, 2)


def test_stata_and_sas_headers(tmp_path):
    frame = FRAME.select("q1", "age", "town")
    facts = {"column_labels": FACTS["column_labels"]}
    labels = {"q1": {1: "Yes", 2: "No", -9: "Refused"}}
    pyreadstat.write_dta(frame, str(tmp_path / "s.dta"), variable_value_labels=labels, **facts)
    stata = gl.Schema.from_codebook(tmp_path / "s.dta")
    assert (stata["q1"].levels, stata["q1"].description, stata["age"].bounds) == ((1, 2), "Do you smoke?", (0, 120))
    assert stata["q1"].missing == (MissingCode("-9", "refused", "Refused"),)
    pyreadstat.write_xport(frame, str(tmp_path / "s.xpt"), **facts)
    assert gl.Schema.from_codebook(tmp_path / "s.xpt")["age"].bounds == (0, 120)
    pyreadstat.write_por(frame, str(tmp_path / "s.por"), **facts)
    assert gl.Schema.from_codebook(tmp_path / "s.por")["AGE"].bounds == (0, 120)


def test_letters_of_missing_values_are_codes_with_a_point(tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"q": [1.0, 2.0, "a", "z"]})
    labels = {"q": {1: "Yes", 2: "No", "a": "Refused"}}
    pyreadstat.write_dta(
        frame, str(tmp_path / "s.dta"), missing_user_values={"q": ["a", "z"]}, variable_value_labels=labels
    )
    (column,) = gl.Schema.from_codebook(tmp_path / "s.dta").columns
    assert column.levels == (1, 2)
    assert column.missing == (MissingCode(".a", "refused", "Refused"),)


def test_dates_are_found_by_their_formats(tmp_path):
    frame = pl.DataFrame({"day": [1.0], "moment": [1.0], "clock": [1.0], "n": [1.0]})
    forms = {"day": "ADATE10", "moment": "DATETIME20", "clock": "TIME8"}
    ranges = {"day": [{"lo": 97, "hi": 99}], "moment": [{"lo": -1e9, "hi": -1}]}
    pyreadstat.write_sav(frame, str(tmp_path / "d.sav"), variable_format=forms, missing_ranges=ranges)
    schema = gl.Schema.from_codebook(tmp_path / "d.sav")
    assert [(column.name, column.kind) for column in schema.columns] == [
        ("day", "date"),
        ("moment", "datetime"),
        ("n", "number"),
    ]
    assert schema.ignore == ("clock",)
    assert [code.code for code in schema["day"].missing] == ["97", "98", "99"]  # dates have no ranges
    assert schema["moment"].missing == ()


def test_a_range_of_missing_codes_becomes_single_codes_among_levels(tmp_path):
    ranges = {"q1": [{"lo": -9, "hi": -1}]}
    write_sav(tmp_path / "s.sav", missing_ranges=ranges)
    column = gl.Schema.from_codebook(tmp_path / "s.sav")["q1"]
    assert {gap.code for gap in column.missing} == {str(number) for number in range(-9, 0)}


@pytest.mark.parametrize("name", ["x.sav", "x.dta", "x.xpt", "x.sas7bdat", "x.por"])
def test_a_damaged_file_is_refused(tmp_path, name):
    (tmp_path / name).write_bytes(b"$FL2" + b"\x00" * 300)
    with pytest.raises(ReadError, match="cannot read the header of"):
        gl.Schema.from_codebook(tmp_path / name)


@pytest.mark.parametrize("program", ["import os; os.abort()", "raise SystemExit", "print('{')"])
def test_a_crash_of_the_library_is_an_error(tmp_path, monkeypatch, program):
    write_sav(tmp_path / "s.sav")
    monkeypatch.setattr(stat_metadata, "_PROGRAM", program)
    with pytest.raises(ReadError, match="the library that reads it stopped"):
        gl.Schema.from_codebook(tmp_path / "s.sav")


def test_no_module_beside_the_file_is_run(tmp_path, monkeypatch):
    write_sav(tmp_path / "s.sav")
    (tmp_path / "pyreadstat.py").write_text("raise RuntimeError")
    monkeypatch.chdir(tmp_path)
    assert gl.Schema.from_codebook("s.sav")["q1"].levels == (1, 2)


@pytest.mark.parametrize(
    ("ending", "form", "kind"),
    [
        ("dta", "%tm", "date"),
        ("dta", "%tq", None),
        ("sav", "QYR6", "date"),
        ("sav", "TIME8", None),
        ("xpt", "WEEKDATE29", "date"),
        ("xpt", "MONNAME3", None),
        ("xpt", "DAY2", None),
        ("xpt", "DATETIME19", "datetime"),
    ],
)
def test_the_schema_takes_the_dates_that_its_rows_are_read_as(tmp_path, ending, form, kind):
    write = {"dta": pyreadstat.write_dta, "sav": pyreadstat.write_sav, "xpt": pyreadstat.write_xport}[ending]
    frame = pl.DataFrame({"n": [1.0, 2.0], "when": [630.0, 631.0]})
    write(frame, str(tmp_path / f"d.{ending}"), variable_format={"when": form})
    found = read_codebook(tmp_path / f"d.{ending}")
    if kind is None:
        assert found.schema.ignore == ("when",)
        assert any("declare it as a number" in line for line in found.asked)
        return
    assert found.schema["when"].kind == kind
    assert gl.Table.read(str(tmp_path / f"d.{ending}"), found.schema)["when"].null_count() == 0


def test_an_old_survey_that_calls_every_answer_a_scale(tmp_path):
    """Labels as in a real opinion poll of 2004, whose measures nobody set."""
    labels = {
        "q1": {1: "Satisfied", 2: "Dissatisfied", 9: "(DO NOT READ) Don't know/Refused"},
        "q2": {1: "Very well", 2: "Somewhat well", 3: "Not too well", 4: "Not at all", 9: "Don’t know/Refused"},
        "state": {1: "Alabama", 2: "Alaska", 4: "Arizona", 5: "Arkansas"},
        "faith": {1: "Protestant", 2: "Jewish", 3: "Mormon", 97: "Other (SPECIFY)", 98: "DK", 99: "Refused (VOL)"},
        "mood": {1: "Bad", 3: "Fair", 5: "Good"},
        "years": {0: "Under a year", 25: "25 or more years", 99: "DK/Ref"},
    }
    frame = pl.DataFrame({name: [1.0] for name in labels})
    measures = dict.fromkeys(labels, "scale")
    pyreadstat.write_sav(frame, str(tmp_path / "s.sav"), variable_value_labels=labels, variable_measure=measures)
    found = read_codebook(tmp_path / "s.sav")
    schema = found.schema
    assert (schema["q1"].levels, schema["q1"].origin) == ((1, 2), "codebook")
    assert [gap.kind for gap in schema["q1"].missing] == ["dont-know"]
    assert (schema["q2"].kind, schema["q2"].levels, schema["q2"].origin) == ("ordinal", (1, 2, 3, 4), "proposed")
    assert (schema["state"].kind, schema["state"].origin) == ("categorical", "proposed")
    assert schema["faith"].levels == (1, 2, 3, 97)
    assert any(line.startswith("state, faith: some numbers have no label") for line in found.asked)
    assert (schema["mood"].kind, schema["mood"].bounds) == ("integer", (1, 5))
    assert (schema["years"].kind, schema["years"].bounds) == ("integer", (0, 25))


def test_bounds_beside_missing_codes(tmp_path):
    """Codes as in a table of employees, where a salary of 0 is missing: unknown bounds stay unknown."""
    frame = pl.DataFrame({name: [1.0] for name in ("salary", "line", "months", "income")})
    ranges = {"salary": [0], "line": [{"lo": 0, "hi": 9}], "months": [0], "income": [{"lo": -1e308, "hi": -1}, 999]}
    forms = {"salary": "F8.2", "line": "F8.2", "months": "F2.0", "income": "F8.2"}
    measures = dict.fromkeys(ranges, "scale")
    path = str(tmp_path / "s.sav")
    pyreadstat.write_sav(frame, path, missing_ranges=ranges, variable_format=forms, variable_measure=measures)
    found = read_codebook(path)
    assert found.schema["salary"].bounds == (1, 1e300)
    assert found.schema["line"].bounds == (10, 1e300)
    assert needs_bounds(found.schema["salary"])
    assert found.schema["months"].bounds == (1, 99)
    assert "months: bounds [1, 99] are proposed: at most 2 digits, by the width of its format" in found.asked
    assert not needs_bounds(found.schema["income"])  # both ends are beside codes, so they are proposed with this reason
    assert any("income: bounds [0, 998] are proposed: between its missing codes" in line for line in found.asked)


def test_a_number_without_a_measure_may_have_codes(tmp_path):
    pyreadstat.write_xport(pl.DataFrame({"RIAGENDR": [1.0, 2.0]}), str(tmp_path / "s.xpt"))
    (line, *_) = read_codebook(tmp_path / "s.xpt").asked
    assert line.startswith("RIAGENDR: bounds are not known")
    assert 'if its numbers are codes, write kind = "categorical" and levels' in line


def test_a_catalog_is_not_ignored(tmp_path):
    pyreadstat.write_xport(pl.DataFrame({"a": [1.0]}), str(tmp_path / "s.xpt"))
    with pytest.raises(ReadError, match=r"a catalog has the labels of a \.sas7bdat file"):
        read_codebook(tmp_path / "s.xpt", catalog=tmp_path / "formats.sas7bcat")
