"""Fitted models: their facts and files, samples given some cells, samples written in parts, pictures."""

import json
import math
import re
import signal
import subprocess
import sys
import zipfile
from dataclasses import dataclass, replace
from typing import ClassVar
from unittest import mock
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.draw.ring import MOST_LINES
from gapless.model import archive
from gapless.model.distribution import Product
from gapless.privacy import Guarantee
from gapless.schema import Constraint
from gapless.synth import fitted
from gapless.synth.fitted import Facts, draw_structure
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
    limitations=("A sentence.",),
    edges=((0, 1),),
)


def of_a_test(tmp_path):
    table = private(ROWS, SCHEMA, tmp_path)
    with fixed_noise(1):
        return gl.MST().fit(table, spend=table.ledger.left)


def changed(path, change):
    """The file of a model with another head."""
    with zipfile.ZipFile(path) as old:
        members = {name: old.read(name) for name in old.namelist()}
    head = json.loads(members["model.json"])
    change(head)
    members["model.json"] = json.dumps(head).encode()
    with zipfile.ZipFile(path, "w") as new:
        for name, content in members.items():
            new.writestr(name, content)
    return path


@pytest.mark.parametrize("epsilon", [0.7, math.inf])
def test_facts_come_back_from_json_as_they_were(epsilon):
    facts = replace(FACTS, guarantee=replace(PROMISE, epsilon=epsilon))
    assert Facts.from_json(json.loads(json.dumps(facts.to_json(), allow_nan=False))) == facts


def test_private_follows_the_guarantee_not_its_text():
    assert FACTS.guarantee.private
    assert replace(FACTS, guarantee=replace(PROMISE, basis="NOT PRIVATE")).guarantee.private
    assert not replace(FACTS, guarantee=replace(PROMISE, epsilon=math.inf)).guarantee.private


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
    [
        (1, "fit the model again, or load the file with the version of gapless that wrote it"),
        (archive.VERSION + 1, "install a newer version of gapless"),
    ],
)
def test_a_model_file_of_another_version_is_refused(version, hint, tmp_path):
    of_a_test(tmp_path).save(tmp_path / "m")
    path = changed(tmp_path / "m", lambda head: head.update(version=version))
    with pytest.raises(gl.errors.ModelError, match=rf"of version {version}, .* reads version 3\n  Try: {hint}"):
        gl.load(path)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda head: head.pop("version"), "not a gapless model, or is damaged"),
        (lambda head: head.update(filled="produkt"), r"must be one of .*, got 'produkt'\n  Try: load another copy"),
        (lambda head: head.pop("filled"), "the model has no distribution"),
    ],
)
def test_a_model_file_that_lacks_a_part_is_refused(change, text, tmp_path):
    of_a_test(tmp_path).save(tmp_path / "m")
    with pytest.raises(gl.errors.ModelError, match=text):
        gl.load(changed(tmp_path / "m", change))


def test_a_bare_distribution_is_no_model_that_fills_gaps(tmp_path):
    model = gl.Independent().fit(table := private(ROWS, SCHEMA, tmp_path), spend=table.ledger.left)
    assert isinstance(model.filled, Product)
    with pytest.raises(gl.errors.ModelError, match="model must be a fitted model"):
        gl.missing.FromModel(model.filled)


COLUMNS = [
    gl.Categorical("sex", ["female", "male"]),
    gl.Integer("age", bounds=(0, 99), bins=10, may_be_missing=True),
    gl.Boolean("married"),
    gl.Number(
        "income", bounds=(0, 1000), bins=5, may_be_missing=True, missing=("", gl.MissingCode("-", "not-applicable"))
    ),
    gl.Date("moved", bounds=("2000-01-01", "2009-12-31"), resolution="year"),
]


RULE = Constraint("t1.age < 20 and t1.married == true")


DRAWN = 20_000


def given_rows(rows=2_000):
    rng = np.random.default_rng(1)
    sex = rng.integers(0, 2, rows)
    age = np.where(sex == 1, rng.integers(40, 99, rows), rng.integers(0, 60, rows))
    gap = rng.random(rows) < 0.2
    return pl.DataFrame(
        {
            "sex": np.array(["female", "male"])[sex],
            "age": pl.Series(age).zip_with(pl.Series(rng.random(rows) > 0.1), pl.Series([None] * rows, dtype=pl.Int64)),
            "married": (age > 30) & (rng.random(rows) < 0.7),
            "income": pl.Series(10.0 * age)
            .cast(pl.String)
            .zip_with(pl.Series(~gap), pl.Series([None] * rows, dtype=pl.String)),
            "moved": [f"{2000 + years % 10}-01-01" for years in age],
        }
    )


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of each method, models once."""
    models = {}

    def fit(method, *rules):
        if (method, rules) not in models:
            ledger = tmp_path_factory.mktemp("given") / "people.ledger"
            schema = gl.Schema("people", COLUMNS, constraints=rules)
            with fixed_noise(3):
                people = gl.read(given_rows(), schema, protect=gl.Rows(1), budget=gl.Budget(5.0, 1e-6), ledger=ledger)
                models[method, rules] = method().fit(people, spend=people.ledger.share("100%"))
        return models[method, rules]

    return fit


FILLING = [gl.MST, gl.AIM, gl.Mixture, gl.Independent, gl.PrivBayes]


EXACT = FILLING[:-1]  # a network is drawn from by Gibbs sampling


@pytest.mark.parametrize("method", FILLING)
@pytest.mark.parametrize("gaps", ["filled", "as-observed"])
def test_every_row_has_what_is_given(models, method, gaps):
    model = models(method)
    given = {"sex": "male", "age": 55, "married": "yes"}
    rows = model.sample(200, seed=1, gaps=gaps, given=given)
    frame = rows.to_polars()
    assert frame.select("sex", "age", "married").unique().rows() == [("male", 55, True)]
    assert rows.rows == 200
    assert frame["moved"].n_unique() > 1
    assert (frame["income"].null_count() > 20) == (gaps == "as-observed")  # noise makes a few not applicable
    assert rows.to_polars().equals(model.sample(200, seed=1, gaps=gaps, given=given).to_polars())


@pytest.mark.parametrize("method", FILLING)
def test_the_others_follow_the_conditional_distribution(models, method):
    """Hoeffding: a share of 20,000 independent rows is off by more than 0.02 with probability below 3e-7."""
    model = models(method)
    given = {"age": "50..59", "married": True}
    codes = model.sample(DRAWN, seed=2, given=given).codes
    for name in ("sex", "income", "moved"):
        joint = model.marginal(["age", "married", name])[5, 1]
        place = model.schema.names.index(name)
        drawn = np.bincount(codes[place], minlength=len(joint)) / DRAWN
        off = np.abs(drawn - joint / joint.sum()).max()
        assert off < (0.02 if method in EXACT else 0.05), name
    if method in (gl.MST, gl.AIM, gl.Mixture):  # another distribution than without
        alone = model.marginal("income")
        assert np.abs(np.bincount(codes[3], minlength=6) / DRAWN - alone).max() > 0.1


@pytest.mark.parametrize("method", FILLING)
def test_constraints_hold(models, method):
    model = models(method, RULE)
    young = model.sample(500, seed=1, given={"age": 7}).to_polars()
    assert young["age"].unique().to_list() == [7]
    assert not young["married"].any()
    married = model.sample(500, seed=1, given={"married": True}).to_polars()
    assert married["age"].min() >= 20
    refusal = r"(no row was found that has the given cells|no row of this model has age = 0\.\.9, married = true)"
    with pytest.raises(gl.errors.ModelError, match=rf"{refusal}.*\n  Try: choose other given cells, or fewer"):
        model.sample(50, given={"age": 7, "married": True})


def test_a_dependency_holds_for_what_is_given(tmp_path):
    rule = Constraint("t1.zip == t2.zip and t1.town != t2.town")
    columns = [gl.Categorical("zip", list("abcd")), gl.Categorical("town", ["X", "Y"]), gl.Boolean("other")]
    zips = np.arange(4_000) % 4
    cells = pl.DataFrame(
        {"zip": np.array(list("abcd"))[zips], "town": np.array(["X", "Y"])[zips // 2], "other": zips > 1}
    )
    for method in (gl.MST, gl.Mixture):
        schema = gl.Schema("people", columns, constraints=(rule,))
        ledger = tmp_path / f"{method.__name__}.ledger"
        people = gl.read(cells, schema, protect=gl.Rows(1), budget=gl.Budget(5.0, 1e-6), ledger=ledger)
        model = method().fit(people, spend=people.ledger.share("100%"))
        rows = model.sample(500, given={"town": "Y"}).to_polars()
        assert set(rows["zip"]) == {"c", "d"}
        assert set(rows["town"]) == {"Y"}


@pytest.mark.parametrize("method", [gl.Kamino, gl.PrivBayes])
def test_cells_that_a_rule_keeps_apart_are_refused_before_any_row_is_drawn(tmp_path, monkeypatch, method):
    """A model without exact marginals cannot detect it, and would draw all rows again and again."""
    rules = (
        Constraint("t1.zip == t2.zip and t1.town != t2.town"),
        Constraint("t1.zip == 'd' and t1.other == true"),
    )
    columns = [
        gl.Categorical("zip", list("abcd")),
        gl.Categorical("town", ["X", "Y"], may_be_missing=True),
        gl.Boolean("other", may_be_missing=True),
    ]
    zips = np.arange(4_000) % 4
    cells = pl.DataFrame(
        {"zip": np.array(list("abcd"))[zips], "town": np.array(["X", "Y"])[zips // 2], "other": zips == 0}
    )
    schema = gl.Schema("people", columns, constraints=rules)
    people = gl.read(cells, schema, protect=gl.Rows(1), budget=gl.Budget(5.0, 1e-6), ledger=tmp_path / "l")
    model = method().fit(people, spend=people.ledger.share("100%"))
    assert set(model.sample(50, given={"zip": "d"}).to_polars()["other"]) == {False}
    assert set(model.sample(50, given={"zip": "a"}).to_polars()["town"]) == {"X"}
    assert model.sample(50, gaps="as-observed", given={"town": "Y"}).rows == 50
    monkeypatch.setattr(type(model.filled), "fill", None)
    for gaps in ("filled", "as-observed"):
        for given in ({"zip": "a", "town": "Y"}, {"zip": "d", "other": True}):
            refusal = r"no row of this model has zip = .*\n  Try: choose other given cells, or fewer"
            with pytest.raises(gl.errors.ModelError, match=refusal):
                model.sample(gaps=gaps, given=given)


def test_values_and_cells(models):
    model = models(gl.MST)

    def drawn(**given):
        return model.sample(300, seed=5, given=given).to_polars()[next(iter(given))]

    ages = drawn(age="50..59")
    assert ages.min() >= 50
    assert ages.max() <= 59
    assert ages.n_unique() > 5  # the bin was given
    assert drawn(age=55).unique().to_list() == [55]
    assert drawn(age="55").unique().to_list() == [55]
    assert drawn(age=np.int64(55)).unique().to_list() == [55]
    assert drawn(income=123.25).unique().to_list() == [123.25]
    assert drawn(income="[200, 400)").is_between(200, 400, closed="left").all()
    assert {str(day) for day in drawn(moved="2004")} == {"2004-01-01"}
    for true in (True, "true", "Yes", 1):
        assert drawn(married=true).all()
    for false in (False, "no", "0"):
        assert not drawn(married=false).any()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"ages": 5}, r"no column 'ages' in the schema\n  Try: use age"),
        ({"sex": "femal"}, r"column 'sex' has no cell 'femal'\n  Try: use female, male"),
        ({"age": 100}, r"column 'age' has no value 100\n  Try: use a whole number from 0 to 99"),
        ({"age": 34.5}, r"column 'age' has no value 34.5\n"),
        ({"age": None}, r"column 'age' is compared with 'None', which is not an integer\n  Try: write an integer"),
        ({"age": float("nan")}, r"column 'age' is compared with 'nan', which is not an integer\n"),
        ({"age": "missing"}, r"column 'age' is compared with 'missing', which is not an integer\n"),
        ({"moved": "soon"}, r"column 'moved' is compared with 'soon', which is not a date\n  Try: write a date"),
    ],
)
def test_refuses_values_that_are_not_public(models, given, text):
    with pytest.raises(gl.errors.SchemaError, match=text):
        models(gl.MST).sample(3, given=given)


def test_nothing_given_is_the_sample_of_before(models):
    model = models(gl.MST)
    assert model.sample(50, seed=1, given={}).to_polars().equals(model.sample(50, seed=1).to_polars())


def test_cells_of_no_probability_are_refused(models):
    model = models(gl.Independent)
    marginals = list(model.filled.probabilities)
    marginals[0] = np.array([1.0, 0.0])
    sure = replace(model, filled=type(model.filled)(tuple(marginals)))
    with pytest.raises(
        gl.errors.ModelError, match=r"no row of this model has sex = male\n  Try: choose other given cells, or fewer"
    ):
        sure.sample(3, given={"sex": "male"})
    assert sure.sample(3, given={"sex": "female"}).rows == 3


@dataclass(frozen=True)
class Constant:
    """A distribution that can only be sampled."""

    kind: ClassVar[str] = "constant"

    def sample(self, rows, rng):
        return np.zeros((rows, len(COLUMNS)), dtype=np.int64)

    def to_arrays(self):
        return {}

    @classmethod
    def from_arrays(cls, arrays):  # noqa: ARG003 a protocol
        return cls()


def test_a_model_that_cannot_fill_is_refused(models):
    model = replace(models(gl.MST), filled=Constant())
    assert model.sample(3).rows == 3
    with pytest.raises(
        gl.errors.ModelError,
        match=r"by mst cannot be sampled given some cells .*\n  Try: fit a model by factors, mst, aim",
    ):
        model.sample(3, given={"sex": "male"})


PART_SCHEMA = gl.Schema(
    "t",
    [
        gl.Categorical("a", ["x", "y", "ü"], may_be_missing=True),
        gl.Integer("b", bounds=(0, 99), bins=5, may_be_missing=True),
        gl.Number("c", bounds=(0, 1), bins=4),
        gl.Date("d", bounds=("2000-01-01", "2009-12-31"), bins=3),
        gl.Boolean("e"),
    ],
    encoding="utf-16",
)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(1)
    rows = pl.DataFrame(
        {
            "a": rng.choice(["x", "y", None], 500).tolist(),
            "b": rng.integers(0, 100, 500),
            "c": rng.random(500),
            "d": ["2004-02-03"] * 500,
            "e": rng.random(500) < 0.5,
        }
    )
    table = private(rows, PART_SCHEMA, tmp_path_factory.mktemp("model"), budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(1):
        return gl.MST().fit(table, spend=table.ledger.left)


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.tsv", "s.parquet"])
def test_parts_are_the_rows_that_sample_draws(name, model, tmp_path):
    calls = []
    with mock.patch.object(fitted, "PART_ROWS", 100):
        assert (
            model.write_sample(tmp_path / name, 250, seed=3, gaps="as-observed", progress=lambda *p: calls.append(p))
            == 250
        )
    assert calls == [("sampling", done, 3) for done in range(4)]
    seeds = [fitted._seed_of(3, part) for part in range(3)]
    assert len(set(seeds)) == 3
    assert seeds[0] == 3
    tables = [
        model.sample(many, seed=seed, gaps="as-observed") for many, seed in zip([100, 100, 50], seeds, strict=True)
    ]
    read = gl.Table.read(tmp_path / name, model.schema)
    assert read.rows == 250
    for place, codes in enumerate(read.codes):
        assert np.array_equal(codes, np.concatenate([table.codes[place] for table in tables]))


@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.parquet"])
@pytest.mark.parametrize("rows", [0, 70])
def test_one_part_is_what_a_table_writes(name, rows, model, tmp_path):
    model.write_sample(tmp_path / name, rows, seed=3)
    model.sample(rows, seed=3).write(tmp_path / f"whole {name}")
    assert (tmp_path / name).read_bytes() == (tmp_path / f"whole {name}").read_bytes()
    frame = pl.read_parquet if name.endswith("parquet") else lambda path: gl.Table.read(path, model.schema).to_polars()
    assert frame(tmp_path / name).height == rows


@pytest.mark.parametrize("name", ["s.csv", "s.parquet"])
def test_an_interrupted_sample_leaves_the_old_file(name, model, tmp_path):
    path = tmp_path / name
    path.write_text("old")
    with mock.patch.object(fitted, "PART_ROWS", 100):
        draw = type(model).sample
        turns = iter(range(10))
        broken = lambda *args, **more: draw(*args, **more) if next(turns) < 1 else 1 / 0  # noqa: E731 one line
        with mock.patch.object(type(model), "sample", broken), pytest.raises(ZeroDivisionError):
            model.write_sample(path, 250)
    assert path.read_text() == "old"
    assert [file.name for file in tmp_path.iterdir()] == [name]


FULL = """
import resource, signal, sys
import gapless as gl
from gapless.synth import fitted
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
fitted.PART_ROWS = 20_000
try:
    gl.load(sys.argv[1]).write_sample(sys.argv[2], 400_000, seed=1)
except gl.errors.ReadError as error:
    print(error)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no such limit")
@pytest.mark.parametrize("name", ["s.csv", "s.csv.gz", "s.parquet"])
def test_a_full_disk_is_reported_and_nothing_is_lost(name, model, tmp_path):
    """A limit on the size of files says what a full disk says, but for the word."""
    model.save(tmp_path / "t.model")
    path = tmp_path / name
    path.write_text("old")
    text = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "t.model"), str(path)], capture_output=True, text=True, check=True
    ).stdout
    assert f"cannot write {path}: File too large" in text
    assert "make space on the disk; the old file is intact" in text
    assert path.read_text() == "old"
    assert sorted(file.name for file in tmp_path.iterdir()) == sorted([name, "t.model"])


SVG = "{http://www.w3.org/2000/svg}"


def ring(columns, edges):
    """Each column with the next ones, weaker and weaker."""
    pairs = [(place, (place + step) % columns) for step in range(1, columns // 2) for place in range(columns)]
    return [(*pair, 1 - number / len(pairs)) for number, pair in enumerate(pairs)][:edges]


def parts(drawn):
    root = ET.fromstring(drawn)  # noqa: S314 our own drawing
    paths = root.findall(f".//{SVG}path")
    return root, [path for path in paths if path.find(f"{SVG}title") is not None]


def texts(root):
    return [" ".join(text.itertext()) for text in root.iter(f"{SVG}text")]


def test_it_has_a_title_a_legend_and_a_ground_of_its_own(tmp_path):
    table = private([("a", "b", "a")] * 40, letters_schema([2, 2, 2]), tmp_path)
    root, lines = parts(gl.MST().fit(table, spend=table.ledger.left).picture())
    assert root.find(f"{SVG}title").text == "Columns of 'letters' that are modelled together"
    assert len(lines) == 2
    assert any("Cramér’s V" in text for text in texts(root))
    assert any(re.search(r"(strong|middle|weak), .*: [12] pairs?$", text) for text in texts(root))
    style = root.find(f"{SVG}style").text
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for part in ("rect", "text", ".strong", ".middle", ".weak", "circle", ".alone"):
        both = [re.search(rf"\.structure {re.escape(part)} {{.*?#(\w+)", side)[1] for side in (light, dark)]
        assert both[0] != both[1], part
    assert "var(" not in style  # some viewers know no variables
    ground = root.find(f"{SVG}rect")
    assert [ground.get("width"), ground.get("height")] == root.get("viewBox").split()[2:]


def luminance(colour):
    """Of a colour in sRGB, as WCAG 2.1 defines it."""
    colour = colour if len(colour) == 6 else "".join(2 * digit for digit in colour)
    parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_every_line_stands_out_from_the_ground_in_light_and_dark():
    style = parts(draw_structure(["a", "b"], [(0, 1, 0.05)]))[0].find(f"{SVG}style").text
    for side in style.split("@media (prefers-color-scheme: dark)"):
        colours = {
            part: luminance(re.search(rf"\.structure {re.escape(part)} {{.*?#(\w+)", side)[1])
            for part in ("rect", ".strong", ".middle", ".weak", "circle")
        }
        ground = colours.pop("rect")
        for part, colour in colours.items():
            assert (max(colour, ground) + 0.05) / (min(colour, ground) + 0.05) >= 3, part


@pytest.mark.parametrize("columns", [2, 15, 40, 200])
def test_names_are_placed_on_spokes_and_do_not_overlap(columns):
    names = [f"a_column_with_the_number_{number}" for number in range(columns)]
    root, _ = parts(draw_structure(names, ring(columns, 3 * columns)))
    spokes = [group for group in root.iter(f"{SVG}g") if group.get("transform", "").startswith("rotate")]
    turns = sorted(float(group.get("transform")[7:-1]) for group in spokes)
    radius = float(spokes[0].find(f"{SVG}circle").get("cx"))
    assert len(turns) == columns
    apart = min(b - a for a, b in zip(turns, [*turns[1:], turns[0] + 360], strict=True))
    assert math.radians(apart) * radius > 16  # a line of text of 13 px
    width = float(root.get("viewBox").split()[2])
    assert width / 2 > radius + 12 + 7 * max(map(len, names))


def test_of_very_many_lines_the_weakest_are_left_out():
    names = [f"c{number}" for number in range(15)]
    root, lines = parts(draw_structure(names, ring(15, 46)))
    assert len(lines) == 46
    assert not any("left out" in text for text in texts(root))
    root, lines = parts(draw_structure([*names, *(f"d{number}" for number in range(25))], ring(40, 120)))
    assert len(lines) == MOST_LINES
    assert "The 40 weakest are left out here; model.describe() names them all." in texts(root)
    strengths = [float(line.find(f"{SVG}title").text.rsplit(" ", 1)[1]) for line in lines]
    assert strengths == sorted(strengths)  # the strongest lie on top
    assert any("120 pairs" in text for text in texts(root))  # all are counted, drawn or not


def test_columns_that_belong_together_stand_side_by_side():
    tied = [(0, 3, 0.9), (3, 6, 0.8), (1, 4, 0.9), (4, 7, 0.8), (2, 5, 0.9), (5, 8, 0.8), (0, 1, 0.05), (1, 2, 0.05)]
    root, _ = parts(draw_structure([f"c{number}" for number in range(9)], tied))
    order = [int(text.split()[0][1:]) for text in texts(root) if re.match(r"c\d", text)]
    for first, other, strength in tied:
        if strength > 0.1:
            assert abs(order.index(first) - order.index(other)) in (1, 8)


def test_no_edges_and_odd_names():
    root, lines = parts(draw_structure(["a<b", "x" * 60], []))
    assert not lines
    assert any("takes them as independent" in text for text in texts(root))
    assert [circle.get("class") for circle in root.iter(f"{SVG}circle")] == ["alone", "alone"]
    assert any(text.startswith("a<b") for text in texts(root))
    assert any(f"{'x' * 15}…{'x' * 14}" in text for text in texts(root))
