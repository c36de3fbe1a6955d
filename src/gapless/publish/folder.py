"""The release folder: when it may be begun, what is kept at once, and how all of it is written."""

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
from gapless.errors import Argument, Hint, ReadError
from gapless.files import check_writable, read_limited, write_atomically
from gapless.model.archive import MODEL
from gapless.privacy import Ledger
from gapless.privacy.journal import JournalFile, open_journal_file
from gapless.privacy.ledger_file import Entry
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
SCHEMA = "schema.toml"
LEDGER = "ledger.json"
JOURNAL = "released.journal"  # until there is a model
_UNFINISHED = "This release is not finished"
_CONTENTS = """\
synthetic.csv, synthetic.parquet   synthetic rows: no row is a person
synthetic.model                    gapless sample draws more rows from it, for free
schema.toml, dictionary.md         columns, levels, bounds, missing codes
privacy.md                         what is promised to whom, in words and numbers
report.html                        pictures of the rows, and how much noise is in them; from released values only
structure.svg                      which columns are modelled together
ledger.json                        every release from the private table and its cost
manifest.json                      versions and SHA-256 of these files
"""
COPIES, MODEL_ROWS, REPLICATES, GUIDE = "copies.csv.gz", "model_rows.csv.gz", "replicates.csv.gz", "analysis.md"
_ABOUT_COPIES = """\
analysis.md                        how to analyse this release, with code in Python and R that pools copies
copies.csv.gz                      copies for inference; model_rows.csv.gz is what they are compared with,
                                   replicates.csv.gz, with gaps or learned bins, what these do: all synthetic
"""
LEDGERS = (".ledger", ".ledger.seal", ".ledger.runs")
BEGUN = "those that it was begun with, or another folder"
_ABOUT_LEDGER = """\
*.ledger, *.ledger.seal, .runs     the account of the table: keep it, it remembers what was spent
"""


@contextlib.contextmanager
def open_folder(folder: Path, ledger: Path) -> Iterator[JournalFile]:
    """Make the folder, and be sure that it can be written to, before any budget is spent; gives its journal's file.

    It must be new, empty but for a ledger, or a release that was begun: a release is published as a whole, and
    no private file may lie in it. If nothing was written into it, the folder goes again.
    One process at a time has it: another one waits, and then finds the release finished.
    """
    made = [path for path in (folder, *folder.parents) if not path.exists()]
    if ledger.resolve().parent == folder.resolve() and not ledger.name.endswith(LEDGERS[0]):
        raise ReadError(
            f"{ledger} might take the place of a file of the release",
            hint=Hint("leave ", Argument("ledger"), " out: it is then beside the data"),
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ReadError(f"cannot make {folder}: {error.strerror}", hint="a folder that is yours") from None
    try:
        _check_folder(folder, ledger)
        check_writable(folder / README)
        with open_journal_file(folder / JOURNAL) as journal:
            _check_folder(folder, ledger)  # again: who had it may have finished the release
            yield journal
    finally:
        with contextlib.suppress(OSError):
            for path in made:
                path.rmdir()  # only an empty folder can go


def _check_folder(folder: Path, ledger: Path) -> None:
    """Refuse a folder with other files, a finished release, or one of another ledger."""
    try:
        begun, finished = is_begun(folder), (folder / MANIFEST).exists()
        if not (finished or begun) and any(not path.name.endswith((*LEDGERS, JOURNAL)) for path in folder.iterdir()):
            raise ReadError(f"{folder} holds other files", hint="a folder of its own for the release")
        for other in folder.glob(f"*{LEDGERS[0]}"):  # where earlier versions kept it
            if not (ledger.exists() and other.samefile(ledger)):
                raise ReadError(
                    f"{folder} holds a ledger, and {ledger} would be a second budget",
                    hint=Hint("pass ", Argument("ledger", other)),
                )
        if begun and not ledger.exists():
            raise ReadError(f"{folder} was begun under another schema or ledger", hint=BEGUN)
        if finished and not begun:
            raise ReadError(
                f"{folder} holds a finished release", hint=f"another folder, paid from what is left in {ledger}"
            )
    except OSError as error:
        raise ReadError(f"cannot read {folder}: {error.strerror}", hint="a folder that is yours") from None


def is_begun(folder: Path) -> bool:
    """Whether a release was begun there and not finished."""
    readme, journal = folder / README, folder / JOURNAL
    fitting = journal.exists() and journal.stat().st_size > 0
    return fitting or (readme.is_file() and _first_bytes(readme) == _UNFINISHED.encode())


def _first_bytes(readme: Path) -> bytes:
    """As many as say that a release is not finished."""
    with readme.open("rb") as file:
        return file.read(len(_UNFINISHED.encode()))


def keep_model(folder: Path, model: FittedModel, ledger: Ledger) -> None:
    """Save the model: whatever happens from here on, what was paid for is kept, in a release that was begun."""
    _write(folder / README, f"{_UNFINISHED}: this file is written last.\n{_paid_by(ledger.identity, ledger.entries)}")
    model.save(folder / MODEL)


def kept_model(folder: Path, schema: Schema, ledger: Ledger) -> FittedModel | None:
    """The model of a release that was begun, which is finished with it for free; None if there is none yet.

    Only under the schema and the ledger it was begun with: a statement tells no other entries than those that paid.
    """
    if not (folder / MODEL).exists():
        return None
    model, entries = load(folder / MODEL), ledger.entries
    _, _, paid = read_limited(folder / README).decode(errors="replace").partition("\n")
    prefixes = (_paid_by(ledger.identity, entries[:number]) for number in range(1, len(entries) + 1))
    if not model.schema.is_cut_from(schema) or paid not in prefixes:
        raise ReadError(f"{folder} was begun under another schema or ledger", hint=BEGUN)
    return model


def _paid_by(identity: str, entries: Sequence[Entry]) -> str:
    """Which ledger paid, and up to where: the same release from another table, on the same day, has equal entries."""
    digest = hashlib.sha256("".join([identity, *(entry.line("") for entry in entries)]).encode()).hexdigest()
    return f"Entries 1 to {len(entries)} of the ledger paid for its model: {digest}\n"


def write_folder(
    folder: Path,
    model: FittedModel,
    sample: Table,
    ledger: Ledger,
    *,
    rows: int | None = None,
    write: Callable[[Path], object] | None = None,
    copies: Copies | None = None,
    journal: JournalFile | None = None,
) -> tuple[str, ...]:
    """Write all files of a release beside its model, which was kept; gives their names.

    If there are more `rows` than the first ones in `sample`, `write` puts them into a file.

    README.txt last: until then it says that the release is not finished and which entries paid for it. So whatever
    stops the writing, at any moment, the release can be taken up again. Just before, the `journal` of the fit is
    deleted: a finished release holds no other file.
    """
    rows = sample.rows if rows is None else rows
    for name in ROWS:
        (write or sample.write)(folder / name)
    texts = {
        SCHEMA: sample.schema.to_toml(),
        "dictionary.md": "\n".join(dictionary(sample.schema)),
        "privacy.md": "\n".join(privacy_statement(model, sample, ledger, rows=rows)),
        LEDGER: _json(ledger.summary()),
        "report.html": release_page(model, sample, ledger, rows=rows),
        "structure.svg": model.picture(),
    }
    more = () if copies is None else _write_copies(folder, copies)
    if copies is not None:
        texts[GUIDE] = "\n".join(analysis_guide(copies))
    for name, text in texts.items():
        _write(folder / name, text)
    readme = _CONTENTS + _ABOUT_COPIES * bool(more) + _ABOUT_LEDGER * any(folder.glob(f"*{LEDGERS[0]}"))
    hashed = {name: digest_of(folder / name) for name in (*texts, MODEL, *ROWS, *more)}
    hashed[README] = hashlib.sha256(readme.encode()).hexdigest()
    manifest = {
        "table": sample.schema.name,
        "method": model.method,
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
    """All that is pooled; replicates where there are gaps or learned bins."""
    write_together(copies.tables, folder / COPIES)
    copies.reference_sample.write(folder / MODEL_ROWS)
    if not copies.replicates:
        return (COPIES, MODEL_ROWS)
    write_together(copies.replicates, folder / REPLICATES)
    return (COPIES, MODEL_ROWS, REPLICATES)


def model_of(release: str | Path) -> FittedModel:
    """The model of a release folder, or of a model file."""
    path = Path(release)
    if path.is_dir() and not (path / MODEL).exists() and is_begun(path):
        raise unfinished(path)
    return load(path)


def rows_file(release: str | Path) -> Path:
    """The file of synthetic rows in a release folder; any other path is given back as it is."""
    path = Path(release)
    if not path.is_dir():
        return path
    if is_begun(path):
        raise unfinished(path)
    if not (path / ROWS[0]).exists():
        raise ReadError(f"{path} is no release: it has no file {ROWS[0]}", hint="name a release folder, or a file")
    return path / ROWS[0]


def unfinished(folder: Path) -> ReadError:
    """What is said of a release that was stopped, to whoever takes it for one."""
    return ReadError(f"the release in {folder} is not finished", hint="what began it, once more: it goes on from there")


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise ReadError(f"{path}: {error.strerror}", hint="a folder that you may read") from None


def _json(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, indent=2) + "\n"


def _write(path: Path, text: str) -> None:
    with write_atomically(path) as partial:
        partial.write_bytes(text.encode(errors="replace"))
