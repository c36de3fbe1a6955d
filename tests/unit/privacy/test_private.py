import copy
import json
import math
import operator
import pickle
import re
import sys

import narwhals as nw
import numpy as np
import polars as pl
import pytest

from gapless.errors import BudgetError, SealedError
from gapless.privacy import L1, L2, DiscreteGaussian, L2Vector
from gapless.privacy.private import transform
from gapless.testing.audit import letters_schema, private
from helpers.open_sealed import reveal

ROWS = [("a", "b"), ("b", None), ("a", "a")]

ATTEMPTS = {
    "len": len,
    "iteration": list,
    "indexing": lambda x: x[0],
    "slicing": lambda x: x[:1],
    "in": lambda x: "a" in x,
    "truth": bool,
    "equality": lambda x: x == x,  # noqa: PLR0124
    "inequality": lambda x: x != 1,
    "order": lambda x: x < 1,
    "hash": hash,
    "set": lambda x: {x},
    "pickle": pickle.dumps,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "asarray": np.asarray,
    "sum": np.sum,
    "int": int,
    "float": float,
    "range": range,
    "frame": pl.DataFrame,
    "json": json.dumps,
    "vars": vars,
    "state": lambda x: x.__getstate__(),
    "reduce": lambda x: x.__reduce__(),
    "complex": complex,
    "round": round,
    "floor": math.floor,
    "bytes": bytes,
    "memoryview": memoryview,
    "reversed": reversed,
    "next": next,
    "length hint": operator.length_hint,
    "universal function": lambda x: np.add(x, 1),
    "array function": lambda x: np.concatenate([x]),
    "dlpack": np.from_dlpack,
    "array of objects": lambda x: np.array([x], dtype=object),
    "narwhals": nw.from_native,
    "format": lambda x: f"{x:>50}",
}
# Names that no object of Python has, or not in this version: they need no refusal.
PLAIN = {"json", "vars", "frame", "memoryview", "reversed", "format"}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_private_table_refuses_to_be_looked_at(attempt, tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path)
    with pytest.raises((SealedError, TypeError)) as caught:
        ATTEMPTS[attempt](table)
    assert caught.type is SealedError or attempt in PLAIN


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_private_value_refuses_to_be_looked_at(attempt, tmp_path):
    value = private(ROWS, letters_schema([2, 2]), tmp_path).marginal("x0")
    with pytest.raises((SealedError, TypeError)) as caught:
        ATTEMPTS[attempt](value)
    assert caught.type is SealedError or attempt in PLAIN


def test_printed_text_is_public(tmp_path):
    schema = letters_schema([2, 2])
    few, many = private(ROWS, schema, tmp_path), private(ROWS * 50, schema, tmp_path)
    assert repr(few) == repr(many)
    assert repr(few.marginal("x0")) == repr(many.marginal("x0"))
    assert repr(few.marginal("x0")) == "<Private: L1(at_most=1), reads rows observed on x0>"


PROTOCOLS = """
    __abs__ __add__ __aiter__ __anext__ __and__ __annotations__ __array__ __array_function__ __array_interface__
    __array_namespace__ __array_priority__ __array_struct__ __array_ufunc__ __array_wrap__ __arrow_array__
    __arrow_c_array__ __arrow_c_device_array__ __arrow_c_schema__ __arrow_c_stream__ __await__ __bool__ __buffer__
    __bytes__ __call__ __ceil__ __class__ __complex__ __contains__ __copy__ __cuda_array_interface__ __dataframe__
    __dataframe_consortium_standard__ __deepcopy__ __delattr__ __dict__ __dir__ __divmod__ __dlpack__
    __dlpack_device__ __doc__ __enter__ __eq__ __exit__ __float__ __floor__ __floordiv__ __format__ __fspath__ __ge__
    __geo_interface__ __getattr__ __getattribute__ __getinitargs__ __getitem__ __getnewargs__ __getnewargs_ex__
    __getstate__ __gt__ __hash__ __html__ __iadd__ __index__ __int__ __invert__ __iter__ __le__ __len__
    __length_hint__ __lt__ __matmul__ __missing__ __mod__ __module__ __mul__ __narwhals_dataframe__
    __narwhals_lazyframe__ __narwhals_series__ __ne__ __neg__ __next__ __or__ __pos__ __pow__ __radd__ __reduce__
    __reduce_ex__ __repr__ __reversed__ __rich__ __round__ __set_name__ __sizeof__ __str__ __sub__ __truediv__
    __trunc__ __weakref__ __xor__ _repr_html_ _repr_mimebundle_ _repr_latex_ _ipython_display_ items keys values
    to_dict to_numpy to_pandas to_arrow tolist
"""


def outcomes(value):
    """What every protocol that Python and other libraries may try says, with no argument, one, or two."""
    results = {}
    for name in PROTOCOLS.split():
        for arguments in ((), (2,), (None,), ("schema",), (None, {})):
            try:
                found = getattr(value, name)
                result = found(*arguments) if callable(found) else found
            except Exception as error:  # noqa: BLE001 what it says is compared
                result = error
            results[name, arguments[:1]] = f"{type(result).__name__}: {result}"
    return results


@pytest.mark.parametrize("get", [lambda table: table, lambda table: table.marginal("x0")], ids=["table", "value"])
def test_no_protocol_distinguishes_two_tables(get, tmp_path):
    schema = letters_schema([2, 2])
    few, many = (get(private(rows, schema, tmp_path)) for rows in (ROWS, ROWS * 50))
    results, other = outcomes(few), outcomes(many)
    for name, result in results.items():
        assert re.sub(r"0x[0-9a-f]+", "", result) == re.sub(r"0x[0-9a-f]+", "", other[name]), name
        assert not re.search("<function|Memory|Private object", result), (name, result)  # nor hands out the inside
    assert sys.getsizeof(few) == sys.getsizeof(many)
    assert dir(few) == dir(many)


def test_nothing_is_computed_before_the_ledger_is_charged(tmp_path, monkeypatch):
    table = private(ROWS, letters_schema([2, 2]), tmp_path)
    seen = []
    counts = transform(
        table.marginal("x0"),
        lambda value: (seen.append(len(table.ledger.entries)), value)[1],
        distance=L1(1),
        reads=None,
        key=table.ledger._key,
    )
    grant = table.ledger.grant(table.ledger.share("10%"), to="test")
    assert not seen
    grant.release(counts, DiscreteGaussian.for_loss(grant.left, counts.distance), what="x0")
    assert seen == [1]


def test_another_ledger_cannot_open_a_value(tmp_path):
    schema = letters_schema([2, 2])
    mine, other = private(ROWS, schema, tmp_path), private(ROWS, schema, tmp_path)
    grant = other.ledger.grant(other.ledger.left, to="test")
    value = mine.marginal("x0")
    with pytest.raises(SealedError, match="another ledger"):
        grant.release(value, DiscreteGaussian.for_loss(grant.left, value.distance), what="x0")
    assert reveal(value, mine.ledger).tolist() == [2, 1]


@pytest.mark.parametrize("numbers", [0, -1, 2.0, True, "3", None, np.int64(3), math.inf])
def test_the_length_of_a_vector_is_a_whole_number_above_0(numbers):
    with pytest.raises(BudgetError, match="numbers of L2Vector must be a whole number above 0"):
        L2Vector(1.0, numbers)


@pytest.mark.parametrize("at_most", [0.0, -1.0, math.inf, math.nan])
def test_the_distance_of_a_vector_is_finite_and_above_0(at_most):
    with pytest.raises(BudgetError, match="at_most of L2Vector must be finite and above 0"):
        L2Vector(at_most, 3)


def test_a_vector_has_an_euclidean_distance_and_is_equal_to_no_other():
    assert isinstance(L2Vector(1.0, 3), L2)
    assert not isinstance(L2Vector(1.0, 3), L1)  # else Laplace noise would take it
    assert L2Vector(1.0, 3) == L2Vector(1.0, 3)
    assert L2Vector(1.0, 3) not in (L2Vector(1.0, 4), L2Vector(2.0, 3), L2(1.0), L1(1.0))
