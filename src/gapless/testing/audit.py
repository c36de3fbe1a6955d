r"""Small private tables for tests, and audits: empirical lower bounds on ε that must stay below the claimed ε.

An event is fixed in advance, and its probability is estimated on two neighbouring inputs. The bound uses
Clopper-Pearson limits. So a correct mechanism fails an audit with probability at most `ALPHA`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import polars as pl
from scipy import stats

from gapless.data import PrivateTable, read
from gapless.data.io.reading import unit_of
from gapless.privacy import Budget
from gapless.privacy.budget import Unit
from gapless.schema import Categorical, MissingCode, Schema

Row = tuple[str | None, ...]


def letters_schema(sizes: Sequence[int], *, name: str = "letters") -> Schema:
    """Return columns x0, x1 … with levels a, b, c …; all may be missing, odd ones also refused or not applicable."""
    kinds = (MissingCode("?"), MissingCode("-", "refused"), MissingCode("n/a", "not-applicable"))
    columns = [
        Categorical(f"x{i}", [chr(97 + j) for j in range(size)], may_be_missing=True, missing=kinds if i % 2 else ())
        for i, size in enumerate(sizes)
    ]
    return Schema(name, tuple(columns))


def private(
    rows: Sequence[Row] | pl.DataFrame,
    schema: Schema,
    folder: Path,
    *,
    budget: Budget | None = None,
    protect: Unit | None = None,
) -> PrivateTable:
    """Return a sealed table of these rows with a separate ledger in `folder`.

    If the schema names the id of a person, a row begins with it.
    """
    if not isinstance(rows, pl.DataFrame):
        names = (*schema.person, *schema.file_names)
        rows = pl.DataFrame(list(rows), schema=dict.fromkeys(names, pl.String), orient="row")
    number = len(list(folder.glob("*.ledger")))
    return read(
        rows,
        schema,
        protect=protect or unit_of(schema),
        ledger=folder / f"{number}.ledger",
        budget=budget or Budget(1.0, 1e-6),
    )


ALPHA = 1e-6


def lower_limit(hits: int, trials: int, alpha: float = ALPHA) -> float:
    """Return the Clopper-Pearson lower confidence limit of a probability."""
    return 0.0 if hits == 0 else float(stats.beta.ppf(alpha, hits, trials - hits + 1))


def upper_limit(hits: int, trials: int, alpha: float = ALPHA) -> float:
    """Return the Clopper-Pearson upper confidence limit of a probability."""
    return 1.0 if hits == trials else float(stats.beta.ppf(1 - alpha, hits + 1, trials - hits))


def epsilon_at_least(hits: int, others: int, trials: int, delta: float = 0.0) -> float:
    r"""Return a lower confidence bound on ε: :math:`\log((p - \delta)/q)` at the confidence limits of p and q.

    The event occurred in `hits` of `trials` with the unit in the data, and in `others` of `trials` without it.

    >>> epsilon_at_least(500, 500, 1000)
    0.0
    """
    low, high = lower_limit(hits, trials) - delta, upper_limit(others, trials)
    return max(0.0, math.log(low / high)) if low > 0 else 0.0


def mu_at_least(hits: int, others: int, trials: int) -> float:
    r"""Return a lower confidence bound on the Gaussian-DP μ: :math:`\Phi^{-1}(TPR) - \Phi^{-1}(FPR)` at the limits."""
    return max(0.0, float(stats.norm.ppf(lower_limit(hits, trials)) - stats.norm.ppf(upper_limit(others, trials))))


def one_run_epsilon(correct: int, guesses: int, alpha: float = ALPHA) -> float:
    """Return a lower confidence bound on ε when `correct` of `guesses` fair-coin inclusions were guessed in one run.

    Source: Steinke, Nasr, Jagielski 2023: under ε-DP the number is at most Binomial(guesses, e^ε/(1+e^ε)).
    """
    chance = lower_limit(correct, guesses, alpha)
    return max(0.0, math.log(chance / (1 - chance))) if chance > 0 else 0.0
