"""Frames and files from a Table: declared types, values inside their bins, the same values everywhere."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gapless as gl

NOT_APPLICABLE = (gl.MissingCode("n/a", "not-applicable"),)
SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Ordinal("size", ["small", "large"], may_be_missing=True, missing=NOT_APPLICABLE),
        gl.Categorical("number", [10, 20], may_be_missing=True),
        gl.Categorical("truth", [True, "perhaps"], may_be_missing=True),
        gl.Integer("age", bounds=(18, 90), bins=3, may_be_missing=True),
        gl.Number("income", bounds=(0, 1), bins=3, may_be_missing=True),
        gl.Boolean("smoker", may_be_missing=True),
        gl.Date("born", bounds=("1990-01-01", "1999-12-31"), may_be_missing=True),
        gl.Date("month", bounds=("1990-01-01", "1999-12-31"), resolution="month", may_be_missing=True),
        gl.DateTime("seen", bounds=("2020-01-01", "2020-12-31T23:59:59"), may_be_missing=True),
    ],
)
ROWS = 2_000


def table(schema=SCHEMA, rows=ROWS, seed=0):
    """Every code of every column in turn."""
    codes = [np.arange(rows) % column.extended_size for column in schema.columns]
    return gl.Table(schema, codes, rows=rows, seed=seed)


def test_polars_has_the_declared_types_and_null_for_gaps():
    frame = table().to_polars()
    assert dict(frame.schema) == {
        "sex": pl.Enum(["F", "M"]),
        "size": pl.Enum(["small", "large", "n/a"]),
        "number": pl.Int64,
        "truth": pl.Enum(["true", "perhaps"]),
        "age": pl.Int64,
        "income": pl.Float64,
        "smoker": pl.Boolean,
        "born": pl.Date,
        "month": pl.Date,
        "seen": pl.Datetime("ms"),
    }
    for column, codes in zip(SCHEMA.columns, table().codes, strict=True):
        assert frame[column.name].is_null().to_numpy().tolist() == (codes >= column.size).tolist()


def test_pandas_has_the_declared_types_and_its_own_gaps():
    frame = table().to_pandas()
    assert frame["sex"].dtype == pd.CategoricalDtype(["F", "M"], ordered=False)
    assert frame["size"].dtype == pd.CategoricalDtype(["small", "large", "n/a"], ordered=True)
    assert frame["number"].dtype == pd.CategoricalDtype([10, 20], ordered=False)
    assert frame["age"].dtype == pd.Int64Dtype()
    assert frame["income"].dtype == np.float64
    assert frame["smoker"].dtype == pd.BooleanDtype()
    assert frame["born"].dtype == frame["month"].dtype == frame["seen"].dtype == np.dtype("datetime64[s]")
    for column, codes in zip(SCHEMA.columns, table().codes, strict=True):
        assert frame[column.name].isna().tolist() == (codes >= column.size).tolist()


def test_arrow_has_the_declared_types():
    arrow = table().to_arrow()
    assert pa.types.is_dictionary(arrow.schema.field("sex").type)
    assert arrow.schema.field("age").type == pa.int64()
    assert arrow.schema.field("income").type == pa.float64()
    assert arrow.schema.field("smoker").type == pa.bool_()
    assert arrow.schema.field("born").type == pa.date32()
    assert arrow.schema.field("seen").type == pa.timestamp("ms")


def test_values_lie_inside_their_bin_and_whole_numbers_are_whole():
    frame = table().to_polars()
    age = frame["age"].to_list()
    assert {value for value, code in zip(age, table().codes[4], strict=True) if code == 0} == set(range(18, 42))
    assert min(filter(None, age)) == 18
    assert max(filter(None, age)) == 90
    income = frame["income"].drop_nulls().to_numpy()
    codes = table().codes[5][table().codes[5] < 3]
    assert np.all((income >= codes / 3) & (income < (codes + 1) / 3))
    assert frame["born"].min() >= dt.date(1990, 1, 1)
    assert frame["born"].max() <= dt.date(1999, 12, 31)
    assert set(frame["month"].drop_nulls().dt.day()) == {1}
    assert frame["seen"].min() >= dt.datetime(2020, 1, 1)  # noqa: DTZ001 plain
    assert frame["seen"].max() <= dt.datetime(2020, 12, 31, 23, 59, 59)  # noqa: DTZ001 plain


def test_values_fill_their_bin_evenly():
    schema = gl.Schema("t", [gl.Integer("a", bounds=(0, 9), bins=1), gl.Number("b", bounds=(0, 1), bins=1)])
    frame = table(schema, rows=10_000).to_polars()
    assert frame["a"].value_counts()["count"].to_numpy().min() > 800
    assert np.histogram(frame["b"], bins=10, range=(0, 1))[0].min() > 800


def test_the_same_values_in_every_frame_and_file(tmp_path):
    public = table()
    frame = public.to_polars()
    assert public.to_polars().equals(frame)
    public.write(tmp_path / "t.parquet")
    assert pl.read_parquet(tmp_path / "t.parquet").equals(frame)
    assert pl.DataFrame(public.to_arrow()).equals(frame)
    pandas = public.to_pandas()
    text = frame.cast(pl.String)
    for name in ("sex", "size", "number", "age", "income"):
        assert pandas[name].astype(object).where(pandas[name].notna(), None).tolist() == frame[name].to_list()
    assert pandas["born"].dt.strftime("%Y-%m-%d").fillna("").tolist() == text["born"].fill_null("").to_list()
    for name in ("t.csv", "t.csv.gz", "t.tsv", "t.txt"):
        public.write(tmp_path / name)
        separator = "\t" if name.endswith(".tsv") else ","
        read = pl.read_csv(tmp_path / name, separator=separator, schema_overrides={"income": pl.Float64})
        assert read["income"].to_list() == frame["income"].to_list()
        assert read["age"].to_list() == frame["age"].to_list()
        assert read["born"].cast(pl.String).to_list() == text["born"].to_list()


def test_another_seed_gives_other_values_in_the_same_bins():
    one, other = table(seed=1), table(seed=2)
    assert not one.to_polars()["income"].equals(other.to_polars()["income"])
    assert all(np.array_equal(a, b) for a, b in zip(one.codes, other.codes, strict=True))


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_one_row_tables_have_the_same_types(rows, tmp_path):
    small = table(rows=rows)
    assert small.to_polars().schema == table().to_polars().schema
    assert small.to_pandas().dtypes.equals(table().to_pandas().dtypes)
    assert small.to_arrow().num_rows == len(small) == rows
    small.write(tmp_path / "t.csv")
    assert gl.Table.read(tmp_path / "t.csv", SCHEMA).rows == rows


def test_text_files_say_the_kind_of_a_gap(tmp_path):
    codes = ("", gl.MissingCode("-8", "refused"), gl.MissingCode("-7", "not-applicable"))
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 1), may_be_missing=True, missing=codes), gl.Boolean("y")])
    public = gl.Table(schema, [np.array([0, 1, 2, 3, 4]), np.array([0, 1, 0, 1, 0])], rows=5)
    public.write(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "x,y\n0,false\n1,true\n-7,false\n,true\n-8,false\n"
    assert public.to_polars()["x"].to_list() == [0, 1, None, None, None]


def test_values_that_were_read_are_kept_and_moved_only_if_they_are_none(tmp_path):
    schema = gl.Schema(
        "t",
        [
            gl.Integer("age", bounds=(0, 99), bins=2, may_be_missing=True, missing=[-9]),
            gl.Number("weight", bounds=(0, 10), bins=1, outside="clamp", may_be_missing=True),
            gl.Date("born", bounds=("1990-01-01", "1999-12-31"), may_be_missing=True),
            gl.Date("month", bounds=("1990-01-01", "1999-12-31"), resolution="month", may_be_missing=True),
        ],
    )
    text = "age,weight,born,month\n7,0.30,1993-05-17,1993-05-17\n120,-1,,1990-01-01\n49.5,inf,2024-01-01,\n-9,,x,x\n"
    (tmp_path / "t.csv").write_text(text)
    schema.write(tmp_path / "t.toml")
    public = gl.Table.read(tmp_path / "t.csv", tmp_path / "t.toml")  # a schema by its path
    frame = public.to_polars()
    assert frame["age"].to_list() == [7, 99, 50, None]  # 49.5 lies in the second bin
    assert frame["weight"].to_list() == [0.3, 0.0, 10.0, None]
    assert frame["born"].to_list() == [dt.date(1993, 5, 17), None, dt.date(1999, 12, 31), None]
    assert frame["month"].to_list() == [dt.date(1993, 5, 1), dt.date(1990, 1, 1), None, None]
    pandas = public.to_pandas()
    assert pandas["age"].dtype == pd.Int64Dtype()
    assert pandas["born"].dtype == np.dtype("datetime64[s]")
    assert gl.Table.read(pandas, schema).to_polars().equals(frame)


def test_a_cell_that_was_a_gap_for_a_while_forgets_its_value():
    schema = gl.Schema("t", [gl.Number("x", bounds=(0, 100), bins=1, may_be_missing=True)])
    public = gl.Table.read(pl.DataFrame({"x": [12.5] * 100}), schema)
    gapped = gl.MCAR(0.5).apply(public, seed=0)
    assert set(gapped.to_polars()["x"].to_list()) == {12.5, None}
    again = gapped.with_codes(public.codes, schema=gapped.schema, seed=1).to_polars()["x"]
    assert (again == 12.5).to_list() == gapped.to_polars()["x"].is_not_null().to_list()


def test_parquet_tells_not_applicable_from_a_gap(tmp_path):
    code = (gl.MissingCode("n/a", "not-applicable"),)
    schema = gl.Schema(
        "t",
        [
            gl.Number("x", bounds=(0, 1), bins=2, may_be_missing=True, missing=code),
            gl.Boolean("y", may_be_missing=True, missing=code),
            gl.Categorical("z", ["a"], missing=code),
            gl.Integer("whole", bounds=(0, 9)),
        ],
    )
    public = gl.Table(schema, [np.arange(4), np.arange(4), np.array([0, 1, 0, 1]), np.arange(4)], rows=4)
    public.write(tmp_path / "t.parquet")
    frame = pl.read_parquet(tmp_path / "t.parquet")
    assert frame["x"].to_list()[2:] == ["n/a", None]
    assert frame["y"].to_list() == ["false", "true", "n/a", None]
    assert frame.schema["z"] == pl.Enum(["a", "n/a"])
    assert frame.schema["whole"] == pl.Int64
    again = gl.Table.read(tmp_path / "t.parquet", schema)
    assert [codes.tolist() for codes in again.codes] == [codes.tolist() for codes in public.codes]


def test_a_lacking_extra_is_named(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(gl.errors.ReadError, match=r"pandas is not installed\n  Try: pip install 'gapless\[pandas\]'"):
        table().to_pandas()
