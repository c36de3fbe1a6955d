"""The text form of questions, as in ``mean(income) where age >= 20 by sex``."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from gapless.constraints.grammar import Parser, quote_name
from gapless.errors import QuestionError
from gapless.query.persons import RowsPerPerson
from gapless.query.questions import Count, Mean, Median, Proportion, Quantile, Sum, Variance
from gapless.query.relations import Correlation, CrossTable, RankCorrelation, Regression
from gapless.query.treatments import Drop, GapTreatment

AnyQuestion: TypeAlias = (
    Count | Proportion | Sum | Mean | Variance | Quantile | CrossTable | Correlation | Regression | RowsPerPerson
)

KINDS = (
    "count",
    "proportion",
    "sum",
    "mean",
    "variance",
    "median",
    "quantile",
    "table",
    "corr",
    "spearman",
    "ols",
    "logit",
    "rows_per_person",
)
NUMERIC_QUESTIONS: dict[str, type[Sum | Mean | Variance]] = {"sum": Sum, "mean": Mean, "variance": Variance}
RELATIONS: dict[str, type[CrossTable | Correlation]] = {
    "table": CrossTable,
    "corr": Correlation,
    "spearman": RankCorrelation,
}
EXAMPLES = {
    "quantile": "quantile(income, 0.9)",
    "table": "table(sex, smoker)",
    "corr": "corr(age, income)",
    "spearman": "spearman(age, income)",
    "ols": "ols(income ~ age + sex)",
    "logit": "logit(smoker ~ age + sex)",
}
GRAMMAR = (
    "write one of count(), proportion(CONDITION), sum(COLUMN), mean(COLUMN), variance(COLUMN), median(COLUMN), "
    "quantile(COLUMN, 0.9), table(COLUMN, COLUMN), corr(COLUMN, COLUMN), spearman(COLUMN, COLUMN), "
    "ols(COLUMN ~ COLUMN + COLUMN), logit(COLUMN ~ COLUMN + COLUMN), rows_per_person(20); "
    "then per person, where CONDITION, by COLUMN, COLUMN"
)


def parse_question(text: str, missing: GapTreatment | None = None) -> AnyQuestion:
    """Parse a question.

    >>> parse_question("mean(income, 0, 1000) where age >= 20 by sex")
    Mean(where='age >= 20', by='sex', missing=Drop(), column='income', bounds=(0.0, 1000.0))
    """
    if not isinstance(text, str):
        raise QuestionError(f"a question must be a text, got {text!r}", hint='pass a text, such as "mean(income)"')
    parser = Parser(text)
    kind = parser.current.text.lower()
    if parser.current.kind != "word" or kind not in KINDS:
        called = text.strip().lower().removeprefix(kind).lstrip().startswith("(")  # as mode(age), not in a sentence
        if called:
            raise QuestionError(f"cannot read {text!r}: there is no question {kind}()", hint=GRAMMAR)
        raise parser.error_here("expected a question", hint=GRAMMAR)
    parser.advance()
    parser.expect("(", hint=GRAMMAR)
    make = _head(parser, kind)
    parser.expect(")", hint=GRAMMAR)
    per_person = parser.accept("per")
    if per_person:
        parser.expect("person", hint=GRAMMAR)
    where = _condition(parser) if parser.accept("where") else ""
    begin = parser.current.position
    by = tuple(parser.separated(partial(_column, parser, "by age, sex"), ",")) if parser.accept("by") else None
    if by is not None and parser.current.matches("where"):
        place = parser.current.position
        ordered = " ".join(part.strip() for part in (text[:begin], text[place:], text[begin:place]))
        raise parser.error_here("'where' must come before 'by'", hint=f"write {ordered}")
    if parser.current.kind != "end":
        raise parser.error_here("expected 'per person', 'where', 'by' or the end of the question", hint=GRAMMAR)
    return make(where=where, by=by, missing=missing or Drop(), per_person=per_person)


def _head(parser: Parser, kind: str) -> Callable[..., AnyQuestion]:
    """Parse the question without `where` and `by`."""
    if kind in ("count", "proportion", "rows_per_person"):
        return _head_without_column(parser, kind)
    column = _column(parser, EXAMPLES.get(kind, f"{kind}(income)"))
    if kind in ("ols", "logit"):
        parser.expect("~", hint=f"write {EXAMPLES[kind]}")
        regressors = parser.separated(partial(_column, parser, EXAMPLES[kind]), "+")
        return partial(Regression, column, regressors, logistic=kind == "logit")
    if kind == "table" and not parser.current.matches(","):
        return partial(CrossTable, column)
    if kind in RELATIONS:
        parser.expect(",", hint=f"write {EXAMPLES[kind]}")
        return partial(RELATIONS[kind], column, _column(parser, EXAMPLES[kind]))
    if kind == "median":
        return partial(Median, column)
    if kind == "quantile":
        hint = f"write quantile({quote_name(column)}, 0.9)"
        parser.expect(",", hint=hint)
        return partial(Quantile, column, _number(parser, "the share of a quantile", hint))
    bounds = None
    if parser.accept(","):
        hint = f"write {kind}({quote_name(column)}, 0, 100)"
        low = _number(parser, "a bound", hint)
        parser.expect(",", hint=hint)
        bounds = low, _number(parser, "a bound", hint)
    return partial(NUMERIC_QUESTIONS[kind], column, bounds=bounds)


def _head_without_column(parser: Parser, kind: str) -> Callable[..., AnyQuestion]:
    if kind == "count":
        return Count
    if kind == "proportion":
        parser.accept("where")
        return partial(Proportion, _condition(parser))
    text = parser.value()
    if not text.isdecimal():
        wrong = f"the largest number of rows must be a whole number, got {text!r}"
        raise QuestionError(wrong, hint="write rows_per_person(20)")
    return partial(RowsPerPerson, int(text))


def _condition(parser: Parser) -> str:
    """The text of the condition: up to `by`, a parenthesis that it does not open, or the end."""
    start, depth = parser.current.position, 0
    while parser.current.kind != "end" and (depth > 0 or not parser.current.matches("by", ")")):
        depth += parser.current.matches("(") - parser.current.matches(")")
        parser.advance()
    if text := parser.text[start : parser.current.position].strip():
        return text
    raise parser.error_here("expected a condition")


def _column(parser: Parser, example: str) -> str:
    """The name of a column, or an error that shows an example."""
    try:
        return parser.column()
    except QuestionError as error:
        hint = f'name a column, as in {example}; put names with spaces in "double quotes"'
        raise QuestionError(error.message, hint=hint) from None


def _number(parser: Parser, what: str, hint: str) -> float:
    text = parser.value()
    try:
        return float(text)
    except ValueError:
        raise QuestionError(f"{what} must be a number, got {text!r}", hint=hint) from None
