"""Comparisons with a private table: noisy, paid for, and with intervals for the noise."""

import json
import math

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.evaluate.private_comparison import NoisyDistance, noisy_distance
from gapless.privacy import DiscreteGaussian, DiscreteLaplace
from gapless.testing import noise
from gapless.testing.audit import letters_schema, private
from helpers.compared_tables import SCHEMA, people


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
    for word in (
        "Noisy numbers, paid with 30.00% of the budget",
        "and this page, is free",
        "with noise: ",
        "2,000 rows compared",
    ):
        assert word in text
    json.dumps(result.to_dict(), allow_nan=False)


def test_without_noise_the_private_distance_is_the_public_one(tmp_path):
    table, fake = sealed(tmp_path, budget=gl.Budget(1000.0, 0)), people(1500, 1)
    exact = gl.compare(people(2000, 0), fake)
    with noise.no_noise():
        noisy = gl.evaluate.compare_private(table, fake, spend=table.ledger.left)
    assert noisy.rows == (2000, 1500)
    for noisy_column, exact_column in zip(noisy.columns, exact.columns, strict=True):
        assert noisy_column.distance == pytest.approx(exact_column.distance, abs=1e-3)
        assert noisy_column.truth == pytest.approx(exact_column.truth)
        assert noisy_column.gaps == (pytest.approx(exact_column.gaps) if exact_column.gaps else None)
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
    with pytest.raises(gl.errors.SealedError, match="PrivateTable are sealed"):
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
def test_a_table_lost_in_noise_has_no_distance(tmp_path, rows):
    table = sealed(tmp_path, rows, budget=gl.Budget(0.1, 1e-6))
    with noise.no_noise():
        result = gl.evaluate.compare_private(table, people(50, 1), spend=table.ledger.left)
    assert result["one-way distance"].value is None
    assert all(column.distance is None for column in result.columns)
    result.write(tmp_path / "report.html")
    assert "-" in str(result)


def test_the_share_of_noise_is_taken_off():
    shares = np.full(4, 0.25)
    found = noisy_distance(np.array([400.0, 200, 200, 200]), shares, DiscreteGaussian(10.0))
    spread = 10 * math.sqrt(1 - 0.5 + 4 / 16)
    assert found.noisy == pytest.approx(0.15)
    assert found.by_noise == pytest.approx(math.sqrt(2 / math.pi) * 4 * spread / 2000)
    assert found.std == pytest.approx(10 * math.sqrt(1.5**2 + 3 * 0.5**2) / 2000)
    assert found.value == pytest.approx(math.sqrt(0.15**2 - found.by_noise**2))
    low, high = found.between
    assert low == pytest.approx(0.15 - found.by_noise - 2 * found.std)
    assert high == pytest.approx(0.15 + 2 * found.std)
    less = noisy_distance(np.array([400.0, 200, 200, 200]), shares, DiscreteLaplace(10.0))
    assert less.by_noise == pytest.approx(10 * 4 * math.sqrt(0.75) / 2000, rel=0.001)
    hidden = NoisyDistance(0.2, 0.21, 0.02)
    assert hidden.value == 0
    assert hidden.between == (0.0, pytest.approx(math.sqrt(math.pi / 2 * (0.24**2 - 0.21**2))))
    assert NoisyDistance(1.4, 0.1, 0.0).between == (1.0, 1.0)
    assert noisy_distance(np.array([10.0, 10.0]), np.array([0.5, 0.5]), DiscreteGaussian(10.0)) is None
    assert noisy_distance(np.array([1000.0, 0.0]), None, DiscreteGaussian(1.0)) is None
