"""Donors and the exact influence of one row: time, growth, and peers on the sizes where they work.

    python bench/knn.py [--rows 10_000 100_000 1_000_000] [--peers 10_000]

Six matching columns of ten cells each, a domain of a million; every fifth row lacks the target. Processor seconds.
Limits: 100,000 rows in 10 seconds, a million in 60. Peers: every pair of rows by numpy, a ball tree by scikit-learn if
it is there (both find the distance of the nearest donor, ours also who it is, ties and all); for the influence, the
depth of every cell of the domain by numpy.
"""

import argparse
import time

import numpy as np

from gapless.data.influence import influence
from gapless.data.neighbors import Matching, Space, link
from gapless.schema import Boolean, Categorical, Ordinal, Schema

LEVELS = [str(i) for i in range(10)]
LIMITS = {100_000: 10, 1_000_000: 60}


def table(rows, *, kinds="oococo", gaps=0.03, skew=1.0, donors=0.8):
    rng = np.random.default_rng(0)
    place = np.arange(10)
    share = {"o": np.exp(-skew * np.abs(place - 4) * 0.4), "c": np.exp(-skew * place * 0.4)}
    columns, codes = [], {}
    for i, kind in enumerate(kinds):
        column = (Ordinal if kind == "o" else Categorical)(f"x{i}", LEVELS, may_be_missing=gaps > 0)
        columns.append(column)
        observed = rng.choice(10, rows, p=share[kind] / share[kind].sum())
        codes[column.name] = np.where(rng.random(rows) < gaps, 10, observed).astype(np.uint8)
    schema = Schema("bench", [*columns, Boolean("y", may_be_missing=True)])
    return schema, codes, rng.random(rows) < donors, rng.permutation(rows)


def timed(function):
    start = time.process_time()
    return function(), time.process_time() - start


def ours(rows, matching=None, **options):
    schema, codes, observed, places = table(rows, **options)
    matching = matching or Matching(on=tuple(codes))
    space = Space.of(matching, schema)
    links, search = timed(lambda: link(space, [codes[n] for n in space.names], observed, places, matching.neighbors))
    moved, bound = timed(lambda: influence(links, space, matching.cover))
    return space, codes, observed, links, moved, search, bound


def growth(sizes):
    print(f"{'rows':>9}  {'table':<34}  {'donors':>8}  {'L1':>8}  {'limit':>6}  L1 itself")
    names = tuple(f"x{i}" for i in range(6))
    for rows in sizes:
        cases = {"as above, 3% gaps in each column": {}}
        if rows <= 100_000:
            cases |= {
                "no gaps in matching columns": {"gaps": 0.0},
                "20% gaps in each matching column": {"gaps": 0.2},
                "even cells": {"skew": 0.0},
                "four rows in five lack the target": {"donors": 0.2},
                "only ordered columns": {"kinds": "oooooo"},
                "only categories": {"kinds": "cccccc"},
                "five donors each": {"matching": Matching(on=names, neighbors=5, scheme="mean")},
                "cover of three columns": {"matching": Matching(on=names, cover=names[:3])},
            }
        for case, options in cases.items():
            *_, moved, search, bound = ours(rows, **options)
            limit = LIMITS.get(rows)
            verdict = "" if limit is None else ("kept" if search + bound <= limit else "MISSED")
            print(f"{rows:>9,}  {case:<34}  {search:>7.2f}s  {bound:>7.2f}s  {verdict:>6}  {moved}")


def by_pairs(space, codes, donees, donors):
    """The nearest distance, from every donee to every donor."""
    nearest = np.empty(donees.size, dtype=np.int64)
    for first in range(0, donees.size, 64):
        some = donees[first : first + 64]
        far = sum(
            cost[codes[name][some][:, None], codes[name][donors]]
            for name, cost in zip(space.names, space.costs, strict=True)
        )
        nearest[first : first + 64] = far.min(axis=1)
    return nearest


def by_ball_tree(codes, donees, donors):
    """Categories as half an indicator each, ordered columns scaled: the same distance, in floats."""
    from sklearn.neighbors import BallTree

    parts = []
    for name, kind in zip(sorted(codes), "oococo", strict=True):
        cells = codes[name].astype(float)
        parts.append(cells[:, None] / 9 if kind == "o" else (codes[name][:, None] == np.arange(10)) / 2)
    points = np.hstack(parts)
    return BallTree(points[donors], metric="manhattan").query(points[donees], k=1)[0][:, 0] * 9


def by_domain(space, links):
    """How many donees have every cell of the domain strictly inside their radius: ties, which are harder, left out."""
    weight = np.bincount(links.kinds)
    sizes = space.observed
    depth = np.zeros(np.prod(sizes), dtype=np.int64)
    for cell, radius, count in zip(links.cells, links.radius, weight, strict=True):
        far = np.zeros(1, dtype=np.int64)
        for cost, code, size in zip(space.costs, cell, sizes, strict=True):
            far = (far[:, None] + cost[code, :size]).ravel()
        depth += count * (far < radius)
    return depth.max()


def peers(rows):
    space, codes, observed, links, moved, search, bound = ours(rows, gaps=0.0)
    donees, donors = np.flatnonzero(~observed), np.flatnonzero(observed)
    print(f"\n{rows:,} rows, no gaps in the matching columns; processor seconds, and how many times ours")
    print(f"  nearest donors: ours {search:.2f}s")
    nearest, seconds = timed(lambda: by_pairs(space, codes, donees, donors))
    assert np.array_equal(nearest, links.radius[links.kinds])
    print(f"  every pair (numpy): {seconds:.2f}s, {seconds / search:.1f} times")
    try:
        nearest, seconds = timed(lambda: by_ball_tree(codes, donees, donors))
    except ImportError:
        print("  ball tree: scikit-learn is not installed")
    else:
        assert np.allclose(nearest, links.radius[links.kinds])
        print(f"  ball tree (scikit-learn): {seconds:.2f}s, {seconds / search:.1f} times")
    print(f"  influence: ours {bound:.2f}s")
    strict, seconds = timed(lambda: by_domain(space, links))
    assert strict <= moved
    print(f"  every cell of the domain (numpy): {seconds:.2f}s, {seconds / bound:.0f} times")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--peers", type=int, default=10_000)
    given = parser.parse_args()
    growth(given.rows)
    peers(given.peers)
