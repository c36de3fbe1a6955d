"""Prediction tasks: classifiers that are trained on one table and tested on the other.

Everything here needs scikit-learn, an extra: pip install 'gapless[learn]'.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gapless.data import Table
from gapless.data.checks import given_weights, to_shared_bins
from gapless.data.points import Flags, comparable_rows, points, unit_positions
from gapless.errors import Argument, Hint, ReadError, SchemaError
from gapless.text import listing
from gapless.threads import one_thread
from gapless.types import Floats

ROWS = 5_000  # sampled from each table, as in [MD]; a tenth is for testing
TEST_SHARE = 0.1
RIDGE = 1e-3  # of the linear predictors, in units of the mean loss; makes coefficients unique

Progress = Callable[[str, int, int], object]
Task = tuple[Floats, Flags, Floats, Floats, Flags]  # training points, labels and weights; test points and labels


def f1_scores(
    truth: Table,
    other: Table,
    *,
    labels: Sequence[str] | None = None,
    positive: Mapping[str, str | Sequence[object]] | None = None,
    weights: ArrayLike | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, dict[str, float]]:
    """Return the F1 of nine classifiers for each label, trained on `other`, tested on `truth`, as in [MD] §6.1.

    The setup is that of the paper: scikit-learn's defaults, and 5,000 rows sampled from each table (all, if it has
    fewer). Classifiers are trained on nine tenths of the rows of `other` and tested on a tenth of the rows of `truth`.
    The score is the F1 of the positive class. A training sample with one class predicts that class.
    `f1_scores(truth, truth)` is the score of the truth itself. Histogram boosting replaces XGBoost.

    The second half of the levels or bins in the schema are positive (`positive_cells`). Name other cells with
    `positive`. Rows with a gap in the label are left out; gaps in other columns are a separate level. A label that is
    constant in the test rows is left out: nothing can be learned about it.

    Args:
        truth: the table to test on.
        other: the table to train on.
        labels: the label columns; by default every column, and none if the list is empty.
        positive: the positive cells of some labels, such as `{"income": [">50K"]}`; a single cell needs no list.
        weights: one for each row of `other`, used in training.
        seed: the seed of the samples and the classifiers.
        progress: called with a label, the fits done and their number.

    Returns:
        label -> classifier -> F1. Their mean is the paper's score: `mean_f1`.
    """
    tasks = _tasks(truth, other, labels, positive, weights, seed)
    names = list(classifiers(seed))
    jobs = [(label, name) for label in tasks for name in names]
    found: dict[str, dict[str, float]] = {label: dict.fromkeys(names, 0.0) for label in tasks}
    for done, (label, name, score) in enumerate(_in_parallel(jobs, tasks, seed), start=1):
        found[label][name] = score
        if progress is not None:
            progress(label, done, len(jobs))
    return found


def mean_f1(scores: Mapping[str, Mapping[str, float]]) -> float:
    """Return the mean over labels of the mean over classifiers; NaN if no label could be learned."""
    return float(np.mean([list(found.values()) for found in scores.values()])) if scores else float("nan")


def classifiers(seed: int = 0) -> dict[str, Any]:
    """Return the nine classifiers, with scikit-learn's defaults."""
    needs_sklearn()
    from sklearn import ensemble, linear_model, naive_bayes, neural_network, tree  # noqa: PLC0415 an extra

    return {
        "logistic regression": linear_model.LogisticRegression(random_state=seed),
        "AdaBoost": ensemble.AdaBoostClassifier(random_state=seed),
        "gradient boosting": ensemble.GradientBoostingClassifier(random_state=seed),
        "histogram boosting": ensemble.HistGradientBoostingClassifier(random_state=seed),
        "random forest": ensemble.RandomForestClassifier(random_state=seed),
        "naive Bayes": naive_bayes.BernoulliNB(),
        "decision tree": tree.DecisionTreeClassifier(random_state=seed),
        "bagging": ensemble.BaggingClassifier(random_state=seed),
        "neural network": neural_network.MLPClassifier(random_state=seed),
    }


def positive_cells(table: Table, label: str, named: str | Sequence[object] | None = None) -> Flags:
    """Return which cells of a label are positive: the named cells, else the second half of its levels or bins.

    The default depends on the schema alone: the last two of five levels, the last of two. *Not applicable* is negative.
    """
    column = table.schema[label]
    flags = np.zeros(column.size, dtype=np.bool_)
    if named is None:
        flags[(column.values_size + 1) // 2 : column.values_size] = True
        return flags
    if isinstance(named, str):
        named = [named]
    flags[[column.code_of(cell) for cell in named]] = True
    if flags.all() or not flags.any():
        raise SchemaError(
            f"positive names every cell of the label {label!r}, so no row would be negative"
            if flags.all()
            else f"positive names no cell of the label {label!r}, so no row would be positive",
            hint=f"name one or more, but not all, of: {listing(column.cells[: column.size])}",
        )
    return flags


def roc_auc(
    truth: Table,
    other: Table,
    *,
    label: str,
    positive: str | Sequence[object] | None = None,
    weights: ArrayLike | None = None,
    seed: int = 0,
) -> float | None:
    """Return the area under the ROC curve of a network with one hidden layer, trained on `other`, tested on `truth`.

    As in [IW] §4.2, with scikit-learn's default network, and the samples and labels of `f1_scores`. The result is None
    if the label is constant in the test rows, and 0.5 if it is constant in the training rows.
    """
    named = None if positive is None else {label: positive}
    tasks = _tasks(truth, other, [label], named, weights, seed)
    if label not in tasks:
        return None
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 an extra

    train, labels, mass, test, wanted = tasks[label]
    if labels.all() or not labels.any():
        return 0.5
    network = classifiers(seed)["neural network"]
    with _quietly():
        network.fit(train, labels, sample_weight=mass)
    return float(roc_auc_score(wanted, network.predict_proba(test)[:, 1]))


def coefficient_error(
    truth: Table,
    other: Table,
    *,
    label: str,
    positive: str | Sequence[object] | None = None,
    weights: ArrayLike | None = None,
) -> float | None:
    r"""Return the mean squared error of the coefficients of a linear predictor, the β-MSE of [IW] §4.2.

    .. math:: \frac1d \lVert \hat\beta_{\text{other}} - \hat\beta_{\text{truth}} \rVert_2^2

    The position of an ordered label is regressed on all other columns by least squares. A label without an order, or
    with two cells, is positive or not (as in `f1_scores`) and predicted by logistic regression. Both have a ridge
    penalty of 0.001 in units of the mean loss, which makes the coefficients of all levels unique. Every row without a
    gap in the label is used. A weight of 2 counts like two equal rows. The result is None if a table has no such row,
    or the label is constant.
    """
    truth, other = to_shared_bins(truth, other)
    checked = given_weights(other, weights)
    column = truth.schema[label]
    linear = column.is_ordered and column.values_size > 2 and positive is None
    values = unit_positions(column) if linear else positive_cells(truth, label, positive).astype(np.float64)
    (place,) = truth.schema.positions([label])
    fits = []
    for table, given in ((truth, None), (other, checked)):
        seen = table.codes[place] < len(values)  # not applicable has no position
        mass = np.ones(table.rows) if given is None else given
        x, y, mass = points(table, without=label)[seen], values[table.codes[place][seen]], mass[seen]
        if not mass.any() or np.ptp(y[mass > 0]) == 0:
            return None
        fits.append(_least_squares(x, y, mass) if linear else _logistic(x, y > 0, mass))
    return float(np.mean((fits[0] - fits[1]) ** 2))


def _least_squares(x: Floats, y: Floats, mass: Floats) -> Floats:
    mass = mass / mass.sum()
    x, y = x - mass @ x, y - mass @ y
    return np.asarray(np.linalg.solve((x.T * mass) @ x + RIDGE * np.eye(x.shape[1]), x.T @ (mass * y)))


def _logistic(x: Floats, y: Flags, mass: Floats) -> Floats:
    needs_sklearn()
    from sklearn.linear_model import LogisticRegression  # noqa: PLC0415 an extra

    model = LogisticRegression(C=1 / (RIDGE * mass.sum()), max_iter=1000, tol=1e-6)
    with _quietly():
        model.fit(x, y, sample_weight=mass)
    return np.append(model.coef_[0], model.intercept_)


@dataclass(frozen=True, slots=True)
class Detection:
    r"""How well a classifier separates the rows of the two tables.

    Attributes:
        auc: the area under the ROC curve: 0.5 is chance, 1 is perfect separation.
        propensity_mse: the mean of (p̂ - c)², with p̂ the probability that a row is from the other table, and c the share
            of such rows: 0 if p̂ is always c, c (1 - c) for perfect separation.
        rows: the number of rows of each table that were used.
        complete: whether rows with a gap were left out, because only one table has gaps.
    """

    auc: float
    propensity_mse: float
    rows: tuple[int, int]
    complete: bool


def detection(truth: Table, other: Table, *, weights: ArrayLike | None = None, seed: int = 0) -> Detection | None:
    """Separate the rows of the two tables by histogram boosting, out-of-fold in 5 folds, with 5,000 rows of each.

    If one table has gaps and the other has none, a gap would identify a row. Then only rows without a gap are used. The
    result is None if a table has fewer than 25 such rows.
    """
    truth, other = to_shared_bins(truth, other)
    mass = _whole(other, given_weights(other, weights))
    needs_sklearn()
    from sklearn.ensemble import HistGradientBoostingClassifier  # noqa: PLC0415 an extra
    from sklearn.metrics import roc_auc_score  # noqa: PLC0415 an extra
    from sklearn.model_selection import StratifiedKFold  # noqa: PLC0415 an extra

    kept = comparable_rows(truth, other)
    rows = _sample(np.flatnonzero(kept[0]), seed), _sample(np.flatnonzero(kept[1]), seed)
    if min(map(len, rows)) < 25:
        return None
    x = np.concatenate([points(truth)[rows[0]], points(other)[rows[1]]])
    y = np.repeat([False, True], [len(rows[0]), len(rows[1])])
    mass = np.concatenate([np.ones(len(rows[0])), mass[rows[1]]])
    guess = np.empty(len(x))
    with _quietly():
        for train, test in StratifiedKFold(5, shuffle=True, random_state=seed).split(x, y):
            model = HistGradientBoostingClassifier(random_state=seed).fit(x[train], y[train], mass[train])
            guess[test] = model.predict_proba(x[test])[:, 1]
    share = float(mass @ y / mass.sum())
    return Detection(
        float(roc_auc_score(y, guess, sample_weight=mass)),
        float(mass @ (guess - share) ** 2 / mass.sum()),
        (len(rows[0]), len(rows[1])),
        not (kept[0].all() and kept[1].all()),
    )


# ---------------------------------------------------------------------- samples, labels, fits


def needs_sklearn() -> None:
    """Refuse to go on without scikit-learn."""
    try:
        import sklearn  # noqa: F401, PLC0415 an extra
    except ModuleNotFoundError:
        raise ReadError("scikit-learn is not installed", hint="run pip install 'gapless[learn]'") from None


def _tasks(
    truth: Table,
    other: Table,
    labels: Sequence[str] | None,
    positive: Mapping[str, str | Sequence[object]] | None,
    weights: ArrayLike | None,
    seed: int,
) -> dict[str, Task]:
    """Return for each label: training points, labels and weights; test points and labels."""
    truth, other = to_shared_bins(truth, other)
    mass = _whole(other, given_weights(other, weights))
    needs_sklearn()
    if isinstance(labels, str):
        raise SchemaError(
            f"labels must be a list of column names, got {labels!r}", hint=Hint("pass ", Argument("labels", [labels]))
        )
    positive, labels = positive or {}, truth.schema.names if labels is None else labels
    places = dict(zip(labels, truth.schema.positions(labels), strict=True))
    truth.schema.positions(positive)  # refuses an unknown name
    if unasked := [name for name in positive if name not in places]:
        raise SchemaError(
            f"positive names cells of column {unasked[0]!r}, which is not in labels",
            hint=Hint("pass ", Argument("labels", [*places, unasked[0]])),
        )
    if truth.rows == 0 or other.rows == 0:
        empty = "the truth" if truth.rows == 0 else "the other table"
        raise SchemaError(f"{empty} has no rows, so nothing can be learned from it", hint="pass two tables with rows")
    test, train = _sample(np.arange(truth.rows), seed), _sample(np.arange(other.rows), seed)
    test, train = test[: _tenth(test)], train[_tenth(train) :]
    found: dict[str, Task] = {}
    for label, place in places.items():
        flags = positive_cells(truth, label, positive.get(label))
        size = len(flags)
        asked = test[truth.codes[place][test] < size]
        known = train[(other.codes[place][train] < size) & (mass[train] > 0)]
        wanted = flags[truth.codes[place][asked]]
        if wanted.any() and not wanted.all() and len(known):
            found[label] = (
                points(other, without=label)[known],
                flags[other.codes[place][known]],
                mass[known],
                points(truth, without=label)[asked],
                wanted,
            )
    return found


def _sample(rows: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    from sklearn.utils import shuffle  # noqa: PLC0415 an extra

    return np.asarray(shuffle(rows, random_state=seed))[:ROWS] if len(rows) else rows


def _tenth(rows: NDArray[np.int64]) -> int:
    return max(1, round(TEST_SHARE * len(rows)))


def _whole(table: Table, weights: Floats | None) -> Floats:
    """Scale weights to mean 1, so that regularisation is the same with and without weights."""
    return np.ones(table.rows) if weights is None else weights * (table.rows / weights.sum() if table.rows else 1.0)


def _in_parallel(jobs: Sequence[tuple[str, str]], tasks: Mapping[str, Task], seed: int) -> Any:
    """Yield (label, classifier, F1) as fits finish: many fits run in several processes, few in this one."""
    from joblib import Parallel, delayed  # noqa: PLC0415 comes with an extra

    large = sum(len(tasks[label][0]) for label, _ in jobs) > 50_000
    workers = Parallel(n_jobs=min(os.cpu_count() or 1, 8) if large else 1, return_as="generator_unordered")
    return workers(delayed(_fit)(label, name, tasks[label], seed) for label, name in jobs)


def _fit(label: str, name: str, task: Task, seed: int) -> tuple[str, str, float]:
    from sklearn.metrics import f1_score  # noqa: PLC0415 an extra

    train, labels, mass, test, wanted = task
    if labels.all() or not labels.any():
        predicted = np.full(len(wanted), labels[0])
    else:
        with _quietly():
            predicted = classifiers(seed)[name].fit(train, labels, sample_weight=mass).predict(test)
    return label, name, float(f1_score(wanted, predicted, zero_division=0.0))


@contextmanager
def _quietly() -> Iterator[None]:
    """Fit with one thread, which is faster for small fits, and without warnings that defaults do not converge."""
    with one_thread(), warnings.catch_warnings(action="ignore"):
        yield
