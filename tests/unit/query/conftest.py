"""The table that tests of questions ask."""

import pytest

import gapless as gl
from gapless.testing.audit import private
from helpers.small_tables import ROWS, SCHEMA


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0))
