"""What a charge costs when the ledger is new and when it is long: 10,000 charges, first against last 1,000.

Each charge is on the disk, seal and ledger, before it returns; so most of the time is the disk's. The second figure
leaves the disk out.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path
from unittest import mock

from gapless.privacy import L1, Budget, DiscreteGaussian, Ledger, Request, Rows
from gapless.privacy.ledger_file import entries_of

CHARGES, SOME = 10_000, 1_000


def charges(folder: Path) -> list[float]:
    """The seconds that each of many charges takes, one after the other."""
    ledger = Ledger.attach(folder / "long.ledger", table="long", protect=Rows(1), budget=Budget(10.0, 1e-6))
    distance = L1(1)
    noise = DiscreteGaussian.for_loss(ledger.capacity / (CHARGES + 1), distance)
    seconds = []
    for _ in range(CHARGES):
        start = time.perf_counter()
        price = ledger.price([Request(distance, None, noise, "counts")])
        ledger.charge(entries_of(price, to="bench", noise_name="none: NOT PRIVATE"))  # without the draw
        seconds.append(time.perf_counter() - start)
    return seconds


def print_times(what: str, seconds: list[float]) -> None:
    """The median charge at the beginning and at the end, in milliseconds, and their ratio."""
    first, last = statistics.median(seconds[:SOME]), statistics.median(seconds[-SOME:])
    print(
        f"{what}: median of the first {SOME} charges {1e3 * first:.3f} ms, of the last {1e3 * last:.3f} ms, "
        f"ratio {last / first:.2f}; {sum(seconds):.0f} s in all"
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print_times("with the disk", charges(Path(folder)))
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(os, "fsync"):
        print_times("without fsync", charges(Path(folder)))
    with tempfile.TemporaryDirectory() as folder:
        with mock.patch.object(os, "fsync"):
            charges(Path(folder))
        start = time.perf_counter()
        Ledger.open(Path(folder) / "long.ledger")
        print(f"opening a ledger of {CHARGES} entries, every loss computed again: {time.perf_counter() - start:.2f} s")
