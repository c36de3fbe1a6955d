"""Forbidden combinations in a fit of factors: the gradient of their loss, and rules that hold in the rows."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.schema import Constraint
from gapless.synth.marginal import factors_fit
from gapless.synth.marginal.factors_fit import ColumnTarget, fit_factors, merge_cells
from gapless.testing.audit import private

NEVER = Constraint("t1.age <= 14 and t1.married == 'yes'")
ONLY = Constraint("t1.job == 'other'")


def problem(zeros, components=16):
    rng = np.random.default_rng(1)
    columns = []
    for cells, gaps, order in ((4, 1, np.arange(3)), (3, 0, None), (2, 0, None)):
        shares = rng.dirichlet(np.ones(cells))
        columns.append(ColumnTarget(shares, np.full(cells, 0.05), np.eye(cells), gaps=gaps, order=order))
    products = {(0, 1): (rng.random((4, 3)) / 12, 0.05)}
    return factors_fit._Problem(columns, products, zeros, components, rng, ridge=1.0, gap_ridge=3.0)


def test_the_gradient_is_that_of_the_loss(monkeypatch):
    """Central differences, in double precision: a component wrong by 1 % of the largest would show."""
    monkeypatch.setattr(np, "float32", np.float64)
    table = np.array([[True, False, False], [False, True, True], [False, False, False]])
    alone, three = np.array([False, True]), table[:, :, None] & np.array([True, False])
    for zeros in ([], [((0, 1), table)], [((2,), alone), ((0, 1, 2), three)]):
        found = problem(zeros)
        found.tilts, found.maps = ([part.astype(float) for part in parts] for parts in (found.tilts, found.maps))
        x = found.start + 0.3 * np.random.default_rng(2).standard_normal(len(found.start))
        _, gradient = found.loss(x)
        steps = 1e-5 * np.eye(len(x))
        differences = np.array([(found.loss(x + h)[0] - found.loss(x - h)[0]) / 2e-5 for h in steps])
        assert np.abs(gradient - differences).max() < 1e-5 * np.abs(gradient).max()


def test_forbidden_combinations_have_hardly_any_probability():
    table = np.array([[True, False], [False, False]])
    column = ColumnTarget(np.full(2, 0.5), np.full(2, 0.01), np.eye(2), gaps=0)
    products = {(0, 1): (np.full((2, 2), 0.25), 0.01)}
    for zeros, least, most in (([], 0.2, 0.3), ([((0, 1), table)], 0.0, 0.01)):
        first, second = fit_factors([column, column], products, ridge=1.0, zeros=zeros).values
        assert least <= (first @ second.T / first.shape[1])[0, 0] <= most


def test_forbidden_combinations_of_three_columns_have_hardly_any_probability():
    """Each pair of these columns may have any values, so only a target for all three can tell."""
    table = np.zeros((2, 2, 2), dtype=bool)
    table[0, 0, 0] = True
    column = ColumnTarget(np.full(2, 0.5), np.full(2, 0.01), np.eye(2), gaps=0)
    products = {pair: (np.full((2, 2), 0.25), 0.01) for pair in ((0, 1), (0, 2), (1, 2))}
    for zeros, least, most in (([], 0.1, 0.15), ([((0, 1, 2), table)], 0.0, 0.01)):
        first, second, third = fit_factors([column] * 3, products, ridge=1.0, zeros=zeros).values
        assert least <= (first[0] * second[0] * third[0]).mean() <= most


def test_cells_that_forbid_the_same_are_merged():
    rng = np.random.default_rng(5)
    for shape in ((6, 4), (5, 3, 4)):
        table = (rng.random([2] * len(shape)) < 0.5)[np.ix_(*(rng.integers(0, 2, size) for size in shape))]
        groups, small = merge_cells(table)
        assert max(small.shape) <= 2
        found = small
        for axis, group in enumerate(groups):
            assert (group.sum(axis=0) == 1).all()
            found = np.moveaxis(np.tensordot(group.T, found, axes=(1, axis)), 0, axis)
        assert (found == table).all()


def test_tables_of_too_many_combinations_stay_out_of_the_fit(monkeypatch):
    monkeypatch.setattr(factors_fit, "ZERO_CELLS", 8)
    few, many = np.eye(8, 3, dtype=bool), np.eye(9, 10, dtype=bool)
    assert [problem([((0, 1), table)]).zeros == [] for table in (few, many)] == [False, True]


@pytest.fixture(scope="module")
def people():
    """Ages, whether married, and work: nobody under 15 is married."""
    rng = np.random.default_rng(3)
    age = rng.integers(0, 60, 3000)
    married = (age > 14) & (rng.random(3000) < 0.2 + age / 100)
    job = np.where(rng.random(3000) < 0.2 + 0.5 * married, "full", "part")
    return pl.DataFrame({"age": age, "married": np.where(married, "yes", "no"), "job": job})


def rows_of(people, rules, folder, seed=0):
    columns = [
        gl.Integer("age", bounds=(0, 59), bins=12),
        gl.Categorical("married", ["no", "yes"]),
        gl.Categorical("job", ["full", "part", "other"]),
    ]
    table = private(people, gl.Schema("people", columns, constraints=rules), folder, budget=gl.Budget(2.0, 1e-6))
    model = gl.synth.Factors().fit(table, spend=table.ledger.left)
    return model, model.sample(3000, seed=seed).to_polars()


def test_rules_are_fitted_and_not_only_enforced_in_the_rows(people, tmp_path):
    model, rows = rows_of(people, [NEVER, ONLY], tmp_path)
    plain, _ = rows_of(people, [], tmp_path)
    assert rows.filter((pl.col("age") <= 14) & (pl.col("married") == "yes")).is_empty()
    assert rows.filter(pl.col("job") == "other").is_empty()
    broken = [fitted.filled.marginal([0, 1])[:3, 1].sum() for fitted in (model, plain)]
    assert broken[0] < 0.005
    assert broken[0] < broken[1]
    assert model.filled.marginal([2])[2] < 1e-3


DEPENDENCY = Constraint("t1.school == t2.school and t1.years != t2.years")


def test_a_rule_between_rows_gives_each_value_a_group(tmp_path):
    """Groups of several values could not say how many years each school has."""
    years = np.arange(2000) % 20
    frame = pl.DataFrame({"school": [f"level {code}" for code in years], "years": years})
    columns = [
        gl.Categorical("school", [f"level {code}" for code in range(20)]),
        gl.Integer("years", bounds=(0, 19), edges=list(range(21))),
    ]
    groups = []
    for rules in ([], [DEPENDENCY]):
        table = private(frame, gl.Schema("t", columns, constraints=rules), tmp_path, budget=gl.Budget(2.0, 1e-6))
        model = gl.synth.Factors().fit(table, spend=table.ledger.left)
        groups.append(model.measurements.features[1].groups.max() + 1)
    assert groups[0] < groups[1] == 20
    rows = model.sample(2000, seed=0).to_polars()
    right = rows.filter(pl.col("school") == pl.format("level {}", "years"))
    assert right.height > 0.9 * rows.height
