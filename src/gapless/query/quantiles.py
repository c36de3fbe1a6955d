r"""Quantiles by the exponential mechanism: a value near the given rank, and an interval around it.

Three choices are made among the cells of the column. The score of a cell falls by one for each row between the cell and
the rank (`data/sums.py`, `rank_scores`). One choice is at the rank :math:`qn`, two are for the ends of the interval, at
:math:`qn \mp s`.

.. math:: s = b \ln(2C / 0.05), \qquad \Pr[\text{an end is on the wrong side of the quantile}] \le C e^{-s/b} = 0.025

with C cells and the scale b of the choice, in rows. Proved in docs/proofs/exponential_choice.md, section 6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import ClassVar

from gapless.data import PrivateTable
from gapless.data.sums import rank_scores
from gapless.errors import QuestionError
from gapless.privacy import ChoiceByGroup, Grant, LinfByGroup, Loss
from gapless.query.answers import ALPHA, Answer, Estimate
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import CellNumbers
from gapless.query.treatments import (
    INTERVAL_NOTE,
    Preview,
    as_sentence,
    dropped_rows_note,
    guarantee_text,
    rows_for,
    weight_note,
)
from gapless.text import plural

END_SHARE = 0.25  # of the budget, for each end of the interval
MAX_SCORES = 1 << 22  # cells times groups


@dataclass(frozen=True, slots=True)
class QuantileRelease:
    """The releases for a quantile: rows with a gap are left out, and values are chosen by their rank."""

    uses_majority: ClassVar[bool] = False

    numbers: CellNumbers  # of the column's cells
    quantile: Fraction

    @property
    def distance(self) -> int:
        """The sensitivity of a score to one row, in units of 1 / denominator of the quantile."""
        return max(self.quantile.numerator, self.quantile.denominator - self.quantile.numerator)

    def answer(self, asked: CompiledQuestion, table: PrivateTable, grant: Grant) -> Answer:
        """Make three choices, fixed in advance, each for all groups at once."""
        rows = rows_for(table, asked)
        self.check(asked)
        scores = partial(rank_scores, rows, asked.contribution, self.numbers.column, quantile=self.quantile)
        (value,) = scores(shifts=[0])
        shares = [END_SHARE, 1 - 2 * END_SHARE]
        end, centre, _ = grant.split_losses([value] * 3, grant.left, shares=[*shares, END_SHARE])
        for_end, choice = (ChoiceByGroup.for_loss(loss, value.distance) for loss in (end, centre))
        beyond = math.ceil(self.rank_error(for_end, ALPHA / 2))
        low, middle, high = scores(shifts=[-beyond, 0, beyond])
        released = grant.release_all(
            [
                (middle, choice, asked.text),
                (low, for_end, f"lower end of {asked.text}"),
                (high, for_end, f"upper end of {asked.text}"),
            ]
        )
        lows, highs = self.numbers.ends
        found, first, last = (cells.value for cells in released)
        estimates = [
            Estimate(group, value, None, (min(value, start), max(value, end)))
            for group, value, start, end in zip(
                asked.groups or (None,),
                self.numbers.values[found].tolist(),
                lows[first].tolist(),
                highs[last].tolist(),
                strict=True,
            )
        ]
        entries = tuple(answer.entry for answer in released)
        measures = as_sentence(dropped_rows_note(asked, table), weight_note(asked, table), asked.caveat)
        return Answer(asked.text, tuple(estimates), measures, guarantee_text(table), entries, INTERVAL_NOTE)

    def preview(self, asked: CompiledQuestion, loss: Loss, *, per_person: int, rows: int | None) -> Preview:
        """The expected error of the rank, in rows, from public facts only."""
        self.check(asked)
        distance = LinfByGroup(per_person * self.distance)
        ChoiceByGroup.for_loss(loss * END_SHARE, distance)
        choice = ChoiceByGroup.for_loss(loss * (1 - 2 * END_SHARE), distance)
        limit, of = self.rank_error(choice, ALPHA), "the rank of the answer, in rows"
        if rows is not None:
            low, high = (min(1.0, max(0.0, float(self.quantile) + sign * limit / rows)) for sign in (-1, 1))
            quantiles = f"the {100 * low:.3g} % and the {100 * high:.3g} % quantile"
            of += f": with {plural(rows, 'row')} the answer is between {quantiles}"
        return Preview(asked.text, None, of, noise_limit=limit, depends_on_rows=True, rows=rows)

    def rank_error(self, choice: ChoiceByGroup, alpha: float) -> float:
        """A bound on the error of the rank, in rows, that holds except with this probability."""
        return choice.scale / self.quantile.denominator * math.log(len(self.numbers.values) / alpha)

    def check(self, asked: CompiledQuestion) -> None:
        """Refuse more scores than fit into memory, from public facts."""
        cells, groups = len(self.numbers.values), asked.contribution.groups
        if cells * groups > MAX_SCORES:
            raise QuestionError(
                f"a quantile may have at most {MAX_SCORES:,} combinations of values and groups, but column "
                f"{self.numbers.column!r} has {cells:,} values, in {plural(groups, 'group')}",
                hint="name fewer columns to group by, or write narrower bounds for the column in the schema",
            )
