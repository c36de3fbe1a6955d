"""Random views of views: `select`, `recode` and `keep` in any order, on two engines that hold the same rows."""

import itertools
from typing import Any

import numpy as np
from hypothesis import strategies as st

import gapless as gl

CODES = 4  # of each column
NAMES = "abc"
SCHEMA = gl.Schema("t", [gl.Categorical(name, list(range(CODES))) for name in NAMES])

rows_of_codes = st.lists(st.tuples(*[st.integers(0, CODES - 1)] * len(NAMES)), max_size=10)
columns = st.integers(0, len(NAMES) - 1)
maps = st.lists(
    st.one_of(
        st.tuples(st.just("select"), st.lists(columns, min_size=1, max_size=3)),
        st.tuples(
            st.just("recode"),
            st.dictionaries(columns, st.lists(st.integers(0, CODES - 1), min_size=CODES, max_size=CODES)),
        ),
        st.tuples(st.just("keep"), st.dictionaries(columns, st.lists(st.booleans(), min_size=CODES, max_size=CODES))),
    ),
    max_size=5,
)


def viewed(near: Any, far: Any, maps: list[tuple[str, Any]]) -> tuple[Any, Any]:
    """Both engines under the same views; a column that is not there any more is another one."""
    for name, given in maps:
        width = len(near.columns)
        arguments: Any
        if name == "select":
            arguments = [column % width for column in given]
        else:
            arguments = {column % width: np.array(codes) for column, codes in given.items()}
        near, far = getattr(near, name)(arguments), getattr(far, name)(arguments)
    return near, far


def check_same_rows(near: Any, far: Any, *, ordered: bool = True) -> None:
    """The same counts of every marginal, in all cells and without the last; the same rows in a lot of all."""
    width = len(near.columns)
    everything = [s for n in range(3) for s in itertools.permutations(range(width), n)]
    for shown in ([CODES] * width, [CODES - 1] * width):
        here, there = (engine.count(everything, [CODES] * width, shown) for engine in (near, far))
        assert all(map(np.array_equal, here, there))
    drawn = far.poisson_sample(range(width), lambda rows: np.ones(rows, dtype=np.bool_))
    assert drawn.rows == near.rows
    rows = [list(zip(*(codes.tolist() for codes in side.columns), strict=True)) for side in (near, drawn)]
    assert rows[0] == rows[1] if ordered else sorted(rows[0]) == sorted(rows[1])
