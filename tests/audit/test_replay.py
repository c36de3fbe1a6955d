"""Everything that is released, on a table and on the same table with more rows, under the same answers.

Each run goes through the real gate. In the first, every raw value is noted before noise, and its answer after. In the
others the table has one row more, or several, and the first run's answers are given again: so all that depends on
answers is the same, and what differs is what the rows do. Then

- both runs ask for the same values, with the same mechanisms, distances and `reads`;
- a raw value has moved by no more than its distance, measured as the distance says;
- a row with a gap in one of the columns of `reads` has moved nothing at all.

The raw value of a training is the rows that it may draw, as a multiset, and its answer the outcome; what it
trains, its first parameters included, is public.

Chance that belongs to rows, for filling and for ties, is coupled: a row keeps its own when others come.
"""

import inspect
import math
import tempfile
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.data import private_table, sums, training, workload
from gapless.missing import Observed, diagnosis
from gapless.privacy import (
    L1,
    MCAR,
    DiscreteGaussian,
    Linf,
    LinfByGroup,
    Rows,
)
from gapless.synth import METHODS, TREATMENTS
from gapless.synth.adversarial import gan
from gapless.synth.adversarial.gan import Adversarial
from gapless.synth.sequential import kamino
from gapless.testing.audit import private
from gapless.testing.noise import fixed_noise
from helpers import replay
from helpers.public_functions import SPEND_NOTHING, public_functions

# ------------------------------------------------------------------ tables

REFUSED, NO_GRADE = gl.MissingCode("-", "refused"), gl.MissingCode("n/a", "not-applicable")
SCHEMA = gl.Schema(
    "replayed",
    [
        gl.Categorical("sex", ["F", "M"], may_be_missing=True),
        gl.Ordinal(
            "grade",
            ["1", "2", "3"],
            may_be_missing=True,
            missing=("?", REFUSED, gl.MissingCode("n/a", "not-applicable")),
        ),
        gl.Categorical("town", ["x", "y"]),
        gl.Integer("age", bounds=(0, 99), bins=4, may_be_missing=True),
    ],
)


def people(many, seed=0):
    """Rows that depend on each other, with gaps that depend on them too; the last town and grade are rare."""
    rng = np.random.default_rng(seed)
    rows = []
    for _ in range(many):
        sex, age = rng.integers(2), int(rng.integers(60))
        grade = ["1", "2", "n/a"][min(2, sex + int(rng.random() < 0.2))]
        row = ["FM"[sex], grade, "x", str(age)]
        for column, gap in ((0, None), (1, "?"), (1, "-"), (3, None)):
            if rng.random() < 0.1 + 0.2 * sex:
                row[column] = gap
        rows.append(tuple(row))
    return rows


# Rows that come: complete and rare, complete and usual, with each kind of gap, with not applicable, with nothing.
COMING = [
    ("M", "3", "y", "90"),
    ("F", "1", "x", "10"),
    (None, "3", "y", "90"),
    ("M", "?", "y", "90"),
    ("M", "-", "y", "90"),
    ("M", "n/a", "y", "90"),
    ("M", "3", "y", None),
    (None, "-", "y", None),
]
PERSON = [COMING[0], COMING[2], COMING[7]]
SMALL, EMPTY = people(30), []

# ------------------------------------------------------------------ everything that can be released


@cache
def fitted():
    """A model to fill gaps from, of another table."""
    table = private(people(60, seed=1), SCHEMA, Path(tempfile.mkdtemp()), budget=gl.Budget(5.0, 1e-6))
    with fixed_noise(3):
        return gl.MST().fit(table, spend=table.ledger.left)


TREATED = TREATMENTS | {
    "model": lambda: gl.ImputeFirst(gl.missing.FromModel(fitted())),
    "separate model": lambda: gl.ImputeFirst(gl.missing.FromModel(gl.MST())),
}


def fit(method, treatment):
    few = {"steps": 5} if issubclass(METHODS[method], Adversarial) else {}
    return lambda table: METHODS[method](missing=TREATED[treatment](), **few).fit(table, spend=table.ledger.left)


def declared(method, treatment, budget):
    """Whether a method takes this treatment of gaps and this budget."""
    pure = METHODS[method].pure and treatment != "impute-kamino"
    return isinstance(TREATED[treatment](), METHODS[method].treatments) and (budget.delta > 0 or pure)


def column_by_column(table):
    """Each column's gaps are filled by its own network before the next is trained."""
    gl.Kamino(architecture="columns", steps=20, missing=Observed()).fit(table, spend=table.ledger.left)


def noised_generators(table):
    """One teacher at a time, with noise on its gradients by made rows."""
    gl.synth.MisGAN(noised="generators", steps=5).fit(table, spend=table.ledger.left)


RULED = replace(
    SCHEMA,
    constraints=[
        gl.schema.Constraint("t1.sex == t2.sex and t1.grade != t2.grade", weight="learned"),
        gl.schema.Constraint("t1.age < t2.age and t1.grade > t2.grade", weight="learned"),
    ],
)


def fit_ruled(method, treatment):
    """A fit that learns how often constraints are broken."""
    return lambda table: fit(method, treatment)(table.rebin(RULED))


QUESTIONS = {
    "count": lambda **how: gl.Count(where="grade >= 2 or sex == M", **how),
    "count, a gap asked about": lambda **how: gl.Count(where="sex is missing and town == y", **how),
    "count by": lambda **how: gl.Count(by="grade", **how),
    "cross table": lambda **how: gl.query.CrossTable("sex", "grade", **how),
    "proportion": lambda **how: gl.Proportion("sex == M", where="town == y", **how),
    "proportion of the ordered": lambda **how: gl.Proportion("grade >= 2", **how),
    "sum": lambda **how: gl.Sum("age", bounds=(-20, 100), **how),
    "mean": lambda **how: gl.Mean("age", where="sex == M", **how),
    "mean by": lambda **how: gl.Mean("age", by="sex", **how),
    "mean within bins": lambda **how: gl.Mean("age", where="age >= 7 and age != 33", by=["town", "sex"], **how),
    "median": lambda **how: gl.Median("age", where="age < 91", **how),
    "quantile by": lambda **how: gl.Quantile("age", 0.8, where="grade >= 2", by=["sex", "town"], **how),
    "variance": lambda **how: gl.Variance("age", bounds=(10, 100), **how),
}
# A matching column may have gaps, but must not be a target: so each question has separate columns.
FREE = {"count": ["town", "age"], "count by": ["town", "sex"], "count, a gap asked about": ["age"]}
FREE |= {"proportion": ["grade"], "proportion of the ordered": ["sex", "age"], "sum": ["grade", "sex"]}
FREE |= {"mean": ["grade", "town"], "mean by": ["grade"], "variance": ["sex", "grade"]}
FREE |= {"mean within bins": ["grade"], "median": ["grade"], "quantile by": ["town"], "cross table": ["town", "age"]}
FILLINGS = {
    "drop": lambda _: gl.Drop(),
    "hot deck": lambda on: gl.HotDeck(on=on),
    "hot deck of three": lambda on: gl.HotDeck(on=on[:1], limit=3),
    "nearest": lambda on: gl.Knn(on=on),
    "mean of two": lambda on: gl.Knn(on=on, neighbors=2, scheme="mean"),
    "majority of three": lambda on: gl.Knn(on=on, neighbors=3, scheme="majority"),
    "covered": lambda on: gl.Knn(on=on, cover=on[:1], distance="euclidean"),
}


SEVERAL = {
    "count",
    "cross table",
    "mean",
    "mean by",
    "mean within bins",
}  # columns with gaps to fill: there is no majority for them
DROPPED = {"median", "quantile by"}  # rows with gaps are left out
ASKED = [
    (question, filling)
    for question, filling in product(QUESTIONS, FILLINGS)
    if (question not in SEVERAL or "majority" not in filling) and (question not in DROPPED or filling == "drop")
]


def ask(question, filling):
    def act(table):
        table.ask(QUESTIONS[question](missing=FILLINGS[filling](FREE[question])), spend=table.ledger.left)

    return act


@cache
def other():
    return fitted().sample(50, seed=1)


def in_steps(table):
    """Patterns of gaps with beginnings that were released, as a table of many columns has them."""
    with mock.patch.object(diagnosis, "AT_ONCE", 1), mock.patch.object(diagnosis, "BLOCK", 1):
        gl.missing.describe_gaps(table, spend=table.ledger.left)


def logistic(noise):
    """Logistic weights with this noise, under a pure budget with K-norm noise."""

    def act(table):
        kind = "knorm" if table.ledger.order == math.inf else noise
        gl.weights.LogisticWeights(noise=kind, debias=False).fit(table, other(), spend=table.ledger.left)

    return act


DIAGNOSTICS = {
    "describe_gaps": lambda table: gl.missing.describe_gaps(table, spend=table.ledger.left),
    "describe_gaps, a column at a time": in_steps,
    "gap_rates": lambda table: gl.missing.gap_rates(table, spend=table.ledger.left),
    "compare_private": lambda table: gl.evaluate.compare_private(table, other(), spend=table.ledger.left),
    "calibration weights": lambda table: gl.CalibrationWeights(pairs=3).fit(table, other(), spend=table.ledger.left),
    "logistic weights": logistic("gaussian"),
    "knorm weights": logistic("knorm"),
    "noised weights": lambda table: gl.weights.NoisedWeights().fit(table, other(), spend=table.ledger.left),
    "deck": lambda table: gl.HotDeck(on=["town"]).release(table, ["age", "grade"], spend=table.ledger.left),
}
# Large ones, so that methods have something to choose; sums over nearest rows need more than ln 2 for each row of a
# person and each of several sums.
BUDGETS = {
    "pure": gl.Budget(20.0, 0),
    "approximate": gl.Budget(20.0, 1e-6),
    "small": gl.Budget(1.0, 1e-6),
    "for the complete table": gl.Budget(20.0, 0, ground_truth=MCAR(0.2)),
}
LARGE_BUDGETS = {"pure": gl.Budget(200.0, 0), "approximate": gl.Budget(200.0, 1e-6)}


def violations(act, rows, added, *, unit=None, budget=None):
    other()  # what is made once is made before anything is noted
    return replay.violations(SCHEMA, act, rows, added, unit=unit, budget=budget or BUDGETS["approximate"])


# ------------------------------------------------------------------ quickly: everything once


QUICK = {
    **{f"{method}, extended": fit(method, "extended") for method in ("independent", "privbayes", "mst", "aim")},
    "mst, observed": fit("mst", "observed"),
    **{
        f"factors, {missing}": fit("factors", missing)
        for missing in ("extended", "observed", "complete-rows", "impute-mean", "model")
    },
    "mst, extended, with rules": fit_ruled("mst", "extended"),
    "independent, observed, with rules": fit_ruled("independent", "observed"),
    "kamino, observed": fit("kamino", "observed"),
    "kamino column by column": column_by_column,
    "misgan, observed": fit("misgan", "observed"),
    "misgan, complete rows": fit("misgan", "complete-rows"),
    "dpcgan, extended": fit("dpcgan", "extended"),
    "dpautogan, extended": fit("dpautogan", "extended"),
    "pategan, extended": fit("pategan", "extended"),
    "pategan, complete rows": fit("pategan", "complete-rows"),
    "misgan, noised generators": noised_generators,
    "independent, impute-kamino": fit("independent", "impute-kamino"),
    "independent, model": fit("independent", "model"),
    **{f"{question}, drop": ask(question, "drop") for question in QUESTIONS},
    "mean, hot deck": ask("mean", "hot deck"),
    "mean within bins, hot deck": ask("mean within bins", "hot deck"),
    "sum, nearest": ask("sum", "nearest"),
    **DIAGNOSTICS,
}


def quick_budget(name):
    return LARGE_BUDGETS["approximate"] if name.endswith("nearest") else BUDGETS["approximate"]


@pytest.mark.parametrize("treatment", ["extended", "complete-rows"])
def test_pairs_in_the_tables_of_a_network_move_as_they_say(treatment):
    """With enough rows that some are chosen: a column is then in several entries."""
    act, rows = fit("privbayes", treatment), people(400, seed=4)
    columns = [
        event.what.split(" given ")[0] for event in replay.run(SCHEMA, act, rows, unit=1, budget=BUDGETS["approximate"])
    ]
    assert len(columns) > len(set(columns))
    for row in (COMING[0], COMING[7]):
        assert not violations(act, rows, [row])


@pytest.mark.filterwarnings("ignore::gapless.weights.FewRowsWarning")
@pytest.mark.parametrize("name", QUICK)
def test_each_release_once(name):
    for row in (COMING[0], COMING[7]):
        assert not violations(QUICK[name], SMALL, [row], budget=quick_budget(name))


def test_nothing_that_pays_is_left_out():
    """Every public call that has a `spend` is replayed above."""
    paying = {name for name, function in public_functions() if "spend" in inspect.signature(function).parameters}
    paying = {name for name in paying if not name.endswith(".answer_together")}  # which is ask_all
    fits = {f"{method.__name__}.fit" for method in METHODS.values()}
    assert paying - SPEND_NOTHING == {
        *fits,
        "PrivateTable.ask",
        "HotDeck.release",
        "describe_gaps",
        "gap_rates",
        "compare_private",
        "CalibrationWeights.fit",
        "LogisticWeights.fit",
        "NoisedWeights.fit",
        "NetworkWeights.fit",  # a training, which tests/audit/test_training.py attacks
        "ask_all",  # what `PrivateTable.ask` calls
        "release",  # a fit, written to files
        "save_model",
        "weigh",
    }


# ------------------------------------------------------------------ all of it


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("method", "treatment"), [*product(METHODS, TREATED)])
def test_every_release_of_every_synthesizer(method, treatment, budget):
    if not declared(method, treatment, BUDGETS[budget]):
        pytest.skip("it is refused: tests/e2e/test_conformance.py")
    act = fit(method, treatment)
    for row in COMING:
        assert not violations(act, SMALL, [row], budget=BUDGETS[budget]), row
    assert not violations(act, SMALL, PERSON, budget=BUDGETS[budget])
    assert not violations(act, EMPTY, PERSON, unit=5, budget=BUDGETS[budget])


@pytest.mark.parametrize("treatment", [gl.Extended(), gl.Observed()])
def test_every_release_of_what_is_always_measured(treatment):
    aim = gl.AIM(missing=treatment, always=[("sex", "town"), ("sex", "grade", "town")])
    for row in COMING[:2]:
        assert not violations(lambda table: aim.fit(table, spend=table.ledger.left), SMALL, [row])


@pytest.mark.slow
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(("method", "treatment"), [*product(METHODS, ["extended", "observed", "impute-random"])])
def test_every_release_of_learned_rules(method, treatment, budget):
    if not declared(method, treatment, BUDGETS[budget]):
        pytest.skip("it is refused: tests/e2e/test_conformance.py")
    act = fit_ruled(method, treatment)
    for row in COMING:
        assert not violations(act, SMALL, [row], budget=BUDGETS[budget]), row
    assert not violations(act, SMALL, PERSON, budget=BUDGETS[budget])
    assert not violations(act, EMPTY, PERSON, unit=5, budget=BUDGETS[budget])


@pytest.mark.slow
@pytest.mark.parametrize("budget", LARGE_BUDGETS)
@pytest.mark.parametrize(("question", "filling"), ASKED)
def test_every_release_of_every_question(question, filling, budget):
    act = ask(question, filling)
    for row in COMING:
        assert not violations(act, SMALL, [row], budget=LARGE_BUDGETS[budget]), row
    assert not violations(act, SMALL, PERSON, budget=LARGE_BUDGETS[budget])
    assert not violations(act, EMPTY, PERSON, unit=5, budget=LARGE_BUDGETS[budget])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::gapless.weights.FewRowsWarning")
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", DIAGNOSTICS)
def test_every_release_of_every_diagnostic(name, budget):
    for row in COMING:
        assert not violations(DIAGNOSTICS[name], SMALL, [row], budget=BUDGETS[budget]), row
    assert not violations(DIAGNOSTICS[name], SMALL, PERSON, budget=BUDGETS[budget])
    assert not violations(DIAGNOSTICS[name], EMPTY, PERSON, unit=5, budget=BUDGETS[budget])


# ------------------------------------------------------------------ planted: the replay itself must find these


def halved(kind):
    return lambda at_most, *more: kind(at_most / 2, *more)


def declaring(names):
    """`transform` with a `reads` that names too many columns, wherever there is a distance."""
    real = private_table.transform

    def planted(value, function, *, distance, reads, key):
        reads = reads if distance is None or isinstance(distance, Rows) else (reads or frozenset()) | names
        return real(value, function, distance=distance, reads=reads, key=key)

    return planted


def reading(names):
    """Rows for teachers with a `reads` that names too many columns."""
    real = training._seal_for_sampling
    return lambda table, rows, reads: real(table, rows, reads | names)


def sealing(kind, names):
    """Values of a table with distances of one kind, whose `reads` names too many columns."""
    real = private_table.PrivateTable._seal

    def planted(table, function, *, distance, reads):
        reads = (reads or frozenset()) | names if isinstance(distance, kind) else reads
        return real(table, function, distance=distance, reads=reads)

    return planted


def half_sum(tally, *_, rows=None):
    return L1((rows or 1) * tally.unit / 2)


def half_product(*args, **named):
    distance = PRODUCT_DISTANCE(*args, **named)
    return replace(distance, at_most=distance.at_most / 2)


PRODUCT_DISTANCE = workload._product_distance


def parity(table):
    """Releases one marginal or two, as the number of rows has it."""
    rows = table._rows._open(table.ledger._key).rows
    grant = table.ledger.grant(table.ledger.left, to="parity")
    for value in table.marginals(["sex", "town"][: 1 + rows % 2]):
        grant.release(value, DiscreteGaussian(1e6), what="counts")


def opened(table):
    return table._rows._open(table.ledger._key).columns


def by_what_is_seen(table):
    """The order of columns by how many of their levels occur, as published code has it."""
    columns = zip(opened(table), table.schema.columns, strict=True)
    seen = [len(np.unique(codes[codes < column.size])) for codes, column in columns]
    order = [table.schema.names[place] for place in np.argsort(seen, kind="stable")]
    gl.Kamino(order=order, steps=2, missing=Observed()).fit(table, spend=table.ledger.left)


def rate_from_the_number_of_rows(table):
    """The chance of a row to be in a lot from the number of rows."""
    rate = min(1.0, 10 / max(1, len(opened(table)[0])))
    with mock.patch.dict(kamino.TRAINING_PLANS, shared=replace(kamino.TRAINING_PLANS["shared"], rate=rate)):
        gl.Kamino(steps=2, missing=Observed()).fit(table, spend=table.ledger.left)


def by_batches_of_ten(table):
    """q = B/n, as in [MD]."""
    with mock.patch.object(gan, "RATE", min(1.0, 10 / max(1, len(opened(table)[0])))):
        gl.synth.MisGAN(steps=2).fit(table, spend=table.ledger.left)


def as_many_teachers_as_tens_of_rows(table):
    """The number of teachers from the number of rows."""
    with mock.patch.object(gan, "TEACHERS", 2 + len(opened(table)[0]) % 10):
        gl.synth.PATEGAN(steps=2).fit(table, spend=table.ledger.left)


def by_the_longest(table):
    """The length that gradients are cut to from the rows' own."""
    codes = opened(table)
    length = 1.0 + sum(len(np.unique(column)) for column in codes)
    with mock.patch.object(gan, "typical_clip", return_value=length):
        gl.synth.MisGAN(steps=2).fit(table, spend=table.ledger.left)


def by_the_most_frequent(table, column, fitted, *, given):
    """Gaps take the most frequent cell of the rows themselves."""
    (place,) = table.schema.positions([column])
    codes = opened(table)[place]
    numbers = np.zeros_like(fitted.parameters)
    most_frequent = np.bincount(codes[codes < fitted.cells], minlength=fitted.cells).argmax()
    numbers[len(numbers) - fitted.outputs + most_frequent] = 400.0
    return FILL_COLUMN(table, column, replace(fitted, parameters=numbers), given=given)


FILL_COLUMN = private_table.PrivateTable.fill_column
SMOOTH = (ask("count", "nearest"), ask("sum", "nearest"))
NOTHING = (private_table, "L1", L1)  # nothing is patched: the call itself is wrong
PLANTED = {
    "half a distance of counts": ((private_table, "L1", halved(L1)), fit("independent", "extended"), "moved"),
    "half a distance of pairs": ((workload, "L1", halved(L1)), fit_ruled("mst", "extended"), "pairs that break"),
    "reads of pairs": (
        (private_table.PrivateTable, "_seal", sealing(L1, {"sex"})),
        fit_ruled("independent", "extended"),
        "was read",
    ),
    "half a distance of a misfit": ((workload, "Linf", halved(Linf)), fit("aim", "extended"), "moved"),
    "half a distance of dependence": ((workload, "Linf", halved(Linf)), fit("privbayes", "extended"), "moved"),
    "half a distance of a sum": ((sums, "plain_sum_distance", half_sum), ask("mean", "drop"), "moved"),
    "half a distance of a cross table": ((sums, "plain_sum_distance", half_sum), ask("cross table", "drop"), "moved"),
    "half a distance of a hot deck": ((sums, "hot_deck_distance", half_sum), ask("mean", "hot deck"), "moved"),
    "half a distance of ranks": ((sums, "LinfByGroup", halved(LinfByGroup)), ask("median", "drop"), "moved"),
    "reads of ranks": ((sums, "transform", declaring({"town", "grade"})), ask("median", "drop"), "was read"),
    "an influence without donees": ((sums, "influence", lambda *_: 0), SMOOTH[0], "moved"),
    "reads of counts with gaps": (
        (private_table, "transform", declaring({"sex"})),
        fit("independent", "extended"),
        "was read",
    ),
    "reads of other counts": ((private_table, "transform", declaring({"sex"})), fit("mst", "observed"), "was read"),
    "reads of a filled table": (
        (private_table, "transform", declaring({"sex"})),
        fit("mst", "impute-mean"),
        "was read",
    ),
    "reads of what is matched on": ((sums, "transform", declaring({"grade"})), SMOOTH[1], "was read"),
    "reads of a score": ((workload, "transform", declaring({"sex"})), fit("mst", "extended"), "was read"),
    "half a distance of products": (
        (workload, "_product_distance", half_product),
        fit("factors", "extended"),
        "products of features: moved",
    ),
    "no room for the number of rows in a product": (
        (workload, "sqrt", lambda _: 1.0),
        fit("factors", "observed"),
        "products of features: moved",
    ),
    "reads of products": (
        (private_table.PrivateTable, "_declared_reads", lambda _, observed: observed | {"sex"}),
        fit("factors", "extended"),
        "products of features: a row that is not observed",
    ),
    "a choice by the number of rows": (NOTHING, parity, "the runs part"),
    "an order of columns by what is seen": (NOTHING, by_what_is_seen, "the runs part"),
    "a rate from the number of rows": (NOTHING, rate_from_the_number_of_rows, "the runs part"),
    "a rate of a game from the number of rows": (NOTHING, by_batches_of_ten, "the runs part"),
    "teachers by the number of rows": (NOTHING, as_many_teachers_as_tens_of_rows, "the runs part"),
    "a length from what is in the rows": (NOTHING, by_the_longest, "the runs part"),
    "reads of votes": ((training, "_seal_for_sampling", reading({"sex"})), fit("pategan", "extended"), "was read"),
    "reads of a training": ((training, "_seal_for_sampling", reading({"sex"})), fit("kamino", "observed"), "was read"),
}


@pytest.mark.parametrize("name", PLANTED)
def test_the_replay_finds_what_is_planted(name):
    planted, act, expected = PLANTED[name]
    found = []
    with mock.patch.object(*planted):
        for row in (COMING[0], COMING[2], COMING[3]):
            found += violations(act, SMALL, [row], budget=LARGE_BUDGETS["pure"] if act in SMOOTH else None)
            if any(expected in line for line in found):
                return
    pytest.fail(f"not found: {found}")


def test_gaps_that_take_the_most_frequent_cell_are_found():
    """Planted: one row more makes another cell the most frequent, and so changes every row with a gap."""
    rows = [("F", "1", "x", "10")] * 5 + [("M", "2", "x", "30")] * 5 + [(None, "1", "x", "50")] * 5
    assert not violations(column_by_column, rows, [COMING[0]])
    with mock.patch.object(private_table.PrivateTable, "fill_column", by_the_most_frequent):
        found = violations(column_by_column, rows, [COMING[0]])
    assert any("network for town: moved" in line for line in found), found
