"""A draft looks at the data: it marks what it read, leaves out what it cannot use, and parses as a schema."""

import datetime as dt

import polars as pl
import pytest

import gapless as gl
from gapless.missing import check


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
    assert all(line.endswith("# read from the data") for line in lines)


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
        gl.errors.SchemaError, match="this schema is a draft: its levels and bounds were read from the data"
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
        "id": "its numbers are very large, such as identifiers",
    }
    assert gl.Schema.from_toml(draft.to_toml()) == draft.schema
    assert check(frame, draft.schema).refused == ()


def test_whole_numbers_that_differ_in_every_row_are_left_out():
    frame = pl.DataFrame({"id": range(1000, 1070), "n": [i % 69 for i in range(70)], "x": [i / 2 for i in range(70)]})
    draft = gl.data.draft_schema(frame)
    assert draft.left_out == {"id": "a different whole number in every row, such as an identifier"}


def test_a_word_on_numbers_that_are_drafted_as_levels():
    """As a level 9 is no nearer to 12 than to 20: whoever reads the draft must say whether that is meant."""
    frame = pl.DataFrame({"educ": [9, 12, 14, 20], "scale": [1, 2, 3, 4], "flag": [0, 1, 0, 1], "year": [2013] * 4})
    draft = gl.data.draft_schema(frame)
    assert {column.name for column in draft.schema.columns if column.kind == "categorical"} == {"educ", "flag", "year"}
    assert draft.remarks == {
        "educ": 'numbers taken for levels without order; if they count or measure, kind = "integer"'
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
            "count": [*range(40), 99],
            "high": [*range(960, 1000), 999],
            "one": [-1, *range(40)],
            "several": [*range(20), *range(18), -9, -99, 99],
        }
    )
    draft = gl.data.draft_schema(frame)
    assert draft.remarks == {
        "age": "999: taken for a gap",
        "hours": "-8: taken for a gap",
        "grade": 'numbers taken for levels without order; if they count or measure, kind = "integer"; '
        "9 looks like a code for a gap: missing = [9]?",
        "count": "99: taken for a gap",
        "one": "-1 looks like a code for a gap: missing = [-1]?",
        "several": "-99, -9, 99: taken for a gap",
    }
    assert draft.schema["age"].missing == (gl.MissingCode("999"),)
    assert draft.schema["several"].bounds == (0, 19)
    assert "bounds = [20, 59] # read from the data; 999: taken for a gap" in " ".join(draft.to_toml().split())
    assert gl.Schema.from_toml(draft.to_toml()) == draft.schema


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
    schema = gl.Schema.from_toml(gl.data.draft_schema(frame).to_toml().replace("unchecked = true\n", ""))
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
