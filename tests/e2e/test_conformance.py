"""The suite that every synthesizer must pass, with every budget and treatment of gaps that it declares."""

import math
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.missing import STRATEGIES
from gapless.report.statement import privacy_statement
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise
from helpers import fast_methods
from helpers.chain_synthesizer import Chain
from helpers.fast_methods import GANS


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns(gl.Kamino):
    """The other architecture, as a separate method."""

    architecture: str = "columns"


METHODS = fast_methods.METHODS | {"chain": Chain, "columns": Columns}
BUDGETS = {"pure": gl.Budget(1.0, 0), "approximate": gl.Budget(1.0, 1e-6)}
LONG = {"aim", "mst", "mixture", "factors", "kamino", "columns", *GANS}  # where there are many columns
SINGLE_METHODS = [method for method in METHODS if method != "auto"]  # auto is one of the others
TREATMENTS = [
    name for name in STRATEGIES if name not in {"impute-mode", "impute-distribution"}
]  # they pay as the mean does
PAIRS = [(method, missing) for method in METHODS for missing in STRATEGIES]
DECLARED = [pair for pair in PAIRS if isinstance(STRATEGIES[pair[1]](), METHODS[pair[0]].treatments)]


QUICK_GANS = {("misgan", "observed"), ("dpgan", "extended"), ("pategan", "extended")}  # the others have the same core


def marked(method, *more):
    """Cases that have separate tests, or much in common with others, and take longer."""
    slow = method == "columns" or (method in GANS and (method, *more[:1]) not in QUICK_GANS)
    return pytest.param(method, *more, marks=pytest.mark.slow) if slow else (method, *more)


TREATED = [(method, missing) for method, missing in DECLARED if method in SINGLE_METHODS and missing in TREATMENTS]
EVERY = [marked(*pair) for pair in TREATED]
PAID = [marked(*pair, budget) for pair in TREATED for budget in BUDGETS if budget != "pure" or METHODS[pair[0]].pure]


def schema(columns=4):
    kinds = [
        gl.Categorical(
            "color", ["red", "green", "blue"], may_be_missing=True, missing=["", gl.MissingCode("-", "refused")]
        ),
        gl.Integer("age", bounds=(0, 99), bins=5),
        gl.Number("income", bounds=(0, 1e5), bins=4, may_be_missing=True),
        gl.Date("born", bounds=("1950-01-01", "1999-12-31"), resolution="month", bins=3, may_be_missing=True),
        gl.Boolean("single", may_be_missing=True),
        gl.Ordinal("only", ["one level"]),
    ]
    return gl.Schema("people", kinds[:columns])


def people(rows, columns=4, seed=0):
    rng = np.random.default_rng(seed)
    frame = {
        "color": rng.choice(["red", "green", "blue", "", "-"], rows),
        "age": rng.integers(0, 100, rows),
        "income": np.where(rng.random(rows) < 0.3, np.nan, rng.uniform(0, 1e5, rows)),
        "born": np.array("1960-05-01", dtype="datetime64[D]") + rng.integers(0, 9999, rows),
        "single": rng.choice(["yes", "no", ""], rows),
        "only": np.full(rows, "one level"),
    }
    return pl.DataFrame(dict(list(frame.items())[:columns]))


def synthesizer(method, missing):
    return METHODS[method](missing=STRATEGIES[missing]())


def taken(method):
    """A treatment of gaps that a method takes."""
    return next(missing for some, missing in DECLARED if some == method)


def distribution(model, column):
    """The distribution of a column; counted in a sample if the model has no marginals."""
    known = model.marginal_if_known(column)
    return model.sample(30_000, seed=0).marginal(column) / 30_000 if known is None else known


def fitted(method, missing, table):
    return synthesizer(method, missing).fit(table, spend=table.ledger.left)


@cache
def with_much_budget(method, missing):
    """A model of 3,000 rows at ε = 100, which several tests look at."""
    table = private(people(3000), schema(), Path(tempfile.mkdtemp()), budget=gl.Budget(100.0, 1e-6))
    return fitted(method, missing, table)


@cache
def of_six_columns(method, missing):
    """A model of all kinds of columns, which several tests look at."""
    return fitted(method, missing, private(people(300, 6), schema(6), Path(tempfile.mkdtemp())))


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if pair not in DECLARED])
def test_a_treatment_of_gaps_that_is_not_declared_is_refused_before_anything_is_spent(pair, tmp_path):
    table = private(people(20), schema(), tmp_path)
    with pytest.raises(
        gl.errors.ModelError, match=r"\.fit: this method does not accept missing = .*\n  Try: pass missing=\w+\(\)"
    ):
        fitted(*pair, table)
    assert not table.ledger.entries


@pytest.mark.parametrize("method", [method for method in METHODS if not METHODS[method].pure])
def test_a_pure_budget_that_is_not_declared_is_refused_before_anything_is_spent(method, tmp_path):
    table = private(people(20), schema(), tmp_path, budget=BUDGETS["pure"])
    with pytest.raises(
        gl.errors.BudgetError,
        match=r"\.fit: this method needs a δ above 0, but the budget has δ = 0\n  Try: choose another method",
    ):
        fitted(method, taken(method), table)
    assert not table.ledger.entries


@pytest.mark.parametrize(("method", "missing", "budget"), PAID)
def test_the_budget_is_spent_exactly_and_every_read_is_an_entry(method, missing, budget, tmp_path):
    table = private(people(300), schema(), tmp_path, budget=BUDGETS[budget])
    share = table.ledger.share("60%")
    synthesizer(method, missing).fit(table, spend=share)
    assert table.ledger.spent.value <= share.value * (1 + 1e-12)
    assert table.ledger.spent.value == pytest.approx(share.value, rel=1e-3)
    for entry in table.ledger.entries:
        assert entry.noise == "system"
        assert entry.loss > 0
        if missing == "extended":
            assert entry.reads is None
        elif entry.what != "number of rows":
            assert entry.reads is None or set(entry.reads) <= set(table.schema.names)
    if missing == "complete-rows":
        lacking = sorted(column.name for column in table.schema.columns if column.gaps)
        assert any(entry.reads == lacking for entry in table.ledger.entries)


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_a_sample_is_complete_fits_the_schema_and_repeats(method, missing):
    model = of_six_columns(method, missing)
    sample = model.sample(50, seed=7)
    assert len(sample) == 50
    assert sample.to_polars().null_count().sum_horizontal().item() == 0
    assert sample.to_polars().equals(model.sample(50, seed=7).to_polars())
    assert not sample.to_polars().equals(model.sample(50, seed=8).to_polars())
    assert not model.sample(50).to_polars().equals(model.sample(50).to_polars())
    for codes, column in zip(sample.codes, model.schema.columns, strict=True):
        assert codes.max(initial=0) < column.size


@pytest.mark.parametrize(
    ("method", "missing"), [marked(*pair) for pair in DECLARED if pair[1] in {"extended", "observed"}]
)
def test_at_an_absurd_budget_there_is_a_model_all_the_same(method, missing, tmp_path):
    table = private(people(300), schema(), tmp_path, budget=gl.Budget(1e5, 0.0 if METHODS[method].pure else 1e-6))
    model = fitted(method, missing, table)
    sample = model.sample(300, seed=1)
    kept = gl.Table.read(people(300).select("age"), schema=table.schema.select(["age"]))
    assert np.abs(distribution(model, "age") - np.bincount(kept.codes[0], minlength=5) / 300).max() < 0.02
    statement = "\n".join(privacy_statement(model, sample, table.ledger))
    assert "e^ε = 10^43430." in statement  # 100,000 / ln 10, rounded up


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_gaps_as_observed(method, missing):
    model = with_much_budget(method, missing)
    if missing != "extended" and not isinstance(STRATEGIES[missing](), METHODS[method].learns_gaps):
        with pytest.raises(gl.errors.ModelError, match="did not measure the gaps"):
            model.sample(10, gaps="as-observed")
        return
    rates = gl.missing.patterns(model.sample(2000, seed=1, gaps="as-observed")).rates
    assert rates["color"] == pytest.approx(0.4, abs=0.07)
    assert rates["income"] == pytest.approx(0.3, abs=0.07)
    assert rates["age"] == 0


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_a_saved_model_is_the_same_model(method, missing, tmp_path):
    model = of_six_columns(method, missing)
    model.save(tmp_path / "m")
    again = gl.load(tmp_path / "m")
    assert again.facts == model.facts
    assert again.private
    assert again.schema == model.schema
    assert again.sample(40, seed=3).to_polars().equals(model.sample(40, seed=3).to_polars())
    assert again.describe() == model.describe()
    again.save(tmp_path / "again")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "again").read_bytes()


def test_a_model_that_was_paid_for_is_not_replaced(tmp_path):
    model = fitted("independent", "extended", private(people(20), schema(), tmp_path))
    (tmp_path / "m").write_text("paid for")
    with pytest.raises(
        gl.errors.ModelError, match=r"m' exists, .* paid for\n  Try: choose another name, or pass overwrite=True"
    ):
        model.save(tmp_path / "m")
    assert (tmp_path / "m").read_text() == "paid for"
    model.save(tmp_path / "m", overwrite=True)
    assert gl.load(tmp_path / "m").describe() == model.describe()


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_no_cell_of_the_data_is_in_the_model_file(method, missing, tmp_path):
    odd = pl.DataFrame({"a": ["x", "MARKER", "y"] * 40, "b": ["u", "u", "MARKER"] * 40})
    public = gl.Schema("odd", [gl.Categorical(c, ["x", "y", "u"], may_be_missing=True) for c in "ab"])
    table = private(odd, public, tmp_path)
    model = fitted(method, missing, table)
    model.save(tmp_path / "m")
    content = b"".join(path.read_bytes() for path in Path(tmp_path).iterdir())
    assert b"MARKER" not in content


@pytest.mark.parametrize(("method", "missing"), EVERY)
@pytest.mark.parametrize("rows", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_tiny_tables(method, missing, rows, tmp_path):
    table = private(people(rows), schema(), tmp_path)
    model = fitted(method, missing, table)
    assert math.isfinite(model.total)
    assert len(model.sample(5, seed=0)) == 5
    assert len(model.sample(0)) == 0
    assert len(model.sample(seed=0)) >= 0


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_a_column_that_is_missing_throughout(method, missing, tmp_path):
    frame = people(200).with_columns(pl.lit(None, dtype=pl.Float64).alias("income"))
    model = fitted(method, missing, private(frame, schema(), tmp_path))
    assert len(model.sample(30, seed=0)) == 30


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_a_single_column(method, missing, tmp_path):
    model = fitted(method, missing, private(people(200, 1), schema(1), tmp_path))
    assert len(model.sample(30, seed=0)) == 30


@pytest.mark.parametrize("others", [pytest.param(0, marks=pytest.mark.slow), 3])
@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_no_method_measures_columns_of_one_cell(method, missing, others, tmp_path):
    """But one, for the number of rows, where there is no other column."""
    public = [*(schema(others).columns if others else ()), gl.Ordinal("same", ["x"]), gl.Categorical("alike", ["x"])]
    frame = pl.DataFrame(people(200, others).to_dict() | {"same": ["x"] * 200, "alike": ["x"] * 200})
    table = private(frame, gl.Schema("people", public), tmp_path)
    model = fitted(method, missing, table)
    measured = [entry for entry in table.ledger.entries if "same" in entry.what or "alike" in entry.what]
    assert len(measured) <= (0 if others else 1)
    assert set(model.sample(20, seed=0).to_polars()["alike"]) == {"x"}


def test_many_columns_of_methods_that_compare_all_pairs(tmp_path):
    """The test below in the ordinary run, for methods that take long with 200."""
    for method in ("mst", "mixture", "factors"):
        check_width(method, 50, tmp_path)


@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=pytest.mark.slow) if m in LONG else m for m in SINGLE_METHODS]
)
def test_two_hundred_columns(method, tmp_path):
    check_width(method, 40 if method == "columns" else 200, tmp_path)  # its time grows with the square


def check_width(method, width, tmp_path):
    rng = np.random.default_rng(0)
    frame = pl.DataFrame({f"c{i}": rng.choice(["a", "b", "c", ""], 500) for i in range(width)})
    public = gl.Schema("wide", [gl.Categorical(n, ["a", "b", "c"], may_be_missing=True) for n in frame.columns])
    model = fitted(method, taken(method), private(frame, public, tmp_path, budget=gl.Budget(5.0, 1e-6)))
    assert len(model.sample(100, seed=0)) == 100


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_a_very_small_budget(method, missing, tmp_path):
    model = fitted(method, missing, private(people(300), schema(), tmp_path, budget=gl.Budget(0.01, 1e-6)))
    assert len(model.sample(100, seed=0)) == 100


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_with_much_budget_the_columns_come_out_right(method, missing):
    frame, model = people(3000), with_much_budget(method, missing)
    assert len(model.sample(100, seed=0)) == 100
    assert model.total == pytest.approx(3000, abs=20)
    complete = frame.filter(~pl.col("color").is_in(["", "-"]) & pl.col("income").is_not_nan())
    truth = gl.Table.read(complete if missing == "complete-rows" else frame, model.schema)
    for name in model.schema.names:
        counts = truth.marginal(name)
        if missing.startswith("impute") and model.schema[name].may_be_missing:
            continue  # filled evenly, or all alike: biased on purpose
        assert np.abs(distribution(model, name) - counts / counts.sum()).sum() < 0.05, name


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_the_same_noise_gives_the_same_model_and_is_stamped(method, missing, tmp_path):
    models = []
    for _ in range(2):
        table = private(people(300), schema(), tmp_path)
        with fixed_noise(seed=5):
            models.append(fitted(method, missing, table))
        assert str(table.ledger.guarantee()).startswith("NOT PRIVATE")
    if not missing.startswith("impute"):  # filling is random too
        assert np.array_equal(distribution(models[0], "color"), distribution(models[1], "color"))


@pytest.mark.parametrize("rows", [-1, 1.5, "10", True])
def test_a_wrong_number_of_rows(rows, tmp_path):
    model = fitted("independent", "extended", private(people(20), schema(), tmp_path))
    with pytest.raises(gl.errors.ModelError, match="rows = "):
        model.sample(rows)


def test_wrong_gaps_and_seeds(tmp_path):
    model = fitted("independent", "extended", private(people(20), schema(), tmp_path))
    with pytest.raises(gl.errors.ModelError, match="gaps must be"):
        model.sample(1, gaps="some")
    with pytest.raises(gl.errors.ModelError, match="seed"):
        model.sample(1, seed=-1)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"hello", b"\x80\x04."])
def test_a_foreign_model_file(content, tmp_path):
    (tmp_path / "m").write_bytes(content)
    with pytest.raises(gl.errors.ModelError, match="not a gapless model"):
        gl.load(tmp_path / "m")
