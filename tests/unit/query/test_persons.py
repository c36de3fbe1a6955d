"""Questions per person, and the question how many rows persons have: text, answers, noise, refusals."""

import math
import re
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data import person_sums
from gapless.data.person_sums import person_sum, rows_per_person
from gapless.errors import EngineError, QuestionError, SchemaError
from gapless.query import RowsPerPerson, parse_question, preview
from gapless.query.answers import Answer, Estimate, Noise
from gapless.query.persons import kept_interval, kept_shares
from gapless.query.row_classes import RowClasses
from gapless.testing import fixed_noise
from helpers.chunked_engine import chunked
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
    assert abs(by_person.estimate - truth) < 2 * (high - low) < 20  # age is constant
    assert "Per person: each patient_id weighs 1" in by_person.measures
    assert by_row.measures == (
        "Per row: each kept row weighs 1, so one patient_id weighs up to 3, also with more rows in the data."
    )


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
    assert lines[:2] == [
        "Each number counts persons, and a row without an id is a person by itself; numbers below 0 are noise, kept so "
        "that totals are right.",
        "What a limit keeps, with 95 % intervals, if persons with 4 or more rows have 4; it is less if they have more:",
    ]
    assert [re.sub(r"\d+%", "…", line) for line in lines[2:]] == [
        *(f"at most {limit}: keeps … […, …] of the rows, noise × {limit}" for limit in (1, 2, 3)),
        "at most 4: keeps all of the rows, noise × 4",
    ]
    assert kept_interval([*answer.estimate.values()], 1, 1e9) == (0.25, 1.0)


def test_shares_that_limits_keep_follow_from_the_numbers_of_persons():
    assert kept_shares([10.0, 0.0, 0.0, 5.0]) == {1: 0.5, 2: 2 / 3, 3: 5 / 6, 4: 1.0}
    assert kept_shares([10.0, -5.0, 5.0]) == {1: 2 / 3, 2: 2 / 3, 3: 1.0}  # noise below 0 is not cut off
    assert kept_shares([0.0, 0.0]) == kept_shares([-1.0, 0.0]) == {1: 1.0, 2: 1.0}
    assert kept_shares([-3.0, 2.0])[1] == 0.5  # half of the rows of a person with two, not less


@pytest.mark.parametrize("distribution", ["normal", "laplace"])
@pytest.mark.parametrize("limit", [1, 3])
def test_the_interval_of_a_kept_share_covers_the_true_share(distribution, limit):
    """Coverage is at least 95 %: below 92 % in 3,000 runs has a chance below 1e-11."""
    rng, rows = np.random.default_rng(1), np.arange(1, 9)
    truth = np.array([46, 50, 71, 81, 101, 90, 80, 53])
    share = np.minimum(rows, limit) @ truth / (rows @ truth)
    error = np.ceil(20 * (1.96 if distribution == "normal" else np.log(20)))
    noise = np.rint(getattr(rng, distribution)(0, 20, (3000, 8)))

    def coverage(error):
        ends = np.array([kept_interval(truth + drawn, limit, error) for drawn in noise])
        return ((ends[:, 0] <= share) & (share <= ends[:, 1])).mean()

    assert coverage(error) >= 0.92
    assert coverage(error * 0.8) < coverage(error) - 0.03  # and it is not much too wide


def test_the_interval_of_a_kept_share_holds_its_estimate_and_stays_within_what_is_possible():
    rng = np.random.default_rng(2)
    for _ in range(300):
        persons, limit = rng.normal(0, 30, 5), int(rng.integers(1, 6))
        low, high = kept_interval(persons, limit, 40.0)
        assert limit / 5 <= low <= high <= 1
        shares = kept_shares(persons)
        assert limit not in shares or low <= shares[limit] + 1e-12
        assert limit not in shares or shares[limit] <= high + 1e-12


@pytest.mark.parametrize("question", [gl.Mean("age", per_person=True), gl.Mean("age")])
def test_the_preview_does_not_take_the_expected_rows_for_persons_or_kept_rows(question):
    expecting = replace(SCHEMA, expected_rows=1500)
    ahead = preview(question, expecting, budget=BUDGET, spend="5%")
    assert ahead == preview(question, SCHEMA, budget=BUDGET, spend="5%")
    assert ahead.rows is None
    assert preview(question, expecting, budget=BUDGET, spend="5%", rows=300).rows == 300


def test_the_preview_of_a_question_per_person_is_the_noise_of_its_answer(patients):
    for question in (gl.Count(per_person=True), RowsPerPerson(4), gl.Count()):
        ahead = preview(question, SCHEMA, budget=BUDGET, spend="5%")
        assert patients.ask(question, spend="5%").noise_std == pytest.approx(ahead.noise_std, rel=1e-6)
    about = preview(gl.Mean("age", per_person=True), SCHEMA, budget=BUDGET, spend="5%", rows=300)
    assert about.of == "an answer about 300 persons"


def test_a_preview_takes_the_rows_that_the_schema_expects_for_the_rows_of_the_data_alone():
    """The schema does not say how many persons they are of, nor how many of them are kept."""
    expecting = replace(SCHEMA, expected_rows=4505)
    of_rows = replace(expecting, person=(), rows_per_person=3)
    shown = {"budget": BUDGET, "spend": "5%"}
    for question, counted in ((gl.Mean("age", per_person=True), "persons"), (gl.Mean("age"), "rows")):
        ahead = preview(question, expecting, **shown)
        assert ahead == preview(question, SCHEMA, **shown)
        assert (ahead.rows, ahead.of) == (None, f"the answer times the number of {counted} behind it")
        assert preview(question, expecting, rows=900, **shown).of == f"an answer about 900 {counted}"
    assert preview(gl.Median("age"), expecting, **shown) == preview(gl.Median("age"), SCHEMA, **shown)
    assert preview(gl.Mean("age", per_person=True), of_rows, **shown).rows is None
    for question, schema in ((gl.Mean("age", all_rows=answer_of(9, 9)), expecting), (gl.Mean("age"), of_rows)):
        assert "about 4,505 rows, as many as the schema expects" in preview(question, schema, **shown).of


@pytest.mark.parametrize(
    ("make", "wrong"),
    [
        (lambda: gl.Sum("age", per_person=True), "only counts, shares, means and cross tables can weigh persons"),
        (lambda: gl.Median("age", per_person=True), r"can weigh persons, got median\(age\) per person"),
        (lambda: parse_question("variance(age) per person"), "can weigh persons"),
        (lambda: gl.Count(per_person="yes"), "per_person = 'yes'"),
        (lambda: parse_question("mean(age) per patient"), "expected 'person'"),
        (lambda: parse_question("rows_per_person(20) by sex"), "without where, by and weights"),
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
    persons = gl.Persons("patient_id", 3)
    elsewhere = chunked(gl.read(FRAME, SCHEMA, protect=persons, budget=BUDGET, ledger=tmp_path / "visits.ledger"), 100)
    with pytest.raises(EngineError, match="needs rows of a file or frame, but the engine is chunkedengine"):
        elsewhere.ask(question, spend="5%")
    schema = gl.Schema("visits", SCHEMA.columns, rows_per_person=3, ignore=["patient_id"])
    of_rows = gl.read(FRAME, schema, protect=gl.Rows(3), budget=BUDGET, ledger=tmp_path / "rows.ledger")
    with pytest.raises(SchemaError, match="needs the id of persons"):
        of_rows.ask(question, spend="5%")
    assert len(elsewhere.ledger.entries) == len(of_rows.ledger.entries) == 0


@pytest.mark.parametrize("question", [gl.Count(per_person=True), RowsPerPerson(5)])
def test_copies_and_decks_do_not_know_persons(question, patients):
    deck = gl.HotDeck(on=["sex"]).release(patients, ["pressure"], spend="5%")
    with pytest.raises(QuestionError, match="a deck does not know which rows are of one person"):
        deck.ask(question)
    model = gl.Independent().fit(patients, spend="5%")
    with pytest.raises(QuestionError, match="a release does not know which rows are of one person"):
        gl.pool(model.copies(2, seed=1), question)
    assert "Per row: each kept row weighs 1" in " ".join(gl.pool(model.copies(2, seed=1), gl.Mean("age")).notes)


def test_other_reports_of_a_private_table_are_per_row_too(tmp_path):
    table = gl.read(
        FRAME, SCHEMA, protect=gl.Persons("patient_id", 3), budget=BUDGET, ledger=tmp_path / "visits.ledger"
    )
    weight = "per row: each kept row weighs 1, so one patient_id weighs up to 3, also with more rows in the data."
    assert str(gl.missing.describe_gaps(table, spend="20%")).endswith(f"All numbers are {weight}")
    sample = gl.Independent().fit(table, spend="20%").sample(100, seed=1)
    assert gl.evaluate.compare_private(table, sample, spend="20%").promise.endswith(f"P{weight[1:]}")
    assert gl.Rows(1).row_weight == ""
    assert gl.Rows(4).row_weight == "per row: each row weighs 1, so one person weighs up to 4"


def answer_of(*numbers, std=0.0):
    """An answer to the question of rows per person with these numbers."""
    estimates = tuple(Estimate((str(rows),), float(many), std, None) for rows, many in enumerate(numbers, 1))
    return Answer(f"rows_per_person({len(numbers)})", estimates, "", "", (1,), "")


def test_the_last_class_weighs_the_mean_of_its_numbers_of_rows():
    much = 1000.0  # so that there are three classes
    assert RowClasses.of(answer_of(9, 9, 10, 0, 30, std=much)).weights == (1, 2, 4.5)
    assert RowClasses.of(answer_of(9, 9, std=much)).weights == (1, 2)
    assert RowClasses.of(answer_of(9, 9, -10, 0, 5, std=much)).weights == (1, 2, 3)  # noise alone
    assert RowClasses.of(answer_of(9, 9, 10, 0, -1, std=much)).weights == (1, 2, 3)  # at least its first number
    assert RowClasses.of(answer_of(0, 0, -1, 0, 2, std=much)).weights == (1, 2, 5)  # at most the last number


def test_there_are_as_many_classes_as_noise_allows():
    numbers = [1000] * 10
    rows = sum(1000 * number for number in range(1, 11))
    assert RowClasses.of(answer_of(*numbers)).weights == tuple(range(1, 11))
    for std in (30, 50, 70):
        weights = RowClasses.of(answer_of(*numbers, std=std)).weights
        assert 3 <= len(weights) < 10
        assert len(weights) == 3 or std * np.linalg.norm(weights) <= 0.01 * rows
        finer = [*range(1, len(weights) + 1), np.mean(range(len(weights) + 1, 11))]
        assert std * np.linalg.norm(finer) > 0.01 * rows


def test_weights_undo_most_of_the_limit(tmp_path):
    """Patients who come more often have a higher pressure, so the mean of the kept rows is too low."""
    many = visits(20_000, 100_000, seed=5).with_columns(pressure=pl.col("pressure").replace("NA", None).cast(pl.Int64))
    frame = many.drop_nulls()
    truth = frame["pressure"].mean()
    table = gl.read(
        frame,
        SCHEMA,
        protect=gl.Persons("patient_id", 2),
        budget=gl.Budget(1.0, 1e-6),
        ledger=tmp_path / "visits.ledger",
    )
    with fixed_noise(2):
        distribution = table.ask(RowsPerPerson(25), spend="20%")
        asked = [gl.Mean("pressure", all_rows=distribution), gl.Mean("pressure"), gl.Count(all_rows=distribution)]
        undone, kept, rows = table.ask(asked, spend="60%")
    assert kept.estimate < truth - 2
    assert abs(undone.estimate - truth) < (truth - kept.estimate) / 2  # not all: also within the last class
    assert rows.interval[0] - 1500 < frame.height < rows.interval[1] + 1500
    assert undone.question == "mean(pressure) over all rows"
    assert "per row, of all rows in the data: one patient_id weighs as many rows as it has" in undone.measures
    ahead = preview(asked[2], SCHEMA, budget=gl.Budget(1.0, 1e-6), spend="20%")
    assert ahead.noise_std == pytest.approx(rows.noise_std, rel=0.2)  # asked for in one batch, it is a little less


def test_the_interval_of_a_weighted_sum_is_that_of_its_noise():
    noise = Noise(laplace=False, scale=3.0, step=0.01)
    assert noise.of_sum((1.0,)) is noise
    assert noise.of_sum((3.0, 4.0)).std == 15
    assert noise.of_sum((3.0, 4.0)).step == pytest.approx(0.07)  # each is up to a step from continuous noise
    draws = np.random.default_rng(0).normal(0, 3, (100_000, 2)) @ [3, 4]
    beyond = (np.abs(draws) > noise.of_sum((3.0, 4.0)).limit()).mean()
    assert abs(beyond - 0.05) < 0.005  # more than 7 standard deviations


@pytest.mark.parametrize(
    ("numbers", "std"), [([], 1), ([9], 1), ([9] * 1001, 1), ([9, math.nan], 1), ([math.inf, 9], 1), ([9, 9], math.nan)]
)
def test_numbers_of_persons_that_no_answer_has_are_refused(numbers, std):
    with pytest.raises(QuestionError, match="all_rows must have from 2 to 1,000 finite numbers"):
        gl.Count(all_rows=answer_of(*numbers, std=std))


def test_the_number_of_classes_of_persons_is_checked_before_a_charge(patients):
    """Afterwards too many would not fit in memory, and an error would state the number of persons."""
    before = len(patients.ledger.entries)
    counted = gl.Count().compile(patients.schema).contribution
    for wrong in (0, -1, 2.5, True, 1001, 2**40):
        with pytest.raises(SchemaError, match=f"classes = {wrong}, but classes must be a whole number from 1 to 1000"):
            person_sum(patients, counted, classes=wrong)
        with pytest.raises(SchemaError, match=f"most = {wrong}, but most must be a whole number from 1 to 1000"):
            rows_per_person(patients, wrong)
    many = answer_of(*[1e6] * 1000)  # as many classes
    with patch.object(person_sums, "MOST_SUMS", 7999):
        wide = gl.Count(by="age", all_rows=many)
        for ask in (
            lambda: patients.ask(wide, spend="5%"),
            lambda: patients.ask([gl.Count(), wide], spend="5%"),
            lambda: preview(wide, SCHEMA, budget=BUDGET, spend="5%"),
        ):
            with pytest.raises(
                SchemaError, match="at most 7,999 sums, but 8 groups in 1,000 classes of persons have 8,000"
            ):
                ask()
    assert len(patients.ledger.entries) == before


def test_weights_that_undo_a_limit_are_refused_where_they_mean_nothing(patients, tmp_path):
    distribution = answer_of(10, 10)
    with pytest.raises(QuestionError, match="both per_person and all_rows"):
        gl.Mean("age", per_person=True, all_rows=distribution)
    with pytest.raises(QuestionError, match=r"got sum\(age\) with all_rows"):
        gl.Sum("age", all_rows=distribution)
    with pytest.raises(QuestionError, match=r"must be an answer to rows_per_person\(20\), got a list"):
        gl.Mean("age", all_rows=[10, 10])
    pure = gl.read(
        FRAME,
        SCHEMA,
        protect=gl.Persons("patient_id", 3),
        budget=gl.Budget(1.0, 0),
        ledger=tmp_path / "pure.ledger",
    )
    with pytest.raises(QuestionError, match="needs normal noise"):
        pure.ask(gl.Mean("age", all_rows=distribution), spend="5%")
    with pytest.raises(QuestionError, match="needs normal noise"):
        preview(gl.Mean("age", all_rows=distribution), SCHEMA, budget=gl.Budget(1.0, 0), spend="5%")
    assert len(pure.ledger.entries) == 0
    assert pure.ask(gl.Mean("age", per_person=True), spend="5%").interval is not None
