"""Several packages use one definition of a word: ordered columns, Cramér's V, a private table."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless import evaluate as ev
from gapless.data.points import points
from gapless.data.sums import plain_sum
from gapless.data.workload import Workload
from gapless.query import compiled
from gapless.schema.columns_toml import KINDS
from gapless.synth import METHODS
from gapless.synth.fitted import FittedModel
from gapless.testing.audit import letters_schema

NO_YES = gl.Categorical("smoker", ["no", "yes"], may_be_missing=True)
FALSE_TRUE = gl.Boolean("smoker", may_be_missing=True)
AGE = gl.Integer("age", bounds=(0, 9), bins=10)
LETTER = gl.Categorical("letter", ["a", "b"])


def one_table(smoker, rows=400):
    """The same codes under either declaration: smokers are older, some did not say."""
    rng = np.random.default_rng(1)
    age = rng.integers(0, 10, rows)
    smokes = np.where(rng.random(rows) < 0.1, 2, rng.random(rows) < age / 10).astype(np.int64)
    return gl.Table(gl.Schema("people", [AGE, smoker, LETTER]), [age, smokes, rng.integers(0, 2, rows)], rows=rows)


def test_numbers_dates_and_ordinal_levels_are_on_a_scale():
    assert {name for name, kind in KINDS.items() if kind.is_ordered} == {
        "ordinal",
        "integer",
        "number",
        "date",
        "datetime",
    }


def test_true_and_false_are_two_levels_like_any_other_two():
    """Every figure that asks whether a column is on a scale: as for no and yes."""
    pairs = []
    for smoker in (NO_YES, FALSE_TRUE):
        table = one_table(smoker)
        gapped = gl.MAR(0.3, observed=["smoker"]).apply(table, seed=4)
        pairs.append(
            (
                points(table).tolist(),
                [(pair.measure, pair.truth) for pair in ev.compare_pairs(table, table)],
                ev.wasserstein_distance(table, one_table(smoker, 300)),
                ev.column_wasserstein(smoker, np.array([0.2, 0.8]), np.array([0.5, 0.5])),
                [codes.tolist() for codes in gapped.codes],
                gl.missing.little_test(gapped).statistic,
            )
        )
    assert pairs[0] == pairs[1]
    assert pairs[0][1][0][0] == "Cramér's V"


def test_a_level_that_never_occurs_does_not_lower_an_association():
    """The line of a picture and the figure of a report are of one distribution, and equal."""
    joint = np.array([[0.4, 0.1, 0.0], [0.1, 0.4, 0.0], [0.0, 0.0, 0.0]])
    columns = gl.Categorical("x", ["a", "b", "c"]), gl.Categorical("y", ["a", "b", "c"])
    model = SimpleNamespace(schema=gl.Schema("t", columns), marginal_if_known=lambda _names: joint)
    assert ev.association(joint, columns) == pytest.approx(0.6)
    assert FittedModel._strength(model, 0, 1, None) == pytest.approx(0.6)
    model.marginal_if_known = lambda _names: np.array([[0.5, 0.0], [0.5, 0.0]])
    assert FittedModel._strength(model, 0, 1, None) == 0  # one column does not vary


def test_a_public_table_where_a_private_one_is_paid_for_is_one_error():
    schema = letters_schema([2])
    table = gl.Table(schema, [np.array([0])], rows=1)
    loss = gl.Loss(0.1, 2)
    calls = {
        **{f"{kind.__name__}.fit": (lambda kind=kind: kind().fit(table, spend=loss)) for kind in METHODS.values()},
        "compare_private()": lambda: gl.evaluate.compare_private(table, table, spend=loss),
        "describe_gaps()": lambda: gl.missing.describe_gaps(table, spend=loss),
        "gap_rates()": lambda: gl.missing.gap_rates(table, spend=loss),
        "plain_sum()": lambda: plain_sum(table, None),
        "Workload": lambda: Workload(table, [(0,)], rows="observed"),
    }
    for name, call in calls.items():
        with pytest.raises(gl.errors.SealedError) as caught:
            call()
        assert caught.value.message.endswith("takes a PrivateTable, not a Table"), name


def test_a_table_of_no_kind_is_one_error_where_a_public_one_is_looked_at():
    frame = [("a",)]
    table = gl.Table(letters_schema([2]), [np.array([0])], rows=1)
    for call in (
        lambda: gl.missing.patterns(frame),
        lambda: gl.MCAR(0.1).apply(frame, seed=1),
        lambda: ev.kway_distance(table, frame),
        lambda: FittedModel.impute(SimpleNamespace(), frame),
    ):
        with pytest.raises(gl.errors.ReadError, match="a public Table, not a list"):
            call()


WHOLE = {
    "rows_per_person": lambda n: gl.Schema("t", [LETTER], rows_per_person=n),
    "expected_rows": lambda n: gl.Schema("t", [LETTER], expected_rows=n),
    "bins": lambda n: gl.Integer("age", bounds=(0, 9), bins=n),
    "Rows": gl.Rows,
    "at_most": lambda n: gl.Persons("id", n),
    "limit": lambda n: gl.HotDeck(on=["age"], limit=n),
    "neighbors": lambda n: gl.Knn(on=["age"], neighbors=n),
    "changed": lambda n: gl.privacy.stability_cost(1.0, changed=n),
    "most": lambda n: gl.missing.patterns(one_table(NO_YES), most=n),
    "k": lambda n: ev.kway_distance(one_table(NO_YES), one_table(NO_YES), k=n),
    "most_sets": lambda n: ev.kway_distance(one_table(NO_YES), one_table(NO_YES), most_sets=n),
    "seed": lambda n: gl.MCAR(0.1).apply(one_table(NO_YES), seed=n),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_number_is_one_thing_everywhere(name):
    for good in (1, np.int64(1), np.uint8(1)):
        WHOLE[name](good)
    for bad in (True, np.True_, 1.0, "1", -1):
        with pytest.raises(gl.GaplessError, match=r"whole number|number of rows|how many there are|list of columns"):
            WHOLE[name](bad)


def test_whole_numbers_are_kept_as_plain_ones():
    """They are written to ledgers and schemas, and losses are computed from them."""
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 9), bins=np.int64(5))], expected_rows=np.int64(10))
    assert gl.Schema.from_toml(schema.to_toml()) == schema
    for kept in (gl.Rows(np.int64(2)).at_most, schema.expected_rows, gl.HotDeck(on=["a"], limit=np.int8(1)).limit):
        assert type(kept) is int


def test_true_is_no_number(tmp_path):
    table = gl.read(
        pl.DataFrame({"age": [1]}),
        gl.Schema("t", [AGE]),
        protect=gl.Rows(1),
        budget=gl.Budget(1.0, 0),
        ledger=tmp_path / "t.ledger",
    )
    for call in (
        lambda: gl.Budget(True, 0),
        lambda: gl.Budget(1.0, True),
        lambda: table.ledger.share(f"{True}%"),
        lambda: gl.query.preview(gl.Count(), table.schema, budget=gl.Budget(1.0, 0), spend=f"{True}%"),
        lambda: gl.Mean("age", bounds=(False, True)),
        lambda: gl.MCAR(True),
        lambda: gl.privacy.ground_truth([(True, None)], gl.MCAR(0.1)),
        lambda: gl.privacy.stability_cost(True, changed=1),
        lambda: gl.Integer("age", bounds=(False, 9)),
    ):
        with pytest.raises(gl.GaplessError):
            call()


def test_the_kind_of_an_answer_is_a_type():
    schema = gl.Schema("t", [AGE, LETTER])
    kinds = {
        compiled.TotalEstimand: (gl.Count(), gl.Sum("age")),
        compiled.RatioEstimand: (gl.Mean("age"), gl.Proportion("letter == a")),
        compiled.VarianceEstimand: (gl.Variance("age"),),
    }
    for kind, questions in kinds.items():
        for question in questions:
            assert type(question.compile(schema).estimand) is kind
