"""What is told about a fitted model: how it was made, what was measured, and what was promised for it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from gapless.privacy import Guarantee, Rows
from gapless.types import is_number, is_whole


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Public and released values alone, for `describe`, `picture`, the report, the statement and the model file.

    Attributes:
        method: the name of the synthesizer, as on the command line.
        guarantee: of the ledger that paid, at the end of the fit.
        settings: what was chosen by the holder or followed from it, by name.
        structure: what was measured, one line each.
        noise: the standard deviation in a count of one cell, by column; a column that was not measured has none.
        limits: sentences on what the model could not take in.
        edges: the pairs of columns, by position, that were measured together.
        broken: the share of pairs of rows that break each constraint whose weight is learned, and the noise in it.
    """

    method: str
    guarantee: Guarantee
    settings: Mapping[str, str | int] = field(default_factory=dict)
    structure: tuple[str, ...] = ()
    noise: Mapping[str, float] = field(default_factory=dict)
    limits: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    broken: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        """Whether anything was promised: not if the noise was that of a test."""
        return self.guarantee.private

    def to_json(self) -> dict[str, Any]:
        """What a model file holds of them."""
        told = asdict(self)
        if not self.private:
            told["guarantee"]["epsilon"] = None  # JSON has no infinity
        return told

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """The facts that a model file holds.

        Raises:
            ValueError: One of them is of another kind than it should be.
        """
        promise = dict(told["guarantee"])
        texts = [told["method"], promise["table"], promise["basis"], *told["structure"], *told["limits"]]
        shares = told.get("broken", {})
        if not (
            all(isinstance(text, str) for text in texts)
            and all(isinstance(value, str) or is_whole(value) for value in told["settings"].values())
            and all(is_number(value) for value in (promise["delta"], *told["noise"].values()))
            and (promise["epsilon"] is None or is_number(promise["epsilon"]))
            and all(is_whole(place) for edge in told["edges"] for place in edge)
            and all(is_number(value) for pair in shares.values() for value in pair)
        ):
            raise ValueError("the facts of this model are not made of texts and numbers")
        promise["protect"] = Rows(**promise["protect"])
        if promise["epsilon"] is None:
            promise["epsilon"] = math.inf
        return cls(
            method=told["method"],
            guarantee=Guarantee(**promise),
            settings=told["settings"],
            structure=tuple(told["structure"]),
            noise=told["noise"],
            limits=tuple(told["limits"]),
            edges=tuple((one, other) for one, other in told["edges"]),
            broken={rule: (share, noise_std) for rule, (share, noise_std) in shares.items()},
        )
