"""Cards: how numbers are written."""

import re

from gapless.draw.cards import NumberCard, cards


def test_a_count_is_whole_and_a_distance_is_not():
    numbers = [NumberCard("rows", rows, "") for rows in (0, 69, 12345)] + [NumberCard("distance", 0.25, "")]
    assert re.findall("<b>(.*?)</b>", cards(numbers)) == ["0", "69", "12,345", "0.250"]
