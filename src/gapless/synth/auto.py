"""Auto: the method that suits a table, from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.privacy import L1, Loss, Rows, for_counts
from gapless.privacy.cautions import USUAL_ROWS
from gapless.schema import Schema
from gapless.synth.aim import AIM
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Synthesizer
from gapless.synth.independent import Independent
from gapless.synth.mst import MST

WIDE = 60  # columns, from which on AIM takes minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Synthesizer):
    """Choose between Independent, MST and AIM by the schema, the budget and the size you expect, and say why.

    Args:
        missing: what to do about gaps.
        expected_rows: roughly how many rows there are, if that is public; by default what the schema expects. Never
            looked up in the data.
    """

    name = "auto"

    expected_rows: int | None = None

    def fit(self, table: PrivateTable, *, spend: Loss, progress: Progress | None = None) -> FittedModel:
        """Fit the method that `choose` names."""
        check_private(table, "Auto.fit")
        method, why = self.choose(table.schema, spend, table.protect)
        model = method.fit(table, spend=spend, progress=progress)
        settings = {"chosen because": why} | dict(model.facts.settings)
        return replace(model, facts=replace(model.facts, settings=settings))

    def choose(self, schema: Schema, loss: Loss, protect: Rows) -> tuple[Synthesizer, str]:
        """The method and the reason. Reads nothing but its arguments."""
        columns = len(schema.columns)
        expected = self.expected_rows or schema.expected_rows
        rows = expected or USUAL_ROWS
        said = f"{rows} rows expected" if expected else f"about {USUAL_ROWS} rows assumed"
        if columns < 3:
            return MST(missing=self.missing), "one pair of columns at the most: a tree is the whole"
        noise = for_counts(loss / (2 * columns), L1(protect.at_most)).noise_std
        if rows < 10 * noise:
            return (
                Independent(missing=self.missing),
                f"{said}, noise of {noise:.0f} in a cell of a pair: only single columns can be told",
            )
        if columns > WIDE:
            return MST(missing=self.missing), f"{columns} columns: a tree of pairs is fast, and most that can be told"
        if rows < 30 * noise:
            return MST(missing=self.missing), f"{said}, noise of {noise:.0f} in a cell of a pair: few pairs can be told"
        return AIM(missing=self.missing), f"{columns} columns, {said}, noise of {noise:.0f}: many pairs can be told"
