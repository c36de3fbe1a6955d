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
NEARLY_ALL_DIFFER = 0.98  # share of rows with a number of their own, nearly all: some ids were entered twice
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
    counted = lowest in (0, 1) and highest - lowest == rows - 1 > LEAST_IDS
    numbered = counted or (rows > MOST_DIFFERENT and _are_numbered(numbers))
    if named or (numbered and not _is_time(name)):
        return "a different whole number in every row, such as an identifier"
    return ""


def id_remark(name: str, numbers: Sequence[float], times: Sequence[int]) -> str:
    """A remark on whole numbers that may be ids: all differ, or they are in equally many rows each.

    Args:
        name: the name of the column.
        numbers: its different numbers.
        times: the number of rows with each number.
    """
    if _is_time(name) or not all(number == int(number) for number in numbers):
        return ""
    rows, (several, ids) = sum(times), Counter(times).most_common(1)[0]
    if len(numbers) > MOST_DIFFERENT and _differ_in_every_row(numbers, rows):
        return "a different number in every row: add the column to ignore if it identifies persons"
    if len(numbers) > MOST_DIFFERENT and len(numbers) >= NEARLY_ALL_DIFFER * rows and _are_numbered(numbers):
        return "nearly all its numbers differ: add the column to ignore if it identifies persons"
    person = f"write person = {toml.quoted(name)}"
    if LEAST_IDS < len(numbers) < rows and has_name_of_id(name):  # written 1.0: `looks_like_id` takes the others
        return f"looks like the id of persons, but has decimals: write whole numbers in the data, and {person}"
    if len(numbers) > LEAST_IDS and several > 1 and ids >= SAME_ROWS * len(numbers):
        return f"most of its numbers occur in {several} rows each: if it is the id of persons, {person}"
    return ""


def _differ_in_every_row(numbers: Sequence[float], rows: int) -> bool:
    return len(numbers) == rows > 1 and all(number == int(number) for number in numbers)


def _are_numbered(numbers: Sequence[float]) -> bool:
    """Whether different whole numbers are close to one another, or all have equally many digits and are spread."""
    if not all(number == int(number) for number in numbers):
        return False
    lowest, highest = int(min(numbers)), int(max(numbers))
    dense = lowest >= 0 and highest - lowest < 2 * len(numbers)
    return dense or (len(str(lowest)) == len(str(highest)) >= LEAST_DIGITS and highest > 2 * lowest > 0)


def _is_time(name: str) -> bool:
    return _TIME.search(name.lower()) is not None


def likeliest(names: Iterable[tuple[str, int]]) -> str:
    """The name that looks most like the id of a person: one with a word for a person, then the most different ids."""
    return max(names, key=lambda found: (has_word_for_person(found[0]), found[1]))[0]
