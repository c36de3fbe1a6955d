"""Columns of moments: resolutions, formats, bounds."""

import numpy as np
import pytest

from gapless.errors import SchemaError
from gapless.schema import Date, DateTime


def test_bins_are_named_at_the_resolution_of_the_column():
    months = Date("moved", bounds=("2020-01-01", "2020-12-31"), resolution="month", bins=2)
    assert months.cells == ("2020-01..2020-06", "2020-07..2020-12")
    assert DateTime("at", bounds=("2020-01-01", "2020-01-02"), resolution="hour").step == 1


def test_moments_are_drawn_at_the_resolution_and_within_their_bins():
    years = Date("born", bounds=("1900-01-01", "1999-12-31"), resolution="year", bins=2)
    drawn = years.draw(np.array([0, 0, 1, 1], dtype=np.uint8), np.random.default_rng(0))
    assert drawn.dtype == np.dtype("datetime64[Y]")
    assert (drawn[:2] < np.datetime64("1950")).all()
    assert (drawn[2:] >= np.datetime64("1950")).all()


def test_a_code_is_read_by_the_format_of_the_file():
    with pytest.raises(SchemaError, match="within its bounds"):
        Date("d", bounds=("1900-01-01", "1999-12-31"), format="%d.%m.%Y", may_be_missing=True, missing=["01.01.1950"])


@pytest.mark.parametrize("form", ["%d.%m", "%Y %Y", "%Y-%m-%d %H", "%Q", 3])
def test_a_format_names_a_year_once_and_a_whole_time_of_day(form):
    with pytest.raises(SchemaError, match="has the format"):
        DateTime("d", bounds=("1900-01-01", "1999-12-31"), format=form)


def test_the_last_day_there_is_can_be_a_bound():
    """No cell can begin after it, so it shares one with the day before."""
    assert Date("d", bounds=("9999-01-01", "9999-12-31"), bins="learned").cells[-1] == "9999-12-30..9999-12-31"
