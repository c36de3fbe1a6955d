"""Many marginals of one sealed table: counts, scores by hand, distances, refusals."""

from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.workload import FEATURE_LENGTH, PRODUCT_LENGTH, Views, Workload, planned_products, violating_pairs
from gapless.errors import ModelError, SealedError
from gapless.privacy import L1, L2Vector, Linf, Rows
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise
from helpers.open_sealed import reveal

SCHEMA = letters_schema((2, 3, 2))
ROWS = [("a", "a", "a"), ("a", "b", None), ("b", "n/a", "b"), (None, "c", "b"), ("b", "-", "b"), (None, None, None)]
MARGINALS = [(0,), (0, 1), (1, 2), (2, 0)]


@pytest.fixture(params=["observed", "extended"])
def which(request):
    return request.param


def workload(folder: Path, which="observed", rows=ROWS, k=1, marginals=MARGINALS):
    table = private(rows, SCHEMA, folder, protect=Rows(k))
    return table, Workload(table, marginals, rows=which)


def whole_columns(table, which="observed"):
    """All columns of a table as views, no cells merged."""
    views = [(c, np.arange(column.extended_size)) for c, column in enumerate(table.schema.columns)]
    return Views(table, views, rows=which)


def test_counts_are_the_marginals_of_the_table(which, tmp_path):
    table, load = workload(tmp_path, which, k=2)
    for marginal in MARGINALS:
        alone = table.marginal([SCHEMA.names[c] for c in marginal], rows=which)
        assert np.array_equal(reveal(load.counts(marginal), table.ledger), reveal(alone, table.ledger))
        assert load.counts(marginal).distance == alone.distance == L1(2)
        assert load.counts(marginal).reads == alone.reads


def test_misfit_by_hand(tmp_path):
    """x0 × x1 has three observed rows (a a, a b, b n/a): not applicable is an observed cell."""
    table, load = workload(tmp_path)
    even = np.full((2, 4), 1 / 8)
    scores = load.misfit([(0, 1)], [even], np.array([0.5]), np.array([1.0]))
    assert reveal(scores, table.ledger).tolist() == [0.5 * (0.5 * (3 * (1 - 3 / 8) + 5 * 3 / 8) - 1.0)]
    assert scores.distance == Linf(0.5)


def test_conditional_misfit_by_hand(which, tmp_path):
    """x0 × x1: a a, a b, b n/a against an even distribution. Given x1: ½ each, 1½ off; given x0: ¼ each, 2¼ off."""
    table, load = workload(tmp_path, which)
    even = np.ones((2, 4) if which == "observed" else (3, 6))
    scores = load.conditional_misfit([(0, 1)], [even], np.array([0.5]), np.array([1.0]))
    assert reveal(scores, table.ledger).tolist() == [0.5 * (1.5 - 1.0)]
    assert scores.distance == Linf(0.5)


def test_conditional_misfit_is_even_given_a_cell_without_probability(tmp_path):
    """x2 = b has probability 0, so x0 is even given it. Rows of x2 × x0: a a, b b, b b."""
    table, load = workload(tmp_path)
    probabilities = np.array([[1.0, 0.0], [0.0, 0.0]])
    scores = load.conditional_misfit([(2, 0)], [probabilities], np.ones(1), np.zeros(1))
    assert reveal(scores, table.ledger).tolist() == [1.0]


def test_conditional_misfit_of_a_single_column_is_none(which, tmp_path):
    table, load = workload(tmp_path, which)
    probabilities = np.array([0.1, 0.9] if which == "observed" else [0.1, 0.8, 0.1])
    scores = load.conditional_misfit([(0,)], [probabilities], np.ones(1), np.zeros(1))
    assert reveal(scores, table.ledger).tolist() == [0.0]


def test_dependence_by_hand(tmp_path):
    """x2 × x0 has three observed rows: a a, b b, b b. Expected 1/3 2/3 2/3 4/3 against 1 0 0 2."""
    table, _ = workload(tmp_path)
    assert reveal(whole_columns(table).dependence([(2, 0)]), table.ledger) == pytest.approx([4 / 3])


def test_candidates_come_in_the_order_asked_for_and_may_be_left_out(tmp_path):
    table, load = workload(tmp_path)
    views = whole_columns(table)
    forth, back = (reveal(views.dependence(c), table.ledger) for c in ([(0, 1), (2, 0)], [(2, 0), (0, 1)]))
    assert forth.tolist() == back[::-1].tolist()
    scores = views.dependence([(0, 1), (1, 2), (2, 0)])
    some = load.restrict(scores, [2, 0])
    assert reveal(some, table.ledger).tolist() == reveal(scores, table.ledger)[[2, 0]].tolist()
    assert (some.distance, some.reads) == (scores.distance, scores.reads)


def test_the_distance_is_that_of_the_heaviest_candidate_times_the_rows_of_a_person(tmp_path):
    table, load = workload(tmp_path, k=3)
    even = [np.full((2, 4), 1 / 8), np.full((4, 2), 1 / 8)]
    assert load.misfit([(0, 1), (1, 2)], even, np.array([0.25, 2.0]), np.zeros(2)).distance == Linf(6.0)
    assert whole_columns(table).dependence([(0, 1)]).distance == Linf(6.0)


def test_expected_counts_are_normalized_to_probabilities(tmp_path):
    table, load = workload(tmp_path)
    scores = load.misfit([(0,)], [np.array([0.2, 0.6])], np.ones(1), np.zeros(1))
    same = load.misfit([(0,)], [np.array([20.0, 60.0])], np.ones(1), np.zeros(1))
    cut = load.misfit([(0,)], [np.array([-1.0, 5.0])], np.ones(1), np.zeros(1))
    assert reveal(scores, table.ledger) == pytest.approx(reveal(same, table.ledger))
    assert reveal(cut, table.ledger).tolist() == [2.0]  # two of four rows where the model thinks none possible


@pytest.mark.parametrize("misfit", ["misfit", "conditional_misfit"])
@pytest.mark.parametrize("weights", [[1.0, -0.1], [np.nan, 1.0]])
def test_weights_that_are_negative_or_no_numbers(weights, misfit, tmp_path):
    _, load = workload(tmp_path)
    with pytest.raises(ModelError, match="weight"):
        getattr(load, misfit)([(0,), (0,)], [np.full(2, 0.5)] * 2, np.array(weights), np.zeros(2))


@pytest.mark.parametrize("misfit", ["misfit", "conditional_misfit"])
def test_probabilities_of_another_shape(misfit, tmp_path):
    _, load = workload(tmp_path, "extended")
    with pytest.raises(ModelError, match="the probabilities of a marginal have shape"):
        getattr(load, misfit)([(0, 1)], [np.full((2, 4), 1 / 8)], np.ones(1), np.zeros(1))


@pytest.mark.parametrize("misfit", ["misfit", "conditional_misfit"])
def test_one_distribution_too_many_is_noticed(misfit, tmp_path):
    table, load = workload(tmp_path)
    with pytest.raises(ValueError, match="zip"):
        reveal(getattr(load, misfit)([(0,)], [np.full(2, 0.5)] * 2, np.ones(1), np.zeros(1)), table.ledger)


def test_scores_open_with_the_key_of_their_own_table_only(tmp_path):
    table, load = workload(tmp_path)
    other = private(ROWS, SCHEMA, tmp_path)
    misfit = load.misfit([(0,)], [np.full(2, 0.5)], np.ones(1), np.zeros(1))
    for scores in (misfit, whole_columns(table).dependence([(0, 1)])):
        with pytest.raises(SealedError, match="another ledger"):
            reveal(scores, other.ledger)


def test_nothing_is_counted_before_a_score_is_opened_and_then_once(tmp_path, monkeypatch):
    from gapless.data.engines import memory

    calls = []
    count = memory.count_marginals
    monkeypatch.setattr(memory, "count_marginals", lambda *a, **k: calls.append(1) or count(*a, **k))
    table, load = workload(tmp_path)
    scores = load.misfit([(0,)], [np.full(2, 0.5)], np.ones(1), np.zeros(1))
    assert not calls
    for _ in range(2):
        reveal(scores, table.ledger)
        reveal(load.counts((0,)), table.ledger)
    assert len(calls) == 1
    scores = whole_columns(table).dependence([(0, 1), (2, 0)])
    assert len(calls) == 1
    for _ in range(2):
        reveal(scores, table.ledger)
    assert len(calls) == 2


def test_no_rows_at_all(which, tmp_path):
    table, load = workload(tmp_path, which, rows=[])
    assert not reveal(whole_columns(table, which).dependence(MARGINALS), table.ledger).any()
    even = np.full(reveal(load.counts((0,)), table.ledger).shape, 1.0)
    assert reveal(load.misfit([(0,)], [even], np.ones(1), np.zeros(1)), table.ledger).tolist() == [0.0]


def test_probabilities_that_would_be_broadcast_are_refused(tmp_path):
    """[1, 0] against a table of 2 × 2 is [[1, 0], [1, 0]]: a row in the second column then moves the score by 1.5."""
    _, load = workload(tmp_path)
    with pytest.raises(ModelError, match="shape"):
        load.misfit([(2, 0)], [np.array([1.0, 0.0])], np.ones(1), np.zeros(1))


def test_views_of_a_filled_table_read_every_row(tmp_path):
    schema = letters_schema([2, 2])
    table = private([("a", "b"), (None, "a")], schema, tmp_path)
    filled = table.fill([np.ones(column.size) for column in schema.columns])
    assert whole_columns(table).counts_of([(0, 1)])[0].reads == {"x0", "x1"}
    assert whole_columns(filled).counts_of([(0, 1)])[0].reads is None


@pytest.mark.parametrize("kind", ["misfit", "conditional_misfit", "dependence"])
def test_a_score_needs_only_what_every_candidate_needs(kind, tmp_path):
    """The union would be wrong: a row with a gap in x0 is counted for the second candidate."""
    schema = letters_schema([2, 2, 2])
    table = private([("a", "b", "a"), (None, "a", "b")] * 3, schema, tmp_path)

    def reads(*candidates):
        if kind == "dependence":
            return whole_columns(table).dependence(candidates).reads
        workload = Workload(table, candidates, rows="observed")
        even = [np.full([schema.columns[c].size for c in candidate], 0.1) for candidate in candidates]
        return getattr(workload, kind)(candidates, even, np.ones(len(candidates)), np.zeros(len(candidates))).reads

    assert reads((0, 1), (1, 2)) == {"x1"}
    assert reads((0, 1), (1, 2), (0, 2)) is None


# ---------------------------------------------------------------------- pairs of rows that break a rule


PAIRS_SCHEMA = letters_schema((2, 2))
DECIDES = "t1.x0 == t2.x0 and t1.x1 != t2.x1"


@pytest.mark.parametrize(
    ("rule", "buckets", "wrong"),
    [
        ("t1.x0 == 'a'", 3, "is about one row"),
        ("t1.x0 is t2.x0", 3, "cannot be read"),
        ("t1.x0 == t2.x9", 3, "no column 'x9'"),
        (DECIDES, 0, "buckets = 0"),
        (DECIDES, 2.5, "buckets = 2.5"),
    ],
)
def test_refuses_rules_that_cannot_be_counted(rule, buckets, wrong, tmp_path):
    table = private([("a", "b")], PAIRS_SCHEMA, tmp_path)
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        violating_pairs(table, rule, buckets=buckets)
    assert table.ledger.entries == ()


def test_a_public_table_is_refused():
    with pytest.raises(gl.errors.SealedError, match=r"violating_pairs\(\) takes a PrivateTable"):
        violating_pairs(gl.Table(PAIRS_SCHEMA, [[0], [0]], rows=1), DECIDES, buckets=1)


@pytest.mark.parametrize(
    ("rows", "pairs"),
    [
        ([], [0, 0]),
        ([("a", "a")], [0, 0]),
        ([("a", "a"), ("a", "b")], [1, 0]),
        ([("a", "b"), ("a", "b")], [0, 1]),
        ([("a", "a"), ("a", None), ("a", "b")], [1, 0]),  # a gap is in no bucket
        ([("a", "a"), ("a", "n/a")], [0, 1]),  # not applicable is, and breaks nothing
        ([("a", "a"), ("a", "b"), ("a", "b")], [0, 0]),  # three are no pair
    ],
)
def test_one_bucket_with_exactly_two_rows(rows, pairs, tmp_path):
    table = private(rows, PAIRS_SCHEMA, tmp_path)
    assert reveal(violating_pairs(table, DECIDES, buckets=1), table.ledger).tolist() == pairs


@pytest.mark.parametrize("rows", [[(1, 9), (2, 8)], [(2, 8), (1, 9)]])
def test_a_pair_breaks_a_rule_whichever_of_its_rows_is_read_first(rows, tmp_path):
    """An inequality holds from one side alone, and rows lie in any order."""
    schema = gl.Schema("pay", [gl.Integer("salary", bounds=(0, 9)), gl.Integer("tax", bounds=(0, 9))])
    table = private(pl.DataFrame(rows, schema=["salary", "tax"], orient="row"), schema, tmp_path)
    pairs = violating_pairs(table, "t1.salary < t2.salary and t1.tax > t2.tax", buckets=1)
    assert reveal(pairs, table.ledger).tolist() == [1, 0]


def test_filled_tables_read_every_row_and_required_columns_stay(tmp_path):
    table = private([("a", "b")] * 4, PAIRS_SCHEMA, tmp_path)
    assert violating_pairs(table, DECIDES, buckets=1).reads == {"x0", "x1"}
    assert violating_pairs(table.where("x0", ["a"]), "t1.x1 != t2.x1", buckets=1).reads == {"x0", "x1"}
    even = [[1 / column.size] * column.size for column in PAIRS_SCHEMA.columns]
    with no_noise():
        assert violating_pairs(table.fill(even), DECIDES, buckets=1).reads is None


def test_chosen_scores_have_a_distance_for_each_number(tmp_path):
    """A place may be asked for twice, so a bound on the sum of changes is none on that of the chosen ones."""
    _, load = workload(tmp_path)
    counts = load.counts((0,))
    assert counts.distance == L1(1)
    assert load.restrict(counts, [0, 0]).distance == Linf(1)


# ---------------------------------------------------------------------- products of features

LENGTH = FEATURE_LENGTH
PAIRS = [(0, 1), (1, 2), (2, 0)]


def random_features(views, most, seed=3):
    """Vectors of random directions and lengths, some of them of full length, for each cell of each view."""
    rng = np.random.default_rng(seed)
    found = []
    for size in views.sizes:
        vectors = rng.normal(size=(size, rng.integers(1, most + 1)))
        vectors *= LENGTH / np.linalg.norm(vectors, axis=1, keepdims=True)
        vectors[::3] *= rng.random((len(vectors[::3]), 1))
        found.append(np.trunc(vectors).astype(np.int64))
        found[-1][0] = 0
        found[-1][0, -1] = -LENGTH
    return found


def products_by_hand(table, pair, vectors, sizes, which):
    """The sum over rows one by one, in Python integers."""
    rows = list(zip(*reveal(table._rows, table.ledger).columns, strict=True))
    first, second = (vectors[c].tolist() for c in pair)
    total = [0] * (len(first[0]) * len(second[0]))
    counted = 0
    for row in rows:
        a, b = (int(row[c]) for c in pair)
        if a >= sizes[pair[0]] or b >= sizes[pair[1]]:
            continue
        counted += 1
        total = [t + x * y for t, (x, y) in zip(total, product(first[a], second[b]), strict=True)]
    return total if which == "extended" else [*total, counted * PRODUCT_LENGTH // 2]


def test_products_are_sums_over_rows_for_all_pairs_of_cells(which, tmp_path):
    """Every combination of cells and gap states is in the table, some of them several times."""
    levels = [["a", "b", None], ["a", "b", "c", "n/a", "-", None], ["a", "b", None]]
    rows = list(product(*levels))
    table = private(rows + rows[::5] * 3, SCHEMA, tmp_path)
    views = whole_columns(table, which)
    vectors = random_features(views, 4)
    values = views.feature_products(PAIRS, vectors, numbers=17)
    for pair, value in zip(PAIRS, values, strict=True):
        found = reveal(value, table.ledger)
        assert found.dtype == np.int64
        assert found.tolist() == products_by_hand(table, pair, vectors, views.sizes, which)


@pytest.mark.parametrize("k", [1, 2, 3, 7, 1000])
def test_the_distance_of_products_is_that_of_one_long_vector_for_each_row(which, k, tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, protect=Rows(k))
    views = whole_columns(table, which)
    (value,) = views.feature_products([(0, 1)], random_features(views, 4), numbers=17)
    square = Fraction(value.distance.at_most) ** 2 / (Fraction(PRODUCT_LENGTH) ** 2 * k**2)
    least = Fraction(5, 4) if which == "observed" else 1
    assert least <= square <= least * (1 + Fraction(1, 10**15))  # exactly: rounded up, by hardly anything
    assert value.distance.numbers == 17
    assert value.reads == ({"x0", "x1"} if which == "observed" else None)
    planned = planned_products(table, ["x0", "x1"], rows=which, numbers=17)
    assert (planned.distance, planned.reads) == (value.distance, value.reads)


def test_products_of_complete_and_of_filled_rows_read_what_was_planned(which, tmp_path):
    whole = private(ROWS, SCHEMA, tmp_path)
    filled = whole.fill([np.ones(column.size) for column in SCHEMA.columns])
    for table, reads in [(whole.complete_rows(), {"x0", "x1", "x2"}), (filled, None)]:
        views = whole_columns(table, which)
        (value,) = views.feature_products([(0, 1)], random_features(views, 2), numbers=5)
        planned = planned_products(table, ["x0", "x1"], rows=which, numbers=5)
        assert value.reads == planned.reads == reads


LOWEST = np.iinfo(np.int64).min  # its absolute value and its square overflow: to itself, and to 0


@pytest.mark.parametrize(
    "vector", [[LENGTH + 1, 0], [-LENGTH - 1, 0], [LENGTH, 1], [LENGTH, -1], [2**32, 0], [LOWEST, 0], [0, LOWEST]]
)
def test_a_vector_that_is_longer_than_allowed_is_refused(vector, which, tmp_path):
    table, _ = workload(tmp_path)
    views = whole_columns(table, which)
    vectors = [np.tile([LENGTH, 0], (size, 1)) for size in views.sizes]
    views.feature_products([(0, 1)], vectors, numbers=5)
    vectors[1][-1] = vector
    with pytest.raises(ModelError, match="the Euclidean norm of a feature vector is above 4096"):
        views.feature_products([(0, 1)], vectors, numbers=5)


def test_features_that_are_no_numbers_are_refused(tmp_path):
    table, _ = workload(tmp_path)
    views = whole_columns(table)
    with np.errstate(invalid="ignore"), pytest.raises(ModelError, match="Euclidean norm"):
        views.feature_products([(0, 1)], [np.full((size, 1), np.nan) for size in views.sizes], numbers=2)


def test_features_of_another_shape_are_refused(tmp_path):
    table, _ = workload(tmp_path)
    views = whole_columns(table)
    right = [np.ones((size, 2), dtype=np.int64) for size in views.sizes]
    for wrong in (np.ones((2, 2)), np.ones((5, 2)), np.ones(4), np.ones((4, 2, 1)), np.ones((1, 2))):
        with pytest.raises(ModelError, match="must have a vector for each cell, 4 in all"):
            views.feature_products([(0, 1)], [right[0], wrong, right[2]], numbers=5)
    with pytest.raises(ValueError, match="longer"):
        views.feature_products([(0, 1)], right[:2], numbers=5)


def test_more_numbers_than_planned_are_refused(which, tmp_path):
    table, _ = workload(tmp_path)
    views = whole_columns(table, which)
    vectors = [np.ones((size, 3), dtype=np.int64) for size in views.sizes]
    assert len(views.feature_products([(0, 1)], vectors, numbers=10)) == 1
    with pytest.raises(ModelError, match="more numbers than planned"):
        views.feature_products([(2, 0), (0, 1)], vectors, numbers=9)


def test_features_are_copied(which, tmp_path):
    """Longer vectors after the check would not change what is released."""
    table, _ = workload(tmp_path)
    views = whole_columns(table, which)
    vectors, pairs = random_features(views, 3), [(0, 1)]
    wanted = products_by_hand(table, (0, 1), vectors, views.sizes, which)
    (value,) = views.feature_products(pairs, vectors, numbers=10)
    pairs[0] = (1, 2)
    for cells in vectors:
        cells[:] = 100 * LENGTH
    vectors.clear()
    assert reveal(value, table.ledger).tolist() == wanted


def test_products_of_no_rows_are_zero(which, tmp_path):
    table, _ = workload(tmp_path, rows=[])
    views = whole_columns(table, which)
    (value,) = views.feature_products([(0, 1)], random_features(views, 3), numbers=10)
    assert not reveal(value, table.ledger).any()
    assert type(value.distance) is L2Vector
