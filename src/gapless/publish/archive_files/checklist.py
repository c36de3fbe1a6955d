"""A checklist for the evaluation of a release, by the topics of NIST SP 800-226, answered as far as software can.

The topics are those of the guidelines, the words are not. What gapless cannot know is named as open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple, TypeAlias

from gapless.privacy.budget import Persons
from gapless.privacy.promise import BELIEVED, cautions, factor, group_privacy
from gapless.privacy.smooth import SmoothCauchy
from gapless.publish.archive_files.facts import ReleaseFacts
from gapless.publish.archive_files.registry_entry import (
    FLOATS,
    composition,
    data_domain,
    post_processing,
    preprocessing,
    unprotected,
)
from gapless.text import listing, markdown, plural, rounded_up

State: TypeAlias = Literal["answered", "partly", "open"]


class Item(NamedTuple):
    """A topic of the checklist: what the release's files say about it, and what the holder must still answer."""

    topic: str
    answer: str
    question: str = ""  # empty if nothing is left to ask

    @property
    def state(self) -> State:
        """How far the topic is answered."""
        return "answered" if not self.question else "partly" if self.answer else "open"


def checklist(facts: ReleaseFacts) -> str:
    """Return the text of evaluation-checklist.md."""
    parts = {
        "The guarantee": list(_guarantee(facts)),
        "The algorithms": list(_algorithms(facts)),
        "Usefulness and bias": list(_usefulness(facts)),
        "Data and trust": list(_trust(facts)),
    }
    return "\n".join(_lines(facts, parts))


def _lines(facts: ReleaseFacts, parts: dict[str, list[Item]]) -> Iterator[str]:
    items = [item for part in parts.values() for item in part]
    many = {state: sum(item.state == state for item in items) for state in ("answered", "partly", "open")}
    yield from (
        f"# Evaluation checklist: {markdown(facts.schema.name)}",
        "",
        "The topics are those of NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees. gapless "
        "wrote the answers from the public files of the release. This checklist is not a certificate.",
        "",
        f"Of {plural(len(items), 'topic')}, {many['answered']} are answered and {many['partly']} are answered in part. "
        f"{many['open']} are open: only the holder can answer them.",
        "",
        f"Release: {markdown(facts.manifest['guarantee'])} SHA-256 of its manifest: {facts.sha256}.",
        "",
        "## Open questions for the holder",
        "",
        *(f"- {item.topic}: {item.question}" for item in items if item.question),
        "",
    )
    for title, part in parts.items():
        yield from (f"## {title}", "")
        for item in part:
            state = "answered in part" if item.state == "partly" else item.state
            yield from (f"### {item.topic} ({state})", "")
            yield from ((markdown(item.answer), "") if item.answer else ())
            yield from ((f"Open: {item.question}", "") if item.question else ())


def _guarantee(facts: ReleaseFacts) -> Iterator[Item]:
    promise, expected = facts.promise, facts.schema.expected_rows
    delta = f", plus at most δ = {promise.delta:g}" if promise.delta else ""
    warnings = cautions(promise.epsilon, promise.delta, expected_rows=expected)
    yield Item(
        "ε and δ",
        f"ε = {rounded_up(promise.epsilon)}, δ = {promise.delta:g}. The probability of any result changes by a factor "
        f"of at most e^ε = {factor(promise.epsilon)}{delta}. {' '.join(warnings)}".strip(),
        "Why are these numbers small enough for these data?",
    )
    yield Item(
        "Size of δ",
        "δ = 0: the guarantee is pure."
        if not promise.delta
        else f"δ was compared with {plural(expected, 'row')}, the number that the schema states."
        if expected
        else "The true number of rows is private. δ was compared with 10,000 assumed rows.",
        "" if expected or not promise.delta else "Is δ clearly smaller than 1 divided by the number of people?",
    )
    yield Item("Unit of privacy", *_unit(facts))
    epsilon, group_delta = group_privacy(promise.epsilon, promise.delta, 2)
    yield Item(
        "Neighbouring tables",
        f"{facts.neighbours} This is unbounded differential privacy: the number of rows is protected too. If a row or "
        f"person is replaced instead (bounded), the same releases satisfy ε = {rounded_up(epsilon)}, "
        f"δ = {float(rounded_up(group_delta)):g}.",
    )
    yield Item("What is protected", data_domain(facts))
    yield Item("What is not protected", unprotected(facts))
    yield Item(
        "Composition",
        f"{composition(facts)} The ledger has {plural(len(facts.entries), 'entry', 'entries')}, which spent "
        f"{100 * promise.spent:.2f}% of its budget. ledger.json lists them all.",
        "Were the same people's data released in other ways: under another ledger, with another tool, or as plain "
        "statistics? Such releases add to the privacy loss.",
    )


def _unit(facts: ReleaseFacts) -> tuple[str, str]:
    unit = facts.promise.unit
    if isinstance(unit, Persons):
        return (
            f"{unit}. gapless enforced the limit when it read the table.",
            "Does each person have only one id, and does each id belong to one person? The privacy loss of a person "
            "with two ids is larger.",
        )
    if unit.at_most == 1:
        return ("One row. gapless did not check whose rows these are.", "Does each person have only one row?")
    return (
        f"{unit} of a person. {BELIEVED}.",
        f"How do you know that no person has more than {plural(unit.at_most, 'row')}?",
    )


def _algorithms(facts: ReleaseFacts) -> Iterator[Item]:
    schema, versions = facts.schema, facts.manifest["versions"]
    yield Item(
        "Mechanisms",
        f"Method: {facts.manifest['method']}. Noise: {'; '.join(facts.noise) or 'none was needed'}. Each mechanism has "
        "a proof and tests in the package, and the ledger recomputes every loss when it is opened.",
    )
    yield Item(
        "Bounds and sensitivity",
        f"{_sensitivity(facts)} {_origins(facts)} {' '.join(preprocessing(facts))}",
        "Which public source has the levels and bounds of each column?",
    )
    yield Item("Exact noise and floating-point numbers", FLOATS)
    refusing = [
        column.name for column in schema.file_columns if column.outside == "refuse" or not column.may_be_missing
    ]
    yield Item(
        "Side channels: refusals",
        "Reading stops if a cell breaks a rule, which reveals one bit to those who see whether it failed. The "
        f"columns where this can happen: {listing(refusing)}."
        if refusing
        else "No cell makes reading fail, except in the cases that gapless lists among its known weaknesses.",
    )
    yield Item(
        "Side channels: time and memory",
        "Running times depend on the data and are not covered by the guarantee. The ledger records dates, not times.",
        "Who could observe the machine while it counted?",
    )
    yield Item("Post-processing", post_processing(facts))
    yield Item(
        "Versions and repetition",
        f"{', '.join(f'{name} {number}' for name, number in versions.items())}. manifest.json has the SHA-256 of every "
        "file. Sampling can be repeated with its seed; noise cannot.",
        "Where did you publish the SHA-256 of the manifest, so that readers can compare it?",
    )


def _origins(facts: ReleaseFacts) -> str:
    """Return where the schema says that its facts come from."""
    columns = facts.schema.columns
    taken = sum(column.origin == "codebook" for column in columns)
    typed = len(columns) - taken
    return f"Facts from a codebook: {plural(taken, 'column')}. Written or confirmed by the holder: {typed}."


def _sensitivity(facts: ReleaseFacts) -> str:
    """Return what the noise is scaled to."""
    if any(entry["mechanism"]["name"] == SmoothCauchy.__name__ for entry in facts.entries):
        return (
            "Sensitivities follow from the public schema and settings, except for answers that imputed rows enter: "
            "their noise follows a private bound, as smooth sensitivity allows."
        )
    return "Sensitivities follow from the public schema and settings, not from the data."


def _usefulness(facts: ReleaseFacts) -> Iterator[Item]:
    manifest = facts.manifest
    uses = {"Usable for": "usable_for", "With care": "with_care", "Not for": "not_for"}
    graded = [f"{title}: {'; '.join(manifest[key])}." for title, key in uses.items() if manifest.get(key)]
    yield Item(
        "Usefulness",
        f"Verdict, from released values alone: {manifest['verdict']}. {' '.join(graded)}",
        "Which uses matter to you, and which error would have stopped you from publishing?",
    )
    yield Item(
        "Bias from noise and limits",
        "Negative noisy counts become zero, which raises the counts of rare cells. Relations below the noise are "
        "weakened. Values beyond bounds are moved or become gaps, as 'Bounds and sensitivity' states. The report "
        "shows the noise of each column."
        + (
            " Rows beyond the limit per person were left out, so persons with many rows have less weight."
            if isinstance(facts.promise.unit, Persons)
            else ""
        ),
    )
    yield Item(
        "Small groups",
        "The noise of a count does not depend on its size, so relative errors are larger for small groups. The report "
        "marks what noise hides.",
        "Which groups must be described well, and are they?",
    )
    gaps = [column.name for column in facts.schema.file_columns if column.may_be_missing]
    yield Item(
        "Missing values",
        f"Cells may be missing in {listing(gaps)}. The guarantee makes no assumption about why. How rows are "
        "completed depends on the treatment of gaps, which privacy.md names."
        if gaps
        else "No column may have missing cells.",
        "Why are values missing, and does the treatment of gaps suit that reason?" if gaps else "",
    )
    yield Item("Bias in the data", "", "Whom do the data leave out or describe wrongly? Noise does not repair that.")
    yield Item(
        "Reading synthetic rows",
        "No row is a person. Intervals that treat the rows as real data are too narrow. gapless estimate gives "
        "intervals that include the noise, for methods that keep what they measured.",
    )


def _trust(facts: ReleaseFacts) -> Iterator[Item]:
    yield Item(
        "Trust model",
        "Central: the holder has the data and runs gapless on a machine it trusts. The guarantee protects the people "
        "in the table from everybody who sees the release, not from the holder.",
        "Who is the holder, and who else has access?",
    )
    yield Item("Security of the data", "", "How are the table and its ledger stored, and who can read or copy them?")
    key = (
        " The key of the ledger decides which rows were kept; it must stay as private as the data."
        if isinstance(facts.promise.unit, Persons)
        else ""
    )
    yield Item(
        "Files of the release",
        f"The release folder has the files that its manifest lists. They were checked before this was written.{key}",
    )
    yield Item(
        "Collection and exposure of the data",
        "",
        "How were the data collected, with which consent, and who saw them before they were protected? When are they "
        "deleted?",
    )
    yield Item(
        "Choices made by looking at the data",
        "gapless releases nothing under a schema in which a column says that its facts were read from the data.",
        "Did anybody look at the table to choose ε, the method, the levels or the bounds, or compare several releases "
        "with the table to choose the best?",
    )
    yield Item("Independent review", "", "Who besides the holder has reviewed this release?")
