"""Questions from text, as the command line takes them: ``mean(income) where age >= 20 by sex``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gapless.constraints.grammar import Reader, quoted
from gapless.errors import QuestionError
from gapless.query.questions import AnyQuestion, Count, Mean, Median, Proportion, Quantile, Sum, Variance
from gapless.query.treatments import Drop, Missing

KINDS = ("count", "proportion", "sum", "mean", "variance", "median", "quantile")
OF_NUMBERS: dict[str, type[Sum | Mean | Variance]] = {"sum": Sum, "mean": Mean, "variance": Variance}
GRAMMAR = (
    "count(), proportion(CONDITION), sum(COLUMN), mean(COLUMN), variance(COLUMN), median(COLUMN), "
    "quantile(COLUMN, 0.9); then where CONDITION, by COLUMN, COLUMN"
)


def parse_question(text: str, missing: Missing | None = None) -> AnyQuestion:
    """A question from its text.

    >>> parse_question("mean(income, 0, 1000) where age >= 20 by sex")
    Mean(where='age >= 20', by='sex', missing=Drop(), column='income', bounds=(0.0, 1000.0))
    """
    reader = Reader(text, GRAMMAR)
    kind = reader.next.says.lower()
    if reader.next.kind != "word" or kind not in KINDS:
        called = text.strip().lower().removeprefix(kind).lstrip().startswith("(")  # as mode(age), not in a sentence
        none = f"there is no {kind}; the questions are " if called else ""
        raise reader.wrong("expected a question", hint=none + GRAMMAR)
    reader.take()
    if not reader.takes("("):
        raise reader.wrong("expected '('", hint=GRAMMAR)
    make = _head(reader, kind)
    reader.expect(")", hint=GRAMMAR)
    where = _condition(reader) if reader.takes("where") else ""
    by = _columns(reader) if reader.takes("by") else None
    if by is not None and reader.next.means("where"):
        before = reader.text.lower().rfind(" by ")
        raise reader.wrong("where comes before by", hint=f"{text[:before]} where … by {', '.join(by)}")
    if reader.next.kind != "end":
        raise reader.wrong("expected where, by or the end", hint=GRAMMAR)
    return make(where=where, by=by, missing=missing or Drop())


def _head(reader: Reader, kind: str) -> Callable[..., AnyQuestion]:
    """The question, but for what all questions share."""
    if kind == "count":
        return Count
    if kind == "proportion":
        reader.takes("where")
        return partial(Proportion, _condition(reader))
    column = reader.column()
    if kind == "median":
        return partial(Median, column)
    if kind == "quantile":
        example = f"quantile({quoted(column)}, 0.9)"
        reader.expect(",", hint=example)
        return partial(Quantile, column, _number(reader, example))
    bounds = _bounds(reader, f"{kind}({quoted(column)}, 0, 100)") if reader.takes(",") else None
    return partial(OF_NUMBERS[kind], column, bounds=bounds)


def _condition(reader: Reader) -> str:
    """The text of the condition that stands here."""
    start = reader.next.at
    reader.condition()
    return reader.text[start : reader.next.at].strip()


def _columns(reader: Reader) -> tuple[str, ...]:
    names = [reader.column()]
    while reader.takes(","):
        names.append(reader.column())
    return tuple(names)


def _bounds(reader: Reader, example: str) -> tuple[float, float]:
    low = _number(reader, example)
    reader.expect(",", hint=example)
    return low, _number(reader, example)


def _number(reader: Reader, example: str) -> float:
    text = reader.value()
    try:
        return float(text)
    except ValueError:
        raise QuestionError(f"{text!r} is not a number", hint=example) from None
