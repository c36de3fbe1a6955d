"""What a release can be used for, by its noise and the relations that its rows keep: from released values, so free.

The error that noise alone is expected to cause (`precision` and `associations` of `gapless.inference`) is graded by the
limits that `gapless.evaluate.verdict` has for errors that were measured. Both are on
docs/how-to/how-good-is-a-release.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import comb, inf, sqrt
from statistics import median
from typing import Any, Literal

from gapless.data import Table
from gapless.draw.cards import GRADES, Grade
from gapless.evaluate.kept_relations import MOST_ROWS, associations_in_rows
from gapless.evaluate.verdict import CORRELATION_LIMITS, MEAN_LIMITS, SCORES, SPREAD_LIMITS, Limits, grade_of
from gapless.inference.associations import SPEARMAN, PairPrecision, pair_precision
from gapless.inference.intervals import TWO_SIDED
from gapless.inference.precision import ColumnPrecision, column_precision
from gapless.schema import Number
from gapless.synth.fitted import FittedModel
from gapless.text import listing, plural

Level = Literal["mostly noise", "limited", "good", "cannot tell"]

SHARE_LIMITS, TABLE_LIMITS = SCORES["one-way distance"][1], SCORES["two-way distance"][1]
MOSTLY_NOISE = 0.5  # of the columns not usable, or of the pairs if fewer columns than this are good: mostly noise
GOOD = 0.75  # of the columns, and of the correlations, at least: good

USES: dict[Grade, str] = {"good": "Usable for", "fair": "With care", "poor": "Not for"}
SENTENCES: dict[Level, str] = {
    "mostly noise": (
        "this release is mostly noise, and its rows are not for analysis. Ask two or three questions instead, if "
        "budget is left: each of them gets a large share of it. Rows of such a table need a larger ε, fewer columns, "
        "or more private rows."
    ),
    "limited": "this release is of limited use. Noise hides some values or relations, or the rows lose them.",
    "good": "noise is small in this release.",
    "cannot tell": (
        "the error of its relations is unknown, because the method keeps no measurements of pairs of columns. Compare "
        "the rows with the table (gapless evaluate), or use another method."
    ),
}
LEAST_WEAKENED = 0.05  # of a correlation, to be named
_MOST_NAMES = 4


@dataclass(frozen=True)
class Usability:
    """The verdict on a release: what its rows are usable for, by the noise in them.

    Attributes:
        verdict: "mostly noise", "limited", "good", or "cannot tell" if the method keeps no measurements of pairs.
        reasons: sentences with the numbers that decided.
        usable_for, with_care, not_for: uses, in the words of an analyst.
        columns: what noise leaves of each column.
        pairs: the same for each pair of columns that was measured together.
        in_rows: the association of each of these pairs in the synthetic rows; None where it is not known.
        weaker_relations: a sentence that names relations that are weaker in the rows than measured; else empty.
    """

    verdict: Level
    reasons: tuple[str, ...]
    usable_for: tuple[str, ...]
    with_care: tuple[str, ...]
    not_for: tuple[str, ...]
    columns: tuple[ColumnPrecision, ...]
    pairs: tuple[PairPrecision, ...]
    in_rows: tuple[float | None, ...]
    weaker_relations: str

    @property
    def sentence(self) -> str:
        """The verdict as a sentence, with what to do instead of using a bad release."""
        return f"Verdict: {self.verdict}. {SENTENCES[self.verdict][0].upper()}{SENTENCES[self.verdict][1:]}"

    @property
    def uses(self) -> list[tuple[Grade, tuple[str, ...]]]:
        """The uses of each grade that occurs, the best first."""
        found = zip(GRADES, (self.usable_for, self.with_care, self.not_for), strict=True)
        return [(grade, uses) for grade, uses in found if uses]

    def to_dict(self) -> dict[str, Any]:
        """Return the verdict for the manifest and for JSON."""
        return {
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "usable_for": list(self.usable_for),
            "with_care": list(self.with_care),
            "not_for": list(self.not_for),
        }

    def __str__(self) -> str:
        """The verdict, the uses, and the relations that rows lose; `reasons` has the numbers."""
        lines = [f"{USES[grade]}: {'; '.join(uses)}." for grade, uses in self.uses]
        return "\n  ".join([self.sentence, *lines, *filter(None, [self.weaker_relations])])


def usability(model: FittedModel, sample: Table | None = None) -> Usability:
    """Judge a release by its noise and by the relations that its rows keep, from released values alone.

    Args:
        model: of the release.
        sample: its synthetic rows, or the first of them: relations that are weaker in them than measured are named.
            Measured relations are of observed values. So rows whose gaps were filled are compared before that: rows
            with gaps are drawn in their place.
    """
    pairs = strongest_first(pair_precision(model))
    if sample is not None and model.gapped is not None and any(column.gaps for column in model.schema.columns):
        sample = model.sample(min(sample.rows, MOST_ROWS), seed=sample.seed, gaps="as-observed")
    in_rows = [None] * len(pairs) if sample is None else associations_in_rows(sample, pairs)
    rows = 0 if sample is None else min(sample.rows, MOST_ROWS)
    return _Judgement(model, tuple(column_precision(model)), pairs, tuple(in_rows), rows).usability


def strongest_first(pairs: Iterable[PairPrecision]) -> tuple[PairPrecision, ...]:
    """Sort pairs by the end of the interval of their association that is nearest to 0, then by the association."""
    return tuple(sorted(pairs, key=lambda pair: (-pair.least, -abs(pair.value), pair.columns)))


def loss_in_rows(pair: PairPrecision, in_rows: float | None, rows: int) -> float:
    """Return by how much a certain relation is weaker in the rows than measured; 0 if chance may explain it.

    Inside the wider interval of the pair, widened again by two standard errors of this many rows, chance may.
    """
    if in_rows is None or not pair.is_certain:
        return 0.0
    sign, chance = (1 if pair.value > 0 else -1), 2 / sqrt(max(rows, 1))
    return max(0.0, sign * (pair.value - in_rows)) if sign * in_rows < pair.least - chance else 0.0


def grade_of_column(column: ColumnPrecision) -> Grade:
    """Return the grade of the shares of a column.

    It is usable with care at best if it is mostly missing, or if `gapless estimate` has no interval for it.
    """
    if column.is_collapsed or not column.is_measured:
        return "poor"
    return grade_of(_error(column.distance, SHARE_LIMITS, is_known=_is_known(column)), SHARE_LIMITS)


def grade_of_mean(column: ColumnPrecision) -> Grade | None:
    """Return the grade of a mean by its 95 % error from noise, in standard deviations; None for levels.

    It is usable with care at best if noise hides the standard deviation, by which the error is divided.
    """
    if column.mean_std is None:
        return None
    is_known = _is_known(column) and not hides_spread(column)
    return grade_of(_error(TWO_SIDED * column.mean_std, MEAN_LIMITS, is_known=is_known), MEAN_LIMITS)


def hides_spread(column: ColumnPrecision) -> bool:
    """Whether noise alone can make the standard deviation not usable; its error is a share of the larger one."""
    error = TWO_SIDED * (column.spread_std or 0.0)
    return error > SPREAD_LIMITS.poor * (1 + error)


def _is_known(column: ColumnPrecision) -> bool:
    return not (column.is_mostly_missing or column.unsupported)


def _error(error: float, limits: Limits, *, is_known: bool) -> float:
    """Return an error; one that makes a use fair at best, if the error is not known from released values."""
    return error if is_known else max(error, limits.poor)


@dataclass(frozen=True)
class _Judgement:
    """The parts of a verdict; pairs with the strongest relations come first."""

    model: FittedModel
    columns: tuple[ColumnPrecision, ...]
    pairs: tuple[PairPrecision, ...]
    in_rows: tuple[float | None, ...]
    rows: int  # that were compared

    @property
    def usability(self) -> Usability:
        found: dict[Grade, list[str]] = {grade: [] for grade in GRADES}
        for grade, use in self._uses():
            found[grade].append(use)
        good, fair, poor = (tuple(found[grade]) for grade in GRADES)
        weaker = self._weaker()
        reasons = tuple(filter(None, (*self._reasons(), weaker)))
        return Usability(self.level, reasons, good, fair, poor, self.columns, self.pairs, self.in_rows, weaker)

    @cached_property
    def varying(self) -> list[ColumnPrecision]:
        """The columns that can vary and whose noise is known."""
        no_measurements = self.model.measurements is None
        return [
            column
            for column in self.columns
            if (column.column.size > 1 or column.is_collapsed) and not (no_measurements and not column.is_measured)
        ]

    @cached_property
    def tables(self) -> dict[tuple[int, int], float]:
        """The distance of each cross table by noise: at least that of its columns."""
        return {
            pair.columns: _error(
                max(pair.distance, *(1.0 if self._is_lost(c) else self.columns[c].distance for c in pair.columns)),
                TABLE_LIMITS,
                is_known=self._is_supported(pair),
            )
            for pair in self.pairs
        }

    @cached_property
    def correlations(self) -> dict[tuple[int, int], float]:
        """The error of the association of each pair: half its 95 % interval, or what the rows lose, if this is more."""
        return {
            pair.columns: _error(
                max(pair.half, loss_in_rows(pair, found, self.rows)),
                CORRELATION_LIMITS,
                is_known=self._is_supported(pair),
            )
            for pair, found in zip(self.pairs, self.in_rows, strict=True)
        }

    def _is_supported(self, pair: PairPrecision) -> bool:
        return not any(self.columns[c].unsupported for c in pair.columns)

    def _grade_of_pair(self, pair: PairPrecision) -> Grade:
        return grade_of(self.correlations[pair.columns], CORRELATION_LIMITS)

    def _is_lost(self, place: int) -> bool:
        return self.columns[place].is_collapsed

    @property
    def level(self) -> Level:
        grades = [_worse(grade_of_column(column), grade_of_mean(column)) for column in self.varying]
        pairs = [self._grade_of_pair(pair) for pair in self.pairs]
        if not grades:
            return "cannot tell"
        if _share([grade_of_column(column) for column in self.varying], "poor") >= MOSTLY_NOISE:
            return "mostly noise"
        if _share(grades, "good") < MOSTLY_NOISE and pairs and _share(pairs, "poor") >= MOSTLY_NOISE:
            return "mostly noise"
        if self.model.measurements is None and len(self.columns) > 1:
            return "cannot tell"
        has_relations = bool(pairs) or len(grades) < 2
        is_good = _share(grades, "good") >= GOOD and _share(pairs, "good") >= GOOD and has_relations
        return "good" if is_good else "limited"

    @cached_property
    def hidden_spreads(self) -> list[str]:
        """The columns whose standard deviation noise hides, unless they are lost."""
        return [c.column.name for c in self.varying if grade_of_column(c) != "poor" and hides_spread(c)]

    @property
    def _not_measured(self) -> int:
        return comb(len(self.varying), 2) - len(self.pairs)

    def _name(self, pair: PairPrecision) -> str:
        return " × ".join(self.model.schema.names[c] for c in pair.columns)

    def _uses(self) -> Iterable[tuple[Grade, str]]:
        yield from _by_grade("single columns", {c.column.name: grade_of_column(c) for c in self.varying})
        means = {c.column.name: grade for c in self.varying if (grade := grade_of_mean(c)) is not None}
        yield from _by_grade("means", means)
        spreads: dict[str, Grade] = {name: "poor" if name in self.hidden_spreads else "good" for name in means}
        yield from (use for use in _by_grade("standard deviations", spreads) if use[0] == "poor")
        yield from _by_grade("group means", {f"by {name}": grade for name, grade in self._group_grades().items()})
        yield from _by_grade("associations", {self._name(p): self._grade_of_pair(p) for p in self.pairs}, "pair")
        tables = {self._name(pair): grade_of(self.tables[pair.columns], TABLE_LIMITS) for pair in self.pairs}
        yield from _by_grade("cross tables", tables, "pair")
        if len(self.columns) > 1 and self.model.measurements is not None:
            values = [  # regressions are of values, not of ranks
                _error(error, CORRELATION_LIMITS, is_known=not any(hides_spread(self.columns[c]) for c in pair))
                for pair, error in self.correlations.items()
            ]
            yield self._learning_grade(values, CORRELATION_LIMITS), "regressions"
            yield self._learning_grade(list(self.tables.values()), TABLE_LIMITS), "classifiers"
            if self._not_measured > 0:
                yield "poor", f"relations of the {plural(self._not_measured, 'pair')} that were not measured"

    def _group_grades(self) -> dict[str, Grade]:
        """The grade of a typical mean of numbers in the groups of each column."""
        errors: dict[int, list[float]] = {}
        for pair in self.pairs:
            for averaged, groups in enumerate(reversed(pair.columns)):
                if (error := pair.group_means[averaged]) is not None:
                    error = inf if self._is_lost(groups) else error
                    is_known = self._is_supported(pair) and not hides_spread(self.columns[pair.columns[averaged]])
                    known_error = _error(error, MEAN_LIMITS, is_known=is_known)
                    errors.setdefault(groups, []).append(known_error)
        names = self.model.schema.names
        return {names[c]: grade_of(median(found), MEAN_LIMITS) for c, found in sorted(errors.items())}

    def _learning_grade(self, errors: Sequence[float], limits: Limits) -> Grade:
        """The grade of a typical pair; with care at best, if some pairs were not measured."""
        if not errors:
            return "poor"
        grade = grade_of(median(errors), limits)
        return "fair" if grade == "good" and self._not_measured > 0 else grade

    def _reasons(self) -> Iterable[str]:
        collapsed = [column.column.name for column in self.columns if column.is_collapsed]
        if collapsed:
            yield f"Lost, because noise left one bin for all values: {listing(collapsed)}."
        lost = [c.column.name for c in self.varying if not c.is_collapsed and grade_of_column(c) == "poor"]
        if lost:
            yield (
                f"Lost, because noise alone moves more than {SHARE_LIMITS.poor:.0%} of the rows to other cells: "
                f"{listing(lost)}."
            )
        no_interval = [column.column.name for column in self.varying if column.unsupported]
        if no_interval:
            yield f"No intervals, so usable with care at best: {listing(no_interval)}."
        if self.hidden_spreads:
            names = listing(self.hidden_spreads)
            yield f"Standard deviation hidden by noise, so the mean is usable with care at best: {names}."
        known = [column.distance for column in self.varying if not column.is_collapsed]
        means = [TWO_SIDED * column.mean_std for column in self.varying if column.mean_std is not None]
        moved = "noise alone moves {:.1%} of the rows to other cells"
        if known:
            yield f"Single columns: {moved.format(median(known))} in a typical column{_limits(SHARE_LIMITS, '.0%')}."
        if means and median(means) < inf:
            error = f"± {median(means):.2f} standard deviations by noise"
            yield f"Means: {error} in a typical column{_limits(MEAN_LIMITS, 'g')}."
        if self.pairs:
            half, certain = median(pair.half for pair in self.pairs), sum(pair.is_certain for pair in self.pairs)
            error = f"± {half:.2f} by noise and sampling in a typical pair{_limits(CORRELATION_LIMITS, 'g')}"
            yield f"Associations (Spearman's ρ or Cramér's V): {error}."
            table = moved.format(median(self.tables.values()))
            yield f"Cross tables: {table} in a typical pair{_limits(TABLE_LIMITS, '.0%')}."
            yield f"A relation is certain in {certain:,} of {plural(len(self.pairs), 'measured pair')} of columns."
        spread = [c.column.name for c in self.varying if isinstance(c.column, Number) and not c.column.step]
        if spread:
            yield (
                "No resolution is declared, so a value that many rows share, other than 0, would be spread over a "
                f"small cell: {listing(spread)}."
            )
        yield mostly_missing_sentence(self.columns)

    def _weaker(self) -> str:
        """Name the relations that the rows lose most of, beyond what noise and sampling explain."""
        known = zip(self.pairs, self.in_rows, strict=True)
        lost = [(loss_in_rows(pair, found, self.rows), pair, found) for pair, found in known]
        lost = sorted((entry for entry in lost if entry[0] >= LEAST_WEAKENED), key=lambda entry: -entry[0])
        if not lost:
            return ""
        most = lost[:_MOST_NAMES]
        named = [f"{self._name(pair)} ({found:.2f}, measured {pair.value:.2f})" for _, pair, found in most]
        more = f" and {len(lost) - len(named):,} more" if len(lost) > len(named) else ""
        return (
            f"Weaker in the rows than measured: {', '.join(named)}{more}. {self._advice([pair for _, pair, _ in most])}"
        )

    def _advice(self, pairs: Sequence[PairPrecision]) -> str:
        """Return the question that `gapless estimate` answers for the first of these pairs."""
        names = self.model.schema.names
        ranked = [pair for pair in pairs if pair.measure == SPEARMAN]
        asked, (first, second) = ("spearman", ranked[0].columns) if ranked else ("table", pairs[0].columns)
        return f'Ask gapless estimate, for example "{asked}({names[first]}, {names[second]})".'


def mostly_missing_sentence(columns: Sequence[ColumnPrecision]) -> str:
    """Return a question about columns that are filled although most of their cells are missing, or an empty text."""
    found = [f"{c.column.name} ({c.missing:.0%})" for c in columns if c.is_mostly_missing]
    if not found:
        return ""
    return (
        f"Missing in most rows, and filled in every synthetic row: {listing(found)}. Does no value mean that there is "
        'none, as in the cause of death of a living person? Then declare its code ("" for '
        'an empty cell) with kind = "not-applicable".'
    )


def _limits(limits: Limits, form: str) -> str:
    return f" (good up to {limits.good:{form}}, not usable above {limits.poor:{form}})"


def _worse(first: Grade, second: Grade | None) -> Grade:
    return first if second is None else GRADES[max(GRADES.index(first), GRADES.index(second))]


def _share(grades: Sequence[Grade], grade: Grade) -> float:
    """The share of a grade; 0 of nothing for a bad one, 1 for a good one."""
    return grades.count(grade) / len(grades) if grades else float(grade == "good")


def _by_grade(use: str, grades: dict[str, Grade], noun: str = "") -> Iterable[tuple[Grade, str]]:
    """Yield a use for each grade that occurs, with its columns or pairs: the first of them, if there are many."""
    for grade in GRADES:
        names = [name for name, found in grades.items() if found == grade]
        nouns = f" {noun}{'s' * (len(grades) != 1)}" if noun else ""
        if 0 < len(names) <= _MOST_NAMES:
            yield grade, f"{use} ({listing(names)})"
        elif names and len(names) == len(grades):
            yield grade, f"{use} (all {len(names):,}{nouns})"
        elif names:
            yield grade, f"{use} ({len(names):,} of {len(grades):,}{nouns}: {listing(names[:3])}, …)"
