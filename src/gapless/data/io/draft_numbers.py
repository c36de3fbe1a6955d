"""Columns of numbers in a draft: levels, a bin for each value, or learned bins; the resolution, the scale, heaping."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from gapless.data.io.draft_column import PLAINLY, ObservedColumn
from gapless.schema.bins import Scale
from gapless.schema.columns import MOST_LEVELS, Categorical, Column, Ordinal
from gapless.schema.numeric import DEFAULT_BINS, LARGEST, LARGEST_WHOLE, LEARNED, Integer, Number

MOST_DECIMALS = 4  # numbers with more decimals get no resolution
LEAST_ON_STEP = 0.95  # share of rows on a coarser step from which it is proposed in their place
FREQUENT_SHARE = 0.05  # share of rows with one number from which its loss is remarked
MOST_ORDINAL_LEVELS = 60  # numbers that may as well be levels
FEW_VALUES = 12  # different numbers that may become levels
FEW_STEPS = 25  # values between the bounds that may get a bin each
MOST_OCCUR = 0.6  # share of these values that must occur
LEAST_VALUES = 5  # different ones among them, at least
ROWS_PER_VALUE = 5  # on average, at least: otherwise few rows are the reason for few values
LONG_TAIL = 50  # the largest number over the median of the different numbers, from which on a log scale is proposed
HEAPS = (2, 5, 10, 50, 100, 500, 1000, 5000, 10_000)  # steps at which values may pile up, in smallest steps
HEAPED, NEARLY_ALL = 2.0, 9.0  # least odds of a multiple beside its neighbours, and of an even number
HEAPED_ROWS = 0.05  # least excess, as a share of rows
NEIGHBOURS, LEAST_MULTIPLES = 2, 3  # neighbours on either side, at most; multiples that occur, at least
LEVELS_REMARK = (
    'its numbers were taken as ordered levels; write kind = "integer" or "number" if they count or measure, '
    '"categorical" if they are codes'
)


def numeric_column(
    seen: ObservedColumn, numbers: list[float], texts: set[str], common: Mapping[str, Any]
) -> Column | str:
    """A column of these numbers, or why it is left out.

    Args:
        seen: what was seen of the column. A remark is added if it is not certain what the numbers are.
        numbers: the different numbers.
        texts: their texts, as 1234.5.
        common: the keys that every kind of column has.
    """
    name = seen.name
    signs: dict[str, Any] = dict(zip(("decimal", "thousands"), seen.style, strict=True))
    levels, plainly = _levels(seen, texts), seen.style == PLAINLY
    lower, upper = min(numbers), max(numbers)
    whole = all(number == int(number) for number in numbers)
    if max(-lower, upper) > (LARGEST_WHOLE if whole else LARGEST):
        return "its numbers are very large, such as identifiers"
    if whole and 2 < len(numbers) >= upper - lower < DEFAULT_BINS:  # such as a rating from 1 to 5: a bin for each
        return Integer(name, bounds=(int(lower), int(upper)), **signs, **common)
    step = 1 if whole else _usual_resolution(seen, numbers, texts)
    lower, upper, steps = _bounds(lower, upper, step)
    enough_rows = seen.rows_with(texts) >= ROWS_PER_VALUE * len(numbers)
    if enough_rows and step and len(numbers) >= max(LEAST_VALUES, MOST_OCCUR * steps) and steps <= FEW_STEPS:
        if whole:
            return Integer(name, bounds=(int(lower), int(upper)), bins=steps, **signs, **common)
        return Number(name, bounds=(lower, upper), resolution=step, bins=steps, **signs, **common)
    few = plainly and len(numbers) <= (FEW_VALUES if enough_rows else DEFAULT_BINS if whole else 0)
    if lower == upper or (len(numbers) == 2 and few):
        return Categorical(name, levels, **common)
    if few and not _is_count(numbers):
        seen.remarks.append(LEVELS_REMARK)
        return Ordinal(name, levels, **common)
    common = {**common, **signs, "bins": LEARNED, "scale": _scale(numbers, lower)}
    if step is not None:
        times: Counter[int] = Counter()
        for text in texts:
            times[round(float(text) / step)] += seen.times[text]
        common["heaping"] = tuple(round(heap * step, MOST_DECIMALS) if step != 1 else heap for heap in _heaps(times))
    else:
        seen.remarks += _spread_remark(seen, texts)
    if whole:
        return Integer(name, bounds=(int(lower), int(upper)), **common)
    return Number(name, bounds=(lower, upper), resolution=step, **common)


def _spread_remark(seen: ObservedColumn, texts: set[str]) -> list[str]:
    """A remark if a release would spread a frequent number, for lack of a common step. 0 has a cell of its own."""
    frequent = max((text for text in texts if float(text)), key=lambda text: (seen.times[text], text))
    share = seen.times[frequent] / seen.rows_with(texts)
    levels = ' or write kind = "ordinal"' if len(texts) <= MOST_ORDINAL_LEVELS else ""
    remark = (
        f"{share:.0%} of its numbers are {frequent}, which a release spreads over a small cell; to keep it, declare a "
        f"resolution{levels}"
    )
    return [remark] if share >= FREQUENT_SHARE else []


def _levels(seen: ObservedColumn, texts: set[str]) -> list[str] | list[int]:
    """The numbers as levels, in order: as the file writes them."""
    written = {text: seen.written.get(text, text) if seen.style != PLAINLY else text for text in texts}
    names = [written[text] for text in sorted(texts, key=float)]
    whole = [int(float(text)) for text in sorted(texts, key=float) if float(text) == int(float(text))]
    return whole if list(map(str, whole)) == names else names


def _is_count(numbers: list[float]) -> bool:
    """Whether most of these follow one another from 0 or 1 on, as counts do: 0, 1, 2, 3, 4, 5, 7, 12."""
    ordered = sorted(numbers)
    first = next((place for place, number in enumerate(ordered) if number != ordered[0] + place), len(ordered))
    return ordered[0] in (0, 1) and LEAST_VALUES <= first >= len(ordered) / 2


def _heaps(times: Mapping[int, int]) -> list[int]:
    """The steps at whose multiples values pile up, from how often each whole number occurs.

    The step whose multiples stand out most from their neighbours is found first. A coarser one must stand out among
    these multiples, and for a finer one they are left aside. So are 0, the smallest and the largest number: they are
    spikes for other reasons.
    """
    first, last = min(times), max(times)
    left = {value: many for value, many in times.items() if value not in (0, first, last)}
    least, found = HEAPED_ROWS * sum(left.values()), []
    while strengths := {
        heap: _strength(left, heap, least) for heap in HEAPS if heap < last - first < heap * MOST_LEVELS // 8
    }:
        unit = max(strengths, key=strengths.__getitem__)
        if not strengths[unit]:
            break
        among = {value: many for value, many in left.items() if value % unit == 0}
        left = {value: many for value, many in left.items() if value % unit}
        found.append(unit)
        for heap in (heap for heap in HEAPS if heap > unit):
            if heap % unit == 0 and _strength({v // unit: many for v, many in among.items()}, heap // unit, least):
                found.append(heap)
                among, unit = {value: many for value, many in among.items() if value % heap == 0}, heap
    return sorted(set(found))


def _strength(times: Mapping[int, int], heap: int, least: float) -> float:
    """How much the multiples of a step stand out from their neighbours; 0 if by fewer than `least` rows."""
    reach = min(heap // 2, NEIGHBOURS)
    sides = [side for side in range(-reach, reach + 1) if side]
    on = {value: many for value, many in times.items() if value % heap == 0}
    beside = sum(times.get(value + side, 0) for value in on for side in sides) / len(sides)
    excess = sum(on.values()) - beside
    odds = NEARLY_ALL if heap == 2 else HEAPED  # a slight preference for even numbers is no heaping
    if len(on) < LEAST_MULTIPLES or sum(on.values()) <= odds * beside or excess <= least:
        return 0.0
    return excess / math.sqrt(beside + 1)


def _decimals(number: float) -> int:
    """The number of digits after the decimal point, also of 3e-07."""
    exponent = Decimal(repr(number)).normalize().as_tuple().exponent
    return max(0, -exponent) if isinstance(exponent, int) else MOST_DECIMALS + 1


def _resolution(numbers: list[float]) -> float | None:
    """The largest step of which all are multiples, if they have few decimals."""
    decimals = max(map(_decimals, numbers))
    steps = (round(number * 10**decimals) for number in numbers)
    return math.gcd(*steps) / 10**decimals if decimals <= MOST_DECIMALS else None


def _bounds(lower: float, upper: float, step: float | None) -> tuple[float, float, int]:
    """Return the nearest multiples of the step to these bounds, and how many there are from one to the other."""
    if step is None:
        return lower, upper, 0
    first, last = round(lower / step), round(upper / step)
    return round(first * step, MOST_DECIMALS), round(last * step, MOST_DECIMALS), last - first + 1


def _usual_resolution(seen: ObservedColumn, numbers: list[float], texts: set[str]) -> float | None:
    """The step of all numbers; or of nearly all rows, if the others have many decimals, as imputed means do.

    A remark is added in the second case.
    """
    if (step := _resolution(numbers)) is not None:
        return step
    for decimals in range(MOST_DECIMALS):
        usual = {text for text in texts if _decimals(float(text)) <= decimals}
        share = seen.rows_with(usual) / seen.rows_with(texts)
        if share >= LEAST_ON_STEP and len(usual) >= LEAST_VALUES:
            step = _resolution([float(text) for text in usual])
            if step is None or max(map(abs, numbers)) >= LARGEST_WHOLE * step:
                return None
            seen.remarks.append(
                f"{share:.1%} of its numbers are multiples of {step:g}, so resolution = {step:g} keeps their "
                "frequencies and rounds the others; remove it to avoid rounding"
            )
            return step
    return None


def _scale(numbers: list[float], lower: float) -> Scale:
    """A log scale if most numbers are small compared with the largest; `lower` is the lower bound."""
    sizes = sorted(map(abs, numbers))
    if sizes[-1] < LONG_TAIL * max(sizes[len(sizes) // 2], 1):
        return "linear"
    return "log" if lower > 0 else "symlog"
