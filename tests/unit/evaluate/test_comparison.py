"""Comparisons of public tables, of private ones under a spend, and the pieces of the page."""

import json
import math
import re

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.draw import charts, page
from gapless.evaluate.comparison import Score
from gapless.evaluate.comparison_page import comparison_page, score_cards
from gapless.evaluate.private_comparison import NoisyDistance, noisy_distance
from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.report import release_page as report
from gapless.report.release_page import release_page
from gapless.schema import Categorical, Integer, Schema
from gapless.testing import noise
from gapless.testing.audit import letters_schema, private

NASTY = '<script>alert("x")</script>'
SCHEMA = Schema(
    "people & <co>",
    [
        Integer("age", bounds=(0, 99), bins=40, may_be_missing=True),
        Categorical(f"town {NASTY}", ["a", f"b{NASTY}", *(f"t{i}" for i in range(30))], may_be_missing=True),
        Categorical("sex", ["f", "m"]),
        Categorical("only", ["one"]),
    ],
)


def people(rows, seed, *, gaps=True):
    rng = np.random.default_rng(seed)
    codes = []
    for column in SCHEMA.columns:
        cells = rng.integers(0, column.size, rows)
        if gaps and column.gaps:
            cells[rng.random(rows) < 0.1] = column.size
        codes.append(cells)
    return gl.Table(SCHEMA, codes, rows=rows)


# ---------------------------------------------------------------------- public tables


def test_a_comparison_tells_the_same_in_all_its_forms(tmp_path):
    truth, fake = people(300, 0), people(200, 1)
    told = []
    result = gl.compare(truth, fake, progress=lambda *step: told.append(step))
    assert [done for _, done, _ in told] == list(range(15))  # a bar that moves to its end
    assert {of for *_, of in told} == {15}
    assert [what for what, *_ in told[:4]] == ["values", "columns", "pairs", "subgroups"]
    assert told[-1][0] == "rows (second sample)"
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
        gl.errors.SchemaError, match="no score 'x'\n  Try: one of: one-way distance; two-way distance; "
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


@pytest.mark.parametrize("rows", [(0, 0), (0, 30), (30, 0), (1, 1)])
def test_tiny_tables_make_a_page_too(tmp_path, rows):
    result = gl.compare(people(rows[0], 0), people(rows[1], 1))
    assert ("without rows there is nothing to compare" in str(result)) == (0 in rows)
    result.write(tmp_path / "report.html")
    json.dumps(result.to_dict(), allow_nan=False)


def test_a_single_column_and_a_filled_table(tmp_path):
    one = Schema("one", [Categorical("x", ["a"], may_be_missing=True)])
    truth = gl.Table(one, [np.array([0, 1, 1])], rows=3)
    fake = gl.Table(one, [np.array([0, 0])], rows=2)
    result = gl.compare(truth, fake)
    assert [score.name for score in result.scores if "gap" in score.name] == []
    result.write(tmp_path / "report.html")
    assert "is filled" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_second_sample_of_the_truth_is_what_a_score_is_measured_by():
    """Another sample reaches about what is told, one of shuffled cells does not."""
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
    assert result.about.endswith("Among rows without a gap, since one of the two tables is filled.")
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
    assert steps[-1][0] == "telling rows apart"
    assert 0.5 < steps[-1][1] / steps[-1][2] < 1
    result.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for word in ("What can be learned", "histogram boosting", "Privacy", "This page is not in it"):
        assert word in text


# ---------------------------------------------------------------------- private tables


def sealed(folder, rows=2000, *, budget=None):
    return private(people(rows, 0).to_text().cast(pl.String), SCHEMA, folder, budget=budget)


@pytest.mark.parametrize("budget", [gl.Budget(1.0, 0), gl.Budget(1.0, 1e-6)])
def test_a_private_table_is_compared_by_noisy_counts_and_pays(tmp_path, budget):
    table, fake = sealed(tmp_path, budget=budget), people(2000, 1)
    share = table.ledger.share("30%")
    result = gl.evaluate.compare_private(table, fake, spend=share)
    assert table.ledger.spent.value == pytest.approx(share.value)
    entries = table.ledger.entries
    assert len(entries) == 4 + 6
    assert {entry.batch for entry in entries} == {1}
    assert [entry.loss for entry in entries] == pytest.approx([share.value / 8] * 4 + [share.value / 12] * 6)
    assert all(entry.reads is None for entry in entries)  # every row is counted, gaps as cells
    assert result.spent == "30.00% of the budget"
    assert " about " in str(result).splitlines()[0]  # the number of rows is noisy
    assert result.promise == str(table.ledger.guarantee())
    for score in result.scores[:2]:
        low, high = score.between
        assert low <= score.value <= high
        assert low < high
    assert result["two-way distance"].about.startswith("Mean total variation distance of ")
    assert len(result.pairs) == 6
    result.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    for word in ("Noisy numbers, paid with 30.00% of the budget", "Free:", "noise leaves open", "2,000 rows compared"):
        assert word in text
    json.dumps(result.to_dict(), allow_nan=False)


def test_without_noise_the_private_distance_is_the_public_one(tmp_path):
    table, fake = sealed(tmp_path, budget=gl.Budget(1000.0, 0)), people(1500, 1)
    exact = gl.compare(people(2000, 0), fake)
    with noise.no_noise():
        noisy = gl.evaluate.compare_private(table, fake, spend=table.ledger.left)
    assert noisy.rows == (2000, 1500)
    for one, two in zip(noisy.columns, exact.columns, strict=True):
        assert one.distance == pytest.approx(two.distance, abs=1e-3)
        assert one.truth == pytest.approx(two.truth)
        assert one.gaps == (pytest.approx(two.gaps) if two.gaps else None)
    assert {p.columns: p.distance for p in noisy.pairs} == pytest.approx(
        {p.columns: p.distance for p in exact.pairs}, abs=1e-3
    )
    for name in ("one-way distance", "two-way distance"):
        assert noisy[name].value == pytest.approx(exact[name].value, abs=1e-3)


def test_pairs_can_be_chosen_and_what_is_wrong_costs_nothing(tmp_path):
    table, fake = sealed(tmp_path), people(100, 1)
    for pairs in (["sex"], [("sex", "nobody")], [("sex", "sex")], [("sex",)]):
        with pytest.raises(gl.errors.SchemaError):
            gl.evaluate.compare_private(table, fake, spend=table.ledger.left, pairs=pairs)
    with pytest.raises(gl.errors.SchemaError, match="different schemas"):
        other = gl.Table(letters_schema((2,)), [np.array([0])], rows=1)
        gl.evaluate.compare_private(table, other, spend=table.ledger.left)
    with pytest.raises(gl.errors.SchemaError, match="1 weight for 100 rows"):
        gl.evaluate.compare_private(table, fake, spend=table.ledger.left, weights=[1])
    with pytest.raises(gl.errors.SealedError, match="PrivateTable is sealed"):
        gl.compare(table, fake)
    with pytest.raises(gl.errors.SealedError, match=r"takes a PrivateTable, not a Table\n  Try: use compare\("):
        gl.evaluate.compare_private(fake, fake, spend=table.ledger.left)
    with pytest.raises(gl.errors.SchemaError, match="no rows"):
        gl.evaluate.compare_private(table, people(0, 1), spend=table.ledger.left)
    assert table.ledger.spent.value == 0
    none = gl.evaluate.compare_private(table, fake, spend=table.ledger.share("50%"), pairs=[])
    assert none.pairs == ()
    assert len(table.ledger.entries) == 4
    some = gl.evaluate.compare_private(
        table, fake, spend=table.ledger.left, pairs=[("age", "sex")], weights=np.ones(100)
    )
    assert [pair.columns for pair in some.pairs] == [("age", "sex")]
    assert some.weighted


@pytest.mark.parametrize("rows", [0, 1])
def test_a_table_lost_in_noise_tells_nothing(tmp_path, rows):
    table = sealed(tmp_path, rows, budget=gl.Budget(0.1, 1e-6))
    with noise.no_noise():
        result = gl.evaluate.compare_private(table, people(50, 1), spend=table.ledger.left)
    assert result["one-way distance"].value is None
    assert all(column.distance is None for column in result.columns)
    result.write(tmp_path / "report.html")
    assert "-" in str(result)


def test_the_share_of_noise_is_taken_off():
    law = np.full(4, 0.25)
    found = noisy_distance(np.array([400.0, 200, 200, 200]), law, DiscreteGaussian(10.0))
    spread = 10 * math.sqrt(1 - 0.5 + 4 / 16)
    assert found.noisy == pytest.approx(0.15)
    assert found.by_noise == pytest.approx(math.sqrt(2 / math.pi) * 4 * spread / 2000)
    assert found.std == pytest.approx(10 * math.sqrt(1.5**2 + 3 * 0.5**2) / 2000)
    assert found.value == pytest.approx(math.sqrt(0.15**2 - found.by_noise**2))
    low, high = found.between
    assert low == pytest.approx(0.15 - found.by_noise - 2 * found.std)
    assert high == pytest.approx(0.15 + 2 * found.std)
    less = noisy_distance(np.array([400.0, 200, 200, 200]), law, DiscreteLaplace(10.0))
    assert less.by_noise == pytest.approx(10 * 4 * math.sqrt(0.75) / 2000, rel=0.001)
    hidden = NoisyDistance(0.2, 0.21, 0.02)
    assert hidden.value == 0
    assert hidden.between == (0.0, pytest.approx(math.sqrt(math.pi / 2 * (0.24**2 - 0.21**2))))
    assert NoisyDistance(1.4, 0.1, 0.0).between == (1.0, 1.0)
    assert noisy_distance(np.array([10.0, 10.0]), np.array([0.5, 0.5]), DiscreteGaussian(10.0)) is None
    assert noisy_distance(np.array([1000.0, 0.0]), None, DiscreteGaussian(1.0)) is None


# ---------------------------------------------------------------------- pages and charts


def test_text_is_escaped_and_html_is_not_twice():
    assert page.tag("p", "<", page.tag("b", "&"), title='"') == '<p title="&quot;">&lt;<b>&amp;</b></p>'
    assert page.tag("i", hidden=None) == "<i></i>"
    assert "<title>a &lt; b</title>" in page.page("a < b")


def test_many_cells_are_folded_into_few_bars():
    cells = [f"c{i}" for i in range(40)]
    law = [1 / 40] * 40
    ordered = charts.bars("x", cells, (law, law), ("a", "b"), ordered=True, noise=0.1)
    assert ordered.count("<rect") == 2 * 14
    assert "c0 … c2" in ordered
    assert "whisker" not in ordered
    rest = charts.bars("x", cells, (law, law), ("a", "b"), ordered=False)
    assert "27 others" in rest
    few = charts.bars("x", cells[:3], ([0.5, 0.5, 0], [1, 0, 0]), ("a", "b"), ordered=True, noise=0.1)
    assert few.count("whisker") == 3


def test_spans_of_days_are_told_apart_and_in_full_on_hover():
    days = [f"20{i:02d}-01-05..20{i:02d}-06-07" for i in range(3)]
    drawn = charts.bars("x", days, ([0.25] * 3, [0.25] * 3), ("a", "b"), ordered=True)
    for label, cell in zip(("2000-01-05..06-07", "2001-01-05..06-07"), days, strict=False):
        assert f"<title>{cell}</title>{label}</text>" in drawn
    assert charts.labels([*days, "2004-12-30..2005-01-09"])[::3] == ["from 2000-01-05", "from 2004-12-30"]
    assert charts.labels(["2001-01-01..2003-12-31"]) == ["2001..2003"]
    assert charts.labels(["2001-01-01T00:00:00..2001-03-04T23:59:59"]) == ["2001-01-01..03-04"]
    alike = charts.labels(["employed by the state of A", "employed by the state of B"])
    assert alike[0] != alike[1]
    assert max(map(len, alike)) <= 18
    many = [f"{10 * i}..{10 * i + 9}" for i in range(28)]
    assert "<title>0..19</title>0..19<" in charts.bars("x", many, ([0] * 28, [0] * 28), ("a", "b"), ordered=True)


# Advance widths of DejaVu Sans, in thousandths of its size.
DEJAVU = dict(zip("[7.815240, )chinstrapegudM…東", (
    390, 636, 318, 636, 636, 636, 636, 636, 636, 318, 318, 390, 550, 634, 278, 634, 521, 392, 411, 613, 635, 615, 635,
    634, 635, 863, 1000, 1000), strict=True))  # fmt: skip


@pytest.mark.parametrize(
    "cell", ["[7.871524, 8.110864)", "chinstrap penguin and dunes", "M" * 18, "東" * 18, "chin", "7" * 500]
)
def test_labels_have_room_in_a_wide_font(cell):
    drawn = [
        charts.bars("x", [cell], ([1.0], [1.0]), ("a", "b"), ordered=False),
        charts.bars("x", [f"{cell}1", f"{cell}2"], ([0.5] * 2,) * 2, ("a", "b"), ordered=False),
        charts.heat_map("x", ["a", cell], {("a", cell): 0.5}, full=1, told={("a", cell): "x"}),
        charts.dots("x", [(cell, 0.5, 0.5)], ("a", "b")),
    ]
    for drawing in drawn:
        shown = re.findall(r'<text x="([\d.]+)"[^>]*text-anchor="end"><title>[^<]*</title>([^<]+)<', drawing)
        assert shown
        assert len(set(shown)) == len(shown)
        for end, label in shown:
            assert sum(12 / 1000 * DEJAVU.get(letter, 636) for letter in label) <= float(end), label


def test_a_count_is_whole_and_a_distance_is_not():
    scores = [Score("rows", rows, None, "") for rows in (0, 69, 12345)] + [Score("distance", 0.25, None, "")]
    assert re.findall("<b>(.*?)</b>", score_cards(scores, [None] * 4)) == ["0", "69", "12,345", "0.250"]


def test_whiskers_stay_in_the_drawing_and_clear_of_the_numbers():
    drawn = charts.bars("x", ["c"], ([0.9], [0.9]), ("a", "b"), ordered=True, noise=0.5)
    end = float(re.search(r'H([\d.]+)M[^"]*" class="whisker"', drawn)[1])
    number = float(re.search(r'<text x="([\d.]+)" y="12.0" class="soft tiny">', drawn)[1])
    assert end + 5 < number < 290


def test_heat_is_the_same_on_every_page_and_has_a_key():
    names, told = ["a", "b"], {("a", "b"): "x"}
    drawn = [charts.heat_map("x", names, {("a", "b"): v}, full=0.3, told=told) for v in (0.03, 0.15, 0.3, 0.9)]
    heats = [re.search(r'fill-opacity="([\d.]+)"><title>x', one)[1] for one in drawn]
    assert heats == ["0.100", "0.500", "1.000", "1.000"]
    assert "30 and more" in drawn[0]


def test_a_wide_picture_keeps_its_names_in_sight_and_a_wide_table_its_rows():
    names = [f"column {i}" for i in range(30)]
    pairs = {(names[0], name): 0.1 for name in names[1:]}
    heat = charts.heat_map("x", names, pairs, full=1, told=dict.fromkeys(pairs, "x"))
    stays, moves = re.findall(r"<svg.*?</svg>", heat)
    assert 'class="stays"' in stays
    assert f"<title>{names[29]}</title>" in stays
    assert stays.count("<rect") == 0
    sizes = [re.search(r'viewBox="0 0 (\d+) (\d+)"', part).groups() for part in (stays, moves)]
    assert sizes[0][1] == sizes[1][1]  # equally high, so that rows stand beside their names
    assert float(sizes[0][0]) <= 132
    shown = charts.pattern_picture("x", names, [((names[1],), 0.5, 0.4)], ("a", "b"))
    stays, moves = re.findall(r"<svg.*?</svg>", shown)
    assert ">50.0%</text>" in stays
    assert ">50.0%</text>" not in moves
    assert 'class="many"' in page.table("abcd", [])
    assert 'class="many"' not in page.table("abc", [])
    for rule in (
        ".map .stays { position: sticky",
        "break-inside: avoid",
        "break-after: avoid",
        ".wide .many tr { display: flex",
    ):
        assert rule in page.STYLE


def test_merged_cells_have_the_noise_of_their_sum():
    drawn = charts.noisy_bars("x", [f"{i}" for i in range(28)], [1 / 28] * 28, 0.01, 1e9, ordered=True)
    assert drawn.count('class="other"') == 14
    assert f"7.1% ± {196 * 0.01 * math.sqrt(2):.1f}" in drawn


def test_equal_dots_are_both_seen():
    drawn = charts.dots("x", [("a", 0.5, 0.5)], ("one", "two"))
    assert re.findall(r'r="([\d.]+)" class="(\w+)"', drawn) == [("6.5", "ring"), ("4", "other")]


def test_exact_and_noisy_pages_look_different_and_explain_what_is_empty(tmp_path):
    exact = comparison_page(gl.compare(people(50, 0), people(50, 1)))
    assert 'class="note warn"' in exact
    assert "Not for others, unless the truth is public" in exact
    table = sealed(tmp_path)
    noisy = comparison_page(
        gl.evaluate.compare_private(table, people(50, 1), spend=table.ledger.left, pairs=[("age", "sex")])
    )
    assert 'class="note warn"' not in noisy
    assert "Shown: 1 of 6 pairs; the others were not measured" in noisy
    assert "; noise leaves open " in noisy
    assert '<p class="soft">About ' in noisy


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
    assert ", 0 synthetic ones" in release_page(model, model.sample(0), table.ledger)


def test_the_report_leads_with_noise_by_the_size_of_cells_and_shows_no_model_beside_its_rows(tmp_path):
    schema = Schema("votes", [Integer("votes", bounds=(0, 999), bins=4), Categorical("town", ["a", "b", "c"])])
    rows = [("5", "a")] * 9000 + [("400", "b")] * 900 + [("999", "c")] * 100
    table = private(rows, schema, tmp_path, budget=gl.Budget(0.5, 0))
    model = gl.Independent().fit(table, spend=table.ledger.left)
    sample = model.sample(seed=1)
    text = release_page(model, sample, table.ledger)
    places = [text.index(f"<h2>{title}") for title in ("How much noise", "Noise, col", "What was measured", "Columns")]
    assert places == sorted(places)
    assert "from model" not in text
    assert "the model, fitted to" not in text
    assert text.count('class="truth"') == 0  # one bar for each cell, that of the synthetic rows
    noise_std = model.facts.noise["votes"]
    column = report._noisy_column(model, sample, 0, lambda _: 1.0)
    shares = np.bincount(sample.codes[0], minlength=4) / sample.rows
    assert column.shares == pytest.approx(tuple(shares))
    assert column.std == pytest.approx(noise_std / model.total)
    assert column.clarity[0] == "clear"
    assert column.clarity[2] == "lost"  # a cell without rows
    assert column.off == pytest.approx(1.96 * noise_std * 4 / model.total)
    assert "2 of 2 columns by themselves." in text
    assert "0 of 1 pair of columns together" in text
    assert "votes × town" in text.partition("Not measured")[2]
    assert "Most rows lie in one bin of votes." in text


def test_the_report_says_what_the_tree_had_no_room_for(tmp_path):
    schema = letters_schema((3, 3, 3, 3))
    table = private([("a", "a", "b", "b"), ("b", "b", "c", "c")] * 50, schema, tmp_path)
    narrow, wide = (gl.AIM(cap_cells=cap).fit(table, spend=table.ledger.left / 2) for cap in (60, 10**6))
    told, silent = (release_page(model, model.sample(50, seed=1), table.ledger) for model in (narrow, wide))
    assert "The tree (cap_cells = 60) has no room for " in told
    assert "has no room for" not in silent


def test_the_report_of_a_very_wide_table_is_bounded(tmp_path, monkeypatch):
    """Of 60 columns the first 40 are drawn, and nothing is asked of the model about the others."""
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
    assert {columns for columns, _ in asked} == set(schema.names[:40])
    assert len(asked) == len(set(asked))  # in a large network each answer takes a while
    assert text.count("<title>Shares of ") == 40
    assert "The first 40 of 60 columns are drawn" in text
    assert len(text) < 500_000
    gl.compare(model.sample(20, seed=1), model.sample(20, seed=2)).write(tmp_path / "page.html")
    told = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert told.count("<title>Shares of ") == 40
    assert "The first 40 of 60 columns are drawn" in told


def test_a_model_too_large_to_be_asked_still_has_a_report(tmp_path, monkeypatch):
    table = sealed(tmp_path)
    model = gl.Independent().fit(table, spend=table.ledger.left)

    def refuse(*_, **__):
        raise gl.errors.ModelError("too large", hint="none")

    monkeypatch.setattr(type(model), "marginal", refuse)
    text = release_page(model, model.sample(50, seed=1), table.ledger)
    assert "Shares of age" in text
