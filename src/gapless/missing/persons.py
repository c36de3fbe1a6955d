"""Rows per person, for the holder: how many rows persons have, and which share of rows a limit would drop."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from gapless.data.io.draft_column import USUAL_CODES
from gapless.data.io.draft_gaps import GAP_NUMBER
from gapless.data.io.ids import looks_like_id
from gapless.data.io.persons import encode_ids
from gapless.data.io.source import is_plain
from gapless.schema.gap_words import gap_kind
from gapless.text import listing, plural

LIMITS = (1, 2, 3, 5, 10)  # of rows per person, for which the share of dropped rows is shown
STARTS = (1, 2, 3, 4, 5, 6, 11, 21, 51, 101, 1001)  # of the ranges of rows per person that are shown


@dataclass(frozen=True, slots=True)
class RowsPerPerson:
    """How many rows persons have. Exact: NOT for release.

    Attributes:
        id: what a person is called: the id columns.
        rows: the number of rows.
        persons: the number of different ids.
        without_id: the number of rows without an id. Each is a person by itself.
        persons_by_rows: the number of ids with each number of rows.
        dropped: the share of rows that each limit would drop.
        varying: the number of persons in whose rows a column has several values, by column.
        codes: cells of the id that look like a code for a gap, and their rows. Each code counts as one person.
    """

    id: str
    rows: int
    persons: int
    without_id: int
    persons_by_rows: dict[int, int]
    dropped: dict[int, float]
    varying: dict[str, int]
    codes: dict[str, int]

    def __str__(self) -> str:
        lines = [
            f"Rows per person ({self.id}): {plural(self.rows, 'row')} of {plural(self.persons, 'person')}, "
            f"{plural(self.without_id, 'row')} without an id",
            "",
            f"  {'rows':>9}  {'persons':>9}",
        ]
        for first, following in zip(STARTS, (*STARTS[1:], max([*self.persons_by_rows, *STARTS]) + 1), strict=True):
            many = sum(persons for rows, persons in self.persons_by_rows.items() if first <= rows < following)
            label = str(first) if following == first + 1 else f"{first:,}-{following - 1:,}"
            lines += [f"  {label:>9}  {many:>9,}"] if many else []
        lines += ["", f"  {'at most':>9}  {'dropped':>9}"]
        lines += [f"  {limit:>9}  {f'{share:.1%}':>9}" for limit, share in self.dropped.items()]
        constant = [name for name, persons in self.varying.items() if persons == 0]
        if constant and self.persons < self.rows:
            lines += ["", f"  the same in all rows of each person: {listing(constant)}"]
        return "\n".join(lines)


def rows_per_person(frame: pl.DataFrame, names: Sequence[str], columns: Mapping[str, pl.Series]) -> RowsPerPerson:
    """Count the rows of each person, and the persons in whose rows columns vary.

    Args:
        frame: the data.
        names: the id columns.
        columns: the cells of the columns, null where there is a gap.
    """
    ids = encode_ids(frame, names)
    counts = ids.drop_nulls().alias("id").value_counts()["count"]
    by_rows = counts.alias("rows").value_counts().sort("rows")
    kept = {limit: int(counts.clip(upper_bound=limit).sum()) + ids.null_count() for limit in LIMITS}
    by_person = pl.DataFrame({"id": ids} | {f"={name}": cells for name, cells in columns.items()}).group_by("id")
    different = by_person.agg(pl.exclude("id").drop_nulls().n_unique()).drop_nulls("id")
    return RowsPerPerson(
        id=" and ".join(names),
        rows=frame.height,
        persons=len(counts),
        without_id=ids.null_count(),
        persons_by_rows=dict(by_rows.iter_rows()),
        varying={name: int((different[f"={name}"] > 1).sum()) for name in columns},
        codes=_codes(frame, names),
        dropped={limit: (frame.height - rows) / max(1, frame.height) for limit, rows in kept.items()},
    )


def _codes(frame: pl.DataFrame, names: Sequence[str]) -> dict[str, int]:
    """Cells of the id that look like a code for a gap: words for one, and -9, -99 and the like.

    A part of an id of several columns may be missing, and a code is then one more value. So there is nothing to say.
    """
    if len(names) > 1:
        return {}
    texts = frame[names[0]].cast(pl.String).str.strip_chars().alias("text")
    counts = dict(texts.filter(texts != "").value_counts(sort=True).iter_rows())
    usual = {text for text in counts if text in USUAL_CODES or gap_kind(text) is not None}
    numbers = {text for text in counts if text.startswith("-") and GAP_NUMBER.fullmatch(text)}
    return {text: rows for text, rows in counts.items() if text in usual | numbers}


def possible_ids(frame: pl.DataFrame) -> Iterable[tuple[str, int]]:
    """The columns that look like the id of persons with several rows, and the number of different ids."""
    for series in frame:
        if is_plain(series):
            texts = series.cast(pl.String).str.strip_chars().alias("text")
            counts = texts.filter(texts != "").value_counts()
            if looks_like_id(series.name, counts["text"], int(counts["count"].sum())):
                yield series.name, len(counts)
