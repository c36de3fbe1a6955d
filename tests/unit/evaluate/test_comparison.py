"""Comparisons of public tables, of private ones under a spend, and the pieces of the page."""

import json

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.draw.charts import span_text
from gapless.inference.precision import column_precision
from gapless.report.release_page import release_page
from gapless.schema import Categorical, Integer, Schema
from gapless.testing.audit import letters_schema, private
from helpers.compared_tables import NASTY, SCHEMA, people


def test_a_comparison_is_the_same_in_all_its_forms(tmp_path):
    truth, fake = people(300, 0), people(200, 1)
    steps = []
    result = gl.compare(truth, fake, progress=lambda *step: steps.append(step))
    assert [done for _, done, _ in steps] == list(range(15))  # a bar that moves to its end
    assert {of for *_, of in steps} == {15}
    assert [what for what, *_ in steps[:4]] == ["values", "columns", "pairs", "subgroups"]
    assert steps[-1][0] == "rows (second sample)"
    assert result["one-way distance"].value == pytest.approx(gl.evaluate.kway_distance(truth, fake, k=1))
    assert result["two-way distance"].value == pytest.approx(gl.evaluate.kway_distance(truth, fake, k=2))
    assert result["three-way distance"].value == pytest.approx(gl.evaluate.kway_distance(truth, fake, k=3))
    assert result["Wasserstein distance, rows"].value == pytest.approx(gl.evaluate.wasserstein_distance(truth, fake))
    assert result["gap rate error"].value < 0.1
    assert np.mean([column.distance for column in result.columns]) == pytest.approx(result["one-way distance"].value)
    assert (result.rows, result.weighted, result.spent, result.promise) == ((300, 200), False, None, None)
    assert "two-way distance" in str(result)
    assert "300 rows of truth" in str(result)
    assert json.loads(json.dumps(result.to_dict()))["table"] == "people & <co>"
    result.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert NASTY not in text
    assert "&lt;script&gt;" in text
    assert "people &amp; &lt;co&gt;" in text
    assert "Patterns of gaps" in text
    with pytest.raises(
        gl.errors.SchemaError, match="no score 'x'\n  Try: use one of: one-way distance; two-way distance; "
    ):
        result["x"]


def test_equal_tables_have_perfect_scores():
    truth = people(100, 0)
    assert all(score.value == pytest.approx(0) for score in gl.compare(truth, truth).scores)


def test_weights_reach_every_score(tmp_path):
    truth, frame = people(300, 0), people(200, 1).to_polars()
    times = np.random.default_rng(2).integers(0, 3, 200)
    fake, twice = (gl.Table.read(rows, SCHEMA) for rows in (frame, frame[np.repeat(np.arange(200), times)]))
    weighted, repeated = gl.compare(truth, fake, weights=times), gl.compare(truth, twice)
    assert [s.value for s in weighted.scores] == pytest.approx([s.value for s in repeated.scores])
    assert weighted.weighted
    with pytest.raises(gl.errors.SchemaError, match="199 weights"):
        gl.compare(truth, fake, weights=np.ones(199))
    assert gl.compare(truth, people(0, 1), weights=[]).weighted  # no rows, no weights: nothing is divided by them


def test_frames_and_paths_need_a_schema(tmp_path):
    truth, fake = people(50, 0), people(50, 1)
    truth.write(tmp_path / "truth.csv")
    result = gl.compare(tmp_path / "truth.csv", fake.to_polars(), schema=SCHEMA)
    assert result.scores == gl.compare(truth, fake).scores
    with pytest.raises(gl.errors.SchemaError, match="without a schema"):
        gl.compare(tmp_path / "truth.csv", fake)
    with pytest.raises(gl.errors.SchemaError, match="different schemas"):
        gl.compare(truth, gl.Table(letters_schema((2,)), [np.array([0])], rows=1))


def test_a_score_is_measured_by_a_second_sample_of_the_truth():
    """Another sample reaches about the reported score; shuffled cells do not."""
    truth, second = people(4000, 0), people(1000, 1)
    bad = gl.Table(SCHEMA, [np.minimum(codes, 1) for codes in second.codes], rows=1000)
    result, worse = gl.compare(truth, second), gl.compare(truth, bad)
    for score in result.scores:
        assert score.value < 4 * score.second_sample, score
        if score.name not in ("quantile error", "mean error", "spread error"):  # of one column: they may be 0 by chance
            assert score.second_sample < 4 * score.value, score
    for name in ("one-way distance", "two-way distance", "Wasserstein distance, rows"):
        assert worse[name].value > 4 * worse[name].second_sample
    assert "second sample" in str(result)
    heavy = gl.compare(truth, second, weights=np.arange(1000) < 250)  # weights of 0 are no rows
    few = gl.compare(truth, gl.Table(SCHEMA, [codes[:250] for codes in second.codes], rows=250))
    assert [score.second_sample for score in heavy.scores] == [score.second_sample for score in few.scores]
    assert all(score.second_sample is None for score in gl.compare(people(1, 0), second).scores)


def test_a_filled_table_is_compared_with_complete_rows_by_rows():
    truth = people(3000, 0)
    result = gl.compare(truth, people(3000, 1, gaps=False))["Wasserstein distance, rows"]
    assert result.about.endswith("Only rows without a gap, because one of the two tables is filled.")
    assert 0.6 * result.value < result.second_sample < 1.6 * result.value
    gone = gl.Table(SCHEMA, [np.full(5, c.extended_size - 1) for c in SCHEMA.columns], rows=5)
    assert gl.compare(gone, people(9, 1, gaps=False))["Wasserstein distance, rows"].value is None


def test_tasks_and_the_promise_of_a_ledger(tmp_path):
    pytest.importorskip("sklearn")
    table = private([("a", "b")] * 30, letters_schema((2, 2)), tmp_path)
    truth, fake = people(150, 0), people(150, 1)
    steps = []
    result = gl.compare(truth, fake, tasks=True, ledger=table.ledger.path, progress=lambda *step: steps.append(step))
    assert result.promise == str(table.ledger.guarantee())
    assert {task.label for task in result.tasks} <= set(SCHEMA.names)
    assert result["F1 of nine classifiers"].best is not None
    assert 0 <= result["detection AUC"].value <= 1
    assert steps[-1][0] == "detection"
    assert 0.5 < steps[-1][1] / steps[-1][2] < 1
    result.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for word in ("Prediction", "histogram boosting", "Privacy", "It does not cover this page"):
        assert word in text


def sealed(folder, rows=2000, *, budget=None):
    return private(people(rows, 0).to_text().cast(pl.String), SCHEMA, folder, budget=budget)


def test_the_report_of_a_release_reads_released_values_only(tmp_path):
    """It takes no private table, and one row more or less does not show in it but through the model."""
    table = sealed(tmp_path)
    for method in (gl.Independent(), gl.MST(), gl.PrivBayes(), gl.Independent(missing=gl.Observed())):
        model = method.fit(table, spend=table.ledger.share("20%"))
        assert set(model.facts.noise) == set(SCHEMA.names) - {"only"}  # a column of one cell is not measured
        assert all(std > 0 for std in model.facts.noise.values())
        before = table.ledger.spent
        for gaps in ("filled", "as-observed") if model.gapped is not None else ("filled",):
            text = release_page(model, model.sample(300, seed=1, gaps=gaps), table.ledger)
            assert "not how close they are to the truth" in text
            assert NASTY not in text
        assert table.ledger.spent == before
    assert ", 0 synthetic rows" in release_page(model, model.sample(0), table.ledger)


def test_the_report_leads_with_the_verdict_and_shows_no_model_beside_its_rows(tmp_path):
    schema = Schema("votes", [Integer("votes", bounds=(0, 999), bins=4), Categorical("town", ["a", "b", "c"])])
    rows = [("5", "a")] * 9000 + [("400", "b")] * 900 + [("999", "c")] * 100
    table = private(rows, schema, tmp_path, budget=gl.Budget(0.5, 0))
    model = gl.Independent().fit(table, spend=table.ledger.left)
    sample = model.sample(seed=1)
    text = release_page(model, sample, table.ledger)
    titles = ("Verdict: ", "Columns", "Noise, col", "What was measured")
    places = [text.index(f"<h2>{title}") for title in titles]
    assert places == sorted(places)
    assert "from model" not in text
    assert "the model, fitted to" not in text
    assert text.count('class="truth"') == 0  # one bar for each cell, that of the synthetic rows
    column = column_precision(model)[0]
    assert column.noise_std == pytest.approx(model.facts.noise["votes"])
    reach = 1.959964 * column.noise_std
    assert f"± {reach:,.0f}".replace(" ", "\xa0") in text
    _, low, high = column.share_intervals()[0]
    assert span_text(low, high) in text
    _, low, high = column.mean_interval()
    assert f"({low:.4g} to {high:.4g})" in text
    assert "2 of 2 columns by themselves." in text
    assert "0 of 1 pair of columns together" in text
    assert "votes × town" in text.partition("Not measured")[2]
    assert "One bin has most of the rows: votes." in text


def test_the_report_lists_tables_that_did_not_fit_the_tree(tmp_path):
    schema = letters_schema((3, 3, 3, 3))
    table = private([("a", "a", "b", "b"), ("b", "b", "c", "c")] * 50, schema, tmp_path)
    narrow, wide = (gl.AIM(cap_cells=cap).fit(table, spend=table.ledger.left / 2) for cap in (60, 10**6))
    limited, silent = (release_page(model, model.sample(50, seed=1), table.ledger) for model in (narrow, wide))
    assert "The tree (cap_cells = 60) has no room for " in limited
    assert "has no room for" not in silent


def test_the_report_of_a_very_wide_table_is_bounded(tmp_path, monkeypatch):
    """Of 60 columns the first 40 are drawn, and nothing is asked of the model, which may be slow."""
    schema = letters_schema((3,) * 60)
    table = private([("a",) * 60] * 20, schema, tmp_path)
    model = gl.Independent().fit(table, spend=table.ledger.left)
    asked, marginal = [], type(model).marginal

    def listen(self, columns, *, gaps):
        asked.append((columns, gaps))
        return marginal(self, columns, gaps=gaps)

    monkeypatch.setattr(type(model), "marginal", listen)
    sample = model.sample(100, seed=1)
    text = release_page(model, sample, table.ledger)
    assert asked == []
    assert text.count("<title>Shares of ") == 40
    assert "The first 40 of 60 columns are drawn" in text
    assert len(text) < 500_000
    gl.compare(model.sample(20, seed=1), model.sample(20, seed=2)).write(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count("<title>Shares of ") == 40
    assert "The first 40 of 60 columns are drawn" in page


def test_a_model_too_large_to_be_asked_still_has_a_report(tmp_path, monkeypatch):
    table = sealed(tmp_path)
    model = gl.Independent().fit(table, spend=table.ledger.left)

    def refuse(*_, **__):
        raise gl.errors.ModelError("too large", hint="fit a smaller model")

    monkeypatch.setattr(type(model), "marginal", refuse)
    text = release_page(model, model.sample(50, seed=1), table.ledger)
    assert "Shares of age" in text
