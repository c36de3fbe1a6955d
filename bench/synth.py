"""Synthesizers: gapless beside its peers in one run, scored alike; and how the cost grows with the table.

    sh bench/peers_setup.sh                  once: an environment for each peer, under bench/envs/
    python bench/synth.py                    Adult, BR2000, Bank and a simulated table, at ε = 1, δ = 1e-6
    python bench/synth.py --methods mixture+aim --tables adult+dense --epsilons 1+3+10 --modes extended     some of it
    python bench/synth.py --scaling          10,000 to 1,000,000 rows, 1,000,000 × 30, 100 columns
    python bench/synth.py --only-print       the tables again, from what was measured before

Every measurement is one fresh process. Its record is a line of bench/results/synth.jsonl, and what is there is not
measured again: gapless is measured again when its source has changed, a peer never (delete its lines for that).
Processor seconds, not wall time. The tables and the scorer are looked for in ../shared, next to the repository.
"""

import argparse
import builtins
import contextlib
import csv
import gzip
import hashlib
import importlib
import itertools
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

# This process stays small (no numpy): the peak memory that Linux reports for a process includes that of its starter.
HERE = Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "gapless"
SHARED = HERE.parent.parent / "shared"
EPSILON, DELTA = 1.0, 1e-6
PATIENCE = 300  # processor seconds: a peer that needs more for one fit is not asked again
METHODS = ("mixture", "aim", "mst", "privbayes", "independent")
MODES = ("extended", "observed", "complete-rows")
TABLES = {  # name: (file of the data, file of the truth)
    "adult": ("adult", "adult"),
    "adult MCAR 0.2": ("adult_MCAR_0.2", "adult"),
    "adult MAR 0.2": ("adult_MAR_0.2", "adult"),
    "br2000 MAR 0.2": ("br2000_MAR_0.2", "br2000"),
    "bank": ("bank", "bank"),  # nothing was tuned on Bank
    "bank MCAR 0.2": ("bank_MCAR_0.2", "bank"),
    "bank MAR 0.2": ("bank_MAR_0.2", "bank"),
    "dense": ("dense", "dense"),  # simulated: 30,000 rows, 40 columns of 4 cells that all hang on three factors
}
PEERS = {  # name: (environment, name in peers.py, options)
    "base-bootstrap": ("dpmm", "base-bootstrap", []),
    "base-indep": ("dpmm", "base-indep", []),
    "dpmm-mst": ("dpmm", "dpmm-mst", []),
    "opendp-mst": ("opendp", "opendp-mst", []),
    "opendp-mst, rows drawn": ("opendp", "opendp-mst", ["method=sample"]),  # its default row generator is faulty
    "smartnoise-mst": ("smartnoise", "sn-mst", []),
    "smartnoise-mst, rows drawn": ("smartnoise", "sn-mst", ["method=sample"]),
    "datasynthesizer": ("datasynthesizer", "ds-privbayes", []),
    "dpmm-privbayes": ("dpmm", "dpmm-privbayes", []),
    "opendp-aim": ("opendp", "opendp-aim", []),
    "opendp-aim, rows drawn": ("opendp", "opendp-aim", ["method=sample"]),
    "dpmm-aim": ("dpmm", "dpmm-aim", []),
}
ERRORS = ("tvd1", "tvd2", "tvd3")
MIXTURE_AT_MOST = {  # (table, ε): distances of pairs and of triples
    ("adult", 1): (0.0172, 0.041),
    ("adult", 3): (0.0105, 0.029),
    ("adult", 10): (0.0070, 0.022),
    ("adult MCAR 0.2", 1): (0.0250, None),
    ("adult MAR 0.2", 1): (0.0240, None),
    ("dense", 1): (0.016, None),
    ("dense", 3): (0.008, None),
    ("dense", 10): (0.0045, None),
    ("bank", 1): (0.0080, None),
    ("br2000 MAR 0.2", 1): (0.0100, None),
}


# ---------------------------------------------------------------- one measurement, in a process of its own


def processor():
    """Processor seconds of this process, all threads, and of its finished children."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


class Clock:
    def __init__(self):
        self.seconds = {}

    @contextlib.contextmanager
    def __call__(self, phase):
        start, late = processor(), self.seconds.get("late_import", 0.0)
        try:
            yield
        finally:
            used = processor() - start
            if phase != "late_import":
                used -= self.seconds.get("late_import", 0.0) - late
            self.seconds[phase] = self.seconds.get(phase, 0.0) + used


def late_imports(clock):
    """Time the imports that happen inside other phases: they are taken out of these."""
    depth = 0

    def timed(plain):
        def imported(*given, **named):
            nonlocal depth
            with clock("late_import") if depth == 0 else contextlib.nullcontext():
                depth += 1
                try:
                    return plain(*given, **named)
                finally:
                    depth -= 1

        return imported

    builtins.__import__, importlib.import_module = timed(builtins.__import__), timed(importlib.import_module)


def fit(job):
    """Fit and sample once; peak memory as it was before the sample is written."""
    clock = Clock()
    with clock("import"):
        import gapless as gl
        from gapless.data.engines import memory as counting
        from gapless.missing import STRATEGIES
        from gapless.synth import METHODS as KNOWN
    if job["tool"] not in KNOWN:
        return {"skipped": True}
    plain = counting.count_marginals

    def counted(*given, **named):
        with clock("counting"):
            return plain(*given, **named)

    for module in [m for name, m in sys.modules.items() if name.startswith("gapless")]:
        if getattr(module, "count", None) is plain:
            setattr(module, "count", counted)  # noqa: B010 a module has no such attribute by its type
    late_imports(clock)
    with clock("read"):
        people = gl.read(
            job["data"],
            gl.Schema.read(job["schema"]),
            protect=gl.Rows(1),
            ledger=job["ledger"],
            budget=gl.Budget(job["epsilon"], job["delta"]),
        )
    method = KNOWN[job["tool"]](missing=STRATEGIES[job["missing"]]())
    with clock("fit"):
        model = method.fit(people, spend=people.ledger.left)
    with clock("sample"):
        sample = model.sample(job["sample_rows"], seed=job["repetition"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    sample.write(job["out"])
    clock.seconds["imports"] = clock.seconds.pop("import") + clock.seconds.pop("late_import", 0.0)
    return {f"{phase}_s": round(used, 3) for phase, used in clock.seconds.items()} | {
        "peak_mb": round(peak / 1024),
        "describe": model.describe(),
    }


def decode(job):
    """The codes that peers.py saves, as a table that score.py reads: bins by their middle."""
    import numpy as np
    import pandas as pd

    truth, codes = pd.read_csv(job["truth"]).dropna(), np.load(job["codes"])
    columns = {}
    for j, name in enumerate(truth):
        column = truth[name]
        if pd.api.types.is_numeric_dtype(column) and column.nunique() > 10:
            low, high = float(column.min()), float(column.max())
            values = np.array([low + (high - low) * (k + 0.5) / 10 for k in range(10)] + [np.nan])
        else:
            values = np.array([*sorted(column.unique().tolist()), None], dtype=object)
        columns[name] = values[codes[:, j]]  # a gap is -1, the last one
    pd.DataFrame(columns).to_csv(job["out"], index=False)
    return {}


def generate(job):
    """A table of correlated categories: each column copies an earlier one, in part; one cell in twenty is a gap."""
    import numpy as np
    import polars as pl

    rng = np.random.default_rng(job["columns"])
    rows, sizes = job["rows"], rng.integers(2, 17, job["columns"])
    made, frame, schema = [], {}, [f'[table]\nname = "{job["name"]}"\n']
    for j, size in enumerate(sizes):
        weights = rng.dirichlet(np.ones(size))
        codes = rng.choice(size, rows, p=weights).astype(np.uint8)
        if j:
            parent, renamed = made[rng.integers(max(0, j - 4), j)], rng.integers(0, size, 16)
            copied = rng.random(rows) < rng.uniform(0.2, 0.8)
            codes[copied] = renamed[parent[copied]]
        made.append(codes)
        levels = [f"v{k}" for k in range(size)]
        seen = np.where(rng.random(rows) < 0.05, size, codes)
        frame[f"x{j}"] = pl.Series(seen).replace_strict(list(range(size + 1)), [*levels, None], return_dtype=pl.String)
        schema.append(f'[column.x{j}]\nkind = "categorical"\nlevels = {json.dumps(levels)}')
        schema.append('may_be_missing = true\nmissing = [""]\n')
    pl.DataFrame(frame).write_parquet(job["out"])
    Path(job["schema"]).write_text("\n".join(schema), encoding="utf-8")
    return {}


def simulate(job):
    """The dense table of bench/mixture.py."""
    import pandas as pd

    import mixture

    make, _ = mixture.TABLES["dense"]
    codes, _, _ = make(None)
    pd.DataFrame({f"x{j}": [f"v{code}" for code in codes[:, j]] for j in range(codes.shape[1])}).to_csv(
        job["out"], index=False
    )
    return {}


# ---------------------------------------------------------------- starting processes


def run(command, *, cap, env=None):
    """Run it with a cap on its processor seconds; gives its last line, what it used, and why it failed, if it did."""
    limited = ["/bin/sh", "-c", f'ulimit -t {cap}; exec "$@"', "sh", *map(str, command)]
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        start = time.perf_counter()
        child = subprocess.Popen(limited, stdout=out, stderr=err, env=os.environ | single | (env or {}))
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = code = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        lines, moans = out.read().strip().splitlines(), err.read().strip().splitlines()
    facts: dict[str, Any] = {
        "process_s": round(used.ru_utime + used.ru_stime, 2),
        "wall_s": round(time.perf_counter() - start, 2),
        "process_peak_mb": round(used.ru_maxrss / 1024),
    }
    if code < 0 and facts["process_s"] >= 0.95 * cap:  # the clock of the limit is not quite ours
        facts["error"] = f"stopped after {cap} processor-seconds"
    elif code:
        facts["error"] = moans[-1][:300] if moans else f"ended with {code}"
    return (lines[-1] if lines else "{}"), facts


def python_job(python, name, job, cap=3600):
    last, facts = run([python, Path(__file__).resolve(), f"_{name}", json.dumps(job)], cap=cap)
    return facts if "error" in facts else json.loads(last) | facts


def score(python, truth, synthetic):
    last, facts = run([python, SHARED / "bench" / "score.py", truth, synthetic], cap=600)
    if "error" in facts:
        return {"error": f"score.py: {facts['error']}"}
    return {name: json.loads(last)[name] for name in ERRORS}


# ---------------------------------------------------------------- tables


class Tables:
    """The shared tables, unpacked where a run can use them; the truth without its incomplete rows."""

    def __init__(self, folder, python):
        self.folder, self.python = Path(folder), python

    def data(self, name):
        path = self.folder / "Original" / f"{name}.csv"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            if name == "dense":
                made = python_job(self.python, "simulate", {"out": str(path)})
                if "error" in made:
                    raise RuntimeError(f"{name}: {made['error']}")
                return path
            with gzip.open(SHARED / "data" / f"{name}.csv.gz", "rb") as packed, path.open("wb") as plain:
                shutil.copyfileobj(packed, plain)
        return path

    def truth(self, name):
        path = self.folder / f"{name}_truth.csv"
        if not path.exists():
            with self.data(name).open(newline="") as raw, path.open("w", newline="") as complete:
                csv.writer(complete).writerows(row for row in csv.reader(raw) if all(row))
        return path

    def rows(self, name):
        with self.truth(name).open() as lines:
            return sum(1 for _ in lines) - 1

    def schema(self, name):
        path = self.folder / f"{name}.toml"
        if not path.exists():
            made = subprocess.run(
                [self.python, SHARED / "bench" / "score.py", "--schema", self.truth(name), name],
                check=True,
                stdout=subprocess.PIPE,
            )
            path.write_bytes(made.stdout)
        return path

    def bootstrap(self, name, rows):
        path = self.folder / f"{name}_{rows}.csv"
        if not path.exists():
            head, *lines = self.truth(name).read_text().splitlines(keepends=True)
            path.write_text(head + "".join(random.Random(rows).choices(lines, k=rows)))
        return path


# ---------------------------------------------------------------- results


class Results:
    """A file with one line for each measurement."""

    def __init__(self, path):
        self.path = path
        self.records = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def has(self, key):
        return any(all(record.get(name) == value for name, value in key.items()) for record in self.records)

    def add(self, record):
        self.records.append(record)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record) + "\n")
        message = record.get("error")
        if message is None:
            seconds = cost([record])
            errors = [f"{name} {record[name]:.4f}" for name in ERRORS if name in record]
            message = ", ".join([f"{seconds:.2f} cpu s", f"{record['peak_mb']} MB", *errors])
        parts = ("tool", "missing", "table", "rows", "epsilon")
        name = " ".join(str(record[part]) for part in parts if record.get(part))
        print(f"  {name} #{record['repetition']}: {message}", file=sys.stderr, flush=True)

    def groups(self, **wanted):
        """Records of equal settings; of gapless only those of the newest source that was measured for them."""
        grouped = {}
        for record in self.records:
            if all(record.get(name) == value for name, value in wanted.items()):
                key = tuple(record.get(part) for part in ("tool", "missing", "table", "rows", "epsilon"))
                grouped.setdefault(key, []).append(record)
        return {key: [r for r in found if r.get("source") == found[-1].get("source")] for key, found in grouped.items()}


def source():
    """A fingerprint of the code that is measured."""
    digest = hashlib.sha256()
    for room in ("data", "missing", "model", "privacy", "schema", "synth"):
        for path in sorted((SOURCE / room).glob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:10]


def middle(records, name):
    values = [record[name] for record in records if name in record]
    return statistics.median(values) if values else None


# ---------------------------------------------------------------- the runs


def measure_gapless(options, tables, results):
    for repetition in range(options.repetitions):
        asked = itertools.product(options.tables, options.epsilons, options.methods, options.modes)
        for table, epsilon, method, mode in asked:
            data, truth = TABLES[table]
            if data == truth and mode == "complete-rows":
                continue  # there it is the same as observed
            path = tables.truth(truth) if data == truth else tables.data(data)
            key = {"kind": "gapless", "tool": method, "missing": mode, "table": table, "repetition": repetition}
            key |= {"epsilon": epsilon}
            one_gapless(options, tables, results, key, path, truth=truth)


def copied(path, folder):
    """A copy for one fit: the tables are public, and a file that was paid for takes no second ledger."""
    return shutil.copy(path, tempfile.mkdtemp(dir=folder))


def one_gapless(options, tables, results, key, path, *, truth=None, schema=None):
    key = {"epsilon": EPSILON} | key | {"delta": DELTA, "source": source()}
    if key["tool"] not in options.methods or results.has(key):
        return
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "synthetic.csv"
        job = key | {
            "data": copied(path, scratch),
            "schema": str(schema or tables.schema(truth)),
            "ledger": f"{scratch}/table.ledger",
            "sample_rows": tables.rows(truth) if truth else 30_000,
            "out": str(out),
        }
        measured = python_job(options.python, "fit", job, options.cap)
        if "skipped" in measured:
            print(f"  {key['tool']}: skipped, gapless has no such method yet", file=sys.stderr)
            options.methods = [method for method in options.methods if method != key["tool"]]
            return
        if "error" not in measured and key["kind"] == "gapless":
            measured |= score(options.python, tables.truth(truth), out)
    results.add(key | measured)


def measure_peers(options, tables, results):
    tables.data("adult")
    for name in options.peers:
        env, peer, given = PEERS[name]
        python = HERE / "envs" / env / "bin" / "python"
        for seed in range(options.peer_seeds):
            key = {"kind": "peer", "tool": name, "table": "adult", "epsilon": EPSILON, "delta": DELTA}
            key |= {"repetition": seed}
            if results.has(key):
                continue
            if not (HERE / "envs" / env / "ready").exists():
                print(f"  {name}: skipped, no environment (sh bench/peers_setup.sh {env})", file=sys.stderr)
                break
            twins = [other for other, (_, same, _) in PEERS.items() if same == peer]
            if any(r["tool"] in twins and r.get("error", "").startswith("stopped") for r in results.records):
                print(f"  {name}: skipped, this fit did not end before", file=sys.stderr)
                break
            with tempfile.TemporaryDirectory() as scratch:
                codes, out = f"{scratch}/codes.npy", f"{scratch}/synthetic.csv"
                command = [python, SHARED / "bench" / "peers.py", "--peer", peer, "--seed", seed, "--save", codes]
                command += ["--data", "Original/adult.csv", "--epsilon", EPSILON, "--delta", DELTA]
                command += ["--opt", *given] if given else []
                last, facts = run(command, cap=options.cap, env={"BENCH_DATA": str(tables.folder)})
                record = json.loads(last)
                measured = {k: record[k] for k in ("error", "sample_s") if k in record} if record else {}
                if "error" not in measured and "error" not in facts:
                    measured |= {
                        "fit_s": record["fit_cpu_s"],
                        "peak_mb": max(record["rss_peak_mb"], record["rss_child_mb"]),
                    }
                    job = {"truth": str(tables.truth("adult")), "codes": codes, "out": out}
                    measured |= {k: v for k, v in python_job(options.python, "decode", job).items() if k == "error"}
                    measured |= score(options.python, tables.truth("adult"), out)
            results.add(key | facts | measured)
            if "error" in facts | measured or measured["fit_s"] > PATIENCE:
                break  # it will not end, or not be quicker, with another seed


def measure_scaling(options, tables, results):
    methods = [method for method in ("mst", "aim") if method in options.methods]
    key = {"kind": "scaling", "missing": "extended", "repetition": 0}
    if (SHARED / "data").exists():
        for rows, method in itertools.product((10_000, 30_000, 100_000, 300_000, 1_000_000), methods):
            mine = key | {"tool": method, "table": "adult bootstrapped", "rows": rows}
            one_gapless(options, tables, results, mine, tables.bootstrap("adult", rows), truth="adult")
    else:
        print("Adult bootstrapped: skipped, the table is looked for in ../shared, next to the repository.")
    for rows, columns in ((1_000_000, 30), (30_000, 100)):
        name = f"generated, {columns} columns"
        path, schema = tables.folder / f"generated_{columns}.parquet", tables.folder / f"generated_{columns}.toml"
        job = {"rows": rows, "columns": columns, "name": name, "out": str(path), "schema": str(schema)}
        made = python_job(options.python, "generate", job)
        if "error" in made:
            print(f"{name}: skipped, it could not be generated: {made['error']}")
            continue
        for method in methods:
            one_gapless(
                options, tables, results, key | {"tool": method, "table": name, "rows": rows}, path, schema=schema
            )


# ---------------------------------------------------------------- printing


def shown(value, digits=4):
    return "–" if value is None else f"{value:,.{digits}f}"


def markdown(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + "|".join("---" if i == 0 else "---:" for i in range(len(head))) + "|")
    for row in rows:
        print("| " + " | ".join(row) + " |")


def cost(records):
    """Fit and sample together. For a peer the fit only: peers.py tells the wall time of its sampling, no more."""
    fitted, sampled = middle(records, "fit_s"), middle(records, "sample_s")
    return fitted if fitted is None or records[0]["kind"] == "peer" else fitted + sampled


def print_results(results):
    groups = results.groups(kind="gapless") | results.groups(kind="peer")
    peers = {
        key: records
        for key, records in groups.items()
        if records[0]["kind"] == "peer" and not key[0].startswith("base-") and middle(records, "tvd2") is not None
    }
    closest = min(peers, key=lambda key: middle(peers[key], "tvd2"), default=None)
    fastest = min(peers, key=lambda key: cost(peers[key]), default=None)
    for table, epsilon in itertools.product(TABLES, sorted({key[-1] for key in groups})):
        here = {key: records for key, records in groups.items() if (key[2], key[-1]) == (table, epsilon)}
        if not here:
            continue
        print(f"\n### {table}, ε = {epsilon:g}, δ = {DELTA:g}\n")
        compared = (table, epsilon) == ("adult", EPSILON) and closest is not None
        head = [
            "tool",
            "runs",
            "1-way",
            "2-way",
            "3-way",
            "fit cpu s",
            "sample cpu s",
            "peak MB",
            "imports cpu s",
            "process cpu s",
        ]
        rows = []
        for key, records in sorted(here.items(), key=lambda item: middle(item[1], "tvd2") or 9):
            is_gapless = records[0]["kind"] == "gapless"
            error = next((record["error"] for record in records if "error" in record), None)
            row = [f"**gapless {key[0]}**, {key[1]}" if is_gapless else key[0], str(len(records))]
            row += [shown(middle(records, name)) for name in ERRORS]
            row += [shown(middle(records, "fit_s"), 2), shown(middle(records, "sample_s") if is_gapless else None, 2)]
            row += [shown(middle(records, "peak_mb"), 0), shown(middle(records, "imports_s"), 2)]
            row.append(shown(middle(records, "process_s"), 1))
            if error:
                row[0] += f" ({error})"
            if compared and middle(records, "tvd2") is not None:
                row.append(shown(middle(records, "tvd2") / middle(peers[closest], "tvd2"), 2))
                row.append(shown(cost(records) / cost(peers[fastest]), 4))
                row.append(shown(cost(records) / cost(peers[closest]), 4))
            elif compared:
                row += ["–", "–", "–"]
            rows.append(row)
        markdown(head + (["2-way ÷ best peer", "cpu ÷ fastest peer", "cpu ÷ best peer"] if compared else []), rows)
        if compared and closest is not None and fastest is not None:
            print(f"\nBest peer by 2-way distance: {closest[0]}; fastest: {fastest[0]} (base-… are marks, not peers).")
            print(
                "The cost of a peer is its fit alone, ours is fit + sample. Process: all of it, with imports, reading"
            )
            print("and writing, and for a peer its own scoring.")
    print_targets(groups, closest)


class Targets:
    """What was measured beside what it may be at most."""

    def __init__(self, groups):
        self.groups, self.rows = groups, []

    def value(self, tool, mode, table, name, epsilon=EPSILON):
        records = self.groups.get((tool, mode, table, None, epsilon), [])
        return (cost(records) if name == "cost" else middle(records, name)) if records else None

    def add(self, label, measured, limit, digits=4):
        if measured is None or limit is None:
            cells = "–", shown(limit, digits), "not measured"
        else:
            cells = shown(measured, digits), shown(limit, digits), "pass" if measured <= limit else "FAIL"
        self.rows.append([label, *cells])


def print_targets(groups, closest):
    targets = Targets(groups)
    mixture_targets(targets)
    aim_targets(targets, closest and (closest[0], middle(groups[closest], "tvd2")))
    print("\n### Targets\n")
    markdown(["target", "measured", "at most", ""], targets.rows)


def mixture_targets(targets):
    for (table, epsilon), (pairs, triples) in MIXTURE_AT_MOST.items():
        limits = [("tvd2", "2-way", pairs, 4)]
        if triples is not None:
            limits.append(("tvd3", "3-way", triples, 4))
        if table.startswith("adult"):
            seconds = 3 if table == "adult" else 5
            limits += [("cost", "fit + sample cpu s", seconds, 2), ("peak_mb", "peak MB", 300, 0)]
        for name, label, limit, digits in limits:
            measured = targets.value("mixture", "extended", table, name, epsilon)
            targets.add(f"{table}, ε = {epsilon:g}, mixture extended: {label}", measured, limit, digits)


def aim_targets(targets, peer):
    value, target = targets.value, targets.add
    for mode in ("extended", "observed"):
        target(f"Adult complete, aim {mode}: 2-way", value("aim", mode, "adult", "tvd2"), 0.021)
        target(f"Adult complete, aim {mode}: 3-way", value("aim", mode, "adult", "tvd3"), 0.050)
        if peer is not None:
            target(f"Adult complete, aim {mode}: 2-way of {peer[0]}", value("aim", mode, "adult", "tvd2"), peer[1])
        target(f"Adult complete, aim {mode}: fit + sample cpu s", value("aim", mode, "adult", "cost"), 5, 2)
        target(f"Adult complete, aim {mode}: peak MB", value("aim", mode, "adult", "peak_mb"), 500, 0)
        target(f"Adult complete, mst {mode}: fit + sample cpu s", value("mst", mode, "adult", "cost"), 1, 2)
    for mode in ("extended", "observed"):
        target(f"Adult MCAR 0.2, aim {mode}: 2-way", value("aim", mode, "adult MCAR 0.2", "tvd2"), 0.025)
    for table, mode in itertools.product(("adult MCAR 0.2", "adult MAR 0.2"), ("extended", "observed")):
        label = f"A{table[1:]}, aim {mode}"
        target(f"{label}: fit + sample cpu s", value("aim", mode, table, "cost"), 5, 2)
        target(f"{label}: peak MB", value("aim", mode, table, "peak_mb"), 500, 0)
    target("Adult MAR 0.2, aim extended: 2-way", value("aim", "extended", "adult MAR 0.2", "tvd2"), 0.025)
    for method in ("aim", "mst", "privbayes"):
        for name in ("tvd1", "tvd2"):
            extended, observed = (value(method, mode, "br2000 MAR 0.2", name) for mode in ("extended", "observed"))
            target(f"BR2000 MAR 0.2, {method}: {name[3]}-way of extended below observed", extended, observed)


def print_scaling(results):
    groups = results.groups(kind="scaling")
    if not groups:
        return
    print(f"\n### How the cost grows (missing=Extended(), ε = {EPSILON:g}, 30,000 rows sampled)\n")
    rows = []
    for (tool, _, table, size, _), records in sorted(
        groups.items(), key=lambda item: (item[0][2], item[0][0], item[0][3])
    ):
        name = f"gapless {tool}, {table}" + (f" ({records[0]['error']})" if "error" in records[0] else "")
        counted, fitted = middle(records, "counting_s"), middle(records, "fit_s")
        rest = None if fitted is None else fitted - (counted or 0)
        row = [name, f"{size:,}", shown(middle(records, "read_s"), 2), shown(counted, 2), shown(rest, 2)]
        row += [shown(middle(records, "sample_s"), 2), shown(middle(records, "peak_mb"), 0)]
        row += [shown(middle(records, "process_s"), 1), shown(middle(records, "wall_s"), 1)]
        rows.append(row)
    head = ["tool, table", "rows", "read cpu s", "fit: counting", "fit: the rest", "sample", "peak MB"]
    markdown([*head, "process cpu s", "wall s"], rows)
    for tool in ("mst", "aim"):
        few, many = (groups.get((tool, "extended", "adult bootstrapped", n, EPSILON), []) for n in (100_000, 1_000_000))
        if few and many and all("fit_s" in record for record in (few[0], many[0])):
            counting, rest = (
                [read(records[0]) for records in (few, many)]
                for read in (lambda record: record["counting_s"], lambda record: record["fit_s"] - record["counting_s"])
            )
            print(f"\n{tool}, from 100,000 to 1,000,000 rows: counting × {counting[1] / counting[0]:.1f}", end="")
            print(f", the rest of the fit × {rest[1] / rest[0]:.2f}.")


def main():
    if len(sys.argv) == 3 and sys.argv[1] in ("_fit", "_decode", "_generate", "_simulate"):
        print(json.dumps(globals()[sys.argv[1][1:]](json.loads(sys.argv[2]))))
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names: dict[str, Any] = {"type": lambda text: [word.strip() for word in text.split(";" if ";" in text else "+")]}
    parser.add_argument("--methods", **names, default=list(METHODS), help="of gapless: aim+mst; none for none")
    parser.add_argument("--tables", **names, default=list(TABLES), help="'adult+adult MAR 0.2'")
    parser.add_argument("--modes", **names, default=list(MODES), help="'extended+observed'")
    parser.add_argument("--epsilons", **names, default=[EPSILON], help="of gapless: 1+3+10 (1; peers have 1)")
    parser.add_argument("--peers", **names, default=list(PEERS), help="'dpmm-mst+opendp-mst'; none for none")
    parser.add_argument("--repetitions", type=int, default=5, help="of gapless (5)")
    parser.add_argument(
        "--peer-seeds", type=int, default=5, help=f"seeds for each peer (5; a fit above {PATIENCE} s is measured once)"
    )
    parser.add_argument("--cap", type=int, default=900, help="processor seconds for one run (900)")
    parser.add_argument("--python", default=sys.executable, help="with gapless and pandas (this one)")
    parser.add_argument("--results", type=Path, default=HERE / "results" / "synth.jsonl")
    parser.add_argument("--scaling", action="store_true", help="only the growth of the cost")
    parser.add_argument("--only-print", action="store_true")
    options = parser.parse_args()
    given = (options.methods, METHODS), (options.tables, TABLES), (options.modes, MODES), (options.peers, PEERS)
    for chosen, known in given:
        wrong = [word for word in chosen if word not in known and word != "none"]
        if wrong:
            parser.error(f"not known: {', '.join(wrong)}; there are {', '.join(known)}")
    options.epsilons = list(map(float, options.epsilons))
    options.methods, options.peers = ([w for w in part if w != "none"] for part in (options.methods, options.peers))
    results = Results(options.results)
    if not options.only_print:
        with tempfile.TemporaryDirectory() as folder:
            tables = Tables(folder, options.python)
            if options.scaling:
                measure_scaling(options, tables, results)
            elif all((SHARED / part).exists() for part in ("data/adult.csv.gz", "bench/peers.py", "bench/score.py")):
                measure_peers(options, tables, results)
                measure_gapless(options, tables, results)
            else:
                print("Skipped: the tables and scorer are looked for in ../shared, next to the repository.")
    print_results(results)
    print_scaling(results)


if __name__ == "__main__":
    main()
