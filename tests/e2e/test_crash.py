"""kill -9 in the middle of fits, many times: the ledger never shows less than what was read, and opens again."""

import os
import random
import signal
import subprocess
import sys
import time

from gapless import Budget, Ledger, Rows
from helpers.examples import repetitions

# The child reads and spends in small steps and writes down, after each read, which entry paid for it.
CHILD = """
import sys
import polars as pl
import gapless as gl
from gapless.privacy import for_counts
from gapless.privacy.private import transform

folder = sys.argv[1]
schema = gl.Schema("people", [gl.Categorical("x", ["a", "b"], may_be_missing=True)])
people = gl.read(pl.DataFrame({"x": ["a", "b", None]}), schema, protect=gl.Rows(1),
                 budget=gl.Budget(1000.0, 1e-6), ledger=folder + "/people.ledger")
with open(folder + "/reads", "a") as reads:
    print("ready", flush=True)
    while True:
        grant = people.ledger.grant(people.ledger.share("0.01%"), to="child")
        value = transform(people.marginal("x"), lambda counts: (reads.write("read\\n"), reads.flush(), counts)[-1],
                          distance=gl.privacy.L1(1), reads=None, key=people.ledger._key)
        grant.release(value, for_counts(grant.left, value.distance), what="x")
"""

CRASHES = repetitions(8)


def number_of_reads(folder):
    return len((folder / "reads").read_text().splitlines())


def test_the_ledger_survives_kill_9(tmp_path):
    path = tmp_path / "people.ledger"
    chance = random.Random(20)
    reads = 0
    for _ in range(CRASHES):
        child = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout.readline() == b"ready\n"
        wanted = reads + chance.randrange(6)
        while number_of_reads(tmp_path) < wanted:
            time.sleep(0.002)
        time.sleep(chance.uniform(0.0, 0.02))
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        ledger = Ledger.open(path)
        reads = number_of_reads(tmp_path)
        assert len(ledger.entries) >= reads
        assert len(ledger.entries) <= reads + CRASHES  # at most the one entry of each crash is wasted
        assert ledger.spent.value > 0 or reads == 0
        assert (
            Ledger.attach(path, table="people", protect=Rows(1), budget=Budget(1000.0, 1e-6)).entries == ledger.entries
        )
    assert reads > CRASHES
