"""Questions per person, and the question how many rows persons have: text, answers, noise, refusals."""

import re

import polars as pl
import pytest

import gapless as gl
from gapless.errors import EngineError, QuestionError, SchemaError
from gapless.query import RowsPerPerson, parse_question, preview
from gapless.query.persons import kept_shares
from gapless.testing import fixed_noise
from helpers.visits import SCHEMA, visits

BUDGET = gl.Budget(1.0, 1e-6)
FRAME = visits(300, 1500)


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    ledger = tmp_path_factory.mktemp("patients") / "visits.ledger"
    with fixed_noise(1):
        yield gl.read(FRAME, SCHEMA, protect=gl.Persons("patient_id", 3), budget=BUDGET, ledger=ledger)


@pytest.mark.parametrize(
    "text",
    [
        "count() per person",
        "count() per person where age >= 20 by sex",
        "mean(pressure, 80, 150) per person by sex",
        "proportion(pressure > 140) per person where age >= 60",
        "table(sex, age) per person",
        "rows_per_person(20)",
    ],
)
def test_questions_per_person_are_written_as_they_are_read(text):
    assert str(parse_question(text)) == text


def test_mean_per_person_and_per_row_differ_and_say_which_they_are(patients):
    by_person, by_row = patients.ask([gl.Mean("age", per_person=True), gl.Mean("age")], spend="20%")
    truth = FRAME.group_by("patient_id").agg(pl.col("age").mean())["age"].mean()
    low, high = by_person.interval
    assert abs(by_person.estimate - truth) < 2 * (high - low) < 20  # age is constant: rows that are left out change nothing
    assert "Per person: each patient_id weighs 1" in by_person.measures
    assert "Per row: each kept row weighs 1, so a patient_id weighs up to 3, also with more rows in the data." in by_row.measures


def test_the_noise_of_a_question_per_person_does_not_grow_with_the_rows_that_are_kept(tmp_path):
    stds = {}
    for at_most in (1, 3, 10):
        table = gl.read(
            FRAME,
            SCHEMA,
            protect=gl.Persons("patient_id", at_most),
            budget=BUDGET,
            ledger=tmp_path / f"{at_most}.ledger",
        )
        with fixed_noise(1):
            per_person, per_row = table.ask([gl.Count(per_person=True), gl.Count()], spend="50%")
        stds[at_most] = per_person.noise_std, per_row.noise_std
    assert stds[1][0] == pytest.approx(stds[10][0], rel=0.01)
    assert stds[10][1] == pytest.approx(10 * stds[10][0], rel=0.02)


def test_rows_per_person_counts_persons_and_gives_the_share_that_a_limit_keeps(patients):
    answer = patients.ask(RowsPerPerson(4), spend="10%")
    counts = FRAME.group_by("patient_id").len()["len"]
    for rows, many in enumerate(answer.estimate.values(), 1):
        truth = (counts >= 4).sum() if rows == 4 else (counts == rows).sum()
        assert abs(many - truth) < 7 * answer.noise_std
    assert [*answer.estimate] == ["1", "2", "3", "4 or more"]
    lines = answer.measures.splitlines()
    assert lines[:2] == ["Each number counts persons.", "What a limit keeps, if persons with 4 or more rows have 4:"]
    assert [re.sub(r"\d+%", "…", line) for line in lines[2:]] == [
        f"at most {limit}: keeps … of the rows, noise × {limit}" for limit in (1, 2, 3, 4)
    ]
    assert lines[-1].startswith("at most 4: keeps 100%")


def test_shares_that_limits_keep_follow_from_the_numbers_of_persons():
    assert kept_shares([10.0, -3.0, 0.0, 5.0]) == {1: 0.5, 2: 2 / 3, 3: 5 / 6, 4: 1.0}  # less than nobody is nobody
    assert kept_shares([0.0, 0.0]) == {1: 1.0, 2: 1.0}


def test_the_preview_of_a_question_per_person_is_the_noise_of_its_answer(patients):
    for question in (gl.Count(per_person=True), RowsPerPerson(4), gl.Count()):
        ahead = preview(question, SCHEMA, budget=BUDGET, spend="5%")
        assert patients.ask(question, spend="5%").noise_std == pytest.approx(ahead.noise_std, rel=1e-6)
    about = preview(gl.Mean("age", per_person=True), SCHEMA, budget=BUDGET, spend="5%", rows=300)
    assert about.of == "an answer about 300 persons"


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: gl.Sum("age", per_person=True), "only counts, shares, means and cross tables can be per person"),
        (lambda: gl.Median("age", per_person=True), "only counts, shares, means and cross tables can be per person"),
        (lambda: parse_question("variance(age) per person"), "can be per person"),
        (lambda: gl.Count(per_person="yes"), "per_person = 'yes'"),
        (lambda: parse_question("mean(age) per patient"), "expected 'person'"),
        (lambda: parse_question("rows_per_person(20) by sex"), "without where and by"),
        (lambda: parse_question("rows_per_person(many)"), "must be a whole number, got 'many'"),
        (lambda: RowsPerPerson(1), "from 2 to 1000"),
    ],
)
def test_questions_that_cannot_be_per_person_are_refused(make, wrong):
    with pytest.raises(QuestionError, match=wrong):
        make()


def test_gaps_are_not_filled_for_a_question_per_person(patients):
    before = patients.ledger.spent
    with pytest.raises(QuestionError, match="gaps cannot be filled"):
        patients.ask(gl.Mean("pressure", per_person=True, missing=gl.HotDeck(on=["sex"])), spend="5%")
    assert patients.ledger.spent == before


@pytest.mark.parametrize("question", [gl.Count(per_person=True), RowsPerPerson(5)])
def test_tables_without_known_persons_refuse_before_a_charge(question, tmp_path):
    FRAME.write_csv(tmp_path / "visits.csv")
    on_disk = gl.read(
        tmp_path / "visits.csv", SCHEMA, protect=gl.Persons("patient_id", 3), budget=BUDGET, engine="disk"
    )
    with pytest.raises(EngineError, match="in memory"):
        on_disk.ask(question, spend="5%")
    schema = gl.Schema("visits", SCHEMA.columns, rows_per_person=3, ignore=["patient_id"])
    of_rows = gl.read(FRAME, schema, protect=gl.Rows(3), budget=BUDGET, ledger=tmp_path / "rows.ledger")
    with pytest.raises(SchemaError, match="needs the id of persons"):
        of_rows.ask(question, spend="5%")
    assert len(on_disk.ledger.entries) == len(of_rows.ledger.entries) == 0


@pytest.mark.parametrize("question", [gl.Count(per_person=True), RowsPerPerson(5)])
def test_copies_and_decks_do_not_know_persons(question, patients):
    deck = gl.HotDeck(on=["sex"]).release(patients, ["pressure"], spend="5%")
    with pytest.raises(QuestionError, match="a deck does not know which rows are of one person"):
        deck.ask(question)
    model = gl.Independent().fit(patients, spend="5%")
    with pytest.raises(QuestionError, match="a release does not know which rows are of one person"):
        gl.pool(model.copies(2, seed=1), question)
    assert "Per row: each kept row weighs 1" in " ".join(gl.pool(model.copies(2, seed=1), gl.Mean("age")).notes)
