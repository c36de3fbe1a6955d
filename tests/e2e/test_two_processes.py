"""Many processes on one ledger never overspend, and spend all there is."""

import subprocess
import sys

import pytest

from gapless import Ledger

CHILD = """
import sys
import polars as pl
import gapless as gl
from gapless.privacy import for_counts

schema = gl.Schema("people", [gl.Categorical("x", ["a", "b"], may_be_missing=True)])
people = gl.read(pl.DataFrame({"x": ["a", "b", None]}), schema, protect=gl.Rows(1),
                 budget=gl.Budget(1.0, 1e-6), ledger=sys.argv[1])
paid = 0
try:
    while True:
        grant = people.ledger.grant(people.ledger.share("1%"), to="child")
        value = people.marginal("x")
        grant.release(value, for_counts(grant.left, value.distance), what="x")
        paid += 1
except gl.errors.BudgetError:
    print(paid)
"""


def test_processes_share_one_budget(tmp_path):
    path = tmp_path / "people.ledger"
    children = [
        subprocess.Popen([sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    paid = [int(child.communicate(timeout=120)[0]) for child in children]
    ledger = Ledger.open(path)
    assert sum(paid) == len(ledger.entries) == 100
    assert ledger.spent.value <= ledger.capacity.value * (1 + 1e-12)
    assert ledger.left.value == pytest.approx(0, abs=1e-9)
