"""Answers as they are printed, and their intervals."""

import json
import math

import numpy as np
import pytest

import gapless as gl
from gapless.query import parse_question
from gapless.query.answers import Noise, _ratio_limits, ratio_interval
from gapless.testing.audit import private
from gapless.testing.noise import no_noise
from helpers.small_tables import ROWS, SCHEMA, ask


def test_an_answer_prints_its_estimate_notes_and_entries(table):
    answer = ask(table, gl.Mean("income", where="age < 30"))
    assert answer.entries == (1,)
    assert answer.noise_std is None
    assert "Rows with a gap in income are left out.\n" in str(answer)
    assert "NOT PRIVATE: noise of a test" in str(answer)
    assert "Paid by entry 1 of the ledger." in str(answer)
    assert "mean(income) where age < 30 = 10" in str(answer)
    written = json.loads(json.dumps(answer.to_dict()))
    assert written["estimates"][0]["estimate"] == pytest.approx(10)
    assert written["entries"] == [1]
    count = ask(table, gl.Count())
    assert count.noise_std == pytest.approx(math.sqrt(2) * 100, rel=1e-3)
    assert "left out" not in str(count)
    assert "clamped to [0, 50]" in ask(table, gl.Sum("income", bounds=(0, 50))).measures


def test_an_answer_quotes_what_its_ledger_promises(tmp_path):
    """Under a filter for the complete table the incomplete one has another ε, and it comes first."""
    for assumed in (None, gl.MCAR({"income": 0.5})):
        table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=assumed))
        answer = table.ask(gl.Count(where="income < 50"), spend=table.ledger.left)
        guarantee = table.ledger.guarantee() if assumed is None else table.ledger.ground_truth()
        assert " ".join(str(guarantee).split()) in " ".join(str(answer).split())
        assert "of the incomplete table" in str(answer)
        first, *notes = str(answer).splitlines()  # found by review: lines after the first of a note stood at the margin
        assert first.startswith("count() where income < 50 = ")
        assert all(line.startswith("  ") and line[2] != " " for line in notes)
        assert len(notes) == (4 if assumed is None else 5)
        assert notes[-1] == "  Paid by entry 1 of the ledger."


def test_notes_follow_the_groups_and_list_all_entries(table):
    with no_noise():
        answer = table.ask(gl.Median("age", by="sex"), spend=table.ledger.left)
    assert str(answer).splitlines() == [
        "median(age) by sex",
        *(f"  {name}  {estimate}" for name, estimate in zip("FM", answer.estimates, strict=True)),
        "  Rows with a gap in sex are left out.",
        f"  {answer.interval_note}",
        f"  {answer.protects}",
        "  Paid by entries 1, 2, 3 of the ledger.",
    ]


@pytest.mark.parametrize("laplace", [True, False])
def test_the_noise_limit_of_a_ratio_is_convex(laplace):
    """Bisection from the estimate outwards rests on it."""
    _, limits = _ratio_limits(laplace)
    assert (np.diff(limits, 2) > -1e-12).all()


@pytest.mark.parametrize("share", [0.0, 0.0003, 0.41978, 1.0])
@pytest.mark.parametrize("laplace", [True, False])
def test_more_rows_never_make_an_interval_wider(laplace, share):
    """Found by review: between two points of a grid the whole range came back once there was little noise."""
    noise = Noise(laplace, 3.0, 1.0)
    widths = []
    for rows in np.geomspace(1, 1e9, 60):
        low, high = ratio_interval(share * rows, (1 - share) * rows, noise)
        assert low <= share <= high
        widths.append(high - low)
    assert (np.diff(widths) <= 1e-15).all()
    assert widths[-1] < 1e-7


def test_an_interval_is_never_empty_nor_without_its_estimate(tmp_path):
    for part, rest in ((-50.0, 1000.0), (1000.0, -50.0), (-40.0, -40.0), (0.2, 0.0)):
        low, high = ratio_interval(part, rest, Noise(True, 3.0, 1.0))
        assert 0 <= low <= high <= 1
    asked = parse_question("count()").compile(SCHEMA)
    (few,) = asked.estimates(np.array([-84]), 1, Noise(True, 10.0, 1.0))
    assert (few.value, few.interval) == (0, (0, 0))
    (exact,) = asked.estimates(np.array([7]), 1, Noise(True, 0.01, 1.0))
    assert (exact.value, exact.interval) == (7, (7, 7))
