"""What is told about a model, in its file and to whoever takes it up again."""

import json
import math
import zipfile
from dataclasses import replace

import pytest

import gapless as gl
from gapless.model import archive
from gapless.model.distribution import Product
from gapless.privacy import Guarantee
from gapless.synth.fitted import Facts
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise

ROWS = [("a", "b"), ("b", "a"), (None, "c")] * 5
SCHEMA = letters_schema([2, 3])
PROMISE = Guarantee("letters", gl.Rows(2), 0.7, 1e-6, "the budget's Rényi filter")
FACTS = Facts(
    method="mst",
    guarantee=PROMISE,
    settings={"missing": "Extended()", "pairs": 1},
    structure=("x0 × x1: noise std 2.0",),
    noise={"x0": 1.5},
    limits=("A sentence.",),
    edges=((0, 1),),
)


def of_a_test(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path)
    with fixed_noise(1):
        return gl.MST().fit(table, spend=table.ledger.left)


def changed(path, change):
    """The file of a model with another head."""
    with zipfile.ZipFile(path) as old:
        inside = {name: old.read(name) for name in old.namelist()}
    head = json.loads(inside["model.json"])
    change(head)
    inside["model.json"] = json.dumps(head).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in inside.items():
            new.writestr(name, content)
    return path


@pytest.mark.parametrize("epsilon", [0.7, math.inf])
def test_facts_come_back_from_json_as_they_were(epsilon):
    facts = replace(FACTS, guarantee=replace(PROMISE, epsilon=epsilon))
    assert Facts.from_json(json.loads(json.dumps(facts.to_json(), allow_nan=False))) == facts


def test_private_is_what_the_guarantee_says_whatever_its_words():
    assert FACTS.private
    assert replace(FACTS, guarantee=replace(PROMISE, basis="NOT PRIVATE")).private
    assert not replace(FACTS, guarantee=replace(PROMISE, epsilon=math.inf)).private


def test_a_model_of_a_test_stays_one_in_its_file(tmp_path):
    of_a_test(tmp_path).save(tmp_path / "m")
    again = gl.load(tmp_path / "m")
    assert not again.private
    table = private(ROWS, SCHEMA, tmp_path)
    with pytest.raises(gl.errors.ModelError, match="fitted with the noise of a test"):
        gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(again))).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries
    real = gl.Independent().fit(table, spend=table.ledger.left)
    real.save(tmp_path / "real")
    assert gl.load(tmp_path / "real").private


@pytest.mark.parametrize(
    ("version", "hint"),
    [(1, "fit it again, or use the gapless that wrote it"), (archive.VERSION + 1, "a newer gapless")],
)
def test_a_model_file_of_another_version_is_refused(version, hint, tmp_path):
    of_a_test(tmp_path).save(tmp_path / "m")
    path = changed(tmp_path / "m", lambda head: head.update(version=version))
    with pytest.raises(gl.errors.ModelError, match=rf"model file of version {version}, .* reads 2 to 3\n  Try: {hint}"):
        gl.load(path)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda head: head.pop("version"), "not a gapless model, or is damaged"),
        (lambda head: head.update(filled="produkt"), r"no distribution called 'produkt'\n  Try: product"),
        (lambda head: head.pop("filled"), "holds no distribution"),
    ],
)
def test_a_model_file_that_lacks_a_part_is_refused(change, told, tmp_path):
    of_a_test(tmp_path).save(tmp_path / "m")
    with pytest.raises(gl.errors.ModelError, match=told):
        gl.load(changed(tmp_path / "m", change))


def test_a_bare_distribution_is_no_model_that_fills_gaps(tmp_path):
    model = gl.Independent().fit(table := private(ROWS, SCHEMA, tmp_path), spend=table.ledger.left)
    assert isinstance(model.filled, Product)
    with pytest.raises(gl.errors.ModelError, match="the model is"):
        gl.missing.FromModel(model.filled)
