r"""The budget (ε, δ), the privacy loss in which it is spent, and the conversion between the two.

A ledger adds up Rényi divergences at one order :math:`\alpha`, which its budget determines. Such losses add up
even when each release depends on all earlier answers (a fixed-order Rényi filter: Feldman and Zrnic 2021), and
a total of :math:`\varepsilon_\alpha` gives

.. math:: \varepsilon = \varepsilon_\alpha + \log\frac{\alpha - 1}{\alpha} - \frac{\log\delta + \log\alpha}{\alpha - 1}.

With :math:`\delta = 0` the order is infinite and a loss is pure ε. Proved in docs/proofs/renyi_filter.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from gapless.errors import Argument, BudgetError, Call, Hint, Variable
from gapless.privacy.assumptions import Assumption, check_assumption
from gapless.text import format_rounded_up
from gapless.types import checked_number, is_whole

PURE = math.inf
# Float rounding never breaks the guarantee: capacities are rounded down by the relative ROUNDING, far more than the
# relative SLACK with which sums of losses are compared (docs/proofs/renyi_filter.md, section 6).
ROUNDING = 1e-9
SLACK = 1e-12
UNSTATED = math.nan  # no δ: there is no default, every new ledger needs a choice
MAX_ROWS = 1 << 53  # of one person: whole numbers up to here are exact floats
RECOMMENDED_BUDGET = Call("Budget", Argument("epsilon", 1.0), Argument("delta", 1e-6))  # in hints


@dataclass(frozen=True, slots=True)
class Loss:
    """A privacy loss: a Rényi divergence at one order. Losses of the same order add up.

    >>> whole = Loss(0.5, order=20.0)
    >>> whole / 2 + whole / 4
    Loss(value=0.375, order=20.0)
    """

    value: float
    order: float

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value >= 0):
            raise BudgetError(
                f"a loss must be finite and at least 0, got {self.value}", hint="pass a finite number of 0 or more"
            )

    def _value_at_this_order(self, other: Loss) -> float:
        if not isinstance(other, Loss):
            raise BudgetError(
                f"a Loss can be added to a Loss or compared with one, but not with {other!r}",
                hint=Hint("use ", Call("people.ledger.share", "10%"), ", which is a Loss"),
            )
        if other.order != self.order:
            raise BudgetError(
                f"losses of different Rényi orders, {self.order:g} and {other.order:g}, cannot be compared or added",
                hint=Hint("use losses from one ledger, such as ", Call("people.ledger.share", "10%")),
            )
        return other.value

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.value + self._value_at_this_order(other), self.order)

    def __sub__(self, other: Loss) -> Loss:
        return Loss(max(0.0, self.value - self._value_at_this_order(other)), self.order)

    def __mul__(self, factor: float) -> Loss:
        return Loss(self.value * factor, self.order)

    __rmul__ = __mul__

    def __truediv__(self, parts: float) -> Loss:
        return Loss(self.value / parts, self.order)

    def fits_in(self, other: Loss) -> bool:
        """Whether this loss is at most the other, up to float rounding."""
        return self.value <= self._value_at_this_order(other) * (1 + SLACK)


@dataclass(frozen=True, slots=True)
class Budget:
    """The (ε, δ) guarantee for all releases from one table together.

    `ground_truth` is an assumption on how cells go missing, such as `MCAR({"income": 0.2})`. With it, ε holds for the
    complete data, the table as it would be without gaps. A release that leaves out rows with gaps then costs less,
    because a person's row may be left out by chance. For the incomplete table, whose gaps are known, the same releases
    amount to a larger ε, which the ledger prints too. Only with δ = 0.

    >>> Budget(epsilon=1.0, delta=0).order
    inf
    >>> print(Budget(epsilon=1.0, delta=1e-6))
    ε = 1, δ = 1e-06
    """

    epsilon: float
    delta: float = UNSTATED
    ground_truth: Assumption | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.delta, float) and math.isnan(self.delta):
            raise BudgetError(
                "A new ledger needs a delta.",
                hint=Hint("add ", Argument("delta", 1e-6), " (recommended, less noise)")
                | Hint("add ", Argument("delta", 0), " (pure differential privacy, much more noise)"),
            )
        epsilon = checked_number("epsilon", self.epsilon, 0, math.inf, "()", error=BudgetError, example=1)
        delta = checked_number("delta", self.delta, 0, 1, "[)", error=BudgetError, example=1e-6)
        object.__setattr__(self, "epsilon", epsilon)  # plain floats, whatever was passed
        object.__setattr__(self, "delta", delta)
        if self.ground_truth is not None:
            check_assumption(self.ground_truth)
            if self.delta > 0:
                raise BudgetError(
                    f"a budget with ground_truth needs delta = 0, got {self.delta:g}: its proof is for pure budgets",
                    hint=Hint("pass ", Argument("delta", 0))
                    | Hint(
                        "leave out ",
                        Argument("ground_truth"),
                        " and call ",
                        Call("people.ledger.ground_truth", Variable("assumption")),
                        " after the releases",
                    ),
                )

    def __str__(self) -> str:
        # `failure` is the probability that an estimated rate of gaps is wrong.
        failure = 0.0 if self.ground_truth is None else self.ground_truth.failure
        promise = f"ε = {format_rounded_up(self.epsilon)}, δ = {format_rounded_up(self.delta + failure)}"
        if self.ground_truth is None:
            return promise
        return f"{promise} for the complete data, assuming that {self.ground_truth}"

    @property
    def order(self) -> float:
        """The Rényi order in which this budget is spent."""
        return PURE if self.delta == 0 else _best_order(self.epsilon, self.delta)

    @property
    def capacity(self) -> Loss:
        """The whole budget as a loss, rounded down."""
        capacity = self.largest_loss(self.order) * (1 - ROUNDING)
        if self.ground_truth is not None:
            capacity -= 10 * ROUNDING * (1 + capacity)  # the pricing of such budgets rounds up by less than this
        if not capacity > 0:
            raise BudgetError(
                f"a budget of {self} is too small to release anything",
                hint=Hint("choose ", Argument("epsilon", 1), " and ", Argument("delta", 1e-6), ", or similar numbers"),
            )
        return Loss(capacity, self.order)

    def largest_loss(self, order: float) -> float:
        """The largest total loss at this order for which the budget's (ε, δ) holds."""
        return self.epsilon if order == PURE else self.epsilon - _epsilon_minus_loss(order, self.delta)


@dataclass(frozen=True, slots=True)
class Rows:
    """The protected unit: all rows of one person, at most `at_most`.

    Also the distance of a sealed table: neighbouring tables differ by at most this many rows.
    """

    at_most: int = 1

    def __post_init__(self) -> None:
        if not is_whole(self.at_most, least=1, most=MAX_ROWS):
            raise BudgetError(
                f"Rows needs a whole number from 1 to 2^53, got {self.at_most!r}",
                hint=Hint("pass ", Call("Rows", 1), ", or the largest number of rows that one person has"),
            )
        object.__setattr__(self, "at_most", int(self.at_most))

    @property
    def row_weight(self) -> str:
        """What a number per row means if a person may have several; empty if not."""
        return "" if self.at_most == 1 else f"per row: each row weighs 1, so one person weighs up to {self.at_most}"

    def __str__(self) -> str:
        return "one row" if self.at_most == 1 else f"up to {self.at_most} rows"


@dataclass(frozen=True, slots=True, init=False)
class Persons:
    """The protected unit: all rows of one person, however many. Reading keeps at most `at_most` rows of each.

    Rows with the same id are one person: a patient, or a household if the id is that of households. A row without an id
    is a person by itself. Which rows are kept depends on the rows of this person and on a secret key only, so a person
    changes at most `at_most` of them (docs/proofs/stability.md, section 2).

    Attributes:
        id: the column with the id, or several that form it together. They are not columns of the schema.
        at_most: the number of rows that are kept of each person.
    """

    id: tuple[str, ...]
    at_most: int

    def __init__(self, id: str | Sequence[str], at_most: int) -> None:  # noqa: A002 the word for it
        names = [id] if isinstance(id, str) else id
        hint = Hint("pass ", Call("Persons", Argument("id", "patient_id"), Argument("at_most", 3)))
        is_list = isinstance(names, list | tuple) and all(isinstance(name, str) and name for name in names)
        if not (is_list and names and len(set(names)) == len(names)):
            wrong = f"Persons needs the name of the column with the id, or several different names, got {id!r}"
            raise BudgetError(wrong, hint=hint)
        if not is_whole(at_most, least=1, most=MAX_ROWS):
            raise BudgetError(f"at_most of Persons must be a whole number from 1 to 2^53, got {at_most!r}", hint=hint)
        object.__setattr__(self, "id", tuple(names))
        object.__setattr__(self, "at_most", int(at_most))

    @property
    def name(self) -> str:
        """What a person is called: the id columns."""
        return " and ".join(self.id)

    @property
    def row_weight(self) -> str:
        """What a number per row means."""
        most = f"up to {self.at_most}, also with more rows in the data"
        return f"per row: each kept row weighs 1, so one {self.name} weighs {most}"

    def __str__(self) -> str:
        return f"all rows of one {self.name} (at most {self.at_most} {'is' if self.at_most == 1 else 'are'} kept)"


Unit: TypeAlias = Rows | Persons


def is_same_unit(stated: Unit, other: Unit) -> bool:
    """Whether two units are the same. Persons are the same by their id, whatever number of their rows is kept."""
    if isinstance(stated, Persons) and isinstance(other, Persons):
        return stated.id == other.id
    return stated == other


def unit_call(unit: Unit) -> Call:
    """The unit as a call in a hint."""
    if isinstance(unit, Rows):
        return Call("Rows", unit.at_most)
    names = unit.id[0] if len(unit.id) == 1 else list(unit.id)
    return Call("Persons", Argument("id", names), Argument("at_most", unit.at_most))


def unit_content(unit: Unit) -> dict[str, Any]:
    """The protected unit in the header and the copy of a ledger."""
    if isinstance(unit, Persons):
        return {"persons": {"id": list(unit.id), "at_most": unit.at_most}}
    return {"rows_per_person": unit.at_most}


def unit_from(content: Mapping[str, Any]) -> Unit:
    """The protected unit that `unit_content` wrote.

    Raises:
        KeyError, TypeError, BudgetError: There is none.
    """
    return Persons(**content["persons"]) if "persons" in content else Rows(content["rows_per_person"])


# The `spend=` of a call: a share of the whole budget such as "10%", or a loss, such as `ledger.left`.
Spend: TypeAlias = str | Loss


def percent_of(spend: Spend) -> float:
    """The percentage in a share of the whole budget: "50%", or "50".

    >>> percent_of("12.5%")
    12.5
    """
    text = str(spend)
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = math.nan
    if 0 < percent <= 1 and not text.endswith("%"):  # also a number, such as 0.5
        raise BudgetError(
            f"a spend of {text} is ambiguous: it may mean {text}% or {100 * percent:g}% of the budget",
            hint=Hint("pass ", Argument("spend", f"{text}%")) | Hint("pass ", Argument("spend", f"{100 * percent:g}%")),
        )
    if isinstance(spend, str) and 0 < percent <= 100:
        return percent
    raise BudgetError(
        f"a spend must be a percentage above 0% and at most 100% of the budget, got {spend!r}",
        hint=Hint("pass a percentage, such as ", Argument("spend", "50%")),
    )


def share_of(capacity: Loss, spend: Spend) -> Loss:
    """A `spend` as a loss: a share of this capacity, or the given loss."""
    if not isinstance(spend, Loss):
        return capacity * (percent_of(spend) / 100)
    if spend.order != capacity.order:
        raise BudgetError(
            f"spend is a loss of Rényi order {spend.order:g}, but the ledger of this table has {capacity.order:g}",
            hint=Hint("pass ", Argument("spend", "50%")) | Hint("pass a loss from the ledger of this table"),
        )
    return spend


def check_budget(budget: Budget | None) -> None:
    """Refuse an object that is not a budget, such as a bare ε; None is allowed, for an existing ledger."""
    if not (budget is None or isinstance(budget, Budget)):
        raise BudgetError(
            f"budget must be a Budget, got {budget!r}", hint=Hint("pass ", Argument("budget", RECOMMENDED_BUDGET))
        )


def epsilon_of(loss: Loss, delta: float) -> float:
    """The ε of a total loss at this δ."""
    if loss.order == PURE or loss.value == 0:
        return loss.value
    return max(0.0, loss.value + _epsilon_minus_loss(loss.order, delta))


def pure_loss(epsilon: float, order: float) -> float:
    r"""The largest Rényi loss of an ε-DP mechanism at an order: that of randomised response.

    .. math:: \varepsilon_\alpha = \frac{1}{\alpha-1} \log\frac{\cosh((\alpha - 1/2)\varepsilon)}{\cosh(\varepsilon/2)}

    Source: Kairouz, Oh, Viswanath 2015 (every ε-DP pair is a post-processing of randomised response);
    docs/proofs/pure_to_renyi.md.
    """
    if order == PURE or epsilon == 0:
        return epsilon
    divergence = (_log_cosh((order - 0.5) * epsilon) - _log_cosh(epsilon / 2)) / (order - 1)
    return min(epsilon, divergence * (1 + SLACK))


def _log_cosh(x: float) -> float:
    return math.log1p(2 * math.sinh(x / 2) ** 2) if x < 1 else x + math.log1p(math.exp(-2 * x)) - math.log(2)


def _epsilon_minus_loss(order: float, delta: float) -> float:
    """The difference between ε and a Rényi loss: the formula at the top of this module."""
    return math.log1p(-1 / order) - (math.log(delta) + math.log(order)) / (order - 1)


@lru_cache(maxsize=256)
def _best_order(epsilon: float, delta: float) -> float:
    r"""The order α that maximises capacity(α) / α, and so needs the least Gaussian noise.

    Any order above 1 is valid. Rounding to six digits is safe: the capacity is computed from the rounded order.
    """
    exponents = np.linspace(math.log(1e-4), math.log(1e12), 4001)
    for _ in range(3):
        orders = 1 + np.exp(exponents)
        capacities = epsilon - np.log1p(-1 / orders) + (math.log(delta) + np.log(orders)) / (orders - 1)
        best = exponents[np.argmax(capacities / orders)]
        width = exponents[1] - exponents[0]
        exponents = np.linspace(best - width, best + width, 401)
    return float(f"{1 + math.exp(best):.6g}")
