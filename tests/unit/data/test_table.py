"""The public table: its codes, values, files, frames and parts, and the libraries that take it."""

import datetime as dt
import errno
import io
import os
import resource
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gapless as gl
from gapless.files import write_atomically

SCHEMA = gl.Schema("t", [gl.Categorical("a", ["x", "y"], may_be_missing=True), gl.Boolean("b", may_be_missing=True)])
TABLE = gl.Table.read(pl.DataFrame({"a": ["x", "y", None, "x"], "b": [True, None, None, True]}), SCHEMA)
OLD = b"the old file"


def test_a_table_shows_its_size():
    assert len(TABLE) == TABLE.rows == 4
    assert repr(TABLE) == "<Table 't': 4 rows, 2 columns>"


def test_marginals_count_observed_or_all_rows():
    assert TABLE.marginal("a").tolist() == [2, 1]
    assert TABLE.marginal("a", rows="extended").tolist() == [2, 1, 1]
    assert TABLE.marginal(["b", "a"]).tolist() == [[0, 0], [2, 0]]
    assert TABLE.marginal(["b", "a"], rows="extended").tolist() == [[0, 0, 0], [2, 0, 0], [0, 1, 1]]
    assert TABLE.marginal(()).tolist() == 4
    with pytest.raises(gl.errors.SchemaError, match="no column 'c' in the schema"):
        TABLE.marginal("c")


def test_codes_are_kept_small():
    assert all(codes.dtype == np.uint8 for codes in TABLE.codes)


def test_an_unknown_ending_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(
        gl.errors.ReadError, match=r"t\.ods has an unknown ending, .*\n  Try: end the name with one of: \.csv"
    ):
        TABLE.write(tmp_path / "t.ods")
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def old(tmp_path):
    for name in ("t.csv", "t.csv.gz", "t.parquet"):
        (tmp_path / name).write_bytes(OLD)
    return tmp_path


def intact(folder: Path) -> bool:
    return {path.name: path.read_bytes() for path in folder.iterdir()} == dict.fromkeys(
        ("t.csv", "t.csv.gz", "t.parquet"), OLD
    )


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_full_disk_leaves_the_old_file_and_no_litter(name, old, monkeypatch):
    class Full(io.FileIO):
        def write(self, _data):
            raise OSError(errno.ENOSPC, "No space left on device")

    def opened(path, mode):
        return Full(path, mode)

    monkeypatch.setattr(Path, "open", opened)
    with pytest.raises(
        gl.errors.ReadError,
        match=r"No space left on device\n  Try: remove files .* the old file is intact",
    ):
        TABLE.write(old / name)
    assert intact(old)


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_a_failing_flush_or_rename_leaves_the_old_file_and_no_litter(name, old, monkeypatch):
    def fail(*_):
        raise OSError(errno.EIO, "Input/output error")

    for owner, function in ((os, "fsync"), (Path, "replace")):
        with monkeypatch.context() as patch:
            patch.setattr(owner, function, fail)
            with pytest.raises(gl.errors.ReadError, match="Input/output error"):
                TABLE.write(old / name)
        assert intact(old)


def test_a_real_limit_of_the_system_leaves_the_old_files(old):
    """Not even this process's own library for Parquet gets through: the system itself refuses to write more."""
    code = f"""
import resource, numpy as np, gapless as gl
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
schema = gl.Schema("t", [gl.Number("a", bounds=(0, 1), bins=1)])
table = gl.Table(schema, [np.zeros(9999, int)], rows=9999)
for name in ("t.csv", "t.csv.gz", "t.parquet"):
    try:
        table.write({str(old)!r} + "/" + name)
    except gl.errors.ReadError as error:
        assert "the old file is intact" in str(error)
    else:
        raise SystemExit("written")
"""
    assert resource.RLIMIT_FSIZE is not None
    subprocess.run([sys.executable, "-c", code], check=True)
    assert intact(old)


def test_a_folder_that_is_not_there_or_not_yours_is_named(tmp_path, monkeypatch):
    with pytest.raises(
        gl.errors.ReadError,
        match=r"No such file or directory\n  Try: choose a folder that exists",
    ):
        TABLE.write(tmp_path / "none" / "t.csv")
    (tmp_path / "file").touch()
    with pytest.raises(gl.errors.ReadError, match="Not a directory"):
        TABLE.write(tmp_path / "file" / "t.csv")
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(gl.errors.ReadError, match="Is a directory"):
        TABLE.write(tmp_path / "t.csv")

    def read_only(**_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr("gapless.files.mkdtemp", read_only)
    with pytest.raises(
        gl.errors.ReadError,
        match=r"Read-only file system\n  Try: choose a folder that exists",
    ):
        TABLE.write(tmp_path / "u.csv")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only to root")
def test_a_read_only_folder_keeps_its_old_file(old):
    old.chmod(0o500)
    try:
        with pytest.raises(gl.errors.ReadError, match="Permission denied"):
            TABLE.write(old / "t.csv")
        assert intact(old)
    finally:
        old.chmod(0o700)


def test_an_error_of_another_kind_or_an_interrupt_leaves_no_litter(old):
    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error), write_atomically(old / "t.csv") as partial:
            partial.write_bytes(b"half")
            raise error
        assert intact(old)


def test_schemas_are_written_the_same_way(old, monkeypatch):
    def full(self, *_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(gl.errors.ReadError, match="No space left"):
        SCHEMA.write(old / "t.csv")
    assert intact(old)


# ---------------------------------------------------------------------- frames and files from a table


NOT_APPLICABLE = (gl.MissingCode("n/a", "not-applicable"),)
FRAMES_SCHEMA = gl.Schema(
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


def table(schema=FRAMES_SCHEMA, rows=ROWS, seed=0):
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
    for column, codes in zip(FRAMES_SCHEMA.columns, table().codes, strict=True):
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
    for column, codes in zip(FRAMES_SCHEMA.columns, table().codes, strict=True):
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
    first, other = table(seed=1), table(seed=2)
    assert not first.to_polars()["income"].equals(other.to_polars()["income"])
    assert all(np.array_equal(a, b) for a, b in zip(first.codes, other.codes, strict=True))


@pytest.mark.parametrize("rows", [0, 1])
def test_empty_and_one_row_tables_have_the_same_types(rows, tmp_path):
    small = table(rows=rows)
    assert small.to_polars().schema == table().to_polars().schema
    assert small.to_pandas().dtypes.equals(table().to_pandas().dtypes)
    assert small.to_arrow().num_rows == len(small) == rows
    small.write(tmp_path / "t.csv")
    assert gl.Table.read(tmp_path / "t.csv", FRAMES_SCHEMA).rows == rows


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


def test_parquet_distinguishes_not_applicable_from_a_gap(tmp_path):
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
    with pytest.raises(
        gl.errors.ReadError, match=r"pandas is not installed\n  Try: run pip install 'gapless\[pandas\]'"
    ):
        table().to_pandas()


# ---------------------------------------------------------------------- parts, protocols, libraries


HOME_SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 119), bins=12, may_be_missing=True),
        gl.Number(
            "income", bounds=(0, 1000), bins=4, may_be_missing=True, missing=("", gl.MissingCode("-", "refused"))
        ),
        gl.Categorical("sex", ["female", "male"], may_be_missing=True),
        gl.Ordinal("school", ["none", "some", "much"], may_be_missing=True),
        gl.Boolean("smoker", may_be_missing=True),
        gl.Date("born", bounds=("1900-01-01", "1999-12-31"), may_be_missing=True),
        gl.DateTime("seen", bounds=("2000-01-01T00:00:00", "2000-12-31T23:59:59"), may_be_missing=True),
    ],
)


@pytest.fixture
def drawn():
    """Rows whose values are drawn, a tenth of the cells gaps."""
    rng = np.random.default_rng(0)
    codes = [np.where(rng.random(400) < 0.1, c.size, rng.integers(0, c.size, 400)) for c in HOME_SCHEMA.columns]
    return gl.Table(HOME_SCHEMA, codes, rows=400, seed=3)


@pytest.fixture
def read():
    """Three rows that were read, the second without any value."""
    cells = {
        "age": [34, None, 5],
        "income": [1.5, None, 1000.0],
        "sex": ["female", None, "male"],
        "school": ["some", None, "none"],
        "smoker": [True, None, False],
        "born": ["1950-01-01", None, "1960-02-03"],
        "seen": ["2000-01-01T10:00:00", None, "2000-02-02T00:00:00"],
    }
    return gl.Table.read(pl.DataFrame(cells), HOME_SCHEMA)


HOME_ROWS = [
    (34, 1.5, "female", "some", True, dt.date(1950, 1, 1), dt.datetime.fromisoformat("2000-01-01T10:00:00")),
    (None,) * 7,
    (5, 1000.0, "male", "none", False, dt.date(1960, 2, 3), dt.datetime.fromisoformat("2000-02-02")),
]


def test_parts_have_the_values_of_the_whole(drawn):
    whole = drawn.to_polars()
    assert drawn.head(7).to_polars().equals(whole.head(7))
    assert drawn.head().rows == 5
    assert drawn[100:7:-3].to_polars().equals(whole[100:7:-3])
    assert drawn[-3:][["seen", "age"]].to_polars().equals(whole[-3:].select("seen", "age"))
    assert drawn[("income",)].to_polars().equals(whole.select("income"))
    assert len(drawn[500:]) == 0
    assert drawn[:5].schema is drawn.schema
    for name in HOME_SCHEMA.names:
        assert drawn[name].equals(whole[name], check_names=True, null_equal=True), name
    assert drawn[["income"]].schema["income"].gaps == ("unknown", "refused")
    assert list(drawn) == whole.to_dicts()


def test_refuses_invalid_parts(drawn):
    with pytest.raises(gl.errors.SchemaError, match=r"no column 'ages' in the schema\n  Try: use age"):
        drawn["ages"]
    for key in (0, 1.5, None, ["age", 1], np.array([0])):
        with pytest.raises(gl.errors.SchemaError, match=r"has no part .*\n  Try: use table\[\"age\"\] for a column"):
            drawn[key]
    with pytest.raises(
        gl.errors.ReadError,
        match=r"rows = -1, but rows must be a whole number of at least 0\n  Try: pass a whole number of at least 0",
    ):
        drawn.head(-1)


class Texts(HTMLParser):
    """The texts of a page by the element they stand in."""

    def __init__(self, page):
        super().__init__()
        self.open, self.found = [], []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        self.found.append((self.open[-1], text))

    def of(self, tag):
        return [text for where, text in self.found if where == tag]


def test_a_notebook_shows_the_first_rows(read, drawn):
    texts = Texts(read._repr_html_())
    assert texts.of("th") == list(HOME_SCHEMA.names)
    assert texts.of("small") == [column.kind for column in HOME_SCHEMA.columns]
    first = ["34", "1.5", "female", "some", "true", "1950-01-01", "2000-01-01 10:00:00"]
    last = ["5", "1000", "male", "none", "false", "1960-02-03", "2000-02-02 00:00:00"]
    assert texts.of("td") == first + last
    assert texts.of("i") == ["missing"] * 7
    assert texts.of("p") == ["3 rows, 7 columns of 'people'"]
    texts = Texts(drawn._repr_html_())
    assert len(texts.of("td")) + len(texts.of("i")) == 70
    assert texts.of("p") == ["400 rows, 7 columns of 'people'; shown: the first 10 rows, 7 columns"]
    assert texts.of("td") == Texts(drawn.head(10)._repr_html_()).of("td")
    assert len(drawn._repr_html_()) < 10_000


def test_the_picture_is_escaped_short_and_of_no_colour_of_its_own():
    odd = "<script>alert(1)</script>"
    codes = ("", gl.MissingCode("n/a", "not-applicable"))
    columns = [gl.Categorical(odd, [odd, "y" * 500], missing=codes, may_be_missing=True)]
    columns += [gl.Boolean(f"c{i}") for i in range(99)]
    table = gl.Table(gl.Schema("a & b", columns), [np.array([0, 1, 2, 3]), *[np.zeros(4)] * 99], rows=4)
    page = table._repr_html_()
    assert "<script" not in page
    texts = Texts(page)
    cells = [text for where, text in texts.found if where in ("td", "i")][::30]
    assert cells == [odd, f"{'y' * 20}…{'y' * 19}", "not applicable", "missing"]
    assert texts.of("p") == ["4 rows, 100 columns of 'a & b'; shown: the first 4 rows, 30 columns"]
    (style,) = texts.of("style")
    assert all(rule.strip().startswith(".gapless") for rule in style.split("}")[:-1])
    assert "#" not in style  # ink and ground are the page's: light or dark


def test_an_empty_table_has_a_picture_and_frames(read):
    empty = read[:0]
    assert Texts(empty._repr_html_()).of("p") == ["0 rows, 7 columns of 'people'"]
    assert pl.DataFrame(empty).schema == read.to_polars().schema
    assert pa.table(empty).num_rows == 0
    assert list(empty) == []


def test_polars_takes_a_table_as_it_is(read, drawn):
    frame = pl.DataFrame(read)
    assert frame.rows() == HOME_ROWS
    assert frame.schema == read.to_polars().schema
    assert frame["school"].dtype == pl.Enum(["none", "some", "much"])
    assert pl.DataFrame(drawn).equals(drawn.to_polars())


def test_arrow_takes_a_table_as_it_is(read):
    table = pa.table(read)
    assert table.equals(read.to_arrow())
    assert table.to_pylist() == [dict(zip(HOME_SCHEMA.names, row, strict=True)) for row in HOME_ROWS]
    types = {field.name: field.type for field in table.schema}
    assert [types["sex"].ordered, types["school"].ordered] == [False, True]
    assert [types[name] for name in ("age", "smoker", "born")] == [pa.int64(), pa.bool_(), pa.date32()]


def test_without_pyarrow_polars_provides_the_stream(read, monkeypatch):
    def lacks(_):
        raise gl.errors.ReadError("pyarrow is not installed", hint="install it")

    monkeypatch.setattr(gl.Table, "to_arrow", lacks)
    assert pl.DataFrame(read).rows() == HOME_ROWS


def test_pandas_takes_a_table(read):
    """The constructor knows no protocol and guesses types from rows; `from_arrow` knows Arrow's."""
    guessed = pd.DataFrame(read)
    assert list(guessed.columns) == list(HOME_SCHEMA.names)
    assert guessed.isna().to_numpy().tolist() == [[False] * 7, [True] * 7, [False] * 7]
    for row in (0, 2):
        assert guessed.iloc[row].tolist() == list(HOME_ROWS[row])
    for frame in (pd.DataFrame.from_arrow(read), pd.api.interchange.from_dataframe(read)):
        assert frame["school"].tolist()[::2] == ["some", "none"]
        assert [frame[name].cat.ordered for name in ("sex", "school")] == [False, True]
        assert frame.isna().to_numpy().tolist() == [[False] * 7, [True] * 7, [False] * 7]
        assert frame["age"].tolist()[::2] == [34, 5]
        assert frame["smoker"].tolist()[::2] == [True, False]
        assert pd.to_datetime(frame["born"]).dt.year.tolist()[::2] == [1950, 1960]


def test_narwhals_takes_a_table(read):
    frame = nw.from_native(read, eager_only=True)
    assert frame.to_native().equals(read.to_polars())
    assert frame.schema["school"] == nw.Enum(["none", "some", "much"])
    assert frame.select(nw.col("age").mean()).item() == 19.5
    assert nw.from_arrow(read, backend="polars").to_native().equals(read.to_polars())

    @nw.narwhalify
    def older(people):
        return people.filter(nw.col("age") > 18)["sex"].to_list()

    assert older(read) == ["female"]


def test_plain_types_for_libraries_that_know_no_others(read, drawn):
    plain = read.to_pandas(nullable=False)
    kinds = [str(dtype) for dtype in plain.dtypes]
    assert kinds == ["float64", "float64", "category", "category", "float64", "datetime64[s]", "datetime64[s]"]
    assert plain["smoker"].tolist()[::2] == [1.0, 0.0]
    assert plain.isna().equals(read.to_pandas().isna())
    columns = [
        gl.Integer("age", bounds=(0, 9)),
        gl.Boolean("smoker"),
        gl.Boolean("x", missing=[gl.MissingCode("-", "not-applicable")]),
    ]
    never = gl.Table(gl.Schema("small", columns), [[3], [1], [2]], rows=1).to_pandas(nullable=False)
    assert [str(dtype) for dtype in never.dtypes] == ["int64", "bool", "float64"]
    assert never["smoker"].tolist() == [True]
    assert np.isnan(never["x"][0])
    assert drawn.to_pandas()["age"].sum() == drawn.to_pandas(nullable=False)["age"].sum()


@pytest.mark.parametrize("frame", ["to_pandas", "to_polars"])
def test_scikit_learn_takes_a_gapped_sample(drawn, frame):
    pytest.importorskip("sklearn", reason="scikit-learn is not installed: whether it takes a gapped sample is untold")
    from sklearn.compose import make_column_transformer
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder

    known = drawn.to_polars()["sex"].is_not_null().to_numpy()
    people = getattr(drawn, frame)()
    people = people[known] if frame == "to_pandas" else people.filter(known)
    features, sex = people[["age", "income", "school", "smoker"]], np.asarray(people["sex"]).astype(str)
    trees = HistGradientBoostingClassifier(categorical_features="from_dtype", max_iter=5).fit(features, sex)
    assert trees.is_categorical_.tolist() == [False, False, True, False]
    assert set(trees.predict(features)) <= {"female", "male"}
    filled = make_column_transformer(
        (SimpleImputer(add_indicator=True), ["age", "income"]), (OneHotEncoder(), ["school", "smoker"])
    )
    line = make_pipeline(filled, LogisticRegression(max_iter=1000)).fit(features, sex)
    assert line[0].transform(features).shape == (known.sum(), 2 + 2 + 4 + 3)
    assert 0.4 < line.score(features, sex) <= 1


def test_statsmodels_takes_a_gapped_sample(drawn):
    reason = "statsmodels is not installed: whether its formulas take a gapped sample is untold"
    formulas = pytest.importorskip("statsmodels.formula.api", reason=reason)
    people = drawn.to_pandas(nullable=False)
    used = ["income", "age", "sex", "school", "smoker"]
    line = formulas.ols("income ~ age + sex + C(school) + smoker", data=people).fit()
    assert line.nobs == people[used].notna().all(axis=1).sum()
    assert list(line.params.index)[1:4] == ["sex[T.male]", "C(school)[T.some]", "C(school)[T.much]"]
    odds = formulas.logit("smoker ~ age", data=people).fit(disp=0)
    assert odds.nobs == people[["smoker", "age"]].notna().all(axis=1).sum()


def test_a_sealed_table_opens_none_of_these_doors(tmp_path):
    cells = pl.DataFrame({"age": [34, 35]})
    schema = gl.Schema("sealed", [gl.Integer("age", bounds=(0, 99))])
    people = gl.read(cells, schema, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=tmp_path / "sealed.ledger")
    doors = {
        "a column": lambda: people["age"],
        "columns": lambda: people[["age"]],
        "rows": lambda: people[:1],
        "one by one": lambda: list(people),
        "len": lambda: len(people),
        "polars": lambda: pl.DataFrame(people),
        "arrow": lambda: pa.table(people),
        "from_arrow": lambda: pd.DataFrame.from_arrow(people),
        "pandas": lambda: pd.DataFrame(people),
        "interchange": lambda: pd.api.interchange.from_dataframe(people),
        "narwhals": lambda: nw.from_native(people),
    }
    for name, door in doors.items():
        with pytest.raises(gl.errors.SealedError, match="would reveal private data"):
            door()
            pytest.fail(name)
    for name in ("head", "_repr_html_", "to_pandas", "to_polars", "to_arrow", "to_text", "write"):
        assert not hasattr(people, name)
