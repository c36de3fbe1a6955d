"""gapless: differentially private releases from tables with missing values.

>>> import gapless as gl
>>> schema = gl.Schema("people", [gl.Integer("age", bounds=(0, 120)), gl.Boolean("smoker", may_be_missing=True)])
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# The public names by the package that holds them; `__init__.pyi` lists the same for type checkers. A package is
# imported when one of its names is first used, so that `import gapless` stays light.
_NAMES = {
    "data": "PrivateTable Table read",
    "errors": "GaplessError",
    "evaluate": "compare",
    "inference": "pool",
    "missing": "MAR MCAR MNAR CompleteRows Extended ImputeFirst Observed",
    "privacy": "Budget Ledger Loss Persons Rows",
    "publish": "release weigh",
    "query": "Count Drop HotDeck Knn Mean Median Proportion Quantile Sum Variance parse_question",
    "schema": "Boolean Categorical Constraint Date DateTime Integer MissingCode MissingRange Number Ordinal Schema",
    "synth": "AIM MST Factors FittedModel Independent Kamino Mixture PrivBayes load",
    "weights": "CalibrationWeights",
}
_HOME = {name: package for package, names in _NAMES.items() for name in names.split()}
_PACKAGES = (*_NAMES, "testing")  # these hold what is used less often

__all__ = list(_HOME)


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"gapless.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    return getattr(import_module(f"gapless.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, "__version__"])
