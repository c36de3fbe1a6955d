"""Many marginals of one sealed table: counts, scores by hand, distances, refusals."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.workload import Views, Workload, violating_pairs
from gapless.errors import ModelError, SealedError
from gapless.privacy import L1, Linf, Rows
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


def test_counts_are_the_marginals_of_the_table(which, tmp_path):
    table, load = workload(tmp_path, which, k=2)
    for one in MARGINALS:
        alone = table.marginal([SCHEMA.names[c] for c in one], rows=which)
        assert np.array_equal(reveal(load.counts(one), table.ledger), reveal(alone, table.ledger))
        assert load.counts(one).distance == alone.distance == L1(2)
        assert load.counts(one).reads == alone.reads


def test_misfit_by_hand(tmp_path):
    """x0 × x1 has three observed rows (a a, a b, b n/a): not applicable is an observed cell."""
    table, load = workload(tmp_path)
    even = np.full((2, 4), 1 / 8)
    scores = load.misfit([(0, 1)], [even], np.array([0.5]), np.array([1.0]))
    assert reveal(scores, table.ledger).tolist() == [0.5 * (0.5 * (3 * (1 - 3 / 8) + 5 * 3 / 8) - 1.0)]
    assert scores.distance == Linf(0.5)


def test_conditional_misfit_by_hand(which, tmp_path):
    """x0 × x1: a a, a b, b n/a against an even law. Given x1: ½ each, 1½ off; given x0: ¼ each, 2¼ off."""
    table, load = workload(tmp_path, which)
    even = np.ones((2, 4) if which == "observed" else (3, 6))
    scores = load.conditional_misfit([(0, 1)], [even], np.array([0.5]), np.array([1.0]))
    assert reveal(scores, table.ledger).tolist() == [0.5 * (1.5 - 1.0)]
    assert scores.distance == Linf(0.5)


def test_conditional_misfit_of_a_law_without_probability_where_rows_are(tmp_path):
    """Given x2 = b the law says nothing: even. Rows of x2 × x0: a a, b b, b b."""
    table, load = workload(tmp_path)
    law = np.array([[1.0, 0.0], [0.0, 0.0]])
    scores = load.conditional_misfit([(2, 0)], [law], np.ones(1), np.zeros(1))
    assert reveal(scores, table.ledger).tolist() == [1.0]


def test_conditional_misfit_of_a_single_column_is_none(which, tmp_path):
    table, load = workload(tmp_path, which)
    law = np.array([0.1, 0.9] if which == "observed" else [0.1, 0.8, 0.1])
    assert reveal(load.conditional_misfit([(0,)], [law], np.ones(1), np.zeros(1)), table.ledger).tolist() == [0.0]


def test_dependence_by_hand(tmp_path):
    """x2 × x0 has three observed rows: a a, b b, b b. Expected 1/3 2/3 2/3 4/3 against 1 0 0 2."""
    table, load = workload(tmp_path)
    assert reveal(load.dependence([(2, 0)]), table.ledger) == pytest.approx([4 / 3])


def test_candidates_come_in_the_order_asked_for_and_may_be_left_out(tmp_path):
    table, load = workload(tmp_path)
    forth, back = (reveal(load.dependence(c), table.ledger) for c in ([(0, 1), (2, 0)], [(2, 0), (0, 1)]))
    assert forth.tolist() == back[::-1].tolist()
    scores = load.dependence([(0, 1), (1, 2), (2, 0)])
    some = load.restrict(scores, [2, 0])
    assert reveal(some, table.ledger).tolist() == reveal(scores, table.ledger)[[2, 0]].tolist()
    assert (some.distance, some.reads) == (scores.distance, scores.reads)


def test_the_distance_is_that_of_the_heaviest_candidate_times_the_rows_of_a_person(tmp_path):
    _, load = workload(tmp_path, k=3)
    laws = [np.full((2, 4), 1 / 8), np.full((4, 2), 1 / 8)]
    assert load.misfit([(0, 1), (1, 2)], laws, np.array([0.25, 2.0]), np.zeros(2)).distance == Linf(6.0)
    assert load.dependence([(0, 1)]).distance == Linf(6.0)


def test_laws_are_made_probabilities(tmp_path):
    table, load = workload(tmp_path)
    one = load.misfit([(0,)], [np.array([0.2, 0.6])], np.ones(1), np.zeros(1))
    same = load.misfit([(0,)], [np.array([20.0, 60.0])], np.ones(1), np.zeros(1))
    cut = load.misfit([(0,)], [np.array([-1.0, 5.0])], np.ones(1), np.zeros(1))
    assert reveal(one, table.ledger) == pytest.approx(reveal(same, table.ledger))
    assert reveal(cut, table.ledger).tolist() == [2.0]  # two of four rows where the model thinks none possible


@pytest.mark.parametrize("misfit", ["misfit", "conditional_misfit"])
@pytest.mark.parametrize("weights", [[1.0, -0.1], [np.nan, 1.0]])
def test_weights_that_are_negative_or_no_numbers(weights, misfit, tmp_path):
    _, load = workload(tmp_path)
    with pytest.raises(ModelError, match="weight"):
        getattr(load, misfit)([(0,), (0,)], [np.full(2, 0.5)] * 2, np.array(weights), np.zeros(2))


@pytest.mark.parametrize("misfit", ["misfit", "conditional_misfit"])
def test_a_law_of_another_shape(misfit, tmp_path):
    _, load = workload(tmp_path, "extended")
    with pytest.raises(ModelError, match="shape of its marginal"):
        getattr(load, misfit)([(0, 1)], [np.full((2, 4), 1 / 8)], np.ones(1), np.zeros(1))


@pytest.mark.parametrize("misfit", ["misfit", "conditional_misfit"])
def test_a_law_too_many_is_noticed(misfit, tmp_path):
    table, load = workload(tmp_path)
    with pytest.raises(ValueError, match="zip"):
        reveal(getattr(load, misfit)([(0,)], [np.full(2, 0.5)] * 2, np.ones(1), np.zeros(1)), table.ledger)


def test_scores_open_with_the_key_of_their_own_table_only(tmp_path):
    _, load = workload(tmp_path)
    stranger = private(ROWS, SCHEMA, tmp_path)
    with pytest.raises(SealedError, match="another ledger"):
        reveal(load.dependence([(0, 1)]), stranger.ledger)


def test_nothing_is_counted_before_a_score_is_opened_and_then_once(tmp_path, monkeypatch):
    from gapless.data.engines import memory

    calls = []
    count = memory.count_marginals
    monkeypatch.setattr(memory, "count_marginals", lambda *a, **k: calls.append(1) or count(*a, **k))
    table, load = workload(tmp_path)
    scores = load.dependence([(0, 1), (2, 0)])
    assert not calls
    for _ in range(2):
        reveal(scores, table.ledger)
        reveal(load.counts((0,)), table.ledger)
    assert len(calls) == 1


def test_no_rows_at_all(which, tmp_path):
    table, load = workload(tmp_path, which, rows=[])
    assert not reveal(load.dependence(MARGINALS), table.ledger).any()
    law = np.full(reveal(load.counts((0,)), table.ledger).shape, 1.0)
    assert reveal(load.misfit([(0,)], [law], np.ones(1), np.zeros(1)), table.ledger).tolist() == [0.0]


def test_a_law_of_another_shape_is_refused(tmp_path):
    """[1, 0] against a table of 2 × 2 is [[1, 0], [1, 0]]: a row in the second column then moves the score by 1.5."""
    _, load = workload(tmp_path)
    with pytest.raises(ModelError, match="shape"):
        load.misfit([(2, 0)], [np.array([1.0, 0.0])], np.ones(1), np.zeros(1))


def test_views_of_a_filled_table_read_every_row(tmp_path):
    from gapless.data.workload import Views
    from gapless.testing.audit import letters_schema, private

    schema = letters_schema([2, 2])
    table = private([("a", "b"), (None, "a")], schema, tmp_path)
    views = [(c, np.arange(column.extended_size)) for c, column in enumerate(schema.columns)]
    filled = table.fill([np.ones(column.size) for column in schema.columns])
    assert Views(table, views, rows="observed").counts((0, 1)).reads == {"x0", "x1"}
    assert Views(filled, views, rows="observed").counts((0, 1)).reads is None


@pytest.mark.parametrize("kind", ["misfit", "conditional_misfit", "dependence", "views"])
def test_a_score_needs_only_what_every_candidate_needs(kind, tmp_path):
    """The union would be wrong: a row with a gap in x0 is counted for the second candidate."""
    schema = letters_schema([2, 2, 2])
    table = private([("a", "b", "a"), (None, "a", "b")] * 3, schema, tmp_path)

    def reads(*candidates):
        workload = Workload(table, candidates, rows="observed")
        laws = [np.full([schema.columns[c].size for c in candidate], 0.1) for candidate in candidates]
        if kind == "views":
            whole = [(c, np.arange(column.extended_size)) for c, column in enumerate(schema.columns)]
            return Views(table, whole, rows="observed").dependence(candidates).reads
        if kind == "dependence":
            return workload.dependence(candidates).reads
        return getattr(workload, kind)(candidates, laws, np.ones(len(candidates)), np.zeros(len(candidates))).reads

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
def test_what_cannot_be_counted_is_refused(rule, buckets, wrong, tmp_path):
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
    laws = [[1 / column.size] * column.size for column in PAIRS_SCHEMA.columns]
    with no_noise():
        assert violating_pairs(table.fill(laws), DECIDES, buckets=1).reads is None
