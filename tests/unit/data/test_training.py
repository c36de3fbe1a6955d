"""Rows for programs and teachers: blocks of one size, and programs that are refused before a row is read."""

import numpy as np
import pytest

from gapless.data.engines.memory import Memory
from gapless.data.training import TrainingRows, teacher_rows, training_rows
from gapless.errors import ModelError, SealedError
from gapless.privacy.sgd import BLOCK
from gapless.testing.audit import letters_schema, private

ROWS = Memory((np.arange(BLOCK + 2) % 3, np.ones(BLOCK + 2, dtype=np.int64)), BLOCK + 2)


def test_marked_rows_come_in_blocks_of_one_size():
    shown = TrainingRows(None, ROWS, (1, 0), None)
    first, last = shown.poisson_sample(lambda many: np.ones(many, dtype=np.bool_))
    assert (first.rows, last.rows) == (BLOCK, 2)
    assert all(codes.size == BLOCK for codes in (*first.columns, *last.columns))
    assert not last.columns[0][2:].any()
    assert list(shown.poisson_sample(lambda many: np.zeros(many, dtype=np.bool_))) == []


def test_teachers_are_there_before_a_row_is():
    (none, refused), (columns, teachers) = TrainingRows(None, ROWS, (0,), None).batches(np.zeros)
    assert (none[0].size, refused.size) == (0, 0)
    assert columns[0].size == teachers.size == BLOCK + 2


def test_steps_are_reported():
    steps = []
    TrainingRows(None, ROWS, (0,), steps.append).report_progress(3)
    TrainingRows(None, ROWS, (0,), None).report_progress(4)
    assert steps == [3]


@pytest.mark.parametrize("shown", [training_rows, teacher_rows])
def test_a_program_that_is_not_ours_sees_no_row(shown, tmp_path):
    table = private([("a",)], letters_schema([2]), tmp_path)
    with pytest.raises(ModelError, match="is not of this library"):
        shown(table, object())
    with pytest.raises(SealedError, match="takes a PrivateTable"):
        shown(object(), object())
