"""What a ledger says about the complete table, and a ledger that stops on it."""

import json
import math
import sys
from dataclasses import replace
from fractions import Fraction
from itertools import combinations

import polars as pl
import pytest

import gapless as gl
from gapless.errors import BudgetError, LedgerError, SchemaError
from gapless.evaluate.gap_curve import gap_curve
from gapless.privacy import Budget, DiscreteLaplace, Ledger, for_counts
from gapless.privacy import ground_truth_filter as filter_module
from gapless.privacy.ground_truth import max_incomplete_loss, merge_releases
from gapless.privacy.ledger_file import new_header, seal_of
from gapless.report.statement import privacy_statement
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import fixed_noise

ground_truth_module = sys.modules[max_incomplete_loss.__module__]  # the function hides the module of the same name
SCHEMA = letters_schema([3, 2, 4, 2])
ROWS = [("a", None, "b", "a"), ("b", "a", None, "b"), (None, "b", "c", "a")] * 50
ASSUMED = gl.MCAR(dict.fromkeys(SCHEMA.names, 0.4))


def people(folder, budget, **more):
    return private(ROWS, SCHEMA, folder, budget=budget, **more)


def measure(table, marginals, percent=None, *, loss=None):
    """Marginals of observed rows in one batch."""
    loss = loss or table.ledger.share(f"{percent}%")
    grant = table.ledger.grant(loss, to="test")
    counts = [table.marginal(columns) for columns in marginals]
    noise = for_counts(grant.even_loss(counts, grant.left), counts[0].distance)
    return grant.release_all([(value, noise, "counts") for value in counts])


def test_a_figure_that_was_handed_out_does_not_change_the_filter(tmp_path):
    """Rates are a dict: raising them in a figure would make every further release cheaper."""
    table = people(tmp_path, Budget(1.0, 0, ground_truth=ASSUMED))
    measure(table, ["x0"], 30)
    spent = table.ledger.spent
    for handed in (table.ledger.ground_truth().assumption, table.ledger.budget.ground_truth):
        handed.rates.update(dict.fromkeys(handed.rates, 0.99))
    measure(table, ["x1"], 30)
    assert table.ledger.spent == Ledger.open(table.ledger.path).spent
    assert spent.value < table.ledger.spent.value


# ---------------------------------------------------------------------- reading any ledger


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_one_batch_is_amplified_as_a_whole(tmp_path, delta):
    table = people(tmp_path, Budget(1.0, delta))
    gl.Independent(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    figure = table.ledger.ground_truth(ASSUMED)
    assert figure.epsilon < 0.8 < figure.incomplete.epsilon
    assert figure.delta == delta
    assert "fixed in advance" in figure.basis
    if delta == 0:
        releases = [(entry.loss, entry.reads) for entry in table.ledger.entries]
        assert figure.epsilon == figure.realised == gl.privacy.ground_truth(releases, ASSUMED)
    else:
        assert figure.realised is None


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("method", [gl.PrivBayes, gl.MST, gl.AIM])
def test_adaptive_choices_are_not_amplified(tmp_path, method, delta):
    table = people(tmp_path, Budget(1.0, delta))
    method(missing=gl.CompleteRows()).fit(table, spend=table.ledger.left)
    figure = table.ledger.ground_truth(ASSUMED)
    first = [entry for entry in table.ledger.entries if entry.batch == 1]
    assert figure.epsilon <= 1
    assert "in full" in figure.basis
    if delta == 0:
        later = table.ledger.capacity.value - math.fsum(entry.loss for entry in first)
        assert figure.epsilon == pytest.approx(
            later + gl.privacy.ground_truth([(entry.loss, entry.reads) for entry in first], ASSUMED)
        )
        assert figure.realised < figure.epsilon
        assert "the answers that were released reveal at most ε = " in str(figure)
        assert "no guarantee" in str(figure)
    else:
        assert figure.realised is None
        assert "the answers that were released" not in str(figure)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_every_way_to_treat_gaps_has_its_figure(tmp_path, delta):
    figures = {}
    for missing in (gl.CompleteRows(), gl.Observed(), gl.Extended(), gl.ImputeFirst()):
        table = people(tmp_path, Budget(1.0, delta))
        gl.Independent(missing=missing).fit(table, spend=table.ledger.left)
        figures[type(missing).__name__] = table.ledger.ground_truth(ASSUMED).epsilon
    assert figures["CompleteRows"] < figures["Observed"] < 0.8
    for gains_nothing in ("Extended", "ImputeFirst"):
        assert figures[gains_nothing] == pytest.approx(table.ledger.guarantee().epsilon, abs=2e-3)


def test_the_second_promise_is_never_printed_without_the_first_and_its_assumptions(tmp_path):
    table = people(tmp_path, Budget(1.0, 0))
    measure(table, ["x0"], 50)
    text = str(table.ledger.ground_truth(gl.MCAR({"x0": 0.4})))
    first, second = text.split("\n")
    assert first == str(table.ledger.guarantee())
    assert second.startswith("Assuming that cells go missing independently across rows and columns")
    assert "nobody outside knows" in second
    assert "complete data" in second


@pytest.mark.parametrize("columns", ["independent", "dependent"])
@pytest.mark.parametrize("budget", [Budget(1.0, 0), Budget(1.0, 1e-6)])
def test_one_rate_stands_for_every_column_that_may_be_missing(budget, columns, tmp_path):
    table = people(tmp_path, budget)
    assert table.ledger.ground_truth(gl.MCAR(0.3, columns=columns)).epsilon == pytest.approx(1.0)
    gl.Independent(missing=gl.Observed()).fit(table, spend=table.ledger.share("50%"))
    every = dict.fromkeys((column.name for column in table.schema.columns if column.gaps), 0.3)
    for stated, named in (
        (gl.MCAR(0.3, columns=columns), gl.MCAR(every, columns=columns)),
        (gl.privacy.MissingAtLeast(0.3), gl.privacy.MissingAtLeast(every)),
    ):
        figure = table.ledger.ground_truth(stated)
        assert figure.epsilon == table.ledger.ground_truth(named).epsilon
        if budget.delta == 0:
            assert figure.epsilon < 0.9 * figure.incomplete.epsilon
        assert figure.realised == table.ledger.ground_truth(named).realised
        assert "0.3 in every column that may be missing" in str(figure)


def test_one_rate_is_that_of_a_budget_which_stops_on_it(tmp_path):
    table = people(tmp_path, Budget(1.0, 0, ground_truth=gl.MCAR(0.4)))
    measure(table, ["x0"], 20)
    measure(table, ["x0"], 20)
    assert table.ledger.ground_truth(gl.MCAR(0.4)).basis == table.ledger.ground_truth().basis


def test_a_ledger_needs_an_assumption(tmp_path):
    table = people(tmp_path, Budget(1.0, 0))
    with pytest.raises(BudgetError, match="needs an assumption about gaps"):
        table.ledger.ground_truth()
    with pytest.raises(BudgetError, match="an assumption about gaps must be"):
        table.ledger.ground_truth(0.2)


def test_an_empty_ledger_promises_its_budget(tmp_path):
    figure = people(tmp_path, Budget(1.0, 0)).ledger.ground_truth(ASSUMED)
    assert figure.epsilon == pytest.approx(1.0)


def test_figures_cannot_be_added_up_and_the_ledger_computes_anew(tmp_path):
    table = people(tmp_path, Budget(1.0, 0))
    measure(table, ["x0"], 50)
    figure = table.ledger.ground_truth(ASSUMED)
    with pytest.raises(TypeError):
        figure + figure
    with pytest.raises(TypeError):
        sum([figure, figure])
    measure(table, ["x0"], 50)
    assert table.ledger.ground_truth(ASSUMED).realised > 2 * figure.realised + 0.02


def test_estimated_rates_bring_their_failure_into_delta(tmp_path):
    table = people(tmp_path, Budget(1.0, 1e-6))
    measure(table, ["x0"], 50)
    assert table.ledger.ground_truth(gl.MCAR({"x0": 0.3}, failure=1e-7)).delta == pytest.approx(1.1e-6)


def test_several_rows_are_several_chances(tmp_path):
    one_row, two_rows = (people(tmp_path, Budget(1.0, 0), protect=gl.Rows(k)) for k in (1, 2))
    for table in (one_row, two_rows):
        measure(table, ["x0"], 100)
    assert one_row.ledger.ground_truth(ASSUMED).epsilon < two_rows.ledger.ground_truth(ASSUMED).epsilon < 1


def test_noise_of_a_test_promises_nothing(tmp_path):
    table = people(tmp_path, Budget(1.0, 0))
    with fixed_noise(1):
        measure(table, ["x0"], 50)
    figure = table.ledger.ground_truth(ASSUMED)
    assert figure.epsilon == math.inf
    assert str(figure).startswith("NOT PRIVATE")
    assert json.loads(json.dumps(figure.summary(), allow_nan=False))["epsilon"] is None
    with pytest.raises(BudgetError, match="releases with test noise"):
        gap_curve(table.ledger)


# ---------------------------------------------------------------------- a ledger that stops on it


FILTERED = Budget(1.0, 0, ground_truth=ASSUMED)


@pytest.mark.parametrize("method", [gl.Independent, gl.PrivBayes, gl.MST, gl.AIM])
def test_every_method_keeps_the_promise_to_the_complete_table_and_uses_it_up(tmp_path, method):
    table = people(tmp_path, FILTERED)
    method(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    figure = table.ledger.ground_truth()
    assert figure.realised <= 1
    assert figure.realised > 0.95
    assert figure.epsilon <= 1
    lost = math.fsum(entry.loss for entry in table.ledger.entries)
    assert 1.3 < lost <= figure.incomplete.epsilon <= max_incomplete_loss(1.0, ASSUMED)


def test_known_rates_let_privbayes_add_less_noise(tmp_path):
    noise = {}
    for budget in (Budget(1.0, 0), FILTERED):
        table = people(tmp_path, budget)
        gl.PrivBayes(missing=gl.Observed()).fit(table, spend=table.ledger.left)
        noise[budget.ground_truth is not None] = table.ledger.entries[-1].mechanism["scale"]
    assert noise[True] < 0.7 * noise[False]


def test_extended_gains_nothing_and_loses_nothing(tmp_path):
    table = people(tmp_path, FILTERED)
    gl.MST(missing=gl.Extended()).fit(table, spend=table.ledger.left)
    assert math.fsum(entry.loss for entry in table.ledger.entries) == pytest.approx(1.0, abs=1e-6)
    assert table.ledger.left.value == pytest.approx(0, abs=1e-6)


def test_refuses_charges_above_the_promise_before_reading(tmp_path):
    table = people(tmp_path, FILTERED)
    measure(table, ["x0", ["x0", "x1"]], 80)
    before = table.ledger.entries
    with pytest.raises(BudgetError, match=r"spend asks for 50\.00% of the budget, but 20\.00% is left"):
        measure(table, ["x2"], 50)
    grant = table.ledger.grant(table.ledger.left, to="test")
    value = table.marginal("x2")
    with pytest.raises(BudgetError, match="is left in this grant"):
        grant.release(value, DiscreteLaplace(1.0), what="too much")
    assert table.ledger.entries == before


def test_two_grants_cannot_together_exceed_the_promise(tmp_path):
    table = people(tmp_path, FILTERED)
    grants = [table.ledger.grant(table.ledger.left, to=f"test {i}") for i in range(2)]
    value = table.marginal("x0")
    noise = for_counts(grants[0].even_loss([value], grants[0].left), value.distance)
    grants[0].release(value, noise, what="x0")
    with pytest.raises(BudgetError, match="a release costs"):
        grants[1].release(table.marginal("x1"), noise, what="x1")


def test_such_a_ledger_is_found_again_as_it_was(tmp_path):
    table = people(tmp_path, FILTERED)
    measure(table, ["x0"], 60)
    again = Ledger.open(table.ledger.path)
    assert again.budget == FILTERED
    assert again.spent == table.ledger.spent
    assert again.summary()["budget"]["ground_truth"] == str(ASSUMED)
    assert "for the complete data" in str(again)
    assert "for the incomplete table" in str(again)
    with pytest.raises(LedgerError, match="cannot be changed to 'ε = 1, δ = 0'"):
        Ledger.attach(table.ledger.path, table="letters", protect=gl.Rows(1), budget=Budget(1.0, 0))


def test_a_header_whose_filter_cannot_be_read_is_refused(tmp_path):
    assert "ground_truth" not in new_header("t", gl.Rows(1), Budget(1.0, 0), {})
    table = people(tmp_path, FILTERED)
    text = table.ledger.path.read_text()
    wrong = table.ledger.path.with_name("wrong.ledger")
    for old, new in (
        ('"version": 4', '"version": 3'),
        ('"version": 4', '"version": 5'),
        ('"kind": "MCAR"', '"kind": "MAYBE"'),
        ('"identity"', '"other"'),
        ('"gaps"', '"others"'),
    ):
        assert old in text
        wrong.write_text(text.replace(old, new))
        with pytest.raises(LedgerError):
            Ledger.open(wrong)


def test_another_assumption_is_not_what_the_ledger_stops_on(tmp_path):
    table = people(tmp_path, FILTERED)
    gl.MST(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    other = table.ledger.ground_truth(gl.MCAR({"x0": 0.4}))
    assert 1 < other.epsilon <= table.ledger.guarantee().epsilon


def test_a_filter_is_for_pure_budgets():
    with pytest.raises(BudgetError, match="its proof is for pure budgets"):
        Budget(1.0, 1e-6, ground_truth=ASSUMED)
    with pytest.raises(BudgetError, match="an assumption about gaps must be"):
        Budget(1.0, 0, ground_truth={"x0": 0.2})


def test_rates_are_of_columns_that_may_be_missing(tmp_path):
    table = people(tmp_path, Budget(1.0, 0, ground_truth=gl.MCAR(0.4)))
    assert table.ledger.budget == FILTERED
    with pytest.raises(SchemaError, match="no column 'y'"):
        people(tmp_path, Budget(1.0, 0, ground_truth=gl.MCAR({"y": 0.4})))
    whole = gl.Schema("whole", [gl.Boolean("a"), gl.Boolean("b", may_be_missing=True)])
    with pytest.raises(SchemaError, match="'a' may not be missing"):
        private([("true", None)], whole, tmp_path, budget=Budget(1.0, 0, ground_truth=gl.MCAR({"a": 0.1})))


# ---------------------------------------------------------------------- what a gap is


CODED = gl.Schema("coded", [gl.Categorical("x", ["a", "b"], may_be_missing=True, missing=["-8"]), gl.Boolean("y")])
VALUED = gl.Schema("coded", [gl.Categorical("x", ["a", "b", "-8"], may_be_missing=True), gl.Boolean("y")])
CELLS = [("a", "yes"), ("-8", "no"), ("b", "yes"), ("-8", "yes")] * 20


def reading(schema, path, budget=None):
    frame = pl.DataFrame(CELLS, schema={"x": pl.String, "y": pl.String}, orient="row").select(schema.names)
    return gl.read(frame, schema, protect=gl.Rows(1), ledger=path, budget=budget)


@pytest.mark.parametrize("order", [(CODED, VALUED), (VALUED, CODED)])
def test_a_filter_holds_though_a_second_reading_takes_other_cells_for_gaps(tmp_path, order):
    """The exact log-ratio, over whether the person's cell is a gap by the header: the second reading may read it then.

    Opened with -8 as a missing code and read again with -8 as a level, that is just what happens.
    """
    rate, path = 0.8, tmp_path / "coded.ledger"
    assumed = gl.MCAR({"x": rate})
    for schema in order:
        table = reading(schema, path, Budget(1.0, 0, ground_truth=assumed))
        measure(table, ["x"], loss=min(table.ledger.share("50%"), table.ledger.left, key=lambda loss: loss.value))
    first, second = (entry.loss for entry in table.ledger.entries)
    truth = second + math.log(1 + (1 - rate) * math.expm1(first))
    assert truth <= table.ledger.spent.value + 1e-9 <= 1.0
    assert truth <= table.ledger.ground_truth().epsilon
    assert truth <= table.ledger.ground_truth().realised + 1e-9
    assert table.ledger.entries[0].reads == ["x"]
    assert table.ledger.entries[1].reads is None
    assert "This reading takes other cells for gaps than the ledger says, in 'x'" in str(table.ledger)
    assert "other cells" not in str(reading(order[0], path).ledger)


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_release_under_another_schema_is_not_amplified(tmp_path, delta):
    path = tmp_path / "coded.ledger"
    reading(CODED, path, Budget(1.0, delta))
    table = reading(VALUED, path)
    measure(table, ["x", ["x", "y"]], 100)
    assert [entry.reads for entry in table.ledger.entries] == [None, None]
    figure = Ledger.open(path).ground_truth(gl.MCAR({"x": 0.9}))
    assert figure.epsilon == pytest.approx(figure.incomplete.epsilon, abs=1e-3)  # the grid of a loss distribution


def test_columns_that_the_header_does_not_know_gain_nothing_and_those_left_out_lose_nothing(tmp_path):
    path = tmp_path / "coded.ledger"
    y = gl.Boolean("y", may_be_missing=True)
    few, all_ = (gl.Schema("coded", columns) for columns in ([CODED["x"]], [CODED["x"], y]))
    reading(few, path, Budget(1.0, 0))
    table = reading(all_, path)
    measure(table, ["x", "y", ["x", "y"]], 50)
    measure(table.select(["x"]), ["x"], 10)
    measure(reading(few, path), ["x"], 10)
    assert [entry.reads for entry in Ledger.open(path).entries] == [["x"], None, None, ["x"], ["x"]]


def test_bins_and_descriptions_are_no_other_gaps(tmp_path):
    path = tmp_path / "n.ledger"
    for bins in (2, 5):
        column = gl.Number("n", bounds=(0, 10), bins=bins, may_be_missing=True, description=f"{bins} bins")
        table = gl.read(
            pl.DataFrame({"n": [1.0, None]}),
            gl.Schema("n", [column]),
            protect=gl.Rows(1),
            ledger=path,
            budget=Budget(1.0, 0),
        )
        measure(table, ["n"], 10)
        assert table.ledger.entries[-1].reads == ["n"]


def test_the_definition_of_a_gap_is_printed_with_the_figure(tmp_path):
    few = gl.Schema("coded", [CODED["x"]])
    table = reading(few, tmp_path / "coded.ledger", Budget(1.0, 0, ground_truth=gl.MCAR({"x": 0.5})))
    measure(table, ["x"], 50)
    description = "an empty cell, '-8', or whatever is none of its levels"
    figure = reading(CODED, table.ledger.path).ledger.ground_truth(gl.MCAR({"x": 0.5, "y": 0.1}))
    assert f"A gap is, in 'x': {description}; in 'y': the ledger does not say, so its rate lowers no figure." in str(
        figure
    )
    assert figure.summary()["gaps"]["x"] == description
    assert f"A gap is, in 'x': {description}." in str(table.ledger)
    assert table.ledger.summary()["gaps"]["x"] == {"description": description, "digest": CODED["x"].gap_rule.digest}


# ---------------------------------------------------------------------- shown


def test_the_curve_falls_and_shows_what_is_no_guarantee(tmp_path):
    table = people(tmp_path, Budget(1.0, 0))
    gl.MST(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    drawn = gap_curve(table.ledger)
    assert "nobody outside knows which cells of a person are missing" in drawn
    assert "rate of gaps in x0" in gap_curve(table.ledger, ["x0"])
    assert drawn.startswith("<svg")
    assert "incomplete table" in drawn
    assert "no guarantee" in drawn
    plain = people(tmp_path, Budget(1.0, 0))
    measure(plain, ["x0"], 100)
    assert "no guarantee" not in gap_curve(plain.ledger)


def test_the_curve_explains_why_lines_coincide(tmp_path):
    def drawn(budget, *synthesizers, columns=None):
        table = people(tmp_path, budget)
        for synthesizer in synthesizers:
            synthesizer.fit(table, spend=table.ledger.share(f"{100 // len(synthesizers)}%"))
        return gap_curve(table.ledger, columns)

    pure, observed = Budget(1.0, 0), gl.Independent(missing=gl.Observed())
    assert "nothing has been released" in drawn(pure)
    assert "no release leaves out rows with gaps in these columns" in drawn(pure, gl.Independent(missing=gl.Extended()))
    later = people(tmp_path, pure)
    measure(later, ["x0"], 2)
    measure(later, ["x0"], 98)
    assert "count in full" in gap_curve(later.ledger)
    assert "the dependence of columns matters little" in drawn(pure, observed, columns=["x0"])
    assert "guarantee for the incomplete table" in drawn(Budget(1.0, 1e-6), observed)
    assert "coincide" not in drawn(Budget(3.0, 0), gl.Independent(missing=gl.CompleteRows()))


def test_a_release_states_both_promises_the_one_for_the_incomplete_table_first(tmp_path):
    table = people(tmp_path, FILTERED)
    model = gl.MST(missing=gl.Observed()).fit(table, spend=table.ledger.left)
    text = "\n".join(privacy_statement(model, model.sample(5, seed=1), table.ledger))
    first, second = text.index("of the incomplete table"), text.index("of the complete data")
    assert first < text.index("Assuming that") < second
    assert f"**{table.ledger.guarantee()}**" in text
    assert "is above 1" in text  # the note looks at the larger ε


def test_a_half_written_entry_of_a_filtered_ledger_spends_all_of_it(tmp_path):
    table = people(tmp_path, FILTERED)
    measure(table, [["x0", "x1"]], 60)
    path = table.ledger.path
    path.write_bytes(path.read_bytes() + b'{"lo')
    seal_of(path).unlink()
    again = Ledger.open(path)
    assert again.left.value == 0
    assert again.entries[-1].reads is None


def test_many_wide_releases_stay_within_the_promise_though_the_figure_is_only_a_bound(tmp_path, monkeypatch):
    """Tables of at most two columns: sets are shrunk, bounds may jump, the filter must hold all the same."""
    bound = ground_truth_module.independent_loss
    monkeypatch.setattr(ground_truth_module, "independent_loss", lambda sets, seen: bound(sets, seen, width=2))
    table = people(tmp_path, FILTERED)
    for pair in combinations(SCHEMA.names, 2):
        measure(table, [list(pair)], 15)
    assert table.ledger.spent.value <= 1
    releases = [(entry.loss, entry.reads) for entry in table.ledger.entries]
    monkeypatch.undo()
    assert gl.privacy.ground_truth(releases, ASSUMED) <= 1


def test_a_thread_that_only_looks_does_not_make_the_filter_forget(tmp_path, monkeypatch):
    """Its figure is of the entries it saw, not of those that came while it was computed."""
    people = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=ASSUMED))
    ledger = people.ledger
    grant = ledger.grant(ledger.left, to="test")
    slow = filter_module.complete_data_loss
    counts = people.marginal(SCHEMA.names[0])

    def release(epsilon):
        grant.release(counts, DiscreteLaplace(1 / epsilon), what="count")

    def interrupted(*given, **more):
        monkeypatch.setattr(filter_module, "complete_data_loss", slow)
        found = slow(*given, **more)
        release(0.7)  # another thread, while this one computes
        return found

    release(0.05)
    ledger._amplified = (0, 0.0)
    monkeypatch.setattr(filter_module, "complete_data_loss", interrupted)
    seen = ledger.spent.value
    assert ledger.spent.value > 2 * seen  # what came meanwhile is not forgotten
    with pytest.raises(gl.errors.BudgetError):
        release(0.7)
        release(0.7)
    assert slow(merge_releases([(e.loss, e.reads) for e in ledger.entries]), ASSUMED) <= 1


def test_printed_figures_never_understate(tmp_path):
    assert "at least 0.123457 in 'a'" in str(gl.MCAR({"a": 0.12345649}))
    assert "δ = 0.001 for the complete data" in str(gl.Budget(1.0, 0, ground_truth=gl.MCAR({"a": 0.2}, failure=1e-3)))
    people = private(ROWS, SCHEMA, tmp_path, budget=gl.Budget(1.0, 0, ground_truth=ASSUMED))
    assert "of the incomplete table" in str(people.ledger)
    assert "must not be added up" in str(people.ledger.ground_truth())


def test_many_columns_that_are_nearly_always_missing():
    most = max_incomplete_loss(1.0, gl.MCAR({f"x{i}": 0.9 for i in range(400)}))
    assert most == pytest.approx(math.log(math.e - 1) + 400 * math.log(10), rel=1e-6)


def test_a_rate_for_a_column_that_is_never_missing_gains_nothing(tmp_path):
    """It is in no entry, so nobody can lower a figure with it."""
    schema = gl.Schema("t", [gl.Categorical("sure", ["a", "b"]), gl.Categorical("x", ["a", "b"], may_be_missing=True)])
    table = private([("a", "b"), ("b", "")] * 20, schema, tmp_path, budget=Budget(1.0, 0))
    values = [table.marginal(["sure", "x"]), table.marginal("sure"), table.complete_rows().marginal("sure")]
    values += [table.where("sure", ["a"]).marginal("x"), table.where("x", ["a"]).select(["sure"]).marginal("sure")]
    grant = table.ledger.grant(table.ledger.left, to="test")
    grant.release_all([(value, DiscreteLaplace(10.0), "counts") for value in values])
    assert [entry.reads for entry in table.ledger.entries] == [["x"], None, ["x"], ["x"], ["x"]]
    assert table.ledger.ground_truth(gl.MCAR({"sure": 0.9})).epsilon == pytest.approx(0.5)
    assert table.ledger.ground_truth(gl.MCAR({"x": 0.9})).epsilon < 0.2


@pytest.mark.parametrize(
    ("releases", "assumption", "expected"),
    [
        ([0.1], gl.MCAR({"a": 0.2}), "and a set of columns, got 0.1"),
        ([(0.1, None)], None, "an assumption about gaps must be .*, got None"),
        ([(0.1, None)], gl.MAR(0.2), "an assumption about gaps must be"),
        ([(0.1, {"a"})], gl.MCAR({"a": 0.2}, failure=0.01), "wrong with probability 0.01"),
    ],
)
def test_releases_without_a_figure_are_refused(releases, assumption, expected):
    with pytest.raises(BudgetError, match=expected):
        gl.privacy.ground_truth(releases, assumption)


def test_the_same_words_for_other_cells_are_another_gap(tmp_path):
    """What is none of its levels: the words do not say which levels, the digest does."""
    budget = Budget(1.0, 0, ground_truth=gl.MCAR({"x0": 0.4}))
    columns = [
        gl.Schema("t", (gl.Categorical("x0", levels, may_be_missing=True),)) for levels in (["a", "b", "c"], ["a", "b"])
    ]
    rules = [schema["x0"].gap_rule for schema in columns]
    assert rules[0].description == rules[1].description
    rows = pl.DataFrame({"x0": ["a", "b", "c", None]})
    for schema in columns:
        table = gl.read(rows, schema, protect=gl.Rows(1), ledger=tmp_path / "t.ledger", budget=budget)
        measure(table, ["x0"], 10)
    assert [entry.reads for entry in table.ledger.entries] == [["x0"], None]


def test_a_misspelt_column_is_refused_with_the_nearest_name(tmp_path):
    """Found by a new user: its rate silently changed nothing."""
    table = people(tmp_path, Budget(1.0, 0))
    with pytest.raises(SchemaError, match="no column 'X0'") as error:
        table.ledger.ground_truth(gl.MCAR({"X0": 0.4}))
    assert "x0" in error.value.hint
    with pytest.raises(SchemaError, match="no column 'y'"):
        table.ledger.ground_truth(gl.privacy.MissingAtLeast({"x1": 0.1, "y": 0.4}))


def test_the_cost_is_the_growth_of_the_total_for_units_of_several_rows():
    """Each row of a unit is another chance that the columns are observed, so two rows cost more than one."""
    charged, reads = gl.Loss(0.3, math.inf), frozenset({"x0"})
    empty = filter_module.GroundTruthFilter(Budget(1.0, 0.0, ground_truth=ASSUMED), ASSUMED, 2, lambda columns: columns)
    grown = replace(empty, losses={reads: Fraction(0.3)})
    assert empty.cost_of_losses([(charged, reads)]).value == grown.spent.value > replace(grown, rows=1).spent.value
