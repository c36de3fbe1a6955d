"""Which texts are dates: one grammar for every engine, by ISO 8601 or by a format of numbers."""

import polars as pl
import pytest

from gapless.data.io.date_texts import format_pattern, parse_dates


def read(text, form=None):
    (moment,) = parse_dates(pl.Series([text], dtype=pl.String), form)
    return moment and moment.isoformat(" ")


@pytest.mark.parametrize(
    ("text", "moment"),
    {
        "2024-02-29": "2024-02-29 00:00:00",
        "2024-2-9": "2024-02-09 00:00:00",
        "2024-02-29T23:59:59": "2024-02-29 23:59:59",
        "2024-02-29 9:05": "2024-02-29 09:05:00",
        "2024-02-29 23:59:59.999999999999": "2024-02-29 23:59:59",
        "1969-12-31 23:59:59.5": "1969-12-31 23:59:59",
        "2024-02-29T10:00Z": "2024-02-29 10:00:00",
        "2024-03-01t00:30:00z": "2024-03-01 00:30:00",
        "2024-03-01T00:30:00+02:00": "2024-02-29 22:30:00",
        "2024-02-29 23:30:00-0130": "2024-03-01 01:00:00",
        "2024-02-29 10:00:00+00": "2024-02-29 10:00:00",
        "0001-01-01": "0001-01-01 00:00:00",
        "9999-12-31T23:59:59": "9999-12-31 23:59:59",
    }.items(),
)
def test_iso_8601_and_the_ways_in_which_programs_write_it(text, moment):
    assert read(text) == moment


@pytest.mark.parametrize(
    "text",
    [
        *("", "24-01-05", "024-01-05", "02024-01-05", "+2024-01-05", "-2024-01-05", "0000-01-01", "10000-01-01"),
        *("2024-02-30", "2023-02-29", "1900-02-29", "2024-13-01", "2024-00-10", "2024-01-00", "2024-01-001"),
        *("2024-01-05 24:00", "2024-01-05 10:60", "2024-01-05 10:00:60", "2024-01-05 10:5", "2024-01-05T10", "2024-01"),
        *(
            "2024-01-0510:00",
            "2024- 1-05",
            "2024-01-05  10:00",
            "2024-01-05\n10:00",
            "2024-01-05 10:00:00,5",
            "20240105",
        ),
        *("2024-01-05T10:00:00+24:00", "2024-01-05T10:00:00+2:00", "2024-01-05T10:00:00+02:", "2024-01-05+02:00"),
        *("infinity", "now", "today", "٢٠٢٤-٠١-٠٥", "2024-01-05 UTC", "2024-01-05 BC", "2024/01/05", "x2024-01-05x"),
    ],
)
def test_refuses_dates_outside_the_grammar(text):
    assert read(text) is None


@pytest.mark.parametrize(
    ("form", "text", "moment"),
    [
        ("%d.%m.%Y", "5.1.2024", "2024-01-05 00:00:00"),
        ("%d.%m.%Y", "05.01.2024", "2024-01-05 00:00:00"),
        ("%d.%m.%Y", "05.01.0999", None),
        ("%d.%m.%Y", "05.01.24", None),
        ("%d.%m.%Y", "05x01x2024", None),
        ("%d.%m.%Y", "05.01.2024 10:00", None),
        ("%Y%m%d", "20240105", "2024-01-05 00:00:00"),
        ("%Y%m%d", "2024105", None),
        ("%Y%m%d", "202415", None),
        ("%m/%d/%Y %H:%M", "1/5/2024 9:30", "2024-01-05 09:30:00"),
        ("%m/%d/%Y %H:%M", "1/5/2024   9:30", "2024-01-05 09:30:00"),
        ("%m/%d/%Y %H:%M", "1/5/20249:30", None),
        ("%m/%d/%Y %H:%M", "1/5/2024 9:3", None),
        ("%Y", "2024", "2024-01-01 00:00:00"),
        ("%m/%Y", "3/2024", "2024-03-01 00:00:00"),
        ("%Y-%m-%d %H:%M:%S", "2024-01-05 10:00:60", None),
        ("[%Y] (%m)|%d$", "[2024] (1)|5$", "2024-01-05 00:00:00"),
        ("%d. %B %Y", "5. January 2024", "2024-01-05 00:00:00"),
        ("%d.%m.%y", "05.01.24", "2024-01-05 00:00:00"),
        ("%B %Y", "January 2024", "2024-01-01 00:00:00"),
        ("%d%Y.%m", "0520241.1", None),
    ],
)
def test_a_format_has_four_digits_of_a_year_and_one_or_two_of_what_signs_keep_apart(form, text, moment):
    assert read(text, form) == moment


def test_a_digit_of_the_format_beside_a_part_leaves_it_two_digits():
    assert format_pattern("%d9%m.%Y") == (r"([0-9]{2})9([0-9]{2})\.([0-9]{4})", "dmY")


def test_a_time_zone_may_lead_beyond_the_years_that_can_be_written():
    last, beyond = parse_dates(pl.Series(["9999-12-31T23:00:00", "9999-12-31T23:00:00-01:00"])).to_physical()
    assert beyond - last == 3600 * 10**6
