"""A release as an entry in the OpenDP deployments registry, from its public files and the answers of the holder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from gapless.privacy.budget import Persons
from gapless.privacy.promise import cautions, group_privacy
from gapless.publish.archive_files.facts import ReleaseFacts
from gapless.publish.archive_files.questions import QUESTIONS, Answers, unanswered
from gapless.text import listing, markdown, plural, rounded_up

FLOATS = (
    "Counts are whole numbers. Noise is sampled exactly, from the operating system's entropy, as whole numbers or on a "
    "public grid. Privacy losses are floating-point numbers, rounded up; a composed total relies on the accuracy of "
    "dp-accounting."
)


def registry_entry(facts: ReleaseFacts, answers: Answers) -> dict[str, Any]:
    """Return the entry. It is valid once every required question has an answer.

    Where gapless and the holder both know a part of a field, both are stated.
    """
    known = {name: {field: _escaped(value) for field, value in part.items()} for name, part in _known(facts).items()}
    sections: dict[str, dict[str, Any]] = {name: {} for name in known}
    for question in QUESTIONS:
        if question.field in answers:
            stated = known[question.section].pop(question.field, None)
            answer = answers[question.field]
            sections[question.section][question.field] = answer if stated is None else f"{stated} {answer}"
    deployment = {name: sections[name] | fields for name, fields in known.items()}
    return {"url_slug": facts.slug, "status": "Draft", "tier": tier_of(answers), "deployment": deployment}


def _escaped(value: Any) -> Any:
    """Return a text in which names of the table are no markup: the registry shows texts as Markdown with formulas."""
    return markdown(value).replace("$", "\\$") if isinstance(value, str) else value


def tier_of(answers: Answers) -> int:
    """Return the tier of an entry: the largest whose questions are all answered."""
    open_tiers = [question.tier for question in unanswered(answers) if question.tier > 1]
    return min(open_tiers, default=4) - 1


def _known(facts: ReleaseFacts) -> dict[str, dict[str, Any]]:
    """Return what the public files of a release say, by section."""
    promise = facts.promise
    return {
        "basic": {"data_product_type": "Synthetic data", "description": _description(facts)},
        "dp_variant": {
            "variant_name": "Approximate DP" if promise.delta else "Pure DP",
            "data_domain": data_domain(facts),
            "unprotected_quantities": unprotected(facts),
        },
        "privacy_loss": {
            "privacy_unit": f"{promise.unit}, added or removed",
            "privacy_unit_details": facts.neighbours,
            "privacy_parameters": {"epsilon": float(rounded_up(promise.epsilon)), "delta": promise.delta},
            "privacy_parameters_details": " ".join(parameters(facts)),
        },
        "deployment_model": {
            "model_name": "Central",
            "model_name_details": "The holder of the table runs gapless on a machine it trusts, and sees the data. "
            "Everybody else who sees the release counts as an adversary, whatever else they know.",
            "access_type": "Non-interactive",
            "access_type_details": "Readers work with the published files. They cannot query the table.",
        },
        "accounting": {"post_processing": post_processing(facts), "composition": composition(facts)},
        "implementation": {
            "preprocessing_and_hyperparameter_tuning": " ".join(preprocessing(facts)),
            "mechanisms": " ".join(mechanisms(facts)),
        },
        "administrative": {"notes": f"SHA-256 of the manifest of the release: {facts.sha256}."},
    }


def _description(facts: ReleaseFacts) -> str:
    schema = facts.schema
    about = f" ({schema.description})" if schema.description else ""
    return (
        f"{plural(facts.manifest['rows'], 'synthetic row')} in {plural(len(schema.file_columns), 'column')}, drawn "
        f"from a model ({facts.manifest['method']}) of the table '{schema.name}'{about}. Verdict on its noise: "
        f"{facts.manifest['verdict']}."
    )


def data_domain(facts: ReleaseFacts) -> str:
    """Return which tables are protected."""
    gaps = [column.name for column in facts.schema.file_columns if column.may_be_missing]
    lacking = f"Cells may be missing in {listing(gaps)}." if gaps else "No cell may be missing."
    ids = f", and the id of persons ({facts.promise.unit.name})" if isinstance(facts.promise.unit, Persons) else ""
    return (
        f"All tables with the {plural(len(facts.schema.file_columns), 'column')} of the public schema (schema.toml)"
        f"{ids}, and any number of rows. {lacking} Values and the places of missing cells are protected."
    )


def unprotected(facts: ReleaseFacts) -> str:
    """Return what the release shows without noise."""
    expected = facts.schema.expected_rows
    stated = "" if expected is None else f", the expected number of rows from a public source ({expected:,})"
    unit = facts.promise.unit
    if isinstance(unit, Persons):
        stated += f", the name of the id ({unit.name}), and how many rows are kept of each"
    return (
        "The schema: names of columns, levels, bounds, declared bins, missing codes and rules"
        f"{stated}. The name of the table, the method and its settings, the number of synthetic rows if the holder "
        "chose it, and the dates of releases. gapless releases no statistic of the table without noise."
    )


def parameters(facts: ReleaseFacts) -> Iterator[str]:
    """Yield what the numbers of the guarantee mean."""
    promise, budget = facts.promise, facts.promise.budget
    yield f"ε is rounded up. The guarantee covers {plural(len(facts.entries), 'entry', 'entries')} of one ledger."
    limit = f"ε = {budget['epsilon']:g}, δ = {budget['delta']:g}"
    if "ground_truth" in budget:
        yield (
            f"The budget of the ledger is {limit} for the complete data, assuming that {budget['ground_truth']}. "
            "The numbers here are those for the incomplete table, which need no such assumption."
        )
    else:
        yield (
            f"The budget for all releases under this ledger is {limit}; {100 * promise.spent:.2f}% of it was spent "
            "when this release was written."
        )
    epsilon, delta = group_privacy(promise.epsilon, promise.delta, 2)
    yield (
        "If the data of a person are replaced instead of added or removed, the same releases satisfy "
        f"ε = {rounded_up(epsilon)}, δ = {float(rounded_up(delta)):g}."
    )
    yield from cautions(promise.epsilon, promise.delta, expected_rows=facts.schema.expected_rows)


def post_processing(facts: ReleaseFacts) -> str:
    """Return what happens to noisy values."""
    rules = " They follow the public rules of the schema that privacy.md lists." if facts.schema.constraints else ""
    return (
        "The model is computed from noisy values alone. Negative noisy counts are replaced, which raises the "
        f"counts of rare cells. The synthetic rows are drawn from the model.{rules} The report and the verdict are "
        "computed from released values too."
    )


def composition(facts: ReleaseFacts) -> str:
    """Return how privacy losses add up."""
    promise, batch = facts.promise, facts.promise.first_batch
    how = (
        "Releases are priced for the complete data, by their composed total."
        if "ground_truth" in promise.budget
        else "Sequential composition of pure privacy losses: they add up."
        if promise.order is None
        else f"Sequential composition in Rényi differential privacy, at the order {promise.order:g}: losses add up in "
        "one ledger, which refuses a release beyond its budget (a Rényi filter)."
    )
    many = "" if batch is None else f" The first {plural(batch, 'entry', 'entries')} were fixed in advance."
    return f"{how}{many} Basis of the stated ε: {promise.basis}."


def preprocessing(facts: ReleaseFacts) -> Iterator[str]:
    """Yield what happens to the table before anything is counted."""
    for outside, change in (
        ("clamp", "Values beyond the public bounds were moved to the nearest bound in"),
        ("missing", "Cells outside the schema became gaps in"),
        ("other", "Texts that are no level became the level for others in"),
        ("refuse", "A cell outside the schema would have stopped reading in"),
    ):
        if columns := facts.columns_where(outside=outside):
            yield f"{change}: {listing(column.name for column in columns)}."
    if isinstance(unit := facts.promise.unit, Persons):
        yield f"At most {plural(unit.at_most, 'row')} of each {unit.name} were kept."
    yield "Bins come from the public schema, or were learned from released values that the ledger has charged."


def mechanisms(facts: ReleaseFacts) -> Iterator[str]:
    """Yield how noise was made."""
    versions = facts.manifest["versions"]
    yield f"Mechanisms: {'; '.join(facts.noise)}." if facts.noise else "Nothing was read from the table."
    yield (
        f"Library: gapless {versions['gapless']} with OpenDP {versions['opendp']} and dp-accounting "
        f"{versions['dp-accounting']}. {FLOATS} Running times are not covered by the guarantee."
    )


def to_yaml(content: Any) -> str:
    """Return mappings, lists, texts and numbers as YAML. Texts are in double quotes, so none is read as anything else.

    >>> print(to_yaml({"name": "a: b", "parameters": {"epsilon": 1.0, "delta": 1e-06}, "authors": ["no"]}), end="")
    name: "a: b"
    parameters:
      epsilon: 1.0
      delta: 1.0e-06
    authors:
      - "no"
    """
    return "\n".join(_lines(content, "")) + "\n"


def _lines(content: Any, indent: str) -> Iterator[str]:
    pairs = content.items() if isinstance(content, Mapping) else ((None, item) for item in content)
    for name, value in pairs:
        start = f"{indent}- " if name is None else f"{indent}{name}: "
        if isinstance(value, Mapping | list | tuple):
            yield start.rstrip()
            yield from _lines(value, f"{indent}  ")
        else:
            yield start + _scalar(value)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        quoted = json.dumps(value, ensure_ascii=False)
        return "".join(letter if letter.isprintable() else _escape(letter) for letter in quoted)
    text = repr(value)
    # YAML 1.1 reads 1e-06 as a text: a number needs a point.
    return text.replace("e", ".0e") if isinstance(value, float) and "e" in text and "." not in text else text


def _escape(letter: str) -> str:
    return f"\\u{ord(letter):04x}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08x}"
