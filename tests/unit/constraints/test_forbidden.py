import itertools

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.constraints.compatible import ForbiddenCells
from gapless.constraints.forbidden import _search, constraints_of, possible_cells, required_cuts, rules_on_values
from gapless.missing import check
from gapless.schema import Constraint
from gapless.testing.audit import private
from helpers.fast_methods import METHODS, TRIED

COLUMNS = [
    gl.Integer("age", bounds=(0, 99), edges=(0, 15, 40, 99)),
    gl.Categorical("married", ["yes", "no"], may_be_missing=True),
    gl.Ordinal("school", ["none", "low", "high"], may_be_missing=True, missing=[gl.MissingCode("-", "not-applicable")]),
    gl.Categorical("zip code", ["z1", "z2", "z3"], may_be_missing=True),
    gl.Categorical("town", ["A", "B"]),
]
CHILD = "t1.age < 15 and t1.married == 'yes'"
TOWN = 't1."zip code" == t2."zip code" and t1.town != t2.town'


def schema(*rules):
    return gl.Schema("people", COLUMNS, constraints=[Constraint(rule) for rule in rules])


def people(rows=3000):
    rng = np.random.default_rng(0)
    age = rng.integers(0, 100, rows)
    place = rng.integers(0, 3, rows)
    return pl.DataFrame(
        {
            "age": age,
            "married": np.where(
                rng.random(rows) < 0.2, "", np.where((age >= 15) & (rng.random(rows) < 0.6), "yes", "no")
            ),
            "school": rng.choice(["none", "low", "high", "-", ""], rows),
            "zip code": np.where(rng.random(rows) < 0.2, "", np.array(["z1", "z2", "z3"])[place]),
            "town": np.array(["A", "B", "A"])[place],
        }
    )


def test_a_forbidden_combination_is_a_table_of_cells():
    (rule,), dependencies, others = constraints_of(schema(CHILD))
    assert isinstance(rule, ForbiddenCells)
    assert rule.columns == (0, 1)
    assert rule.table.tolist() == [[True, False], [False, False], [False, False]]
    assert dependencies == []
    assert others == []


@pytest.mark.parametrize("written", ["yes", "Ja", "true"])
def test_a_boolean_is_compared_as_the_file_writes_it(written):
    smoker = gl.Boolean("smoker", spelling=("Nein", "Ja"))
    table = gl.Schema("t", [smoker], constraints=[Constraint(f"t1.smoker == '{written}'")])
    assert constraints_of(table)[0][0].table.tolist() == [False, True]


def test_orders_of_ordinals_and_not_applicable():
    (rule,), _, _ = constraints_of(schema("t1.school >= 'low' and t1.age <= 14"))
    assert rule.columns == (2, 0)
    assert rule.table[:, 0].tolist() == [False, True, True, False]
    assert not rule.table[:, 1:].any()


def test_a_dependency_names_its_columns():
    _, (rule,), _ = constraints_of(schema(TOWN))
    assert rule.columns == (3, 4)
    assert rule.is_dependency


@pytest.mark.parametrize("rule", ['t1."zip code" == t2."zip code"', "t1.age <= t2.age and t1.town == t2.town"])
def test_rules_that_forbid_rows_alike_are_not_enforced(rule):
    assert constraints_of(schema(rule)) == ([], [], [rule])


@pytest.mark.parametrize(
    ("rule", "wrong"),
    [
        ("age is young", "cannot be read"),
        ("t1.agee < 15", "no column 'agee'"),
        ("t1.age < 20", "splits a bin of column 'age'"),
        ("t1.age == 20", "splits a bin"),
        ("t1.town < 'B'", "has no order"),
        ("t1.town == 'C'", "has no cell 'C'"),
        ("t1.age < young", "is compared with 'young'"),
    ],
)
def test_refuses_constraints_that_do_not_fit_the_schema(rule, wrong):
    with pytest.raises(gl.errors.SchemaError, match=wrong):
        constraints_of(schema(rule))


@pytest.mark.parametrize("gaps", ["filled", "as-observed"])
@pytest.mark.parametrize("method", TRIED)
def test_constraints_hold_in_every_row_that_is_sampled(method, gaps, tmp_path):
    table = private(people(), schema(CHILD, TOWN), tmp_path, budget=gl.Budget(1.0, 1e-6))
    model = METHODS[method]().fit(table, spend=table.ledger.left)
    model.save(tmp_path / "m")
    for some in (model, gl.load(tmp_path / "m")):
        rows = some.sample(2000, seed=1, gaps=gaps)
        assert rows.rows == 2000
        age, married, _, place, town = (codes.astype(int) for codes in rows.codes)
        assert not ((age == 0) & (married == 0)).any()
        known = place < 3
        assert len(set(zip(place[known].tolist(), town[known].tolist(), strict=True))) <= 3


def test_a_dependency_is_learned_right_with_enough_budget(tmp_path):
    table = private(people(), schema(TOWN), tmp_path, budget=gl.Budget(5.0, 1e-6))
    model = gl.AIM().fit(table, spend=table.ledger.left)
    assert model.marginal(["zip code", "town"]).argmax(axis=1).tolist() == [0, 1, 0]
    assert any(entry.what == "zip code × town" for entry in table.ledger.entries)


def test_privbayes_learns_a_dependency_too(tmp_path):
    table = private(people(), schema(TOWN), tmp_path, budget=gl.Budget(1.0, 1e-6))
    model = gl.PrivBayes().fit(table, spend=table.ledger.left)
    assert any(
        set(entry.what.replace(" given ", " × ").split(" × ")) == {"town", "zip code"} for entry in table.ledger.entries
    )
    assert model.marginal(["zip code", "town"]).argmax(axis=1).tolist() == [0, 1, 0]


@pytest.mark.parametrize("method", ["privbayes", "mst", "aim"])
def test_refuses_a_rule_beyond_the_cap_before_anything_is_spent(method, tmp_path):
    table = private(people(50), schema(TOWN), tmp_path)
    with pytest.raises(gl.errors.ModelError, match="cells"):
        METHODS[method](cap_cells=5).fit(table, spend=table.ledger.left)
    assert table.ledger.entries == ()


@pytest.mark.parametrize("rules", list(itertools.product(["A", "B", "AB", "CA", "B C", "A!", "C!"], repeat=3)))
def test_contradictions_are_found_exactly(rules):
    """Against a look at every row of three columns; a rule forbids the cells 0 of its columns, `!` the cells 1."""
    shape = (2, 2, 2)
    forbidden = []
    for rule in rules:
        cell = 1 if "!" in rule else 0
        columns = tuple("ABC".index(letter) for letter in rule if letter in "ABC")
        table = np.zeros([2] * len(columns), dtype=bool)
        table[(cell,) * len(columns)] = True
        forbidden.append(ForbiddenCells(columns, table))
    has_allowed_row = any(
        not any(f.table[tuple(row[c] for c in f.columns)] for f in forbidden) for row in np.ndindex(*shape)
    )
    allowed = {column: np.ones(2, dtype=bool) for column in range(3)}
    for rng in (None, np.random.default_rng(0)):
        found = _search(forbidden, allowed, rng, iter(range(1000)))
        assert (found is not None) == has_allowed_row
        if found is not None:
            row = [int(found[column].argmax()) for column in range(3)]
            assert not any(f.table[tuple(row[c] for c in f.columns)] for f in forbidden)


def test_refuses_contradictions_when_the_table_is_read(tmp_path):
    with pytest.raises(
        gl.errors.SchemaError, match=r"forbid every row\n  Try: remove one of the constraints that contradict"
    ):
        private(people(10), schema("t1.town == 'A'", "t1.town == 'B'"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_check_counts_the_rows_that_break_a_constraint():
    frame = people(500).with_columns(pl.lit("B").alias("town"))
    frame = frame.with_columns(pl.when(pl.int_range(500) < 7).then(pl.lit("A")).otherwise(pl.col("town")).alias("town"))
    frame = frame.with_columns(
        pl.when(pl.int_range(500) < 9).then(pl.lit("z1")).otherwise("zip code").alias("zip code")
    )
    young = frame.filter((pl.col("age") < 15) & (pl.col("married") == "yes"))
    result = check(frame, schema(CHILD, TOWN, "t1.age < 15 and t1.married == 'no'"))
    assert young.height == 0
    children = frame.filter((pl.col("age") < 15) & (pl.col("married") == "no")).height
    assert children > 0
    town, child = result.broken
    assert (child.rule, child.rows, child.pairs) == ("t1.age < 15 and t1.married == 'no'", children, None)
    like = frame.filter(pl.col("zip code") == "z1")
    other = like.filter(pl.col("town") == "A").height
    assert (town.rule, town.rows, other) == (TOWN, like.height, 7)
    assert town.pairs == pytest.approx(7 * (like.height - 7) / (500 * 499 / 2))


def test_thousands_of_rules_are_read_one_after_the_other_not_within_each_other():
    """Each of 3,000 rules is kept by its first column; a call for each within the last one's would be too deep."""
    columns = [gl.Categorical(f"c{place}", ["0", "1", "2"]) for place in range(60)]
    rules = [f"t1.c{i % 60} == 1 and t1.c{(i * 7 + 1) % 60} == 2 and t1.c{(i * 11 + 3) % 60} == 2" for i in range(3000)]
    schema = gl.Schema("t", columns, constraints=[Constraint(rule) for rule in rules])
    forbidden, between, others = constraints_of(schema)
    assert (len(forbidden), between, others) == (3000, [], [])


def test_rules_that_would_have_to_be_tried_for_years_are_tried_up_to_a_limit(monkeypatch):
    """Two of five pigeons must share one of four holes: each way to see that is tried, up to a limit."""
    monkeypatch.setattr("gapless.constraints.forbidden.MAX_STEPS", 10)
    pigeons = [gl.Categorical(f"p{place}", ["0", "1", "2", "3"]) for place in range(5)]
    rules = [f"t1.p{i} == {hole} and t1.p{j} == {hole}" for i in range(5) for j in range(i) for hole in range(4)]
    schema = gl.Schema("t", pigeons, constraints=[Constraint(rule) for rule in rules])
    assert possible_cells(schema) is None
    monkeypatch.undo()
    with pytest.raises(gl.errors.SchemaError, match="the constraints of the schema forbid every row"):
        possible_cells(schema)


def test_all_tables_of_forbidden_combinations_together_have_a_limit(monkeypatch):
    monkeypatch.setattr("gapless.constraints.forbidden.MAX_TOTAL_CELLS", 20)
    columns = [gl.Categorical(name, ["0", "1", "2"]) for name in "abc"]
    rules = [f"t1.{first} == 0 and t1.{second} == 0" for first, second in ("ab", "bc", "ac")]
    schema = gl.Schema("t", columns, constraints=[Constraint(rule) for rule in rules])
    forbidden, _, others = constraints_of(schema)
    assert (len(forbidden), others) == (2, rules[2:])


def test_a_rule_that_is_too_long_is_refused_before_it_is_read():
    with pytest.raises(gl.errors.SchemaError, match="more than 10000 characters"):
        Constraint("t1.a == x" + " " * 10_000 + "y")


def test_only_what_columns_decide_for_sure_is_forbidden_and_the_rest_is_left_to_values():
    columns = [
        gl.Integer("age", bounds=(0, 99), edges=(0, 15, 40, 99)),
        gl.Integer("years", bounds=(0, 99), bins=5),
        gl.Ordinal("school", ["none", "low", "high"]),
        gl.Ordinal("fathers school", ["none", "low", "high"]),
    ]
    schema = gl.Schema("p", columns, constraints=[Constraint("t1.years > t1.age")])
    ((forbidden,), _, _) = constraints_of(schema)
    # bins of years: 0..19, 20..39, 40..59, 60..79, 80..99; of age: 0..14, 15..39, 40..99
    assert forbidden.table.tolist() == [
        [False, False, False],
        [True, False, False],
        [True, True, False],
        [True, True, False],
        [True, True, False],
    ]
    assert [rule.text for rule in rules_on_values(schema)] == ["t1.years > t1.age"]
    levels = gl.Schema("p", columns, constraints=[Constraint('t1.school > t1."fathers school"')])
    assert rules_on_values(levels) == []


def test_bins_begin_where_a_value_is_compared_with_either_row():
    learned = gl.Schema(
        "p",
        [gl.Integer("age", bounds=(0, 99), bins="learned")],
        constraints=[Constraint("t1&t2&LT(t1.age,18)&GTE(t2.age,65)")],
    )
    assert required_cuts(learned) == {"age": [18, 65]}
