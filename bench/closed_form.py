"""Coverage of the intervals of a release's report, and of `gapless estimate` where it draws no copies.

    python bench/closed_form.py --tables ferries trees                 all methods, 4,000 and 150 rows
    python bench/closed_form.py --tables farms --methods mst --samples 20

Populations are those of bench/inference_numbers.py; a fifth of the cells of some columns is missing, four times as
often where an observed column is above its median. A sample has as many rows as stated, with replacement; its number is
its seed. Each sample is fitted anew, with its bins, at ε = 1 and δ = 1e-6. Held is how often a 95 % interval has
the truth of the population: of observed values, as the report says, for columns with gaps. Relations are of values:
Spearman's correlation of numbers, not of their bins. The verdict's "mostly noise" is counted too.
"""

import argparse
from collections import defaultdict

import numpy as np
import polars as pl
from scipy.stats import rankdata

import gapless as gl
from gapless.evaluate.marginals import association, shares
from gapless.evaluate.usability import usability
from gapless.inference.associations import SPEARMAN
from gapless.schema import Integer, Number, Schema
from inference_numbers import METHODS, POPULATIONS, RATE, fitted

KINDS = ("shares", "means", "shares of gaps", "relations", "proportions", "medians", "quantiles")


def with_gaps(frame, columns):
    """The population with its gaps, so that the truth of observed values is known."""
    rng, first = np.random.default_rng(1), next(c for c in columns if isinstance(c, Integer) and not c.may_be_missing)
    above = frame[first.name].to_numpy() > frame[first.name].median()
    rate = np.where(above, 1.6 * RATE, 0.4 * RATE)
    return frame.with_columns(
        pl.when(pl.Series(rng.random(frame.height) >= rate)).then(pl.col(c.name)).alias(c.name)
        for c in columns
        if c.may_be_missing
    )


def relation(whole, pair, measure):
    """The relation of two columns in the population, among rows in which both are observed."""
    if measure == SPEARMAN:
        values = [whole.numeric_values(c) for c in pair]
        codes = [whole.codes[c].astype(float) if v is None else v for c, v in zip(pair, values, strict=True)]
        seen = np.logical_and(*(whole.codes[c] < whole.schema.columns[c].size for c in pair))
        return np.corrcoef(*(rankdata(c[seen]) for c in codes))[0, 1]
    return association(shares(whole, pair), tuple(whole.schema.columns[c] for c in pair))


def questions(frame, columns):
    """Questions about single columns without gaps, and their true answers."""
    for column in columns:
        if column.may_be_missing or not isinstance(column, Integer | Number):
            continue
        values = frame[column.name]
        if values.n_unique() < 3:
            continue
        starts = column.finest.bin_ranges()[0]
        limit = starts[starts <= values.quantile(0.7, "lower")][-1].item()
        yield "medians", gl.Median(column.name), values.quantile(0.5, "lower")
        for q in (0.1, 0.9):
            yield "quantiles", gl.Quantile(column.name, q), values.quantile(q, "lower")
        yield "proportions", gl.Proportion(f"{column.name} >= {limit}"), float((values >= limit).mean())


def hold_relations(held, pairs, whole, truths):
    """Add whether intervals have the truth. Rank correlations are of values; Cramér's V is of the bins of a release."""
    names = whole.schema.names
    for pair in pairs:
        truth = truths.get(pair.columns) if pair.measure == SPEARMAN else None
        if truth is None:
            truth = truths[pair.columns] = relation(whole, pair.columns, pair.measure)
        if truth is not None:  # else all values of the population are in one bin
            held[f"relations: {' × '.join(names[c] for c in pair.columns)}"].append(pair.low <= truth <= pair.high)


def measure(table, method, rows, samples):
    frame, columns, *_ = table
    frame, schema = with_gaps(frame, columns), Schema("population", columns)
    asked, held = list(questions(frame, columns)), defaultdict(list)
    truths: dict[tuple[int, int], float] = {}
    for number in range(samples):
        drawn = frame[np.random.default_rng([number, 7]).integers(frame.height, size=rows)]
        model = fitted(drawn, schema, METHODS[method](), 1.0)
        whole, judged = gl.Table.read(frame, model.schema), usability(model)
        held["mostly noise"].append(judged.verdict == "mostly noise")
        for place, column in enumerate(judged.columns):
            name, codes = column.column.name, whole.codes[place]
            seen = codes < column.column.size
            true_shares = np.bincount(codes[seen], minlength=column.column.size) / seen.sum()
            for cell, ((_, low, high), truth) in enumerate(
                zip(column.share_intervals() or [], true_shares, strict=False)
            ):
                held[f"shares: {name} {cell}" if len(true_shares) < 6 else f"shares: {name}"].append(
                    low <= truth <= high
                )
            if (mean := column.mean_interval()) is not None:
                held[f"means: {name}"].append(mean.low <= frame[name].mean() <= mean.high)
            if column.column.gaps:
                held[f"shares of gaps: {name}"].append(abs(column.missing - 1 + seen.mean()) <= column.missing_half)
        hold_relations(held, judged.pairs, whole, truths)
        copies = model.copies(2)
        for (kind, question, truth), pooled in zip(asked, gl.pool(copies, [q for _, q, _ in asked]), strict=True):
            if (interval := pooled.estimates[0].interval) is not None:
                held[f"{kind}: {question}"].append(interval[0] <= truth <= interval[1])
        assert not copies.parts, "an estimate was not in closed form"
    return held


def show(method, rows, held, samples, *, verbose):
    for kind in KINDS:
        found = {name: hits for name, hits in held.items() if name.startswith(f"{kind}: ")}
        if found:
            hits = np.concatenate(list(found.values()))
            many = {name: hits for name, hits in found.items() if len(hits) >= 15}
            worst = min(many, key=lambda name: np.mean(many[name]), default="")
            least = f"{np.mean(many[worst]):.2f} | {worst.partition(': ')[2]}" if worst else "– | "
            print(
                f"| {method} | {rows:,} | {samples} | {kind} | {len(hits):,} | {hits.mean():.3f} | {least} |",
                flush=True,
            )
    print(f"    verdict: mostly noise in {np.mean(held['mostly noise']):.0%}")
    for name, hits in sorted(held.items()) if verbose else ():
        print(f"    {name:<40} {len(hits):4d}  {np.mean(hits):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="*", choices=POPULATIONS, default=["pupils", "households", "farms"])
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=["mst", "aim", "mixture", "factors"])
    parser.add_argument("--rows", nargs="*", type=int, default=[4_000, 150])
    parser.add_argument("--samples", type=int, default=50)
    parser.add_argument("--verbose", action="store_true")
    given = parser.parse_args()
    for name in given.tables:
        population = POPULATIONS[name]()
        print(f"\n{name}\n\n| method | rows | samples | of | intervals | held | least | least is |")
        print("|---|---:|---:|---|---:|---:|---:|---|")
        for method in given.methods:
            for rows in given.rows:
                show(
                    method, rows, measure(population, method, rows, given.samples), given.samples, verbose=given.verbose
                )
