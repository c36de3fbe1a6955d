"""A small synthesizer to copy from. One line in the conformance suite (tests/e2e/test_conformance.py) tests it."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gapless.data import PrivateTable
from gapless.missing import CompleteRows, ImputeFirst, Observed
from gapless.model.marginal import project_to_simplex
from gapless.privacy import Spend
from gapless.synth.fitted import FittedModel, Progress
from gapless.synth.fitting import FitContext, Synthesizer
from gapless.synth.learners import LearnedModel
from gapless.synth.marginal.bayesian_network import BayesianNetwork, Node, conditional


@dataclass(frozen=True, slots=True, kw_only=True)
class Chain(Synthesizer):
    """A Markov chain: every column depends on the column before it.

    Guarantee: one batch, the first column and every pair of neighbours. A pair with more cells has a larger share.
    """

    name = "chain"
    pure = False  # it could keep δ = 0; declared so that the conformance suite tests the refusal
    treatments = (Observed, CompleteRows, ImputeFirst)  # not Extended: it does not model gaps

    def fit(self, table: PrivateTable, *, spend: Spend, progress: Progress | None = None) -> FittedModel:
        """Measure the first column and every pair of neighbours, and build a Bayesian network from them."""
        # 1. Check everything that public facts decide, and reserve the budget. Nothing is spent yet.
        context = FitContext(self, table, spend=spend, progress=progress)
        columns = [column for (column,) in context.one_way_marginals]  # without constant columns
        pairs = list(pairwise(columns))

        # 2. Treat the gaps, then measure all marginals in one batch that uses the whole budget.
        cells = [float(np.prod([context.sizes[c] for c in pair])) for pair in pairs]
        measured = context.measure([(columns[0],), *pairs], context.prepare(), shares=[1.0, *np.cbrt(cells)])

        # 3. Build the model. This reads released counts only, so it is free.
        nodes = [Node(columns[0])]
        nodes += [Node(column, (parent,), (np.arange(context.sizes[parent]),)) for parent, column in pairs]
        tables = [project_to_simplex(marginal.counts, max(1.0, marginal.counts.sum())) for marginal in measured]
        constant = [column for column in range(len(context.sizes)) if column not in columns]
        nodes += [Node(column) for column in constant]
        tables += [np.ones(1)] * len(constant)
        network = BayesianNetwork(context.sizes, nodes, map(conditional, tables))
        return context.fitted(LearnedModel(network, None, context.total), settings={"pairs": len(pairs)})
