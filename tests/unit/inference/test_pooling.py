"""Pooling: forms of estimators, what is supported, and what is said where nothing is."""

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import statsmodels.formula.api as smf
from scipy.special import ndtr

import gapless as gl
from gapless.inference import pooling
from gapless.inference.estimates import Estimates, estimate, estimates_of
from gapless.inference.intervals import bootstrap, rubin, widened
from gapless.inference.pooled import GAPS_LEGEND, NOISE_LEGEND
from gapless.inference.pooling import _Intervals
from gapless.inference.support import reassign_within_bins, required_columns
from gapless.query import Correlation, CrossTable, RankCorrelation, parse_question
from gapless.schema import Categorical, Integer, Schema
from gapless.synth import learners
from gapless.synth.learning import least_squares_counts
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise
from gapless.weights import Estimate

SCHEMA = Schema(
    "people",
    [
        Integer("age", bounds=(0, 9), bins=10),
        Categorical("sex", ["F", "M"]),
        Integer("income", bounds=(0, 4), bins=5),
        Categorical("town", ["x", "y", "z"]),
    ],
)


def people(rows=3000):
    rng = np.random.default_rng(1)
    sex = rng.integers(2, size=rows)
    age = np.clip(rng.integers(8, size=rows) + sex, 0, 9)
    income = np.clip(rng.integers(3, size=rows) + (age > 4), 0, 4)
    town = rng.integers(3, size=rows)
    return pl.DataFrame(
        {"age": age, "sex": np.array(["F", "M"])[sex], "income": income, "town": np.array(["x", "y", "z"])[town]}
    )


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    table = private(people(), SCHEMA, tmp_path_factory.mktemp("copies"), budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        model = gl.AIM(workload={("age", "sex"): 1.0, ("age", "income"): 1.0}).fit(table, spend=table.ledger.left)
    return model.copies(4, seed=1)


def test_a_question_is_answered_as_it_would_be_asked(copies):
    pooled = gl.pool(copies, gl.Mean("age", by="sex"))
    truth = dict(people().group_by("sex").agg(pl.col("age").mean()).iter_rows())
    assert [found_estimate.name for found_estimate in pooled.estimates] == ["F", "M"]
    for found_estimate in pooled.estimates:
        low, high = found_estimate.interval
        assert low < truth[found_estimate.name] < high
        assert high - low < 1
        assert found_estimate.noise_factor > 1
        assert found_estimate.gap_factor == 1
    assert "nothing was spent" in str(pooled)


def test_a_legend_explains_each_factor_that_is_printed():
    noisy = pooling.PooledEstimate(name="", value=1.0, interval=(0.0, 2.0), noise_factor=3.64, gap_factor=1.0)
    gappy = replace(noisy, gap_factor=1.5)
    bare = replace(noisy, noise_factor=np.inf, gap_factor=1.5)
    none = replace(noisy, interval=None, unsupported="nothing was measured")
    legends = {
        name: [
            line
            for line in pooling.Pooled(question="q", estimates=(some,), copies=2, notes=()).remarks()
            if "×" in line
        ]
        for name, some in {"noisy": noisy, "gappy": gappy, "bare": bare, "none": none}.items()
    }
    noise, gaps = NOISE_LEGEND, GAPS_LEGEND
    assert noise == "× by noise: how many times as wide noise makes an interval, compared with sampling alone."
    assert legends == {"noisy": [noise], "gappy": [noise, gaps], "bare": [], "none": []}


@pytest.mark.parametrize(
    ("question", "column"),
    [(gl.Median("age"), "age"), (gl.Quantile("income", 0.9), "income"), (gl.Proportion("sex == F"), "sex")],
)
def test_other_questions_have_their_truth_in_the_interval(question, column, copies):
    (found,) = gl.pool(copies, question).estimates
    values = people()[column]
    truth = (values == "F").mean() if column == "sex" else values.quantile(question.q, "lower")
    assert found.interval[0] <= truth <= found.interval[1]


def test_unmeasured_columns_have_no_interval_and_the_note_names_what_to_measure(copies):
    pooled = gl.pool(copies, gl.Mean("income", by="town"))
    for found_estimate in pooled.estimates:
        assert found_estimate.interval is None
        assert "not supported by this release: income × town was not measured" in found_estimate.unsupported
        assert 'AIM(always=[("income", "town")])' in found_estimate.unsupported
    assert "not supported" in str(pooled)
    assert pooled.to_dict()["estimates"][0]["interval"] is None


def test_a_reason_is_written_once(copies):
    pooled = gl.pool(copies, gl.Mean("income", by="town"))
    assert all("income × town was not measured" in found_estimate.unsupported for found_estimate in pooled.estimates)
    assert str(pooled).count("not supported by this release") == 1
    assert "nothing was spent" not in str(pooled)
    some = gl.pool(copies, lambda t: {"a": (t["age"].to_numpy().mean(), 0.1), "b": (t.codes[2] @ t.codes[3], 0.1)})
    assert "  b: not supported by this release: income × town" in str(some)
    assert "nothing was spent" in str(some)


def test_columns_that_a_function_looks_at_are_found_for_each_of_its_numbers(copies):
    def means(table):
        age, income, town = table["age"].to_numpy(), table["income"].to_numpy(), table.codes[3]
        return {
            "age": (age.mean(), age.var() / len(age)),
            "both": ((age * income).mean(), (age * income).var() / len(age)),
            "town": (income[town == 0].mean(), 0.01),
            "sure": (1.0, 0.0),
        }

    needs = required_columns(lambda table: estimates_of(means(table)), copies[0], estimates_of(means(copies[0])))
    assert needs == [[{0}], [{0, 2}], [{2, 3}], [frozenset()]]
    pooled = gl.pool(copies, means)
    assert [found_estimate.interval is None for found_estimate in pooled.estimates] == [False, False, True, False]


def test_statsmodels_works_as_it_is_and_needs_pairs_alone(copies):
    smf = pytest.importorskip("statsmodels.formula.api")
    pooled = gl.pool(copies, lambda table: smf.ols("income ~ age", table.to_pandas()).fit())
    assert [found_estimate.name for found_estimate in pooled.estimates] == ["Intercept", "age"]
    low, high = pooled["age"].interval
    assert low < np.polyfit(people()["age"], people()["income"], 1)[0] < high
    pooled = gl.pool(copies, lambda table: smf.ols("age ~ income + sex", table.to_pandas(nullable=False)).fit())
    assert "sex × income was not measured" in pooled["income"].unsupported
    pooled = gl.pool(copies, lambda table: smf.ols("income ~ age * sex", table.to_pandas(nullable=False)).fit())
    assert "age × sex × income was not measured" in pooled["age"].unsupported


def test_a_regression_of_several_columns_is_inside_if_all_pairs_are(tmp_path):
    smf = pytest.importorskip("statsmodels.formula.api")
    table = private(people(), SCHEMA, tmp_path, budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        copies = gl.Mixture().fit(table, spend=table.ledger.left).copies(3, seed=2)
    pooled = gl.pool(copies, lambda t: smf.ols("income ~ age + sex", t.to_pandas()).fit())
    assert all(found_estimate.interval is not None for found_estimate in pooled.estimates)
    pooled = gl.pool(copies, lambda t: (t["age"].to_numpy()[(t.codes[1] == 0) & (t.codes[3] == 0)].mean(), 0.01))
    assert pooled.estimates[0].interval is None


@pytest.mark.parametrize(
    "returned",
    [
        ([1.0, 2.0], [0.1, 0.2]),
        {"a": (1.0, 0.1), "b": (2.0, 0.2)},
        {"a": Estimate(1.0, 0.1**0.5), "b": Estimate(2.0, 0.2**0.5)},
        Estimates(("a", "b"), np.array([1.0, 2.0]), np.array([0.1, 0.2])),
    ],
)
def test_forms_that_an_estimator_may_return(returned):
    found = estimates_of(returned)
    assert found.values.tolist() == [1.0, 2.0]
    assert found.variances.tolist() == pytest.approx([0.1, 0.2])


BY_SEX = pl.Series([1.0, 2.0]).to_pandas().set_axis(["f", "m"])


def test_names_of_a_series_are_kept():
    assert estimates_of((BY_SEX, BY_SEX / 10)).names == ("f", "m")
    assert estimates_of(([1.0, 2.0], [0.1, 0.2])).names == ("1", "2")
    assert estimates_of((1.0, 0.1)).names == ("",)


@pytest.mark.parametrize(
    "returned", [None, 3.0, "text", ([1.0], [0.1, 0.2]), (1.0, -1.0), {}, [1.0, 2.0], np.ones(2), BY_SEX]
)
def test_other_forms_are_refused(returned):
    with pytest.raises(gl.errors.ModelError, match="the estimator "):
        estimates_of(returned)


def test_questions_that_count_one_table_are_refused(copies):
    with pytest.raises(gl.errors.QuestionError, match=r"a release can estimate shares, .*, but not variance\(age\)\n"):
        gl.pool(copies, gl.Variance("age"))
    with pytest.raises(gl.errors.QuestionError, match="a release can estimate shares"):
        gl.pool(copies, gl.Count())
    with pytest.raises(gl.errors.ModelError, match="pool\\(\\) takes copies, not a Table"):
        gl.pool(copies[0], gl.Mean("age"))
    with pytest.raises(gl.errors.ModelError, match="takes a question or a function, not the text 'mean\\(age\\)'"):
        gl.pool(copies, "mean(age)")


def test_an_empty_group_has_no_interval(copies):
    (found,) = gl.pool(copies, lambda table: (np.nan, np.nan) if len(table) == len(copies[0]) else (1.0, 0.1)).estimates
    assert found.interval is None
    assert "no row that it could rest on" in found.unsupported


def test_gaps_that_were_not_measured_are_named(tmp_path):
    schema = Schema("people", [replace(column, may_be_missing=True) for column in SCHEMA.columns])
    table = private(people(500), schema, tmp_path)
    copies = gl.MST(missing=gl.Observed()).fit(table, spend=table.ledger.left).copies(2, seed=1)
    (found,) = gl.pool(copies, gl.Mean("age")).estimates
    assert found.interval is None
    assert "gaps were not measured; missing=Extended() measures them" in found.unsupported


def pooled_only(copies):
    """The same copies with equal weights, for which no estimate has a closed form."""
    return copies.with_weights(lambda table: np.ones(len(table)))


def without_young_incomes(folder):
    """Copies by a mixture of people of whom the young have no income."""
    columns = [replace(column, may_be_missing=column.name == "income") for column in SCHEMA.columns]
    rows = people().with_columns(income=pl.when(pl.col("age") < 4).then(None).otherwise(pl.col("income")))
    table = private(rows, Schema("people", columns), folder, budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        return gl.Mixture().fit(table, spend=table.ledger.left).copies(4, seed=1)


def test_gaps_widen_the_intervals_of_columns_that_may_be_missing_alone(tmp_path):
    copies = without_young_incomes(tmp_path)
    assert copies.replicates
    assert [found_estimate.gap_factor for found_estimate in gl.pool(copies, gl.Mean("age", by="sex")).estimates] == [
        1,
        1,
    ]
    assert gl.pool(copies, gl.Mean("income")).estimates[0].gap_factor > 1


def test_how_freely_gap_rates_of_a_mixture_move_is_in_the_interval(tmp_path):
    """Between two mixtures, of which either might be right: the middle, and as far again to either side."""
    copies = without_young_incomes(tmp_path)
    question = gl.Mean("income")
    reference, loose = (
        estimate(question, rows).values for rows in (copies.reference_sample, copies.loose_rates_sample)
    )
    found = bootstrap(reference, np.array([estimate(question, rows).values for rows in copies.replicates]))
    (mean,) = gl.pool(copies, question).estimates
    assert abs(loose - reference) > 0
    assert mean.value == pytest.approx((found.centre + (loose - reference) / 2)[0])
    assert mean.interval[1] - mean.value >= widened(found.half, np.abs(loose - reference) / 2)[0] - 1e-9 > found.half[0]
    (age,) = gl.pool(pooled_only(copies), gl.Mean("age")).estimates  # it has no gaps
    assert age.value == pytest.approx(
        (
            2 * estimate(gl.Mean("age"), copies.reference_sample).values
            - np.mean([estimate(gl.Mean("age"), t).values for t in copies])
        )[0]
    )


def test_other_models_and_tables_without_gaps_have_no_freer_one(copies, tmp_path):
    assert copies.loose_rates_sample is None
    table = private(people(300), SCHEMA, tmp_path)
    assert gl.Mixture().fit(table, spend=table.ledger.left).copies(2, seed=1).loose_rates_sample is None


def test_a_bias_of_either_sign_is_held():
    """No bias, none; a large one with a bound to its side alone. Between, 5 % of normal variables are beyond."""
    half = np.array([1.959964] * 4)
    bias = np.array([0.0, 1.0, 3.0, 40.0])
    found = widened(half, bias)
    assert found[0] == half[0]
    assert found[3] == pytest.approx(40 + 1.644854)
    for place in (1, 2):
        beyond = ndtr(bias[place] - found[place]) + ndtr(-bias[place] - found[place])
        assert beyond == pytest.approx(0.05, abs=1e-6)


def test_learned_cells_widen_intervals_by_noise_and_not_by_gaps(tmp_path):
    """On a long tail that noise hides. Replicates are for shares of its rows; what does not look at it has none.

    Nor has its mean: it is computed from signed counts, and Rubin's rule is valid.
    """
    rng = np.random.default_rng(2)
    gain = np.where(rng.random(2000) < 0.02, rng.integers(1, 1000, 2000), 0)
    schema = Schema("people", [Integer("gain", bounds=(0, 999), bins="learned"), Categorical("sex", ["F", "M"])])
    rows = pl.DataFrame({"gain": gain, "sex": np.array(["F", "M"])[rng.integers(2, size=2000)]})
    table = private(rows, schema, tmp_path, budget=gl.Budget(1.0, 1e-6))
    with fixed_noise(1):
        copies = pooled_only(gl.Mixture().fit(table, spend=table.ledger.left).copies(8, seed=1))
    some = gl.Proportion("gain > 0")
    found = gl.pool(copies, some)
    (tail,) = found.estimates
    results = np.array([estimate(some, table).values for table in (copies.reference_sample, *copies.replicates)])
    assert len(results) == 9
    alone = bootstrap(results[0], results[1:])
    half = tail.interval[1] - tail.value
    smooth = estimate(some, copies.smooth_cells_sample).values  # the middle of both is the centre
    assert tail.value == pytest.approx(alone.centre[0] + (smooth - results[0])[0] / 2)
    assert half >= alone.half[0] * (1 - 1e-9) > 0
    assert tail.gap_factor == 1
    assert tail.noise_factor == pytest.approx(half / 1.96 / np.sqrt(_variance(copies, some)), rel=1e-3)
    assert "gaps" not in "\n".join(found.answers)
    (mean,) = gl.pool(copies, gl.Mean("gain")).estimates
    results = [estimate(gl.Mean("gain"), *drawn) for drawn in copies.drawn_copies]
    exact = rubin(
        estimate(gl.Mean("gain"), copies.reference_sample, copies.measurements).values,
        np.array([result.values for result in results]),
        np.array([result.variances for result in results]),
    )
    assert mean.value == pytest.approx(exact.centre[0])
    assert mean.interval == pytest.approx((max(0, mean.value - exact.half[0]), mean.value + exact.half[0]))
    (share,) = gl.pool(copies, gl.Proportion("sex == 'F'")).estimates
    shares = [estimate(gl.Proportion("sex == 'F'"), table) for table in copies]
    middle = 2 * estimate(gl.Proportion("sex == 'F'"), copies.reference_sample).values - np.mean(
        [result.values for result in shares]
    )
    assert share.value == pytest.approx(middle[0])


@pytest.mark.parametrize("question", [
    gl.Mean("gain"),
    gl.Mean("gain", by="sex"),
    gl.Mean("gain", bounds=(0, 10), where="sex == 'F'"),
    gl.Mean("age", by="sex"),  # in declared bins
])  # fmt: skip
def test_means_are_those_of_bins_and_no_chance_of_drawing_values_is_in_them(question, drawn_copies):
    drawn, measurements = drawn_copies.drawn_copies[0]
    plain, by_bins = (estimate(question, drawn, known) for known in (None, measurements))
    place = drawn.schema.names.index(question.column)
    numbers = np.arange(*{"gain": (0.0, 1000), "age": (0.0, 100)}[question.column])
    means = measurements.bin_means(drawn.schema, place, np.clip(numbers, *(question.bounds or (0, 999))))
    for group, sex in enumerate(["F", "M"][: len(plain.names)]):
        here = drawn.codes[2] == "FM".index(sex) if question.by or question.where else slice(None)
        assert by_bins.values[group] == pytest.approx(means[drawn.codes[place][here]].mean())
    assert (by_bins.values != plain.values).all()
    assert by_bins.variances == pytest.approx(plain.variances)


@pytest.mark.parametrize("question", [gl.Mean("gain", where="gain < 500"), gl.Proportion("gain == 0")])
def test_questions_that_look_inside_bins_use_the_values_of_rows(question, drawn_copies):
    drawn, measurements = drawn_copies.drawn_copies[0]
    np.testing.assert_array_equal(estimate(question, drawn, measurements).values, estimate(question, drawn).values)


def test_groups_by_the_averaged_column_use_the_values_of_rows(drawn_copies):
    drawn, measurements = drawn_copies.drawn_copies[0]
    by_itself = gl.Mean("gain", by="gain")
    np.testing.assert_array_equal(estimate(by_itself, drawn, measurements).values, estimate(by_itself, drawn).values)


def test_trees_that_rows_follow_have_no_count_below_zero_and_the_means_of_rows(drawn_copies):
    drawn, measurements = drawn_copies.drawn_copies[0]
    nonnegative, numbers = measurements.nonnegative(drawn.schema), np.arange(1000.0)
    assert (
        min(level.counts.min() for level in measurements.bin_hierarchy)
        < 0
        <= min(level.counts.min() for level in nonnegative.bin_hierarchy)
    )
    assert len({round(level.counts.sum(), 6) for level in nonnegative.bin_hierarchy}) == 1
    held = measurements.within_bin_counts(drawn.schema, follow_noise=True)["gain"]
    assert nonnegative.within_bin_counts(drawn.schema, follow_noise=True)["gain"] == pytest.approx(held)
    bins = drawn.schema["gain"].finest.regroup(drawn.schema["gain"])[:1000]
    of_rows = np.bincount(bins, held * numbers) / np.bincount(bins, held)
    assert nonnegative.bin_means(drawn.schema, 0, numbers) == pytest.approx(of_rows)
    counts, _ = measurements.column_counts(drawn.schema, 0)  # by all tables: that of the tree is known less well
    beyond = np.bincount(
        bins,
        least_squares_counts([level.counts for level in measurements.bin_hierarchy], 1.0) * (numbers - of_rows[bins]),
    )
    assert measurements.bin_means(drawn.schema, 0, numbers) == pytest.approx(of_rows + beyond / counts)
    assert np.abs(beyond / counts).max() > 1


def test_with_gaps_replicates_are_compared_with_the_rows_that_they_come_from(tmp_path):
    """These have no counts below zero: taken from the mean itself the bias would be taken off twice."""
    rng = np.random.default_rng(2)
    gain = np.where(rng.random(1500) < 0.1, rng.integers(1, 1000, 1500), 0)
    schema = Schema("people", [Integer("gain", bounds=(0, 999), bins="learned", may_be_missing=True)])
    rows = pl.DataFrame({"gain": gain}).with_columns(gain=pl.when(pl.Series(rng.random(1500) > 0.2)).then("gain"))
    table = private(rows, schema, tmp_path, budget=gl.Budget(0.5, 1e-6))
    with fixed_noise(1):
        copies = gl.Independent(missing=gl.Extended()).fit(table, spend=table.ledger.left).copies(6, seed=1)
    mean, measurements = gl.Mean("gain"), copies.measurements
    (found,) = gl.pool(copies, mean).estimates
    exact, nonnegative = (
        estimate(mean, copies.reference_sample, known).values
        for known in (measurements, measurements.nonnegative(copies.model.schema))
    )
    replicates = np.array([estimate(mean, *drawn).values for drawn in copies.drawn_replicates])
    assert abs(nonnegative - exact) > 0.5
    assert found.value == pytest.approx(max(0.0, (exact - (replicates.mean(axis=0) - nonnegative) / 2)[0]))


def test_a_mean_beyond_its_bounds_has_an_interval_from_there(drawn_copies, monkeypatch):
    """As wide as if the estimate were at the bound: an interval that is cut on both sides would have no width."""
    out = _Intervals(*np.array([[-50], [-70], [-30], [2.0], [1.0]]))
    monkeypatch.setattr(pooling, "_intervals", lambda *_, **__: out)
    (found,) = gl.pool(pooled_only(drawn_copies), gl.Mean("gain")).estimates
    assert (found.value, found.interval) == (0, (0, 20))


@pytest.mark.parametrize(("where", "ends"), [
    ("gain >= 200", (200, 999)),
    ("gain < 10 or gain == 20", (0, 20)),
    ("gain >= 200 and sex == 'F'", (0, 999)),
])  # fmt: skip
def test_a_mean_is_between_the_numbers_that_a_condition_leaves(where, ends, drawn_copies):
    assert pooling._ends(gl.Mean("gain", where=where).compile(drawn_copies.model.schema)) == ends


def test_a_mean_that_is_mostly_noise_gets_a_note_on_bounds(drawn_copies):
    model = drawn_copies.model
    cut = model.schema["gain"].finest.with_cuts

    def tail_notes(question, cuts, noise=5.0):
        schema = model.schema.with_columns({"gain": cut(cuts)})
        return pooling._tail_notes(question, replace(model, schema=schema), noise)

    by_sex = gl.Mean("gain", by="sex")
    assert "Estimate mean(gain, 0, 100) by sex for a narrower interval" in tail_notes(by_sex, [0, 1, 100, 1000])[0]
    assert "mean(gain, 399, 600) by sex" in tail_notes(by_sex, [0, 400, 600, 1000])[0]
    assert (
        tail_notes(by_sex, [0, 300, 700, 1000])
        == tail_notes(by_sex, [0, 1, 1000])
        == tail_notes(by_sex, [0, 1, 100, 1000], 2)
        == []
    )
    assert (
        tail_notes(gl.Mean("gain", bounds=(0, 9)), [0, 1, 100, 1000])
        == tail_notes(gl.Mean("age"), [0, 1, 100, 1000])
        == []
    )


def test_values_in_declared_bins_follow_a_smooth_density(drawn_copies):
    """Of an even distribution in two bins the density is nearly even."""
    drawn, measurements = drawn_copies.drawn_copies[0]
    assert measurements.bin_means(drawn.schema, 1, np.arange(100.0)) == pytest.approx([24.5, 74.5], abs=2)
    assert measurements.bin_means(drawn.schema, 2, np.array([1.0, 5.0])).tolist() == [1, 5]


@pytest.fixture(scope="module")
def drawn_copies(tmp_path_factory):
    """Of a number in learned bins, one in declared bins, and a category."""
    rng = np.random.default_rng(2)
    numbers = [Integer("gain", bounds=(0, 999), bins="learned"), Integer("age", bounds=(0, 99), bins=2)]
    schema = Schema("people", [*numbers, Categorical("sex", ["F", "M"])])
    rows = pl.DataFrame({"gain": rng.integers(0, 1000, 900), "age": rng.integers(0, 100, 900)})
    rows = rows.with_columns(sex=pl.Series(np.array(["F", "M"])[rng.integers(2, size=900)]))
    table = private(rows, schema, tmp_path_factory.mktemp("drawn"), budget=gl.Budget(1.0, 1e-6))
    with fixed_noise(1):
        return gl.AIM().fit(table, spend=table.ledger.left).copies(2, seed=1)


def test_dependence_on_values_within_bins_moves_and_widens_an_interval(tmp_path):
    """Two numbers that go together, in few bins: the centre regains most of what a slope lacks, the interval all of it.

    A mean of one column stays as it is.
    """
    rng = np.random.default_rng(4)
    schema = Schema("two", [gl.Number(name, bounds=(-4, 4), bins=8) for name in ("x", "y")])
    x = rng.normal(size=20_000)
    rows = pl.DataFrame({"x": x, "y": 0.8 * x + 0.6 * rng.normal(size=20_000)}).with_columns(pl.all().clip(-4, 4))
    table = private(rows, schema, tmp_path, budget=gl.Budget(20.0, 1e-6))
    with fixed_noise(1):
        copies = gl.Mixture().fit(table, spend=table.ledger.left).copies(4, seed=1)
    found = gl.pool(copies, lambda table: smf.ols("y ~ x", table.to_pandas()).fit())["x"]
    plain = [smf.ols("y ~ x", rows.to_pandas()).fit() for rows in copies]
    pooled = rubin(*_slopes(copies, plain))
    low = pooled.centre[0] + pooled.half[0]
    assert low < 0.72
    assert pooled.centre[0] + 0.5 * (0.8 - pooled.centre[0]) < found.value < 0.8 < found.interval[1]
    alone = gl.pool(copies, gl.Mean("x")).estimates[0]
    assert alone.interval[1] - alone.interval[0] < 0.1
    groups = gl.Mean("y", by="x")  # by the means of bins, but what is dealt is values
    results = [estimate(groups, *drawn) for drawn in copies.drawn_copies]
    plain = rubin(results[0].values, np.array([e.values for e in results]), np.array([e.variances for e in results]))
    wide = [
        (found_estimate.interval[1] - found_estimate.interval[0]) / 2
        for found_estimate in gl.pool(copies, groups).estimates[2:6]
    ]
    assert (np.array(wide) > 1.2 * plain.half[2:6]).all()
    reassigned = reassign_within_bins(copies.reference_sample, [0, 1], np.random.default_rng(0))
    for place in range(2):
        old, new = (np.sort(rows.numeric_values(place)) for rows in (copies.reference_sample, reassigned))
        np.testing.assert_array_equal(old, new)
        np.testing.assert_array_equal(copies.reference_sample.codes[place], reassigned.codes[place])


def _slopes(copies, fits):
    original = smf.ols("y ~ x", copies.reference_sample.to_pandas()).fit()
    return (
        np.array([original.params["x"]]),
        np.array([[fit.params["x"]] for fit in fits]),
        np.array([[fit.bse["x"] ** 2] for fit in fits]),
    )


def test_values_of_independent_columns_are_reassigned_at_random():
    rng = np.random.default_rng(5)
    schema = Schema("two", [gl.Number(name, bounds=(0, 1), bins=4) for name in ("x", "y")])
    table = gl.Table.read(pl.DataFrame({name: rng.random(20_000) for name in ("x", "y")}), schema)
    both = reassign_within_bins(table, [0, 1], rng)
    assert abs(np.corrcoef(both.numeric_values(0), both.numeric_values(1))[0, 1]) < 6 / np.sqrt(20_000)


def test_a_quantile_on_whole_numbers_is_one_of_them_and_holds_its_neighbours(tmp_path):
    """Nearly half of the rows are below 2: no sample of this size shows whether the median is 1 or 2."""
    rng = np.random.default_rng(6)
    schema = Schema("steps", [Integer("steps", bounds=(0, 9), bins=10)])
    rows = pl.DataFrame({"steps": rng.choice(10, 3000, p=[0.2, 0.3, 0.3, 0.1, 0.1, 0, 0, 0, 0, 0])})
    table = private(rows, schema, tmp_path, budget=gl.Budget(5.0, 1e-6))
    copies = gl.Independent().fit(table, spend=table.ledger.left).copies(8, seed=1)
    (median,) = gl.pool(copies, gl.Median("steps")).estimates
    assert median.interval == (1, 2)
    assert median.value in (1, 2)
    (quarter,) = gl.pool(copies, gl.Quantile("steps", 0.3)).estimates
    assert (quarter.value, quarter.interval) == (1, (1, 1))
    assert 0.5 < quarter.noise_factor < 5
    assert json.loads(json.dumps(gl.pool(copies, gl.Median("steps")).to_dict()))["estimates"][0]["gap_factor"] == 1


def test_the_interval_of_a_quantile_ends_at_the_edges_of_cells(tmp_path):
    """All values are 7.3. In the middle of its cell, between 7.296 and 7.304, there is none."""
    schema = Schema("wells", [gl.Number("acidity", bounds=(3, 11), bins="learned"), Integer("year", bounds=(0, 9))])
    rows = pl.DataFrame({"acidity": np.full(3000, 7.3), "year": np.arange(3000) % 10})
    table = private(rows, schema, tmp_path, budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        model = gl.Factors().fit(table, spend=table.ledger.left)
    (median,) = gl.pool(model.copies(2), gl.Median("acidity")).estimates
    low, high = median.interval
    assert median.value != 7.3
    assert low <= 7.3 <= high
    assert low < median.value < high
    assert high - low < 0.05
    (year,) = gl.pool(model.copies(2), gl.Median("year")).estimates
    assert all(end == int(end) for end in year.interval)


def test_noise_far_out_does_not_lower_a_correlation(tmp_path):
    """Bounds are much wider than values. Clipped noise there inflates the variance of copies several times."""
    rng = np.random.default_rng(9)
    grade = rng.integers(0, 6, 4_000)
    size = (500 + 40 * grade + rng.normal(0, 60, 4_000)).round().astype(int)
    schema = Schema("wide", [Integer("size", bounds=(0, 20_000), bins="learned"), Integer("grade", bounds=(0, 5))])
    table = private(pl.DataFrame({"size": size, "grade": grade}), schema, tmp_path, budget=gl.Budget(1.0, 1e-6))
    with fixed_noise(1):
        copies = gl.MST().fit(table, spend=table.ledger.left).copies(8, seed=1)
    (found,) = gl.pool(copies, Correlation("size", "grade")).estimates
    (reference,) = estimate(Correlation("size", "grade"), copies.reference_sample).values
    truth = np.corrcoef(size, grade)[0, 1]
    assert reference < truth / 2
    assert found.value == pytest.approx(truth, abs=0.15)


@pytest.mark.parametrize("method", [gl.Factors, gl.MST, gl.Mixture])
def test_there_is_no_interval_for_rows_in_which_nothing_was_observed(method, tmp_path, monkeypatch):
    """Nobody above 69 has a wage. Copies complete it from other people, and no interval covers that."""
    for steps in ("FOLLOW_STEPS", "COPY_STEPS"):
        monkeypatch.setattr(learners, steps, 20)
    rng = np.random.default_rng(8)
    age = rng.integers(20, 90, 6_000)
    wage = np.where(age < 70, 20 + age // 2 + rng.integers(-9, 10, 6_000), -1)
    sex = rng.choice(["F", "M"], 6_000)
    columns = [
        Integer("age", bounds=(20, 89), bins=14),
        Integer("wage", bounds=(0, 99), bins=10, may_be_missing=True, missing=["-1"]),
        Categorical("sex", ["F", "M"]),
    ]
    frame = pl.DataFrame({"age": age, "wage": wage, "sex": sex}).cast(pl.String)
    table = private(frame, Schema("work", columns), tmp_path, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        model = method().fit(table, spend=table.ledger.left)
    copies = model.copies(4, seed=1)
    texts = ("mean(wage) where age >= 70", "median(wage) where age >= 75", "mean(wage) where age < 70", "mean(wage)")
    old, oldest, young, everybody = (gl.pool(copies, parse_question(text)).estimates[0] for text in texts)
    assert old.interval is None
    assert "too few rows are behind it" in str(old.unsupported)
    assert oldest.interval is None
    assert young.interval is not None
    assert everybody.interval is not None
    if method is not gl.MST:  # which did not measure this pair
        assert all(sex.interval for sex in gl.pool(copies, gl.Mean("wage", by="sex")).estimates)
    bins = model.schema["age"].bin_of(np.array([20.0, 70.0, 89.0]))
    for first, last, truth in ((bins[0], bins[1] - 1, (age < 70).sum()), (bins[1], bins[2], 0)):
        rows, noise = model.measurements.observed_rows(model.schema, 1, 0, range(first, last + 1))
        assert abs(rows - truth) < 4 * noise + 1
        assert 0 < noise < 400
    assert model.measurements.observed_rows(model.schema, 1, 0, []) == (np.inf, 0.0)


def test_groups_that_noise_hides_have_no_interval(tmp_path):
    rng = np.random.default_rng(7)
    schema = Schema("groups", [Integer("age", bounds=(0, 9), bins=10), Categorical("town", ["x", "y", "z"])])
    towns = np.array(["x", "y", "z"])[np.where(np.arange(2000) < 15, 2, rng.integers(2, size=2000))]
    table = private(pl.DataFrame({"age": rng.integers(10, size=2000), "town": towns}), schema, tmp_path)
    with fixed_noise(3):
        copies = gl.Mixture().fit(table, spend=table.ledger.left).copies(10, seed=1)
    found = gl.pool(copies, gl.Mean("age", by="town"))
    assert [found_estimate.interval is None for found_estimate in found.estimates] == [False, False, True]
    assert found["z"].unsupported.startswith("not supported by this release: too few rows are behind it")


def test_a_share_of_fewer_rows_than_noise_is_as_uncertain_as_the_noise(tmp_path, monkeypatch):
    """Most copies have no row in such a cell, so that their differences alone are too small."""
    rows = 4000
    schema = Schema("people", [Categorical("ill", ["no", "yes"]), Categorical("town", ["x", "y", "z"])])
    frame = pl.DataFrame({"ill": ["yes"] * 6 + ["no"] * (rows - 6), "town": np.resize(["x", "y", "z"], rows)})
    table = private(frame, schema, tmp_path, budget=gl.Budget(0.4, 1e-6))
    with fixed_noise(3):
        copies = gl.MST().fit(table, spend=table.ledger.left).copies(10, seed=1)
    noise = pooling.cell_noise(copies.model, frozenset({0, 1}))
    assert noise > 3 * 2  # rows of each town who are ill
    widths = {}
    for question in (gl.Proportion("ill == yes", by="town"), CrossTable("ill", "town")):
        with monkeypatch.context() as patched:
            patched.setattr(pooling, "cell_noise", lambda *_: 0.0)
            widths[False] = [found.interval[1] - found.value for found in gl.pool(copies, question).estimates]
        widths[True] = [found.interval[1] - found.value for found in gl.pool(copies, question).estimates]
        behind = rows / 3 if isinstance(question, gl.Proportion) else rows
        least = 1.9 * noise / behind  # rows of copies differ by noise too
        rare = [place for place, found in enumerate(gl.pool(copies, question).estimates) if found.value < least]
        assert len(rare) >= 3
        assert all(widths[True][place] >= 0.9 * least for place in rare)
        assert min(widths[False][place] for place in rare) < 0.5 * least
        others = set(range(len(widths[True]))) - set(rare)
        assert all(widths[True][place] == widths[False][place] for place in others)


def test_groups_of_a_column_with_one_cell_are_those_of_all_rows(tmp_path):
    schema = Schema("groups", [Integer("age", bounds=(0, 9), bins=10), Categorical("all", ["x"])])
    table = private(pl.DataFrame({"age": [3, 4] * 500, "all": ["x"] * 1000}), schema, tmp_path)
    for method in (gl.Mixture(), gl.MST(), gl.PrivBayes()):
        copies = method.fit(table, spend=table.ledger.left / 2).copies(4, seed=1)
        (found,) = gl.pool(copies, gl.Mean("age", by="all")).estimates
        assert found.interval is not None


def test_a_function_of_chance_is_refused(copies):
    rng = np.random.default_rng(8)
    with pytest.raises(gl.errors.ModelError, match="returned two different results\n  Try: use a fixed seed"):
        gl.pool(copies, lambda _: (rng.random(), 1.0))


def _variance(copies, question):
    return np.mean([estimate(question, table).variances for table in copies])


@pytest.mark.parametrize(("method", "note_part"), [
    (gl.AIM(workload={("income", "sex"): 1.0}), "at random given sex alone"),
    (gl.Independent(missing=gl.Extended()), "independently of all other columns"),
    (gl.Mixture(), None),  # counts every pair
])  # fmt: skip
def test_notes_name_the_columns_given_which_gaps_are_at_random(method, note_part, tmp_path):
    columns = [replace(column, may_be_missing=column.name == "income") for column in SCHEMA.columns]
    table = private(people(500), Schema("people", columns), tmp_path, budget=gl.Budget(5.0, 1e-6))
    copies = method.fit(table, spend=table.ledger.left).copies(2, seed=1)
    notes = [note for note in gl.pool(copies, gl.Mean("income")).notes if note.startswith("Gaps of income")]
    assert [note_part in note for note in notes] == ([True] if note_part else [])
    assert not any("Gaps of" in note for note in gl.pool(copies, gl.Mean("age")).notes)


@pytest.mark.parametrize(("bins", "is_noted"), [(2, True), (None, False)])  # by default each of ten values has a bin
def test_bins_are_named_whose_inside_was_not_measured(bins, is_noted, tmp_path):
    schema = Schema("people", [Integer("age", bounds=(0, 9), bins=bins)])
    table = private(people(500)[["age"]], schema, tmp_path)
    copies = gl.Independent().fit(table, spend=table.ledger.left).copies(2, seed=1)
    notes = gl.pool(copies, gl.Mean("age")).notes
    assert any("Positions of values within the bins of age were not measured" in note for note in notes) == is_noted


def test_values_in_learned_bins_were_not_measured_with_other_columns(tmp_path):
    schema = Schema("people", [Integer("age", bounds=(0, 99), bins="learned"), SCHEMA.columns[1]])
    table = private(people(500)[["age", "sex"]], schema, tmp_path)
    with fixed_noise(1):
        copies = gl.MST().fit(table, spend=table.ledger.left).copies(2, seed=1)
    note_start = "Dependence within the bins of age was not measured"
    assert any(note_start in note for note in gl.pool(copies, gl.Mean("age", by="sex")).notes)
    assert not any("within bins" in note for note in gl.pool(copies, gl.Mean("age")).notes)


def test_a_relation_inside_two_last_bins_has_no_interval_but_that_of_ranks_has(tmp_path):
    """Half of the variance is inside the last bin of each column, where nothing was measured together."""
    rng = np.random.default_rng(5)
    area = np.minimum(5 * np.exp(1.3 * rng.normal(size=4000)), 1000)
    schema = Schema("farms", [gl.Number(name, bounds=(0, 1000), edges=(0, 5, 10, 1000)) for name in ("area", "aid")])
    table = private(pl.DataFrame({"area": area, "aid": area}), schema, tmp_path, budget=gl.Budget(3.0, 1e-6))
    with fixed_noise(1):
        copies = gl.Mixture().fit(table, spend=table.ledger.left).copies(3, seed=1)
    asked = [Correlation("area", "aid"), lambda rows: smf.ols("aid ~ area", rows.to_pandas()).fit()]
    asked += [RankCorrelation("area", "aid"), gl.Mean("area"), gl.Mean("aid", by="area")]
    pearson, slope, ranks, mean, groups = gl.pool(copies, asked)
    for refused in (pearson.estimates[0], slope["area"]):
        assert refused.interval is None
        assert "inside one bin of each" in refused.unsupported
        assert "spearman(aid, area), or narrower bounds" in refused.unsupported.replace("area, aid", "aid, area")
    assert ranks.estimates[0].interval
    assert mean.estimates[0].interval
    assert groups.estimates[0].interval


def test_a_question_without_rows_has_no_estimate(copies):
    found = str(gl.pool(copies, gl.Mean("age", where="age > 9")))
    assert "= no estimate\n  no interval: some copies have no row" in found


def test_weights_of_copies_are_respected(copies):
    heavy = copies.with_weights(lambda table: np.where(table.codes[1] == 0, 1.0, 1e-9))
    (mine,), female = gl.pool(heavy, gl.Mean("age")).estimates, gl.pool(copies, gl.Mean("age", by="sex"))["F"]
    assert mine.value == pytest.approx(female.value, abs=1e-4)


def test_estimates_depend_on_the_columns_of_weights(copies):
    """Age and town were not counted together: weights by town are no way around that."""
    by_sex = copies.with_weights(lambda table: 1.0 + table.codes[1])
    by_town = copies.with_weights(lambda table: 1.0 + table.codes[3])
    for estimator in (gl.Mean("age"), lambda table: gl.weights.weighted_mean(table, "age")):
        assert gl.pool(by_sex, estimator).estimates[0].interval
        (found,) = gl.pool(by_town, estimator).estimates
        assert found.interval is None
        assert "age × town was not measured" in found.unsupported


def test_weights_inside_a_linear_regression_are_looked_at(copies):
    models = pytest.importorskip("statsmodels.api")

    def slope(table, weights):
        age, income = (table[name].to_numpy() for name in ("age", "income"))
        return models.WLS(income, models.add_constant(age), weights=weights).fit()

    assert all(found_estimate.interval for found_estimate in gl.pool(copies, lambda table: slope(table, 1.0)).estimates)
    for found_estimate in gl.pool(copies, lambda table: slope(table, 1.0 + table.codes[3])).estimates:
        assert "age × income × town was not measured" in found_estimate.unsupported


@pytest.mark.parametrize(("seen", "hidden"), [(20, True), (2000, False)])
@pytest.mark.parametrize("method", [gl.MST, gl.Mixture, gl.Independent])
def test_a_column_of_which_noise_hides_what_is_observed_has_no_interval(method, seen, hidden, tmp_path):
    schema = Schema("people", [Integer("speed", bounds=(0, 9), bins=10, may_be_missing=True), SCHEMA.columns[1]])
    frame = people().select(pl.when(pl.int_range(pl.len()) < seen).then(pl.col("age")).alias("speed"), "sex")
    table = private(frame, schema, tmp_path, budget=gl.Budget(1.0, 1e-6))
    with fixed_noise(2):
        model = method().fit(table, spend=table.ledger.left)
    pooled = gl.pool(model.copies(3, seed=1), gl.Mean("speed"))
    assert ("noise hides the rows in which speed is observed" in pooled.estimates[0].unsupported) == hidden
    assert (pooled.estimates[0].interval is None) == hidden
    assert gl.pool(model.copies(3, seed=1), gl.Proportion("sex == F")).estimates[0].interval
