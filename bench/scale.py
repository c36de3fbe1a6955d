"""Tables larger than memory: counting, fitting and sampling from files, beside the bare kernel and other engines.

    python bench/scale.py [--rows 100_000_000] [--folder /tmp] [--only pairs,growth,peer,engines,groups,wide,aim,sample]

Each figure is of a process of its own: processor seconds and the highest resident memory, as the system counts them.
The table is made in the folder, with gaps, and deleted afterwards. *Bare* is one bincount for each pair on what polars
reads, nothing checked. Targets: all 105 pairs of 15 columns within 4 GiB and 1.3 times the processor time of the bare
kernel; growth that is linear; 10 million rows of 30 columns end to end within 4 GiB. The peer is mbi, which private-pgm
and OpenDP count with, in the environment that `sh bench/peers_setup.sh opendp` makes.
"""

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
from gapless.data.io.register import REGISTER

SIZES = [11, 10, 11, 17, 11, 8, 16, 7, 6, 3, 11, 11, 11, 12, 3]  # cells with the gap, as in bench/counting.py
PAIRS = list(itertools.combinations(range(len(SIZES)), 2))
PART = 1 << 20
LIMIT = 4 << 30  # bytes
TARGET = 1.3


def schema_of(columns):
    sizes = [SIZES[column % len(SIZES)] for column in range(columns)]
    return gl.Schema(
        "scale", [gl.Categorical(f"x{i}", list(range(k - 1)), may_be_missing=True) for i, k in enumerate(sizes)]
    )


def make(path, rows, columns):
    """Columns that go together through one hidden number, each with its own share of gaps; some rows at a time."""
    from gapless.data.io.table_files import write_frames

    sizes = [SIZES[column % len(SIZES)] for column in range(columns)]

    def frames():
        for start in range(0, rows, PART):
            rng, many = np.random.default_rng(start), min(PART, rows - start)
            hidden = rng.integers(0, 256, many, dtype=np.uint8)
            found = {}
            for column, size in enumerate(sizes):
                independent = rng.integers(0, 256, many, dtype=np.uint8) & hidden
                codes = pl.Series((independent.astype(np.uint16) * (size - 1) >> 8).astype(np.uint8))
                gaps = pl.Series(rng.random(many, dtype=np.float32) < 0.05 + 0.02 * (column % 15))
                found[f"x{column}"] = pl.select(pl.when(~gaps).then(codes)).to_series()
            yield pl.DataFrame(found)

    write_frames(frames(), Path(path), schema_of(columns))


# ---------------------------------------------------------------------- what each process does


def bare(path):
    """The obvious loop: one bincount for each pair."""
    names = [f"x{column}" for column in range(len(SIZES))]
    filled = [pl.col(name).fill_null(size - 1) for name, size in zip(names, SIZES, strict=True)]
    counts = {(i, j): np.zeros(SIZES[i] * SIZES[j], dtype=np.int64) for i, j in PAIRS}
    for frame in pl.scan_parquet(path).with_columns(filled).collect_batches(chunk_size=1 << 18):
        codes = [frame[name].to_numpy().astype(np.uint16) for name in names]
        for i, j in PAIRS:
            counts[i, j] += np.bincount(codes[i] * np.uint16(SIZES[j]) + codes[j], minlength=counts[i, j].size)
    return {"rows": int(counts[0, 1].sum())}


def opened(path, engine, columns=15):
    if isinstance(path, str | Path):  # simulated rows: each measurement may have a budget of its own
        (Path(path).parent / REGISTER).unlink(missing_ok=True)
    return gl.read(
        path,
        schema_of(columns),
        protect=gl.Rows(1),
        budget=gl.Budget(1.0, 1e-9),
        ledger=Path(tempfile.mkdtemp()) / "scale.ledger",
        engine=engine,
    )


def pairs(path, engine):
    """All pairs, by the engine, without noise: what a release counts. Reading, with its look at every cell, apart."""
    begin = spent()
    table = opened(path, engine)
    read = spent() - begin
    held = table._rows._open(table.ledger._key)  # noqa: SLF001 counts are thrown away
    begin = spent()
    counts = held.count(PAIRS, SIZES, SIZES)
    return {"rows": int(counts[0].sum()), "read_cpu": read, "count_cpu": spent() - begin}


def fit(path, engine, method, columns, rows=0):
    """Read, fit, and write as many synthetic rows."""
    table = opened(path, engine, columns)
    from gapless.synth import METHODS

    model = METHODS[method]().fit(table, spend=table.ledger.left)
    if rows:
        model.write_sample(Path(path).with_name("fake.parquet"), rows, seed=1)
    return {"spent": table.ledger.percentages()[0], **{k: v for k, v in model.facts.settings.items() if k != "missing"}}


def sample(path, rows):
    model = gl.load(path)
    target = Path(path).with_name("sample.parquet")
    drawn = model.write_sample(target, rows, seed=1)
    written = pl.scan_parquet(target).select(pl.len()).collect().item()
    size = target.stat().st_size
    target.unlink()
    return {"rows": drawn, "written": written, "megabytes": round(size / 1e6)}


def model_file(path, target):
    """A model of the first million rows, to sample from."""
    frame = pl.scan_parquet(path).head(1_000_000).collect()
    table = opened(frame, "memory")
    gl.MST().fit(table, spend=table.ledger.left).save(target, overwrite=True)
    return {}


def one_group(path, target):
    """The same table as 64-bit numbers in a single row group, as some programs write it."""
    frame = pl.read_parquet(path).cast(pl.Int64)
    frame.write_parquet(target, row_group_size=frame.height)


MBI = """
import itertools, json, resource, sys
import pandas as pd
from mbi import Dataset, Domain
path, sizes = sys.argv[1], json.loads(sys.argv[2])
names = [f"x{column}" for column in range(len(sizes))]
frame = pd.read_parquet(path, dtype_backend="numpy_nullable")
frame = frame.fillna({name: size - 1 for name, size in zip(names, sizes)}).astype("uint8")
data = Dataset(frame, Domain(names, sizes))
counts = [data.project(list(pair)).datavector() for pair in itertools.combinations(names, 2)]
used = resource.getrusage(resource.RUSAGE_SELF)
told = {"rows": int(counts[0].sum()), "cpu": round(used.ru_utime + used.ru_stime, 2), "mb": used.ru_maxrss // 1024}
print(json.dumps(told))
"""
PATIENCE, ROOM = 900, 20  # processor seconds and GiB that the peer may take


def mbi(path):
    """All pairs by mbi, in its own environment; imports are in its processor seconds, as reading is."""
    python = Path(__file__).resolve().parent / "envs" / "opendp" / "bin" / "python"
    if not python.exists():
        return {"failed": "no environment: sh bench/peers_setup.sh opendp"}
    limits = f'ulimit -t {PATIENCE}; ulimit -v {ROOM << 20}; exec "$@"'
    call = ["/bin/sh", "-c", limits, "sh", python, "-c", MBI, path, json.dumps(SIZES)]
    begin = time.perf_counter()
    run = subprocess.run(call, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if run.returncode:
        return {"failed": run.stderr.strip().splitlines()[-1][:80] if run.stderr.strip() else f"code {run.returncode}"}
    return json.loads(run.stdout.splitlines()[-1]) | {"seconds": round(time.perf_counter() - begin, 1)}


def spent():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


STEPS = {f.__name__: f for f in (make, bare, pairs, fit, sample, model_file, one_group)}


def apart(step, *arguments):
    """One step in a fresh process: what it says, its processor time, its time and its memory."""
    call = [sys.executable, __file__, "--step", step, *map(str, arguments)]
    begin = time.perf_counter()
    run = subprocess.run(call, capture_output=True, text=True, check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if run.returncode:
        return {"failed": run.stderr.strip().splitlines()[-1] if run.stderr.strip() else f"code {run.returncode}"}
    return json.loads(run.stdout.splitlines()[-1]) | {"seconds": round(time.perf_counter() - begin, 1)}


def one_step(name, arguments):
    given = [int(argument) if argument.isdigit() else argument for argument in arguments]
    before = spent()
    figures = STEPS[name](*given) or {}
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps(figures | {"cpu": round(spent() - before, 2), "mb": used.ru_maxrss // 1024}))


# ---------------------------------------------------------------------- the tables


def shown(result):
    if "failed" in result:
        return f"| {result['failed']} | | |"
    return f"| {result['cpu']:.1f} | {result['seconds']:.1f} | {result['mb']:,} |"


def all_pairs(run, path, rows):
    print(f"\nAll 105 pairs of 15 columns, {rows:,} rows of Parquet\n")
    print("| engine | processor s | s | MB | beside bare |\n|---|---|---|---|---|")
    base = run("bare", path)
    print(f"| bare kernel {shown(base)} 1 |")
    for engine in ("disk", "duckdb"):
        result = run("pairs", path, engine)
        if "failed" not in result:
            ratio = result["count_cpu"] / base["cpu"]
            good = "kept" if ratio <= TARGET and result["mb"] << 20 <= LIMIT else "MISSED"
            print(
                f"| {engine}, counting | {result['count_cpu']:.1f} | | {result['mb']:,} | {ratio:.2f} ({good}) |\n"
                f"| {engine}, with the first look at every cell {shown(result)} {result['cpu'] / base['cpu']:.2f} |"
            )
        else:
            print(f"| {engine} {shown(result)} |")


def growth(run, folder, rows):
    print("\nGrowth: all pairs by `disk`\n\n| rows | processor s, counting | µs for a row | MB |\n|---|---|---|---|")
    for many in (rows // 100, rows // 10, rows):
        path = made(folder, many, len(SIZES))
        result = run("pairs", path, "disk")
        print(f"| {many:,} | {result['count_cpu']:.2f} | {1e6 * result['count_cpu'] / many:.3f} | {result['mb']:,} |")


def peer(folder, rows):
    print("\nAll 105 pairs by mbi, as far as it gets\n\n| rows | processor s | s | MB |\n|---|---|---|---|")
    for many in (rows // 100, rows // 10, rows):
        result = mbi(made(folder, many, len(SIZES)))
        print(f"| {many:,} {shown(result)}", flush=True)
        if "failed" in result:
            return


# The engines side by side: name, and what `gapless.read` is given. Others are added where they are known.
ENGINES = {name: (lambda path: path) for name in ("memory", "disk", "duckdb")}


def engines(run, folder, rows):
    print(f"\nRead and fit MST on {rows:,} rows of 15 columns, by where the rows are\n")
    print("| engine | processor s | s | MB |\n|---|---|---|---|")
    path = made(folder, rows, len(SIZES))
    for engine in ENGINES:
        print(f"| {engine} {shown(run('fit', path, engine, 'mst', len(SIZES)))}")


def groups(run, folder, rows):
    print(f"\nAll pairs of {rows:,} rows in one row group, 64-bit numbers\n")
    print("| engine | processor s | s | MB |\n|---|---|---|---|")
    path, target = made(folder, rows, len(SIZES)), Path(folder) / "one_group.parquet"
    apart("one_group", path, target)
    for engine in ("disk", "duckdb"):
        print(f"| {engine} {shown(run('pairs', target, engine))}")
    target.unlink()


def wide(run, folder, rows):
    print(f"\nRead, fit and sample as many rows by `disk`, {rows:,} rows of 30 columns\n")
    print("| method | processor s | s | MB |\n|---|---|---|---|")
    path = made(folder, rows, 30)
    for method in ("mst", "aim"):
        print(f"| {method} {shown(run('fit', path, 'disk', method, 30, rows))}")


def by_aim(run, path, rows):
    print(f"\nRead and fit AIM by `disk`, {rows:,} rows of 15 columns\n\n| processor s | s | MB |\n|---|---|---|")
    print(shown(run("fit", path, "disk", "aim", len(SIZES))))


def sampled(run, folder, rows):
    print(f"\nA sample of {rows:,} rows to Parquet\n\n| processor s | s | MB |\n|---|---|---|")
    run("model_file", made(folder, min(rows, 10_000_000), len(SIZES)), folder / "scale.model")
    print(shown(run("sample", folder / "scale.model", rows)))


def on_paper(results, workers=10, rows=10**9):
    """A billion rows on ten workers of one core each, if counting is all they do and the table lies where they are."""
    counted = [r for r in results if r["step"] == "pairs" and r["arguments"][1:2] == ["disk"] and "failed" not in r]
    if not counted:
        return
    largest = max(counted, key=lambda result: result["rows"])
    seconds_per_row = largest["count_cpu"] / largest["rows"]
    print(
        f"\nOn paper: {rows:,} rows at {1e6 * seconds_per_row:.3f} µs for a row are "
        f"{rows * seconds_per_row / 60:.1f} processor minutes for all pairs in one pass, "
        f"{rows * seconds_per_row / workers:.0f} s on {workers} workers; "
        "what comes back are the same counts."
    )


def made(folder, rows, columns):
    path = Path(folder) / f"{rows}x{columns}.parquet"
    if not path.exists():
        result = apart("make", path, rows, columns)
        if "failed" in result:
            raise SystemExit(f"cannot make the table: {result['failed']}")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="pairs,growth,peer,engines,groups,wide,aim,sample")
    parser.add_argument("-o", "--output", type=Path, help="JSON lines")
    parser.add_argument("--step", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        one_step(options.step[0], options.step[1:])
        return
    results = []

    def run_step(step, *arguments):
        result = apart(step, *arguments)
        results.append({"step": step, "arguments": [str(argument) for argument in arguments], **result})
        if options.output:
            with options.output.open("a") as file:
                file.write(json.dumps(results[-1]) + "\n")
        return result

    rows, some = options.rows, max(1, options.rows // 10)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        steps = {
            "pairs": lambda: all_pairs(run_step, made(folder, rows, len(SIZES)), rows),
            "growth": lambda: growth(run_step, folder, rows),
            "peer": lambda: peer(folder, rows),
            "engines": lambda: engines(run_step, folder, some),
            "groups": lambda: groups(run_step, folder, some),
            "wide": lambda: wide(run_step, folder, some),
            "aim": lambda: by_aim(run_step, made(folder, rows, len(SIZES)), rows),
            "sample": lambda: sampled(run_step, folder, rows),
        }
        for step in options.only.split(","):
            steps[step]()
            sys.stdout.flush()
    on_paper(results)


if __name__ == "__main__":
    main()
