"""A public table in Python: its parts, its picture, the protocols of frames, and libraries that take it."""

import datetime as dt
from html.parser import HTMLParser

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import gapless as gl

SCHEMA = gl.Schema(
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
    codes = [np.where(rng.random(400) < 0.1, c.size, rng.integers(0, c.size, 400)) for c in SCHEMA.columns]
    return gl.Table(SCHEMA, codes, rows=400, seed=3)


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
    return gl.Table.read(pl.DataFrame(cells), SCHEMA)


ROWS = [
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
    for name in SCHEMA.names:
        assert drawn[name].equals(whole[name], check_names=True, null_equal=True), name
    assert drawn[["income"]].schema["income"].gaps == ("unknown", "refused")
    assert list(drawn) == whole.to_dicts()


def test_what_is_no_part_is_refused(drawn):
    with pytest.raises(gl.errors.SchemaError, match=r"no column 'ages' in the schema\n  Try: age"):
        drawn["ages"]
    for key in (0, 1.5, None, ["age", 1], np.array([0])):
        with pytest.raises(gl.errors.SchemaError, match=r"has no part .*\n  Try: table\[\"age\"\], a column"):
            drawn[key]
    with pytest.raises(gl.errors.ReadError, match=r"rows = -1\n  Try: a whole number of at least 0"):
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
    assert texts.of("th") == list(SCHEMA.names)
    assert texts.of("small") == [column.kind for column in SCHEMA.columns]
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
    assert frame.rows() == ROWS
    assert frame.schema == read.to_polars().schema
    assert frame["school"].dtype == pl.Enum(["none", "some", "much"])
    assert pl.DataFrame(drawn).equals(drawn.to_polars())


def test_arrow_takes_a_table_as_it_is(read):
    table = pa.table(read)
    assert table.equals(read.to_arrow())
    assert table.to_pylist() == [dict(zip(SCHEMA.names, row, strict=True)) for row in ROWS]
    types = {field.name: field.type for field in table.schema}
    assert [types["sex"].ordered, types["school"].ordered] == [False, True]
    assert [types[name] for name in ("age", "smoker", "born")] == [pa.int64(), pa.bool_(), pa.date32()]


def test_without_pyarrow_polars_tells_the_stream(read, monkeypatch):
    def lacks(_):
        raise gl.errors.ReadError("pyarrow is not installed", hint="install it")

    monkeypatch.setattr(gl.Table, "to_arrow", lacks)
    assert pl.DataFrame(read).rows() == ROWS


def test_pandas_takes_a_table(read):
    """The constructor knows no protocol and guesses types from rows; `from_arrow` knows Arrow's."""
    guessed = pd.DataFrame(read)
    assert list(guessed.columns) == list(SCHEMA.names)
    assert guessed.isna().to_numpy().tolist() == [[False] * 7, [True] * 7, [False] * 7]
    for row in (0, 2):
        assert guessed.iloc[row].tolist() == list(ROWS[row])
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
        with pytest.raises(gl.errors.SealedError, match="would look at private data"):
            door()
            pytest.fail(name)
    for name in ("head", "_repr_html_", "to_pandas", "to_polars", "to_arrow", "to_text", "write"):
        assert not hasattr(people, name)
