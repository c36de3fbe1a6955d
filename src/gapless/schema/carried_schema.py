"""The schema that archive files of gapless carry as a whole, beside its description in the words of a standard.

A reader takes the whole schema. If somebody has changed the description since, the two contradict each other, and the
file is refused. So the digest of the description is in the file too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from typing import Any
from xml.etree.ElementTree import Element

from gapless.errors import SchemaError
from gapless.schema.schema import Schema

DATA_PACKAGE_PROPERTY = "gapless"  # of a data package: `schema`, and the digest of its fields, `fields_sha256`
DDI_NOTE = "gapless schema"  # the type of a note of a DDI document; its `subject` is the digest of the variables


def digest_of_fields(fields: Any) -> str:
    """Return the SHA-256 of the fields of a Table Schema, whatever the order of their keys."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()


def digest_of_variables(variables: Iterable[Element]) -> str:
    """Return the SHA-256 of elements without namespaces, whatever the white space between them."""
    return digest_of_fields([_content(variable) for variable in variables])


def _content(element: Element) -> list[Any]:
    parts = [_content(part) for part in element]
    return [element.tag, dict(element.attrib), " ".join((element.text or "").split()), parts]


def restore(toml: str, *, stated: object, found: str, where: str) -> Schema:
    """Return the schema that a file carries.

    Args:
        toml: the schema.
        stated: the digest of the description that the file states.
        found: the digest of the description in the file.
        where: the file, for errors.

    Raises:
        SchemaError: The description was changed, or the schema is malformed.
    """
    if stated != found:
        raise SchemaError(
            f"the columns that {where} describes were changed after gapless wrote its schema into the file",
            hint="write changes into the schema file, or remove the schema of gapless from the codebook",
        )
    return Schema.from_toml(toml)
