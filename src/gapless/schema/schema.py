"""The public description of a table: its name, its columns, its constraints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

from gapless.errors import Call, Hint, SchemaError
from gapless.schema import toml
from gapless.schema.columns import UNCONFIRMED, Column
from gapless.schema.columns_toml import check_keys, column_keys, read_columns, write_columns
from gapless.schema.difference import difference_of, file_column, resolve, without_minuend
from gapless.schema.numeric import LARGEST_WHOLE, BinnedColumn, NumericColumn
from gapless.text import listing, nearest, repeated
from gapless.types import GapRule, is_number, is_whole, whole

_NUMBER_KEYS = ("decimal", "thousands")  # of the table, or of a column of numbers
SHEET_KEYS = ("sheet", "header_row", "skip_rows")
FILE_KEYS = ("separator", *_NUMBER_KEYS, "encoding", "escape_formulas", *SHEET_KEYS)
_TABLE_KEYS = ("name", "description", "person", "rows_per_person", "expected_rows", *FILE_KEYS, "ignore")
SEPARATORS = (",", ";", "\t", "|")
_CONSTRAINT_KEYS = ("not", "weight", "description")
LONGEST_RULE = 10_000  # characters
MOST_SHEET_ROWS = 1 << 20
CONFIRM_HINT = "check the facts of these columns against a codebook, then run `gapless schema confirm SCHEMA`"
_RULE = "write [[constraint]] in double brackets, and below it not = \"t1.age < 15 and t1.married == 'yes'\""
_COLUMN = 'write two lines for each column, such as [column.smoker] and below it kind = "boolean"'

Weight: TypeAlias = float | Literal["learned"] | None


@dataclass(frozen=True, slots=True)
class Constraint:
    """A public rule on rows: what must *not* hold, as it was written.

    A constraint with a weight is *soft*: rows may break it. With the weight "learned" they break it about as often as
    the rows of the table do.
    """

    forbidden: str
    description: str = ""
    weight: Weight = None

    def __post_init__(self) -> None:
        if not isinstance(self.forbidden, str):
            raise SchemaError(f"a constraint must be a text, got {self.forbidden!r}", hint=_RULE)
        if len(self.forbidden) > LONGEST_RULE:
            raise SchemaError(
                f"a [[constraint]] has more than {LONGEST_RULE} characters", hint="write a shorter constraint"
            )
        soft = is_number(self.weight) and 0 < self.weight < float("inf")
        if not (self.weight is None or self.weight == "learned" or soft):
            wrong = f'the weight of a [[constraint]] must be a number above 0 or "learned", got {self.weight!r}'
            raise SchemaError(wrong, hint='write weight = "learned", or remove the weight if the rule always holds')


@dataclass(frozen=True)
class Schema:
    """The public description of a table. Nothing in it may come from the private data.

    >>> from gapless.schema import Boolean, Integer
    >>> people = Schema("people", [Integer("age", bounds=(0, 120)), Boolean("smoker", may_be_missing=True)])
    >>> people.names
    ('age', 'smoker')
    >>> print(people.to_toml())
    [table]
    name = "people"
    <BLANKLINE>
    [column.age]
    kind = "integer"
    bounds = [0, 120]
    <BLANKLINE>
    [column.smoker]
    kind = "boolean"
    may_be_missing = true
    <BLANKLINE>
    """

    name: str
    columns: Sequence[Column]  # kept as tuples; a difference is in the place of the column that follows from it
    description: str = ""
    rows_per_person: int | None = None  # 1 without an id of persons; with one it must be chosen before a release
    ignore: Sequence[str] = ()
    constraints: Sequence[Constraint] = ()
    expected_rows: int | None = None  # a rough number from a public source; the true number is private
    separator: str | None = None  # of text files other than .tsv; None is a comma
    encoding: str | None = None  # of text files; None is UTF-8
    escape_formulas: bool = True  # put an apostrophe before text cells that a spreadsheet would run
    sheet: str | int | None = None  # of Excel files: its name, or its number; None is the first
    header_row: int | None = None  # the row of the sheet with the names; None is the first row that has a value
    skip_rows: int = 0  # rows below it that are no rows of the table, such as one with units
    person: Sequence[str] | str = ()  # the columns with the id of the person whom a row is about; never counted

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.strip():
            raise SchemaError("the table has no name", hint='write name = "people" below [table]')
        if not isinstance(self.description, str):
            wrong = f"the table's description must be a text, got {self.description!r}"
            raise SchemaError(wrong, hint='write description = "a health survey"')
        for key, kind, hint in (
            ("columns", Column, 'pass a list: Schema("people", [Integer("age", bounds=(0, 120))])'),
            ("ignore", str, 'write ignore = ["id"]'),
            ("constraints", Constraint, _RULE),
        ):
            object.__setattr__(self, key, _list_of(kind, getattr(self, key), key, hint))
        person = (self.person,) if isinstance(self.person, str) else self.person
        object.__setattr__(self, "person", _list_of(str, person, "person", 'write person = "patient"'))
        if not self.columns:
            raise SchemaError("the schema has no columns", hint=_COLUMN)
        declared = self._declared_names
        if twice := repeated(declared):
            raise SchemaError(f"the column {twice[0]!r} is declared twice", hint="remove or rename one of the two")
        if both := sorted(set(declared) & set(self.ignore)):
            hint = f"remove its name from ignore, or remove [column.{toml.key(both[0])}]"
            raise SchemaError(f"the column {both[0]!r} is declared and ignored", hint=hint)
        self._check_person(declared)
        object.__setattr__(self, "columns", resolve(self.columns))
        if self.rows_per_person is not None or not self.person:
            stated = 1 if self.rows_per_person is None else self.rows_per_person
            rows = whole("rows_per_person", stated, error=SchemaError, least=1, most=LARGEST_WHOLE)
            object.__setattr__(self, "rows_per_person", rows)
        if self.expected_rows is not None:
            rows = whole("expected_rows", self.expected_rows, error=SchemaError, least=1, most=LARGEST_WHOLE)
            object.__setattr__(self, "expected_rows", rows)
        self._check_file_keys()

    def _check_person(self, declared: Sequence[str]) -> None:
        """Refuse an id that is also a column: it would be counted and released."""
        if not all(self.person) or repeated(self.person):
            wrong = f"person must name different columns, got {list(self.person)!r}"
            raise SchemaError(wrong, hint='write person = "patient", or remove the line')
        if both := sorted(set(self.person) & set(declared)):
            hint = f"remove [column.{toml.key(both[0])}]: the id of a person is never released"
            raise SchemaError(f"the column {both[0]!r} is declared, and is the id of a person", hint=hint)
        if both := sorted(set(self.person) & set(self.ignore)):
            hint = f"remove {both[0]!r} from ignore: the id is read, but never released"
            raise SchemaError(f"the column {both[0]!r} is ignored, and is the id of a person", hint=hint)

    def _check_file_keys(self) -> None:
        if not isinstance(self.escape_formulas, bool):
            wrong = f"escape_formulas must be true or false, got {self.escape_formulas!r}"
            raise SchemaError(wrong, hint="remove the line with escape_formulas, or write false")
        if self.separator is not None and self.separator not in SEPARATORS:
            wrong = f'separator must be one of "," ";" "|" "\\t", got {self.separator!r}'
            raise SchemaError(wrong, hint='write separator = ";", or "\\t" for a tab')
        if self.encoding is not None and not _is_encoding(self.encoding):
            wrong = f"no encoding is called {self.encoding!r}"
            raise SchemaError(wrong, hint='write encoding = "utf-8", "utf-16", "latin-1" or "cp1252"')
        if (
            self.sheet is not None
            and not (isinstance(self.sheet, str) and self.sheet)
            and not is_whole(self.sheet, least=1)
        ):
            wrong = f"sheet must be the name of a sheet, or its number from 1 on, got {self.sheet!r}"
            raise SchemaError(wrong, hint='write sheet = "Data", or sheet = 2')
        if self.header_row is not None:
            whole("header_row", self.header_row, error=SchemaError, least=1, most=MOST_SHEET_ROWS)
        whole("skip_rows", self.skip_rows, error=SchemaError, most=MOST_SHEET_ROWS)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def _declared_names(self) -> tuple[str, ...]:
        return (*self.names, *(found.minuend.name for column in self.columns if (found := difference_of(column))))

    @property
    def file_columns(self) -> tuple[Column, ...]:
        """The columns of a file of this table, in order: in place of a difference, the one that follows from it."""
        return tuple(map(file_column, self.columns))

    @property
    def file_names(self) -> tuple[str, ...]:
        """The names of the columns of a file, in order."""
        return tuple(column.name for column in self.file_columns)

    def __getitem__(self, name: str) -> Column:
        return self.columns[self.positions([name])[0]]

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """The positions of these columns. Raises on an unknown or repeated name."""
        if isinstance(names, str):
            names = (names,)
        places: list[int] = []
        for name in names:
            if name not in self.names:
                self._check_is_modelled(name)
                raise SchemaError(f"no column {name!r} in the schema", hint=f"use {nearest(str(name), self.names)}")
            place = self.names.index(name)
            if place in places:
                raise SchemaError(f"the column {name!r} is named twice", hint=f"name {name!r} only once")
            places.append(place)
        return tuple(places)

    def _check_is_modelled(self, name: str) -> None:
        """Refuse a column that follows from a difference: nothing is counted of it."""
        for column in self.columns:
            if (found := difference_of(column)) and found.minuend.name == name:
                wrong = f"the column {name!r} is not modelled: it follows from {column.name!r} and {found.subtrahend!r}"
                raise SchemaError(wrong, hint=f"use {column.name!r}, which is {found}")

    @property
    def unconfirmed(self) -> tuple[Column, ...]:
        """The columns of a file whose facts were read from the data, or guessed: nothing is released under them.

        A difference is among them as a column of its own.
        """
        declared = (column for kept in self.columns for column in dict.fromkeys((file_column(kept), kept)))
        return tuple(column for column in declared if column.origin in UNCONFIRMED)

    def check_confirmed(self) -> None:
        """Refuse facts that were read from the data, or guessed: no private table has such a schema."""
        found = self.unconfirmed
        read = [column.name for column in found if column.origin == "data"]
        guessed = [column.name for column in found if column.origin == "proposed"]
        parts = [f"read from the data for {listing(map(repr, read))}"] * bool(read)
        parts += [f"proposed for {listing(map(repr, guessed))}"] * bool(guessed)
        if parts:
            raise SchemaError(
                f"this schema has facts that are not confirmed: {', and '.join(parts)}", hint=CONFIRM_HINT
            )

    def confirmed(self, names: Iterable[str] | None = None) -> Schema:
        """The same table with the facts of these columns, or of all, as typed: the holder says they were checked."""
        left = {column.name for column in self.unconfirmed}
        chosen = left if names is None else left & set(names)

        def confirm(column: Column) -> Column:
            if (found := difference_of(column)) and found.minuend.name in chosen:
                minuend = replace(found.minuend, origin="typed")
                column = replace(column, difference=replace(found, minuend=minuend))  # type: ignore[call-arg]
            return replace(column, origin="typed") if column.name in chosen else column

        return replace(self, columns=tuple(map(confirm, self.columns)))

    @property
    def gap_rules(self) -> dict[str, GapRule]:
        """What counts as a gap in each column. The digests cover how a file is read, where the schema declares it.

        Another separator or encoding makes other cells of the same bytes. A difference is left out: its gaps are those
        of two cells, so an assumption about single cells says nothing of them.
        """
        read = [self.separator, self.encoding, *([] if self.escape_formulas else ["formulas as they are"])]
        read += [f"{key} {value!r}" for key in SHEET_KEYS if (value := getattr(self, key))]
        rules = {column.name: column.gap_rule for column in self.columns if difference_of(column) is None}
        return {name: rule.given(read) for name, rule in rules.items()} if any(read) else rules

    @cached_property
    def finest(self) -> Schema:
        """The same table with each cell of a binned column as a bin: the resolution at which rows are kept."""
        return self.with_columns({c.name: c.finest for c in self.columns if isinstance(c, BinnedColumn)})

    def with_columns(self, columns: Mapping[str, Column]) -> Schema:
        """The same table with some columns replaced."""
        return replace(self, columns=tuple(columns.get(column.name, column) for column in self.columns))

    def check_same_cells(self, schema: Schema) -> None:
        """Refuse a schema with other columns or other cells than this one; bins, labels and descriptions may differ."""
        hint = Hint(
            "use ",
            Call("Schema.with_columns", ...),
            " of the table's schema; change only bins, or edges at borders of cells",
        )
        if self.names != schema.names:
            alone = {*self.names} ^ {*schema.names}
            how = f"{min(alone)!r} is only in one of them" if alone else "their order differs"
            raise SchemaError(f"this schema has other columns than the table: {how}", hint=hint)
        for old, new in zip(self.finest.columns, schema.finest.columns, strict=True):
            if old != new and (old := old.without_remarks()) != (new := new.without_remarks()):
                keys = [field.name for field in fields(old)] if type(old) is type(new) else []
                different = {key for key in keys if getattr(old, key) != getattr(new, key)}
                how = f"different {listing(sorted(different or {'kind'}))}"
                if different and different <= {"bins", "edges", "quantiles"}:
                    how = "an edge is inside a cell"
                raise SchemaError(
                    f"column {new.name!r} of this schema has other cells than the table: {how}", hint=hint
                )

    def is_cut_from(self, schema: Schema) -> bool:
        """Whether this is that schema with bins for the columns whose bins were to be learned."""
        learned = {c.name: c for c in schema.columns if isinstance(c, BinnedColumn) and c.has_learned_bins}
        same_cells = self.finest.columns == schema.finest.columns
        return same_cells and self.with_columns(learned) == schema

    def select(self, names: Iterable[str]) -> Schema:
        """The schema of some of the columns, in the order given."""
        chosen = [self.columns[place] for place in self.positions(names)]
        known = {column.name for column in chosen}
        lone = [column for column in chosen if (found := difference_of(column)) and found.subtrahend not in known]
        columns = tuple(without_minuend(column) if column in lone else column for column in chosen)
        return replace(self, columns=columns, person=(), ignore=(), constraints=())

    @classmethod
    def read(cls, path: str | Path) -> Schema:
        """Read a schema from a TOML file."""
        return cls.from_dict(toml.read(Path(path)))

    @classmethod
    def from_codebook(
        cls,
        path: str | Path,
        *,
        name: str | None = None,
        table: str | None = None,
        catalog: str | Path | None = None,
    ) -> Schema:
        """The schema that follows from a codebook; no row of data is read.

        Columns for which the codebook lacks a fact have a proposal, and `origin="proposed"`: nothing is released under
        the schema before they are confirmed. `gapless schema from` also lists what is asked.

        Args:
            path: an SPSS, Stata or SAS file, a REDCap data dictionary, a Data Package, Table Schema, CSVW metadata,
                DDI-Codebook, or a table of codes (CSV, XLSX).
            name: of the table.
            table: which table, if the codebook describes several.
            catalog: the file .sas7bcat with the value labels of a .sas7bdat file.
        """
        from gapless.schema.codebooks import read_codebook  # noqa: PLC0415 it imports this module

        return read_codebook(path, name=name, table=table, catalog=catalog).schema

    @classmethod
    def from_toml(cls, text: str) -> Schema:
        """Read a schema from TOML text."""
        return cls.from_dict(toml.parse(text, "the schema"))

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Schema:
        """Build a schema from the content of a TOML file."""
        check_keys(content, ("table", "column", "constraint"), "the schema")
        table = content.get("table", {})
        check_keys(table, (*_TABLE_KEYS, "unchecked"), "[table]")
        table = dict(table)
        if not isinstance(unchecked := table.pop("unchecked", False), bool):  # old drafts have it
            wrong = f"unchecked must be true or false, got {unchecked!r}"
            raise SchemaError(wrong, hint="remove the line with unchecked once the schema is checked")
        columns = content.get("column", {})
        if not isinstance(columns, Mapping):
            raise SchemaError("[column] must name its column", hint="write [column.age]")
        numbers = {key: value for key, value in table.items() if key in _NUMBER_KEYS}
        rules = _list_of(Mapping, content.get("constraint", ()), "constraint", _RULE)
        return cls(
            **({"name": ""} | {key: value for key, value in table.items() if key not in _NUMBER_KEYS}),
            columns=tuple(read_columns(columns, numbers, unchecked=unchecked)),
            constraints=tuple(map(_constraint, rules)),
        )

    def to_dict(self) -> dict[str, Any]:
        """The content of the TOML file, defaults left out."""
        table = {
            field.name: _written(field.name, value)
            for field in fields(self)
            if field.name in _TABLE_KEYS and (value := getattr(self, field.name)) != field.default
        }
        if not self.person and self.rows_per_person == 1:
            del table["rows_per_person"]
        declared = [column for kept in self.columns for column in dict.fromkeys((file_column(kept), kept))]
        content: dict[str, Any] = {"table": table, "column": {c.name: column_keys(c) for c in declared}}
        numbers = [content["column"][column.name] for column in declared if isinstance(column, NumericColumn)]
        for key in _NUMBER_KEYS:
            written = {keys.get(key) for keys in numbers}
            if len(written) == 1 and written != {None}:
                (table[key],) = written
                for keys in numbers:
                    del keys[key]
        content["table"] = {key: table[key] for key in _TABLE_KEYS if key in table}
        if self.constraints:
            content["constraint"] = [
                {"not": rule.forbidden}
                | ({} if rule.weight is None else {"weight": rule.weight})
                | ({"description": rule.description} if rule.description else {})
                for rule in self.constraints
            ]
        return content

    def to_toml(self) -> str:
        """The schema as TOML text."""
        content = self.to_dict()
        return toml.dump(content | {"column": write_columns(content["column"])})

    def write(self, path: str | Path) -> None:
        """Write the schema to a TOML file."""
        toml.write(Path(path), self.to_toml())


def _written(key: str, value: Any) -> Any:
    """A key of the table as TOML; an id of one column is its name."""
    if key == "person":
        return value[0] if len(value) == 1 else list(value)
    return list(value) if key == "ignore" else value


def _list_of(kind: type, values: Any, key: str, hint: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise SchemaError(f"{key} must be a list, got a {type(values).__name__}", hint=hint)
    if odd := [type(value).__name__ for value in values if not isinstance(value, kind)]:
        items = "texts" if kind is str else "tables" if kind is Mapping else f"{kind.__name__} objects"
        raise SchemaError(f"{key} must be a list of {items}, but has an item of type {odd[0]}", hint=hint)
    return tuple(values)


def _is_encoding(name: Any) -> bool:
    try:
        b"a".decode(name, "ignore")  # raises for codecs that are not for text; an empty text would not be decoded
    except (LookupError, TypeError, ValueError):
        return False
    return True


def _constraint(keys: Any) -> Constraint:
    check_keys(keys, _CONSTRAINT_KEYS, "[[constraint]]")
    if not isinstance(keys.get("not"), str):
        raise SchemaError("a [[constraint]] lacks the key `not`, whose text says what no row may be", hint=_RULE)
    return Constraint(keys["not"], keys.get("description", ""), keys.get("weight"))
