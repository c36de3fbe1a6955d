"""A draft looks at the data: it marks what it read, leaves out what it cannot use, and parses as a schema."""

import csv
import dataclasses
import datetime as dt
import io

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.io.draft_numbers import LEVELS_REMARK
from gapless.missing import check
from helpers.visits import visits
from helpers.workbooks import workbook


@pytest.fixture
def people(tmp_path):
    rows = [
        f"p{i:03},{i % 3:03},{20 + i % 50},{'yes' if i % 2 else 'no'},{'F' if i % 3 else 'M'},{i}.5,"
        f"2020-01-{1 + i % 28:02},2020-01-05T10:00:{i % 60:02}+01:00,,NA,{'NA' if i % 5 else 'maybe'}"
        for i in range(80)
    ]
    path = tmp_path / "people.csv"
    path.write_text("id,code,age,smoker,sex,income,visit,seen,nothing,na,answer\n" + "\n".join(rows) + "\n")
    return path


def test_a_draft_finds_the_kind_of_each_column(people):
    draft = gl.data.draft_schema(people)
    assert {column.name: column.kind for column in draft.schema.columns} == {
        "code": "categorical",
        "age": "integer",
        "smoker": "boolean",
        "sex": "categorical",
        "income": "number",
        "visit": "date",
        "seen": "datetime",
        "answer": "categorical",
    }
    assert draft.schema.name == "people"
    assert draft.schema["code"].levels == ("000", "001", "002")  # leading zeros are part of a name
    assert draft.schema["seen"].bounds == ("2020-01-05T09:00:00", "2020-01-05T09:00:59")  # in UTC
    assert draft.schema["answer"].missing == (gl.MissingCode("NA"),)


def test_columns_left_out_are_ignored_with_a_word_why(people):
    draft = gl.data.draft_schema(people)
    assert draft.schema.ignore == ("id", "nothing", "na")
    assert draft.left_out["id"] == "text with more than 60 levels, such as names or identifiers"
    assert draft.left_out["nothing"] == "it holds no value at all"
    line = next(line for line in draft.to_toml().splitlines() if line.startswith("ignore"))
    assert "id: text with more than 60 levels" in line


def test_every_fact_read_from_the_data_is_marked(people):
    text = gl.data.draft_schema(people).to_toml()
    assert text.startswith("# DRAFT: made by looking at the data.")
    assert "codebook" in text
    facts = ("kind", "levels", "bounds", "may_be_missing", "missing")
    lines = [line for line in text.splitlines() if line.startswith(facts)]
    assert len(lines) > 15
    assert all("  # read from the data" in line for line in lines)


def test_a_draft_parses_and_fits_the_data_it_was_made_from(people, tmp_path):
    draft = gl.data.draft_schema(people)
    draft.write(tmp_path / "people.toml")
    schema = gl.Schema.read(tmp_path / "people.toml")
    assert schema == draft.schema
    result = check(people, schema)
    assert result.refused == ()
    assert all(column.outside == 0 for column in result.columns)


def test_a_draft_is_not_a_schema(people, tmp_path):
    with pytest.raises(
        gl.errors.SchemaError,
        match="this schema has facts that are not confirmed: read from the data for 'code', 'age'",
    ):
        gl.read(
            people, gl.data.draft_schema(people), protect=gl.Rows(1), ledger=tmp_path / "l", budget=gl.Budget(1.0, 0)
        )


def test_typed_frames_are_drafted_as_well():
    frame = pl.DataFrame(
        {
            "n": [None, *range(1, 20)],
            "x": [None, *(i / 3 for i in range(1, 20))],
            "b": [None, True, False] + [True] * 17,
            "d": [dt.date(2020, 1, 1 + i) for i in range(20)],
            "same second": [dt.datetime(2020, 1, 1, 0, 0, 0, i) for i in range(20)],  # noqa: DTZ001 plain
            "zone": pl.Series([dt.datetime(2020, 1, 1 + i, 6, tzinfo=dt.UTC) for i in range(20)]),
            "list": [[1]] * 20,
            "id": [2**60 + i for i in range(20)],
            "one": [0.5] * 20,
        }
    )
    draft = gl.data.draft_schema(frame, name="t")
    kinds = {column.name: column.kind for column in draft.schema.columns}
    assert kinds == {
        "n": "integer",
        "x": "number",
        "b": "boolean",
        "d": "date",
        "same second": "categorical",
        "zone": "datetime",
        "one": "categorical",
    }
    assert draft.schema["n"].may_be_missing
    assert draft.left_out == {
        "list": "it holds values of type List",
        "id": "a different whole number in every row, such as an identifier",
    }
    assert gl.Schema.from_toml(draft.to_toml()) == draft.schema
    assert check(frame, draft.schema).refused == ()


def test_whole_numbers_that_differ_in_every_row_are_left_out():
    frame = pl.DataFrame({"id": range(1000, 1070), "n": [i % 69 for i in range(70)], "x": [i / 2 for i in range(70)]})
    draft = gl.data.draft_schema(frame)
    assert draft.left_out == {"id": "a different whole number in every row, such as an identifier"}


def test_a_word_on_numbers_that_are_drafted_as_levels():
    """As a level 9 is no nearer to 12 than to 20: the reader of the draft must decide whether that is meant."""
    frame = pl.DataFrame({"educ": [9, 12, 14, 20], "scale": [1, 2, 3, 4], "flag": [0, 1, 0, 1], "year": [2013] * 4})
    draft = gl.data.draft_schema(frame)
    kinds = {column.name: column.kind for column in draft.schema.columns}
    assert kinds == {"educ": "ordinal", "scale": "integer", "flag": "categorical", "year": "categorical"}
    assert draft.remarks == {
        "educ": LEVELS_REMARK,
        "year": "it has only one value: add the column to ignore, or write all values that it can have",
    }


def test_words_among_numbers_and_dates_are_proposed_as_codes():
    frame = pl.DataFrame(
        {
            "n": [*map(str, range(20)), "Unknown", "refused"],
            "d": [*(f"2020-01-{i:02}" for i in range(1, 22)), "unbekannt"],
            "answer": ["yes", "unknown"] * 11,  # among words it may be a level
        }
    )
    schema = gl.data.draft_schema(frame).schema
    assert schema["n"].kind == "integer"
    assert schema["n"].missing == (gl.MissingCode("Unknown"), gl.MissingCode("refused", "refused"))
    assert schema["d"].kind == "date"
    assert schema["d"].missing == (gl.MissingCode("unbekannt"),)
    assert schema["answer"].levels == ("unknown", "yes")
    assert check(frame, schema).refused == ()


def test_an_extreme_that_looks_like_a_code_gets_a_remark(tmp_path):
    frame = pl.DataFrame(
        {
            "age": [*range(20, 60), 999],
            "hours": [*(i / 2 for i in range(40)), -8.0],
            "grade": [1, 2, 3, 9] * 10 + [1],
            "change": [-2, -1, *range(39)],
            "count": [*range(39), 3, 99],
            "high": [*range(960, 1000), 999],
            "one": [-1, *range(40)],
            "several": [*range(20), *range(18), -9, -99, 99],
        }
    )
    draft = gl.data.draft_schema(frame)
    assert draft.remarks == {
        "age": "taken for gaps: 999",
        "hours": "taken for gaps: -8",
        "grade": f"{LEVELS_REMARK}; 9 looks like a code for a gap: if it is one, write missing = [9]",
        "count": "taken for gaps: 99",
        "one": "-1 looks like a code for a gap: if it is one, write missing = [-1]",
        "several": "taken for gaps: -99, -9, 99",
    }
    assert draft.schema["age"].missing == (gl.MissingCode("999"),)
    assert draft.schema["several"].bounds == (0, 19)
    assert "bounds = [20, 59] # read from the data; taken for gaps: 999" in " ".join(draft.to_toml().split())
    assert gl.Schema.from_toml(draft.to_toml()) == draft.schema


def test_a_frequent_code_apart_from_other_numbers_gets_a_remark_also_if_they_are_negative():
    logs = [round(-1 + i * 0.013, 3) for i in range(400)]  # of wages: from -1 to 4.2
    frame = pl.DataFrame(
        {
            "wage": [*logs, *[-9] * 40],
            "rare": [*logs, *[-9] * 3, *logs[:37]],
            "near": [*logs, *[-2] * 40],
            "end": [round(-9 + i * 0.04, 2) for i in range(400)] + [-9] * 40,
        }
    )
    assert gl.data.draft_schema(frame).remarks == {"wage": "in many rows, so perhaps codes for gaps: -9"}


def test_names_that_would_break_a_comment_do_not_break_the_file(tmp_path):
    frame = pl.DataFrame({"a\nb # ]": [f"text {i}" for i in range(70)], "ok": [1] * 70})
    draft = gl.data.draft_schema(frame)
    assert gl.Schema.from_toml(draft.to_toml()) == draft.schema


def test_a_column_of_one_letter_is_not_taken_for_a_boolean():
    assert gl.data.draft_schema(pl.DataFrame({"sex": ["F", "F"]})).schema["sex"].kind == "categorical"


def test_nothing_usable_is_an_error_and_so_is_a_table_without_rows(tmp_path):
    (tmp_path / "head.csv").write_text("a,b\n")
    with pytest.raises(gl.errors.SchemaError, match="no column can be used"):
        gl.data.draft_schema(tmp_path / "head.csv")


def test_a_draft_reads_other_encodings(tmp_path):
    (tmp_path / "latin.csv").write_bytes("ort,n\nKöln,1\n".encode("latin-1"))
    with pytest.raises(gl.errors.ReadError, match="encoding"):
        gl.data.draft_schema(tmp_path / "latin.csv")
    draft = gl.data.draft_schema(tmp_path / "latin.csv", encoding="latin-1")
    assert draft.schema["ort"].levels == ("Köln",)


MIDNIGHTS = ("2020-01-01", "2021-05-03", None, "2020-07-07")


@pytest.mark.parametrize("unit", ["ns", "us", "s"])
def test_a_pandas_column_of_midnights_is_a_date_and_comes_back(unit, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"day": pandas.to_datetime(pandas.Series(MIDNIGHTS)).astype(f"datetime64[{unit}]")})
    schema = gl.Schema.from_toml(gl.data.draft_schema(frame).to_toml()).confirmed()
    assert isinstance(schema["day"], gl.Date)
    assert schema["day"].bounds == ("2020-01-01", "2021-05-03")
    table = gl.Table.read(frame, schema)
    assert [None if day is None else str(day) for day in table.to_polars()["day"]] == list(MIDNIGHTS)
    back = table.to_pandas()
    assert (back["day"].astype(f"datetime64[{unit}]").dropna() == frame["day"].dropna()).all()
    for again in (back, tmp_path / "days.csv", tmp_path / "days.parquet"):
        if again is not back:
            table.write(again)
        assert gl.Table.read(again, schema).codes[0].tolist() == table.codes[0].tolist()


def test_midnights_in_text_are_days_and_those_of_another_zone_are_not():
    days = pl.DataFrame({"day": ["2020-01-01 00:00:00", "2020-03-04T00:00:00.000", "2020-02-02T00:00:00Z"]})
    schema = gl.data.draft_schema(days).schema
    assert isinstance(schema["day"], gl.Date)
    assert [str(day) for day in gl.Table.read(days, schema).to_polars()["day"]] == [cell[:10] for cell in days["day"]]
    moments = pl.DataFrame({"day": ["2020-01-01T00:00:00+01:00", "2020-03-04T00:00:00+01:00"]})
    assert isinstance(gl.data.draft_schema(moments).schema["day"], gl.DateTime)  # read in UTC, where it is 11 at night
    moments = pl.DataFrame({"day": ["2020-01-01 00:00:00", "2020-03-04 00:00:01"]})
    assert isinstance(gl.data.draft_schema(moments).schema["day"], gl.DateTime)


# ---------------------------------------------------------------------- files as people have them


SIGNS = {";": "semicolon", "\t": "tab", "|": "bar", ",": "comma"}


def checked(draft):
    """The drafted schema as it is read from its file, confirmed."""
    schema = gl.Schema.from_toml(draft.to_toml())
    assert schema == draft.schema
    assert {column.origin for column in schema.columns} == {"data"}
    return schema.confirmed()


def cells(path, schema):
    """The cells of a text file, by its schema's separator and encoding; columns that it ignores left out."""
    text = path.read_bytes().decode(schema.encoding or "utf-8").removeprefix("\ufeff")
    rows = list(csv.reader(io.StringIO(text), delimiter=schema.separator or ","))
    kept = [place for place, name in enumerate(rows[0]) if name not in schema.ignore]
    return [[row[place] for place in kept] for row in rows]


def comes_back(path, schema, tmp_path):
    """Reading, writing and reading again give the same cells, and the file says the same."""
    assert check(path, schema).refused == ()
    assert all(column.outside == 0 for column in check(path, schema).columns)
    table = gl.Table.read(path, schema)
    table.write(tmp_path / "out.csv")
    assert cells(tmp_path / "out.csv", schema) == cells(path, schema)
    table.write(tmp_path / "out.parquet")
    for again in (tmp_path / "out.csv", tmp_path / "out.parquet"):
        assert gl.Table.read(again, schema).to_polars().equals(table.to_polars())


ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "latin-1")


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("separator", SIGNS, ids=SIGNS.get)
def test_a_draft_finds_separator_and_encoding_and_the_file_comes_back(separator, encoding, tmp_path):
    path = tmp_path / "t.csv"
    rows = [["", "ort", "größe", "wann"]] + [[i, "Köln", f"1,{50 + i}", f"{i % 28 + 1:02}.03.2021"] for i in range(40)]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=separator).writerows(rows)
    path.write_bytes(text.getvalue().encode(encoding))
    given = encoding if encoding == "latin-1" else None  # its bytes do not show the encoding
    draft = gl.data.draft_schema(path, encoding=given)
    schema = checked(draft)
    assert schema.separator == (None if separator == "," else separator)
    assert schema.encoding == (None if encoding.startswith("utf-8") else encoding)
    assert schema.ignore == ("",)
    assert schema["größe"].decimal == ","
    assert schema["wann"].format == "%d.%m.%Y"
    assert "as the data are written" in draft.to_toml()
    table = gl.Table.read(path, schema)
    assert table.to_polars()["größe"].to_list() == [float(f"1.{50 + i}") for i in range(40)]
    again = tmp_path / "again.csv"
    table.write(again)
    assert gl.Table.read(again, schema).to_polars().equals(table.to_polars())
    people = gl.read(path, schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 0))
    assert people.schema == schema


def test_spellings_of_a_file_are_written_back(tmp_path):
    (tmp_path / "t.csv").write_text(
        "amount;day;moment;smoker;answer;grade\n"
        "1,25;31.12.2020;1/31/2021 09:05 PM;N;FALSE;1\n"
        "-;01.02.2021;11/30/2020 10:00 AM;J;TRUE;3\n"
        "20,5;.;1/1/2021 12:00 AM;J;NA;5\n"
    )
    schema = gl.Schema.from_toml(
        """
        [table]
        name = "t"
        separator = ";"
        decimal = ","
        [column.amount]
        kind = "number"
        bounds = [0, 100]
        may_be_missing = true
        missing = ["-"]
        [column.day]
        kind = "date"
        bounds = [2020-01-01, 2021-12-31]
        format = "%d.%m.%Y"
        may_be_missing = true
        missing = ["."]
        [column.moment]
        kind = "datetime"
        bounds = [2020-01-01T00:00:00, 2021-12-31T00:00:00]
        format = "%m/%d/%Y %I:%M %p"
        [column.smoker]
        kind = "boolean"
        spelling = ["N", "J"]
        [column.answer]
        kind = "boolean"
        spelling = ["FALSE", "TRUE"]
        may_be_missing = true
        missing = ["NA"]
        [column.grade]
        kind = "integer"
        bounds = [1, 5]
    """.replace("%-m/%-d", "%m/%d")
    )
    table = gl.Table.read(tmp_path / "t.csv", schema)
    assert table.to_polars()["smoker"].to_list() == [False, True, True]
    assert table.to_polars()["moment"].dt.hour().to_list() == [21, 10, 0]
    table.write(tmp_path / "out.csv")
    padded = [row[:2] + row[3:] for row in cells(tmp_path / "t.csv", schema)]
    assert [row[:2] + row[3:] for row in cells(tmp_path / "out.csv", schema)] == padded
    assert [row[2] for row in cells(tmp_path / "out.csv", schema)][1:2] == ["01/31/2021 09:05 PM"]  # two digits each
    assert gl.Table.read(tmp_path / "out.csv", schema).to_polars().equals(table.to_polars())


def test_a_drafted_file_comes_back_cell_by_cell(tmp_path):
    rows = "\n".join(
        f"{i % 7};{1 + i},5;{i % 28 + 1:02}/12/2020 08:{i % 60:02};{'Yes' if i % 3 else 'No'}" for i in range(70)
    )
    (tmp_path / "t.csv").write_text("n;x;at;b\n" + rows + "\n")
    comes_back(tmp_path / "t.csv", checked(gl.data.draft_schema(tmp_path / "t.csv")), tmp_path)


NUMBERS = [
    (",", "", "1,5", 1.5),
    (",", "", "-2", -2.0),
    (",", "", ",5", 0.5),
    (",", "", "+1,5e3", 1500.0),
    (",", "", "1.5", None),  # a thousands separator, or a number of another file: not guessed
    (",", ".", "1.234.567,25", 1234567.25),
    (",", ".", "1234567,25", 1234567.25),
    (",", ".", "1.5", None),
    (",", ".", "12.34", None),
    (".", ",", "1,234.5", 1234.5),
    (".", ",", "12,34", None),
    (".", "'", "1'234.5", 1234.5),
    (".", "'", "1’234", 1234.0),
    (",", " ", "1 234,5", 1234.5),
    (",", " ", "1\u00a0234,5", 1234.5),
    (",", " ", "1\u202f234", 1234.0),
    (",", "", "inf", None),
    (",", "", ",", None),
    (",", "", "١,٥", None),  # digits of other scripts are none here, as everywhere
]


@pytest.mark.parametrize(("decimal", "thousands", "cell", "value"), NUMBERS)
def test_numbers_are_read_as_they_are_declared(decimal, thousands, cell, value):
    column = gl.Number(
        "x", bounds=(-(10**7), 10**7), decimal=decimal, thousands=thousands, may_be_missing=True, outside="missing"
    )
    (read,) = gl.Table.read(pl.DataFrame({"x": [cell]}), gl.Schema("t", [column])).to_polars()["x"]
    assert read == value


def test_codes_are_plain_however_numbers_are_written():
    column = gl.Number("x", bounds=(0, 99_000), decimal=",", thousands=".", may_be_missing=True, missing=(-9, 99_999))
    read = gl.Table.read(pl.DataFrame({"x": ["-9", "-9,0", "99.999", "9.000", "9"]}), gl.Schema("t", [column]))
    assert read.to_polars()["x"].to_list() == [None, None, None, 9000.0, 9.0]


def test_typed_columns_are_read_as_they_are():
    schema = gl.Schema(
        "t",
        [
            gl.Number("x", bounds=(0, 9), decimal=","),
            gl.Boolean("b", spelling=("N", "J")),
            gl.Date("d", bounds=("2020-01-01", "2020-12-31"), format="%d.%m.%Y"),
        ],
    )
    frame = pl.DataFrame({"x": [1.5], "b": [True], "d": ["31.12.2020"]}).with_columns(
        pl.col("d").str.to_date("%d.%m.%Y")
    )
    assert gl.Table.read(frame, schema).to_polars().rows() == frame.rows()


def test_years_of_a_format_have_four_digits_and_months_may_stand_alone():
    days = gl.Date("d", bounds=("2000-01-01", "2030-12-31"), format="%d.%m.%Y", may_be_missing=True, outside="missing")
    read = gl.Table.read(
        pl.DataFrame({"d": ["31.12.20", "31.12.2020", "2020-12-31", "31.12.2020 10:00"]}), gl.Schema("t", [days])
    )
    assert [day is not None for day in read.to_polars()["d"]] == [False, True, False, False]
    months = gl.Date("d", bounds=("2000-01-01", "2030-12-31"), format="%m/%Y", resolution="month")
    table = gl.Table.read(pl.DataFrame({"d": ["02/2020", "12/2021"]}), gl.Schema("t", [months]))
    assert table.to_text()["d"].to_list() == ["02/2020", "12/2021"]


def test_unlisted_values_go_into_a_public_level():
    schema = gl.Schema(
        "t",
        [gl.Categorical("c", ["a", "b", "rest"], outside="other", other="rest", may_be_missing=True, missing=("NA",))],
    )
    assert gl.Schema.from_toml(schema.to_toml()) == schema
    frame = pl.DataFrame({"c": ["a", "zzz", "rest", "NA", "", "A"]})
    assert gl.Table.read(frame, schema).to_polars()["c"].to_list() == ["a", "rest", "rest", None, None, "rest"]
    (column,) = check(frame, schema).columns
    assert (column.outside, column.gaps, column.rule, column.refused) == (2, 2, "other", False)
    assert "none of its levels" not in schema["c"].gap_rule.description
    never = gl.Schema("t", [gl.Categorical("c", ["a", "other"], outside="other")])  # nothing but a gap is refused
    assert gl.Table.read(pl.DataFrame({"c": ["x"]}), never).to_polars()["c"].to_list() == ["other"]
    with pytest.raises(gl.errors.ReadError, match="has gaps"):
        gl.Table.read(pl.DataFrame({"c": [""]}), never)


def declared(keys, table=""):
    return lambda: gl.Schema.from_toml(f'[table]\nname = "t"\n{table}\n[column.x]\n{keys}')


WRONG = {
    "separator": (declared('kind = "boolean"', 'separator = "::"'), "got '::'"),
    "encoding": (declared('kind = "boolean"', 'encoding = "utf-99"'), "no encoding is called 'utf-99'"),
    "no text": (declared('kind = "boolean"', 'encoding = "base64"'), "no encoding is called 'base64'"),
    "decimal": (declared('kind = "number"\nbounds = [0, 1]', 'decimal = ";"'), "decimal = ';'"),
    "both": (declared('kind = "number"\nbounds = [0, 1]\nthousands = "."'), "thousands = '.'"),
    "no year": (declared('kind = "date"\nbounds = [2020-01-01, 2021-01-01]\nformat = "%d.%m."'), "format '%d.%m.'"),
    "odd": (declared('kind = "date"\nbounds = [2020-01-01, 2021-01-01]\nformat = "%d.%q.%Y"'), "format"),
    "no hour": (declared('kind = "date"\nbounds = [2020-01-01, 2021-01-01]\nformat = "%Y %M"'), "format"),
    "code": (
        declared(
            'kind = "date"\nbounds = [2020-01-01, 2021-01-01]\nformat = "%d.%m.%Y"\nmay_be_missing = true\n'
            'missing = ["01.06.2020"]'
        ),
        "within its bounds",
    ),
    "one spelling": (declared('kind = "boolean"\nspelling = ["yes"]'), "has the spelling yes"),
    "same": (declared('kind = "boolean"\nspelling = ["Yes", "yes"]'), "has the spelling Yes, yes"),
    "contrary": (declared('kind = "boolean"\nspelling = ["true", "false"]'), "has the spelling true, false"),
    "spelled gap": (
        declared('kind = "boolean"\nspelling = ["N", "J"]\nmay_be_missing = true\nmissing = ["n"]'),
        "which a boolean reads as a value",
    ),
    "no level": (declared('kind = "categorical"\nlevels = ["a"]\noutside = "other"'), "no level 'other'"),
    "unused": (declared('kind = "categorical"\nlevels = ["a"]\nother = "a"'), "which needs outside = 'other'"),
    "on a scale": (
        declared('kind = "ordinal"\nlevels = ["a", "other"]\noutside = "other"'),
        "has outside = 'other'",
    ),
}


@pytest.mark.parametrize(("schema", "wrong"), WRONG.values(), ids=WRONG)
def test_invalid_declarations_are_errors_of_the_schema(schema, wrong):
    with pytest.raises(gl.errors.SchemaError) as caught:
        schema()
    assert wrong in str(caught.value)
    assert caught.value.hint


def test_signs_of_numbers_are_declared_once_or_for_each_column():
    once = gl.Schema.from_toml(
        '[table]\nname = "t"\ndecimal = ","\n[column.x]\nkind = "number"\nbounds = [0, 1]\n'
        '[column.n]\nkind = "integer"\nbounds = [0, 9]\n'
    )
    assert (once["x"].decimal, once["n"].decimal) == (",", ",")
    assert once.to_toml().count("decimal") == 1
    separate = dataclasses.replace(once, columns=(once["x"], dataclasses.replace(once["n"], decimal=".")))
    assert "decimal" not in separate.to_dict()["table"]
    for schema in (once, separate):
        assert gl.Schema.from_toml(schema.to_toml()) == schema


def test_the_first_column_may_have_no_name_and_no_other(tmp_path):
    (tmp_path / "t.csv").write_text(",x\n1,2\n2,3\n")
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 9))], ignore=("",))
    assert gl.Table.read(tmp_path / "t.csv", schema).to_polars()["x"].to_list() == [2, 3]
    with pytest.raises(gl.errors.SchemaError, match=r"ignore = \[\"\"\]"):
        gl.Table.read(tmp_path / "t.csv", dataclasses.replace(schema, ignore=()))
    (tmp_path / "t.csv").write_text("x,\n1,2\n")
    with pytest.raises(gl.errors.ReadError, match="without a name"):
        gl.Table.read(tmp_path / "t.csv", schema)


def drafted(**columns):
    return gl.data.draft_schema(pl.DataFrame(columns)).schema


def test_numbers_and_dates_that_look_like_text_are_drafted_as_such():
    def x(*cells):
        return drafted(x=[*cells] * 3)["x"]

    assert (x("1.234,50", "2,75", "99.000.000,1").decimal, x("1,5", "2,25", "3").thousands) == (",", "")
    assert (x("1,234.5", "2,000", "3").kind, x("1,234.5", "2,000", "3").thousands) == ("number", ",")
    assert x("1 234", "2 500", "12 000").bounds == (1234, 12000)
    assert x("20201231", "20210101").format == "%Y%m%d"
    assert x("20201231", "20210199").kind == "categorical"  # no day 99
    assert x("31.12.2020", "1.1.2021").format == "%d.%m.%Y"
    assert x("12/31/2020", "1/1/2021").format == "%m/%d/%Y"
    assert x("31.12.20", "01.01.21").format == "%d.%m.%y"
    assert x("3 Mar 2020", "14 Dec 2021").format == "%d %b %Y"
    assert x("31.12.2020 23:59", "01.01.2021 00:00").kind == "datetime"
    assert x("1.2.3", "1.2.4").kind == "categorical"  # versions
    assert x("007", "1,5").kind == "categorical"


def test_a_date_that_can_be_read_in_two_ways_gets_a_remark():
    draft = gl.data.draft_schema(pl.DataFrame({"d": ["01/02/2020", "03/04/2020"]}))
    assert draft.schema["d"].format == "%d/%m/%Y"
    assert draft.remarks["d"] == "%m/%d/%Y would fit as well"


def test_the_most_columns_decide_what_a_comma_is():
    schema = drafted(a=["1,234", "2,500"] * 9, b=["1.234,5", "7,25"] * 9)
    assert [(column.decimal, column.thousands) for column in schema.columns] == [(",", ".")] * 2
    schema = drafted(a=["1,234", "2,500"] * 9, b=["1,234.5", "7.25"] * 9)
    assert schema["a"].bounds == (1234, 2500)


def test_scales_are_integers_with_a_bin_for_each_value():
    schema = drafted(scale=[1, 2, 3, 5, 5], sex=[1, 2, 1, 2, 1], dose=[0, 500, 1000, 0, 0], code=[1, 2, 9, 1, 1])
    assert schema["scale"].cells == ("1", "2", "3", "4", "5")
    assert [column.kind for column in schema.columns] == ["integer", "categorical", "ordinal", "ordinal"]


def test_the_spelling_of_booleans_is_drafted():
    schema = drafted(a=["yes", "no"], b=["TRUE", "FALSE"], c=["true", "false"], d=[True, False], e=["Y", "n"])
    assert [column.spelling for column in schema.columns] == [("no", "yes"), ("FALSE", "TRUE"), None, None, ("n", "Y")]
    mixed = drafted(a=["yes", "no", "Yes"])["a"]
    assert (mixed.kind, mixed.spelling) == ("boolean", None)


def test_more_levels_can_be_drafted():
    frame = pl.DataFrame({"c": [f"c{i}" for i in range(80)], "x": [1, 2] * 40})
    assert gl.data.draft_schema(frame).left_out == {"c": "text with more than 60 levels, such as names or identifiers"}
    assert len(gl.data.draft_schema(frame, max_levels=80).schema["c"].levels) == 80
    assert gl.data.draft_schema(frame, max_levels=79).left_out
    with pytest.raises(gl.errors.SchemaError, match="max_levels"):
        gl.data.draft_schema(frame, max_levels=0)


def test_a_character_that_the_encoding_lacks_is_an_error(tmp_path):
    schema = gl.Schema("t", [gl.Categorical("c", ["日本"])], encoding="latin-1")
    with pytest.raises(gl.errors.ReadError, match="latin-1 cannot write a character"):
        gl.Table.read(pl.DataFrame({"c": ["日本"]}), schema).write(tmp_path / "t.csv")
    assert not (tmp_path / "t.csv").exists()


def test_tsv_files_have_tabs_even_if_another_separator_is_declared(tmp_path):
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 9)), gl.Integer("y", bounds=(0, 9))], separator=";")
    table = gl.Table.read(pl.DataFrame({"x": [1], "y": [2]}), schema)
    for name, text in (("t.tsv", "x\ty\n1\t2\n"), ("t.csv", "x;y\n1;2\n")):
        table.write(tmp_path / name)
        assert (tmp_path / name).read_text() == text
        assert gl.Table.read(tmp_path / name, schema).to_polars().equals(table.to_polars())


# ---------------------------------------------------------------------- Excel


def test_the_first_sheet_of_an_excel_file_is_read_as_text(tmp_path):
    pytest.importorskip("fastexcel")
    rows = [["", "n", "x", "d", "b", "t"]]
    rows += [[i, i % 40 + 1000, i / 4, 44000 + i, i % 2 == 0, ("a", None, "NA")[i % 3]] for i in range(70)]
    workbook(tmp_path / "t.xlsx", rows, day=3)
    schema = checked(gl.data.draft_schema(tmp_path / "t.xlsx"))
    assert {column.name: column.kind for column in schema.columns} == {
        "n": "integer",
        "x": "number",
        "d": "date",
        "b": "boolean",
        "t": "categorical",
    }
    assert schema.ignore == ("",)
    read = gl.Table.read(tmp_path / "t.xlsx", schema).to_polars()
    assert read["x"].to_list() == [i / 4 for i in range(70)]
    assert str(read["d"][0]) == "2020-06-18"
    assert read["t"].to_list()[:3] == ["a", None, None]
    people = gl.read(tmp_path / "t.xlsx", schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 0))
    assert people.ledger.path.name == "t.ledger"


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        ([], "is empty"),
        ([["a", "secret"], [1, 2]], "does not have"),
        ([["a", None], [1, 2]], "without a name"),
        ([["a", "a"], [1, 2]], "two columns of the same name"),
    ],
)
def test_an_excel_file_that_does_not_fit_is_an_error(rows, wrong, tmp_path):
    pytest.importorskip("fastexcel")
    workbook(tmp_path / "t.xlsx", rows)
    with pytest.raises((gl.errors.ReadError, gl.errors.SchemaError), match=wrong):
        gl.Table.read(tmp_path / "t.xlsx", gl.Schema("t", [gl.Integer("a", bounds=(0, 9))]))


def test_an_invalid_excel_file_and_a_missing_reader_are_errors(tmp_path, monkeypatch):
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    schema = gl.Schema("t", [gl.Integer("a", bounds=(0, 9))])
    monkeypatch.setitem(__import__("sys").modules, "fastexcel", None)
    with pytest.raises(
        gl.errors.ReadError, match=r"fastexcel is not installed\n  Try: run pip install 'gapless\[excel\]'"
    ):
        gl.Table.read(tmp_path / "t.xlsx", schema)
    monkeypatch.undo()
    pytest.importorskip("fastexcel")
    with pytest.raises(gl.errors.ReadError, match="is not a valid Excel file"):
        gl.Table.read(tmp_path / "t.xlsx", schema)


def test_two_dates_in_order_get_a_remark_on_their_difference():
    """The closest pair counts, and no column follows from two others. A date that is often earlier gets none."""
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 4, 9), eager=True)
    later = pl.Series([day + dt.timedelta(days=place % 9) for place, day in enumerate(days)])
    frame = pl.DataFrame(
        {
            "discharge": later,
            "admission": days,
            "born": [day - dt.timedelta(days=9000 + 37 * (place % 50)) for place, day in enumerate(days)],
            "sent": [day + dt.timedelta(days=place % 30 - 3) for place, day in enumerate(days)],
        }
    )
    remarks = gl.data.draft_schema(frame).remarks
    expected = 'hardly ever before admission: declare the time between, difference = "discharge - admission"?'
    assert remarks["discharge"] == expected
    assert not any(
        "discharge -" in remark or "admission -" in remark for name, remark in remarks.items() if name != "discharge"
    )
    assert "difference" not in str(gl.data.draft_schema(frame.select("admission", "sent")).remarks)
    gaps = frame.with_columns(discharge=pl.when(pl.col("discharge") > days[50]).then("discharge"))
    assert gl.data.draft_schema(gaps).remarks["discharge"] == expected


def test_a_few_imputed_means_do_not_hide_that_numbers_are_whole():
    """As years of schooling, of which 1 % are a mean with many decimals: frequent years would be lost in a release."""
    years = np.random.default_rng(5).integers(0, 31, 2_000).astype(float)
    for imputed, resolution in ((20, 1.0), (200, None)):
        frame = pl.DataFrame({"years": np.where(np.arange(2_000) < imputed, 11.966817, years)})
        draft = gl.data.draft_schema(frame)
        column = draft.schema["years"]
        assert (column.resolution, column.bounds) == (resolution, (0.0, 30.0))
        assert ("99.0% of its numbers are multiples of 1, so resolution = 1 keeps" in draft.to_toml()) == bool(
            resolution
        )
        assert ("% of its numbers are 11.966817, which a release spreads" in draft.to_toml()) == (not resolution)


def test_bounds_are_multiples_of_a_step_that_nearly_all_numbers_have():
    rng = np.random.default_rng(6)
    usual = rng.integers(1, 41, 960).astype(float)
    draft = gl.data.draft_schema(pl.DataFrame({"x": [*usual, *[0.300012] * 30, 90000.0]}))
    column = draft.schema["x"]
    assert (column.bounds, column.resolution, column.scale) == ((0.0, 90000.0), 1.0, "symlog")
    few = gl.data.draft_schema(pl.DataFrame({"x": [*np.repeat([1.0, 2.0], 480), *rng.random(30)]})).schema["x"]
    assert few.resolution is None  # two numbers are no step of the others


@pytest.mark.parametrize(
    "texts",
    [
        [f"{number}e-7" for number in range(1, 900)],
        [*[f"{number}00000000000000000000" for number in range(1, 900)], *["1.123456"] * 20],
        [*[f"{number}00000000000000.5" for number in range(1, 900)], *["1.123456"] * 20],
    ],
)
def test_a_draft_reads_numbers_of_any_size(texts, tmp_path):
    (tmp_path / "d.csv").write_text("\n".join(["x", *texts]) + "\n")
    draft = gl.data.draft_schema(tmp_path / "d.csv")
    assert list(draft.schema.names) == ["x"] or "x" in str(draft.to_toml())


def test_a_draft_proposes_heaping_where_round_values_stand_out():
    rng = np.random.default_rng(0)
    daily = rng.gamma(2, 6, 4000).round().clip(1, 95)
    frame = pl.DataFrame(
        {
            "cigarettes": np.where(rng.random(4000) < 0.6, (daily / 10).round().clip(1, 9) * 10, daily).astype(int),
            "pressure": 2 * rng.normal(62, 9, 4000).round().astype(int),
            "wage": np.where(rng.random(4000) < 0.5, rng.gamma(4, 3, 4000).round(2), rng.gamma(4, 3, 4000).round()),
            "age": rng.normal(50, 10, 4000).round().astype(int),
            "children": rng.exponential(4, 4000).astype(int),
        }
    )
    draft = gl.data.draft_schema(frame)
    proposed = {column.name: column.heaping for column in draft.schema.columns}
    assert proposed == {"cigarettes": (10,), "pressure": (2,), "wage": (1.0,), "age": (), "children": ()}
    assert "heaping = [10]  # read from the data" in draft.to_toml()


def test_a_column_that_looks_like_an_id_of_several_rows_is_proposed_as_the_person():
    frame = visits(60, 300).with_columns(visit_nr=pl.int_range(300), clinic_id=pl.int_range(300) % 30)
    draft = gl.data.draft_schema(frame)
    assert draft.schema.person == ("patient_id",)
    assert draft.schema.rows_per_person is None  # to be chosen, not read from the data
    assert draft.schema.names == ("age", "sex", "pressure")
    assert draft.left_out["clinic_id"] == "looks like an id of 30 persons"
    (line,) = (line for line in draft.to_toml().splitlines() if line.startswith("person"))
    assert line.startswith(
        'person = "patient_id"  # looks like the id of persons with several rows: add rows_per_person'
    )


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("children_number", [*range(30)] * 4),  # no name of an id
        ("patient_id", [*range(20)] * 4),  # few different ones
        ("patient_id", [*range(90)]),  # one row each
        ("patient_id", [value + 0.5 for value in range(30)] * 4),  # numbers that are not whole
    ],
)
def test_other_columns_are_not_proposed_as_the_person(name, cells):
    age = [20 + place % 50 for place in range(len(cells))]
    assert gl.data.draft_schema(pl.DataFrame({name: cells, "age": age})).schema.person == ()


def test_an_id_in_text_and_one_that_is_often_missing_are_proposed():
    ids = [f"P{place % 25:03}" if place % 3 else "NA" for place in range(200)]
    draft = gl.data.draft_schema(pl.DataFrame({"subject": ids, "age": [20 + place % 50 for place in range(200)]}))
    assert draft.schema.person == ("subject",)


def test_answers_that_may_be_gaps_or_the_same_are_named(tmp_path):
    rows = [("ja", "m"), ("nein", "M"), ("weiß nicht", "f"), ("ja", "f")]
    frame = pl.DataFrame(rows, schema=["smoker", "sex"], orient="row")
    doubts = gl.data.draft_schema(frame).doubts
    assert doubts["smoker"] == ["drafted as answers, perhaps gaps: weiß nicht; if so, move them from levels to missing"]
    assert doubts["sex"][0].startswith("only capital letters differ: M, m;")
