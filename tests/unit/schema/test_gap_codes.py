"""Kinds of gaps, ranges of missing numbers, labels, origins, and entries for many columns alike."""

import itertools
import tracemalloc

import polars as pl
import pytest

import gapless as gl
from gapless.errors import SchemaError
from gapless.schema.columns_toml import run_of

CODES = (
    gl.MissingRange(97, 99, "refused", "No answer"),
    gl.MissingCode(98, "dont-know", "Don't know"),
    gl.MissingCode(-1, "not-asked", "Not asked"),
    gl.MissingCode(-2, "not-applicable", "Inap."),
)
VISITS = gl.Integer("visits", bounds=(0, 50), may_be_missing=True, missing=CODES)


def schema_of(*columns):
    return gl.Schema("t", columns)


@pytest.mark.parametrize("dtype", [pl.Int64, pl.Float64, pl.String])
def test_a_range_makes_gaps_of_its_kind_and_a_code_within_has_its_own(dtype):
    cells = pl.Series([3, 97, 98, 99, 96, -1, -2, None]).cast(dtype)
    table = gl.Table.read(pl.DataFrame({"visits": cells}), schema_of(VISITS))
    names = [VISITS.cells[code] for code in table.codes[0]]
    assert names == [
        *("0..4", "refused", "dont-know", "refused", "45..50", "not applicable", "not applicable", "unknown"),
    ]


def test_structural_kinds_share_a_cell_that_is_never_imputed():
    assert VISITS.gaps == ("unknown", "refused", "dont-know")
    assert VISITS.not_applicable == "-1"
    assert VISITS.code_of_gap("not-asked") == VISITS.code_of_gap("not-applicable") < VISITS.size


def test_a_gap_of_a_range_is_written_as_a_number_of_the_range(tmp_path):
    table = gl.Table.read(pl.DataFrame({"visits": ["98", "99", "-2", "5"]}), schema_of(VISITS))
    table.write(tmp_path / "t.csv")
    again = gl.Table.read(tmp_path / "t.csv", schema_of(VISITS))
    assert again.codes[0].tolist() == table.codes[0].tolist()


@pytest.mark.parametrize(
    "column",
    [
        VISITS,
        gl.Number("x", bounds=(0, 1), may_be_missing=True, missing=(gl.MissingRange(float("-inf"), -1),)),
        gl.Categorical("a", [1, 2], labels={1: "Yes", "2": 'No "really"\n'}, origin="codebook"),
        gl.Ordinal("o", ["low", "high"], labels=[("low", "Low")], origin="proposed"),
        gl.Boolean("b", labels={False: "No", True: "Yes"}, origin="data"),
    ],
)
def test_the_file_has_codes_ranges_labels_and_origins(column):
    schema = schema_of(column)
    assert gl.Schema.from_toml(schema.to_toml()) == schema


def test_labels_kinds_of_structural_codes_and_origins_are_not_in_the_digest():
    plain = gl.Categorical("a", [1, 2], may_be_missing=True, missing=("-9", gl.MissingCode("-1", "not-applicable")))
    remarks = gl.Categorical(
        "a",
        [1, 2],
        labels={1: "Yes"},
        may_be_missing=True,
        missing=(gl.MissingCode("-9", label="?"), gl.MissingCode("-1", "not-asked")),
        origin="codebook",
        description="asked",
    )
    assert plain.gap_rule == remarks.gap_rule
    schema_of(plain).check_same_cells(schema_of(remarks))


def test_digests_of_schemas_without_ranges_are_those_of_before():
    column = gl.Categorical("sex", ["F", "M"], may_be_missing=True, missing=("NA", gl.MissingCode(-8, "refused")))
    assert column.gap_rule.digest == "bbeb7bb9e84763235d67bcb40e9e9790bbaf8b3eb195b2ad7040ad593b6dbe45"


def test_a_range_is_in_the_digest():
    digests = {
        gl.Integer("x", bounds=(0, 9), may_be_missing=True, missing=missing).gap_rule.digest
        for missing in (
            (),
            (gl.MissingRange(97, 98),),
            (gl.MissingRange(97, 99),),
            (gl.MissingRange(97, 99, "refused"),),
        )
    }
    assert len(digests) == 4


def wrong_bounds():
    return gl.Integer("x", bounds=(0, 98), may_be_missing=True, missing=(gl.MissingRange(97, 99),))


def overlapping():
    ranges = (gl.MissingRange(97, 99), gl.MissingRange(99, 100, "refused"))
    return gl.Integer("x", bounds=(0, 9), may_be_missing=True, missing=ranges)


@pytest.mark.parametrize(
    ("build", "wrong"),
    [
        (wrong_bounds, "column 'x' has the missing range 97 to 99, which overlaps its bounds [0, 98]"),
        (overlapping, "column 'x' has the missing ranges 97 to 99 and 99 to 100, which overlap"),
        (lambda: gl.MissingRange(9, 7), "the smaller first, got 9 and 7"),
        (lambda: gl.MissingRange(float("-inf"), float("inf")), "at least one finite end"),
        (lambda: gl.MissingRange(float("nan"), 1), "two numbers"),
        (lambda: gl.MissingRange("1", 2), "two numbers"),
        (lambda: gl.MissingCode(1, "mistake"), "kind must be one of"),
        (lambda: gl.MissingCode(1, label=3), "a label that is not a text"),
        (lambda: gl.Boolean("x", origin="guess"), "origin must be one of: codebook, typed, data, proposed"),
        (lambda: gl.Categorical("x", ["a"], labels={"b": "B"}), "a label for 'b', which is none of its levels"),
        (lambda: gl.Categorical("x", ["a"], labels=[("a", "A"), ("a", "B")]), "two labels for the level 'a'"),
        (lambda: gl.Categorical("x", ["a"], labels={"a": 3}), "a label that is not a text"),
        (
            lambda: gl.Categorical("x", ["a"], may_be_missing=True, missing=(gl.MissingRange(1, 2),)),
            "only numbers have ranges",
        ),
    ],
)
def test_errors_name_the_rule_and_the_value(build, wrong):
    with pytest.raises(gl.errors.SchemaError) as caught:
        build()
    assert wrong in caught.value.message


# ---------------------------------------------------------------------- many columns alike

RUN = """
[table]
name = "t"

[column."q01..q04"]
kind = "categorical"
levels = [1, 2]

[column.q03]
kind = "boolean"

[column."p1..p2"]
kind = "boolean"
literal = true
"""


def test_an_entry_declares_a_run_a_single_one_wins_and_a_literal_name_stays():
    schema = gl.Schema.from_toml(RUN)
    assert schema.names == ("q01", "q02", "q03", "q04", "p1..p2")
    assert [column.kind for column in schema.columns] == ["categorical"] * 2 + ["boolean", "categorical", "boolean"]
    assert gl.Schema.from_toml(schema.to_toml()) == schema


def test_columns_alike_are_written_as_a_run():
    names = [f"q{number:02d}" for number in range(1, 81)]
    schema = schema_of(gl.Boolean("age"), *(gl.Categorical(name, [1, 2]) for name in names), gl.Boolean("z"))
    assert schema.to_toml().count("[column.") == 3
    assert '[column."q01..q80"]' in schema.to_toml()
    assert gl.Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize("names", [*itertools.permutations(["a1", "a2", "a10", "a09"], 3), ["a1..a2"]])
def test_every_schema_of_numbered_columns_comes_back(names):
    names = [*names, *(f"b{number}" for number in range(7, 13)), *(f"c0{number}" for number in range(5, 12))]
    schema = schema_of(*map(gl.Boolean, names))
    assert gl.Schema.from_toml(schema.to_toml()) == schema


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("q80..q01", "the numbers must increase"),
        ("q01..q100", "the numbers must have equal widths"),
        ("q1..q99999", "more than 10000"),
    ],
)
def test_a_run_that_is_none_is_refused(name, wrong):
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        run_of(name)


def test_two_runs_with_a_common_column_are_refused():
    text = RUN.replace("q03", "q04..q06")
    with pytest.raises(gl.errors.SchemaError, match=r"declared by .*q01\.\.q04.* and .*q04\.\.q06"):
        gl.Schema.from_toml(text.replace("[column.q04..q06]", '[column."q04..q06"]'))


# ---------------------------------------------------------------------- origins


def test_an_old_draft_is_a_draft_column_by_column():
    text = '[table]\nname = "t"\nunchecked = true\n[column.a]\nkind = "boolean"\n'
    schema = gl.Schema.from_toml(text + '[column.b]\nkind = "boolean"\norigin = "typed"\n')
    assert [column.origin for column in schema.columns] == ["data", "typed"]


ORIGINS = pytest.mark.parametrize(
    ("origin", "wrong"), [("data", "read from the data for 'b'"), ("proposed", "proposed for 'b'")]
)


@ORIGINS
def test_bins_that_were_not_confirmed_are_refused_after_reading_too(tmp_path, origin, wrong):
    """What was found: `rebin` took edges that were read from the data."""
    schema = schema_of(gl.Integer("b", bounds=(0, 9), bins=10))
    budget = gl.Budget(epsilon=1, delta=1e-6)
    frame = pl.DataFrame({"b": [3, 7]})
    table = gl.read(frame, schema, protect=gl.Rows(1), ledger=tmp_path / "t.ledger", budget=budget)
    learned = schema_of(gl.Integer("b", bounds=(0, 9), edges=(0, 3, 7, 9), origin=origin))
    with pytest.raises(SchemaError, match=wrong):
        table.rebin(learned)
    assert table.rebin(learned.confirmed()).schema["b"].values_size == 3


def test_columns_of_different_origins_are_no_run():
    origins = ["typed", "typed", "data", "typed", "typed", "typed", "typed", "typed"]
    schema = schema_of(*(gl.Boolean(f"q{place}", origin=origin) for place, origin in enumerate(origins)))
    assert [column.origin for column in gl.Schema.from_toml(schema.to_toml()).columns] == origins


@ORIGINS
def test_unconfirmed_facts_stop_reading_and_confirmed_ones_do_not(tmp_path, origin, wrong):
    schema = schema_of(gl.Boolean("a", origin="codebook"), gl.Boolean("b", origin=origin))
    frame, ledger = pl.DataFrame({"a": [True], "b": [False]}), tmp_path / "t.ledger"
    budget = gl.Budget(epsilon=1, delta=1e-6)
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        gl.read(frame, schema, protect=gl.Rows(1), ledger=ledger, budget=budget)
    assert not ledger.exists()
    gl.read(frame, schema.confirmed(), protect=gl.Rows(1), ledger=ledger, budget=budget)


@pytest.mark.parametrize(
    ("missing", "texts"),
    [
        ((gl.MissingRange(97, 99, "not-asked"), gl.MissingCode(97, "refused")), ["98", "97"]),
        ((gl.MissingRange(97, 98, "not-asked"), *(gl.MissingCode(n, "refused") for n in (97, 98))), ["97.5"]),
        ((gl.MissingRange(float("-inf"), -1, "technical"), gl.MissingCode(-1, "refused")), ["-2", "-1"]),
        ((gl.MissingRange(97, 98, "refused"), gl.MissingCode(97, "refused", "Refused")), ["97", "97"]),
    ],
)
def test_a_gap_of_a_range_is_not_written_as_a_code_of_another_kind(tmp_path, missing, texts):
    """What was found: a cell that was not asked was written as 97, and read again as refused, which is imputed."""
    column = gl.Integer("x", bounds=(0, 9), bins=10, may_be_missing=True, missing=missing)
    assert [column.text_of(gap) for gap in missing][: len(texts)] == texts
    table = gl.Table.read(pl.DataFrame({"x": ["5", "97", "97.5", "98", "-1", "-3"]}), schema_of(column))
    table.write(tmp_path / "t.csv")
    assert gl.Table.read(tmp_path / "t.csv", schema_of(column)).codes[0].tolist() == table.codes[0].tolist()


def test_a_range_with_a_decimal_comma_is_written_as_it_is_read():
    missing = gl.MissingRange(97.25, 97.5)
    column = gl.Number("x", bounds=(0, 9), bins=3, may_be_missing=True, missing=[missing], decimal=",")
    assert column.text_of(missing) == "97,25"
    assert gl.Table.read(pl.DataFrame({"x": ["97,25"]}), schema_of(column)).codes[0].tolist() == [column.size]


def test_a_range_that_is_a_single_code_of_another_kind_is_refused():
    with pytest.raises(SchemaError, match="each number of the missing range 97 to 97 also as a code of another kind"):
        missing = [gl.MissingRange(97, 97), gl.MissingCode(97, "refused")]
        gl.Integer("x", bounds=(0, 9), may_be_missing=True, missing=missing)


def test_a_short_entry_for_many_columns_needs_little_memory():
    """What was found: an entry of 70 bytes took 12 GB, since each column kept its 60,000 cells."""
    text = '[table]\nname = "t"\n[column."q000..q399"]\nkind = "integer"\nbounds = [0, 60000]\nbins = "learned"\n'
    tracemalloc.start()
    schema = gl.Schema.from_toml(text)
    used = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(schema.columns) == 400
    assert used < 20_000_000  # 400 x 60,000 x 8 bytes are ten times as much


@pytest.mark.parametrize("name", ["1" * 100_000 + "x", "a" * 100_000, f"a{'0' * 100_000}..a{'9' * 100_000}"])
def test_long_names_are_no_runs_and_are_written(name):
    schema = schema_of(gl.Boolean(name), gl.Boolean("b"))
    assert gl.Schema.from_toml(schema.to_toml()) == schema


def test_bounds_that_are_too_close_are_refused():
    with pytest.raises(SchemaError, match=r"has bounds \[0, 5e-324\], which are less than 1e-290 apart"):
        gl.Number("x", bounds=(0, 5e-324), bins="learned")
