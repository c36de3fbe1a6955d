"""Rates and patterns of gaps, on a small case counted by hand."""

import numpy as np

import gapless as gl
from gapless import evaluate as ev
from gapless.testing.audit import letters_schema


def table(schema, columns):
    return gl.Table(schema, [np.array(codes) for codes in columns], rows=len(columns[0]))


def test_gaps_by_hand():
    schema = letters_schema((2, 2))  # codes 2 of x0, 3 and 4 of x1 are gaps; 2 of x1 is not applicable
    truth = table(schema, [[0, 2, 2, 1], [0, 3, 4, 2]])
    other = table(schema, [[0, 2, 0, 1], [0, 0, 0, 4]])
    gaps = ev.compare_gaps(truth, other)
    assert (gaps.truth, gaps.other) == ({"x0": 0.5, "x1": 0.5}, {"x0": 0.25, "x1": 0.25})
    assert gaps.rate_error == 0.25
    assert gaps.together_error == 0.5
    assert {p.missing: (p.truth, p.other) for p in gaps.patterns} == {
        (): (0.5, 0.5),
        ("x0", "x1"): (0.5, 0.0),
        ("x1",): (0.0, 0.25),
        ("x0",): (0.0, 0.25),
    }
    assert gaps.pattern_distance == 0.5
    assert gaps.kept
    assert not ev.compare_gaps(truth, table(schema, [[0], [0]])).kept
    assert len(ev.compare_gaps(truth, other, most=1).patterns) == 1
