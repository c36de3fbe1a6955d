"""Which method is best where: Independent, MST, AIM, Mixture and Factors on simulated tables; the evidence for `Auto`.

    python bench/choose.py                  what is not measured yet, most telling first; then tables and picture
    python bench/choose.py --minutes 20     stop measuring after so many
    python bench/choose.py --only-print     the tables and the picture again, from what was measured before
    python bench/choose.py --fresh          tables on which nothing was chosen, of other makes and sizes; no picture
    python bench/choose.py --large          those of a million rows alone, and --gaps those with gaps; no picture
    python bench/choose.py --relations      Factors beside the others, by relations and by cells; no picture

Columns have 2, 3, 4, 6, 10 or 20 cells. In a *dense* table each depends on three latent factors, their squares and
products; in a *tree* on one of the five columns before it, and on nothing else; in a *mix* every other column is of the
one kind and of the other. With gaps, 20 % of the cells of every column but the first are missing, more often where the
first has a high code. A measurement is one fit through the public API, with a fresh ledger, δ = 1e-6, real noise and
the right `expected_rows`, and one sample of as many rows. Printed are mean total variation distances to the complete
table of up to 150 pairs and 50 triples of columns, and processor seconds of fit and sample. A fit that takes longer
than the cap is given up, and not tried with more columns or rows. AIM with 100 columns comes last.

Other tables have columns of 2 to 12 cells, drawn for each kind and width, and a number of rows and an ε that are drawn
as well. In *blocks* three to five columns hang on one hidden class, apart from the others; in *copies* each column
repeats any one before it, in part; in *classes* all hang on one of twelve hidden classes; in *parents* each on two of
the columns before it. The rule of `Auto` was chosen on all of these.

Fresh ones are drawn likewise, and were measured after the rule was fixed. In a *chain* each column depends on the one
before it; in *hubs* each on two of the first three; *normal* ones are bins of normal variables, any two of which are
correlated; in *islands* every other column hangs on one of six hidden classes, and the rest on nothing.

With --relations there are 12 columns, 2,000, 10,000 or 50,000 rows and ε = 0.3, 1, 3 or 10. Columns of *normal* tables
are numbers. In a *survey* every other column is a bin of a normal variable and the others are levels, all of them
depending on the same four variables. Columns of all other kinds are levels, because their codes have no order. The
error of relations is the mean over pairs of columns of the error of the Spearman correlation if both are ordered and
have more than two values, and of Cramér's V otherwise.

Each is a line of bench/results/choose.jsonl; what is there is not measured again (delete it when the source changes).
No real table is looked at.
"""

import argparse
import itertools
import json
import math
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("POLARS_MAX_THREADS", "1")

import numpy as np
import polars as pl
from scipy.stats import spearmanr

import gapless as gl
from gapless.draw.page import shape, svg_file, tag
from gapless.model.marginal import cramers_v
from gapless.synth import auto

HERE = Path(__file__).resolve().parent
PICTURE = HERE.parent / "docs" / "how-to" / "choose_a_method.svg"
DELTA = 1e-6
SIZES = (4, 2, 10, 3, 20, 6)  # cells of the columns, in turn
METHODS = {"Independent": gl.Independent, "MST": gl.MST, "AIM": gl.AIM, "Mixture": gl.Mixture}
WITH_FACTORS = METHODS | {"Factors": gl.Factors}  # with --relations
COLOURS = {"Independent": "#d8d8d8", "MST": "#f3d27a", "AIM": "#f0a58f", "Mixture": "#8fc6e8"}
TABLE = ("kind", "columns", "gaps", "delta", "epsilon", "rows")
KINDS = ("dense", "mix", "tree")
OTHERS = ("blocks", "copies", "classes", "parents")
FRESH = ("chain", "hubs", "normal", "islands")
DRAWN = (*OTHERS, *FRESH, "survey")
RELATED = ("normal", "survey", "dense", "classes", "tree", "parents")  # with --relations
MANY = ("dense", "classes", "normal")  # in these every column depends on every other one
RATIOS = (0.3, 1.0, 2.0, 3.0, 10.0)  # of rows in a cell to noise, that are compared as limits
SIGNALS = (10.0, 20.0, 30.0, 45.0, 70.0, 100.0)  # the same times the root of the number of pairs
SPANS = (0, auto.ALL_PAIRS, 300, math.inf)  # of the signal, that are told apart in words
CAP = 90  # processor seconds of a fit
AIM_COLUMNS = 60  # with more, it comes last
PAIRS, TRIPLES = 150, 50  # that are compared
NARROW = 25  # columns, in the picture
GAPS = 0.2
LARGE = 1_000_000  # rows


def grid():
    """Tables and ε, in the order in which they are worth measuring: corners and middles first."""
    plan = [  # rows, columns, ε, δ, gaps
        ((20_000, 200_000, 2_000), (15,), (1.0, 0.1, 10.0), (DELTA,), (False,)),
        ((20_000,), (40, 100), (1.0, 0.1), (DELTA,), (False,)),
        ((20_000,), (15,), (1.0, 10.0), (0.0,), (False,)),
        ((20_000,), (15,), (1.0, 10.0), (DELTA,), (True,)),
        ((LARGE,), (15,), (1.0,), (DELTA,), (False,)),
        ((20_000,), (100, 40), (10.0,), (DELTA,), (False,)),
        ((200_000,), (40, 100), (1.0,), (DELTA,), (False,)),
        ((20_000,), (40,), (1.0, 10.0), (DELTA, 0.0), (False, True)),
        ((2_000,), (40, 100), (1.0, 10.0), (DELTA,), (False,)),
        ((200_000,), (40, 100), (10.0, 0.1), (DELTA,), (False,)),
        ((LARGE,), (15, 40), (1.0, 10.0, 0.1), (DELTA,), (False,)),
        ((2_000, 200_000), (15, 40), (1.0,), (DELTA,), (True,)),
        ((2_000,), (40, 100), (0.1,), (DELTA,), (False,)),
    ]
    corners, rest = (
        [table for part in parts for table in itertools.product(*part, KINDS)] for parts in (plan[:2], plan[2:])
    )
    return [*corners, *drawn_grid(OTHERS, (12, 25, 50), seed=2027), *rest]


def drawn_grid(kinds, widths, *, seed):
    """Each kind three times with few, more and many columns, rows and ε drawn; a round of all kinds at a time."""
    rng = np.random.default_rng(seed)
    plan = []
    for _, columns, kind in itertools.product(range(3), widths, kinds):
        rows, epsilon = int(round(10 ** rng.uniform(3.3, 5), -2)), round(10 ** rng.uniform(-0.7, 0.7), 2)
        plan.append((rows, columns, epsilon, DELTA, False, kind))
    return plan


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--only-print", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--gaps", action="store_true")
    parser.add_argument("--relations", action="store_true")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    asked = parser.parse_args()
    kind = "_relations" if asked.relations else "_fresh" if asked.fresh else ""
    asked.results = asked.results or HERE / "results" / f"choose{kind}.jsonl"
    asked.results.parent.mkdir(exist_ok=True)
    known = {key(line): line for line in map(json.loads, asked.results.open())} if asked.results.exists() else {}
    if not asked.only_print:
        plan = drawn_grid(FRESH, (6, 18, 35), seed=2028) if asked.fresh else grid()
        if asked.relations:
            facts = itertools.product((10_000, 2_000, 50_000), (1.0, 10.0, 0.3, 3.0), RELATED)
            plan = [(rows, 12, epsilon, DELTA, False, kind) for rows, epsilon, kind in facts]
        if asked.large or asked.gaps:
            plan = [table for table in plan if (asked.large and table[0] == LARGE) or (asked.gaps and table[4])]
        methods = WITH_FACTORS if asked.relations else METHODS
        measure_all(plan, known, asked.results, time.monotonic() + 60 * asked.minutes, methods)
    measured = defaultdict(dict)
    for line in known.values():
        if "pairs" in line:
            measured[tuple(line[name] for name in TABLE)][line["method"]] = line
    if asked.relations:
        show_relations({table: found for table, found in measured.items() if set(WITH_FACTORS) <= set(found)})
        return
    tables = {table: found for table, found in measured.items() if complete(table, found)}
    show(tables, known)
    regret(tables)
    against(tables)
    if not (asked.fresh or asked.large or asked.gaps):
        asked.picture.write_text(picture(tables), encoding="utf-8")


# ---------------------------------------------------------------- measuring


def key(job):
    return tuple(job[name] for name in (*TABLE, "method"))


def measure_all(plan, known, results, until, methods):
    """Measure what is not known, a line each."""
    made = {}
    jobs = [
        dict(zip(TABLE, (kind, columns, gaps, delta, epsilon, rows), strict=True)) | {"method": method}
        for (rows, columns, epsilon, delta, gaps, kind), method in itertools.product(plan, methods)
    ]
    jobs.sort(key=lambda job: job["method"] == "AIM" and job["columns"] > AIM_COLUMNS)  # minutes each: last
    for job in jobs:
        if key(job) in known:
            continue
        if time.monotonic() > until:
            return
        if hopeless(job, known.values()):
            found = {"given_up": True}
        else:
            facts = tuple(job[name] for name in ("kind", "columns", "rows", "gaps"))
            if facts not in made:
                made = {facts: simulate(*facts)}
            found = measure(job, *made[facts])
        known[key(job)] = line = job | found
        with results.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line), file=sys.stderr, flush=True)


def hopeless(job, lines):
    """Whether a smaller table, at the same ε, took too long."""
    same = ("epsilon", "delta", "gaps", "method")
    return any(
        line.get("given_up")
        and all(line[name] == job[name] for name in same)
        and line["columns"] <= job["columns"]
        and line["rows"] <= job["rows"]
        for line in lines
    )


def sizes_of(kind, columns):
    """The cells of each column."""
    if kind in KINDS:
        return tuple(itertools.islice(itertools.cycle(SIZES), columns))
    return tuple(np.random.default_rng([100 + DRAWN.index(kind), columns]).integers(2, 13, columns).tolist())


def simulate_drawn(kind, columns, rows):
    """Codes and the columns' sizes, each column from the ones before it or from hidden classes or variables."""
    rng, sizes = np.random.default_rng([200 + DRAWN.index(kind), columns, rows]), sizes_of(kind, columns)
    codes = np.empty((rows, columns), dtype=np.uint8, order="F")
    hidden, left = rng.integers(0, 6 if kind == "islands" else 12, rows), 0
    for column, size in enumerate(sizes):
        independent = rng.choice(size, rows, p=rng.dirichlet(np.ones(size)))
        if kind == "blocks" and left == 0:
            hidden, left = rng.choice(5, rows, p=rng.dirichlet(np.full(5, 2.0))), int(rng.integers(3, 6))
        left -= 1
        if kind in ("blocks", "classes", "islands"):
            given, share = hidden, float(kind != "islands" or column % 2)
        elif column == 0:
            given, share = np.zeros(rows, dtype=np.int64), 0.0
        elif kind == "copies":
            given, share = codes[:, rng.integers(0, column)], rng.uniform(0.2, 0.9)
        elif kind == "chain":
            given, share = codes[:, column - 1], rng.uniform(0.5, 1.0)
        else:
            first_parent, second_parent = rng.integers(0, min(column, 3) if kind == "hubs" else column, 2)
            given, share = (3 * codes[:, first_parent] + codes[:, second_parent]) % 24, rng.uniform(0.4, 0.9)
        cumulative = np.cumsum(rng.dirichlet(np.full(size, 0.15 if kind in ("copies", "parents") else 0.7), 24), axis=1)
        dependent = (cumulative[given] < rng.random((rows, 1))).sum(axis=1).clip(0, size - 1)
        codes[:, column] = np.where(rng.random(rows) < share, dependent, independent)
    return codes, np.zeros(codes.shape, dtype=bool), sizes


def simulate_normal(columns, rows, kind="normal"):
    """Bins, at random places, of normal variables that four common ones and a separate one make up.

    In a survey every other column is a level that depends on the common variables.
    """
    rng, sizes = np.random.default_rng([300, columns, rows]), sizes_of(kind, columns)
    latent = rng.normal(size=(rows, 4))
    common = latent @ rng.normal(size=(4, columns)) / 2
    values = common + rng.uniform(0.3, 1.5, columns) * rng.normal(size=(rows, columns))
    codes = [np.searchsorted(np.sort(rng.normal(size=size - 1)), values[:, c]) for c, size in enumerate(sizes)]
    for c, size in enumerate(sizes):
        if not is_number(kind, c):
            codes[c] = (latent @ rng.normal(size=(4, size)) + rng.gumbel(size=(rows, size))).argmax(axis=1)
    return np.asfortranarray(np.stack(codes, axis=1).astype(np.uint8)), np.zeros(values.shape, dtype=bool), sizes


def simulate(kind, columns, rows, gaps):
    """Codes, which of them are missing, and the columns' sizes."""
    if kind in ("normal", "survey"):
        return simulate_normal(columns, rows, kind)
    if kind in DRAWN:
        return simulate_drawn(kind, columns, rows)
    rng, sizes = np.random.default_rng([KINDS.index(kind), columns]), sizes_of(kind, columns)
    codes = np.empty((rows, columns), dtype=np.uint8, order="F")
    hidden = rng.normal(size=(rows, 3)).astype(np.float32)
    signals = np.hstack([hidden, 0.5 * (hidden**2 - 1), 0.5 * hidden[:, :1] * hidden[:, 1:]])
    for column, size in enumerate(sizes):
        parameters_rng = np.random.default_rng([KINDS.index(kind), columns, column])  # the same for any number of rows
        if kind == "dense" or (kind == "mix" and column % 2):
            weights = parameters_rng.normal(size=(signals.shape[1], size)).astype(np.float32)
            scores = signals @ weights + 0.7 * parameters_rng.normal(size=size).astype(np.float32)
            scores -= np.log(np.maximum(rng.standard_exponential((rows, size), dtype=np.float32), 1e-30))
            codes[:, column] = scores.argmax(axis=1)
        else:
            step = 2 if kind == "mix" else 1
            before = [column - step * back for back in range(1, 6) if column >= step * back]
            parent = int(parameters_rng.choice(before)) if before else None
            cumulative = np.cumsum(parameters_rng.dirichlet(np.full(size, 0.5), sizes[parent] if before else 1), axis=1)
            given = codes[:, parent] if before else np.zeros(rows, dtype=np.uint8)
            codes[:, column] = (cumulative[given] < rng.random((rows, 1))).sum(axis=1).clip(0, size - 1)
    missing = np.zeros(codes.shape, dtype=bool)
    if gaps:
        rate = 2 * GAPS * np.linspace(0.25, 1.75, sizes[0]) / 2
        missing[:, 1:] = rng.random((rows, columns - 1)) < rate[codes[:, 0]][:, None]
    return codes, missing, sizes


def is_number(kind, place):
    """Whether the codes of a column have an order."""
    return kind == "normal" or (kind == "survey" and place % 2 == 0)


def schema_of(kind, sizes, *, gaps, rows):
    """Codes with an order are numbers, others are levels."""
    columns = [
        gl.Integer(f"c{place}", bounds=(0, size - 1), bins=size, may_be_missing=gaps and place > 0)
        if is_number(kind, place)
        else gl.Categorical(f"c{place}", level_names(size), may_be_missing=gaps and place > 0)
        for place, size in enumerate(sizes)
    ]
    return gl.Schema("simulated", columns, expected_rows=rows)


def level_names(size):
    return [f"level {number}" for number in range(size)]


def measure(job, codes, missing, sizes):
    """One fit and one sample."""
    schema = schema_of(job["kind"], sizes, gaps=job["gaps"], rows=len(codes))
    names = schema.names
    texts = [
        None if is_number(job["kind"], column) else np.array(level_names(size)) for column, size in enumerate(sizes)
    ]
    values = [codes[:, c] if known is None else known[codes[:, c]] for c, known in enumerate(texts)]
    frame = pl.DataFrame(dict(zip(names, values, strict=True)))
    if job["gaps"]:
        frame = frame.select(
            pl.when(pl.Series(~missing[:, column])).then(pl.col(name)).alias(name) for column, name in enumerate(names)
        )
    with tempfile.TemporaryDirectory() as folder:
        table = gl.read(
            frame,
            schema,
            protect=gl.Rows(1),
            ledger=Path(folder) / "a.ledger",
            budget=gl.Budget(job["epsilon"], job["delta"]),
        )
        begin = processor()
        signal.signal(signal.SIGPROF, give_up)
        signal.setitimer(signal.ITIMER_PROF, CAP)
        try:
            model = WITH_FACTORS[job["method"]]().fit(table, spend=table.ledger.left)
            drawn = np.stack(model.sample(len(codes), seed=0).codes, axis=1)
        except TimeoutError:
            return {"given_up": True}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    seconds = processor() - begin
    return {
        "pairs": distance(codes, drawn, sizes, 2, PAIRS),
        "triples": distance(codes, drawn, sizes, 3, TRIPLES),
        "relations": relation_error(job["kind"], codes, drawn, sizes),
        "seconds": round(seconds, 2),
        "settings": {name: value for name, value in model.facts.settings.items() if isinstance(value, int)},
    }


def give_up(*_):
    raise TimeoutError


def processor():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def distance(truth, drawn, sizes, k, most):
    """The mean distance of some marginals, the same for all methods."""
    marginals = list(itertools.combinations(range(len(sizes)), k))
    if len(marginals) > most:
        marginals = random.Random(0).sample(marginals, most)
    return float(np.mean([np.abs(share(truth, m, sizes) - share(drawn, m, sizes)).sum() / 2 for m in marginals]))


def relation_error(kind, truth, drawn, sizes):
    """The mean error of Spearman correlations of numbers and of Cramér's V of other pairs, in up to `PAIRS` pairs."""
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    if len(pairs) > PAIRS:
        pairs = random.Random(0).sample(pairs, PAIRS)
    return float(
        np.mean([abs(relation(kind, truth, pair, sizes) - relation(kind, drawn, pair, sizes)) for pair in pairs])
    )


def relation(kind, codes, pair, sizes):
    if all(is_number(kind, column) and sizes[column] > 2 for column in pair):
        found = spearmanr(codes[:, pair[0]], codes[:, pair[1]]).statistic
        return 0.0 if math.isnan(found) else float(found)
    return cramers_v(share(codes, pair, sizes).reshape([sizes[column] for column in pair])) or 0.0


def share(codes, columns, sizes):
    cells = np.zeros(len(codes), dtype=np.int32)
    for column in columns:
        cells *= np.int32(sizes[column])
        cells += codes[:, column]
    return np.bincount(cells, minlength=math.prod(sizes[column] for column in columns)) / len(codes)


# ---------------------------------------------------------------- showing


def complete(table, found):
    """Whether all methods were measured on a table; AIM with many columns need not be."""
    return set(METHODS) <= {*found, *(["AIM"] if table[1] > AIM_COLUMNS else [])}


def show(tables, known):
    """A row for each table: the distances of all methods, and by how much the best is better than the next."""
    head = " | ".join(METHODS)
    print(f"| table | columns | with | ε | rows | $s$ | $r$ | {head} | best |")
    print(f"|---|---:|---|---:|---:|---:|---:|{'---:|' * (len(METHODS) + 1)}")
    for table, found in sorted(tables.items()):
        kind, columns, gaps, delta, epsilon, rows = table
        cells = [format_cell(known.get((*table, method))) for method in METHODS]
        first, second = ranked(found)[:2]
        best = f"{first[1]} −{1 - first[0] / second[0]:.0%}"
        more = ", ".join(["gaps"] * gaps + ["δ = 0"] * (delta == 0))
        facts = [kind, columns, more, f"{epsilon:g}", f"{rows:,}", rounded(signal_of(table)), rounded(ratio(table))]
        print("|", " | ".join(map(str, [*facts, *cells, best])), "|")


def format_cell(line):
    if line is None:
        return "–"
    return f"{line['pairs']:.4f} ({line['triples']:.3f}) {line['seconds']:.1f} s" if "pairs" in line else f"> {CAP} s"


def rounded(number):
    """Two digits, without powers of ten."""
    return f"{float(f'{number:.2g}'):,g}"


def ranked(found):
    """Methods by their distance of pairs, the best first."""
    return sorted((line["pairs"], method) for method, line in found.items())


def public(table):
    """The schema and the loss: what `Auto` knows."""
    kind, columns, gaps, delta, epsilon, rows = table
    return schema_of(kind, sizes_of(kind, columns), gaps=gaps, rows=rows), gl.Budget(epsilon, delta).capacity


def signal_of(table):
    """What all pairs tell together, in units of noise."""
    schema, loss = public(table)
    sizes = [column.extended_size for column in schema.columns]
    return auto.signal(sizes, loss, gl.Rows(1), schema.expected_rows)


def ratio(table):
    """Rows in a cell of a pair, over the noise there if all pairs are measured."""
    return signal_of(table) / math.sqrt(math.comb(table[1], 2))


def choice(table, limit=auto.ALL_PAIRS):
    """What `Auto` takes if it measures all pairs from this signal on."""
    kept, auto.ALL_PAIRS = auto.ALL_PAIRS, limit
    try:
        schema, loss = public(table)
        return type(gl.synth.Auto().choose(schema, loss, gl.Rows(1))[0]).__name__
    finally:
        auto.ALL_PAIRS = kept


def show_relations(tables):
    """A row for each table: relations and cells of all methods, and what `Auto` takes."""
    print(f"| table | ε | rows | $s$ | {' | '.join(WITH_FACTORS)} | `Auto` |")
    print(f"|---|---:|---:|---:|{'---:|' * len(WITH_FACTORS)}---|")
    for table, found in sorted(tables.items()):
        kind, _, _, _, epsilon, rows = table
        best = {name: min(line[name] for line in found.values()) for name in ("relations", "pairs")}
        cells = [
            " · ".join(f"**{line[name]:.4f}**" if line[name] == best[name] else f"{line[name]:.4f}" for name in best)
            for line in (found[method] for method in WITH_FACTORS)
        ]
        print(
            "|", " | ".join([kind, f"{epsilon:g}", f"{rows:,}", rounded(signal_of(table)), *cells, choice(table)]), "|"
        )
    print("\n| kind | Factors ÷ best other: relations | cells | `Auto` ÷ best: relations | cells |")
    print("|---|---:|---:|---:|---:|")
    for kind in sorted({table[0] for table in tables}):
        logs = []
        for table, found in tables.items():
            if table[0] == kind:
                others = [line for method, line in found.items() if method != "Factors"]
                logs.append(
                    [math.log(found["Factors"][n] / min(line[n] for line in others)) for n in ("relations", "pairs")]
                    + [
                        math.log(found[choice(table)][n] / min(line[n] for line in found.values()))
                        for n in ("relations", "pairs")
                    ]
                )
        print("|", " | ".join([kind, *(f"{math.exp(value):.2f}" for value in np.mean(logs, axis=0))]), "|")


def regret(tables):
    """How much larger the distances of pairs are than with the best that was measured: a table for rules and kinds.

    Averages are of logarithms, for each kind by itself; of all of them every kind counts the same.
    """
    kinds = [kind for kind in (*KINDS, *DRAWN) if any(table[0] == kind for table in tables)]
    print("\n| rule | tables | on average | at the most |", " | ".join(kinds), "|")
    print(f"|---|---:|---:|---:|{'---:|' * len(kinds)}")
    rules = {f"always {method}": lambda _, method=method: method for method in METHODS}
    for limit in RATIOS:
        rules[f"Mixture from $r={limit:g}$"] = lambda table, limit=limit: choice(
            table, limit * signal_of(table) / ratio(table)
        )
    for limit in sorted({*SIGNALS, auto.ALL_PAIRS}):
        name = f"Mixture from $s={limit:g}$" + (" (`Auto`)" if limit == auto.ALL_PAIRS else "")
        rules[name] = lambda table, limit=limit: choice(table, limit)
    for name, rule in rules.items():
        more = defaultdict(list)
        for table, found in tables.items():
            if (method := rule(table)) in found:
                more[table[0]].append(math.log(found[method]["pairs"] / ranked(found)[0][0]))
        means = [float(np.mean(more[kind])) for kind in kinds]
        numbers = [float(np.mean(means)), max(map(max, more.values())), *means]
        losses = " | ".join(f"+{math.exp(number) - 1:.0%}" for number in numbers)
        print(f"| {name} | {sum(map(len, more.values()))} | {losses} |")


def against(tables):
    """How much larger distances of Mixture are than those of the best other method, by what all pairs tell."""
    print("\n| $s$ | columns depend on | tables | Mixture is nearest | from | median | to | triples: nearest |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    for (least, most), many in itertools.product(itertools.pairwise(SPANS), (True, False)):
        more = {"pairs": [], "triples": []}
        for table, found in tables.items():
            if least <= signal_of(table) < most and (table[0] in MANY) == many:
                for kinds, numbers in more.items():
                    other = min(line[kinds] for method, line in found.items() if method != "Mixture")
                    numbers.append(found["Mixture"][kinds] / other - 1)
        if pairs := more["pairs"]:
            spread = " | ".join(f"{value:+.0%}" for value in (min(pairs), np.median(pairs), max(pairs)))
            nearest = [sum(value < 0 for value in numbers) for numbers in more.values()]
            span = f"from {least:g}" if most == math.inf else f"{least:g} to {most:g}" if least else f"below {most:g}"
            dependence = "many" if many else "few"
            print(f"| {span} | {dependence} | {len(pairs)} | {nearest[0]} | {spread} | {nearest[1]} |")


def picture(tables):
    """A tile for each kind and width (rows) and each span of the signal (columns), coloured by the best method."""
    tiles = defaultdict(list)
    for table, found in tables.items():
        if choice(table) in found:
            kind, columns = (*KINDS, *DRAWN).index(table[0]), table[1] > NARROW
            tiles[kind, columns, math.floor(2 * math.log10(signal_of(table)))].append((table, found))
    bands = sorted({place[:2] for place in tiles})
    spans = range(min(place[2] for place in tiles), max(place[2] for place in tiles) + 1)
    across, high, left, top = 74, 36, 230, 58
    width, height = left + across * len(spans) + 10, top + high * len(bands) + 66
    lines = [
        tag("style", "text{font:12px sans-serif;fill:#222}.s{font-size:10px}.m{text-anchor:middle}.e{text-anchor:end}"),
        shape("rect", width=width, height=height, fill="#fff"),
        tag("text", "Best method by the distances of pairs, and how much nearer than the next best", x=10, y=20),
    ]
    for place, (method, colour) in enumerate(COLOURS.items()):
        lines += [
            shape("rect", x=left + 120 * place, y=30, width=14, height=14, rx=3, fill=colour),
            tag("text", method, x=left + 120 * place + 19, y=42),
        ]
    for row, (kind, wide) in enumerate(bands):
        y = top + high * row
        name = f"{(*KINDS, *DRAWN)[kind]}, {'more than' if wide else 'up to'} {NARROW} columns"
        lines.append(tag("text", name, x=left - 10, y=y + 22, class_="e"))
        for place, span in enumerate(spans):
            some = tiles.get((kind, wide, span))
            if not some:
                continue
            methods = set.intersection(*(set(found) for _, found in some))
            mean = sorted(
                (float(np.mean([math.log(found[method]["pairs"]) for _, found in some])), method) for method in methods
            )
            (best, method), (second, _) = mean[:2]
            x = left + across * place
            chosen = {choice(table) for table, _ in some}
            lost = np.mean([math.log(found[choice(table)]["pairs"]) for table, found in some]) - best
            tip = "; ".join(
                f"{table[1]} columns, ε = {table[4]:g}, {table[5]:,} rows: {ranked(found)[0][1]}"
                for table, found in some
            )
            other = chosen != {method}
            mark = {"stroke": "#222", "stroke_width": 1.6} if other else {}
            lines += [
                tag(
                    "rect",
                    tag("title", f"{tip}. Auto: {', '.join(sorted(chosen))}"),
                    x=x + 2,
                    y=y + 2,
                    width=across - 4,
                    height=high - 4,
                    rx=4,
                    fill=COLOURS[method],
                    **mark,
                ),
                tag(
                    "text",
                    f"−{1 - math.exp(best - second):.0%}",
                    x=x + across / 2,
                    y=y + (16 if other else 22),
                    class_="m",
                ),
            ]
            if other:
                lines.append(tag("text", f"auto +{math.exp(lost) - 1:.0%}", x=x + across / 2, y=y + 29, class_="s m"))
    bottom = top + high * len(bands)
    for place, span in enumerate(spans):
        middle = left + across * place
        lines.append(tag("text", rounded(10 ** (span / 2)), x=middle, y=bottom + 16, class_="s m"))
    lines += [
        tag(
            "text", "signal: rows in a cell ÷ noise there, times the root of the number of pairs", x=left, y=bottom + 36
        ),
        tag(
            "text",
            "Framed: Auto takes another method, whose distances are larger by so much.",
            x=left,
            y=bottom + 54,
            class_="s",
        ),
    ]
    return svg_file("Which method is best where", lines, width=width, height=height, viewBox=f"0 0 {width} {height}")


if __name__ == "__main__":
    main()
