"""A scatter plot stays inside its axes, and its names are escaped."""

import re

from gapless.draw.scatter import Band, scatter

BAND = Band([0.0, 10.0], [1.0, 5.0], [-100.0, 4.0], [2.0, 900.0])
POINTS = [(0.0, 0.0), (10.0, 10.0), (5.0, 5.0)]


def test_a_plot_has_its_points_its_line_and_a_band_cut_at_the_axes():
    drawn = scatter("t", POINTS, BAND, across="<b>", up="y" * 200, about="ρ")
    assert drawn.count("<circle") == 3
    assert '<path d="M46.0 176.0L' not in drawn
    assert "<b>" not in drawn
    assert "&lt;b&gt;" in drawn
    (height,) = re.findall(r'viewBox="0 0 \d+ (\d+)"', drawn)
    places = [float(y) for _, y in re.findall(r"([\d.]+) ([\d.-]+)(?=[LZ\"])", drawn.partition("band")[0])]
    assert all(0 <= place <= float(height) for place in places)


def test_equal_values_have_an_axis_too():
    drawn = scatter("t", [(1.0, 2.0), (1.0, 2.0)], Band([1.0], [2.0], [2.0], [2.0]), across="x", up="y", about="")
    assert "nan" not in drawn
    assert "inf" not in drawn
