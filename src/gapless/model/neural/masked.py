r"""One network for all columns in an order: each is foretold from the earlier ones, and from nothing else.

.. math:: z = b + x\,(W \circ M) + \max(x\,(U \circ M') + c,\, 0)\,(V \circ M'')

x has a 1 at the code of each column. M lets a cell see those of earlier columns. A hidden unit has a place in the order
too: it sees what comes before, and is seen by what does not (MADE: Germain, Gregor, Murray, Larochelle 2015).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gapless.model.neural.layers import Chain, MaskedLinear, ReLU, Sum


def masked(shown: Sequence[int], cells: Sequence[int], order: Sequence[int], hidden: int) -> Sum:
    """The network for columns that are shown with so many codes each, and foretold in so many cells.

    Weights into the outputs are zero at first.
    """
    places = np.argsort(order)
    of_shown, of_cells = np.repeat(places, shown), np.repeat(places, cells)
    units = 1 + np.arange(hidden) % max(1, len(places) - 1)
    skip = MaskedLinear(np.less.outer(of_shown, of_cells), gain=0.0)
    if not hidden:
        return Sum((skip,))
    into, out = np.less.outer(of_shown, units), np.less_equal.outer(units, of_cells)
    return Sum((skip, Chain((MaskedLinear(into), ReLU(), MaskedLinear(out, gain=0.0)))))
