"""`gapless archive` and `publish.archive`: files from public facts, which follow the published schemas."""

import json
import re
import shutil
import tomllib
from importlib import resources
from xml.etree import ElementTree as ET

import numpy as np
import polars as pl
import pytest
import yaml

import gapless as gl
from gapless.errors import ReadError, SchemaError
from gapless.publish import archive, verify_release
from gapless.publish.archive_files.questions import QUESTIONS
from gapless.schema import MissingRange
from gapless.testing.noise import fixed_noise
from helpers import command_line
from helpers.published_schemas import check_data_package, check_registry_entry, registry_schema
from helpers.read_and_release import read_and_release
from helpers.release_files import check_cell, read_by_standard
from helpers.visits import SCHEMA, visits

DDI = "{ddi:codebook:2_5}"
REQUIRED = {
    "name": "Synthetic people",
    "data_curators": ["An agency", "Another: one"],
    "intended_use": 'Teaching.\nNot for "decisions".',
    "data_product_region": "Nowhere",
    "publication_date": "2026-01-31",
    "registry_authors": ["A. Author"],
}
LABELS = {"1": "Yes", "2": "No <script>alert(1)</script>"}
QUESTION = 'q "1"\n2'
NASTY = gl.Schema(
    "people & <b>others</b>",
    [
        gl.Integer("=1+1", bounds=(0, 9), may_be_missing=True, missing=(gl.MissingCode(-8, "refused"),)),
        gl.Categorical(
            QUESTION, [1, 2], labels=LABELS, may_be_missing=True, missing=(gl.MissingCode(-9, "not-asked"),)
        ),
        gl.Ordinal("grade", ["=low", "high\u202e", "\ufffe"], description="<script>"),
        gl.Boolean("smoker", spelling=("N", "J")),
        gl.Number("size", bounds=(-0.5, 2.5), resolution=0.25, decimal=",", outside="refuse"),
        gl.Integer("codes", bounds=(0, 5), may_be_missing=True, missing=(MissingRange(97, 99, "technical"),)),
        gl.Date("came", bounds=("2020-01-01", "2021-12-31"), format="%d.%m.%Y"),
        gl.Date("left", bounds=("2020-01-01", "2022-12-31"), format="%d.%m.%Y"),
        gl.Integer("days", bounds=(0, 300), difference="left - came"),
        gl.DateTime("at", bounds=("2020-01-01", "2020-01-02")),
    ],
    description="A table with odd names: ü, \u202e",
    separator=";",
    expected_rows=400,
)  # fmt: skip


def nasty_rows(rows):
    rng = np.random.default_rng(0)
    came = np.datetime64("2020-01-01") + rng.integers(0, 300, rows)
    left = came + rng.integers(0, 300, rows)
    dates = [[day.strftime("%d.%m.%Y") for day in days.astype("datetime64[D]").tolist()] for days in (came, left)]
    cells = [
        rng.choice(["0", "4", "9", "-8", ""], rows),
        rng.choice(["1", "2", "-9", ""], rows),
        rng.choice(["=low", "high\u202e", "\ufffe"], rows),
        rng.choice(["N", "J"], rows),
        rng.choice(["-0,5", "1,25"], rows),
        rng.choice(["0", "3", "98", ""], rows),
        *dates,
        ["2020-01-01T12:00:00"] * rows,
    ]
    return pl.DataFrame(dict(zip(NASTY.file_names, cells, strict=True)))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A release of a nasty table with a Rényi budget, and a pure one of persons. Only the releases are left."""
    folder = tmp_path_factory.mktemp("archive")
    nasty_rows(400).write_csv(folder / "people.csv", separator=";")
    visits(100, 300).write_csv(folder / "visits.csv")
    options = {"method": "independent", "seed": 1}
    read_and_release(
        folder / "people.csv",
        NASTY,
        folder / "people",
        protect=gl.Rows(2),
        budget=gl.Budget(2.0, 1e-5),
        gaps="as-observed",
        **options,
    )
    unit = {"protect": gl.Persons("patient_id", at_most=2), "budget": gl.Budget(1.0, 0)}
    without_number = gl.Schema(SCHEMA.name, SCHEMA.columns, person="patient_id")
    read_and_release(folder / "visits.csv", without_number, folder / "visits", **unit, **options)
    releases = tmp_path_factory.mktemp("releases")
    for name in ("people", "visits"):
        shutil.move(folder / name, releases / name)
    shutil.rmtree(folder)
    return releases


@pytest.fixture
def release(made, tmp_path):
    return shutil.copytree(made / "people", tmp_path / "people")


def answers_file(folder, **answers):
    path = folder / "answers.toml"
    path.write_text("\n".join(f"{field} = {json.dumps(answer)}" for field, answer in answers.items()))
    return path


def run(release, *arguments):
    return command_line.run("archive", release, *arguments, cwd=release.parent)


def entry_of(folder, **answers):
    made = archive(folder, answers=answers_file(folder.parent, **REQUIRED | answers))
    assert made.required == ()
    return yaml.safe_load((made.folder / "registry-entry.yaml").read_text())


# ------------------------------------------------------------------------------------ questions and answers


def test_without_answers_there_is_a_draft_and_a_file_of_questions(release):
    before = {path.name for path in release.iterdir()}
    done = run(release, "--json")
    result = json.loads(done.stdout)
    folder = release.with_name("people-archive")
    assert done.returncode == 0
    assert result["unanswered_required"] == list(REQUIRED)
    assert result["registry_tier"] is None
    assert {*result["files"]} == {path.name for path in folder.iterdir()}
    assert not (folder / "registry-entry.yaml").exists()
    assert (folder / "registry-entry-draft.yaml").read_text().startswith("# A draft, not a valid entry yet: ")
    questions = tomllib.loads((folder / "archive-questions.toml").read_text())
    assert list(questions) == [question.field for question in QUESTIONS]
    again = archive(release, answers=folder / "archive-questions.toml")  # nothing is answered yet
    assert again.required == tuple(REQUIRED)
    assert {path.name for path in release.iterdir()} == before
    assert not verify_release(release).problems


def test_answers_make_a_valid_entry_and_replace_the_draft(release):
    run(release)
    folder = release.with_name("people-archive")
    kept = folder / "archive-questions.toml"
    kept.write_text(kept.read_text().replace('sources = ""', 'sources = "mine"'))
    done = run(release, "--answers", answers_file(release.parent, **REQUIRED))
    assert "registry-entry.yaml is valid, at tier 1 of 3" in done.stdout
    assert "not required: data_product_sector, sources, release_type" in done.stdout
    assert not (folder / "registry-entry-draft.yaml").exists()
    assert 'sources = "mine"' in kept.read_text()
    check_registry_entry(yaml.safe_load((folder / "registry-entry.yaml").read_text()))


def test_the_entry_joins_answers_and_facts_of_the_release(release):
    entry = entry_of(release, mechanisms="Locked room.", publication_date="2026-02-01")
    parts = entry["deployment"]
    ledger = json.loads((release / "ledger.json").read_text())
    assert parts["basic"]["intended_use"] == REQUIRED["intended_use"]
    assert parts["basic"]["publication_date"] == "2026-02-01"
    assert parts["dp_variant"]["variant_name"] == "Approximate DP"
    stated = parts["privacy_loss"]["privacy_parameters"]
    assert ledger["guarantee"]["epsilon"] <= stated["epsilon"] <= 2.0
    assert stated["delta"] == ledger["guarantee"]["delta"] == 1e-5
    assert parts["privacy_loss"]["privacy_unit"] == "up to 2 rows, added or removed"
    assert "believed, not checked" in parts["privacy_loss"]["privacy_unit_details"]
    assert parts["implementation"]["mechanisms"].startswith(
        "Mechanisms: Discrete Gaussian (whole-number noise is added to counts)."
    )
    assert parts["implementation"]["mechanisms"].endswith(" Locked room.")


def test_names_of_the_table_are_no_markup_in_the_registry(release):
    entry = entry_of(release, intended_use="*My* markup stays.")
    basic = entry["deployment"]["basic"]
    assert "'people &amp; &lt;b&gt;others&lt;/b&gt;'" in basic["description"]
    assert "<" not in str({name: part for name, part in entry["deployment"].items() if name != "basic"})
    assert basic["intended_use"] == "*My* markup stays."


def test_a_pure_release_of_persons_is_called_so(made):
    entry = entry_of(made / "visits")
    check_registry_entry(entry)
    parts = entry["deployment"]
    assert parts["dp_variant"]["variant_name"] == "Pure DP"
    assert parts["privacy_loss"]["privacy_parameters"] == {"epsilon": 1.0, "delta": 0.0}
    assert parts["privacy_loss"]["privacy_unit"] == "all rows of one patient_id (at most 2 are kept), added or removed"
    assert "believed" not in str(parts)
    assert "pure privacy losses" in parts["accounting"]["composition"]
    text = (made / "visits-archive" / "evaluation-checklist.md").read_text()
    assert "only one id" in text
    assert "δ = 0: the guarantee is pure." in text
    assert "ε = 2, δ = 0." in text  # of a person who is replaced
    assert "Rényi" not in text


def test_tiers_follow_the_answers(release):
    texts = {question.field: "Because." for question in QUESTIONS if not question.choices}
    choices = {question.field: question.choices[-1] for question in QUESTIONS if question.choices}
    second = {"release_type": "One release", "data_source_type": "Static"}
    for answers, tier in (({"release_type": "One release"}, 1), (second, 2), (texts | choices | REQUIRED, 3)):
        entry = entry_of(release, **answers)
        assert entry["tier"] == tier
        check_registry_entry(entry)


def test_the_questions_are_those_of_the_registry():
    """Each field is in the registry with the same tier and choices, and no field that it requires is left out."""
    sections = registry_schema()["properties"]["deployment"]["properties"]
    for question in QUESTIONS:
        field = sections[question.section]["properties"][question.field]
        assert question.choices == tuple(field.get("enum", ())), question.field
        assert question.tier == field.get("tier", 1 if question.section == "administrative" else 3), question.field
        assert (field.get("type") == "array") == (question.form == "names"), question.field


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("nmae = 'x'", "unknown field 'nmae'"),
        ("epsilon = 0.1", "unknown field 'epsilon'"),
        ("name = 3", "name must be a text on one line, got 3"),
        ('name = "a\\nb"', "name must be a text on one line"),
        ('data_curators = "me"', "data_curators must be a list of at least one text"),
        ('data_curators = ["me", " "]', "data_curators must be a list"),
        ('publication_date = "31.01.2026"', "publication_date must be a date as YYYY-MM-DD, got '31.01.2026'"),
        ('publication_date = "2026-02-30"', "publication_date must be a date"),
        ('publication_date = "20260131"', "publication_date must be a date"),
        ("publication_date = 2026-01-31T00:00:00", "publication_date must be a date"),
        ('release_type = "Two releases"', "release_type must be one of: One release, Many releases"),
        ("actors = true", "actors must be a text, got True"),
    ],
)
def test_a_bad_answer_is_refused_with_its_field_and_rule(release, line, wrong):
    path = release.parent / "answers.toml"
    path.write_text(line)
    done = run(release, "--answers", path)
    assert done.returncode == 2
    assert wrong in done.stderr
    assert "\n  Try: " in done.stderr
    assert not release.with_name("people-archive").exists()


def test_a_date_of_toml_is_an_answer(release):
    path = release.parent / "answers.toml"
    path.write_text("publication_date = 2026-01-31")
    assert "publication_date" not in archive(release, answers=path).required


def test_missing_answers_name_the_file_of_questions(release):
    with pytest.raises(ReadError, match=r"no file .*answers.toml\n  Try: pass the path of the questions"):
        archive(release, answers=release.parent / "answers.toml")
    with pytest.raises(SchemaError, match="not valid TOML"):
        archive(release, answers=release / "README.txt")


@pytest.mark.parametrize("check", ["registry", "package"])
def test_archive_files_of_the_table_of_the_demo_follow_the_published_schemas(demo, check):
    if check == "registry":
        check_registry_entry(entry_of(demo))
    else:
        package = json.loads((archive(demo).folder / "datapackage.json").read_text())
        check_data_package(package)
        schema = gl.Schema.read(demo / "schema.toml")
        assert gl.Schema.from_toml(package["gapless"]["schema"]) == schema
        levels = {field["name"]: field.get("categories") for field in package["resources"][0]["schema"]["fields"]}
        assert levels["education"] == list(schema["education"].levels)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """A release of the bundled table, as `gapless demo` makes one, but by a faster method."""
    folder = tmp_path_factory.mktemp("demo")
    for name in ("nhanes.csv.gz", "nhanes.toml"):
        (folder / name).write_bytes((resources.files("gapless.demo") / name).read_bytes())
    schema = gl.Schema.read(folder / "nhanes.toml")
    unit = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "method": "independent"}
    read_and_release(folder / "nhanes.csv.gz", schema, folder / "release", spend="80%", **unit)
    return folder / "release"


# ------------------------------------------------------------------------------------ folders


def test_only_intact_and_private_releases_are_archived(release, tmp_path):
    with (release / "privacy.md").open("a") as file:
        file.write("more")
    with pytest.raises(ReadError, match=r"privacy.md was changed"):
        archive(release)
    pl.DataFrame({"x": ["a", "b"] * 20}).write_csv(tmp_path / "few.csv")
    with fixed_noise(0):
        read_and_release(
            tmp_path / "few.csv",
            gl.Schema("few", [gl.Categorical("x", ["a", "b"])]),
            tmp_path / "few",
            protect=gl.Rows(1),
            budget=gl.Budget(1.0, 1e-6),
            method="independent",
        )
    with pytest.raises(ReadError, match="is not private, and must not be published"):
        archive(tmp_path / "few")


def test_archive_files_are_not_written_among_others(release):
    for folder in (release, release / "archive"):
        with pytest.raises(ReadError, match="which is never changed"):
            archive(release, folder)
    with pytest.raises(ReadError, match="holds other files: people"):
        archive(release, release.parent)
    (release.parent / "a file").touch()
    with pytest.raises(ReadError, match="is a file"):
        archive(release, release.parent / "a file")
    assert not verify_release(release).problems


# ------------------------------------------------------------------------------------ data package and codebook


def test_the_data_package_follows_the_profile_and_lists_every_file(release):
    folder = archive(release).folder
    package = json.loads((folder / "datapackage.json").read_text())
    check_data_package(package)
    assert {part["path"] for part in package["resources"]} == {path.name for path in release.iterdir()}
    assert all(part["bytes"] == (release / part["path"]).stat().st_size for part in package["resources"])
    assert package["name"] == "people-b-others-b"
    assert package["resources"][0]["dialect"] == {"delimiter": ";"}


def test_every_cell_of_the_rows_follows_the_table_schema(release):
    """Read with what the standard says alone: names, missing values, types, categories, bounds."""
    package = json.loads((archive(release).folder / "datapackage.json").read_text())
    resource = package["resources"][0]
    dialect = {"encoding": resource["encoding"], **resource["dialect"]}
    rows = read_by_standard(release / resource["path"], resource["schema"], **dialect)
    assert len(rows) > 100
    for row in rows:
        for cell, field in row:
            check_cell(cell, field)
    seen = {(field["name"], cell) for row in rows for cell, field in row}
    assert {("'=1+1", "-8"), (QUESTION, "-9"), ("codes", "97")} <= seen


def test_both_codebooks_carry_labels_and_the_whole_schema(release):
    folder = archive(release).folder
    package = json.loads((folder / "datapackage.json").read_text())
    assert gl.Schema.from_toml(package["gapless"]["schema"]) == NASTY
    fields = {field["name"]: field for field in package["resources"][0]["schema"]["fields"]}
    assert fields[QUESTION]["categories"] == [{"value": int(code), "label": text} for code, text in LABELS.items()]
    assert fields[QUESTION]["missingValues"][1] == {"value": "-9", "label": "not asked"}
    data = ET.parse(folder / "ddi-codebook.xml").getroot().find(f"{DDI}dataDscr")  # noqa: S314 our own file
    (note,) = data.findall(f"{DDI}notes[@type='gapless schema']")
    assert gl.Schema.from_toml(note.text) == NASTY
    variables = {part.get("name"): part for part in data.findall(f"{DDI}var")}
    assert list(variables) == list(NASTY.file_names)
    texts = [[label.text for label in part] for part in variables[QUESTION].iter(f"{DDI}catgry")]
    assert texts == [[*pair] for pair in LABELS.items()] + [["-9", "not asked"]]
    assert [part.text for part in variables["grade"].iter(f"{DDI}catValu")] == ["=low", "high\u202e", "\ufffd"]
    assert variables["codes"].find(f"{DDI}invalrng/{DDI}range").attrib == {"min": "97", "max": "99"}


# The order that the schema of DDI-Codebook 2.5 fixes for the parts of a variable that are written.
PARTS = ("labl", "valrng", "invalrng", "catgry", "varFormat")


def test_parts_of_a_variable_are_in_the_order_of_the_standard(release):
    root = ET.parse(archive(release).folder / "ddi-codebook.xml").getroot()  # noqa: S314 our own file
    assert [part.tag for part in root] == [f"{DDI}{name}" for name in ("stdyDscr", "fileDscr", "dataDscr")]
    for variable in root.iter(f"{DDI}var"):
        places = [PARTS.index(part.tag.removeprefix(DDI)) for part in variable]
        assert places == sorted(places)
        assert len({part.get("ID") for part in root.iter(f"{DDI}var")}) == len(NASTY.file_columns)


def test_odd_names_are_escaped_in_the_checklist(release):
    text = (archive(release).folder / "evaluation-checklist.md").read_text()
    assert not re.search(r"<\w", text)
    assert "\u202e" not in text
    assert "believed, not checked" in text
    assert "### Security of the data (open)" in text


def test_an_encoding_is_named(release, tmp_path):
    """The name of the text encoding follows the schema, and a table without letters has a name for a URL."""
    pl.DataFrame({"x": ["a", "b"] * 50}).write_csv(tmp_path / "few.csv")
    schema = gl.Schema("表", [gl.Categorical("x", ["a", "b"])], encoding="cp1252")
    unit = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "method": "independent"}
    read_and_release(tmp_path / "few.csv", schema, tmp_path / "few", **unit)
    package = json.loads((archive(tmp_path / "few").folder / "datapackage.json").read_text())
    assert package["name"] == "synthetic-data"
    assert package["resources"][0]["encoding"] == "cp1252"
