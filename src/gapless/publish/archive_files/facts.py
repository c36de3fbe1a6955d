"""The public facts of a finished release that its archive files state. All come from the files of its folder."""

from __future__ import annotations

import math
import re
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gapless.errors import BudgetError, ReadError
from gapless.files import parse_json, read_limited
from gapless.privacy.budget import Persons, Unit, unit_from
from gapless.privacy.ledger_file import MAX_BYTES
from gapless.privacy.promise import BELIEVED
from gapless.privacy.registry import mechanism_of
from gapless.publish.folder import LEDGER, LIBRARIES, MANIFEST, SCHEMA
from gapless.publish.verification import NOT_INTACT_HINT, verify_release
from gapless.schema import Column, Schema
from gapless.schema.numeric import LARGEST
from gapless.text import plural
from gapless.types import is_number, is_whole


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
    first_batch: int | None  # the number of entries that were fixed in advance and priced together


@dataclass(frozen=True)
class ReleaseFacts:
    """What the public files of a release say.

    Attributes:
        folder: the release folder.
        schema: its schema.
        manifest: its manifest: method, verdict, number of rows, versions, and the SHA-256 of each file.
        ledger: its copy of the ledger.
        sha256: the SHA-256 of the manifest.
        promise: the guarantee and the budget.
    """

    folder: Path
    schema: Schema
    manifest: dict[str, Any]
    ledger: dict[str, Any]
    sha256: str
    promise: Promise

    @classmethod
    def read(cls, folder: Path) -> ReleaseFacts:
        """Read a release, after its files were checked against its manifest."""
        checked = verify_release(folder)
        if checked.problems:
            raise ReadError(
                f"'{folder}' does not match its manifest: {checked.problems[0]}",
                hint=NOT_INTACT_HINT,
            )
        return cls.of(
            folder,
            Schema.read(folder / SCHEMA),
            parse_json(read_limited(folder / MANIFEST)),
            parse_json(read_limited(folder / LEDGER, MAX_BYTES)),
            checked.sha256,
        )

    @classmethod
    def of(cls, folder: Path, schema: Schema, manifest: Any, ledger: Any, sha256: str) -> ReleaseFacts:
        """Return the facts of files that belong together. The files may come from a stranger, so all are checked."""
        try:
            if ledger["guarantee"]["epsilon"] is None:
                raise ReadError(
                    f"the release in '{folder}' is not private, and must not be published",
                    hint="release the table again, with a ledger without test noise",
                )
            found = cls(folder, schema, manifest, ledger, sha256, _promise(ledger))
            _check_manifest(manifest)
            _ = found.noise
        except (KeyError, TypeError, ValueError, AttributeError, ArithmeticError, BudgetError):
            raise ReadError(
                f"{LEDGER} or {MANIFEST} in '{folder}' is not as gapless writes it",
                hint="ask the holder of the release for its folder again",
            ) from None
        return found

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
        """The name of each mechanism that the ledger has recorded, and what its noise does."""
        found = (mechanism_of(entry["mechanism"]) for entry in self.entries)
        named = (f"{_spaced(type(mechanism).__name__)} ({mechanism.description})" for mechanism in found if mechanism)
        return list(dict.fromkeys(named))

    @property
    def neighbours(self) -> str:
        """Which tables are neighbours, exactly."""
        unit = self.promise.unit
        if isinstance(unit, Persons):
            return (
                f"Two tables are neighbours if one of them has one more {unit.name}, with any number of rows. "
                f"Before anything is counted, at most {plural(unit.at_most, 'row')} of each {unit.name} are kept. A "
                "hash with a secret key chooses them, so rows of other persons do not change the choice."
            )
        rows = "one more row" if unit.at_most == 1 else f"up to {plural(unit.at_most, 'more row')}"
        return (
            f"Two tables are neighbours if one of them has {rows} than the other, and all other rows are the same. "
            + ("A person with one row in the table is protected as a whole." if unit.at_most == 1 else f"{BELIEVED}.")
        )

    def columns_where(self, *, outside: str) -> list[Column]:
        """The columns with this rule for cells outside the schema."""
        return [column for column in self.schema.file_columns if column.outside == outside]


def _promise(ledger: dict[str, Any]) -> Promise:
    """Return the guarantee and the budget in the copy of a ledger."""
    stated, budget = ledger["guarantee"], ledger["budget"]
    order = ledger["order"]
    numbers = [stated["epsilon"], stated["delta"], budget["epsilon"], budget["delta"], ledger["spent"]]
    numbers += [ledger["capacity"], *([] if order is None else [order])]
    texts = [stated["basis"], budget.get("ground_truth", "")]
    if not all(is_number(number) and math.isfinite(float(number)) for number in numbers) or not all(
        isinstance(text, str) for text in texts
    ):
        raise ValueError("not a promise")
    epsilon, delta = float(stated["epsilon"]), float(stated["delta"])
    batch = ledger["first_batch"]["entries"] if "first_batch" in ledger else None
    if not (0 <= epsilon < LARGEST and 0 <= delta < 1 and (batch is None or is_whole(batch))):
        raise ValueError("not a promise")
    spent = ledger["spent"] / ledger["capacity"]
    return Promise(unit_from(ledger), epsilon, delta, stated["basis"], budget, order, spent, batch)


def _check_manifest(manifest: dict[str, Any]) -> None:
    """Refuse a manifest without the facts that archive files state."""
    texts = [manifest[key] for key in ("table", "method", "verdict", "guarantee")]
    texts += [use for key in ("usable_for", "with_care", "not_for") for use in manifest[key]]
    texts += [manifest["versions"][name] for name in LIBRARIES]
    texts += manifest["versions"].values()
    if not (is_whole(manifest["rows"], least=0) and all(isinstance(text, str) for text in texts)):
        raise ValueError("not a manifest")


def _spaced(name: str) -> str:
    """The name of a class in words: Discrete Gaussian."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
