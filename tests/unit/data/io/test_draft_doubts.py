"""What a draft says of the traps of real tables: one proposal and one line for each, and nothing of clean tables."""

import datetime as dt

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.io.draft_gaps import codes_among
from gapless.missing import check

N = 600
RNG = np.random.default_rng(5)
AGE = RNG.integers(0, 90, N)
X = RNG.gamma(3, 2, N).round(2).astype(str)
DAYS = [str(dt.date(2020, 1, 1) + dt.timedelta(days=int(day))) for day in RNG.integers(0, 900, N)]
SEX = RNG.choice(["F", "M"], N).tolist()
REGION = RNG.choice(["N", "S", "W"], N).tolist()
NOT_APPLICABLE = (gl.MissingCode("", "not-applicable"),)


def draft(**columns):
    frame = pl.DataFrame({name: list(cells) for name, cells in columns.items()})
    found = gl.data.draft_schema(frame)
    assert gl.Schema.from_toml(found.to_toml()) == found.schema
    assert check(frame, found.schema).refused == ()
    return found


def rarely(word, cells, every=40):
    return [word if place % every == 0 else str(cell) for place, cell in enumerate(cells)]


def test_eighty_items_with_codes_get_one_line_and_one_entry():
    items = {f"q{item:02}": RNG.choice([1, 2, -8, -9], 80, p=[0.4, 0.3, 0.1, 0.2]) for item in range(1, 81)}
    found = draft(**items)
    assert found.lines() == ["look at q01..q80: taken for gaps: -9, -8"]
    text = found.to_toml()
    assert text.count("[column.") == 1
    assert '[column."q01..q80"]' in text
    assert text.count("taken for gaps") == 1
    assert found.schema["q80"].levels == (1, 2)
    assert [code.code for code in found.schema["q80"].missing] == ["-9", "-8"]


def test_columns_that_differ_have_their_own_entries_and_comments():
    items = {f"q{item}": [1, 2, 1, 2, -9] * 4 for item in range(1, 12)} | {"q12": [1, 2, 3, 4] * 5}
    text = draft(**items).to_toml()
    assert '[column."q1..q11"]' in text
    assert "[column.q12]" in text


@pytest.mark.parametrize(
    ("numbers", "codes"),
    [
        ([1, 2, -8, -9], ["-9", "-8"]),
        ([1, -9], ["-9"]),
        ([1, 2, 3, -1, -2, -8, -9], ["-9", "-8", "-2", "-1"]),
        ([1, 2, 3, 4, 5, 97, 98, 99], ["97", "98", "99"]),
        ([*range(11), 66, 77, 88, 99], ["66", "77", "88", "99"]),
        ([0, 1, 7, 9], ["7", "9"]),
        ([1, 2, 3, 4, 5, 8, 9], ["8", "9"]),
        ([1, 2, 3, 4, 5, 7, 9], ["7", "9"]),
        ([0, 1, 2, 997, 998], ["997", "998"]),
        # values, or not certain
        ([1, 2, 9], []),
        ([1, 3, 5, 7, 9], []),
        ([1, 2, 3, 5, 7, 9], []),
        ([1, 2, 3, 4, 6, 8, 10], []),
        ([*range(10)], []),
        ([*range(1, 7), 8, 9], []),
        ([*range(-9, 10)], []),
        ([-1, 0, 1], []),
        ([1, 2, 3, 6], []),
        ([0, 1, 2, 30], []),
        ([1, 2, 96], []),
        ([*range(18, 100)], []),
    ],
)
def test_codes_among_a_few_answers(numbers, codes):
    assert codes_among(set(map(str, numbers))) == codes


def test_a_nine_is_a_code_if_several_columns_have_it():
    cells = [1, 2, 3, 9] * 10
    assert draft(a=cells, b=[0, 1, 2, 1] * 10).schema["a"].missing == ()
    assert draft(a=cells, b=cells, c=[1, 2, 2, 9] * 10).lines() == ["look at a, b, c: taken for gaps: 9"]


def test_codes_within_the_range_of_other_numbers_get_a_line_if_they_are_frequent():
    age = RNG.integers(18, 91, N)
    assert draft(age=[99 if place % 9 == 0 else value for place, value in enumerate(age)]).remarks == {
        "age": "in many rows, so perhaps codes for gaps: 99"
    }
    assert draft(age=np.minimum(RNG.normal(80, 9, N).round(), 100).astype(int)).remarks == {}


def test_rare_words_among_numbers_and_dates_are_gaps():
    found = draft(
        lab=rarely("n.b.", X),
        comma=rarely("n.b.", [x.replace(".", ",") for x in X]),
        limit=rarely("<0.5", X),
        refused=rarely("refused", X),
        day=rarely("0000-00-00", DAYS),
        open=rarely("offen", DAYS),
        far=rarely("9999-12-31", DAYS),
    )
    kinds = {
        column.name: (column.kind, *[(code.code, code.kind) for code in column.missing])
        for column in found.schema.columns
    }
    assert kinds == {
        "lab": ("number", ("n.b.", "unknown")),
        "comma": ("number", ("n.b.", "unknown")),
        "limit": ("number", ("<0.5", "unknown")),
        "refused": ("number", ("refused", "refused")),
        "day": ("date", ("0000-00-00", "unknown")),
        "open": ("date", ("offen", "unknown")),
        "far": ("date", ("9999-12-31", "unknown")),
    }
    assert found.lines()[:3] == [
        "look at lab, comma: not numbers or dates, so taken for gaps: n.b.",
        "look at limit: limits, taken for gaps: <0.5; write numbers in the data instead",
        "look at day: not numbers or dates, so taken for gaps: 0000-00-00",
    ]
    assert found.schema["comma"].decimal == ","


@pytest.mark.parametrize(
    "cells",
    [
        ["1", "2", "3", "K"] * 150,  # a grade: few numbers
        rarely("n.b.", X, every=3),  # not rare
        [word if place % 40 < 8 else x for place, (word, x) in enumerate(zip([*"abcdefgh"] * 75, X, strict=True))],
        rarely("V58", X),  # a code with a digit
    ],
)
def test_other_words_are_not_gaps(cells):
    frame = pl.DataFrame({"x": cells, "y": [1, 2] * 300})
    assert not any(column.missing for column in gl.data.draft_schema(frame, max_levels=N).schema.columns)


def test_few_different_numbers_have_bins_or_levels_of_their_own():
    schema = draft(
        count=np.minimum(RNG.poisson(4, N), 10),
        eleven=RNG.integers(0, 11, N),
        half=RNG.choice(np.arange(1, 5.5, 0.5), N),
        dose=RNG.choice([0.1, 0.25, 0.5, 1, 2.5], N),
        long=np.minimum(RNG.geometric(0.4, N), 60),
        x=RNG.random(N),
    ).schema
    assert schema["count"].cells == schema["eleven"].cells == tuple(map(str, range(11)))
    assert schema["half"].cells == ("1", "1.5", "2", "2.5", "3", "3.5", "4", "4.5", "5")
    assert (schema["dose"].kind, schema["dose"].levels) == ("ordinal", ("0.1", "0.25", "0.5", "1", "2.5"))
    assert schema["x"].bins == "learned"


def test_few_rows_are_no_reason_for_levels():
    assert draft(x=[0.1, 0.25, 0.5, 1, 2.5]).schema["x"].kind == "number"


def test_a_column_that_is_empty_by_a_rule_is_not_applicable_there():
    died = RNG.random(N) < 0.15
    found = draft(
        died=died.astype(int),
        age=AGE,
        cause=[("cancer", "heart")[place % 2] if dead else None for place, dead in enumerate(died)],
        death_age=[int(age) if dead else None for age, dead in zip(AGE, died, strict=True)],
        job=[("a", "b")[place % 2] if age >= 15 else None for place, age in enumerate(AGE)],
        sex=SEX,
        pregnant=[("yes", "no")[place % 2] if s == "F" and place % 7 else None for place, s in enumerate(SEX)],
    )
    assert found.lines() == [
        "look at cause, death_age: empty exactly where died is 0, so taken as not applicable",
        "look at job: empty exactly where age is below 15, so taken as not applicable",
        "look at pregnant: empty wherever sex is M, and in some other rows: write a code such as -1 into the data "
        'where the column does not apply, and declare this code with kind = "not-applicable"',
    ]
    for name in ("cause", "death_age", "job"):
        assert (found.schema[name].missing, found.schema[name].may_be_missing) == (NOT_APPLICABLE, False)
    assert found.schema["pregnant"].may_be_missing
    proposed = found.to_toml().replace("# [[", "[[").replace("# not =", "not =")
    rules = [rule.forbidden for rule in gl.Schema.from_toml(proposed).constraints]
    assert rules == [
        "t1.died == '0' and t1.cause == 'cancer'",
        "t1.died == '0' and t1.cause != 'cancer'",
        f"t1.died == '0' and t1.death_age >= {AGE[died].min()}",
        "t1.age < 15 and t1.job == 'a'",
        "t1.age < 15 and t1.job != 'a'",
    ]


def test_the_proposed_rules_hold_and_are_broken_by_a_value():
    died = [0, 1] * 50
    frame = pl.DataFrame(
        {"died": died, "cause": [("a", "b")[place % 4 == 1] if dead else "" for place, dead in enumerate(died)]}
    )
    found = gl.data.draft_schema(frame)
    schema = gl.Schema.from_toml(found.to_toml().replace("# [[", "[[").replace("# not =", "not ="))
    assert check(frame, schema).broken == ()
    wrong = frame.with_columns(cause=pl.when(pl.int_range(100) == 0).then(pl.lit("b")).otherwise("cause"))
    assert [broken.rows for broken in check(wrong, schema).broken] == [1]


def test_gaps_that_are_not_by_a_rule_stay_gaps():
    gaps = [None if chance < 0.8 else 1.5 * place for place, chance in enumerate(RNG.random(N))]
    found = draft(x=gaps, sex=SEX, age=AGE, region=REGION, few=[None] * (N - 5) + [1, 2, 3, 4, 5])
    assert found.schema["x"].may_be_missing
    share = f"{int(10 * (sum(gap is None for gap in gaps) / N)) * 10} % or more"
    assert (
        found.remarks["x"] == f"{share} of its cells are empty: if there is no value behind them, write not-applicable"
    )
    assert found.schema["few"].may_be_missing


def test_a_column_of_one_value_gets_a_line():
    found = draft(country=["DE"] * N, sex=SEX)
    assert found.lines() == [
        "look at country: it has only one value: add the column to ignore, or write all values that it can have"
    ]


def test_copies_of_rows_get_a_line_unless_equal_rows_are_likely():
    frame = pl.DataFrame({"age": AGE, "x": X, "day": DAYS, "sex": SEX, "nr": range(N)})
    copied = pl.concat([frame, frame[:7]]).with_columns(nr=pl.int_range(N + 7))
    (note,) = gl.data.draft_schema(copied).notes
    assert note.startswith("7 rows are copies of another row: remove them")
    assert note in gl.data.draft_schema(copied).to_toml()
    assert gl.data.draft_schema(frame).notes == []
    narrow = frame.select("age", "sex")
    assert narrow.n_unique() < N
    assert gl.data.draft_schema(narrow).notes == []


def test_numeric_ids_are_left_out_or_named():
    numbers = RNG.permutation(N)
    found = draft(
        number=numbers + 1,
        customer=numbers + 500_000,
        phone=RNG.integers(10**9, 10**10, N),
        gap=[None if place % 9 == 0 else 7000 + place for place in range(N)],
        panel=np.repeat(np.arange(N // 4), 4),
        nearly=[*(numbers[3:] + 100_000), 100_001, 100_002, 100_003],
        income=RNG.permutation(N) * 997 + 12,
        year=range(1500, 1500 + N),
        wave=[1, 2, 3, 4] * (N // 4),
    )
    assert [*found.left_out] == ["number", "customer", "phone", "gap"]
    assert found.remarks == {
        "panel": 'most of its numbers occur in 4 rows each: if it is the id of persons, write person = "panel"',
        "nearly": "nearly all its numbers differ: add the column to ignore if it identifies persons",
        "income": "a different number in every row: add the column to ignore if it identifies persons",
    }


def test_a_clean_table_gets_no_line():
    found = draft(
        age=AGE,
        sex=SEX,
        bmi=RNG.normal(25, 4, N).round(1),
        smoker=RNG.choice(["yes", "no"], N),
        region=[None if place % 11 == 0 else region for place, region in enumerate(REGION)],
        rating=RNG.integers(1, 6, N),
        visit=DAYS,
    )
    assert found.lines() == []


HOSTILE = (
    "a'b",
    'a"b',
    "a\nb",
    "rock and roll",
    "<script>",
    "\u202egnp",
    "=1+1",
    "t1.x == 1",
    "q01..q80",
    "# [x]",
    "a b",
)


@pytest.mark.parametrize("hostile", HOSTILE)
def test_names_and_levels_that_a_rule_cannot_name_break_nothing(hostile):
    decider = [hostile, "z"] * 50
    frame = pl.DataFrame({f"by {hostile}": decider, hostile: [None if cell == hostile else "v" for cell in decider]})
    found = gl.data.draft_schema(frame)
    assert found.schema[hostile].missing == NOT_APPLICABLE
    assert len(found.lines()) == 2  # also one for its only level
    text = found.to_toml()
    assert gl.Schema.from_toml(text) == found.schema
    schema = gl.Schema.from_toml(text.replace("# [[", "[[").replace("# not =", "not ="))
    assert len(schema.constraints) == len(found.constraints)
    assert check(frame, schema).broken == ()
