"""Routes by which code that is not of this library was handed rows, or gave a value another distance: closed."""

from dataclasses import dataclass, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import ClassVar
from unittest import mock

import numpy as np
import pytest

import gapless as gl
from gapless.data import PrivateTable
from gapless.data.engines.memory import Memory
from gapless.data.sums import rank_scores
from gapless.data.workload import Views, Workload
from gapless.model.distribution import Product
from gapless.privacy import (
    ChoiceByGroup,
    DiscreteGaussian,
    DiscreteLaplace,
    ExponentialChoice,
    KNorm,
    Private,
    PrivateTraining,
    Rows,
    SmoothCauchy,
    SubsampledTeacher,
    TeacherVotes,
)
from gapless.privacy.private import L1, Linf, gather, transform
from gapless.query.compiled import CompiledQuestion
from gapless.query.numbers import cell_numbers
from gapless.query.quantiles import QuantileRelease
from gapless.query.treatments import Drop
from gapless.schema import Integer, Schema
from gapless.synth import FittedModel
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise
from gapless.types import is_trusted
from helpers.open_sealed import reveal

ROWS = [("a", "b"), ("b", None), ("a", "a"), (None, "?")]
SCHEMA = letters_schema([2, 2])


@pytest.fixture
def table(tmp_path):
    return private(ROWS, SCHEMA, tmp_path)


def fitted(folder):
    table = private(ROWS, SCHEMA, folder)
    with fixed_noise(1):
        return gl.MST().fit(table, spend=table.ledger.left)


class Spy:
    """Keeps what it is shown."""

    schema = SCHEMA

    def __init__(self):
        self.seen = []

    @property
    def filled(self):
        return self

    def fill(self, given, chance):
        self.seen.append(given)
        return np.maximum(given, 0)


class SpyModel(FittedModel):
    def fill(self, given, chance):
        raise AssertionError("it was shown rows")


class Forged(Spy):
    __module__ = "gapless.synth.marginal.mst"


# ------------------------------------------------------------------ sealed values


def test_a_value_that_was_handed_out_cannot_be_given_another_distance(table):
    value = table.marginal("x0")
    for name in ("transform", "gather"):
        with pytest.raises(AttributeError):
            getattr(value, name)
    for name in ("distance", "reads", "_open"):
        with pytest.raises(AttributeError):
            setattr(value, name, L1(0.5))


def test_a_transformation_needs_the_key_of_the_very_ledger(table, tmp_path):
    other = private(ROWS, SCHEMA, tmp_path)
    value = table.marginal("x0")
    with pytest.raises(gl.errors.SealedError, match="another ledger"):
        transform(value, lambda counts: counts, distance=L1(0.5), reads=None, key=other.ledger._key)
    with pytest.raises(gl.errors.SealedError, match="another ledger"):
        gather([value, other.marginal("x0")], key=table.ledger._key)
    assert [counts.tolist() for counts in reveal(gather([value], key=table.ledger._key), table.ledger)] == [[2, 1]]


class Lockpick:
    """Looks like a sealed value, and keeps the key that it is tried with."""

    distance, reads, key = L1(1), None, None

    def _check(self, key):
        self.key = key

    def _open(self, key):
        return np.zeros(2, dtype=np.int64)


def test_no_object_but_a_sealed_value_is_handed_the_key(table):
    lockpick, grant = Lockpick(), table.ledger.grant(table.ledger.left, to="test")
    workload = Workload(table, [(0, 1)], rows="observed")
    attempts = [
        lambda: grant.release(lockpick, DiscreteGaussian(9.0), what="x0"),
        lambda: workload.restrict(lockpick, [0]),
        lambda: PrivateTable(lockpick, SCHEMA, table.ledger, engine=Memory),
        lambda: gather([lockpick], key=table.ledger._key),
    ]
    for attempt in attempts:
        with pytest.raises(gl.errors.SealedError, match="a Lockpick is not a sealed value"):
            attempt()
    assert lockpick.key is None
    assert not table.ledger.entries


def test_the_charged_columns_are_the_columns_read(table):
    """A list that says something else whenever it is asked would be charged for the cheap one and read the other."""
    value = table.marginal("x0")

    class Fickle(list):
        asked = 0

        def __iter__(self):
            self.asked += 1
            return iter([(value, DiscreteGaussian(900.0 if self.asked < 4 else 0.001), "x0")])

    grant = table.ledger.grant(table.ledger.left, to="test")
    requests = Fickle([None])
    grant.release_all(requests)
    assert requests.asked == 1
    assert [entry.mechanism["std"] for entry in table.ledger.entries] == [900.0]


def test_copies_of_one_count_do_not_keep_its_distance(table):
    copies = Workload(table, [(0, 1)], rows="observed").restrict(table.marginal("x0"), [0] * 1000)
    assert type(copies.distance) is Linf
    grant = table.ledger.grant(table.ledger.left, to="test")
    with pytest.raises(gl.errors.BudgetError, match="bounded as L2"):
        grant.release(copies, DiscreteGaussian(20.0), what="x0")


@pytest.mark.parametrize("kind", ["misfit", "conditional_misfit"])
def test_a_distribution_is_checked_as_it_is_used(kind, table):
    class Lying(np.ndarray):
        shape = (2, 3)  # in truth one cell, which would be counted for each of six

    workload = Workload(table, [(0, 1)], rows="observed")
    with pytest.raises(gl.errors.ModelError, match="the probabilities of a marginal have shape"):
        getattr(workload, kind)([(0, 1)], [np.ones((1, 1)).view(Lying)], np.ones(1), np.zeros(1))


@pytest.mark.parametrize("kind", ["misfit", "conditional_misfit", "dependence"])
def test_candidates_are_those_that_were_declared(kind, tmp_path):
    schema = letters_schema([2, 2, 2])
    table = private([("a", "b", "a"), ("b", "a", None)] * 5, schema, tmp_path)
    workload = Workload(table, [(0,), (2,)], rows="observed")
    views = Views(
        table, [(c, np.arange(column.extended_size)) for c, column in enumerate(schema.columns)], rows="observed"
    )
    distribution, candidates = [np.array([0.5, 0.5])], [(0,)]
    scores = {
        "misfit": lambda: workload.misfit(candidates, distribution, np.ones(1), np.zeros(1)),
        "conditional_misfit": lambda: workload.conditional_misfit(candidates, distribution, np.ones(1), np.zeros(1)),
        "dependence": lambda: views.dependence(candidates),
    }[kind]()
    candidates.append((2,))
    assert scores.reads == {"x0"}
    assert reveal(scores, table.ledger).shape == (1,)


class Sly(float):
    """Records as it was made, draws as something else."""

    def __float__(self):
        return 1e-6


@pytest.mark.parametrize(
    "make",
    [
        DiscreteLaplace,
        DiscreteGaussian,
        KNorm,
        ExponentialChoice,
        lambda number: SmoothCauchy(2.0, number, 1.0),
        lambda number: PrivateTraining(rate=0.5, steps=1, clip=1.0, std=number, numbers=1),
        lambda number: TeacherVotes(teachers=2, steps=1, queries=1, std=number),
        lambda number: SubsampledTeacher(teachers=2, steps=1, clip=1.0, std=number, vectors=1, numbers=1),
        ChoiceByGroup,
    ],
)
def test_a_mechanism_is_charged_for_the_number_it_draws_with(make):
    recorded = [number for number in make(Sly(100.0)).parameters().values() if isinstance(number, float)]
    assert all(type(number) is float for number in recorded)
    assert 100.0 not in recorded


class StandIn:
    """Passes everything on to a sealed table, but says that it protects hardly anything."""

    protect = SimpleNamespace(at_most=1e-9)

    def __init__(self, table):
        self.table = table

    def __getattr__(self, name):
        return getattr(self.table, name)


def test_nothing_stands_in_for_a_sealed_table(table, tmp_path):
    stand_in, grant = StandIn(table), table.ledger.grant(table.ledger.left, to="test")
    whole = [(c, np.arange(column.extended_size)) for c, column in enumerate(SCHEMA.columns)]
    numbers = private([], gl.Schema("n", [gl.Integer("y", bounds=(0, 9))]), tmp_path)
    attempts = [
        lambda: Workload(stand_in, [(0, 1)], rows="observed"),
        lambda: Views(stand_in, whole, rows="observed"),
        *(
            lambda treatment=treatment: treatment.answer(gl.Count(where="x0 == a"), stand_in, grant)
            for treatment in (Drop(), gl.HotDeck(on=["x1"]), gl.Knn(on=["x1"]))
        ),
        lambda: gl.Median("y").answer(StandIn(numbers), grant),
    ]
    for attempt in attempts:
        with pytest.raises(gl.errors.SealedError, match="takes a PrivateTable, not a StandIn"):
            attempt()
    with pytest.raises(gl.errors.SealedError, match="a subclass of PrivateTable"):
        type("StandIn", (PrivateTable,), {"protect": SimpleNamespace(at_most=1e-9)})
    assert not table.ledger.entries


def test_schema_and_ledger_of_a_sealed_table_cannot_be_replaced(table, tmp_path):
    """With the ledger of a smaller unit its values would declare too small a distance, with a schema wrong reads."""
    five = private(ROWS, SCHEMA, tmp_path, protect=Rows(5))
    with pytest.raises(AttributeError):
        five.ledger = table.ledger
    with pytest.raises(AttributeError):
        five.schema = letters_schema([2, 3])
    assert five.marginal("x0").distance == L1(5)


# ------------------------------------------------------------------ models that fill gaps


@pytest.mark.parametrize("kind", [Spy, Forged])
def test_only_a_model_of_ours_is_taken_to_fill_gaps(kind, table):
    spy = kind()
    with pytest.raises(gl.errors.ModelError, match="must be a fitted model"):
        gl.missing.FromModel(spy)
    with pytest.raises(gl.errors.ModelError, match="a model that gapless fitted or loaded"):
        table.fill_given(spy)
    assert not spy.seen


@pytest.mark.parametrize("given", [gl.MST(), gl.missing.FromModel(gl.MST()), "people.model", gl.MST])
def test_what_is_no_fitted_model_does_not_fill_gaps(given, table):
    with pytest.raises(
        gl.errors.ModelError, match=r"gapless fitted or loaded, not by a \w+; .*\n  Try: pass gapless.load"
    ):
        table.fill_given(given)


def test_no_part_of_a_model_that_fills_gaps_is_foreign(table, tmp_path):
    model, spy = fitted(tmp_path), Spy()
    changed = replace(model, filled=spy)
    subclass = SpyModel(model.schema, model.filled, model.gapped, model.total, model.facts)
    for planted in (changed, subclass):
        with pytest.raises(gl.errors.ModelError, match="a model that gapless fitted or loaded"):
            table.fill_given(planted)
    with fixed_noise(1), pytest.raises(gl.errors.ModelError, match="a model that gapless fitted or loaded"):
        gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(changed))).fit(table, spend=table.ledger.left)
    assert not spy.seen
    assert not table.ledger.entries


class Noting(np.ndarray):
    """An array that keeps what it is asked with."""

    seen: ClassVar[list[object]] = []

    def __array_function__(self, function, types, given, named):
        Noting.seen.append((function, given))
        return super().__array_function__(function, types, given, named)

    def __array_ufunc__(self, function, method, *given, **named):
        Noting.seen.append((function, given))
        return getattr(function, method)(*(np.asarray(argument) for argument in given), **named)

    def __getitem__(self, key):
        Noting.seen.append(key)
        return np.asarray(self)[key]


def planted_models(model, spy):
    """Of our own classes throughout, with something of another in them."""
    distributions = [np.full(column.size, 1 / column.size).view(Noting) for column in SCHEMA.columns]
    yield replace(model, filled=Product(tuple(distributions)))
    shadowed = replace(model)
    object.__setattr__(shadowed, "fill", spy.fill)
    yield shadowed


def test_a_model_of_ours_is_made_anew_before_it_is_handed_rows(table, tmp_path):
    """An attribute that was added by hand would see every row; it is not copied."""
    model = fitted(tmp_path)
    for place, caught in ((FittedModel.sanitized, False), (lambda model: model, True)):  # planted: taken as it is
        for planted in planted_models(model, spy := Spy()):
            Noting.seen.clear()
            with mock.patch.object(FittedModel, "sanitized", place):
                filled = table.fill_given(planted)
            Noting.seen.clear()
            reveal(filled.marginal("x0"), table.ledger)
            assert bool(Noting.seen or spy.seen) is caught
            spy.seen.clear()


def test_a_model_of_objects_is_refused(table, tmp_path):
    distribution = np.array([Spy(), Spy()], dtype=object)
    with pytest.raises(gl.errors.ModelError, match="must hold numbers only"):
        table.fill_given(replace(fitted(tmp_path), filled=Product((distribution, distribution))))


def test_checks_the_result_of_a_foreign_synthesizer(table):
    spy = Spy()

    class Planted:
        def fit(self, table, *, spend):
            return spy

    with pytest.raises(gl.errors.ModelError, match="a model that gapless fitted or loaded"):
        gl.Independent(missing=gl.ImputeFirst(gl.missing.FromModel(Planted()))).fit(table, spend=table.ledger.left)
    assert not spy.seen


def test_a_model_that_was_fitted_or_loaded_here_fills_gaps(table, tmp_path):
    model = fitted(tmp_path)
    model.save(tmp_path / "letters.model")
    for good in (model, gl.load(tmp_path / "letters.model")):
        assert table.fill_given(good).is_filled


def test_distributions_and_prefixes_are_copied_as_plain_values(table):
    seen = []

    class SpyArray(np.ndarray):
        def __array_ufunc__(self, *args, **kwargs):
            seen.append(args)
            return NotImplemented

        def __array_function__(self, *args):
            seen.append(args)
            return NotImplemented

    class SpyFlag(int):
        def __eq__(self, other):
            seen.append(other)
            return False

        def __hash__(self):
            return 1

    distributions = [np.ones(column.size).view(SpyArray) for column in SCHEMA.columns]
    filled = table.fill(distributions)
    assert reveal(filled.marginal(()), table.ledger) == len(ROWS)
    patterns = table.gap_patterns(["x0", "x1"], among=[(SpyFlag(1),), (SpyFlag(0),)])
    assert reveal(patterns, table.ledger).tolist() == [[0, 1], [2, 1]]
    assert not seen


class SpyColumn(Integer):
    """Says that it is any column, and that its cells lie in bins that keep what they are looked up by."""

    seen: ClassVar[list[object]] = []

    def __eq__(self, other):
        return True

    __hash__ = None

    @property
    def finest(self):
        return SpyColumn("age", bounds=(0, 9))

    def group(self, into):
        class SpyBins(np.ndarray):
            def astype(self, *_):
                return self

            def __getitem__(self, codes):
                SpyColumn.seen.append(codes)
                return np.zeros(np.shape(codes), dtype=np.uint8)

        return np.zeros(10, dtype=np.int64).view(SpyBins)


class SpyColumn(SpyColumn):
    size = 1


def test_only_columns_of_this_library_rebin_rows(tmp_path):
    table = private([(3,), (1,)], Schema("people", [Integer("age", bounds=(0, 9))]), tmp_path)
    subclass = type("Louder", (Schema,), {})("people", [Integer("age", bounds=(0, 9), bins=2)])
    for foreign in (Schema("others", [SpyColumn("age", bounds=(0, 9))]), subclass):
        with pytest.raises(gl.errors.SchemaError, match="objects of gapless itself"):
            table.rebin(foreign)
    assert not SpyColumn.seen


# ------------------------------------------------------------------ questions


def test_the_parts_of_a_rank_are_plain_numbers(tmp_path):
    seen = []

    class SpyNumber(int):
        def __mul__(self, other):
            seen.append(other)
            return int(self) * other

    class SpyShare(Fraction):
        numerator, denominator = SpyNumber(1), SpyNumber(2)

    table = private([(3,), (1,)], Schema("people", [Integer("age", bounds=(0, 9))]), tmp_path)
    asked, numbers = gl.Median("age").compile(table.schema), cell_numbers(table.schema, "age", None)
    (scores,) = rank_scores(table, asked.contribution, "age", quantile=SpyShare(1, 2), shifts=[0])
    QuantileRelease(numbers, SpyShare(1, 2)).answer(asked, table, table.ledger.grant(table.ledger.left, to="test"))
    assert reveal(scores, table.ledger).shape == (1, 10)
    assert not any(isinstance(other, np.ndarray) for other in seen)


@pytest.mark.parametrize("wrong", [(3, 2), (-1, 2), (1, -2)])
def test_a_quantile_must_be_a_fraction_from_0_to_1(wrong, tmp_path):
    table = private([(3,), (1,)], Schema("people", [Integer("age", bounds=(0, 9))]), tmp_path)
    share = SimpleNamespace(numerator=wrong[0], denominator=wrong[1])
    with pytest.raises(gl.errors.SchemaError, match="a quantile must be a fraction from 0 to 1"):
        rank_scores(table, gl.Median("age").compile(table.schema).contribution, "age", quantile=share, shifts=[0])


@dataclass(frozen=True)
class Lookalike:
    def answer(self, table, grant):
        raise AssertionError("it was asked")


class Louder(gl.Count):
    def compile(self, schema):
        raise AssertionError("it was asked")


@pytest.mark.parametrize("question", [Lookalike(), Louder(), Spy()])
def test_only_a_question_of_ours_is_asked(question, table):
    with pytest.raises(gl.errors.QuestionError, match="is not a question"):
        table.ask(question, spend=table.ledger.share("10%"))
    for treatment in (Drop(), gl.HotDeck(on=["x0"]), gl.Knn(on=["x0"])):
        with pytest.raises(gl.errors.QuestionError, match="expected a question compiled"):
            treatment.answer(question, table, table.ledger.grant(table.ledger.left, to="test"))
    assert not table.ledger.entries


def test_a_treatment_takes_what_was_made_of_a_question_of_ours_for_this_very_schema(table):
    asked = gl.Count(where="x0 == a").compile(table.schema)
    with pytest.raises(ValueError, match="contribution"):
        replace(asked, contribution=replace(asked.contribution, value=print))
    with pytest.raises(gl.errors.QuestionError, match="is not a question"):
        replace(asked, question=Louder())
    planted = SimpleNamespace(**vars(asked))
    subclass = type("Compiled", (CompiledQuestion,), {})(gl.Count(), table.schema)
    elsewhere = gl.Count().compile(replace(table.schema))  # an equal schema may have columns that are not ours
    for made in (planted, subclass, elsewhere, gl.Count()):
        for treatment in (Drop(), gl.HotDeck(on=["x1"]), gl.Knn(on=["x1"])):
            with pytest.raises(
                gl.errors.QuestionError, match="expected a question compiled for the schema of this table"
            ):
                treatment.answer(made, table, table.ledger.grant(table.ledger.left, to="test"))
    assert not table.ledger.entries


def test_no_method_of_a_sealed_table_takes_a_function_of_rows(table):
    for name in ("tally", "hot_deck", "neighbour_sum"):
        assert not hasattr(table, name)


def test_trusted_classes():
    assert is_trusted(gl.Count())
    assert is_trusted(Drop())
    for foreign in (Louder(), Spy(), Forged(), gl.Count, "count()", 1, None, np.zeros(2)):
        assert not is_trusted(foreign)
    assert not is_trusted(type("Private", (Private,), {"__module__": "gapless.privacy.private"}))


def test_the_distance_of_a_release_is_of_the_very_type(table):
    """A ledger writes its name down: a subclass would be read back as nothing, or as something else."""

    class Less(L1):
        pass

    value = transform(table.marginal("x0"), lambda counts: counts, distance=Less(1), reads=None, key=table.ledger._key)
    grant = table.ledger.grant(table.ledger.left, to="test")
    with pytest.raises(gl.errors.BudgetError, match="a ledger has no formula for the loss of"):
        grant.release(value, DiscreteGaussian(20.0), what="x0")
    assert not table.ledger.entries


@pytest.mark.parametrize(
    "change",
    [
        lambda table: table.clamp("x1", lowest="a", highest="b"),
        lambda table: table.select(["x1", "x0"]),
        lambda table: table.rebin(table.schema),
    ],
)
def test_what_leaves_no_row_out_adds_nothing_to_reads(change, table):
    """A row with a gap in the column still counts elsewhere: more `reads` would understate the loss."""
    changed = change(table)
    assert changed.marginal("x0").reads == {"x0"}
    assert changed.marginal("x0", rows="extended").reads is None
    assert changed.gap_patterns(["x0", "x1"]).reads is None
