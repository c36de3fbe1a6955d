"""What an estimator says of one table, in one form: names, estimates, and their variances as if rows were a sample."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from gapless.errors import ModelError
from gapless.types import Floats
from gapless.weights import Estimate

FORMS = (
    "a tuple (estimates, variances), {name: (estimate, variance)}, what weighted_mean gives, "
    "or a fitted model of statsmodels"
)


class Estimates(NamedTuple):
    """The estimates of one table.

    Attributes:
        names: of the estimates; "" if there is one alone.
        values: the estimates.
        variances: theirs, as if the rows were a sample from a population.
        design: of a linear regression, its columns and last what it explains: its coefficients follow from how each
            two of these go together.
        rows: how many rows each estimate rests on, where that is known.
    """

    names: tuple[str, ...]
    values: Floats
    variances: Floats
    design: Floats | None = None
    rows: Floats | None = None


def estimates_of(said: Any) -> Estimates:
    """What an estimator returned, in one form."""
    try:
        found = _estimates(said)
    except (TypeError, ValueError, KeyError, IndexError):
        found = None
    if found is None or found.values.ndim != 1 or len(found.names) != len(found.values) != 0:
        raise ModelError(f"an estimator returned a {type(said).__name__} that cannot be pooled", hint=FORMS)
    if found.values.shape != found.variances.shape or (found.variances < 0).any():
        raise ModelError("an estimator returned variances that do not fit its estimates", hint=FORMS)
    return found


def _estimates(said: Any) -> Estimates | None:
    if isinstance(said, Estimates):
        return said
    if hasattr(said, "params") and callable(getattr(said, "cov_params", None)):
        return _of_fitted(said)
    if isinstance(said, Estimate):
        return _named({"": said})
    if isinstance(said, Mapping):
        return _named(said)
    if not isinstance(said, tuple):  # two groups of a Series are no estimate and its variance
        return None
    values, variances = (np.atleast_1d(np.asarray(part, dtype=np.float64)) for part in said)
    named = getattr(said[0], "index", None)  # of a Series
    names = range(1, len(values) + 1) if named is None or callable(named) else named
    return Estimates(("",) if len(values) == 1 else tuple(map(str, names)), values, variances)


def _named(said: Mapping[Any, Any]) -> Estimates:
    pairs = [
        (part.value, part.standard_error**2) if isinstance(part, Estimate) else tuple(part) for part in said.values()
    ]
    values, variances = np.array(pairs, dtype=np.float64).T
    return Estimates(tuple(map(str, said)), values, variances)


def _of_fitted(fitted: Any) -> Estimates:
    """The coefficients of a fitted model as statsmodels gives it; of a linear one its design too."""
    values = np.asarray(fitted.params, dtype=np.float64)
    variances = np.diag(np.asarray(fitted.cov_params(), dtype=np.float64))
    names = getattr(fitted.params, "index", None)
    if names is None:
        names = fitted.model.exog_names
    design = None
    if type(fitted.model).__name__ in ("OLS", "WLS"):
        design = np.column_stack([fitted.model.wexog, fitted.model.wendog])  # times the roots of weights
    return Estimates(tuple(map(str, names)), values, variances, design)
