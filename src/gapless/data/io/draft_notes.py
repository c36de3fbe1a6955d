"""Lines of a draft: eighty columns with the same remark get one line. And the constraints that it proposes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gapless.data.io.draft_rows import EmptyRule
from gapless.schema import toml
from gapless.schema.columns import Boolean, Column
from gapless.schema.gap_words import is_clearly_a_gap
from gapless.schema.numeric import BinnedColumn
from gapless.text import CONTROL, listing

LEAST_RUN = 3  # columns alike that are named by the first and the last
_SIGNS = {"==": "", "<": "below ", ">=": "at least "}
_UNNAMEABLE = re.compile(r"['\"\\]|\sand\s|" + CONTROL.pattern, re.IGNORECASE)  # in a rule
MOST_RULES = 4  # constraints that are proposed for one column


def alike(names: Iterable[str]) -> list[str]:
    """Names, those joined that differ only in following numbers.

    >>> alike(["age", "q01", "q02", "q03", "sex"])
    ['age', 'q01..q03', 'sex']
    """
    runs: list[list[str]] = []
    for name in names:
        if runs and _follows(runs[-1][-1], name):
            runs[-1].append(name)
        else:
            runs.append([name])
    return [name for run in runs for name in ([f"{run[0]}..{run[-1]}"] if len(run) >= LEAST_RUN else run)]


def _follows(name: str, following: str) -> bool:
    """Whether a name has the next number: q10 after q9, q10 after q09, but not q10 after q009."""
    first, second = (re.fullmatch(r"(.*?)([0-9]{1,9})", text, re.DOTALL) for text in (name, following))
    if not first or not second or first[1] != second[1] or int(second[2]) != int(first[2]) + 1:
        return False
    plainly = str(int(first[2])) == first[2] and str(int(second[2])) == second[2]
    return plainly or len(first[2]) == len(second[2])


def grouped(notes: Mapping[str, Sequence[str]]) -> list[str]:
    """One line for each different note, with the columns that have it.

    >>> grouped({"q1": ["constant"], "q2": ["constant"], "q3": ["constant"], "age": ["odd"]})
    ['q1..q3: constant', 'age: odd']
    """
    columns: dict[str, list[str]] = {}
    for name, texts in notes.items():
        for text in texts:
            columns.setdefault(text, []).append(name or "the first column")
    return [f"{listing(alike(names))}: {text}" for text, names in columns.items()]


def level_remarks(texts: Iterable[str]) -> Iterator[str]:
    """Remarks on answers that may be gaps, and on answers that may be the same.

    >>> list(level_remarks(["ja", "nein", "Nein"]))
    ['only capital letters differ: Nein, nein; if they mean the same, write one spelling into the data']
    """
    spelled: dict[str, list[str]] = {}
    for text in sorted(texts):
        spelled.setdefault(text.casefold(), []).append(text)
    if twins := [text for spellings in spelled.values() if len(spellings) > 1 for text in spellings]:
        yield f"only capital letters differ: {listing(twins)}; if they mean the same, write one spelling into the data"
    if gaps := [text for text in sorted(texts) if is_clearly_a_gap(text)]:
        yield f"drafted as answers, perhaps gaps: {listing(gaps)}; if so, move them from levels to missing"


def empty_remark(rule: EmptyRule, *, is_proposed: bool) -> str:
    """The remark on a column that is empty by a rule. It is proposed as not applicable if the rule is exact."""
    where = f"{rule.decider} is {_SIGNS[rule.sign]}{listing(rule.levels)}"
    if is_proposed:
        return f"empty exactly where {where}, so taken as not applicable"
    return (
        f"empty wherever {where}, and in some other rows: write a code such as -1 into the data where the column "
        'does not apply, and declare this code with kind = "not-applicable"'
    )


def constraints_of(rule: EmptyRule, column: Column, decider: Column) -> list[str]:
    """The constraints that forbid a value where a column is not applicable; none if a rule cannot name its level."""
    name, other = (
        f"t1.{found if found.isidentifier() else toml.quoted(found)}" for found in (rule.column, rule.decider)
    )
    if isinstance(column, BinnedColumn):
        values = [f"{name} >= {column.label(column.limits[0])}"]
    else:
        first = _value(column, column.value_cells[0])
        values = [f"{name} == {first}", f"{name} != {first}"]
    if any(map(_UNNAMEABLE.search, (rule.column, rule.decider, *rule.levels, column.value_cells[0]))):
        return []
    rules = [f"{other} {rule.sign} {_value(decider, level)} and {value}" for level in rule.levels for value in values]
    return rules if len(rules) <= MOST_RULES else []


def _value(column: Column, level: str) -> str:
    if isinstance(column, BinnedColumn | Boolean):
        return level
    return f"'{level}'"
