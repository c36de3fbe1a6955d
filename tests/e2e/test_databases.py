"""A table in PostgreSQL, start to finish: the same release as from memory, no password anywhere, clear errors."""

import logging
import subprocess
import sys
import traceback
from pathlib import Path

import numpy as np
import polars as pl
import psycopg
import pytest

import gapless as gl
from gapless.missing import check
from gapless.synth import METHODS
from gapless.testing.noise import fixed_noise
from helpers.databases import query_of, type_of
from helpers.open_sealed import reveal
from helpers.read_and_release import read_and_release

SECRET = "Tr0ub4dor"  # noqa: S105 it is to be looked for
SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("sex", ["female", "male"], may_be_missing=True),
        gl.Integer("age", bounds=(0, 99), bins=5),
        gl.Number("income", bounds=(0, 1000), edges=(0, 10, 100, 1000), may_be_missing=True, missing=(-1,)),
        gl.Date("born", bounds=("1920-01-01", "2020-12-31"), resolution="year", bins=4, may_be_missing=True),
        gl.Boolean("smoker", may_be_missing=True, missing=(gl.MissingCode("?", "refused"),)),
    ],
)


@pytest.fixture(scope="module")
def people():
    """Rows with every kind of gap, cells beyond bounds, and moments of a year."""
    rng = np.random.default_rng(11)
    age = rng.integers(0, 120, 400)
    income = np.round(np.exp(rng.normal(3, 2, 400)), 2)
    income[::7], income[1::50], income[2::50] = -1, np.nan, np.inf
    born = [None if a % 5 == 0 else f"{2020 - int(a)}-{1 + a % 12:02}-15" for a in age]
    return pl.DataFrame(
        {
            "sex": rng.choice(["female", " male ", "", "other"], 400),
            "age": age,
            "income": income,
            "born": pl.Series(born).str.to_date(),
            "smoker": rng.choice(["yes", "no", "?", "TRUE", "perhaps"], 400),
        }
    )


@pytest.fixture(scope="module")
def url(people, postgres):
    """The same rows in a table, and a URL with a password in it, of somebody who may only read."""
    columns = ", ".join(f"{name} {type_of(dtype)}" for name, dtype in people.schema.items())
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE people ({columns})")
        connection.execute(f"INSERT INTO people {query_of(people)}")
        connection.execute(f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'")
        connection.execute("GRANT SELECT ON people TO reader")
    return postgres.replace("postgres:@", f"reader:{SECRET}@")


QUERY = "SELECT * FROM people"
BUDGET = gl.Budget(2.0, 1e-6)


def tables(people, url, folder):
    """The same table from memory, from the database, and from the database into memory."""
    given = {"protect": gl.Rows(1), "budget": BUDGET}
    yield gl.read(people, SCHEMA, ledger=folder / "memory.ledger", **given)
    yield gl.read(url, SCHEMA, ledger=folder / "sql.ledger", query=QUERY, **given)
    yield gl.read(url, SCHEMA, ledger=folder / "held.ledger", query=QUERY, engine="memory", **given)


@pytest.mark.parametrize("method", [name for name in METHODS if METHODS[name].pure and name != "auto"])
def test_the_same_noise_gives_the_same_release_from_memory_and_from_postgresql(method, people, url, tmp_path):
    made = []
    for data, more in ((people, {}), (url, {"query": QUERY})):
        folder = tmp_path / ("sql" if more else "memory")
        with fixed_noise(3):
            read_and_release(
                data, SCHEMA, folder, protect=gl.Rows(1), budget=BUDGET, ledger=f"{folder}.ledger", method=method,
                rows=200, seed=5, **more,
            )  # fmt: skip
        made.append((folder / "synthetic.csv").read_bytes())
    assert made[0] == made[1]
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_the_same_noise_gives_the_same_answers_and_diagnostics(people, url, tmp_path):
    questions = [
        gl.Mean("income", by="sex"),
        gl.Count(where="age >= 33"),
        gl.Median("age"),
        gl.Proportion("smoker == true", missing=gl.HotDeck(on=["age"])),
        gl.Mean("income", missing=gl.HotDeck(on=["age"], limit=2)),
    ]
    answers = []
    for table in tables(people, url, tmp_path):
        with fixed_noise(7):
            answers.append([str(table.ask(question, spend=table.ledger.share("10%"))) for question in questions])
            answers[-1].append(str(gl.missing.describe_gaps(table, spend=table.ledger.share("40%"))))
    assert answers[0] == answers[1] == answers[2]


def test_treatments_that_need_all_rows_are_refused_in_the_database_and_done_in_memory(people, url, tmp_path):
    _, database, held = tables(people, url, tmp_path)
    question = gl.Proportion("smoker == true", missing=gl.Knn(on=["age"]))
    with pytest.raises(gl.errors.EngineError, match="needs all rows in memory, but the engine sql does not hold them"):
        database.ask(question, spend=database.ledger.left)
    assert not database.ledger.entries
    assert 0 <= held.ask(question, spend=held.ledger.left).estimate <= 1


def test_private_training_takes_its_batches_from_the_database(people, url, tmp_path):
    _, database, _ = tables(people, url, tmp_path)
    model = gl.Kamino(missing=gl.CompleteRows(), steps=3).fit(database, spend=database.ledger.left)
    assert model.sample(10, seed=0).rows == 10


def test_the_scheme_of_a_url_may_have_large_letters(url, tmp_path):
    given = {"protect": gl.Rows(1), "budget": BUDGET, "ledger": tmp_path / "x.ledger", "query": QUERY}
    table = gl.read(url.replace("postgresql:", "PostgreSQL:"), SCHEMA, **given)
    assert reveal(table.marginal(()), table.ledger) == 400


def test_writing_to_the_table_does_not_change_what_was_read(people, url, postgres, tmp_path):
    _, database, _ = tables(people, url, tmp_path)
    with psycopg.connect(postgres, autocommit=True) as other:
        other.execute("INSERT INTO people SELECT * FROM people")
        counted = reveal(database.marginal(()), database.ledger)
        other.execute("DELETE FROM people WHERE ctid NOT IN (SELECT ctid FROM people LIMIT 400)")
    assert counted == 400


def test_a_broken_connection_is_reported_and_charges_stay_in_the_ledger(people, url, postgres, tmp_path):
    _, database, _ = tables(people, url, tmp_path)
    share = database.ledger.share("10%")
    database.ask(gl.Count(), spend=share)
    with psycopg.connect(postgres, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'reader'")
    for _ in range(2):
        with pytest.raises(
            gl.errors.ReadError, match="the connection to the database is lost\n  Try: read the table again"
        ) as lost:
            database.ask(gl.Count(where="age >= 50"), spend=share)
        assert "terminating" not in "".join(traceback.format_exception(lost.value))
    entries = gl.Ledger.open(tmp_path / "sql.ledger").entries
    assert len(entries) == 3  # what was charged for counts that never came stays charged
    again = gl.read(url, SCHEMA, protect=gl.Rows(1), ledger=tmp_path / "sql.ledger", query=QUERY)
    assert reveal(again.marginal(()), again.ledger) == 400


def test_no_password_is_printed_or_stored(url, tmp_path, caplog, capfd):
    """Of connections that fail in many ways, and of one that does not: in no error, what it carries, log or file."""
    caplog.set_level(logging.DEBUG)
    place = url.partition("@")[2]
    wrong = [
        f"postgresql://nobody:{SECRET}@{place}",
        f"postgresql://reader:{SECRET}@localhost:1/registry",
        f"postgresql://reader:{SECRET}@localhost:{SECRET}/registry",
        f"postgresql://reader:{SECRET}@no.such.host.invalid/registry",
        f"postgresql://reader:a/{SECRET}@localhost/registry",
        f"postgresql://reader@localhost:1/registry?password={SECRET}&sslmode={SECRET}",
        f"postgresql://[{SECRET}]/registry",
        f"postgresql:///registry?{SECRET}",
        Path(url),
    ]
    texts = []
    for data, query in [
        *((data, QUERY) for data in wrong),
        (url, "SELECT nothing"),
        (url, None),
        (url, "SELECT 1 FROM"),
    ]:
        with pytest.raises(gl.GaplessError) as error:
            gl.read(data, SCHEMA, protect=gl.Rows(1), budget=BUDGET, ledger=tmp_path / "x.ledger", query=query)
        assert error.value.__context__ is error.value.__cause__ is None
        texts.append(str(error.value))
        for look in (gl.Table.read, check, lambda place, _: gl.data.draft_schema(place)):
            with pytest.raises(gl.errors.ReadError, match="a database is not read here") as error:
                look(data, SCHEMA)
            texts.append(str(error.value))
    with pytest.raises(gl.errors.LedgerError, match="a database has no place beside it") as error:
        gl.read(url, SCHEMA, protect=gl.Rows(1), budget=BUDGET, query=QUERY)
    table = gl.read(url, SCHEMA, protect=gl.Rows(1), budget=BUDGET, ledger=tmp_path / "y.ledger", query=QUERY)
    gl.Independent().fit(table, spend=table.ledger.left).save(tmp_path / "y.model")
    files = [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    texts += [
        str(error.value),
        repr(table),
        repr(reveal(table._rows, table.ledger)),
        caplog.text,
        *capfd.readouterr(),
        *files,
    ]
    assert len(files) >= 3
    assert not [text for text in texts if SECRET in text]


PROBLEMS = {
    "SELECT sex, age, income, born FROM people": (gl.errors.SchemaError, "no column 'smoker'"),
    "SELECT *, 1 AS more FROM people": (gl.errors.SchemaError, "does not have: 'more'"),
    "SELECT *, 1 AS sex FROM people": (gl.errors.ReadError, "two columns have the same name"),
    "SELECT sex, ARRAY[age] AS age, income, born, smoker FROM people": (
        gl.errors.ReadError,
        "'age' holds values of type _int8",
    ),
    "SELECT sex, born AS age, income, born, smoker FROM people": (
        gl.errors.ReadError,
        "'age' has kind integer in the schema, but type date in the data",
    ),
    "SELECT sex, 1 / (age - age) AS age, income, born, smoker FROM people": (gl.errors.ReadError, "SQLSTATE 22012"),
    "SELECT sex, NULL::int AS age, income, born, smoker FROM people": (
        gl.errors.ReadError,
        "'age' has gaps or unreadable",
    ),
    "SELECT * FROM nowhere": (gl.errors.ReadError, "names a table that is not there"),
    "SELECT nothing FROM people": (gl.errors.ReadError, "names a column that is not there"),
    "SELECT * FORM people": (gl.errors.ReadError, "the query is not understood near character"),
    "SELECT * FROM pg_authid": (gl.errors.ReadError, "this user may not read"),
    "DELETE FROM people RETURNING *": (gl.errors.ReadError, "the query is not understood"),
}


@pytest.mark.parametrize("query", PROBLEMS)
def test_a_wrong_query_is_refused_before_a_ledger_is_made(query, url, tmp_path):
    kind, message = PROBLEMS[query]
    with pytest.raises(kind, match=message):
        gl.read(url, SCHEMA, protect=gl.Rows(1), budget=BUDGET, ledger=tmp_path / "x.ledger", query=query)
    assert not list(tmp_path.iterdir())


def test_engines_and_queries_that_do_not_fit_are_refused(url, tmp_path):
    given = {"protect": gl.Rows(1), "budget": BUDGET, "ledger": tmp_path / "x.ledger"}
    with pytest.raises(gl.errors.EngineError, match=r"engine = 'postgres', but engine must be one of.*\n  Try"):
        gl.read(url, SCHEMA, query=QUERY, engine="postgres", **given)
    with pytest.raises(gl.errors.EngineError, match="the engine spark does not read such data"):
        gl.read(url, SCHEMA, query=QUERY, engine="spark", **given)
    with pytest.raises(gl.errors.ReadError, match="a query is for a database"):
        gl.read(pl.DataFrame({"age": [1]}), SCHEMA, query=QUERY, **given)


def test_the_command_line_reads_a_database(url, tmp_path):
    (tmp_path / "people.toml").write_text(SCHEMA.to_toml())
    command = [sys.executable, "-m", "gapless", "synth", url, "--query", QUERY, "-s", "people.toml", "-o", "release/"]
    made = subprocess.run(
        [*command, "--ledger", "people.ledger", "--epsilon", "1", "--delta", "0.1", "-m", "independent", "--rows", "9"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr
    assert len((tmp_path / "release" / "synthetic.csv").read_text().splitlines()) == 10
    files = [path.read_bytes().decode(errors="replace") for path in tmp_path.rglob("*") if path.is_file()]
    assert not [text for text in (made.stdout, made.stderr, *files) if SECRET in text]


def test_a_run_that_was_stopped_does_not_go_on_with_another_query(url, tmp_path):
    """Its answers are of the first one: they would pass for those of the second."""

    def stop(phase, *_):
        if phase == "choosing":
            raise KeyboardInterrupt

    given = {"protect": gl.Rows(1), "budget": BUDGET, "ledger": tmp_path / "x.ledger", "method": "mst", "rows": 5}
    with pytest.raises(KeyboardInterrupt):
        read_and_release(url, SCHEMA, tmp_path / "release", query=QUERY, progress=stop, **given)
    spent = len(gl.Ledger.open(tmp_path / "x.ledger").entries)
    assert spent
    with pytest.raises(gl.errors.ReadError, match="was started under another ledger, or by another call"):
        read_and_release(url, SCHEMA, tmp_path / "release", query=f"{QUERY} WHERE age > 50", **given)
    assert len(gl.Ledger.open(tmp_path / "x.ledger").entries) == spent
    assert read_and_release(url, SCHEMA, tmp_path / "release", query=QUERY, **given).rows == 5
    assert QUERY not in (tmp_path / "release" / "privacy.md").read_text()
