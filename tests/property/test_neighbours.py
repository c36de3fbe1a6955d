"""Nearest-neighbour imputation against its definition, on small tables where everything can be tried.

The brute force below shares no code with ours: distances are fractions read off the schema, donors are sorted, and the
influence of a row is found by adding every possible row and removing every row there is.
"""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

from gapless.data.influence import influence
from gapless.data.neighbors import Matching, Space, link
from gapless.data.sums import Bounds, imputed_sum
from gapless.schema import Boolean, Categorical, Integer, MissingCode, Ordinal, Schema
from helpers.examples import repetitions

SCHEMA = Schema(
    "small",
    [
        Integer("age", bounds=(0, 3), bins=4, may_be_missing=True),
        Categorical("job", ["a", "b", "c"], missing=(MissingCode("n/a", "not-applicable"),)),
        Ordinal("school", ["low", "middle", "high"], may_be_missing=True),
        Boolean("sex"),
        Ordinal("income", ["1", "2", "3"], may_be_missing=True, missing=("?", MissingCode("-", "refused"))),
    ],
)
TARGET = "income"
CHOICES = [
    Matching(on=("age",)),
    Matching(on=("age", "school")),
    Matching(on=("job", "age")),
    Matching(on=("sex", "school", "job"), distance="euclidean"),
    Matching(on=("age", "sex"), neighbors=2, scheme="mean"),
    Matching(on=("school", "job"), neighbors=3, scheme="majority", distance="euclidean"),
    Matching(on=("age", "school"), neighbors=2, scheme="majority"),
]
every_choice = pytest.mark.parametrize(
    "matching", CHOICES, ids=lambda m: f"{'-'.join(m.on)}-{m.neighbors}-{m.distance}"
)

# A row is (the codes of all columns, its label).


def random_table(rng, rows, donors=0.5, gaps=0.2):
    codes = []
    for column in SCHEMA.columns:
        observed = rng.integers(0, column.size, rows)
        missing = rng.random(rows) < (1 - donors if column.name == TARGET else gaps)
        kind = rng.integers(0, max(1, column.extended_size - column.size), rows)
        codes.append(np.where(missing & bool(column.gaps), column.size + kind, observed))
    labels = rng.permutation(rows)
    return [(tuple(int(c[i]) for c in codes), Fraction(int(labels[i]))) for i in range(rows)]


def random_matching_table(rng):
    kind = rng.integers(6)
    rows = int(rng.integers(0, 9))
    share = {0: 0.0, 1: 1.0, 2: 0.15}.get(int(kind), float(rng.uniform(0.2, 0.8)))
    return random_table(rng, rows, donors=share, gaps=float(rng.choice([0.0, 0.2, 0.7])))


def is_donor(row):
    return row[0][-1] < SCHEMA[TARGET].size


def far(x, y, matching):
    total = Fraction(0)
    for name in matching.on:
        column = SCHEMA[name]
        place = SCHEMA.names.index(name)
        a, b = x[0][place], y[0][place]
        if a >= column.size:  # the donee's gap: not compared
            continue
        if column.kind in ("ordinal", "integer") and max(a, b) < column.values_size:
            step = Fraction(abs(a - b), column.values_size - 1)
        else:
            step = Fraction(a != b or b >= column.size)
        total += step if matching.distance == "gower" else step**2
    return total


def donors_of(x, table, matching):
    circle = Fraction(10**9)
    order = sorted((far(x, y, matching), (y[1] - x[1]) % circle, i) for i, y in enumerate(table) if is_donor(y))
    return [table[i] for _, _, i in order[: matching.neighbors]]


def changed(before, after, matching):
    """c(D, D'): the donees that came or went, and those whose donors are others now."""
    both = [x for x in before if not is_donor(x) and x in after]
    moved = sum(set(donors_of(x, before, matching)) != set(donors_of(x, after, matching)) for x in both)
    return moved + sum(not is_donor(x) for x in set(before) ^ set(after))


def every_new_donor(table, matching):
    """Every cell of the public domain, gaps included, with a label in every gap of the circle."""
    labels = sorted(label for _, label in table) or [Fraction(0)]
    between = [label + Fraction(1, 2) for label in labels]
    cells = [range(column.extended_size) if column.name in matching.on else [0] for column in SCHEMA.columns]
    cells[-1] = range(1)
    return [(codes, label) for codes in itertools.product(*cells) for label in between]


def l1_by_definition(table, matching):
    neighbours = [table[:i] + table[i + 1 :] for i in range(len(table))]
    neighbours += [[*table, row] for row in every_new_donor(table, matching)]
    return max([1, *(changed(table, other, matching) for other in neighbours)])  # a new donee is 1


def ours(table, matching, cover=None):
    space = Space.of(matching, SCHEMA)
    columns = dict(zip(SCHEMA.names, np.array([row[0] for row in table], dtype=np.uint8).reshape(-1, 5).T, strict=True))
    observed = np.array([is_donor(row) for row in table], dtype=bool)
    places = np.argsort(np.argsort([row[1] for row in table])).astype(np.int64)
    links = link(space, [columns[name] for name in space.names], observed, places, matching.neighbors)
    return columns, links, influence(links, space, cover)


@every_choice
def test_donors_are_those_of_the_definition(matching):
    rng = np.random.default_rng(1)
    for _ in range(repetitions(60)):
        table = random_matching_table(rng)
        _, links, _ = ours(table, matching)
        for donee, donors in zip(links.donees, links.donors, strict=True):
            found = {table[i] for i in donors if i >= 0}
            assert found == set(donors_of(table[donee], table, matching))
            assert (donors >= 0).sum() == len(found)


@every_choice
def test_influence_is_exactly_that_of_the_definition(matching):
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(repetitions(25)):
        table = random_matching_table(rng)
        expected = l1_by_definition(table, matching)
        assert ours(table, matching)[2] == expected
        seen.add(expected)
    assert len(seen) >= 4


@every_choice
def test_blocks_change_nothing(matching, monkeypatch):
    """Larger tables, whole and in the smallest pieces: the same donors and the same influence."""
    rng = np.random.default_rng(6)
    tables = [random_table(rng, int(rng.integers(20, 120)), donors=share) for share in (0.1, 0.3, 0.6, 0.9)]
    whole = [ours(table, matching) for table in tables]
    monkeypatch.setattr("gapless.data.neighbors.BLOCK", 16)
    monkeypatch.setattr("gapless.data.influence.BLOCK", 16)
    for table, (_, links, moved) in zip(tables, whole, strict=True):
        _, pieces, moved_in_pieces = ours(table, matching)
        assert np.array_equal(links.donors, pieces.donors)
        assert moved == moved_in_pieces


def neighbour_of(rng, table):
    if table and rng.random() < 0.5:
        i = int(rng.integers(len(table)))
        return table[:i] + table[i + 1 :]
    ((codes, _),) = random_table(rng, 1, donors=0.7)
    label = Fraction(int(rng.integers(len(table) + 1))) - Fraction(1, 2) + Fraction(int(rng.integers(1, 1000)), 10**7)
    return [*table, (codes, label)]


@every_choice
def test_influence_is_smooth(matching):
    """Never more than twice that of a neighbour, in either direction, and sometimes twice."""
    rng = np.random.default_rng(3)
    worst = Fraction(0)
    for _ in range(repetitions(250)):
        table = random_matching_table(rng)
        a, b = ours(table, matching)[2], ours(neighbour_of(rng, table), matching)[2]
        assert a <= 2 * b
        assert b <= 2 * a
        worst = max(worst, Fraction(a, b), Fraction(b, a))
    assert worst == 2


@every_choice
def test_covers_are_above_and_smooth(matching):
    rng = np.random.default_rng(4)
    covers = [matching.on[:n] for n in range(len(matching.on) + 1)] + [matching.on[1:]]
    for _ in range(repetitions(60)):
        table = random_matching_table(rng)
        other = neighbour_of(rng, table)
        for cover in covers:
            a, b = ours(table, matching, cover)[2], ours(other, matching, cover)[2]
            assert a <= 2 * b
            assert b <= 2 * a
            assert ours(table, matching)[2] <= a


def test_a_pairwise_bound_is_caught_as_not_smooth():
    """Planted: the tempting bound "donees whose balls touch" jumps from 1 to 51 when one donor goes; L₁ does not."""
    levels = [str(i) for i in range(60)]
    grid = Schema("grid", [Categorical("r", levels), Categorical("c", levels), Boolean("y", may_be_missing=True)])
    matching = Matching(on=("r", "c"))
    space = Space.of(matching, grid)

    def both_bounds(donor_count):
        cells = np.append(np.arange(51), np.arange(donor_count))
        observed = np.repeat([False, True], [51, donor_count])
        links = link(space, [cells, cells], observed, np.arange(len(cells)), 1)
        apart = (space.costs[0][0, 1] * (links.cells[:, None, :] != links.cells)).sum(axis=2)
        touching = apart <= links.radius[:, None] + links.radius
        return int((touching & (links.radius[:, None] > 0) | np.eye(51, dtype=bool)).sum(axis=1).max()), influence(
            links, space
        )

    (pairwise, exact), (pairwise_less, exact_less) = both_bounds(51), both_bounds(50)
    assert pairwise_less > 2 * pairwise
    assert exact_less <= 2 * exact


# ---------------------------------------------------------------------- sums


def contribution(columns):
    """Depends on targets and others, and is 0 for some rows: a question with a condition."""
    return np.where(columns["sex"] == 1, columns[TARGET] - 0.75, -0.25 * columns["age"])


def answer_by_definition(table, matching, low, high):
    def value(codes):
        row = {name: np.array([code]) for name, code in zip(SCHEMA.names, codes, strict=True)}
        return Fraction(min(max(float(contribution(row)[0]), low), high))

    total = Fraction(0)
    for row in table:
        if is_donor(row):
            total += value(row[0])
            continue
        cells = [donor[0][-1] for donor in donors_of(row, table, matching)]
        nothing = Fraction(min(max(0, low), high))
        if matching.scheme == "majority" and cells:
            total += value((*row[0][:-1], min(cells, key=lambda cell: (-cells.count(cell), cell))))
        elif matching.scheme == "majority":
            total += nothing
        else:
            k = matching.neighbors
            given = [value((*row[0][:-1], cell)) for cell in cells] + [nothing] * (k - len(cells))
            total += sum(given) / k
    return total


def smooth_value(table, matching, low, high):
    columns, links, moved = ours(table, matching)
    return imputed_sum(
        columns,
        links,
        moved,
        contribution,
        schema=SCHEMA,
        targets=(TARGET,),
        matching=matching,
        bounds=Bounds.of(low, high),
    )


@every_choice
@pytest.mark.parametrize(("low", "high"), [(-0.5, 1.0), (0.25, 1.25), (-2.0, -0.25)])
def test_sums_are_those_of_the_definition_and_move_within_their_bound(matching, low, high):
    rng = np.random.default_rng(5)
    most = Fraction(0)
    for _ in range(repetitions(50)):
        table = random_matching_table(rng)
        other = neighbour_of(rng, table)
        a, b = smooth_value(table, matching, low, high), smooth_value(other, matching, low, high)
        assert a.answer == answer_by_definition(table, matching, low, high)
        least = Bounds.of(low, high).sensitivity(matching, 1)
        assert least <= min(a.bound, b.bound)
        assert abs(a.answer - b.answer) <= min(a.bound, b.bound)
        assert a.bound <= 2 * b.bound
        assert b.bound <= 2 * a.bound
        most = max(most, abs(a.answer - b.answer) / min(a.bound, b.bound))
    assert most > Fraction(1, 4)


def test_half_the_bound_would_be_caught():
    """A planted bound without the donees' term is exceeded: the donor of four rows goes."""
    matching = Matching(on=("age",))
    donee = (0, 0, 0, 1, 3)
    table = [((0, 0, 0, 1, 2), Fraction(10)), ((3, 0, 0, 1, 0), Fraction(11))]
    table += [(donee, Fraction(i)) for i in range(4)]
    a, b = smooth_value(table, matching, -0.75, 1.25), smooth_value(table[1:], matching, -0.75, 1.25)
    row_sensitivity = Bounds.of(-0.75, 1.25).sensitivity(matching, 0)
    assert abs(a.answer - b.answer) > row_sensitivity
    assert abs(a.answer - b.answer) == 4 * 2 + row_sensitivity  # attained
    assert a.bound == b.bound == row_sensitivity + 4 * 2


def test_contributions_are_rounded_to_a_public_grid():
    bounds = Bounds.of(0.0, 100_000.0)
    assert bounds.step == Fraction(1, 2**7)
    assert bounds.to_steps(np.array([math.nan, math.inf, -math.inf, 1 / 3])).tolist() == [0, 12_800_000, 0, 43]
    assert Bounds.of(1.0, 2.0).without_donor * Bounds.of(1.0, 2.0).step == 1
