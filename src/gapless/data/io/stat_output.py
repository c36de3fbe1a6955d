"""Write tables as data files of SPSS (.sav) and Stata (.dta), so that they are read as the file that they stand for.

Codes stay codes: levels that are numbers are stored as numbers with value labels, and each kind of gap as the code that
the schema declares for it. In SPSS these are user-missing values, in Stata the letters `.a` to `.z`. A gap for which
the schema has no code is the system's missing value. All of this follows from the schema, so a schema that a format
cannot hold is refused before anything is spent (`stat_layout`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data.io.date_texts import parse_dates
from gapless.errors import SchemaError, requires_extra
from gapless.schema import Boolean, Column, Ordinal, Schema
from gapless.schema.calendar import CalendarColumn, DateTime
from gapless.schema.columns import LevelColumn
from gapless.schema.gap_codes import MissingKind, as_text, gap_state
from gapless.schema.numeric import NumericColumn
from gapless.schema.stat_dates import DAY
from gapless.text import shortened

Stored: TypeAlias = float | str | None
Storage: TypeAlias = Literal["number", "whole", "text", "date"]

WRITTEN_ENDINGS = (".sav", ".dta")
LARGEST_LONG = 2_147_483_620  # of Stata's whole numbers
LARGEST_NUMBER = 1.7976931348623157e308
SPSS_CODES, SPSS_CODE_BYTES = 3, 8  # the most user-missing values, and how long a text among them may be
_EPOCHS = {".sav": np.datetime64("1582-10-14", "s"), ".dta": np.datetime64("1960-01-01", "s")}
_FIRST_DAYS = {".sav": np.datetime64("1582-10-15", "D"), ".dta": np.datetime64("0100-01-01", "D")}
_PROGRAMS = {".sav": "SPSS", ".dta": "Stata"}
_LABEL_BYTES = {".sav": (256, 120), ".dta": (320, 32_000)}  # of a column, of a value
_TEXT_BYTES = {".sav": 32_767, ".dta": 2045}
_NAMES = {
    ".sav": (
        re.compile(r"[^\W\d_](?:[\w.$#@]*[\w$#@])?"),
        64,
        "letters, digits and . _ $ # @, and begin with a letter",
    ),
    ".dta": (re.compile(r"[A-Za-z_][A-Za-z0-9_]*"), 32, "letters a to z, digits or _, no digit first"),
}
_RESERVED = {
    ".sav": frozenset("all and by eq ge gt le lt ne not or to with".split()),  # noqa: SIM905 a list of words
    ".dta": frozenset(
        "_all _b byte _coef _cons double float if in int long _n _N _pi _pred _rc _skip str strL using with".split()  # noqa: SIM905 see above
    ),
}
_LETTER = re.compile(r"\.[a-z]")
_TIMES = {  # the time of day at which a file was written: no release tells it
    ".sav": re.compile(rb"(?s)(?<=\A.{101})\d\d:\d\d:\d\d"),
    ".dta": re.compile(rb"(?<= )\d\d:\d\d(?=</timestamp>)"),
}


def written_ending(path: Path) -> str:
    """The ending of a file that is written here; "" for other files."""
    return next((ending for ending in WRITTEN_ENDINGS if path.name.lower().endswith(ending)), "")


@dataclass(frozen=True, slots=True)
class StoredColumn:
    """How a file holds a column.

    Attributes:
        column: the column of the schema.
        storage: the type of its values.
        levels: the stored value of each level; none for numbers and dates.
        states: the stored value of each state without a value: *not applicable*, then the kinds of gaps.
        labels: the label of each stored value that has one.
        missing: the user-missing values of SPSS.
    """

    column: Column
    storage: Storage
    levels: tuple[Stored, ...]
    states: tuple[Stored, ...]
    labels: dict[float | str, str] = field(default_factory=dict)
    missing: tuple[Any, ...] = ()  # as `pyreadstat` takes them

    @property
    def letters(self) -> list[str]:
        """The missing values of Stata that the column may have."""
        return sorted({state[1] for state in self.states if isinstance(state, str) and self.storage != "text"})

    def series(self, codes: NDArray[Any], values: NDArray[Any], epoch: np.datetime64) -> pl.Series:
        """The stored cells. A column that may have letters is text until it is written."""
        name, size = self.column.name, self.column.values_size
        filled = codes < size
        if self.storage == "text":
            texts = pl.Series([*self.levels, *(state or "" for state in self.states)], dtype=pl.String)
            return texts.gather(pl.Series(codes.astype(np.int64))).alias(name)
        if self.levels:
            numbers = np.array([*self.levels, *(np.nan for _ in self.states)], dtype=np.float64)[codes]
        elif isinstance(self.column, CalendarColumn):
            numbers = _date_numbers(values, epoch, has_time=isinstance(self.column, DateTime))
        else:
            numbers = values.astype(np.float64)
        states = [state if isinstance(state, float) else np.nan for state in self.states]
        below = np.clip(codes.astype(np.int64) - size, 0, len(states))
        numbers = np.where(filled, numbers, np.array([*states, np.nan])[below])
        found = pl.Series(name, numbers).fill_nan(None)
        if self.storage == "whole":
            found = found.cast(pl.Int32)
        if not self.letters:
            return found
        shown = pl.Series([state if isinstance(state, str) else None for state in self.states], dtype=pl.String)
        letters = shown.gather(pl.Series(np.where(filled, 0, below)))
        return found.cast(pl.String).zip_with(pl.Series(filled) | letters.is_null(), letters)


def _date_numbers(values: NDArray[Any], epoch: np.datetime64, *, has_time: bool) -> NDArray[np.float64]:
    """Dates as SPSS and Stata store them: seconds in SPSS, days or milliseconds in Stata."""
    seconds = (values.astype("datetime64[s]") - epoch).astype(np.int64).astype(np.float64)
    if epoch == _EPOCHS[".sav"]:
        return seconds
    return seconds * 1000 if has_time else seconds / DAY


def stat_layout(schema: Schema, ending: str) -> dict[str, StoredColumn]:
    """How a file with this ending holds each column. Raises for a schema that the format cannot hold."""
    pattern, most, rule = _NAMES[ending]
    names = [column.name for column in schema.file_columns]
    for name in names:
        is_reserved = (name.lower() if ending == ".sav" else name) in _RESERVED[ending]
        if pattern.fullmatch(name) is None or len(name.encode()) > most or is_reserved:
            why = "must not be one of its words" if is_reserved else f"must have at most {most} {rule}"
            wrong = (
                f"a {ending} file cannot hold a column called {shortened(name, 40)!r}: a name in {_PROGRAMS[ending]} "
            )
            raise SchemaError(wrong + why, hint=f"rename the column in the data and the schema, or {_LEAVE_OUT}")
    lower = [name.lower() for name in names]
    if ending == ".sav" and (twice := [name for name in names if lower.count(name.lower()) > 1]):
        wrong = f"a .sav file cannot hold both {twice[0]!r} and {twice[1]!r}: SPSS does not distinguish capital letters"
        raise SchemaError(wrong, hint=f"rename one of the columns in the data and the schema, or {_LEAVE_OUT}")
    return {column.name: _stored(column, ending) for column in schema.file_columns}


_LEAVE_OUT = "leave this format out"


def _refuse(column: Column, ending: str, why: str, hint: str) -> NoReturn:
    raise SchemaError(
        f"column {column.name!r} does not fit into a {ending} file: {why}", hint=f"{hint}, or {_LEAVE_OUT}"
    )


def _stored(column: Column, ending: str) -> StoredColumn:
    if isinstance(column, CalendarColumn):
        return _stored_numbers(column, ending, "date", ())
    if isinstance(column, NumericColumn):
        bounds = [float(bound) for bound in column.limits]
        is_whole = column.has_whole_values and max(map(abs, bounds)) <= LARGEST_LONG and ending == ".dta"
        return _stored_numbers(column, ending, "whole" if is_whole else "number", ())
    assert isinstance(column, LevelColumn)  # noqa: S101 for mypy: there are no other columns
    texts = _level_texts(column)
    numbers = [_number(text) for text in texts]
    if None not in numbers:
        levels = tuple(number for number in numbers if number is not None)
        fits = all(level == int(level) and abs(level) <= LARGEST_LONG for level in levels)
        try:
            return _stored_numbers(column, ending, "whole" if fits and ending == ".dta" else "number", levels)
        except SchemaError as refused:
            with suppress(SchemaError):
                return _stored_texts(column, ending, texts)
            raise refused from None
    return _stored_texts(column, ending, texts)


def _level_texts(column: LevelColumn) -> list[str]:
    """The text of each level in a file: of a boolean 0 and 1, or as it is spelled."""
    if isinstance(column, Boolean):
        return ["0", "1"] if column.spelling is None else [as_text(text) for text in column.spelling]
    return list(column.value_cells)


def _number(text: str) -> float | None:
    """The number that a text is, if it is written as numbers are: 1 and -2.5, but not 01 or 1e3."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) and as_text(number) == text else None


def _stored_numbers(column: Column, ending: str, storage: Storage, levels: tuple[float, ...]) -> StoredColumn:
    states = tuple(_state(column, kind, ending, storage) for kind in _kinds(column))
    if storage == "whole" and any(isinstance(s, float) and (s != int(s) or abs(s) > LARGEST_LONG) for s in states):
        storage = "number"
    if isinstance(column, CalendarColumn):
        first = np.int64(column.limits[0]).astype(column.unit)
        if first < _FIRST_DAYS[ending]:
            why = f"its bounds begin at {first}, but dates of {_PROGRAMS[ending]} begin at {_FIRST_DAYS[ending]}"
            _refuse(column, ending, why, f"write a lower bound from {_FIRST_DAYS[ending]} on")
    labels: dict[float | str, str] = {}
    if isinstance(column, LevelColumn):
        # A level without a label gets its own text, so that the file lists all levels.
        labels |= {level: column.label_of(text) or text for level, text in zip(levels, column.value_cells, strict=True)}
    for gap in column.missing_codes:
        stored = _code(column, gap.code, ending, storage)
        if gap.label and stored is not None:
            labels[stored] = gap.label
    if ending == ".dta":  # Stata labels whole numbers only
        odd = [value for value in labels if isinstance(value, float) and value != int(value)]
        if any(labels[value] != as_text(value) for value in odd):
            why = f"it labels the value {odd[0]:g}, but Stata labels whole numbers only"
            _refuse(column, ending, why, "remove this label from the schema")
        labels = {value: label for value, label in labels.items() if value not in odd}
    missing = _user_missing(column, storage, levels) if ending == ".sav" else ()
    return StoredColumn(column, storage, levels, states, _shortened(labels, ending), missing)


def _stored_texts(column: LevelColumn, ending: str, texts: list[str]) -> StoredColumn:
    states = tuple(_state(column, kind, ending, "text") for kind in _kinds(column))
    if any("\0" in text for text in (*texts, *(gap.code for gap in column.missing_codes))):
        _refuse(column, ending, "a text with a NUL character would end there", "write other levels and missing codes")
    longest = max((len(text.encode()) for text in texts), default=0)
    if longest > _TEXT_BYTES[ending]:
        most = f"{_TEXT_BYTES[ending]:,}"
        why = f"it has a level of {longest:,} bytes, but texts of {_PROGRAMS[ending]} have at most {most}"
        _refuse(column, ending, why, "write shorter levels")
    if ending == ".dta":
        if column.labels or any(gap.label for gap in column.missing_codes):
            _refuse(column, ending, "it labels texts, but Stata labels whole numbers only", "remove these labels")
        return StoredColumn(column, "text", tuple(texts), states)
    labels: dict[float | str, str] = {
        text: column.label_of(level) or text for text, level in zip(texts, column.value_cells, strict=True)
    }
    labels |= {gap.code: gap.label for gap in column.missing_codes if gap.label and gap.code}
    codes = [gap.code for gap in column.missing_codes if gap.code]
    if len(codes) > SPSS_CODES:
        why = f"it has {len(codes)} missing codes that are texts, but SPSS allows {SPSS_CODES}"
        _refuse(column, ending, why, "write fewer missing codes")
    return StoredColumn(column, "text", tuple(texts), states, _shortened(labels, ending), tuple(codes))


def _shortened(labels: Mapping[float | str, str], ending: str) -> dict[float | str, str]:
    most = _LABEL_BYTES[ending][1]
    return {value: cut_bytes(label, most) for value, label in labels.items()}


def cut_bytes(text: str, most: int) -> str:
    """A text of at most so many bytes, cut at a character.

    >>> cut_bytes("größer", 5), cut_bytes("größer", 8)
    ('gr…', 'größer')
    """
    if len(text.encode()) <= most:
        return text
    return text.encode()[: most - 3].decode(errors="ignore") + "…"


def _kinds(column: Column) -> list[MissingKind]:
    """The states of a column without a value, in the order of their codes."""
    return [*(["not-applicable"] if column.not_applicable is not None else []), *column.gaps]  # type: ignore[list-item] # literals


def _empty_state(column: Column) -> MissingKind | None:
    """The state of an empty cell; None if there may be none."""
    declared = next((gap_state(gap.kind) for gap in column.missing_codes if gap.code == ""), None)
    return declared or ("unknown" if "unknown" in column.gaps else None)


def _state(column: Column, kind: MissingKind, ending: str, storage: Storage) -> Stored:
    """The stored value of a state: the code that a CSV file has for it, or another one of the same state."""
    is_empty = _empty_state(column) == kind
    usual = column.not_applicable if kind == "not-applicable" else column.text_of_gap(kind)
    others = [gap.code for gap in column.missing_codes if gap_state(gap.kind) == kind]
    for text in dict.fromkeys([usual or "", *others]):
        if text == "" and is_empty:
            return None
        if text and (stored := _code(column, text, ending, storage)) is not None:
            return stored
    if is_empty:
        return None
    needed = {
        "text": f"a text of at most {SPSS_CODE_BYTES} bytes" if ending == ".sav" else "a text",
        "date": "a date, or a number" if ending == ".sav" else "a date, or a letter from .a to .z",
    }.get(storage, "a number" if ending == ".sav" else "a number, or a letter from .a to .z")
    why = f"its code {usual!r} ({kind}) is not {needed}"
    _refuse(column, ending, why, "write another code for this kind of gap in the data and the schema")


def _code(column: Column, text: str, ending: str, storage: Storage) -> Stored:
    """The stored value of a missing code; None if the format cannot hold it."""
    if not text:
        return None
    if storage == "text":
        return text if _fits_text(text, ending) else None
    if ending == ".dta" and _LETTER.fullmatch(text):
        return text
    number = _number(text)
    if not isinstance(column, CalendarColumn):
        return number
    moment = parse_dates(pl.Series([text]), column.format)[0]
    if moment is not None:
        values = np.array([moment], dtype="datetime64[s]")
        return float(_date_numbers(values, _EPOCHS[ending], has_time=isinstance(column, DateTime))[0])
    return number if ending == ".sav" and number is not None and abs(number) < 366 * DAY else None


def _fits_text(text: str, ending: str) -> bool:
    return len(text.encode()) <= (SPSS_CODE_BYTES if ending == ".sav" else _TEXT_BYTES[ending])


def _user_missing(column: Column, storage: Storage, levels: tuple[float, ...]) -> tuple[float | dict[str, float], ...]:
    """The user-missing values of a column of numbers in SPSS: three values, or a range and one value.

    More codes are declared as a range if no value of the column is in it.
    """
    codes = [_code(column, gap.code, ".sav", storage) for gap in column.missing_codes]
    numbers = sorted({code for code in codes if isinstance(code, float)})
    ranges = [(max(gap.least, -LARGEST_NUMBER), min(gap.most, LARGEST_NUMBER)) for gap in column.missing_ranges]
    if not ranges and len(numbers) <= SPSS_CODES:
        return tuple(numbers)
    if levels:
        least, most = min(levels), max(levels)
    elif isinstance(column, CalendarColumn):
        bounds = np.array([np.int64(limit).astype(column.unit) for limit in column.limits])
        least, most = _date_numbers(bounds, _EPOCHS[".sav"], has_time=True).tolist()
    else:
        least, most = column.limits if isinstance(column, NumericColumn) else (0.0, 0.0)
    ends = [*ranges, *((number, number) for number in numbers)]
    below = [end for end in ends if end[1] < least]
    above = [end for end in ends if end[0] > most]
    for many, few in ((below, above), (above, below)):
        if len(many) + len(few) == len(ends) and (not few or (len(few) == 1 and few[0][0] == few[0][1])):
            joined = {"lo": float(min(low for low, _ in many)), "hi": float(max(high for _, high in many))}
            return (joined, *(low for low, _ in few))
    why = f"it has {len(ends)} missing codes or ranges, but SPSS allows {SPSS_CODES} values, or a range and one value"
    _refuse(column, ".sav", why, "write fewer missing codes")


# ---------------------------------------------------------------------- files


def stored_frame(
    drawn: Iterable[tuple[Column, NDArray[Any], NDArray[Any], NDArray[np.bool_]]], schema: Schema, ending: str
) -> pl.DataFrame:
    """The cells of a table as a file with this ending holds them, from codes and values."""
    layout, epoch = stat_layout(schema, ending), _EPOCHS[ending]
    return pl.DataFrame([layout[column.name].series(codes, values, epoch) for column, codes, values, _ in drawn])


def write_stat_file(frames: Iterator[pl.DataFrame], path: Path, schema: Schema, ending: str) -> None:
    """Write stored frames into one file. All rows are held at once: `pyreadstat` takes no parts."""
    with requires_extra("pyreadstat", "stat", ", or write a .csv file"):
        import pyreadstat  # noqa: PLC0415 an extra
    layout = stat_layout(schema, ending)
    frame = pl.concat(list(frames))
    for name, stored in layout.items():
        if stored.letters:
            kind: Any = int if stored.storage == "whole" else float
            cells = [None if cell is None else _letter_or(kind, cell) for cell in frame[name]]
            frame = frame.with_columns(pl.Series(name, cells, dtype=pl.Object))
    labels: dict[str, str | None] = {
        column.name: cut_bytes(column.description, _LABEL_BYTES[ending][0])
        for column in schema.file_columns
        if column.description
    }
    if ending == ".dta":
        labels = {name: shortened(label or "", 80) for name, label in labels.items()}
    common: dict[str, Any] = {
        "file_label": cut_bytes(schema.name, 60),
        "column_labels": labels,
        "variable_value_labels": {name: _label_keys(stored) for name, stored in layout.items() if stored.labels},
        "variable_format": {name: form for name, stored in layout.items() if (form := _format(stored, ending))},
    }
    if ending == ".sav":
        pyreadstat.write_sav(
            frame,
            str(path.absolute()),
            missing_ranges={name: list(stored.missing) for name, stored in layout.items() if stored.missing},
            variable_measure={name: _measure(stored.column) for name, stored in layout.items()},
            row_compress=True,
            **common,
        )
    else:
        letters = {name: stored.letters for name, stored in layout.items() if stored.letters}
        pyreadstat.write_dta(frame, str(path.absolute()), missing_user_values=letters, **common)
    _forget_time(path, ending)


def _letter_or(kind: Any, cell: str) -> Any:
    return cell[1] if _LETTER.fullmatch(cell) else kind(cell)


def _label_keys(stored: StoredColumn) -> dict[Any, str]:
    """The labels by the keys that `pyreadstat` expects: letters without their point, whole numbers as such."""
    keys: dict[Any, str] = {}
    for value, label in stored.labels.items():
        key: Any = value
        if stored.storage != "text" and isinstance(value, str):
            key = value[1]
        elif isinstance(value, float) and value == int(value):
            key = int(value)
        keys[key] = label
    return keys


def _format(stored: StoredColumn, ending: str) -> str | None:
    """The format in which the program shows a column."""
    if stored.storage == "date":
        has_time = isinstance(stored.column, DateTime)
        return {".sav": ("DATE11", "DATETIME20"), ".dta": ("%td", "%tc")}[ending][has_time]
    whole = all(level == int(level) for level in stored.levels if isinstance(level, float)) if stored.levels else True
    is_whole = whole and (stored.levels or getattr(stored.column, "has_whole_values", False))
    return "F8.0" if ending == ".sav" and stored.storage == "number" and is_whole else None


def _measure(column: Column) -> str:
    if isinstance(column, LevelColumn):
        return "ordinal" if isinstance(column, Ordinal) else "nominal"
    return "scale"


def _forget_time(path: Path, ending: str) -> None:
    """Write midnight as the time of day at which the file was made: what depends on rows took some of that time."""
    with path.open("r+b") as file:
        head = file.read(4096)
        found = _TIMES[ending].search(head)
        if found is not None:
            file.seek(found.start())
            file.write(re.sub(rb"\d", b"0", found[0]))
