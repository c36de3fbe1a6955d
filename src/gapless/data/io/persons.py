r"""Keep at most k rows of each person, always the same ones.

A row has an *id*, the texts of its id columns, and a *content*, the codes of the schema's columns at its finest
resolution. Both depend on the row and on public facts only. Of rows of one person with equal content the first has the
occurrence number 1, the second 2, and so on. The rows of a person are ordered by

.. math:: h = \mathrm{SHA256}(s \,\|\, \mathrm{SHA256}(s \,\|\, m)), \qquad m = \text{id, content, occurrence},

with a secret key :math:`s` of 32 bytes, then by content. The first k are kept. A row without an id is a person by
itself. So which rows of a person are kept depends on these rows and the key alone, and adding or removing a person
changes at most k kept rows. Proved in docs/proofs/stability.md, section 2.

Every engine computes the same. The texts of an id are the same everywhere because only texts and whole numbers are
read as ids: databases write floating numbers, dates and times differently.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.errors import ReadError, SchemaError
from gapless.text import listing, nearest
from gapless.types import Codes

NO_ID = -1  # the number of the person of a row without an id
MISSING_PART = "-"  # in place of a part of an id; a text begins with its length
NO_GROUP = -1  # of a person all of whose rows are kept
GROUP_BYTES = 1 << 29  # of the codes of rows that are dealt with together
SLICE_BYTES = 1 << 27  # of the texts of rows that are hashed together


@dataclass(frozen=True, slots=True)
class RowLimit:
    """At most `at_most` rows of each person are kept.

    Attributes:
        id: the columns with the id of a person.
        at_most: the number of rows.
        key: the secret key of the order.
    """

    id: tuple[str, ...]
    at_most: int
    key: bytes = field(repr=False)


def check_has_id(columns: Sequence[str], names: Sequence[str]) -> None:
    """Refuse data without the columns of the id."""
    if lacking := [name for name in names if name not in columns]:
        raise SchemaError(
            f"the data have no column {listing(map(repr, lacking))}, which is the id of a person",
            hint=f"write a name that is in the data as the id: {nearest(lacking[0], columns)}; or remove person and "
            "rows_per_person from the schema, if these are synthetic rows, which have no ids",
        )


def refused_id(name: str, kind: object) -> ReadError:
    """The error for an id of a type that engines write differently. The type is public."""
    wrong = f"the id {name!r} has type {kind}, which engines write differently"
    return ReadError(wrong, hint=f"write {name!r} as text or as whole numbers, and gaps in it as missing values")


def encode_ids(frame: pl.DataFrame, names: Sequence[str]) -> pl.Series:
    """The id of each row as one text: each part with its length in bytes, such as `3:007`; null without an id.

    White space around a part is removed, and a part without characters is missing. Different ids have different texts,
    because the first part ends where its length says.
    """
    check_has_id(frame.columns, names)
    for name in names:
        dtype = frame.schema[name]
        if not (dtype.is_integer() or dtype.base_type() in (pl.String, pl.Categorical, pl.Enum, pl.Null)):
            raise refused_id(name, dtype.base_type().__name__)
    texts = [pl.col(name).cast(pl.String).str.strip_chars() for name in names]
    texts = [pl.when(text != "").then(text) for text in texts]
    parts = [
        pl.concat_str(text.str.len_bytes().cast(pl.String), pl.lit(":"), text).fill_null(MISSING_PART) for text in texts
    ]
    is_missing = pl.all_horizontal(text.is_null() for text in texts)
    return frame.select(id=pl.when(~is_missing).then(pl.concat_str(parts))).to_series()


class PersonNumbers:
    """Numbers the persons in rows that come some at a time."""

    def __init__(self, id: Sequence[str]) -> None:  # noqa: A002 the word of `gapless.Persons`
        self._id = id
        self._numbers: dict[str, int] = {}

    def numbers(self, frame: pl.DataFrame) -> NDArray[np.int32]:
        """The number of the person of each row; `NO_ID` without an id."""
        ids = encode_ids(frame, self._id)
        different = ids.drop_nulls().unique(maintain_order=True)
        found = [self._numbers.setdefault(person, len(self._numbers)) for person in different]
        numbers = ids.replace_strict(different, pl.Series(found, dtype=pl.Int32), default=None, return_dtype=pl.Int32)
        return numbers.fill_null(NO_ID).to_numpy()

    @property
    def ids(self) -> list[str]:
        """The encoded id of each person, by number."""
        return list(self._numbers)


def kept_rows(
    persons: NDArray[np.int32],
    ids: Sequence[str],
    limit: RowLimit,
    *,
    width: int,
    columns_of: Callable[[NDArray[np.bool_]], Sequence[Codes]],
) -> NDArray[np.bool_]:
    """Which rows are kept. All rows of a person are dealt with together, and as many persons as fit in memory.

    Args:
        persons: the number of the person of each row.
        ids: the encoded id of each person, by number.
        limit: how many rows are kept.
        width: the number of columns.
        columns_of: the codes of these columns in the chosen rows.
    """
    kept = np.ones(len(persons), dtype=np.bool_)
    groups = _groups(persons, len(ids), limit.at_most, GROUP_BYTES // (2 * width + 24))
    for group in range(int(groups.max()) + 1):
        chosen = groups[persons] == group
        kept[chosen] = _first_rows(persons[chosen], ids, columns_of(chosen), limit)
    return kept


def _groups(persons: NDArray[np.int32], known: int, at_most: int, most: int) -> NDArray[np.int32]:
    """The group of each person with more than `at_most` rows; `NO_GROUP` for others, and in the last place: no id.

    A group has about `most` rows. Its number fits in 32 bits.
    """
    rows_of = np.bincount(persons[persons != NO_ID], minlength=known)
    crowded = rows_of > at_most
    group = np.cumsum(np.where(crowded, rows_of, 0)) // max(1, most)
    return np.append(np.where(crowded, group, NO_GROUP), NO_GROUP).astype(np.int32)


def _first_rows(
    persons: NDArray[np.int32], ids: Sequence[str], columns: Sequence[Codes], limit: RowLimit
) -> NDArray[np.bool_]:
    """Which of these rows are among the first of their person. All rows of each person are there."""
    is_first = np.zeros(len(persons), dtype=np.bool_)
    by_person = np.argsort(persons, kind="stable")
    starts = np.flatnonzero(np.diff(persons[by_person], prepend=NO_ID))  # of the rows of each person
    parts = starts // max(1, SLICE_BYTES // (8 * len(columns) + 64))
    for rows in np.split(by_person, starts[np.flatnonzero(np.diff(parts)) + 1]):
        hashed = hashed_rows([ids[person] for person in persons[rows]], [codes[rows] for codes in columns], limit.key)
        ordered = hashed.sort("id", "hash", "content")
        first = ordered.filter(pl.int_range(pl.len()).over("id") < limit.at_most)["row"]
        is_first[rows[first.to_numpy()]] = True
    return is_first


def hashed_rows(ids: Sequence[str], columns: Sequence[Codes], key: bytes) -> pl.DataFrame:
    """The id, the content and the keyed hash of each row; `row` numbers them."""
    codes = [pl.Series(str(place), codes).cast(pl.String) for place, codes in enumerate(columns)]
    rows = pl.DataFrame({"id": ids, "content": pl.select(pl.concat_str(codes, separator=",")).to_series()})
    occurrence = pl.int_range(1, pl.len() + 1).over("id", "content").cast(pl.String)
    messages = rows.select(pl.concat_str("id", "content", pl.lit(";"), occurrence)).to_series()
    hashes = [keyed_hash(key, message.encode()) for message in messages]
    return rows.with_columns(hash=pl.Series(hashes, dtype=pl.Binary), row=pl.int_range(pl.len()))


def keyed_hash(key: bytes, message: bytes) -> bytes:
    """SHA-256 of the key and of the inner hash, which databases compute too."""
    return sha256(key + sha256(key + message).digest()).digest()
