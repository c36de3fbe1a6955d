"""One of a thing is not called by its plural: numbers stand with their nouns through `plural`."""

import ast
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.missing.little import LittleTest
from gapless.privacy.promise import pricing_note
from gapless.testing.audit import private

SOURCE = Path(gl.__file__).parent
ADJECTIVES = r"observed |private |rarer |smaller |synthetic "
NOUNS = (
    "answers|bins|cells|charges|codes|columns|combinations|copies|days|degrees|edges|entries|files|gaps|groups|levels|"
    "marginals|numbers|ones|others|pages|pairs|parameters|patterns|people|problems|questions|releases|rows|rules|scores|"
    "steps|tables|teachers|tries|values|variables|votes|weights"
)
AFTER_A_NUMBER = re.compile(rf" (?:{ADJECTIVES})?(?:{NOUNS})\b")
# Numbers that are never one, by the check that stands before them; and numbers that are no counts of the noun.
NEVER_ONE = {
    ("privacy/promise.py", "unit.at_most"),  # more than the ledger protects
    ("cli/ask.py", "questions"),  # printed of several
    ("cli/estimate.py", "many"),  # copies, at least two
    ("data/io/ids.py", "several"),  # more than 1
    ("data/neighbors.py", "len(targets)"),  # refused if there are several
    ("data/neighbors.py", "wide[0].extended_size"),  # more than fit into a code
    ("data/training.py", "taken"),  # a list
    ("data/training.py", "length"),  # of gradients
    ("draw/charts.py", "len(rest)"),  # what is left beyond the last bar but one
    ("evaluate/gap_curve.py", "len(columns)"),  # more than four
    ("draw/cards.py", "columns"),  # more than are drawn
    ("evaluate/comparison.py", "self.truth.share"),  # a share
    ("evaluate/comparison.py", "self.other.pairs"),
    ("cli/app.py", "broken.pairs"),
    ("missing/little.py", "len(groups)"),  # too many
    ("missing/little.py", "len(owner)"),
    ("model/message_passing.py", "tree.cells"),  # above a cap
    ("model/message_passing.py", "tree.cells_of(out)"),
    ("synth/marginal/mixture_fit.py", "observed"),
    ("synth/marginal/mixture_model.py", "prod(shape)"),
    ("synth/marginal/bayesian_network.py", "tree_cells"),
    ("privacy/budget.py", "self.at_most"),  # one row is written as such
    ("privacy/promise.py", "len(batch.parts)"),
    ("privacy/sgd.py", "program.numbers"),  # parameters of a network
    ("privacy/teachers.py", "program.teachers"),
    ("query/compiled.py", "count"),  # above a cap
    ("query/compiled.py", "column.size"),
    ("query/hot_deck.py", "size"),
    ("query/hot_deck.py", "self.limit"),
    ("query/knn.py", "self.neighbors"),
    ("query/quantiles.py", "cells"),
    ("query/quantiles.py", "scores"),
    ("report/statement.py", "len(copies)"),  # at least two
    ("schema/columns.py", "len(self.levels)"),  # above a cap
    ("synth/adversarial/gan.py", "cells"),
    ("synth/marginal/privbayes.py", "size"),
    ("synth/marginal/privbayes.py", "cap"),
    ("synth/marginal/aim.py", "needed"),
    ("synth/copies.py", "self.many"),
    ("synth/fitted.py", "soft[rule].share"),
    ("synth/fitting.py", "groups.max() + 1"),  # at least two; the name of an entry, by which a run is resumed
    ("synth/fitting.py", "tree.cells"),  # above the cap
    ("synth/sequential/kamino.py", "cells"),
    ("synth/marginal/mixture.py", "sum(context.sizes)"),
    ("synth/marginal/mixture.py", "cells"),
    ("synth/marginal/privbayes.py", "self.cap_cells"),
    ("synth/marginal/privbayes.py", "self.data.sizes[view]"),  # merged cells, at least two
    ("synth/marginal/privbayes.py", "column.size"),
    ("synth/marginal/privbayes.py", "cells"),
    ("synth/marginal/selection.py", "cap"),
    ("synth/marginal/selection.py", "context.sizes[c]"),
    ("weights/calibration.py", "self.cap_cells"),
    ("weights/calibration.py", "what"),  # a name
    ("weights/calibration.py", "self.method"),
    ("workbooks.py", "most_cells"),  # a cap
}


def numbers_with_a_plural():
    for file in sorted(SOURCE.rglob("*.py")):
        for text in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(text, ast.JoinedStr):
                continue
            for value, after in zip(text.values, text.values[1:], strict=False):
                if not (isinstance(value, ast.FormattedValue) and isinstance(after, ast.Constant)):
                    continue
                if AFTER_A_NUMBER.match(after.value) and not ast.unparse(value.value).startswith("plural("):
                    yield file.relative_to(SOURCE).as_posix(), ast.unparse(value.value)


def test_no_number_that_can_be_one_stands_before_a_plural():
    """Found by review: "1 pairs". `NEVER_ONE` says of each that is left why it is not one."""
    found = {(file, number) for file, number in numbers_with_a_plural() if not number.isupper()}
    assert found - NEVER_ONE == set()


ONE_COLUMN = gl.Schema("one", [gl.Categorical("x", ["a", "b"])])
TWO_COLUMNS = gl.Schema("two", [gl.Categorical("x", ["a", "b"]), gl.Categorical("y", ["a", "b"])])
ROW = gl.Table(ONE_COLUMN, [np.array([0])], rows=1)


def test_one_row_and_one_column_are_singular(tmp_path):
    assert repr(ROW) == "<Table 'one': 1 row, 1 column>"
    assert "1 row, 1 column of" in ROW._repr_html_()
    shown = str(gl.compare(ROW, ROW))
    assert "one: 1 row of truth, 1 row compared with it" in shown
    assert "With 1 row much is chance" in shown
    assert str(gl.weights.Weights([1.0], method="by hand")).startswith("by hand weights of 1 row: 1 row in effect")
    with pytest.raises(gl.errors.SchemaError, match="1 weight for 4 rows"):
        gl.Table(ONE_COLUMN, [np.zeros(4, dtype=int)], rows=4).with_weights([1.0])
    assert str(gl.missing.patterns(ROW)).startswith("1 row, 1 of them complete")
    assert "1 degree of freedom, p = 0.5 (1 pattern, 1 variable)" in str(LittleTest(1.0, 1, 0.5, 1, 1))


def test_one_pair_of_columns_in_a_private_comparison_is_singular(tmp_path):
    rows = [("a", "a"), ("b", "b")] * 500
    people = private(rows, TWO_COLUMNS, tmp_path, budget=gl.Budget(50.0, 0))
    fake = gl.Table.read(pl.DataFrame(rows, schema=["x", "y"], orient="row"), TWO_COLUMNS)
    result = gl.evaluate.compare_private(people, fake, spend=people.ledger.share("50%"))
    assert "distance of 1 pair of columns, corrected for noise" in result["two-way distance"].about
    assert "distance of 2 columns, corrected for noise" in result["one-way distance"].about
    model = gl.Independent().fit(people.select(["x"]), spend=people.ledger.left)
    assert repr(model) == "<FittedModel by independent of 'two': 1 column>"
    assert model.describe().startswith("independent: 1 column of 'two', about 1,000 rows")


def test_a_single_first_entry_is_singular(tmp_path):
    people = private([("a",)] * 9, ONE_COLUMN, tmp_path, budget=gl.Budget(1.0, 1e-6))
    people.ask(gl.Count(), spend=people.ledger.left)
    assert pricing_note(people.ledger).startswith(
        "The first entry is priced by its exact total: 100.00% of the budget, in place of"
    )
