"""Whether an estimate lies inside a model: whether what it follows from was measured. A public fact.

A model of measured tables knows how the columns of each of them go together, up to noise. What it says of other columns
together follows from assumptions, and no interval covers an assumption. So an estimate is *supported* if all columns
that it looks at were measured in one table; the coefficients of a linear regression if that holds for each two columns
of its design, since they follow from these moments.

At which columns a function looks is found out by changing them: it is asked again about a copy in which some columns
hold other cells. Sets of columns are halved until single ones are found.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from gapless.data import Table
from gapless.inference.estimates import Estimates

Estimator = Callable[[Table], Estimates]
Bools = NDArray[np.bool_]


def needs_of(estimator: Estimator, table: Table, said: Estimates) -> list[list[frozenset[int]]]:
    """For each estimate the sets of columns, by position, that must have been measured in one table each.

    Args:
        estimator: what to look into.
        table: a copy.
        said: what the estimator says of it.
    """
    many = len(said.values) if said.design is None else said.design.shape[1]
    looks = np.zeros((len(table.codes), many), dtype=np.bool_)
    _look(estimator, table, said, list(range(len(table.codes))), looks)
    parts = [frozenset(np.flatnonzero(looks[:, place]).tolist()) for place in range(many)]
    if said.design is None:
        return [[part] for part in parts]
    pairs = {one | other for one, other in combinations_with_replacement(parts, 2)}
    return [list(pairs)] * len(said.values)


def _look(estimator: Estimator, table: Table, said: Estimates, columns: Sequence[int], looks: Bools) -> None:
    """Mark what looks at each of these columns."""
    changed = _changed(estimator, table, said, columns)
    if not changed.any():
        return
    if len(columns) == 1:
        looks[columns[0]] = changed
        return
    half = len(columns) // 2
    for part in (columns[:half], columns[half:]):
        _look(estimator, table, said, part, looks)


def _changed(estimator: Estimator, table: Table, said: Estimates, columns: Sequence[int]) -> Bools:
    """What is another if these columns hold cells by chance, or, where that changes nothing, all the first or last."""
    rng = np.random.default_rng(len(columns))
    sizes = [column.size for column in table.schema.columns]
    fillings: tuple[Callable[[int], NDArray[np.int64]], ...] = (
        lambda size: rng.integers(size, size=table.rows),
        lambda _: np.zeros(table.rows, dtype=np.int64),
        lambda size: np.full(table.rows, size - 1),
    )
    before = _shown(said)
    changed = np.zeros(before.shape[1], dtype=np.bool_)
    for filling in fillings[: 1 if said.design is not None else 3]:  # a design is told by one look
        codes = [filling(sizes[c]) if c in columns else codes for c, codes in enumerate(table.codes)]
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                after = _shown(estimator(table.with_codes(codes, schema=table.schema, seed=1)))
        except Exception:  # noqa: BLE001 whatever a function thinks of such rows: it looked at them
            return np.ones_like(changed)
        if after.shape != before.shape:
            return np.ones_like(changed)
        changed |= ~((after == before) | (np.isnan(after) & np.isnan(before))).all(axis=0)
        if changed.all():
            break
    return changed


def _shown(said: Estimates) -> NDArray[np.float64]:
    return np.stack([said.values, said.variances]) if said.design is None else said.design


def not_measured(needs: Iterable[frozenset[int]], together: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """The sets of columns that no table holds; smaller ones that are part of them left out."""
    lacking = {need for need in needs if need and not any(need <= columns for columns in together)}
    return [need for need in sorted(lacking, key=sorted) if not any(need < other for other in lacking)]
