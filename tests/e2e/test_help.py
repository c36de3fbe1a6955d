"""What the help offers is done: every ending of a file that it names, of every command."""

import json
import re
import shutil
import zipfile

import polars as pl
import pytest
import typer

import gapless as gl
from gapless.cli.app import app
from helpers.codebooks import CODES, DDI, PACKAGE
from helpers.read_and_release import read_and_release
from helpers.workbooks import workbook

ENDING = re.compile(r"(?<![\w~/])\.[a-z]+(?:\.gz)?\b")
SCHEMA = """\
[table]
name = "people"
[column.age]
kind = "integer"
bounds = [0, 99]
bins = 4
[column.sex]
kind = "categorical"
levels = ["F", "M"]
may_be_missing = true
"""
ROWS = pl.DataFrame({"age": [str(i % 100) for i in range(300)], "sex": ["F", "M", None] * 100})
BUDGET = ("--epsilon", 4, "--delta", 1e-6)


def commands():
    """Every command by its words, groups of commands included."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():
        found |= {(name, subcommand): sub for subcommand, sub in getattr(command, "commands", {(): command}).items()}
    return {tuple(filter(None, names)): command for names, command in found.items()}


def offered():
    """Each option or argument whose help names endings, and each ending."""
    for names, command in commands().items():
        for parameter in command.params:
            for ending in ENDING.findall(parameter.help or ""):
                yield names, parameter.name, ending


def write_sheet(path):
    """The rows in the least that is an Excel file: one sheet of texts."""
    url = "http://schemas.openxmlformats.org"
    office, package = f"{url}/officeDocument/2006/relationships", f"{url}/package/2006"

    def relation(kind, target):
        relationship = f'<Relationship Id="r1" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="{package}/relationships">{relationship}</Relationships>'

    def line(number, row):
        cells = (
            f'<c r="{at}{number}" t="inlineStr"><is><t>{cell or ""}</t></is></c>'
            for at, cell in zip("AB", row, strict=True)
        )
        return f'<row r="{number}">{"".join(cells)}</row>'

    main = f'xmlns="{url}/spreadsheetml/2006/main" xmlns:r="{office}"'
    rows = "".join(line(number, row) for number, row in enumerate((ROWS.columns, *ROWS.rows()), 1))
    content = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"/>',
        "_rels/.rels": relation("officeDocument", "xl/workbook.xml"),
        "xl/workbook.xml": f'<workbook {main}><sheets><sheet name="t" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f"<worksheet {main}><sheetData>{rows}</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as file:
        for name, text in content.items():
            file.writestr(name, text)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("help")
    (folder / "people.toml").write_text(SCHEMA)
    schema = gl.Schema.read(folder / "people.toml")
    table = gl.Table.read(ROWS, schema)
    for ending in (".csv", ".csv.gz", ".tsv", ".parquet", ".sav", ".dta"):
        table.write(folder / f"people{ending}")
    write_sheet(folder / "people.xlsx")
    budget = gl.Budget(4.0, 1e-6)
    made = {"protect": gl.Rows(1), "budget": budget, "ledger": folder / "made.ledger"}
    read_and_release(folder / "people.csv", schema, folder / "release", method="independent", **made)
    return folder


def write_codebook(folder, ending):
    """A codebook of this kind, beside the rows; returns how its name ends."""
    kind = f"-codebook{ending}"
    path, frame = folder / f"people{kind}", pl.DataFrame({"age": [3.0]})
    if ending.startswith(".sas"):
        pytest.skip("no library writes such files")
    if ending in (".sav", ".por", ".dta", ".xpt"):
        pyreadstat = pytest.importorskip("pyreadstat")
        write = {".sav": "sav", ".por": "por", ".dta": "dta", ".xpt": "xport"}[ending]
        getattr(pyreadstat, f"write_{write}")(frame, str(path))
    elif ending == ".xlsx":
        workbook(path, [["column", "code", "label"], ["sex", "1", "Male"], ["sex", "2", "Female"]])
    else:
        text = {".csv": CODES, ".json": PACKAGE, ".xml": DDI}[ending]
        path.write_text(text)
    return kind


READ, PAID = ("--schema", "people.toml"), ("--spend", "10%", *BUDGET)
# How each is tried; an offer in the help of a command that is not here fails the test.
TRIED = {
    (("schema", "draft"), "data"): lambda file, _: ("schema", "draft", file),
    (("schema", "from"), "codebook"): lambda file, _: ("schema", "from", file),
    (("check",), "data"): lambda file, _: ("check", file, *READ),
    (("gap",), "data"): lambda file, new: ("gap", file, *READ, "-r", 0.2, "-o", f"{new}.csv"),
    (("synth",), "data"): lambda file, new: ("synth", file, *READ, *PAID, "-m", "independent", "-o", new),
    (("fit",), "data"): lambda file, new: ("fit", file, *READ, *PAID, "-m", "independent", "-o", f"{new}.model"),
    (("ask",), "data"): lambda file, _: ("ask", file, *READ, *PAID, "count()"),
    (("weigh",), "data"): lambda file, new: ("weigh", file, "release", *READ, *PAID, "-o", f"{new}.csv"),
    (("weigh",), "output"): lambda file, new: ("weigh", file, "release", *READ, *PAID, "-o", new),
    (("gap",), "output"): lambda _, new: ("gap", "people.csv", *READ, "-r", 0.2, "-o", new),
    (("sample",), "output"): lambda _, new: ("sample", "release", "--rows", 5, "-o", new),
    (("copies",), "output"): lambda _, new: ("copies", "release", "--copies", 2, "-o", new),
}


@pytest.mark.parametrize(
    ("names", "parameter", "ending"),
    [*offered()],
    ids=lambda value: value if isinstance(value, str) else " ".join(value),
)
def test_every_ending_that_the_help_offers_is_taken(names, parameter, ending, folder, run_here):
    if ending == ".xlsx":
        pytest.importorskip("fastexcel")
    made = f"{'-'.join(names)}-{parameter}{ending.replace('.', '-')}"
    new = f"{made}{ending}" if parameter == "output" else made
    ledger = ("--ledger", f"{made}.ledger") if names[0] in ("synth", "fit", "ask", "weigh") else ()
    kind = ending if parameter == "data" else ".csv"
    if parameter == "codebook":
        kind = write_codebook(folder, ending)
    copied = shutil.copy(folder / f"people{kind}", folder / f"{made}-own{kind}").name  # a file has one ledger
    code, _, err = run_here(*TRIED[names, parameter](copied, new), *ledger)
    assert code == 0, err
    if parameter == "output":
        assert (folder / new).is_file()


def test_endings_are_offered_and_others_are_refused_before_anything_is_drawn(folder, run_here, monkeypatch):
    for kind in ("data", "output"):
        found = {ending for _, parameter, ending in offered() if parameter == kind}
        assert found == {".csv", ".csv.gz", ".tsv", ".parquet", ".xlsx", ".sav", ".dta"}
    drawn = []
    monkeypatch.setattr(gl.synth.FittedModel, "sample", lambda *_, **__: drawn.append(1))
    for command in (("sample", "release"), ("copies", "release")):
        code, _, err = run_here(*command, "-o", "rows.ods")
        assert (code, drawn) == (1, [])
        assert "rows.ods has an unknown ending, but the ending decides the format to write\n  Try: " in err


def test_sample_evaluate_and_load_take_a_release_folder(folder, run_here):
    for release, name in (("release/", "folder.csv"), ("release/synthetic.model", "file.csv")):
        code, out, err = run_here("sample", release, "--rows", 10, "--seed", 7, "-o", name)
        assert (code, out, err) == (0, f"10 rows in {name}\n", "")
    assert (folder / "folder.csv").read_bytes() == (folder / "file.csv").read_bytes()
    evaluate = [
        run_here("evaluate", "people.csv", fake, *READ, "--json") for fake in ("release", "release/synthetic.csv")
    ]
    assert evaluate[0] == evaluate[1]
    assert evaluate[0][0] == 0
    assert json.loads(evaluate[0][1])["rows"][0] == 300
    same = gl.load(folder / "release").sample(10, seed=7)
    assert same.to_polars().equals(gl.load(folder / "release" / "synthetic.model").sample(10, seed=7).to_polars())


def test_a_private_truth_is_compared_with_a_release_folder(folder, run_here):
    made = ("--ledger", "compared.ledger")
    shutil.copy(folder / "people.csv", folder / "compared.csv")  # a file has one ledger
    assert run_here("ask", "compared.csv", *READ, *PAID, *made, "count()")[0] == 0
    code, out, _ = run_here("evaluate", "compared.csv", "release/", *READ, *made, "--spend", "10%", "--json")
    assert (code, json.loads(out)["spent"]) == (0, "10.00% of the budget")


BROKEN = {
    "a release that was begun": ({"README.txt": "This release is not finished: …"}, "is not finished"),
    "a folder of other files": ({"people.txt": "age,sex\n"}, "is not a release folder: it has no file synthetic.csv"),
}


@pytest.mark.parametrize(("files", "message"), BROKEN.values(), ids=BROKEN)
@pytest.mark.parametrize("command", ["evaluate", "weigh", "sample"])
def test_a_folder_that_is_no_release_is_refused_and_nothing_is_spent(
    command, files, message, folder, run_here, tmp_path
):
    for name, text in files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    arguments = {
        "evaluate": ("people.csv", tmp_path, *READ),
        "weigh": ("people.csv", tmp_path, *READ, *PAID, "--ledger", "w.ledger", "-o", "w.csv"),
        "sample": (tmp_path, "-o", "w.csv"),
    }
    code, _, err = run_here(command, *arguments[command])
    assert code == 1
    assert (message if command != "sample" or "finished" in message else "it has no file synthetic.model") in err
    assert not (folder / "w.csv").exists()
    assert not (folder / "w.ledger").exists()
