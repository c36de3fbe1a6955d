"""Every imputer is a map of each row by itself: under coupled chance, k more rows change k rows and no others.

Chance is coupled as the proof has it: each row keeps its own random numbers when others come or go. The model or the
conditionals are frozen, as they are once they were released.
"""

import tempfile
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data import filling, private_table
from gapless.data.filling import fill_gaps, fill_given
from gapless.missing import STRATEGIES
from gapless.model import sampling
from gapless.model.distribution import Product
from gapless.model.graphical import GraphicalModel
from gapless.model.marginal import Measurement
from gapless.privacy import Grant
from gapless.synth import METHODS
from gapless.synth.marginal import bayesian_network
from gapless.synth.marginal.bayesian_network import BayesianNetwork, Node
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise
from helpers.examples import examples
from helpers.open_sealed import reveal

SIZES = (2, 3, 2)
SCHEMA = letters_schema(SIZES)
CELLS = [[*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)]
row = st.tuples(*(st.sampled_from(cells) for cells in CELLS))
neighbours = st.tuples(st.lists(row, max_size=8), st.lists(row, min_size=1, max_size=3), st.integers(0, 2**32))

RULED = gl.Schema(
    "ruled",
    SCHEMA.columns,
    constraints=[gl.schema.Constraint("t1.x0 == 'a' and t1.x2 == 'b'")],
)
BETWEEN = gl.Schema(
    "between",
    SCHEMA.columns,
    constraints=[
        *RULED.constraints,
        gl.schema.Constraint("t1.x0 == t2.x0 and t1.x1 != t2.x1"),
        gl.schema.Constraint("t1.x1 == t2.x1 and t1.x2 != t2.x2", weight=3.0),
    ],
)
SCHEMAS = {"ruled": RULED, "between": BETWEEN}


@cache
def people():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 2, (200, 3))
    codes[:, 1] = np.where(rng.random(200) < 0.8, codes[:, 0], 2)
    return [tuple("abc"[c] if rng.random() < 0.8 else None for c in row) for row in codes]


@cache
def model_of(method, schema=SCHEMA):
    table = private(people(), schema, Path(tempfile.mkdtemp()), budget=gl.Budget(10.0, 1e-6))
    with fixed_noise(3):
        return method().fit(table, spend=table.ledger.left)


@cache
def frozen(name):
    """The filling that an imputer hands to the table, with what it has paid for."""
    imputer = {
        "domain": gl.missing.FromDomain(),
        "distribution": gl.missing.FromDistribution(),
        "mode": gl.missing.FromMode(),
        "mean": gl.missing.FromMean(),
        "independent": gl.missing.FromModel(model_of(gl.Independent)),
        "mst": gl.missing.FromModel(model_of(gl.MST)),
        "aim": gl.missing.FromModel(model_of(gl.AIM)),
        "privbayes": gl.missing.FromModel(model_of(gl.PrivBayes)),
        "kamino": gl.missing.FromModel(model_of(gl.Kamino)),
        "mst, ruled": gl.missing.FromModel(model_of(gl.MST, RULED)),
        "privbayes, ruled": gl.missing.FromModel(model_of(gl.PrivBayes, RULED)),
        "independent, between": gl.missing.FromModel(model_of(gl.Independent, BETWEEN)),
        "mixture, between": gl.missing.FromModel(model_of(gl.Mixture, BETWEEN)),
        "fits its own": gl.missing.FromModel(gl.MST()),
    }[name]
    schema = SCHEMAS.get(name.split(", ")[-1], SCHEMA)
    table = private(people(), schema, Path(tempfile.mkdtemp()), budget=gl.Budget(10.0, 1e-6))
    caught = []
    with (
        fixed_noise(3),
        mock.patch.object(private_table.PrivateTable, "_fill_rows", lambda _, fill: caught.append(fill) or table),
    ):
        grant = table.ledger.grant(table.ledger.left, to="test")
        imputer.impute(table, grant, grant.left * 0.5)
    return caught[0]


IMPUTERS = ["domain", "distribution", "mode", "mean", "fits its own"]
IMPUTERS += ["independent", "mst", "aim", "privbayes", "kamino", "mst, ruled", "privbayes, ruled"]
IMPUTERS += ["independent, between", "mixture, between"]


def encoded(rows):
    table = private(rows, SCHEMA, Path(tempfile.mkdtemp()))
    return reveal(table._rows, table.ledger).columns


def moved(fill, rows, more, seed):
    """How many rows of the neighbour's filling are not in the table's, and the other way round."""
    chances = []
    for many in (len(rows), len(rows) + len(more)):
        rng = np.random.default_rng(seed)  # the same numbers for the rows that both have
        chances.append(lambda rng=rng, many=many: rng.random(len(rows) + len(more))[:many])
    less, greater = (
        list(zip(*(c.tolist() for c in fill(encoded(r), chance)), strict=True))
        for r, chance in zip((rows, rows + more), chances, strict=True)
    )
    for changed in less[:]:
        if changed in greater:
            greater.remove(changed)
            less.remove(changed)
    return len(less), len(greater)


@pytest.mark.parametrize("name", IMPUTERS)
@examples(30)
@given(pair=neighbours)
def test_k_more_rows_change_k_rows(name, pair):
    rows, more, seed = pair
    assert moved(frozen(name), rows, more, seed) == (0, len(more))


@pytest.mark.parametrize("name", IMPUTERS)
@examples(15)
@given(rows=st.lists(row, max_size=8), seed=st.integers(0, 2**32))
def test_observed_cells_stay_and_gaps_become_observed(name, rows, seed):
    rng = np.random.default_rng(seed)
    before = encoded(rows)
    after = frozen(name)(before, lambda: rng.random(len(rows)))
    for old, new, column in zip(before, after, SCHEMA.columns, strict=True):
        assert np.array_equal(old[old < column.size], new[old < column.size])
        assert (new < column.size).all()
        assert new.dtype == old.dtype


@pytest.mark.parametrize("portion", [1 << 22, 64])
@pytest.mark.parametrize("name", ["mst", "aim", "privbayes", "kamino"])
def test_a_row_is_filled_the_same_beside_any_rows(name, portion, monkeypatch):
    """Many rows of a wider table, alone and among others, in large and in small portions of memory."""
    rng = np.random.default_rng(0)
    sizes = (3, 4, 5, 2, 6, 3)
    schema = letters_schema(sizes)
    codes = rng.integers(0, 2, (400, 1)) + rng.integers(0, 2, (400, 6))
    cells = [[chr(97 + min(c, size - 1)) for c, size in zip(row, sizes, strict=True)] for row in codes]
    table = private([tuple(cells) for cells in cells], schema, Path(tempfile.mkdtemp()), budget=gl.Budget(20.0, 1e-6))
    with fixed_noise(1):
        model = METHODS[name]().fit(table, spend=table.ledger.left)
    given_ = np.where(rng.random((1500, 6)) < 0.4, -1, rng.integers(0, 2, (1500, 6)))
    draws = [rng.random(1500) for _ in range(80)]
    monkeypatch.setattr(sampling, "_CELLS", portion)
    monkeypatch.setattr(bayesian_network, "_CELLS", portion)

    def filled(rows):
        numbers = iter(draws)
        return model.fill(given_[rows], lambda: next(numbers)[rows])

    everybody = filled(np.arange(1500))
    for rows in (np.arange(0, 1500, 7), np.array([3]), np.arange(700)):
        assert np.array_equal(filled(rows), everybody[rows])


def test_the_chance_of_a_row_does_not_depend_on_those_after_it():
    """For every seed, not only on average: the numbers of the first rows stay when rows are added."""
    with mock.patch.object(filling.secrets, "randbits", return_value=5):
        few, many = filling.secret_row_randomness(3), filling.secret_row_randomness(7)
    first = [few() for _ in range(4)]
    assert all(np.array_equal(numbers, many()[:3]) for numbers in first)
    assert len({numbers[0] for numbers in first}) == 4
    assert not np.array_equal(filling.secret_row_randomness(3)(), filling.secret_row_randomness(3)())


# ------------------------------------------------------------------ column by column


@cache
def column_distributions():
    """The conditionals of a model that was trained column by column, with their order."""
    table = private(people(), SCHEMA, Path(tempfile.mkdtemp()), budget=gl.Budget(10.0, 1e-6))
    with fixed_noise(3):
        model = gl.Kamino(architecture="columns", steps=20, missing=gl.Observed()).fit(table, spend=table.ledger.left)
    return model.filled.conditionals


def filled_column_by_column(rows, seed):
    """The table's rows after each column's gaps were filled given the earlier columns, as KaminoI does."""
    table, model = private(rows, SCHEMA, Path(tempfile.mkdtemp())), column_distributions()
    names = [SCHEMA.names[place] for place in model.order]
    with mock.patch.object(filling.secrets, "randbits", return_value=seed):
        for place, distribution in enumerate(model.conditionals):
            table = table.fill_column(names[place], distribution, given=names[:place])
        assert not any(column.gaps for column in table.schema.columns)
        return list(zip(*(codes.tolist() for codes in reveal(table._rows, table.ledger).columns), strict=True))


@examples(40)
@given(pair=neighbours)
def test_with_models_frozen_a_row_more_is_one_filled_row_more(pair):
    rows, more, seed = pair
    less, greater = (filled_column_by_column(some, seed) for some in (rows, rows + more))
    assert greater[: len(rows)] == less
    assert len(greater) == len(rows) + len(more)
    for before, after in zip(zip(*encoded(rows), strict=True), less, strict=True):
        for code, cell, column in zip(before, after, SCHEMA.columns, strict=True):
            assert cell == code if code < column.size else cell < column.size


# ------------------------------------------------------------------ planted: the test finds what is not row by row


def from_other_rows(columns, chance):
    """Hot deck: a gap takes a cell of another row, as published code does and calls free."""
    filled = []
    for codes, size in zip(columns, (column.size for column in SCHEMA.columns), strict=True):
        donors = codes[codes < size]
        chosen = (chance() * len(donors)).astype(int)
        filled.append(np.where(codes < size, codes, donors[chosen] if len(donors) else 0))
    return filled


def by_the_mean_of_the_rows(columns, chance):
    """The exact mean of the column."""
    sizes = [column.size for column in SCHEMA.columns]
    return [
        np.where(codes < size, codes, round(float(codes[codes < size].mean())) if (codes < size).any() else 0)
        for codes, size in zip(columns, sizes, strict=True)
    ]


def by_its_place(columns, chance):
    """Chance that belongs to the gap's number and not to the row: gaps above take it from those below."""
    filled = []
    for codes, column in zip(columns, SCHEMA.columns, strict=True):
        gaps = codes >= column.size
        drawn = (chance()[::-1][: gaps.sum()] * column.size).astype(int)
        whole = codes.copy()
        whole[gaps] = drawn
        filled.append(whole)
    return filled


@pytest.mark.parametrize("planted", [from_other_rows, by_the_mean_of_the_rows, by_its_place])
def test_a_planted_imputer_that_looks_at_other_rows_is_caught(planted):
    rows = [(None, None, None)] * 6 + [("a", "a", "a")] * 3
    more = [("b", "c", "b")] * 3
    assert any(moved(planted, rows, more, seed) != (0, 3) for seed in range(5))


def test_a_model_that_looks_at_other_rows_is_caught():
    """The same through the conditional path: a model whose draws go by groups, like an ordinary sample."""

    class Grouped:
        schema = SCHEMA

        @staticmethod
        def fill(given, chance):  # noqa: ARG004 planted
            filled = given.copy()
            for c, size in enumerate(column.size for column in SCHEMA.columns):
                gaps = np.flatnonzero(given[:, c] < 0)
                filled[gaps, c] = np.arange(len(gaps)) * size // max(1, len(gaps))  # each cell equally often
            return filled

    rows = [(None, "a", "a")] * 4
    assert moved(lambda columns, chance: fill_given(columns, Grouped, chance), rows, [(None, "b", "b")], 0) != (0, 1)


# ------------------------------------------------------------------ the distribution of filled cells


def test_conditional_filling_follows_the_distribution():
    """Each model, one row many times: the frequencies are those of the joint distribution given the known cells.

    Bound of six standard deviations for each cell: false alarm below 1e-7; a wrong column order is far outside it.
    """
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(12) * 2).reshape(2, 3, 2)
    graphical = GraphicalModel.fit((2, 3, 2), [Measurement((0, 1, 2), 1e6 * joint, 1e-3)], sweeps=200)
    joint = graphical.marginal((0, 1, 2))
    first, second = joint.sum(axis=(1, 2)), joint.sum(axis=2)
    every = [np.arange(size) for size in (2, 3, 2)]
    bayesian = BayesianNetwork(
        (2, 3, 2),
        [Node(0), Node(1, (0,), (every[0],)), Node(2, (0, 1), (every[0], every[1]))],
        [first, second / first[:, None], joint / second[..., None]],
    )
    product = Product(tuple(joint.sum(axis=tuple({0, 1, 2} - {c})) for c in range(3)))
    many = 40_000
    for known in ([-1, -1, 1], [0, -1, -1], [-1, 2, -1], [-1, -1, -1]):
        given_ = np.tile(np.array(known), (many, 1))
        seen = tuple(slice(None) if code < 0 else slice(code, code + 1) for code in known)
        for model, distribution in (
            (graphical, joint),
            (bayesian, joint),
            (product, np.einsum("i,j,k", *product.probabilities)),
        ):
            expected = np.zeros_like(distribution)
            expected[seen] = distribution[seen] / distribution[seen].sum()
            codes = model.fill(given_, lambda: rng.random(many))
            found = np.bincount(np.ravel_multi_index(codes.astype(int).T, (2, 3, 2)), minlength=12).reshape(2, 3, 2)
            off = np.abs(found / many - expected) / np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / many)
            assert off.max() < 6, (type(model).__name__, known)
            wrong = np.abs(found / many - expected[::-1, ::-1, ::-1]).max()
            assert wrong > 0.01


def test_cells_without_probability_are_never_drawn():
    distribution = np.array([0.25, 0.75, 0.0])
    (drawn,) = fill_gaps(
        [np.full(4, 3, dtype=np.uint8)], [distribution], lambda: np.array([0.0, 0.2499, 0.25, 1 - 2**-53])
    )
    assert drawn.tolist() == [0, 0, 1, 1]


# ------------------------------------------------------------------ what is paid, and what comes out


@pytest.mark.parametrize("name", ["impute-mean", "impute-mode", "impute-distribution"])
@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_the_imputer_pays_its_share_and_no_more(name, share, tmp_path):
    table = private(people(), SCHEMA, tmp_path)
    missing = gl.ImputeFirst(STRATEGIES[name]().imputer, share)
    gl.MST(missing=missing).fit(table, spend=table.ledger.left)
    paid = [e.loss for e in table.ledger.entries if e.what.endswith("to fill gaps")]
    assert len(paid) == 3
    assert sum(paid) == pytest.approx(share * table.ledger.capacity.value)
    assert table.ledger.left.value == pytest.approx(0, abs=1e-6 * table.ledger.capacity.value)


def test_a_synthesizer_as_imputer_pays_its_share_and_a_fitted_model_nothing(tmp_path):
    table = private(people(), SCHEMA, tmp_path)
    gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(gl.MST()), 0.4)).fit(
        table, spend=table.ledger.share("50%")
    )
    capacity = table.ledger.capacity.value
    by = {who: sum(e.loss for e in table.ledger.entries if e.to == who) for who in ("MST.fit", "Independent.fit")}
    assert by["MST.fit"] == pytest.approx(0.2 * capacity, rel=1e-6)
    assert by["Independent.fit"] == pytest.approx(0.3 * capacity, rel=1e-6)
    (tmp_path / "other").mkdir()
    other = private(people(), SCHEMA, tmp_path / "other")
    fitted = gl.MST().fit(other, spend=other.ledger.left)
    of_a_test = gl.ImputeFirst(
        gl.missing.FromModel(model_of(gl.MST))
    )  # without noise it might carry cells of its table
    with pytest.raises(gl.errors.ModelError, match="fitted with the noise of a test"):
        gl.Independent(missing=of_a_test).fit(table, spend=table.ledger.left)
    gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(fitted))).fit(table, spend=table.ledger.left)
    assert {e.what for e in table.ledger.entries if e.to == "Independent.fit"} == {*SCHEMA.names, "number of rows"}
    assert table.ledger.left.value == 0


def test_a_grant_lends_no_more_than_it_has(tmp_path):
    table = private([], SCHEMA, tmp_path)
    grant = Grant(table.ledger, table.ledger._key, table.ledger.capacity, "test")
    assert grant.transfer(grant.left * 0.6) == table.ledger.capacity * 0.6
    assert grant.left.value == pytest.approx(table.ledger.capacity.value * 0.4)
    with pytest.raises(
        gl.errors.BudgetError,
        match=r"a part of .* of the budget was asked of this grant, but only .* of the budget is left in it",
    ):
        grant.transfer(table.ledger.capacity * 0.5)


def test_values_that_mean_and_mode_impute(tmp_path):
    nowhere = [gl.MissingCode("x", "not-applicable")]
    schema = gl.Schema(
        "t",
        [
            gl.Integer("age", bounds=(0, 99), bins=10, may_be_missing=True, missing=nowhere),
            gl.Ordinal("health", ["bad", "fair", "good"], may_be_missing=True),
            gl.Categorical("colour", ["red", "green"], may_be_missing=True),
            gl.Boolean("certain"),
        ],
    )
    rows = [("5", "bad", "red", "yes")] * 30 + [("75", "good", "red", "no")] * 70 + [("x", None, None, "no")] * 900
    rows += [(None, None, None, "yes")] * 50
    table = private(rows, schema, tmp_path, budget=gl.Budget(1e4, 0))

    def filled(imputer):
        grant = Grant(table.ledger, table.ledger._key, table.ledger.share("10%"), "test")
        done = imputer.impute(table, grant, grant.left)
        return [codes[-50:] for codes in reveal(done._rows, table.ledger).columns]

    age, health, colour, certain = filled(gl.missing.FromMean())
    assert set(age) == {5}  # 0.3 · 4.5 + 0.7 · 74.5 = 53.5
    assert set(health) == {1}  # 0.7 · 2 = 1.4
    assert set(colour) == {0}
    assert set(certain) == {1}
    age, health, _, _ = filled(gl.missing.FromMode())
    assert set(age) == {10}  # not applicable is the most frequent cell
    assert set(health) == {2}
    age, health, _, _ = filled(gl.missing.FromDistribution())
    assert set(age) <= {0, 7, 10}
    assert set(health) == {0, 2}
    assert not [e for e in table.ledger.entries if "certain" in e.what]  # it cannot be missing: nothing to learn


@pytest.mark.parametrize("method", [gl.Independent, gl.MST, gl.AIM, gl.PrivBayes])
def test_a_public_table_is_imputed(method):
    model = model_of(method)
    table = gl.Table(SCHEMA, [np.array([0, 2, 1]), np.array([4, 1, 5]), np.array([2, 2, 0])], rows=3)
    whole = model.impute(table, seed=1)
    assert whole.schema == SCHEMA
    assert gl.missing.patterns(whole).complete == 3
    assert (whole.codes[0][[0, 2]] == [0, 1]).all()
    assert whole.codes[1][1] == 1
    again = model.impute(table, seed=1)
    assert all(np.array_equal(a, b) for a, b in zip(whole.codes, again.codes, strict=True))
    for before, after, codes in zip(table.to_polars(), whole.to_polars(), table.codes, strict=True):
        stay = codes == whole.codes[SCHEMA.names.index(before.name)]
        assert after.filter(stay).equals(before.filter(stay))
    empty = gl.Table(SCHEMA, [np.zeros(0)] * 3, rows=0)
    assert len(model.impute(empty)) == 0


@pytest.mark.parametrize("method", [gl.MST, gl.PrivBayes, gl.Independent])
def test_imputed_rows_keep_the_rules_where_what_is_observed_lets_them(method):
    model = model_of(method, RULED)
    table = gl.Table(RULED, [np.array([0, 2, 0] * 200), np.full(600, 4), np.array([2, 1, 1] * 200)], rows=600)
    whole = model.impute(table, seed=2)
    assert (whole.codes[2][0::3] == 0).all()  # x0 = a forbids x2 = b
    assert (whole.codes[0][1::3] == 1).all()
    assert (whole.codes[0][2::3] == 0).all()  # broken as it was observed


def test_impute_refuses_what_it_cannot_fill(tmp_path):
    model = model_of(gl.MST)
    with pytest.raises(gl.errors.SealedError, match="public Table, not a PrivateTable"):
        model.impute(private([], SCHEMA, tmp_path))
    with pytest.raises(gl.errors.ModelError, match="needs a table with the columns and cells of the model"):
        model.impute(gl.Table(letters_schema((2, 3)), [np.zeros(0)] * 2, rows=0))
    with pytest.raises(gl.errors.ModelError, match="seed"):
        model.impute(gl.Table(SCHEMA, [np.zeros(0)] * 3, rows=0), seed=-1)
    with pytest.raises(gl.errors.SchemaError, match="other columns or cells"):
        private([], letters_schema((2, 2)), tmp_path).fill_given(model)


@pytest.mark.parametrize(
    ("synthesizer", "budget", "error"),
    [
        (gl.MST(missing=gl.ImputeFirst(gl.missing.FromMean()), cap_cells=3), 1.0, gl.errors.ModelError),
        (gl.AIM(missing=gl.ImputeFirst(gl.missing.FromMean()), cap_cells=3), 1.0, gl.errors.ModelError),
        (gl.PrivBayes(missing=gl.ImputeFirst(gl.missing.FromMean()), cap_cells=2), 1.0, gl.errors.ModelError),
        (gl.MST(missing=gl.ImputeFirst(gl.missing.FromMean(), 0.99)), 1e-6, gl.errors.BudgetError),
        (gl.AIM(missing=gl.ImputeFirst(gl.missing.FromMean(), 0.99)), 1e-6, gl.errors.BudgetError),
        (gl.PrivBayes(missing=gl.ImputeFirst(gl.missing.FromMean(), 0.99)), 1e-6, gl.errors.BudgetError),
    ],
)
def test_public_refusals_come_before_the_imputer_spends(synthesizer, budget, error, tmp_path):
    table = private(people(), SCHEMA, tmp_path, budget=gl.Budget(budget, 0))
    with pytest.raises(error):
        synthesizer.fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


def test_privbayes_counts_the_rows_of_a_filled_table_once(tmp_path):
    for missing, times in ((gl.ImputeFirst(), 1), (gl.CompleteRows(), 2)):
        table = private(people(), SCHEMA, tmp_path)
        gl.PrivBayes(missing=missing).fit(table, spend=table.ledger.left)
        assert [e.what for e in table.ledger.entries].count("number of rows") == times
