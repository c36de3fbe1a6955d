"""Copies kept beside a release: read by the next questions, with the same numbers, and never trusted."""

import pickle
import zipfile

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.model import archive
from gapless.publish import kept_copies, verify_release
from gapless.publish.folder import KEPT_COPIES
from gapless.query import parse_question
from gapless.synth import copies as drawing
from gapless.synth.measurements import Measurements

SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins="learned", may_be_missing=True),
        gl.Integer("visits", bounds=(0, 5), bins=6),
        gl.Boolean("smoker"),
    ],
)
QUESTIONS = [parse_question(text) for text in ("mean(age) by smoker", "median(age)", "corr(visits, smoker)")]


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    folder, rng = tmp_path_factory.mktemp("kept"), np.random.default_rng(0)
    age = rng.integers(18, 90, 300)
    frame = pl.DataFrame({"age": age, "visits": rng.integers(0, 6, 300), "smoker": age > 50})
    frame = frame.with_columns(pl.when(pl.Series(rng.random(300) < 0.8)).then("age").alias("age"))
    people = gl.read(frame, SCHEMA, protect=gl.Rows(1), budget=gl.Budget(8, 1e-6), ledger=folder / "people.ledger")
    gl.release(people, folder / "release", spend=people.ledger.left, method="independent")
    return folder / "release"


@pytest.fixture(autouse=True)
def few_rows(monkeypatch):
    """Small samples are as good to keep as large ones."""
    monkeypatch.setattr(drawing, "ROWS", 300)


@pytest.fixture
def learned(monkeypatch):
    """How often a model is learned from tables, in a list of one number."""
    calls, learn = [0], Measurements.learn

    def counted(*arguments, **options):
        calls[0] += 1
        return learn(*arguments, **options)

    monkeypatch.setattr(Measurements, "learn", counted)
    return calls


def answers(release, *, questions=QUESTIONS, many=2, seed=1):
    with kept_copies(gl.load(release).copies(many, seed=seed), release) as copies:
        return [gl.pool(copies, question) for question in questions]


def test_the_second_time_nothing_is_learned_and_numbers_are_the_same(release, learned):
    (release / KEPT_COPIES).unlink(missing_ok=True)
    first, learned[0] = answers(release), 0
    assert answers(release) == first
    assert learned == [0]
    copies = gl.load(release).copies(2, seed=1)
    assert [gl.pool(copies, question) for question in QUESTIONS] == first  # without the file
    assert learned[0] > 0


def test_parts_that_a_later_question_draws_are_added(release, learned):
    (release / KEPT_COPIES).unlink(missing_ok=True)
    answers(release, questions=QUESTIONS[2:])
    with zipfile.ZipFile(release / KEPT_COPIES) as file:
        assert not any(name.startswith("replicates/") for name in file.namelist())
    answers(release)
    learned[0] = 0
    answers(release)
    assert learned == [0]


@pytest.mark.parametrize(("many", "seed"), [(3, 1), (2, 2)])
def test_other_copies_are_drawn_and_kept_instead(release, learned, many, seed):
    answers(release)
    learned[0] = 0
    answers(release, many=many, seed=seed)
    assert learned[0] > 0
    learned[0] = 0
    answers(release, many=many, seed=seed)
    assert learned == [0]


def changed(path, change):
    head, arrays = archive.load(path, kind="copies")
    change(head, arrays)
    archive.save(path, head, arrays, kind="copies")


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        lambda path: path.write_bytes(pickle.dumps({"copies": "code"})),
        lambda path: changed(path, lambda head, _: head.update(key="of another model")),
        lambda path: changed(path, lambda head, _: head.update(seeds=[1])),
        lambda path: changed(path, lambda head, _: head.update(seeds={"copies": ["1", "2"]})),
        lambda path: changed(path, lambda _, arrays: arrays.pop("copies/codes.0")),
        lambda path: changed(path, lambda _, arrays: arrays["copies/codes.2"].fill(9)),
        lambda path: changed(path, lambda _, arrays: arrays["copies/values.0"].fill(1000.0)),
        lambda path: changed(path, lambda _, arrays: arrays["copies/rows"].fill(-1)),
        lambda path: changed(path, lambda _, arrays: arrays.update({"copies/released": np.zeros((2, 3))})),
    ],
    ids=["cut", "pickle", "key", "list", "text", "lacking", "codes", "values", "rows", "numbers"],
)
def test_a_damaged_or_foreign_file_is_ignored_and_written_again(release, learned, damage):
    (release / KEPT_COPIES).unlink(missing_ok=True)
    first = answers(release)
    whole = (release / KEPT_COPIES).read_bytes()
    damage(release / KEPT_COPIES)
    learned[0] = 0
    assert answers(release) == first
    assert learned[0] > 0
    assert (release / KEPT_COPIES).read_bytes() == whole


def test_a_release_may_hold_kept_copies_and_nothing_else(release):
    answers(release)
    assert verify_release(release).problems == ()
    (release / f"{KEPT_COPIES}.old").touch()
    try:
        assert verify_release(release).problems == (f"{KEPT_COPIES}.old does not belong to the release",)
    finally:
        (release / f"{KEPT_COPIES}.old").unlink()


def test_where_nothing_can_be_written_nothing_is_kept(release, monkeypatch, tmp_path):
    def refuse(*_, **__):
        raise gl.errors.ReadError("cannot write", hint="choose another folder")

    (release / KEPT_COPIES).unlink(missing_ok=True)
    monkeypatch.setattr(archive, "save", refuse)
    assert answers(release)
    assert not (release / KEPT_COPIES).exists()
    monkeypatch.undo()
    gl.load(release).save(tmp_path / "m.model")
    assert answers(tmp_path / "m.model")
    assert [path.name for path in tmp_path.iterdir()] == ["m.model"]
