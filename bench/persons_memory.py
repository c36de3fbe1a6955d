"""Rows of persons from files: time and highest memory of keeping at most 3 rows of each person.

    python bench/persons_memory.py [--rows 5_000_000] [--persons 500_000] [--engine disk,duckdb,memory] [--folder /tmp]

The table has 10 columns and ids of 12 characters. All persons have about the same number of rows, so that nearly every
row must be ordered by its hash: the most work. Each figure is of a process of its own: seconds, and the highest
resident memory as the system counts it. Target: 50 million rows of 5 million persons within 4 GiB on the disk.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow.parquet as pq

import gapless as gl

PART = 1 << 20
COLUMNS = 10
KEPT = 3
SCHEMA = gl.Schema(
    "visits",
    [gl.Integer(f"x{i}", bounds=(0, 20), may_be_missing=True) for i in range(COLUMNS)],
    person="id",
    rows_per_person=KEPT,
)


def make(path: Path, rows: int, persons: int) -> None:
    """Write the table, some rows at a time, in an order without persons."""
    writer = None
    for start in range(0, rows, PART):
        rng, many = np.random.default_rng(start), min(PART, rows - start)
        ids = pl.Series("id", rng.integers(0, persons, many)).cast(pl.String).str.zfill(10)
        cells = {f"x{i}": rng.integers(0, 21, many, dtype=np.uint8) for i in range(COLUMNS)}
        frame = pl.DataFrame({"id": "P-" + ids} | cells).to_arrow()
        writer = writer or pq.ParquetWriter(path, frame.schema)
        writer.write_table(frame)
    assert writer is not None
    writer.close()


def read(path: str, engine: str) -> None:
    """Read the table, count its rows and print the figures."""
    start = time.perf_counter()
    protect = gl.Persons("id", KEPT)
    table = gl.read(path, SCHEMA, protect=protect, engine=engine, budget=gl.Budget(1.0, 1e-9))
    rows = table.ask(gl.Count(), spend="10%").estimate
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20)
    print(
        json.dumps({"seconds": round(time.perf_counter() - start), "GiB": round(memory, 2), "kept rows, noisy": rows})
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--persons", type=int, default=500_000)
    parser.add_argument("--engine", default="disk,duckdb,memory")
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--read", nargs=2)
    given = parser.parse_args()
    if given.read:
        read(*given.read)
        return
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        path = Path(folder) / "visits.parquet"
        make(path, given.rows, given.persons)
        print(f"{given.rows:,} rows of {given.persons:,} persons")
        for engine in given.engine.split(","):
            done = subprocess.run(
                [sys.executable, __file__, "--read", str(path), engine], check=True, capture_output=True, text=True
            )
            print(f"{engine:>8}  {done.stdout.strip()}")


if __name__ == "__main__":
    main()
