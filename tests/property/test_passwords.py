"""No password in what is given as data comes back: in no error, no repr, no output of the command line, no file name.

A password is made of marks with signs between them, since some signs cut a URL or a connection string in two: no mark
may be shown.
"""

import contextlib
import itertools
import logging
import sys
import tempfile
import traceback
from pathlib import Path
from urllib.parse import quote

import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gapless as gl
from gapless.cli import main
from gapless.missing import check
from helpers.examples import examples, repetitions
from helpers.read_and_release import read_and_release

PASSWORD_PARTS = ("Zq7x", "Xk9v", "Wm3j")
passwords = st.lists(st.text("/@:?#&=%*[]{}()!$'\"\\ ;,.~-_ü漢é\t\n", max_size=3), min_size=2, max_size=2).map(
    lambda signs: f"{PASSWORD_PARTS[0]}{signs[0]}{PASSWORD_PARTS[1]}{signs[1]}{PASSWORD_PARTS[2]}"
)
HERE = "127.0.0.1:1"  # where nobody answers
WRITTEN = {
    "libpq": lambda word: f"host=127.0.0.1 port=1 user=ada password={word} dbname=registry",
    "libpq, quoted": lambda word: f"host = 127.0.0.1 password = '{word}' dbname = registry",
    "libpq, alone": lambda word: f"password={word}",
    "libpq, of a key": lambda word: f"dbname=registry sslpassword={word}",
    "libpq, a service": lambda word: f"service=registry password={word}",
    "libpq, large letters": lambda word: f"HOST=127.0.0.1 PASSWORD={word}",
    "libpq, as a file": lambda word: f"host=127.0.0.1 password={word}.csv",
    "libpq, as a pattern": lambda word: f"host=127.0.0.1 password={word}*.parquet",
    "libpq, long": lambda word: f"host=127.0.0.1 password={word} options='{'-c x ' * 100}'",
    "a path of it": lambda word: Path(f"host=127.0.0.1 password={word}"),
    "odbc": lambda word: f"Driver={{PostgreSQL}};Server=127.0.0.1;Uid=ada;Pwd={word};Database=registry",
    "url": lambda word: f"postgresql://ada:{word}@{HERE}/registry",
    "url, encoded": lambda word: f"postgresql://ada:{quote(word, safe='')}@{HERE}/registry",
    "url, large letters": lambda word: f"POSTGRES://ada:{quote(word, safe='')}@{HERE}/registry",
    "url, a parameter": lambda word: f"postgresql://{HERE}/registry?user=ada&password={quote(word)}",
    "url, a parameter as it is": lambda word: f"postgresql://{HERE}/registry?password={word}",
    "url, several hosts": lambda word: f"postgresql://ada:{quote(word, safe='')}@{HERE},127.0.0.1:2/registry",
    "url, no host": lambda word: f"postgresql:///registry?host=/nowhere&password={quote(word)}",
    "url, no user": lambda word: f"postgresql://:{word}@/registry",
    "a path of a url": lambda word: Path(f"postgresql://ada:{word}@{HERE}/registry"),
    "mysql": lambda word: f"mysql://ada:{word}@{HERE}/registry",
    "jdbc": lambda word: f"jdbc:postgresql://{HERE}/registry?user=ada&password={word}",
    "jdbc, oracle": lambda word: f"jdbc:oracle:thin:ada/x@{HERE}:password={word}",
    "no scheme": lambda word: f"ada:{word}@localhost",
    "sqlalchemy": lambda word: f"postgresql+psycopg://ada:{quote(word, safe='')}@{HERE}/registry",
}
SCHEMA = gl.Schema("people", [gl.Categorical("sex", ["f", "m"], may_be_missing=True)])
GIVEN = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6)}
CALLS = {
    "read": lambda data, _: gl.read(data, SCHEMA, **GIVEN),
    "read, ledger": lambda data, folder: gl.read(data, SCHEMA, ledger=folder / "x.ledger", **GIVEN),
    "read, query": lambda data, folder: gl.read(
        data, SCHEMA, ledger=folder / "x.ledger", query="select sex from people", **GIVEN
    ),
    "read, duckdb": lambda data, folder: gl.read(data, SCHEMA, ledger=folder / "x.ledger", engine="duckdb", **GIVEN),
    "read, spark": lambda data, folder: gl.read(data, SCHEMA, ledger=folder / "x.ledger", engine="spark", **GIVEN),
    "release": lambda data, folder: read_and_release(data, SCHEMA, folder / "release", method="independent", **GIVEN),
    "release, ledger": lambda data, folder: read_and_release(
        data, SCHEMA, folder / "release", method="independent", ledger=folder / "x.ledger", query="select 1", **GIVEN
    ),
    "table": lambda data, _: gl.Table.read(data, SCHEMA),
    "check": lambda data, _: check(data, SCHEMA),
    "draft": lambda data, _: gl.data.draft_schema(data),
}


def shown(text):
    """The marks in a text, however the letters of it are written."""
    return [mark for mark in PASSWORD_PARTS if mark.lower() in text.lower()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(caplog):
    caplog.set_level(logging.DEBUG)
    return caplog


def check_nothing_shown(data, call, folder):
    with pytest.raises(gl.GaplessError) as text:
        CALLS[call](data, folder)
    error = text.value
    assert error.__cause__ is error.__context__ is None or error.__suppress_context__
    # Lines of source are not messages: the text of each error, of what it carries and of what it came from.
    texts = [str(error), repr(error), repr(error.args), repr(vars(error))]
    texts += traceback.format_exception_only(error)
    assert not shown(" ".join(texts)), texts


@pytest.mark.parametrize("written", WRITTEN)
@examples(4)
@example(word="Zq7xXk9vWm3j")
@example(word="Zq7x/Xk9v@Wm3j")
@example(word="Zq7x?Xk9v[Wm3j]")
@given(word=passwords)
def test_no_error_shows_a_password(written, word):
    data = WRITTEN[written](word)
    for call in CALLS:
        with tempfile.TemporaryDirectory() as place, contextlib.chdir(place):
            check_nothing_shown(data, call, Path(place))
            assert not [path for path in Path(place).rglob("*") if shown(path.name)]


@pytest.mark.parametrize("written", WRITTEN)
def test_no_log_shows_a_password(written, folder, log, capfd):
    for call in CALLS:
        check_nothing_shown(WRITTEN[written]("Zq7x:Xk9v@Wm3j"), call, folder)
    assert not shown(log.text + "".join(capfd.readouterr()))
    assert not list(folder.iterdir())


COMMANDS = {
    "synth": ["synth", "DATA", "-s", "people.toml", "--epsilon", "1", "--delta", "1e-6", "-o", "release"],
    "synth, query": [
        "synth",
        "DATA",
        "-s",
        "people.toml",
        "--epsilon",
        "1",
        "--delta",
        "0",
        "-o",
        "release",
        "--query",
        "select 1",
    ],
    "synth, ledger": [
        "synth",
        "DATA",
        "-s",
        "people.toml",
        "--epsilon",
        "1",
        "--delta",
        "0",
        "-o",
        "release",
        "--ledger",
        "x.ledger",
    ],
    "fit": ["fit", "DATA", "-s", "people.toml", "--epsilon", "1", "--delta", "1e-6", "-o", "people.model"],
    "ask": [
        "ask",
        "DATA",
        "proportion(sex == f)",
        "-s",
        "people.toml",
        "--spend",
        "10%",
        "--epsilon",
        "1",
        "--delta",
        "0",
    ],
    "check": ["check", "DATA", "-s", "people.toml"],
    "draft": ["schema", "draft", "DATA"],
    "evaluate": ["evaluate", "people.csv", "DATA", "-s", "people.toml", "-o", "report.html"],
    "gap": ["gap", "DATA", "-s", "people.toml", "--rate", "0.2", "-o", "gapped.csv"],
    "weigh": [
        "weigh",
        "DATA",
        "people.csv",
        "-s",
        "people.toml",
        "--epsilon",
        "1",
        "--delta",
        "0",
        "-o",
        "weights.csv",
    ],
    "too many": ["synth", "people.csv", "DATA", "-s", "people.toml", "-o", "release"],
    "as a schema": ["check", "people.csv", "-s", "DATA"],
    "as a schema, joined": ["check", "people.csv", "--schema=DATA"],
    "as a ledger": ["ledger", "DATA"],
    "as a model": ["sample", "DATA", "-o", "fake.csv"],
    "as a release": ["verify", "DATA"],
    "as a command": ["DATA"],
    "as a number": ["sample", "people.model", "--rows", "DATA", "-o", "fake.csv"],
}


@pytest.fixture
def command(folder, monkeypatch, capfd):
    """Run the command line with this in place of DATA: what it prints, and names of files."""
    pl.DataFrame({"sex": ["f", "m", None]}).write_csv(folder / "people.csv")
    (folder / "people.toml").write_text(SCHEMA.to_toml())

    def run(texts, data):
        monkeypatch.setattr(sys, "argv", ["gapless", *(word.replace("DATA", data) for word in texts)])
        with pytest.raises(SystemExit) as left:
            main()
        printed = capfd.readouterr()
        assert left.value.code not in (0, None), printed.out
        return printed.out + printed.err + " ".join(path.name for path in folder.rglob("*"))

    return run


@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_shows_a_password(name, command):
    """In an ordinary run each command gets a third of what can be written, the next command another third."""
    nasty = itertools.cycle(["Zq7xXk9vWm3j", "Zq7x/Xk9v@Wm3j ?", "Zq7x'Xk9v\\Wm3j"])
    every = 3 if repetitions(1) == 1 else 1
    first = list(COMMANDS).index(name) % every
    for (written, write), word in [*zip(WRITTEN.items(), nasty, strict=False)][first::every]:
        printed = command(COMMANDS[name], str(write(word)))
        assert not shown(printed), (written, printed)


def test_words_of_a_connection_string_that_was_not_quoted_are_not_shown(command):
    printed = command(["synth", "host=db", "password=Zq7xXk9vWm3j", "-s", "people.toml", "-o", "release"], "")
    assert "unexpected extra argument" in printed
    assert not shown(printed)


@pytest.mark.parametrize("data", ["host=db password=secret dbname=x", "service=registry", "dbname=x user=ada"])
def test_a_connection_string_is_refused_by_the_form_that_is_read(data, folder):
    for call in ("read", "table", "draft", "release"):
        with pytest.raises(gl.errors.ReadError) as text:
            CALLS[call](data, folder)
        assert str(text.value) == (
            "a connection string is not read, and no file has this name\n  Try: write it as a URL: "
            '"postgresql://ada@localhost:5432/registry", and keep the password in PGPASSWORD or ~/.pgpass'
        )


def test_a_file_that_is_called_so_is_a_file(folder):
    for name in ("password=1.csv", "host=db password=1.csv", "user=ada/people.csv"):
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        pl.DataFrame({"sex": ["f", "m", None]}).write_csv(path)
        assert gl.Table.read(path.relative_to(folder), SCHEMA).rows == 3
    assert gl.Table.read("user=*/people.csv", SCHEMA).rows == 3
    with pytest.raises(gl.errors.ReadError, match=r"no file year=2024/people\.csv"):
        gl.Table.read("year=2024/people.csv", SCHEMA)
