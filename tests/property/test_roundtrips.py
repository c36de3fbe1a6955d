"""Schemas and tables come back from a file as they went in."""

import datetime as dt
import tempfile
from pathlib import Path

import numpy as np
import polars as pl
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import gapless as gl
from gapless.missing import check
from gapless.schema import Constraint
from gapless.schema.gap_codes import as_text
from helpers.examples import examples

few = settings(examples(60), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])

texts = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1, max_size=8)
names = texts.filter(lambda name: name == name.strip() and not set(";\t") & set(name))  # else "not with commas"
levels = st.one_of(
    texts.filter(str.strip),
    st.integers(-1000, 1000),
    st.booleans(),
    st.floats(-1e6, 1e6).map(lambda x: round(x, 3) + 0.0),  # no -0.0, which is the level 0.0
)
days = st.dates(dt.date(1800, 1, 1), dt.date(2100, 1, 1))
moments = st.datetimes(dt.datetime(1800, 1, 1), dt.datetime(2100, 1, 1))  # noqa: DTZ001 plain
whole = st.integers(-(10**6), 10**6)
reals = st.floats(-1e9, 1e9)


@st.composite
def gaps(draw, taken=()):
    """Whether a column may be missing, and its codes: words that are no level, no boolean and no number."""
    texts = draw(st.lists(st.sampled_from(["", "NA", "k.A.", "?", "-", "n, a", 'q"q']), unique=True, max_size=4))
    kinds = [draw(st.sampled_from(["unknown", "refused", "not-applicable"])) for _ in texts]
    codes = [gl.MissingCode(text, kind) for text, kind in zip(texts, kinds, strict=True) if text not in taken]
    may = any(code.kind != "not-applicable" for code in codes) or draw(st.booleans())
    if may and "" in [code.code for code in codes] and all(code.kind == "not-applicable" for code in codes):
        may = False
    return {"may_be_missing": may, "missing": tuple(codes), "description": draw(st.text(max_size=5))}


@st.composite
def binned(draw, kind, values, step=None):
    low, high = sorted(draw(st.lists(values, min_size=2, max_size=2, unique=True)))
    facts = {"bounds": (low, high)} | draw(gaps())
    cuts = sorted(draw(st.lists(values.filter(lambda value: low < value < high), unique=True, max_size=4)))
    match draw(st.sampled_from(["default", "bins", "edges", "quantiles"])):
        case "bins":
            facts["bins"] = draw(st.integers(1, 30))
        case "edges":
            facts["edges"] = (low, *cuts, high)
        case "quantiles":
            facts["quantiles"] = tuple(cuts)
    rules = ["clamp", "refuse"] + (["missing"] if facts["may_be_missing"] else [])
    facts["outside"] = draw(st.sampled_from(rules))
    if step:
        facts["resolution"] = draw(st.sampled_from(step))
        days = ("%d.%m.%Y", "%Y/%m/%d", "%d %b %Y", "%B %d, %Y")
        forms = [f"{day}{' %I:%M:%S %p' * ('second' in step)}" for day in days]
        facts["format"] = draw(st.sampled_from([None, *forms]))
    else:
        signs = [(".", ""), (",", ""), (",", "."), (".", ","), (",", " "), (".", "'")]
        facts["decimal"], facts["thousands"] = draw(st.sampled_from(signs))
    try:
        return kind(draw(names), **facts)
    except gl.errors.SchemaError:  # two cuts in one step, more bins than values: another column then
        return kind(draw(names), bounds=(dt.date(1799, 1, 1), dt.date(2101, 1, 1)) if step else (-(10**7), 10**7))


@st.composite
def levelled(draw, kind):
    chosen = draw(st.lists(levels, min_size=1, max_size=6, unique_by=as_text))
    return kind(draw(names), chosen, **draw(gaps({as_text(level) for level in chosen})))


columns = st.one_of(
    levelled(gl.Categorical),
    levelled(gl.Ordinal),
    binned(gl.Integer, whole),
    binned(gl.Number, reals),
    st.builds(
        lambda name, spelling, facts: gl.Boolean(name, spelling=spelling, **facts),
        names,
        st.sampled_from([None, ("N", "J"), (2, 1), ("FALSE", "TRUE"), ("nein, nie", 'ja "immer"')]),
        gaps(),
    ),
    binned(gl.Date, days, ["day", "month", "year"]),
    binned(gl.DateTime, moments, ["second", "minute", "hour", "day", "month", "year"]),
)
schemas = st.builds(
    gl.Schema,
    texts.filter(str.strip),
    st.lists(columns, min_size=1, max_size=5, unique_by=lambda column: column.name),
    description=st.text(max_size=10),
    rows_per_person=st.integers(1, 5),
    ignore=st.lists(st.text(st.characters(codec="utf-8"), min_size=9, max_size=12), max_size=2, unique=True),
    separator=st.sampled_from([None, ",", ";", "|", "\t"]),
    encoding=st.sampled_from([None, "utf-8", "utf-16", "utf-16-le"]),
    constraints=st.lists(st.builds(Constraint, st.text(max_size=10), st.text(max_size=5)), max_size=2),
    person=st.sampled_from([(), "the id of a person", ("the household", "the number")]),
)


@few
@given(schemas)
def test_a_schema_reads_back_from_toml_the_same(schema):
    again = gl.Schema.from_toml(schema.to_toml())
    assert again == schema
    assert [column.cells for column in again.columns] == [column.cells for column in schema.columns]
    assert again.to_toml() == schema.to_toml()


@st.composite
def tables(draw):
    schema = draw(schemas)
    rows = draw(st.integers(0, 20))
    codes = [
        np.array(draw(st.lists(st.integers(0, column.extended_size - 1), min_size=rows, max_size=rows)), dtype=int)
        for column in schema.columns
    ]
    return gl.Table(schema, codes, rows=rows, seed=draw(st.integers(0, 99)))


@few
@given(tables(), st.sampled_from(["t.csv", "t.csv.gz", "t.tsv"]))
@example(gl.Table(gl.Schema("t", [gl.Boolean("x", may_be_missing=True)]), [np.array([2, 1, 2])], rows=3), "t.csv")
def test_a_table_reads_back_from_a_text_file_with_the_kinds_of_its_gaps(table, name):
    with tempfile.TemporaryDirectory() as folder:
        table.write(Path(folder, name))
        again = gl.Table.read(Path(folder, name), table.schema)
    assert again.rows == table.rows
    assert [codes.tolist() for codes in again.codes] == [codes.tolist() for codes in table.codes]
    assert again.to_text().equals(table.to_text())  # the values themselves


@few
@given(tables())
def test_a_table_reads_back_from_parquet_with_what_is_not_applicable(table):
    with tempfile.TemporaryDirectory() as folder:
        table.write(Path(folder, "t.parquet"))
        again = gl.Table.read(Path(folder, "t.parquet"), table.schema)
    for column, there, back in zip(table.schema.columns, table.codes, again.codes, strict=True):
        assert back.clip(0, column.size).tolist() == there.clip(0, column.size).tolist()  # kinds of gaps aside
    for series, other in zip(again.to_polars(), table.to_polars(), strict=True):
        assert series.equals(other)


@few
@given(tables(), st.integers(0, 9))
def test_cells_that_get_no_gap_keep_their_values(table, seed):
    gapped = gl.MCAR(0.5).apply(table, seed=seed)
    flags = gl.MCAR(0.5).mask(table, seed=seed)
    for before, after, flag in zip(table.to_polars(), gapped.to_polars(), flags.T, strict=True):
        kept = ~flag
        assert after.filter(kept).cast(before.dtype).equals(before.filter(kept))


@few
@given(tables())
def test_frames_read_back_to_the_same_values_and_gaps(table):
    # In a column of numbers a frame has null for *not applicable*: those rows are left out.
    kept = np.ones(table.rows, dtype=bool)
    for column, codes in zip(table.schema.columns, table.codes, strict=True):
        kept &= (codes < column.values_size) | (codes >= column.size)
    table = gl.Table(table.schema, [codes[kept] for codes in table.codes], rows=int(kept.sum()))
    for frame in (table.to_polars(), table.to_arrow(), table.to_pandas()):
        again = gl.Table.read(frame, table.schema)
        for column, there, back in zip(table.schema.columns, table.codes, again.codes, strict=True):
            filled = there < column.values_size
            assert back[filled].tolist() == there[filled].tolist()
            if "" not in {code.code for code in column.missing if code.kind == "not-applicable"}:
                assert np.all(back[~filled] >= column.size)


cells = st.one_of(
    st.none(), st.sampled_from(["", "NA", "yes", "no", "007", "1.0", "1e3", "2020-01-01", "x"]), st.integers().map(str)
)
written = st.sampled_from(
    [
        st.sampled_from(["1,5", "2,25", "1.234,5", "3", "-9", "-", "unknown", "1.000", "999"]),
        st.sampled_from(["1,234", "2,000.5", "12", "7.25", "-99", "NA", "1,000"]),
        st.sampled_from(["01.02.2020", "13.02.2020", "1.3.2021", "."]),
        st.sampled_from(["01/02/20", "03/04/21", "12/31/20", "?"]),
        st.sampled_from(["20200101", "20211231", "20200230"]),
        st.sampled_from(["Yes", "no", "n/a"]),
        st.sampled_from(["1", "2", "3", "4", "5", "-8", "77"]),
        st.sampled_from(["1 234", "5\u00a0678,5", "1'234", "1’234.5"]),
    ]
).flatmap(lambda cells: st.lists(cells, min_size=1, max_size=30))


@few
@given(st.one_of(st.lists(cells, min_size=1, max_size=90), written))
def test_a_draft_parses_and_accepts_the_data_it_was_made_from(column):
    frame = pl.DataFrame({"x": pl.Series(column, dtype=pl.String), "y": [True] * len(column)})
    draft = gl.data.draft_schema(frame)
    schema = gl.Schema.from_toml(draft.to_toml())
    assert schema == draft.schema
    shown = check(frame, schema)
    assert shown.refused == ()
    assert all(found.outside == 0 for found in shown.columns)
