"""Where a changed schema takes other cells of a column for gaps, the column has another digest: a ledger notices."""

import polars as pl
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from gapless import Boolean, Categorical, Date, DateTime, Integer, MissingCode, Number, Ordinal
from gapless.data.io.encode import encode
from gapless.errors import ReadError, SchemaError
from gapless.schema import Schema
from helpers.examples import examples

TEXTS = ["", "-8", "-8.0", "NA", "na", "0", "1", "2.5", "3", "10", "yes", "true", "T", "a", "b", "2000-01-01", "?"]
TEXTS += ["1,5", "2.5,0", "1.000", "1,000", "-8,0", "01.06.2000", "06/01/2000", "J", "N"]
TEXTS += ["2000-06-30", "2001-01-01", "2000-01-01 12:30", "1999-12-31"]
CODES = [MissingCode(code, kind) for code in ("", "-8", "NA", "?") for kind in ("unknown", "refused", "not-applicable")]
FACTS = {
    "kind": st.sampled_from([Categorical, Ordinal, Boolean, Integer, Number, Date, DateTime]),
    "may_be_missing": st.sampled_from([True, True, True, False]),
    "missing": st.lists(st.sampled_from(CODES), max_size=2, unique_by=lambda code: code.code).map(tuple),
    "outside": st.sampled_from([None, None, "clamp", "missing", "refuse", "other"]),
    "levels": st.lists(st.sampled_from(["a", "b", "yes", "-8", 1, "other"]), min_size=1, unique=True).map(tuple),
    "spelling": st.sampled_from([None, ("N", "J"), ("false", "true"), (1, 0)]),
    "decimal": st.sampled_from([".", ","]),
    "thousands": st.sampled_from(["", " "]),
    "format": st.sampled_from([None, "%d.%m.%Y", "%m/%d/%Y"]),
    "bounds": st.sampled_from([(0, 3), (0, 10), (-9, 3)]),
    "days": st.sampled_from([("2000-01-01", "2000-06-30"), ("2000-01-01", "2001-01-01"), ("1999-12-31", "2001-01-01")]),
    "resolution": st.sampled_from(["day", "month", "year"]),
    "step": st.sampled_from([None, 0.5]),
    "scale": st.sampled_from(["linear", "symlog"]),
    "bins": st.sampled_from([None, 1, "learned"]),
    "description": st.sampled_from(["", "in years"]),
}
NO_GAPS = ("bins", "step", "scale", "description")  # what makes no cell a gap


def column(facts):
    """The column that these facts describe, those that its kind does not have left out; None if they contradict."""
    on_calendar = facts["kind"] in (Date, DateTime)
    facts = facts | ({"bounds": facts["days"]} if on_calendar else {"resolution": facts.get("step")})
    kept = (*facts["kind"].extra_keys, "may_be_missing", "missing", "outside", "description")
    try:
        return facts["kind"]("x", **{key: facts[key] for key in kept if key in facts})
    except SchemaError:
        return None


def gaps(column):
    """Which cells are gaps; None for those that are refused."""
    schema = Schema("t", [column])
    try:
        return are_gaps(TEXTS, schema)
    except ReadError:  # one cell refuses the table: each gets its own
        return [gap_or_refused(text, schema) for text in TEXTS]


def are_gaps(texts, schema):
    (codes,) = encode([pl.DataFrame({"x": texts})], schema).columns
    return (codes >= schema["x"].size).tolist()


def gap_or_refused(text, schema):
    try:
        return are_gaps([text], schema)[0]
    except ReadError:
        return None


@pytest.mark.parametrize("fact", FACTS)
@examples(15)
@given(facts=st.fixed_dictionaries(FACTS), data=st.data())
def test_other_gaps_are_another_digest(fact, facts, data):
    first, other = column(facts), column(facts | {fact: data.draw(FACTS[fact])})
    assume(first is not None and other is not None)
    if gaps(first) != gaps(other):
        assert first.gap_rule.digest != other.gap_rule.digest
    if fact in NO_GAPS:
        assert first.gap_rule == other.gap_rule


BASE = {"may_be_missing": True, "missing": (), "outside": "missing", "levels": ("a", "b"), "bounds": (0, 3)}
BASE |= {"days": ("2000-01-01", "2000-06-30"), "resolution": "day"}


@pytest.mark.parametrize(
    ("facts", "others"),
    [
        ({"kind": Integer}, {"kind": Number}),
        ({"kind": Integer}, {"bounds": (0, 10)}),
        ({"kind": Categorical}, {"levels": ("a", "b", "yes")}),
        ({"kind": Categorical}, {"outside": "refuse"}),
        ({"kind": Number}, {"outside": "clamp"}),
        ({"kind": Date, "days": ("2000-06-30", "2001-01-01")}, {"resolution": "year"}),
        ({"kind": Integer, "outside": "clamp"}, {"missing": (MissingCode("-8"),)}),
        ({"kind": Categorical, "levels": ("a", "other")}, {"outside": "other"}),
        ({"kind": Boolean}, {"spelling": ("N", "J")}),
        ({"kind": Boolean}, {"spelling": ("false", "true")}),
        ({"kind": Number}, {"decimal": ","}),
        ({"kind": Number, "bounds": (0, 1000)}, {"thousands": ","}),
        ({"kind": Date}, {"format": "%d.%m.%Y"}),
        ({"kind": Date, "format": "%m/%d/%Y"}, {"format": "%d.%m.%Y"}),
        ({"kind": Categorical, "missing": (CODES[3],)}, {"missing": (CODES[5],)}),  # a gap, or not applicable
    ],
)
def test_each_fact_that_decides_is_in_the_digest(facts, others):
    first, other = column(BASE | facts), column(BASE | facts | others)
    assert gaps(first) != gaps(other)
    assert first.gap_rule.digest != other.gap_rule.digest


@pytest.mark.parametrize(
    "facts", [{"separator": ";"}, {"encoding": "latin-1"}, {"separator": ";", "encoding": "cp1252"}]
)
def test_how_a_file_is_read_is_in_the_digest_where_it_is_declared(facts):
    columns = [Integer("x", bounds=(0, 3)), Number("y", bounds=(0, 3), decimal=",")]
    assert Schema("t", columns).gap_rules == {column.name: column.gap_rule for column in columns}
    for name, rule in Schema("t", columns, **facts).gap_rules.items():
        plain = Schema("t", columns).gap_rules[name]
        assert rule.digest != plain.digest
        assert rule.description == plain.description


def test_digests_of_schemas_that_say_nothing_new_are_those_of_before():
    """Written by the version before files could be declared: ledgers of then still agree."""
    known = {
        Integer(
            "x", bounds=(0, 3), may_be_missing=True
        ): "e01a8cdd5683b7db258b467afc6f3c3997b0ab8cf285f91614e016054da043b4",
        Number(
            "x", bounds=(0, 3), outside="missing", may_be_missing=True
        ): "2286163b55838f3e69c355feb8f3d04aebbb0bd3fd1b1ce78db40fe87c656024",
        Boolean("x", may_be_missing=True): "17ed1e883e00c418f69d096eba366ea2719f5edb00cd48c3c75dbea3579a7d84",
        Date(
            "x", bounds=("2000-01-01", "2001-01-01"), may_be_missing=True
        ): "68e49fbecf632e77317217b4d915292cb68a5da1795b7617721ebc8b08a4b441",
        Categorical(
            "x", ["a", "b"], may_be_missing=True
        ): "2a8c9248dcb84a6d23b0e029a589a9de485d52cb8cab78060e521e041459febf",
    }
    for column, digest in known.items():
        assert column.gap_rule.digest == digest


@given(facts=st.fixed_dictionaries(FACTS))
def test_the_order_of_codes_and_levels_does_not_matter(facts):
    first = column(facts)
    other = column(facts | {"missing": facts["missing"][::-1], "levels": facts["levels"][::-1]})
    assert (first is None) == (other is None)
    if first is not None:
        assert first.gap_rule.digest == other.gap_rule.digest
