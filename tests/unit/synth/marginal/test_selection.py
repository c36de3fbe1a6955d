"""What MST and AIM measure, in which order, at which cost and from which rows; how they choose; what they refuse."""

import numpy as np
import pytest

import gapless as gl
from gapless.missing import STRATEGIES
from gapless.model.junction import cells
from gapless.model.marginal import Measurement
from gapless.synth import fitting, learners
from gapless.synth.marginal import mst
from gapless.synth.marginal import selection as selection_module
from gapless.synth.marginal.selection import MarginalSelection
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import no_noise
from helpers.letters_tables import METHODS, PAIRS, SCHEMA, SIZES, fit, letters, table_of
from helpers.open_sealed import reveal

BUDGETS = {"pure": gl.Budget(1.0, 0), "approximate": gl.Budget(1.0, 1e-6)}
TREATMENTS = [
    name for name in STRATEGIES if name not in {"impute-mode", "impute-distribution"}
]  # they pay as the mean does
EVERY = [(method, missing) for method in ("mst", "aim") for missing in TREATMENTS]


def selection_of(table, missing, *, marginals=PAIRS, cap_cells=10**6):
    selection = MarginalSelection(
        gl.MST(missing=STRATEGIES[missing]()), table, spend=table.ledger.left, cap_cells=cap_cells
    )
    selection.add_candidates(marginals)
    selection.prepare()
    return selection


# ------------------------------------------------------------------ totals and scales


@pytest.mark.parametrize("missing", ["extended", "observed", "complete-rows"])
def test_without_noise_every_measurement_is_the_truth_brought_to_the_number_of_rows(missing, tmp_path):
    rows = letters()
    table = table_of(tmp_path, rows, budget=gl.Budget(1e4, 1e-6))
    selection = selection_of(table, missing)
    with no_noise():
        selection.measure_columns(table.ledger.share("50%"))
        selection.measure([(0, 1), (2, 3)], selection.grant.left)
    assert selection.total == pytest.approx(len(rows), rel=1e-12)
    source = table.complete_rows() if missing == "complete-rows" else table
    for measured in selection.scaled_tables:
        names = [SCHEMA.names[c] for c in measured.columns]
        truth = reveal(source.marginal(names, rows="extended" if missing == "extended" else "observed"), table.ledger)
        np.testing.assert_allclose(measured.counts, truth * (len(rows) / truth.sum()), rtol=1e-12)
        assert measured.counts.sum() == pytest.approx(len(rows))


@pytest.mark.parametrize("missing", ["observed", "complete-rows"])
def test_noise_is_scaled_with_the_counts(missing, tmp_path):
    """A marginal seen by a third of the rows has three times the noise of its counts."""
    table = table_of(tmp_path, budget=gl.Budget(100.0, 1e-6))
    selection = selection_of(table, missing)
    with no_noise():
        selection.measure_columns(table.ledger.share("50%"))
    for raw, scaled in zip(selection.measured, selection.scaled_tables, strict=True):
        factor = selection.total / raw.counts.sum()
        assert factor > 1
        assert scaled.noise_std == pytest.approx(raw.noise_std * factor)


def test_a_marginal_that_is_all_noise_is_not_blown_up_without_end(tmp_path):
    """A noisy total of 3 among noise of 10 in each of 16 cells counts as 40."""
    selection = selection_of(table_of(tmp_path), "observed")
    selection.rows = [Measurement((), np.array(1000.0), 1.0)]
    selection.measured = [Measurement((0, 1), np.full((4, 4), 3 / 16), 10.0)]
    assert selection.scaled_tables[0].noise_std == pytest.approx(10.0 * 1000 / 40)
    selection.measured = [Measurement((0,), np.array([-5.0, 1.0]), 0.1)]
    assert selection.scaled_tables[0].noise_std == pytest.approx(0.1 * 1000)


@pytest.mark.parametrize("missing", TREATMENTS)
def test_no_rows_count_as_one(missing, tmp_path):
    selection = selection_of(table_of(tmp_path, [], budget=gl.Budget(100.0, 1e-6)), missing)
    with no_noise():
        selection.measure_columns(selection.grant.left)
    assert selection.total == 1
    assert all(np.isfinite(measured.counts).all() for measured in selection.scaled_tables)
    assert np.isfinite(selection.fit_model().marginal([0])).all()


# ------------------------------------------------------------------ the cap


@pytest.mark.parametrize("method", METHODS)
def test_a_column_too_large_for_the_cap_is_named_before_anything_is_spent(method, tmp_path):
    schema = gl.Schema(
        "wide", [gl.Categorical(n, [f"{n}{i}" for i in range(many)]) for n, many in zip("abc", (50, 4, 3), strict=True)]
    )
    table = private([("a0", "b0", "c0")] * 5, schema, tmp_path)
    with pytest.raises(gl.errors.ModelError, match=r"fits into 100 cells: a \(50 cells\)") as error:
        METHODS[method](cap_cells=100).fit(table, spend=table.ledger.left)
    assert "b (" not in str(error.value)
    assert "bins" in str(error.value)
    assert 'select(["age", "sex"])' in str(error.value)
    assert not table.ledger.entries


@pytest.mark.parametrize("missing", ["observed", "extended"])
def test_the_cap_counts_gap_states_only_where_they_are_counted(missing, tmp_path):
    """x0 × x1 has 2 × 4 cells, 3 × 6 with the gaps: unknown, and refused in x1."""
    table = table_of(tmp_path)
    if missing == "extended":
        with pytest.raises(gl.errors.ModelError, match=r"x0 \(3 cells\), x1 \(6 cells\)"):
            selection_of(table, missing, marginals=[(0, 1)], cap_cells=8)
    else:
        assert selection_of(table, missing, marginals=[(0, 1)], cap_cells=8).candidates == [(0, 1)]


def test_marginals_beyond_the_cap_are_left_out_if_their_columns_find_another(tmp_path):
    selection = selection_of(table_of(tmp_path), "observed", marginals=[(0, 1, 2), (0, 1), (1, 2)], cap_cells=8)
    assert selection.candidates == [(0, 1), (1, 2)]


# ------------------------------------------------------------------ the ledger


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_everything_is_spent_and_every_read_is_an_entry(method, missing, budget, k, tmp_path):
    table = table_of(tmp_path, budget=BUDGETS[budget], k=k)
    share = table.ledger.share("70%")
    METHODS[method](missing=STRATEGIES[missing]()).fit(table, spend=share)
    assert table.ledger.spent.value <= share.value * (1 + 1e-12)
    assert table.ledger.spent.value == pytest.approx(share.value, rel=1e-6)
    for entry in table.ledger.entries:
        choice = entry.what.startswith("choice")
        assert entry.distance == ({"Linf": k} if choice else {"L1": k})
        counts = "DiscreteLaplace" if budget == "pure" else "DiscreteGaussian"
        assert entry.mechanism["name"] == ("ExponentialChoice" if choice else counts)
        assert entry.to == f"{method.upper()}.fit"


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_reads_of_every_entry(method, missing, tmp_path):
    table = table_of(tmp_path)
    fit(method, missing, table)
    everything = sorted(SCHEMA.names)
    for entry in table.ledger.entries:
        if entry.what.endswith(", to fill gaps"):
            expected = [entry.what.removesuffix(", to fill gaps")]
        elif missing in {"extended", "impute-random", "impute-mean"} or entry.what == "number of rows":
            expected = None
        elif missing == "complete-rows":
            expected = everything
        elif entry.what.startswith("choice"):
            expected = None  # no column is in every pair
        else:
            expected = sorted(entry.what.split(" × "))
        assert entry.reads == expected, entry.what


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_order_and_batches(method, missing, tmp_path):
    """Columns in one batch; then each choice before what it chose. MST measures its pairs in one batch at the end."""
    table = table_of(tmp_path)
    fit(method, missing, table)
    entries = [e for e in table.ledger.entries if e.what != "number of rows"]
    budget = table.ledger.capacity.value
    if missing == "impute-mean":  # a quarter of the budget, first, in one batch
        paid, entries = entries[:4], entries[4:]
        assert all(e.what.endswith(", to fill gaps") and e.batch == 1 for e in paid)
        assert sum(e.loss for e in paid) == pytest.approx(budget / 4)
        budget *= 3 / 4
    assert [e.what for e in entries[:4]] == list(SCHEMA.names)
    assert len({e.batch for e in entries[:4]}) == 1
    rest = entries[4:]
    if method == "mst":
        assert [e.what for e in rest[:3]] == ["choice 1", "choice 2", "choice 3"]
        assert len({e.batch for e in rest[:3]}) == 3
        assert len({e.batch for e in rest[3:]}) == 1
        tree = [tuple(SCHEMA.names.index(n) for n in e.what.split(" × ")) for e in rest[3:]]
        assert len(tree) == 3
        assert len({c for pair in tree for c in pair}) == 4  # three pairs over four columns: a tree, or a circle
        assert cells(SIZES, tree) == sum(SIZES[i] * SIZES[j] for i, j in tree)  # and it is no circle
    else:
        assert len({e.batch for e in rest}) == len(rest)
        assert all(e.what == f"choice {i // 2 + 1}" for i, e in enumerate(rest) if i % 2 == 0)
        assert all(" × " in e.what for e in rest[1::2])
    assert ("number of rows" in {e.what for e in table.ledger.entries}) == (missing != "extended")
    if method == "mst":
        third = budget / 3
        assert sum(e.loss for e in rest[:3]) <= third * (1 + 1e-12)
        assert sum(e.loss for e in rest[:3]) == pytest.approx(third, rel=1e-3)


def test_the_number_of_rows_and_the_columns_have_even_shares(tmp_path):
    table = table_of(tmp_path)
    selection = selection_of(table, "observed")
    selection.measure_columns(table.ledger.share("40%"))
    losses = [e.loss for e in table.ledger.entries]
    assert losses == pytest.approx([0.08 * table.ledger.capacity.value] * 5)


@pytest.mark.parametrize("method", METHODS)
def test_a_single_column_is_one_batch_and_gets_the_composed_total(method, tmp_path):
    table = private([("a",)] * 10, letters_schema((2,)), tmp_path)
    fit(method, "observed", table)
    assert table.ledger.guarantee().epsilon < 1


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_too_small_for_a_choice(method, tmp_path):
    table = table_of(tmp_path, budget=gl.Budget(1e-6, 0))
    with pytest.raises(gl.errors.BudgetError, match="too small for a choice"):
        fit(method, "extended", table)


@pytest.mark.parametrize("method", METHODS)
def test_a_budget_too_small_for_a_choice_is_refused_before_anything_is_spent(method, tmp_path):
    table = table_of(tmp_path, budget=gl.Budget(1e-6, 0))
    with pytest.raises(gl.errors.BudgetError):
        fit(method, "extended", table)
    assert not table.ledger.entries


# ------------------------------------------------------------------ the choice


@pytest.mark.parametrize(("method", "missing"), EVERY)
def test_without_noise_the_dependent_pairs_are_chosen(method, missing, tmp_path):
    table = table_of(tmp_path, letters(4000), budget=gl.Budget(10.0, 1e-6))
    with no_noise():
        fit(method, missing, table)
    measured = {e.what for e in table.ledger.entries}
    assert {"x0 × x1", "x2 × x3"} <= measured


def driven(rows=4000):
    """x0 drives the gaps of the others, 5 % or 75 %, and has nothing to do with their values; x2 follows x1."""
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (rows, 4))
    codes[:, 2] = np.where(rng.random(rows) < 0.5, codes[:, 1], codes[:, 2])
    cells_ = np.array(list("ab"), dtype=object)[codes]
    cells_[:, 1:][rng.random((rows, 3)) < np.where(codes[:, :1] == 1, 0.75, 0.05)] = None
    return [tuple(row) for row in cells_]


@pytest.mark.parametrize(("method", "missing"), [("mst", "extended"), ("mst", "observed"), ("aim", "observed")])
def test_a_column_that_drives_gaps_does_not_attract_the_choice(method, missing, tmp_path):
    """Gap states depend on x0 and, through it, on each other: more than x2 does on x1. Nobody asked for that."""
    table = table_of(tmp_path, driven(), budget=gl.Budget(10.0, 1e-6))
    with no_noise():
        fit(method, missing, table)
    first = next(e.what for e in table.ledger.entries if " × " in e.what)
    assert first == "x1 × x2"


# ------------------------------------------------------------------ messages


@pytest.mark.parametrize("method", METHODS)
def test_progress_and_facts(method, tmp_path):
    calls = []
    table = table_of(tmp_path)
    model = METHODS[method]().fit(table, spend=table.ledger.left, progress=lambda *step: calls.append(step))
    phases = [phase for phase, _, _ in calls]
    assert phases[0] == "counting"
    assert phases[-1] == "fitting"
    assert any(phase.startswith(("round", "choosing")) for phase in phases)
    assert all(0 <= done <= of for _, done, of in calls)
    structure = model.facts.structure
    assert {line.split(":")[0] for line in structure} == {
        e.what for e in table.ledger.entries if not e.what.startswith("choice")
    }
    assert model.facts.settings["missing"] == "Extended()"


# ------------------------------------------------------------------ tables that are too large for the model


def ordered(bins, *pairs):
    """Columns a to d, of which the first of each pair is never above the second."""
    columns = [gl.Integer(name, bounds=(0, bins - 1), bins=bins) for name in "abcd"]
    return gl.Schema("t", columns, constraints=[gl.Constraint(f"t1.{x} > t1.{y}") for x, y in pairs])


CYCLE = ("ab", "bc", "cd", "ad")


@pytest.mark.parametrize("method", METHODS)
def test_constraints_that_need_too_large_a_tree_are_refused_before_any_charge(method, tmp_path):
    table = private([(1, 2, 3, 4)] * 20, ordered(300, *CYCLE), tmp_path)
    message = (
        r"^the constraints need a junction tree of 54,000,000 cells; the cap is 20,000,000\n"
        r"  Try: choose coarser bins or fewer levels for a, b, d, or remove a constraint between them$"
    )
    with pytest.raises(gl.errors.ModelError, match=message):
        fit(method, "extended", table)
    assert table.ledger.entries == ()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cap_cells", [10**7, 10**9])
def test_pairs_that_no_model_can_hold_are_refused_before_any_charge(method, cap_cells, tmp_path):
    columns = [gl.Integer(name, bounds=(0, 4999), bins=5000) for name in "xy"]
    table = private([(1, 2)] * 20, gl.Schema("t", columns), tmp_path)
    message = (
        r"^no marginal of these columns fits into 10,000,000 cells: x \(5000 cells\), y \(5000 cells\)\n"
        r"  Try: declare fewer levels or bins for these columns in the schema, or keep fewer columns, "
        r'with people\.select\(\["age", "sex"\]\)$'
    )
    with pytest.raises(gl.errors.ModelError, match=message):
        fit(method, "extended", table, cap_cells=cap_cells)
    assert table.ledger.entries == ()


@pytest.mark.parametrize("method", METHODS)
def test_chosen_marginals_never_make_the_tree_with_the_constraints_too_large(method, tmp_path, monkeypatch):
    """The constraints a ≤ b ≤ c ≤ d need 3 × 36 cells, and a with d, which are equal, would need 2 × 216."""
    for module in (fitting, learners, selection_module, mst):
        monkeypatch.setattr(module, "MAX_JUNCTION_TREE_CELLS", 330)
    codes = np.random.default_rng(0).integers(0, 6, 200).tolist()
    schema = ordered(6, "ab", "bc", "cd")
    table = private([(code,) * 4 for code in codes], schema, tmp_path, budget=gl.Budget(10.0, 1e-6))
    with pytest.raises(gl.errors.ModelError, match="need a junction tree of 432 cells; the cap is 330"):
        selection_of(table, "extended").check_junction_tree([(0, 3)])
    assert table.ledger.entries == ()
    model = fit(method, "extended", table)
    assert model.filled.tree.cells <= 330
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-6)


def test_mst_reports_chosen_pairs_that_it_could_not_measure(tmp_path, monkeypatch):
    for module in (fitting, learners, selection_module, mst):
        monkeypatch.setattr(module, "MAX_JUNCTION_TREE_CELLS", 11)  # of x0 × x1: 6, x2 × x3: 4; all columns alone: 9
    table = private([("a", "a", "a", "a"), ("b", "b", "b", "b")] * 50, letters_schema(SIZES), tmp_path)
    model = fit("mst", "observed", table)
    assert model.facts.settings["pairs"] < 3
    assert any(
        "of 3 chosen pairs would have made the junction tree larger than 11 cells" in x for x in model.facts.limitations
    )
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-6)
