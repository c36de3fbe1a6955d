"""A file without one of its rows: no count moves by more than one, whatever stands around the row.

Sheets with rows and columns that are empty, formatted or hold spaces; text with empty lines, one column or several.
Names and links are in tests/audit/test_replay_files.py.
"""

import tempfile
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.io import text_files
from helpers.examples import examples
from helpers.workbooks import FORMATTED, pack, row

LEVELS = ["x", "y"]
ROW = gl.Schema("t", [gl.Categorical("a", LEVELS, may_be_missing=True)], ignore=[""])
TWO = gl.Schema("t", [gl.Categorical(name, LEVELS, may_be_missing=True) for name in "ab"], ignore=[""])

cells = st.sampled_from(["x", "y", "z", None, None, FORMATTED, FORMATTED, "", " "])
sheets = st.lists(st.tuples(cells, cells), min_size=1, max_size=8)
few = st.integers(0, 3)


def moved(schema, *paths):
    """By how much the counts of all columns together differ between two files."""
    before, after = (gl.Table.read(path, schema).marginal(schema.names, rows="extended") for path in paths)
    return np.abs(before - after).sum()


def lay(path, rows, places, *, column=0, above=0):
    """A sheet whose header is below some empty rows and right of some columns, and whose rows are at these places."""
    left = [FORMATTED] * column
    lines = [row(line, [FORMATTED]) for line in range(1, above + 1)]
    lines += [row(above + 1, [*left, "a", "b"])]
    lines += [row(above + 2 + place, [*left, *values]) for place, values in zip(places, rows, strict=True)]
    pack(path, "".join(lines))


@examples(100)
@given(rows=sheets, place=st.integers(0, 7), column=few, above=few, close_up=st.booleans())
@example(rows=[("x", "y"), *[(FORMATTED, None)] * 6, ("y", "x")], place=7, column=0, above=0, close_up=True)
@example(rows=[(None, FORMATTED), ("x", None), (" ", "")], place=1, column=2, above=2, close_up=False)
def test_sheets(rows, place, column, above, close_up):
    """The rows below one that goes move up, or it stays behind as an empty one."""
    place %= len(rows)
    folder = Path(tempfile.mkdtemp())
    lay(folder / "before.xlsx", rows, range(len(rows)), column=column, above=above)
    kept = [values for number, values in enumerate(rows) if number != place]
    places = range(len(kept)) if close_up else [number for number in range(len(rows)) if number != place]
    lay(folder / "after.xlsx", kept, places, column=column, above=above)
    assert moved(TWO, folder / "before.xlsx", folder / "after.xlsx") <= 1


lines_of_one = st.lists(st.sampled_from(["x", "y", "", "", " ", '""', '"x\ny"', '"\n\n"']), min_size=1, max_size=8)
lines_of_two = st.lists(
    st.sampled_from(["x,y", "y,", ",", "", "", '"",""', '" ",x', '"\n\n",y']), min_size=1, max_size=8
)


@examples(150)
@given(
    lines=st.tuples(st.just(ROW), lines_of_one) | st.tuples(st.just(TWO), lines_of_two),
    place=st.integers(0, 7),
    end=st.sampled_from(["\n", "\r\n"]),
    above=few,
    last=few,
    size=st.sampled_from([3, 10, 1000]),
)
@example(lines=(ROW, ["x", "", "x"]), place=2, end="\n", above=0, last=0, size=3)
def test_texts(lines, place, end, above, last, size):
    schema, rows = lines
    place %= len(rows)
    folder = Path(tempfile.mkdtemp())
    header = end * above + ",".join(schema.names)
    if rows[-1] == "" or rows[:-1][-1:] == [""]:
        last = max(last, 1)  # an empty last row exists only if its line is ended
    for name, kept in (("before", rows), ("after", rows[:place] + rows[place + 1 :])):
        (folder / f"{name}.csv").write_bytes((end.join([header, *kept]) + end * last).encode())
    with mock.patch.object(text_files, "PART", size):
        assert moved(schema, folder / "before.csv", folder / "after.csv") <= 1
