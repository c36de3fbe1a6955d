"""Columns that are declared constant within a person: each person has one value in all kept rows.

The value is that of the first kept row that has it, in the order of the keyed hash. If no kept row has a value, the
kind of gap is that of the first row. It depends on the kept rows of this person and on the key alone, so adding or
removing a person still changes no row of another (docs/proofs/persons.md, section 4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.data.io.persons import NO_ID, hashed_rows
from gapless.schema import Schema
from gapless.types import Codes


def hold_constant(
    persons: NDArray[np.int32], ids: Sequence[str], columns: Sequence[Codes], schema: Schema, key: bytes
) -> list[Codes]:
    """Replace the codes of constant columns by those of the first row of the person that has a value.

    Args:
        persons: the number of the person of each kept row.
        ids: the encoded id of each person, by number.
        columns: the codes of the kept rows.
        schema: the public description of the columns.
        key: the secret key of the order.
    """
    constant = {place: column.size for place, column in enumerate(schema.columns) if column.per_person}
    varying = np.zeros(len(ids), dtype=np.bool_)
    for place, size in constant.items():
        varying |= _varies(persons, len(ids), columns[place], size)
    if not constant:
        return list(columns)
    order = _order(persons, ids, columns, varying, key)
    return [
        _first_values(persons, order, codes, constant[place]) if place in constant else codes
        for place, codes in enumerate(columns)
    ]


def _varies(persons: NDArray[np.int32], known: int, codes: Codes, size: int) -> NDArray[np.bool_]:
    """Which persons have several codes, not counting gaps if they have a value."""
    low, high = np.full(known, np.iinfo(np.int64).max), np.full(known, -1)
    low_gap, high_gap = low.copy(), high.copy()
    of_person = persons != NO_ID
    for least, most, counted in ((low, high, codes < size), (low_gap, high_gap, codes >= size)):
        rows = of_person & counted
        np.minimum.at(least, persons[rows], codes[rows].astype(np.int64))
        np.maximum.at(most, persons[rows], codes[rows].astype(np.int64))
    return np.where(high >= 0, low < high, low_gap < high_gap)


def _order(
    persons: NDArray[np.int32],
    ids: Sequence[str],
    columns: Sequence[Codes],
    varying: NDArray[np.bool_],
    key: bytes,
) -> NDArray[np.int64]:
    """All rows with an id, those of persons that vary in the order of the keyed hash. Other orders do not matter."""
    known = np.flatnonzero(persons != NO_ID)
    rows = known[varying[persons[known]]]
    hashed = hashed_rows([ids[person] for person in persons[rows]], [codes[rows] for codes in columns], key)
    ordered = rows[hashed.sort("id", "hash", "content")["row"].to_numpy()]
    return np.concatenate([known[~varying[persons[known]]], ordered])


def _first_values(persons: NDArray[np.int32], order: NDArray[np.int64], codes: Codes, size: int) -> Codes:
    """The code of the first row of each person that has a value; else of its first row."""
    with_value = order[codes[order] < size]
    first_of: NDArray[np.int64] = np.full(int(persons.max(initial=0)) + 1, -1)
    for rows in (order, with_value):  # later assignments win, so in reverse the first row does
        first_of[persons[rows[::-1]]] = rows[::-1]
    new = codes.copy()
    new[order] = codes[first_of[persons[order]]]
    return new
