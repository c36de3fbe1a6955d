"""Gaps filled by chance: each by itself, from its column's distribution."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.schema.columns import Codes


def fill_gaps(columns: Sequence[Codes], laws: Sequence[NDArray[np.float64]]) -> tuple[Codes, ...]:
    """The columns with every code beyond a column's law replaced by a draw from it.

    Neighbouring tables stay neighbours for each outcome of the chance that rows have by themselves; so it must stay
    unseen and never be replayed: a fresh seed from the operating system each time.
    """
    rng = np.random.default_rng(secrets.randbits(128))
    filled = []
    for codes, law in zip(columns, laws, strict=True):
        gaps = codes >= len(law)
        whole = codes.copy()
        whole[gaps] = rng.choice(len(law), size=int(gaps.sum()), p=law / law.sum())
        filled.append(whole)
    return tuple(filled)
