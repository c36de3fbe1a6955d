"""Which texts of a column a draft takes for gaps: usual codes, words, rare words among numbers, numbers as codes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import takewhile

from gapless.data.io.draft_column import (
    LIMIT,
    MOST_NAMED,
    PLACEHOLDER,
    USUAL_CODES,
    ObservedColumn,
    are_rare_words,
    numbers_of,
)
from gapless.data.io.draft_dates import moments_of
from gapless.schema.gap_codes import MissingCode, as_text
from gapless.schema.gap_words import gap_kind
from gapless.text import listing

BESIDE_CODES, OFTEN = 5, 3  # numbers beside 98, 99; how often these are more frequent than all of them, at least
APART = 0.25  # distance of -9 from other negative numbers, as a share of their range
MOST_ANSWERS = 20  # numbers of a short run, at most: an answer, a rating or a count
LAST_BEFORE_ONE_DIGIT = 5  # 7, 8 and 9 may be codes after 1, 2, 3, 4, 5
IN_SEVERAL = 3  # columns in which the same number stands apart, from which on it is rather a code
# The numbers that surveys use for gaps, far from all others: -9, -88, 77, 98, 999.
GAP_NUMBER = re.compile(r"-7+|-8+|-9+|77+|88+|99+")
_FAR_YEAR = re.compile(r"(?<!\d)(9999|8888|7777|2999|2222|1111|0001)(?!\d)")
# In a column of answers also these, beside the others: -1, 66, 96, 97, 98, 996, 997, 998.
_CODE_OF_ANSWERS = re.compile(rf"-[1-9]|-?9+[5-8]|66+|{GAP_NUMBER.pattern}")


def split_gaps(seen: ObservedColumn, codes_of_several: Collection[str] = ()) -> tuple[list[MissingCode], set[str]]:
    """The codes of a column's gaps, and all its other texts. Remarks are added for what is not certain.

    Args:
        seen: what was seen of the column.
        codes_of_several: one-digit codes that stand apart in several columns (`codes_of_several`).
    """
    codes = sorted(seen.texts & set(USUAL_CODES))
    texts = seen.texts - set(USUAL_CODES)
    named = _named_gaps(texts)
    rare = _rare_words(texts - named, seen)
    values = texts - named - rare
    if _on_a_line(values):
        odd = codes_among(values, codes_of_several) or _far_dates(values)
        codes += sorted(named) + sorted(rare) + odd
        texts = values - set(odd)
        _remark_words(seen, rare)
        if odd:
            seen.remarks.append(f"taken for gaps: {listing(odd)}")
    return [MissingCode(code, gap_kind(code) or "unknown") for code in codes], texts


def _named_gaps(texts: set[str]) -> set[str]:
    """The texts that name a gap, such as "refused"; among other words they may be a level."""
    unlike_numbers = {text for text in texts if not re.search(r"\d", text)}
    return set(filter(gap_kind, unlike_numbers)) if len(unlike_numbers) <= MOST_NAMED else set()


def _rare_words(texts: set[str], seen: ObservedColumn) -> set[str]:
    """The few words among many numbers or many dates."""
    for values in ({text for text in texts if numbers_of({text})}, _dates_among(texts)):
        if values and are_rare_words(texts - values, values, seen.times):
            return texts - values
    return set()


def _dates_among(texts: set[str]) -> set[str]:
    """The texts with a digit, if they are dates."""
    dated = {text for text in texts if re.search(r"\d", text) and not LIMIT.fullmatch(text)}
    dated = {text for text in dated if not PLACEHOLDER.fullmatch(text)}
    return dated if dated and moments_of(dated)[0] else set()


def _far_dates(texts: set[str]) -> list[str]:
    """The dates of a year such as 9999, among dates of other years."""
    far = {text for text in texts if _FAR_YEAR.search(text)}
    return sorted(far) if far and len(texts) > len(far) and numbers_of(texts) is None else []


def _remark_words(seen: ObservedColumn, rare: set[str]) -> None:
    limits = sorted(word for word in rare if LIMIT.fullmatch(word))
    if not_limits := sorted(rare - set(limits)):
        seen.remarks.append(f"not numbers or dates, so taken for gaps: {listing(not_limits)}")
    if limits:
        seen.remarks.append(f"limits, taken for gaps: {listing(limits)}; write numbers in the data instead")


def _on_a_line(texts: set[str]) -> bool:
    """Whether all of these are numbers, or all of them dates."""
    return bool(texts) and (numbers_of(texts) is not None or bool(moments_of(texts)[0]))


def codes_among(texts: set[str], codes_of_several: Collection[str] = ()) -> list[str]:
    """Numbers that look like codes for gaps.

    Among any numbers, those of sevens, eights or nines: -9 if no other is negative, 999 far above the others. Among
    answers, which are a short run such as 1, 2, 3, also 97, 98, -1 beside -9, and 8 and 9 after 1, 2.

    >>> codes_among({"1", "2", "-8", "-9"}), codes_among({"1", "2", "3", "97", "98"}), codes_among({"1", "2", "9"})
    (['-9', '-8'], ['97', '98'], [])
    """
    numbers = sorted(set(numbers_of(texts) or []))
    run = _run(numbers)
    apart = [number for number in numbers if number not in run]
    if run and apart and all(_CODE_OF_ANSWERS.fullmatch(as_text(number)) for number in apart if not 6 < number < 10):
        found = _negative(apart) + _one_digit(run, apart, codes_of_several) + [n for n in apart if n > 2 * run[-1] + 9]
        if found and len(found) == len(apart) and any(map(_is_code, found)):
            return [as_text(number) for number in found]
    odd = [number for number in numbers if GAP_NUMBER.fullmatch(as_text(number))]
    rest = [number for number in numbers if number not in odd]
    if len(rest) < 3:
        return []
    lowest, highest = rest[0], rest[-1]
    return [as_text(number) for number in odd if number < 0 <= lowest or number - highest > highest - lowest]


def _is_code(number: float) -> bool:
    """Whether a number among answers is a code by itself; -1, 66 and 96 are only beside others."""
    return 6 < number < 10 or re.fullmatch(rf"{GAP_NUMBER.pattern}|9+[78]", as_text(number)) is not None


def _run(numbers: list[float]) -> list[float]:
    """The numbers from 0 or 1 on that follow one another; one of them may be absent. Empty if there are many."""
    run: list[float] = []
    for number in numbers:
        if (not run and number in (0, 1)) or (run and number - run[-1] <= (1 if len(run) < 3 else 2)):
            run.append(number)
    jumps = [place for place in range(1, len(run)) if run[place] - run[place - 1] > 1]
    run = run[: jumps[0]] if len(jumps) > 1 else run  # 7 and 9 after 1, 2, 3, 4, 5
    whole = all(number == int(number) for number in run)
    return run if whole and len(run) <= MOST_ANSWERS else []


def _negative(apart: list[float]) -> list[float]:
    """The negative numbers, unless they lead down from the others as on a scale from -9 to 9."""
    below = [number for number in apart if number < 0]
    return below if below != list(range(-len(below), 0)) else []


def _one_digit(run: list[float], apart: list[float], codes_of_several: Collection[str]) -> list[float]:
    """The 7, 8 and 9 that stand apart from short answers: two of them, or one that does so in several columns."""
    digits = [number for number in apart if 6 < number < 10]
    if not digits or run[-1] > LAST_BEFORE_ONE_DIGIT or digits[0] - run[-1] < 2:
        return []
    is_usual = set(map(as_text, digits)) <= set(codes_of_several)
    return digits if is_usual or digits == [7, 9] or (len(digits) > 1 and digits[0] - run[-1] > 2) else []


def codes_of_several(columns: Iterable[ObservedColumn]) -> set[str]:
    """The 7, 8 or 9 that stand apart from a few answers in several columns.

    A 9 after 1, 2, 3 in one column may be an answer. Eighty items that all have it say that it is a code.
    """
    times: Counter[str] = Counter()
    for seen in columns:
        numbers = sorted(set(numbers_of(seen.texts - set(USUAL_CODES)) or []))
        run = _run(numbers)
        if run and run[-1] <= LAST_BEFORE_ONE_DIGIT and len(run) < len(numbers) <= MOST_ANSWERS:
            times.update(as_text(number) for number in numbers if 6 < number < 10 and number - run[-1] > 2)
    return {code for code, columns_with_it in times.items() if columns_with_it >= IN_SEVERAL}


def extreme_remark(texts: set[str], times: Mapping[str, int]) -> str:
    """A remark if the smallest or largest numbers look like codes.

    These are the only negative number, 999 far above the rest, 97, 98, 99 in far more rows than numbers below them, and
    -9 far below other negative numbers, in far more rows than these.
    """
    numbers = numbers_of(texts)
    if numbers is None or len(numbers) < 3:
        return ""
    lowest, second, *_ = ordered = sorted(numbers)
    *_, last, highest = ordered
    digits = set(as_text(highest))
    if lowest < 0 <= second and lowest == int(lowest):
        odd = lowest
    elif len(digits) == 1 and digits <= set("789") and highest - last > last - lowest:
        odd = highest
    elif frequent := _frequent_codes(texts, times):
        return f"in many rows, so perhaps codes for gaps: {listing(frequent)}"
    else:
        return ""
    return f"{odd:g} looks like a code for a gap: if it is one, write missing = [{odd:g}]"


def _frequent_codes(texts: set[str], times: Mapping[str, int]) -> list[str]:
    """The largest or smallest numbers if they look like codes and are far more frequent than those beside them."""
    ordered = sorted(texts, key=float, reverse=True)
    lowest, second, highest = (float(ordered[place]) for place in (-1, -2, 0))
    is_apart = second - lowest > APART * (highest - second)
    largest = list(takewhile(_CODE_OF_ANSWERS.fullmatch, ordered))
    smallest = [ordered[-1]] if is_apart and GAP_NUMBER.fullmatch(ordered[-1]) else []
    for codes, others in ((largest, ordered), (smallest, ordered[::-1])):
        beside = others[len(codes) : len(codes) + BESIDE_CODES]
        is_frequent = min((times[text] for text in codes), default=0) >= OFTEN * max(
            map(times.__getitem__, beside), default=1
        )
        if len(beside) == BESIDE_CODES and is_frequent:
            return sorted(codes)
    return []
