"""MST: the tree that it chooses, and what it reads and pays for it."""

import itertools

import numpy as np
import pytest

import gapless as gl
from gapless.privacy import L1, for_counts
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise, no_noise
from helpers.letters_tables import PAIRS, fit, table_of


def test_mst_connects_all_columns_below_the_cap(tmp_path):
    """A column that fits with any other fits with the smallest, so what is left of the pairs connects all columns."""
    schema = letters_schema((6, 2, 6, 5))
    table = private([("a", "a", "a", "a"), ("b", "b", "b", "b")] * 50, schema, tmp_path)
    fit("mst", "observed", table, cap_cells=18)
    pairs = [e.what for e in table.ledger.entries if " × " in e.what]
    assert sorted(pairs) == ["x0 × x1", "x1 × x2", "x1 × x3"]
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-6)


def test_a_single_candidate_is_chosen_from_the_rows_that_it_counts(tmp_path):
    table = private([("a", "b")] * 20, letters_schema((2, 3)), tmp_path)
    fit("mst", "observed", table)
    assert [e.reads for e in table.ledger.entries if e.what == "choice 1"] == [["x0", "x1"]]


def test_the_stated_noise_is_the_noise_in_the_ledger(tmp_path):
    table = table_of(tmp_path)
    model = fit("mst", "extended", table)
    entry = next(e for e in table.ledger.entries if " × " in e.what)
    stated = next(line for line in model.facts.structure if line.startswith(entry.what))
    assert stated == f"{entry.what}: noise std {entry.mechanism['std']:.1f}"
    paid = for_counts(type(table.ledger.capacity)(entry.loss, table.ledger.order), L1(1))
    assert entry.mechanism["std"] == pytest.approx(paid.noise_std)


def dependence(rows, pair):
    """Half the sum of |c(x, y) - c(x) c(y) / n| over all cells of two columns without gaps."""
    column, other = pair
    counts = np.zeros((3, 3))
    for row in rows:
        counts["abc".index(row[column]), "abc".index(row[other])] += 1
    return 0.5 * np.abs(counts - np.outer(counts.sum(axis=1), counts.sum(axis=0)) / len(rows)).sum()


def chosen_tree(table):
    """The pairs that were measured, by position."""
    pairs = [e.what.split(" × ") for e in table.ledger.entries if " × " in e.what]
    return [tuple(table.schema.names.index(name) for name in pair) for pair in pairs]


def is_tree(pairs, columns):
    """Whether these pairs connect all columns without a circle."""
    component = list(range(columns))
    for column, other in pairs:
        if component[column] == component[other]:
            return False
        component = [component[column] if name == component[other] else name for name in component]
    return len(set(component)) == 1


def chain(rows=3000, seed=0):
    """x1 follows x0, x2 follows x1, and x3 follows x2, each less closely than the one before; no gaps."""
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 2, (rows, 4))
    for column, share in ((1, 0.9), (2, 0.7), (3, 0.5)):
        codes[:, column] = np.where(rng.random(rows) < share, codes[:, column - 1], codes[:, column])
    return [tuple("ab"[code] for code in row) for row in codes]


def test_without_noise_the_tree_is_the_maximum_spanning_tree(tmp_path):
    rows = chain()
    table = table_of(tmp_path, rows, budget=gl.Budget(100.0, 1e-6))
    with no_noise():
        fit("mst", "extended", table)
    trees = [tree for tree in itertools.combinations(PAIRS, 3) if is_tree(tree, 4)]
    best = max(trees, key=lambda tree: sum(dependence(rows, pair) for pair in tree))
    assert sorted(chosen_tree(table)) == sorted(best) == [(0, 1), (1, 2), (2, 3)]


def test_without_noise_the_most_dependent_pair_comes_first(tmp_path):
    rows = chain()
    table = table_of(tmp_path, rows, budget=gl.Budget(100.0, 1e-6))
    with no_noise():
        fit("mst", "extended", table)
    strengths = [dependence(rows, pair) for pair in chosen_tree(table)]
    assert strengths == sorted(strengths, reverse=True)


def test_any_noise_leaves_a_tree_and_the_same_noise_the_same_tree(tmp_path):
    found = []
    for seed in (0, 1, 2, 0):
        table = table_of(tmp_path, chain(200), budget=gl.Budget(0.05, 1e-6))
        with fixed_noise(seed=seed):
            fit("mst", "extended", table)
        found.append(chosen_tree(table))
        assert is_tree(found[-1], 4)
    assert found[0] == found[3]
    assert len(set(map(frozenset, found))) > 1  # so little budget leaves the choice to noise
