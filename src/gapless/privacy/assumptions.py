"""What somebody is ready to assume about gaps: the ground for a promise to the people behind them.

An assumption is stated, never checked and never read from the data. It is printed beside every figure that rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias

from gapless.errors import BudgetError


@dataclass(frozen=True, slots=True)
class MCAR:
    """Cells go missing completely at random: each with its column's public probability, whatever the values are.

    Rows are independent of each other. Within a row the columns are independent too, or, with `columns="dependent"`,
    related in any way at all. A column that is not named is taken as always observed.

    Args:
        rates: the probability of a gap in each column, or one number for every column that may be missing.
        columns: "independent" or "dependent".
        failure: the probability that a rate is wrong, for rates that were estimated; 0 for public ones.

    >>> print(MCAR({"income": 0.2}))
    cells go missing independently across rows and columns, whatever the values, with probability at least 0.2 in \
'income'; these probabilities are public, and nobody outside knows which cells of a person are missing
    """

    rates: float | Mapping[str, float]
    columns: Literal["independent", "dependent"] = field(default="independent", kw_only=True)
    failure: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", _checked(self.rates, "MCAR"))
        if self.columns not in ("independent", "dependent"):
            raise BudgetError(f"no columns {self.columns!r}", hint='columns="independent" or columns="dependent"')
        if not 0 <= self.failure < 1:
            raise BudgetError(f"failure = {self.failure} is not a probability below 1", hint="0 for public rates")

    def __str__(self) -> str:
        across = "rows and columns" if self.columns == "independent" else "rows (columns may go together in any way)"
        origin = (
            "these probabilities are public"
            if not self.failure
            else f"these probabilities were bounded by a paid estimate that fails with probability {self.failure:g}"
        )
        return (
            f"cells go missing independently across {across}, whatever the values, with probability at least "
            f"{_told(self.rates)}; {origin}, and {_UNSEEN}"
        )


@dataclass(frozen=True, slots=True)
class MissingAtLeast:
    """Every person's cell is missing with at least this probability, whatever the person's values are (MAR and MNAR).

    The gaps of a row may depend on all values of that row and on each other, but on no other row. Under addition and
    removal of rows such a lower bound is all that is needed.

    Args:
        rates: the least probability of a gap in each column, or one number for every column that may be missing.

    >>> print(MissingAtLeast({"income": 0.1}))
    the gaps of each row are drawn independently of all other rows, and whatever the values of a person, a cell is \
missing with probability at least 0.1 in 'income'; these probabilities are public, and nobody outside knows which \
cells of a person are missing
    """

    rates: float | Mapping[str, float]

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", _checked(self.rates, "MissingAtLeast"))

    @property
    def columns(self) -> Literal["dependent"]:
        """Gaps that may depend on values may go together in any way."""
        return "dependent"

    @property
    def failure(self) -> float:
        """The bounds are taken as certain."""
        return 0.0

    def __str__(self) -> str:
        return (
            "the gaps of each row are drawn independently of all other rows, and whatever the values of a person, a "
            f"cell is missing with probability at least {_told(self.rates)}; these probabilities are public, and "
            f"{_UNSEEN}"
        )


Assumption: TypeAlias = MCAR | MissingAtLeast

_UNSEEN = "nobody outside knows which cells of a person are missing"


def over(assumption: Assumption, columns: Iterable[str]) -> Assumption:
    """One rate for every column that may be missing, spelled out for these; named rates stay as they are.

    >>> over(MCAR(0.2), ["age", "sex"]).rates
    {'age': 0.2, 'sex': 0.2}
    """
    if isinstance(assumption.rates, Mapping):
        return assumption
    return replace(assumption, rates=dict.fromkeys(columns, assumption.rates))


def named_rates(assumption: Assumption) -> Mapping[str, float]:
    """The probability of a gap in each named column."""
    if not isinstance(assumption, MCAR | MissingAtLeast):
        raise BudgetError(f"{assumption!r} is no assumption about gaps", hint='MCAR({"income": 0.2})')
    if not isinstance(assumption.rates, Mapping):
        raise BudgetError(
            "one rate for all columns, but a ledger does not know which of them may be missing",
            hint='name them: MCAR({"income": 0.2})',
        )
    return assumption.rates


def to_dict(assumption: Assumption) -> dict[str, Any]:
    """An assumption as a ledger stores it."""
    kept: dict[str, Any] = {"kind": type(assumption).__name__, "rates": dict(named_rates(assumption))}
    if isinstance(assumption, MCAR):
        kept |= {"columns": assumption.columns, "failure": assumption.failure}
    return kept


def from_dict(content: Mapping[str, Any]) -> Assumption:
    """What `to_dict` wrote."""
    given = dict(content)
    kind = {"MCAR": MCAR, "MissingAtLeast": MissingAtLeast}[given.pop("kind")]
    assumption: Assumption = kind(**given)
    return assumption


def _checked(rates: Any, name: str) -> float | dict[str, float]:
    hint = f'probabilities of a gap, from 0 to below 1: {name}({{"income": 0.2}})'
    named = rates if isinstance(rates, Mapping) else {"every column": rates}
    for column, rate in named.items():
        if not isinstance(column, str) or isinstance(rate, bool) or not isinstance(rate, int | float):
            raise BudgetError(f"{column!r}: {rate!r} is not the rate of a column", hint=hint)
        if not 0 <= rate < 1:
            raise BudgetError(f"a gap with probability {rate} in {column!r}", hint=hint)
    if isinstance(rates, Mapping):
        return {column: float(named[column]) for column in sorted(named)}
    return float(named["every column"])


def _told(rates: float | Mapping[str, float]) -> str:
    if not isinstance(rates, Mapping):
        return f"{rates:g} in every column that may be missing"
    same = set(rates.values())
    if len(rates) > 3 and len(same) == 1:
        return f"{same.pop():g} in each of {', '.join(map(repr, rates))}"
    return ", ".join(f"{rate:g} in {column!r}" for column, rate in rates.items()) or "0 everywhere"
