"""Auto: the method that suits a table, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.cutting import cut_schema
from gapless.model.marginal import LEAST_NOISE
from gapless.privacy import L1, Loss, Rows, Spend, for_counts
from gapless.privacy.promise import USUAL_ROWS
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Synthesizer, check_declared
from gapless.synth.learning import bins_for, columns_to_learn
from gapless.synth.marginal.aim import AIM
from gapless.synth.marginal.mixture import Mixture
from gapless.synth.marginal.mst import MST
from gapless.text import plural

ALL_PAIRS = 45.0  # the signal of all pairs, from which on they are measured: bench/choose.py
WIDE = 60  # columns, from which on AIM takes minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Synthesizer):
    """Choose between MST, AIM and Mixture by the schema, the budget and the size you expect, and say why.

    Where most columns are numbers whose bins are learned, AIM's few sharp pairs keep means and correlations of values
    better than all pairs do (bench/values.py). Else all pairs are measured (Mixture) if together they have enough rows
    for their noise (`signal`); if not, only those that are chosen by AIM, or by MST in wide tables. Whether columns
    depend on many others, which is for Mixture, or on few is private, and not asked: the limit is where a wrong guess
    costs the least on average over simulated tables of many makes, and it may be costly (bench/choose.py).

    Args:
        missing: what to do about gaps.
        expected_rows: roughly how many rows there are, if that is public; by default what the schema expects. Never
            looked up in the data.
    """

    name = "auto"
    keeps_tables = True

    expected_rows: int | None = None

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Fit the method that `choose` names."""
        check_private(table, "Auto.fit")
        check_declared(self, table.ledger.budget)
        loss = table.ledger.share(spend)
        method, why = self.choose(table.schema, loss, table.protect)
        model = method.fit(table, spend=loss, progress=progress)
        settings = {"chosen because": why} | dict(model.facts.settings)
        return replace(model, facts=replace(model.facts, settings=settings))

    def choose(self, schema: Schema, loss: Loss, protect: Rows) -> tuple[Synthesizer, str]:
        """The method and the reason. Reads nothing but its arguments."""
        columns = len(schema.columns)
        if columns < 3:
            return MST(missing=self.missing), "one pair of columns at the most: a tree is the whole"
        expected = self.expected_rows or schema.expected_rows
        rows = expected or USUAL_ROWS
        facts = f"{plural(columns, 'column')}, " + (
            f"{plural(rows, 'row')} expected" if expected else f"about {plural(rows, 'row')} assumed"
        )
        if 2 * len(columns_to_learn(schema)) >= columns <= WIDE:
            return AIM(missing=self.missing), f"{facts}: most are numbers, whose values follow chosen pairs best"
        schema = cut_schema(schema, {}, bins_for(rows, loss, protect, columns))
        sizes = [column.extended_size if self.missing.rows == "extended" else column.size for column in schema.columns]
        told, mixture = signal(sizes, loss, protect, rows), Mixture(missing=self.missing)
        if told < ALL_PAIRS:
            why = f"all pairs have a signal of {told:.2g} times their noise, less than {ALL_PAIRS:g}"
        elif sum(sizes) ** 2 > mixture.cap_cells:
            why = "all pairs have too many cells"
        else:
            return mixture, f"{facts}: all pairs have a signal of {told:.2g} times their noise, enough"
        if columns > WIDE:
            return MST(missing=self.missing), f"{facts}: {why}; a tree of them is fast"
        return AIM(missing=self.missing), f"{facts}: {why}; some are chosen"


def signal(sizes: Sequence[int], loss: Loss, protect: Rows, rows: float) -> float:
    r"""What all m pairs tell together if the loss is split evenly among them, in units of noise.

    .. math:: \sqrt m \, \frac{\text{rows in a cell of a pair, on average}}{\text{noise\_std of a pair}}

    The root of the sum of squares over pairs, since a model that is fitted to all of them averages their noise.
    """
    pairs = len(sizes) * (len(sizes) - 1) / 2
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) / 2 / pairs
    noise_std = for_counts(loss / pairs, L1(protect.at_most)).noise_std
    return sqrt(pairs) * rows / cells / max(noise_std, LEAST_NOISE)  # which is 0 at absurd budgets
