"""The composed total is a bound at distance 1 alone; at any other the filter's promise stays."""

import math
import runpy
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from gapless.privacy import Budget, DiscreteGaussian, DiscreteLaplace, Rows, for_counts
from gapless.privacy.accounting import composed_epsilon, partition_epsilon
from gapless.testing.audit import letters_schema, private

DELTA = 1e-6


def true_delta(mechanism, shift, epsilon):
    """How much more than e^ε times as likely noise can be when the count moves by `shift`: summed up."""
    reach = np.arange(-20_000, 20_001)
    size = np.abs(reach)
    if isinstance(mechanism, DiscreteGaussian):
        distribution = np.exp(-(reach**2) / (2 * mechanism.std**2))
    else:
        distribution = np.exp(-size / mechanism.scale)
    distribution /= distribution.sum()
    moved = np.roll(distribution, shift)
    return np.maximum(moved - np.exp(epsilon) * distribution, 0).sum()


@pytest.mark.parametrize("distance", [0.5, 2, 5])
@pytest.mark.parametrize(
    "parameters", [{"name": "DiscreteGaussian", "std": 30.0}, {"name": "DiscreteLaplace", "scale": 30.0}]
)
def test_there_is_no_composed_total_at_another_distance(parameters, distance):
    assert composed_epsilon([(parameters, 1)], DELTA) is not None
    assert composed_epsilon([(parameters, distance)], DELTA) is None
    assert composed_epsilon([(parameters, 1), (parameters, distance)], DELTA) is None


@pytest.mark.parametrize("rows", [1, 2, 5])
def test_a_ledger_of_several_rows_promises_no_less_than_what_its_noise_gives_away(rows, tmp_path):
    """One release at distance 5 and ε = 1: the total of a release at distance 1 would be 0.166."""
    table = private([("a",)], letters_schema([2]), tmp_path, budget=Budget(1.0, DELTA), protect=Rows(rows))
    counts = table.marginal("x0")
    grant = table.ledger.grant(table.ledger.left, to="test")
    mechanism = for_counts(grant.left, counts.distance)
    grant.release(counts, mechanism, what="x0")
    promised = table.ledger.guarantee().epsilon
    assert true_delta(mechanism, rows, promised) <= DELTA
    assert true_delta(mechanism, rows, promised / 2) > DELTA  # so that a promise of one row's loss would be found out
    assert (promised < 1.0) == (rows == 1)


def test_the_composed_total_covers_the_true_loss_of_one_release():
    for mechanism in (DiscreteGaussian(30.0), DiscreteLaplace(30.0)):
        epsilon = composed_epsilon([(mechanism.parameters(), 1)], DELTA)
        assert true_delta(mechanism, 1, epsilon) <= DELTA < true_delta(mechanism, 1, 0.98 * epsilon)


def test_there_is_no_composed_total_for_very_wide_noise():
    """Its distribution would have too many cells: stating the total of a tiny budget must not take hours."""
    assert composed_epsilon([({"name": "DiscreteGaussian", "std": 1e12}, 1)], DELTA) is None


# ------------------------------------------------------------------ amplified loss distributions


bench = runpy.run_path(str(Path(__file__).parents[3] / "bench/ground_truth.py"))
SEEN = {"a": 0.5, "b": 0.6, "c": 0.7}


def noise_distributions(name, scale):
    """The distribution of noise on the integers around 0, and the same moved by one."""
    reach = math.ceil(14 * scale)
    y = np.arange(-reach, reach + 2)
    weigh = (
        (lambda z: np.exp(-np.abs(z) / scale))
        if name == "DiscreteLaplace"
        else (lambda z: np.exp(-((z / scale) ** 2) / 2))
    )
    total = weigh(np.arange(-40 * reach, 40 * reach)).sum()
    return weigh(y) / total, weigh(y - 1) / total


def exact_delta(events, epsilon):
    """δ of the whole batch at this ε, by summing over all patterns of gaps and all answers."""
    distributions = [noise_distributions(*noise) for noise, _ in events]
    without = np.array([1.0])
    for q, _ in distributions:
        without = np.multiply.outer(without, q).ravel()
    mixed = np.zeros_like(without)
    for pattern in product((0, 1), repeat=len(SEEN)):
        observed = {c for c, s in zip(SEEN, pattern, strict=True) if s}
        chance = math.prod(SEEN[c] if c in observed else 1 - SEEN[c] for c in SEEN)
        joint = np.array([1.0])
        for (q, p), (_, columns) in zip(distributions, events, strict=True):
            joint = np.multiply.outer(joint, p if columns <= observed else q).ravel()
        mixed += chance * joint
    scale = math.exp(epsilon)
    return max(np.maximum(mixed - scale * without, 0).sum(), np.maximum(without - scale * mixed, 0).sum())


GAUSS, OTHER, LAPLACE = ("DiscreteGaussian", 2.0), ("DiscreteGaussian", 3.5), ("DiscreteLaplace", 2.0)
BATCHES = {
    "one column each": [(GAUSS, {"a"}), (GAUSS, {"b"})],
    "overlapping": [(GAUSS, {"a"}), (GAUSS, {"a", "b"})],
    "a chain": [(GAUSS, {"a", "b"}), (GAUSS, {"b", "c"})],
    "every row": [(GAUSS, set()), (GAUSS, {"a", "b"})],
    "unequal noise in one group": [(GAUSS, {"a"}), (OTHER, {"a"})],
    "Laplace": [(LAPLACE, {"a"}), (LAPLACE, {"a", "b"})],
    "mixed kinds": [(LAPLACE, {"a"}), (GAUSS, {"a", "c"})],
}


def recorded(events):
    key = {"DiscreteGaussian": "std", "DiscreteLaplace": "scale"}
    return [({"name": name, key[name]: scale}, 1.0, frozenset(columns)) for (name, scale), columns in events]


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("delta", [1e-2, 1e-5])
def test_the_partition_bound_is_above_the_exact_loss_and_below_the_total_without_gaps(batch, delta):
    events = recorded(BATCHES[batch])
    epsilon = partition_epsilon(events, SEEN, delta)
    assert exact_delta(BATCHES[batch], epsilon) <= delta
    assert epsilon < composed_epsilon([(parameters, 1.0) for parameters, *_ in events], delta)
    assert exact_delta(BATCHES[batch], epsilon * 0.5) > delta  # it could fail


def laplace_delta(releases, first_cells, second_cells, epsilon):
    """δ of two Laplace releases of two cells each, in which the row's cell follows from its gaps and more.

    A cell of -1 leaves the row out. The cell of the second release also depends on a fair coin and on the first answer.
    Of an answer it matters only whether it is at least 1.
    """
    ratio = math.exp(1 / LAPLACE[1])
    ratios, without_row = np.array([ratio, 1 / ratio]), np.array([1, ratio]) / (1 + ratio)
    patterns = list(product((0, 1), repeat=len(SEEN)))
    deltas = np.zeros(2)
    for answer in product((0, 1), repeat=4):
        likelihood = 0.0
        for (number, pattern), coin in product(enumerate(patterns), (0, 1)):
            observed = {c for c, s in zip(SEEN, pattern, strict=True) if s}
            weight = math.prod(SEEN[c] if c in observed else 1 - SEEN[c] for c in SEEN) / 2
            cells = first_cells[number], second_cells[number, coin, answer[0], answer[1]]
            for (_, columns), cell, bits in zip(releases, cells, (answer[:2], answer[2:]), strict=True):
                weight *= ratios[bits[cell]] if columns <= observed and cell >= 0 else 1.0
            likelihood += weight
        scale, mass = math.exp(epsilon), math.prod(without_row[bit] for bit in answer)
        deltas += mass * np.maximum([likelihood - scale, 1 - scale * likelihood], 0)
    return deltas.max()


def test_the_partition_bound_holds_for_cells_that_depend_on_gaps_and_on_earlier_answers():
    releases, delta = BATCHES["Laplace"], 0.05
    epsilon = partition_epsilon(recorded(releases), SEEN, delta)
    same = laplace_delta(releases, np.zeros(8, dtype=int), np.zeros((8, 2, 2, 2), dtype=int), epsilon)
    assert same == pytest.approx(exact_delta(releases, epsilon), rel=1e-5)  # its noise is cut at 14 scales
    rng = np.random.default_rng(0)
    for _ in range(30):
        cells = rng.integers(-1, 2, 8), rng.integers(-1, 2, (8, 2, 2, 2))
        assert laplace_delta(releases, *cells, epsilon) <= same <= delta
    unread = [(LAPLACE, set()), (LAPLACE, set())]  # planted: rows with gaps are read as well
    assert laplace_delta(unread, np.zeros(8, dtype=int), np.zeros((8, 2, 2, 2), dtype=int), epsilon) > delta


def test_disjoint_columns_lose_nothing_to_the_partition():
    events = BATCHES["one column each"]
    epsilon = partition_epsilon(recorded(events), SEEN, 1e-3)
    assert exact_delta(events, epsilon - 0.002) > 1e-3


def test_there_is_no_figure_without_a_proof():
    events = recorded([(GAUSS, {"a"})])
    assert partition_epsilon([], SEEN, 1e-6) is None
    assert partition_epsilon(events, SEEN, 1e-13) is None
    assert partition_epsilon([(events[0][0], 2.0, frozenset("a"))], SEEN, 1e-6) is None
    assert partition_epsilon([({"name": "ExponentialChoice", "scale": 1.0}, 1.0, frozenset())], SEEN, 1e-6) is None
    assert partition_epsilon(recorded([(("DiscreteGaussian", 1e5), {"a"})]), SEEN, 1e-6) is None


def exact_normal_delta(releases, epsilon):
    """Two continuous Gaussian releases on a fine grid."""
    z = np.linspace(-9, 9, 1801)
    density = np.exp(-(z**2) / 2) / np.exp(-(z**2) / 2).sum()
    first, other = np.meshgrid(z, z, indexing="ij")
    ratio = np.zeros_like(first)
    for pattern in product((0, 1), repeat=len(SEEN)):
        observed = {c for c, s in zip(SEEN, pattern, strict=True) if s}
        chance = math.prod(SEEN[c] if c in observed else 1 - SEEN[c] for c in SEEN)
        mean = [mu if columns <= observed else 0.0 for mu, columns in releases]
        ratio += chance * np.exp(mean[0] * first + mean[1] * other - (mean[0] ** 2 + mean[1] ** 2) / 2)
    weight = np.multiply.outer(density, density)
    scale = math.exp(epsilon)
    return max((weight * np.maximum(ratio - scale, 0)).sum(), (weight * np.maximum(1 - scale * ratio, 0)).sum())


@pytest.mark.parametrize("releases", [[(0.7, {"a"}), (0.7, {"a", "b"})], [(1.0, {"a", "b"}), (0.5, {"c"})]])
def test_the_mixture_bound_for_continuous_noise(releases):
    releases = [(mu, frozenset(columns)) for mu, columns in releases]
    epsilon = bench["mixture_epsilon"](releases, SEEN, 1e-3)
    assert exact_normal_delta(releases, epsilon) <= 1e-3
    assert exact_normal_delta(releases, epsilon * 0.5) > 1e-3


def test_too_many_patterns_are_refused():
    many = {f"c{i}": 0.5 for i in range(25)}
    with pytest.raises(ValueError, match="too many patterns"):
        bench["mixture_epsilon"]([(0.1, frozenset(many))], many, 1e-6)
