"""A difference in a schema: its two columns, its gaps, its file, and what is refused."""

import pytest

import gapless as gl
from gapless.errors import SchemaError
from gapless.schema import Schema
from gapless.schema.difference import difference_of

COUNTED = {"bounds": (0, 9)}
YEARS = ("2020-01-01", "2024-12-31")
ADMISSION, DISCHARGE = gl.Date("admission", bounds=YEARS), gl.Date("discharge", bounds=YEARS)
STAYS = """\
[table]
name = "stays"

[column.discharge]
kind = "date"
bounds = [2020-01-01, 2025-12-31]
format = "%d.%m.%Y"
may_be_missing = true
missing = ["NA", { code = "", kind = "refused" }, { code = "still in", kind = "not-applicable" }]

[column.length_of_stay]
kind = "integer"
bounds = [0, 365]
bins = "learned"
difference = "discharge - admission"
may_be_missing = true

[column.sex]
kind = "boolean"

[column.admission]
kind = "date"
bounds = [2020-01-01, 2024-12-31]
may_be_missing = true
"""


def stay(**keys):
    return gl.Integer("length_of_stay", **{"bounds": (0, 365), "difference": "discharge - admission", **keys})


def test_a_difference_is_modelled_in_place_of_the_column_that_follows_from_it():
    schema = gl.Schema("stays", [ADMISSION, DISCHARGE, gl.Boolean("sex"), stay()])
    assert schema.names == ("admission", "length_of_stay", "sex")
    assert schema.file_names == ("admission", "discharge", "sex")
    assert difference_of(schema["length_of_stay"]).subtrahend == "admission"
    assert str(difference_of(schema["length_of_stay"])) == "discharge - admission"
    assert difference_of(schema["sex"]) is None


def test_a_file_declares_all_three_and_comes_back_unchanged():
    schema = Schema.from_toml(STAYS)
    assert schema.to_toml() == STAYS
    assert Schema.from_toml(schema.to_toml()) == schema
    assert Schema.from_toml(schema.finest.to_toml()).finest == schema.finest


def test_it_has_the_states_of_the_column_that_follows_from_it():
    schema = Schema.from_toml(STAYS)
    minuend = difference_of(schema["length_of_stay"]).minuend
    assert minuend.gaps == schema["length_of_stay"].gaps == ("unknown", "refused")
    assert schema["length_of_stay"].cells[-3:] == minuend.cells[-3:] == ("not applicable", "unknown", "refused")
    filled = schema.with_columns({"length_of_stay": schema["length_of_stay"].without_gaps()})
    assert difference_of(filled["length_of_stay"]).minuend.may_be_missing  # where the admission is missing
    filled = filled.with_columns({"admission": schema["admission"].without_gaps()})
    assert not difference_of(filled["length_of_stay"]).minuend.may_be_missing


def test_it_has_no_rule_for_gaps_of_single_cells():
    """So a release that reads it counts on every row in figures for the complete data."""
    assert set(Schema.from_toml(STAYS).gap_rules) == {"sex", "admission"}


def test_without_its_second_column_it_is_a_column_like_others():
    schema = Schema.from_toml(STAYS)
    alone = schema.select(["length_of_stay", "sex"])
    assert alone.file_names == alone.names
    assert alone["length_of_stay"].cells == schema["length_of_stay"].cells
    assert Schema.from_toml(alone.to_toml()) == alone
    assert schema.select(["admission", "length_of_stay"]).file_names == ("admission", "discharge")


def test_a_name_may_contain_a_minus():
    first, second = gl.Integer("a-b", bounds=(0, 9)), gl.Integer("c - d", bounds=(0, 9))
    schema = gl.Schema("t", [first, second, gl.Integer("left", bounds=(0, 9), difference="c - d-a-b")])
    assert schema.file_names == ("a-b", "c - d")


def test_two_differences_may_be_counted_from_one_column():
    surgery = gl.Date("surgery", bounds=YEARS)
    waited = gl.Integer("waited", bounds=(0, 30), difference="surgery - admission")
    schema = gl.Schema("stays", [ADMISSION, DISCHARGE, surgery, stay(), waited])
    assert schema.names == ("admission", "length_of_stay", "waited")


def test_a_column_that_follows_is_not_modelled():
    schema = Schema.from_toml(STAYS)
    with pytest.raises(SchemaError) as caught:
        schema.positions(["discharge"])
    assert str(caught.value) == (
        "the column 'discharge' is not modelled: it follows from 'length_of_stay' and 'admission'\n"
        "  Try: use 'length_of_stay', which is discharge - admission"
    )
    with pytest.raises(SchemaError, match="'discharge' is declared and ignored"):
        Schema.from_toml(STAYS.replace('name = "stays"', 'name = "stays"\nignore = ["discharge"]'))
    with pytest.raises(SchemaError, match="'discharge' is declared twice"):
        gl.Schema("stays", [*schema.columns, DISCHARGE])


DATE = gl.Date("date", bounds=YEARS)
GAPPY = gl.Date("discharge", bounds=YEARS, may_be_missing=True)
REFUSED = {
    "no text": ([ADMISSION, DISCHARGE, stay(difference=3)], "has a difference that is not a text: 3"),
    "no minus": (
        [ADMISSION, DISCHARGE, stay(difference="discharge")],
        "difference = 'discharge', which is not two columns of the schema with a minus between them",
    ),
    "unknown": (
        [ADMISSION, DISCHARGE, stay(difference="discharge - arrival")],
        "with a minus between them, and no column is called 'arrival'",
    ),
    "itself": ([ADMISSION, DISCHARGE, stay(difference="discharge - discharge")], "but needs two other columns"),
    "ambiguous": (
        [*(gl.Integer(name, bounds=(0, 9)) for name in ("a", "b - c", "a - b", "c")), stay(difference="a - b - c")],
        "'a - b - c', which is not two columns",
    ),
    "levels": (
        [gl.Boolean("admission"), DISCHARGE, stay()],
        "column 'length_of_stay' is a difference, but 'admission' is boolean",
    ),
    "resolutions": (
        [gl.Date("admission", bounds=YEARS, resolution="month"), DISCHARGE, stay()],
        "of 'discharge' and 'admission', which have different resolutions",
    ),
    "dates and numbers": (
        [gl.Integer("admission", bounds=(0, 9)), DISCHARGE, stay()],
        "which are neither both numbers nor both dates",
    ),
    "days that are not whole": (
        [ADMISSION, DISCHARGE, gl.Number("stay", bounds=(0, 9), difference="discharge - admission")],
        "column 'stay' counts days, which are whole",
    ),
    "numbers without steps": (
        [*(gl.Number(name, bounds=(0, 9)) for name in "ab"), gl.Number("c", bounds=(0, 9), difference="a - b")],
        "of 'a' and 'b', but the three have no common resolution",
    ),
    "numbers with other steps": (
        [
            *(gl.Number(name, bounds=(0, 9), resolution=0.5) for name in "ab"),
            gl.Integer("c", bounds=(0, 9), difference="a - b"),
        ],
        "but the three have no common resolution",
    ),
    "missing codes": (
        [ADMISSION, GAPPY, stay(may_be_missing=True, missing=("NA",))],
        "has missing codes, but it is computed: its gaps are those of 'discharge'",
    ),
    "subtrahend that does not apply": (
        [gl.Date("admission", bounds=YEARS, missing=(gl.MissingCode("-", "not-applicable"),)), GAPPY, stay()],
        "is counted from 'admission', which may be not applicable",
    ),
    "gaps of the subtrahend": (
        [gl.Date("admission", bounds=YEARS, may_be_missing=True), DISCHARGE, stay()],
        "'discharge' is missing where 'admission' is, but may_be_missing is not true for it",
    ),
    "gaps of the difference": (
        [ADMISSION, DISCHARGE, stay(may_be_missing=True, outside="missing")],
        "'discharge' is missing where 'length_of_stay' is, but may_be_missing is not true for it",
    ),
    "later than its bounds": (
        [ADMISSION, DISCHARGE, stay(bounds=(1, 365))],
        r"'discharge' would be at least 2025-01-01 where 'admission' is 2024-12-31, but its bounds are \[2020",
    ),
    "earlier than its bounds": (
        [ADMISSION, gl.Date("discharge", bounds=("2022-01-01", "2024-12-31")), stay()],
        "'discharge' would be at most 2020-12-31 where 'admission' is 2020-01-01, but its bounds are",
    ),
    "chain": (
        [ADMISSION, DISCHARGE, DATE, stay(), gl.Integer("x", **COUNTED, difference="date - discharge")],
        "'discharge' follows from the difference 'length_of_stay', so it cannot be in another",
    ),
    "two differences": (
        [ADMISSION, DISCHARGE, DATE, stay(), gl.Integer("x", **COUNTED, difference="discharge - date")],
        "'discharge' follows from the difference 'length_of_stay', so it cannot be in another",
    ),
    "difference of a difference": (
        [
            *(ADMISSION, DISCHARGE, stay(), gl.Integer("x", **COUNTED)),
            gl.Integer("y", **COUNTED, difference="length_of_stay - x"),
        ],
        "'length_of_stay' is a difference, so another cannot be computed from it",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name):
    columns, message = REFUSED[name]
    with pytest.raises(SchemaError, match=message):
        gl.Schema("stays", columns)
