"""The release folder: which folders are allowed, what is saved early, and how all files are written."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gapless.data import Table
from gapless.data.io.sheet_output import SHEET_ENDINGS
from gapless.data.io.stat_output import WRITTEN_ENDINGS
from gapless.errors import Argument, Hint, ReadError
from gapless.evaluate.usability import Usability
from gapless.files import check_writable, read_limited, write_atomically
from gapless.model.archive import MODEL
from gapless.privacy import Ledger
from gapless.privacy.journal import JournalFile, open_journal_file
from gapless.privacy.ledger_file import Entry
from gapless.privacy.row_key import KEY_ENDING
from gapless.report.release_page import release_page
from gapless.report.statement import analysis_guide, dictionary, privacy_statement
from gapless.schema import Schema
from gapless.synth import load
from gapless.synth.copies import Copies, write_together
from gapless.synth.fitted import FittedModel

LIBRARIES = ("gapless", "numpy", "polars", "opendp", "dp-accounting")
MANIFEST = "manifest.json"
README = "README.txt"
ROWS = ("synthetic.csv", "synthetic.parquet")
ALSO = {f"synthetic{ending}": ending for ending in (*WRITTEN_ENDINGS, *SHEET_ENDINGS)}  # the same rows, if asked for
SCHEMA = "schema.toml"
LEDGER = "ledger.json"
JOURNAL = "released.journal"  # exists until there is a model
_UNFINISHED = "This release is not finished"
_CONTENTS = """\
synthetic.csv, synthetic.parquet   synthetic rows: no row is a person
synthetic.model                    the model; gapless sample draws more rows from it, for free
schema.toml, dictionary.md         columns, levels, bounds, missing codes
privacy.md                         the privacy guarantee, in words and numbers
report.html                        charts of the rows and their noise, from released values only
structure.svg                      which columns are modelled together
ledger.json                        every release from the private table and its cost
manifest.json                      versions and SHA-256 of these files
"""
COPIES, MODEL_ROWS, REPLICATES, GUIDE = "copies.csv.gz", "model_rows.csv.gz", "replicates.csv.gz", "analysis.md"
_ABOUT_COPIES = """\
analysis.md                        how to analyse this release, with code in Python and R that pools copies
copies.csv.gz                      copies for inference, all synthetic
model_rows.csv.gz                  rows of the model, which the copies are compared with
replicates.csv.gz                  more tables, if there are gaps or learned bins: they show their effect
"""
_ABOUT_ALSO = {
    "synthetic.sav": "the same rows for SPSS, with labels and user-missing values",
    "synthetic.dta": "the same rows for Stata, with labels and missing values",
    "synthetic.xlsx": "the same rows as an Excel workbook",
}
KEPT_COPIES = "copies.cache"  # no part of a release (`gapless.publish.kept_copies`)
LEDGERS = (".ledger", ".ledger.seal", ".ledger.runs")
WRITABLE = "choose a folder that you may write to"
SAME_INPUTS = "use the schema and the ledger that the release was begun with, or choose a new folder"
_ABOUT_LEDGER = """\
*.ledger, *.ledger.seal, .runs     the ledger of the table: keep it, it records what was spent
"""


@contextlib.contextmanager
def open_folder(folder: Path, ledger: Path) -> Iterator[JournalFile]:
    """Create the folder and check that it is writable, before any budget is spent. Yields the file of its journal.

    The folder must be new, empty except for a ledger, or an unfinished release. A release is published as a whole, so
    no private file may be in its folder. The folder is removed again if nothing was written into it.
    One process at a time holds the folder. Another one waits, and then finds the release finished.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    if ledger.resolve().parent == folder.resolve() and not ledger.name.endswith(LEDGERS[0]):
        raise ReadError(
            f"the name of a ledger in the release folder must end with {LEDGERS[0]}, got '{ledger}'",
            hint=Hint("leave ", Argument("ledger"), " out, to write the ledger beside the data"),
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise ReadError(
            f"a release is a folder, but '{folder}' is a file", hint="choose a new folder for the release"
        ) from None
    except OSError as error:
        raise ReadError(f"cannot create the folder '{folder}': {error.strerror}", hint=WRITABLE) from None
    try:
        _check_folder(folder, ledger)
        check_writable(folder / README)
        with open_journal_file(folder / JOURNAL) as journal:
            _check_folder(folder, ledger)  # again: another process may have finished the release meanwhile
            yield journal
    finally:
        with contextlib.suppress(OSError):
            for path in made:
                path.rmdir()  # removes an empty folder only


def _check_folder(folder: Path, ledger: Path) -> None:
    """Refuse a folder with other files, with a finished release, or with the ledger of another table."""
    try:
        if any(folder.glob(f"*{LEDGERS[0]}{KEY_ENDING}")):
            raise ReadError(
                f"the folder '{folder}' holds the secret key of a ledger, and a release is published as a whole",
                hint=Hint(
                    "keep the ledger, its .seal and its .key in another folder, and pass the path as ",
                    Argument("ledger"),
                ),
            )
        begun, finished = is_begun(folder), (folder / MANIFEST).exists()
        if not (finished or begun) and any(not path.name.endswith((*LEDGERS, JOURNAL)) for path in folder.iterdir()):
            raise ReadError(
                f"the folder of a release must be new or empty, but '{folder}' holds other files",
                hint="choose a new folder for the release",
            )
        for other in folder.glob(f"*{LEDGERS[0]}"):  # the ledger may be kept in this folder
            if not (ledger.exists() and other.samefile(ledger)):
                raise ReadError(
                    f"the folder '{folder}' has its own ledger '{other}', so the release cannot be paid from "
                    f"the ledger '{ledger}'",
                    hint=Hint("read the table with ", Argument("ledger", other))
                    | Hint("choose a new folder for the release"),
                )
        if begun and not ledger.exists():
            raise ReadError(
                f"the unfinished release in '{folder}' needs the ledger that it was begun with, "
                f"but there is no ledger '{ledger}'",
                hint=SAME_INPUTS,
            )
        if finished and not begun:
            raise ReadError(
                f"the folder '{folder}' holds a finished release",
                hint=f"choose a new folder; the new release is paid from what is left in '{ledger}'",
            )
    except OSError as error:
        raise ReadError(f"cannot read the folder '{folder}': {error.strerror}", hint=WRITABLE) from None


def is_begun(folder: Path) -> bool:
    """Whether the folder has a release that was begun and not finished."""
    readme, journal = folder / README, folder / JOURNAL
    if journal.exists() and journal.stat().st_size > 0:
        return True
    if not readme.is_file():
        return False
    with readme.open("rb") as file:
        return file.read(len(_UNFINISHED)) == _UNFINISHED.encode()


def keep_model(folder: Path, model: FittedModel, ledger: Ledger) -> None:
    """Save the model as soon as it is paid for: if the release stops later, it resumes with this model."""
    _write(folder / README, f"{_UNFINISHED}: this file is written last.\n{_paid_by(ledger.identity, ledger.entries)}")
    model.save(folder / MODEL)


def kept_model(folder: Path, schema: Schema, ledger: Ledger) -> FittedModel | None:
    """Return the model of an unfinished release, so that finishing it is free; None if there is no model yet.

    The schema and the ledger must be those that it was begun with: the statement lists only the entries that paid.
    """
    if not (folder / MODEL).exists():
        return None
    model, entries = load(folder / MODEL), ledger.entries
    _, _, paid = read_limited(folder / README).decode(errors="replace").partition("\n")
    prefixes = (_paid_by(ledger.identity, entries[:number]) for number in range(1, len(entries) + 1))
    if not model.schema.is_cut_from(schema) or paid not in prefixes:
        raise ReadError(f"the release in '{folder}' was begun with another schema or ledger", hint=SAME_INPUTS)
    return model


def _paid_by(identity: str, entries: Sequence[Entry]) -> str:
    """Return which ledger paid, and up to which entry.

    The identity is in the digest: the same release from another table on the same day has equal entries.
    """
    digest = hashlib.sha256("".join([identity, *(entry.line("") for entry in entries)]).encode()).hexdigest()
    return f"Entries 1 to {len(entries)} of the ledger paid for its model: {digest}\n"


def write_folder(
    folder: Path,
    model: FittedModel,
    sample: Table,
    ledger: Ledger,
    verdict: Usability,
    *,
    rows: int | None = None,
    write: Callable[[Path], object] | None = None,
    copies: Copies | None = None,
    also: Sequence[str] = (),
    journal: JournalFile | None = None,
) -> tuple[str, ...]:
    """Write all files of a release beside its saved model, and return their names. `also` names further files of rows.

    If there are more `rows` than in `sample`, which then has the first of them, `write` writes all to a file.

    README.txt is written last. Until then it says that the release is not finished and which entries paid for it. So
    the release can be resumed if anything stops the writing. Just before, the `journal` of the fit is deleted: a
    finished release holds no other file.
    """
    rows = sample.rows if rows is None else rows
    files = (*ROWS, *also)
    for name in files:
        (write or sample.write)(folder / name)
    texts = {
        SCHEMA: sample.schema.to_toml(),
        "dictionary.md": "\n".join(dictionary(sample.schema)),
        "privacy.md": "\n".join(privacy_statement(model, sample, ledger, rows=rows)),
        LEDGER: _json(ledger.summary()),
        "report.html": release_page(model, sample, ledger, verdict, rows=rows),
        "structure.svg": model.picture(),
    }
    more = () if copies is None else _write_copies(folder, copies)
    if copies is not None:
        texts[GUIDE] = "\n".join(analysis_guide(copies))
    for name, text in texts.items():
        _write(folder / name, text)
    about_also = "".join(f"{name:<35}{_ABOUT_ALSO[name]}\n" for name in also)
    about_ledger = _ABOUT_LEDGER * any(folder.glob(f"*{LEDGERS[0]}"))
    readme = _CONTENTS + about_also + _ABOUT_COPIES * bool(more) + about_ledger
    hashed = {name: digest_of(folder / name) for name in (*texts, MODEL, *files, *more)}
    hashed[README] = hashlib.sha256(readme.encode()).hexdigest()
    manifest = {
        "table": sample.schema.name,
        "method": model.method,
        **verdict.to_dict(),
        "rows": rows,
        "escape_formulas": sample.schema.escape_formulas,
        "guarantee": str(ledger.guarantee()),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "sha256": {name: hashed[name] for name in sorted(hashed)},
    }
    _write(folder / MANIFEST, _json(manifest))
    if journal is not None:
        journal.discard()
    _write(folder / README, readme)
    return (*sorted(hashed), MANIFEST)


def _write_copies(folder: Path, copies: Copies) -> tuple[str, ...]:
    """Write the tables that are pooled; replicates exist where there are gaps or learned bins."""
    write_together(copies.tables, folder / COPIES)
    copies.reference_sample.write(folder / MODEL_ROWS)
    if not copies.replicates:
        return (COPIES, MODEL_ROWS)
    write_together(copies.replicates, folder / REPLICATES)
    return (COPIES, MODEL_ROWS, REPLICATES)


def model_of(release: str | Path) -> FittedModel:
    """Load the model of a release folder, or a model file."""
    path = Path(release)
    if path.is_dir() and not (path / MODEL).exists() and is_begun(path):
        raise unfinished(path)
    if path.is_dir() and not (path / MODEL).exists():
        raise ReadError(
            f"'{path}' is not a release folder: it has no file {MODEL}", hint="name a release folder, or a model file"
        )
    return load(path)


def rows_file(release: str | Path) -> Path:
    """Return the file of synthetic rows in a release folder; any other path is returned unchanged."""
    path = Path(release)
    if not path.is_dir():
        return path
    if is_begun(path):
        raise unfinished(path)
    if not (path / ROWS[0]).exists():
        raise ReadError(
            f"'{path}' is not a release folder: it has no file {ROWS[0]}",
            hint="name a release folder, or a file of rows",
        )
    return path / ROWS[0]


def unfinished(folder: Path) -> ReadError:
    """Return the error for the use of an unfinished release."""
    return ReadError(
        f"the release in '{folder}' is not finished",
        hint="run the command or the Python code that started it again; it resumes where it stopped",
    )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReadError(
            f"cannot read {path}: {error.strerror}", hint="check that the file exists and that you may read it"
        ) from None


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    with write_atomically(path) as partial:
        partial.write_bytes(text.encode(errors="replace"))
