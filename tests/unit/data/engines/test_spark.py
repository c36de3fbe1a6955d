"""What is sql to Spark, as text: it needs no cluster to see that no cell makes a query fail."""

from gapless.data.engines.spark import SparkDialect
from gapless.data.engines.sql_encoding import DAY, FIRST, LAST


def test_the_ends_of_the_calendar_are_applied_before_days_are_multiplied():
    days = f"LEAST(GREATEST(CAST(UNIX_DATE(r0) AS BIGINT), {FIRST // DAY}), {LAST // DAY})"
    assert SparkDialect().microseconds("r0", "date") == f"CASE WHEN r0 IS NOT NULL THEN {days} * {DAY} END"
    assert (LAST // DAY) * DAY < 2**63


def test_the_ends_of_the_calendar_are_applied_to_moments_before_their_parts_are_multiplied():
    sql = SparkDialect().microseconds("r0", "timestamp")
    ends = "LEAST(GREATEST(r0, TIMESTAMP_NTZ'0000-01-01 00:00:00'), TIMESTAMP_NTZ'+10000-12-31 00:00:00')"
    assert sql.count("r0") == sql.count(ends) + sql.count("r0 IS NOT NULL")
    assert (
        SparkDialect().microseconds("r0", "zoned timestamp").count(f"LEAST(GREATEST(UNIX_MICROS(r0), {FIRST}), {LAST})")
        == 1
    )


def test_a_text_is_tried_and_not_cast():
    assert "TRY_CAST" in SparkDialect().moment("t0")
    assert SparkDialect().number("t0") == "TRY_CAST(t0 AS DOUBLE)"
