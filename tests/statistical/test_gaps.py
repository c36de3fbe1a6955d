"""The distribution of gaps: rates, and on what they depend.

Every comparison is with a normal bound of five standard deviations (false alarm below 1e-6 each); seeds are fixed.
"""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl

SHARED = Path(__file__).parents[3] / "shared" / "data"
SCHEMA = gl.Schema(
    "t",
    [
        gl.Integer("a", bounds=(0, 9)),
        gl.Categorical("b", ["x", "y", "z"]),
        gl.Boolean("c"),
        gl.Number("d", bounds=(0, 1)),
    ],
)
ROWS = 40_000


def table(seed=0, rows=ROWS):
    """Columns that depend on each other."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 10, rows)
    b = np.minimum(2, (a + rng.integers(0, 5, rows)) // 5)
    c = (rng.random(rows) < 0.1 + 0.08 * a).astype(int)
    return gl.Table(SCHEMA, [a, b, c, (a + 3 * b + rng.integers(0, 3, rows)) % 10], rows=rows)


def off(flags, rate):
    """How many standard deviations a rate is off."""
    return abs(flags.mean() - rate) / np.sqrt(rate * (1 - rate) / len(flags))


@pytest.mark.parametrize("rate", [0.05, 0.2, 0.6])
@pytest.mark.parametrize(
    "make",
    [
        gl.MCAR,
        lambda rate: gl.MCAR(rate, columns="dependent"),
        gl.MAR,
        lambda rate: gl.MAR(rate, reference=table(7)),
        gl.MNAR,
        lambda rate: gl.MNAR(rate, how="self"),
        lambda rate: gl.MNAR(rate, how="quantile", quantile=0.35),
    ],
)
def test_every_column_with_gaps_has_the_rate_asked_for(make, rate):
    flags = make(rate).mask(table(), seed=11)
    gappy = [column for column in flags.T if column.any()]
    assert len(gappy) >= 2
    # a reference of the same size as the table doubles the variance at most
    assert all(off(column, rate) < 5 * np.sqrt(2) for column in gappy)


def test_a_planted_wrong_rate_is_seen():
    assert all(off(column, 0.2) > 5 * np.sqrt(2) for column in gl.MCAR(0.22).mask(table(), seed=1).T)


def dependence(flags, codes):
    """How far the missing rate moves over the cells of a column, in standard deviations: the largest of them."""
    rate, worst = flags.mean(), 0.0
    for cell in np.unique(codes):
        in_cell = flags[codes == cell]
        worst = max(worst, abs(in_cell.mean() - rate) / np.sqrt(rate * (1 - rate) / len(in_cell)))
    return worst


def test_on_what_gaps_depend():
    """MCAR on nothing; MAR on the columns that stay; MNAR on the cell itself, also given the others."""
    truth = table()
    mcar = gl.MCAR(0.3).mask(truth, seed=0)
    assert all(dependence(flags, codes) < 5.5 for flags in mcar.T for codes in truth.codes)
    mar = gl.MAR(0.3, observed=["a"]).mask(truth, seed=0)
    assert all(dependence(mar[:, c], truth.codes[0]) > 10 for c in (1, 2, 3))
    for a in range(10):  # given the driver nothing else matters
        in_cell = truth.codes[0] == a
        assert all(dependence(mar[in_cell, c], truth.codes[c][in_cell]) < 5.5 for c in (1, 2, 3))
    mnar = gl.MNAR(0.3, how="self").mask(truth, seed=0)
    for a in range(10):
        in_cell = truth.codes[0] == a
        assert (
            dependence(mnar[in_cell, 2], truth.codes[2][in_cell]) > 5.5 or len(np.unique(truth.codes[2][in_cell])) == 1
        )


SHARED_COUNTS = {  # complete rows at a rate of 0.2 in the shared tables: MCAR, MAR, MNAR
    "adult": (1068, 5190, 1032),
    "bank": (1033, 6719, 1172),
    "br2000": (1701, 7315, 1880),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHARED_COUNTS)
def test_complete_rows_land_where_the_shared_tables_have_them(name):
    """Which columns drive is chance, so MAR and MNAR may be a quarter off; MCAR within five standard deviations."""
    file = SHARED / f"{name}.csv.gz"
    if not file.exists():
        pytest.skip("the shared tables are not here")
    frame = pl.read_csv(file, infer_schema_length=0).drop_nulls()
    columns = []
    for c in frame.columns:
        numbers = frame[c].cast(pl.Float64, strict=False)
        if numbers.null_count() == 0 and numbers.n_unique() > 20:
            columns.append(gl.Number(c, bounds=(float(numbers.min()), float(numbers.max())), bins=16))
        else:
            columns.append(gl.Categorical(c, sorted(frame[c].unique().to_list())))
    truth = gl.Table.read(frame, gl.Schema(name, columns))
    for kind, expected in zip((gl.MCAR, gl.MAR, gl.MNAR), SHARED_COUNTS[name], strict=True):
        shared = pl.read_csv(SHARED / f"{name}_{kind.__name__}_0.2.csv.gz", infer_schema_length=0)
        assert shared.drop_nulls().height == expected
        found = [gl.missing.patterns(kind(0.2).apply(truth, seed=seed)) for seed in range(3)]
        mean = np.mean([found_patterns.complete for found_patterns in found])
        assert abs(mean - expected) < (5 * np.sqrt(expected * 4 / 3) if kind is gl.MCAR else expected / 4)
        gappy = [rate for found_patterns in found for rate in found_patterns.rates.values() if rate > 0]
        assert np.allclose(gappy, 0.2, atol=0.012)
