"""Names on a circle."""

from gapless.draw.ring import MOST_LINES, legend_kinds, ring


def test_connected_names_are_neighbours_and_the_weakest_of_many_lines_are_left_out():
    drawn = ring("title", list("abcd"), [(0, 2, 0.9), (1, 3, 0.8)], labels=list("abcd"), legend=[])
    places = {drawn.index(f"<title>{name}</title>"): name for name in "abcd"}
    around = "".join(places[place] for place in sorted(places))
    assert {frozenset(around[:2]), frozenset(around[2:])} == {frozenset("ac"), frozenset("bd")}
    names = [str(number) for number in range(20)]
    edges = [(first, second, (first + second) / 100) for first in range(20) for second in range(first)]
    assert ring("many", names, edges, labels=names, legend=[]).count("<path") == MOST_LINES


def test_a_legend_counts_the_edges_of_each_kind():
    rows = legend_kinds([(0, 1, 0.5), (1, 2, 0.2), (2, 3, 0.15)])
    assert ["strong, 0.3 and above: 1 pair" in rows[0], "middle, 0.1 to 0.3: 2 pairs" in rows[1]] == [True, True]
    assert len(rows) == 2
