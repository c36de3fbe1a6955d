"""Time and memory of reading files of SPSS, Stata and SAS: a million rows of 20 columns, beside a CSV file of the same.

    python bench/data_files.py                       all files, engines disk and memory
    python bench/data_files.py --rows 100000 --files sav csv

Each file is read in a new process, with one thread: the first pass, which checks all cells, then one count of three
columns. Memory is the largest resident size of that process. Pyreadstat writes the files.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

COLUMNS = 20
FILES = ("csv", "sav", "zsav", "dta", "xpt")


def write(folder: Path, rows: int, files: Sequence[str]) -> None:
    """Write one table in each format: half of its columns are codes, half are measured."""
    import pyreadstat

    rng = np.random.default_rng(1)
    codes = {f"c{place}": rng.integers(1, 6, rows).astype(float) for place in range(COLUMNS // 2)}
    frame = pl.DataFrame(codes | {f"x{place}": rng.normal(0, 1, rows).round(3) for place in range(COLUMNS // 2)})
    for file in files:
        path = str(folder / f"t.{file}")
        if file == "csv":
            frame.write_csv(path)
        elif file == "zsav":
            pyreadstat.write_sav(frame, path, compress=True)
        else:
            writers: dict[str, Any] = {
                "sav": pyreadstat.write_sav,
                "dta": pyreadstat.write_dta,
                "xpt": pyreadstat.write_xport,
            }
            writers[file](frame, path)


def measure(path: str, engine: str) -> None:
    """Read one file in this process, and print seconds and the largest resident size in MB."""
    import gapless as gl
    from gapless.schema import Column

    columns: list[Column] = [gl.Categorical(f"c{place}", [1, 2, 3, 4, 5]) for place in range(COLUMNS // 2)]
    columns += [gl.Number(f"x{place}", bounds=(-6, 6), bins=10) for place in range(COLUMNS // 2)]
    ledger = f"{path}.ledger"  # one for both engines: a file takes no other
    times = [time.perf_counter()]
    table = gl.read(
        path,
        gl.Schema("t", columns),
        protect=gl.Rows(1),
        budget=gl.Budget(1, 1e-6),
        ledger=ledger,
        engine=engine,
    )
    times.append(time.perf_counter())
    table.ask(gl.query.CrossTable("c0", "c1", where="x0 > 0"), spend="10%")
    times.append(time.perf_counter())
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([*np.diff(times).tolist(), size]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--files", nargs="*", choices=FILES, default=FILES)
    parser.add_argument("--engines", nargs="*", choices=("disk", "memory"), default=("disk", "memory"))
    parser.add_argument("--read", nargs=2, help=argparse.SUPPRESS)  # a file and an engine, in a new process
    given = parser.parse_args()
    if given.read:
        measure(*given.read)
        sys.exit()
    alone = os.environ | {"OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}
    print(f"{given.rows:,} rows\n\n| file | engine | first pass | one count | memory |\n|---|---|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), given.rows, given.files)
        for file in given.files:
            for engine in given.engines:
                command = [sys.executable, __file__, "--read", f"{folder}/t.{file}", engine]
                done = subprocess.run(command, env=alone, capture_output=True, text=True, check=True)
                first, count, size = json.loads(done.stdout.splitlines()[-1])
                print(f"| .{file} | {engine} | {first:.1f} s | {count:.1f} s | {size:.0f} MB |", flush=True)
