"""Bins are a view of cells: whatever is done to the rows, each is mapped by itself, and distances stay."""

import datetime as dt
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.checks import shared_bins
from gapless.data.workload import grouped_counts
from gapless.privacy import L1, Rows
from gapless.schema import Date, Integer, Number, Schema
from helpers.examples import examples
from helpers.open_sealed import reveal

AGE = Integer("age", bounds=(0, 40), bins="learned", may_be_missing=True, missing=("", "NA"))
PAY = Number("pay", bounds=(-1.0, 3.0), edges=(-1.0, 0.3, 3.0), may_be_missing=True)
DAY = Date("day", bounds=("2020-01-01", "2020-12-31"), bins=3)
SCHEMA = Schema("people", [AGE, PAY, DAY])
CUT = SCHEMA.with_columns({"age": AGE.with_cuts([0, 7, 8, 30, 41])})

row = st.tuples(
    st.one_of(st.none(), st.integers(-3, 44)),
    st.one_of(st.none(), st.floats(-2, 4, allow_nan=False)),
    st.dates(dt.date(2019, 12, 1), dt.date(2021, 1, 31)),
)
neighbours = st.integers(1, 2).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=5), st.lists(row, min_size=1, max_size=k))
)


def sealed(rows, k=1):
    frame = pl.DataFrame(rows, schema={"age": pl.Int64, "pay": pl.Float64, "day": pl.Date}, orient="row")
    folder = Path(tempfile.mkdtemp())
    return gl.read(frame, SCHEMA, protect=Rows(k), ledger=folder / "p.ledger", budget=gl.Budget(epsilon=1.0, delta=0))


def at_cells(table, columns):
    """The same rows with the finest cells of these columns, in place of their bins."""
    return table.rebin(table.schema.with_columns({name: table.schema.finest[name] for name in columns}))


VIEWS = {
    "cells": lambda table: at_cells(table, table.schema.names),
    "learned bins": lambda table: table.rebin(CUT),
    "chosen by a bin, then cells": lambda table: at_cells(table.rebin(CUT).where("age", ["7", "8..29"]), ["age"]),
    "clamped": lambda table: at_cells(table.rebin(CUT).clamp("age", lowest="7", highest="8..29"), ["age"]),
    "complete": lambda table: at_cells(table.complete_rows(), ["pay"]),
}


@examples(60)
@given(pair=neighbours, view=st.sampled_from(list(VIEWS)))
def test_every_view_keeps_its_distance(pair, view):
    k, rows, more = pair
    less, greater = (VIEWS[view](sealed(some, k)) for some in (rows, rows + more))
    for names in (("age",), ("pay",), ("age", "day")):
        for which in ("observed", "extended"):
            a, b = (table.marginal(names, rows=which) for table in (less, greater))
            assert a.distance == L1(k)
            assert np.abs(reveal(a, less.ledger) - reveal(b, greater.ledger)).sum() <= k


@examples(60)
@given(pair=neighbours, fan=st.integers(2, 5))
def test_added_up_cells_keep_their_distance_and_what_they_read(pair, fan):
    k, rows, more = pair
    for which, size in (("observed", AGE.size), ("extended", AGE.extended_size)):
        groups = [np.arange(size) // fan, np.arange(size)]
        tables = [sealed(some, k) for some in (rows, rows + more)]
        less, greater = (grouped_counts(table, "age", groups, rows=which) for table in tables)
        for a, b, group in zip(less, greater, groups, strict=True):
            counts, others = (reveal(value, table.ledger) for value, table in zip((a, b), tables, strict=True))
            assert a.distance == L1(k)
            assert a.reads == (None if which == "extended" else {"age"})
            assert np.abs(counts - others).sum() <= k
            cells = reveal(tables[0].marginal("age", rows=which), tables[0].ledger)
            assert np.array_equal(counts, [cells[group == g].sum() for g in range(group.max() + 1)])


@examples(60)
@given(rows=st.lists(row, max_size=8))
def test_a_bin_holds_the_rows_of_its_cells(rows):
    table = sealed(rows)
    unbinned, binned = at_cells(table, table.schema.names), table.rebin(CUT)
    for column, cells in zip(binned.schema.columns, unbinned.schema.columns, strict=True):
        added = np.zeros(column.extended_size, dtype=np.int64)
        counts = reveal(unbinned.marginal(column.name, rows="extended"), table.ledger)
        np.add.at(added, cells.regroup(column), counts)
        assert np.array_equal(added, reveal(binned.marginal(column.name, rows="extended"), table.ledger))


@examples(60)
@given(rows=st.lists(row, max_size=8))
def test_filling_bins_keeps_observed_cells_and_draws_others_inside_their_bins(rows):
    table = sealed(rows).rebin(CUT)
    distributions = [np.eye(column.size)[1] for column in CUT.columns]  # every gap is filled from the second bin
    filled = table.fill(distributions)
    before, after = (reveal(t._unbinned_rows, t.ledger).columns for t in (table, filled))
    bins = reveal(filled._rows, filled.ledger).columns
    for place, (unbinned, binned) in enumerate(zip(CUT.finest.columns, CUT.columns, strict=True)):
        gaps = before[place] >= unbinned.size
        assert np.array_equal(before[place][~gaps], after[place][~gaps])
        assert (bins[place][gaps] == 1).all()
        assert (unbinned.regroup(binned)[after[place]] == bins[place]).all()


@examples(60)
@given(rows=st.lists(row, min_size=1, max_size=8))
def test_a_public_table_keeps_its_values_under_other_bins(rows):
    frame = pl.DataFrame(rows, schema={"age": pl.Int64, "pay": pl.Float64, "day": pl.Date}, orient="row")
    public = gl.Table.read(frame, SCHEMA)
    rebinned = public.rebin(CUT)
    assert rebinned.to_polars().equals(public.to_polars())
    assert rebinned.rebin(SCHEMA).marginal("age").tolist() == public.marginal("age").tolist()
    table = sealed(rows).rebin(CUT)
    for name in CUT.names:
        assert np.array_equal(rebinned.marginal(name), reveal(table.marginal(name), table.ledger))
    assert shared_bins(SCHEMA, rebinned, counted=public)["age"] == CUT["age"]


@examples(25)
@given(rows=st.lists(row, max_size=6))
def test_rows_are_chosen_by_all_the_cells_of_a_bin_and_by_no_gap(rows):
    table = sealed(rows).rebin(CUT)
    chosen = table.where("age", ["7", "8..29"])
    assert chosen.marginal((), rows="extended").reads == {"age"}
    kept = reveal(chosen.marginal((), rows="extended"), table.ledger)
    assert kept == sum(age is not None and 7 <= age < 30 for age, _, _ in rows)
    complete = table.complete_rows()
    assert complete.marginal((), rows="extended").reads == {"age", "pay"}
    kept = reveal(complete.marginal((), rows="extended"), table.ledger)
    assert kept == sum(age is not None and pay is not None for age, pay, _ in rows)


@pytest.mark.parametrize(
    "other",
    [
        replace(AGE, bounds=(0, 41)),
        replace(AGE, may_be_missing=False, missing=()),  # what a value reads follows from it
        replace(AGE, missing=("",)),
        Number("age", bounds=(0.0, 40.0), may_be_missing=True, missing=("", "NA")),
    ],
)
def test_bins_must_have_the_same_cells(other):
    with pytest.raises(gl.errors.SchemaError, match="column 'age' of this schema has other cells than the table"):
        sealed([]).rebin(SCHEMA.with_columns({"age": other}))


def test_a_refused_schema_names_what_differs():
    people = sealed([])
    halves = Number("age", bounds=(0.0, 40.0), bins=2)
    table = gl.Table(SCHEMA.with_columns({"age": halves}), [np.zeros(0)] * len(SCHEMA.columns), rows=0)
    with pytest.raises(gl.errors.SchemaError, match=r"different bounds\n  Try: use Schema.with_columns"):
        people.rebin(SCHEMA.with_columns({"age": replace(AGE, bounds=(0, 41))}))
    with pytest.raises(gl.errors.SchemaError, match=r"column 'age' .*: an edge is inside a cell"):
        table.rebin(SCHEMA.with_columns({"age": replace(halves, bins=None, edges=(0.0, 1.23456, 40.0))}))
    with pytest.raises(gl.errors.SchemaError, match="other columns than the table: 'age' is only in one of them"):
        people.rebin(SCHEMA.select([name for name in SCHEMA.names if name != "age"]))
    described = SCHEMA.with_columns({"age": replace(AGE, description="in years")})
    assert people.rebin(described).schema["age"].description == "in years"
