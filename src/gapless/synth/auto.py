"""Auto: the method that suits a table, from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.model.marginal import LEAST_NOISE
from gapless.privacy import L1, Loss, Rows, for_counts
from gapless.privacy.cautions import USUAL_ROWS
from gapless.schema import Schema
from gapless.schema.cutting import cut_schema
from gapless.synth.aim import AIM
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Synthesizer, check_declared
from gapless.synth.learning import bins_for, columns_to_learn
from gapless.synth.mixture import Mixture
from gapless.synth.mst import MST

ALL_PAIRS = 1.0  # rows in a cell for each unit of noise, from which on all pairs are measured: bench/choose.py
WIDE = 60  # columns, from which on AIM takes minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Synthesizer):
    """Choose between MST, AIM and Mixture by the schema, the budget and the size you expect, and say why.

    Where most columns are numbers whose bins are learned, AIM's few sharp pairs keep means and correlations of values
    better than all pairs do (bench/values.py). Else all pairs are measured (Mixture) if a cell of a pair then has
    enough rows for its noise; if not, only those that are chosen by AIM, or by MST in wide tables. Whether columns
    depend on many others, which is for Mixture, or on few is private, and not asked: at the limit a wrong guess costs
    about the same either way on simulated tables (bench/choose.py), above it the dense ones have more to lose.

    Args:
        missing: what to do about gaps.
        expected_rows: roughly how many rows there are, if that is public; by default what the schema expects. Never
            looked up in the data.
    """

    name = "auto"
    keeps_tables = True

    expected_rows: int | None = None

    def fit(self, table: PrivateTable, *, spend: Loss, progress: Progress | None = None) -> FittedModel:
        """Fit the method that `choose` names."""
        check_private(table, "Auto.fit")
        check_declared(self, table.ledger.budget)
        method, why = self.choose(table.schema, spend, table.protect)
        model = method.fit(table, spend=spend, progress=progress)
        settings = {"chosen because": why} | dict(model.facts.settings)
        return replace(model, facts=replace(model.facts, settings=settings))

    def choose(self, schema: Schema, loss: Loss, protect: Rows) -> tuple[Synthesizer, str]:
        """The method and the reason. Reads nothing but its arguments."""
        columns = len(schema.columns)
        if columns < 3:
            return MST(missing=self.missing), "one pair of columns at the most: a tree is the whole"
        expected = self.expected_rows or schema.expected_rows
        rows = expected or USUAL_ROWS
        facts = f"{columns} columns, " + (f"{rows} rows expected" if expected else f"about {rows} rows assumed")
        if 2 * len(columns_to_learn(schema)) >= columns <= WIDE:
            return AIM(missing=self.missing), f"{facts}: most are numbers, whose values follow chosen pairs best"
        schema = cut_schema(schema, {}, bins_for(rows, loss, protect, columns))
        sizes = [column.extended_size if self.missing.rows == "extended" else column.size for column in schema.columns]
        ratio = rows_per_noise(sizes, loss, protect, rows)
        told, mixture = f"{ratio:.2g} rows in a cell for each unit of noise", Mixture(missing=self.missing)
        if ratio < ALL_PAIRS:
            why = f"all pairs would have {told}, too few"
        elif sum(sizes) ** 2 > mixture.cap_cells:
            why = "all pairs have too many cells"
        else:
            return mixture, f"{facts}: all pairs have {told}, enough"
        if columns > WIDE:
            return MST(missing=self.missing), f"{facts}: {why}; a tree of them is fast"
        return AIM(missing=self.missing), f"{facts}: {why}; some are chosen"


def rows_per_noise(sizes: Sequence[int], loss: Loss, protect: Rows, rows: float) -> float:
    """Rows in a cell of a pair over the noise there, on average, if the loss is split evenly among all pairs."""
    pairs = len(sizes) * (len(sizes) - 1) / 2
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) / 2 / pairs
    noise_std = for_counts(loss / pairs, L1(protect.at_most)).noise_std
    return rows / cells / max(noise_std, LEAST_NOISE)  # which is 0 at absurd budgets
