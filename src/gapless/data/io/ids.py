"""Find columns that look like ids, by their name and by what they hold: of rows, or of persons with several rows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence, Sized
from typing import Protocol

from gapless.schema import toml
from gapless.schema.id_names import has_name_of_id, has_word_for_person

LEAST_IDS = 20  # fewer different ids are rather a few groups
MOST_ROWS_OF_AN_ID = 100  # on average; with more, an id is rather that of a place
MOST_DIFFERENT = 60  # whole numbers in this many rows may all differ by chance
SAME_ROWS = 0.7  # share of ids with the same number of rows, from which on a column without a name of an id is named
LEAST_DIGITS = 5  # of ids that all have as many digits
_NUMBER_OF_ROW = re.compile(r"(unnamed.*|row_?(names?|num|number|nr|no|id)?|index|obs(ervation)?|case)")
_TIME = re.compile(r"(year|yr|jahr|month|week|day|date|time|period|quarter|wave|age|alter)")
_WHOLE_OR_TEXT = re.compile(r"[+-]?\d+|.*[^\W\d].*", re.DOTALL)


class Texts(Iterable[str], Sized, Protocol):
    """Some texts."""


def looks_like_id(name: str, ids: Texts, rows: int) -> bool:
    """Whether a column looks like the id of persons, some of whom have several rows.

    Args:
        name: the name of the column.
        ids: its different texts.
        rows: the number of rows with one of them.
    """
    several = LEAST_IDS < len(ids) < rows <= MOST_ROWS_OF_AN_ID * len(ids)
    return several and has_name_of_id(name) and all(map(_WHOLE_OR_TEXT.fullmatch, ids))


def id_of_rows(name: str, numbers: Sequence[float], rows: int) -> str:
    """Why a column of numbers that differ in every row is left out; empty if it is no id.

    It is one if it has the name of an id, if it numbers the rows, or if all its numbers have equally many digits and
    are widely spread. Other numbers, such as incomes or the inhabitants of towns, may all differ as well.

    Args:
        name: the name of the column.
        numbers: its different numbers.
        rows: the number of rows with one of them.
    """
    if not _differ_in_every_row(numbers, rows):
        return ""
    lowest, highest = int(min(numbers)), int(max(numbers))
    named = has_name_of_id(name) or _NUMBER_OF_ROW.fullmatch(name.strip().lower()) is not None
    dense = lowest >= 0 and highest - lowest < 2 * rows
    digits = len(str(lowest)) == len(str(highest)) >= LEAST_DIGITS and highest > 2 * lowest > 0
    counted = lowest in (0, 1) and highest - lowest == rows - 1 > LEAST_IDS
    if named or counted or (rows > MOST_DIFFERENT and (dense or digits) and not _is_time(name)):
        return "a different whole number in every row, such as an identifier"
    return ""


def id_remark(name: str, numbers: Sequence[float], times: Sequence[int]) -> str:
    """A remark on whole numbers that may be ids: all differ, or they are in equally many rows each.

    Args:
        name: the name of the column.
        numbers: its different numbers.
        times: the number of rows with each number.
    """
    if len(numbers) > MOST_DIFFERENT and _differ_in_every_row(numbers, sum(times)):
        return "" if _is_time(name) else "a different number in every row: add it to ignore if it identifies anybody"
    several, ids = Counter(times).most_common(1)[0]
    whole = all(number == int(number) for number in numbers)
    if not whole or len(numbers) <= LEAST_IDS or several < 2 or ids < SAME_ROWS * len(numbers) or _is_time(name):
        return ""
    written = toml.quoted(name)
    return f"most of its numbers are in {several} rows each: if it is the id of persons, write person = {written}"


def _differ_in_every_row(numbers: Sequence[float], rows: int) -> bool:
    return len(numbers) == rows > 1 and all(number == int(number) for number in numbers)


def _is_time(name: str) -> bool:
    return _TIME.search(name.lower()) is not None


def likeliest(names: Iterable[tuple[str, int]]) -> str:
    """The name that looks most like the id of a person: one with a word for a person, then the most different ids."""
    return max(names, key=lambda found: (has_word_for_person(found[0]), found[1]))[0]
