"""`gapless schema from` of what `gapless archive` writes gives the same schema."""

import inspect
import json
import re

import polars as pl
import pytest

import gapless as gl
from gapless.errors import SchemaError
from gapless.publish import archive
from gapless.schema.codebooks import read_codebook
from gapless.schema.gap_codes import MissingRange
from helpers import command_line
from helpers.read_and_release import read_and_release
from helpers.visits import SCHEMA, visits

SURVEY = gl.Schema(
    "survey",
    [
        gl.Categorical(
            "q1",
            [1, 2],
            labels={1: "Yes", 2: "No"},
            may_be_missing=True,
            missing=(gl.MissingCode(-9, "refused", "Refused"), gl.MissingCode(-8, "not-asked", "Not asked")),
            description="Do you smoke?",
        ),
        gl.Ordinal("grade", ["low", "middle", "high"], origin="codebook"),
        gl.Integer("age", bounds=(18, 99), bins="learned", heaping=(5, 10)),
        gl.Number("size", bounds=(0.0, 2.5), resolution=0.1, may_be_missing=True),
        gl.Integer("items", bounds=(0, 9), may_be_missing=True, missing=(MissingRange(97, 99, "dont-know"),)),
        gl.Boolean("smoker", spelling=("N", "J")),
        gl.Date("came", bounds=("2020-01-01", "2021-12-31"), format="%d.%m.%Y"),
    ],
    description="A survey",
    separator=";",
)  # fmt: skip
FILES = ("datapackage.json", "ddi-codebook.xml")


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """Archive files of a survey, and of visits of persons."""
    folder = tmp_path_factory.mktemp("round-trip")
    cells = ["1", "low", "40", "0.5", "3", "N", "01.02.2020"]
    frame = pl.DataFrame({name: [cell] * 200 for name, cell in zip(SURVEY.names, cells, strict=True)})
    frame.write_csv(folder / "survey.csv", separator=";")
    visits(100, 300).write_csv(folder / "visits.csv")
    for schema, unit in ((SURVEY, gl.Rows(1)), (SCHEMA, gl.Persons("patient_id", at_most=3))):
        data, release = folder / f"{schema.name}.csv", folder / schema.name
        made = {"protect": unit, "budget": gl.Budget(1.0, 1e-6), "method": "independent", "spend": "50%"}
        read_and_release(data, schema, release, **made)
        archive(release)
    return folder


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("table", ["survey", "visits"])
def test_the_same_schema_is_read_back(archives, table, name):
    found = read_codebook(archives / f"{table}-archive" / name)
    assert found.schema == gl.Schema.read(archives / table / "schema.toml")
    assert found.questions == ()


def test_the_command_writes_the_same_schema(archives, tmp_path):
    for name in FILES:
        done = command_line.run(
            "schema", "from", archives / "visits-archive" / name, "-o", f"{name}.toml", cwd=tmp_path
        )
        assert done.returncode == 0, done.stderr
        assert gl.Schema.read(tmp_path / f"{name}.toml") == gl.Schema.read(archives / "visits" / "schema.toml")


def without_whole_schema(archives, tmp_path, name):
    """The archive file as a tool would write it that knows the standard alone."""
    text = (archives / "survey-archive" / name).read_text()
    if name.endswith("json"):
        content = json.loads(text)
        del content["gapless"]
        text = json.dumps(content)
    else:
        text, many = re.subn(r'<notes type="gapless schema".*?</notes>', "", text, flags=re.DOTALL)
        assert many == 1
    (tmp_path / name).write_text(text)
    return read_codebook(tmp_path / name).schema


@pytest.mark.parametrize("name", FILES)
def test_the_words_of_the_standard_say_what_the_standard_can(archives, tmp_path, name):
    found = without_whole_schema(archives, tmp_path, name)
    assert found.names == SURVEY.names
    numbers_and_levels = [column for column in SURVEY.columns if column.kind != "boolean"]
    for column in numbers_and_levels:
        back = found[column.name]
        assert back.kind == column.kind
        assert back.description == column.description
        assert back.value_cells == column.value_cells if column.kind in ("categorical", "ordinal") else True
        assert getattr(back, "labels", ()) == getattr(column, "labels", ())
        if column.kind in ("integer", "number"):
            assert back.limits == column.limits
    assert found["q1"].missing == SURVEY["q1"].missing
    assert {gap.kind for gap in found["items"].missing} >= {"dont-know"}
    assert found["came"].limits == SURVEY["came"].limits
    spelled = found["smoker"].spelling if name.endswith("json") else found["smoker"].levels
    assert tuple(spelled) == ("N", "J")  # DDI has no booleans


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("datapackage.json", '"maximum": 99', '"maximum": 120'),
        ("datapackage.json", '"middle"', '"medium"'),
        ("ddi-codebook.xml", 'max="99"', 'max="120"'),
        ("ddi-codebook.xml", "<catValu>middle</catValu>", "<catValu>medium</catValu>"),
    ],
)
def test_a_changed_description_is_not_ignored(archives, tmp_path, name, old, new):
    text = (archives / "survey-archive" / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new))
    with pytest.raises(SchemaError, match=r"describes were changed.*\n  Try: write changes into the schema file"):
        read_codebook(tmp_path / name)


def test_other_white_space_and_order_change_nothing(archives, tmp_path):
    package = json.loads((archives / "survey-archive" / FILES[0]).read_text())
    (tmp_path / FILES[0]).write_text(json.dumps(package, sort_keys=True))
    text = (archives / "survey-archive" / FILES[1]).read_text()
    head, toml, end = re.split(r"(<notes type=\"gapless schema\".*</notes>)", text, flags=re.DOTALL)
    (tmp_path / FILES[1]).write_text(re.sub(r">\s+<", "><", head) + toml + end)
    for name in FILES:
        assert read_codebook(tmp_path / name).schema == gl.Schema.read(archives / "survey" / "schema.toml")


@pytest.mark.skipif("also" not in inspect.signature(gl.release).parameters, reason="releases have no rows for SPSS")
def test_the_rows_for_spss_give_the_schema_back_as_far_as_their_header_can(archives, tmp_path):
    unit = {"protect": gl.Rows(1), "ledger": archives / "survey.ledger"}
    table = gl.read(archives / "survey.csv", SURVEY, **unit, budget=gl.Budget(1.0, 1e-6))
    gl.release(table, tmp_path / "release", spend=table.ledger.left, method="independent", also=["sav"])
    found = read_codebook(tmp_path / "release" / "synthetic.sav").schema
    assert found["q1"].labels == SURVEY["q1"].labels
    assert found["q1"].missing == SURVEY["q1"].missing
    assert [found[name].description for name in found.names] == [SURVEY[name].description for name in found.names]
