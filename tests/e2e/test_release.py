"""`gl.release`, `save_model` and `ask_all`: what the commands do, in one call each; and a release that was begun."""

import json
from dataclasses import FrozenInstanceError
from pathlib import Path

import polars as pl
import pytest

import gapless as gl
from gapless.privacy.journal import Journal
from gapless.publish import Release
from gapless.query import ask_all, parse_question
from gapless.synth import METHODS
from gapless.testing.noise import fixed_noise
from helpers import fast_methods
from helpers.read_and_release import read_and_release, read_and_save

TABLE = """\
[table]
name = "people"

[column.age]
kind = "integer"
bounds = [0, 99]

[column.sex]
kind = "categorical"
levels = ["F", "M"]
may_be_missing = true

[column.income]
kind = "number"
bounds = [0, 1000]
bins = 4
may_be_missing = true
"""
PROMISE = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6)}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """Two folders with the same table, in the first of which the command line runs; ledgers have equal names."""
    for name in ("line", "python"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "people.toml").write_text(TABLE)
        rows = [f"{i % 99},{('F', 'M', '')[i % 3]},{10 * (i % 100) if i % 4 else ''}" for i in range(200)]
        (tmp_path / name / "people.csv").write_text("age,sex,income\n" + "\n".join(rows) + "\n")
    monkeypatch.setattr("secrets.token_hex", lambda *_: "0123456789abcdef")  # the identity of a ledger
    monkeypatch.chdir(tmp_path / "python")
    return tmp_path / "line"


def schema():
    return gl.Schema.read("people.toml")


def contents(folder):
    """All files but the register, which says where on this machine they lie."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != ".gapless-register")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


CHOICES = {
    "defaults": ((), {}),
    "a method, a treatment, a share": (
        ("--method", "mst", "--missing", "observed", "--spend", "40%", "--rows", "50"),
        {"method": "mst", "missing": gl.Observed(), "spend": "40%", "rows": 50},
    ),
    "a method with its own treatment, which learns gaps": (
        ("--method", "misgan", "--gaps", "as-observed"),
        {"method": "misgan", "gaps": "as-observed"},
    ),
    "gaps, few rows expected, another ledger": (
        ("--gaps", "as-observed", "--expected-rows", "100", "--ledger", "p.ledger"),
        {"gaps": "as-observed", "expected_rows": 100, "ledger": "p.ledger"},
    ),
}


@pytest.mark.parametrize(("options", "arguments"), CHOICES.values(), ids=CHOICES)
def test_one_call_gives_the_files_of_the_command_to_the_byte(options, arguments, folder, run_here, monkeypatch):
    monkeypatch.setitem(METHODS, "misgan", fast_methods.METHODS["misgan"])
    synth = ("synth", "people.csv", "-s", "people.toml", "--epsilon", 1, "--delta", 1e-6, "--seed", 7, "-o", "out")
    with fixed_noise(seed=3):
        code, printed, _ = run_here(*synth, *options)
    monkeypatch.chdir(folder.parent / "python")
    with fixed_noise(seed=3):
        release = read_and_release("people.csv", schema(), "out", **PROMISE, seed=7, **arguments)
    assert code == 0
    assert contents(Path()) == contents(folder)
    assert printed == f"{release}\n"
    assert set(release.files) == {path.name for path in Path("out").iterdir()}


def test_the_result_has_the_guarantee_and_all_paths():
    phases, messages = [], []
    release = read_and_release(
        "people.csv",
        schema(),
        "out",
        protect=gl.Rows(1),
        budget=gl.Budget(12.0, 0),
        spend="25%",
        method="independent",
        progress=lambda phase, done, of: phases.append((phase, done <= of)),
        notify=messages.append,
    )
    assert isinstance(release, Release)
    account = gl.Ledger.open("people.ledger")
    assert release.guarantee == account.guarantee()
    assert (release.folder, release.balance.ledger) == (Path("out"), Path("people.ledger"))
    assert (release.balance.spent, release.balance.left) == account.percentages() == (25, 75)
    assert release.rows == pl.read_csv("out/synthetic.csv").height
    assert not release.taken_up
    assert release.model.sample(5, seed=1).to_text().equals(gl.load("out/synthetic.model").sample(5, seed=1).to_text())
    assert [phase for phase, _ in phases[-2:]] == ["judging", "writing"]
    assert all(whole for _, whole in phases)
    assert messages[0].startswith("Warning: ε = 12 is above 10, A VERY WEAK PROMISE")
    with pytest.raises(FrozenInstanceError):
        release.rows = 0


def test_a_frame_is_released_under_a_ledger_that_is_named():
    frame = pl.read_csv("people.csv", infer_schema=False)
    with pytest.raises(gl.errors.LedgerError, match="a DataFrame has no place beside it"):
        read_and_release(frame, schema(), "out", **PROMISE)
    release = read_and_release(frame, schema(), "out", **PROMISE, ledger="p.ledger", method="independent")
    assert release.balance.left == 0
    assert Path("out/manifest.json").exists()


SLIPS = {
    "no such method": (
        {"method": "independant"},
        gl.errors.ModelError,
        "no method 'independant'\n  Try: choose independent",
    ),
    "no treatment": (
        {"missing": "extended"},
        gl.errors.ModelError,
        "missing must be a treatment of gaps, got 'extended'",
    ),
    "an imputer": (
        {"missing": gl.missing.FromMean()},
        gl.errors.ModelError,
        r"missing=ImputeFirst\(gapless\.missing\.FromMean\(\)\)",
    ),
    "no such gaps": ({"gaps": "some"}, gl.errors.ModelError, "gaps must be 'filled' or 'as-observed', got 'some'"),
    "gaps that are not measured": (
        {"gaps": "as-observed", "missing": gl.Observed()},
        gl.errors.ModelError,
        "does not measure where gaps are, so rows cannot have gaps as observed",
    ),
    "rows": ({"rows": -1}, gl.errors.ModelError, "rows = -1"),
    "part of a row": ({"rows": 2.5}, gl.errors.ModelError, "rows = 2.5"),
    "a seed": ({"seed": -1}, gl.errors.ModelError, "seed = -1"),
    "a bare ε": (
        {"budget": 1.0},
        gl.errors.BudgetError,
        r"budget must be a Budget, got 1.0\n  Try: pass budget=Budget\(epsilon=1.0",
    ),
    "a share": ({"spend": "0%"}, gl.errors.BudgetError, "a spend must be a percentage above 0% .*, got '0%'"),
    "a large share": ({"spend": "101%"}, gl.errors.BudgetError, "a spend must be a percentage above 0% .*, got '101%'"),
    "no budget": (
        {"budget": None},
        gl.errors.BudgetError,
        r"people.ledger is new and needs a budget\n  Try: pass budget=Budget\(",
    ),
    "no unit": ({"protect": 1}, gl.errors.SchemaError, "protect must be a Rows or Persons, got 1"),
    "no schema": ({"schema": "people.toml"}, gl.errors.SchemaError, "schema must be a Schema, got a str"),
    "no data": ({"data": "none.csv"}, gl.errors.ReadError, "no file none.csv"),
    "files in the folder": ({"folder": "."}, gl.errors.ReadError, "holds other files"),
    "no folder": ({"folder": "people.csv"}, gl.errors.ReadError, "a release is a folder, but 'people.csv' is a file"),
    "a ledger among the files": (
        {"folder": ".", "ledger": "privacy.md"},
        gl.errors.ReadError,
        "must end with .ledger, got ",
    ),
}


@pytest.mark.parametrize(("arguments", "error", "message"), SLIPS.values(), ids=SLIPS)
def test_wrong_options_are_refused_before_anything_is_spent_or_written(arguments, error, message):
    before = sorted(Path().rglob("*"))
    call = {"data": "people.csv", "schema": schema(), "folder": "new/out"} | PROMISE | arguments
    with pytest.raises(error, match=message):
        read_and_release(call.pop("data"), call.pop("schema"), call.pop("folder"), **call)
    made = {path for path in Path().rglob("*") if path not in before}
    assert made <= {Path(name) for name in ("people.ledger", "people.ledger.seal", "privacy.md", "privacy.md.seal")}
    assert all(not gl.Ledger.open(path).entries for path in made if path.suffix != ".seal")


def test_a_spent_budget_is_refused_and_leaves_no_folder(monkeypatch):
    read_and_release("people.csv", schema(), "out", **PROMISE, method="independent")
    monkeypatch.setattr("secrets.token_hex", lambda *_: "another")  # the token of the next run
    before = contents(Path())
    with pytest.raises(gl.errors.BudgetError, match="the budget of this table is spent"):
        read_and_release("people.csv", schema(), "again", **PROMISE)
    with pytest.raises(gl.errors.ReadError, match="'out' holds a finished release"):
        read_and_release("people.csv", schema(), "out", **PROMISE)
    assert contents(Path()) == before
    assert not Path("again").exists()


# ---------------------------------------------------------------------- taking up a release that was begun


class Crash(BaseException):
    """The power goes."""


def crash_at(number, patch):
    """Stop the release when it puts the file of this number in its place; gives the names of those before."""
    put, put_there = [], Path.replace

    def replace(path, target):
        if len(put) == number:
            raise Crash
        put.append(Path(target).name)
        return put_there(path, target)

    patch.setattr(Path, "replace", replace)
    return put


def release_of_half(**more):
    with fixed_noise(seed=5):
        return read_and_release("people.csv", schema(), "out", **PROMISE, method="mst", spend="50%", seed=7, **more)


def test_a_release_that_stops_at_any_file_resumes_for_free(folder, monkeypatch):
    with monkeypatch.context() as patch:
        written = crash_at(None, patch)
        release_of_half()
    whole, files = contents(Path("out")), len(written)
    assert written[:2] == ["README.txt", "synthetic.model"]
    assert written[-2:] == ["manifest.json", "README.txt"]
    assert written.count("synthetic.model") == 1  # a model is saved once
    for number in range(2, files):
        place = folder.parent / str(number)
        place.mkdir()
        for name in ("people.toml", "people.csv"):
            (place / name).write_bytes((folder / name).read_bytes())
        monkeypatch.chdir(place)
        with monkeypatch.context() as patch:
            crash_at(number, patch)
            with pytest.raises(Crash):
                release_of_half()
        assert Path("out/README.txt").read_text().startswith("This release is not finished")
        paid = Path("people.ledger").read_bytes()
        messages = []
        release = release_of_half(notify=messages.append)
        assert release.taken_up
        assert messages == [
            "out was begun with mst, Extended(). It is finished with the model that was paid for. Nothing is spent."
        ]
        assert Path("people.ledger").read_bytes() == paid
        assert contents(Path("out")) == whole, written[number]


def test_a_release_whose_ledger_is_in_its_folder_is_resumed(monkeypatch):
    """The folder then holds the ledger, its seal and how far the run is, and nothing else that is not its own."""
    arguments = {**PROMISE, "method": "mst", "ledger": "out/people.ledger", "seed": 7}
    Path("out").mkdir()
    keep, many = Journal.write_answers, iter(range(9))

    def crashing(journal, answers):
        keep(journal, answers)
        if next(many) == 1:
            raise Crash

    with monkeypatch.context() as patch, pytest.raises(Crash):
        patch.setattr(Journal, "write_answers", crashing)
        read_and_release("people.csv", schema(), "out", **arguments)
    assert Path("out/people.ledger.runs").exists()
    paid = len(gl.Ledger.open("out/people.ledger").entries)
    release = read_and_release("people.csv", schema(), "out", **arguments)
    assert len(gl.Ledger.open("out/people.ledger").entries) > paid
    assert gl.publish.verify_release("out").problems == ()
    assert "people.ledger.runs" not in release.files


def test_a_release_resumes_with_a_spent_budget_and_only_under_its_ledger(monkeypatch):
    arguments = {"protect": gl.Rows(1), "method": "independent"}
    with monkeypatch.context() as patch:
        crash_at(3, patch)
        with pytest.raises(Crash):
            read_and_release("people.csv", schema(), "out", budget=gl.Budget(1.0, 0), **arguments)
    with pytest.raises(
        gl.errors.ReadError,
        match=r"begun with independent, Extended\(\); it must be .*\n  Try: pass the same method= and missing=",
    ):
        read_and_release("people.csv", schema(), "out", protect=gl.Rows(1), method="mst")
    monkeypatch.setattr("secrets.token_hex", lambda *_: "another")
    with pytest.raises(gl.errors.LedgerError, match=r"other\.ledger would be a second budget"):
        read_and_release("people.csv", schema(), "out", budget=gl.Budget(1.0, 0), ledger="other.ledger", **arguments)
    assert not Path("other.ledger").exists()
    Path("copy.csv").write_bytes(Path("people.csv").read_bytes())
    gl.read("copy.csv", schema(), protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger="third.ledger")
    with pytest.raises(gl.errors.ReadError, match="begun with another schema or ledger"):
        read_and_release("copy.csv", schema(), "out", ledger="third.ledger", **arguments)
    release = read_and_release("people.csv", schema(), "out", **arguments)
    assert (release.taken_up, release.balance.left) == (True, 0)


def test_the_command_refuses_a_spent_budget_before_it_reads_the_table(folder, run_here, monkeypatch):
    synth = ("synth", "people.csv", "-s", "people.toml", "-m", "independent", "-o")
    assert run_here(*synth, "out", "--epsilon", 1, "--delta", 0)[0] == 0
    monkeypatch.setattr("gapless.cli.app.Source.read", None)
    code, _, err = run_here(*synth, "next")
    assert code == 3
    assert "the budget of this table is spent" in err
    assert not (folder / "next").exists()


# ---------------------------------------------------------------------- a model alone


def test_a_model_is_that_of_the_command(folder, run_here, monkeypatch):
    fit = ("fit", "people.csv", "-s", "people.toml", "--epsilon", 1, "--delta", 1e-6, "-m", "mst", "-o", "p.model")
    with fixed_noise(seed=3):
        assert run_here(*fit, "--spend", "60%")[0] == 0
    monkeypatch.chdir(folder.parent / "python")
    with fixed_noise(seed=3):
        made = read_and_save("people.csv", schema(), "p.model", **PROMISE, method="mst", spend="60%")
    assert contents(Path()) == contents(folder)
    assert (made.path, made.balance.spent) == (Path("p.model"), 60)
    with pytest.raises(gl.errors.ReadError, match=r"p\.model exists"):
        read_and_save("people.csv", schema(), "p.model", **PROMISE)


def test_a_paid_model_gets_another_name_if_its_path_is_taken():
    def take(phase, *_):
        if phase != "reading":
            Path("p.model").write_text("mine")

    made = read_and_save("people.csv", schema(), "p.model", **PROMISE, method="mst", progress=take)
    assert made.path == Path("p.model-2")
    assert Path("p.model").read_text() == "mine"


# ---------------------------------------------------------------------- several questions


QUESTIONS = ("count()", "mean(income) by sex", "proportion(income < 500) where age >= 50", "variance(age)")


def opened(**more):
    return gl.read("people.csv", schema(), **(PROMISE | more))


@pytest.mark.parametrize(
    ("options", "missing"),
    [((), gl.Drop()), (("--missing", "hot-deck", "--on", "age"), gl.HotDeck(on=["age"]))],
)
def test_several_questions_are_answered_as_by_the_command(options, missing, folder, run_here, monkeypatch):
    (folder / "questions.txt").write_text("\n".join(QUESTIONS) + "\n")
    ask = ("ask", "people.csv", "-s", "people.toml", "--epsilon", 1, "--delta", 1e-6, "--spend", "20%", "--json")
    with fixed_noise(seed=3):
        code, printed, _ = run_here(*ask, "--file", "questions.txt", *options)
    monkeypatch.chdir(folder.parent / "python")
    with fixed_noise(seed=3):
        people = opened()
        asked = [parse_question(text, missing) for text in QUESTIONS]
        answers = ask_all(people, asked, spend=people.ledger.share("20%"))
    assert code == 0
    assert json.loads(printed)["answers"] == [answer.to_dict() for answer in answers]
    assert Path("people.ledger").read_bytes() == (folder / "people.ledger").read_bytes()


KNN = gl.Mean("income", missing=gl.Knn(neighbors=1, on=["age"]))
REFUSED = {
    "none": ([], 10, gl.errors.QuestionError, "the list is empty"),
    "no list": (gl.Count(), 10, gl.errors.QuestionError, "takes a list of questions"),
    "a text, no list": ("count()", 10, gl.errors.QuestionError, "takes a list of questions"),
    "a later one that is unknown": ([gl.Count(), gl.Mean("wages")], 10, gl.errors.SchemaError, "no column 'wages'"),
    "a text": ([gl.Count(), "count()"], 10, gl.errors.QuestionError, "'count\\(\\)' is not a question"),
    "too little for a later one": ([gl.Count(), KNN], 10, gl.errors.BudgetError, "needs ε above ln 2"),
    "more than is left": ([gl.Count(), gl.Mean("age")], 60, gl.errors.BudgetError, "asks for 60.00% of the budget"),
}


@pytest.mark.parametrize(("questions", "percent", "error", "message"), REFUSED.values(), ids=REFUSED)
def test_all_questions_can_be_answered_and_paid_for_or_none_is_asked(questions, percent, error, message):
    people = opened()
    people.ask(gl.Count(), spend=people.ledger.share("50%"))
    with pytest.raises(error, match=message):
        ask_all(people, questions, spend=people.ledger.share(f"{percent}%"))
    assert len(gl.Ledger.open("people.ledger").entries) == 1


def test_the_unit_that_is_protected_decides_what_can_be_answered():
    """With more rows per person than in the schema, an unaffordable question is refused before the first is paid."""
    people = opened(protect=gl.Rows(3), budget=gl.Budget(4.0, 0), ledger="three.ledger")
    with pytest.raises(gl.errors.BudgetError, match="ln 2"):
        ask_all(people, [gl.Count(), KNN], spend=people.ledger.share("60%"))
    assert people.ledger.entries == ()
    people = opened(budget=gl.Budget(4.0, 0), ledger="one.ledger")
    assert len(ask_all(people, [gl.Count(), KNN], spend=people.ledger.share("60%"))) == 2


def test_paid_answers_are_handed_over_before_a_later_question_fails(monkeypatch):
    people, answered = opened(budget=gl.Budget(4.0, 0), ledger="pure.ledger"), []

    def fail(*_):
        raise MemoryError

    monkeypatch.setattr(gl.Knn, "answer", fail)
    with pytest.raises(MemoryError):
        ask_all(people, [gl.Count(), KNN], spend=people.ledger.share("60%"), answered=answered.append)
    assert [answer.question for answer in answered] == ["count()"]


def test_questions_of_one_release_each_are_one_batch_priced_by_its_exact_total():
    people = opened(ledger="together.ledger")
    questions = [gl.Count(), gl.Mean("income"), gl.Count(by="sex", missing=gl.HotDeck(on=["age"]))]
    answers = ask_all(people, questions, spend=people.ledger.left)
    entries = people.ledger.entries
    assert [entry.batch for entry in entries] == [1, 1, 1]
    assert all(entry.together for entry in entries)
    singly = gl.query.preview(gl.Count(), people.schema, budget=gl.Budget(1.0, 1e-6), spend=f"{100 / 3}%")
    assert answers[0].noise_std < 0.95 * singly.noise_std
    assert people.ledger.guarantee().epsilon == pytest.approx(1.0, abs=1e-3)


def test_a_column_of_one_bin_stops_no_page():
    """Bins that are learned from few rows may be one: the release is paid for, and is finished."""
    one_bin = TABLE.replace("bounds = [0, 1000]\nbins = 4", "bounds = [0, 1000]\nbins = 1")
    made = read_and_release("people.csv", gl.Schema.from_toml(one_bin), "out", **PROMISE, method="independent")
    assert (made.folder / "report.html").is_file()


def test_columns_that_constraints_flatten_are_reported():
    rule = '[[constraint]]\nnot = "t1.income == t2.income and t1.age != t2.age"\n'
    messages = []
    read_and_release(
        "people.csv", gl.Schema.from_toml(TABLE + rule), "out", **PROMISE, method="mst", notify=messages.append
    )
    assert any("bins have one value each where that is needed: " in line and "income" in line for line in messages)
