"""The privacy statement says what the ledger has recorded, and no more."""

import math
import re

import pytest

import gapless as gl
from gapless.data.training import train
from gapless.model.neural.descent import PredictionTask, PredictionTraining
from gapless.model.neural.layers import Linear
from gapless.privacy import (
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    Ledger,
    PrivateTraining,
    SmoothCauchy,
)
from gapless.privacy.ledger_file import seal_of
from gapless.report.statement import kept_rows, privacy_statement
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise
from helpers.optimizers import plain_steps
from helpers.visits import SCHEMA as VISITS
from helpers.visits import visits

SCHEMA = letters_schema([2, 3])
ROWS = [("a", "b"), ("b", None), (None, "c"), ("a", "a")] * 50


def statement(table, ledger=None):
    model = gl.Independent(missing=gl.Observed()).fit(table, spend=table.ledger.share("4%"))
    return "\n".join(privacy_statement(model, model.sample(5, seed=1), ledger or table.ledger))


def noise_line(text):
    (line,) = [line for line in text.splitlines() if line.startswith("- Noise")]
    return line


@pytest.mark.parametrize(("delta", "mechanism"), [(0.0, DiscreteLaplace), (1e-6, DiscreteGaussian)])
def test_the_noise_is_described_by_the_mechanisms_that_were_used(tmp_path, delta, mechanism):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(9.0, delta))
    assert noise_line(statement(table)).endswith(f"entropy: {mechanism.description}.")
    knn = gl.Count(where="x0 == 'a'", missing=gl.Knn(neighbors=1, on=["x1"]))
    table.ask(knn, spend=table.ledger.share("60%"))
    assert noise_line(statement(table)).endswith(f"entropy: {mechanism.description}; {SmoothCauchy.description}.")
    gl.MST(missing=gl.Observed()).fit(table, spend=table.ledger.share("10%"))
    assert ExponentialChoice.description in noise_line(statement(table))
    assert "integer" not in statement(table)


def test_noise_on_coefficients_is_stated(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(9.0, 0))
    fake = gl.Table(SCHEMA, [[0, 1, 1], [0, 1, 2]], rows=3)
    weights = gl.weights.LogisticWeights(noise="knorm", debias=False)
    weights.fit(table, fake, spend=table.ledger.share("50%"))
    text = statement(table)
    assert noise_line(text).endswith(f"entropy: {KNorm.description}; {DiscreteLaplace.description}.")
    assert "| 1 | 50.00% | LogisticWeights.fit | coefficients | KNorm(" in text


def test_a_training_is_one_entry_with_its_constants(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(9.0, 1e-6))
    cells = PredictionTask(given=(0,), sizes=(3,), targets=(1,), cells=(4,))
    program = PredictionTraining(network=Linear(3, 4), cells=cells, optimizer=plain_steps(0.1, 7), batch_size=20.0)
    grant = table.ledger.grant(table.ledger.share("50%"), to="Network.fit")
    train(table, program, grant, spend=grant.left, rate=0.1, steps=7, clip=1.0, what="network", needs=["x1"])
    text = statement(table)
    assert noise_line(text).endswith(f"entropy: {PrivateTraining.description}; {DiscreteGaussian.description}.")
    assert "| 1 | 50.00% | Network.fit | network | PrivateTraining(0.1, 7, 1, " in text
    assert "16, 1) | observed on x1 |" in text


def test_an_entry_left_by_a_crash_is_marked(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(9.0, 0))
    statement(table)
    path = table.ledger.path
    path.write_bytes(path.read_bytes() + b'{"loss": 0.1, "num')
    seal_of(path).unlink()
    model = gl.Independent().fit(private(ROWS, SCHEMA, tmp_path), spend=private(ROWS, SCHEMA, tmp_path).ledger.left)
    text = "\n".join(privacy_statement(model, model.sample(5, seed=1), Ledger.open(path)))
    assert "left incomplete, nothing was read" in noise_line(text)


def test_rates_that_another_ledger_paid_for_bring_its_loss_along(tmp_path):
    pilot = private(ROWS * 40, SCHEMA, tmp_path, budget=gl.Budget(0.7, 1e-7), protect=gl.Rows(1))
    rates = gl.missing.gap_rates(pilot, spend=pilot.ledger.share("50%"))
    budget = gl.Budget(1.0, 0, ground_truth=rates)
    table = private(ROWS, SCHEMA, tmp_path, budget=budget)
    besides = (
        f"paid for under another ledger ({pilot.ledger.identity[:8]}), which comes on top: (0.7, 1e-07)-differential "
        "privacy for adding or removing one row of the incomplete table 'letters', schema public"
    )
    again = Ledger.open(table.ledger.path)
    same = gl.MCAR(rates.rates, failure=1e-6)
    for text in (budget, statement(table), again, again.ground_truth(), again.ground_truth(same)):
        assert besides in str(text)
    plain = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0)).ledger
    assert besides in str(plain.ground_truth(rates))


def test_rates_that_the_same_ledger_paid_for_are_among_its_entries(tmp_path):
    table = private(ROWS * 40, SCHEMA, tmp_path, budget=gl.Budget(0.7, 0))
    rates = gl.missing.gap_rates(table, spend=table.ledger.share("50%"))
    text = str(table.ledger.ground_truth(rates))
    assert "bounded by a paid estimate that fails with probability 1e-06" in text
    assert "another ledger" not in text
    assert "another ledger" in str(rates)


def test_rates_without_privacy_are_marked_in_every_text(tmp_path):
    pilot = private(ROWS * 40, SCHEMA, tmp_path, budget=gl.Budget(0.7, 0))
    with no_noise():
        rates = gl.missing.gap_rates(pilot, spend=pilot.ledger.share("50%"))
    assert pilot.ledger.guarantee().epsilon == math.inf
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=rates))
    assert "which comes on top: NOT PRIVATE: noise of a test" in str(Ledger.open(table.ledger.path))


def test_rates_are_of_the_gaps_that_they_were_estimated_for(tmp_path):
    pilot = private(ROWS * 40, SCHEMA, tmp_path, budget=gl.Budget(0.7, 0))
    rates = gl.missing.gap_rates(pilot, spend=pilot.ledger.share("50%"))
    coded = gl.Categorical("x0", ["a", "b"], may_be_missing=True, missing=["-8"])
    other = gl.Schema("letters", [coded, SCHEMA["x1"]])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(
        gl.errors.BudgetError,
        match="rate of gaps in 'x0' was estimated under a schema that defines its gaps differently",
    ):
        private(ROWS, other, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=rates))
    assert sorted(tmp_path.iterdir()) == before
    ledger = private(ROWS, other, tmp_path, budget=gl.Budget(1.0, 0)).ledger
    with pytest.raises(gl.errors.BudgetError, match="defines its gaps differently"):
        ledger.ground_truth(rates)
    assert ledger.ground_truth(gl.MCAR({"x1": rates.rates["x1"]})).epsilon <= 1


def test_entries_with_the_same_noise_share_a_line(tmp_path):
    schema = letters_schema([3] * 12)
    table = private([("a",) * 12] * 200, schema, tmp_path, budget=gl.Budget(1.0, 1e-6))
    model = gl.Mixture().fit(table, spend=table.ledger.left)
    text = "\n".join(privacy_statement(model, model.sample(5, seed=1), table.ledger))
    lines = [line for line in text.splitlines() if "| Mixture.fit |" in line]
    assert len(lines) < 5
    assert sum(int(line.split(",")[0].strip("| ")) for line in lines) == 66
    assert lines[0].split(" | ")[3].startswith("x0 × x1; x0 × x")
    assert all("more)" in line for line in lines)
    assert "ledger.json lists every entry." in text
    assert len(text) < 6000


def test_the_statement_covers_other_ledgers(tmp_path):
    frame = "The table was read from a data frame or a database."
    assert frame in statement(private(ROWS, SCHEMA, tmp_path))
    (tmp_path / "letters.csv").write_text("x0,x1\n" + "a,b\nb,c\n" * 50)
    text = statement(gl.read(tmp_path / "letters.csv", SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1.0, 1e-6)))
    assert "are registered with this ledger, in their folder. gapless refuses another ledger" in text
    assert "gapless cannot know about copies of these files, files that were moved to another folder or machine" in text
    assert frame not in text


@pytest.mark.parametrize("at_most", [1, 3])
def test_the_number_of_kept_rows_is_not_taken_for_that_of_persons(tmp_path, at_most):
    frame, unit = visits(300, 1500), gl.Persons("patient_id", at_most)
    budget, ledger = gl.Budget(3.0, 1e-6), tmp_path / "visits.ledger"
    table = gl.read(frame, VISITS, protect=unit, budget=budget, ledger=ledger)
    model = gl.Independent().fit(table, spend="60%")
    kept = kept_rows(model)
    pattern = (
        r"About ([\d,]+) kept rows \(± ([\d,]+) by noise, 95%\), at most \d of each patient_id, so of ([\d,]+) persons"
    )
    rows, noise, persons = (int(number.replace(",", "")) for number in re.match(pattern, kept).groups())
    truth = frame.group_by("patient_id").len()["len"].clip(upper_bound=at_most).sum()
    assert abs(rows - truth) <= 3 * noise  # of 1.96 standard deviations
    assert 1500 - truth > 2 * noise  # it is not the number of rows in the data
    assert persons == pytest.approx((rows - noise) / at_most, abs=1.01)
    assert kept.endswith("How many rows and persons the table has is not in this release.")
    text = "\n".join(privacy_statement(model, model.sample(5, seed=1), table.ledger))
    assert f"- {kept.partition(' of each')[0]}" in text
    assert "A row without an id counts as a person by itself" in text
    assert ", about " + f"{rows:,} kept rows" in model.describe()


def test_there_is_no_sentence_on_kept_rows_where_rows_are_protected(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(9.0, 0))
    model = gl.Independent().fit(table, spend="50%")
    assert kept_rows(model) == ""
    assert "kept row" not in model.describe() + statement(table)
