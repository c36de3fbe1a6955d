"""Texts of cells, and the texts and numbers that stand for gaps, each with its kind.

>>> MissingCode(-9, "refused", "Refused to answer")
MissingCode(code='-9', kind='refused', label='Refused to answer')
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gapless.errors import SchemaError
from gapless.text import check_one_of
from gapless.types import is_number

Level: TypeAlias = str | int | float | bool
MissingKind: TypeAlias = Literal["unknown", "refused", "dont-know", "technical", "not-asked", "not-applicable"]

# The kinds of gaps behind which there is a value: it may be imputed.
GAP_KINDS: tuple[MissingKind, ...] = ("unknown", "refused", "dont-know", "technical")
# No value exists: nobody was asked, or the question has no answer. Never imputed; both share the cell not applicable.
STRUCTURAL_KINDS: tuple[MissingKind, ...] = ("not-asked", "not-applicable")


def as_text(value: object) -> str:
    """The text by which cells, levels and missing codes are compared: trimmed, and 13 for 13.0.

    >>> as_text(" 13.0 "), as_text(True), as_text(-9)
    ('13', 'true', '-9')
    """
    text = str(value).strip()
    if isinstance(value, bool):
        return text.lower()
    whole, dot, zeros = text.partition(".")
    return whole if dot and zeros and not zeros.strip("0") and whole.lstrip("-").isdigit() else text


def as_python(value: Any) -> Any:
    """A numpy scalar as Python's own type, so that files show the same text. -0.0 becomes 0.0."""
    value = value.item() if isinstance(value, np.generic) else value
    return value + 0.0 if isinstance(value, float) else value


def _check_label(label: object, code: object) -> None:
    if not isinstance(label, str):
        wrong = f"the missing code {code!r} has a label that is not a text: {label!r}"
        raise SchemaError(wrong, hint='write label = "Refused"')


@dataclass(frozen=True, slots=True)
class MissingCode:
    """A text that stands for a gap, and why the cell is empty. The label is for readers."""

    code: str
    kind: MissingKind = "unknown"
    label: str = ""

    def __post_init__(self) -> None:
        if not isinstance(as_python(self.code), Level):
            wrong = f"a missing code must be a text or a number, got {self.code!r}"
            raise SchemaError(wrong, hint='write missing = ["NA", -9]')
        object.__setattr__(self, "code", as_text(self.code))
        check_one_of("kind", self.kind, (*GAP_KINDS, *STRUCTURAL_KINDS), error=SchemaError)
        _check_label(self.label, self.code)

    @property
    def is_structural(self) -> bool:
        """Whether there is no value behind this code, so that it is never imputed."""
        return self.kind in STRUCTURAL_KINDS


@dataclass(frozen=True, slots=True)
class MissingRange:
    """Numbers that stand for gaps, both ends included; a `MissingCode` within it has its own kind.

    >>> MissingRange(97, 99, "refused").text_besides(["97"])
    '98'
    """

    least: float
    most: float
    kind: MissingKind = "unknown"
    label: str = ""

    def __post_init__(self) -> None:
        for key in ("least", "most"):
            object.__setattr__(self, key, as_python(getattr(self, key)))
        ends = (self.least, self.most)
        if not all(is_number(end) and not math.isnan(end) for end in ends) or not ends[0] <= ends[1]:
            wrong = f"a missing range must have two numbers, the smaller first, got {ends[0]!r} and {ends[1]!r}"
            raise SchemaError(wrong, hint="write { from = 97, to = 99 }")
        if not any(map(math.isfinite, ends)):
            wrong = "a missing range must have at least one finite end"
            raise SchemaError(wrong, hint="write { from = -inf, to = -1 }, or { from = 97, to = 99 }")
        check_one_of("kind", self.kind, (*GAP_KINDS, *STRUCTURAL_KINDS), error=SchemaError)
        _check_label(self.label, str(self))

    @property
    def is_structural(self) -> bool:
        """Whether there is no value behind these numbers, so that they are never imputed."""
        return self.kind in STRUCTURAL_KINDS

    def text_besides(self, codes: Collection[str]) -> str | None:
        """The number that a file has for such a gap, near the smallest finite end and whole if it can be.

        It is none of these codes. None if there is no such number.
        """
        least, most = math.isfinite(self.least), math.isfinite(self.most)
        whole = math.ceil(self.least) if least else math.floor(self.most)
        steps = range(len(codes) + 1) if least else range(0, -len(codes) - 1, -1)
        ends = [end for end, is_finite in ((self.least, least), (self.most, most)) if is_finite]
        candidates = [*(whole + step for step in steps), *ends, *(whole + step + 0.5 for step in steps)]
        within = (as_text(float(number)) for number in candidates if self.least <= number <= self.most)
        return next((text for text in within if text not in codes), None)

    def __str__(self) -> str:
        return f"{as_text(self.least)} to {as_text(self.most)}"


def gap_state(kind: MissingKind) -> MissingKind:
    """The state that a kind has in a table: structural kinds share *not applicable*."""
    return "not-applicable" if kind in STRUCTURAL_KINDS else kind
