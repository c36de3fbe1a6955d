"""DDI-Codebook (versions 1.2 to 2.6): the XML of social science data archives.

The text is parsed by the standard library. A document type, which entities need, is refused; nothing is fetched.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from gapless.errors import SchemaError
from gapless.schema.carried_schema import DDI_NOTE, digest_of_variables, restore
from gapless.schema.codebooks.entries import (
    Contents,
    Entry,
    EntryType,
    Measure,
    check_codes,
    check_size,
    error,
    number_of,
    short,
)
from gapless.schema.codebooks.json_codebooks import choose
from gapless.schema.gap_codes import MissingCode, MissingRange, as_text
from gapless.schema.gap_words import gap_kind
from gapless.schema.schema import Schema
from gapless.text import shortened

MOST_DEPTH = 60  # of nested elements
MOST_PARTS = 6_000_000  # elements and attributes
_MEASURES: dict[str, Measure] = {
    "nominal": "nominal",
    "ordinal": "ordinal",
    "interval": "scale",
    "ratio": "scale",
    "percent": "scale",
    "other": "",
}


def read_ddi(content: bytes, path: Path, table: str | None) -> Contents | Schema:
    """The variables of a file that a codebook describes."""
    root = parse_xml(content, path)
    root = next(root.iter("codeBook"), root)  # a catalogue wraps it into an answer to a query
    if root.tag != "codeBook":
        hint = "save the codebook as DDI-Codebook 2.5; DDI-Lifecycle is not supported"
        raise SchemaError(f"{path.name} is not a DDI-Codebook: its root is <{shortened(root.tag, 40)}>", hint=hint)
    for note in root.iterfind("dataDscr/notes"):
        if note.get("type") == DDI_NOTE:
            found = digest_of_variables(root.iterfind("dataDscr/var"))
            return restore(note.text or "", stated=note.get("subject"), found=found, where=path.name)
    variables = list(root.iterfind("dataDscr/var"))
    files = list(dict.fromkeys(file for variable in variables for file in (variable.get("files") or "").split()))
    if len(files) > 1 or table is not None:
        chosen = files[choose(files, table, path.name)]
        variables = [variable for variable in variables if chosen in (variable.get("files") or chosen).split()]
    check_size(variables, path.name)
    entries = tuple(
        _entry(variable, f"variable {place} of {path.name}") for place, variable in enumerate(variables, start=1)
    )
    title = _text(root.find("stdyDscr/citation/titlStmt/titl")) or _text(root.find("docDscr/citation/titlStmt/titl"))
    return Contents(path.name.split(".")[0] or "table", entries, description=short(title))


def parse_xml(content: bytes, path: Path) -> Element:
    """The root element, with names without their namespaces.

    Raises:
        SchemaError: The text is not well-formed, has a document type, or is nested too deeply.
    """
    builder = TreeBuilder()
    parser = expat.ParserCreate(namespace_separator="}")
    parser.buffer_text = True
    depth = parts = 0

    def refuse(*_: Any) -> Any:
        hint = "remove the document type (<!DOCTYPE …>) and its entities from the codebook"
        wrong = (
            f"line {parser.CurrentLineNumber} of {path.name} has a document type or an entity, which gapless refuses"
        )
        raise SchemaError(wrong, hint=hint)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal depth, parts
        depth, parts = depth + 1, parts + 1 + len(attributes)
        if parts > MOST_PARTS:
            raise error(path.name, f"has more than {MOST_PARTS:,} elements and attributes", "split the codebook")
        if depth > MOST_DEPTH:
            where = f"line {parser.CurrentLineNumber} of {path.name}"
            raise error(where, f"has elements that are nested more than {MOST_DEPTH} deep")
        builder.start(_local(tag), {_local(key): value for key, value in attributes.items()})

    def end(tag: str) -> None:
        nonlocal depth
        depth -= 1
        builder.end(_local(tag))

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = builder.data
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    parser.ExternalEntityRefHandler = parser.UnparsedEntityDeclHandler = refuse
    try:
        parser.Parse(content, True)
        return builder.close()
    except (expat.ExpatError, LookupError, ValueError, AssertionError) as malformed:
        what = shortened(" ".join(str(malformed).split()), 100)
        hint = "correct the codebook at this place, or export it again"
        raise SchemaError(f"{path.name} is not well-formed XML: {what}", hint=hint) from None


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


def _text(element: Element | None) -> str:
    """The text of an element and its parts, on one line."""
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _entry(variable: Element, where: str) -> Entry:
    name = variable.get("name") or ""
    where = f"{where}, {shortened(name, 60)!r}," if name else where
    pairs: list[tuple[str, str]] = []
    missing: dict[str, MissingCode] = {}
    for category in variable.iterfind("catgry"):
        code, label = as_text(_text(category.find("catValu"))), _text(category.find("labl"))
        if not code:
            continue
        pairs.append((code, label))
        if (category.get("missing") or "").upper() in ("Y", "YES", "TRUE") or category.get("missType"):
            kind = gap_kind(category.get("missType") or "") or gap_kind(label) or "unknown"
            missing[code] = MissingCode(code, kind, short(label))
    ranges: list[MissingRange] = []
    for invalid in variable.iterfind("invalrng"):
        for item in invalid.iterfind("item"):
            if text := as_text(item.get("VALUE") or ""):
                missing.setdefault(text, MissingCode(text))
        ranges += (_range(span, where, name) for span in invalid.iterfind("range"))
    codes = check_codes(pairs, name, where)
    bounds = _bounds(variable, where, name)
    question = _text(variable.find("qstn/qstnLit"))
    label = _text(variable.find("labl"))
    type_, resolution = _type(variable)
    return Entry(
        name,
        where,
        label=label if not question or question == label else " – ".join(filter(None, [label, question])),
        type=type_,
        measure=_MEASURES.get(variable.get("nature") or "", ""),
        codes=codes,
        missing=(*missing.values(), *dict.fromkeys(ranges)),
        bounds=bounds,
        resolution=resolution,
    )


def _range(span: Element, where: str, name: str) -> MissingRange:
    least, most = (_end(span, key, where, name) for key in ("min", "max"))
    if least is None and most is None:
        raise error(where, f"has an invalid range of {name!r} without numbers")
    ends = (float("-inf") if least is None else least, float("inf") if most is None else most)
    if span.get("minExclusive") and not span.get("min"):  # a value beside the range is no gap
        ends = (math.nextafter(ends[0], math.inf), ends[1])
    if span.get("maxExclusive") and not span.get("max"):
        ends = (ends[0], math.nextafter(ends[1], -math.inf))
    if ends[0] > ends[1]:
        raise error(where, f"has an invalid range of {name!r} from {ends[0]:g} to {ends[1]:g}")
    return MissingRange(*ends)


def _end(span: Element, key: str, where: str, name: str) -> float | None:
    text = span.get(key) or span.get(f"{key}Exclusive") or ""
    if not text.strip():
        return None
    if (number := number_of(text)) is None:
        raise error(where, f"has the end {shortened(text, 40)!r} of a range of {name!r}, which is not a number")
    return number


def _bounds(variable: Element, where: str, name: str) -> tuple[Any, Any]:
    """The valid range. Of several, from the lowest end to the highest."""
    spans = [span for valid in variable.iterfind("valrng") for span in valid.iterfind("range")]
    if _is_date(variable):
        return (spans[0].get("min"), spans[0].get("max")) if len(spans) == 1 else (None, None)
    ends = [(_end(span, "min", where, name), _end(span, "max", where, name)) for span in spans]
    lows, highs = [low for low, _ in ends], [high for _, high in ends]
    low = None if not ends or None in lows else min(low for low in lows if low is not None)
    high = None if not ends or None in highs else max(high for high in highs if high is not None)
    return low, high


def _is_date(variable: Element) -> bool:
    form = variable.find("varFormat")
    return form is not None and form.get("category") in ("date", "time")


def _type(variable: Element) -> tuple[EntryType, float | None]:
    """The type, and the step between values if the codebook gives decimals."""
    form = variable.find("varFormat")
    if _is_date(variable):
        return ("date" if form is not None and form.get("category") == "date" else "datetime"), None
    if form is not None and form.get("type") == "character":
        return "text", None
    decimals = variable.get("dcml") or ""
    digits = int(decimals) if decimals.isascii() and decimals.isdigit() and len(decimals) < 3 else None
    units = {span.get("UNITS") for span in _spans(variable)}
    if variable.get("intrvl") == "discrete" or digits == 0 or units == {"INT"}:
        return "integer", None
    return "number", 10.0**-digits if digits is not None and digits <= 4 else None


def _spans(variable: Element) -> Iterator[Element]:
    for valid in variable.iterfind("valrng"):
        yield from valid.iterfind("range")
