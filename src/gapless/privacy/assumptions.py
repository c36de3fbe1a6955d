"""Assumptions about gaps, on which guarantees for the complete data depend.

An assumption is stated by the user. It is never checked and never estimated without a charge, and it is printed beside
every figure that depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias

from gapless.errors import Argument, BudgetError, Call, Hint, SchemaError, Variable
from gapless.text import format_rounded_up
from gapless.types import is_number

Rate: TypeAlias = float | Mapping[str, float]


@dataclass(frozen=True, slots=True)
class EstimateReceipt:
    """The ledger that was charged for estimated rates, its total promise, and the cells that it counted as gaps.

    The ledger is recorded by its identity, gaps by the digests of their rules.
    """

    ledger: str
    promise: str
    gaps: Mapping[str, str]

    def __str__(self) -> str:
        return f"paid for under another ledger ({self.ledger[:8]}), which comes on top: {self.promise}"


@dataclass(frozen=True, slots=True, eq=False)
class MCAR:
    """Cells go missing completely at random: each with its column's public probability, whatever the values are.

    Rows are independent of each other. Within a row the columns are independent too, or, with `columns="dependent"`,
    related in any way at all. A column that is not named is taken as always observed.

    Args:
        rates: the probability of a gap in each column, or one number for every column that may be missing.
        columns: "independent" or "dependent".
        failure: the probability that a rate is wrong, for rates that were estimated; 0 for public ones.
        paid: the ledger that `gap_rates` charged for estimating them.

    >>> print(MCAR({"income": 0.2}))
    cells go missing independently across rows and columns, whatever the values, with probability at least 0.2 in \
'income'; these probabilities are public, and nobody outside knows which cells of a person are missing
    """

    rates: Rate
    columns: Literal["independent", "dependent"] = field(default="independent", kw_only=True)
    failure: float = field(default=0.0, kw_only=True)
    paid: EstimateReceipt | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", checked_rate(self.rates, "MCAR"))
        if self.columns not in ("independent", "dependent"):
            raise SchemaError(
                f'columns must be "independent" or "dependent", got {self.columns!r}',
                hint=Hint("pass ", Argument("columns", "independent"))
                | Hint("pass ", Argument("columns", "dependent")),
            )
        if not 0 <= self.failure < 1:
            raise BudgetError(
                f"failure, the probability that a given gap rate is wrong, must be at least 0 and below 1, "
                f"got {self.failure}",
                hint=Hint("pass ", Argument("failure", 0.0), " for public rates")
                | Hint("use ", Call("gapless.missing.gap_rates", Variable("table")), ", which estimates rates"),
            )

    def __eq__(self, other: object) -> bool:
        """Equal if the assumptions are, also for the `MCAR` of missing/, which generates such gaps as well."""
        if not isinstance(other, MCAR):
            return NotImplemented
        return (self.rates, self.columns, self.failure) == (other.rates, other.columns, other.failure)

    def __hash__(self) -> int:
        return hash((str(self.rates), self.columns, self.failure))

    def __str__(self) -> str:
        across = "rows and columns" if self.columns == "independent" else "rows (columns may go together in any way)"
        origin = (
            "these probabilities are public"
            if not self.failure
            else "these probabilities were bounded by a paid estimate that fails with probability "
            + format_rounded_up(self.failure)
        )
        if self.paid is not None:
            origin += f" ({self.paid})"
        return (
            f"cells go missing independently across {across}, whatever the values, with probability at least "
            f"{_description(self.rates)}; {origin}, and {_UNSEEN}"
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

    rates: Rate

    def __post_init__(self) -> None:
        object.__setattr__(self, "rates", checked_rate(self.rates, "gapless.privacy.MissingAtLeast"))

    @property
    def columns(self) -> Literal["dependent"]:
        """Gaps that may depend on values may depend on each other in any way."""
        return "dependent"

    @property
    def failure(self) -> float:
        """0: the bounds are public, not estimated."""
        return 0.0

    def __str__(self) -> str:
        return (
            "the gaps of each row are drawn independently of all other rows, and whatever the values of a person, a "
            f"cell is missing with probability at least {_description(self.rates)}; these probabilities are public, "
            f"and {_UNSEEN}"
        )


Assumption: TypeAlias = MCAR | MissingAtLeast

_NAMES = ("gapless.privacy.MissingAtLeast", "MCAR")  # for hints
_UNSEEN = "nobody outside knows which cells of a person are missing"


def check_assumption(assumption: object) -> None:
    """Refuse an object that is not an assumption about gaps."""
    if not isinstance(assumption, MCAR | MissingAtLeast):
        raise BudgetError(
            f"an assumption about gaps must be an MCAR or a MissingAtLeast, got {assumption!r}",
            hint=Hint("pass ", Call("MCAR", {"income": 0.2}))
            | Hint("pass ", Call("gapless.privacy.MissingAtLeast", {"income": 0.1})),
        )


def expand_rates(assumption: Assumption, columns: Iterable[str]) -> Assumption:
    """Replace a single rate with one for each of these columns; named rates stay as they are.

    >>> expand_rates(MCAR(0.2), ["age", "sex"]).rates
    {'age': 0.2, 'sex': 0.2}
    """
    check_assumption(assumption)
    if isinstance(assumption.rates, Mapping):
        return assumption
    return replace(assumption, rates=dict.fromkeys(columns, assumption.rates))


def named_rates(assumption: Assumption) -> Mapping[str, float]:
    """The probability of a gap in each named column."""
    check_assumption(assumption)
    if not isinstance(assumption.rates, Mapping):
        raise BudgetError(
            "a ledger needs a rate for each column, because it does not know which columns may be missing",
            hint=Hint("name the columns: ", Call(_NAMES[isinstance(assumption, MCAR)], {"income": 0.2})),
        )
    if always := [column for column, rate in assumption.rates.items() if rate == 1]:
        raise BudgetError(
            f"the rate of gaps in {always[0]!r} must be below 1, got {assumption.rates[always[0]]:g}",
            hint=f"pass a rate below 1 for {always[0]!r}, or leave the column out to assume no gaps in it",
        )
    return assumption.rates


def to_dict(assumption: Assumption) -> dict[str, Any]:
    """An assumption as a ledger stores it."""
    rates = dict(named_rates(assumption))
    if isinstance(assumption, MCAR):
        paid = {} if assumption.paid is None else {"paid": asdict(assumption.paid)}
        return {"kind": "MCAR", "rates": rates, "columns": assumption.columns, "failure": assumption.failure} | paid
    return {"kind": "MissingAtLeast", "rates": rates}


def from_dict(content: Mapping[str, Any]) -> Assumption:
    """What `to_dict` wrote."""
    given = dict(content)
    if "paid" in given:
        given["paid"] = EstimateReceipt(**{**given["paid"], "gaps": dict(given["paid"]["gaps"])})  # nothing is shared
    kind = {"MCAR": MCAR, "MissingAtLeast": MissingAtLeast}[given.pop("kind")]
    assumption: Assumption = kind(**given)
    return assumption


def checked_rate(rate: Any, name: str) -> Rate:
    """A probability of gaps, or one for each column, as plain numbers."""
    if isinstance(rate, Mapping) and all(isinstance(column, str) for column in rate):
        return {column: _checked_probability(rate[column], name, f" of {column!r}") for column in sorted(rate)}
    return _checked_probability(rate, name, "")


def _checked_probability(rate: Any, name: str, of: str) -> float:
    if not (is_number(rate) and 0 <= rate <= 1):
        raise SchemaError(
            f"the rate{of} must be a number from 0 to 1, got {rate!r}",
            hint=Hint("pass the probability of a gap by the name of the column: ", Call(name, {"income": 0.2})),
        )
    return float(rate)


def _description(rates: Rate) -> str:
    """The rates as text, rounded up: printed rates are never below the assumed ones."""
    if not isinstance(rates, Mapping):
        return f"{format_rounded_up(rates)} in every column that may be missing"
    same = set(rates.values())
    if len(rates) > 3 and len(same) == 1:
        return f"{format_rounded_up(same.pop())} in each of {', '.join(map(repr, rates))}"
    return ", ".join(f"{format_rounded_up(rate)} in {column!r}" for column, rate in rates.items()) or "0 everywhere"
