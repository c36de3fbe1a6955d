"""How the cells of a file differ from what its schema leads one to expect. For the holder: NOT for release."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.schema import Boolean, Column
from gapless.schema.columns import LevelColumn
from gapless.schema.columns_toml import name_runs
from gapless.schema.id_names import has_name_of_id
from gapless.schema.numeric import NumericColumn
from gapless.text import listing, shortened, visible

NEARLY_EMPTY = 0.7  # share of cells without a value
MOST_DIFFERENT = 60  # whole numbers in this many rows may all differ by chance
MOST_NAMED = 6  # codes or levels named in a line
_CODE = re.compile(r"-[1-9]|-7+|-8+|-9+|9[5-9]|66+|77+|88+|99+|9+[5-8]")  # codes of survey practice


@dataclass(frozen=True, slots=True)
class FileRemark:
    """What is odd about some columns of a file.

    Attributes:
        columns: the columns of which it is true.
        text: what is odd, and what to do.
    """

    columns: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{name_runs(self.columns)}: {self.text}"


def file_remarks(columns: Iterable[tuple[Column, pl.Series, NDArray[np.bool_], NDArray[np.bool_]]]) -> list[FileRemark]:
    """What is odd about columns: one remark for all columns of which the same is true.

    Args:
        columns: each column with its cells, which of them are gaps, and which are outside the schema.
    """
    found: dict[str, list[str]] = {}
    for column, series, gap, outside in columns:
        for text in _remarks(column, series, gap, outside):
            found.setdefault(text, []).append(column.name)
    return [FileRemark(tuple(names), text) for text, names in found.items()]


def _remarks(column: Column, series: pl.Series, gap: NDArray[np.bool_], outside: NDArray[np.bool_]) -> Iterable[str]:
    """Sentences about one column."""
    rows = len(series)
    if not rows:
        return
    texts = series.cast(pl.String).str.strip_chars()
    times = _times(texts.filter(pl.Series(~gap)))
    yield from _unnamed(column, _times(texts.filter(pl.Series(outside))))
    if gap.all():
        yield "no cell has a value: add the column to ignore"
        return
    if float(gap.mean()) >= NEARLY_EMPTY:
        advice = (
            'if there is no value behind them, declare their code ("" for an empty cell) with kind = "not-asked" or '
            '"not-applicable"'
        )
        yield f"at least {NEARLY_EMPTY:.0%} of the cells are missing: {advice}"
    if len(times) == 1 and rows > 1:
        yield "all cells with a value are the same: add the column to ignore, unless other values are possible"
    if len(times) == int((~gap).sum()) > MOST_DIFFERENT and (_are_whole(times) or has_name_of_id(column.name)):
        yield "a different value in each row, such as an identifier: add the column to ignore"
    if isinstance(column, LevelColumn) and not isinstance(column, Boolean):
        if unused := [level for level in column.value_cells if level not in times]:
            shown = [_with_label(column, level) for level in unused]
            yield f"levels that never occur: {listing(shown, most=MOST_NAMED)}; keep them if they are possible"
        yield from _gap_levels(column, times)


def _times(texts: pl.Series) -> Mapping[str, int]:
    """How often each text occurs; 13.0 counts as 13."""
    counted = texts.drop_nulls().str.replace(r"^(-?\d+)\.0+$", "${1}").alias("text").value_counts(sort=True)
    return {text: times for text, times in counted.iter_rows() if text}


def _unnamed(column: Column, outside: Mapping[str, int]) -> Iterable[str]:
    """Codes in the file that the schema does not name; those that look like gaps apart."""
    codes = [text for text in outside if _CODE.fullmatch(text)]
    if codes and not isinstance(column, Boolean):
        named = ", ".join(f'"{code}"' for code in sorted(codes)[:MOST_NAMED])
        yield f"codes outside the schema that look like gaps: if the codebook says so, write missing = [{named}]"
    others = [text for text in outside if text not in codes]
    if others and isinstance(column, LevelColumn):
        shown = [repr(shortened(text, 30)) for text in others]
        yield f"codes that the schema does not name: {listing(shown, most=MOST_NAMED)}"
    elif others and isinstance(column, NumericColumn) and not any(map(_is_number, others)):
        shown = [repr(shortened(text, 30)) for text in others]
        yield f"words among numbers: {listing(shown, most=MOST_NAMED)}; add them to missing if they mean a gap"


def _gap_levels(column: LevelColumn, times: Mapping[str, int]) -> Iterable[str]:
    """Levels that stand apart from the others as codes for gaps do: -9 or 99 after 1, 2, 3."""
    odd = [level for level in column.value_cells if _CODE.fullmatch(level) and level in times]
    rest = [float(level) for level in column.value_cells if level not in odd and _is_number(level)]
    if not odd or len(rest) + len(odd) != len(column.levels) or not rest:
        return
    apart = [level for level in odd if float(level) < 0 <= min(rest) or float(level) > 2 * max(rest) + 1]
    if apart:
        shown = ", ".join(_with_label(column, level) for level in apart[:MOST_NAMED])
        yield f"levels that look like codes for gaps: {shown}; if so, move them from levels to missing"


def _with_label(column: LevelColumn, level: str) -> str:
    label = column.label_of(level)
    return f"{visible(level)} ({visible(shortened(label, 30))})" if label else visible(level)


def _are_whole(times: Mapping[str, int]) -> bool:
    return all(re.fullmatch(r"[+-]?\d+", text) for text in times)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
