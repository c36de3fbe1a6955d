"""What each kind of codebook gives, and what is asked."""

import json

import polars as pl
import pytest

import gapless as gl
from gapless.constraints.rules import rules_of
from gapless.errors import ReadError, SchemaError
from gapless.schema.codebooks import read_codebook
from gapless.schema.codebooks.codebook import UNKNOWN_NUMBERS, needs_bounds
from gapless.schema.gap_codes import MissingCode, MissingRange
from helpers.codebooks import CODES, CSVW, DDI, EXAMPLES, PACKAGE, REDCAP, REDCAP_HEADER, TABLE_SCHEMA
from helpers.workbooks import workbook


@pytest.fixture
def read(tmp_path):
    """Read a codebook that is given as a text."""

    def read(text, name="codebook.csv", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_codebook(path, **options)

    return read


def asked_of(codebook, column):
    return [question.text for question in codebook.questions if question.column == column]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_schema_file_of_a_codebook_has_the_same_schema(read, name):
    found = read(EXAMPLES[name], name)
    assert gl.Schema.from_toml(found.to_toml()) == found.schema
    assert {column.origin for column in found.schema.columns} <= {"codebook", "proposed"}


# ---------------------------------------------------------------------- REDCap


def test_a_redcap_dictionary(read):
    found = read(REDCAP)
    schema = found.schema
    assert schema.person == ("record_id",)
    assert {"full_name", "story", "base_complete", "redcap_event_name"} <= set(schema.ignore)
    assert schema["age"].bounds == (18, 99)
    assert schema["smoker"].levels == (0, 1)
    assert schema["smoker"].missing == (MissingCode("9", "dont-know", "Don't know"),)
    assert [name for name in schema.names if name.startswith("meds")] == ["meds___1", "meds___2", "meds____9"]
    assert schema["meds___1"].kind == "boolean"
    assert schema["dose"].resolution == 0.1
    assert schema["mood"].bounds == (0, 100)
    assert schema["bmi"].origin == "proposed"
    assert schema["born"].origin == "proposed"
    assert schema["cigs"].not_applicable == ""
    assert not schema["cigs"].gaps
    assert schema["cigs"].missing[0].kind == "not-asked"


def test_a_gap_among_choices_is_asked_about(read):
    found = read(REDCAP + 'vote,base,,radio,Vote,"1, Yes | 2, No | 9, Don\'t know/Refused",,,,,,,\n')
    assert found.schema["vote"].levels == (1, 2)
    assert found.schema["vote"].missing == (MissingCode("9", "dont-know", "Don't know/Refused"),)
    assert asked_of(found, "vote") == ["""labels show that these codes are gaps: 9 "Don't know/Refused\""""]


def test_branching_logic_becomes_rules_or_one_line(read):
    found = read(REDCAP)
    assert [rule.forbidden for rule in found.schema.constraints] == [
        "t1.smoker != '1' and t1.cigs == t1.cigs",
        "t1.meds___1 != true and t1.dose == t1.dose",
        "t1.age < 30 and t1.smoker != '1' and t1.dose == t1.dose",
    ]
    assert len(rules_of(found.schema)) == 3
    assert any("its branching logic is not translated" in text for text in asked_of(found, "preg"))


def test_a_rule_of_branching_forbids_values_and_not_empty_cells(read, tmp_path):
    schema = read(REDCAP).schema.select(["smoker", "cigs"])
    rules = [rule for rule in read(REDCAP).schema.constraints if "cigs" in rule.forbidden]
    schema = gl.Schema("t", schema.columns, constraints=rules)
    frame = pl.DataFrame({"smoker": ["0", "0", "1", "9", "1"], "cigs": ["", "5", "5", "5", ""]})
    found = gl.missing.check(frame, schema)
    assert [broken.rows for broken in found.broken] == [1]


@pytest.mark.parametrize(
    ("logic", "rules"),
    [
        ("[smoker] = '1' or [age] > 50", ["t1.age <= 50 and t1.smoker != '1' and t1.x == t1.x"]),
        ("[smoker] <> '1'", ["t1.smoker == '1' and t1.x == t1.x"]),
        ("[meds(2)] = '0'", ["t1.meds___2 != false and t1.x == t1.x"]),
        ("([age]>=20 and [age]<30)", ["t1.age < 20 and t1.x == t1.x", "t1.age >= 30 and t1.x == t1.x"]),
        ("[smoker] = ''", []),
        ("[smoker] = '7'", []),
        ("[smoker] > '0'", []),
        ("datediff([born], 'today', 'y') > 3", []),
        ("[age] > [dose]", []),
        ("[age] >", []),
        ("((((", []),
        ("(" * 5000, []),
        ("[age] > 3)", []),
        ("[nothing] = '1'", []),
        (" or ".join(["([age] > 20 and [dose] > 3)"] * 6), []),
    ],
)
def test_logic_is_translated_exactly_or_not_at_all(read, logic, rules):
    found = read(REDCAP + f'x,base,,text,X,,,integer,0,9,,"{logic}",\n')
    assert [rule.forbidden for rule in found.schema.constraints if "t1.x" in rule.forbidden] == rules
    assert any("branching logic is not translated" in text for text in asked_of(found, "x")) is not bool(rules)


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ("a,f,,radio,A,,,,,,,,", "row 3 of codebook.csv has no choices for 'a'"),
        ("a,f,,radio,A,1 Yes,,,,,,,", "has the choice '1 Yes' of 'a'"),
        ('a,f,,radio,A,"1, Yes | 1, No",,,,,,,', "has two labels for the code '1' of column 'a': 'Yes' and 'No'"),
        ("a,f,,mystery,A,,,,,,,,", "has an unknown field type 'mystery'"),
        ("a,f,,text,A,,,integer,ten,,,,", "has the validation limit 'ten' of 'a'"),
        ("a,f,,text,A,,,integer,10,1,,,", "gives 'a' a lowest value, 10, above the highest, 1"),
        (",f,,text,A,,,integer,10,1,,,", "has no field name"),
    ],
)
def test_a_malformed_dictionary_is_refused_with_its_row(read, row, wrong):
    with pytest.raises(SchemaError) as caught:
        read(REDCAP_HEADER + "record_id,f,,text,ID,,,,,,,,\n" + row + "\n")
    assert wrong in caught.value.message


# ---------------------------------------------------------------------- Table Schema, CSVW, DDI, tables of codes


def test_a_table_schema(read):
    found = read(PACKAGE, "p.json")
    schema = found.schema
    assert schema.name == "people"
    assert schema.ignore == ("id", "remarks")
    assert schema["sex"].labels == (("f", "Female"), ("m", "Male"))
    assert [(gap.code, gap.kind) for gap in schema["sex"].missing] == [("-9", "refused"), ("-7", "not-applicable")]
    assert (schema["age"].bounds, schema["age"].may_be_missing, schema["age"].missing) == ((0, 110), False, ())
    assert (schema["school"].kind, schema["school"].levels) == ("ordinal", (1, 2, 3))
    assert (schema["x"].bounds, schema["x"].origin) == ((0, 100), "proposed")
    assert schema["seen"].bounds == ("2000-02-01", "2020-12-31")
    assert schema["smoker"].spelling == ("N", "J")


def test_a_package_with_several_tables_needs_a_choice(read):
    fields = {"fields": [{"name": "a", "type": "boolean"}]}
    both = json.dumps({"resources": [{"name": name, "schema": fields} for name in ("one", "two")]})
    with pytest.raises(SchemaError, match="describes 2 tables: one, two"):
        read(both, "p.json")
    assert read(both, "p.json", table="two").schema.name == "two"
    with pytest.raises(SchemaError, match="has no table 'three'"):
        read(both, "p.json", table="three")


def test_csvw(read):
    schema = read(CSVW, "m.json").schema
    assert (schema.name, schema.separator) == ("people", ";")
    assert schema["sex"].levels == ("f", "m")
    assert schema["age"].bounds == (0, 120)
    assert schema["smoker"].spelling == ("N", "Y")
    assert (schema["seen"].format, schema["seen"].may_be_missing) == ("%d.%m.%Y", False)
    assert schema["visits"].bounds == (0, 31)


def test_a_ddi_codebook_without_its_statistics(read):
    found = read(DDI, "d.xml")
    schema = found.schema
    assert schema.description == "A survey"
    assert schema["sex"].description == "Sex – What is your sex?"
    assert schema["sex"].missing == (MissingCode("9", "refused", "Refused"),)
    assert schema["age"].missing == (MissingRange(97, 99),)
    assert schema["age"].bounds == (0, 96)
    assert needs_bounds(schema["income"])
    assert schema["seen"].bounds == ("2000-01-01", "2010-12-31")
    assert schema.ignore == ("town",)
    assert "17" not in found.to_toml()


def test_a_table_of_codes(read):
    found = read(CODES)
    schema = found.schema
    assert schema["sex"].description == "Sex of the respondent"
    assert schema["sex"].missing == (MissingCode("9", "refused", "No answer"),)
    assert (schema["rating"].bounds, schema["rating"].bins, schema["rating"].origin) == ((1, 7), 7, "proposed")
    assert (schema["age"].bounds, schema["age"].origin) == ((0, 120), "codebook")
    assert (schema["pain"].kind, schema["pain"].bounds) == ("integer", (0, 10))
    assert asked_of(found, "pain") == ["bounds [0, 10] are proposed: only some values have labels"]


def test_an_abbreviation_is_a_gap_with_a_code_that_surveys_use_for_gaps(read):
    schema = read("column,code,label\nsex,1,Mann\n,2,Frau\n,9,k.A.\ngame,1,won\n,2,lost\n").schema
    assert schema["sex"].missing == (MissingCode("9", "refused", "k.A."),)
    assert schema["game"].levels == (1, 2)


@pytest.mark.parametrize(
    ("text", "wrong", "hint"),
    [
        ("column,code,label\nsex,1=male; 2=female,Sex\n", "has several codes of 'sex' in one cell", "one row for each"),
        ("Codebook of the study\n\ncolumn,code,label\n", "has no column called column", "into the first row"),
        ("id;age\n1;30\n", "has no column called column", "run `gapless schema draft`"),
    ],
)
def test_tables_of_another_form_are_refused(read, text, wrong, hint):
    with pytest.raises(SchemaError, match=wrong) as refused:
        read(text)
    assert hint in str(refused.value)


def test_a_workbook_is_a_table_of_codes(tmp_path):
    pytest.importorskip("fastexcel")
    rows = [line.split(",") for line in CODES.splitlines()]
    workbook(tmp_path / "c.xlsx", rows)
    from_sheet = read_codebook(tmp_path / "c.xlsx", table="t", name="codebook").schema
    (tmp_path / "codebook.csv").write_text(CODES)
    assert from_sheet == gl.Schema.from_codebook(tmp_path / "codebook.csv")
    with pytest.raises(SchemaError, match="has no table 'other'"):
        read_codebook(tmp_path / "c.xlsx", table="other")


# ---------------------------------------------------------------------- proposals and gaps


def codes(*rows):
    return "column,code,label,description,type\n" + "".join(f"{row}\n" for row in rows)


@pytest.mark.parametrize(
    ("row", "bounds"),
    [
        ("age,,,,integer", (0, 120)),
        ("share,,,Share in percent,number", (0, 100)),
        ("birthyear,,,Year of birth,integer", (1900, 2030)),
        ("month,,,,integer", (1, 12)),
        ("q,,,How well? On a scale from 1 to 9,integer", (1, 9)),
        ("hours,,,Hours worked per week,number", (0, 168)),
        ("pay,,,Income per month,number", UNKNOWN_NUMBERS),
        ("wage,,,Income of last year,number", UNKNOWN_NUMBERS),
    ],
)
def test_bounds_are_proposed_by_public_reasoning_or_not_known(read, row, bounds):
    (column,) = read(codes(row)).schema.columns
    assert (column.bounds, column.origin) == (bounds, "proposed")


def test_bounds_leave_out_missing_codes(read):
    (column,) = read(codes("age,98,Refused,Age,integer", ",99,Don't know,,")).schema.columns
    assert column.bounds == (0, 97)
    assert [gap.kind for gap in column.missing] == ["refused", "dont-know"]


def test_eighty_alike_are_one_line_and_one_entry(read):
    rows = [row for n in range(1, 81) for row in (f"q{n:02d},1,Yes,,", ",2,No,,", ",-9,Refused,,")]
    found = read(codes(*rows))
    assert '[column."q01..q80"]' in found.to_toml()
    assert "q01..q80: labels show that these codes are gaps: -9 'Refused'" in found.asked
    assert len(found.asked) == 2


def test_answers_that_look_ordered_are_proposed_as_ordinal(read):
    (column,) = read(codes("q,1,Never,,", ",2,Sometimes,,", ",3,Often,,", ",8,Inapplicable,,")).schema.columns
    assert (column.kind, column.origin, column.not_applicable) == ("ordinal", "proposed", "8")


def test_codes_with_leading_zeros_stay_texts(read):
    (column,) = read(codes("area,01,North,,", ",02,South,,")).schema.columns
    assert column.levels == ("01", "02")


def test_ids_are_not_modelled(read):
    found = read(codes("patient_id,,,,integer", "hh_id,,,,integer", "smoker,1,Yes,,", ",0,No,,"))
    assert (found.schema.person, found.schema.ignore) == (("patient_id",), ("hh_id",))
    assert found.schema.rows_per_person is None


def test_nothing_is_released_before_proposals_are_confirmed(read, tmp_path):
    schema = read(codes("age,,,,integer")).schema
    frame = pl.DataFrame({"age": [3, 4]})
    budget = gl.Budget(epsilon=1, delta=1e-6)
    with pytest.raises(SchemaError, match="not confirmed: proposed for 'age'"):
        gl.read(frame, schema, protect=gl.Rows(1), ledger=tmp_path / "t.ledger", budget=budget)


@pytest.mark.parametrize("name", ["c.pdf", "c", "c.sas7bcat"])
def test_other_files_are_refused(read, name):
    with pytest.raises(ReadError, match="is not a codebook of a known kind"):
        read("x", name)


@pytest.mark.parametrize("name", ["c.csv", "c.xml", "c.json", "c.sav"])
def test_a_file_that_does_not_exist_is_named(tmp_path, name):
    with pytest.raises(ReadError, match="no file"):
        read_codebook(tmp_path / name)


def test_a_table_schema_alone_is_named_after_its_file(read):
    assert read(json.dumps(TABLE_SCHEMA), "people.json").schema.name == "people"


def test_a_codebook_from_a_catalogue_and_markup_in_labels(read):
    wrapped = DDI.replace('<?xml version="1.0"?>\n', "<OAI><record>") + "</record></OAI>"
    assert read(wrapped, "d.xml").schema == read(DDI, "d.xml").schema
    row = 'place,base,,radio,"PLACE <div style=""x:y"">of <b>care</b></div>","1, <i>Urban</i> | 2, Rural",,,,,,,\n'
    column = read(REDCAP + row).schema["place"]
    assert (column.description, column.labels) == ("PLACE of care", (("1", "Urban"), ("2", "Rural")))


def test_a_missing_code_of_zero_leaves_unknown_bounds_unknown(read):
    """Found by trial: bounds [-8, -1], between the codes -9 and 0, were proposed, and could be confirmed."""
    fields = [{"name": name, "type": kind} for name, kind in (("income", "number"), ("visits", "integer"))]
    columns = read(json.dumps({"fields": fields, "missingValues": ["-9", "0"]}), "t.json").schema.columns
    assert [column.bounds[0] for column in columns] == [1, 1]
    assert all(map(needs_bounds, columns))


def test_a_number_beside_a_range_that_excludes_it_is_no_gap(read):
    """What was found: `minExclusive="96"` made 96 a gap."""
    span = '<range minExclusive="96" max="99"/></invalrng><invalrng><range min="-9" maxExclusive="-1"/>'
    (column,) = [
        c for c in read(DDI.replace('<range min="97" max="99"/>', span), "d.xml").schema.columns if c.name == "age"
    ]
    table = gl.Table.read(pl.DataFrame({"age": ["96", "97", "99", "-1", "-2"]}), gl.Schema("t", [column]))
    assert [code < column.size for code in table.codes[0]] == [True, False, False, True, False]


def test_a_single_value_that_is_left_within_proposed_bounds_is_proposed(read):
    text = "column,code,label,type,min,max,missing\na,,,integer,0,1,\n,1,Refused,,,,yes\nb,,,integer,0,5,\n"
    found = read(text).schema
    assert (type(found["a"]), found["a"].levels, found["a"].origin) == (gl.Categorical, (0,), "proposed")
