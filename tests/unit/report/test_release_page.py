"""The report of a release: the verdict first, certain relations only, no calm numbers for what is lost."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.usability import usability
from gapless.report.relations import MOST_MAPPED, MOST_PLOTTED
from gapless.report.release_page import release_page
from gapless.schema import Categorical, Integer, Ordinal, Schema
from gapless.testing import fixed_noise
from gapless.testing.audit import private

NUMBERS = Schema("t", [Integer("x", bounds=(0, 19), bins=10), Integer("y", bounds=(0, 19), bins=10)])


def page_of(frame, schema, folder, method, budget):
    table = private(frame.cast(pl.String), schema, folder, budget=budget)
    with fixed_noise(1):
        model = method.fit(table, spend=table.ledger.left)
    return model, release_page(model, model.sample(400, seed=1), table.ledger)


def test_a_release_of_few_rows_has_no_calm_numbers(tmp_path):
    rng = np.random.default_rng(0)
    schema = Schema("air", [Integer(name, bounds=(1, 168), bins="learned") for name in ("Ozone", "Solar", "Temp")])
    frame = pl.DataFrame({name: rng.integers(1, 169, 153) for name in schema.names})
    model, text = page_of(frame, schema, tmp_path, gl.Factors(), gl.Budget(1.0, 1e-6))
    assert usability(model).verdict == "mostly noise"
    main = text.partition("<main>")[2]
    assert re.match(r"<h1>Report: air</h1><section [^>]*><h2>Verdict: mostly noise</h2>", main)
    assert "Ask two or three questions instead" in main
    for column in usability(model).columns:
        if column.is_collapsed:
            card = text.partition(f"<title>Shares of {column.column.name}</title>")[2]
            card = card.partition('class="card"')[0].partition("</section>")[0]
            assert "Lost: noise left one bin for all values." in card
            assert "whisker" not in card
            assert "Mean" not in card
            assert "±" not in card
    assert text.count(">lost</span>") >= 2
    assert "<h2>Numbers that go together</h2>" not in text


def test_relations_are_sorted_by_what_is_certain_and_others_are_grey(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, 20_000)
    frame = pl.DataFrame({"x": x, "y": np.where(rng.random(20_000) < 0.8, x, rng.integers(0, 20, 20_000))})
    schema = Schema("t", [*NUMBERS.columns, Ordinal("z", list("abc"))])
    frame = frame.with_columns(pl.Series("z", rng.choice(list("abc"), 20_000)))
    table = private(frame.cast(pl.String), schema, tmp_path, budget=gl.Budget(2.0, 1e-6))
    with fixed_noise(1):
        model = gl.Mixture().fit(table, spend=table.ledger.left)
    judged = usability(model)
    known = {pair.columns: pair for pair in judged.pairs}
    weak = (
        replace(known[0, 2], value=0.3, low=0.1, high=0.5, at_once=(-0.1, 0.7)),
        replace(known[1, 2], value=0.0, low=-0.1, high=0.1, at_once=(-0.2, 0.2)),
    )
    judged = replace(judged, pairs=(known[0, 1], *weak))
    again = partial(release_page, model, model.sample(400, seed=1), table.ledger, judged)
    text = again()
    assert text == again()
    strongest = text.partition("<h3>The strongest</h3>")[2].partition("</table>")[0]
    assert "x × y" in strongest
    assert "x × z" not in strongest
    assert (" *</td>" in strongest) == ("*: in the synthetic rows" in text)
    assert re.search(r'class="hot" fill-opacity="0.000"><title>x × z: Spearman', text)  # grey
    intervals = text.partition("<h3>All intervals</h3>")[2]
    assert intervals.index("x × y ") < intervals.index("x × z ")
    plots = text.partition("<h2>Numbers that go together</h2>")[2]
    assert plots.count('class="band"') == 1
    assert 0 < plots.count("<circle") <= 300


def test_a_wide_release_maps_the_columns_with_the_strongest_relations(tmp_path):
    rng = np.random.default_rng(0)
    schema = Schema("wide", [Categorical(f"c{place}", ["a", "b"]) for place in range(MOST_MAPPED + 4)])
    columns = {name: rng.choice(["a", "b"], 4000) for name in schema.names}
    last = schema.names[-1]
    columns[last] = columns[schema.names[-2]]
    _, text = page_of(pl.DataFrame(columns), schema, tmp_path, gl.Mixture(), gl.Budget(3.0, 1e-6))
    assert f"Shown: the {MOST_MAPPED} columns with the strongest certain relations." in text
    strongest = text.partition("<h3>The strongest</h3>")[2].partition("</table>")[0]
    first, *others = re.findall(r"<td>(.*?)</td>.*?</tr>", strongest)
    assert first == f"{schema.names[-2]} × {last}"
    assert len(others) < 8  # of 561 pairs about 28 have an ordinary 95% interval without 0
    assert MOST_PLOTTED == 6


def test_a_method_without_measurements_is_not_judged(tmp_path):
    frame = pl.DataFrame({"x": np.arange(400) % 20, "y": np.arange(400) % 20})
    table = private(frame.cast(pl.String), NUMBERS, tmp_path, budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        model = gl.Independent().fit(table, spend=table.ledger.left)
    silent = type(model)(NUMBERS, model.filled, None, model.total, model.facts)
    text = release_page(silent, silent.sample(50, seed=1), table.ledger)
    assert "<h2>Relations</h2>" not in text
    assert "keeps no measurements of pairs" in text


@pytest.mark.parametrize("rows", [0, 1])
def test_a_page_without_rows_has_no_plots(tmp_path, rows):
    rng = np.random.default_rng(0)
    x = rng.integers(0, 20, 20_000)
    table = private(pl.DataFrame({"x": x, "y": x}).cast(pl.String), NUMBERS, tmp_path, budget=gl.Budget(2.0, 1e-6))
    with fixed_noise(1):
        model = gl.Mixture().fit(table, spend=table.ledger.left)
    assert "<circle" not in release_page(model, model.sample(rows, seed=1), table.ledger)
