r"""Exact draws of noise by the length of a whole vector, rounded to whole numbers.

.. math:: f(y) \propto e^{-\lVert y \rVert_2}, \qquad
          Y = \sqrt{M_0^2 + \dots + M_d^2}\;(N_1, \dots, N_d), \qquad M_j, N_j \sim \mathcal N(0, 1)

The size of a normal number is k + x: k a whole number with :math:`\Pr[k] \propto e^{-k/2}`, x uniform, both kept with
chance :math:`\exp(-((k + x)^2 - k)/2)`, else drawn anew. Digits of uniform numbers are read until they decide, first
what is kept, then to which whole number each coordinate is rounded. Floats decide only where they are far from the
other answer; else integers do, so no float can leak. Proved in docs/proofs/knorm.md, attacked by
tests/statistical/test_knorm.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from gapless.privacy.exact_noise import WORD, Uniform, Word, exp

__all__ = ["rounded_knorm"]

HALF = Fraction(1, 2)
_ROOT = math.exp(-0.5)
_PLACES = 2.0**-WORD
_ALL = (1 << WORD) - 1
_MARGIN = 2.0**-36  # more than the float error of a chance, and than digits not yet read can change it


def rounded_knorm(scale: Fraction, size: int, word: Word) -> NDArray[np.int64]:
    """`scale · Y` to the nearest whole numbers, Y with density ∝ exp(-|y|₂) and so many coordinates.

    `word` gives a fresh uniform number of 64 bits at each call. Whatever is beyond int64 wraps, as sums with it do.
    """
    signs = [1 if word() & 1 else -1 for _ in range(size)]
    numbers = [half_normal(word) for _ in range(2 * size + 1)]
    bits = WORD
    while True:
        ends = []
        for more in (0, 1):
            known = [(k << bits) + x.to(bits) + more for k, x in numbers]
            length = isqrt(sum(m * m for m in known[size:])) + more
            ends.append([_nearest(scale.numerator * n * length, scale.denominator << 2 * bits) for n in known[:size]])
        if ends[0] == ends[1]:
            wrapped = [sign * steps & _ALL for sign, steps in zip(signs, ends[0], strict=True)]
            return np.array(wrapped, dtype=np.uint64).view(np.int64)
        bits += WORD


def _nearest(numerator: int, denominator: int) -> int:
    """The whole number nearest to a fraction of positive numbers."""
    return (2 * numerator + denominator) // (2 * denominator)


def half_normal(word: Word) -> tuple[int, Uniform]:
    """The size of a normal number as k and x, its whole part and the rest, known as far as was needed to keep it."""
    while True:
        k = 0
        while _happens(_ROOT, _half, word):
            k += 1
        x = Uniform(word)
        about = math.exp((k - (k + x.digits * _PLACES) ** 2) / 2)
        if _happens(about, partial(_energies, k, x), word):
            return k, x


def _half(bits: int) -> tuple[Fraction, Fraction]:  # noqa: ARG001 known to the last digit
    return HALF, HALF


def _energies(k: int, x: Uniform, bits: int) -> tuple[Fraction, Fraction]:
    """Between which numbers ((k + x)² - k)/2 lies, as far as so many digits of x tell."""
    low = k + Fraction(x.to(bits), 1 << bits)
    return (low**2 - k) / 2, ((low + Fraction(1, 1 << bits)) ** 2 - k) / 2


def _happens(about: float, energies: Callable[[int], tuple[Fraction, Fraction]], word: Word) -> bool:
    """Whether a uniform number is below exp(-E), which is `about` this: reads on until the answer is certain."""
    u = Uniform(word)
    told = u.digits * _PLACES
    if abs(told - about) > _MARGIN:
        return told < about
    bits = WORD
    while True:
        low, high = energies(bits)
        if (u.to(bits) + 1) << WORD <= exp(high, bits + WORD)[0]:
            return True
        if u.to(bits) << WORD >= exp(low, bits + WORD)[1]:
            return False
        bits += WORD
