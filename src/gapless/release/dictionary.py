"""The data dictionary of a release: its columns and what their cells mean, from the schema alone."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.data.table import text_in_parquet
from gapless.schema import Schema
from gapless.schema.schema import FILE_KEYS


def dictionary(schema: Schema) -> Iterator[str]:
    """The lines of dictionary.md."""
    yield from (f"# Data dictionary: {schema.name}", "", *([schema.description, ""] if schema.description else []))
    file = schema.to_dict()["table"]
    if written := [f"{key} `{file[key]!r}`" for key in FILE_KEYS if key in file]:
        yield from (f"Text files are written with {', '.join(written)}.", "")
    for column in schema.columns:
        yield from (f"## {column.name}", "", f"{column.kind}. {column.description}".strip(), "")
        yield f"- cells: {', '.join(f'`{cell}`' for cell in column.cells[: column.values_size])}"
        for key in ("spelling", "format"):
            if spelled := getattr(column, key, None):
                yield f"- {key} in text files: `{spelled if isinstance(spelled, str) else ', '.join(spelled)}`"
        if column.not_applicable is not None:
            as_text = "; in synthetic.parquet the column is text, since null is a gap" * text_in_parquet(column)
            yield f"- not applicable: {_code(column.not_applicable)}{as_text}"
        if column.may_be_missing:
            codes = ", ".join(
                f"{_code(code.code)} ({code.kind})" for code in column.missing if code.kind in column.gaps
            )
            yield f"- may be missing: {codes or 'an empty cell'}"
        yield ""


def _code(code: str) -> str:
    return f"`{code}`" if code else "an empty cell"
