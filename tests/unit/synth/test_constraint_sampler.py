"""Constraints of every kind in what is sampled and written, by every method; soft ones, and what they cost."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.comparison import compare_rules
from gapless.missing import Observed
from gapless.model.distribution import Product
from gapless.report.release_page import release_page
from gapless.report.statement import privacy_statement
from gapless.schema import Constraint
from gapless.synth.constraint_sampler import ConstraintSampler
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.fast_methods import GANS, METHODS, TRIED

ROWS = 1500
KEPT = {
    "dependency": "t1.job == t2.job and t1.wage != t2.wage",
    "inequality": "t1&t2&LT(t1.gain,t2.gain)&LT(t1.loss,t2.loss)",
    "between columns": "t1.begin > t1.end",
    "columns of two rows": "t1.job == t2.job and t1.begin > t2.end",
    "values of two rows": "t1.job == 'j1' and t2.job == 'j2'",
}
SOFT = "t1.job == t2.job and t1.town != t2.town"
COLUMNS = [
    gl.Categorical("job", [f"j{code}" for code in range(6)], may_be_missing=True),
    gl.Number("wage", bounds=(0, 100), bins=8, may_be_missing=True),
    gl.Integer("gain", bounds=(0, 999), edges=(0, 1, 200, 500, 999), may_be_missing=True),
    gl.Integer("loss", bounds=(0, 499), edges=(0, 100, 300, 499)),
    gl.Date("begin", bounds=("2020-01-01", "2020-12-31"), bins=6, may_be_missing=True),
    gl.Date("end", bounds=("2020-01-01", "2020-12-31"), bins=5),
    gl.Categorical("town", ["A", "B", "C"], may_be_missing=True),
]


def people():
    rng = np.random.default_rng(0)
    job = rng.integers(0, 6, ROWS)
    gain = np.where(rng.random(ROWS) < 0.8, 0, rng.integers(1, 1000, ROWS))
    day = np.datetime64("2020-01-01")
    frame = pl.DataFrame(
        {
            "job": [f"j{code}" for code in job],
            "wage": np.array([12.0, 25, 33, 47, 52, 88])[job],
            "gain": gain,
            "loss": np.where((gain == 0) & (rng.random(ROWS) < 0.3), rng.integers(1, 500, ROWS), 0),
            "begin": day + rng.integers(0, 200, ROWS),
            "end": day + 365 - rng.integers(0, 160, ROWS),
            "town": np.where(rng.random(ROWS) < 0.8, np.array(list("ABCABC"))[job], "A"),
        }
    )
    lacking = rng.random((ROWS, 7)) < 0.1
    return frame.with_columns(
        pl.when(pl.Series(lacking[:, place])).then(None).otherwise(pl.col(column.name)).alias(column.name)
        for place, column in enumerate(COLUMNS)
        if column.may_be_missing
    )


def schema(*rules):
    return gl.Schema("people", COLUMNS, constraints=[Constraint(rule) for rule in rules])


def broken(table):
    return [rule.other.rows for rule in compare_rules(table, table)]


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    models = {}
    for method in TRIED:
        table = private(people(), schema(*KEPT.values()), tmp_path_factory.mktemp(method), budget=gl.Budget(2.0, 1e-6))
        models[method] = METHODS[method]().fit(table, spend=table.ledger.left), table.ledger
    return models


@pytest.mark.parametrize(
    "how", [{}, {"gaps": "as-observed"}, {"given": {"job": "j3"}}, {"given": {"gain": 250, "end": "2020-11-01"}}]
)
@pytest.mark.parametrize("method", TRIED)
def test_written_rows_keep_every_rule(fitted, method, how, tmp_path):
    model, _ = fitted[method]
    model.save(tmp_path / "m")
    if "given" in how and method in GANS:
        with pytest.raises(gl.errors.ModelError, match="cannot be sampled given some cells"):
            model.sample(900, seed=3, **how)
        return
    for some in (model, gl.load(tmp_path / "m")):
        rows = some.sample(900, seed=3, **how)
        assert rows.rows == 900
        assert broken(rows) == [0] * 5
        rows.write(tmp_path / "rows.csv")
        assert broken(gl.Table.read(tmp_path / "rows.csv", model.schema)) == [0] * 5
        for name in how.get("given", ()):
            assert rows[name].n_unique() == 1


@pytest.mark.parametrize("method", TRIED)
def test_samples_of_one_model_keep_the_rules_together(fitted, method):
    model, _ = fitted[method]
    frames = [model.sample(300, seed=seed).to_polars() for seed in range(3)]
    assert broken(gl.Table.read(pl.concat(frames), model.schema)) == [0] * 5


@dataclass(frozen=True)
class Sampled:
    """A distribution that can only be sampled."""

    kind: ClassVar[str] = "sampled"
    distribution: Any

    def sample(self, rows, rng):
        return self.distribution.sample(rows, rng)

    def to_arrays(self):
        return {}

    @classmethod
    def from_arrays(cls, arrays):
        raise NotImplementedError


def test_a_distribution_without_marginals_keeps_them_too(fitted):
    model, _ = fitted["mixture"]
    only = replace(model, filled=Sampled(model.filled), gapped=Sampled(model.gapped))
    for gaps in ("filled", "as-observed"):
        rows = only.sample(900, seed=1, gaps=gaps)
        assert broken(rows) == [0] * 5
        assert rows["job"].n_unique() >= 5


def test_columns_of_a_rule_are_measured_together(fitted):
    entries = {entry.what for entry in fitted["mst"][1].entries}
    assert {"job × wage", "gain × loss", "job × begin × end"} <= entries


def test_a_dependency_has_one_value_for_each_job_and_not_one_for_each_bin(fitted):
    model, _ = fitted["mst"]
    frame = model.sample(900, seed=0).to_polars()
    values = frame.group_by("job").agg(pl.col("wage").n_unique())
    assert values["wage"].to_list() == [1] * len(values)
    middles = model.schema["wage"].bin_midpoints()
    assert not frame["wage"].is_in(middles.tolist()).any()


def test_describe_lists_the_rules(fitted):
    model, ledger = fitted["mst"]
    lines = model.constraints()
    assert lines[0] == f"constraint kept, forbidden: {KEPT['dependency']}"
    assert lines[-1].startswith(
        "so that values keep the constraints, bins have one value each where that is needed: wage"
    )
    assert f"  {lines[0]}" in model.describe().splitlines()
    sample = model.sample(100, seed=0)
    assert f"- Constraint kept, forbidden: {KEPT['dependency']}." in list(privacy_statement(model, sample, ledger))
    assert "<h2>Constraints</h2>" in release_page(model, sample, ledger)


def test_a_rule_against_rows_alike_is_named_as_not_enforced(tmp_path):
    table = private(people(), schema("t1.wage == t2.wage"), tmp_path)
    model = gl.Independent().fit(table, spend=table.ledger.left)
    assert model.not_enforced() == ["t1.wage == t2.wage"]
    assert "  constraint not enforced, forbidden: t1.wage == t2.wage" in model.describe().splitlines()


def test_rules_that_leave_no_row_are_refused_at_reading(tmp_path):
    rules = ["t1.town == 'A' and t2.loss >= 0", "t1.town == 'B' and t2.loss >= 0", "t1.town == 'C' and t2.loss >= 0"]
    with pytest.raises(gl.errors.SchemaError, match=r"forbid every row\n  Try: remove one of the constraints"):
        private(people().with_columns(pl.col("town").fill_null("A")), schema(*rules), tmp_path)


def test_rules_beyond_the_cap_are_kept_in_sampling(tmp_path):
    table = private(people(), schema(KEPT["columns of two rows"]), tmp_path, budget=gl.Budget(2.0, 1e-6))
    model = gl.MST(cap_cells=100).fit(table, spend=table.ledger.left)
    assert "job × begin × end" not in {entry.what for entry in table.ledger.entries}
    assert broken(model.sample(900, seed=0)) == [0]


def test_independent_columns_keep_their_marginals_on_average(tmp_path):
    """The partner of a job is drawn by chance: the most frequent town for all would leave no other."""
    table = private(people(), schema(SOFT), tmp_path, budget=gl.Budget(2.0, 1e-6))
    rows = gl.Independent().fit(table, spend=table.ledger.left).sample(900, seed=0)
    assert broken(rows) == [0]
    assert rows["town"].n_unique() > 1


# ---------------------------------------------------------------------- soft rules


def softened(weight, tmp_path, *, method="mst", missing=None, budget=None):
    schema = gl.Schema("people", COLUMNS, constraints=[Constraint(SOFT, weight=weight)])
    table = private(people(), schema, tmp_path, budget=budget or gl.Budget(20.0, 1e-6))
    return METHODS[method](**({} if missing is None else {"missing": missing})).fit(
        table, spend=table.ledger.left
    ), table


def share(model, seed=0):
    (rule,) = compare_rules(*[model.sample(4000, seed=seed)] * 2)
    return rule.other.pairs


def test_a_weight_is_followed_and_costs_nothing(tmp_path):
    shares = []
    for weight in (0.001, 5.0, 100.0):
        model, table = softened(weight, tmp_path)
        assert not any("pairs that break" in entry.what for entry in table.ledger.entries)
        shares.append(share(model))
        assert shares[-1] == pytest.approx(model._rules.soft_rules[SOFT].violating_share, abs=0.004)
    assert shares[0] > shares[1] > shares[2]
    assert shares[2] < 0.1 * shares[0]


@pytest.mark.parametrize("method", TRIED)
def test_a_learned_weight_is_paid_for_and_reached(method, tmp_path):
    model, table = softened("learned", tmp_path, method=method)
    assert table.ledger.left.value == 0
    (entry,) = [entry for entry in table.ledger.entries if entry.what == f"pairs that break {SOFT}"]
    assert entry.reads is not None
    assert set(entry.reads) == {"job", "town"}
    found, noise = model.facts.broken[SOFT]
    assert share(model) <= found + noise + 0.004
    model.save(tmp_path / "m")
    loaded = gl.load(tmp_path / "m")
    assert loaded.facts.broken == model.facts.broken
    assert loaded.sample(50, seed=1).to_polars().equals(model.sample(50, seed=1).to_polars())
    (line,) = model.constraints()
    assert line.startswith("constraint soft, ")
    assert f"(of some pairs {found:.2%} did, ± {1.96 * noise:.2%} by noise): {SOFT}" in line


def test_the_count_of_pairs_is_right_without_noise(tmp_path):
    with no_noise():  # rows in their own order: a row for each bucket, and then a second one for each
        model, _ = softened("learned", tmp_path, missing=Observed())
    frame = people()
    half = ROWS // 2
    pairs = frame[:half].hstack(frame[half:].select(pl.all().name.suffix("2")))
    seen = pairs.drop_nulls(["job", "town", "job2", "town2"])
    unlike = seen.filter((pl.col("job") == pl.col("job2")) & (pl.col("town") != pl.col("town2")))
    assert model.facts.broken[SOFT] == (unlike.height / seen.height, pytest.approx(0.0, abs=0.2))


def test_gaps_stay_as_frequent_under_a_soft_rule(tmp_path):
    model, _ = softened(20.0, tmp_path)
    rows = model.sample(4000, seed=0, gaps="as-observed")
    assert rows["town"].null_count() / 4000 == pytest.approx(people()["town"].null_count() / ROWS, abs=0.02)


def test_pure_budgets_learn_weights_too(tmp_path):
    model, table = softened("learned", tmp_path, method="independent", budget=gl.Budget(5.0, 0))
    assert table.ledger.left.value == 0
    assert set(model.facts.broken) == {SOFT}


def test_a_distribution_in_which_every_row_breaks_a_rule_has_samples():
    """What is chosen by mass may be nothing, or contradict another rule: then around a row that is possible."""
    schema = gl.Schema(
        "t",
        [gl.Integer("x", bounds=(0, 2), bins=3), gl.Integer("y", bounds=(0, 2), bins=3)],
        constraints=[Constraint("t1.x < t2.y"), Constraint("t1.x == 2")],
    )
    points = [np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0])]  # x = 0 and y = 2, always
    assert ConstraintSampler.of(schema, Product(tuple(points)), {}, {}).breaks(np.array([[0, 2]])).all()
    row, *_ = ConstraintSampler.possible_rows(schema, Product(tuple(points)), {})
    assert row[0] >= row[1]
    assert row[0] < 2
    assert not ConstraintSampler.of(schema, Product(tuple(points)), {}, {}, row=row).breaks(row[None]).any()


@pytest.mark.parametrize("method", TRIED)
@pytest.mark.parametrize(
    "rows", [[], [("j1", 20.0, 0, 0, None, "2020-05-05", "A")], [(None, None, None, 0, None, "2020-05-05", None)] * 9]
)
def test_rules_on_tables_with_hardly_a_row(method, rows, tmp_path):
    rules = [*map(Constraint, KEPT.values()), Constraint(SOFT, weight="learned")]
    names = [column.name for column in COLUMNS]
    frame = pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)
    table = private(frame, gl.Schema("people", COLUMNS, constraints=rules), tmp_path)
    model = METHODS[method]().fit(table, spend=table.ledger.left)
    for gaps in ("filled", "as-observed"):
        assert broken(model.sample(40, seed=0, gaps=gaps))[:5] == [0] * 5
    assert model.sample(0).rows == 0
