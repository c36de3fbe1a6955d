"""Sealed values, their distances, and released values.

Only the package `data/` derives sealed values from others; this needs the ledger's key. Every call of `transform` needs
a proof of its distance and a property test. It is not a method of `Private`, so that user code cannot give a sealed
value another distance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Argument, BudgetError, Call, Hint, SealedError

Columns: TypeAlias = frozenset[str]  # names of columns
Numbers: TypeAlias = int | float | NDArray[np.int64] | NDArray[np.float64]  # the types of answers

T = TypeVar("T")
U = TypeVar("U")
D = TypeVar("D")
T_co = TypeVar("T_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)


@dataclass(frozen=True, slots=True)
class _Distance:
    at_most: float

    def __post_init__(self) -> None:
        if not 0 < self.at_most < math.inf:
            problem = f"at_most of {type(self).__name__} must be finite and above 0, got {self.at_most}"
            raise BudgetError(problem, hint="pass a finite number above 0")


@dataclass(frozen=True, slots=True)
class Linf(_Distance):
    """A bound on the change of each number of a value when one protected unit is added or removed (L∞ sensitivity)."""


@dataclass(frozen=True, slots=True)
class L2(Linf):
    """A bound on the Euclidean norm of the change (L2 sensitivity); it bounds the change of each number too."""


@dataclass(frozen=True, slots=True)
class L2Vector(L2):
    """An L2 distance of a vector whose length, a public bound, is `numbers`.

    No more numbers than that can change, which makes a first batch cheaper (`gapless.privacy.first_batch`).
    """

    numbers: int

    def __post_init__(self) -> None:
        _Distance.__post_init__(self)
        if type(self.numbers) is not int or self.numbers < 1:
            wrong = f"numbers of L2Vector must be a whole number above 0, got {self.numbers!r}"
            raise BudgetError(wrong, hint="pass the length of the vector")


@dataclass(frozen=True, slots=True)
class L1(L2):
    """A bound on the sum of absolute changes (L1 sensitivity); it bounds the Euclidean norm too."""


@dataclass(frozen=True, slots=True)
class LinfByGroup(Linf):
    """For a matrix with a line of numbers for each group: the largest change in each line, summed over lines.

    A row of the table is in one group, so adding or removing it changes one line of the matrix.
    """


@dataclass(frozen=True, slots=True)
class Smooth(_Distance):
    """For smooth sensitivity: the value comes with a private bound on its change when *one* row is added or removed.

    `SmoothCauchy` scales its noise to this bound. The bound differs by a factor of at most 2 between tables that differ
    by one row (it is ln 2-smooth), and is never below `least`, which is public. A protected unit has up to `at_most`
    rows.
    """

    at_most: int
    least: float


@dataclass(frozen=True, slots=True)
class Sampled(_Distance):
    """For private training: the value is the rows themselves, of which a protected unit has up to `at_most`.

    Each row is independently sampled into minibatches (DP-SGD) or given to one of several teachers (PATE).
    """

    at_most: int


class Key:
    """Opens sealed values. Each ledger has a separate key, so no ledger can pay for the table of another."""

    __slots__ = ()


def _refuse(attempt: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise SealedError(
            f"{type(self).__name__}: {attempt} would reveal private data",
            hint=Hint("release something from the table: ", Call("people.ask", Call("Count"), Argument("spend", "1%"))),
        )

    return refuse


class Sealed:
    """Refuses every operation of Python that would reveal a private value."""

    __slots__ = ()

    __len__ = __length_hint__ = _refuse("len()")
    __iter__ = __next__ = __reversed__ = _refuse("iteration")
    __getitem__ = _refuse("indexing")
    __contains__ = _refuse("`in`")
    __bool__ = _refuse("a truth test")
    __eq__ = _refuse("comparison")
    __ne__ = _refuse("comparison")
    __lt__ = __le__ = __gt__ = __ge__ = _refuse("comparison")
    __hash__ = _refuse("hashing")
    # The default __getstate__ would reveal the content of the slots.
    __getstate__ = __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = _refuse("pickling or copying")
    __array__ = __array_ufunc__ = __array_function__ = _refuse("numpy")
    __buffer__ = __bytes__ = __dlpack__ = _refuse("conversion to bytes")
    __dataframe__ = __dataframe_consortium_standard__ = __narwhals_dataframe__ = _refuse("conversion to a frame")
    __arrow_array__ = __arrow_c_array__ = __arrow_c_stream__ = _refuse("conversion to Arrow")
    __int__ = __float__ = __complex__ = __index__ = _refuse("conversion to a number")
    __round__ = __trunc__ = __floor__ = __ceil__ = _refuse("rounding")


class Private(Sealed, Generic[T_co, D_co]):
    """A sealed value with its distance (sensitivity) and its `reads`.

    A row affects the value only if it is observed on the columns of `reads`. The value is computed when it is first
    opened, after a charge. `PrivateTable.marginals` makes several values; opening one of them computes them all.
    Attributes are read-only: `transform` makes a new value, and needs the ledger's key. This prevents access by
    accident or habit, not by a determined programmer in the same process, whom Python cannot stop.
    """

    __slots__ = ("__compute", "__distance", "__key", "__reads")

    def __init__(self, compute: Callable[[], T_co], *, distance: D_co, reads: Columns | None, key: Key) -> None:
        self.__compute = compute
        self.__key = key
        self.__distance = distance
        self.__reads = reads

    @property
    def distance(self) -> D_co:
        """A bound on the change of the value when one protected unit is added or removed."""
        return self.__distance

    @property
    def reads(self) -> Columns | None:
        """A row with a gap in one of these columns does not affect the value; None: every row may."""
        return self.__reads

    def _check(self, key: Key) -> None:
        if key is not self.__key:
            raise SealedError(
                "this value belongs to another ledger, which has to pay for it",
                hint="release it with a grant from the ledger of the table that it was computed from",
            )

    def _open(self, key: Key) -> T_co:
        self._check(key)
        return self.__compute()

    def __repr__(self) -> str:
        return f"<Private: {self.distance}, reads {describe_reads(self.reads)}>"


def describe_reads(reads: Columns | None) -> str:
    """The rows that a value reads, as text."""
    return "every row" if reads is None else f"rows observed on {', '.join(sorted(reads)) or 'nothing'}"


def check_sealed(value: object, key: Key) -> None:
    """Refuse a value that this key does not open. Only the exact class: a subclass could override `_check`."""
    if type(value) is not Private:
        wrong = f"a {type(value).__name__} is not a sealed value, and only those are released"
        raise SealedError(wrong, hint="pass a value that was computed from the private table of this ledger")
    value._check(key)  # noqa: SLF001 same module


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """A public value and the number of the ledger entry that paid for it."""

    value: T
    entry: int


def transform(
    value: Private[T, Any], function: Callable[[T], U], *, distance: D, reads: Columns | None, key: Key
) -> Private[U, D]:
    """A sealed value that applies `function` to another one when it is opened."""
    check_sealed(value, key)
    return Private(lambda: function(value._open(key)), distance=distance, reads=reads, key=key)  # noqa: SLF001 same module


def gather(values: Sequence[Private[T, Any]], *, key: Key) -> Private[list[T], None]:
    """Several sealed values of one ledger as one value without a distance, for a following `transform`."""
    values = list(values)
    for value in values:
        check_sealed(value, key)
    return Private(lambda: [value._open(key) for value in values], distance=None, reads=None, key=key)  # noqa: SLF001 same module
