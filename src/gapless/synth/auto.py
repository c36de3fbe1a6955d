"""Auto: choose a method from public facts alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

from gapless.data import PrivateTable
from gapless.data.checks import check_private
from gapless.data.cutting import cut_schema
from gapless.model.marginal import LEAST_NOISE
from gapless.privacy import L1, Loss, Spend, for_counts
from gapless.privacy.budget import PURE, Unit
from gapless.privacy.promise import USUAL_ROWS
from gapless.schema import Schema
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import Synthesizer, check_declared
from gapless.synth.learning import bins_for, columns_to_learn
from gapless.synth.marginal.aim import AIM
from gapless.synth.marginal.factors import Factors
from gapless.synth.marginal.features import value_order
from gapless.synth.marginal.mixture import Mixture
from gapless.synth.marginal.mst import MST
from gapless.text import plural

ALL_PAIRS = 45.0  # least signal of all pairs with which they are measured: bench/choose.py
ORDERED = 2  # least number of ordered columns with which Factors is best
REASON = "chosen because"  # the setting of a model that says why its method was chosen
WIDE = 60  # most columns with which AIM takes less than minutes


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto(Synthesizer):
    """Choose Factors, Mixture, AIM or MST by the schema, the budget and the expected number of rows; report the reason.

    Factors is chosen with δ > 0 if two or more columns are ordered: it has the smallest errors of correlations at
    every ε and size, and cells that are about as good as the best (bench/relations.py). Without such columns other
    methods have better cells and relations (bench/choose.py --relations).

    Then Mixture measures all pairs if they have enough signal for their noise (`signal`). If not, AIM chooses pairs, or
    MST in wide tables. With δ = 0 AIM is also chosen if most columns are numbers whose bins are learned: its few
    precise pairs keep means and correlations of values better than all pairs do (bench/values.py).

    Whether columns depend on few others or on many, which favours Mixture, is private and not used. The limit
    `ALL_PAIRS` has the least average loss over simulated tables; for one table it may be costly (bench/choose.py).

    Args:
        missing: how to treat gaps.
        expected_rows: the approximate number of rows, if that is public; by default that of the schema. It is never
            looked up in the data.
    """

    name = "auto"
    keeps_measurements = True

    expected_rows: int | None = None

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Fit the method that `choose` returns."""
        check_private(table, "Auto.fit")
        check_declared(self, table.ledger.budget)
        loss = table.ledger.share(spend)
        method, why = self.choose(table.schema, loss, table.protect)
        model = method.fit(table, spend=loss, progress=progress)
        settings = {REASON: why} | dict(model.facts.settings)
        return replace(model, facts=replace(model.facts, settings=settings))

    def choose(self, schema: Schema, loss: Loss, protect: Unit) -> tuple[Synthesizer, str]:
        """Return the method and the reason; a function of the arguments only."""
        columns = len(schema.columns)
        if columns < 2:
            return MST(missing=self.missing), "there is only one column"
        expected = self.expected_rows or schema.expected_rows
        rows = expected or USUAL_ROWS
        facts = f"{plural(columns, 'column')}, " + (
            f"{plural(rows, 'row')} expected" if expected else f"about {plural(rows, 'row')} assumed"
        )
        factors = Factors(missing=self.missing)
        ordered = sum(value_order(column) is not None for column in schema.columns)
        if loss.order != PURE and ordered >= ORDERED and factors.fits(schema):
            return factors, f"{facts}: factors keep the relations of all pairs"
        if columns == 2:
            return MST(missing=self.missing), f"{facts}: MST measures the only pair"
        if 2 * len(columns_to_learn(schema)) >= columns <= WIDE:
            return AIM(missing=self.missing), f"{facts}: AIM keeps the values of many numbers best"
        schema = cut_schema(schema, {}, bins_for(rows, loss, protect, columns))
        sizes = [column.extended_size if self.missing.rows == "extended" else column.size for column in schema.columns]
        strength, mixture = signal(sizes, loss, protect, rows), Mixture(missing=self.missing)
        if strength < ALL_PAIRS:
            why = f"there are too few rows to measure all pairs (signal {strength:.2g}, needed {ALL_PAIRS:g})"
        elif sum(sizes) ** 2 > mixture.cap_cells:
            why = "all pairs have too many cells"
        else:
            return mixture, f"{facts}: there are enough rows to measure all pairs (signal {strength:.2g})"
        if columns > WIDE:
            return MST(missing=self.missing), f"{facts}: {why}, and MST is fast for many columns"
        return AIM(missing=self.missing), f"{facts}: {why}, so AIM selects pairs"


def signal(sizes: Sequence[int], loss: Loss, protect: Unit, rows: float) -> float:
    r"""Return the signal-to-noise ratio of all m pairs if the loss is split equally among them.

    .. math:: \sqrt m \, \frac{\text{rows in a cell of a pair, on average}}{\text{noise\_std of a pair}}

    It is the root of the sum of squares over pairs, because a model that is fitted to all of them averages their noise.
    """
    pairs = len(sizes) * (len(sizes) - 1) / 2
    cells = (sum(sizes) ** 2 - sum(size**2 for size in sizes)) / 2 / pairs
    noise_std = for_counts(loss / pairs, L1(protect.at_most)).noise_std
    return sqrt(pairs) * rows / cells / max(noise_std, LEAST_NOISE)  # noise_std is 0 at absurd budgets
