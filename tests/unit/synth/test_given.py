"""Samples given some cells: the model's law given these, by values or by the names of cells."""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.schema import Constraint
from gapless.testing.noise import fixed_noise

COLUMNS = [
    gl.Categorical("sex", ["female", "male"]),
    gl.Integer("age", bounds=(0, 99), bins=10, may_be_missing=True),
    gl.Boolean("married"),
    gl.Number(
        "income", bounds=(0, 1000), bins=5, may_be_missing=True, missing=("", gl.MissingCode("-", "not-applicable"))
    ),
    gl.Date("moved", bounds=("2000-01-01", "2009-12-31"), resolution="year"),
]
RULE = Constraint("t1.age < 20 and t1.married == true")
ROWS = 20_000


def table(rows=2_000):
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, rows)
    age = np.where(sex == 1, rng.integers(40, 99, rows), rng.integers(0, 60, rows))
    gap = rng.random(rows) < 0.2
    return pl.DataFrame(
        {
            "sex": np.array(["female", "male"])[sex],
            "age": pl.Series(age).zip_with(pl.Series(rng.random(rows) > 0.1), pl.Series([None] * rows, dtype=pl.Int64)),
            "married": (age > 30) & (rng.random(rows) < 0.7),
            "income": pl.Series(10.0 * age)
            .cast(pl.String)
            .zip_with(pl.Series(~gap), pl.Series([None] * rows, dtype=pl.String)),
            "moved": [f"{2000 + years % 10}-01-01" for years in age],
        }
    )


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """A model of each method, fitted once."""
    models = {}

    def fit(method, *rules):
        if (method, rules) not in models:
            ledger = tmp_path_factory.mktemp("given") / "people.ledger"
            schema = gl.Schema("people", COLUMNS, constraints=rules)
            with fixed_noise(3):
                people = gl.read(table(), schema, protect=gl.Rows(1), budget=gl.Budget(5.0, 1e-6), ledger=ledger)
                models[method, rules] = method().fit(people, spend=people.ledger.share("100%"))
        return models[method, rules]

    return fit


METHODS = [gl.MST, gl.AIM, gl.Mixture, gl.Independent, gl.PrivBayes]
EXACT = METHODS[:-1]  # a network is drawn from by Gibbs sampling


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("gaps", ["filled", "as-observed"])
def test_every_row_has_what_is_given(fitted, method, gaps):
    model = fitted(method)
    given = {"sex": "male", "age": 55, "married": "yes"}
    rows = model.sample(200, seed=1, gaps=gaps, given=given)
    frame = rows.to_polars()
    assert frame.select("sex", "age", "married").unique().rows() == [("male", 55, True)]
    assert rows.rows == 200
    assert frame["moved"].n_unique() > 1
    assert (frame["income"].null_count() > 20) == (gaps == "as-observed")  # noise makes a few not applicable
    assert rows.to_polars().equals(model.sample(200, seed=1, gaps=gaps, given=given).to_polars())


@pytest.mark.parametrize("method", METHODS)
def test_the_others_follow_the_law_given_these(fitted, method):
    """Hoeffding: a share of 20,000 independent rows is off by more than 0.02 with probability below 3e-7."""
    model = fitted(method)
    given = {"age": "50..59", "married": True}
    codes = model.sample(ROWS, seed=2, given=given).codes
    for name in ("sex", "income", "moved"):
        joint = model.marginal(["age", "married", name])[5, 1]
        place = model.schema.names.index(name)
        drawn = np.bincount(codes[place], minlength=len(joint)) / ROWS
        off = np.abs(drawn - joint / joint.sum()).max()
        assert off < (0.02 if method in EXACT else 0.05), name
    if method in (gl.MST, gl.AIM, gl.Mixture):  # it is another law than without
        alone = model.marginal("income")
        assert np.abs(np.bincount(codes[3], minlength=6) / ROWS - alone).max() > 0.1


@pytest.mark.parametrize("method", METHODS)
def test_constraints_hold(fitted, method):
    model = fitted(method, RULE)
    young = model.sample(500, seed=1, given={"age": 7}).to_polars()
    assert young["age"].unique().to_list() == [7]
    assert not young["married"].any()
    married = model.sample(500, seed=1, given={"married": True}).to_polars()
    assert married["age"].min() >= 20
    told = (
        r"(hardly any possible row|no row of this model has age = 0\.\.9, married = true)\n  Try: other cells, or fewer"
    )
    with pytest.raises(gl.errors.ModelError, match=told):
        model.sample(50, given={"age": 7, "married": True})


def test_a_dependency_holds_for_what_is_given(tmp_path):
    rule = Constraint("t1.zip == t2.zip and t1.town != t2.town")
    columns = [gl.Categorical("zip", list("abcd")), gl.Categorical("town", ["X", "Y"]), gl.Boolean("other")]
    zips = np.arange(4_000) % 4
    cells = pl.DataFrame(
        {"zip": np.array(list("abcd"))[zips], "town": np.array(["X", "Y"])[zips // 2], "other": zips > 1}
    )
    for method in (gl.MST, gl.Mixture):
        schema = gl.Schema("people", columns, constraints=(rule,))
        ledger = tmp_path / f"{method.__name__}.ledger"
        people = gl.read(cells, schema, protect=gl.Rows(1), budget=gl.Budget(5.0, 1e-6), ledger=ledger)
        model = method().fit(people, spend=people.ledger.share("100%"))
        rows = model.sample(500, given={"town": "Y"}).to_polars()
        assert set(rows["zip"]) == {"c", "d"}
        assert set(rows["town"]) == {"Y"}


@pytest.mark.parametrize("method", [gl.Kamino, gl.PrivBayes])
def test_cells_that_a_rule_keeps_apart_are_refused_before_any_row_is_drawn(tmp_path, monkeypatch, method):
    """A model without exact marginals cannot tell it, and would draw all rows again and again."""
    rules = (
        Constraint("t1.zip == t2.zip and t1.town != t2.town"),
        Constraint("t1.zip == 'd' and t1.other == true"),
    )
    columns = [
        gl.Categorical("zip", list("abcd")),
        gl.Categorical("town", ["X", "Y"], may_be_missing=True),
        gl.Boolean("other", may_be_missing=True),
    ]
    zips = np.arange(4_000) % 4
    cells = pl.DataFrame(
        {"zip": np.array(list("abcd"))[zips], "town": np.array(["X", "Y"])[zips // 2], "other": zips == 0}
    )
    schema = gl.Schema("people", columns, constraints=rules)
    people = gl.read(cells, schema, protect=gl.Rows(1), budget=gl.Budget(5.0, 1e-6), ledger=tmp_path / "l")
    model = method().fit(people, spend=people.ledger.share("100%"))
    assert set(model.sample(50, given={"zip": "d"}).to_polars()["other"]) == {False}
    assert set(model.sample(50, given={"zip": "a"}).to_polars()["town"]) == {"X"}
    assert model.sample(50, gaps="as-observed", given={"town": "Y"}).rows == 50
    monkeypatch.setattr(type(model.filled), "fill", None)
    for gaps in ("filled", "as-observed"):
        for given in ({"zip": "a", "town": "Y"}, {"zip": "d", "other": True}):
            with pytest.raises(
                gl.errors.ModelError, match=r"no row of this model has zip = .*\n  Try: other cells, or fewer"
            ):
                model.sample(gaps=gaps, given=given)


def test_values_and_cells(fitted):
    model = fitted(gl.MST)

    def drawn(**given):
        return model.sample(300, seed=5, given=given).to_polars()[next(iter(given))]

    ages = drawn(age="50..59")
    assert ages.min() >= 50
    assert ages.max() <= 59
    assert ages.n_unique() > 5  # the bin was given
    assert drawn(age=55).unique().to_list() == [55]
    assert drawn(age="55").unique().to_list() == [55]
    assert drawn(age=np.int64(55)).unique().to_list() == [55]
    assert drawn(income=123.25).unique().to_list() == [123.25]
    assert drawn(income="[200, 400)").is_between(200, 400, closed="left").all()
    assert {str(day) for day in drawn(moved="2004")} == {"2004-01-01"}
    for true in (True, "true", "Yes", 1):
        assert drawn(married=true).all()
    for false in (False, "no", "0"):
        assert not drawn(married=false).any()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"ages": 5}, r"no column 'ages' in the schema\n  Try: age"),
        ({"sex": "femal"}, r"column 'sex' has no cell 'femal'\n  Try: female, male"),
        ({"age": 100}, r"column 'age' has no value 100\n  Try: from 0 to 99 in whole steps"),
        ({"age": 34.5}, r"column 'age' has no value 34.5\n"),
        ({"age": None}, r"column 'age' is compared with 'None'\n  Try: an integer"),
        ({"age": float("nan")}, r"column 'age' is compared with 'nan'\n"),
        ({"age": "missing"}, r"column 'age' is compared with 'missing'\n"),
        ({"moved": "soon"}, r"column 'moved' is compared with 'soon'\n  Try: a date"),
    ],
)
def test_what_is_no_public_value_is_refused(fitted, given, told):
    with pytest.raises(gl.errors.SchemaError, match=told):
        fitted(gl.MST).sample(3, given=given)


def test_nothing_given_is_the_sample_of_before(fitted):
    model = fitted(gl.MST)
    assert model.sample(50, seed=1, given={}).to_polars().equals(model.sample(50, seed=1).to_polars())


def test_cells_of_no_probability_are_refused(fitted):
    model = fitted(gl.Independent)
    laws = list(model.filled.probabilities)
    laws[0] = np.array([1.0, 0.0])
    sure = replace(model, filled=type(model.filled)(tuple(laws)))
    with pytest.raises(
        gl.errors.ModelError, match=r"no row of this model has sex = male\n  Try: other cells, or fewer"
    ):
        sure.sample(3, given={"sex": "male"})
    assert sure.sample(3, given={"sex": "female"}).rows == 3


@dataclass(frozen=True)
class Constant:
    """A distribution that can only be sampled."""

    kind: ClassVar[str] = "constant"

    def sample(self, rows, rng):
        return np.zeros((rows, len(COLUMNS)), dtype=np.int64)

    def to_arrays(self):
        return {}

    @classmethod
    def from_arrays(cls, arrays):  # noqa: ARG003 a protocol
        return cls()


def test_a_model_that_cannot_says_so(fitted):
    model = replace(fitted(gl.MST), filled=Constant())
    assert model.sample(3).rows == 3
    with pytest.raises(
        gl.errors.ModelError, match=r"by mst cannot be drawn from given some cells .*\n  Try: a model by mst, aim"
    ):
        model.sample(3, given={"sex": "male"})
