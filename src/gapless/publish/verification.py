"""Check a release folder against its manifest: complete, unchanged, and all files from one release."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from gapless.data import Table
from gapless.data.io.sheet_output import SHEET_ENDINGS
from gapless.data.io.stat_output import WRITTEN_ENDINGS
from gapless.errors import GaplessError, ReadError, requires_extra
from gapless.files import parse_json, read_limited
from gapless.model.archive import MODEL
from gapless.privacy import Guarantee
from gapless.privacy.budget import is_same_unit, unit_from
from gapless.privacy.ledger_file import MAX_BYTES
from gapless.publish.folder import (
    ALSO,
    KEPT_COPIES,
    LEDGER,
    LEDGERS,
    MANIFEST,
    README,
    ROWS,
    SCHEMA,
    digest_of,
    is_begun,
    unfinished,
)
from gapless.schema import Schema
from gapless.synth import load
from gapless.text import listing, plural
from gapless.types import is_number

_SYNTH_FOLDER = "name a release folder, as gapless synth makes it"
NOT_INTACT_HINT = (
    "remove files that do not belong to the release, or get the folder from its holder again; do not use it before"
)
_NEEDED = (README, LEDGER, MODEL, SCHEMA, *ROWS, "dictionary.md", "privacy.md", "report.html", "structure.svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """The result of checking a release folder.

    Attributes:
        folder: the path of the folder.
        files: the names of the files that its manifest lists.
        problems: differences from the manifest, as sentences; none if the release is intact.
        unchecked: the names of files that may be here and that no manifest lists: a ledger, and kept copies.
        sha256: the hash of the manifest itself. Compare it with the hash that the data holder has published: who can
            change a file can change the manifest too.
    """

    folder: Path
    files: tuple[str, ...]
    problems: tuple[str, ...]
    unchecked: tuple[str, ...]
    sha256: str

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "folder": str(self.folder),
            "intact": not self.problems,
            "problems": list(self.problems),
            "files": list(self.files),
            "unchecked": list(self.unchecked),
            "manifest_sha256": self.sha256,
        }

    def __str__(self) -> str:
        if self.problems:
            lines = [f"{self.folder} does not match its manifest:", *(f"  {problem}" for problem in self.problems)]
            return "\n".join([*lines, f"  Try: {NOT_INTACT_HINT}"])
        many = plural(len(self.files), "file")
        others = f"; not checked: {listing(self.unchecked)}" if self.unchecked else ", and nothing else"
        received = "Delete what was not checked if somebody else gave you this folder.\n" if self.unchecked else ""
        return (
            f"{self.folder} is intact: {many} as in {MANIFEST}{others}.\n{received}"
            f"SHA-256 of {MANIFEST}: {self.sha256}\n"
            "Next: compare this hash with the one that the holder has published, since a manifest can be changed too. "
            "Then read privacy.md and report.html."
        )


def verify_release(folder: str | Path) -> Verification:
    """Check a release folder against its manifest, for free: it reads public files only.

    The checks: The manifest lists every file of a release. Each listed file exists and has the listed SHA-256. No other
    file exists, except for a ledger. The schema is that of the model. The rows follow it, are the same in all files,
    and are as many as the manifest says. Model, copy of the ledger and manifest agree on table and guarantee.
    """
    folder = Path(folder)
    try:
        content = read_limited(folder / MANIFEST)
        manifest = parse_json(content)
        hashes = {str(name): str(digest) for name, digest in manifest["sha256"].items()}
    except OSError as error:
        if is_begun(folder):
            raise unfinished(folder) from None
        raise ReadError(f"cannot read {folder / MANIFEST}: {error.strerror}", hint=_SYNTH_FOLDER) from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise ReadError(
            f"'{folder / MANIFEST}' is not the manifest of a release, or is damaged",
            hint="name a release folder, or get a new copy of this release",
        ) from None
    _check_installed(hashes)
    problems = list(_files(folder, hashes))
    if not problems:
        problems = list(_contents(folder, manifest))
    return Verification(
        folder=folder,
        files=tuple(sorted(hashes)),
        problems=tuple(problems),
        unchecked=tuple(sorted(path.name for path in folder.iterdir() if path.name not in hashes and _is_kept(path))),
        sha256=hashlib.sha256(content).hexdigest(),
    )


def _check_installed(names: Iterable[str]) -> None:
    """Refuse to check files of formats for which the reader is not installed."""
    endings = {ALSO[name] for name in names if name in ALSO}
    if endings & set(WRITTEN_ENDINGS):
        with requires_extra("pyreadstat", "stat"):
            import pyreadstat  # noqa: F401, PLC0415 an extra
    if endings & set(SHEET_ENDINGS):
        with requires_extra("fastexcel", "excel"):
            import fastexcel  # noqa: F401, PLC0415 an extra


def _is_kept(path: Path) -> bool:
    """Whether this file of a release folder may be there without being in the manifest."""
    return (path.name.endswith(LEDGERS) or path.name == KEPT_COPIES) and path.is_file()


def _files(folder: Path, hashes: dict[str, str]) -> Iterator[str]:
    """Yield problems of single files: missing, changed, or not in the manifest."""
    if is_begun(folder):
        yield "the release is not finished"
    yield from (f"{name} is not in the manifest" for name in _NEEDED if name not in hashes)
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*")}
    for name, digest in sorted(hashes.items()):
        path = found.get(name)
        if path is None:
            yield f"{name} is not there"
        elif path.is_symlink() or not path.is_file():
            yield f"{name} is no file of this folder"
        elif digest_of(path) != digest:
            yield f"{name} was changed"
    for name, path in sorted(found.items()):
        if name not in (*hashes, MANIFEST) and ("/" in name or not _is_kept(path)):
            yield f"{name} does not belong to the release"


def _cells(table: Table) -> list[NDArray[Any]]:
    """Return the codes of each column with one code for all gaps: Parquet has one null for all kinds of gaps."""
    return [np.minimum(codes, column.size) for codes, column in zip(table.codes, table.schema.columns, strict=True)]


def _contents(folder: Path, manifest: dict[str, Any]) -> Iterator[str]:
    """Yield contradictions between the files, which may come from two releases."""
    try:
        schema, model = Schema.read(folder / SCHEMA), load(folder / MODEL)
        promise = _promise(parse_json(read_limited(folder / LEDGER, MAX_BYTES)))
        tables = [Table.read(folder / name, schema) for name in ROWS]
        also = {name: Table.read(folder / name, schema) for name in ALSO if name in manifest["sha256"]}
    except GaplessError as error:
        yield f"a file cannot be read, or not under {SCHEMA}: {error.message}"
        return
    except (ValueError, TypeError, KeyError):
        yield f"{LEDGER} is no copy of a ledger"
        return
    paid = model.facts.guarantee
    checks = {
        f"{SCHEMA} is not the schema of {MODEL}": schema == model.schema,
        f"{MANIFEST} is of another table or method": [manifest.get(key) for key in ("table", "method")]
        == [schema.name, model.method],
        f"{LEDGER} is of another table, or protects something else than {MODEL} says": promise.table
        == paid.table
        == schema.name
        and is_same_unit(promise.protect, paid.protect),  # other releases may keep other numbers of rows
        f"{MANIFEST} promises something else than {LEDGER}": manifest.get("guarantee") == str(promise),
        f"{MODEL} is private and {LEDGER} is not, or the reverse": promise.private == paid.private,
        f"{MANIFEST} has another number of rows": [manifest.get("rows")] * len(ROWS) == [len(t) for t in tables],
        f"{' and '.join(ROWS)} hold different rows": all(map(np.array_equal, *(_cells(table) for table in tables))),
    }
    for name, table in also.items():
        checks[f"{name} holds other rows than {ROWS[0]}"] = _same_rows(name, table, tables[0])
    yield from (wrong for wrong, agrees in checks.items() if not agrees)


def _same_rows(name: str, table: Table, rows: Table) -> bool:
    """Return whether a file has the same rows as the CSV file, with each kind of gap.

    A sheet has no rows without a value, and shows its reader nine decimals: numbers with more are not compared.
    """
    if ALSO[name] not in SHEET_ENDINGS:
        return table.rows == rows.rows and all(map(np.array_equal, table.codes, rows.codes))
    has_value = rows.to_text().select(pl.any_horizontal(pl.all().is_not_null())).to_series().to_numpy()
    exact = [place for place, column in enumerate(rows.schema.columns) if getattr(column, "step", 1)]
    kept = int(has_value.sum())
    return table.rows == kept and all(np.array_equal(table.codes[p], rows.codes[p][has_value]) for p in exact)


def _promise(ledger: dict[str, Any]) -> Guarantee:
    """Return the guarantee in the copy of a ledger."""
    guarantee = ledger["guarantee"]
    epsilon = math.inf if guarantee["epsilon"] is None else guarantee["epsilon"]
    if not all(map(is_number, (epsilon, guarantee["delta"]))) or not all(
        isinstance(text, str) for text in (ledger["table"], guarantee["basis"])
    ):
        raise ValueError("not a promise")
    return Guarantee(ledger["table"], unit_from(ledger), epsilon, guarantee["delta"], guarantee["basis"])
