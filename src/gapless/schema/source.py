"""Files and foreign frames as one polars frame: the only place where data come in from outside.

Text files stay text (nothing is inferred), frames keep their types. What goes wrong is told without a cell
of the data: the header and the file's name are public, the rest is not.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from gapless.errors import ReadError
from gapless.schema.words import listing

TEXT_ENDINGS = (".csv", ".csv.gz", ".tsv", ".tsv.gz", ".txt", ".txt.gz")


def load(data: Any, *, encoding: str = "utf-8", for_holder: bool = False) -> pl.DataFrame:
    """A file's or frame's rows and columns; `for_holder` lets an error name the line that is wrong."""
    if isinstance(data, str | Path):
        path = Path(data)
        frame = _load_file(path, encoding, for_holder=for_holder)
    elif isinstance(data, pl.LazyFrame):
        frame = data.collect()
    else:
        frame = _load_frame(data)
    if frame.width == 0:
        raise ReadError("the data have no columns", hint="a table with a header and rows")
    return frame


def _load_file(path: Path, encoding: str, *, for_holder: bool) -> pl.DataFrame:
    name = path.name.lower()
    if not path.exists():
        raise ReadError(f"no file {path}", hint="check the path")
    if path.is_dir():
        raise ReadError(f"{path} is a folder", hint="the path of a CSV or Parquet file")
    try:
        if name.endswith((".parquet", ".pq")):
            return pl.read_parquet(path)
        if name.endswith(TEXT_ENDINGS):
            separator = "\t" if ".tsv" in name else ","
            return _load_text(path, encoding, separator, for_holder=for_holder)
    except (OSError, EOFError) as error:
        why = getattr(error, "strerror", None) or "it is cut off"
        raise ReadError(f"cannot read {path}: {why}", hint="a whole file that you may read") from None
    except pl.exceptions.PolarsError:  # its text may quote cells
        raise ReadError(f"{path} is not a valid Parquet file", hint="write it again, or use CSV") from None
    raise ReadError(f"{path}: unknown ending", hint=f"one of: {listing(TEXT_ENDINGS)}, .parquet, or pass a frame")


def _load_text(path: Path, encoding: str, separator: str, *, for_holder: bool) -> pl.DataFrame:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    try:
        text = raw.decode("utf-8-sig" if encoding.lower().replace("_", "-") in ("utf-8", "utf8") else encoding)
    except LookupError:
        raise ReadError(f"no encoding called {encoding!r}", hint="utf-8, latin-1, cp1252 …") from None
    except UnicodeDecodeError:
        raise ReadError(
            f"{path} is not {encoding} text", hint='name its encoding: encoding="latin-1" (--encoding latin-1)'
        ) from None
    if not text.strip():
        raise ReadError(f"{path} is empty", hint="a file with a header line")
    header = next(csv.reader(io.StringIO(text), delimiter=separator))
    _check_header(header, path, separator)
    try:
        frame = pl.read_csv(
            io.BytesIO(text.encode()), infer_schema=False, separator=separator, empty_string_is_null=False
        )
    except pl.exceptions.PolarsError:  # its text quotes cells
        frame = None
    # polars fills a short row with empty cells: only a file whose last column has some is looked at twice.
    if frame is None or (frame.columns and (frame[:, -1] == "").any()):
        kept = _check_widths(text, len(header), separator, path, for_holder=for_holder)
        if frame is None:
            raise ReadError(f"{path} is not a valid CSV file", hint="a quote that opens must close")
        if len(kept) < frame.height:
            frame = frame[kept]
    return frame


def _check_header(header: Sequence[str], path: Path, separator: str) -> None:
    if twice := sorted({name for name in header if header.count(name) > 1}):
        raise ReadError(f"{path} has two columns called {twice[0]!r}", hint="give each column its own name")
    if any(not name.strip() for name in header):
        raise ReadError(f"{path} has a column without a name", hint="name it in the header line")
    if len(header) == 1 and separator == "," and (";" in header[0] or "\t" in header[0]):
        raise ReadError(f"{path} is not separated by commas", hint="save it with commas, or with tabs as .tsv")


def _check_widths(text: str, width: int, separator: str, path: Path, *, for_holder: bool) -> list[int]:
    """The places of the rows that are not blank lines; a row of another width is an error."""
    reader = csv.reader(io.StringIO(text), delimiter=separator)
    next(reader)
    kept: list[int] = []
    for place, row in enumerate(reader):
        if row or width == 1:
            kept.append(place)
        if row and len(row) != width:
            where = f"line {reader.line_num}" if for_holder else "a row"
            raise ReadError(
                f"{path}: {where} has not as many fields as the header",
                hint="put a cell that holds a comma in quotes; `gapless check` names the line",
            )
    return kept


def _load_frame(data: Any) -> pl.DataFrame:
    if isinstance(data, pl.DataFrame):
        return data
    import narwhals as nw  # noqa: PLC0415 only foreign frames need it

    try:
        native = nw.from_native(data, eager_only=True)
    except TypeError:
        raise ReadError(
            f"cannot read a {type(data).__name__}", hint="a path, or a pandas, polars or Arrow table"
        ) from None
    names = [str(name) for name in native.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ReadError(f"two columns are called {twice[0]!r}", hint="give each column its own name")
    try:
        frame: pl.DataFrame = native.to_polars()
    except Exception:  # noqa: BLE001 whatever a foreign frame raises may quote its cells
        raise ReadError(
            f"this {type(data).__name__} holds a column of mixed types", hint="one type in each column, or text"
        ) from None
    return frame
