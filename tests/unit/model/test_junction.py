"""Junction trees; `cell_growth`, by which AIM keeps its tree small: what it bounds, and what it does not.

It bounds the tree in which one column of the pair joins every clique on the way to the other: that tree is built here
and checked. The tree that greedy elimination finds afterwards is another one, and may be larger.
"""

import itertools
import math
from itertools import combinations

import numpy as np
import pytest

from gapless.model.junction import cell_growth, cells, junction_tree


def structures(many, *, columns=(2, 10), largest=8, least=1, wide=True, seed=0):
    """Random sizes and marginals: pairs, and sometimes triples."""
    rng = np.random.default_rng(seed)
    for _ in range(many):
        d = int(rng.integers(*columns))
        sizes = tuple(rng.integers(least, largest + 1, d).tolist())
        pairs = list(itertools.combinations(range(d), 2))
        chosen = [pairs[p] for p in rng.permutation(len(pairs))[: rng.integers(0, 2 * d)]]
        if wide and d > 2:
            chosen += [tuple(sorted(rng.permutation(d)[:3].tolist())) for _ in range(rng.integers(0, 3))]
        yield sizes, chosen


def price(sizes, columns):
    return math.prod(sizes[c] for c in columns)


def path(neighbours, start, goal):
    """The places from one to the other along the tree, or None."""
    seen, stack = {start: None}, [start]
    while stack:
        here = stack.pop()
        for there in neighbours[here]:
            if there not in seen:
                seen[there] = here
                stack.append(there)
    if goal not in seen:
        return None
    route = [goal]
    while seen[route[-1]] is not None:
        route.append(seen[route[-1]])
    return route


def grown(tree, i, j):
    """All trees that bring i and j together by the rule of `cell_growth`, as (cliques, links)."""
    cliques = [set(clique) for clique in tree.cliques]
    links = [(place, parent) for place, parent in enumerate(tree.parents) if parent >= 0 and tree.shared[place]]
    neighbours = {place: [] for place in range(len(cliques))}
    for first, second in links:
        neighbours[first].append(second)
        neighbours[second].append(first)

    homes = [[p for p, clique in enumerate(cliques) if c in clique] for c in (i, j)]
    joined = False
    for a, b in itertools.product(*homes):
        route = path(neighbours, a, b)
        if route is None:
            continue
        joined = True
        for column in (i, j):
            yield [clique | {column} if place in route else clique for place, clique in enumerate(cliques)], links
    if not joined:
        yield [*cliques, {i, j}], [*links, (len(cliques), homes[0][0]), (len(cliques), homes[1][0])]


def is_junction_tree(cliques, links, marginals):
    """No circle, every marginal in a clique, and the cliques of each column connected."""
    part = list(range(len(cliques)))
    for first, second in links:
        if part[first] == part[second]:
            return False
        part = [part[first] if p == part[second] else p for p in part]
    if not all(any(set(m) <= clique for clique in cliques) for m in marginals):
        return False
    for column in set().union(*cliques):
        holding = [place for place, clique in enumerate(cliques) if column in clique]
        shared_links = sum(column in cliques[first] and column in cliques[second] for first, second in links)
        if shared_links != len(holding) - 1:  # a part of a forest is connected if it has one link less than places
            return False
    return True


def test_the_bound_is_the_price_of_a_junction_tree_that_exists():
    """What `cell_growth` says is exactly what the cheapest such tree costs, and each of them holds all marginals."""
    for sizes, marginals in structures(60):
        tree = junction_tree(sizes, marginals)
        growth = cell_growth(tree)
        for i, j in itertools.combinations(range(len(sizes)), 2):
            prices = []
            for cliques, links in grown(tree, i, j):
                assert is_junction_tree(cliques, links, [*marginals, (i, j)])
                prices.append(sum(price(sizes, clique) for clique in cliques))
            assert min(prices) == tree.cells + growth[i][j]
            assert growth[i][j] == growth[j][i] >= 0


def test_the_check_of_junction_trees_finds_broken_ones():
    assert is_junction_tree([{0, 1}, {1, 2}], [(0, 1)], [(0, 1)])
    assert not is_junction_tree([{0, 1}, {1, 2}], [], [(0, 1)])
    assert not is_junction_tree([{0, 1}, {1, 2}], [(0, 1)], [(0, 2)])
    assert not is_junction_tree([{0, 1}, {2}, {1, 2}], [(0, 1), (1, 2)], [])
    assert not is_junction_tree([{0}, {0}, {0}], [(0, 1), (1, 2), (2, 0)], [])


def test_pairs_in_one_bag_cost_nothing_and_strangers_a_bag():
    tree = junction_tree((2, 3, 4, 5), [(0, 1, 2)])
    growth = cell_growth(tree)
    assert growth[0][1] == growth[1][2] == growth[0][2] == 0
    assert [growth[c][3] for c in range(3)] == [10, 15, 20]


def test_a_pair_at_the_ends_of_a_chain():
    """0 - 1 - 2 - 3: column 0 (2 levels) joins {1, 2} and {2, 3}, which is cheaper than bringing 3 to the front."""
    growth = cell_growth(junction_tree((2, 3, 4, 5), [(0, 1), (1, 2), (2, 3)]))
    assert growth[0][3] == 3 * 4 + 4 * 5
    assert growth[0][2] == 3 * 4


def exceeded(**options):
    """How far the tree that is found exceeds the bound: the share of cases, and the worst factor."""
    factors = []
    for sizes, marginals in structures(150, **options):
        tree = junction_tree(sizes, marginals)
        growth = cell_growth(tree)
        for i, j in itertools.combinations(range(len(sizes)), 2):
            factors.append(cells(sizes, [*marginals, (i, j)]) / (tree.cells + growth[i][j]))
    return sum(f > 1 for f in factors) / len(factors), max(factors)


@pytest.mark.parametrize("least", [1, 2])
def test_the_greedy_tree_is_rarely_larger_than_the_bound_and_not_by_orders(least):
    """Elimination does not know the tree before. Measured: 1.5 % of pairs, up to 1.8-fold; with columns of one
    level 5 %, and at 15 columns up to six-fold. A cap that relies on the bound is a target, and not a limit.
    """
    share, worst = exceeded(least=least, seed=1)
    assert share < 0.08
    assert worst < 10


def test_the_greedy_tree_can_be_larger_than_the_bound():
    """A smallest example: a path 1 - 0 - 2 - 3, column 3 with a single level, which costs nothing to move."""
    sizes, marginals = (7, 3, 5, 1), [(2, 3), (0, 1), (0, 2)]
    tree = junction_tree(sizes, marginals)
    bound = tree.cells + cell_growth(tree)[1][3]
    assert bound == 61
    assert cells(sizes, [*marginals, (1, 3)]) in (61, 120)  # 120 as long as nobody keeps the tree before


def test_bags_as_marginals_keep_the_tree():
    """A way to hold the bound: the cliques of the grown tree are the cliques of a chordal graph, and elimination by
    fill finds these again. So a tree that must not grow further can be handed on as its cliques.
    """
    for sizes, marginals in structures(80, seed=2):
        tree = junction_tree(sizes, marginals)
        assert cells(sizes, tree.cliques) <= tree.cells
        growth = cell_growth(tree)
        for i, j in itertools.combinations(range(len(sizes)), 2):
            best = min(grown(tree, i, j), key=lambda candidate: sum(price(sizes, clique) for clique in candidate[0]))
            assert cells(sizes, best[0]) <= tree.cells + growth[i][j]


def test_pairs_of_a_triple_do_not_bound_the_triple():
    """Three columns apart: a clique of three has more cells than three cliques of two. Who adds them up must know."""
    sizes = (20, 20, 20)
    tree = junction_tree(sizes, [])
    growth = cell_growth(tree)
    added = sum(growth[i][j] for i, j in itertools.combinations(range(3), 2))
    assert added == 1200
    assert cells(sizes, [(0, 1, 2)]) == 8000


@pytest.mark.parametrize("marginals", [
    [], [(0,)], [(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1, 2), (1, 2), (2, 3, 4)], [(0, 4), (1, 3)],
    list(combinations(range(5), 2)), [(0, 1, 2, 3, 4)],
])  # fmt: skip
def test_every_column_fills_a_connected_part_of_the_tree(marginals):
    sizes = (2, 3, 1, 4, 5)
    tree = junction_tree(sizes, marginals)
    assert all(tree.smallest_clique(marginal) is not None for marginal in marginals)
    assert set().union(*tree.cliques) == set(range(5))
    for place, (clique, parent) in enumerate(zip(tree.cliques, tree.parents, strict=True)):
        assert parent < place
        before = set().union(*tree.cliques[:place])
        assert set(tree.separator(place)) == before & set(clique)
        if place:
            assert set(tree.separator(place)) <= set(tree.cliques[parent])
            assert list(tree.separator(place)) == [column for column in tree.cliques[parent] if column in clique]
    assert not any(set(a) <= set(b) for a in tree.cliques for b in tree.cliques if a is not b)
    assert tree.cells == cells(sizes, marginals)
    assert junction_tree(sizes, reversed(marginals)) == tree


def test_a_tree_of_pairs_costs_its_pairs():
    assert cells((2, 3, 4, 5), [(0, 1), (1, 2), (1, 3)]) == 6 + 12 + 15


def test_elimination_prefers_small_tables_to_few_edges():
    ring = [(0, 1), (1, 2), (2, 3), (3, 0)]
    assert cells((100, 2, 100, 2), ring) == 2 * (2 * 100 * 2)
