"""The verdict: what wide bins ruin is called bad, what a second sample shows is not."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.comparison import Score
from gapless.evaluate.comparison_page import comparison_page
from gapless.evaluate.values import Difference
from gapless.evaluate.verdict import SCORES, TOPICS, grade_of_difference, grade_of_score, strong_relations
from gapless.schema import Categorical, Date, Integer, Number, Schema
from gapless.testing import fixed_noise
from gapless.testing.audit import private

SCHEMA = Schema(
    "wide bins",
    [
        Integer("votes", bounds=(5, 157_608), bins=10),
        Integer("dep_delay", bounds=(-43, 1301), bins=10, may_be_missing=True, missing=[""]),
        Integer("arr_delay", bounds=(-86, 1272), bins=10, may_be_missing=True, missing=[""]),
        Integer("educ", bounds=(0, 19), bins=10),
        Number("affairs", bounds=(0, 57.6), bins=10),
        Date("day", bounds=("2020-01-01", "2020-12-31"), bins=12),
        Categorical("sex", ["f", "m"]),
    ],
)


def people(rows, seed):
    """Skewed, correlated, spiked numbers, as the tables that people have."""
    rng = np.random.default_rng(seed)
    delay = np.clip(
        np.round(rng.normal(-4, 5, rows) + rng.exponential(40, rows) * (rng.random(rows) < 0.35)), -43, 1301
    )
    gone = rng.random(rows) < 0.02
    start = np.datetime64("2020-01-01")
    return pl.DataFrame(
        {
            "votes": np.clip(5 + rng.lognormal(3.3, 1.9, rows), 5, 157_608).astype(int),
            "dep_delay": [None if gap else int(value) for value, gap in zip(delay, gone, strict=True)],
            "arr_delay": [
                None if gap else int(value)
                for value, gap in zip(np.clip(delay + np.round(rng.normal(-6, 12, rows)), -86, 1272), gone, strict=True)
            ],
            "educ": rng.choice([8, 10, 11, 12, 13, 14, 16, 18], rows, p=[0.08, 0.06, 0.08, 0.3, 0.09, 0.12, 0.17, 0.1]),
            "affairs": np.where(rng.random(rows) < 0.67, 0.0, rng.exponential(2.0, rows)).clip(0, 57.6),
            "day": start + rng.integers(0, 366, rows),
            "sex": rng.choice(["f", "m"], rows),
        }
    )


@pytest.fixture(scope="module")
def ruined():
    """A table with the very cells of the truth, and values drawn anywhere in their bins."""
    truth = gl.Table.read(people(4000, 0), SCHEMA)
    return gl.compare(truth, gl.Table(SCHEMA, truth.codes, rows=truth.rows, seed=1))


def test_right_cells_with_values_anywhere_in_wide_bins_are_called_bad(ruined):
    assert [ruined[f"{word}-way distance"].value for word in ("one", "two", "three")] == [0, 0, 0]  # cells see nothing
    verdict = ruined.verdict
    topics = ("medians and quantiles", "means", "shares of single values", "correlations")
    poor = {topic: use for topic in topics for use in verdict.poor if use.startswith(topic)}
    assert set(poor) == set(topics)
    for column in ("votes", "dep_delay", "affairs"):
        assert column in poor["medians and quantiles"]
    assert "educ" in poor["shares of single values"]
    assert "dep_delay × arr_delay" in poor["correlations"]
    assert "counts of levels and bins" in verdict.good
    assert len(verdict.worst) == 5
    (votes,) = (sentence for sentence in verdict.worst if sentence.startswith("votes: median "))
    assert " in the truth, " in votes
    assert votes.endswith(" in the compared table.")
    assert ruined["quantile error"].value > 0.1
    assert grade_of_score(ruined["mean error"]) == "poor"
    assert "day" not in poor["medians and quantiles"]  # twelve bins of equal days lose nothing


def test_each_disaster_is_named_by_its_number(ruined):
    bad = {
        (difference.columns, difference.measure)
        for difference in ruined.differences
        if grade_of_difference(difference) == "poor"
    }
    assert {
        (("votes",), "median"),
        (("votes",), "mean"),
        (("dep_delay",), "mean"),
        (("dep_delay", "arr_delay"), "Pearson's r"),
        (("educ",), "share"),
        (("affairs",), "mean"),
    } <= bad


def test_the_verdict_comes_first_and_a_second_sample_is_explained(ruined):
    text = str(ruined)
    assert text.index("Not for ") < text.index("one-way distance")
    assert "Second sample: about the score of as many other people" in text
    assert "  poor  best 0" in text
    page = comparison_page(ruined)
    assert page.index("In plain words") < page.index("<h2>Scores</h2>") < page.index("<h2>Columns</h2>")
    assert page.index("Not for") < page.index("Good for")
    assert "Second sample: about the score of as many other people" in page
    assert page.count('<span class="mark poor">poor</span>') > 10  # a word with every colour
    scores = page.partition("<h2>Scores</h2>")[2].partition("</section>")[0]
    assert scores.index(">poor<") < scores.index(">good<") < scores.index("Wasserstein distance, rows")  # worst first
    assert ">poor<" not in scores[scores.index(">good<") :]
    columns = page.partition("<h2>Columns</h2>")[2]
    assert columns.index("Shares of votes") < columns.index("Shares of sex")
    assert "<td>median</td>" in columns


@pytest.mark.parametrize(
    ("name", "value", "second_sample", "grade"),
    [
        ("two-way distance", 0.58, 0.30, "poor"),  # of noise on 69 rows: twice a second sample's excused it
        ("two-way distance", 0.662, 0.385, "poor"),
        ("three-way distance", 0.83, 0.459, "poor"),
        ("three-way distance", 0.20, 0.09, "fair"),
        ("three-way distance", 0.24, 0.13, "good"),
        ("two-way distance", 0.45, 0.385, "good"),  # little more than a second sample
    ],
)
def test_few_rows_do_not_excuse_what_a_second_sample_would_not_show(name, value, second_sample, grade):
    assert grade_of_score(Score(name, value, None, "", second_sample=second_sample)) == grade


def test_equal_tables_and_second_samples_are_good():
    truth = gl.Table.read(people(3000, 0), SCHEMA)
    equal = gl.compare(truth, truth).verdict
    assert (equal.fair, equal.poor, equal.worst) == ((), (), ())
    assert "means" in equal.good
    for seed in range(1, 5):
        again = gl.compare(truth, gl.Table.read(people(1500, seed), SCHEMA)).verdict
        assert again.poor == ()


def test_few_rows_give_a_mild_verdict_with_a_remark():
    verdict = gl.compare(gl.Table.read(people(60, 0), SCHEMA), gl.Table.read(people(60, 1), SCHEMA)).verdict
    assert verdict.worst == ()
    assert verdict.remarks == ("With 60 rows much is chance: only large differences are listed.",)


def test_a_private_table_has_a_verdict_on_its_cells(tmp_path):
    table = private(people(3000, 0).cast(pl.String), SCHEMA, tmp_path, budget=gl.Budget(10.0, 0))
    lopsided = people(1000, 1).with_columns(pl.lit("f").alias("sex"))
    result = gl.evaluate.compare_private(table, gl.Table.read(lopsided, SCHEMA), spend=table.ledger.left)
    assert any("shares of single values" in use for use in result.verdict.poor)
    assert any(sentence.startswith("sex = ") for sentence in result.verdict.worst)
    assert "Only noisy counts of cells were compared" in result.verdict.remarks[0]
    assert "means" not in str(result.verdict).partition("\n")[0]
    comparison_page(result)


def test_every_topic_and_score_has_limits_that_rise():
    for limits in [*(topic.limits for topic in TOPICS), *(limits for _, limits in SCORES.values())]:
        assert 0 < limits.good < limits.poor


def test_gaps_and_levels_are_in_the_verdict_too():
    schema = Schema("gaps", [Categorical("town", ["a", "b", "c"], may_be_missing=True)])
    truth = gl.Table(schema, [np.repeat([0, 1, 2, 3], [500, 300, 100, 100])], rows=1000)
    other = gl.Table(schema, [np.repeat([0, 1, 2, 3], [100, 300, 200, 400])], rows=1000)
    verdict = gl.compare(truth, other).verdict
    assert "shares of gaps" in verdict.poor
    assert "shares of single values" in verdict.poor
    assert verdict.worst == ("town = a: 55.6% in the truth, 16.7% in the compared table.",)


RELATED = Schema("related", [Categorical(f"x{place}", ["a", "b"]) for place in range(8)])


def related(rows, seed, *, kept):
    """Eight columns of two levels; the first two are equal in most rows, if that relation is kept."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (8, rows))
    if kept:
        codes[1] = np.where(rng.random(rows) < 0.7, codes[0], codes[1])
    return gl.Table(RELATED, list(codes), rows=rows)


def test_a_strong_relation_that_is_gone_is_named_and_lowers_what_needs_it():
    """The two-way distance is a mean over 28 pairs: it does not notice one of them."""
    lost = gl.compare(related(5000, 0, kept=True), related(5000, 1, kept=False))
    assert lost["two-way distance"].value < 0.05
    verdict = lost.verdict
    (named,) = [use for use in verdict.poor if use.startswith("strong relations that are lost: ")]
    assert named == "strong relations that are lost: x0 × x1 (0.72 became 0.01)"
    for use in ("tables of two columns", "tables of three columns", "subgroups"):
        assert use in verdict.poor  # the only strong relation is lost
    assert "counts of levels and bins" in verdict.good
    kept = gl.compare(related(5000, 0, kept=True), related(5000, 1, kept=True)).verdict
    assert not [use for use in kept.poor if "lost" in use]
    assert {"tables of two columns", "subgroups"} <= set(kept.good)


def test_one_of_many_strong_relations_costs_one_grade():
    def strong(*pairs):
        return [Difference(("x", str(place)), "Spearman's ρ", *pair, 0.0) for place, pair in enumerate(pairs)]

    strong_names, lost = strong_relations(strong((0.6, 0.5, 0.1), (0.6, 0.1, 0.5), (0.31, 0.16, 0.15), (0.2, 0.0, 0.2)))
    assert strong_names == {"x × 0", "x × 1", "x × 2"}
    assert lost == [("x × 1", 0.6, 0.1)]  # at 0.16 of 0.31 more than half is left
    assert strong_relations([Difference(("x", "y"), "Cramér's V", 0.6, 0.1, 0.5, 0.2)])[1] == []  # chance explains it
    assert strong_relations([Difference(("x", "y"), "Pearson's r", -0.6, 0.6, 1.2, 0.01)])[1] == [("x × y", -0.6, 0.6)]
    assert strong_relations([Difference(("x", "y"), "Pearson's r", 0.6, None, 0.6, 0.01)])[1] == [("x × y", 0.6, 0.0)]


@pytest.mark.parametrize(("epsilon", "is_named"), [(8.0, True), (0.002, False)])
def test_the_private_comparison_names_lost_relations_that_noise_does_not_explain(tmp_path, epsilon, is_named):
    table = private(related(5000, 0, kept=True).to_text(), RELATED, tmp_path, budget=gl.Budget(epsilon, 1e-6))
    other = related(5000, 1, kept=False)
    pairs = [("x0", "x1"), ("x2", "x3")]
    with fixed_noise(0):  # beyond three standard deviations a relation of pure noise is named too
        found = gl.evaluate.compare_private(table, other, spend=table.ledger.left, pairs=pairs)
    lost = [use for use in found.verdict.poor if use.startswith("strong relations that are lost: x0 × x1 (0.")]
    assert bool(lost) == is_named
    assert not any("x2 × x3" in use for use in found.verdict.poor if "lost" in use)
    if is_named:
        assert "tables of two columns" in found.verdict.poor
