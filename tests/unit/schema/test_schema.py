"""Schemas: every malformed one gets an error that names the place and what to do; good ones number their cells."""

import datetime as dt

import numpy as np
import pytest

import gapless as gl
from gapless.schema import Constraint
from gapless.schema.columns import MOST_LEVELS

HEAD = '[table]\nname = "people"\n'


def column(keys: str, name: str = "x") -> str:
    return f"{HEAD}[column.{name}]\n{keys}"


MALFORMED = {
    # not a schema at all
    "not TOML": ("[table", "the schema is not valid TOML", "correct the line"),
    "nothing": ("", "the table has no name", 'name = "people"'),
    "no name": ('[table]\n[column.x]\nkind="boolean"', "the table has no name", "[table]"),
    "name is a number": ('[table]\nname=5\n[column.x]\nkind="boolean"', "the table has no name", "[table]"),
    "no columns": (HEAD, "the schema has no columns", "such as [column."),
    "unknown section": (HEAD + '[colum.x]\nkind="boolean"', "the schema has an unknown key 'colum'", "column"),
    "unknown table key": ('[table]\nnam="x"', "[table] has an unknown key 'nam'", "name"),
    "table is a number": ("table=1", "[table] is not a table of keys", "name, description"),
    "columns as a list": (HEAD + '[[column]]\nkind="boolean"', "[column] must name its column", "[column.age]"),
    "column is a number": (HEAD + '[column]\n"a b"=1', "column 'a b' is not a table of keys", '[column."a b"]'),
    "description is a number": (
        HEAD + 'description=5\n[column.x]\nkind="boolean"',
        "the table's description",
        "description = ",
    ),
    "rows per person": (
        HEAD + 'rows_per_person=0\n[column.x]\nkind="boolean"',
        "rows_per_person = 0",
        "a whole number from 1 to 9007199254740992",
    ),
    "ignore is a text": (
        HEAD + 'ignore="id"\n[column.x]\nkind="boolean"',
        "ignore must be a list, got a str",
        'ignore = ["id"]',
    ),
    "person without a name": (HEAD + 'person=""\n[column.x]\nkind="boolean"', "person must name", "person = "),
    "person is a number": (HEAD + 'person=5\n[column.x]\nkind="boolean"', "person must be a list", "person = "),
    "person twice": (HEAD + 'person=["a","a"]\n[column.x]\nkind="boolean"', "different columns", "person = "),
    "person declared": (
        HEAD + 'person="x"\n[column.x]\nkind="boolean"',
        "the column 'x' is declared, and is the id of a person",
        "remove [column.x]",
    ),
    "person ignored": (
        HEAD + 'person="a"\nignore=["a"]\n[column.x]\nkind="boolean"',
        "the column 'a' is ignored, and is the id of a person",
        "remove 'a' from ignore",
    ),
    "ignored and declared": (
        HEAD + 'ignore=["x"]\n[column.x]\nkind="boolean"',
        "the column 'x' is declared and ignored",
        "remove its name from ignore",
    ),
    # constraints
    "constraint is a number": (
        "constraint=5\n" + column('kind="boolean"'),
        "constraint must be a list",
        "[[constraint]]",
    ),
    "constraint in single brackets": (
        column('kind="boolean"') + '\n[constraint]\nnot="x"',
        "constraint must be a list",
        "double brackets",
    ),
    "constraint without a rule": (
        column('kind="boolean"') + '\n[[constraint]]\ndescription="x"',
        "lacks the key `not`",
        "not = ",
    ),
    "unknown constraint key": (
        column('kind="boolean"') + '\n[[constraint]]\nnott="x"',
        "[[constraint]] has an unknown key 'nott'",
        "not",
    ),
    # kinds and keys
    "no kind": (column("levels=[1]"), "column 'x' has no kind", "categorical, ordinal, integer, number, boolean"),
    "unknown kind": (column('kind="bolean"'), "column 'x' has an unknown kind 'bolean'", "boolean"),
    "kind is a list": (column('kind=["boolean"]'), "column 'x' has an unknown kind ['boolean']", "boolean"),
    "unknown key": (column('kind="number"\nbound=[0,1]'), "column 'x' has an unknown key 'bound'", "bounds"),
    "key of another kind": (column('kind="boolean"\nbounds=[0, 1]'), "column 'x' has an unknown key 'bounds'", "kind"),
    "column description": (column('kind="boolean"\ndescription=5'), "a description that is not a text", "in years"),
    "may_be_missing is a text": (
        column('kind="boolean"\nmay_be_missing="yes"'),
        "has may_be_missing = 'yes', but it must be true or false",
        "may_be_missing = true",
    ),
    # levels
    "no levels": (column('kind="categorical"'), "column 'x' has no levels", "levels = "),
    "levels are a text": (column('kind="ordinal"\nlevels="abc"'), "has levels that are not a list", "levels = "),
    "level is a list": (column('kind="ordinal"\nlevels=[[1, 2]]'), "must be texts, numbers", "write levels"),
    "empty level": (column('kind="categorical"\nlevels=["a", " "]'), "has an empty level", 'missing = [""]'),
    "level twice": (column('kind="categorical"\nlevels=["a", "b", "a"]'), "has the level 'a' twice", "remove one"),
    "level twice as a number": (
        column('kind="categorical"\nlevels=[1, "1.0"]'),
        "has the level '1' twice",
        "remove one",
    ),
    "too many levels": (
        column(f'kind="categorical"\nlevels={list(range(MOST_LEVELS + 1))}'),
        f"has {MOST_LEVELS + 1} levels, more than {MOST_LEVELS}",
        "join levels",
    ),
    # missing codes
    "missing code is a level": (
        column('kind="categorical"\nlevels=["a", -9]\nmay_be_missing=true\nmissing=["-9.0"]'),
        "has '-9' both as a level and as a missing code",
        "remove '-9' from levels if it means a gap",
    ),
    "missing code is a value": (
        column('kind="integer"\nbounds=[0, 120]\nmay_be_missing=true\nmissing=[99]'),
        "has the missing code '99' within its bounds [0, 120]",
        "bounds that do not include",
    ),
    "missing code is a day": (
        column('kind="date"\nbounds=[1900-01-01, 2000-01-01]\nmay_be_missing=true\nmissing=["1900-01-01"]'),
        "has the missing code '1900-01-01' within its bounds",
        "bounds that do not include",
    ),
    "missing code is a spelling": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=["N"]'),
        "has the missing code 'n', which a boolean reads as a value",
        'write kind = "categorical"',
    ),
    "missing code twice": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=["NA", " NA"]'),
        "declares the missing code 'NA' twice",
        "remove one",
    ),
    "missing codes are a text": (
        column('kind="boolean"\nmay_be_missing=true\nmissing="NA"'),
        "column 'x' has missing codes that are not a list",
        'missing = ["", "NA"]',
    ),
    "missing code is a list": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=[["NA"]]'),
        "a missing code must be a text or a number, got ['NA']",
        "write missing",
    ),
    "missing code without code": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=[{kind="refused"}]'),
        "has an item of missing without the key code",
        "{ code =",
    ),
    "unknown kind of gap": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=[{code="-8", kind="refusd"}]'),
        "kind = 'refusd', but kind must be one of",
        "refused",
    ),
    "unknown key of a code": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=[{code="-8", kin="refused"}]'),
        "column 'x', missing has an unknown key 'kin'",
        "kind",
    ),
    "codes but may not be missing": (
        column('kind="boolean"\nmissing=["NA"]'),
        "has missing codes but may_be_missing is not true",
        "add may_be_missing = true",
    ),
    "no code left for a gap": (
        column('kind="boolean"\nmay_be_missing=true\nmissing=[{code="", kind="not-applicable"}]'),
        "its empty cell means not applicable and no code means a gap",
        '"NA"',
    ),
    # outside
    "unknown rule": (column('kind="integer"\nbounds=[0, 9]\noutside="clam"'), "has outside = 'clam'", "clamp"),
    "clamp without order": (
        column('kind="boolean"\noutside="clamp"'),
        "must be one of: missing, refuse",
        'write outside = "refuse"',
    ),
    "outside becomes a gap": (
        column('kind="number"\nbounds=[0, 1]\noutside="missing"'),
        "has outside = 'missing', which makes gaps, but may_be_missing is not true",
        'outside = "refuse"',
    ),
    # bounds
    "no bounds": (column('kind="integer"'), "must have two bounds: the lowest and the highest", "bounds = [0, 100]"),
    "three bounds": (column('kind="number"\nbounds=[1, 2, 3]'), "must have two bounds", "bounds = "),
    "bounds are a number": (
        column('kind="number"\nbounds=1'),
        "has bounds = 1, but bounds must be a list",
        "bounds = ",
    ),
    "empty bounds": (
        column('kind="number"\nbounds=[1, 1]'),
        "has bounds [1, 1], but the lower bound must come first",
        "write two different bounds: the lowest",
    ),
    "bounds swapped": (
        column('kind="integer"\nbounds=[9, 1]'),
        "has bounds [9, 1], but the lower bound must come first",
        "write bounds = [1, 9]: the lowest",
    ),
    "bound is a text": (column('kind="number"\nbounds=["0", 1]'), "the bound '0', which is not a number", "bounds"),
    "bound is true": (column('kind="number"\nbounds=[false, 1]'), "the bound False, which is not a number", "bounds"),
    "bound is infinite": (column('kind="number"\nbounds=[0, inf]'), "the bound inf, which is not a number", "bounds"),
    "bound is not a number": (column('kind="number"\nbounds=[nan, 1]'), "the bound nan, which is", "bounds"),
    "bound not whole": (column('kind="integer"\nbounds=[0, 1.5]'), "1.5, which is not a whole number", "bounds"),
    "bound too large": (column(f'kind="integer"\nbounds=[0, 1{"0" * 400}]'), "has a bound beyond", "larger unit"),
    "width overflows": (column('kind="number"\nbounds=[-1e308, 1e308]'), "has a bound beyond 1e+300", "larger unit"),
    "bound is no date": (
        column('kind="date"\nbounds=["2020", "x"]'),
        "which is not a date without a time zone",
        "2000-01-01",
    ),
    "bound has a zone": (
        column('kind="datetime"\nbounds=[2020-01-01T00:00:00Z, 2021-01-01T00:00:00Z]'),
        "which is not a datetime without a time zone",
        "2000-01-01",
    ),
    "unknown resolution": (
        column('kind="date"\nbounds=[2020-01-01, 2021-01-01]\nresolution="days"'),
        "has resolution = 'days'",
        "day",
    ),
    # bins
    "two ways to bin": (column('kind="number"\nbounds=[0, 1]\nbins=2\nedges=[0, 1]'), "has bins, edges", "keep one"),
    "no bins": (column('kind="number"\nbounds=[0, 1]\nbins=0'), "has bins = 0", "bins = 10"),
    "bins are a text": (column('kind="number"\nbounds=[0, 1]\nbins="2"'), "has bins = '2'", "bins = 10"),
    "bins are true": (column('kind="number"\nbounds=[0, 1]\nbins=true'), "has bins = True", "bins = 10"),
    "too many bins": (column('kind="number"\nbounds=[0, 1]\nbins=70000'), "more than 65000 bins", "fewer bins"),
    "bins without values": (column('kind="integer"\nbounds=[0, 3]\nbins=9'), "bins without a value", "fewer bins"),
    "edge outside": (
        column('kind="number"\nbounds=[0, 10]\nedges=[0, 20, 10]'),
        "has the bin edge 20 outside its bounds [0, 10]",
        "declare wider bounds",
    ),
    "edges do not reach": (
        column('kind="number"\nbounds=[0, 10]\nedges=[0, 5]'),
        "edges that do not start and end at its bounds",
        "write 0 as the first edge and 10 as the last",
    ),
    "edges do not rise": (
        column('kind="number"\nbounds=[0, 10]\nedges=[0, 7, 5, 10]'),
        "bin edges that do not increase",
        "increasing order",
    ),
    "quantile outside": (
        column('kind="number"\nbounds=[0, 10]\nquantiles=[-1]'),
        "has the bin edge -1 outside its bounds [0, 10]",
        "declare wider bounds",
    ),
    "date edge outside": (
        column('kind="date"\nbounds=[2020-01-01, 2020-12-31]\nquantiles=[2021-01-01]'),
        "has the bin edge 2021-01-01 outside its bounds [2020-01-01, 2020-12-31]",
        "declare wider bounds",
    ),
}


@pytest.mark.parametrize(("text", "wrong", "hint"), MALFORMED.values(), ids=MALFORMED)
def test_errors_of_a_malformed_schema_state_the_rule_and_the_remedy(text, wrong, hint):
    with pytest.raises(gl.errors.SchemaError) as caught:
        gl.Schema.from_toml(text)
    assert wrong in caught.value.message
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "build",
    [
        lambda: gl.Schema("t", gl.Boolean("a")),
        lambda: gl.Schema("t", ["a"]),
        lambda: gl.Schema("t", [gl.Boolean("a"), gl.Boolean("a")]),
        lambda: gl.Schema("t", [gl.Boolean("")]),
        lambda: gl.Schema("t", [gl.Boolean(5)]),
        lambda: gl.Integer("a", bounds=(0, 1), may_be_missing=True, missing="NA"),
        lambda: gl.Schema("t", [gl.Boolean("a")])["b"],
        lambda: gl.Schema("t", [gl.Boolean("a")]).positions(["a", "a"]),
        lambda: gl.Categorical("a", ["x"]).code_of("y"),
    ],
)
def test_malformed_objects_are_schema_errors_too(build):
    with pytest.raises(gl.errors.SchemaError):
        build()


def test_a_missing_unreadable_or_foreign_file_is_named(tmp_path):
    with pytest.raises(
        gl.errors.ReadError, match=r"no file .*none\.toml\n  Try: check the path, or run `gapless schema draft"
    ):
        gl.Schema.read(tmp_path / "none.toml")
    with pytest.raises(gl.errors.ReadError, match="cannot read"):
        gl.Schema.read(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[table]\nname = "\xff"')
    with pytest.raises(gl.errors.ReadError, match="UTF-8"):
        gl.Schema.read(tmp_path / "latin.toml")
    (tmp_path / "bad.toml").write_text("[table")
    with pytest.raises(gl.errors.SchemaError, match=r"bad\.toml is not valid TOML"):
        gl.Schema.read(tmp_path / "bad.toml")


def test_a_written_schema_reads_back_the_same(tmp_path):
    schema = gl.Schema(
        'a "name"',
        [
            gl.Categorical("sex", ["F", "M"], may_be_missing=True, missing=(gl.MissingCode("-8", "refused"),)),
            gl.Ordinal("grade", [3, 1, 2], description="as printed"),
            gl.Integer("age", bounds=(0, 120), edges=(0, 18, 120), outside="refuse"),
            gl.Number("income", bounds=(0.5, 1e5), quantiles=(1e3, 5e3)),
            gl.Boolean("household income? ☂", may_be_missing=True),
            gl.Date("born", bounds=(dt.date(1900, 1, 1), dt.date(2000, 1, 1)), resolution="month", bins=4),
            gl.DateTime("seen", bounds=("2020-01-01", "2021-01-01T12:00:00")),
        ],
        description="line\nbreak",
        rows_per_person=3,
        ignore=("id", "a.b"),
        constraints=(Constraint("t1.age < 15", "children"), Constraint("x")),
    )
    schema.write(tmp_path / "s.toml")
    assert gl.Schema.read(tmp_path / "s.toml") == schema


def test_numbers_from_numpy_read_back_as_plain_numbers():
    schema = gl.Schema(
        "t",
        [
            gl.Categorical("a", list(np.array([1, 2]))),
            gl.Integer("b", bounds=tuple(np.array([0, 10]))),
            gl.Number("c", bounds=tuple(np.array([0.0, 0.5]))),
        ],
    )
    assert schema.columns[0].levels == (1, 2)
    assert gl.Schema.from_toml(schema.to_toml()) == schema


def test_a_constraint_is_a_text():
    with pytest.raises(gl.errors.SchemaError, match="a constraint must be a text, got 5"):
        gl.Constraint(5)
