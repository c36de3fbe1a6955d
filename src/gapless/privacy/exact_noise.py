r"""Real numbers of which the first digits are known: digits are read until they decide, and no float decides alone.

Exact draws from the generalized Cauchy law, rounded to whole numbers.

.. math:: f(x) \propto \frac1{1 + |x|^g}, \qquad |X|^g/(1 + |X|^g) \sim \mathrm{Beta}(1/g,\, 1 - 1/g)

A uniform :math:`Y` stands for :math:`|X|` below 1 and for :math:`1/|X|` above it; it is kept with probability
:math:`1/(1 + Y^g)` or :math:`Y^{g-2}/(1 + Y^g)`, which is at most 1 as :math:`g \ge 2`. All numbers are integers: the
digits of the uniform numbers are read until they decide, first whether :math:`Y` is kept, then to which whole number
`centre + scale · X` is rounded. Exponents are multiples of 1/4, so that powers are integer fourth roots. No float takes
part, so no float can leak. Proved in docs/proofs/smooth_cauchy.md, attacked by tests/statistical/test_smooth.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import count
from math import floor, isqrt

__all__ = ["WORD", "Uniform", "Word", "exp", "rounded_cauchy"]

WORD = 64  # bits read at a time
Word = Callable[[], int]  # a fresh uniform number of 64 bits at each call


class Uniform:
    """A uniform number in [0, 1) of which only the first digits are known: `digits / 2**bits`, or up to 1 more."""

    __slots__ = ("_word", "bits", "digits")

    def __init__(self, word: Word) -> None:
        self._word = word
        self.bits, self.digits = WORD, word()

    def read_on(self) -> None:
        """Read one more word."""
        self.bits, self.digits = self.bits + WORD, self.digits << WORD | self._word()

    def to(self, bits: int) -> int:
        """The first so many digits, read if they are not known yet."""
        while self.bits < bits:
            self.read_on()
        return self.digits >> self.bits - bits


def exp(x: Fraction, places: int) -> tuple[int, int]:
    """Integers below and above 2^places·exp(-x) for x ≥ 0, some hundred apart."""
    halvings = math.floor(2 * x).bit_length()
    numerator, denominator = (x / 2**halvings).as_integer_ratio()  # y < 1/2
    term = term_up = one = 1 << places
    total = total_up = 0
    for n in count(1):  # exp(y), by its series
        total, total_up = total + term, total_up + term_up
        term, term_up = term * numerator // (denominator * n), -(-term_up * numerator // (denominator * n))
        if term_up <= 1:
            break
    total_up += 2 * term_up  # each further term is less than half of the one before
    power, power_up = one * one // total_up, -(-one * one // total)
    for _ in range(halvings):  # exp(-2y) = exp(-y)²
        power, power_up = power * power >> places, -(-power_up * power_up >> places)
    return power, power_up


HALF = Fraction(1, 2)


def rounded_cauchy(centre: Fraction, scale: Fraction, quarters: int, word: Word) -> int:
    """The whole number nearest to `centre + scale · X`, where X has exponent g = quarters / 4.

    `word` gives a fresh uniform number of 64 bits at each call.
    """
    while True:
        coins = word()
        inner, sign = bool(coins & 1), 1 if coins & 2 else -1
        y = Uniform(word)
        if _kept(y, Uniform(word), quarters, inner=inner):
            break
    while True:
        one = 1 << y.bits
        if inner:
            low, high = Fraction(y.digits, one), Fraction(y.digits + 1, one)
        elif y.digits:
            low, high = Fraction(one, y.digits + 1), Fraction(one, y.digits)
        else:
            y.read_on()
            continue
        nearest = {floor(centre + sign * scale * x + HALF) for x in (low, high)}
        if len(nearest) == 1:
            return nearest.pop()
        y.read_on()


def _kept(y: Uniform, u: Uniform, quarters: int, *, inner: bool) -> bool:
    """Whether U (1 + Y^g) < 1, or < Y^(g-2) for the outer part; reads on until the answer is certain."""
    while True:
        bits, one = y.bits, 1 << y.bits
        power, power_up = _power(y.digits, bits, quarters), _power(y.digits + 1, bits, quarters) + 1
        limit, limit_up = one, one
        if not inner:
            limit = _power(y.digits, bits, quarters - 8)
            limit_up = _power(y.digits + 1, bits, quarters - 8) + 1
        if (u.digits + 1) * (one + power_up) <= limit << bits:
            return True
        if u.digits * (one + power) >= limit_up << bits:
            return False
        y.read_on()
        u.read_on()


def _power(digits: int, bits: int, quarters: int) -> int:
    """The whole part of 2^bits · (digits / 2^bits)^(quarters / 4)."""
    shift = bits * (quarters - 4)
    power = digits**quarters
    return isqrt(isqrt(power >> shift if shift >= 0 else power << -shift))
