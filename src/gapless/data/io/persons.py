r"""Keep at most k rows of each person, always the same ones.

A row has an *id*, the texts of its id columns, and a *content*, the codes of the schema's columns at its finest
resolution. Both depend on the row and on public facts only. Of rows of one person with equal content the first has the
occurrence number 1, the second 2, and so on. The rows of a person are ordered by

.. math:: h = \mathrm{SHA256}(s \,\|\, \mathrm{SHA256}(s \,\|\, m)), \qquad m = \text{id, content, occurrence},

with a secret key :math:`s` of 32 bytes, then by content. The first k are kept. A row without an id is a person by
itself. So which rows of a person are kept depends on these rows and the key alone, and adding or removing a person
changes at most k kept rows. Proved in docs/proofs/stability.md, section 7.

Every engine computes the same. The texts of an id are the same everywhere because only texts and whole numbers are
read as ids: databases write floating numbers, dates and times differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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
SLICE_BYTES = 1 << 27  # of messages that are held at once


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
            hint=f"write a name that is in the data as the id: {nearest(lacking[0], columns)}",
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
        different = ids.drop_nulls().unique()
        found = [self._numbers.setdefault(person, len(self._numbers)) for person in different]
        numbers = ids.replace_strict(different, pl.Series(found, dtype=pl.Int32), default=None, return_dtype=pl.Int32)
        return numbers.fill_null(NO_ID).to_numpy()

    @property
    def ids(self) -> list[str]:
        """The encoded id of each person, by number."""
        return list(self._numbers)


def kept_rows(
    persons: NDArray[np.int32], ids: Sequence[str], columns: Sequence[Codes], limit: RowLimit
) -> NDArray[np.bool_]:
    """Which rows are kept, given the person of each row and the codes of each column."""
    kept = np.ones(len(persons), dtype=np.bool_)
    rows_of = np.bincount(persons[persons != NO_ID], minlength=1)
    crowded = np.flatnonzero((persons != NO_ID) & (rows_of[persons] > limit.at_most))
    kept[crowded] = False
    by_person = crowded[np.argsort(persons[crowded], kind="stable")]
    for rows in _slices(by_person, persons, SLICE_BYTES // (8 * len(columns) + 64)):
        first = _is_first([ids[person] for person in persons[rows]], [codes[rows] for codes in columns], limit)
        kept[rows[first]] = True
    return kept


def _slices(rows: NDArray[np.int64], persons: NDArray[np.int32], most: int) -> Iterator[NDArray[np.int64]]:
    """Rows ordered by person in parts of about `most` rows, each with all rows of its persons."""
    starts = np.flatnonzero(np.diff(persons[rows], prepend=NO_ID))  # of the rows of each person
    cuts = starts[np.flatnonzero(np.diff(starts // most, prepend=-1))]
    yield from np.split(rows, cuts[1:]) if len(cuts) else ()


def _is_first(ids: Sequence[str], columns: Sequence[Codes], limit: RowLimit) -> NDArray[np.bool_]:
    """Which of these rows are among the first of their person, in the order of the keyed hash."""
    content = pl.concat_str(
        [pl.Series(str(place), codes).cast(pl.String) for place, codes in enumerate(columns)], separator=","
    )
    rows = pl.DataFrame({"id": ids}).with_columns(content=content)
    rows = rows.with_columns(occurrence=pl.int_range(1, pl.len() + 1).over("id", "content"))
    messages = rows.select(pl.concat_str("id", "content", pl.lit(";"), pl.col("occurrence").cast(pl.String)))
    hashes = [keyed_hash(limit.key, message.encode()) for message in messages.to_series()]
    rows = rows.select("id", "content", hash=pl.Series(hashes, dtype=pl.Binary), row=pl.int_range(pl.len()))
    rows = rows.sort("id", "hash", "content")
    first = rows.filter(pl.int_range(pl.len()).over("id") < limit.at_most)
    kept = np.zeros(len(ids), dtype=np.bool_)
    kept[first["row"].to_numpy()] = True
    return kept


def keyed_hash(key: bytes, message: bytes) -> bytes:
    """SHA-256 of the key and of the inner hash, which databases compute too."""
    return sha256(key + sha256(key + message).digest()).digest()
