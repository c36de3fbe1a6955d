"""Two small tables with gaps that tests of questions ask, and how they ask without noise."""

from pathlib import Path

import gapless as gl
from gapless.query import Answer, parse_question
from gapless.query.parsing import AnyQuestion
from gapless.testing.audit import private
from gapless.testing.noise import no_noise

CODES = (gl.MissingCode(""), gl.MissingCode("-1", "not-applicable"))
SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins=10),
        gl.Integer("children", bounds=(0, 4), may_be_missing=True, missing=CODES),
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Number("income", bounds=(-100, 100), bins=4, resolution=1, may_be_missing=True),
        gl.Boolean("smoker"),
        gl.Ordinal("grade", [1, 2, 5]),
        gl.Date("born", bounds=("1950-01-01", "1959-12-31"), resolution="year"),
    ],
    ignore=["notes"],
)
ROWS = [
    ("15", "0", "F", "-90", "true", "1", "1950-02-03"),
    ("15", "1", "M", "10", "false", "2", "1951-02-03"),
    ("25", "4", "M", "60", "true", "5", "1952-02-03"),
    ("25", "", "F", "60", "true", "5", "1953-02-03"),
    ("35", "-1", "", "", "false", "1", "1953-02-03"),
    ("35", "2", "", "10", "false", "1", "1953-02-03"),
]


def ask(table: gl.PrivateTable, question: str | AnyQuestion) -> Answer:
    """Answer a question, or its text, with a hundredth of the budget."""
    if isinstance(question, str):
        question = parse_question(question)
    with no_noise():
        return table.ask(question, spend=table.ledger.share("1%"))


PAIRS = gl.Schema(
    "pairs",
    [
        gl.Integer("place", bounds=(0, 9)),
        gl.Integer("x", bounds=(0, 4), may_be_missing=True),
        gl.Boolean("g", may_be_missing=True),
    ],
)
NEAR = [("0", "1", "true"), ("1", "", "true"), ("9", "4", "false"), ("8", "", "false"), ("7", "", "false")]


KNN = gl.Knn(on=["place"])


def near(folder: Path, question: AnyQuestion) -> tuple[gl.PrivateTable, Answer]:
    """The table of pairs, and its answer to a question."""
    table = private(NEAR, PAIRS, folder, budget=gl.Budget(40.0, 0))
    with no_noise():
        return table, table.ask(question, spend=table.ledger.share("50%"))
