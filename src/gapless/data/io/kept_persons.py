"""What reading finds out about persons: which rows are kept, whose they are, and the values that persons have once.

A column that is declared constant within a person has one value in all kept rows of a person: that of the first kept
row that has it, in the order of the keyed hash. If no kept row has a value, it is the kind of gap of the first row. It
depends on the kept rows of this person and on the key alone, so adding or removing a person still changes no row of
another (docs/proofs/persons.md, section 4).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from gapless.data.io.persons import NO_ID, RowLimit, hashed_rows, kept_rows
from gapless.schema import Schema
from gapless.types import Codes, Integers

# The codes of the columns at these places, in the rows that are true.
CodesOf: TypeAlias = Callable[[NDArray[np.bool_], Sequence[int]], Sequence[Codes]]


@dataclass(frozen=True, slots=True)
class KeptPersons:
    """The rows of a table that are kept, and whose they are.

    Attributes:
        is_kept: which rows of the data are kept.
        persons: the number of the person of each kept row, from 0. A row without an id is a person by itself.
        rows_of: how many rows each person has in the data, by number.
        constants: the codes of constant columns in the kept rows, by the place of the column.
    """

    is_kept: NDArray[np.bool_]
    persons: NDArray[np.int32]
    rows_of: Integers
    constants: Mapping[int, Codes]


def keep_persons(
    persons: NDArray[np.int32], ids: Sequence[str], limit: RowLimit, schema: Schema, codes_of: CodesOf
) -> KeptPersons:
    """Keep rows of persons.

    Args:
        persons: the number of the person of each row, or `NO_ID`. It is changed.
        ids: the encoded id of each person, by number.
        limit: how many rows are kept.
        schema: the public description of the columns.
        codes_of: the codes of columns in chosen rows.
    """
    places = range(len(schema.columns))
    is_kept = kept_rows(persons, ids, limit, width=len(places), columns_of=lambda chosen: codes_of(chosen, places))

    def codes_of_kept(chosen: NDArray[np.bool_], wanted: Sequence[int]) -> Sequence[Codes]:
        rows = is_kept.copy()
        rows[is_kept] = chosen
        return codes_of(rows, wanted)

    constants = hold_constant(persons[is_kept], ids, schema, limit.key, codes_of_kept)
    alone = persons == NO_ID
    persons[alone] = len(ids) + np.arange(alone.sum())
    return KeptPersons(is_kept, persons[is_kept], np.bincount(persons), constants)


def hold_constant(
    persons: NDArray[np.int32], ids: Sequence[str], schema: Schema, key: bytes, codes_of: CodesOf
) -> dict[int, Codes]:
    """The codes of constant columns, those of the first row of the person that has a value.

    Args:
        persons: the number of the person of each kept row, or `NO_ID`.
        ids: the encoded id of each person, by number.
        schema: the public description of the columns.
        key: the secret key of the order.
        codes_of: the codes of columns in chosen kept rows.
    """
    sizes = {place: column.size for place, column in enumerate(schema.columns) if column.per_person}
    if not sizes:
        return {}
    found = dict(zip(sizes, codes_of(np.ones(len(persons), dtype=np.bool_), [*sizes]), strict=True))
    varies = np.zeros(len(ids), dtype=np.bool_)
    for place, size in sizes.items():
        varies |= _varies(persons, len(ids), found[place], size)
    order = _order(persons, ids, varies, key, lambda chosen: codes_of(chosen, range(len(schema.columns))))
    return {place: _first_values(persons, order, found[place], size) for place, size in sizes.items()}


def _varies(persons: NDArray[np.int32], known: int, codes: Codes, size: int) -> NDArray[np.bool_]:
    """Which persons have several codes, not counting gaps if they have a value."""
    low, high = np.full(known, np.iinfo(np.int64).max), np.full(known, -1)
    low_gap, high_gap = low.copy(), high.copy()
    for least, most, counted in ((low, high, codes < size), (low_gap, high_gap, codes >= size)):
        rows = (persons != NO_ID) & counted
        np.minimum.at(least, persons[rows], codes[rows].astype(np.int64))
        np.maximum.at(most, persons[rows], codes[rows].astype(np.int64))
    return np.where(high >= 0, low < high, low_gap < high_gap)


def _order(
    persons: NDArray[np.int32],
    ids: Sequence[str],
    varies: NDArray[np.bool_],
    key: bytes,
    columns_of: Callable[[NDArray[np.bool_]], Sequence[Codes]],
) -> NDArray[np.int64]:
    """All rows with an id, those of persons that vary in the order of the keyed hash. Other orders do not matter."""
    is_hashed = np.append(varies, False)[persons]  # the last place is that of `NO_ID`
    rows = np.flatnonzero(is_hashed)
    hashed = hashed_rows([ids[person] for person in persons[rows]], columns_of(is_hashed), key)
    ordered = rows[hashed.sort("id", "hash", "content")["row"].to_numpy()]
    return np.concatenate([np.flatnonzero((persons != NO_ID) & ~is_hashed), ordered])


def _first_values(persons: NDArray[np.int32], order: NDArray[np.int64], codes: Codes, size: int) -> Codes:
    """The code of the first row of each person that has a value; else of its first row."""
    with_value = order[codes[order] < size]
    first_of: NDArray[np.int64] = np.full(int(persons.max(initial=0)) + 1, -1)
    for rows in (order, with_value):  # of equal places the last assignment counts, so in reverse the first row
        first_of[persons[rows[::-1]]] = rows[::-1]
    new = codes.copy()
    new[order] = codes[first_of[persons[order]]]
    return new
