"""What `PrivBayes` gains by measuring pairs of a family by themselves: distances on simulated tables.

    python bench/pairs.py                     shares 0, 0.15, 0.3 and 0.5 of the tables' budget, three runs each
    python bench/pairs.py --kinds tree --runs 1

Tables are those of bench/choose.py, 12 columns, 5,000 and 30,000 rows; ε = 1 and 3, δ = 1e-6. Printed are mean total
variation distances of all pairs and of 50 triples of columns, and at the end geometric means over all tables beside
those without pairs. Widths of intervals from the same tables: `python bench/inference.py bound --cells privbayes,1`.
"""

import argparse
import itertools

import numpy as np

import choose
import gapless as gl
from gapless.synth.marginal import privbayes

SHARES = (0.0, 0.15, 0.3, 0.5)
KINDS = ("dense", "mix", "tree", "parents", "copies", "blocks")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument("--runs", type=int, default=3)
    asked = parser.parse_args()
    choose.METHODS["PrivBayes"] = gl.PrivBayes
    print(
        "| table | rows | ε |",
        " | ".join(f"{share:g}" for share in SHARES),
        "|\n|---|---:|---:|" + "---:|" * len(SHARES),
    )
    gains = {}
    for kind, rows in itertools.product(asked.kinds, (5_000, 30_000)):
        made = choose.simulate(kind, 12, rows, gaps=False)
        for epsilon in (1.0, 3.0):
            job = {"gaps": False, "epsilon": epsilon, "delta": choose.DELTA, "method": "PrivBayes"}
            found = []
            for share in SHARES:
                privbayes.PAIRS_SHARE = share or 1e-6  # then none are worth it
                runs = [choose.measure(job, *made) for _ in range(asked.runs)]
                found.append([np.mean([run[measure] for run in runs]) for measure in ("pairs", "triples")])
            gains.setdefault(epsilon, []).append(np.log(found) - np.log(found[0]))
            cells = " | ".join(f"{pairs:.4f} · {triples:.4f}" for pairs, triples in found)
            print(f"| {kind} | {rows:,} | {epsilon:g} | {cells} |", flush=True)
    for epsilon, found in gains.items():
        cells = " | ".join(f"× {pairs:.3f} · {triples:.3f}" for pairs, triples in np.exp(np.mean(found, axis=0)))
        print(f"| all | | {epsilon:g} | {cells} |")


if __name__ == "__main__":
    main()
