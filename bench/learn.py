"""What can be learned from synthetic rows of Adult: F1 of nine classifiers, Mixture beside AIM, against ε.

    python bench/learn.py                        three labels, five runs: half an hour of processor time
    python bench/learn.py --labels all           every column in turn is the label, as in [MD]

Both with missing=Extended() on the complete table, δ = 1e-6. `f1_scores` trains on 4,500 synthetic rows, tests on 500
true ones, the same for both methods in a run; printed are means over labels, classifiers and runs, what the truth
itself reaches, and the difference of the two methods with its standard error, from how it varies from run to run. Adult
is looked for in ../shared.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
from pathlib import Path

import gapless as gl
import synth
from gapless.evaluate import f1_scores, mean_f1

LABELS = ["income", "sex", "marital-status"]
METHODS = {"mixture": gl.Mixture, "aim": gl.AIM}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", nargs="*", default=LABELS)
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0, 3.0, 10.0])
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    if not (synth.SHARED / "data" / "adult.csv.gz").exists():
        print("Skipped: Adult is looked for in ../shared, next to the repository.")
        return
    with tempfile.TemporaryDirectory() as folder:
        tables = synth.Tables(folder, sys.executable)
        path, schema = tables.truth("adult"), gl.Schema.read(tables.schema("adult"))
        truth = gl.Table.read(path, schema)
        labels = list(schema.names) if asked.labels == ["all"] else asked.labels
        best, found = [], {}
        for run in range(asked.runs):
            for epsilon, method in itertools.product(asked.epsilons, METHODS):
                fake = synthetic(path, schema, METHODS[method], epsilon, run)
                found.setdefault((epsilon, method), []).append(learned(truth, fake, labels, run))
                score = found[epsilon, method][-1]
                print(f"  run {run}, ε = {epsilon:g}, {method}: {score:.4f}", file=sys.stderr, flush=True)
            best.append(learned(truth, truth, labels, run))
    print(
        f"F1 of nine classifiers for {', '.join(labels)}; {asked.runs} runs. The truth: {statistics.mean(best):.3f}\n"
    )
    rows = []
    for epsilon in asked.epsilons:
        mixture, aim = (found[epsilon, method] for method in METHODS)
        gains = [ours - other for ours, other in zip(mixture, aim, strict=True)]
        error = statistics.stdev(gains) / len(gains) ** 0.5 if len(gains) > 1 else float("nan")
        rows.append([f"{epsilon:g}", f"{statistics.mean(mixture):.3f}", f"{statistics.mean(aim):.3f}"])
        rows[-1] += [f"{statistics.mean(gains):+.4f} ± {error:.4f}", ", ".join(f"{gain:+.3f}" for gain in gains)]
    synth.markdown(["ε", "mixture", "aim", "mixture - aim", "in each run"], rows)


def synthetic(path, schema, method, epsilon, run):
    """As many synthetic rows as the noisy count says, for a whole budget."""
    with tempfile.TemporaryDirectory() as scratch:
        ledger, budget = Path(scratch) / "adult.ledger", gl.Budget(epsilon, synth.DELTA)
        data = synth.copied(path, scratch)
        people = gl.read(data, schema, protect=gl.Rows(1), ledger=ledger, budget=budget)
        return method().fit(people, spend=people.ledger.left).sample(seed=run)


def learned(truth, fake, labels, run):
    """The mean over labels, one at a time: more would start processes."""
    return statistics.mean(mean_f1(f1_scores(truth, fake, labels=[label], seed=run)) for label in labels)


if __name__ == "__main__":
    main()
