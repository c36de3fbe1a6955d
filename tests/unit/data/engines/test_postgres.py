"""What is said to PostgreSQL, as text, where no server at hand would show the difference."""

import re

import pytest

from gapless.data.engines.postgres import PostgresDialect
from gapless.data.engines.sql_encoding import KINDS, encode_column
from gapless.errors import ReadError
from helpers.odd_cells import DATES, LEVELS, NUMBERS


@pytest.mark.parametrize("kind", KINDS)
def test_texts_are_compared_by_their_letters_alone(kind):
    """A column may have a collation, or its database one by ICU, for which `a` equals `A` or `ä`."""
    assert PostgresDialect().text("r0", kind).endswith('::text COLLATE "C")')


@pytest.mark.parametrize("name", [*LEVELS, *NUMBERS, *DATES])
@pytest.mark.parametrize("kind", KINDS)
def test_no_step_of_a_coding_takes_up_a_text_without_saying_so(name, kind):
    column = (LEVELS | NUMBERS | DATES)[name]
    try:
        steps = encode_column(column, kind, 0, PostgresDialect())
    except ReadError:
        return  # by the type
    if kind == "text":
        assert re.findall(r"r0\S*(?: COLLATE \S+)?", steps.clean) == ['r0::text COLLATE "C"),'] * steps.clean.count(
            "r0"
        )
    for later in (steps.position or "", steps.code):
        assert "r0" not in later
    sql = "".join((steps.clean, steps.position or "", steps.code))
    compared = re.findall(r"digits (?:>=|<=)", sql)
    assert len(compared) == 2 * sql.count('COLLATE "C" AS digits')
