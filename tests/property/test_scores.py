"""The scores of `Workload` move by no more than they declare: every small table, random large ones, sealed tables.

Planted wrong scores must be found by the same search. Statements and proofs in docs/proofs/scores.md.
"""

import itertools
import math
import tempfile
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.data.workload import Views, Workload, _cached_by_marginal, _conditional, _dependence
from gapless.privacy import L1, Linf, Private, Rows
from gapless.privacy.private import Key, gather
from gapless.testing.audit import letters_schema, private
from helpers.examples import examples
from helpers.open_sealed import reveal

ROUNDING = 1e-12
MISFITS = ("misfit", "conditional_misfit")
SHAPES = {(2, 2): 8, (2, 3): 6, (3, 3): 5}  # and the largest total whose tables are all tried


def every_table(shape, most):
    """All tables of counts of this shape with at most this many rows."""
    cells = math.prod(shape)
    for bars in itertools.combinations(range(most + cells), cells):  # stars and bars, the rest left over
        edges = (-1, *bars)
        counts = [right - left - 1 for left, right in itertools.pairwise(edges)]
        yield np.array(counts, dtype=np.int64).reshape(shape)


def with_rows(table, cells):
    """The table with one more row in each of these flat cells; None is a row that is not observed here."""
    more = table.copy()
    for cell in cells:
        if cell is not None:
            more.flat[cell] += 1
    return more


def sealed(tables, unit=1, observed=None):
    """A workload whose marginals are exactly these tables, and what opens its scores; cells beyond are gaps."""
    workload, key = Workload.__new__(Workload), Key()
    workload._places = {(number,): number for number in range(len(tables))}
    workload._sealed = [Private(lambda t=t: t, distance=L1(unit), reads=None, key=key) for t in tables]
    workload._all, workload._key = gather(workload._sealed, key=key), key
    workload._shapes = {(number,): table.shape for number, table in enumerate(tables)}
    workload._unit = unit
    workload._observed = {(number,): tuple(map(slice, observed or table.shape)) for number, table in enumerate(tables)}
    return workload, list(workload._places), key


def misfits(tables, distributions, weights=None, offsets=None, unit=1, *, kind="misfit", observed=None):
    """The real scores of these tables, and the distance declared for them."""
    workload, candidates, key = sealed(tables, unit, observed)
    weights = np.ones(len(tables)) if weights is None else weights
    offsets = np.zeros(len(tables)) if offsets is None else offsets
    scores = getattr(workload, kind)(candidates, distributions, weights, offsets)
    return scores._open(key), scores.distance.at_most


def dependences(tables, unit=1):
    """The real dependence scores of these tables, and the distance declared for them."""
    views, key = Views.__new__(Views), Key()
    views._rows = Private(lambda: None, distance=Rows(unit), reads=None, key=key)
    views._count = lambda _, marginals: [tables[number] for (number,) in marginals]
    views._extended, views._reads = [table.size for table in tables], [frozenset()] * len(tables)
    views._unit, views._key, views._score = unit, key, _cached_by_marginal(views._dependences)
    scores = views.dependence([(number,) for number in range(len(tables))])
    return scores._open(key), scores.distance.at_most


def distributions_of_shape(shape):
    """Probabilities that are hard in one way or another: all in one cell, even, with zeros, any."""
    cells, rng = math.prod(shape), np.random.default_rng(0)
    yield from np.eye(cells).reshape(-1, *shape)
    yield np.full(shape, 1 / cells)
    yield np.eye(cells)[[0, -1]].mean(axis=0).reshape(shape)
    yield from rng.dirichlet(np.full(cells, 0.3), 5).reshape(-1, *shape)


def largest_jump(score, shape, most, rows=1):
    """How far one score moves at most, over all tables and all rows that may come: the search of this page."""
    places = [None, *range(math.prod(shape))]
    return max(
        abs(score(with_rows(table, cells)) - score(table))
        for table in every_table(shape, most)
        for cells in itertools.combinations_with_replacement(places, rows)
    )


def test_the_search_sees_every_table():
    assert sum(1 for _ in every_table((2, 2), 3)) == math.comb(3 + 4, 4)
    assert {table.sum() for table in every_table((2, 3), 4)} == set(range(5))


# ------------------------------------------------------------------ dependence


@pytest.mark.parametrize("shape", SHAPES)
def test_dependence_of_every_small_table(shape):
    """Below 2, by the very amount of the proof, and as near to it as tables of this size allow."""
    most, reached = SHAPES[shape], 0.0
    for table in every_table(shape, most):
        m = table.sum()
        after = [with_rows(table, [cell]) for cell in range(table.size)]
        (here, *there), distance = dependences([table, *after])
        assert distance == 2
        rows, columns = table.sum(axis=1) / max(m, 1), table.sum(axis=0) / max(m, 1)
        allowed = 2 * m / (m + 1) * np.outer(1 - rows, 1 - columns).ravel()
        moved = np.abs(np.array(there) - here)
        assert (moved <= allowed + ROUNDING).all(), table
        reached = max(reached, moved.max())
    assert reached == pytest.approx(2 * most / (most + 1))  # at [[m, 0], [0, 0]] and a row in the last cell


def test_dependence_comes_as_near_to_its_distance_as_one_likes():
    m = 10**6
    (before, after), distance = dependences([np.array([[m, 0], [0, 0]]), np.array([[m, 0], [0, 1]])])
    assert 0.999999 * distance < after - before < distance


@pytest.mark.parametrize("rows", [2, 3])
def test_dependence_with_several_rows_of_one_person(rows):
    reached = largest_jump(_dependence, (2, 2), 6, rows)
    assert 0.5 * 2 * rows < reached < 2 * rows
    assert dependences([np.zeros((2, 2), dtype=np.int64)], unit=rows)[1] == 2 * rows


def test_dependence_of_a_table_without_rows_and_of_its_first_row():
    (empty, *first), _ = dependences([np.zeros((2, 3), dtype=np.int64), *np.eye(6, dtype=np.int64).reshape(-1, 2, 3)])
    assert empty == 0
    assert not np.any(first)


def test_dependence_is_zero_for_independent_columns_and_large_for_equal_ones():
    even = np.full((2, 2), 25)
    (none, all_of_it), _ = dependences([even, np.diag([50, 50])])
    assert none == 0
    assert all_of_it == 50  # ½ (25 + 25 + 25 + 25)


def test_dependence_takes_the_first_column_against_all_others_together():
    """Exclusive or: each parent alone says nothing, both together everything."""
    xor = np.zeros((2, 2, 2), dtype=np.int64)
    for a, b in itertools.product(range(2), repeat=2):
        xor[a ^ b, a, b] = 10
    (whole, alone), _ = dependences([xor, xor.sum(axis=2)])
    assert whole == 20
    assert alone == 0


counts_tables = st.lists(st.integers(1, 4), min_size=2, max_size=3).flatmap(
    lambda shape: st.lists(
        st.one_of(st.just(0), st.integers(0, 5), st.integers(0, 10**6)),
        min_size=math.prod(shape),
        max_size=math.prod(shape),
    ).map(lambda counts: np.array(counts, dtype=np.int64).reshape(shape))
)


@examples(120)
@given(counts_tables)
def test_dependence_of_any_table_with_a_row_in_every_cell(table):
    after = [with_rows(table, [cell]) for cell in range(table.size)]
    (here, *there), distance = dependences([table, *after])
    assert np.abs(np.array(there) - here).max() <= distance + 1e-13 * table.sum()


# ------------------------------------------------------------------ misfit


@pytest.mark.parametrize("shape", SHAPES)
def test_misfit_of_every_small_table(shape):
    """A row in a cell of probability p moves it by 1 - p at most; with p = 0 that is reached."""
    most, distributions = min(SHAPES[shape], 4), list(distributions_of_shape(shape))
    reached = 0.0
    for table in every_table(shape, most):
        before, distance = misfits([table] * len(distributions), distributions)
        assert distance == 1
        for cell in range(table.size):
            after, _ = misfits([with_rows(table, [cell])] * len(distributions), distributions)
            moved = np.abs(after - before)
            assert (moved <= 1 - np.array([distribution.flat[cell] for distribution in distributions]) + ROUNDING).all()
            reached = max(reached, moved.max())
    assert reached == 1


@pytest.mark.parametrize("kind", MISFITS)
@pytest.mark.parametrize("rows", [2, 3])
def test_misfit_with_several_rows_of_one_person(rows, kind):
    """All k in one cell that the model thinks impossible: k, and never more."""
    distributions = list(distributions_of_shape((2, 2)))
    reached = 0.0
    for table in every_table((2, 2), 4):
        before, distance = misfits([table] * len(distributions), distributions, unit=rows, kind=kind)
        assert distance == rows
        for cells in itertools.combinations_with_replacement([None, 0, 1, 2, 3], rows):
            after, _ = misfits([with_rows(table, cells)] * len(distributions), distributions, kind=kind)
            reached = max(reached, np.abs(after - before).max())
    assert reached == pytest.approx(rows, abs=ROUNDING)


@pytest.mark.parametrize("kind", MISFITS)
@examples(120)
@given(table=counts_tables, seed=st.integers(0, 2**32 - 1), unit=st.integers(1, 4))
def test_misfit_of_any_tables_weights_and_offsets(kind, table, seed, unit):
    """Also for "probabilities" that are neither positive nor of sum one: these are made so."""
    rng = np.random.default_rng(seed)
    distribution = rng.normal(0.3, 1, table.shape)
    distribution.flat[rng.integers(table.size)] = 0.5  # one is positive
    weights, offsets = rng.random(3), rng.normal(0, 1e3, 3)
    before, distance = misfits([table] * 3, [distribution] * 3, weights, offsets, unit, kind=kind)
    assert distance == unit * weights.max()
    for cell in range(table.size):
        after, _ = misfits([with_rows(table, [cell] * unit)] * 3, [distribution] * 3, weights, offsets, unit, kind=kind)
        assert (np.abs(after - before) <= unit * weights + 1e-13 * (table.sum() + 1e3)).all()


@pytest.mark.parametrize("kind", MISFITS)
def test_misfit_of_a_table_without_rows(kind):
    distributions = list(distributions_of_shape((2, 3)))
    assert not misfits([np.zeros((2, 3), dtype=np.int64)] * len(distributions), distributions, kind=kind)[0].any()


def conditional(distribution, axis):
    """p(x | x_j), even where x_j has no probability."""
    slices = np.moveaxis(distribution, axis, 0)
    return np.moveaxis(
        np.array([s / s.sum() if s.sum() > 0 else np.full(s.shape, 1 / s.size) for s in slices]), 0, axis
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_conditional_misfit_of_every_small_table(shape):
    """A row moves each term by 1 - p(x | x_j) at most, so their least by the largest of these; 1 is reached."""
    most, distributions = min(SHAPES[shape], 3), list(distributions_of_shape(shape))
    unlikely = 1 - np.minimum(
        *(np.array([conditional(distribution, axis).ravel() for distribution in distributions]) for axis in range(2))
    )
    reached = 0.0
    for table in every_table(shape, most):
        before, distance = misfits([table] * len(distributions), distributions, kind="conditional_misfit")
        assert distance == 1
        for cell in range(table.size):
            after, _ = misfits(
                [with_rows(table, [cell])] * len(distributions), distributions, kind="conditional_misfit"
            )
            moved = np.abs(after - before)
            assert (moved <= unlikely[:, cell] + ROUNDING).all()
            reached = max(reached, moved.max())
    assert reached == pytest.approx(1, abs=ROUNDING)


def test_conditional_misfit_looks_at_observed_cells_only():
    """The last state of each column is a gap: such rows move nothing, others as in the table without gaps."""
    distributions = list(distributions_of_shape((3, 3)))
    gaps = [cell for cell in range(9) if 2 in divmod(cell, 3)]
    for table in every_table((3, 3), 3):
        score = [misfits([table] * len(distributions), distributions, kind="conditional_misfit", observed=(2, 2))[0]]
        score += [
            misfits(
                [table[:2, :2]] * len(distributions), [p[:2, :2] for p in distributions], kind="conditional_misfit"
            )[0]
        ]
        more = with_rows(table, gaps)
        score += [misfits([more] * len(distributions), distributions, kind="conditional_misfit", observed=(2, 2))[0]]
        assert score[0].tolist() == score[1].tolist() == score[2].tolist()


def test_conditional_misfit_does_not_see_what_gaps_do_to_a_column():
    """Independent columns, the incomes of the old missing more often; `misfit` calls that a relation."""
    distribution = np.outer([0.5, 0.5], [0.25, 0.75])
    gappy, related = np.array([[100, 300], [10, 30]]), np.array([[60, 140], [40, 160]])
    plain, _ = misfits([gappy, related], [distribution, distribution])
    conditional, _ = misfits([gappy, related], [distribution, distribution], kind="conditional_misfit")
    assert plain[0] > plain[1]
    assert conditional.tolist() == [0, 20]


def exact_misfit(table, distribution):
    counts, probabilities = [int(c) for c in table.flat], [Fraction(float(p)) for p in distribution.flat]
    return sum(abs(c - sum(counts) * p) for c, p in zip(counts, probabilities, strict=True)) / 2


def exact_dependence(table):
    counts = [[int(c) for c in row] for row in table]
    m = sum(map(sum, counts))
    rows, columns = [sum(row) for row in counts], [sum(column) for column in zip(*counts, strict=True)]
    return sum(abs(counts[i][j] - Fraction(a * b, m)) for i, a in enumerate(rows) for j, b in enumerate(columns)) / 2


@pytest.mark.parametrize("shape", [(2, 2), (17, 23), (60, 70)])
def test_the_error_of_floating_point_is_what_the_proof_allows(shape):
    """50 u (m + |o|), u = 2⁻⁵³, for a billion rows; in truth it is far smaller."""
    rng = np.random.default_rng(1)
    table = rng.multinomial(10**9, rng.dirichlet(np.full(math.prod(shape), 0.2))).reshape(shape)
    distribution = rng.dirichlet(np.full(math.prod(shape), 0.2)).reshape(shape)
    distribution = distribution / distribution.sum()
    allowed = Fraction(50 * (10**9 + 10**6), 2**53)
    offset = np.array([1e6])
    score = misfits([table], [distribution], np.ones(1), offset)[0][0]
    distribution = np.maximum(distribution, 0.0) / np.maximum(distribution, 0.0).sum()
    assert abs(Fraction(float(score)) - (exact_misfit(table, distribution) - 10**6)) <= allowed
    assert abs(Fraction(_dependence(table)) - exact_dependence(table)) <= allowed
    score = misfits([table], [distribution], np.ones(1), offset, kind="conditional_misfit")[0][0]
    exact = min(
        sum(map(exact_misfit, np.moveaxis(table, axis, 0), np.moveaxis(_conditional(distribution, axis), axis, 0)))
        for axis in range(2)
    )
    assert abs(Fraction(float(score)) - (exact - 10**6)) <= allowed


# ------------------------------------------------------------------ planted wrong scores


def g_statistic(table):
    """Rows times mutual information: what a score by information would be in rows."""
    m = table.sum()
    expected = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(m, 1)
    seen = table > 0
    return float((table[seen] * np.log(table[seen] / expected[seen])).sum())


def test_the_search_finds_that_information_has_no_distance():
    jumps = [largest_jump(g_statistic, (2, 2), most) for most in (4, 8)]
    assert jumps[1] > jumps[0] > 2
    for m in (10, 1000, 10**5):
        before, after = g_statistic(np.array([[m, 0], [0, 0]])), g_statistic(np.array([[m, 0], [0, 1]]))
        assert after - before == pytest.approx(math.log(m + 1) + m * math.log1p(1 / m))
        assert after - before > math.log(m)  # without end


def test_the_search_finds_a_score_divided_by_the_observed_rows():
    """[MD]: R = T/m with the distance 2/n of all n rows, though few rows are observed on the candidate (PRIVACY C1)."""
    n = 1000
    assert largest_jump(lambda table: _dependence(table) / max(table.sum(), 1), (2, 2), 8) > 20 * (2 / n)


def test_the_search_finds_probabilities_that_are_none():
    distribution = np.full((2, 2), 0.7)  # sum 2.8
    assert largest_jump(lambda table: 0.5 * np.abs(table - table.sum() * distribution).sum(), (2, 2), 4) > 1
    assert largest_jump(lambda table: misfits([table], [distribution])[0][0], (2, 2), 4) <= 1


def test_the_search_finds_misfits_that_are_added_instead_of_the_least_taken():
    """A row is in a slice of every column."""
    distribution = np.eye(2) / 2

    def added(table):
        return sum(
            0.5 * np.abs(table - table.sum(axis=1 - axis, keepdims=True) * distribution * 2).sum() for axis in range(2)
        )

    assert largest_jump(added, (2, 2), 3) == 2
    assert largest_jump(lambda table: misfits([table], [distribution], kind="conditional_misfit")[0][0], (2, 2), 3) == 1


def test_the_search_finds_slices_without_totals_of_their_own():
    """p instead of p(x | x_j), times the slice's rows and the number of slices: its sums are not one."""
    distribution = np.array([[0.0, 0.9], [0.05, 0.05]])

    def planted(table):
        return 0.5 * np.abs(table - 2 * table.sum(axis=1, keepdims=True) * distribution).sum()

    assert largest_jump(planted, (2, 2), 3) > 1


def test_the_search_finds_the_mean_weight_declared_for_the_largest():
    distributions, weights = [np.eye(4)[0].reshape(2, 2)] * 2, np.array([0.2, 1.0])
    before, after = (misfits([table] * 2, distributions, weights)[0] for table in (np.zeros((2, 2)), np.diag([0, 1])))
    assert np.abs(after - before).max() > weights.mean()
    assert np.abs(after - before).max() == misfits([np.zeros((2, 2))] * 2, distributions, weights)[1]


def test_a_score_against_a_fixed_total_prefers_gaps_and_ours_does_not():
    """Why the misfit takes the marginal's own total (PRIVACY C3): the first is described perfectly, but has gaps."""
    distribution, total = np.full((2, 2), 0.25), 1000
    gappy, wrong = np.full((2, 2), 100), np.array([[300, 200], [200, 300]])
    fixed = [0.5 * np.abs(table - total * distribution).sum() for table in (gappy, wrong)]
    separate, _ = misfits([gappy, wrong], [distribution, distribution])
    assert fixed[0] > fixed[1]
    assert separate.tolist() == [0, 100]


def test_our_misfit_does_not_depend_on_how_many_rows_have_gaps_up_to_scale():
    distribution, table = np.array([[0.4, 0.1], [0.1, 0.4]]), np.array([[30, 30], [20, 20]])
    whole, half = misfits([10 * table, 5 * table], [distribution, distribution])[0]
    assert whole == pytest.approx(2 * half)


# ------------------------------------------------------------------ sealed tables with gaps

SIZES = (2, 3, 2)
SCHEMA = letters_schema(SIZES)
CELLS = [[*(chr(97 + j) for j in range(size)), None, *(["-", "n/a"] if i % 2 else [])] for i, size in enumerate(SIZES)]
SETS = [(0,), (1, 0), (0, 2), (1, 2), (2, 1, 0)]
row = st.tuples(*(st.sampled_from(cells) for cells in CELLS))
neighbours = st.integers(1, 3).flatmap(
    lambda k: st.tuples(st.just(k), st.lists(row, max_size=8), st.lists(row, min_size=1, max_size=k))
)
TABLES = {
    "itself": lambda table: table,
    "complete rows": lambda table: table.complete_rows(),
    "where": lambda table: table.where("x1", ["a", "not applicable"]),
}


def gap(cell):
    return cell in (None, "-")


def workloads(name, which, k, rows, more):
    folder = Path(tempfile.mkdtemp())
    tables = [TABLES[name](private(r, SCHEMA, folder, protect=Rows(k))) for r in (rows, rows + more)]
    views = [(place, np.arange(column.extended_size)) for place, column in enumerate(SCHEMA.columns)]
    return [(Workload(table, SETS, rows=which), Views(table, views, rows=which), table.ledger) for table in tables]


def public_distributions(which, seed):
    rng = np.random.default_rng(seed)
    columns = SCHEMA.columns
    shapes = [
        [columns[c].extended_size if which == "extended" else columns[c].size for c in candidate] for candidate in SETS
    ]
    return [rng.dirichlet(np.full(math.prod(shape), 0.3)).reshape(shape) for shape in shapes]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("which", ["observed", "extended"])
@examples(20)
@given(pair=neighbours, seed=st.integers(0, 2**16))
def test_sealed_scores_of_neighbouring_tables(name, which, pair, seed):
    k, rows, more = pair
    distributions, rng = public_distributions(which, seed), np.random.default_rng(seed)
    weights, offsets = rng.random(len(SETS)), rng.normal(0, 10, len(SETS))
    results = []
    for workload, views, ledger in workloads(name, which, k, rows, more):
        scores = [getattr(workload, kind)(SETS, distributions, weights, offsets) for kind in MISFITS]
        scores.append(views.dependence(SETS))
        assert [scored.distance for scored in scores] == [Linf(k * weights.max())] * 2 + [Linf(2.0 * k)]
        few = workload.restrict(scores[0], [3, 1])
        assert few.distance == scores[0].distance
        opened = [reveal(scored, ledger) for scored in scores]
        assert reveal(few, ledger).tolist() == opened[0][[3, 1]].tolist()
        results.append(opened)
    (misfit, conditional, dependence), (misfit_after, conditional_after, dependence_after) = results
    assert (np.abs(misfit_after - misfit) <= k * weights + ROUNDING).all()
    assert (np.abs(conditional_after - conditional) <= k * weights + ROUNDING).all()
    assert (np.abs(dependence_after - dependence) <= 2 * k + ROUNDING).all()
    for place, candidate in enumerate(SETS):  # a candidate on which no new row is observed does not move at all
        if all(any(gap(r[c]) for c in candidate) for r in more):
            assert conditional_after[place] == conditional[place]
            if which == "observed":
                assert misfit_after[place] == misfit[place]
                assert dependence_after[place] == dependence[place]


CANDIDATES = [[(0,), (1, 0)], [(1, 0), (0, 2), (2, 1, 0)], [(1, 0), (0, 2), (1, 2)], [(2, 1, 0)], SETS]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("which", ["observed", "extended"])
@examples(20)
@given(pair=neighbours, seed=st.integers(0, 2**16), chosen=st.sampled_from(CANDIDATES))
def test_a_row_with_a_gap_in_what_a_score_reads_changes_nothing(name, which, pair, seed, chosen):
    """What `reads` promises; it is the columns that *all* candidates need, since any one may move the vector."""
    k, rows, more = pair
    distributions = dict(zip(SETS, public_distributions(which, seed), strict=True))
    results = []
    for workload, views, ledger in workloads(name, which, k, rows, more):
        public = [distributions[candidate] for candidate in chosen], np.ones(len(chosen)), np.zeros(len(chosen))
        scores = [getattr(workload, kind)(chosen, *public) for kind in MISFITS]
        scores += [views.dependence(chosen), workload.restrict(scores[0], [0])]
        reads = {scored.reads for scored in scores}
        assert len(reads) == 1
        results.append([reveal(scored, ledger) for scored in scores])
    (reads,) = reads
    required = {"itself": set(), "complete rows": set(SCHEMA.names), "where": {"x1"}}[name]
    shared = set.intersection(*({f"x{c}" for c in candidate} for candidate in chosen)) if which == "observed" else set()
    assert (reads or set()) == required | shared
    if all(any(gap(r[SCHEMA.names.index(column)]) for column in reads or ()) for r in more):
        for before, after in zip(*results, strict=True):
            assert before.tolist() == after.tolist()


def test_the_union_of_what_candidates_read_would_be_wrong():
    """Planted: a row with a gap in x2 moves the score of x0 × x1, though x2 is in the union of the columns."""
    pairs = workloads("itself", "observed", 1, [("a", "a", "a")] * 3, [("b", "b", None)])
    (_, before, ledger), (_, after, other) = pairs
    chosen = [(1, 0), (1, 2)]
    moved = reveal(after.dependence(chosen), other) - reveal(before.dependence(chosen), ledger)
    assert moved[0] > 0
    assert moved[1] == 0
    assert before.dependence(chosen).reads == {"x1"}
