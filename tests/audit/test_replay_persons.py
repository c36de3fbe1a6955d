"""Everything that is released, on a table and on the same table with all rows of one person more.

As tests/audit/test_replay.py, with `Persons`: the person comes with one row, with two and so on up to many more rows
than are kept. A raw value may move by its distance, which is that of the kept rows. Errors are planted: half of the
kept rows counted, rows that are not left out, `reads` of gaps.

Then a one-run audit end to end: an attacker guesses which of thousands of persons are there.
"""

from contextlib import nullcontext
from unittest import mock

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data import person_sums
from gapless.data.io import kept_persons
from gapless.privacy import Ledger
from gapless.privacy.snapshot import GapDefinitions
from gapless.testing.audit import one_run_epsilon, private
from helpers import replay

REFUSED = gl.MissingCode("-", "refused")
SCHEMA = gl.Schema(
    "visits",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Ordinal("grade", ["1", "2", "3"], may_be_missing=True, missing=("?", REFUSED)),
        gl.Categorical("town", ["x", "y"]),
        gl.Integer("age", bounds=(0, 99), bins=4, may_be_missing=True),
    ],
    person="patient",
)
KEPT = 3


def visits(many, seed=0):
    """Rows of persons with one to six rows each, with gaps; one row has no id."""
    rng = np.random.default_rng(seed)
    rows = [(None, "F", "1", "x", "10")]
    while len(rows) < many:
        patient = f"p{len(rows)}"
        for _ in range(rng.integers(1, 7)):
            row = ["FM"[rng.integers(2)], str(rng.integers(1, 3)), "x", str(rng.integers(60))]
            for column, gap in ((0, None), (1, "?"), (1, "-"), (3, None)):
                if rng.random() < 0.15:
                    row[column] = gap
            rows.append((patient, *row))
    return rows


# A person with rows that are rare, some equal, some with gaps.
PATIENT = [
    ("new", *row)
    for row in (
        ("M", "3", "y", "90"),
        ("M", "3", "y", "90"),
        (None, "3", "y", "90"),
        ("M", "-", "y", None),
        ("M", "3", "y", "90"),
        ("M", "3", "y", "91"),
        ("F", "?", "y", "90"),
        ("M", "3", "y", "92"),
    )
]
BUDGET = gl.Budget(20.0, 1e-6)


def fit(method):
    return lambda table: method.fit(table, spend=table.ledger.left)


def ask(question):
    return lambda table: table.ask(question, spend=table.ledger.left)


ACTS = {
    "mst, extended": fit(gl.MST()),
    "mst, observed": fit(gl.MST(missing=gl.Observed())),
    "aim": fit(gl.AIM()),
    "independent, complete rows": fit(gl.Independent(missing=gl.CompleteRows())),
    "factors, observed": fit(gl.Factors(missing=gl.Observed())),
    "count": ask(gl.Count(where="grade >= 2 or sex == M")),
    "mean": ask(gl.Mean("age", where="sex == M", missing=gl.Drop())),
    "mean, hot deck": ask(gl.Mean("age", missing=gl.HotDeck(on=["town"]))),
    "quantile": ask(gl.Quantile("age", 0.8, missing=gl.Drop())),
    "count per person": ask(gl.Count(where="grade >= 2 or sex == M", by="town", per_person=True)),
    "mean per person": ask(gl.Mean("age", by="grade", per_person=True)),
    "table per person": ask(gl.query.CrossTable("sex", "town", per_person=True)),
    "rows per person": ask(gl.query.RowsPerPerson(4)),
    "mean over all rows": lambda table: table.ask(
        gl.Mean("age", all_rows=table.ask(gl.query.RowsPerPerson(4), spend="20%")), spend="80%"
    ),
    "describe_gaps": lambda table: gl.missing.describe_gaps(table, spend=table.ledger.left),
}


def violations(act, *, kept=KEPT):
    return replay.violations(SCHEMA, act, visits(30), PATIENT, budget=BUDGET, unit=kept)


@pytest.mark.parametrize("name", ACTS)
def test_each_release_once(name):
    assert not violations(ACTS[name])


def test_the_distance_is_attained():
    """All rows that are kept of a person can be in one cell, so a smaller distance is wrong."""
    act, rows = ask(gl.Count(where="town == y")), visits(30)
    before = replay.run(SCHEMA, act, rows, unit=KEPT, budget=BUDGET)
    (after,) = replay.run(SCHEMA, act, rows + PATIENT, unit=KEPT, budget=BUDGET, past=before)
    assert np.abs(np.asarray(after.raw) - np.asarray(before[0].raw)).sum() == KEPT == after.distance.at_most


# ------------------------------------------------------------------ planted errors


def halved(self):
    """Half of the kept rows."""
    return gl.Persons(self._protect.id, 1)


def everything(persons, *_, **__):
    return np.ones(len(persons), dtype=np.bool_)


PLANTED = {
    "half of the kept rows counted": mock.patch.object(Ledger, "protect", property(halved)),
    "all rows kept": mock.patch.object(kept_persons, "kept_rows", everything),
    "reads of gaps": mock.patch.object(
        Ledger, "recorded_reads", lambda self, reads: GapDefinitions.recorded_reads(self._gaps, reads)
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_errors_are_found(name):
    with PLANTED[name]:
        found = violations(ACTS["mst, observed"])
    wrong = "was read" if name == "reads of gaps" else "moved by more"
    assert any(wrong in violation for violation in found)


def added_up(_persons, cells, added, _rows, width, steps):
    """Rows of a person are added up, not averaged."""
    total = np.zeros((width, added.shape[1]), dtype=np.int64)
    np.add.at(total, cells, steps * added)
    return total.ravel()


def of_rows(rows_of, most):
    """Each row of a person is counted."""
    return np.repeat(np.minimum(rows_of, most), rows_of)


PLANTED_PER_PERSON = {
    "rows added up, not averaged": ("table per person", mock.patch.object(person_sums, "_sum_of_means", added_up)),
    "each row a person": ("rows per person", mock.patch.object(person_sums, "_capped", of_rows)),
}


@pytest.mark.parametrize("name", PLANTED_PER_PERSON)
def test_planted_errors_per_person_are_found(name):
    act, planted = PLANTED_PER_PERSON[name]
    with planted:
        assert any("moved by more" in violation for violation in violations(ACTS[act]))


# ------------------------------------------------------------------ end to end

CANARIES = 4000
CELLS = gl.Schema("canaries", [gl.Categorical("cell", [f"c{i}" for i in range(CANARIES)])], person="id")


COUNT = gl.Count(by="cell")


def audited(folder, source, question=COUNT):
    """The ε that an attacker proves who guesses which persons are there: each has eight rows in a cell of its own."""
    present = np.random.default_rng().random(CANARIES) < 0.5
    rows = np.repeat(np.flatnonzero(present), 8)
    frame = pl.DataFrame({"id": rows, "cell": [f"c{i}" for i in rows]})
    with source:
        table = private(frame, CELLS, folder, budget=gl.Budget(1.0, 0), protect=gl.Persons("id", 2))
        answer = table.ask(question, spend=table.ledger.left)
    values = np.array(list(answer.estimate.values()))
    middle = 0.5 if question.per_person else 1
    guessed, sure = values > middle, values != middle
    return one_run_epsilon(int((guessed == present)[sure].sum()), int(sure.sum()))


def test_persons_keep_their_promise_in_one_run(tmp_path):
    """A false alarm has a probability of at most 1e-6."""
    assert audited(tmp_path, nullcontext()) <= 1.0
    assert audited(tmp_path, mock.patch.object(kept_persons, "kept_rows", everything)) > 1.0


def test_sums_per_person_keep_their_promise_in_one_run(tmp_path):
    """A false alarm has a probability of at most 1e-6."""
    question = gl.Count(by="cell", per_person=True)
    assert audited(tmp_path, nullcontext(), question) <= 1.0
    assert audited(tmp_path, mock.patch.object(person_sums, "_sum_of_means", added_up), question) > 1.0
