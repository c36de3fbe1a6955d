"""The public facts of a finished release that its archive files state, read from the files of its folder alone."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gapless.errors import ReadError
from gapless.files import parse_json, read_limited
from gapless.privacy.budget import Persons, Unit, unit_from
from gapless.privacy.ledger_file import MAX_BYTES
from gapless.privacy.promise import BELIEVED
from gapless.privacy.registry import mechanism_of
from gapless.publish.folder import LEDGER, MANIFEST, SCHEMA
from gapless.publish.verification import NOT_INTACT_HINT, verify_release
from gapless.schema import Column, Schema
from gapless.text import plural


@dataclass(frozen=True, slots=True)
class Promise:
    """The guarantee of a ledger at the time of its release, and the budget that limits all releases of the table."""

    unit: Unit
    epsilon: float
    delta: float
    basis: str
    budget: dict[str, Any]
    order: float | None  # the Rényi order of the ledger; None for pure differential privacy
    spent: float  # the part of the budget, from 0 to 1


@dataclass(frozen=True)
class ReleaseFacts:
    """What the public files of a release say.

    Attributes:
        folder: the release folder.
        schema: its schema.
        manifest: its manifest: method, verdict, number of rows, versions, and the SHA-256 of each file.
        ledger: its copy of the ledger.
        sha256: the SHA-256 of the manifest.
    """

    folder: Path
    schema: Schema
    manifest: dict[str, Any]
    ledger: dict[str, Any]
    sha256: str

    @classmethod
    def read(cls, folder: Path) -> ReleaseFacts:
        """Read a release, after its files were checked against its manifest."""
        checked = verify_release(folder)
        if checked.problems:
            raise ReadError(
                f"'{folder}' is not as its manifest says: {checked.problems[0]}",
                hint=NOT_INTACT_HINT,
            )
        found = cls(
            folder=folder,
            schema=Schema.read(folder / SCHEMA),
            manifest=parse_json(read_limited(folder / MANIFEST)),
            ledger=parse_json(read_limited(folder / LEDGER, MAX_BYTES)),
            sha256=checked.sha256,
        )
        if found.ledger["guarantee"]["epsilon"] is None:
            raise ReadError(
                f"the release in '{folder}' is not private, and must not be published",
                hint="release the table with a ledger that has no noise of a test",
            )
        return found

    @cached_property
    def promise(self) -> Promise:
        """The guarantee and the budget."""
        ledger = self.ledger
        stated = ledger["guarantee"]
        return Promise(
            unit_from(ledger),
            float(stated["epsilon"]),
            float(stated["delta"]),
            stated["basis"],
            ledger["budget"],
            ledger["order"],
            ledger["spent"] / ledger["capacity"],
        )

    @property
    def title(self) -> str:
        """A title for catalogues."""
        return f"Synthetic data: {self.schema.name}"

    @property
    def slug(self) -> str:
        """The name of the table as a part of a URL: lower-case letters, digits and hyphens.

        A table whose name has none of these letters is called synthetic-data.
        """
        plain = unicodedata.normalize("NFKD", self.schema.name).encode("ascii", "ignore").decode().lower()
        return re.sub(r"[^a-z0-9]+", "-", plain).strip("-") or "synthetic-data"

    @property
    def entries(self) -> list[dict[str, Any]]:
        """All entries of the ledger."""
        found: list[dict[str, Any]] = self.ledger["entries"]
        return found

    @property
    def noise(self) -> list[str]:
        """A description of the noise of each mechanism that the ledger has recorded."""
        mechanisms = (mechanism_of(entry["mechanism"]) for entry in self.entries)
        return list(dict.fromkeys(mechanism.description for mechanism in mechanisms if mechanism is not None))

    @property
    def neighbours(self) -> str:
        """Which tables are neighbours, exactly."""
        unit = self.promise.unit
        if isinstance(unit, Persons):
            return (
                f"Two tables are neighbours if one of them has all rows of one more {unit.name}, however many. "
                f"Before anything is counted, at most {plural(unit.at_most, 'row')} of each {unit.name} may stay. A "
                "hash with a secret key decides which, so that no row of another person decides it."
            )
        rows = "one more row" if unit.at_most == 1 else f"up to {plural(unit.at_most, 'more row')}"
        return (
            f"Two tables are neighbours if one of them has {rows} than the other, and all other rows are the same. "
            + ("A person with one row in the table is protected as a whole." if unit.at_most == 1 else f"{BELIEVED}.")
        )

    def columns_where(self, *, outside: str) -> list[Column]:
        """The columns with this rule for cells outside the schema."""
        return [column for column in self.schema.file_columns if column.outside == outside]
