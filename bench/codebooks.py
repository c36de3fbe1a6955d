"""What `gapless schema from` takes from codebooks, and what it asks for.

    python bench/codebooks.py                      ten codebooks made here, and Stata files that statsmodels ships
    python bench/codebooks.py FOLDER …             also every codebook below these folders
    python bench/codebooks.py --asked              the questions of each codebook as well

The ten have the traps that real ones have, and the facts that a careful reader takes from each are written beside it:
facts that the schema misses are named below the table. Real codebooks are not part of this repository. These have some,
unpacked: the wheel of pandas 0.20.3 for Linux (NHANES in .xpt, SAS, Stata), the source archive of savReaderWriter 3.4.2
(SPSS), the folder inst/test-data of the R package REDCapR (data dictionaries), data/ of frictionless-py (Table Schema).
"""

import argparse
import csv
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import pyreadstat

from gapless.errors import GaplessError
from gapless.schema.codebooks import ENDINGS, read_codebook
from gapless.schema.columns import Column
from gapless.schema.gap_codes import MissingCode

Facts: TypeAlias = dict[str, str]  # by column: its kind, then what the codebook states; empty if it is to be left out
Write: TypeAlias = Callable[[Path], Facts]
MADE: dict[str, Write] = {}


def made(name: str) -> Callable[[Write], Write]:
    """Register a function that writes the codebook of this name and returns the facts in it."""

    def register(write: Write) -> Write:
        MADE[name] = write
        return write

    return register


@made("battery.sav")
def battery(path: Path) -> Facts:
    """Eighty items 1/2 with -8 and -9 declared as missing, and the number of the respondent."""
    items = [f"q{item:02}" for item in range(1, 81)]
    labels = {1.0: "Yes", 2.0: "No", -8.0: "Don't know", -9.0: "Refused"}
    frame = pd.DataFrame({"respid": [1.0, 2.0]} | {item: [1.0, -9.0] for item in items})
    pyreadstat.write_sav(
        frame,
        path,
        variable_value_labels=dict.fromkeys(items, labels),
        missing_ranges={item: [-8, -9] for item in items},
        variable_measure=dict.fromkeys(items, "nominal"),
    )
    return dict.fromkeys(items, "categorical 1 2; -8 dont-know, -9 refused") | {"respid": ""}


@made("ranges.sav")
def ranges(path: Path) -> Facts:
    """A range of missing numbers, an ordered scale, a year, a share, and a constant."""
    frame = pd.DataFrame({"hours": [40.0], "trust": [3.0], "byear": [1970.0], "pct_home": [50.0], "country": [276.0]})
    scale = {1.0: "Not at all", 2.0: "A little", 3.0: "A lot", 9.0: "Not asked"}
    pyreadstat.write_sav(
        frame,
        path,
        column_labels={"hours": "Hours worked last week", "byear": "Year of birth", "pct_home": "Percent at home"},
        variable_value_labels={
            "trust": scale,
            "country": {276.0: "Germany"},
            "hours": {97.0: "Refused", 98.0: "Don't know", 99.0: "Not applicable"},
        },
        missing_ranges={"hours": [{"lo": 97, "hi": 99}], "trust": [9]},
        variable_measure={"trust": "ordinal", "hours": "scale", "country": "nominal"},
    )
    return {
        "hours": "number; 97 refused, 98 dont-know, 99 not-applicable",
        "trust": "ordinal 1 2 3; 9 not-asked",
        "country": "categorical 276",
    }


@made("letters.dta")
def letters(path: Path) -> Facts:
    """Stata's letters for gaps, with labels, and a date."""
    frame = pd.DataFrame({"smoker": [1, 0], "income": [1.5, 2.5], "visit": pd.to_datetime(["2020-01-01"] * 2)})
    answers: dict[Any, str] = {0: "No", 1: "Yes", "a": "Refused"}
    pyreadstat.write_dta(
        frame.astype({"smoker": object}).assign(smoker=["a", 1]),
        path,
        variable_value_labels={"smoker": answers},
        missing_user_values={"smoker": ["a"]},
        variable_format={"visit": "%td"},
    )
    return {"smoker": "categorical 0 1; .a refused", "income": "number", "visit": "date"}


REDCAP = (
    *("Variable / Field Name", "Form Name", "Section Header", "Field Type", "Field Label"),
    *("Choices, Calculations, OR Slider Labels", "Field Note", "Text Validation Type OR Show Slider Number"),
    *("Text Validation Min", "Text Validation Max", "Identifier?", "Branching Logic (Show field only if...)"),
    *("Required Field?", "Custom Alignment", "Question Number (surveys only)", "Matrix Group Name", "Matrix Ranking?"),
    "Field Annotation",
)


def redcap_row(name: str, kind: str, label: str, **more: str) -> list[str]:
    """A row of a data dictionary; `more` by the keys choices, validation, low, high, identifier, branching."""
    row = dict.fromkeys(REDCAP, "")
    row |= dict(zip(REDCAP[:5], (name, "form", "", kind, label), strict=True))
    keys = {"choices": 5, "validation": 7, "low": 8, "high": 9, "identifier": 10, "branching": 11}
    return [*(row | {REDCAP[keys[key]]: text for key, text in more.items()}).values()]


@made("dictionary.csv")
def dictionary(path: Path) -> Facts:
    """REDCap: routing, a checkbox group, a calculated field, ranges, dates, and fields that identify people."""
    rows = [
        redcap_row("record_id", "text", "Study ID"),
        redcap_row("name", "text", "Name", identifier="y"),
        redcap_row("sex", "radio", "Sex", choices="1, Female | 2, Male | 99, Refused"),
        redcap_row("pregnant", "yesno", "Pregnant", branching="[sex] = '1'"),
        redcap_row("age", "text", "Age (years)", validation="integer", low="18", high="99"),
        redcap_row("ldl", "text", "LDL cholesterol", validation="number_1dp", low="0", high="500"),
        redcap_row("drugs", "checkbox", "Drugs", choices="1, Aspirin | 2, Statin"),
        redcap_row("bmi", "calc", "BMI", choices="[weight] / ([height] * [height])"),
        redcap_row("admitted", "text", "Admitted", validation="date_dmy", low="2015-01-01", high="2020-12-31"),
    ]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([REDCAP, *rows])
    return {
        "name": "",
        "sex": "categorical 1 2; 99 refused",
        "pregnant": "boolean; not-asked",
        "age": "integer 18 99",
        "ldl": "number 0 500",
        "drugs___1": "boolean",
        "drugs___2": "boolean",
        "bmi": "number",
        "admitted": "date 2015-01-01 2020-12-31",
    }


@made("datapackage.json")
def data_package(path: Path) -> Facts:
    """A laboratory value with "n.b.", labelled categories, half steps, a comma as the decimal sign."""
    fields = [
        {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"], "required": True}},
        {
            "name": "smoker",
            "type": "integer",
            "categories": [{"value": 0, "label": "No"}, {"value": 1, "label": "Yes"}],
            "missingValues": [{"value": "-9", "label": "Refused"}, {"value": "-8", "label": "Don't know"}],
        },
        {"name": "crp", "type": "number", "decimalChar": ",", "constraints": {"minimum": 0, "maximum": 500}},
        {"name": "grade", "type": "number", "constraints": {"enum": [1, 1.5, 2, 2.5, 3]}},
        {"name": "visit", "type": "date", "constraints": {"minimum": "2020-01-01", "maximum": "2022-12-31"}},
        {"name": "note", "type": "string"},
    ]
    schema = {"fields": fields, "missingValues": ["", "n.b."], "primaryKey": []}
    path.write_text(json.dumps({"name": "lab", "resources": [{"name": "lab", "path": "lab.csv", "schema": schema}]}))
    return {
        "sex": "categorical F M",
        "smoker": "categorical 0 1; -9 refused, -8 dont-know",
        "crp": "number 0 500; n.b. unknown",
        "grade": "ordinal 1 1.5 2 2.5 3; n.b. unknown",
        "visit": "date 2020-01-01 2022-12-31; n.b. unknown",
        "note": "",
    }


@made("bare.json")
def bare(path: Path) -> Facts:
    """A Table Schema with types alone."""
    kinds = {"id": "integer", "age": "integer", "percent_fat": "number", "born": "year", "city": "string"}
    path.write_text(json.dumps({"fields": [{"name": name, "type": kind} for name, kind in kinds.items()]}))
    return {"age": "integer", "percent_fat": "number", "born": "integer", "city": ""}


@made("codebook.xml")
def ddi(path: Path) -> Facts:
    """DDI: categories marked as missing, an invalid range, a value range, a question."""
    categories = "".join(
        f'<catgry missing="{missing}"><catValu>{code}</catValu><labl>{label}</labl></catgry>'
        for code, label, missing in ((1, "Never", "N"), (2, "Often", "N"), (-8, "Not asked", "Y"), (-9, "Refused", "Y"))
    )
    numeric = '<varFormat type="numeric"/>'
    path.write_text(
        '<?xml version="1.0" encoding="UTF-8"?><codeBook xmlns="ddi:codebook:2_5" version="2.5"><dataDscr>'
        f'<var name="drinks" intrvl="discrete"><qstn><qstnLit>How often?</qstnLit></qstn>{categories}{numeric}</var>'
        '<var name="weight" intrvl="contin"><valrng><range min="30" max="250"/></valrng>'
        f'<invalrng><range min="997" max="999"/></invalrng>{numeric}</var>'
        f'<var name="income" intrvl="contin"><labl>Monthly income</labl>{numeric}</var>'
        '<var name="comment"><varFormat type="character"/></var></dataDscr></codeBook>'
    )
    return {
        "drinks": "categorical 1 2; -8 not-asked, -9 refused",
        "weight": "number 30 250; 997 to 999 unknown",
        "income": "number",
        "comment": "",
    }


@made("table-metadata.json")
def csvw(path: Path) -> Facts:
    """CSVW: types with bounds, a null text, a format of dates."""
    columns = [
        {"name": "age", "titles": "age", "datatype": {"base": "integer", "minimum": 0, "maximum": 120}},
        {"name": "height", "datatype": {"base": "decimal", "minimum": 40, "maximum": 250}, "null": ["", "NA"]},
        {"name": "day", "datatype": {"base": "date", "format": "dd.MM.yyyy", "minimum": "01.01.2020"}},
        {"name": "alive", "datatype": "boolean"},
    ]
    content = {"@context": "http://www.w3.org/ns/csvw", "url": "people.csv", "tableSchema": {"columns": columns}}
    path.write_text(json.dumps(content))
    return {"age": "integer 0 120", "height": "number 40 250; NA unknown", "day": "date", "alive": "boolean"}


CODES = [
    ("column", "code", "label", "description", "type", "min", "max"),
    ("marital", "1", "Single", "Marital status", "", "", ""),
    ("marital", "2", "Married", "", "", "", ""),
    ("marital", "97", "INAP", "", "", "", ""),
    ("marital", "99", "Keine Angabe", "", "", "", ""),
    ("cause", "1", "Cancer", "Cause of death", "", "", ""),
    ("cause", "2", "Other", "", "", "", ""),
    ("cause", "-1", "Does not apply", "", "", "", ""),
    ("rooms", "", "", "Rooms", "integer", "1", "20"),
    ("rooms", "-9", "Technical error", "", "", "", ""),
]


@made("codes.csv")
def codes(path: Path) -> Facts:
    """A plain table of codes: structural ones, words in German, a code of a number."""
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(CODES)
    return {
        "marital": "categorical 1 2; 97 not-applicable, 99 refused",
        "cause": "categorical 1 2; -1 not-applicable",
        "rooms": "integer 1 20; -9 technical",
    }


@made("visits.xpt")
def visits(path: Path) -> Facts:
    """A SAS transport file: labels and dates, and no codes at all."""
    days = pd.to_datetime(["2020-01-01", "2020-02-01"])
    frame = pd.DataFrame(
        {"SEQN": [1.0, 2.0], "RIDAGEYR": [30.0, 40.0], "ADMIT": days, "LEAVE": days, "SITE": ["a", "b"]}
    )
    labels: list[str | None] = [
        "Respondent sequence number",
        "Age in years at screening",
        "Admission",
        "Discharge",
        "Site",
    ]
    pyreadstat.write_xport(frame, path, column_labels=labels, variable_format={"ADMIT": "DATE9.", "LEAVE": "DATE9."})
    return {"SEQN": "", "RIDAGEYR": "number", "ADMIT": "date", "LEAVE": "date", "SITE": ""}


def describe(column: Column) -> str:
    """The facts of a column as they are written beside the codebooks made here."""
    kind = "number" if column.kind == "integer" and column.origin == "proposed" else column.kind
    values = getattr(column, "levels", ()) or getattr(column, "bounds", ())
    if column.kind == "boolean" or column.origin == "proposed":
        values = ()
    gaps = [f"{gap.code} {gap.kind}" if isinstance(gap, MissingCode) else f"{gap} {gap.kind}" for gap in column.missing]
    return " ".join([kind, *(f"{value:g}" if isinstance(value, float) else str(value) for value in values)]) + (
        f"; {', '.join(gaps)}" if gaps else ""
    )


def missed(facts: Facts, columns: dict[str, Column]) -> list[str]:
    """The facts that a schema misses, word by word."""
    lines = []
    for name, text in facts.items():
        found = describe(columns[name]).replace(",", " ").replace(";", " ").split() if name in columns else []
        lacking = [word for word in text.replace(",", " ").replace(";", " ").split() if word not in found]
        if "integer" in lacking and "number" in found:  # bounds are proposed: the kind is not what is asked here
            lacking.remove("integer")
        if lacking or (found and not text):
            lines.append(f"{name}: {' '.join(lacking) or 'not left out'} (has: {' '.join(found) or 'left out'})")
    return lines


def stata_files() -> list[Path]:
    """The Stata files that statsmodels ships with its tests."""
    try:
        import statsmodels
    except ImportError:
        return []
    return sorted(Path(statsmodels.__file__).parent.rglob("*.dta"))


def codebooks_below(folder: Path) -> list[Path]:
    """All files below a folder that may be codebooks."""
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)


HEAD = (
    *("codebook", "columns", "complete", "to confirm", "left out", "with labels", "codes of gaps", "kinds"),
    *("rules", "asked", "s"),
)


def row_of(path: Path, name: str) -> tuple[list[str], dict[str, Column], list[str]]:
    """A line of the table, the columns, and the questions."""
    start = time.perf_counter()
    try:
        found = read_codebook(path)
    except GaplessError as error:
        return (
            [name, "refused: " + str(error).splitlines()[0].replace(path.name, "it"), *[""] * (len(HEAD) - 2)],
            {},
            [],
        )
    schema, columns = found.schema, found.schema.columns
    gaps = [gap for column in columns for gap in column.missing]
    numbers = (
        len(columns) + len(schema.ignore) + len(schema.person),
        sum(column.origin == "codebook" for column in columns),
        sum(column.origin == "proposed" for column in columns),
        len(schema.ignore) + len(schema.person),
        sum(bool(getattr(column, "labels", ())) for column in columns),
        len(gaps),
        len({gap.kind for gap in gaps}),
        len(schema.constraints),
        len(found.asked),
    )
    taken = f"{time.perf_counter() - start:.2f}"
    return [name, *map(str, numbers), taken], {column.name: column for column in columns}, list(found.asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path)
    parser.add_argument("--asked", action="store_true")
    options = parser.parse_args()
    print(f"| {' | '.join(HEAD)} |\n|---|{'---:|' * (len(HEAD) - 1)}")
    below = []
    with tempfile.TemporaryDirectory() as folder:
        for name, write in MADE.items():
            facts = write(path := Path(folder) / name)
            row, columns, asked = row_of(path, f"*made here:* {name}")
            print(f"| {' | '.join(row)} |")
            below += [f"{name}: {line}" for line in missed(facts, columns)]
            below += [f"{name} asks: {line}" for line in asked if options.asked]
    others = [(path, f"statsmodels: {path.name}") for path in stata_files()]
    others += [(path, f"{path.parent.name}: {path.name}") for top in options.folders for path in codebooks_below(top)]
    for path, name in others:
        row, _, asked = row_of(path, name)
        print(f"| {' | '.join(row)} |")
        below += [f"{name} asks: {line}" for line in asked if options.asked]
    print("\n" + "\n".join(below or ["No fact of the ten is missed."]))


if __name__ == "__main__":
    main()
