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
