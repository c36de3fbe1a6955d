"""Read codebooks, the public descriptions of tables by archives, surveys and registries, as schemas. No row is read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gapless.errors import ReadError
from gapless.files import MEGABYTE
from gapless.schema.codebooks.codebook import Codebook, Question, build, needs_bounds
from gapless.schema.codebooks.codebook_file import read_bytes
from gapless.schema.codebooks.entries import Contents
from gapless.schema.codebooks.frictionless import read_data_package
from gapless.schema.codebooks.json_codebooks import is_csvw, load_json
from gapless.schema.schema import Schema
from gapless.text import listing

__all__ = ["Codebook", "Question", "needs_bounds", "read_codebook"]

STAT_ENDINGS = (".sav", ".zsav", ".por", ".dta", ".sas7bdat", ".xpt")
ENDINGS = (*STAT_ENDINGS, ".csv", ".tsv", ".xlsx", ".json", ".xml")
MOST_XML_BYTES, MOST_JSON_BYTES = 128 * MEGABYTE, 32 * MEGABYTE  # the parts of JSON take much more memory than text


def read_codebook(
    path: str | Path, *, name: str | None = None, table: str | None = None, catalog: str | Path | None = None
) -> Codebook:
    """Return the schema that follows from a codebook, and the questions that the codebook leaves open.

    Args:
        path: an SPSS, Stata or SAS file, of which only the header is read; a REDCap data dictionary (CSV); a Data
            Package, Table Schema or CSVW metadata (JSON); a DDI-Codebook (XML); or a table of codes (CSV, XLSX).
        name: the name of the table; by default that in the codebook, or the name of the file.
        table: the name of the table, file or sheet to use, if the codebook describes several.
        catalog: the file .sas7bcat with the value labels of a .sas7bdat file.

    Raises:
        ReadError: The file cannot be read.
        SchemaError: The codebook is malformed. The error names the place in it.
    """
    path = Path(path)
    ending = path.suffix.lower()
    if ending not in ENDINGS:
        wrong = f"{path} is not a codebook of a known kind: its name must end with one of {listing(ENDINGS)}"
        raise ReadError(wrong, hint="save the codebook in one of these formats, or write a table of codes as CSV")
    if catalog is not None and ending != ".sas7bdat":
        wrong = f"a catalog has the labels of a .sas7bdat file, but {path} is not one"
        raise ReadError(wrong, hint="leave the catalog out, or save the table as .sas7bdat")
    found = _read(path, ending, table, catalog)
    if isinstance(found, Schema):  # an archive file of gapless: it has the whole schema
        return Codebook(found, (), path.name)
    return build(found if name is None else replace(found, name=name), path.name)


def _read(path: Path, ending: str, table: str | None, catalog: str | Path | None) -> Contents | Schema:
    if ending in STAT_ENDINGS:
        from gapless.schema.codebooks.stat_metadata import read_stat_metadata  # noqa: PLC0415 an extra

        return read_stat_metadata(path, catalog)
    if ending in (".csv", ".tsv", ".xlsx"):
        from gapless.schema.codebooks.code_tables import read_code_table  # noqa: PLC0415 polars is slow to import

        return read_code_table(path, table)
    content = read_bytes(path, MOST_XML_BYTES if ending == ".xml" else MOST_JSON_BYTES)
    if ending == ".xml":
        from gapless.schema.codebooks.ddi import read_ddi  # noqa: PLC0415 seldom used

        return read_ddi(content, path, table)
    parsed = load_json(content, path)
    if is_csvw(parsed):
        from gapless.schema.codebooks.csvw import read_csvw  # noqa: PLC0415 seldom used

        return read_csvw(parsed, path, table)
    return read_data_package(parsed, path, table)
