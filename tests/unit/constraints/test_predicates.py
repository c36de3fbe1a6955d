"""Comparison of public values with the cells of a column."""

import pytest

from gapless import (
    Date,
    DateTime,
    GaplessError,
    Number,
)
from gapless.constraints.predicates import comparison_mask


def test_an_edge_is_found_despite_rounding():
    """Found by review: three tenths of 1 is 0.30000000000000004 there."""
    tenths = Number("x", bounds=(0, 1), bins=10)
    around = Number("x", bounds=(-0.7, 0.7), bins=14)
    for column, edges in ((tenths, range(1, 10)), (around, range(-6, 7))):
        for edge in edges:
            below = comparison_mask(column, "<", str(edge / 10))
            assert below.sum() == edge - round(column.bounds[0] * 10)
            assert (comparison_mask(column, ">=", str(edge / 10)) == ~below).all()
    # Also where 0 has a separate, very narrow cell.
    assert (
        comparison_mask(tenths.finest, "<", "0.3").tolist()
        == (tenths.finest.regroup(tenths)[: tenths.finest.size] < 3).tolist()
    )
    far = Number("x", bounds=(1e9, 1e9 + 10), bins=10)
    for column, between in ((tenths, "0.30001"), (far, "1000000000.5")):
        with pytest.raises(GaplessError, match="splits a bin"):
            comparison_mask(column, "<", between)
    monthly = Date("d", bounds=("2020-01-01", "2020-12-31"), resolution="month", bins=12)
    assert comparison_mask(monthly, ">=", "2020-05").sum() == 8


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (Number("x", bounds=(0, 10), resolution=1.0), "6.5", "multiples of 1"),
        (DateTime("x", bounds=("2020-01-01", "2021-01-01"), resolution="day"), "2020-06-01T12:00:00", "by the day"),
    ],
    ids=["number", "moment"],
)
@pytest.mark.parametrize("sign", [">=", ">", "==", "<"])
def test_a_comparison_inside_a_step_of_the_resolution_is_refused(column, value, message, sign):
    """Values are kept as multiples: an answer for something between two of them would be wrong in silence."""
    with pytest.raises(GaplessError, match=message):
        comparison_mask(column, sign, value)
