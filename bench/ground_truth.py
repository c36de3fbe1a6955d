"""The figures of docs/ground-truth.md: [MD] Table 1 beside what is true.

Reads the marginals that PrivBayes chose on Adult and BR2000 with 10 to 50 % of the cells missing (one marginal on each
line, columns by number) from ../shared/data/privbayes_marginals, next to the repository; and Adult from ../shared/data,
for what one fit of Mixture promises (--mixture: that alone). Prints Markdown.
"""

import math
import operator
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from dp_accounting.pld import privacy_loss_distribution as pld

import gapless as gl
from gapless.privacy.accounting import amplified_epsilon, best_partition, observed_probability, partition_epsilon
from gapless.privacy.ground_truth import calibrate_loss

MARGINALS = Path(__file__).parents[1] / "../shared/data/privbayes_marginals"
PAPER = {"adult": (0.88, 0.77, 0.65, 0.47, 0.44), "br2000": (0.83, 0.68, 0.55, 0.41, 0.31)}  # [MD] Table 1
MOST_PATTERNS = 20  # columns
RATES = (0.1, 0.2, 0.3, 0.4, 0.5)


# ---------------------------------------------------------------------- [MD] section 5: NOT guarantees
# [MD] multiplies ε by the probability that a row is read, p·ε. The truth for one mechanism is
# log(1 + p(e^ε - 1)), which is at least as large: `amplified_epsilon`.


def linear_partition(releases, rates):
    """The valid partition of least Σ p_G Σ ε_j: what [MD] Algorithm 4 looks for. Its cost is not a guarantee."""
    return best_partition(releases, rates, price=operator.mul)


def theorem_5_6(releases, rates):
    """Σ p ε for releases on disjoint columns: not a guarantee."""
    columns = [column for _, read in releases for column in read if rates.get(column, 0.0) > 0]
    if len(columns) != len(set(columns)):
        raise ValueError("[MD] Theorem 5.6 is for disjoint sets of columns")
    return math.fsum(epsilon * observed_probability(read, rates) for epsilon, read in releases)


def theorem_5_12(losses, rates):
    """[MD]'s figure for models of one column each: the first of the least missing columns is amplified, linearly.

    Not a guarantee, and needlessly large: Σ log(1 + (1 - φ)(e^ε - 1)) over *all* columns is one, and mostly smaller.
    [MD] chooses the largest 1 - φ among the columns that have gaps at all (its Example 5.13).
    """
    gapped = {column: 1 - rates[column] for column in losses if rates.get(column, 0.0) > 0}
    chosen = max(gapped, key=lambda column: gapped[column], default=None)
    return math.fsum(epsilon * (gapped[chosen] if column == chosen else 1) for column, epsilon in losses.items())


# ---------------------------------------------------------------------- a bound for noise that no ledger has


def mixture_epsilon(releases, seen, delta):
    r"""The ε at `delta` of *continuous* Gaussian releases (μ, columns), μ = Δ₂/σ, by one normal variable.

    Proved in docs/proofs/ground_truth_pld.md, section 4, for that noise alone: no ledger has it.

    .. math:: \Bigl(\sum_v p_v\,\mathcal{N}(m_v, 1),\ \mathcal{N}(0, 1)\Bigr), \qquad
              m_v^2 = \sum_j \mathbf{1}\{A_j \subseteq v\}\,\mu_j^2
    """
    names = sorted({column for _, read in releases for column in read if seen.get(column, 1.0) < 1})
    if len(names) > MOST_PATTERNS:
        raise ValueError(f"{len(names)} columns have too many patterns of gaps")
    patterns = np.arange(1 << len(names))
    chances, squares = np.ones(len(patterns)), np.zeros(len(patterns))
    for i, column in enumerate(names):
        chances *= np.where(patterns >> i & 1, seen[column], 1 - seen[column])
    for mu, columns in releases:
        mask = sum(1 << i for i, column in enumerate(names) if column in columns)
        squares += np.where(patterns & mask == mask, mu**2, 0.0)
    step = math.sqrt(squares.max()) / 1000  # means are rounded up, which only adds to the divergence
    means, where = np.unique(np.ceil(np.sqrt(squares) / step - 1e-9), return_inverse=True)
    mixture = pld.from_mixture_gaussian_mechanism(
        1.0, (means * step).tolist(), np.bincount(where, chances).tolist(), value_discretization_interval=10 * step
    )
    return float(mixture.get_epsilon_for_delta(delta))


# ---------------------------------------------------------------------- the tables


def marginals_of(table, rate, folder=MARGINALS):
    lines = (folder / f"{table}_{rate}.txt").read_text().splitlines()
    return [frozenset(line.split()) for line in lines if line.strip()]


def figures(table, rate, folder=MARGINALS, *, rigorous=True):
    """All figures for one table and rate, ε = 1 in equal shares."""
    marginals = marginals_of(table, rate, folder)
    rates = dict.fromkeys(map(str, range(15)), rate)
    even = [(1 / len(marginals), columns) for columns in marginals]
    half = [(0.5 / len(marginals), columns) for columns in marginals]
    found = {
        "linear": linear_partition(even, rates).cost,
        "exact": gl.privacy.ground_truth(even, gl.MCAR(rates)),
        "robust": gl.privacy.ground_truth(even, gl.MCAR(rates, columns="dependent")),
        "with structure": gl.privacy.ground_truth([*half, (0.5, None)], gl.MCAR(rates)),
        "calibrated": calibrate_loss({frozenset(): 0.5}, marginals, 1.0, gl.MCAR(rates)) * len(marginals),
    }
    if rigorous:
        found["rigorous"] = best_partition(even, rates).cost
    return found


NAMES = {
    "paper": "[MD] Table 1",
    "linear": "Algorithm 4, true optimum, linear ([MD], not a guarantee)",
    "rigorous": "best valid partition, rigorous",
    "exact": "**exact F**, measurements alone",
    "robust": "F if columns may go together in any way",
    "with structure": "half of ε for the structure, in full, and F of the other half",
    "calibrated": "loss for the measurements that a filter at ε = 1 allows after that structure (0.5 without)",
}


def examples():
    """[MD] section 5, its running example: a quarter missing in three of four columns, ε = 1."""
    rates = {"state": 0.25, "occupation": 0.0, "gender": 0.25, "income": 0.25}
    state, occupation, gender, gender_income = (
        frozenset(c.split()) for c in ("state", "occupation", "gender", "gender income")
    )
    assumed = gl.MCAR(rates)

    def exact(sets):
        return gl.privacy.ground_truth([(1 / len(sets), columns) for columns in sets], assumed)

    disjoint, overlapping = [state, occupation, gender_income], [state, occupation, gender, gender_income]
    best = linear_partition([(0.25, columns) for columns in overlapping], rates)
    print("| example | [MD] | exact F |\n|---|---:|---:|")
    whole = frozenset(rates)
    print(f"| 5.5, complete rows | {observed_probability(whole, rates):.3f} | {exact([whole] * 4):.3f} |")
    print(f"| 5.7, disjoint | {theorem_5_6([(1 / 3, c) for c in disjoint], rates):.3f} | {exact(disjoint):.3f} |")
    print(f"| 5.8 and 5.11, overlapping | {best.cost:.4f} | {exact(overlapping):.3f} |")
    print(f"| 5.13, one model for each column | {theorem_5_12(dict.fromkeys(rates, 0.25), rates):.4f} | ", end="")
    print(f"{exact([frozenset({column}) for column in rates]):.3f} |")
    print(
        "\nOne release of ε = 3 that reads a row with probability 0.1: "
        f"linear 0.30, true {amplified_epsilon(0.1, 3.0):.2f}"
    )
    ten = [(0.3, {"gender"})] * 10
    half = gl.MCAR({"gender": 0.5})
    print(
        f"Ten releases of 0.3 at a rate of 50 %: sum of figures {10 * gl.privacy.ground_truth(ten[:1], half):.2f}, ",
        end="",
    )
    print(f"true {gl.privacy.ground_truth(ten, half):.2f}")


def speed():
    """Random sets of one to four of 50 columns, 20 % missing."""
    rng = np.random.default_rng(5)
    for many in (50, 100, 200):
        sets = [frozenset(map(str, rng.choice(50, rng.integers(1, 5), replace=False))) for _ in range(many)]
        start = time.perf_counter()
        figure = gl.privacy.ground_truth([(1 / many, columns) for columns in sets], gl.MCAR(0.2))
        print(f"50 columns, {many} releases, ε = 1: F at most {figure:.3f}, {time.perf_counter() - start:.2f} s")


def promises_of_mixture():
    """One fit of Mixture with Observed() on Adult, all 15 columns may be missing: two promises from one ledger.

    Nothing here depends on the rows: the tables and their noise follow from the schema, and the figures from these.
    """
    import synth  # beside this script: tests that load it from elsewhere do not need it

    if not (synth.SHARED / "data" / "adult.csv.gz").exists():
        print("Skipped: Adult is looked for in ../shared, next to the repository.")
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = synth.Tables(folder, sys.executable)
        schema = gl.Schema.read(tables.schema("adult"))
        ledger, budget = Path(folder) / "adult.ledger", gl.Budget(synth.EPSILON, synth.DELTA)
        data = synth.copied(tables.truth("adult"), folder)
        people = gl.read(data, schema, protect=gl.Rows(1), ledger=ledger, budget=budget)
        gl.Mixture(missing=gl.Observed()).fit(people, spend=people.ledger.left)
        start = time.perf_counter()
        print(f"Mixture with Observed() on Adult, δ = {synth.DELTA:g}, {len(people.ledger.entries)} tables:\n")
        print("| ε of | 10 % | 20 % | 30 % |\n|---|---:|---:|---:|")
        epsilons = {"the incomplete table, without assumptions": [people.ledger.guarantee().epsilon] * 3}
        for columns in ("independent", "dependent"):
            assumed = [gl.MCAR(dict.fromkeys(schema.names, rate), columns=columns) for rate in RATES[:3]]
            figures = [people.ledger.ground_truth(assumption) for assumption in assumed]
            assumption = "columns independent" if columns == "independent" else "columns may go together in any way"
            epsilons[f"the complete table, {assumption}"] = [figure.epsilon for figure in figures]
        for assumption, cells in epsilons.items():
            print(f"| {assumption} | {' | '.join(f'{cell:.3f}' for cell in cells)} |")
        print(f"\n{time.perf_counter() - start:.0f} s\n")


def main():
    if sys.argv[1:] == ["--mixture"]:
        promises_of_mixture()
        return
    examples()
    print()
    speed()
    print()
    promises_of_mixture()
    if not MARGINALS.is_dir():
        print("Skipped: the marginals are looked for in ../shared/data/privbayes_marginals, next to the repository.")
        return
    start = time.perf_counter()
    print("| | 10 % | 20 % | 30 % | 40 % | 50 % |\n|---|---:|---:|---:|---:|---:|")
    for table, paper in PAPER.items():
        rows = [figures(table, rate) for rate in RATES]
        for key, name in NAMES.items():
            cells = paper if key == "paper" else [row[key] for row in rows]
            digits = 2 if key == "paper" else 3
            print(f"| {table}: {name} | {' | '.join(f'{cell:.{digits}f}' for cell in cells)} |")
    print(f"\n{time.perf_counter() - start:.0f} s\n")
    print("Gaussian noise, ε = 1 at δ = 1e-6 without gaps:\n")
    print("| | 10 % | 20 % | 30 % | 40 % | 50 % |\n|---|---:|---:|---:|---:|---:|")
    mu = 0.2367  # of (1, 1e-6), rounded down
    for table in PAPER:
        partition, mixture = [], []
        for rate in RATES:
            marginals, seen = marginals_of(table, rate), dict.fromkeys(map(str, range(15)), 1 - rate)
            std = math.sqrt(len(marginals)) / mu
            events = [({"name": "DiscreteGaussian", "std": std}, 1.0, columns) for columns in marginals]
            partition.append(partition_epsilon(events, seen, 1e-6))
            mixture.append(mixture_epsilon([(1 / std, columns) for columns in marginals], seen, 1e-6))
        print(f"| {table}: partition, discrete noise | {' | '.join(f'{cell:.3f}' for cell in partition)} |")
        print(f"| {table}: mixture, continuous noise | {' | '.join(f'{cell:.3f}' for cell in mixture)} |")


if __name__ == "__main__":
    main()
