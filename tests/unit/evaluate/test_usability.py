"""The verdict on a release: bad releases are called bad, from released values, and good ones are not."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.usability import (
    GOOD,
    MOSTLY_NOISE,
    SENTENCES,
    SHARE_LIMITS,
    grade_of_column,
    grade_of_mean,
    hides_spread,
    mostly_missing_sentence,
    usability,
)
from gapless.evaluate.verdict import MEAN_LIMITS
from gapless.inference.precision import ColumnPrecision
from gapless.schema import Categorical, Integer, Number, Schema
from gapless.testing import fixed_noise
from gapless.testing.audit import private

AIR = Schema(
    "air",
    [
        Integer("Ozone", bounds=(1, 168), bins="learned", may_be_missing=True, missing=[""]),
        Integer("Solar", bounds=(7, 334), bins="learned", may_be_missing=True, missing=[""]),
        Number("Wind", bounds=(1.7, 20.7), resolution=0.1, bins="learned"),
        Integer("Temp", bounds=(56, 97), bins="learned"),
        Integer("Month", bounds=(5, 9)),
        Integer("Day", bounds=(1, 31), bins="learned"),
    ],
)


def air(rows):
    """A table like that of the air in New York in 1973: skewed, correlated, with gaps in two columns."""
    rng = np.random.default_rng(1)
    temp = np.clip(np.round(rng.normal(78, 9.5, rows)), 56, 97)
    wind = np.clip(np.round(10 - 0.17 * (temp - 78) + rng.normal(0, 3, rows), 1), 1.7, 20.7)
    ozone = np.clip(np.round(np.exp(3.4 + 0.06 * (temp - 78) + rng.normal(0, 0.5, rows))), 1, 168).astype(int)
    solar = np.clip(np.round(rng.normal(186, 90, rows)), 7, 334).astype(int)
    return pl.DataFrame(
        {
            "Ozone": [None if gap else int(value) for value, gap in zip(ozone, rng.random(rows) < 0.24, strict=True)],
            "Solar": [None if gap else int(value) for value, gap in zip(solar, rng.random(rows) < 0.045, strict=True)],
            "Wind": wind,
            "Temp": temp.astype(int),
            "Month": rng.integers(5, 10, rows),
            "Day": rng.integers(1, 32, rows),
        }
    ).cast(pl.String)


def visits(people):
    """Fourteen rows of each of some people, with twelve columns."""
    rng = np.random.default_rng(2)
    person = np.repeat(np.arange(people), 14)
    columns = {f"x{place}": rng.integers(0, 6, people)[person].astype(str) for place in range(12)}
    return pl.DataFrame(columns)


VISITS = Schema("visits", [Categorical(f"x{place}", [str(level) for level in range(6)]) for place in range(12)])


def large(rows):
    rng = np.random.default_rng(3)
    first = rng.integers(0, 4, rows)
    second = np.where(rng.random(rows) < 0.7, first, rng.integers(0, 4, rows))
    return pl.DataFrame({"a": first.astype(str), "b": second.astype(str), "n": (first * 10 + 5).astype(str)})


LARGE = Schema(
    "large",
    [
        Categorical("a", ["0", "1", "2", "3"]),
        Categorical("b", ["0", "1", "2", "3"]),
        Integer("n", bounds=(0, 39), bins=4),
    ],
)


def fitted(frame, schema, folder, method=None, budget=None, protect=1):
    table = private(frame, schema, folder, budget=budget or gl.Budget(1.0, 1e-6), protect=gl.Rows(protect))
    with fixed_noise(1):
        return (method or gl.Mixture()).fit(table, spend=table.ledger.left)


@pytest.fixture(scope="module")
def lost(tmp_path_factory):
    return fitted(air(153), AIR, tmp_path_factory.mktemp("air"), gl.Factors())


def test_153_rows_are_mostly_noise_and_columns_in_one_bin_are_named_as_lost(lost):
    judged = usability(lost)
    assert judged.verdict == "mostly noise"
    assert str(judged).startswith("Verdict: mostly noise. This release is mostly noise, and its rows are not for")
    assert "Ask two or three questions instead" in str(judged).partition("\n")[0]
    assert "larger ε" in str(judged).partition("\n")[0]
    (collapsed,) = [reason for reason in judged.reasons if reason.startswith("Lost, because noise left one bin")]
    for column in judged.columns:
        if column.is_collapsed:
            assert column.column.name in collapsed
            assert column.share_intervals() is None
            assert column.mean_interval() is None
    assert any(column.is_collapsed for column in judged.columns)
    assert not judged.usable_for
    assert {"regressions", "classifiers"} <= set(judged.not_for)
    for pair in judged.pairs:
        if any(judged.columns[place].is_collapsed for place in pair.columns):
            assert not pair.is_known


def test_69_rows_are_mostly_noise(tmp_path):
    assert usability(fitted(air(69), AIR, tmp_path, gl.Factors())).verdict == "mostly noise"


def test_900_people_with_14_rows_each_are_mostly_noise(tmp_path):
    judged = usability(fitted(visits(900), VISITS, tmp_path, gl.Factors(), protect=14))
    assert judged.verdict == "mostly noise"
    alone = usability(fitted(visits(900), VISITS, tmp_path, gl.Independent()))
    assert alone.verdict != "mostly noise"  # with one row of noise the same columns are known


def test_a_large_release_is_good(tmp_path):
    judged = usability(fitted(large(30_000), LARGE, tmp_path, budget=gl.Budget(3.0, 1e-6)))
    assert judged.verdict == "good"
    assert (judged.with_care, judged.not_for) == ((), ())
    assert any(use.startswith("associations (a × n, ") for use in judged.usable_for)  # the strongest first
    assert "group means (by a, by b)" in judged.usable_for
    assert "regressions" in judged.usable_for
    assert "classifiers" in judged.usable_for
    assert "A relation is certain in 3 of 3 measured pairs of columns." in judged.reasons


def test_a_release_without_measured_pairs_is_limited(tmp_path):
    judged = usability(fitted(large(30_000), LARGE, tmp_path, gl.Independent(), budget=gl.Budget(3.0, 1e-6)))
    assert judged.verdict == "limited"
    assert "relations of the 3 pairs that were not measured" in judged.not_for
    assert "regressions" in judged.not_for


def test_a_method_without_measurements_cannot_be_judged(tmp_path):
    model = fitted(large(3000), LARGE, tmp_path, gl.Independent())
    silent = replace(model, measurements=None)
    assert usability(silent).verdict == "cannot tell"
    assert "the method keeps no measurements of pairs" in usability(silent).sentence
    no_noise = replace(silent, facts=replace(model.facts, noise={}))
    judged = usability(no_noise)
    assert (judged.verdict, judged.usable_for, judged.with_care, judged.not_for) == ("cannot tell", (), (), ())
    drowned = replace(silent, facts=replace(model.facts, noise=dict.fromkeys(LARGE.names, 1e6)))
    assert usability(drowned).verdict == "mostly noise"


def test_a_column_that_is_mostly_missing_is_named_and_its_intervals_are_widened(tmp_path):
    schema = Schema("t", [Categorical("sex", ["f", "m"]), Categorical("cause", ["a", "b"], may_be_missing=True)])
    rng = np.random.default_rng(0)
    cause = [
        None if gap else "ab"[code] for gap, code in zip(rng.random(5000) < 0.8, rng.integers(0, 2, 5000), strict=True)
    ]
    frame = pl.DataFrame({"sex": rng.choice(["f", "m"], 5000), "cause": cause})
    judged = usability(fitted(frame, schema, tmp_path, gl.Independent(), budget=gl.Budget(3.0, 1e-6)))
    (reason,) = [reason for reason in judged.reasons if reason.startswith("Missing in most rows")]
    assert "cause (80%)" in reason or "cause (79%)" in reason or "cause (81%)" in reason
    assert 'kind = "not-applicable"' in reason
    assert mostly_missing_sentence(judged.columns) == reason
    assert mostly_missing_sentence(judged.columns[:1]) == ""
    assert "single columns (cause)" in judged.with_care
    for _, low, high in judged.columns[1].share_intervals():
        assert low < 0.15  # whatever the missing values are
        assert high > 0.8
    assert all(high - low < 0.1 for _, low, high in judged.columns[0].share_intervals())


COLUMN = ColumnPrecision(Categorical("x", ["a", "b"]), np.array([500.0, 500.0]), 1.0, 1000.0, 2**0.5, 1000.0)


@pytest.mark.parametrize(("limit", "better", "worse"), [("good", "good", "fair"), ("poor", "fair", "poor")])
def test_each_limit_divides_two_grades(limit, better, worse):
    noise_std = getattr(SHARE_LIMITS, limit) * 1000 / (np.sqrt(2 / np.pi) / 2 * np.sqrt(2))
    found = [grade_of_column(replace(COLUMN, noise_std=noise_std * times)) for times in (0.999, 1.001)]
    assert found == [better, worse]
    numbers = replace(COLUMN, column=Integer("x", bounds=(0, 1)), numbers=np.array([0.0, 1.0]))
    std = getattr(MEAN_LIMITS, limit) / 1.959964 * 0.5 * 1000 / np.sqrt(0.5)
    found = [grade_of_mean(replace(numbers, noise_std=std * times)) for times in (0.999, 1.001)]
    assert found == [better, worse]
    assert grade_of_mean(COLUMN) is None


@pytest.mark.parametrize(("noise_std", "grade"), [(1.0, "fair"), (0.001, "good")])
def test_noise_in_a_long_tail_does_not_make_a_mean_look_calm(noise_std, grade):
    """Nonnegative counts of the tail inflate the standard deviation: the error of the mean is a small share of it."""
    counts = np.append([4500.0, 4500.0], noise_std * np.resize([1.0, -1.0], 98))
    line = Integer("x", bounds=(0, 99), bins=100)
    column = ColumnPrecision(line, counts, noise_std, 9000.0, 10 * noise_std, 9000.0, numbers=np.arange(100.0))
    assert 1.96 * column.mean_std < MEAN_LIMITS.good
    assert hides_spread(column) == (grade == "fair")
    assert grade_of_column(column) == "good"
    assert grade_of_mean(column) == grade


def test_a_hidden_standard_deviation_is_not_usable_and_named(tmp_path):
    schema = Schema("t", [Integer("visits", bounds=(0, 275), bins="learned"), Integer("day", bounds=(1, 31))])
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {"visits": np.minimum(rng.geometric(0.7, 20_000) - 1, 275), "day": rng.integers(1, 32, 20_000)}
    )
    judged = usability(fitted(frame, schema, tmp_path, gl.Factors()))
    assert "standard deviations (visits)" in judged.not_for
    assert "means (day)" in judged.usable_for
    assert any(use.startswith("associations") for use in judged.usable_for)
    assert "regressions" in judged.with_care
    (reason,) = [reason for reason in judged.reasons if reason.startswith("Standard deviation hidden by noise")]
    assert reason.endswith("with care at best: visits.")


def test_what_has_no_interval_is_usable_with_care_at_best(tmp_path):
    """If gaps were not measured, pool has no interval for any column: the verdict calls nothing usable."""
    hidden = replace(COLUMN, column=Integer("x", bounds=(0, 1)), numbers=np.array([0.0, 1.0]))
    assert (grade_of_column(hidden), grade_of_mean(hidden)) == ("good", "good")
    hidden = replace(hidden, unsupported="noise hides the rows in which x is observed")
    assert (grade_of_column(hidden), grade_of_mean(hidden)) == ("fair", "fair")
    schema = LARGE.with_columns({"n": replace(LARGE["n"], may_be_missing=True)})
    model = fitted(large(30_000), schema, tmp_path, gl.MST(missing=gl.Observed()), budget=gl.Budget(10.0, 1e-6))
    assert usability(model).usable_for == ()
    assert "single columns (a, b, n)" in usability(model).with_care
    assert "No intervals, so usable with care at best: a, b, n." in usability(model).reasons
    for estimate in gl.pool(model.copies(2), gl.query.CrossTable("a")).estimates:
        assert estimate.interval is None


def test_limits_are_shares_and_every_level_has_a_sentence():
    assert 0 < MOSTLY_NOISE < GOOD < 1
    assert set(SENTENCES) == {"mostly noise", "limited", "good", "cannot tell"}


def test_the_verdict_as_plain_values(lost):
    judged = usability(lost)
    assert judged.to_dict() == {
        "verdict": "mostly noise",
        "reasons": list(judged.reasons),
        "usable_for": [],
        "with_care": list(judged.with_care),
        "not_for": list(judged.not_for),
    }
    assert [line.partition(":")[0] for line in str(judged).splitlines()[1:]] == ["  Not for"] or judged.with_care


def test_a_column_that_noise_left_two_bins_is_not_usable(tmp_path):
    """485 visits to a doctor, two learned bins: their counts are certain, and half of the rows move within them."""
    rng = np.random.default_rng(0)
    schema = Schema("visits", [Integer("visits", bounds=(0, 48), bins="learned"), Integer("children", bounds=(1, 9))])
    frame = pl.DataFrame({"visits": np.minimum(rng.geometric(0.4, 485) - 1, 48), "children": rng.integers(1, 10, 485)})
    with fixed_noise(0):
        people = private(frame, schema, tmp_path, budget=gl.Budget(0.8, 1e-6))
        model = gl.Factors().fit(people, spend=people.ledger.left)
    judged = usability(model)
    visits = judged.columns[0]
    assert 1 < visits.column.values_size < 6
    assert grade_of_column(visits) == "poor"
    assert visits.distance <= 1
    assert not any("visits" in use for use in judged.usable_for)
    several = replace(visits, levels=())  # as if its bins were declared
    assert grade_of_column(several) == "good"


def test_numbers_without_a_resolution_are_named(tmp_path):
    """A value that many rows share is spread over its cell."""
    rng = np.random.default_rng(4)
    frame = pl.DataFrame({name: rng.random(500).round(1) for name in ("tenths", "free")})
    schema = Schema("t", [Number("tenths", bounds=(0, 1), resolution=0.1), Number("free", bounds=(0, 1), bins=5)])
    reasons = usability(fitted(frame, schema, tmp_path)).reasons
    assert any(reason.endswith("would be spread over a small cell: free.") for reason in reasons)
