"""A small synthesizer to copy from: one line in the conformance suite is enough to test it there."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gapless.data import PrivateTable
from gapless.missing import CompleteRows, ImputeFirst, Observed
from gapless.model.marginal import project_to_simplex
from gapless.privacy import Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.marginal.bayesian_network import BayesianNetwork, Node, conditional
from gapless.synth.measurements import LearnedModel


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Synthesizer):
    """Every column given the one before it. Guarantee: one batch of pairs, a wider pair with a larger share."""

    name = "chain"
    pure = False  # as if its noise were Gaussian only
    treatments = (Observed, CompleteRows, ImputeFirst)  # it has no model of gaps

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the first column and every pair of neighbours, and make a network of them."""
        fitting = FitContext(self, table, spend=spend, progress=progress)  # refuses what is not declared above
        columns = [column for (column,) in fitting.columns]  # those of one cell tell nothing
        pairs = list(pairwise(columns))
        cells = [float(np.prod([fitting.sizes[c] for c in pair])) for pair in pairs]
        measured = fitting.measure([(columns[0],), *pairs], fitting.prepare(), shares=[1.0, *np.cbrt(cells)])
        nodes = [Node(columns[0]), *(Node(c, (parent,), (np.arange(fitting.sizes[parent]),)) for parent, c in pairs)]
        tables = [project_to_simplex(marginal.counts, max(1.0, marginal.counts.sum())) for marginal in measured]
        constant = [column for column in range(len(fitting.sizes)) if column not in columns]
        nodes += [Node(column) for column in constant]
        tables += [np.ones(1)] * len(constant)
        network = BayesianNetwork(fitting.sizes, nodes, map(conditional, tables))
        return fitting.fitted(LearnedModel(network, None, fitting.total), settings={"pairs": len(pairs)})
