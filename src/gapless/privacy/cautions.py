"""What is weak about a promise, told in words before it is paid for.

The limits follow NIST SP 800-226: ε above 1 is to be weighed, ε above 10 protects little by itself, and δ must be
clearly below one in the number of people: a mechanism that publishes each row with probability δ satisfies (0, δ).
The number of rows is private, so that δ is held against a public one or, where none is stated, against `USUAL_ROWS`.
"""

from __future__ import annotations

import math

from gapless.text import plural, rounded_up, told_up

HIGH_EPSILON = 1.0
VERY_HIGH_EPSILON = 10.0
USUAL_ROWS = 10_000  # assumed where nothing is said
CLEARLY = 10  # δ is clearly below one in n if it is at most one in 10 n
UNREGISTERED = (
    "the folder of the data cannot be written to, so that a second ledger for the same files would not be noticed. "
    "Use one ledger for them, always the same."
)


def cautions(epsilon: float, delta: float, *, expected_rows: int | None = None) -> list[str]:
    """What a holder should weigh before making this promise; nothing if it is a usual one.

    >>> cautions(1.0, 1e-6)
    []
    >>> print(*cautions(3.0, 1e-6))
    ε = 3 is above 1: odds about one person can shift by a factor of up to e^ε = 20.09. Weigh whether that is enough.
    """
    told = []
    if math.isfinite(epsilon) and epsilon > HIGH_EPSILON:
        odds = f"odds about one person can shift by a factor of up to e^ε = {factor(epsilon)}"
        if epsilon > VERY_HIGH_EPSILON:
            told.append(
                f"ε = {told_up(epsilon)} is above 10, A VERY WEAK PROMISE: {odds}. It hardly protects by itself."
            )
        else:
            told.append(f"ε = {told_up(epsilon)} is above 1: {odds}. Weigh whether that is enough.")
    rows = expected_rows or USUAL_ROWS
    if delta * rows * CLEARLY > 1 + 1e-9:
        said = "that the schema expects" if expected_rows else "assumed, since the schema states no expected_rows"
        said = f"{plural(rows, 'row')} {said}"
        told.append(
            f"δ = {told_up(delta)} is one in {1 / delta:,.0f}, not clearly below one in the {said}: rows "
            f"could be published whole with that probability each. At most {1 / (CLEARLY * rows):g} would be clear."
        )
    return told


def factor(epsilon: float) -> str:
    """e^ε for people, never less than it is.

    >>> factor(1.0), factor(1000.0)
    ('2.719', '10^435')
    """
    return rounded_up(math.exp(epsilon)) if epsilon < 20 else f"10^{math.ceil(epsilon / math.log(10))}"
