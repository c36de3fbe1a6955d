"""Whatever is asked for: either a release, or an error with nothing charged.

What public facts can refuse is refused before the first charge. Options are tried in pairs: every two values of any two
options are in some case together, if possible in one that no declaration refuses.
"""

import random
from dataclasses import replace
from itertools import combinations

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless import synth
from gapless.missing import FromMean, FromModel, ImputeFirst
from gapless.publish.folder import model_of
from gapless.schema import Constraint
from gapless.synth.adversarial import gan, generative, misgan
from helpers import fast_methods
from helpers.read_and_release import read_and_release

GAPS = {"may_be_missing": True}
LETTERS, GRADES = gl.Categorical("a", ["x", "y"]), gl.Ordinal("b", ["1", "2", "3"])
AGE = gl.Integer("n", bounds=(0, 9), bins=3)
MANY = [str(level) for level in range(1500)]
RULE = "t1.a == t2.a and t1.b != t2.b"


def schema(*columns, rules=(), **more):
    return gl.Schema("t", columns, constraints=[Constraint(rule, **more) for rule in rules])


def gapped(column, **more):
    return replace(column, may_be_missing=True, **more)


SCHEMAS = {
    "no gaps": schema(LETTERS, GRADES, AGE),
    "some gaps": schema(gapped(LETTERS), GRADES, gapped(AGE), gl.Boolean("c")),
    "all gaps": schema(
        gapped(LETTERS),
        gapped(GRADES, missing=("?", gl.MissingCode("-", "refused"), gl.MissingCode("n/a", "not-applicable"))),
        gl.Date("d", bounds=("2000-01-01", "2003-12-31"), resolution="month", bins=3, **GAPS),
    ),
    "a single level": schema(gl.Categorical("a", ["x"]), GRADES, gl.Categorical("c", ["x"], **GAPS)),
    "single levels only": schema(gl.Categorical("a", ["x"]), gl.Categorical("b", ["y"])),
    "one column": schema(LETTERS),
    "one column, gaps": schema(gapped(LETTERS)),
    "a rule": schema(gapped(LETTERS), GRADES, AGE, rules=["t1.a == 'x' and t1.b > '1'"]),
    "a rule between rows": schema(gapped(LETTERS), GRADES, AGE, rules=[RULE]),
    "rules that meet": schema(
        gapped(LETTERS),
        GRADES,
        gl.Ordinal("c", ["1", "2", "3"]),
        gl.Integer("n", bounds=(0, 99)),
        rules=[RULE, "t1.b < t2.b and t1.c > t2.c", "t1.c == t2.c and t1.a != t2.a", "t1.b == t1.c"],
    ),
    "a soft rule": schema(gapped(LETTERS), GRADES, AGE, rules=[RULE], weight="learned"),
    "equal numbers": schema(
        gl.Number("m", bounds=(0, 99), bins=3), gl.Number("n", bounds=(0, 99)), LETTERS, rules=["t1.m != t1.n"]
    ),
    "a rare row": schema(
        *(gl.Categorical(name, MANY[:10]) for name in "abcdef"), rules=[f"t1.{name} != '3'" for name in "abcdef"]
    ),
    "no row": schema(gapped(LETTERS), GRADES, AGE, rules=["t1.a == 'x'", "t1.a == 'y'"]),
    "no row by columns": schema(
        GRADES, replace(GRADES, name="c"), AGE, rules=["t1.b == t1.c", "t1.b < t1.c", "t1.b > t1.c"]
    ),
    "no row between rows": schema(
        LETTERS, replace(LETTERS, name="c"), rules=[f"t1.a == '{a}' and t2.c == '{c}'" for a in "xy" for c in "xy"]
    ),
    "learned bins": schema(gl.Integer("m", bounds=(0, 99), **GAPS), gl.Number("n", bounds=(0, 1e4)), LETTERS),
    "learned bins and a rule": schema(
        gl.Integer("m", bounds=(0, 99), **GAPS), gl.Integer("n", bounds=(0, 99)), LETTERS, rules=["t1.m < t1.n"]
    ),
    "a large domain": schema(gl.Categorical("a", MANY, **GAPS), gl.Categorical("b", MANY[:900]), AGE),
    "a column copy": schema(gapped(replace(LETTERS, name="copy")), GRADES),
}
EMPTY = {"no row", "no row by columns", "no row between rows"}  # in any of them
FEW = {"MADE": 16, "ROUNDS": 1, "HIDDEN": 4, "NOISE": 4, "ASKED": 8, "TEACHERS": 5, "RAKED": 128, "DRAWN": 128}
METHODS = fast_methods.METHODS | {"kamino": fast_methods.in_few_steps(gl.Kamino)}
TREATMENTS = {
    "default": lambda: None,
    "extended": gl.Extended,
    "observed": gl.Observed,
    "complete rows": gl.CompleteRows,
    "impute mean": lambda: ImputeFirst(FromMean()),
    "impute mst": lambda: ImputeFirst(FromModel(gl.MST())),
    "impute dpgan": lambda: ImputeFirst(FromModel(METHODS["dpgan"]())),
}
BUDGETS = {
    "approximate": gl.Budget(1.0, 1e-6),
    "pure": gl.Budget(1.0, 0),
    "tiny": gl.Budget(1e-3, 1e-6),
    "for complete rows": gl.Budget(5.0, 0, ground_truth=gl.MCAR(0.2)),
}
# The first value of each is the usual one.
OPTIONS = {
    "method": ["independent", *(name for name in METHODS if name != "independent")],
    "schema": list(SCHEMAS),
    "missing": list(TREATMENTS),
    "gaps": ["filled", "as-observed"],
    "copies": [None, 2],
    "rows": [None, 0, 7],
    "budget": list(BUDGETS),
    "always": [False, True],
    "spend": [None, "50%"],
    "protect": [1, 3],
    "engine": ["memory", "disk"],
    "private rows": [30, 0],
}
SAME_CORE = {"dpcgan", "dpctgan", "dpautogan"}  # as dpgan


def usual(**some):
    return {name: values[0] for name, values in OPTIONS.items()} | some


def declared(case):
    """Whether nothing that a method declares refuses a case."""
    method, treatment = METHODS[case["method"]], TREATMENTS[case["missing"]]()
    chosen = method() if treatment is None else method(missing=treatment)
    budget, gaps = BUDGETS[case["budget"]], any(column.gaps for column in SCHEMAS[case["schema"]].columns)
    tables = method.keeps_measurements and (chosen.counts_gaps or not gaps) and case["schema"] != "a column copy"
    return (
        isinstance(chosen.missing, method.treatments)
        and case["missing"] != "impute dpgan"
        and (method.pure or budget.delta > 0)
        and (case["gaps"] == "filled" or chosen.counts_gaps or not gaps)
        and (case["copies"] is None or tables)
        and (not case["always"] or (case["method"] in ("aim", "auto") and len(SCHEMAS[case["schema"]].columns) > 1))
        and (case["engine"] == "memory" or not case["missing"].startswith("impute"))
    )


def pairs_of(case):
    return set(combinations(sorted(case.items(), key=lambda item: item[0]), 2))


def pairwise(options, seed):
    """Cases in which every two values of any two options come together: greedily, many new pairs in each."""
    chance, cases = random.Random(seed), []
    waiting = {
        pair
        for name, other in combinations(sorted(options), 2)
        for value in options[name]
        for other_value in options[other]
        for pair in [((name, value), (other, other_value))]
    }
    for pair in sorted(waiting, key=repr):
        if pair not in waiting:
            continue
        tried = [{name: chance.choice(values) for name, values in options.items()} | dict(pair) for _ in range(60)]
        good = [case for case in tried if declared(case)]
        case = max(good, key=lambda case: len(pairs_of(case) & waiting), default=usual() | dict(pair))
        waiting -= pairs_of(case) if good else {pair}
        cases.append(case)
    return cases


def rows_of(table, many):
    rng, cells = np.random.default_rng(1), {}
    for column in table.columns:
        if isinstance(column, gl.Date):
            values = ["2000-05-01", "2002-01-01"]
        elif isinstance(column, gl.Integer | gl.Number):
            values = [str(int(value)) for value in np.linspace(*map(float, column.bounds), 7)]
        else:
            values = [str(level) for level in getattr(column, "levels", ("yes", "no"))][:20]
        values += [None] * column.may_be_missing
        cells[column.name] = [values[place] for place in rng.integers(len(values), size=many)]
    return pl.DataFrame(cells, schema=dict.fromkeys(cells, pl.String))


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Networks that learn nothing, quickly: what is refused does not depend on that."""
    for module in (gan, misgan, generative):
        for name, value in FEW.items():
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)
    for name, method in METHODS.items():
        monkeypatch.setitem(synth.METHODS, name, method)


def run(case, folder):
    """Whether there is a release; else, nothing was charged."""
    table, ledger, out = SCHEMAS[case["schema"]], folder / "t.ledger", folder / "out"
    data = rows_of(table, case["private rows"])
    if case["engine"] == "disk":
        data.write_parquet(folder / "t.parquet")
        data = folder / "t.parquet"
    try:
        release = read_and_release(
            data,
            table,
            out,
            ledger=ledger,
            protect=gl.Rows(case["protect"]),
            budget=BUDGETS[case["budget"]],
            method=case["method"],
            missing=TREATMENTS[case["missing"]](),
            gaps=case["gaps"],
            copies=case["copies"],
            rows=case["rows"],
            **{} if case["spend"] is None else {"spend": case["spend"]},
            always=[tuple(table.names[:2])] if case["always"] else (),
            engine=case["engine"] if case["engine"] == "disk" else None,
            seed=1,
        )
    except gl.GaplessError as error:
        assert not ledger.exists() or not gl.Ledger.open(ledger).entries, error  # noqa: PT017 a case may do either
        assert not out.exists()
        return False
    assert case["schema"] not in EMPTY
    assert gl.publish.verify_release(out).problems == ()
    model = model_of(out)
    assert model.write_sample(folder / "more.tsv.gz", 5, gaps=case["gaps"]) == 5
    assert model.sample(5, gaps=case["gaps"]).rows == 5
    assert release.model.schema.names == table.names
    return True


ORDINARY = OPTIONS | {"method": [name for name in OPTIONS["method"] if name not in SAME_CORE]}
CASES = pairwise(ORDINARY, seed=0)


def name_of(case):
    parts = [str(case[name]) for name in ("method", "schema", "missing")]
    return ", ".join(parts + [f"{name}={case[name]}" for name in OPTIONS if case[name] != OPTIONS[name][0]][3:])


def marked(case):
    """A mixture of 1,500 by 900 levels takes twenty seconds; of fewer levels it is in other cases."""
    long = (case["method"], case["schema"]) == ("mixture", "a large domain") and declared(case)
    return pytest.param(case, marks=pytest.mark.slow if long else (), id=name_of(case))


@pytest.mark.parametrize("case", [marked(case) for case in CASES])
def test_a_release_or_nothing_is_charged(case, tmp_path):
    released = run(case, tmp_path)
    if not declared(case):
        assert not released


def test_every_two_options_meet_and_mostly_make_a_release():
    seen = set().union(*map(pairs_of, CASES))
    names = sorted(ORDINARY)
    wanted = sum(len(ORDINARY[first]) * len(ORDINARY[second]) for first, second in combinations(names, 2))
    assert len(seen) == wanted
    assert sum(map(declared, CASES)) > len(CASES) / 2
