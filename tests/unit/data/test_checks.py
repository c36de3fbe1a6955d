"""Which tables are taken: public, sealed, comparable, with weights that fit."""

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.checks import check_comparable, check_private, check_public, given_weights, to_shared_bins
from gapless.errors import ReadError, SchemaError, SealedError
from gapless.testing.audit import letters_schema, private

SCHEMA = letters_schema([2])
PUBLIC = gl.Table.read(pl.DataFrame({"x0": ["a", "b", None]}), SCHEMA)


def test_a_public_table_is_not_a_sealed_one(tmp_path):
    sealed = private([("a",)], SCHEMA, tmp_path)
    check_public(PUBLIC, "this takes", private="ask")
    check_private(sealed, "that()")
    with pytest.raises(SealedError, match="this takes a public Table, not a PrivateTable"):
        check_public(sealed, "this takes", private="ask")
    with pytest.raises(ReadError, match="not a list"):
        check_public([], "this takes", private="ask")
    with pytest.raises(SealedError, match=r"that\(\) takes a PrivateTable, not a Table"):
        check_private(PUBLIC, "that()")


def test_the_same_codes_must_be_the_same_cells():
    check_comparable(SCHEMA, SCHEMA)
    with pytest.raises(SchemaError, match="different schemas"):
        check_comparable(SCHEMA, letters_schema([3]))


def test_bins_learned_for_one_are_those_of_both():
    schema = gl.Schema("t", [gl.Integer("age", bounds=(0, 99), bins="learned")])
    first, other = (gl.Table.read(pl.DataFrame({"age": ages}), schema) for ages in ([1, 2, 50], [3, 99]))
    truth, compared = to_shared_bins(first, other)
    assert truth.schema.columns == compared.schema.columns
    assert not truth.schema["age"].has_learned_bins
    with pytest.raises(SchemaError, match="the truth has weights"):
        to_shared_bins(first.with_weights([1, 2, 3]), other)


def test_weights_that_are_passed_come_before_those_of_the_table():
    weighted = PUBLIC.with_weights([1, 1, 1])
    assert given_weights(PUBLIC, None) is None
    assert given_weights(weighted, None).tolist() == [1, 1, 1]
    assert given_weights(weighted, [3, 0, 0]).tolist() == [3, 0, 0]
    with pytest.raises(SchemaError, match="2 weights for 3 rows"):
        given_weights(PUBLIC, np.ones(2))
