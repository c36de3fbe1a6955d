r"""Exact draws of generalized Cauchy and K-norm noise, rounded to whole numbers.

Digits of uniform numbers are read until they decide the result. A float decides only where the result is clear; else
integers do. So no rounding error of a float can leak.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from itertools import count
from math import floor, isqrt

import numpy as np
from numpy.typing import NDArray

__all__ = ["WORD", "Uniform", "Word", "exp", "rounded_cauchy", "rounded_knorm"]

WORD = 64  # bits read at a time
Word = Callable[[], int]  # a fresh uniform number of 64 bits at each call


class Uniform:
    """A uniform number in [0, 1) with known first digits: at least `digits / 2**bits`, and less than 1 digit above."""

    __slots__ = ("_word", "bits", "digits")

    def __init__(self, word: Word) -> None:
        self._word = word
        self.bits, self.digits = WORD, word()

    def read_word(self) -> None:
        """Read one more word."""
        self.bits, self.digits = self.bits + WORD, self.digits << WORD | self._word()

    def prefix(self, bits: int) -> int:
        """The first `bits` digits, read where they are not known yet."""
        while self.bits < bits:
            self.read_word()
        return self.digits >> self.bits - bits


def exp(x: Fraction, places: int) -> tuple[int, int]:
    """Integers below and above 2^places·exp(-x) for x ≥ 0, a few hundred apart."""
    halvings = math.floor(2 * x).bit_length()
    numerator, denominator = (x / 2**halvings).as_integer_ratio()  # y < 1/2
    term = term_up = unit = 1 << places
    total = total_up = 0
    for n in count(1):  # exp(y), by its series
        total, total_up = total + term, total_up + term_up
        term, term_up = term * numerator // (denominator * n), -(-term_up * numerator // (denominator * n))
        if term_up <= 1:
            break
    total_up += 2 * term_up  # each further term is less than half of the previous
    power, power_up = unit * unit // total_up, -(-unit * unit // total)
    for _ in range(halvings):  # exp(-2y) = exp(-y)²
        power, power_up = power * power >> places, -(-power_up * power_up >> places)
    return power, power_up


HALF = Fraction(1, 2)


def rounded_cauchy(centre: Fraction, scale: Fraction, quarters: int, word: Word) -> int:
    r"""The whole number nearest to `centre + scale · X`, where X has exponent g = quarters / 4.

    .. math:: f(x) \propto \frac1{1 + |x|^g}, \qquad |X|^g/(1 + |X|^g) \sim \mathrm{Beta}(1/g,\, 1 - 1/g)

    A uniform :math:`Y` is :math:`|X|` below 1 and :math:`1/|X|` above it. It is accepted with probability
    :math:`1/(1 + Y^g)` or :math:`Y^{g-2}/(1 + Y^g)`, which is at most 1 as :math:`g \ge 2`. Exponents are multiples of
    1/4, so that powers are integer fourth roots and need no floats. Proved in docs/proofs/smooth_cauchy.md,
    attacked by tests/statistical/test_smooth.py.

    `word` gives a fresh uniform number of 64 bits at each call.
    """
    while True:
        coins = word()
        inner, sign = bool(coins & 1), 1 if coins & 2 else -1
        y = Uniform(word)
        if _is_accepted(y, Uniform(word), quarters, inner=inner):
            break
    while True:
        if inner or y.digits:  # else |X| = 1/Y has no upper bound yet
            ends = (Fraction(digits, 1 << y.bits) for digits in (y.digits, y.digits + 1))
            nearest = {floor(centre + sign * scale * (x if inner else 1 / x) + HALF) for x in ends}
            if len(nearest) == 1:
                return nearest.pop()
        y.read_word()


def _is_accepted(y: Uniform, u: Uniform, quarters: int, *, inner: bool) -> bool:
    """Whether U (1 + Y^g) < 1, or < Y^(g-2) for the outer part; reads digits until the answer is certain."""
    while True:
        bits, unit = y.bits, 1 << y.bits
        power, power_up = _power(y.digits, bits, quarters), _power(y.digits + 1, bits, quarters) + 1
        limit, limit_up = unit, unit
        if not inner:
            limit = _power(y.digits, bits, quarters - 8)
            limit_up = _power(y.digits + 1, bits, quarters - 8) + 1
        if (u.digits + 1) * (unit + power_up) <= limit << bits:
            return True
        if u.digits * (unit + power) >= limit_up << bits:
            return False
        y.read_word()
        u.read_word()


def _power(digits: int, bits: int, quarters: int) -> int:
    """The whole part of 2^bits · (digits / 2^bits)^(quarters / 4)."""
    shift = bits * (quarters - 4)
    power = digits**quarters
    return isqrt(isqrt(power >> shift if shift >= 0 else power << -shift))


_ROOT = math.exp(-0.5)
_PLACES = 2.0**-WORD
_ALL = (1 << WORD) - 1
_MARGIN = 2.0**-36  # more than the float error of a probability and the effect of unread digits


def rounded_knorm(scale: Fraction, size: int, word: Word) -> NDArray[np.int64]:
    r"""`scale · Y` to the nearest whole numbers, Y a vector of this size.

    .. math:: f(y) \propto e^{-\lVert y \rVert_2}, \qquad
              Y = \sqrt{M_0^2 + \dots + M_d^2}\;(N_1, \dots, N_d), \qquad M_j, N_j \sim \mathcal N(0, 1)

    Proved in docs/proofs/knorm.md, attacked by tests/statistical/test_knorm.py.

    `word` gives a fresh uniform number of 64 bits at each call. Numbers beyond int64 wrap, as sums with them do.
    """
    signs = [1 if word() & 1 else -1 for _ in range(size)]
    numbers = [half_normal(word) for _ in range(2 * size + 1)]
    bits = WORD
    while True:
        ends = []
        for more in (0, 1):
            known = [(k << bits) + x.prefix(bits) + more for k, x in numbers]
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
    r"""The absolute value of a normal number as k + x: its integer part, and the digits of the rest read so far.

    :math:`\Pr[k] \propto e^{-k/2}` and x is uniform. Both are accepted with probability
    :math:`\exp(-((k + x)^2 - k)/2)`.
    """
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
    """Bounds on ((k + x)² - k)/2 from the first digits of x."""
    low = k + Fraction(x.prefix(bits), 1 << bits)
    return (low**2 - k) / 2, ((low + Fraction(1, 1 << bits)) ** 2 - k) / 2


def _happens(about: float, energies: Callable[[int], tuple[Fraction, Fraction]], word: Word) -> bool:
    """Whether a uniform number is below exp(-E), estimated by `about`; reads digits until the answer is certain."""
    u = Uniform(word)
    estimate = u.digits * _PLACES
    if abs(estimate - about) > _MARGIN:
        return estimate < about
    bits = WORD
    while True:
        low, high = energies(bits)
        if (u.prefix(bits) + 1) << WORD <= exp(high, bits + WORD)[0]:
            return True
        if u.prefix(bits) << WORD >= exp(low, bits + WORD)[1]:
            return False
        bits += WORD
