"""A table with several rows per person, start to finish, from the command line and from a database.

The statement names whom it protects. No id and no key is in what is published, printed or logged.
"""

import json
import logging
import re

import numpy as np
import polars as pl
import psycopg
import pytest

import gapless as gl
from gapless.data.engines.postgres import PostgresSource
from gapless.privacy.row_key import key_of
from gapless.publish.folder import keep_model
from gapless.publish.verification import verify_release
from gapless.testing import fixed_noise
from helpers.databases import query_of
from helpers.fast_methods import METHODS

SCHEMA = """
[table]
name = "visits"
person = "patient_id"
rows_per_person = 3

[column.ward]
kind = "categorical"
levels = ["east", "west"]
may_be_missing = true

[column.age]
kind = "integer"
bounds = [0, 99]
bins = 5
"""


def visits(persons=200):
    """One to nine visits of each patient; the ids are easy to find in a file."""
    rng = np.random.default_rng(1)
    ids = np.repeat([f"PAT-{number:05}-X" for number in range(persons)], rng.integers(1, 10, persons))
    wards = rng.choice(["east", "west", None], len(ids)).tolist()
    return pl.DataFrame({"patient_id": ids, "ward": wards, "age": rng.integers(0, 100, len(ids))})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("visits")
    visits().write_csv(folder / "visits.csv")
    (folder / "visits.toml").write_text(SCHEMA)
    return folder


def test_a_release_names_the_persons_and_shows_no_id(folder, run_here):
    given = ("--epsilon", 1, "--delta", 1e-6, "--spend", "40%", "-m", "independent", "-o", "out")
    code, out, err = run_here("synth", "visits.csv", "-s", "visits.toml", *given)
    assert code == 0, err
    statement = (folder / "out/privacy.md").read_text()
    unit = "all rows of one patient_id (at most 3 are kept)"
    assert re.search(r"adding or removing all rows of one patient\\?_id \(at most 3 are kept\)", statement)
    assert re.search(r"with or without all rows of any one patient\\?_id in the original table", statement)
    assert re.search(r"Unit of privacy: each patient\\?_id, with all its rows, added or removed", statement)
    assert "Gaps lower no figure" in statement
    assert "noisy estimate of the number of kept rows" in statement
    assert "believed, not checked" not in statement
    manifest, ledger = (json.loads((folder / "out" / name).read_text()) for name in ("manifest.json", "ledger.json"))
    assert unit in manifest["guarantee"]
    assert ledger["persons"] == {"id": ["patient_id"], "at_most": 3}
    assert "patient_id" in (folder / "out/report.html").read_text()
    assert pl.read_csv(folder / "out/synthetic.csv").columns == ["ward", "age"]
    key = key_of(folder / "visits.ledger").read_bytes()
    published = [path.read_bytes() for path in (folder / "out").rglob("*") if path.is_file()]
    for content in (*published, (folder / "visits.ledger").read_bytes(), out.encode(), err.encode()):
        assert b"PAT-" not in content
        assert key not in content
        assert key.hex().encode() not in content
    assert run_here("verify", "out")[0] == 0

    code, out, err = run_here("ask", "visits.csv", "-s", "visits.toml", "--spend", "10%", "mean(age)")
    assert (code, err) == (0, "")
    assert unit in out
    code, out, err = run_here("ledger", "visits.ledger")
    assert f"protecting {unit}" in out


def test_a_release_that_is_finished_after_another_number_of_rows_was_kept_is_intact(tmp_path, run_here):
    """Its ledger then says the largest number."""
    schema = gl.Schema.from_toml(SCHEMA)
    visits(50).write_csv(tmp_path / "visits.csv")
    schema.write(tmp_path / "visits.toml")
    table = gl.read(tmp_path / "visits.csv", schema, protect=gl.Persons("patient_id", 3), budget=gl.Budget(1, 0))
    (tmp_path / "out").mkdir()
    keep_model(tmp_path / "out", gl.Independent().fit(table, spend="40%"), table.ledger)
    more = gl.read(tmp_path / "visits.csv", schema, protect=gl.Persons("patient_id", 5))
    more.ask(gl.Count(), spend="10%")
    given = (tmp_path / "visits.csv", "-s", tmp_path / "visits.toml", "-m", "independent", "-o", tmp_path / "out")
    assert run_here("synth", *given)[0] == 0
    assert "(at most 5 are kept)" in json.loads((tmp_path / "out/manifest.json").read_text())["guarantee"]
    assert verify_release(tmp_path / "out").problems == ()


def test_a_release_of_several_rows_without_an_id_states_what_it_believes(folder, run_here):
    bare = SCHEMA.replace('person = "patient_id"', 'ignore = ["patient_id"]').replace("visits", "other")
    visits(50).write_csv(folder / "other.csv")
    (folder / "other.toml").write_text(bare)
    given = ("--epsilon", 1, "--delta", 1e-6, "-m", "independent", "-o", "other")
    assert run_here("synth", "other.csv", "-s", "other.toml", *given)[0] == 0
    believed = "That no person has more rows is believed, not checked"
    assert believed in (folder / "other/privacy.md").read_text()
    assert believed in json.loads((folder / "other/manifest.json").read_text())["guarantee"]
    code, _, err = run_here(
        "ask", "other.csv", "-s", "visits.toml", "--ledger", "other.ledger", "count()", "--spend", "1%"
    )
    assert code == 1
    assert "protects up to 3 rows, and now it would be all rows of one patient_id" in err


def test_a_ledger_of_persons_is_not_kept_in_the_release_folder(folder, run_here):
    """Its key would be published."""
    visits(20).write_csv(folder / "third.csv")
    given = ("--epsilon", 1, "--delta", 0, "-m", "independent", "-o", "third", "--ledger", "third/third.ledger")
    (folder / "third").mkdir()
    code, _, err = run_here("synth", "third.csv", "-s", "visits.toml", *given)
    assert code == 1
    assert "holds the secret key of a ledger" in err
    assert gl.Ledger.open(folder / "third/third.ledger").entry_count == 0


def test_the_key_is_in_no_query_and_in_no_log(postgres, tmp_path, monkeypatch, caplog):
    """It is a parameter, which the server gets beside the text of a query."""
    caplog.set_level(logging.DEBUG)
    queries, parameters = [], []
    for kind, name in ((psycopg.Connection, "execute"), (psycopg.Cursor, "copy")):
        real = getattr(kind, name)

        def noted(self, query, given=None, *more, real=real, **options):
            queries.append(str(query))
            parameters.append(repr(given))
            return real(self, query, given, *more, **options)

        monkeypatch.setattr(kind, name, noted)
    schema = gl.Schema.from_toml(SCHEMA)
    table = gl.read(
        postgres,
        schema,
        query=query_of(visits(20)),
        protect=gl.Persons("patient_id", 3),
        budget=gl.Budget(1, 1e-6),
        ledger=tmp_path / "l.ledger",
    )
    table.ask(gl.Count(where="ward == east"), spend="10%")
    key = key_of(tmp_path / "l.ledger").read_bytes()
    shown = "\n".join((*queries, caplog.text, repr(table), repr(table._rows._open(table.ledger._key))))
    assert len(queries) >= 4
    assert key.hex() in "".join(parameters)
    assert key.hex() not in shown.lower()
    assert repr(key)[2:-1] not in shown


def test_a_failed_query_shows_no_key(postgres):
    source = PostgresSource(postgres, "select 1 as x")
    source._connection.close()
    with pytest.raises(gl.errors.ReadError) as error:
        source.secret(b"k" * 32)
    assert (b"k" * 32).hex() not in str(error.value)
    assert error.value.__context__ is None


GAPS = [
    gl.Categorical("sex", ["F", "M"], may_be_missing=True),
    gl.Categorical("town", ["x", "y"]),
    gl.Integer("age", bounds=(0, 99), bins=4, may_be_missing=True),
]


def ask(question):
    return lambda table: table.ask(question, spend=table.ledger.left)


def fit(method):
    return lambda table: method.fit(table, spend=table.ledger.left)


def weigh(method):
    return lambda table: method.fit(table, gl.Table.read(rows(30).drop("patient"), table.schema), spend="50%")


CHARGES = {
    "sums": ask(gl.Mean("age", missing=gl.HotDeck(on=["town"]))),
    "smooth sensitivity": ask(gl.Mean("age", missing=gl.Knn(on=["town"]))),
    "ranks": ask(gl.Quantile("age", 0.5, missing=gl.Drop())),
    "patterns of gaps": lambda table: gl.missing.describe_gaps(table, spend="50%"),
    "choices": fit(gl.AIM()),
    "clipped gradients": fit(METHODS["kamino"]()),
    "teachers": fit(METHODS["pategan"]()),
    "rounds of choices": weigh(gl.weights.CalibrationWeights()),
    "odds": weigh(gl.weights.LogisticWeights()),
}


def rows(many):
    """Three rows of each patient, with gaps."""
    rng, cells = np.random.default_rng(0), {"sex": ["F", "M", None], "town": ["x", "y"], "age": [10, 34, None, 81, 55]}
    drawn = {name: rng.choice(values, many).tolist() for name, values in cells.items()}
    return pl.DataFrame({"patient": [str(row // 3) for row in range(many)]} | drawn)


@pytest.mark.parametrize("name", CHARGES)
def test_a_release_costs_what_it_costs_for_as_many_rows(name, tmp_path):
    """With the same rows and the same noise all entries are the same, but for what they say about persons."""
    schema, charged = gl.Schema("visits", GAPS, ignore=["patient"]), []
    for number, unit in enumerate((gl.Rows(3), gl.Persons("patient", 3), gl.Persons("patient", 2))):
        ledger = tmp_path / f"{number}.ledger"
        with fixed_noise(5):
            table = gl.read(rows(90), schema, protect=unit, budget=gl.Budget(30, 1e-6), ledger=ledger)
            CHARGES[name](table)
        charged.append([(entry.what, entry.mechanism, entry.distance, entry.loss) for entry in table.ledger.entries])
    assert charged[0] == charged[1] != charged[2]
    assert all(distance != less for (*_, distance, _), (*_, less, _) in zip(charged[1], charged[2], strict=False))
