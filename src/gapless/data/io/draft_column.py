"""What a draft sees of one column: its different texts, how often each occurs, and how its numbers are written."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import polars as pl

from gapless.data.io.source import is_plain
from gapless.schema.gap_codes import as_text
from gapless.schema.gap_words import gap_kind
from gapless.schema.numeric import Number

USUAL_CODES = ("", "NA", "N/A", "n/a", "#N/A", "nan", "NaN", "NULL", "null", "None", ".", "?", "-")
PLAINLY = (".", "")  # the decimal sign and the sign between thousands of 1234.5
STYLES = (PLAINLY, (",", ""), (",", "."), (".", ","), (".", " "), (",", " "), (".", "'"), (",", "'"))
RARE = 0.2  # largest share of rows with words among numbers or dates that are taken for gaps
MOST_WORDS = 5  # different words among them, at most
LEAST_VALUES = 11  # different numbers or dates beside such words, at least: fewer may be levels
MOST_NAMED = 30  # different words that say why there is no number, at most
LIMIT = re.compile(r"[<>≤≥]=?\s*[\d.,]+|[\d.,]+\s*\+")  # a number is known to be below or above this one
PLACEHOLDER = re.compile(r"[0./:\- ]*0[0./:\- ]*|[9./:\- ]*9[9./:\- ]*")  # in place of a date: 00.00.0000
_LEADING_ZERO = re.compile(r"[+-]?0\d")
_WORD = re.compile(r"[^\d]+")


@dataclass
class ObservedColumn:
    """What was seen of one column. `odd` is the reason why it cannot be used, if there is one."""

    name: str
    texts: set[str] = field(default_factory=set)
    times: Counter[str] = field(default_factory=Counter)
    empty: int = 0  # cells without a text
    rows: int = 0
    odd: str = ""
    style: tuple[str, str] = PLAINLY
    written: dict[str, str] = field(default_factory=dict)  # the text in the file of each number such as 1234.5
    remarks: list[str] = field(default_factory=list)

    def look(self, series: pl.Series) -> None:
        """Count the cells of some more rows."""
        if not is_plain(series):
            self.odd = f"it holds values of type {series.dtype.base_type().__name__}"
            return
        for text, times in series.cast(pl.String).drop_nulls().alias("text").value_counts().iter_rows():
            self.times[text.strip()] += times
        self.texts |= self.times.keys()
        self.empty += series.null_count()
        self.rows += len(series)

    def rows_with(self, texts: Iterable[str]) -> int:
        """The number of rows with one of these texts."""
        return sum(self.times[text] for text in texts)

    def numbers(self, style: tuple[str, str]) -> dict[str, str] | None:
        """Its numbers rewritten as 1234.5, if all its texts but gaps and rare words are numbers in this style."""
        values = self.texts - set(USUAL_CODES)
        column = Number("any", bounds=(0, 1), decimal=style[0], thousands=style[1])
        plain: dict[str, str] = {}
        for text in values:
            number = text if style == PLAINLY else column.plain(text)
            if number is not None and is_number(number):
                plain[text] = number
        not_numbers = values - set(plain)
        if len(not_numbers) > MOST_NAMED:
            return None
        not_numbers = {text for text in not_numbers if gap_kind(text) is None}
        if not_numbers and not are_rare_words(not_numbers, set(plain), self.times):
            return None
        return plain if numbers_of(set(plain.values())) else None

    def settle(self, styles: Iterable[tuple[str, str]]) -> None:
        """Rewrite its numbers as 1234.5, if it holds numbers in one of these styles."""
        for style in styles if not self.odd else ():
            if (plain := self.numbers(style)) is not None:
                self.style = style
                self.written = {as_text(number): text for text, number in plain.items()}
                self._rename(plain)
                return
        self._rename({})

    def _rename(self, plain: Mapping[str, str]) -> None:
        """Replace texts by numbers such as 1234.5, and write numbers without needless digits."""
        times: Counter[str] = Counter()
        for text, many in self.times.items():
            times[as_text(plain.get(text, text))] += many
        self.times, self.texts = times, set(times)


def are_rare_words(not_values: set[str], values: set[str], times: Mapping[str, int]) -> bool:
    """Whether a few words among many numbers or dates are so rare that they are rather gaps, such as 3 % "n.b."."""
    rows, others = (sum(times[text] for text in texts) for texts in (not_values, values))
    few = len(not_values) <= MOST_WORDS and len(values) >= LEAST_VALUES and rows <= RARE * (rows + others)
    return few and all(any(form.fullmatch(word) for form in (_WORD, LIMIT, PLACEHOLDER)) for word in not_values)


def styles_by_frequency(columns: Iterable[ObservedColumn], separator: str | None) -> list[tuple[str, str]]:
    """The styles of numbers, first those that fit most columns; 1234.5 comes first among equals.

    If commas separate the cells, 1,234 was put in quotes and is above a thousand; otherwise it is between one and two.
    """
    columns = list(columns)
    grouped = [(".", ","), *STYLES] if separator is None else STYLES
    known = dict.fromkeys((PLAINLY, *grouped))
    fitting = {style: sum(seen.numbers(style) is not None for seen in columns) for style in known}
    return sorted(known, key=lambda style: -fitting[style])


def is_number(text: str) -> bool:
    """Whether a text is a finite number such as 1234.5."""
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def numbers_of(texts: set[str]) -> list[float] | None:
    """The numbers that all of these texts are. None if one is not, or begins with 0 as 007 does, which is a name."""
    if any(map(_LEADING_ZERO.match, texts)) or not all(map(is_number, texts)):
        return None
    return [float(text) for text in texts]
