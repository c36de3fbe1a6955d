"""Questions from text, as the command line takes them: ``mean(income) where age >= 20 by sex``."""

from __future__ import annotations

from gapless.errors import QuestionError
from gapless.query.condition import Reader
from gapless.query.questions import AnyQuestion, Count, Mean, Proportion, Sum, Variance
from gapless.query.treatments import Drop, Missing

KINDS = ("count", "proportion", "sum", "mean", "variance")
OF_NUMBERS: dict[str, type[Sum | Mean | Variance]] = {"sum": Sum, "mean": Mean, "variance": Variance}
GRAMMAR = "count(), proportion(CONDITION), sum(COLUMN), mean(COLUMN), variance(COLUMN); then where CONDITION, by COLUMN"


def parse_question(text: str, missing: Missing | None = None) -> AnyQuestion:
    """A question from its text.

    >>> parse_question("mean(income, 0, 1000) where age >= 20 by sex")
    Mean(where='age >= 20', by='sex', missing=Drop(), column='income', bounds=(0.0, 1000.0))
    """
    reader = Reader(text, GRAMMAR)
    kind = reader.next.says.lower()
    if reader.next.kind != "word" or kind not in KINDS:
        called = text.strip().lower().removeprefix(kind).lstrip().startswith("(")  # as median(age), not in a sentence
        none = f"there is no {kind}; the questions are " if called else ""
        raise reader.wrong("expected a question", hint=none + GRAMMAR)
    reader.take()
    reader.expect("(")
    of = column = ""
    bounds = None
    if kind == "proportion":
        reader.takes("where")
        of = _condition(reader)
    elif kind != "count":
        column = reader.column()
        bounds = _bounds(reader) if reader.takes(",") else None
    reader.expect(")")
    where = _condition(reader) if reader.takes("where") else ""
    by = reader.column() if reader.takes("by") else None
    if by is not None and reader.next.means("where"):
        raise reader.wrong("where comes before by", hint=f"{text[: reader.text.lower().rfind(' by ')]} where … by {by}")
    if reader.next.kind != "end":
        raise reader.wrong("expected where, by or the end", hint=GRAMMAR)
    missing = missing or Drop()
    if kind == "count":
        return Count(where=where, by=by, missing=missing)
    if kind == "proportion":
        return Proportion(of, where=where, by=by, missing=missing)
    return OF_NUMBERS[kind](column, bounds=bounds, where=where, by=by, missing=missing)


def _condition(reader: Reader) -> str:
    """The text of the condition that stands here."""
    start = reader.next.at
    reader.condition()
    return reader.text[start : reader.next.at].strip()


def _bounds(reader: Reader) -> tuple[float, float]:
    low = reader.value()
    reader.expect(",")
    high = reader.value()
    try:
        return float(low), float(high)
    except ValueError:
        raise QuestionError(f"the bounds {low!r}, {high!r} are not numbers", hint="mean(income, 0, 100000)") from None
