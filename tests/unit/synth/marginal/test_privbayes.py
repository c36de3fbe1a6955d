"""PrivBayes: which network, from what, at which price; merged parents; gaps."""

from itertools import combinations

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.data.workload import Views
from gapless.privacy import L1, Linf
from gapless.synth import fitting
from gapless.synth.marginal import privbayes
from gapless.synth.marginal.privbayes import _coarser
from gapless.testing.audit import letters_schema, private
from gapless.testing.noise import NoNoise, _active, fixed_noise, no_noise
from helpers.counting_noise import CountingNoise
from helpers.open_sealed import reveal

LEVELS = ("a", "b", "c")


def chain(rows=3000, columns=5, seed=0, gaps=0.0):
    """Columns of which each mostly repeats one before it."""
    rng = np.random.default_rng(seed)
    codes = [rng.integers(0, 3, rows)]
    for column in range(1, columns):
        like = codes[rng.integers(0, column)]
        codes.append(np.where(rng.random(rows) < 0.2 + 0.1 * column, rng.integers(0, 3, rows), like))
    cells = np.array(LEVELS, dtype=object)[np.array(codes)]
    cells[rng.random(cells.shape) < gaps] = ""
    return pl.DataFrame({f"x{i}": list(column) for i, column in enumerate(cells)})


def levels_schema(columns=5, **more):
    return gl.Schema("chain", [gl.Categorical(f"x{i}", LEVELS, **more) for i in range(columns)])


def structure(model):
    return [(node.column, node.parents) for node in model.filled.nodes]


def greedy(frame, most_parents):
    """The noiseless optimum, from the definition: all columns whole, sets of parents as large as they may be."""
    codes = np.array([[LEVELS.index(cell) for cell in frame[name]] for name in frame.columns])

    def score(column, parents):
        table = np.zeros((3, 3 ** len(parents)))
        cells = np.zeros(codes.shape[1], dtype=int)
        for parent in parents:
            cells = cells * 3 + codes[parent]
        np.add.at(table, (codes[column], cells), 1)
        off = table - np.outer(table.sum(1), table.sum(0)) / table.sum()
        return round(0.5 * np.abs(off).sum(), 6)  # parents that add nothing tie: the first wins

    found, placed = [(0, ())], [0]
    while len(placed) < len(codes):
        sets = list(combinations(placed, min(most_parents, len(placed))))
        waiting = [column for column in range(len(codes)) if column not in placed]
        best = max(((column, some) for column in waiting for some in sets), key=lambda family: score(*family))
        found.append(best)
        placed.append(best[0])
    return found


@pytest.mark.parametrize("most", [1, 2, 3])
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("missing", [gl.Extended(), gl.Observed(), gl.CompleteRows()])
def test_without_noise_the_network_is_the_greedy_optimum(missing, seed, most, tmp_path, monkeypatch):
    monkeypatch.setattr(privbayes, "MOST_PARENTS", most)
    frame = chain(seed=seed)
    table = private(frame, levels_schema(), tmp_path, budget=gl.Budget(50.0, 1e-6))
    with no_noise():
        model = gl.PrivBayes(missing=missing).fit(table, spend=table.ledger.left)
    assert structure(model) == greedy(frame, most)


class FewRows(NoNoise):
    """NOT PRIVATE: no noise, but the number of rows comes out as if there were none."""

    def discrete_gaussian(self, std, size):
        return np.full(size, -(10**9) if size == 1 else 0, dtype=np.int64)


def test_the_degree_comes_from_the_paid_number_of_rows_and_no_other(tmp_path):
    """Thousands of rows, but the released number says none: every column stays alone, and nothing is chosen."""
    table = private(chain(), levels_schema(), tmp_path, budget=gl.Budget(50.0, 1e-6))
    with _active(FewRows()):
        model = gl.PrivBayes().fit(table, spend=table.ledger.left)
    assert structure(model) == [(column, ()) for column in range(5)]
    assert not [entry for entry in table.ledger.entries if entry.mechanism["name"] == "ExponentialChoice"]
    assert table.ledger.spent.value == pytest.approx(table.ledger.capacity.value, rel=1e-9)


def test_more_rows_or_budget_allow_larger_tables(tmp_path):
    def parents(rows, epsilon):
        table = private(chain(rows), levels_schema(), tmp_path, budget=gl.Budget(epsilon, 1e-6))
        with no_noise():
            model = gl.PrivBayes().fit(table, spend=table.ledger.left)
        return max(len(some) for _, some in structure(model))

    assert [parents(*some) for some in ((300, 0.1), (3000, 0.2), (3000, 0.6), (3000, 3.0))] == [0, 1, 2, 3]


def test_entries_say_what_was_read_and_tables_cost_the_same(tmp_path):
    schema = levels_schema(may_be_missing=True)
    everything = [f"x{i}" for i in range(5)]
    for missing in (gl.Extended(), gl.Observed(), gl.CompleteRows()):
        table = private(chain(gaps=0.1), schema, tmp_path, budget=gl.Budget(5.0, 1e-6))
        model = gl.PrivBayes(missing=missing).fit(table, spend=table.ledger.left)
        entries = table.ledger.entries
        begin = next(place for place, entry in enumerate(entries) if entry.what == "x0")
        tables, pairs = entries[begin : begin + 5], entries[begin + 5 :]
        assert len({entry.batch for entry in (*tables, *pairs)}) == 1
        assert len({entry.loss for entry in tables}) == 1
        assert {entry.distance["L1"] for entry in (*tables, *pairs)} == {1}
        if isinstance(missing, gl.Observed):  # tables that count rows of their own
            assert not pairs
        else:
            several = [(column, parents) for column, parents in structure(model) if len(parents) > 1]
            names = [f"x{column} given x{parent}" for column, parents in several for parent in parents]
            assert [entry.what.split(" in ")[0] for entry in pairs] == names != []
            assert len({entry.loss for entry in pairs}) == 1
            assert sum(entry.loss for entry in pairs) == pytest.approx(sum(entry.loss for entry in tables), rel=1e-6)
        choices = [entry for entry in entries if entry.mechanism["name"] == "ExponentialChoice"]
        assert {entry.distance["Linf"] for entry in choices} == {2}
        assert entries[0].what == "number of rows"
        assert entries[0].reads is None
        if isinstance(missing, gl.Extended):
            assert all(entry.reads is None for entry in entries)
        elif isinstance(missing, gl.Observed):
            families = [sorted(f"x{c}" for c in (column, *parents)) for column, parents in structure(model)]
            assert [entry.reads for entry in tables] == families
        else:
            assert all(entry.reads == everything for entry in entries[1:])


def test_pairs_are_not_measured_under_a_pure_budget(tmp_path):
    """Under a pure budget each of twice as many tables has twice the noise: there it costs what the paper says."""
    found = {}
    for delta in (0.0, 1e-6):
        table = private(chain(), levels_schema(), tmp_path, budget=gl.Budget(5.0, delta))
        model = gl.PrivBayes().fit(table, spend=table.ledger.left)
        assert max(len(parents) for _, parents in structure(model)) > 1
        found[delta] = len(model.measurements.nodes) - len(model.measurements.families)
        assert len(model.measurements.families) == 5
    assert found[0.0] == 0
    assert found[1e-6] > 0


@pytest.mark.parametrize("method", [gl.PrivBayes, gl.Mixture])
def test_noise_is_drawn_as_it_was_charged(method, tmp_path):
    table = private(chain(), levels_schema(), tmp_path, budget=gl.Budget(5.0, 1e-6))
    with _active(noise := CountingNoise()):
        model = method().fit(table, spend=table.ledger.left)
    charged = [entry.mechanism["std"] for entry in table.ledger.entries if "std" in entry.mechanism]
    assert [std for std, _ in noise.drawn] == charged
    assert len(charged) > len(model.schema.columns) + 1


def test_tables_that_help_each_other_count_the_same_rows(tmp_path):
    """One column has gaps: every family holds it, and a pair of the others would count more rows."""
    columns = [gl.Categorical(f"x{i}", ["a", "b", "c"], may_be_missing=i == 0) for i in range(3)]
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, 3, 20_000)]
    for _ in range(2):
        codes.append(np.where(rng.random(20_000) < 0.3, rng.integers(0, 3, 20_000), codes[-1]))
    cells = np.array(["a", "b", "c"], dtype=object)[np.array(codes)]
    cells[0][rng.random(20_000) < 0.5] = None
    table = private([*map(tuple, cells.T)], gl.Schema("chain", columns), tmp_path, budget=gl.Budget(5.0, 1e-6))
    with no_noise():
        measurements = gl.PrivBayes(missing=gl.Observed()).fit(table, spend=table.ledger.left).measurements
    assert max(len(node.parents) for node in measurements.nodes) == 2
    assert not measurements.same_rows or len({released.counts.sum() for released in measurements.tables}) == 1


def test_the_same_noise_gives_the_same_network(tmp_path):
    models = []
    for _ in range(2):
        table = private(chain(gaps=0.1), levels_schema(may_be_missing=True), tmp_path, budget=gl.Budget(2.0, 1e-6))
        with fixed_noise(seed=3):
            models.append(gl.PrivBayes().fit(table, spend=table.ledger.left))
    for first, other in zip(models[0].filled.probabilities, models[1].filled.probabilities, strict=True):
        assert np.array_equal(first, other)
    assert models[0].describe() == models[1].describe()


def test_coarser_codes_keep_neighbours_together_and_gaps_apart():
    kinds = ["", "NA", gl.MissingCode("-", "refused"), gl.MissingCode("n/a", "not-applicable")]
    age = gl.Integer("age", bounds=(0, 9), bins=5, may_be_missing=True, missing=kinds)
    assert [codes.tolist() for codes in _coarser(age)] == [
        [0, 1, 2, 3, 4, 5, 6, 7],
        [0, 0, 1, 1, 2, 3, 4, 5],
        [0, 0, 0, 0, 1, 2, 3, 4],
    ]
    assert [len(_coarser(gl.Ordinal("o", list(range(many))))) for many in (1, 2, 3, 16)] == [1, 1, 2, 4]
    assert len(_coarser(gl.Categorical("c", list(range(16))))) == 1


def test_a_wide_parent_enters_merged(tmp_path):
    """64 bins × 3 levels are too many for 2000 rows, 8 bins are not."""
    rng = np.random.default_rng(0)
    age = rng.integers(0, 64, 2000)
    level = np.where(rng.random(2000) < 0.2, rng.integers(0, 3, 2000), age // 22)
    frame = pl.DataFrame({"age": age, "level": [LEVELS[code] for code in level]})
    schema = gl.Schema("wide", [gl.Integer("age", bounds=(0, 63), bins=64), gl.Categorical("level", LEVELS)])
    table = private(frame, schema, tmp_path, budget=gl.Budget(2.0, 1e-6))
    with no_noise():
        model = gl.PrivBayes().fit(table, spend=table.ledger.left)
    age_node, level_node = model.filled.nodes
    assert (age_node.column, level_node.parents) == (0, (0,))
    assert 2 <= level_node.shape[0] <= 32
    assert level_node.merged[0].tolist() == (np.arange(64) // (64 // level_node.shape[0])).tolist()
    assert f"level given age in {level_node.shape[0]} cells" in model.describe()
    sample = model.sample(4000, seed=0)
    upper = sample.codes[0] >= 44
    assert (sample.codes[1][upper] == 2).mean() > 0.7
    assert model.marginal(["age", "level"]).shape == (64, 3)


def test_gaps_at_random_do_not_bias_a_child(tmp_path):
    """x1 repeats x0 and is missing for most rows where x0 is a: the observed rows alone would say c far too often."""
    rng = np.random.default_rng(1)
    codes = rng.choice(3, 20_000, p=[0.6, 0.2, 0.2])
    x1 = np.array(LEVELS, dtype=object)[codes]
    x1[(codes == 0) & (rng.random(20_000) < 0.8)] = ""
    frame = pl.DataFrame({"x0": [LEVELS[c] for c in codes], "x1": list(x1)})
    for missing in (gl.Extended(), gl.Observed()):
        table = private(frame, levels_schema(2, may_be_missing=True), tmp_path, budget=gl.Budget(20.0, 1e-6))
        model = gl.PrivBayes(missing=missing).fit(table, spend=table.ledger.left)
        assert model.marginal("x1") == pytest.approx([0.6, 0.2, 0.2], abs=0.02)
        assert model.total == pytest.approx(20_000, rel=0.02)


def test_rows_with_their_gaps(tmp_path):
    """A column that lacks cells where another one says so: the gap state is a cell like others in the network."""
    frame = chain(4000, 2).with_columns(x1=pl.when(pl.col("x0") == "a").then(pl.lit("")).otherwise("x1"))
    table = private(frame, levels_schema(2, may_be_missing=True), tmp_path, budget=gl.Budget(20.0, 1e-6))
    model = gl.PrivBayes().fit(table, spend=table.ledger.left)
    table = model.marginal(["x0", "x1"], gaps="as-observed")
    assert table[0, 3] == pytest.approx(table[0].sum(), abs=0.01)
    assert table[1:, 3].sum() < 0.01


def test_a_column_beyond_the_cap_is_named_before_anything_is_spent(tmp_path):
    schema = gl.Schema("t", [gl.Categorical("zip", [f"z{i}" for i in range(30)]), gl.Boolean("b")])
    table = private(pl.DataFrame({"zip": ["z1"], "b": [True]}), schema, tmp_path)
    with pytest.raises(gl.errors.ModelError, match=r"do not fit into 20 cells: zip \(30 cells\)"):
        gl.PrivBayes(cap_cells=20).fit(table, spend=table.ledger.left)
    assert not table.ledger.entries


@pytest.mark.parametrize("cap_cells", [12, 10**9])
@pytest.mark.parametrize(
    ("missing", "message"),
    [
        (gl.Observed(), "these columns do not fit into 12 cells: zip (13 cells)"),
        (gl.Extended(), "these columns do not fit into 12 cells: zip (14 cells)"),
    ],
)
def test_columns_that_no_model_can_hold_are_refused_before_any_charge(
    missing, message, cap_cells, tmp_path, monkeypatch
):
    """Whatever the cap, and with the cells of gaps where they are counted."""
    monkeypatch.setattr(fitting, "LARGEST_TABLE", 12)
    zips = gl.Categorical("zip", [f"z{i}" for i in range(13)], may_be_missing=True)
    table = private(pl.DataFrame({"zip": ["z1"], "b": [True]}), gl.Schema("t", [zips, gl.Boolean("b")]), tmp_path)
    with pytest.raises(gl.errors.ModelError) as error:
        gl.PrivBayes(cap_cells=cap_cells, missing=missing).fit(table, spend=table.ledger.left)
    assert error.value.message == message
    assert table.ledger.entries == ()


def test_rules_that_no_model_can_hold_are_refused_before_any_charge(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "LARGEST_TABLE", 12)
    columns = [gl.Categorical(name, list("abcd")) for name in "xy"]
    rule = gl.Constraint("t1.x == t2.x and t1.y != t2.y")
    table = private([("a", "b")], gl.Schema("t", columns, constraints=[rule]), tmp_path)
    with pytest.raises(gl.errors.ModelError, match="a constraint on x, y needs a table of 16 cells; the cap is 12"):
        gl.PrivBayes(cap_cells=10**9).fit(table, spend=table.ledger.left)
    assert table.ledger.entries == ()


def test_a_large_cap_allows_no_table_that_no_model_can_hold(tmp_path, monkeypatch):
    """Without the limit all 3 × 3 × 3 × 3 cells are useful."""
    monkeypatch.setattr(fitting, "LARGEST_TABLE", 12)
    monkeypatch.setattr(privbayes, "MAX_JUNCTION_TREE_CELLS", 20)
    table = private(chain(2000, 4), levels_schema(4), tmp_path, budget=gl.Budget(100.0, 1e-6))
    model = gl.PrivBayes(cap_cells=10**9).fit(table, spend=table.ledger.left)
    assert max(measured.counts.size for measured in model.measurements.tables) <= 12
    assert model.measurements.cap_cells == 20
    assert len(model.copies(2, seed=0)[0]) > 0


def test_many_columns_are_chosen_from_a_bounded_pool(tmp_path, monkeypatch):
    asked = []
    whole = Views.dependence
    monkeypatch.setattr(Views, "dependence", lambda self, some: asked.append(len(some)) or whole(self, some))
    monkeypatch.setattr(privbayes, "POOL", 30)
    table = private(chain(500, 12), levels_schema(12), tmp_path, budget=gl.Budget(100.0, 1e-6))
    model = gl.PrivBayes().fit(table, spend=table.ledger.left)
    assert max(asked) == 30
    assert sorted(column for column, _ in structure(model)) == list(range(12))
    assert len(model.sample(10, seed=0)) == 10


def test_progress_is_reported(tmp_path):
    phases = []
    table = private(chain(200, 3), levels_schema(3), tmp_path)
    gl.PrivBayes().fit(table, spend=table.ledger.left, progress=lambda *some: phases.append(some))
    assert [phase for phase, *_ in phases] == ["choosing", "choosing", "counting", "fitting", "fitting"]


# -------------------------------------------------------------- views

SCHEMA = letters_schema((4, 3))
ROWS = [("a", "a"), ("b", "b"), ("c", "n/a"), ("d", "-"), (None, "c"), ("d", None), ("a", "a")]
HALVES = (0, np.array([0, 0, 1, 1, 2]))
WHOLE = (1, np.arange(SCHEMA.columns[1].extended_size))


@pytest.mark.parametrize("which", ["observed", "extended"])
def test_views_are_sums_of_whole_marginals(which, tmp_path):
    table = private(ROWS, SCHEMA, tmp_path, protect=gl.Rows(2))
    views = Views(table, [HALVES, WHOLE], rows=which)
    counts = views.counts_of([(1, 0)])[0]
    whole = reveal(table.marginal(["x1", "x0"], rows=which), table.ledger)
    merged = [whole[:, :2].sum(1), whole[:, 2:4].sum(1), *whole[:, 4:].T]
    assert reveal(counts, table.ledger).tolist() == np.stack(merged, 1).tolist()
    assert reveal(counts, table.ledger).shape == (views.sizes[1], views.sizes[0])
    assert counts.distance == L1(2)
    assert counts.reads == (None if which == "extended" else {"x0", "x1"})
    scores = views.dependence([(1, 0), (0, 1), (1, 0)])
    assert scores.distance == Linf(4.0)
    values = reveal(scores, table.ledger)
    assert values == pytest.approx(np.full(3, values[0]))


def test_views_move_by_no_more_than_they_say(tmp_path):
    """Every table with one row fewer, every kind of rows."""
    for which in ("observed", "extended"):
        for left_out in range(len(ROWS)):
            seen = []
            for rows in (ROWS, ROWS[:left_out] + ROWS[left_out + 1 :]):
                table = private(rows, SCHEMA, tmp_path)
                views = Views(table, [HALVES, WHOLE], rows=which)
                values = (views.counts_of([(0, 1)])[0], views.dependence([(0, 1)]))
                seen.append([reveal(value, table.ledger) for value in values])
            (counts, scores), (fewer, moved) = seen
            assert np.abs(counts - fewer).sum() <= 1
            assert np.abs(scores - moved).max() <= 2


@pytest.mark.parametrize("codes", [[0, 0, 1, 1, 1], [0, 0, 1, 1], [-1, 0, 1, 1, 2]])
def test_views_keep_gaps_apart(codes, tmp_path):
    with pytest.raises(gl.errors.ModelError, match="keep observed cells and gaps apart"):
        Views(private(ROWS, SCHEMA, tmp_path), [(0, np.array(codes))], rows="observed")


def test_candidates_are_scored_alike_however_few_are_held_at_once(tmp_path, monkeypatch):
    table = private(chain(gaps=0.1), levels_schema(may_be_missing=True), tmp_path)
    candidates = [(i, *some) for i in range(5) for some in combinations([j for j in range(5) if j != i], 2)]
    scores, counted = [], []
    for held in (1, 100, 1 << 24):
        monkeypatch.setattr("gapless.data.workload.CELLS_IN_MEMORY", held)
        views = Views(table, [(c, np.arange(4)) for c in range(5)], rows="extended")
        count = views._count
        views._count = lambda *given, count=count: counted.append(len(given[1])) or count(*given)
        scores.append(reveal(views.dependence(candidates), table.ledger))
    assert np.array_equal(scores[0], scores[2])
    assert np.array_equal(scores[1], scores[2])
    assert counted[:30] == [1] * 30  # each is larger than what may be held
    assert counted[-1] == 30
