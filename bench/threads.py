"""What one thread for small matrix products saves on Adult: fits with a sample, and weights, with and without it.

    python bench/threads.py                                minutes; on a busy machine half an hour
    python bench/threads.py --methods kamino --runs 1

ε = 1, δ = 1e-6. Each run is a process of its own, with and without the limit in turn. Without it BLAS takes as many
threads as the machine has cores, as it does by default. Wall seconds follow what else runs on the machine, so its load
is printed too: on an idle one the difference is small, on a busy one threads wait for each other. The table is looked
for in ../shared/data, next to the repository.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path

ADULT = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv.gz"
METHODS = ("kamino", "dpgan", "logistic weights")
LIMITS = {"one thread": True, "no limit": False}
SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", default=METHODS, choices=METHODS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if not ADULT.exists():
        print(f"Skipped: {ADULT.name} is looked for in ../shared/data, next to the repository.")
        return
    if asked.one:
        print(json.dumps(measured(asked.one[0], limited=LIMITS[asked.one[1]])))
        return
    loads, found = [os.getloadavg()[0]], {}
    for _ in range(asked.runs):
        for method in asked.methods:
            for limit in LIMITS:
                found.setdefault((method, limit), []).append(once(method, limit))
                loads.append(os.getloadavg()[0])
    print(f"\n{os.cpu_count()} cores, load {min(loads):.1f} to {max(loads):.1f}; medians of runs: {asked.runs}\n")
    print("| method | | wall s | processor s | wall ÷ | processor ÷ |")
    print("|---|---|---:|---:|---:|---:|")
    for method in asked.methods:
        medians = {
            limit: [statistics.median(column) for column in zip(*found[method, limit], strict=True)] for limit in LIMITS
        }
        for limit, (wall, processor) in medians.items():
            ratios = [f"{a / b:.1f}" for a, b in zip((wall, processor), medians["one thread"], strict=True)]
            print(f"| {method} | {limit} | {wall:.1f} | {processor:.1f} | {' | '.join(ratios)} |")


def once(method, limit):
    """One run in a process of its own, which is free to take all cores."""
    environment = {name: value for name, value in os.environ.items() if name not in SETTINGS}
    command = [sys.executable, __file__, "--one", method, limit]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{method}, {limit}: {done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def measured(method, *, limited):
    """Wall and processor seconds of a fit and a sample, or of weights; reading the table is not counted."""
    import gapless as gl
    import kamino
    from gapless import threads

    if not limited:
        setattr(threads, "threadpool_limits", lambda _: nullcontext())  # noqa: B010 an import, not an export
    table = kamino.Tables()["adult"]
    with tempfile.TemporaryDirectory() as folder:
        budget, ledger = gl.Budget(1.0, 1e-6), Path(folder) / "adult.ledger"
        people = gl.read(table.to_text(), table.schema, protect=gl.Rows(1), budget=budget, ledger=ledger)
        synthesizer = {"kamino": gl.Kamino, "dpgan": gl.synth.DPGAN}.get(method, gl.Independent)()
        begin = time.perf_counter(), time.process_time()
        model = synthesizer.fit(people, spend=people.ledger.share("50%"))
        sample = model.sample(table.rows, seed=0)
        if method == "logistic weights":
            begin = time.perf_counter(), time.process_time()
            gl.weights.LogisticWeights().fit(people, sample, spend=people.ledger.left)
        return time.perf_counter() - begin[0], time.process_time() - begin[1]


if __name__ == "__main__":
    main()
