r"""Weighted estimates, and Bayesian regression, from weighted rows of a public table.

`weighted_posterior` is the posterior of a regression in which each row counts by its weight:

.. math:: \pi_w(\theta \mid x_1, \dots, x_N) \propto \pi(\theta) \exp\Bigl(\sum_i w_i \log f(x_i \mid \theta)\Bigr)

It needs the extra numpyro: pip install 'gapless[bayes]'.

Standard errors of weighted means and shares are from the sandwich formula,

.. math:: \mathrm{se}^2 = \frac{\sum_i w_i^2 (x_i - \bar x_w)^2}{\bigl(\sum_i w_i\bigr)^2},

as if rows were independent draws from a population. They do not include the error of noise and of a synthesizer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gapless.data import Table
from gapless.data.checks import check_public, given_weights
from gapless.data.private_logistic import Points
from gapless.errors import Argument, Call, Hint, ModelError, SchemaError, requires_extra
from gapless.schema import Column, Integer, Number
from gapless.types import Floats, checked_number, whole


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate and its standard error, as if the rows were independent draws."""

    value: float
    standard_error: float


def weighted_mean(table: Table, column: str, *, weights: ArrayLike | None = None) -> Estimate:
    """Return the mean of a numeric column over rows with a number; by default with the table's weights."""
    return _mean(*_numbers(table, column, weights))


def weighted_proportions(table: Table, column: str, *, weights: ArrayLike | None = None) -> dict[str, Estimate]:
    """Return the share of each cell of a column among rows without a gap there."""
    codes, mass = _observed(table, column, weights)
    cells = table.schema[column].cells[: table.schema[column].size]
    return {cell: _mean((codes == code).astype(np.float64), mass) for code, cell in enumerate(cells)}


def weighted_quantiles(
    table: Table, column: str, levels: Sequence[float], *, weights: ArrayLike | None = None
) -> list[float]:
    """Return weighted quantiles: the least values with at least these shares of the weight at or below them."""
    values, mass = _numbers(table, column, weights)
    if not all(0 <= level <= 1 for level in levels):
        raise SchemaError(
            f"levels must be a list of numbers from 0 to 1, got {list(levels)!r}",
            hint="pass numbers such as [0.25, 0.5, 0.75]",
        )
    order = np.argsort(values, kind="stable")
    order = order[mass[order] > 0]
    below = np.cumsum(mass[order])
    places = np.searchsorted(below, np.asarray(levels) * below[-1] * (1 - 1e-12))
    return [float(value) for value in values[order][np.minimum(places, len(order) - 1)]]


def _mean(values: Floats, mass: Floats) -> Estimate:
    share = mass / mass.sum()
    value = float(share @ values)
    return Estimate(value, float(np.sqrt((share**2) @ ((values - value) ** 2))))


def _numbers(table: Table, column: str, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    mass = _mass(table, weights)
    cells = table[column]
    if not cells.dtype.is_numeric():
        raise SchemaError(
            f"a mean or quantile needs a column of numbers, but column {column!r} has kind {table.schema[column].kind}",
            hint="name a column of kind integer or number",
        )
    seen = cells.is_not_null().to_numpy()
    _check_any(mass[seen], column)
    return cells.drop_nulls().to_numpy().astype(np.float64), mass[seen]


def _observed(table: Table, column: str, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    mass = _mass(table, weights)
    (place,) = table.schema.positions([column])
    seen = table.codes[place] < table.schema.columns[place].size
    _check_any(mass[seen], column)
    return table.codes[place][seen].astype(np.float64), mass[seen]


def _mass(table: Table, weights: ArrayLike | None) -> Floats:
    check_public(
        table,
        "a weighted estimate needs",
        private=Hint("use ", Call("people.ask", Call("Mean", "income"), Argument("spend", "5%"))),
    )
    checked = given_weights(table, weights)
    return np.ones(table.rows) if checked is None else checked


def _check_any(mass: Floats, column: str) -> None:
    if not mass.sum() > 0:
        raise SchemaError(
            f"an estimate needs a value with a weight above 0, but in column {column!r} all such cells are gaps",
            hint="name another column, or pass weights above 0 for rows without a gap",
        )


@dataclass(frozen=True, slots=True, eq=False)
class Posterior:
    """Draws of the coefficients of a regression of one column on the others.

    Ordered columns are scaled to [0, 1], other cells are coded as 0 or 1. The last coefficient is the intercept.

    Attributes:
        label: the predicted column.
        names: of the coefficients.
        draws: a line of coefficients for each draw.
        logistic: whether they are of a logistic regression.
    """

    label: str
    names: tuple[str, ...]
    draws: Floats
    logistic: bool

    @property
    def mean(self) -> dict[str, float]:
        """The posterior mean of each coefficient."""
        return dict(zip(self.names, self.draws.mean(axis=0).tolist(), strict=True))

    @property
    def std(self) -> dict[str, float]:
        """The posterior standard deviation of each coefficient."""
        return dict(zip(self.names, self.draws.std(axis=0).tolist(), strict=True))

    def predict(self, table: Table) -> Floats:
        """Return, for each row of a public table, the posterior mean of the label, or of its positive probability."""
        check_public(table, "a posterior needs", private="pass a public table, such as a sample")
        rest, points = _predictors(table, self.label)
        if _names(rest, points) != self.names:
            raise SchemaError(
                "the table must have the columns and cells of the table that the posterior was fitted to",
                hint="pass a table with the same schema and bins",
            )
        scores = points(rest.codes) @ self.draws.T
        return np.asarray((1 / (1 + np.exp(-scores)) if self.logistic else scores).mean(axis=1))

    def __str__(self) -> str:
        low, high = np.quantile(self.draws, [0.025, 0.975], axis=0)
        lines = [
            f"{name}: {mean:.4g} [{least:.4g}, {most:.4g}]"
            for name, mean, least, most in zip(self.names, self.draws.mean(axis=0), low, high, strict=True)
        ]
        return "\n".join([f"{self.label}, posterior mean and 95 % of the draws", *lines])


def weighted_posterior(
    table: Table,
    label: str,
    *,
    positive: object | Sequence[object] | None = None,
    weights: ArrayLike | None = None,
    prior_std: float = 10.0,
    draws: int = 1000,
    seed: int = 0,
) -> Posterior:
    r"""The weighted posterior of a regression of `label` on all other columns of public rows ([IW], equation 3).

    .. math:: \text{linear: } y \sim N(x \cdot \beta, \sigma^2), \quad \beta \sim N(0, s^2 \sigma^2), \quad
              \sigma^2 \sim \mathrm{InvGamma}(1, r^2), \qquad
              \text{logistic: } \Pr[y = 1] = \frac1{1 + e^{-x \cdot \beta}}, \quad \beta \sim N(0, s^2)

    s is `prior_std`, and r a tenth of the width of the label's bounds. NUTS draws from it, after the same number of
    warm-up draws. Rows with a gap in the label are left out; a gap in another column is a separate level. Weights are
    scaled to mean 1, so the posterior is as narrow as for the same number of unweighted rows. It does not include the
    error of noise and of a synthesizer.

    Args:
        table: the rows, with their weights unless `weights` is given.
        label: the column to predict; numeric, unless `positive` is given.
        positive: the cell or cells of the label to predict by a logistic regression.
        weights: one for each row.
        prior_std: the prior standard deviation of coefficients, in units of the noise for a linear regression.
        draws: the number of draws.
        seed: of the draws.

    References: [IW] §3.1; Bissiri, Holmes, Walker 2016.
    """
    check_public(table, "a weighted posterior needs", private="pass a public table, such as a sample with its weights")
    draws, seed = whole("draws", draws, error=ModelError, least=1), whole("seed", seed, error=ModelError)
    checked_number("prior_std", prior_std, 0, np.inf, "(]", error=ModelError, example=10)
    checked = given_weights(table, weights)
    mass = np.ones(table.rows) if checked is None else checked * (table.rows / checked.sum())
    column, (place,) = table.schema[label], table.schema.positions([label])
    rest, points = _predictors(table, label)
    seen = table.codes[place] < (column.size if positive is not None else _values_of(column))
    _check_any(mass[seen], label)
    x = points([codes[seen] for codes in rest.codes])
    low, wide = 0.0, 1.0
    if positive is None:
        low, high = (float(bound) for bound in column.bounds)  # type: ignore[attr-defined] # checked: numbers
        wide = high - low
        y = (table[label].drop_nulls().to_numpy().astype(np.float64) - low) / wide
    else:
        named = [positive] if isinstance(positive, str) or not isinstance(positive, Sequence) else positive
        y = np.isin(table.codes[place][seen], [column.code_of(cell) for cell in named]).astype(np.float64)
    found = _sampled(
        partial(_regression, logistic=positive is not None), x, y, mass[seen], float(prior_std), draws, seed
    )
    found = found * wide
    found[:, -1] += low
    return Posterior(label, _names(rest, points), found, logistic=positive is not None)


def _values_of(column: Column) -> int:
    if not isinstance(column, Integer | Number):
        raise SchemaError(
            f"a linear regression needs a column of numbers, but column {column.name!r} has kind {column.kind}",
            hint=Hint("pass ", Argument("positive", column.cells[0]), " for a logistic regression of this cell"),
        )
    return column.values_size


def _predictors(table: Table, label: str) -> tuple[Table, Points]:
    names = [name for name in table.schema.names if name != label]
    if not names:
        raise SchemaError(
            f"a regression needs at least one column besides {label!r}, but the table has none",
            hint="pass a table with at least two columns",
        )
    rest = table[names]
    return rest, Points.of(rest.schema)


def _names(rest: Table, points: Points) -> tuple[str, ...]:
    names: list[str] = []
    for column, numbers in zip(rest.schema.columns, points.tables, strict=True):
        states = column.cells[column.values_size :] if column.is_ordered else column.cells
        names += [column.name] if column.is_ordered else []
        names += [f"{column.name} = {cell}" for cell in states]
        assert numbers.shape[1] == len(states) + column.is_ordered  # noqa: S101 one name for each number
    return (*names, "intercept")


def _sampled(
    model: Callable[..., None], x: Floats, y: Floats, mass: Floats, prior_std: float, draws: int, seed: int
) -> Floats:
    """Draw coefficients from the posterior, in double precision."""
    with requires_extra("numpyro", "bayes"):
        import jax  # noqa: PLC0415 an extra
        from numpyro.infer import MCMC, NUTS  # noqa: PLC0415 an extra
    with jax.enable_x64(True):
        chain = MCMC(NUTS(model), num_warmup=draws, num_samples=draws, progress_bar=False)
        chain.run(jax.random.PRNGKey(seed), x, y, mass, prior_std)
        return np.array(chain.get_samples()["coefficients"], dtype=np.float64)


def _regression(x: Any, y: Any, mass: Any, prior_std: float, *, logistic: bool) -> None:
    """The model of `weighted_posterior` in numpyro."""
    import numpyro  # noqa: PLC0415 an extra
    from numpyro import distributions  # noqa: PLC0415

    std = 1.0 if logistic else numpyro.sample("variance", distributions.InverseGamma(1.0, 0.01)) ** 0.5
    prior = distributions.Normal(0.0, prior_std * std).expand([x.shape[1]]).to_event(1)
    beta = numpyro.sample("coefficients", prior)
    likelihood = distributions.Bernoulli(logits=x @ beta) if logistic else distributions.Normal(x @ beta, std)
    numpyro.factor("rows", mass @ likelihood.log_prob(y))
