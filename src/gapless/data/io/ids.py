"""Find columns that look like the id of persons with several rows, by their name and by what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from typing import Protocol

from gapless.schema.id_names import has_name_of_id, has_word_for_person

LEAST_IDS = 20  # fewer different ids are rather a few groups
MOST_ROWS_OF_AN_ID = 100  # on average; with more, an id is rather that of a place
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


def likeliest(names: Iterable[tuple[str, int]]) -> str:
    """The name that looks most like the id of a person: one with a word for a person, then the most different ids."""
    return max(names, key=lambda found: (has_word_for_person(found[0]), found[1]))[0]
