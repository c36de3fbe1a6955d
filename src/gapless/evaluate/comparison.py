"""Two tables compared: the numbers, in words, as JSON and as a page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gapless.data import PrivateTable, Table
from gapless.errors import SchemaError, SealedError
from gapless.evaluate.distance import kway_distance
from gapless.evaluate.gaps import GapFidelity, Pattern, compare_gaps
from gapless.evaluate.laws import Floats, check_tables, check_weights, half_l1, shares
from gapless.evaluate.pairs import Pair, Subgroup, compare_pairs, compare_subgroups
from gapless.evaluate.tasks import (
    coefficient_error,
    detection,
    f1_scores,
    mean_f1,
    needs_sklearn,
    positive_cells,
    roc_auc,
)
from gapless.evaluate.transport import column_wasserstein, wasserstein_distance
from gapless.files import replace
from gapless.privacy import Ledger
from gapless.schema import Schema

Progress = Callable[[str, int, int], object]


@dataclass(frozen=True, slots=True)
class Score:
    """One number.

    Attributes:
        name: what it is called.
        value: the number; None if there was nothing to compute it from.
        best: what the truth itself reaches.
        about: what it means, in a sentence.
        between: for a noisy number, what the noise leaves open.
    """

    name: str
    value: float | None
    best: float | None
    about: str
    between: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class ColumnScore:
    """One column in both tables: shares of its observed cells, distances, shares of gaps.

    Attributes:
        noise: for noisy shares, the standard deviation of each.
        between: for a noisy distance, what the noise leaves open.
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
    """One column as a label: what is learned about it from the other table, and from the truth itself."""

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
        rows: of the truth (noisy, if it is private) and of the other table.
        weighted: whether the other table's rows had weights.
        scores: the numbers, the most general first.
        columns, pairs, subgroups, patterns, tasks: the parts.
        spent: what the comparison cost, if the truth is private; None if its cells were looked at.
        promise: the guarantee of the ledger, if one was given.
    """

    table: str
    rows: tuple[int, int]
    weighted: bool
    scores: tuple[Score, ...]
    columns: tuple[ColumnScore, ...]
    pairs: tuple[Pair, ...]
    subgroups: tuple[Subgroup, ...]
    patterns: tuple[Pattern, ...]
    tasks: tuple[TaskScore, ...]
    spent: str | None
    promise: str | None

    def __getitem__(self, name: str) -> Score:
        found = [score for score in self.scores if score.name == name]
        if not found:
            raise SchemaError(f"no score {name!r}", hint="one of: " + ", ".join(score.name for score in self.scores))
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Everything, for a machine."""
        return {"nature": self.nature, **asdict(self)}

    def write(self, path: str | Path) -> None:
        """Write one HTML page that needs nothing else: no network, no script. Exact numbers not into a release."""
        if self.spent is None and (Path(path).resolve().parent / "manifest.json").exists():
            raise SealedError(
                "exact numbers from the cells of the truth do not belong into a release folder",
                hint="another folder; or compare_private(…, spend=…) for numbers that may be released",
            )
        from gapless.evaluate.report import comparison_page  # noqa: PLC0415 pages are drawn only when asked for

        with replace(Path(path)) as partial:
            partial.write_text(comparison_page(self), encoding="utf-8")

    def __str__(self) -> str:
        width = max(len(score.name) for score in self.scores)
        lines = [f"{self.table}: {self.rows[0]} rows of truth, {self.rows[1]} rows compared with it", self.nature, ""]
        for score in self.scores:
            value = "-" if score.value is None else f"{score.value:.4f}"
            left = "" if score.between is None else f"  ({score.between[0]:.4f} to {score.between[1]:.4f})"
            best = "" if score.best is None else f"  best {score.best:.4g}"
            lines.append(f"  {score.name:<{width}}  {value:>8}{best}{left}")
        return "\n".join(lines)

    @property
    def nature(self) -> str:
        """Whether these numbers may leave the house."""
        if self.spent is None:
            return (
                "Exact numbers from the cells of the truth: they cost nothing, and may be shown only if it is public."
            )
        if self.promise is not None and self.promise.startswith("NOT PRIVATE"):
            return self.promise
        return f"Noisy numbers, paid with {self.spent}: public from now on."


def compare(
    truth: Any,
    other: Any,
    *,
    schema: Schema | None = None,
    weights: ArrayLike | None = None,
    tasks: bool = False,
    ledger: Ledger | str | Path | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare a table with the truth, if that is public, held out for the purpose, or the reader's own.

    Nothing is charged and nothing is noisy: the result tells about the rows of `truth`. For a private table there is
    `compare_private`.

    Args:
        truth: a `Table`, or a path or frame together with `schema`.
        other: the table that is compared with it, in the same forms.
        schema: of paths and frames.
        weights: one for each row of `other`.
        tasks: also train classifiers: nine for each column, twice. Minutes; needs scikit-learn.
        ledger: whose promise the page shall show.
        progress: called with what is done, how much of it, of how much.
    """
    one, two = _table(truth, schema), _table(other, schema)
    check_tables(one, two)
    checked = check_weights(two, weights)
    tell = progress or (lambda _what, _done, _of: None)
    if tasks:
        needs_sklearn()  # before minutes are spent
    tell("columns", 0, 1)
    gaps = compare_gaps(one, two, weights=checked)
    columns = tuple(_columns(one, two, checked, gaps))
    tell("pairs", 0, 1)
    pairs = compare_pairs(one, two, weights=checked)
    tell("subgroups", 0, 1)
    subgroups = compare_subgroups(one, two, weights=checked)
    scores = list(_scores(one, two, checked, columns, pairs, subgroups, gaps))
    learned: tuple[TaskScore, ...] = ()
    if tasks:
        learned = _learned(one, two, checked, tell)
        tell("telling rows apart", 0, 1)
        scores += _task_scores(one, two, checked, learned)
    promise = (
        None if ledger is None else str((ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)).guarantee())
    )
    patterns = gaps.patterns if any(gaps.truth.values()) or gaps.kept else ()
    rows = one.rows, two.rows
    return Comparison(
        one.schema.name, rows, checked is not None, tuple(scores), columns, pairs, subgroups, patterns, learned, None,
        promise,
    )  # fmt: skip


def _table(data: Any, schema: Schema | None) -> Table:
    if isinstance(data, Table):
        return data
    if isinstance(data, PrivateTable):
        raise SealedError("compare() looks at cells, and a PrivateTable is sealed", hint="compare_private(…, spend=…)")
    if schema is None:
        raise SchemaError(
            "a path or frame cannot be compared without a schema", hint="schema=Schema.read('people.toml')"
        )
    return Table.read(data, schema)


def _columns(one: Table, two: Table, weights: Floats | None, gaps: GapFidelity) -> Iterable[ColumnScore]:
    for c, column in enumerate(one.schema.columns):
        laws = shares(one, [c]), shares(two, [c], weights)
        may = column.name in gaps.truth
        yield ColumnScore(
            column.name,
            column.kind,
            column.cells[: column.size],
            _listed(laws[0], column.size),
            _listed(laws[1], column.size),
            half_l1(*laws),
            column_wasserstein(column, *laws),
            (gaps.truth[column.name], gaps.other[column.name]) if may else None,
        )


def _listed(law: Floats | None, size: int) -> tuple[float, ...]:
    return (0.0,) * size if law is None else tuple(law.tolist())


def _scores(
    one: Table,
    two: Table,
    weights: Floats | None,
    columns: Sequence[ColumnScore],
    pairs: Sequence[Pair],
    subgroups: Sequence[Subgroup],
    gaps: GapFidelity,
) -> Iterable[Score]:
    for k, word in ((1, "one"), (2, "two"), (3, "three")):
        if k <= len(columns):
            about = f"Mean total variation distance of all sets of {word} column{'s' if k > 1 else ''}, from 0 to 1."
            yield Score(f"{word}-way distance", kway_distance(one, two, k=k, weights=weights), 0.0, about)
    yield Score(
        "Wasserstein distance, columns",
        _mean(column.wasserstein for column in columns),
        0.0,
        "How far cells must move along their column, scaled to 1; mean over columns.",
    )
    yield Score(
        "Wasserstein distance, rows",
        wasserstein_distance(one, two, weights=weights),
        0.0,
        "How far whole rows must move, each column scaled to 1 (sliced).",
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
        yield Score("gap pattern distance", gaps.pattern_distance, 0.0, "Distance of the laws of who misses what.")
        yield Score(
            "gaps together error",
            gaps.together_error,
            0.0,
            "Mean difference of the shares of rows that miss two columns.",
        )


def _learned(one: Table, two: Table, weights: Floats | None, tell: Progress) -> tuple[TaskScore, ...]:
    fake = f1_scores(one, two, weights=weights, progress=lambda label, *of: tell(f"learning {label}", *of))
    true = f1_scores(one, one, progress=lambda label, *of: tell(f"learning {label} from the truth", *of))
    found = []
    for number, label in enumerate(fake):
        tell(f"coefficients of {label}", number, len(fake))
        cells = one.schema[label].cells
        positive = tuple(cells[code] for code in np.flatnonzero(positive_cells(one, label)))
        aucs = [roc_auc(one, table, label=label, weights=given) for table, given in ((two, weights), (one, None))]
        error = coefficient_error(one, two, label=label, weights=weights)
        found.append(TaskScore(label, positive, fake[label], true.get(label, {}), aucs[0], aucs[1], error))
    return tuple(found)


def _task_scores(one: Table, two: Table, weights: Floats | None, learned: Sequence[TaskScore]) -> Iterable[Score]:
    if learned:
        yield Score(
            "F1 of nine classifiers",
            mean_f1({task.label: task.f1 for task in learned}),
            mean_f1({task.label: task.f1_of_truth for task in learned}),
            "Trained on the other table, tested on the truth; mean over labels. Best: trained on the truth.",
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
    told = detection(one, two, weights=weights)
    if told is not None:
        rows = " Among complete rows of the truth, since the other table is filled." if told.complete else ""
        yield Score("detection AUC", told.auc, 0.5, f"How well a classifier tells the two tables apart.{rows}")
        yield Score("propensity MSE", told.propensity_mse, 0.0, f"The same as a mean squared propensity.{rows}")


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
