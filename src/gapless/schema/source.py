"""Files and foreign frames as one polars frame: the only place where data come in from outside.

Text files stay text (nothing is inferred), frames keep their types. What goes wrong is told without a cell
of the data: the header and the file's name are public, the rest is not.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from gapless.errors import ReadError
from gapless.schema.words import listing

TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")
PARQUET_ENDINGS = (".parquet", ".pq")

_MARKS = {  # the longer ones first: one of UTF-16 begins one of UTF-32
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}

_PLAIN = (pl.String, pl.Categorical, pl.Enum, pl.Boolean, pl.Date, pl.Datetime, pl.Null)


def load(data: Any, *, encoding: str = "utf-8", for_holder: bool = False) -> pl.DataFrame:
    """A file's or frame's rows and columns; `for_holder` lets an error name the line that is wrong."""
    if isinstance(data, str | Path):
        path = Path(data)
        frame = _load_file(path, encoding, for_holder=for_holder)
    elif isinstance(data, pl.LazyFrame):
        try:
            frame = data.collect()
        except pl.exceptions.PolarsError:  # its text may quote cells
            raise ReadError("this LazyFrame cannot be computed", hint="collect() it yourself to see why") from None
    else:
        frame = _load_frame(data)
    if frame.width == 0:
        raise ReadError("the data have no columns", hint="a table with a header and rows")
    return frame


def is_plain(series: pl.Series) -> bool:
    """Whether its cells are texts, numbers, booleans, dates or datetimes."""
    dtype = series.dtype
    return dtype.is_numeric() or dtype.base_type() in _PLAIN


def _load_file(path: Path, encoding: str, *, for_holder: bool) -> pl.DataFrame:
    name = path.name.lower()
    if not path.exists():
        raise ReadError(f"no file {path}", hint="check the path")
    if path.is_dir():
        raise ReadError(f"{path} is a folder", hint="the path of a CSV or Parquet file")
    try:
        if name.endswith(PARQUET_ENDINGS):
            return pl.read_parquet(path)
        if name.endswith(TEXT_ENDINGS):
            separator = "\t" if ".tsv" in name else ","
            return _load_text(path, encoding, separator, for_holder=for_holder)
    except (OSError, EOFError, zlib.error) as error:
        why = getattr(error, "strerror", None) or "it is cut off or damaged"
        raise ReadError(f"cannot read {path}: {why}", hint="a whole file that you may read") from None
    except pl.exceptions.PolarsError:  # its text may quote cells
        raise ReadError(f"{path} is not a valid Parquet file", hint="write it again, or use CSV") from None
    raise ReadError(f"{path}: unknown ending", hint=f"one of: {listing(TEXT_ENDINGS)}, .parquet, or pass a frame")


def _load_text(path: Path, encoding: str, separator: str, *, for_holder: bool) -> pl.DataFrame:
    text = _decoded(path, encoding)
    if "\n" not in text:  # lines as they ended on the first Macintosh
        text = text.replace("\r", "\n")
    header = [name.strip() for name in next(_rows(text, separator))]
    _check_header(header, path, separator, for_holder=for_holder)
    try:
        frame = pl.read_csv(text.encode(), infer_schema=False, separator=separator, empty_string_is_null=False)
        frame.columns = header  # polars leaves doubled quotes in names
    except pl.exceptions.PolarsError:  # its text quotes cells
        frame = None
    # polars fills a short row with empty cells: only a file whose last column has some is looked at twice.
    if frame is None or (frame.columns and (frame[:, -1] == "").any()):
        kept = _check_widths(text, len(header), separator, path, for_holder=for_holder)
        if frame is None:
            raise _not_csv(path)
        if len(kept) < frame.height:
            frame = frame[kept]
    return frame


def _decoded(path: Path, encoding: str) -> str:
    """The text from the first letter of the header on."""
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    try:
        text = raw.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
    except LookupError:
        raise ReadError(f"no encoding called {encoding!r}", hint="utf-8, latin-1, cp1252 …") from None
    except UnicodeError:
        raise _not_text(path, raw, encoding) from None
    if not text.strip():
        raise ReadError(f"{path} is empty", hint="a file with a header line")
    text = text.removeprefix("\ufeff").lstrip("\r\n")  # utf-16-le and the like leave the mark at the start
    if re.match(r"[^\r\n]*\0", text):  # in the header: two bytes for each letter, taken for two letters
        raise _not_text(path, raw, encoding)
    return text


def _not_text(path: Path, raw: bytes, encoding: str) -> ReadError:
    """Only the mark at the start, or the first letter of the header, tells the encoding: no cell does."""
    unmarked = "utf-16-le" if raw[1:2] == b"\0" else "utf-16-be" if raw[:1] == b"\0" else "latin-1"
    shown = next((name for mark, name in _MARKS.items() if raw.startswith(mark)), unmarked)
    hint = f'name its encoding: encoding="{shown}" (--encoding {shown})'
    return ReadError(f"{path} is not {encoding} text", hint=hint)


def _check_header(header: Sequence[str], path: Path, separator: str, *, for_holder: bool) -> None:
    if twice := sorted({name for name in header if header.count(name) > 1}):
        # A file without a header has a row of data in its place.
        called = f"called {twice[0]!r}" if for_holder else "of the same name"
        raise ReadError(f"{path} has two columns {called}", hint="a header line with one name for each column")
    if not all(header):
        raise ReadError(f"{path} has a column without a name", hint="name it in the header line, or delete the column")
    if len(header) == 1 and separator == "," and (";" in header[0] or "\t" in header[0]):
        raise ReadError(f"{path} is not separated by commas", hint="save it with commas, or with tabs as .tsv")


def _check_widths(text: str, width: int, separator: str, path: Path, *, for_holder: bool) -> list[int]:
    """The places of the rows that are not blank lines; a row of another width is an error."""
    rows = _rows(text, separator)
    next(rows)
    kept: list[int] = []
    try:
        for place, row in enumerate(rows):
            if width > 1 and len(row) < 2 and not "".join(row).strip():
                continue
            kept.append(place)
            if len(row or [""]) != width:
                where = f"line {rows.line_num}" if for_holder else "a row"
                raise ReadError(
                    f"{path}: {where} has not as many fields as the header",
                    hint="put a cell that holds a comma in quotes; `gapless check` names the line",
                )
    except csv.Error:
        raise _not_csv(path) from None
    return kept


def _rows(text: str, separator: str) -> Any:
    csv.field_size_limit(max(csv.field_size_limit(), len(text)))  # else a long comment in a cell is an error
    return csv.reader(io.StringIO(text), delimiter=separator)


def _not_csv(path: Path) -> ReadError:
    return ReadError(
        f"{path} is not a valid CSV file",
        hint='put a cell that holds a quote or a line break in quotes, and double the quote: "5"" pipe"',
    )


def _load_frame(data: Any) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    import narwhals as nw  # noqa: PLC0415 only foreign frames need it

    try:
        native = nw.from_native(data, eager_only=True)
    except nw.exceptions.DuplicateError:
        raise ReadError("two columns have the same name", hint="give each column its own name") from None
    except TypeError:
        raise ReadError(
            f"cannot read a {type(data).__name__}", hint="a path, or a pandas, polars or Arrow table"
        ) from None
    try:
        return pl.DataFrame(native.to_polars())
    except Exception:  # noqa: BLE001 whatever a foreign frame raises may quote its cells
        odd = next((name for name in native.columns if not _is_readable(native, name)), None)
    what = "some column" if odd is None else f"column {str(odd)!r}"
    raise ReadError(
        f"{what} of this {type(data).__name__} holds mixed types, or one that is unknown here",
        hint="one type in each column, or text",
    )


def _is_readable(native: Any, name: str) -> bool:
    try:
        native.get_column(name).to_polars()
    except Exception:  # noqa: BLE001 as above
        return False
    return True
