"""Propose a first schema by looking at the data, some rows at a time. For the holder only.

Levels, bounds and gaps that were read from the data are private: a level that only one person has reveals that person.
So a draft is not a schema until the holder has checked it against a codebook.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapless import types
from gapless.data.io.draft_column import USUAL_CODES, ObservedColumn, numbers_of, styles_by_frequency
from gapless.data.io.draft_dates import are_days, calendar_column, moments_of
from gapless.data.io.draft_gaps import codes_of_several, extreme_remark, split_gaps
from gapless.data.io.draft_notes import constraints_of, empty_remark, grouped, level_remarks
from gapless.data.io.draft_numbers import numeric_column
from gapless.data.io.draft_rows import EmptyRule, look_at_rows
from gapless.data.io.ids import id_of_rows, id_remark, likeliest, looks_like_id
from gapless.data.io.source import file_layout, read_parts, redact_cells
from gapless.data.io.spreadsheets import SheetLayout
from gapless.errors import SchemaError
from gapless.schema import toml
from gapless.schema.columns import Boolean, Categorical, Column
from gapless.schema.columns_toml import write_columns
from gapless.schema.gap_codes import MissingCode
from gapless.schema.schema import Schema
from gapless.text import listing, plural

NEARLY_EMPTY = 0.7  # share of cells without a value, from which on a column gets a remark
_FACTS = ("levels", "bounds", "resolution", "scale", "heaping", "may_be_missing", "missing", "kind")
_LAYOUT = ("separator", "encoding", "decimal", "thousands", "format", "spelling")
# Comments for the lines of a draft that follow from the data.
_COMMENTS = {**dict.fromkeys(_FACTS, "read from the data"), **dict.fromkeys(_LAYOUT, "as the data are written")}
PERSON_REMARK = (
    "looks like the id of persons with several rows: add rows_per_person, the number of rows to keep of each"
)
_HEAD = """\
# DRAFT: made by looking at the data. Lines marked "read from the data" are private facts: before a real
# release each must come from a codebook or from common knowledge. Then run `gapless schema confirm` on this file.

"""
_REMARK = ""
_PROPOSED = (
    '# Proposed rules: no value where a column does not apply. Remove the "# " of those that the codebook confirms.'
)


@dataclass(frozen=True)
class Draft:
    """A proposed schema, and what the holder should look at.

    Attributes:
        schema: the proposed schema.
        left_out: the columns that it ignores, and why.
        doubts: what looks odd about each column.
        notes: what looks odd in the whole table.
        constraints: rules that are proposed as comments in the file.
    """

    schema: Schema
    left_out: Mapping[str, str]
    doubts: Mapping[str, Sequence[str]]
    notes: Sequence[str] = ()
    constraints: Sequence[str] = ()

    @property
    def remarks(self) -> dict[str, str]:
        """What looks odd about each column, as one text."""
        return {name: "; ".join(doubts) for name, doubts in self.doubts.items()}

    def lines(self) -> list[str]:
        """What the holder should look at: similar columns share a line."""
        lines = [f"left out {line}" for line in grouped({name: [why] for name, why in self.left_out.items()})]
        lines += [f"look at {column}: {PERSON_REMARK}" for column in self.schema.person]
        lines += [f"look at {line}" for line in grouped(self.doubts)]
        return lines + [f"look at the rows: {note}" for note in self.notes]

    def to_toml(self) -> str:
        """The schema as TOML, with a comment on each fact that was read from the data."""
        content = self.schema.to_dict()
        remarks = self.remarks
        # Columns are written as one entry if they are alike and have the same remark, which is a key until then.
        columns = {name: {**keys, _REMARK: remarks.get(name, "")} for name, keys in content["column"].items()}
        content["column"] = written = {name: dict(keys) for name, keys in write_columns(columns).items()}
        comments: dict[tuple[str, str, str], str] = {}
        for name, keys in written.items():
            remark = keys.pop(_REMARK)
            comments |= {("column", name, key): _COMMENTS[key] for key in keys if key in _COMMENTS}
            if remark:
                key = next(key for key in ("bounds", "levels", "kind") if key in keys)
                comments["column", name, key] += f"; {remark}"
        comments |= {("table", "", key): _COMMENTS[key] for key in content["table"] if key in _COMMENTS}
        if self.schema.person:
            comments["table", "", "person"] = PERSON_REMARK
        if self.notes:
            comments["table", "", "name"] = "; ".join(self.notes)
        if self.left_out:
            comments["table", "", "ignore"] = "; ".join(grouped({name: [why] for name, why in self.left_out.items()}))
        return _HEAD + toml.dump(content, comments) + self._proposed()

    def _proposed(self) -> str:
        rules = (toml.dump({"constraint": [{"not": rule}]}) for rule in self.constraints)
        lines = [f"# {line}" for rule in rules for line in rule.splitlines() if line]
        return "\n".join(["", _PROPOSED, *lines, ""]) if lines else ""

    def write(self, path: str | Path) -> None:
        """Write the marked TOML file."""
        toml.write(Path(path), self.to_toml())


@redact_cells
def draft_schema(
    data: Any,
    *,
    name: str | None = None,
    encoding: str | None = None,
    sheet: str | int | None = None,
    header_row: int | None = None,
    skip_rows: int = 0,
    max_levels: int = 60,
) -> Draft:
    """Propose a schema by LOOKING AT THE DATA. It is for the holder, who must check it against a codebook.

    The separator, the encoding and the formats of numbers and dates of a text file are found as well. Text columns with
    more than `max_levels` levels are left out. `sheet`, `header_row` and `skip_rows` say which cells of an .xlsx file
    are the table, as the keys of the same names in a schema.
    """
    types.whole("max_levels", max_levels, error=SchemaError, least=1)
    seen: dict[str, ObservedColumn] = {}
    encoding, separator = file_layout(data, encoding)
    place = SheetLayout(sheet, header_row, skip_rows)
    for frame in read_parts(data, encoding=encoding, separator=separator, sheet=place, for_holder=True):
        for series in frame:
            seen.setdefault(series.name, ObservedColumn(series.name)).look(series)
    ids = _ids(seen.values())
    person = (likeliest(ids.items()),) if ids else ()
    left_out = {id_: f"looks like an id of {plural(ids[id_], 'person')}" for id_ in ids if id_ not in person}
    used = [observed for name_seen, observed in seen.items() if name_seen not in ids]
    styles = styles_by_frequency(seen.values(), separator)
    for observed in used:
        observed.settle(styles)
    codes = codes_of_several(used)
    drafted = {observed.name: observed.odd or _column(observed, max_levels, codes) for observed in used}
    columns = [column for column in drafted.values() if isinstance(column, Column)]
    left_out |= {name_seen: why for name_seen, why in drafted.items() if isinstance(why, str)}
    if not columns:
        wrong = "no column can be used: a schema needs numbers, dates, booleans, or text with few levels"
        raise SchemaError(wrong, hint="pass data with at least one such column")
    frames = read_parts(data, encoding=encoding, separator=separator, sheet=place, for_holder=True)
    rules, copies, differences = look_at_rows(frames, columns, _not_ids(seen.values()))
    columns, constraints = _with_rules(columns, rules, seen)
    for later, earlier in differences:
        remark = f'hardly ever before {earlier}: declare the time between, difference = "{later} - {earlier}"?'
        seen[later].remarks.append(remark)
    if name is None:
        name = Path(data).name.split(".")[0] if isinstance(data, str | Path) else "table"
    schema = Schema(
        name,
        [replace(column, origin="data") for column in columns],
        person=person,
        ignore=tuple(left_out),
        separator=separator,
        encoding=encoding,
        sheet=sheet,
        header_row=header_row,
        skip_rows=skip_rows,
    )
    doubts = {column.name: found for column in columns if (found := seen[column.name].remarks)}
    return Draft(schema, left_out, doubts, _notes(copies, person), constraints)


def _ids(columns: Iterable[ObservedColumn]) -> dict[str, int]:
    """The columns that look like the id of persons with several rows, and the number of different ids."""
    found: dict[str, int] = {}
    for seen in columns:
        ids = {text: rows for text, rows in seen.times.items() if text not in USUAL_CODES}
        if not seen.odd and looks_like_id(seen.name, ids, sum(ids.values())):
            found[seen.name] = len(ids)
    return found


def _not_ids(columns: Iterable[ObservedColumn]) -> list[str]:
    """The columns in which a copy of a row is equal to it, those with the most different values first.

    A number that differs in every row is no such column: the second entry of a row has its own number.
    """
    compared = [seen for seen in columns if not seen.odd and not (numbers_of(seen.texts) and _all_differ(seen))]
    return [seen.name for seen in sorted(compared, key=lambda seen: -len(seen.texts))]


def _all_differ(seen: ObservedColumn) -> bool:
    return len(seen.texts) == seen.rows


def _notes(copies: int, person: Sequence[str]) -> list[str]:
    if not copies:
        return []
    several = (
        "remove them, or they count twice for their person"
        if person
        else ("remove them; if a person can have several rows, declare person and rows_per_person")
    )
    return [f"{plural(copies, 'row is a copy', 'rows are copies')} of another row: {several}"]


def _column(seen: ObservedColumn, max_levels: int, shared_codes: set[str]) -> Column | str:
    """A column for what was seen, with its remarks, or why it is left out."""
    if not seen.name:
        return "it has no name, such as the number of the row"
    codes, texts = split_gaps(seen, shared_codes)
    may_be_missing = seen.empty > 0 or not all(code.is_structural for code in codes)
    common: dict[str, Any] = {"may_be_missing": may_be_missing, "missing": tuple(codes)}
    if not texts:
        return "it holds no value at all"
    column = _column_of_values(seen, texts, common, max_levels)
    if isinstance(column, Column):
        if len(texts) == 1 and seen.rows > 1:
            seen.remarks.append("it has only one value: add the column to ignore, or write all values that it can have")
        if (gaps := 1 - seen.rows_with(texts) / max(1, seen.rows)) >= NEARLY_EMPTY:
            share = f"{int(10 * gaps) * 10} %"
            seen.remarks.append(
                f"{share} or more of its cells are empty: if there is no value behind them, write not-applicable"
            )
        if (odd := extreme_remark(texts, seen.times)) and not isinstance(column, Boolean):
            seen.remarks.append(odd)
    return column


def _column_of_values(
    seen: ObservedColumn, texts: set[str], common: Mapping[str, Any], max_levels: int
) -> Column | str:
    """A column for texts that are no gaps."""
    if {Boolean.spellings.get(text.lower()) for text in texts} == {False, True} and not texts <= {"0", "1"}:
        spelling = sorted(texts, key=lambda text: Boolean.spellings[text.lower()])
        is_usual = len(texts) > 2 or spelling == ["false", "true"]
        return Boolean(seen.name, spelling=None if is_usual else spelling, **common)
    numbers = numbers_of(texts)
    if numbers is not None and not are_days(texts):
        if why := id_of_rows(seen.name, numbers, seen.rows_with(texts)):
            return why
        if remark := id_remark(seen.name, numbers, [seen.times[text] for text in texts]):
            seen.remarks.append(remark)
        return numeric_column(seen, numbers, texts, common)
    moments, forms = moments_of(texts)
    if len(moments) > 1:
        if len(forms) > 1:
            seen.remarks.append(f"{listing(forms[1:])} would fit as well")
        return calendar_column(seen.name, moments, {**common, "format": forms[0] if forms else None})
    if len(texts) > max_levels:
        return f"text with more than {plural(max_levels, 'level')}, such as names or identifiers"
    seen.remarks += level_remarks(texts)
    return Categorical(seen.name, sorted(texts), **common)


def _with_rules(
    columns: Sequence[Column], rules: Iterable[EmptyRule], seen: Mapping[str, ObservedColumn]
) -> tuple[list[Column], list[str]]:
    """The columns with *not applicable* where a rule decides exactly, and the constraints that follow."""
    changed = {column.name: column for column in columns}
    constraints = []
    for rule in rules:
        column, observed = changed[rule.column], seen[rule.column]
        codes = [code.code for code in column.missing_codes]
        codes += [""] if observed.empty and "" not in codes else []
        is_proposed = rule.is_exact and all(code.kind == "unknown" for code in column.missing)
        if is_proposed:
            structural = tuple(MissingCode(code, "not-applicable") for code in codes)
            changed[rule.column] = replace(column, may_be_missing=False, missing=structural, outside=None)
            constraints += constraints_of(rule, column, changed[rule.decider])
        observed.remarks[:] = [remark for remark in observed.remarks if "cells are empty" not in remark]
        observed.remarks.append(empty_remark(rule, is_proposed=is_proposed))
    return [*changed.values()], constraints
