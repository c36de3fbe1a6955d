"""Generative networks with gaps: where they stand beside other methods, and what the mask generator learns.

    python bench/gans.py distances            Adult and BR2000, 20 % MCAR and MAR, ε = 1, 3, 10 and without noise
    python bench/gans.py masks                missing rates and pairs of gaps beside independent masks, MAR
    python bench/gans.py weights              free weights by the critic, Adult without gaps
    python bench/gans.py distances --runs 1 --tables adult --epsilons 3      some of it
    python bench/gans.py distances --only-print                              what was measured before

δ = 1e-6. Every measurement is a line of bench/results/gans.jsonl, and what is there is not measured again: delete the
file after a change of the methods. Distances are `kway_distance` to the complete truth of as many synthetic rows,
seconds those of the processor for a fit. Without noise: ε = ∞, the noise of a test, NOT PRIVATE; what is clipped and
drawn into lots stays. MisGAN on complete rows, and DPautoGAN there, are its baselines in [MD]. The tables are looked
for in ../shared, next to the repository.

Design and constants were chosen on Adult with gaps, MCAR with the seed of run 0 and mostly at ε = 3, by 2-way distances
of one run each, in some fifty runs: the critic's memory, clipping, kinds and widths of generators, rates and numbers of
their steps. So run 0 of Adult is not independent of the choice. How far the student of PATE-GAN follows votes, and on
how many rows they are taken, was chosen there too, in some fifteen runs. BR2000 was looked at once, at the end.
"""

import argparse
import itertools
import json
import math
import statistics
import sys
import tempfile
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import gapless as gl
import paper
import synth
from gapless.evaluate import kway_distance
from gapless.synth import TREATMENTS
from gapless.testing.noise import scaled_noise

RESULTS = paper.HERE / "results" / "gans.jsonl"
METHODS: dict[str, tuple[Any, str]] = {
    "misgan": (gl.synth.MisGAN, "observed"),
    "misgan, noised generators": (partial(gl.synth.MisGAN, noised="generators"), "observed"),
    "misgan, complete rows": (gl.synth.MisGAN, "complete-rows"),
    "dpautogan, complete rows": (gl.synth.DPautoGAN, "complete-rows"),
    "dpautogan": (gl.synth.DPautoGAN, "extended"),
    "dpgan": (gl.synth.DPGAN, "extended"),
    "dpcgan": (gl.synth.DPCGAN, "extended"),
    "dpctgan": (gl.synth.DPCTGAN, "extended"),
    "pategan": (gl.synth.PATEGAN, "extended"),
    "privbayes": (gl.PrivBayes, "observed"),
    "aim": (gl.AIM, "observed"),
    "mixture": (gl.Mixture, "extended"),
    "kaminoI": (gl.Kamino, "observed"),
}
MAKERS = {"MCAR": gl.MCAR, "MAR": gl.MAR}


def distances(asked):
    for gaps, epsilon, table in itertools.product(MAKERS, asked.epsilons, asked.tables):
        for method in asked.methods:
            yield {"what": "distances", "table": table, "gaps": gaps, "epsilon": epsilon, "method": method}


def masks(asked):
    for epsilon, table in itertools.product((3.0, math.inf), asked.tables):
        yield {"what": "masks", "table": table, "gaps": "MAR", "epsilon": epsilon, "method": "misgan"}


def weights(asked):
    for epsilon, method in itertools.product((1.0, 3.0), ("dpgan", "dpcgan", "misgan")):
        if epsilon in asked.epsilons:
            yield {"what": "weights", "table": "adult", "gaps": "", "epsilon": epsilon, "method": method}


PLANS = {"distances": distances, "masks": masks, "weights": weights}


def fitted(job, table):
    """The model, and the processor seconds of its fit."""
    private = job["epsilon"] < math.inf
    method, missing = METHODS[job["method"]]
    with tempfile.TemporaryDirectory() as folder, nullcontext() if private else scaled_noise(1e-9):
        people = gl.read(
            table.to_text(),
            table.schema,
            protect=gl.Rows(1),
            budget=gl.Budget(job["epsilon"] if private else 100.0, synth.DELTA),
            ledger=Path(folder) / "table.ledger",
        )
        begin = time.process_time()
        model = method(missing=TREATMENTS[missing]()).fit(people, spend=people.ledger.left)
        return model, time.process_time() - begin


def gaps_of(table):
    """1 where a cell is a gap: rows × columns."""
    columns = zip(table.codes, table.schema.columns, strict=True)
    return np.stack([codes >= column.size for codes, column in columns], axis=1).astype(np.float64)


def together(mask):
    """How often two columns are missing together, all pairs."""
    return (mask.T @ mask / len(mask))[np.triu_indices(mask.shape[1], 1)]


def measure(truths, job, run):
    truth = truths[job["table"]]
    table = MAKERS[job["gaps"]](0.2).apply(truth, seed=run) if job["gaps"] else truth
    model, seconds = fitted(job, table)
    if job["what"] == "masks":
        made = gaps_of(model.sample(truth.rows, seed=run, gaps="as-observed"))
        real = gaps_of(table)
        rates = real.mean(axis=0)
        alone = np.outer(rates, rates)[np.triu_indices(len(rates), 1)]
        return {
            "rates": float(np.abs(made.mean(axis=0) - rates).mean()),
            "pairs": float(np.abs(together(made) - together(real)).mean()),
            "independent": float(np.abs(alone - together(real)).mean()),
        }
    rows = model.sample(truth.rows, seed=run)
    fake = gl.Table(truth.schema, rows.codes, rows=rows.rows)
    found = {f"{k}-way": kway_distance(truth, fake, k=k) for k in (1, 2)}
    if job["what"] == "weights":
        critic_weights = gl.weights.CriticWeights(model).fit(rows)
        found |= {f"weighted {k}-way": kway_distance(truth, fake, k=k, weights=critic_weights) for k in (1, 2)}
        found["rows in effect"] = critic_weights.effective_rows / len(critic_weights)
    return found | {"fit s": seconds}


def known():
    return [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", choices=PLANS)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tables", nargs="*", default=["adult", "br2000"])
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--epsilons", nargs="*", type=float, default=[1.0, 3.0, 10.0, math.inf])
    parser.add_argument("--only-print", action="store_true")
    asked = parser.parse_args()
    if not (paper.SHARED / "data" / "adult.csv.gz").exists():
        print("Skipped: the tables are looked for in ../shared, next to the repository.")
        return
    truths, jobs = paper.Truths(), list(PLANS[asked.plan](asked))
    for run, job in itertools.product(range(0 if asked.only_print else asked.runs), jobs):
        if any(line["job"] == job and line["run"] == run for line in known()):
            continue
        line = {"job": job, "run": run, "found": measure(truths, job, run)}
        RESULTS.parent.mkdir(exist_ok=True)
        with RESULTS.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(line, file=sys.stderr, flush=True)
    (by_budget if asked.plan == "distances" else one_by_one)(jobs)


def means(job):
    """Of all runs of a job, and how many there are; nothing if there are none."""
    lines = [line["found"] for line in known() if line["job"] == job]
    return {name: statistics.mean(line[name] for line in lines) for name in lines[0]} if lines else {}, len(lines)


def by_budget(jobs):
    """A line for each method, the distances of one and of two columns for each ε."""
    epsilons = list(dict.fromkeys(job["epsilon"] for job in jobs))
    for table, gaps in dict.fromkeys((job["table"], job["gaps"]) for job in jobs):
        lines = {}
        for job in jobs:
            found, runs = means(job)
            if found and (job["table"], job["gaps"]) == (table, gaps):
                line = lines.setdefault(job["method"], {"runs": 0, "fit s": []})
                line[job["epsilon"]] = f"{found['1-way']:.4f} · {found['2-way']:.4f}"
                line["runs"], line["fit s"] = max(line["runs"], runs), [*line["fit s"], found["fit s"]]
        rows = [
            [method, *(line.get(epsilon, "") for epsilon in epsilons), f"{statistics.median(line['fit s']):.1f}"]
            for method, line in lines.items()
        ]
        most = max((line["runs"] for line in lines.values()), default=0)
        print(f"\n{table}, 20 % {gaps}, 1-way · 2-way, {most} run{'s' * (most > 1)} each\n")
        synth.markdown(["method", *(f"ε = {written(epsilon)}" for epsilon in epsilons), "fit s"], rows)


def one_by_one(jobs):
    rows, names = [], []
    for job in jobs:
        found, runs = means(job)
        if found:
            names = list(found)
            cells = [f"{mean:.1f}" if name == "fit s" else f"{mean:.4f}" for name, mean in found.items()]
            rows.append([job["table"], job["gaps"], written(job["epsilon"]), job["method"], str(runs), *cells])
    synth.markdown(["table", "gaps", "ε", "method", "runs", *names], rows)


def written(epsilon):
    return "∞ (no noise)" if epsilon == math.inf else f"{epsilon:g}"


if __name__ == "__main__":
    main()
