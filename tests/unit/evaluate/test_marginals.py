from itertools import combinations

import numpy as np
import pytest

import gapless as gl
from gapless.testing.audit import letters_schema


def table(rows, seed, sizes=(2, 3, 2, 4)):
    rng = np.random.default_rng(seed)
    schema = letters_schema(sizes)
    return gl.Table(schema, [rng.integers(0, c.extended_size, rows) for c in schema.columns], rows=rows)


def by_hand(a, b, k):
    distances = []
    for places in combinations(range(4), k):
        laws = []
        for one in (a, b):
            cells = {}
            for row in zip(*(one.codes[p].tolist() for p in places), strict=True):
                if all(code < one.schema.columns[p].size for code, p in zip(row, places, strict=True)):
                    cells[row] = cells.get(row, 0) + 1
            laws.append({cell: n / sum(cells.values()) for cell, n in cells.items()})
        distances.append(sum(abs(laws[0].get(c, 0) - laws[1].get(c, 0)) for c in {*laws[0], *laws[1]}) / 2)
    return sum(distances) / len(distances)


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_the_distance_is_what_counting_by_hand_gives(k):
    a, b = table(200, 0), table(150, 1)
    assert gl.evaluate.kway_distance(a, b, k=k) == pytest.approx(by_hand(a, b, k))
    assert gl.evaluate.kway_distance(a, a, k=k) == 0


def test_a_sample_of_sets_is_fixed():
    a, b = table(200, 0), table(150, 1)
    assert gl.evaluate.kway_distance(a, b, most_sets=3) == gl.evaluate.kway_distance(a, b, most_sets=3)


def test_an_empty_table_is_as_far_as_can_be():
    assert gl.evaluate.kway_distance(table(20, 0), table(0, 0)) == 1


def test_wrong_tables_and_sets_are_told():
    with pytest.raises(gl.errors.SchemaError, match="different schemas"):
        gl.evaluate.kway_distance(table(5, 0), table(5, 0, (2, 3, 2, 5)))
    with pytest.raises(gl.errors.SchemaError, match="k = 5"):
        gl.evaluate.kway_distance(table(5, 0), table(5, 0), k=5)
