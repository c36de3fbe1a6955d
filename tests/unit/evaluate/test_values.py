"""Numbers and moments by their values: against pandas, numpy and scipy, under weights, with gaps."""

import datetime as dt

import numpy as np
import polars as pl
import pytest
from scipy import stats

import gapless as gl
from gapless.evaluate.values import PEARSON, SPEARMAN, column_values, compare_values, format_value
from gapless.schema import Categorical, Date, DateTime, Integer, Number, Schema
from gapless.schema.gap_codes import MissingCode

SCHEMA = Schema(
    "trips",
    [
        Number("fare", bounds=(-1e6, 1e6), may_be_missing=True, missing=[""]),
        Integer(
            "riders",
            bounds=(0, 50),
            may_be_missing=True,
            missing=["", MissingCode("none", kind="not-applicable")],
        ),
        Date("day", bounds=("2020-01-01", "2024-12-31"), may_be_missing=True, missing=[""]),
        DateTime("at", bounds=("2020-01-01T00:00:00", "2024-12-31T00:00:00"), resolution="minute"),
        Categorical("town", ["a", "b"]),
    ],
)


def trips(rows, seed, *, shift=0.0):
    rng = np.random.default_rng(seed)
    fare = rng.standard_t(4, rows) + shift
    riders = rng.poisson(2 + 3 * (fare > 0))
    days = rng.integers(0, 1500, rows)
    minutes = days * 1440 + rng.integers(0, 1440, rows)
    gaps = rng.random((3, rows)) < 0.1
    start = dt.date(2020, 1, 1)
    return pl.DataFrame(
        {
            "fare": [None if gap else float(value) for value, gap in zip(fare, gaps[0], strict=True)],
            "riders": [
                "" if gap else "none" if value > 8 else str(value) for value, gap in zip(riders, gaps[1], strict=True)
            ],
            "day": [
                None if gap else start + dt.timedelta(days=int(day)) for day, gap in zip(days, gaps[2], strict=True)
            ],
            "at": [dt.datetime(2020, 1, 1) + dt.timedelta(minutes=int(minute)) for minute in minutes],  # noqa: DTZ001 plain
            "town": rng.choice(["a", "b"], rows),
        }
    )


def found(differences, *columns):
    return {difference.measure: difference for difference in differences if difference.columns == columns}


def test_values_are_those_of_the_frame_and_moments_are_days():
    table = gl.Table.read(trips(50, 0), SCHEMA)
    values = column_values(table)
    assert list(values) == ["fare", "riders", "day", "at"]
    frame = table.to_pandas()
    np.testing.assert_allclose(values["fare"], frame["fare"])
    np.testing.assert_array_equal(values["riders"], frame["riders"].astype("float64").to_numpy(na_value=np.nan))
    days = (frame["day"] - np.datetime64("1970-01-01")).dt.days
    np.testing.assert_array_equal(values["day"], days)
    minutes = (frame["at"] - np.datetime64("1970-01-01")).dt.total_seconds() / 86400
    np.testing.assert_allclose(values["at"], minutes)


def test_every_number_is_that_of_numpy_scipy_and_pandas():
    truth, other = (gl.Table.read(trips(rows, rows, shift=shift), SCHEMA) for rows, shift in ((401, 0), (300, 0.5)))
    differences = compare_values(truth, other)
    frames = [table.to_pandas(nullable=False) for table in (truth, other)]
    fares = [frame["fare"].dropna() for frame in frames]
    for name in ("fare", "riders"):
        numbers = found(differences, name)
        seen = [frame[name].dropna().astype(float) for frame in frames]
        for measure, summary in (("mean", np.mean), ("standard deviation", np.std)):
            assert [numbers[measure].truth, numbers[measure].other] == pytest.approx([summary(part) for part in seen])
        for measure, share in (("10% quantile", 0.1), ("median", 0.5), ("90% quantile", 0.9)):
            quantiles = [np.quantile(part, share, method="averaged_inverted_cdf") for part in seen]
            assert [numbers[measure].truth, numbers[measure].other] == pytest.approx(quantiles)
        moved = stats.wasserstein_distance(*seen)
        assert numbers["Wasserstein distance"].other == pytest.approx(moved)
        assert numbers["Wasserstein distance"].error == pytest.approx(moved / np.std(seen[0]))
    assert found(differences, "fare")["mean"].error == pytest.approx(
        abs(fares[0].mean() - fares[1].mean()) / np.std(fares[0])
    )
    both = found(differences, "fare", "riders")
    for measure, method in ((PEARSON, "pearson"), (SPEARMAN, "spearman")):
        expected = [frame[["fare", "riders"]].astype(float).corr(method=method).iloc[0, 1] for frame in frames]
        assert [both[measure].truth, both[measure].other] == pytest.approx(expected)
        assert both[measure].error == pytest.approx(abs(expected[0] - expected[1]))
    assert found(differences, "town") == {}


def test_a_weight_of_two_counts_like_a_row_written_twice():
    truth_frame, other_frame = trips(200, 0), trips(150, 1)
    times = np.random.default_rng(2).integers(0, 3, 150)
    twice = gl.Table.read(other_frame[np.repeat(np.arange(150), times)], SCHEMA)
    truth = gl.Table.read(truth_frame, SCHEMA)
    weighted = compare_values(truth, gl.Table.read(other_frame, SCHEMA), weights=times)
    for left, right in zip(weighted, compare_values(truth, twice), strict=True):
        assert (left.columns, left.measure, left.cell) == (right.columns, right.measure, right.cell)
        assert [left.truth, left.other, left.error] == pytest.approx([right.truth, right.other, right.error])


def test_a_quantile_is_off_by_ranks_of_the_truth_and_ties_are_no_error():
    schema = Schema("votes", [Integer("votes", bounds=(0, 9999))])

    def votes(numbers):
        return gl.Table.read(pl.DataFrame({"votes": numbers}), schema)

    truth = votes([*range(98), 9000, 9001])
    off = found(compare_values(truth, votes([8000] * 10)), "votes")
    assert off["median"].error == pytest.approx(0.48)
    assert off["90% quantile"].error == pytest.approx(0.08)
    assert (off["median"].truth, off["median"].other) == (49.5, 8000)
    ties = found(compare_values(votes([0] * 51 + [1] * 49), votes([0] * 49 + [1] * 51)), "votes")
    assert ties["median"].error == pytest.approx(0.01)  # though the medians are 0 and 1
    assert ties["share"].error == pytest.approx(0.02)


def test_a_small_step_beside_a_frequent_value_is_a_small_error():
    """1,386 and 1,387 differ by a thousandth of what the values vary, but by a third of the ranks."""
    schema = Schema("size", [Integer("size", bounds=(0, 9999))])
    truth, fake = (
        gl.Table.read(pl.DataFrame({"size": [0] * 30 + [often] * 40 + [2000] * 30}), schema) for often in (1386, 1387)
    )
    off = found(compare_values(truth, fake), "size")
    assert off["median"].error == pytest.approx(1 / 2000)
    far = gl.Table.read(pl.DataFrame({"size": [0] * 30 + [1500] * 40 + [2000] * 30}), schema)
    assert found(compare_values(truth, far), "size")["median"].error == pytest.approx(0.2)


def test_the_share_of_a_frequent_value_is_compared_by_itself():
    schema = Schema("school", [Integer("educ", bounds=(0, 20))])
    truth = gl.Table.read(pl.DataFrame({"educ": [12] * 30 + [13] * 9 + [16] * 61}), schema)
    fake = gl.Table.read(pl.DataFrame({"educ": [12] * 19 + [13] * 19 + [16] * 62}), schema)
    share = found(compare_values(truth, fake), "educ")["share"]
    assert (share.cell, share.truth, share.other) == ("12", 0.3, 0.19)


def test_columns_without_values_or_without_spread():
    schema = Schema(
        "few", [Number("x", bounds=(0, 10), may_be_missing=True, missing=[""]), Number("y", bounds=(0, 10))]
    )

    def few(x, y):
        return gl.Table.read(pl.DataFrame({"x": x, "y": y}, schema={"x": pl.Float64, "y": pl.Float64}), schema)

    nothing, constant, some = few([None] * 3, [1, 2, 3]), few([5, 5, 5], [1, 2, 3]), few([4, 5, 6], [1, 2, 3])
    only = found(compare_values(some, nothing), "x")
    assert list(only) == ["mean"]
    assert (only["mean"].truth, only["mean"].other, only["mean"].error) == (5, None, 1.0)
    assert found(compare_values(nothing, nothing), "x") == {}
    assert found(compare_values(constant, some), "x", "y") == {}  # undefined where a column does not vary
    moved = found(compare_values(constant, some), "x")
    assert (moved["mean"].error, moved["standard deviation"].error) == (0, 1)
    assert compare_values(few([], []), few([], [])) == ()


def test_chance_is_what_second_samples_differ_by():
    """The mean over many pairs of samples is near `chance`, for heavy tails too; 300 pairs, within a fifth."""
    rng = np.random.default_rng(0)
    schema = Schema("pairs", [Number("x", bounds=(-1e6, 1e6)), Number("y", bounds=(-1e6, 1e6))])

    def sample(rows):
        x = rng.gamma(2, size=rows)
        return gl.Table.read(pl.DataFrame({"x": x, "y": x + rng.gamma(2, size=rows)}), schema)

    pairs = [compare_values(sample(400), sample(200)) for _ in range(300)]
    for differences in zip(*pairs, strict=True):
        error, chance = (np.mean([getattr(d, part) for d in differences]) for part in ("error", "chance"))
        assert 0.8 < error / chance < 1.2, differences[0]


def test_values_are_written_for_people():
    assert format_value(-4.0, "integer") == "-4"
    assert format_value(1234.56, "number") == "1,234.6"
    assert format_value(18262.75, "datetime") == "2020-01-01 18:00"
