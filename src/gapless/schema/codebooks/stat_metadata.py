"""The header of an SPSS, Stata or SAS file as a codebook. Its rows are not read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gapless.errors import ReadError, SchemaError, requires_extra
from gapless.schema.codebooks.entries import Contents, Entry, EntryType, Measure, check_codes, check_size, short
from gapless.schema.gap_codes import MissingCode, MissingRange, as_text
from gapless.schema.stat_dates import Dates, dates_of
from gapless.text import shortened

# Times of day, weekdays, quarters and similar: a file stores seconds, days or other units, which its rows have.
_OTHER_TIME = re.compile(
    r"(D?TIME(AMPM)?|MTIME|MMSS|WKDAY|MONTH|HHMM|HOUR|TOD|[EB]8601T[MZ]|DOWNAME|MONNAME|WEEKDAY|WEEK[UVW]?|DAY|YEAR|"
    r"QTRR?|YYQ[RCDNPS]*|YYMM[CDNPS]|MMYY[CDNPS]?|JULIAN|JULDAY|WORDDAT[EX]|NENGO|DT[A-Z]+)",
    re.IGNORECASE,
)
_WIDTH = re.compile(r"F?(\d+)(?:\.(\d*))?", re.IGNORECASE)
_MEASURES: dict[str, Measure] = {"nominal": "nominal", "ordinal": "ordinal", "scale": "scale"}
_READERS = {
    ".sav": "read_sav",
    ".zsav": "read_sav",
    ".por": "read_por",
    ".dta": "read_dta",
    ".sas7bdat": "read_sas7bdat",
    ".xpt": "read_xport",
}
_PROGRAMS = {".dta": "Stata", ".sas7bdat": "SAS", ".xpt": "SAS"}
_AS_NUMBER = "to keep it, declare it as a number, in the unit that the file stores"
_SECONDS = 600  # after which reading a header is given up
_PROGRAM = """
import json, sys
import pyreadstat
reader, path, options = json.loads(sys.argv[1])
try:
    found = getattr(pyreadstat, reader)(path, **options)[1]
    fields = ("column_names", "column_names_to_labels", "file_label", "missing_ranges", "original_variable_types",
              "readstat_variable_types", "table_name", "variable_measure")
    content = {field: getattr(found, field) for field in fields}
    content["labels"] = {name: list(pairs.items()) for name, pairs in found.variable_value_labels.items()}
    text = json.dumps(content, default=str)
except Exception as error:
    text = json.dumps({"error": str(error)})
print("\\n" + text)
"""
_BEYOND = 1e300  # SPSS writes LOWEST and HIGHEST as the largest numbers there are


def read_stat_metadata(path: Path, catalog: str | Path | None) -> Contents:
    """The columns that the header of a file describes."""
    metadata = _metadata(path, catalog)
    kind = path.suffix.lower()
    check_size(metadata.column_names, str(path))
    entries = tuple(_entry(metadata, name, kind) for name in metadata.column_names)
    title = metadata.file_label or ""
    name = metadata.table_name or path.name.split(".")[0]
    return Contents(short(name) or "table", entries, description=short(title))


def _metadata(path: Path, catalog: str | Path | None) -> SimpleNamespace:
    """What the header says, read by another process: a damaged file can crash the library that reads it."""
    with requires_extra("pyreadstat", "stat", ", or export the codebook as CSV"):
        import pyreadstat  # noqa: F401, PLC0415 an extra
    for file in (path, *([] if catalog is None else [Path(catalog)])):
        if not file.is_file():
            raise ReadError(f"there is no file {file}", hint="check the path of the codebook")
    ending = path.suffix.lower()
    options: dict[str, Any] = {"metadataonly": True, "output_format": "polars"}
    options["disable_datetime_conversion"] = True  # a missing code of a date stays the number that it is
    if ending in (".sav", ".zsav", ".dta", ".sas7bdat"):
        options["user_missing"] = True  # the missing codes of the header
    if catalog is not None and ending == ".sas7bdat":
        options["catalog_file"] = os.fspath(Path(catalog).resolve())
    asked = json.dumps([_READERS[ending], os.fspath(path.resolve()), options])
    command = [sys.executable, "-P", "-c", _PROGRAM, asked]  # -P: no module is imported from the folder of the file
    try:
        done = subprocess.run(command, capture_output=True, timeout=_SECONDS, check=False)  # noqa: S603 our own program
        found = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.TimeoutExpired, IndexError, ValueError):
        found = {"error": "the library that reads it stopped"}
    if "error" in found:
        what = shortened(" ".join(found["error"].split()), 100)
        hint = "check that the file is complete and of the kind that its name says, or save it again"
        raise ReadError(f"cannot read the header of {path}: {what}", hint=hint)
    labels = {name: dict(map(tuple, pairs)) for name, pairs in found.pop("labels").items()}
    return SimpleNamespace(**found, variable_value_labels=labels)


def _entry(metadata: Any, name: str, kind: str) -> Entry:
    where = f"the header of column {shortened(name, 60)!r}"
    is_text = metadata.readstat_variable_types.get(name) == "string"
    form = metadata.original_variable_types.get(name) or ""
    missing = _missing(metadata, name, where, is_text=is_text)
    labels = metadata.variable_value_labels.get(name, {})
    letters = {key for key in labels if not is_text and _is_letter(key)}
    coded = [(f".{key}" if key in letters else key, label) for key, label in labels.items()]
    codes = check_codes(((code, label) for code, label in coded if as_text(code)), name, where)
    missing += tuple(MissingCode(f".{key}", "unknown", short(labels[key])) for key in sorted(letters))
    type_, left_out = _type(form, kind, str(metadata.readstat_variable_types.get(name, "")), is_text=is_text)
    width = _WIDTH.fullmatch(form)
    months = type_ == "date" and dates_of(_PROGRAMS.get(kind, "SPSS"), form) == Dates(None, has_time=False)
    digits = int(width[1]) if width and type_ == "integer" and len(width[1]) < 4 else None
    return Entry(
        name,
        where,
        label=metadata.column_names_to_labels.get(name) or "",
        type=type_,
        measure=_MEASURES.get(metadata.variable_measure.get(name, ""), ""),
        codes=codes,
        missing=missing,
        digits=digits,
        left_out="" if codes else left_out,
        more=(("resolution", "month"),) if months else (),
    )


def _is_letter(key: object) -> bool:
    """Whether this is a missing value of Stata or SAS: .a to .z, .A to .Z, or ._ without its point."""
    return isinstance(key, str) and re.fullmatch(r"[A-Za-z_]", key) is not None


def _missing(metadata: Any, name: str, where: str, *, is_text: bool) -> tuple[MissingCode | MissingRange, ...]:
    """The user-missing codes and ranges of an SPSS file."""
    found: dict[Any, MissingCode | MissingRange] = {}
    for span in metadata.missing_ranges.get(name, ()):
        least, most = span["lo"], span["hi"]
        if is_text or isinstance(least, str) or least == most:
            if as_text(least):
                found.setdefault(as_text(least), MissingCode(as_text(least)))
            continue
        ends = (-float("inf") if least < -_BEYOND else least, float("inf") if most > _BEYOND else most)
        found.setdefault(ends, _range(*ends, where))
    return tuple(found.values())


def _range(least: float, most: float, where: str) -> MissingRange:
    try:
        return MissingRange(least, most)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error.message}", hint=error.hint) from None


def _type(form: str, kind: str, stored: str, *, is_text: bool) -> tuple[EntryType, str]:
    """The type of a column by its format, and why it cannot be used if so."""
    if is_text:
        return "text", ""
    program = _PROGRAMS.get(kind, "SPSS")
    dates = dates_of(program, form)
    if dates is not None:
        return ("datetime" if dates.has_time else "date"), ""
    word = re.sub(r"[\d.]+$", "", form)
    if re.match(r"%-?t", form) if program == "Stata" else _OTHER_TIME.fullmatch(word):
        return "", f"its format {shortened(form, 20)} is a time of day or a similar unit; {_AS_NUMBER}"
    if program == "Stata":
        return ("integer" if stored.startswith("int") else "number"), ""
    width = _WIDTH.fullmatch(form)
    return ("integer" if width and width[2] in ("0", "", None) and width[1] else "number"), ""
