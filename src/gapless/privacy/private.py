"""Sealed values and released ones: the two sides of the gate.

Sealed values made from sealed values: only the room `data/` does this, with its ledger's key.

Whoever calls `transform` owes a proof of the distance and a property test of it. It is no method of `Private`: a sealed
value that was handed out cannot be given another distance by whoever holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NoReturn, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from gapless.errors import Argument, Call, Hint, SealedError

Columns: TypeAlias = frozenset[str]
Numbers: TypeAlias = int | float | NDArray[np.int64] | NDArray[np.float64]  # what an answer is: a journal keeps no else

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Linf:
    """How far each single number of a value can move when one protected unit comes or goes."""

    at_most: float


@dataclass(frozen=True, slots=True)
class L2(Linf):
    """A bound on the Euclidean distance; it bounds every single number too."""


@dataclass(frozen=True, slots=True)
class L1(L2):
    """A bound on the sum of all changes; it bounds the Euclidean distance too."""


@dataclass(frozen=True, slots=True)
class LinfByGroup(Linf):
    """For a table of numbers, a line for each group: how far each line's numbers can move, added up over the lines.

    A row is in one group, so of the lines of a protected unit with one row a single one moves.
    """


@dataclass(frozen=True, slots=True)
class Smooth:
    """A value that comes with a private bound on how far *one* row can move it, in place of a public one.

    The bound differs by a factor of at most 2 between tables that differ by one row (it is ln 2-smooth), and is never
    below `least`, which is public. `at_most` rows come or go with one protected unit.
    """

    at_most: int
    least: float


@dataclass(frozen=True, slots=True)
class Sampled:
    """Rows that chance takes one by one, into lots or to teachers: at most so many come or go with a protected unit."""

    at_most: int


class Key:
    """What opens sealed values. Every ledger has its own, so no ledger can pay for another's table."""

    __slots__ = ()


def _refuse(attempt: str) -> Callable[..., NoReturn]:
    def refuse(self: object, *_: object, **__: object) -> NoReturn:
        raise SealedError(
            f"{type(self).__name__}: {attempt} would look at private data",
            hint=Hint(
                "release something from it under a budget: ", Call("Independent().fit", ..., Argument("spend", ...))
            ),
        )

    return refuse


class Sealed:
    """Refuses every way in which Python would look inside a value."""

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
    # Python's own __getstate__ would hand out what the slots hold.
    __getstate__ = __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = _refuse("pickling or copying")
    __array__ = __array_ufunc__ = __array_function__ = _refuse("numpy")
    __buffer__ = __bytes__ = __dlpack__ = _refuse("conversion to bytes")
    __dataframe__ = __dataframe_consortium_standard__ = __narwhals_dataframe__ = _refuse("conversion to a frame")
    __arrow_array__ = __arrow_c_array__ = __arrow_c_stream__ = _refuse("conversion to Arrow")
    __int__ = __float__ = __complex__ = __index__ = _refuse("conversion to a number")
    __round__ = __trunc__ = __floor__ = __ceil__ = _refuse("rounding")


class Private(Sealed, Generic[T_co, D_co]):
    """A sealed value, how far it can move when one protected unit comes or goes, and whom it reads.

    The value is not even computed before a ledger has been charged for it. Nothing about it can be changed from
    outside: a new value with another distance is made by `sealing`, with the ledger's key. Python cannot stop a
    determined programmer inside the same process; it can make sure that nobody looks by accident or by habit.
    """

    __slots__ = ("__compute", "__distance", "__key", "__reads")

    def __init__(self, compute: Callable[[], T_co], *, distance: D_co, reads: Columns | None, key: Key) -> None:
        self.__compute = compute
        self.__key = key
        self.__distance = distance
        self.__reads = reads

    @property
    def distance(self) -> D_co:
        """How far the value can move when one protected unit comes or goes."""
        return self.__distance

    @property
    def reads(self) -> Columns | None:
        """The columns on which a row must be observed to be read at all; None: every row is read."""
        return self.__reads

    def _check(self, key: Key) -> None:
        if key is not self.__key:
            raise SealedError(
                "this value belongs to another ledger",
                hint=Hint("take ", Argument("spend"), " from the ledger of the table it came from"),
            )

    def _open(self, key: Key) -> T_co:
        self._check(key)
        return self.__compute()

    def __repr__(self) -> str:
        reads = "every row" if self.reads is None else f"rows observed on {', '.join(sorted(self.reads)) or 'nothing'}"
        return f"<Private: {self.distance}, reads {reads}>"


def check_sealed(value: object, key: Key) -> None:
    """Refuse what this key does not open, by the very class: another object would be handed the key itself."""
    if type(value) is not Private:
        raise SealedError(f"a {type(value).__name__} is no sealed value", hint="a value of a table of this ledger")
    value._check(key)  # noqa: SLF001 its other half


@dataclass(frozen=True, slots=True)
class Released(Generic[T]):
    """A public value and the number of the ledger's entry that paid for it."""

    value: T
    entry: int


U = TypeVar("U")
D = TypeVar("D")


def transform(
    value: Private[T, Any], function: Callable[[T], U], *, distance: D, reads: Columns | None, key: Key
) -> Private[U, D]:
    """A new sealed value: `function` of the old one, computed when it is opened."""
    check_sealed(value, key)
    return Private(lambda: function(value._open(key)), distance=distance, reads=reads, key=key)  # noqa: SLF001 one room


def gather(values: Sequence[Private[T, Any]], *, key: Key) -> Private[list[T], None]:
    """Several sealed values of one ledger as one, without a distance of its own: a step to a `transform`."""
    values = list(values)
    for value in values:
        check_sealed(value, key)
    return Private(lambda: [value._open(key) for value in values], distance=None, reads=None, key=key)  # noqa: SLF001 one room
