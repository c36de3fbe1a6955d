"""Gaps filled from the nearest rows."""

import numpy as np
import pytest

import gapless as gl
from gapless.errors import GaplessError
from gapless.query import parse_question
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import KNN, NEAR, PAIRS, near


def test_the_nearest_row_is_the_nearest_by_bins_also_where_cells_are_asked_about(tmp_path):
    """Found by a mutation: 29 is nearer to 31, but in the bin of 21."""
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 99)), gl.Integer("x", bounds=(0, 999), may_be_missing=True)])
    table = private([("21", "100"), ("29", ""), ("31", "900")], schema, tmp_path, budget=gl.Budget(400.0, 0))
    for where in ("age >= 20 and age < 30", "age >= 25 and age < 30"):
        question = gl.Sum("x", where=where, missing=gl.Knn(on=["age"]))
        with no_noise():
            answer = table.ask(question, spend=table.ledger.share("40%"))
        assert answer.estimate == pytest.approx(200 if "20" in where else 100, abs=0.5)


def test_a_majority_is_one_of_bins(tmp_path):
    schema = gl.Schema("t", [gl.Boolean("g"), gl.Integer("x", bounds=(0, 99), may_be_missing=True)])
    table = private([("true", x) for x in ("11", "12", "88", "")], schema, tmp_path, budget=gl.Budget(400.0, 0))
    question = gl.Sum("x", missing=gl.Knn(on=["g"], neighbors=3, scheme="majority"))
    with no_noise():
        answer = table.ask(question, spend=table.ledger.left)
    assert answer.estimate == pytest.approx(3 * 14.5 + 84.5, abs=0.1)
    assert "middle of its bin" in str(answer)


FILLED = {
    "sum(x)": 1 + 1 + 4 + 4 + 4,
    "count() where x >= 2": 3,
    "mean(x)": 14 / 5,
    "mean(x) where place >= 5": 4,
    "proportion(x == 1)": 2 / 5,
    "variance(x)": np.var([1, 1, 4, 4, 4], ddof=1),
    "mean(x, 0, 2)": (1 + 1 + 2 + 2 + 2) / 5,
}


@pytest.mark.parametrize(("text", "expected"), FILLED.items(), ids=FILLED)
def test_gaps_are_filled_from_the_nearest_rows(text, expected, tmp_path):
    _, answer = near(tmp_path, parse_question(text, KNN))
    assert answer.estimate == pytest.approx(expected, abs=1e-2)  # answers lie on a public grid
    assert (answer.interval, answer.noise_std) == (None, None)
    assert "the size of the noise is itself private" in str(answer)
    assert "Gaps in x are filled from the row nearest in place" in str(answer)


def test_each_group_is_paid_for(tmp_path):
    table, answer = near(tmp_path, gl.Mean("x", by="g", missing=KNN))
    assert answer.estimate == pytest.approx({"false": 4, "true": 1}, abs=1e-2)
    names = [entry.mechanism["name"] for entry in table.ledger.entries]
    assert names == ["SmoothCauchy"] * 4  # which rows there are in a group depends on what is filled: g may be missing
    assert answer.entries == (1, 2, 3, 4)
    assert table.ledger.spent.value == pytest.approx(20, rel=1e-2)
    assert {entry.what for entry in table.ledger.entries} >= {
        "mean(x) by g = true",
        "number of rows of mean(x) by g = true",
    }


@pytest.mark.parametrize(
    ("text", "mechanisms"),
    [
        ("count() where x >= 2", ["SmoothCauchy"]),
        ("mean(x)", ["DiscreteLaplace", "SmoothCauchy"]),
        ("mean(x) where g == true", ["SmoothCauchy", "SmoothCauchy"]),
        ("proportion(x >= 2)", ["DiscreteLaplace", "SmoothCauchy"]),
        ("variance(x)", ["DiscreteLaplace", "SmoothCauchy", "SmoothCauchy"]),
        ("count() where place >= 2", ["DiscreteLaplace"]),
    ],
)
def test_numbers_of_rows_are_counted_plainly_where_nothing_is_filled(text, mechanisms, tmp_path):
    table, _ = near(tmp_path, parse_question(text, KNN))
    assert [entry.mechanism["name"] for entry in table.ledger.entries] == mechanisms
    assert table.ledger.spent.value <= 20 * (1 + 1e-9)


@pytest.mark.parametrize("text", ["count() where x >= 2", "mean(x)", "variance(x)", "mean(x) by g"])
def test_below_ln_2_a_hot_deck_is_recommended_before_anything_is_spent(text, tmp_path):
    table = private(NEAR, PAIRS, tmp_path, budget=gl.Budget(0.6, 0))
    question = parse_question(text, KNN)
    with pytest.raises(gl.errors.BudgetError, match="HotDeck"):
        table.ask(question, spend=table.ledger.left)
    assert not table.ledger.entries
    with pytest.raises(gl.errors.BudgetError, match="HotDeck"):
        gl.query.preview(question, PAIRS, budget=gl.Budget(0.6, 0), spend="100%")


def test_a_preview_of_neighbours_is_per_unit_of_sensitivity():
    shown = gl.query.preview(gl.Count(where="x >= 2", missing=KNN), PAIRS, budget=gl.Budget(1.0, 0), spend="100%")
    assert shown.noise_std is None
    assert 0.8 < shown.noise_median < 1.1
    assert "for each row that one row can change" in str(shown)
    mean = gl.query.preview(gl.Mean("x", missing=KNN), PAIRS, budget=gl.Budget(2.0, 0), spend="100%")
    assert "the answer times the number of rows" in mean.of
    stated = gl.query.preview(gl.Mean("x", missing=KNN), PAIRS, budget=gl.Budget(2.0, 0), spend="100%", rows=100)
    assert stated.noise_median == pytest.approx(mean.noise_median / 100)
    assert "on an answer about 100 rows, for each row that one row can change" in str(stated)


def test_a_cover_is_declared_or_follows_from_the_schema(tmp_path):
    """Never from the table: the search for the exact bound must end on tables of any schema."""
    wide = gl.Schema("wide", [gl.Integer(name, bounds=(0, 999), bins=1000) for name in "abc"])
    assert gl.Knn(on=["a", "b"]).matching(wide).cover is None
    assert gl.Knn(on=["a", "b", "c"]).matching(wide).cover == ("a", "b")
    assert gl.Knn(on=["a", "b", "c"], cover=["c"]).matching(wide).cover == ("c",)
    assert gl.Knn(on=["a"], cover=[]).matching(wide).cover == ()
    with pytest.raises(GaplessError, match="cover has 'b', but cover may have only columns of on"):
        gl.Knn(on=["a"], cover=["b"])
    _, answer = near(tmp_path, gl.Sum("x", missing=gl.Knn(on=["place"], cover=[])))
    assert answer.estimate == pytest.approx(14, abs=1e-2)


def test_matching_that_makes_no_sense_is_refused():
    for make, expected in (
        (lambda: gl.Knn(on="place"), "a list of column names"),
        (lambda: gl.Knn(on=[]), "on has no column"),
        (lambda: gl.Knn(on=["place"], neighbors=3), 'scheme = "nearest" takes 1 neighbor'),
        (lambda: gl.Knn(on=["place"], scheme="median", neighbors=3), "scheme = 'median', but scheme must be one of"),
        (
            lambda: gl.query.preview(
                gl.Mean("x", missing=gl.Knn(on=["x"])), PAIRS, budget=gl.Budget(9.0, 0), spend="9%"
            ),
            "filled",
        ),
    ):
        with pytest.raises(GaplessError) as error:
            make()
        assert expected in str(error.value) or "matched" in str(error.value)
