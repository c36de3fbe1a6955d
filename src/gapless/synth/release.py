"""The release folder: data, dictionary, privacy statement, report, ledger, manifest."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import platform
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gapless.data import Table
from gapless.data.table import text_in_parquet
from gapless.errors import ReadError
from gapless.files import check_writable, replace
from gapless.privacy import Ledger, Loss
from gapless.privacy.budget import PURE
from gapless.privacy.cautions import factor
from gapless.privacy.ledger_file import Entry
from gapless.privacy.registry import mechanism_of
from gapless.privacy.rounding import rounded_up
from gapless.schema import Schema
from gapless.synth import load
from gapless.synth.fitted import FittedModel

LIBRARIES = ("gapless", "numpy", "polars", "opendp", "dp-accounting")
_MANIFEST = "manifest.json"
MODEL = "synthetic.model"
_LEDGERS = (".ledger", ".ledger.seal")


@contextlib.contextmanager
def open_release(folder: Path, ledger: Path) -> Iterator[None]:
    """Make the folder, and be sure that it can be written to, before any budget is spent.

    It must be new, empty but for a ledger, or a release that was begun: a release is published as a whole, and
    no private file may lie in it. If what follows is refused, the folder goes again unless something lies in it.
    """
    readme = folder / _README_FILE
    made = [one for one in (folder, *folder.parents) if not one.exists()]
    if ledger.resolve().parent == folder.resolve() and not ledger.name.endswith(_LEDGERS[0]):
        raise ReadError(
            f"{ledger} might take the place of a file of the release",
            hint="leave --ledger out: it lies beside the data",
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        finished = (folder / _MANIFEST).exists()
        begun = readme.exists() and readme.read_bytes().startswith(_UNFINISHED.encode())
        if not (finished or begun) and any(not path.name.endswith(_LEDGERS) for path in folder.iterdir()):
            raise ReadError(f"{folder} holds other files", hint="a folder of its own for the release")
        for other in folder.glob(f"*{_LEDGERS[0]}"):  # where earlier versions kept it
            if not (ledger.exists() and other.samefile(ledger)):
                raise ReadError(
                    f"{folder} holds a ledger, and {ledger} would be a second budget", hint=f"--ledger {other}"
                )
        if finished:
            raise ReadError(
                f"{folder} holds a finished release", hint=f"another folder, paid from what is left in {ledger}"
            )
    except OSError as error:
        raise ReadError(f"cannot make {folder}: {error.strerror}", hint="a folder that is yours") from None
    try:
        check_writable(readme)
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for one in made:
                one.rmdir()  # only an empty folder can go
        raise


def keep_model(folder: Path, model: FittedModel, ledger: Ledger) -> None:
    """Save the model: whatever happens from here on, what was paid for is kept, in a release that was begun."""
    _write(folder / _README_FILE, _UNFINISHED + _paid_by(ledger.identity, ledger.entries))
    model.save(folder / MODEL)


def kept_model(folder: Path, schema: Schema, ledger: Ledger) -> FittedModel | None:
    """The model of a release that was begun: it is finished with it, and nothing is paid twice.

    Only under the schema and the ledger it was begun with: a statement tells no other entries than those that paid.
    """
    if not (folder / MODEL).exists():
        return None
    model, entries = load(folder / MODEL), ledger.entries
    paid = (folder / _README_FILE).read_text(encoding="utf-8").removeprefix(_UNFINISHED)
    told = (_paid_by(ledger.identity, entries[:number]) for number in range(1, len(entries) + 1))
    if model.schema != schema or paid not in told:
        raise ReadError(
            f"{folder} was begun under another schema or ledger", hint="those that it was begun with, or another folder"
        )
    return model


def begun_with(model: FittedModel) -> tuple[str, str]:
    """The method and the treatment of gaps of a model that was kept: another one would have to be paid for anew."""
    return model.method, str(model.facts.settings["missing"])


def _paid_by(identity: str, entries: Sequence[Entry]) -> str:
    """Which ledger paid, and up to where: the same release from another table, on the same day, has equal entries."""
    digest = hashlib.sha256("".join([identity, *(entry.line("") for entry in entries)]).encode()).hexdigest()
    return f"Entries 1 to {len(entries)} of the ledger paid for its model: {digest}\n"


def write_release(folder: Path, model: FittedModel, sample: Table, ledger: Ledger, *, report: str) -> list[str]:
    """Write all files of a release, the manifest last; gives their names.

    `report` is a page made from released values; the room that draws it is above this one.
    """
    data = ("synthetic.csv", "synthetic.parquet")
    model.save(folder / MODEL, overwrite=True)  # the one that was kept
    texts = {
        "schema.toml": sample.schema.to_toml(),
        "dictionary.md": "\n".join(_dictionary(sample.schema)),
        "privacy.md": "\n".join(privacy_statement(model, sample, ledger)),
        "ledger.json": _json(ledger.summary()),
        "report.html": report,
        "structure.svg": model.picture(),
        _README_FILE: _README + _README_LEDGER * any(folder.glob(f"*{_LEDGERS[0]}")),
    }
    for name in data:
        sample.write(folder / name)
    for name, text in texts.items():
        _write(folder / name, text)
    names = sorted([*data, *texts, MODEL])
    manifest = {
        "table": sample.schema.name,
        "method": model.method,
        "rows": sample.rows,
        "guarantee": str(ledger.guarantee()),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "sha256": {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names},
    }
    _write(folder / _MANIFEST, _json(manifest))
    return [*names, _MANIFEST]


_README_FILE = "README.txt"
_UNFINISHED = "This release is not finished: manifest.json is written last.\n"
_README = """\
synthetic.csv, synthetic.parquet   synthetic rows: no row is a person
synthetic.model                    gapless sample draws more rows from it, for free
schema.toml, dictionary.md         columns, levels, bounds, missing codes
privacy.md                         what is promised to whom, in words and numbers
report.html                        pictures of the rows, and how much noise is in them; from released values only
structure.svg                      which columns are modelled together
ledger.json                        every release from the private table and its cost
manifest.json                      versions and SHA-256 of these files
"""
_README_LEDGER = """\
*.ledger, *.ledger.seal            the account of the table: keep it, it remembers what was spent
"""


def privacy_statement(model: FittedModel, sample: Table, ledger: Ledger) -> Iterator[str]:
    """The privacy statement, for the people in the data and for a review board."""
    guarantee = ledger.guarantee()
    promises = guarantee if ledger.budget.ground_truth is None else ledger.ground_truth()
    first, *beside = str(promises).split("\n")
    yield from (f"# Privacy statement: {sample.schema.name}", "", f"**{first}**", "")
    for one in (*beside, *(ledger.remarks if beside else ())):
        yield from (one, "")
    if guarantee.epsilon == math.inf:
        yield "THIS RELEASE IS NOT PRIVATE and must not be published."
        return
    spent, left = ledger.percentages()
    yield from (
        "## In plain words",
        "",
        f"The rows in this release are synthetic. Whether or not {ledger.protect} of any one person is in the "
        "original table, the release would have come out almost the same: the probability of anything that somebody "
        f"could conclude from it changes by a factor of at most e^ε = {factor(guarantee.epsilon)}"
        + (f", and by at most δ = {guarantee.delta:g} besides." if guarantee.delta else "."),
        "",
        *_warnings(ledger, sample.schema),
        "## What is protected, and what is not",
        "",
        f"- Unit of privacy: {ledger.protect}, added or removed (the number of rows is private too).",
        "- Protected: every cell of those rows, and which of their cells are missing.",
        "- Not protected: the schema (names of columns, levels, bounds, bins, missing codes), the name of the "
        "table, the method and its settings, and what is true of the population whether or not a person took part.",
        "- Trust: the holder runs the software on a machine it trusts. Running times are out of scope.",
        f"- Noise is drawn exactly, from the operating system's entropy: {'; '.join(_kinds_of_noise(ledger))}.",
        "",
        "## The numbers",
        "",
        f"- Budget: {ledger.budget}; spent {spent:.2f}%, left {left:.2f}%.",
        f"- Guarantee: ε = {rounded_up(guarantee.epsilon)} at δ = {guarantee.delta:g}; basis: {guarantee.basis}.",
        *(f"- Price: {pricing}" for pricing in (ledger.pricing,) if pricing),
        *_other_deltas(ledger),
        f"- Method: {model.method}; "
        + "; ".join(f"{name}: {value}" for name, value in model.facts.settings.items())
        + ".",
        *(f"- Constraint not enforced: {rule}." for rule in model.not_enforced()),
        *(f"- Warning: {caution}" for caution in (model.lost_in_noise(),) if caution),
        "- Report: report.html was made from the synthetic rows, the model and the noise levels alone, for free.",
        f"- Rows in this release: {sample.rows}. The model's own estimate of the size, used by default, is noisy.",
        "",
        "## Everything that this ledger has recorded",
        "",
        "The promise covers what is listed here. Releases from the same table under another ledger "
        "come on top, in full: figures that rest on gaps must not be added.",
        "",
        "| no | share of budget | by | for | mechanism | rows read |",
        "|---:|---:|---|---|---|---|",
    )
    for entry in ledger.entries:
        name, *given = entry.mechanism.values()
        shown = ", ".join(f"{value:.4g}" if isinstance(value, float) else str(value) for value in given)
        reads = "all" if entry.reads is None else "observed on " + ", ".join(entry.reads)
        share = ledger.percent(Loss(entry.loss, ledger.order))
        yield f"| {entry.number} | {share} | {entry.to} | {entry.what} | {name}({shown}) | {reads} |"
    yield ""


def _warnings(ledger: Ledger, schema: Schema) -> Iterator[str]:
    for caution in ledger.cautions(expected_rows=schema.expected_rows):
        yield from (f"**Warning: {caution}**", "")


def _kinds_of_noise(ledger: Ledger) -> Iterator[str]:
    """What is said of noise, by the mechanisms that this ledger has recorded."""
    mechanisms = [mechanism_of(entry.mechanism) for entry in ledger.entries]
    yield from dict.fromkeys(mechanism.told for mechanism in mechanisms if mechanism is not None)
    if None in mechanisms:
        yield "for an entry that a crash left half written nothing was read"


def _other_deltas(ledger: Ledger) -> Iterator[str]:
    """The promise at other δ, whatever is still to come."""
    if ledger.order != PURE:
        told = (f"ε = {rounded_up(ledger.epsilon_at(d), 3)} at δ = {d:g}" for d in (1e-5, 1e-7, 1e-9))
        yield f"- The whole budget at other δ: {', '.join(told)}."


def _dictionary(schema: Schema) -> Iterator[str]:
    yield from (f"# Data dictionary: {schema.name}", "", *([schema.description, ""] if schema.description else []))
    for column in schema.columns:
        yield from (f"## {column.name}", "", f"{column.kind}. {column.description}".strip(), "")
        yield f"- cells: {', '.join(f'`{cell}`' for cell in column.cells[: column.values_size])}"
        if column.not_applicable is not None:
            as_text = "; in synthetic.parquet the column is text, since null is a gap" * text_in_parquet(column)
            yield f"- not applicable: {_code(column.not_applicable)}{as_text}"
        if column.may_be_missing:
            codes = ", ".join(
                f"{_code(code.code)} ({code.kind})" for code in column.missing if code.kind in column.gaps
            )
            yield f"- may be missing: {codes or 'an empty cell'}"
        yield ""


def _code(code: str) -> str:
    return f"`{code}`" if code else "an empty cell"


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    with replace(path) as partial:
        partial.write_text(text, encoding="utf-8")
