"""Files for SPSS, Stata and Excel: what is written is read back with each kind of gap, or refused beforehand."""

import datetime as dt
import re
import zipfile

import numpy as np
import polars as pl
import pyreadstat
import pytest

import gapless as gl
from gapless import MissingCode
from gapless.data.io.table_files import check_output, write_frames
from gapless.schema.gap_codes import MissingRange

ENDINGS = (".sav", ".dta", ".xlsx", ".csv")


def survey(ending):
    """A schema with each kind of column and of gap, with letters as codes for Stata."""

    def code(number, letter, kind, label=""):
        return MissingCode(letter if ending == ".dta" else number, kind, label)

    return gl.Schema(
        "survey",
        [
            gl.Integer(
                "age",
                bounds=(0, 99),
                may_be_missing=True,
                missing=(
                    code(-9, ".a", "refused", "Refused"),
                    code(-8, ".b", "dont-know"),
                    code(-7, ".c", "not-asked"),
                ),
                description="Age in years",
            ),
            gl.Number(
                "income", bounds=(0, 5000), resolution=0.5, may_be_missing=True, missing=(code(-9.5, ".r", "refused"),)
            ),
            gl.Categorical(
                "sex",
                [1, 2],
                labels={1: "Male", 2: "Female"},
                may_be_missing=True,
                missing=(MissingCode(9, "refused", "No"),),
            ),
            gl.Categorical("town", ["Bad Urach", "Ulm"], may_be_missing=True, missing=(MissingCode("no", "refused"),)),
            gl.Ordinal("rating", [1, 2.5, 3]),
            gl.Boolean("smoker", may_be_missing=True),
            gl.Boolean("job", spelling=["2", "1"]),
            gl.Date(
                "born", bounds=("1920-01-01", "2020-12-31"), may_be_missing=True, missing=(code(-9, ".z", "refused"),)
            ),
            gl.DateTime("seen", bounds=("1990-01-01T00:00:00", "2020-12-31T00:00:00"), may_be_missing=True),
        ],
    )


def drawn(schema, rows=400, seed=3):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, column.extended_size, rows) for column in schema.columns]
    return gl.Table(schema, codes, rows=rows, seed=seed)


@pytest.mark.parametrize("rows", [0, 1, 400])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_holds_each_value_and_each_kind_of_gap(tmp_path, ending, rows):
    schema = survey(ending)
    table = drawn(schema, rows)
    table.write(tmp_path / f"t{ending}")
    read = gl.Table.read(tmp_path / f"t{ending}", schema)
    for place, column in enumerate(schema.columns):
        assert np.array_equal(table.codes[place], read.codes[place]), column.name
        if (numbers := table.numeric_values(place)) is not None:
            assert np.array_equal(numbers, read.numeric_values(place), equal_nan=True), column.name


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_only_gaps(tmp_path, ending):
    schema = survey(ending)
    table = gl.Table(schema, [np.full(3, column.extended_size - 1) for column in schema.columns], rows=3)
    table.write(tmp_path / f"t{ending}")
    read = gl.Table.read(tmp_path / f"t{ending}", schema)
    assert all(map(np.array_equal, table.codes, read.codes))


def test_a_sav_file_has_labels_formats_and_user_missing_values(tmp_path):
    drawn(survey(".sav")).write(tmp_path / "t.sav")
    _, header = pyreadstat.read_sav(
        tmp_path / "t.sav", user_missing=True, output_format="dict", disable_datetime_conversion=True
    )
    assert header.column_names_to_labels["age"] == "Age in years"
    labels = header.variable_value_labels
    assert labels["age"] == {-9: "Refused"}
    assert labels["sex"] == {1: "Male", 2: "Female", 9: "No"}
    assert labels["town"] == {"Bad Urach": "Bad Urach", "Ulm": "Ulm"}
    assert labels["smoker"] == {0: "false", 1: "true"}
    missing = {name: [span["lo"] for span in spans] for name, spans in header.missing_ranges.items()}
    assert missing == {"age": [-9, -8, -7], "income": [-9.5], "sex": [9], "town": ["no"], "born": [-9]}
    assert header.original_variable_types["born"] == "DATE11"
    assert header.variable_measure["rating"] == "ordinal"
    assert header.variable_measure["sex"] == "nominal"


def test_a_dta_file_has_labels_formats_and_letters(tmp_path):
    drawn(survey(".dta")).write(tmp_path / "t.dta")
    _, header = pyreadstat.read_dta(tmp_path / "t.dta", user_missing=True, output_format="dict")
    assert header.variable_value_labels["age"] == {"a": "Refused"}
    assert header.variable_value_labels["sex"] == {1: "Male", 2: "Female", 9: "No"}
    assert header.missing_user_values == {"age": ["a", "b", "c"], "income": ["r"], "born": ["z"]}
    assert header.original_variable_types["seen"] == "%tc"
    assert header.readstat_variable_types["age"] == "int32"


@pytest.mark.parametrize("ending", [".sav", ".dta"])
def test_no_file_states_at_which_time_of_day_it_was_made(tmp_path, ending):
    drawn(survey(ending)).write(tmp_path / f"t{ending}")
    read = {".sav": pyreadstat.read_sav, ".dta": pyreadstat.read_dta}[ending]
    made = read(tmp_path / f"t{ending}", metadataonly=True, output_format="dict")[1].creation_time
    assert made.time() == dt.time()
    assert abs(made.date() - dt.datetime.now(dt.UTC).date()) <= dt.timedelta(days=1)


def refusal(path, *columns):
    with pytest.raises(gl.errors.SchemaError) as error:
        check_output(path, gl.Schema("t", columns))
    return str(error.value)


def gappy(kind, *args, missing, **keys):
    return kind("x", *args, may_be_missing=True, missing=missing, **keys)


NUMBER = {"bounds": (0, 50)}
FOUR = tuple(MissingCode(code, "refused") for code in (60, 70, 80, -90))


@pytest.mark.parametrize(
    ("path", "column", "why"),
    [
        ("t.sav", gl.Integer("a b", **NUMBER), "hold a column called 'a b': a name in SPSS must have at most 64"),
        ("t.sav", gl.Integer("with", **NUMBER), "must not be one of its words"),
        ("t.dta", gl.Integer("a.b", **NUMBER), "a name in Stata must have at most 32"),
        ("t.dta", gl.Integer("a" * 33, **NUMBER), "at most 32"),
        ("t.dta", gl.Integer("strL", **NUMBER), "must not be one of its words"),
        (
            "t.sav",
            gappy(gl.Integer, missing=(MissingCode(".a", "refused"),), **NUMBER),
            "'.a' (refused) is not a number",
        ),
        ("t.sav", gappy(gl.Integer, missing=(MissingCode("NA", "refused"),), **NUMBER), "is not a number"),
        ("t.dta", gappy(gl.Integer, missing=(MissingCode("NA", "refused"),), **NUMBER), "is not a number, or a letter"),
        (
            "t.sav",
            gappy(gl.Integer, missing=(*FOUR, MissingCode(-91, "dont-know")), **NUMBER),
            "5 missing codes or ranges, but SPSS allows 3",
        ),
        (
            "t.sav",
            gappy(gl.Categorical, ["a"], missing=(MissingCode("too long a text", "refused"),)),
            "is not a text of at most 8 bytes",
        ),
        ("t.dta", gl.Categorical("x", ["a"], labels={"a": "A"}), "Stata labels whole numbers only"),
        ("t.dta", gl.Categorical("x", [1.5], labels={1.5: "A"}), "Stata labels whole numbers only"),
        ("t.dta", gl.Categorical("x", ["a" * 3000]), "at most 2,045"),
        ("t.sav", gl.Date("x", bounds=("1500-01-01", "2000-01-01")), "dates of SPSS begin at 1582-10-15"),
        (
            "t.dta",
            gappy(gl.Date, missing=(MissingCode(-9, "refused"),), bounds=("1950-01-01", "2000-01-01")),
            "is not a date, or a letter",
        ),
        ("t.sav", gl.Categorical("x", ["a\0b", "a"]), "a text with a NUL character would end there"),
        ("t.dta", gappy(gl.Categorical, ["a"], missing=(MissingCode("b\0c"),)), "a text with a NUL character"),
        ("t.xlsx", gl.Categorical("x", ["a\x01b"]), "characters that no sheet can hold"),
    ],
)
def test_what_a_format_cannot_hold_is_refused(tmp_path, path, column, why):
    found = refusal(tmp_path / path, column)
    assert why in found
    assert "leave this format out" in found


def test_spss_does_not_distinguish_capital_letters(tmp_path):
    assert "both 'x' and 'X'" in refusal(tmp_path / "t.sav", gl.Integer("x", **NUMBER), gl.Integer("X", **NUMBER))


def test_a_word_for_an_unknown_gap_becomes_the_missing_value_of_the_system(tmp_path):
    column = gappy(gl.Integer, missing=("NA", MissingCode(-9, "refused")), **NUMBER)
    schema = gl.Schema("t", [column])
    for ending in (".sav", ".dta"):
        table = drawn(schema)
        table.write(tmp_path / f"t{ending}")
        assert np.array_equal(gl.Table.read(tmp_path / f"t{ending}", schema).codes[0], table.codes[0])


@pytest.mark.parametrize(
    ("missing", "declared"),
    [
        (FOUR[:3], [60, 70, 80]),
        (FOUR, [-90, (60, 80)]),
        ((MissingRange(60, 69, "refused"), MissingCode(99, "dont-know")), [(60, 99)]),
        ((MissingRange(60, 69, "refused"), MissingCode(-1, "dont-know")), [-1, (60, 69)]),
    ],
)
def test_many_codes_are_a_range_that_has_no_value(tmp_path, missing, declared):
    schema = gl.Schema("t", [gappy(gl.Integer, missing=missing, **NUMBER)])
    table = drawn(schema)
    table.write(tmp_path / "t.sav")
    _, header = pyreadstat.read_sav(tmp_path / "t.sav", user_missing=True, output_format="dict")
    spans = [(span["lo"], span["hi"]) for span in header.missing_ranges["x"]]
    assert sorted(spans) == sorted(span if isinstance(span, tuple) else (span, span) for span in declared)
    assert np.array_equal(gl.Table.read(tmp_path / "t.sav", schema).codes[0], table.codes[0])


def test_an_empty_code_of_another_kind_keeps_its_kind(tmp_path):
    missing = (MissingCode("", "not-applicable"), MissingCode(-9, "unknown"))
    schema = gl.Schema("t", [gappy(gl.Integer, missing=missing, **NUMBER)])
    table = drawn(schema)
    for ending in (".sav", ".dta", ".xlsx"):
        table.with_codes([table.codes[0]], schema=schema).write(tmp_path / f"t{ending}")
        read = gl.Table.read(tmp_path / f"t{ending}", schema)
        kept = table.codes[0] if ending != ".xlsx" else table.codes[0][table.codes[0] != schema["x"].values_size]
        assert np.array_equal(read.codes[0], kept)  # a sheet has no rows without a value


def test_a_date_as_a_code_stays_one(tmp_path):
    missing = (MissingCode("31.12.2099", "refused"),)
    column = gappy(gl.Date, missing=missing, bounds=("1950-01-01", "2000-01-01"), format="%d.%m.%Y")
    schema = gl.Schema("t", [column])
    table = drawn(schema)
    for ending in (".sav", ".dta", ".csv"):
        table.write(tmp_path / f"t{ending}")
        assert np.array_equal(gl.Table.read(tmp_path / f"t{ending}", schema).codes[0], table.codes[0]), ending


def test_weights_and_the_number_of_a_copy_are_columns(tmp_path):
    table = drawn(survey(".sav"), rows=5).with_weights([1, 2, 3, 4, 5])
    for ending in (".sav", ".xlsx"):
        table.write(tmp_path / f"t{ending}")
        read = gl.Table.read(tmp_path / f"t{ending}", table.schema)
        assert np.allclose(read.weights, table.weights)


def test_a_sheet_escapes_formulas_and_has_numbers_and_dates_as_such(tmp_path):
    schema = gl.Schema(
        "t",
        [
            gl.Categorical("=x", ["=1+1", "<b>&"]),
            gl.Integer("n", bounds=(0, 9)),
            gl.Date("d", bounds=("1890-01-01", "1910-01-01")),
        ],
    )
    table = drawn(schema)
    table.write(tmp_path / "t.xlsx")
    sheet = zipfile.ZipFile(tmp_path / "t.xlsx").read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet
    assert set(re.findall(r"<t [^>]*>([^<]*)</t>", sheet.split('<row r="2">')[1])) >= {"'=1+1", "&lt;b&gt;&amp;"}
    assert re.search(r'<c r="B2"><v>\d</v></c>', sheet)
    assert 's="1"><v>' in sheet  # a date
    assert ">1899-" in sheet  # Excel has no dates before 1900
    read = gl.Table.read(tmp_path / "t.xlsx", schema)
    assert all(map(np.array_equal, read.codes, table.codes))
    assert all(info.date_time == (1980, 1, 1, 0, 0, 0) for info in zipfile.ZipFile(tmp_path / "t.xlsx").infolist())


def test_more_rows_than_a_sheet_has_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gapless.data.io.sheet_output.MOST_ROWS", 5)
    schema = gl.Schema("t", [gl.Integer("n", bounds=(0, 9))])
    drawn(schema, rows=4).write(tmp_path / "t.xlsx")
    with pytest.raises(gl.errors.ReadError, match="more than 4 rows"):
        drawn(schema, rows=5).write(tmp_path / "u.xlsx")
    assert not (tmp_path / "u.xlsx").exists()


@pytest.mark.parametrize("ending", [".sav", ".dta", ".xlsx"])
def test_a_sample_in_parts_is_one_file(tmp_path, ending):
    schema = survey(ending)
    frames = [drawn(schema, 10, seed).frame_to_write(tmp_path / f"t{ending}") for seed in (1, 2)]
    write_frames(iter(frames), tmp_path / f"t{ending}", schema)
    codes = [np.concatenate(pair) for pair in zip(drawn(schema, 10, 1).codes, drawn(schema, 10, 2).codes, strict=True)]
    assert all(map(np.array_equal, gl.Table.read(tmp_path / f"t{ending}", schema).codes, codes))
    assert isinstance(frames[0], pl.DataFrame)
