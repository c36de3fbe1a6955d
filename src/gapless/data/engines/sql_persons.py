"""Keep at most k rows of each person in SQL: window functions that compute what `persons.py` does with files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from gapless.data.engines.sql_encoding import SPACE, Dialect, Kind
from gapless.data.io.persons import MISSING_PART, RowLimit, check_has_id, refused_id

ID_KINDS: dict[str, Kind] = {"text": "text", "whole": "whole"}


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PersonExpressions:
    """How the rows of a source are kept.

    Attributes:
        limit: how many rows are kept of a person.
        texts: for each part of the id its text, from the raw values; NULL if it is missing.
        key: an expression of the secret key.
        dialect: the SQL of the database.
    """

    limit: RowLimit
    texts: tuple[str, ...]
    key: str
    dialect: Dialect

    @classmethod
    def of(cls, fields: Sequence[tuple[str, str]], limit: RowLimit, key: str, dialect: Dialect) -> Self:
        """The expressions for a source with these columns and kinds of values.

        Only texts and whole numbers are ids: databases write values of other kinds differently. Kinds are public.
        """
        names = [name for name, _ in fields]
        check_has_id(names, limit.id)
        texts = []
        for name in limit.id:
            place = names.index(name)
            kind = fields[place][1]
            if kind not in ID_KINDS:
                raise refused_id(name, kind)
            texts.append(f"NULLIF({dialect.trim(dialect.text(f'r{place}', ID_KINDS[kind]), SPACE)}, '')")
        return cls(limit, tuple(texts), key, dialect)

    def id_of(self, texts: Sequence[str]) -> str:
        """The encoded id of a row from the names of its texts, NULL if all are missing (`persons.encode_ids`)."""
        lengths = (f"CAST(OCTET_LENGTH({text}) AS {self.dialect.text_type})" for text in texts)
        parts = (
            f"COALESCE({length} || ':' || {text}, '{MISSING_PART}')"
            for text, length in zip(texts, lengths, strict=True)
        )
        return f"CASE WHEN COALESCE({', '.join(texts)}) IS NOT NULL THEN {' || '.join(parts)} END"

    def kept_rows(self, rows: str, codes: Sequence[str], columns: Sequence[str]) -> str:
        """A table expression of the rows that are kept.

        Args:
            rows: a table expression of all rows, with the id as `person`.
            codes: the names of the codes of all columns, in the order of the schema.
            columns: the names of the codes that are returned.
        """
        sql = self.dialect
        content = " || ',' || ".join(f"CAST({code} AS {sql.text_type})" for code in codes)
        message = sql.bytes_of(f"person || content || ';' || CAST(occurrence AS {sql.text_type})")
        steps = {
            "contents": f"{sql.text(content, 'text')} AS content",
            "counted": "ROW_NUMBER() OVER (PARTITION BY person, content ORDER BY content) AS occurrence",
            "hashed": f"{sql.sha256(self.key, sql.sha256(self.key, message))} AS digest",
            "ranked": "ROW_NUMBER() OVER (PARTITION BY person ORDER BY digest, content) AS place",
        }
        for name, expression in steps.items():
            rows = f"(SELECT *, {expression} FROM {rows}{sql.fence}) AS {name}"
        # Rows without an id are persons by themselves, though NULLs are one partition.
        is_kept = f"person IS NULL OR place <= {self.limit.at_most}"
        return f"(SELECT {', '.join(columns) or '0 AS none'} FROM {rows} WHERE {is_kept}) AS kept"
