r"""The encoding of columns in SQL: for each column an expression that maps the raw value to its code.

It does in a database what `encode.py` does to cells. Each expression depends on one cell and on public facts: levels,
missing codes, bounds. Columns are encoded in steps, so that nothing is computed twice. `r0` is the raw value.
`t0` is the same *cleaned*: text trimmed, a number as a double, a timestamp as a whole number. `x0` is its *position* if
a text must be parsed first. `c0` is its code. The code of a difference of two columns follows from their `c`, `t` and
`x`.

If a database might read a cell differently from `encode.py`, the type of the column, which is public, is refused. No
cell makes a query fail: a text is cast only after a pattern has matched it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Literal, Protocol, TypeAlias, get_args

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data.io import date_texts, encode
from gapless.errors import GaplessError, ReadError
from gapless.schema import Boolean, Categorical, Column
from gapless.schema.calendar import CalendarColumn
from gapless.schema.columns import LevelColumn
from gapless.schema.difference import difference_of
from gapless.schema.gap_codes import as_text
from gapless.schema.numeric import BinnedColumn, NumericColumn

# The types of raw values. A timestamp has no time zone; a zoned timestamp is converted to UTC.
Kind: TypeAlias = Literal[
    "text", "boolean", "whole", "single", "double", "decimal", "date", "timestamp", "zoned timestamp"
]

REFUSED, LOST = -1, -2  # in place of a code; a table with either of them is not read
KINDS: tuple[Kind, ...] = get_args(Kind)
PARALLEL_CASES = 24  # up to this many texts are compared one by one; more are looked up

# White space for Rust, which reads the files. Python, which compares the levels, trims four more characters.
SPACE = "".join(map(chr, (*range(9, 14), 32, 133, 160, 5760, *range(8192, 8203), 8232, 8233, 8239, 8287, 12288)))
MORE_SPACE = SPACE + "\x1c\x1d\x1e\x1f"

NUMBER = r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?"
INFINITY = r"[+-]?[iI][nN][fF]([iI][nN][iI][tT][yY])?"

# A text is rewritten as 2024-01-05 09:30:00 in two steps: zeros before each part, then the last two digits of each.
_WITH_ZEROS = "{Y}-00{m}-00{d} 00{H}:00{M}:00{S}"
_LAST_DIGITS = "^([0-9]{4})" + "".join(f"{sign}[0-9]*([0-9]{{2}})" for sign in "-- ::") + "$"
_ABSENT = {"m": "1", "d": "1", "H": "", "M": "", "S": ""}
_LEAP = "([0-9]{2}(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DAY = "((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))"
IN_CALENDAR = rf"([0-9]{{4}}-{_DAY}|{_LEAP}-02-29) .*"

DAY = 86_400_000_000  # microseconds
_ZERO = 719_528 * DAY  # from the first day to 1970: added before a division, so that it rounds down
_STEPS = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000, "day": DAY}
# The first and the last day, as in `source.clip_dates`.
FIRST, LAST = (int(np.datetime64(day, "us").astype(np.int64)) for day in ("0000-01-01", "10000-12-31"))


class Dialect(Protocol):
    """The SQL of a database. Arguments are SQL expressions, unless they are described as public."""

    text_type: str
    double_type: str
    fence: str  # the end of a subquery, so that the outer query does not compute its expressions again

    def literal(self, text: str) -> str:
        """A public text."""

    def double(self, number: float) -> str:
        """A public number, to the last bit; an infinite one too."""

    def text(self, raw: str, kind: Kind) -> str:
        """A value as text that is compared by characters alone; NULL stays, and NaN becomes NULL."""

    def trim(self, text: str, letters: str) -> str:
        """A text without these public characters at its ends."""

    def matches(self, text: str, pattern: str) -> str:
        """Whether a whole text matches a public pattern."""

    def sub(self, text: str, pattern: str, by: str) -> str:
        r"""Replace the first match of a public pattern; \1 in `by` is its first group."""

    def bytes_of(self, text: str) -> str:
        """A text in UTF-8."""

    def sha256(self, first: str, second: str) -> str:
        """The SHA-256 of bytes and the bytes after them, as bytes."""

    def translate(self, text: str, letters: str, by: str) -> str:
        """Replace public characters one by one; those without a partner are removed."""
        return f"TRANSLATE({text}, {self.literal(letters)}, {self.literal(by)})"

    def look_up(self, text: str, codes: Mapping[str, int]) -> str:
        """The public code of a text, else NULL."""

    def number(self, text: str) -> str:
        """A text that matches `NUMBER` as the nearest double: infinite if it is too large, 0 if too small."""

    def as_double(self, raw: str, kind: Kind) -> str:
        """A number as a double, NaN as NULL."""

    def negative(self, double: str) -> str:
        """Whether a double that is 0 is written with a minus."""
        return f"CAST({double} AS {self.text_type}) LIKE '-%'"

    def bucket(self, number: str, cuts: Sequence[float]) -> str:
        """The number of these rising public cuts that are not above this number."""

    def whole(self, number: str) -> str:
        """A double as a whole number."""
        return f"CAST({number} AS BIGINT)"

    def divide(self, whole: str, by: int) -> str:
        """A nonnegative whole number divided by a public one, rounded down."""

    def microseconds(self, raw: str, kind: Kind) -> str:
        """A date or timestamp as microseconds since 1970, clipped to `FIRST` and `LAST`."""

    def moment(self, iso: str) -> str:
        """A text such as 2024-01-05 09:30:00 that matches `IN_CALENDAR`, as microseconds since 1970."""

    def months(self, days: str) -> str:
        """Days since 1970 as months since then."""

    def array_element(self, codes: Sequence[int], code: str) -> str:
        """The element of a public array at the position of a code."""

    def unnest(self, keys: Sequence[str]) -> str:
        """A row for each of these numbers."""


@dataclass(frozen=True, slots=True)
class ColumnExpressions:
    """The expressions that encode a column. Each uses the names of the steps before it."""

    clean: str
    position: str | None
    code: str


def encode_column(column: Column, kind: Kind, place: int, dialect: Dialect) -> ColumnExpressions:
    """The expressions that encode a column whose raw values are of this kind and called `r{place}`."""
    coder = _ColumnEncoder(column, kind, dialect, f"r{place}", f"t{place}", f"x{place}")
    if isinstance(column, LevelColumn):
        return coder.levels(column)
    if isinstance(column, CalendarColumn):
        return coder.calendar(column)
    if isinstance(column, NumericColumn):
        return coder.numbers(column)
    raise TypeError(column)


@dataclass(frozen=True, slots=True)
class DifferenceExpressions:
    """The expressions that encode the difference of two columns, from the steps of both.

    Attributes:
        subtrahend: the position of the subtrahend in the schema.
        positions: the names of the positions of the two columns.
        distance: the difference of their values, NULL where one of them has no value.
        code: the code, from the codes of the two columns and the distance, which is called `d{place}`.
    """

    subtrahend: int
    positions: tuple[str, str]
    distance: str
    code: str


def encode_difference(
    column: NumericColumn, subtrahend: int, pair: Sequence[tuple[Column, int, ColumnExpressions]], dialect: Dialect
) -> DifferenceExpressions:
    """The expressions of a column that is a difference, as `DifferenceEncoder` computes it.

    An error of the minuend is a code that is smaller by `MINUEND` than that of the difference.

    Args:
        column: the difference.
        subtrahend: the position of the subtrahend in the schema.
        pair: the minuend and the subtrahend, with the place of each in the source and its expressions.
        dialect: the SQL of the database.
    """
    positions, values = [], []
    for part, place, steps in pair:
        assert isinstance(part, BinnedColumn)  # noqa: S101 for mypy: a schema refuses others
        positions.append(f"x{place}" if steps.position else f"t{place}")
        lower, upper = map(dialect.double, part.limits)
        steps_of = f"LEAST(GREATEST({positions[-1]}, {lower}), {upper})"
        if not part.has_whole_values:
            steps_of = f"{steps_of} / {dialect.double(part.step)} + {dialect.double(0.5)}"
        values.append(f"CASE WHEN c{place} >= 0 AND c{place} < {part.values_size} THEN FLOOR({steps_of}) END")
    coder = _ColumnEncoder(column, "double", dialect, "", "", "")
    ((_, high, _), (_, low, _)), size = pair, pair[0][0].values_size
    cases = (
        f"WHEN c{high} < 0 THEN c{high} - {encode.MINUEND}",
        f"WHEN c{low} < 0 THEN 0",  # the subtrahend has an error of its own
        f"WHEN c{high} >= {size} THEN c{high} - {size} + {column.values_size}",
        f"WHEN d{high} IS NULL THEN {coder.lost}",
    )
    code = f"CASE {' '.join(cases)} {coder.on_line(column, f'd{high}')} END"
    up, down = (dialect.double(number) for number in Decimal(str(column.step)).as_integer_ratio())
    distance = f"({values[0]} - {values[1]}) * {up} / {down}"  # as `multiples` computes it
    return DifferenceExpressions(subtrahend, (positions[0], positions[1]), distance, code)


def cell_error(column: Column, code: int) -> GaplessError:
    """The error of `encode.py` for a column that has such a code."""
    difference = difference_of(column)
    if difference is not None and code < LOST:
        column, code = difference.minuend, code + encode.MINUEND
    error = encode.refused_cells if code == REFUSED else encode.lost_cells
    return error(column, "find them with a query")


def bin_starts(column: BinnedColumn) -> NDArray[np.float64]:
    """Where each bin but the first begins: the least double in it by `bin_of`."""
    lower, upper = column.limits  # what `contains` compares with
    bins = np.arange(1, column.values_size)
    guess = np.clip(column.intervals.cuts[1:-1], lower, upper)  # nearly always right, and checked
    before = np.nextafter(guess, -np.inf)
    right = (column.bin_of(guess) >= bins) & ((column.bin_of(before) < bins) | (guess == lower))
    if right.all():
        return guess
    low, high = (np.full(bins.shape, _rank(np.array(end))) for end in (np.nextafter(lower, -np.inf), upper))
    while (high - low > 1).any():
        middle = low + (high - low) // 2
        there = column.bin_of(_float(middle)) >= bins
        low, high = np.where(there, low, middle), np.where(there, middle, high)
    return _float(high)


def _rank(numbers: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rank of each double among all doubles: neighbours differ by one."""
    bits = numbers.view(np.int64)
    return np.where(bits < 0, np.iinfo(np.int64).min - bits, bits)


def _float(ranks: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.where(ranks < 0, np.iinfo(np.int64).min - ranks, ranks).view(np.float64)


@cache
def _lower_case() -> dict[str, str]:
    """The lower case of every character that has a different single one, as polars converts files."""
    letters = pl.Series([chr(number) for number in range(0x20000) if not 0xD800 <= number < 0xE000])
    lower = letters.str.to_lowercase()
    return {old: new for old, new in zip(letters, lower, strict=True) if old != new and len(new) == 1}


def _writable(text: str) -> bool:
    """Whether a database can store a text."""
    return "\0" not in text and not any("\ud800" <= letter < "\ue000" for letter in text)


@dataclass(frozen=True, slots=True)
class _ColumnEncoder:
    column: Column
    kind: Kind
    dialect: Dialect
    raw: str
    cleaned: str
    placed: str

    # ------------------------------------------------------------------ codes of cells that are not values

    @property
    def lost(self) -> int:
        """The code of a cell without a value."""
        return self.column.code_of_gap(self.column.gaps[0]) if self.column.may_be_missing else LOST

    @property
    def gaps(self) -> dict[str, int]:
        return encode.gap_codes(self.column)

    @property
    def empty(self) -> int:
        return self.gaps.get("", self.lost)

    @property
    def unreadable(self) -> int:
        return REFUSED if self.column.outside == "refuse" else self.lost

    def refuse(self) -> ReadError:
        """The error for a type that does not fit the column. The type is public."""
        wrong = (
            f"column {self.column.name!r} has kind {self.column.kind} in the schema, but type {self.kind} in the data"
        )
        return ReadError(
            wrong, hint="write the column as text in the query or the data, or correct its kind in the schema"
        )

    # ------------------------------------------------------------------ levels

    def levels(self, column: LevelColumn) -> ColumnExpressions:
        sql, codes = self.dialect, encode.level_codes(column)
        if self.kind in ("single", "double"):
            return self._levels_as_doubles(codes)
        if self.kind in ("date", "timestamp", "zoned timestamp"):
            code = self._of_moments(codes, f"ELSE {self._outside}")
            return ColumnExpressions(sql.microseconds(self.raw, self.kind), None, code)
        if self.kind == "boolean":
            false, true = (codes.get(text, self._outside) for text in ("false", "true"))
            code = f"CASE WHEN {self.cleaned} THEN {true} WHEN NOT {self.cleaned} THEN {false} ELSE {self.empty} END"
            return ColumnExpressions(self.raw, None, code)
        text = sql.text(self.raw, self.kind)
        trimmed = sql.trim(text, MORE_SPACE)
        if "" not in codes:  # a cell of characters that only Python trims is not empty
            trimmed = f"COALESCE(NULLIF({trimmed}, ''), {sql.trim(text, SPACE)})"
        lowered = self._lowered(self.cleaned, codes) if isinstance(column, Boolean) else self.cleaned
        found = self._found(lowered, codes)
        code = f"COALESCE({found}, CASE WHEN {self.cleaned} = '' THEN {self.empty} ELSE {self._outside} END)"
        return ColumnExpressions(f"COALESCE({trimmed}, '')", None, code)

    @property
    def _outside(self) -> int:
        """The code of a text that is not a level."""
        column = self.column
        if isinstance(column, Categorical) and column.outside == "other":
            return column.code_of(column.other)
        return self.unreadable

    def _levels_as_doubles(self, codes: Mapping[str, int]) -> ColumnExpressions:
        """A number is a level if its text is. Each level is one number; 0 and -0 have different texts."""
        kind: Any = pl.Float32 if self.kind == "single" else pl.Float64
        number, zeros, cases = self.cleaned, {False: self._outside, True: self._outside}, []
        for text, code in codes.items():
            value = pl.Series([encode.to_number(text)], dtype=kind)
            if not np.isnan(value[0]) and self._compared_text(value) == text:
                if value[0] == 0:
                    zeros[math.copysign(1, value[0]) < 0] = code
                else:
                    cases.append(f"WHEN {number} = {self.dialect.double(float(value[0]))} THEN {code}")
        minus = self.dialect.negative(number)
        zero = f"WHEN {number} = 0 THEN CASE WHEN {minus} THEN {zeros[True]} ELSE {zeros[False]} END"
        none = f"WHEN {number} IS NULL THEN {self.empty}"
        cased = f"CASE {none} {zero} {' '.join(cases)} ELSE {self._outside} END"
        return ColumnExpressions(self.dialect.as_double(self.raw, self.kind), None, cased)

    def _of_moments(self, codes: Mapping[str, int], others: str) -> str:
        """The code of a date or timestamp whose text has one; `others` is the SQL for all others."""
        date = self.kind == "date"
        cases = []
        for text, code in codes.items():
            parsed = pl.Series([text]).str.to_datetime("%Y-%m-%d" if date else "%Y-%m-%d %H:%M:%S%.6f", strict=False)
            if parsed[0] is None:
                continue
            exact = parsed.cast(pl.Datetime("us"))
            if self._compared_text(exact.cast(pl.Date) if date else exact) == text:
                cases.append(f"WHEN {self.cleaned} = {int(exact.to_physical()[0])} THEN {code}")
        return f"CASE WHEN {self.cleaned} IS NULL THEN {self.empty} {' '.join(cases)} {others} END"

    def _compared_text(self, value: pl.Series) -> str:
        """The text by which `encode.py` compares a value."""
        text = str(value.cast(pl.String)[0])
        return as_text(text.lower() if isinstance(self.column, Boolean) else text)

    def _found(self, text: str, codes: Mapping[str, int]) -> str:
        """The code of a text, compared as `as_text` does: 13.0 is 13."""
        known = {key: code for key, code in codes.items() if _writable(key)}
        digits = {letter for key in known if key.lstrip("-").isdigit() for letter in key} - {"-"}
        if digits:
            others = "".join(sorted(digits - set("0123456789")))
            whole = rf"(-*[0-9{others}]+)\.0+"
            plain = self.dialect.sub(text, f"^{whole}$", r"\1")
            text = f"CASE WHEN {text} LIKE '%.0%' THEN {plain} ELSE {text} END"
        if not known:
            return "CAST(NULL AS INTEGER)"
        if len(known) > PARALLEL_CASES:
            return self.dialect.look_up(text, known)
        cases = " ".join(f"WHEN {self.dialect.literal(key)} THEN {code}" for key, code in known.items())
        return f"CASE {text} {cases} END"

    def _lowered(self, text: str, codes: Mapping[str, int]) -> str:
        """A text in lower case, as far as characters of the codes are concerned. Other texts have no code anyway."""
        letters = set("".join(codes))
        if letters & set("σς\u0307"):  # their lower case depends on their neighbours
            wrong = f"the spelling of column {self.column.name!r} has characters that do not lower-case one to one"
            raise ReadError(wrong, hint="write the column as a boolean in the query or the data")
        lower = {upper: lower for upper, lower in _lower_case().items() if lower in letters}
        return self.dialect.translate(text, "".join(lower), "".join(lower.values()))

    # ------------------------------------------------------------------ numbers

    def numbers(self, column: NumericColumn) -> ColumnExpressions:
        if self.kind == "text":
            return self._numbers_as_text(column)
        if self.kind not in ("whole", "single", "double", "decimal"):
            raise self.refuse()
        number = self.cleaned
        coded = {value: gap for code, gap in self.gaps.items() if not math.isnan(value := encode.to_number(code))}
        cases = " ".join(f"WHEN {number} = {self.dialect.double(value)} THEN {gap}" for value, gap in coded.items())
        cases = f"{cases} {self._ranges(number)}"
        code = f"CASE WHEN {number} IS NULL THEN {self.empty} {cases} {self.on_line(column, number)} END"
        return ColumnExpressions(self.dialect.as_double(self.raw, self.kind), None, code)

    def _ranges(self, position: str) -> str:
        """The codes of numbers within the missing ranges."""
        double, column = self.dialect.double, self.column
        return " ".join(
            f"WHEN {position} >= {double(gap.least)} AND {position} <= {double(gap.most)} "
            f"THEN {column.code_of_gap(gap.kind)}"
            for gap in column.missing_ranges
        )

    def _numbers_as_text(self, column: NumericColumn) -> ColumnExpressions:
        sql, text = self.dialect, self.cleaned
        written, plain = text, text
        if not column.written_plainly:
            # As in `NumericColumn.plain`: remove grouping signs, write the decimal sign as a point, drop a final point.
            signs = column.decimal + {" ": " \u00a0\u202f", "'": "'’"}.get(column.thousands, column.thousands)
            point = sql.sub(sql.translate(text, signs, "."), r"\.([eE]|$)", r"\1")
            pattern = column._pattern.pattern  # noqa: SLF001 of numbers in a file
            plain = f"CASE WHEN {sql.matches(text, pattern)} THEN {point} END"
            written = f"COALESCE({plain}, {text})"
        number = f"CASE WHEN {sql.matches(plain, NUMBER)} THEN {sql.number(plain)}"
        if column.written_plainly:
            infinite = f"CASE WHEN {text} LIKE '-%' THEN {sql.double(-math.inf)} ELSE {sql.double(math.inf)} END"
            number += f" WHEN {sql.matches(text, INFINITY)} THEN {infinite}"
        code = self._after_gaps(self.on_line(column, self.placed), written)
        return ColumnExpressions(self._trimmed(), f"{number} END", code)

    def on_line(self, column: BinnedColumn, position: str) -> str:
        """The bin of a position. The column's rule for outside cells decides if it is not a value."""
        lower, upper = (self.dialect.double(end) for end in column.limits)  # as `contains` compares
        within = f"{position} >= {lower} AND {position} <= {upper}"
        if column.has_whole_values:
            within += f" AND {position} = FLOOR(LEAST(GREATEST({position}, {lower}), {upper}))"
        bins = self._bins(column, position)
        if column.outside == "clamp":
            return f"ELSE {bins}"
        return f"WHEN {within} THEN {bins} ELSE {self.unreadable}"

    def _bins(self, column: BinnedColumn, position: str) -> str:
        cuts = bin_starts(column)
        if cuts.size == 0:
            return "0"
        first = cuts[0] - 1
        if column.has_whole_values and np.array_equal(cuts, first + np.arange(1, cuts.size + 1)):  # each value a bin
            low, high = self.dialect.double(first), self.dialect.double(cuts[-1])
            return self.dialect.whole(f"FLOOR(LEAST(GREATEST({position}, {low}), {high})) - {low}")
        return self.dialect.bucket(position, cuts.tolist())

    def _trimmed(self) -> str:
        return f"COALESCE({self.dialect.trim(self.dialect.text(self.raw, self.kind), SPACE)}, '')"

    def _after_gaps(self, on_line: str, written: str) -> str:
        """The code of a text in a binned column: missing codes first, then empty cells, then unreadable ones."""
        none = f"WHEN {self.cleaned} = '' THEN {self.lost} WHEN {self.placed} IS NULL THEN {self.unreadable}"
        code = f"CASE {none} {self._ranges(self.placed)} {on_line} END"
        if not self.gaps:
            return code
        return f"COALESCE({self._found(self.dialect.trim(written, MORE_SPACE), self.gaps)}, {code})"

    # ------------------------------------------------------------------ dates and timestamps

    def calendar(self, column: CalendarColumn) -> ColumnExpressions:
        if self.kind == "text":
            return self._calendar_as_text(column)
        if self.kind not in ("date", "timestamp", "zoned timestamp"):
            raise self.refuse()
        code = self._of_moments(self.gaps, self.on_line(column, self.placed))
        microseconds = self.dialect.microseconds(self.raw, self.kind)
        return ColumnExpressions(microseconds, self._steps(column, self.cleaned), code)

    def _calendar_as_text(self, column: CalendarColumn) -> ColumnExpressions:
        """Rewrite a text that matches the format as 2024-01-05 09:30:00, and cast it if there is such a day."""
        sql, text = self.dialect, self.cleaned
        known = date_texts.format_pattern(column.format)
        if known is None:
            wrong = f"column {column.name!r} has the format {column.format!r}, which this engine does not read"
            raise ReadError(wrong, hint="write the column as a date or timestamp in the query or the data")
        pattern, names = known
        part = _ABSENT | {name: rf"\{place}" for place, name in enumerate(names, start=1)}
        iso = sql.sub(sql.sub(text, f"^{pattern}$", _WITH_ZEROS.format(**part)), _LAST_DIGITS, r"\1-\2-\3 \4:\5:\6")
        first = "(?!0000)" if date_texts.first_year(column.format) == 1 else "(?!0)"
        valid = f"{sql.matches(text, pattern)} AND {sql.matches(iso, first + IN_CALENDAR)}"
        moment = sql.moment(iso)
        if "+" in names:
            ahead = [sql.number(sql.sub(text, f"^{pattern}$", f"{part['+']}0{part[name]}")) for name in "hn"]
            offset = sql.whole(f"({ahead[0]} * 60 + {ahead[1]}) * 60000000")
            moment += f" - CASE WHEN {text} LIKE '%:%+%' OR {text} LIKE '%:%-%' THEN {offset} ELSE 0 END"
        steps = f"CASE WHEN {valid} THEN {self._steps(column, f'({moment})')} END"
        return ColumnExpressions(self._trimmed(), steps, self._after_gaps(self.on_line(column, self.placed), text))

    def _steps(self, column: CalendarColumn, microseconds: str) -> str:
        """Microseconds since 1970 as whole steps of the column's resolution, a double."""
        sql, shifted = self.dialect, f"({microseconds} + {_ZERO})"
        if column.resolution in _STEPS:
            step = _STEPS[column.resolution]
            return self._double(f"{sql.divide(shifted, step)} - {_ZERO // step}")
        months = sql.months(f"({sql.divide(shifted, DAY)} - {_ZERO // DAY})")
        if column.resolution == "month":
            return self._double(months)
        return self._double(f"{sql.divide(f'({months} + 23640)', 12)} - 1970")

    def _double(self, whole: str) -> str:
        return f"CAST({whole} AS {self.dialect.double_type})"
