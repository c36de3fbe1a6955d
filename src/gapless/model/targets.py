"""What a fit aims at: noisy tables, how far each may be trusted, and the step towards one of them in closed form.

The formulas stand in `gapless.model.graphical`; weights that are raked towards tables take the same steps.
"""

from collections.abc import Mapping
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import wrightomega

from gapless.model.denoise import Denoised, denoise, margin_noise
from gapless.model.junction import Sizes
from gapless.model.marginal import Marginal
from gapless.types import Floats

EXPLAINED = 3.0  # standard deviations of χ² up to which noise explains a residual
PATIENCE = 10  # sweeps without progress after which a contradiction is taken for one
_FLOOR = 1e-20  # the least share of the total that fitting leaves to a possible cell

Margin = tuple[tuple[int, ...], Floats]  # the axes that are summed out of a table, and what is left in as many axes


class Aim(NamedTuple):
    """What a marginal moves towards in a sweep and how reluctantly.

    `variance` is that of each cell in units of noise_std². `pairs` are margins it moves towards as well, each with the
    axes that are summed out.
    """

    target: Floats
    variance: Floats
    noise_std: float
    reluctance: float
    pairs: tuple[Margin, ...] = ()


def shown_of(
    sizes: Sizes, targets: Mapping[Marginal, tuple[Floats, float]], *, fresh: bool
) -> dict[Marginal, tuple[Denoised, float]]:
    """What the sweeps aim at; a fresh fit draws empty cells to zero, and begins where a table leaves no doubt.

    A fit that goes on from a model has its empty cells in the potentials already.
    """
    margins = margin_noise(sizes, {columns: noise_std for columns, (_, noise_std) in targets.items()})
    return {
        columns: (
            denoise(table, noise_std, [margins[c] for c in columns]) if fresh else Denoised.plain(table),
            noise_std,
        )
        for columns, (table, noise_std) in targets.items()
    }


def aims_of(shown: Mapping[Marginal, tuple[Denoised, float]], step: float) -> dict[Marginal, Aim]:
    """Tables and their noise as aims: noisier ones are approached more reluctantly."""
    typical = np.exp(np.mean([np.log(noise_std) for _, noise_std in shown.values()])) if shown else 1.0
    return {
        columns: Aim(
            table.counts.ravel(),
            table.variance.ravel(),
            noise_std,
            noise_std / step * float(np.clip(noise_std / typical, 1 / 16, 16)) ** 0.5,
        )
        for columns, (table, noise_std) in shown.items()
    }


def towards(aim: Aim, now: Floats, total: float) -> Floats:
    """Solve (ν - target) / variance + reluctance · log(ν / now) = -λ for the λ that makes ν sum to `total`."""
    possible, goal, scale = now > 0, aim.target / aim.variance, aim.reluctance * aim.variance
    logs = np.full_like(now, -np.inf)
    np.log(now / scale, out=logs, where=possible)
    least = float((goal - now / aim.variance)[possible].min())  # every cell would grow: λ is not below this
    shift = max(least, 0.0)
    for _ in range(50):
        omega: Floats = wrightomega((goal - shift) / aim.reluctance + logs)
        excess = float(scale @ omega) - total
        if abs(excess) <= 1e-9 * total:
            break
        shift = max(least, shift + excess / max(float(aim.variance @ (omega / (1 + omega))), 1e-300))
    return np.asarray(np.maximum(scale * omega, _FLOOR * total))


def towards_pairs(aim: Aim, table: Floats, total: float) -> Floats:
    """A step towards each pair: solve ν - target + reluctance · log(ν / now) = 0; then back to the total."""
    for gone, target in aim.pairs:
        now = np.maximum(table.sum(axis=gone, keepdims=True), _FLOOR * total)
        pair = aim.reluctance * wrightomega(target / aim.reluctance + np.log(now / aim.reluctance))
        table = table * (pair / now)
    return np.asarray(np.maximum(table * (total / table.sum()), _FLOOR * total))


def pairs_of(columns: Marginal, table: Floats, whole: int) -> tuple[Margin, ...]:
    """The margins of each two columns before `whole`, of a table of more."""
    places = [place for place, column in enumerate(columns) if column < whole]
    gone = [tuple(axis for axis in range(table.ndim) if axis not in pair) for pair in combinations(places, 2)]
    return tuple((axes, table.sum(axis=axes, keepdims=True)) for axes in gone if axes)


def ratio(new: Floats, old: Floats) -> Floats:
    """What turns `old` into `new`; 1 where there is nothing to turn."""
    ratio = np.ones_like(new)
    np.divide(new, old, out=ratio, where=old > 1e-290)
    return ratio
