"""Where a changed schema takes other cells of a column for gaps, the column has another digest: a ledger notices."""

import polars as pl
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gapless import Boolean, Categorical, Date, DateTime, Integer, MissingCode, Number, Ordinal
from gapless.data.encode import encode
from gapless.errors import ReadError, SchemaError
from gapless.schema import Schema

TEXTS = ["", "-8", "-8.0", "NA", "na", "0", "1", "2.5", "3", "10", "yes", "true", "T", "a", "b", "2000-01-01", "?"]
TEXTS += ["2000-06-30", "2001-01-01", "2000-01-01 12:30", "1999-12-31"]
CODES = [MissingCode(code, kind) for code in ("", "-8", "NA", "?") for kind in ("unknown", "refused", "not-applicable")]
FACTS = {
    "kind": st.sampled_from([Categorical, Ordinal, Boolean, Integer, Number, Date, DateTime]),
    "may_be_missing": st.sampled_from([True, True, True, False]),
    "missing": st.lists(st.sampled_from(CODES), max_size=2, unique_by=lambda code: code.code).map(tuple),
    "outside": st.sampled_from([None, "clamp", "missing", "refuse"]),
    "levels": st.lists(st.sampled_from(["a", "b", "yes", "-8", 1, "3"]), min_size=1, unique=True).map(tuple),
    "bounds": st.sampled_from([(0, 3), (0, 10), (-9, 3)]),
    "days": st.sampled_from([("2000-01-01", "2000-06-30"), ("2000-01-01", "2001-01-01"), ("1999-12-31", "2001-01-01")]),
    "resolution": st.sampled_from(["day", "month", "year"]),
    "bins": st.sampled_from([None, 1]),
    "description": st.sampled_from(["", "in years"]),
}
NO_GAPS = ("bins", "description")  # what makes no cell a gap


def column(facts):
    """The column that these facts describe, those that its kind does not have left out; None if they contradict."""
    facts = facts | ({"bounds": facts["days"]} if facts["kind"] in (Date, DateTime) else {})
    kept = (*facts["kind"].own_keys, "may_be_missing", "missing", "outside", "description")
    try:
        return facts["kind"]("x", **{key: facts[key] for key in kept if key in facts})
    except SchemaError:
        return None


def gaps(column):
    """Which cells are gaps, each in a table of its own; None for those that are refused."""
    found = []
    for text in TEXTS:
        try:
            (codes,) = encode([pl.DataFrame({"x": [text]})], Schema("t", [column])).columns
        except ReadError:
            found.append(None)
        else:
            found.append(bool(codes[0] >= column.size))
    return found


@pytest.mark.parametrize("fact", FACTS)
@settings(max_examples=25, deadline=None)
@given(facts=st.fixed_dictionaries(FACTS), data=st.data())
def test_other_gaps_are_another_digest(fact, facts, data):
    one, other = column(facts), column(facts | {fact: data.draw(FACTS[fact])})
    assume(one is not None and other is not None)
    if gaps(one) != gaps(other):
        assert one.gap_rule.digest != other.gap_rule.digest
    if fact in NO_GAPS:
        assert one.gap_rule == other.gap_rule


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
        ({"kind": Categorical, "missing": (CODES[3],)}, {"missing": (CODES[5],)}),  # a gap, or not applicable
    ],
)
def test_each_fact_that_decides_is_in_the_digest(facts, others):
    one, other = column(BASE | facts), column(BASE | facts | others)
    assert gaps(one) != gaps(other)
    assert one.gap_rule.digest != other.gap_rule.digest


@settings(deadline=None)
@given(facts=st.fixed_dictionaries(FACTS))
def test_the_order_of_codes_and_levels_does_not_matter(facts):
    one = column(facts)
    other = column(facts | {"missing": facts["missing"][::-1], "levels": facts["levels"][::-1]})
    assert (one is None) == (other is None)
    if one is not None:
        assert one.gap_rule.digest == other.gap_rule.digest
