"""How close one table is to another: metrics on public tables, a private comparison, and the comparison page."""

from gapless.evaluate.comparison import ColumnScore, Comparison, Score, TaskScore, compare
from gapless.evaluate.gap_fidelity import GapFidelity, Pattern, compare_gaps
from gapless.evaluate.marginals import (
    Pair,
    Subgroup,
    association,
    column_wasserstein,
    compare_pairs,
    compare_subgroups,
    kway_distance,
    wasserstein_distance,
)
from gapless.evaluate.private_comparison import compare_private
from gapless.evaluate.tasks import (
    Detection,
    classifiers,
    coefficient_error,
    detection,
    f1_scores,
    mean_f1,
    positive_cells,
    roc_auc,
)
from gapless.evaluate.values import Difference, compare_values
from gapless.evaluate.verdict import Verdict

__all__ = [
    "ColumnScore",
    "Comparison",
    "Detection",
    "Difference",
    "GapFidelity",
    "Pair",
    "Pattern",
    "Score",
    "Subgroup",
    "TaskScore",
    "Verdict",
    "association",
    "classifiers",
    "coefficient_error",
    "column_wasserstein",
    "compare",
    "compare_gaps",
    "compare_pairs",
    "compare_private",
    "compare_subgroups",
    "compare_values",
    "detection",
    "f1_scores",
    "kway_distance",
    "mean_f1",
    "positive_cells",
    "roc_auc",
    "wasserstein_distance",
]
