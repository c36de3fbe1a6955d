"""Making gaps in public tables: which cells, what stays, what is refused."""

import itertools

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.missing.gap_mechanisms import frame_with_gaps, schema_with_gaps
from gapless.testing.audit import private

SCHEMA = gl.Schema(
    "people",
    [
        gl.Integer("age", bounds=(0, 99), bins=10),
        gl.Categorical("sex", ["F", "M"]),
        gl.Number(
            "income", bounds=(0, 1000), bins=8, may_be_missing=True, missing=["NA", gl.MissingCode("-", "refused")]
        ),
        gl.Ordinal("health", ["bad", "fair", "good"], missing=[gl.MissingCode("", "not-applicable")]),
    ],
)
OTHER = gl.Schema("other", [gl.Boolean("x")])
KINDS = {
    "mcar": gl.MCAR(0.3),
    "mcar, dependent": gl.MCAR(0.3, columns="dependent"),
    "mar": gl.MAR(0.3),
    "mar by name": gl.MAR(0.3, observed=["age"]),
    "mnar": gl.MNAR(0.3),
    "mnar, self": gl.MNAR(0.3, how="self"),
    "mnar, quantile": gl.MNAR(0.3, how="quantile"),
    "by column": gl.MAR({"income": 0.5}),
}


def people(rows=400, seed=0):
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, size, rows) for size in (10, 2, 9, 4)]  # some incomes are missing already
    return gl.Table(SCHEMA, codes, rows=rows)


@pytest.mark.parametrize("kind", KINDS)
def test_gaps_come_and_everything_else_stays(kind):
    table = people()
    gapped = KINDS[kind].apply(table, seed=1)
    assert len(gapped) == len(table)
    assert table.schema == SCHEMA  # the truth is as it was
    flags = KINDS[kind].mask(table, seed=1)
    for old, new, column, flag in zip(table.codes, gapped.codes, gapped.schema.columns, flags.T, strict=True):
        assert np.array_equal(old[~flag], new[~flag])
        assert (new[flag] == column.size).all()  # the plain gap comes first
        assert column.may_be_missing or not flag.any()
    assert gl.missing.patterns(gapped).complete < 400


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_repeats_the_gaps_and_none_makes_new_ones(kind):
    table, mechanism = people(), KINDS[kind]
    assert np.array_equal(mechanism.mask(table, seed=4), mechanism.mask(table, seed=4))
    assert not np.array_equal(mechanism.mask(table, seed=4), mechanism.mask(table, seed=5))
    assert not np.array_equal(mechanism.mask(table), mechanism.mask(table))


def test_a_schema_that_knows_no_gaps_learns_them_only_where_some_are():
    gapped = gl.MCAR({"sex": 0.5, "health": 0.5}).apply(people(), seed=0)
    may = {column.name: column.may_be_missing for column in gapped.schema.columns}
    assert may == {"age": False, "sex": True, "income": True, "health": True}
    assert gapped.schema["sex"].outside == "missing"  # the default of a column that may be missing
    assert gapped.schema["health"].not_applicable == ""
    assert gapped.schema["health"].text_of_gap("unknown") == "NA"  # the empty cell has a meaning already
    again = gl.Table.read(gapped.to_text(), gapped.schema)
    assert all(np.array_equal(a, b) for a, b in zip(again.codes, gapped.codes, strict=True))


def test_dependent_columns_are_missing_together():
    flags = gl.MCAR({"age": 0.3, "sex": 0.3, "health": 0.6}, columns="dependent").mask(people(), seed=0)
    assert np.array_equal(flags[:, 0], flags[:, 1])
    assert (flags[:, 3] >= flags[:, 0]).all()


def test_mar_leaves_its_drivers_alone_and_listens_to_nothing_else():
    table = people(4000)
    mechanism = gl.MAR(0.3, observed=["age", "sex"], reference=people(2000, seed=9))
    flags = mechanism.mask(table, seed=3)
    assert not flags[:, :2].any()
    other = gl.Table(SCHEMA, [*table.codes[:2], table.codes[2] // 9, 3 - table.codes[3]], rows=4000)
    assert np.array_equal(mechanism.mask(other, seed=3)[:, 3], flags[:, 3])


def test_with_a_reference_rows_do_not_depend_on_each_other_and_without_one_they_do():
    """What calibrated_on says, and why it matters for ground-truth figures."""
    table = people(50)
    one_row = gl.Table(SCHEMA, [codes[:1] for codes in table.codes], rows=1)
    assert gl.MAR(0.3).calibrated_on == gl.MNAR(0.3).calibrated_on == "table"
    reference = people(500, seed=1)
    mechanism = gl.MNAR(0.3, how="self", reference=reference)
    assert mechanism.calibrated_on == gl.MAR(0.3, reference=reference).calibrated_on == "reference"
    chances = [mechanism.mask(t, seed=0)[0] for t in (table, one_row)]
    assert len(chances[0]) == len(chances[1])
    from gapless.missing.gap_mechanisms import _intercept

    scores = np.array([0.0, 1.0, -2.0])
    assert _intercept(scores, 0.3) != pytest.approx(_intercept(scores[:1], 0.3), abs=1e-3)


def test_quantile_gaps_lie_in_the_tails():
    schema = gl.Schema("t", [gl.Integer("x", bounds=(0, 99), bins=100)])
    table = gl.Table(schema, [np.repeat(np.arange(100), 50)], rows=5000)
    flags = gl.MNAR(0.2, how="quantile", quantile=0.2).mask(table, seed=0)[:, 0]
    assert not flags[(table.codes[0] >= 20) & (table.codes[0] < 80)].any()
    assert 0.17 < flags.mean() < 0.23
    heavy = gl.Table(schema, [np.zeros(5000, dtype=int)], rows=5000)  # all rows in one cell: it is both tails
    assert 0.17 < gl.MNAR(0.2, how="quantile").mask(heavy, seed=0).mean() < 0.23


@pytest.mark.parametrize("rate", [0.0, 1.0])
@pytest.mark.parametrize("kind", [gl.MCAR, gl.MNAR])
def test_no_gaps_and_nothing_but_gaps(kind, rate):
    table = gl.MCAR(0.0).apply(people(), seed=0)
    flags = kind(rate).mask(table, seed=0)
    seen = np.stack([codes < c.size for codes, c in zip(table.codes, SCHEMA.columns, strict=True)], axis=1)
    assert np.array_equal(flags, seen & bool(rate))


@pytest.mark.parametrize("kind", [gl.MCAR, gl.MAR, gl.MNAR])
def test_an_empty_table_and_columns_of_one_level(kind):
    schema = gl.Schema("t", [gl.Ordinal("x", ["a"]), gl.Categorical("y", ["b"])])
    assert len(kind(0.5).apply(gl.Table(schema, [np.zeros(0), np.zeros(0)], rows=0), seed=0)) == 0
    many = gl.MNAR(0.5, how="self") if kind is gl.MNAR else kind(0.5)
    assert many.mask(gl.Table(schema, [np.zeros(500), np.zeros(500)], rows=500), seed=0).any()


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda: gl.MCAR(1.5), "the rate must be a number from 0 to 1, got 1.5"),
        (lambda: gl.MCAR(True), "the rate must be .*, got True"),
        (lambda: gl.MCAR({"a": "x"}), "the rate of 'a' must be .*, got 'x'"),
        (lambda: gl.MCAR(0.1, columns="both"), "columns must be .*, got 'both'"),
        (lambda: gl.MAR(0.1, observed=1.0), "observed = 1.0"),
        (lambda: gl.MAR(0.1, observed="age"), "observed = 'age'"),
        (lambda: gl.MNAR(0.1, how="odd"), "how = 'odd', but how must be one of"),
        (lambda: gl.MNAR(0.1, quantile=0.6), "quantile = 0.6"),
        (lambda: gl.MNAR(0.6, how="quantile"), "does not fit into two tails"),
        (lambda: gl.MCAR({"agee": 0.1}).mask(people()), "no column 'agee'"),
        (lambda: gl.MAR({"age": 0.1}, observed=["age"]).mask(people()), "stays observed and has a rate"),
        (lambda: gl.MAR(dict.fromkeys(SCHEMA.names, 0.1)).mask(people()), "no column stays observed"),
        (lambda: gl.MNAR(0.1, inputs=[]), "inputs = "),
        (lambda: gl.MCAR(0.1).mask(people(), seed=-1), "seed = -1"),
        (lambda: gl.MAR(0.1, reference=gl.Table(OTHER, [[0]], rows=1)).mask(people()), "reference"),
    ],
)  # fmt: skip
def test_refuses_wrong_parameters(make, match):
    with pytest.raises(gl.errors.SchemaError, match=match):
        make()


def test_a_private_table_gets_no_gaps(tmp_path):
    sealed = private([("a",)], gl.Schema("t", [gl.Categorical("x", ["a"])]), tmp_path)
    with pytest.raises(gl.errors.SealedError, match="making gaps needs a public Table, not a PrivateTable"):
        gl.MCAR(0.1).apply(sealed)
    with pytest.raises(gl.errors.SealedError, match="reference must be a public Table"):
        gl.MAR(0.1, reference=sealed)


def test_refuses_objects_that_are_not_tables_with_a_hint_to_read_them():
    for make in (
        lambda: gl.MAR(0.2, reference="x"),
        lambda: gl.MNAR(0.2, reference="x"),
        lambda: gl.MCAR(0.2).apply("x"),
        lambda: gl.missing.patterns("x"),
        lambda: gl.missing.little_test("x"),
    ):
        with pytest.raises(gl.errors.ReadError, match=r"a public Table, not a str\n  Try: use gapless\.Table\.read\("):
            make()


def test_a_frame_keeps_its_cells():
    frame = pl.DataFrame(
        {"age": [3.5, 4.5, 99.0], "sex": ["F", "M", "F"], "income": ["7", "NA", "9"], "health": ["good"] * 3}
    )
    flags = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]], dtype=bool)
    after = frame_with_gaps(frame, SCHEMA, flags)
    assert after["age"].to_list() == [None, 4.5, 99.0]
    assert after["sex"].to_list() == ["F", None, "F"]
    assert after["income"].to_list() == ["NA", "NA", "9"]
    assert after["health"].to_list() == ["good", "good", "NA"]
    assert schema_with_gaps(SCHEMA, flags)["sex"].may_be_missing


def test_pairs_of_columns_that_are_missing_together():
    found = gl.missing.patterns(
        gl.MCAR({"age": 0.3, "sex": 0.3, "health": 0.2}, columns="dependent").apply(people(2000), seed=0)
    )
    pairs = {(pair.column, pair.other): pair for pair in found.pairs}
    assert set(pairs) == set(itertools.combinations(SCHEMA.names, 2))
    assert pairs["age", "sex"].association == pytest.approx(1.0)
    assert pairs["age", "sex"].both == pytest.approx(found.rates["age"])
    assert abs(pairs["age", "income"].association) < 0.1
    assert found.complete == sum(count for missing, count in found.frequent if not missing)
