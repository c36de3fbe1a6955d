"""Auto chooses by public facts alone, and says why."""

import pytest

import gapless as gl
from gapless.privacy import L1, for_counts
from gapless.synth.auto import ALL_PAIRS, WIDE, signal
from gapless.synth.marginal.factors import Factors
from gapless.testing.audit import letters_schema, private

USUAL = gl.Budget(1.0, 1e-6)


def schema_of(columns, size=4, *, may_be_missing=False, rows=None):
    levels = [f"level {number}" for number in range(size)]
    return gl.Schema(
        "t",
        [gl.Categorical(f"c{place}", levels, may_be_missing=may_be_missing) for place in range(columns)],
        expected_rows=rows,
    )


def chosen(schema, budget=USUAL, protect=1, **settings):
    method, why = gl.synth.Auto(**settings).choose(schema, budget.capacity, gl.Rows(protect))
    return method.name, why


def rows_for_all_pairs(columns, budget=USUAL, size=4):
    return ALL_PAIRS / signal([size] * columns, budget.capacity, gl.Rows(1), 1)


@pytest.mark.parametrize(("columns", "before"), [(15, "aim"), (WIDE, "aim"), (WIDE + 1, "mst"), (200, "mst")])
@pytest.mark.parametrize("budget", [gl.Budget(0.1, 1e-6), USUAL, gl.Budget(10.0, 1e-6), gl.Budget(1.0, 0)])
def test_all_pairs_are_measured_where_together_they_have_enough_rows_for_their_noise(columns, before, budget):
    limit = rows_for_all_pairs(columns, budget)
    assert chosen(schema_of(columns, rows=int(limit * 0.99)), budget)[0] == before
    assert chosen(schema_of(columns, rows=int(limit * 1.01) + 1), budget)[0] == "mixture"


def test_more_noise_or_more_cells_than_rows_are_for_means_that_pairs_are_chosen():
    rows = round(rows_for_all_pairs(15) * 1.2)
    few = schema_of(15, rows=rows)
    assert chosen(few)[0] == "mixture"
    assert chosen(few, gl.Budget(0.5, 1e-6))[0] == "aim"
    assert chosen(few, gl.Budget(1.0, 0))[0] == "aim", "with δ = 0 noise grows with the number of pairs"
    assert chosen(few, protect=2)[0] == "aim"
    assert chosen(schema_of(15, 5, rows=rows))[0] == "aim"
    gapped = schema_of(15, may_be_missing=True, rows=rows)
    assert chosen(gapped)[0] == "aim", "gaps are cells"
    assert chosen(gapped, missing=gl.Observed())[0] == "mixture", "gaps are left out"


def test_noise_averages_out_over_pairs_unless_it_grows_with_their_number():
    """With δ > 0 more columns carry as much information together; with δ = 0 they carry less."""
    for budget, more in ((USUAL, 1.0), (gl.Budget(1.0, 0), 0.5)):
        few, many = (signal([4] * columns, budget.capacity, gl.Rows(1), 10_000) for columns in (15, 30))
        assert many / few == pytest.approx(more, rel=0.05)


def test_a_table_of_too_many_cells_is_not_given_to_mixture():
    many = schema_of(8, 1000, rows=10**9)
    name, why = chosen(many)
    assert name == "aim"
    assert "too many cells" in why


def test_the_only_pair_is_measured():
    assert chosen(schema_of(2, rows=10**6)) == ("mst", "2 columns, 1,000,000 rows expected: MST measures the only pair")
    assert chosen(schema_of(1)) == ("mst", "there is only one column")


ORDERED = [gl.Integer("age", bounds=(0, 99), bins="learned"), gl.Ordinal("health", ["bad", "fair", "good"])]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 30.0])
@pytest.mark.parametrize("rows", [50, None, 10**7])
@pytest.mark.parametrize("levels", [0, 1, 10, 98])
def test_factors_are_chosen_with_two_ordered_columns(levels, rows, epsilon):
    schema = gl.Schema("t", [*ORDERED, *schema_of(levels).columns], expected_rows=rows) if levels else None
    schema = schema or gl.Schema("t", ORDERED, expected_rows=rows)
    name, why = chosen(schema, gl.Budget(epsilon, 1e-6))
    assert name == "factors"
    number = "about 10,000 rows assumed" if rows is None else f"{rows:,} rows expected"
    assert why == f"{levels + 2} columns, {number}: factors keep the relations of all pairs"
    assert chosen(schema, gl.Budget(epsilon, 0))[0] != "factors", "they need δ > 0"


def test_numbers_as_levels_are_ordered_and_two_values_are_not():
    numbers = gl.Schema("t", [gl.Categorical(name, ["1", "2", "3"]) for name in "abc"])
    assert chosen(numbers)[0] == "factors"
    binary = gl.Schema("t", [*ORDERED[:1], gl.Integer("n", bounds=(0, 1)), gl.Boolean("b")])
    assert chosen(binary)[0] == "mixture"


def test_more_features_than_the_cap_are_not_given_to_factors():
    wide = gl.Schema("t", [gl.Integer(f"n{place}", bounds=(0, 99)) for place in range(400)])
    assert not Factors().fits(wide)
    assert chosen(wide)[0] == "mst"
    assert Factors().fits(gl.Schema("t", wide.columns[:100]))
    assert chosen(gl.Schema("t", wide.columns[:100]))[0] == "factors"


def test_the_reason_has_the_number_of_rows_and_where_it_is_from():
    assert "about 10,000 rows assumed" in chosen(schema_of(5))[1]
    assert "500 rows expected" in chosen(schema_of(5, rows=500))[1]
    assert "700 rows expected" in chosen(schema_of(5, rows=500), expected_rows=700)[1]


def test_the_signal_is_rows_in_a_cell_over_noise_times_the_root_of_the_number_of_pairs():
    loss = USUAL.capacity
    noise = for_counts(loss / 3, L1(1)).noise_std / 3**0.5
    assert signal([3, 3, 3], loss, gl.Rows(1), 900) == pytest.approx(100 / noise)
    assert signal([2, 3, 4], loss, gl.Rows(1), 900) == pytest.approx(900 / ((6 + 8 + 12) / 3) / noise)


@pytest.mark.parametrize(("rows", "method"), [(100_000, "mixture"), (10, "aim")])
def test_the_fitted_model_carries_the_reason_and_the_number_of_rows_is_not_looked_up(rows, method, tmp_path):
    table = private([("a", "b", "a")] * 40, letters_schema([2, 2, 2]), tmp_path, budget=USUAL)
    model = gl.synth.Auto(expected_rows=rows).fit(table, spend=table.ledger.left)
    assert model.method == method
    assert f"{rows:,} rows expected" in model.facts.settings["chosen because"]
