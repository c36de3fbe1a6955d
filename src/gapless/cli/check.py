"""What `gapless check` prints: how a file fits its schema, for the holder's eyes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.cli.terminal import console, notes

if TYPE_CHECKING:
    from gapless.missing import Check
    from gapless.missing.check import ColumnCheck
    from gapless.schema import Schema


def print_check(result: Check, schema: Schema) -> None:
    """Print what a check found."""
    from gapless.missing.check import HIDDEN_VALUES_HINT
    from gapless.text import aligned, plural

    console.print(f"FOR THE HOLDER'S EYES, not for release. {plural(result.rows, 'row')}.")
    if result.rows == 0:
        console.print("The table has a header but no rows.")
    head, *names = aligned(["column", *(column.name for column in result.columns)])
    console.print(f"\n  {head}  {'kind':<12} {'missing':>8}  outside the schema")
    for name, column in zip(names, result.columns, strict=True):
        share = f"{100 * column.gaps / result.rows:.1f}%" if result.rows else "-"
        console.print(f"  {name}  {column.kind:<12} {share:>8}  {_out_of_schema(column)}".rstrip())
    if invalid := sum(column.invalid for column in result.columns):
        console.print(f"\n  missing includes {plural(invalid, 'invalid cell')}: not empty, but no value of the schema")
    console.print("\nGaps that occur together (■ observed, · missing):\n")
    console.print(result.patterns.picture())
    if result.persons is not None:
        console.print(f"\n{result.persons}")
        varying = result.persons.varying if result.persons.persons < result.rows else {}
        if any(varying.get(column.name) == 0 and not column.per_person for column in schema.file_columns):
            console.print("  Try: write per_person = true for those that cannot change, such as a year of birth")
    if result.broken:
        console.print("\nConstraints that rows break (a release satisfies them all the same, unless they are soft):\n")
        for broken in result.broken:
            pairs = "" if broken.pairs is None else f", {broken.pairs:.2%} of pairs"
            console.print(f"  {plural(broken.rows, 'row'):>14}{pairs}  {broken.rule}")
    if hidden := [column.hidden for column in result.columns if column.hidden]:
        console.print("\nBins that hide what is in them:\n")
        for sentence in hidden:
            console.print(f"  {sentence}")
        console.print(f"  Try: {HIDDEN_VALUES_HINT}")
    _print_remarks(result)
    _print_warnings(result, schema)


def _print_remarks(result: Check) -> None:
    """Print how the file differs from what the schema leads one to expect."""
    if result.remarks:
        console.print("\nLook at these columns:\n")
    for remark in result.remarks:
        console.print(f"  {remark}")


def _print_warnings(result: Check, schema: Schema) -> None:
    """Print what would stop a release, or make its promise wrong."""
    from gapless.schema.schema import CONFIRM_HINT
    from gapless.schema.toml import quoted
    from gapless.text import listing, plural

    if result.refused:
        notes.print(
            f"\nReading this file for a release will be refused because of: {', '.join(result.refused)}\n"
            "  Try: correct the cells, or change the schema's rules for these columns"
        )
    varying = {} if result.persons is None else result.persons.varying
    for column in schema.file_columns:
        if column.per_person and varying.get(column.name):
            notes.print(
                f"\n{column.name} has per_person = true, but several values in the rows of "
                f"{plural(varying[column.name], 'person')}: the first kept row decides.\n"
                "  Try: correct these rows, or remove per_person = true"
            )
    for code, rows in ({} if result.persons is None else result.persons.codes).items():
        notes.print(
            f"\nThe id is {code!r} in {plural(rows, 'row')}, which looks like a code for a gap. All these rows count "
            "as those of one person, so most of them are left out, and the people behind them are protected less.\n"
            "  Try: write an empty cell in place of this code"
        )
    for name, persons in result.possible_ids:
        notes.print(
            f"\nThe schema promises one row per person, but {name} looks like an id of {plural(persons, 'person')}.\n"
            f"  Try: write person = {quoted(name)} and rows_per_person = 3 below [table], and remove the column {name}"
        )
    if schema.person and schema.rows_per_person is None:
        notes.print(
            "\nThe schema does not say how many rows of each person to keep, so any release under it will be refused.\n"
            "  Try: write rows_per_person = 3, or another number, below person"
        )
    if result.unconfirmed:
        notes.print(
            "\nAny release under this schema will be refused. Facts that were read from the data or proposed are not "
            f"confirmed for {listing(result.unconfirmed)}\n  Try: {CONFIRM_HINT}"
        )


def _out_of_schema(column: ColumnCheck) -> str:
    """Describe the cells of a column outside the schema: how many, what becomes of them, examples, advice."""
    lost = "refused" if column.refused else "gap"
    problems = [
        (column.empty, "empty, but may_be_missing is not true → refused"),
        (column.unreadable, f"not a value of the schema → {lost}"),
        (column.outside - column.unreadable, f"outside the bounds → {column.rule}"),
    ]
    summary = "; ".join(f"{count} {what}" for count, what in problems if count)
    examples = ", ".join(repr(cell if len(cell) <= 30 else cell[:29] + "…") for cell in column.examples)
    return summary + (f": {examples}" if examples else "") + (f" ({column.advice})" if column.advice else "")
