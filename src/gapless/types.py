"""Types that several packages share: arrays of numbers and codes, and what counts as a gap."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.unsignedinteger[Any]]
Values: TypeAlias = NDArray[Any]


@dataclass(frozen=True, slots=True)
class GapRule:
    """What counts as a gap in a column: in words, and as a digest of every public fact that decides it."""

    told: str
    digest: str

    def given(self, facts: object) -> GapRule:
        """The same rule where more facts decide."""
        more = json.dumps([self.digest, facts])
        return replace(self, digest=hashlib.sha256(more.encode()).hexdigest())
