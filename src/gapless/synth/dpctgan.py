"""DPCTGAN: a generator of rows given a cell of any of their columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.model.marginal import Floats
from gapless.model.neural.adversarial import Side
from gapless.synth.adversarial import Adversarial, rows_side
from gapless.synth.fitting import Fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCTGAN(Adversarial):
    """As `DPGAN`, with a generator that is told one cell of each row: of any column, drawn by its released table.

    A made row keeps the cell. Private rows are not sought by their cells, as in the original, where which rows are read
    depends on what is in them: they are drawn into lots all alike, and cells by released frequencies.

    Args:
        missing: what to do about gaps.
        steps: how many steps the training has; by default 100.

    References: Xu, Skoularidou, Cuesta-Infante, Veeramachaneni 2019; Fang, Dhami, Kersting 2022.
    """

    name = "dpctgan"

    def sides(self, fitting: Fitting, laws: Sequence[Floats], *, several: bool) -> list[Side]:
        """Rows, given a cell of any column that tells something."""
        del several
        return [rows_side(fitting, laws, fitting.sizes, given=[column for (column,) in fitting.columns])]
