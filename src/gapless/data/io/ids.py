"""Find columns that look like the id of persons with several rows, by their name and by what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sized
from typing import Protocol

LEAST_IDS = 20  # fewer different ids are rather a few groups
MOST_ROWS_OF_AN_ID = 100  # on average; with more, an id is rather that of a place
_PERSON = r"(person|patient|pat|subject|subj|respondent|resp|participant|member|individual|insured|pupil|student|child)"
_GROUP = r"(household|hh|family|case|client|customer|user|people|record)"
_ID = re.compile(
    rf"{_PERSON}|({_PERSON}|{_GROUP})_?(no|num|number|code|key)|({_PERSON}|{_GROUP}|.*_)?_?(id|idnr|nr|uid|uuid)|pid|seqn"
)
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


def has_name_of_id(name: str) -> bool:
    """Whether a column has the name of an id: patient_id, PatientID, nr.

    >>> [name for name in ("patient_id", "PatientID", "pid", "nr", "age", "n_children", "paid") if has_name_of_id(name)]
    ['patient_id', 'PatientID', 'pid', 'nr']
    """
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", "_", name.strip()).lower().strip("_")
    return _ID.fullmatch(parts) is not None


def likeliest(names: Iterable[tuple[str, int]]) -> str:
    """The name that looks most like the id of a person: one with a word for a person, then the most different ids."""
    return max(names, key=lambda found: (re.search(_PERSON, found[0].lower()) is not None, found[1]))[0]
