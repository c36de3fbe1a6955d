"""`fill_gaps` against its definition, cell by cell, in exact arithmetic."""

from fractions import Fraction
from itertools import accumulate

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.data.filling import fill_gaps
from helpers.examples import examples

PARTS = 8  # probabilities and draws are multiples of 1/8: floats are exact, and draws often hit a step


@st.composite
def gappy_columns(draw):
    """Columns of codes, some beyond the observed cells; a distribution for each; a number for each row and column."""
    rows = draw(st.integers(0, 6))
    columns, distributions, numbers = [], [], []
    for _ in range(draw(st.integers(1, 3))):
        parts = draw(st.lists(st.integers(0, PARTS), min_size=1, max_size=5).filter(any))
        codes = st.integers(0, len(parts) + 2)  # up to three kinds of gaps
        columns.append(np.array(draw(st.lists(codes, min_size=rows, max_size=rows)), dtype=np.uint8))
        distributions.append(np.array(parts) / PARTS)
        exact = st.integers(0, PARTS - 1).map(lambda part: part / PARTS) | st.just(1 - 2**-53)
        numbers.append(np.array(draw(st.lists(exact, min_size=rows, max_size=rows))))
    return columns, distributions, numbers


def by_definition(code, distribution, number):
    """The observed cell; for a gap, the first cell whose cumulative probability exceeds the gap's number."""
    if code < len(distribution):
        return code
    sums = list(accumulate(map(Fraction, distribution.tolist())))
    mark = Fraction(number) * sums[-1]
    return next(cell for cell, total in enumerate(sums) if total > mark)


def gap_of(distribution, number):
    """One gap, to be filled from this distribution by this number."""
    return [np.array([len(distribution)], dtype=np.uint8)], [np.array(distribution)], [np.array([number])]


@examples(300)
@given(gappy_columns())
@example(gap_of([0.0, 1.0], 0.0))  # on a step: the cell below it has no chance there
@example(gap_of([0.25, 0.25, 0.5], 0.5))
@example(gap_of([5e-324], 0.75))  # the product rounds up to the last step
@example(gap_of([0.5, 0.5, 0.0], 1 - 2**-53))
def test_every_cell_is_as_defined(case):
    columns, distributions, numbers = case
    before = [codes.copy() for codes in columns]
    given_numbers = iter(numbers)
    filled = fill_gaps(
        columns, distributions, lambda: next(given_numbers)
    )  # fresh ones for each column, in their order
    for old, new, distribution, chance in zip(before, filled, distributions, numbers, strict=True):
        assert new.tolist() == [
            by_definition(*cell) for cell in zip(old, [distribution] * len(old), chance, strict=True)
        ]
        assert new.dtype == old.dtype
    assert all(np.array_equal(old, codes) for old, codes in zip(before, columns, strict=True))  # nothing in place
    assert next(given_numbers, None) is None
