"""How often cells are missing, paid for: the only way from the data to an assumption about gaps."""

from __future__ import annotations

import math
from typing import Literal

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.errors import BudgetError, SchemaError
from gapless.privacy import MCAR, DiscreteLaplace, Loss, for_counts


def gap_rates(
    table: PrivateTable,
    *,
    spend: Loss,
    failure: float = 1e-6,
    columns: Literal["independent", "dependent"] = "independent",
) -> MCAR:
    r"""Lower bounds on the rate of gaps in every column that may be missing, as an assumption that carries its risk.

    The noisy number of rows and, for each column, of rows observed on it are released in even shares. With t so large
    that noise exceeds it with probability :math:`\beta/2(k+1)`, the chance to be observed is at most the
    Clopper-Pearson limit, at level :math:`\beta/2k`, of :math:`\tilde c + t` in :math:`\tilde n - t` rows.

    Guarantee: if cells are missing completely at random, at the same rate in every row, all bounds hold together with
        probability at least 1 - `failure` over noise and gaps; `failure` is added to δ wherever they are used. What the
        estimate costs is on the ledger. The rates themselves, unlike these bounds, would be a release for free
        (PRIVACY A7). Proved in docs/proofs/gap_rates.md.

    Args:
        table: the sealed table.
        spend: what the counts may cost together.
        failure: the probability β that some bound is wrong.
        columns: what is assumed of columns: "independent" of each other, or "dependent".
    """
    check_private(table, "gap_rates()", public="patterns(table), for free")
    if not 0 < failure < 1:
        raise BudgetError(f"failure = {failure} is not a probability", hint="a small one, such as 1e-6")
    lacking = [column for column in table.schema.columns if column.gaps]
    if not lacking:
        raise SchemaError("no column of this schema may be missing", hint="nothing needs to be estimated: MCAR({})")
    grant = table.ledger.grant(spend, to="gap_rates")
    counts = [table.where(column.name, column.cells[: column.size]).marginal(()) for column in lacking]
    counts.append(table.marginal(()))
    names = [f"rows observed on {column.name}" for column in lacking] + ["number of rows"]
    noise = for_counts(grant.even(counts, grant.left), counts[0].distance)
    released = grant.release_all([(value, noise, name) for value, name in zip(counts, names, strict=True)])
    *seen, rows = (int(answer.value) for answer in released)
    surprise = math.log(2 * len(counts) / failure)
    margin = noise.scale * surprise if isinstance(noise, DiscreteLaplace) else noise.std * math.sqrt(2 * surprise)
    level = failure / (2 * len(lacking))
    rates = {
        column.name: 1 - _upper_limit(hits + math.ceil(margin), rows - math.ceil(margin), level)
        for column, hits in zip(lacking, seen, strict=True)
    }
    return MCAR(rates, columns=columns, failure=failure, paid=table.ledger.receipt())


def _upper_limit(hits: int, trials: int, level: float) -> float:
    """The Clopper-Pearson upper limit of a probability; it falls with trials and rises with hits."""
    if hits >= trials:
        return 1.0
    from scipy import stats  # noqa: PLC0415 it takes a while to import

    return min(1.0, float(stats.beta.isf(level, max(0, hits) + 1, trials - max(0, hits))))
