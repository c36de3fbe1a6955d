"""The picture of a model's structure: what it says, in light and dark, with few columns and with many."""

import math
import re
from xml.etree import ElementTree as ET

import pytest

import gapless as gl
from gapless.draw.ring import MOST_LINES
from gapless.synth.fitted import draw_structure
from gapless.testing.audit import letters_schema, private

SVG = "{http://www.w3.org/2000/svg}"


def ring(columns, edges):
    """Each column with the next ones, weaker and weaker."""
    pairs = [(place, (place + step) % columns) for step in range(1, columns // 2) for place in range(columns)]
    return [(*pair, 1 - number / len(pairs)) for number, pair in enumerate(pairs)][:edges]


def parts(drawn):
    root = ET.fromstring(drawn)  # noqa: S314 our own drawing
    paths = root.findall(f".//{SVG}path")
    return root, [path for path in paths if path.find(f"{SVG}title") is not None]


def texts(root):
    return [" ".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_it_has_a_title_a_legend_and_a_ground_of_its_own(tmp_path):
    table = private([("a", "b", "a")] * 40, letters_schema([2, 2, 2]), tmp_path)
    root, lines = parts(gl.MST().fit(table, spend=table.ledger.left).picture())
    assert root.find(f"{SVG}title").text == "Columns of 'letters' that are modelled together"
    assert len(lines) == 2
    assert any("Cramér’s V" in text for text in texts(root))
    assert any(re.search(r"(strong|middle|weak), .*: [12] pairs?$", text) for text in texts(root))
    style = root.find(f"{SVG}style").text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for part in ("rect", "text", ".strong", ".middle", ".weak", "circle", ".alone"):
        both = [re.search(rf"\.structure {re.escape(part)} {{.*?#(\w+)", side)[1] for side in (light, dark)]
        assert both[0] != both[1], part
    assert "var(" not in style  # some viewers know no variables
    ground = root.find(f"{SVG}rect")
    assert [ground.get("width"), ground.get("height")] == root.get("viewBox").split()[2:]


def luminance(colour):
    """Of a colour in sRGB, as WCAG 2.1 defines it."""
    colour = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_line_stands_out_from_the_ground_in_light_and_dark():
    style = parts(draw_structure(["a", "b"], [(0, 1, 0.05)]))[0].find(f"{SVG}style").text
    for side in style.split("@media (prefers-color-scheme: dark)"):
        colours = {
            part: luminance(re.search(rf"\.structure {re.escape(part)} {{.*?#(\w+)", side)[1])
            for part in ("rect", ".strong", ".middle", ".weak", "circle")
        }
        ground = colours.pop("rect")
        for part, colour in colours.items():
            assert (max(colour, ground) + 0.05) / (min(colour, ground) + 0.05) >= 3, part


@pytest.mark.parametrize("columns", [2, 15, 40, 200])
def test_names_stand_on_spokes_and_have_room(columns):
    names = [f"a_column_with_the_number_{number}" for number in range(columns)]
    root, _ = parts(draw_structure(names, ring(columns, 3 * columns)))
    spokes = [group for group in root.iter(f"{SVG}g") if group.get("transform", "").startswith("rotate")]
    turns = sorted(float(group.get("transform")[7:-1]) for group in spokes)
    radius = float(spokes[0].find(f"{SVG}circle").get("cx"))
    assert len(turns) == columns
    apart = min(b - a for a, b in zip(turns, [*turns[1:], turns[0] + 360], strict=True))
    assert math.radians(apart) * radius > 16  # a line of text of 13 px
    width = float(root.get("viewBox").split()[2])
    assert width / 2 > radius + 12 + 7 * max(map(len, names))


def test_of_very_many_lines_the_weakest_are_left_out_and_it_says_so():
    names = [f"c{number}" for number in range(15)]
    root, lines = parts(draw_structure(names, ring(15, 46)))
    assert len(lines) == 46
    assert not any("left out" in text for text in texts(root))
    root, lines = parts(draw_structure([*names, *(f"d{number}" for number in range(25))], ring(40, 120)))
    assert len(lines) == MOST_LINES
    assert "The 40 weakest are left out here; model.describe() names them all." in texts(root)
    strengths = [float(line.find(f"{SVG}title").text.rsplit(" ", 1)[1]) for line in lines]
    assert strengths == sorted(strengths)  # the strongest lie on top
    assert any("120 pairs" in text for text in texts(root))  # all are counted, drawn or not


def test_columns_that_belong_together_stand_side_by_side():
    tied = [(0, 3, 0.9), (3, 6, 0.8), (1, 4, 0.9), (4, 7, 0.8), (2, 5, 0.9), (5, 8, 0.8), (0, 1, 0.05), (1, 2, 0.05)]
    root, _ = parts(draw_structure([f"c{number}" for number in range(9)], tied))
    order = [int(text.split()[0][1:]) for text in texts(root) if re.match(r"c\d", text)]
    for one, other, strength in tied:
        if strength > 0.1:
            assert abs(order.index(one) - order.index(other)) in (1, 8)


def test_no_edges_and_odd_names():
    root, lines = parts(draw_structure(["a<b", "x" * 60], []))
    assert not lines
    assert any("takes them as independent" in text for text in texts(root))
    assert [circle.get("class") for circle in root.iter(f"{SVG}circle")] == ["alone", "alone"]
    assert any(text.startswith("a<b") for text in texts(root))
    assert any(f"{'x' * 15}…{'x' * 14}" in text for text in texts(root))
