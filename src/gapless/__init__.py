"""gapless: differentially private releases from tables with missing values.

>>> import gapless as gl
>>> schema = gl.Schema("people", [gl.Integer("age", bounds=(0, 120)), gl.Boolean("smoker", may_be_missing=True)])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives. Rooms are entered when a name is first used: `import gapless` stays light.
_ROOMS = {
    "data": ("PrivateTable", "Table", "read"),
    "errors": (
        "BudgetError",
        "GaplessError",
        "LedgerError",
        "ModelError",
        "ReadError",
        "SchemaError",
        "SealedError",
        "QuestionError",
    ),
    "evaluate": ("Comparison", "compare", "compare_private", "f1_scores", "kway_distance", "wasserstein_distance"),
    "missing": (
        "CompleteRows",
        "Extended",
        "FromDomain",
        "ImputeFirst",
        "Observed",
        "patterns",
        "MAR",
        "MCAR",
        "MNAR",
        "FromDistribution",
        "FromMean",
        "FromMode",
        "FromModel",
        "describe_gaps",
        "little_test",
        "gap_rates",
    ),
    "privacy": ("Budget", "Ledger", "Loss", "Rows", "stability_cost", "MissingAtLeast", "ground_truth"),
    "query": ("Answer", "Count", "Drop", "HotDeck", "Knn", "Mean", "Proportion", "Sum", "Variance", "preview"),
    "schema": ("Boolean", "Categorical", "Date", "DateTime", "Integer", "MissingCode", "Number", "Ordinal", "Schema"),
    "synth": ("AIM", "MST", "Auto", "Independent", "PrivBayes", "load"),
}
_HOME = {name: room for room, names in _ROOMS.items() for name in names}

if TYPE_CHECKING:
    from gapless.data import PrivateTable, Table, read
    from gapless.errors import (
        BudgetError,
        GaplessError,
        LedgerError,
        ModelError,
        QuestionError,
        ReadError,
        SchemaError,
        SealedError,
    )
    from gapless.evaluate import (
        Comparison,
        compare,
        compare_private,
        f1_scores,
        kway_distance,
        wasserstein_distance,
    )
    from gapless.missing import (
        MAR,
        MCAR,
        MNAR,
        CompleteRows,
        Extended,
        FromDistribution,
        FromDomain,
        FromMean,
        FromMode,
        FromModel,
        ImputeFirst,
        Observed,
        describe_gaps,
        gap_rates,
        little_test,
        patterns,
    )
    from gapless.privacy import (
        Budget,
        Ledger,
        Loss,
        MissingAtLeast,
        Rows,
        ground_truth,
        stability_cost,
    )
    from gapless.query import (
        Answer,
        Count,
        Drop,
        HotDeck,
        Knn,
        Mean,
        Proportion,
        Sum,
        Variance,
        preview,
    )
    from gapless.schema import (
        Boolean,
        Categorical,
        Date,
        DateTime,
        Integer,
        MissingCode,
        Number,
        Ordinal,
        Schema,
    )
    from gapless.synth import (
        AIM,
        MST,
        Auto,
        Independent,
        PrivBayes,
        load,
    )

__all__ = [
    "AIM",
    "MAR",
    "MCAR",
    "MNAR",
    "MST",
    "Answer",
    "Auto",
    "Boolean",
    "Budget",
    "BudgetError",
    "Categorical",
    "Comparison",
    "CompleteRows",
    "Count",
    "Date",
    "DateTime",
    "Drop",
    "Extended",
    "FromDistribution",
    "FromDomain",
    "FromMean",
    "FromMode",
    "FromModel",
    "GaplessError",
    "HotDeck",
    "ImputeFirst",
    "Independent",
    "Integer",
    "Knn",
    "Ledger",
    "LedgerError",
    "Loss",
    "Mean",
    "MissingAtLeast",
    "MissingCode",
    "ModelError",
    "Number",
    "Observed",
    "Ordinal",
    "PrivBayes",
    "PrivateTable",
    "Proportion",
    "QuestionError",
    "ReadError",
    "Rows",
    "Schema",
    "SchemaError",
    "SealedError",
    "Sum",
    "Table",
    "Variance",
    "compare",
    "compare_private",
    "describe_gaps",
    "f1_scores",
    "gap_rates",
    "ground_truth",
    "kway_distance",
    "little_test",
    "load",
    "patterns",
    "preview",
    "read",
    "stability_cost",
    "wasserstein_distance",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    return getattr(import_module(f"gapless.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
