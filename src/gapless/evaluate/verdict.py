"""The verdict of a comparison: what the compared table is good for, and its worst errors.

The limits are fixed and public (docs/how-to/how-good-is-a-release.md). For means and standard deviations they are a
tenth and a quarter of a standard deviation, the usual limits for balanced groups (Stuart 2010, §4.1, uses a quarter).
The limits for shares, ranks and correlations are our choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gapless.draw.cards import GRADES, Grade
from gapless.draw.charts import percent
from gapless.evaluate.values import MEAN, PEARSON, QUANTILES, SHARE, SPEARMAN, SPREAD, Difference, format_value
from gapless.text import listing, plural

if TYPE_CHECKING:
    from gapless.evaluate.comparison import Comparison, Score

LEADS: Mapping[Grade, str] = {"good": "Good for", "fair": "With care for", "poor": "Not for"}
BY_CHANCE = 4.0  # a difference below this multiple of a second sample's, three of its stds, counts as chance
SCORE_BY_CHANCE = 2.0  # the same for a mean of many differences, up to the limit for good above a second sample's
WORST = 5
GAPS, CRAMER = "share of gaps", "Cramér's V"
STRONG = 0.3  # an association in the truth above this is a strong relation
LOST = 0.5  # a strong relation is lost if less than this share of it is left
_MOST_NAMES = 3
_WORST_POSSIBLE = 4.0  # times the limit; beyond, the order of topics decides
_FEW_ROWS = 200


class Limits(NamedTuple):
    """An error up to `good` is good, above `poor` it is poor, between them it is fair."""

    good: float
    poor: float


class Topic(NamedTuple):
    """A use of a table, the measures for it, and the limits of their errors."""

    name: str
    measures: tuple[str, ...]
    limits: Limits


MEAN_LIMITS, SPREAD_LIMITS, CORRELATION_LIMITS = Limits(0.10, 0.25), Limits(0.10, 0.25), Limits(0.10, 0.20)

# The most important first; the order decides between equal errors.
TOPICS = (
    Topic("medians and quantiles", tuple(sorted(QUANTILES.values(), reverse=True)), Limits(0.05, 0.10)),  # median first
    Topic("means", (MEAN,), MEAN_LIMITS),
    Topic("shares of single values", (SHARE,), Limits(0.02, 0.05)),
    Topic("correlations", (PEARSON, SPEARMAN, CRAMER), CORRELATION_LIMITS),
    Topic("standard deviations", (SPREAD,), SPREAD_LIMITS),
    Topic("shares of gaps", (GAPS,), Limits(0.02, 0.05)),
)
_TOPIC_OF = {measure: topic for topic in TOPICS for measure in topic.measures}
_PLACE = {measure: place for place, measure in enumerate(_TOPIC_OF)}

# Scores over all columns: the use that they grade, if any, and their limits.
SCORES: Mapping[str, tuple[str, Limits]] = {
    "quantile error": ("", Limits(0.05, 0.10)),
    "mean error": ("", Limits(0.10, 0.25)),
    "correlation difference": ("", Limits(0.10, 0.20)),
    "rank correlation difference": ("", Limits(0.10, 0.20)),
    "spread error": ("", Limits(0.10, 0.25)),
    "Wasserstein distance, values": ("", Limits(0.10, 0.25)),
    "one-way distance": ("counts of levels and bins", Limits(0.05, 0.15)),
    "two-way distance": ("tables of two columns", Limits(0.10, 0.25)),
    "three-way distance": ("tables of three columns", Limits(0.15, 0.35)),
    "association difference": ("", Limits(0.05, 0.15)),
    "subgroup error": ("subgroups", Limits(0.10, 0.25)),
    "gap rate error": ("", Limits(0.02, 0.05)),
    "gap pattern distance": ("patterns of gaps", Limits(0.05, 0.15)),
    "gaps together error": ("", Limits(0.02, 0.05)),
    "Wasserstein distance, columns": ("", Limits(0.05, 0.15)),
    "F1 of nine classifiers": ("predictions", Limits(0.05, 0.15)),
    "ROC-AUC of a network": ("", Limits(0.05, 0.15)),
}


# What needs relations of columns: usable with care at best if a strong relation is lost, and not if most are.
RELATED_SCORES = frozenset({"two-way distance", "three-way distance", "subgroup error", "F1 of nine classifiers"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the compared table is good for, usable with care for, and not for; and its worst errors, as sentences."""

    good: tuple[str, ...]
    fair: tuple[str, ...]
    poor: tuple[str, ...]
    worst: tuple[str, ...]
    remarks: tuple[str, ...]

    @property
    def sentences(self) -> list[tuple[Grade, str]]:
        """One sentence for each grade that occurs, the best first."""
        return [(grade, f"{LEADS[grade]} {'; '.join(uses)}.") for grade in GRADES if (uses := getattr(self, grade))]

    def __str__(self) -> str:
        lines = [sentence for _, sentence in self.sentences]
        if self.worst:
            lines += ["The worst:", *(f"  {place}. {sentence}" for place, sentence in enumerate(self.worst, start=1))]
        return "\n".join([*lines, *self.remarks])


def grade_of(error: float, limits: Limits, *, by_chance: float = 0.0) -> Grade:
    """Return the grade of an error; an error that chance explains is good.

    >>> (
    ...     [grade_of(error, Limits(0.1, 0.2)) for error in (0.1, 0.15, 0.3)],
    ...     grade_of(0.3, Limits(0.1, 0.2), by_chance=0.3),
    ... )
    (['good', 'fair', 'poor'], 'good')
    """
    if error <= max(limits.good, by_chance):
        return "good"
    return "fair" if error <= limits.poor else "poor"


def grade_of_difference(difference: Difference) -> Grade | None:
    """Return the grade of a difference; None if its measure has no limits."""
    topic = _TOPIC_OF.get(difference.measure)
    if topic is None:
        return None
    return grade_of(difference.error, topic.limits, by_chance=BY_CHANCE * difference.chance)


def grade_of_score(score: Score) -> Grade | None:
    """Return the grade of a score; None if it has no limits or no value."""
    if score.value is None or score.name not in SCORES:
        return None
    error, chance, limits = abs(score.value - (score.best or 0.0)), score.second_sample or 0.0, SCORES[score.name][1]
    return grade_of(error, limits, by_chance=min(SCORE_BY_CHANCE * chance, chance + limits.good))


def verdict(comparison: Comparison) -> Verdict:
    """Return the verdict of a comparison."""
    found: dict[Grade, list[str]] = {grade: [] for grade in GRADES}
    for topic in TOPICS:
        by_grade = _columns_by_grade(comparison.differences, topic)
        of = sum(map(len, by_grade.values()))
        for grade, columns in by_grade.items():
            if columns:
                found[grade].append(topic.name + _of(columns, of, grade))
    strong, lost = strong_relations(comparison.differences)
    for score in comparison.scores:
        if (grade_of_all := grade_of_score(score)) is not None and (use := SCORES[score.name][0]):
            if score.name in RELATED_SCORES and lost:
                least: Grade = "poor" if 2 * len(lost) > len(strong) else "fair"
                grade_of_all = GRADES[max(GRADES.index(grade_of_all), GRADES.index(least))]
            found[grade_of_all].append(use)
    if lost:
        names = (f"{name} ({format_association(was)} became {format_association(now)})" for name, was, now in lost)
        found["poor"].append(f"strong relations that are lost: {listing(names)}")
    kinds = {column.name: column.kind for column in comparison.columns}
    return Verdict(
        tuple(found["good"]),
        tuple(found["fair"]),
        tuple(found["poor"]),
        tuple(describe_difference(difference, kinds) for difference in _worst(comparison.differences)),
        tuple(_remarks(comparison)),
    )


def strong_relations(differences: Iterable[Difference]) -> tuple[set[str], list[tuple[str, float, float]]]:
    """Return the pairs with a strong relation in the truth, and those that lost it with both associations.

    A pair with several measures has its largest loss.

    >>> strong_relations([Difference(("a", "b"), PEARSON, 0.6, 0.1, 0.5, 0.01)])
    ({'a × b'}, [('a × b', 0.6, 0.1)])
    """
    strong: set[str] = set()
    lost: dict[str, tuple[float, float]] = {}
    for difference in differences:
        if difference.measure not in (PEARSON, SPEARMAN, CRAMER) or difference.truth is None:
            continue
        name, truth = " × ".join(difference.columns), difference.truth
        left = 0.0 if difference.other is None else difference.other
        is_chance = difference.error <= BY_CHANCE * difference.chance
        if abs(truth) <= STRONG:
            continue
        strong.add(name)
        worst = lost.get(name)
        if left / truth < LOST and not is_chance and (worst is None or abs(truth - left) > abs(worst[0] - worst[1])):
            lost[name] = truth, left
    return strong, [(name, *both) for name, both in lost.items()]


def format_association(value: float) -> str:
    """Format an association; there is no minus before a zero.

    >>> format_association(-0.001), format_association(0.456)
    ('0.00', '0.46')
    """
    return f"{round(value, 2) + 0.0:.2f}"


def _columns_by_grade(differences: Sequence[Difference], topic: Topic) -> dict[Grade, list[str]]:
    """Return the columns or pairs of each grade; the worst difference of a topic decides."""
    worst: dict[str, int] = {}
    for difference in differences:
        if difference.measure in topic.measures and (grade := grade_of_difference(difference)) is not None:
            name = " × ".join(difference.columns)
            worst[name] = max(worst.get(name, 0), GRADES.index(grade))
    return {grade: [name for name, place in worst.items() if place == at] for at, grade in enumerate(GRADES)}


def _of(names: Sequence[str], of: int, grade: Grade) -> str:
    """Return which columns or pairs have a grade: nothing for all, a number for good ones, else their names."""
    if len(names) == of:
        return ""
    if grade == "good":
        return f" of {len(names)} of {plural(of, 'pair' if ' × ' in names[0] else 'column')}"
    more = len(names) - _MOST_NAMES
    return f" of {listing(names)}" if more < 2 else f" of {', '.join(names[:_MOST_NAMES])} and {more} more"


def _worst(differences: Iterable[Difference]) -> list[Difference]:
    """Return the worst differences that are not good, at most one for each column or pair."""
    bad = [difference for difference in differences if grade_of_difference(difference) in ("fair", "poor")]
    bad.sort(key=lambda difference: (-_severity(difference), _PLACE[difference.measure]))
    first: dict[tuple[str, ...], Difference] = {}
    for difference in bad:
        first.setdefault(difference.columns, difference)
    return list(first.values())[:WORST]


def _severity(difference: Difference) -> float:
    return min(difference.error / _TOPIC_OF[difference.measure].limits.poor, _WORST_POSSIBLE)


def describe_difference(difference: Difference, kinds: Mapping[str, str]) -> str:
    """Return a difference as a sentence.

    >>> describe_difference(Difference(("votes",), "median", 30.0, 8003.0, 0.48, 0.0), {"votes": "integer"})
    'votes: median 30 in the truth, 8,003 in the compared table.'
    >>> describe_difference(Difference(("bmi",), "mean", 30.0, 31.0, 0.14, 0.0, noise=0.2), {"bmi": "number"})
    'bmi: mean 30 in the truth, 31 in the compared table. Noise of the release: ± 0.20 standard deviations.'
    """
    kind = kinds[difference.columns[0]]
    name, measure = " × ".join(difference.columns), f" {difference.measure}"
    if difference.cell is not None:
        name, measure = f"{name} = {difference.cell}", ""
    truth, other = (format_number(value, difference.measure, kind) for value in (difference.truth, difference.other))
    noise = "" if difference.noise is None else f" Noise of the release: {_format_noise(difference)}."
    return f"{name}:{measure} {truth} in the truth, {other} in the compared table.{noise}"


def _format_noise(difference: Difference) -> str:
    noise = difference.noise or 0.0
    topic = _TOPIC_OF[difference.measure].name
    if topic in ("shares of single values", "shares of gaps"):
        return f"± {100 * noise:.1f} points"
    if topic == "medians and quantiles":
        return f"± {100 * noise:.0f} ranks of 100"
    if topic == "standard deviations":
        return f"± {100 * noise:.0f}%"
    return f"± {noise:.2f} standard deviations" if topic == "means" else f"± {noise:.2f}"


def format_number(value: float | None, measure: str, kind: str) -> str:
    """Format a statistic of a column: shares in percent, dates as dates, their standard deviations in days.

    >>> format_number(0.301, "share", "integer"), format_number(12.0, "standard deviation", "date")
    ('30.1%', '12 days')
    >>> format_number(None, "mean", "number")
    'no value'
    """
    if value is None:
        return "no value"
    if measure in (SHARE, GAPS):
        return percent(value)
    if measure in (PEARSON, SPEARMAN, CRAMER):
        return format_association(value)
    if measure in (MEAN, *QUANTILES.values()):
        return format_value(value, kind)
    return format_value(value, "number") + (" days" if kind in ("date", "datetime") else "")


def _remarks(comparison: Comparison) -> Iterator[str]:
    if comparison.spent is not None:
        yield "Only noisy counts of cells were compared, not means, quantiles and correlations of values."
    elif 0 < min(comparison.rows) < _FEW_ROWS:
        yield f"With {plural(min(comparison.rows), 'row')} much is chance: only large differences are listed."
    if comparison.kept:
        yield (
            f"The release keeps {comparison.kept}. If the truth has more, persons with many rows weigh less in the "
            "release than in the truth, and noise does not explain that."
        )
    bad = [difference for difference in comparison.differences if grade_of_difference(difference) in ("fair", "poor")]
    if bad and any(difference.noise is not None for difference in bad):
        explained = sum(difference.noise is not None and difference.error <= difference.noise for difference in bad)
        rest = "" if explained == len(bad) else " The others come from wide bins, filled gaps, the method, or chance."
        yield (
            f"The noise of the release is large enough to explain {explained} of "
            f"{plural(len(bad), 'fair or poor difference')}. Less noise needs a larger ε, more rows or fewer columns."
            f"{rest}"
        )
