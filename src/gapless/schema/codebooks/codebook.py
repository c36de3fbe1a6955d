"""A schema from a codebook, and a list of what the codebook does not say.

A column has `origin = "codebook"` if all its facts come from the codebook. If one of them is a proposal, the column has
`origin = "proposed"`, and nothing is released under the schema before `gapless schema confirm`. Where nothing public
suggests bounds, the column gets the widest possible bounds, which `confirm` refuses.
"""

from __future__ import annotations

import datetime as dt
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gapless.errors import SchemaError
from gapless.schema import toml
from gapless.schema.calendar import CalendarColumn, Date, DateTime
from gapless.schema.codebooks.entries import Contents, Entry, as_number, error, gaps_by_label, number_of, short
from gapless.schema.codebooks.proposals import looks_ordered, propose_bounds
from gapless.schema.columns import MOST_LEVELS, Boolean, Categorical, Column, Ordinal
from gapless.schema.columns_toml import MOST_NAMES, name_runs, run_of, write_columns
from gapless.schema.gap_codes import MissingCode, MissingRange, as_text
from gapless.schema.gap_words import gap_kind, is_gap
from gapless.schema.id_names import has_name_of_id, has_word_for_person
from gapless.schema.numeric import LARGEST, LARGEST_WHOLE, LEARNED, BinnedColumn, Integer, Number, NumericColumn
from gapless.schema.schema import Schema
from gapless.text import plural, shortened, visible

MOST_SINGLE_BINS = 20  # whole numbers with so few values get a bin for each
MOST_CODES = MOST_LEVELS + 1_000  # of values and gaps
MOST_UNLABELLED = 100  # whole numbers between codes of answers
MOST_RANGES = 100  # of missing numbers
LARGEST_RANGE = 100  # whole numbers of a missing range that are written as single codes among levels
UNKNOWN_NUMBERS, UNKNOWN_WHOLE = (-LARGEST, LARGEST), (-LARGEST_WHOLE, LARGEST_WHOLE)
QUESTIONS_BELOW = "# Look at each of these, then run `gapless schema confirm` on this file:"
UNKNOWN_DATES = ("0001-01-01", "9999-12-31")
_AS_LEVELS = 'write kind = "categorical" and levels in place of bounds and bins'
_AS_INTEGER = 'write kind = "integer" and bounds'
NO_BOUNDS = "bounds are not known: write the lowest and the highest possible value"


@dataclass(frozen=True, slots=True)
class Question:
    """Something that a codebook does not say about a column, or that the holder should look at.

    Attributes:
        column: the name of the column; empty for the table.
        text: the question.
        key: the key in the schema file that the question is about.
    """

    column: str
    text: str
    key: str = "kind"


@dataclass(frozen=True)
class Codebook:
    """A schema from a codebook, and what the codebook does not say."""

    schema: Schema
    questions: tuple[Question, ...]
    source: str

    @property
    def asked(self) -> tuple[str, ...]:
        """The list of questions. Columns with the same question share a line."""
        by_text: dict[str, list[str]] = {}
        for question in self.questions:
            by_text.setdefault(question.text, []).append(question.column)
        return tuple(visible(f"{name_runs(names) or 'the table'}: {text}") for text, names in by_text.items())

    def to_toml(self) -> str:
        """The schema as TOML, with each question as a comment."""
        content = self.schema.to_dict()
        content["column"] = write_columns(content["column"])
        comments: dict[tuple[str, str, str], str] = {}
        left_out = set(self.schema.ignore)
        ignored = [question for question in self.questions if question.column in left_out]
        asked: dict[str, list[Question]] = {}
        for question in self.questions:
            asked.setdefault(question.column, []).append(question)
        for name, keys in content["column"].items():
            members = [name] if keys.get("literal") else run_of(name) or [name]
            for question in dict.fromkeys(found for member in members for found in asked.get(member, ())):
                line = ("column", name, question.key if question.key in keys else "kind")
                texts = comments.get(line, "").split("; ") if line in comments else []
                comments[line] = "; ".join(dict.fromkeys([*texts, question.text]))
        if ignored:
            shown = [f"{question.column}: {question.text}" for question in ignored[:MOST_NAMES]]
            rest = [f"and {len(ignored) - MOST_NAMES} more"] if len(ignored) > MOST_NAMES else []
            comments["table", "", "ignore"] = "; ".join([*shown, *rest])
        head = [f"# From the codebook {visible(self.source)}."]
        if self.asked:
            head += [QUESTIONS_BELOW]
            head += [f"# - {line}" for line in self.asked]
        return "\n".join([*head, "", toml.dump(content, comments)])

    def write(self, path: str | Path) -> None:
        """Write the commented TOML file."""
        toml.write(Path(path), self.to_toml())


def build(contents: Contents, source: str) -> Codebook:
    """The schema and the questions of what was read from a codebook."""
    questions: list[Question] = []
    columns: list[Column] = []
    ignore: list[str] = []
    _check_names(contents.entries)
    person = contents.person or _person(contents.entries)
    for entry in contents.entries:
        if entry.name == person:
            questions.append(
                Question(
                    "",
                    f"{person} is taken for the id of persons: add rows_per_person, the number of rows to keep of each",
                )
            )
            continue
        made = _column(entry)
        questions += made.questions
        if made.column is None:
            ignore.append(entry.name)
        else:
            columns.append(made.column)
    if not columns:
        wrong = "describes no column that can be used: a schema needs numbers, dates, booleans, or codes with labels"
        raise error(f"the codebook {source}", wrong, "add the codes or the types of columns to the codebook")
    known = {column.name for column in columns}
    known_names = {*known, *ignore, person}
    ignore += [name for name in dict.fromkeys(contents.ignore) if name not in known_names]
    questions += _general_questions(columns)
    rules = tuple(rule for rule, named in contents.constraints if named <= known)
    schema = Schema(
        contents.name,
        columns,
        description=contents.description,
        person=(person,) if person else (),
        ignore=tuple(ignore),
        constraints=rules,
        **dict(contents.table_keys),
    )
    return Codebook(schema, tuple(questions), source)


@dataclass(frozen=True)
class _Made:
    """A column, or None for one that is left out, and questions about it."""

    column: Column | None
    questions: tuple[Question, ...]


def _general_questions(columns: Iterable[Column]) -> Iterator[Question]:
    """What no codebook says of any column: which bins, and where cells may be empty."""
    if learned := sum(isinstance(column, BinnedColumn) and column.has_learned_bins for column in columns):
        text = (
            f'bins = "learned" for {plural(learned, "column")}: they cost a part of the budget, unless you write edges'
        )
        yield Question("", text)
    if sum(column.may_be_missing for column in columns):
        yield Question("", "may_be_missing = true allows empty cells: remove it from columns that cannot have any")


def _check_names(entries: Iterable[Entry]) -> None:
    """Refuse columns without a name, or with the same name."""
    first: dict[str, str] = {}
    for entry in entries:
        if not entry.name.strip():
            raise error(entry.where, "has a column without a name", "give the column a name")
        if entry.name in first:
            wrong = f"declares the column {shortened(entry.name, 60)!r}, which {first[entry.name]} declares as well"
            raise error(entry.where, wrong, "rename or remove one of the two columns")
        first[entry.name] = entry.where


def _person(entries: Iterable[Entry]) -> str:
    """The name of the column that looks like the id of a person; empty if there is none."""
    ids = [entry.name for entry in entries if _is_id(entry) and has_word_for_person(entry.name)]
    return ids[0] if ids else ""


def _is_id(entry: Entry) -> bool:
    has_facts = bool(entry.codes) or entry.bounds != (None, None) or entry.type in ("date", "datetime", "boolean")
    return entry.is_id or (not has_facts and not entry.left_out and has_name_of_id(entry.name))


def _column(entry: Entry) -> _Made:
    """The column of an entry."""
    remarks = [Question(entry.name, text) for text in entry.remarks]

    def leave_out(why: str) -> _Made:
        return _Made(None, (Question(entry.name, f"left out (in ignore): {why}", "ignore"), *remarks))

    if entry.left_out:
        return leave_out(entry.left_out)
    if _is_id(entry):
        return leave_out("it looks like an identifier")
    try:
        return _with_remarks(_typed(entry), remarks) or leave_out("text without a list of its values")
    except SchemaError as refused:
        raise SchemaError(f"{entry.where}: {refused.message}", hint=refused.hint) from None
    except _LeaveOutError as reason:
        return leave_out(str(reason))


class _LeaveOutError(Exception):
    """A column cannot be used."""


def _with_remarks(made: _Made | None, remarks: list[Question]) -> _Made | None:
    return made and replace(made, questions=(*made.questions, *remarks))


def _typed(entry: Entry) -> _Made | None:
    """The column by its type and its codes; None for text without levels."""
    if len(entry.codes) > MOST_CODES:
        raise _LeaveOutError(_too_many(len(entry.codes)))
    if sum(isinstance(gap, MissingRange) for gap in entry.missing) > MOST_RANGES:
        raise _LeaveOutError(f"it has more than {MOST_RANGES} ranges of missing numbers")
    levels, missing, questions = _split_codes(entry)
    common: dict[str, Any] = {
        "may_be_missing": not entry.is_required or not all(gap.is_structural for gap in missing),
        "missing": missing,
        "description": short(entry.label),
        "origin": "codebook",
    }
    if any(isinstance(gap, MissingCode) and gap.code == "" and gap.is_structural for gap in missing):
        common["may_be_missing"] = not all(gap.is_structural for gap in missing)
    more = dict(entry.more)
    if entry.type in ("boolean", "date", "datetime"):
        common["missing"] = _single_codes(missing, set())
    if entry.type == "boolean":
        labels = {_truth(code, entry): label for code, label in levels if label}
        column: Column = Boolean(entry.name, spelling=entry.spelling, labels=labels, **common, **more)
        return _Made(column, questions)
    if entry.type in ("date", "datetime"):
        return _calendar(entry, common | more, questions)
    is_text = entry.type == "text" or any(number_of(code) is None for code, _ in levels)
    if levels and (is_text or not _are_ends(entry, levels)):
        return _levels(entry, levels, common | more, is_text=is_text, questions=questions)
    if is_text:
        return None
    return _numeric(entry, levels, common | more, questions)


def _truth(code: str, entry: Entry) -> bool:
    text = code.lower()
    if entry.spelling and text in (word.lower() for word in entry.spelling):
        return text == entry.spelling[1].lower()
    return Boolean.spellings.get(text, False)


def _split_codes(
    entry: Entry,
) -> tuple[list[tuple[str, str]], tuple[MissingCode | MissingRange, ...], tuple[Question, ...]]:
    """The codes of values, those of gaps, and questions.

    A code is a gap if the codebook declares it so, or if its label can mean nothing else.
    """
    declared = {gap.code: gap for gap in entry.missing if isinstance(gap, MissingCode)}
    ranges = [gap for gap in entry.missing if isinstance(gap, MissingRange)]
    levels: list[tuple[str, str]] = []
    gaps: dict[str, MissingCode | MissingRange] = {}
    by_label: list[tuple[str, str]] = []
    for code, label in entry.codes:
        number = number_of(code)
        within = next((gap for gap in ranges if number is not None and gap.least <= number <= gap.most), None)
        if code in declared or within is not None:
            given = declared.get(code)
            kind = given.kind if given is not None and given.kind != "unknown" else gap_kind(label)
            kind = kind or (within.kind if within is not None and given is None else "unknown")
            gaps[code] = MissingCode(code, kind, short(label))
        elif is_gap(code, label) and _can_be_gap(entry, code):
            gaps[code] = MissingCode(code, gap_kind(label) or "unknown", short(label))
            by_label.append((code, label))
        else:
            levels.append((code, label))
    gaps |= {code: _with_kind(gap) for code, gap in declared.items() if code not in gaps}
    questions: tuple[Question, ...] = ()
    if by_label:
        questions = (Question(entry.name, gaps_by_label(by_label), "missing"),)
    return levels, (*gaps.values(), *map(_with_kind, ranges)), questions


def _with_kind(gap: Any) -> Any:
    """A declared gap with the kind that its label means, if the codebook gives none."""
    kind = gap_kind(gap.label) if gap.kind == "unknown" and gap.label else None
    return replace(gap, kind=kind) if kind else gap


def _can_be_gap(entry: Entry, code: str) -> bool:
    """Whether a code may be a gap without being declared as one: booleans have two values."""
    return entry.type != "boolean" and bool(code)


def _are_ends(entry: Entry, levels: list[tuple[str, str]]) -> bool:
    """Whether the labels name only some values of a number, such as the ends of a scale from 0 to 10."""
    if entry.is_closed or entry.measure in ("nominal", "ordinal"):
        return False
    numbers = sorted(number for code, _ in levels if (number := number_of(code)) is not None)
    if entry.bounds != (None, None):
        low, high = (number_of(bound) for bound in entry.bounds)
        if (low is not None and low < numbers[0]) or (high is not None and high > numbers[-1]):
            return True
    if len(numbers) == 1:
        return entry.measure == "scale" or numbers[0] == 0
    gaps = _unlabelled(numbers)
    # Answers are numbered one by one, with a rest such as 97 for others; the ends of a scale are apart.
    if entry.measure == "scale" and not any(after - before == 1 for before, after in itertools.pairwise(numbers)):
        return gaps > 0
    few = len(numbers) <= 3 and gaps >= 3 and not _are_yes_and_no(levels)
    return few or (entry.measure == "scale" and gaps > max(len(numbers), MOST_UNLABELLED))


def _unlabelled(numbers: Sequence[float]) -> float:
    """How many whole numbers between the labelled ones have no label."""
    return max(numbers) - min(numbers) + 1 - len(numbers)


def _are_yes_and_no(levels: list[tuple[str, str]]) -> bool:
    first = {label.strip().lower().partition(" ")[0].strip(",.;") for _, label in levels}
    return bool(first & {"yes", "no", "ja", "nein", "oui", "non", "si", "sí", "male", "female", "true", "false"})


def _levels(
    entry: Entry,
    levels: list[tuple[str, str]],
    common: dict[str, Any],
    *,
    is_text: bool,
    questions: tuple[Question, ...],
) -> _Made:
    if len(levels) > MOST_LEVELS:
        raise _LeaveOutError(_too_many(len(levels)))
    values: list[Any] = [code if is_text else as_number(float(code)) for code, _ in levels]
    if not is_text and [as_text(value) for value in values] != [code for code, _ in levels]:
        values = [code for code, _ in levels]  # such as 01
    labels = {as_text(value): short(label) for value, (_, label) in zip(values, levels, strict=True) if label}
    labels = {level: label for level, label in labels.items() if label != level}
    gaps = _single_codes(common["missing"], {as_text(value) for value in values})
    ordered = entry.measure == "ordinal"
    if entry.measure == "scale" and not is_text and _unlabelled([float(code) for code, _ in levels]) > 0:
        common = common | {"origin": "proposed"}
        text = f"some numbers have no label: taken for codes of answers; if it counts or measures, {_AS_INTEGER}"
        questions = (*questions, Question(entry.name, text, "kind"))
    # SPSS calls every number a scale unless somebody changed that.
    if entry.measure in ("", "scale") and looks_ordered([label for _, label in levels]):
        ordered, common = True, common | {"origin": "proposed"}
        questions = (*questions, Question(entry.name, "answers look ordered: ordinal is proposed", "kind"))
    kind = Ordinal if ordered else Categorical
    column = kind(entry.name, values, labels=labels, **common | {"missing": gaps})
    return _Made(column, questions)


def _single_codes(gaps: Iterable[MissingCode | MissingRange], levels: set[str]) -> tuple[MissingCode, ...]:
    """Missing codes for a column that has no ranges: the whole numbers of a short range, as single codes."""
    codes = {gap.code: gap for gap in gaps if isinstance(gap, MissingCode)}
    for gap in gaps:
        if isinstance(gap, MissingRange) and gap.most - gap.least <= LARGEST_RANGE:
            for number in range(math.ceil(gap.least), math.floor(gap.most) + 1):
                if str(number) not in levels:
                    codes.setdefault(str(number), MissingCode(str(number), gap.kind, gap.label))
    return tuple(codes.values())


def _too_many(levels: int) -> str:
    return f"it has {plural(levels, 'level')}, more than {MOST_LEVELS:,}: merge levels to use it"


def _numeric(
    entry: Entry, ends: list[tuple[str, str]], common: dict[str, Any], questions: tuple[Question, ...]
) -> _Made:
    """A column of numbers. `ends` are codes with labels that are only some of its values."""
    stated = [number_of(bound) for bound in entry.bounds]
    if None not in stated and stated[0] > stated[1]:  # type: ignore[operator] # numbers
        raise error(
            entry.where, f"gives {entry.name!r} a lowest value, {stated[0]:g}, above the highest, {stated[1]:g}"
        )
    whole = entry.type == "integer"
    bounds: tuple[Any, Any] = (stated[0], stated[1])
    reason = "" if None in bounds else "without its missing codes"
    if bounds == (None, None) and len(ends) > 1:
        labelled = sorted(float(code) for code, _ in ends)
        bounds, reason = (labelled[0], labelled[-1]), "only some values have labels"
        whole = whole or all(number == int(number) for number in labelled)
    elif None in bounds:
        bounds, reason = _guessed(entry, bounds, whole=whole)
    bounds, moved = _fit_bounds(bounds, common["missing"], entry)
    origin, asked = "codebook", list(questions)
    if None in stated or moved:
        origin = "proposed"
        if not reason and not _is_unknown(bounds, whole=whole):
            reason = "between its missing codes; if values lie beyond a code, remove the code and widen them"
        text = f"bounds {_shown(bounds)} are proposed: {reason}" if reason else _no_bounds(entry)
        asked.append(Question(entry.name, text, "bounds"))
    low, high = map(as_number, bounds)
    if low == high:
        common["missing"] = _single_codes(common["missing"], {as_text(low)})
        return _Made(Categorical(entry.name, [low], **common | {"origin": origin}), tuple(asked))
    whole = whole and isinstance(low, int) and isinstance(high, int)
    single = whole and high - low < MOST_SINGLE_BINS
    keys = common | {"bounds": (low, high), "bins": int(high - low + 1) if single else LEARNED, "origin": origin}
    if whole:
        return _Made(Integer(entry.name, **keys), tuple(asked))
    if entry.resolution is not None and entry.resolution < 1 and bounds != UNKNOWN_NUMBERS:
        steps = [bound / entry.resolution for bound in (low, high)]
        if all(abs(step - round(step)) < 1e-6 for step in steps):
            keys["resolution"] = entry.resolution
    return _Made(Number(entry.name, **keys), tuple(asked))


def _guessed(entry: Entry, stated: tuple[Any, Any], *, whole: bool) -> tuple[tuple[Any, Any], str]:
    """Bounds by public reasoning, and the reason; the widest there are, and no reason, if nothing speaks for any."""
    proposal = propose_bounds(entry.name, entry.label, entry.digits)
    if proposal is not None:
        low, high = (given if given is not None else end for given, end in zip(stated, proposal.bounds, strict=True))
        if low < high:
            return (low, high), proposal.reason
    widest = _widest(whole=whole)
    low, high = (given if given is not None else end for given, end in zip(stated, widest, strict=True))
    return (low, high), ""


def _widest(*, whole: bool) -> tuple[float, float]:
    return UNKNOWN_WHOLE if whole else UNKNOWN_NUMBERS


def _is_unknown(bounds: Iterable[float], *, whole: bool) -> bool:
    return any(bound in _widest(whole=whole) for bound in bounds)


def _no_bounds(entry: Entry) -> str:
    """What is asked of a number without bounds; of one without a known measure, whether it is one."""
    return NO_BOUNDS if entry.measure == "scale" else f"{NO_BOUNDS}; if its numbers are codes, {_AS_LEVELS}"


def _shown(bounds: tuple[float, float]) -> str:
    return f"[{as_number(bounds[0])}, {as_number(bounds[1])}]"


def _fit_bounds(
    bounds: tuple[float, float], missing: Iterable[MissingCode | MissingRange], entry: Entry
) -> tuple[tuple[float, float], bool]:
    """Bounds that contain no missing code: the nearer end is moved past it. And whether they were moved."""
    low, high = bounds
    step = entry.resolution or 1.0
    spans = [(gap.least, gap.most) for gap in missing if isinstance(gap, MissingRange)]
    numbers = (number_of(gap.code) for gap in missing if isinstance(gap, MissingCode))
    spans += [(number, number) for number in numbers if number is not None]
    for least, most in sorted(spans, key=lambda span: -span[0]):
        if not (least <= high and low <= most):
            continue
        if (least <= 0 and most < high) or high - least > most - low:
            low = float(most) + step
        else:
            high = float(least) - step
    if low > high:
        raise error(entry.where, f"has missing codes of {entry.name!r} that cover all values within its bounds")
    return (low, high), (low, high) != bounds


def _calendar(entry: Entry, common: dict[str, Any], questions: tuple[Question, ...]) -> _Made:
    kind: type[CalendarColumn] = Date if entry.type == "date" else DateTime
    stated = [_iso(bound, entry) for bound in entry.bounds]
    asked = list(questions)
    if None in stated:
        asked.append(Question(entry.name, NO_BOUNDS, "bounds"))
        common = common | {"origin": "proposed"}
    low, high = (given or end for given, end in zip(stated, UNKNOWN_DATES, strict=True))
    if low > high:
        raise error(entry.where, f"gives {entry.name!r} a first date, {low}, after the last, {high}")
    if entry.type == "datetime":
        common = {"resolution": "minute"} | common
    return _Made(kind(entry.name, bounds=(low, high), bins=LEARNED, format=entry.format, **common), tuple(asked))


def _iso(bound: Any, entry: Entry) -> str | None:
    """A date of a codebook as ISO 8601; None if it is none, such as "today"."""
    if bound is None:
        return None
    text = str(bound).strip().replace("/", "-")
    try:
        if entry.type == "date":
            return dt.date.fromisoformat(text[:10]).isoformat()
        return dt.datetime.fromisoformat(text).replace(tzinfo=None).isoformat()
    except ValueError:
        return None


def needs_bounds(column: Column) -> bool:
    """Whether a bound of a column is still the widest possible one, because its codebook gives none."""
    if not isinstance(column, BinnedColumn) or column.origin != "proposed":
        return False
    if isinstance(column, CalendarColumn):
        return any(str(bound)[:10] in UNKNOWN_DATES for bound in column.bounds)
    return isinstance(column, NumericColumn) and _is_unknown(column.bounds, whole=isinstance(column, Integer))
