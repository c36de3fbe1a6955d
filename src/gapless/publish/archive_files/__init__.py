"""Write files to archive and register a release, made from its public files: `archive`.

A finished release is never changed, so they are written into a folder beside it. `gapless archive` calls this.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Any

from gapless.errors import Hint, ReadError
from gapless.files import write_atomically
from gapless.publish.archive_files.checklist import checklist
from gapless.publish.archive_files.data_package import data_package
from gapless.publish.archive_files.ddi_codebook import ddi_codebook
from gapless.publish.archive_files.facts import ReleaseFacts
from gapless.publish.archive_files.questions import Question, questions_toml, read_answers, unanswered
from gapless.publish.archive_files.registry_entry import registry_entry, tier_of, to_yaml
from gapless.text import listing

DATA_PACKAGE, DDI, CHECKLIST = "datapackage.json", "ddi-codebook.xml", "evaluation-checklist.md"
QUESTIONS_FILE, ENTRY, DRAFT = "archive-questions.toml", "registry-entry.yaml", "registry-entry-draft.yaml"


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """The files that were written for a release.

    Attributes:
        folder: the folder with the files.
        files: their names.
        tier: the tier of the registry entry; None while it is a draft.
        required: the required fields without an answer. The entry is not valid before they have one.
        optional: the other fields without an answer.
    """

    folder: Path
    files: tuple[str, ...]
    tier: int | None
    required: tuple[str, ...]
    optional: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the result for JSON."""
        return {
            "folder": str(self.folder),
            "files": list(self.files),
            "registry_tier": self.tier,
            "unanswered_required": list(self.required),
            "unanswered_optional": list(self.optional),
        }

    def __str__(self) -> str:
        lines = [f"Wrote {self.folder}/", *(f"  {name}" for name in self.files), ""]
        if self.tier is None:
            lines += [
                f"{DRAFT} is not a valid entry yet. Required fields without an answer: {', '.join(self.required)}.",
                f"Next: answer the questions in {self.folder / QUESTIONS_FILE}, and run the command again with "
                f"--answers {quote(str(self.folder / QUESTIONS_FILE))}",
            ]
        else:
            lines.append(f"{ENTRY} is valid, at tier {self.tier} of 3.")
            if self.optional:
                lines.append(f"Fields without an answer that are not required: {', '.join(self.optional)}.")
        lines.append(
            f"{DATA_PACKAGE} and {DDI} refer to the files of the release: deposit the files of both folders together."
        )
        return "\n".join(lines)


def archive(release: str | Path, output: str | Path | None = None, *, answers: str | Path | None = None) -> Archive:
    """Write archive files for a finished release: data package, DDI codebook, registry entry and checklist.

    They are made from the public files of the release alone, after these were checked against the manifest. Nothing is
    read from the private table or its ledger, and nothing is spent.

    Args:
        release: the release folder.
        output: the folder for the files; by default beside the release, `release-archive` for `release`. It may hold
            such files from an earlier call, which are replaced; the file of questions is kept.
        answers: a TOML file with the holder's answers to the questions of an earlier call.

    Raises:
        ReadError: The release is damaged, unfinished or not private, or the folder holds other files.
        SchemaError: An answer breaks the rule of its field.
    """
    release = Path(release)
    given = {} if answers is None else read_answers(Path(answers))
    facts = ReleaseFacts.read(release)
    named = release if release.name not in ("", "..") else release.resolve()  # "." has no name
    folder = named.with_name(f"{named.name}-archive") if output is None else Path(output)
    _open(folder, release.resolve())
    entry, missing = to_yaml(registry_entry(facts, given)), list(unanswered(given))
    required = [question for question in missing if question.is_required]
    texts = {DATA_PACKAGE: data_package(facts), DDI: ddi_codebook(facts), CHECKLIST: checklist(facts)}
    texts |= {DRAFT: _draft_comment(required) + entry} if required else {ENTRY: entry}
    for name, text in texts.items():
        _write(folder / name, text)
    (folder / (ENTRY if required else DRAFT)).unlink(missing_ok=True)  # of an earlier call
    if not (folder / QUESTIONS_FILE).exists():  # it may have answers
        _write(folder / QUESTIONS_FILE, questions_toml())
    return Archive(
        folder=folder,
        files=(*sorted(texts), QUESTIONS_FILE),
        tier=None if required else tier_of(given),
        required=tuple(question.field for question in required),
        optional=tuple(question.field for question in missing if not question.is_required),
    )


def _draft_comment(required: list[Question]) -> str:
    names = listing([question.place for question in required], most=len(required))
    return f"# A draft, not a valid entry yet: these required fields have no answer: {names}\n"


def _open(folder: Path, release: Path) -> None:
    """Create the folder. Refuse one inside the release, or with files that this module does not write."""
    hint = Hint("choose a new or empty folder for the archive files, outside the release")
    if folder.resolve() == release or release in folder.resolve().parents:
        raise ReadError(f"the archive files cannot be in the release '{release}', which is never changed", hint=hint)
    known = {DATA_PACKAGE, DDI, CHECKLIST, QUESTIONS_FILE, ENTRY, DRAFT}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        others = sorted(path.name for path in folder.iterdir() if path.name not in known)
    except FileExistsError:
        raise ReadError(f"archive files need a folder, but '{folder}' is a file", hint=hint) from None
    except OSError as error:
        raise ReadError(f"cannot use the folder '{folder}': {error.strerror}", hint=hint) from None
    if others:
        raise ReadError(f"the folder '{folder}' holds other files: {listing(others)}", hint=hint)


def _write(path: Path, text: str) -> None:
    with write_atomically(path) as partial:
        partial.write_bytes(text.encode(errors="replace"))
