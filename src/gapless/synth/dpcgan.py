"""DPCGAN: a generator of rows given a label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gapless.model.marginal import Floats
from gapless.model.neural.adversarial import Side
from gapless.synth.adversarial import Adversarial, rows_side
from gapless.synth.fitting import Fitting


@dataclass(frozen=True, slots=True, kw_only=True)
class DPCGAN(Adversarial):
    """As `DPGAN`, with a generator that is told the label of each row, which is drawn by its released table.

    Args:
        missing: what to do about gaps.
        label: the column that rows are made for; by default the last one of the schema.
        steps: how many steps the training has; by default 100.

    References: Torkzadehmahani, Kairouz, Paten 2019.
    """

    name = "dpcgan"

    label: str | None = None

    def check(self, fitting: Fitting) -> None:
        """Refuse also a label that is no column."""
        Adversarial.check(self, fitting)
        self._label(fitting)

    def _label(self, fitting: Fitting) -> int:
        schema = fitting.schema
        return len(schema.names) - 1 if self.label is None else schema.positions([self.label])[0]

    def told(self, fitting: Fitting) -> dict[str, str | int]:
        """The label."""
        return {"label": fitting.schema.names[self._label(fitting)]}

    def sides(self, fitting: Fitting, laws: Sequence[Floats], *, several: bool) -> list[Side]:
        """Rows, given their label."""
        del several
        return [rows_side(fitting, laws, fitting.sizes, given=[self._label(fitting)])]
