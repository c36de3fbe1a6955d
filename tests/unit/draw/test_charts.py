"""Charts: what is folded, labelled, and drawn where."""

import re

import pytest

from gapless.draw import charts, page


def test_many_cells_are_folded_into_few_bars():
    cells = [f"c{i}" for i in range(40)]
    shares = [1 / 40] * 40
    ordered = charts.bars("x", cells, (shares, shares), ("a", "b"), ordered=True, noise=0.1)
    assert ordered.count("<rect") == 2 * 14
    assert "c0 … c2" in ordered
    assert "whisker" not in ordered
    rest = charts.bars("x", cells, (shares, shares), ("a", "b"), ordered=False)
    assert "27 others" in rest
    few = charts.bars("x", cells[:3], ([0.5, 0.5, 0], [1, 0, 0]), ("a", "b"), ordered=True, noise=0.1)
    assert few.count("whisker") == 3


def test_spans_of_days_differ_and_are_in_full_on_hover():
    days = [f"20{i:02d}-01-05..20{i:02d}-06-07" for i in range(3)]
    drawn = charts.bars("x", days, ([0.25] * 3, [0.25] * 3), ("a", "b"), ordered=True)
    for label, cell in zip(("2000-01-05..06-07", "2001-01-05..06-07"), days, strict=False):
        assert f"<title>{cell}</title>{label}</text>" in drawn
    assert charts.labels([*days, "2004-12-30..2005-01-09"])[::3] == ["from 2000-01-05", "from 2004-12-30"]
    assert charts.labels(["2001-01-01..2003-12-31"]) == ["2001..2003"]
    assert charts.labels(["2001-01-01T00:00:00..2001-03-04T23:59:59"]) == ["2001-01-01..03-04"]
    alike = charts.labels(["employed by the state of A", "employed by the state of B"])
    assert alike[0] != alike[1]
    assert max(map(len, alike)) <= 18
    many = [f"{10 * i}..{10 * i + 9}" for i in range(28)]
    assert "<title>0..19</title>0..19<" in charts.bars("x", many, ([0] * 28, [0] * 28), ("a", "b"), ordered=True)


# Advance widths of DejaVu Sans, in thousandths of its size.
DEJAVU = dict(zip("[7.815240, )chinstrapegudM…東", (
    390, 636, 318, 636, 636, 636, 636, 636, 636, 318, 318, 390, 550, 634, 278, 634, 521, 392, 411, 613, 635, 615, 635,
    634, 635, 863, 1000, 1000), strict=True))  # fmt: skip


@pytest.mark.parametrize(
    "cell", ["[7.871524, 8.110864)", "chinstrap penguin and dunes", "M" * 18, "東" * 18, "chin", "7" * 500]
)
def test_labels_have_room_in_a_wide_font(cell):
    drawn = [
        charts.bars("x", [cell], ([1.0], [1.0]), ("a", "b"), ordered=False),
        charts.bars("x", [f"{cell}1", f"{cell}2"], ([0.5] * 2,) * 2, ("a", "b"), ordered=False),
        charts.heat_map("x", ["a", cell], {("a", cell): 0.5}, full=1, tooltips={("a", cell): "x"}),
        charts.dots("x", [(cell, 0.5, 0.5)], ("a", "b")),
    ]
    for drawing in drawn:
        shown = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="end"><title>[^<]*</title>([^<]+)<', drawing)
        assert shown
        assert len(set(shown)) == len(shown)
        for end, label in shown:
            assert sum(12 / 1000 * DEJAVU.get(letter, 636) for letter in label) <= float(end), label


def test_whiskers_stay_in_the_drawing_and_clear_of_the_numbers():
    drawn = charts.bars("x", ["c"], ([0.9], [0.9]), ("a", "b"), ordered=True, noise=0.5)
    end = float(re.search(r'H([\d.]+)M[^"]*" class="whisker"', drawn)[1])
    number = float(re.search(r'<text x="([\d.]+)" y="12.0" class="soft tiny">', drawn)[1])
    assert end + 5 < number < 290


def test_heat_is_the_same_on_every_page_and_has_a_key():
    names, tooltips = ["a", "b"], {("a", "b"): "x"}
    drawn = [charts.heat_map("x", names, {("a", "b"): v}, full=0.3, tooltips=tooltips) for v in (0.03, 0.15, 0.3, 0.9)]
    heats = [re.search(r'fill-opacity="([\d.]+)"><title>x', drawing)[1] for drawing in drawn]
    assert heats == ["0.100", "0.500", "1.000", "1.000"]
    assert "30 and more" in drawn[0]


def test_a_wide_picture_keeps_its_names_in_sight_and_a_wide_table_its_rows():
    names = [f"column {i}" for i in range(30)]
    pairs = {(names[0], name): 0.1 for name in names[1:]}
    heat = charts.heat_map("x", names, pairs, full=1, tooltips=dict.fromkeys(pairs, "x"))
    stays, moves = re.findall(r"<svg.*?</svg>", heat)
    assert 'class="stays"' in stays
    assert f"<title>{names[29]}</title>" in stays
    assert stays.count("<rect") == 0
    sizes = [re.search(r'viewBox="0 0 (\d+) (\d+)"', part).groups() for part in (stays, moves)]
    assert sizes[0][1] == sizes[1][1]  # equally high, so that rows stand beside their names
    assert float(sizes[0][0]) <= 132
    shown = charts.pattern_picture("x", names, [((names[1],), 0.5, 0.4)], ("a", "b"))
    stays, moves = re.findall(r"<svg.*?</svg>", shown)
    assert ">50.0%</text>" in stays
    assert ">50.0%</text>" not in moves
    assert 'class="many"' in page.table("abcd", [])
    assert 'class="many"' not in page.table("abc", [])
    for rule in (
        ".map .stays { position: sticky",
        "break-inside: avoid",
        "break-after: avoid",
        ".wide .many tr { display: flex",
    ):
        assert rule in page.STYLE


def test_merged_cells_have_the_interval_of_their_sum():
    asked = []

    def interval(cells):
        asked.extend(cells)
        return 0.01 * len(cells), 0.03 * len(cells)

    drawn = charts.interval_bars("x", [f"{i}" for i in range(28)], [1 / 28] * 28, interval, ordered=True)
    assert drawn.count('class="other"') == 14
    assert asked == list(range(28))
    assert drawn.count(f">{charts.span_text(0.02, 0.06)}<") == 14
    bare = charts.interval_bars("x", ["a", "b"], [0.5, 0.5], None, ordered=False)
    assert "whisker" not in bare
    assert ">50.0%<" in bare


def test_uncertain_pairs_have_no_colour():
    pairs = {("a", "b"): -0.9, ("a", "c"): 0.5}
    tooltips = dict.fromkeys(pairs, "x")
    drawn = charts.heat_map("x", ["a", "b", "c"], pairs, full=1, tooltips=tooltips, uncertain={("a", "c")})
    assert re.findall(r'fill-opacity="([\d.]+)"><title>x', drawn) == ["0.900", "0.000"]
    assert "−90" in drawn


def test_equal_dots_are_both_seen():
    drawn = charts.dots("x", [("a", 0.5, 0.5)], ("one", "two"))
    assert re.findall(r'r="([\d.]+)" class="(\w+)"', drawn) == [("6.5", "ring"), ("4", "other")]
