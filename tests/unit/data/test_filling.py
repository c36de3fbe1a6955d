"""Random imputation of gaps: which distributions may read rows, what is recorded, and which cells are drawn."""

from fractions import Fraction

import numpy as np
import pytest

from gapless.data.filling import draw_within_bins, fill_gaps, secret_row_randomness
from gapless.data.row_contribution import RowContribution
from gapless.data.sums import plain_sum, rank_scores
from gapless.data.workload import Views, Workload, grouped_counts, violating_pairs
from gapless.errors import ModelError
from gapless.synth.sequential.autoregressive import ColumnConditional
from gapless.testing.audit import letters_schema, private

ROWS = [("a", "b", "a"), (None, "b", "a"), ("b", None, "b")]
DISTRIBUTION = ColumnConditional((), 2, 2, 1, np.zeros(2))


@pytest.fixture
def table(tmp_path):
    return private(ROWS, letters_schema([2, 2, 2]), tmp_path)


class Spy(ColumnConditional):
    """Not of the library."""


@pytest.mark.parametrize(
    ("distribution", "given"),
    [
        (Spy((), 2, 2, 1, np.zeros(2)), []),
        (ColumnConditional((), 3, 3, 1, np.zeros(3)), []),  # of other cells
        (DISTRIBUTION, ["x1"]),  # given others than it was trained with
        (ColumnConditional((3,), 2, 2, 1, np.zeros(9)), ["x1"]),  # which may be missing itself
        (ColumnConditional((), 2, 2, 1, np.zeros(1)), []),  # too few numbers
        (ColumnConditional((), 2, 2, 1, np.array([0.0, np.nan])), []),
    ],
)
def test_a_foreign_or_unfit_distribution_is_refused_before_a_row_is_read(table, distribution, given):
    with pytest.raises(ModelError):
        table.fill_column("x0", distribution, given=given)
    assert not table.ledger.entries


def test_a_distribution_cannot_be_modified():
    """It cannot carry a foreign method, and gaps are filled from a copy rebuilt from its numbers."""
    distribution = ColumnConditional((), 2, 2, 1, np.zeros(2))
    with pytest.raises(AttributeError):
        object.__setattr__(distribution, "draw", print)
    assert distribution.sanitized() is not distribution
    assert distribution.sanitized().parameters is not distribution.parameters


def test_counts_of_drawn_cells_read_every_row(table):
    """What a row adds to them hangs on its gaps, which figures of loss distributions take it not to."""
    filled = table.fill_column("x0", DISTRIBUTION, given=[])
    tally = RowContribution(
        ("x1",), lambda rows: np.ones((len(rows["x1"]), 1), dtype=np.int64), 1, 1, needs=frozenset({"x1"})
    )
    codes = np.arange(filled.schema["x1"].extended_size)
    counted = [
        filled.marginal(["x0", "x1"]),
        filled.marginal("x1"),
        filled.where("x1", ["a"]).marginal(()),
        grouped_counts(filled, "x1", [np.zeros(filled.schema["x1"].size, dtype=np.int64)], rows="observed")[0],
        filled.gap_patterns(["x1"]),
        Workload(filled, [(0, 1)], rows="observed").counts((0, 1)),
        Views(filled, [(1, codes)], rows="observed").counts_of([(0,)])[0],
        plain_sum(filled, tally),
        *rank_scores(filled, tally, "x1", quantile=Fraction(1, 2), shifts=[0]),
        violating_pairs(filled, "t1.x1 == t2.x1 and t1.x2 != t2.x2", buckets=2),
    ]
    assert [value.reads for value in counted] == [None] * len(counted)
    assert table.marginal("x1").reads == {"x1"}


def test_only_gaps_are_drawn_each_row_by_its_own_number():
    codes, distribution = np.array([0, 2, 2, 1], dtype=np.uint8), np.array([0.25, 0.75])
    (filled,) = fill_gaps([codes], [distribution], lambda: np.array([0.9, 0.2, 0.3, 0.0]))
    assert filled.tolist() == [0, 0, 1, 1]
    assert filled.dtype == codes.dtype


def test_a_cell_of_a_bin_is_drawn_evenly():
    of_cells = np.array([0, 0, 0, 1])
    assert draw_within_bins(np.array([0, 0, 1]), of_cells, lambda: np.array([0.0, 0.99, 0.99])).tolist() == [0, 2, 3]


def test_the_first_rows_have_the_same_numbers_however_many_follow(monkeypatch):
    monkeypatch.setattr("gapless.data.filling.secrets.randbits", lambda _: 7)
    short, long = secret_row_randomness(3), secret_row_randomness(5)
    for _ in range(2):
        assert short().tolist() == long()[:3].tolist()
