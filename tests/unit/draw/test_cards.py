"""Cards: how numbers are written."""

import re

from gapless.evaluate.comparison import Score
from gapless.evaluate.comparison_page import score_cards


def test_a_count_is_whole_and_a_distance_is_not():
    scores = [Score("rows", rows, None, "") for rows in (0, 69, 12345)] + [Score("distance", 0.25, None, "")]
    assert re.findall("<b>(.*?)</b>", score_cards(scores, [None] * 4)) == ["0", "69", "12,345", "0.250"]
