"""The data dictionary of a release: its columns and what their cells mean, from the schema alone."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.data.io.formulas import Formulas
from gapless.data.table import text_in_parquet
from gapless.schema import Schema
from gapless.schema.schema import FILE_KEYS
from gapless.text import code, markdown

# By `escape_formulas` of the schema.
FORMULAS = {
    True: "In text files (CSV) an apostrophe is put before names and text cells that begin with =, +, -, @, a tab or a "
    "carriage return and go on, numbers excepted, so that no spreadsheet runs them. gapless reads them without it.",
    False: "In text files (CSV) names and text cells are written as they are, also if a spreadsheet would run them as "
    "formulas.",
}


def dictionary(schema: Schema) -> Iterator[str]:
    """The lines of dictionary.md."""
    yield from (f"# Data dictionary: {markdown(schema.name)}", "")
    if schema.description:
        yield from (markdown(schema.description), "")
    file = schema.to_dict()["table"]
    if written := [f"{key} {code(repr(file[key]))}" for key in FILE_KEYS if key in file]:
        yield from (f"Text files are written with {', '.join(written)}.", "")
    yield from (FORMULAS[schema.escape_formulas], "")
    formulas = Formulas(schema)
    for column in schema.columns:
        yield from (f"## {markdown(column.name)}", "", f"{column.kind}. {markdown(column.description)}".strip(), "")
        if column.name in formulas.names:
            yield f"- name in text files: {code(formulas.names[column.name])}"
        yield f"- cells: {', '.join(map(code, column.cells[: column.values_size]))}"
        if texts := formulas.cells.get(column.name):
            pairs = (f"{code(text)} as {code(written)}" for text, written in texts.items())
            yield f"- written in text files: {', '.join(pairs)}"
        for key in ("spelling", "format"):
            if spelled := getattr(column, key, None):
                yield f"- {key} in text files: {code(spelled if isinstance(spelled, str) else ', '.join(spelled))}"
        if column.not_applicable is not None:
            as_text = "; in synthetic.parquet the column is text, since null is a gap" * text_in_parquet(column)
            yield f"- not applicable: {_code(column.not_applicable)}{as_text}"
        if column.may_be_missing:
            codes = ", ".join(f"{_code(gap.code)} ({gap.kind})" for gap in column.missing if gap.kind in column.gaps)
            yield f"- may be missing: {codes or 'an empty cell'}"
        yield ""


def _code(text: str) -> str:
    return code(text) if text else "an empty cell"
