"""Real numbers of which the first digits are known: digits are read until they decide, and no float decides alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from itertools import count

__all__ = ["WORD", "Uniform", "Word", "exp"]

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
