"""What noise explains of a difference, and the comparison page of the bundled table."""

from dataclasses import replace
from importlib import resources

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.comparison_page import comparison_page
from gapless.evaluate.release_noise import with_noise
from gapless.evaluate.values import compare_values
from gapless.evaluate.verdict import CRAMER, grade_of_difference
from gapless.schema import Integer, Number, Schema
from gapless.synth import Auto, Independent
from gapless.testing import fixed_noise
from gapless.testing.audit import private

SIZES = Schema("sizes", [Number(name, bounds=(0, 1), bins=10) for name in "abcdef"])


@pytest.fixture(scope="module")
def sizes(tmp_path_factory):
    """Differences of 10 releases of six columns of 4,000 numbers, by measure."""
    rng = np.random.default_rng(0)
    truth = pl.DataFrame({column.name: rng.beta(2, 3, 4000) for column in SIZES.columns})
    table, found = gl.Table.read(truth, SIZES), {}
    for seed in range(10):
        with fixed_noise(seed):
            people = private(truth, SIZES, tmp_path_factory.mktemp("ledger"), budget=gl.Budget(0.2, 1e-6))
            model = Independent().fit(people, spend=people.ledger.left)
        for difference in with_noise(compare_values(table, model.sample(8000, seed=seed)), model):
            found.setdefault(difference.measure, []).append(difference)
    return found


@pytest.mark.parametrize("measure", ["mean", "standard deviation", "25% quantile", "median", "90% quantile"])
def test_noise_explains_errors_of_releases_and_little_more(sizes, measure):
    """Nearly all errors are explained; a fifth of the noise explains far fewer."""
    errors, noise = np.array([(difference.error, difference.noise) for difference in sizes[measure]]).T
    assert np.mean(errors <= noise) >= 0.9
    assert np.mean(errors <= noise / 5) <= 0.7


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """The comparison of a release of the bundled table, as `gapless demo` makes it."""
    folder = resources.files("gapless.demo")
    frame = pl.read_csv((folder / "nhanes.csv.gz").read_bytes(), infer_schema=False)
    schema = Schema.from_toml((folder / "nhanes.toml").read_text(encoding="utf-8"))
    with fixed_noise(3):
        people = private(frame, schema, tmp_path_factory.mktemp("ledger"), budget=gl.Budget(1.0, 1e-6))
        model = Auto().fit(people, spend="80%")
    return gl.compare(frame, model.sample(seed=3), schema=schema, model=model)


def test_the_demo_keeps_who_is_asked_for_cigarettes(demo):
    """Without the rule noise lost the relation in nine of ten releases: the red line of the page."""
    (smoking,) = (
        difference
        for difference in demo.differences
        if difference.measure == CRAMER and set(difference.columns) == {"smoker", "cigarettes_per_day"}
    )
    assert smoking.truth > 0.98
    assert smoking.other > 0.9


def test_the_page_of_the_demo_gives_the_reason_for_each_fair_or_poor_difference(demo):
    bad = [difference for difference in demo.differences if grade_of_difference(difference) in ("fair", "poor")]
    assert bad
    assert all(difference.error <= difference.noise for difference in bad)
    page = comparison_page(demo)
    assert f"explain {len(bad)} of {len(bad)} fair or poor difference" in page
    assert page.count("Noise of the release: ±\N{NO-BREAK SPACE}") == len(demo.verdict.worst) > 0


def test_errors_larger_than_noise_are_not_explained(demo):
    bad = [difference for difference in demo.differences if grade_of_difference(difference) in ("fair", "poor")]
    less = [replace(difference, noise=difference.error / 2) for difference in bad]
    (remark,) = replace(demo, differences=tuple(less)).verdict.remarks
    assert f"explain 0 of {len(bad)} fair or poor difference" in remark
    assert "The others come from wide bins, filled gaps, the method, or chance." in remark
    unknown = replace(demo, differences=tuple(replace(difference, noise=None) for difference in bad))
    assert unknown.verdict.remarks == ()
    assert "Noise of the release" not in str(unknown)


def test_noise_hides_a_column_in_one_learned_bin(tmp_path):
    """Noise of bins alone would say that nothing of such a column is wrong."""
    rng = np.random.default_rng(0)
    schema = Schema("air", [Integer("ozone", bounds=(1, 168), bins="learned"), Integer("day", bounds=(1, 31))])
    truth = pl.DataFrame({"ozone": np.clip(rng.lognormal(3.4, 0.7, 153), 1, 168).astype(int), "day": 7})
    with fixed_noise(0):
        people = private(truth, schema, tmp_path, budget=gl.Budget(1.0, 1e-6))
        model = Independent().fit(people, spend=people.ledger.left)
    assert model.schema["ozone"].values_size < 4
    found = with_noise(compare_values(gl.Table.read(truth, schema), model.sample(150, seed=0)), model)
    noise = {difference.measure: difference.noise for difference in found if difference.columns == ("ozone",)}
    assert noise["mean"] > 0.5
    assert noise["median"] > 0.25
    assert noise["standard deviation"] > 0.25


def test_the_limit_of_rows_per_person_is_named_beside_what_noise_explains(tmp_path):
    rng = np.random.default_rng(1)
    frame = pl.DataFrame({"id": rng.integers(0, 100, 900), "a": rng.beta(2, 3, 900)}).with_columns(b=pl.col("a"))
    schema = Schema("sizes", SIZES.columns[:2])
    with fixed_noise(1):
        ledger = tmp_path / "sizes.ledger"
        people = gl.read(frame, schema, protect=gl.Persons("id", 3), budget=gl.Budget(1.0, 1e-6), ledger=ledger)
        model = Independent().fit(people, spend="80%")
    sample, truth = model.sample(seed=1), gl.Table.read(frame.drop("id"), schema)
    remarks = gl.compare(truth, sample, model=model).verdict.remarks
    assert any(remark.startswith("The release keeps at most 3 rows of each id. If the truth has") for remark in remarks)
    assert gl.compare(truth, sample).kept == ""
