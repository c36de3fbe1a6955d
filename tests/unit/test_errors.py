"""Errors say what is wrong and what to do, and never quote a cell of the data."""

import gzip
import inspect
import io
import traceback
from dataclasses import replace

import pandas as pd
import polars as pl
import pytest

import gapless as gl
from gapless import errors
from gapless.testing.audit import letters_schema, private

CELL = "Xq7cellq7X"
SCHEMA = gl.Schema(
    "t", [gl.Categorical("a", ["x"]), gl.Integer("b", bounds=(0, 9)), gl.Date("c", bounds=("2020-01-01", "2021-01-01"))]
)


def test_every_error_has_two_halves_and_one_root():
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, Exception)]
    assert len(kinds) == 9
    for kind in kinds:
        assert issubclass(kind, gl.GaplessError)
        error = kind("this is wrong", hint="use that")
        assert str(error) == "this is wrong\n  Try: use that"
        assert (error.message, error.hint) == ("this is wrong", "use that")
        assert f" {kind.__name__} " in f" {errors.__doc__.replace(chr(10), ' ')} "
    with pytest.raises(TypeError, match="hint"):
        gl.GaplessError("without a hint")


def csv(text, name="t.csv"):
    def source(folder):
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
        return folder / name

    return source


def parquet_of(frame):
    buffer = io.BytesIO()
    frame.write_parquet(buffer)
    return buffer.getvalue()


SOURCES = {
    # files that cannot be parsed
    "short row": csv(f"a,b,c\n{CELL},1\n"),
    "long row": csv(f"a,b,c\n{CELL},1,{CELL},{CELL}\n"),
    "open quote": csv(f'a,b,c\n"{CELL},1,2020-01-01\n'),
    "text after a quote": csv(f'a,b,c\n"x"{CELL},1,2020-01-01\n'),
    "stray carriage return": csv(f"a,b,c\n{CELL}\r{CELL},1,\n"),
    "bad encoding": csv(f"a,b,c\n{CELL}\xff,1,2020-01-01\n".encode("latin-1")),
    "cut gzip": csv(gzip.compress(f"a,b,c\n{CELL},1,\n".encode(), compresslevel=0)[:-4], "t.csv.gz"),
    "semicolons": csv(f"a;b;c\n{CELL};1;2020-01-01\n"),
    "cut Parquet": csv(parquet_of(pl.DataFrame({"a": [CELL]}))[:-8], "t.parquet"),
    # files without a header: their first row is data
    "no header": csv(f"{CELL},1,2020-01-01\n"),
    "no header, same cell twice": csv(f"{CELL},{CELL},2020-01-01\n"),
    "no header, semicolons": csv(f"{CELL};1;2020-01-01\n"),
    "no header, an empty cell": csv(f"{CELL},,2020-01-01\n"),
    # cells the schema refuses
    "unknown level": csv(f"a,b,c\n{CELL},1,2020-01-01\n"),
    "no number": csv(f"a,b,c\nx,{CELL},2020-01-01\n"),
    "no date": csv(f"a,b,c\nx,1,{CELL}\n"),
    "a cell in capitals": csv(f"a,b,c\nX{CELL},1,2020-01-01\n"),
    # frames
    "mixed pandas column": lambda _: pd.DataFrame(
        {"a": pd.Series([1, CELL], dtype=object), "b": [1, 2], "c": ["2020-01-01"] * 2}
    ),
    "text first": lambda _: pd.DataFrame(
        {"a": pd.Series([CELL, 2.5], dtype=object), "b": [1, 2], "c": ["2020-01-01"] * 2}
    ),
    "lists": lambda _: pl.DataFrame({"a": [[CELL]], "b": [1], "c": ["2020-01-01"]}),
    "structs": lambda _: pl.DataFrame({"a": [{"k": CELL}], "b": [1], "c": ["2020-01-01"]}),
    "bytes": lambda _: pl.DataFrame({"a": [CELL.encode()], "b": [1], "c": ["2020-01-01"]}),
    "objects": lambda _: pl.DataFrame({"a": pl.Series([type(CELL, (), {})()], dtype=pl.Object), "b": [1], "c": ["x"]}),
    "lazy": lambda _: pl.LazyFrame({"a": [CELL], "b": [1], "c": ["x"]}).with_columns(pl.col("a").cast(pl.Int64)),
    "categories": lambda _: pd.DataFrame({"a": pd.Categorical([CELL]), "b": [1], "c": ["2020-01-01"]}),
    "a list of cells": lambda _: [CELL],
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_no_error_quotes_a_cell(source, tmp_path):
    data = source(tmp_path)
    with pytest.raises(gl.GaplessError) as caught:
        gl.read(data, SCHEMA, protect=gl.Rows(1), ledger=tmp_path / "t.ledger", budget=gl.Budget(1.0, 0))
    printed = "".join(traceback.format_exception(caught.value))
    assert CELL not in printed
    assert not (tmp_path / "t.ledger").exists()  # nothing was begun


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_no_error_hides_a_cell_in_what_python_would_print_below_it(source, tmp_path):
    data = source(tmp_path)
    with pytest.raises(gl.GaplessError) as caught:
        gl.Table.read(data, SCHEMA)
    error = caught.value
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__


def test_columns_not_in_the_schema_are_named_but_not_their_cells(tmp_path):
    frame = pl.DataFrame({"a": ["x"], "b": [1], "c": ["2020-01-01"], "d": [CELL]})
    with pytest.raises(
        gl.errors.SchemaError, match="the data have columns that the schema does not have: 'd'"
    ) as caught:
        gl.Table.read(frame, SCHEMA)
    assert CELL not in "".join(traceback.format_exception(caught.value))


def test_an_undeclared_column_with_the_name_of_an_id_is_not_only_to_be_declared():
    frame = pl.DataFrame({"a": ["x"], "b": [1], "c": ["2020-01-01"], "patient_id": ["7"]})
    with pytest.raises(gl.errors.SchemaError, match="does not have: 'patient_id'") as caught:
        gl.Table.read(frame, SCHEMA)
    assert caught.value.hint.startswith(
        'write person = "patient_id" below [table] if it is the id of persons; or declare'
    )
    misspelt = replace(SCHEMA, person=("Patient_ID",), rows_per_person=3)
    with pytest.raises(gl.errors.SchemaError, match="no column 'Patient_ID', which is the id of a person") as caught:
        gl.Table.read(frame, misspelt)
    assert "patient_id" in caught.value.hint


@pytest.mark.parametrize("method", [gl.Independent, gl.MST, gl.AIM, gl.PrivBayes])
def test_a_mistake_in_a_fit_is_refused_before_anything_is_spent(method, tmp_path):
    table = private([("a",)], letters_schema([2]), tmp_path)
    with pytest.raises(gl.errors.SealedError, match=rf"{method.__name__}.fit takes a PrivateTable, not a list\n"):
        method().fit([("a",)], spend=table.ledger.left)
    for slip in ("extended", gl.Extended):
        refusal = (
            rf"{method.__name__}.fit: missing must be a treatment of gaps, got .*\n  Try: pass missing=Extended\(\)"
        )
        with pytest.raises(gl.errors.ModelError, match=refusal):
            method(missing=slip).fit(table, spend=table.ledger.left)
    with pytest.raises(
        gl.errors.ModelError, match=r"\n  Try: pass missing=ImputeFirst\(gapless\.missing\.FromMean\(\)\)"
    ):
        method(missing=gl.missing.FromMean()).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries
