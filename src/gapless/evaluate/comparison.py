"""The comparison of two tables: scores, columns, pairs, subgroups, gaps, tasks and constraints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gapless.constraints.rules import rules_of
from gapless.constraints.violations import ValueRanges, Violations, violations
from gapless.data import PrivateTable, Table
from gapless.data.checks import given_weights, to_shared_bins
from gapless.data.points import comparable_rows
from gapless.errors import Argument, Call, Hint, SchemaError, SealedError, Variable
from gapless.evaluate.gap_fidelity import GapFidelity, Pattern, compare_gaps
from gapless.evaluate.marginals import (
    Pair,
    Subgroup,
    column_wasserstein,
    compare_pairs,
    compare_subgroups,
    kway_distance,
    select_rows,
    shares,
    total_variation,
    wasserstein_distance,
)
from gapless.evaluate.release_noise import with_noise
from gapless.evaluate.tasks import (
    coefficient_error,
    detection,
    f1_scores,
    mean_f1,
    needs_sklearn,
    positive_cells,
    roc_auc,
)
from gapless.evaluate.values import (
    DISTANCE,
    MEAN,
    MEAN_SIZE,
    PEARSON,
    QUANTILES,
    SHARE,
    SPEARMAN,
    SPREAD,
    Difference,
    chance_of_means,
    chance_of_shares,
    compare_values,
)
from gapless.evaluate.verdict import GAPS, Verdict, grade_of_score, verdict
from gapless.files import write_atomically as replace_file
from gapless.privacy import Ledger
from gapless.schema import Schema
from gapless.schema.columns_toml import KINDS
from gapless.schema.numeric import BinnedColumn
from gapless.synth.fitted import FittedModel
from gapless.text import plural
from gapless.types import Floats

Progress = Callable[[str, int, int], object]

Stage = Callable[[str], object]

_STAGES = ("columns", "pairs", "subgroups", "sets of one", "sets of two", "sets of three", "rows")  # for the progress
_ROWS = "Wasserstein distance, rows"
SECOND_SAMPLE = (
    "Second sample: about the score of as many other people from the same population. No table can be expected to do "
    "better. A score counts as chance if it is below twice this value, and above it by at most the limit for good."
)
COMPARE_PRIVATE = Call(
    "gapless.evaluate.compare_private", Variable("people"), Variable("other"), Argument("spend", "5%")
)
_COMPLETE = "Only rows without a gap, because one of the two tables is filled."


@dataclass(frozen=True, slots=True)
class Score:
    """One number.

    Attributes:
        name: the name of the score.
        value: the number; None if there was nothing to compute it from.
        best: the score of the truth itself.
        about: the meaning, in a sentence.
        between: for a noisy number, the interval that the noise leaves open.
        second_sample: about the score of another sample from the same population, from two parts of the truth.
    """

    name: str
    value: float | None
    best: float | None
    about: str
    between: tuple[float, float] | None = None
    second_sample: float | None = None


@dataclass(frozen=True, slots=True)
class ColumnScore:
    """One column in both tables: shares of its observed cells, distances, shares of gaps.

    Attributes:
        noise: for noisy shares, the standard deviation of each.
        between: for a noisy distance, the interval that the noise leaves open.
    """

    name: str
    kind: str
    cells: tuple[str, ...]
    truth: tuple[float, ...]
    other: tuple[float, ...]
    distance: float | None
    wasserstein: float | None
    gaps: tuple[float, float] | None
    noise: float | None = None
    between: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class TaskScore:
    """One column as a label: the scores of classifiers trained on the other table, and on the truth."""

    label: str
    positive: tuple[str, ...]
    f1: dict[str, float]
    f1_of_truth: dict[str, float]
    auc: float | None
    auc_of_truth: float | None
    coefficient_mse: float | None

    @property
    def means(self) -> tuple[float, float]:
        """The mean F1 of the nine classifiers: from the other table, from the truth."""
        return float(np.mean(list(self.f1.values()))), float(np.mean(list(self.f1_of_truth.values())))


@dataclass(frozen=True, slots=True)
class Comparison:
    """How far one table is from another.

    Attributes:
        table: the name of the table.
        rows: the number of rows of the truth (noisy, if it is private) and of the other table.
        weighted: whether the rows of the other table have weights.
        scores: the scores, the most general first.
        columns, pairs, subgroups, patterns, tasks: the parts of the comparison.
        spent: what the comparison cost, if the truth is private; None for an exact comparison.
        promise: the guarantee of the ledger, if one was given.
        differences: statistics of single columns and of pairs in both tables: of values, where these were compared,
            else of cells.
        rules: how often both tables break each constraint of the schema; none if the truth is private.
    """

    table: str
    rows: tuple[int, int]
    weighted: bool
    scores: tuple[Score, ...]
    columns: tuple[ColumnScore, ...]
    pairs: tuple[Pair, ...]
    subgroups: tuple[Subgroup, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    tasks: tuple[TaskScore, ...] = ()
    spent: str | None = None
    promise: str | None = None
    differences: tuple[Difference, ...] = ()
    rules: tuple[RuleScore, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """What the compared table is good for and what not, by fixed limits."""
        return verdict(self)

    def __getitem__(self, name: str) -> Score:
        found = [score for score in self.scores if score.name == name]
        if not found:
            raise SchemaError(
                f"this comparison has no score {name!r}",
                hint=f"use one of: {'; '.join(score.name for score in self.scores)}",
            )
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison for JSON."""
        return {"nature": self.nature, "verdict": asdict(self.verdict), **asdict(self)}

    def write(self, path: str | Path) -> None:
        """Write the comparison as one HTML page, without scripts. Exact numbers are refused in a release folder."""
        if self.spent is None and (Path(path).resolve().parent / "manifest.json").exists():
            raise SealedError(
                f"{path} is in a release folder, but the page has exact numbers from the cells of the truth",
                hint=Hint("choose another folder") | Hint("release noisy numbers instead, with ", COMPARE_PRIVATE),
            )
        from gapless.evaluate.comparison_page import comparison_page  # noqa: PLC0415 imported only when a page is drawn

        with replace_file(Path(path)) as partial:
            partial.write_text(comparison_page(self), encoding="utf-8")

    def __str__(self) -> str:
        width = max(len(score.name) for score in self.scores)
        lines = [f"{self.table}: {self.sizes}", self.nature, "", str(self.verdict), ""]
        for score in self.scores:
            value = "-" if score.value is None else f"{score.value:.4f}"
            left = "" if score.between is None else f"  ({score.between[0]:.4f} to {score.between[1]:.4f})"
            best = "" if score.best is None else f"  best {score.best:.4g}"
            again = "" if score.second_sample is None else f"  second sample {score.second_sample:.4f}"
            grade = grade_of_score(score) or ""
            lines.append(f"  {score.name:<{width}}  {value:>8}  {grade:<4}{best}{again}{left}".rstrip())
        if any(score.second_sample is not None for score in self.scores):
            lines += ["", SECOND_SAMPLE]
        if self.rules:
            lines += ["", "Constraints that rows break:", *(f"  {rule}" for rule in self.rules)]
        return "\n".join(lines)

    @property
    def sizes(self) -> str:
        """The numbers of rows, with a remark if a table has none."""
        about = "" if self.spent is None else "about "
        sizes = f"{about}{plural(self.rows[0], 'row')} of truth, {plural(self.rows[1], 'row')} compared with it"
        sizes += ", weighted" if self.weighted else ""
        return sizes if all(self.rows) else f"{sizes}: without rows there is nothing to compare"

    @property
    def nature(self) -> str:
        """Whether these numbers may be published."""
        if self.spent is None:
            return (
                "Exact numbers from the cells of the truth: they cost nothing, and may be shown only if it is public."
            )
        if self.promise is not None and self.promise.startswith("NOT PRIVATE"):
            return self.promise
        return f"Noisy numbers, paid with {self.spent}. They may be published."


def compare(
    truth: Any,
    other: Any,
    *,
    schema: Schema | None = None,
    weights: ArrayLike | None = None,
    tasks: bool = False,
    ledger: Ledger | str | Path | None = None,
    model: FittedModel | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare a table with the truth, if the truth is public, held out for the purpose, or your own.

    Nothing is charged and nothing is noisy: the result depends on the rows of `truth` and reveals facts about them. For
    a private table, use `compare_private`.

    Args:
        truth: a `Table`, or a path or frame together with `schema`.
        other: the table that is compared with the truth, in the same forms.
        schema: the schema of paths and frames.
        weights: one for each row of `other`; by default the weights of `other`, if it has any.
        tasks: also train classifiers: nine for each column, twice. Takes minutes; needs scikit-learn.
        ledger: the ledger whose guarantee the page shows.
        model: of the release that `other` is from. The result then says which differences its noise explains.
        progress: called with the stage, the stages done and their number.
    """
    truth_table, other_table = to_shared_bins(_table(truth, schema), _table(other, schema))
    checked = given_weights(other_table, weights)
    rules = compare_rules(truth_table, other_table, checked)
    report = progress or (lambda *_: None)
    if tasks:
        needs_sklearn()  # before minutes are spent
    report("values", 0, 2 * len(_STAGES) + 1)
    values = compare_values(truth_table, other_table, weights=checked)
    parts = _measure(truth_table, other_table, checked, _stage_of(report, "", 0))
    again = _second_sample(truth_table, other_table, checked, _stage_of(report, " (second sample)", 1))
    scores = [replace(score, second_sample=again.get(score.name)) for score in parts.scores]
    scores += _value_scores(values, enough=truth_table.rows > 1)
    rows = float(truth_table.rows), float(other_table.rows) if checked is None else effective_rows(checked)
    differences = (*values, *cell_differences(parts.columns, parts.pairs, rows))
    if model is not None:
        differences = with_noise(differences, model)
    learned: tuple[TaskScore, ...] = ()
    if tasks:
        learned = _label_scores(truth_table, other_table, checked, report)
        report("detection", len(learned), len(learned) + 1)
        scores += _task_scores(truth_table, other_table, checked, learned)
    if isinstance(ledger, str | Path):
        ledger = Ledger.open(ledger)
    promise = None if ledger is None else str(ledger.guarantee())
    return replace(parts, scores=tuple(scores), tasks=learned, promise=promise, differences=differences, rules=rules)


def _stage_of(report: Progress, of: str, before: int) -> Stage:
    """Return a callback that reports a stage of the first or the second pass."""
    return lambda stage: report(stage + of, 1 + before * len(_STAGES) + _STAGES.index(stage), 2 * len(_STAGES) + 1)


def _measure(truth: Table, other: Table, weights: Floats | None, stage: Stage) -> Comparison:
    """Compute all parts that need no training."""
    stage("columns")
    gaps = compare_gaps(truth, other, weights=weights)
    columns = tuple(_columns(truth, other, weights, gaps))
    stage("pairs")
    pairs = compare_pairs(truth, other, weights=weights)
    stage("subgroups")
    subgroups = compare_subgroups(truth, other, weights=weights)
    return Comparison(
        truth.schema.name,
        (truth.rows, other.rows),
        weights is not None,
        tuple(_scores(truth, other, weights, columns, pairs, subgroups, gaps, stage)),
        columns,
        pairs,
        subgroups,
        gaps.patterns if any(gaps.truth.values()) or gaps.kept else (),
    )


def _table(data: Any, schema: Schema | None) -> Table:
    if isinstance(data, Table):
        return data
    if isinstance(data, PrivateTable):
        raise SealedError(
            "compare() reads cells, but the cells of a PrivateTable are sealed",
            hint=Hint("use ", COMPARE_PRIVATE),
        )
    if schema is None:
        raise SchemaError(
            f"compare() cannot read a {type(data).__name__} without a schema",
            hint=Hint("pass ", Argument("schema", Call("Schema.read", "people.toml"))),
        )
    return Table.read(data, schema)


def _columns(truth: Table, other: Table, weights: Floats | None, gaps: GapFidelity) -> Iterable[ColumnScore]:
    for c, column in enumerate(truth.schema.columns):
        both_shares = shares(truth, [c]), shares(other, [c], weights)
        yield ColumnScore(
            column.name,
            column.kind,
            column.cells[: column.size],
            share_tuple(both_shares[0], column.size),
            share_tuple(both_shares[1], column.size),
            total_variation(*both_shares),
            column_wasserstein(column, *both_shares),
            (gaps.truth[column.name], gaps.other[column.name]) if column.gaps else None,
        )


def share_tuple(shares: Floats | None, size: int) -> tuple[float, ...]:
    """Return the share of each of `size` cells; all 0 if no row is observed."""
    return (0.0,) * size if shares is None else tuple(shares.tolist())


def _scores(
    truth: Table,
    other: Table,
    weights: Floats | None,
    columns: Sequence[ColumnScore],
    pairs: Sequence[Pair],
    subgroups: Sequence[Subgroup],
    gaps: GapFidelity,
    stage: Stage,
) -> Iterable[Score]:
    for k, word in ((1, "one"), (2, "two"), (3, "three")):
        if k <= len(columns):
            stage(f"sets of {word}")
            about = f"Mean total variation distance of all sets of {word} column{'s' if k > 1 else ''}, from 0 to 1."
            yield Score(f"{word}-way distance", kway_distance(truth, other, k=k, weights=weights), 0.0, about)
    yield Score(
        "Wasserstein distance, columns",
        _mean(column.wasserstein for column in columns),
        0.0,
        "How far cells must move in their column, with its range scaled to 1; mean over columns.",
    )
    stage("rows")
    kept = comparable_rows(truth, other)
    rows = "" if all(part.all() for part in kept) else f" {_COMPLETE}"
    yield Score(
        _ROWS,
        wasserstein_distance(truth, other, weights=weights) if all(part.any() for part in kept) else None,
        0.0,
        f"How far whole rows must move, with the range of each column scaled to 1 (sliced).{rows}",
    )
    if pairs:
        yield Score(
            "association difference",
            _mean(pair.difference for pair in pairs),
            0.0,
            "Mean difference of Spearman's ρ or Cramér's V of two columns.",
        )
    yield Score(
        "subgroup error",
        _mean(subgroup.error for subgroup in subgroups),
        0.0,
        "Mean one-way distance within the rows that share a cell; mean over all such subgroups.",
    )
    if gaps.kept and any(gaps.truth.values()):
        yield Score("gap rate error", gaps.rate_error, 0.0, "Mean difference of the shares of gaps, over columns.")
        yield Score(
            "gap pattern distance", gaps.pattern_distance, 0.0, "Total variation distance of the patterns of gaps."
        )
        yield Score(
            "gaps together error",
            gaps.together_error,
            0.0,
            "Mean difference of the shares of rows with gaps in two columns.",
        )


def _value_scores(differences: Sequence[Difference], *, enough: bool) -> Iterable[Score]:
    """Yield the scores of values over all columns, with a second sample if there are `enough` rows."""
    for name, measures, about in (
        (
            "quantile error",
            tuple(QUANTILES.values()),
            "How far quantiles (10, 25, 50, 75, 90%) of values are off, in ranks of the truth.",
        ),
        ("mean error", (MEAN,), "How far means of values are off, in standard deviations of the truth."),
        ("spread error", (SPREAD,), "By what share standard deviations of values are off."),
        ("Wasserstein distance, values", (DISTANCE,), "How far values must move, in standard deviations of the truth."),
        ("correlation difference", (PEARSON,), "Mean difference of Pearson's r of the values of two columns."),
        ("rank correlation difference", (SPEARMAN,), "Mean difference of Spearman's ρ of the values of two columns."),
    ):
        if found := [difference for difference in differences if difference.measure in measures]:
            error, chance = (_mean(getattr(difference, part) for difference in found) for part in ("error", "chance"))
            yield Score(name, error, 0.0, about, second_sample=chance if enough else None)


def cell_differences(
    columns: Sequence[ColumnScore], pairs: Sequence[Pair], rows: tuple[float, float]
) -> Iterator[Difference]:
    """Yield the differences of cells, for columns and pairs that have no values to compare.

    These are: for each column of levels, the cell whose share changed most; the shares of gaps, if the other table has
    any; and associations, unless both columns have values.
    """
    kept = any(column.gaps[1] for column in columns if column.gaps is not None)
    levels = {column.name: len(column.cells) for column in columns if not issubclass(KINDS[column.kind], BinnedColumn)}
    for column in columns:
        gaps = column.gaps or (0.0, 0.0)
        if kept and column.gaps is not None:
            yield _share_difference(column, GAPS, None, gaps, chance_of_means(*rows))
        if levels.get(column.name, 0) > 1 and any(column.truth):
            most = max(range(len(column.cells)), key=lambda cell: abs(column.truth[cell] - column.other[cell]))
            shares = column.truth[most], column.other[most]
            chance = chance_of_means(rows[0] * (1 - gaps[0]), rows[1] * (1 - gaps[1]))
            yield _share_difference(column, SHARE, column.cells[most], shares, chance)
    for pair in pairs:
        sizes = [levels[name] for name in pair.columns if name in levels]
        if sizes and pair.difference is not None:
            chance = chance_of_means(*rows) * math.sqrt(max(sizes))  # V of independent columns grows with their cells
            yield Difference(pair.columns, pair.measure, pair.truth, pair.other, pair.difference, chance)


def _share_difference(
    column: ColumnScore, measure: str, cell: str | None, shares: tuple[float, float], chance: float
) -> Difference:
    by_chance = math.hypot(chance_of_shares(*shares, chance), MEAN_SIZE * (column.noise or 0.0))
    return Difference((column.name,), measure, *shares, abs(shares[0] - shares[1]), by_chance, cell)


def _second_sample(truth: Table, other: Table, weights: Floats | None, stage: Stage) -> dict[str, float]:
    """Return about the scores of another sample from the same population, with as many rows as the compared table.

    The truth is split at random into two parts with sizes in the proportion n : m of the tables. The chance part of a
    distance of samples is proportional to √(1/n + 1/m). For the two parts it is larger by √(1 + m/n), so the scores are
    divided by this factor.
    """
    mass = np.ones(other.rows) if weights is None else weights
    if truth.rows < 2 or not mass.any():
        return {}
    size = effective_rows(mass)
    times = min(size / truth.rows, 9.0)  # one part must not vanish
    found = {score.name: score.value for score in _measure(*_split(truth, times), None, stage).scores}
    complete = select_rows(truth, comparable_rows(truth, other)[0])
    found[_ROWS] = wasserstein_distance(*_split(complete, times)) if complete.rows > 1 else None
    return {name: value / math.sqrt(1 + times) for name, value in found.items() if value is not None}


def effective_rows(mass: Floats) -> float:
    """Return the size of an unweighted sample with the same variance (Kish)."""
    return float(mass.sum() ** 2 / (mass**2).sum()) if mass.any() else 0.0


def _split(table: Table, times: float) -> tuple[Table, Table]:
    """Split a table at random, always in the same way; the second part is `times` as large as the first."""
    first = min(max(1, round(table.rows / (1 + times))), table.rows - 1)
    chosen = np.random.default_rng(0).permutation(table.rows) < first
    return select_rows(table, chosen), select_rows(table, ~chosen)


def _label_scores(truth: Table, other: Table, weights: Floats | None, report: Progress) -> tuple[TaskScore, ...]:
    fake = f1_scores(truth, other, weights=weights, progress=lambda label, *of: report(f"learning {label}", *of))
    true = f1_scores(truth, truth, progress=lambda label, *of: report(f"learning {label} from the truth", *of))
    found = []
    for number, label in enumerate(fake):
        report(f"coefficients of {label}", number, len(fake) + 1)
        cells = truth.schema[label].cells
        positive = tuple(cells[code] for code in np.flatnonzero(positive_cells(truth, label)))
        aucs = [roc_auc(truth, table, label=label, weights=given) for table, given in ((other, weights), (truth, None))]
        error = coefficient_error(truth, other, label=label, weights=weights)
        found.append(TaskScore(label, positive, fake[label], true.get(label, {}), aucs[0], aucs[1], error))
    return tuple(found)


def _task_scores(truth: Table, other: Table, weights: Floats | None, learned: Sequence[TaskScore]) -> Iterable[Score]:
    if learned:
        yield Score(
            "F1 of nine classifiers",
            mean_f1({task.label: task.f1 for task in learned}),
            mean_f1({task.label: task.f1_of_truth for task in learned}),
            "Trained on the other table, tested on the truth; mean over labels. Best: trained on the truth too.",
        )
        yield Score(
            "ROC-AUC of a network",
            _mean(task.auc for task in learned),
            _mean(task.auc_of_truth for task in learned),
            "One hidden layer, trained on the other table, tested on the truth; mean over labels.",
        )
        yield Score(
            "coefficient MSE",
            _mean(task.coefficient_mse for task in learned),
            0.0,
            "Mean squared difference of the coefficients of linear predictors; mean over labels.",
        )
    detected = detection(truth, other, weights=weights)
    if detected is not None:
        rows = f" {_COMPLETE}" if detected.complete else ""
        yield Score(
            "detection AUC", detected.auc, 0.5, f"How well a classifier separates the rows of the two tables.{rows}"
        )
        yield Score(
            "propensity MSE",
            detected.propensity_mse,
            0.0,
            f"Mean squared distance of its probabilities from chance.{rows}",
        )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


@dataclass(frozen=True, slots=True)
class RuleScore:
    """How often both tables break one constraint."""

    truth: Violations
    other: Violations

    @property
    def rule(self) -> str:
        """The constraint as it is in the schema."""
        return self.truth.rule

    def __str__(self) -> str:
        rows = f"{self.truth.share:.2%} of rows in the truth, {self.other.share:.2%} in the other table"
        if self.truth.pairs is None or self.other.pairs is None:
            return f"{rows}: {self.rule}"
        return f"{rows}; {self.truth.pairs:.3%} and {self.other.pairs:.3%} of pairs: {self.rule}"


def compare_rules(truth: Table, other: Table, weights: Floats | None = None) -> tuple[RuleScore, ...]:
    """Return, for each constraint of the schema, the shares of rows and pairs of rows that break it in both tables.

    Values are compared, not bins. `weights` has one weight for each row of the second table.
    """
    rules = rules_of(truth.schema.finest)  # values are compared: no bin is split
    places = sorted({place for rule in rules for place in rule.columns})
    true_values, other_values = (_numbers(table, places) for table in (truth, other))
    return tuple(RuleScore(violations(rule, true_values), violations(rule, other_values, weights)) for rule in rules)


def _numbers(table: Table, places: list[int]) -> dict[int, ValueRanges]:
    found = {}
    for place in places:
        codes, values = table.codes[place].astype(np.float64), table.numeric_values(place)
        levels = np.where(codes < table.schema.columns[place].values_size, codes, np.nan)
        found[place] = ValueRanges.exactly(levels if values is None else values)
    return found
