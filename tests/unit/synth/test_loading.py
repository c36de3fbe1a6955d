"""Models of strangers: each value and each array in turn is something else; the model is refused, or works."""

import io
import json
import zipfile

import numpy as np
import polars as pl
import pytest

import gapless as gl
from gapless.testing.audit import private
from helpers.fast_methods import METHODS
from helpers.hostile_files import changes, npy, works, zip_of

SCHEMA = gl.Schema(
    "letters",
    [
        gl.Categorical("a", ["x", "y"], may_be_missing=True),
        gl.Integer("n", bounds=(0, 50), bins=4),
        gl.Boolean("b", may_be_missing=True),
    ],
)
CELLS = {"a": ["x", "y", None, "x"] * 30, "n": [3, 20, 31, 44] * 30, "b": [True, False, None, None] * 30}
KINDS = (
    "independent",
    "privbayes",
    "mst",
    "mixture",
    "factors",
    "kamino",
    "misgan",
    "dpctgan",
)  # each kind of distribution


@pytest.fixture(scope="module", params=KINDS)
def members(request, tmp_path_factory):
    """What the file of a model holds, by method."""
    folder = tmp_path_factory.mktemp(request.param)
    table = private(pl.DataFrame(CELLS), SCHEMA, folder, budget=gl.Budget(10.0, 1e-6))
    METHODS[request.param]().fit(table, spend=table.ledger.left).save(folder / "m.model")
    with zipfile.ZipFile(folder / "m.model") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def used(path):
    """Whether a model can be loaded and used; else it is refused in words."""

    def use():
        model = gl.load(path)
        model.describe()
        model.sample(3, seed=0)
        if model.gapped is not None:
            model.sample(3, seed=0, gaps="as-observed")

    return works(use)


def test_a_model_is_loaded_and_used(members, tmp_path):
    assert used(zip_of(tmp_path / "m", members.items()))


@pytest.mark.slow
def test_each_value_of_its_head_is_checked(members, tmp_path):
    head = json.loads(members["model.json"])
    head["facts"] = {key: value[:1] if isinstance(value, list) else value for key, value in head["facts"].items()}
    found = [used(zip_of(tmp_path / "m", (members | {"model.json": text}).items())) for _, text in changes(head)]
    assert not all(found)


def others(array):
    """Arrays in place of one."""
    yield np.full(array.shape, -1.0)
    yield np.full(array.shape, 10**12)
    yield np.full(array.shape, 1e300)
    yield np.full(array.shape, -np.inf)
    yield np.zeros(array.shape)
    yield np.full(array.shape, "x")
    yield np.array(1)
    yield np.zeros(0)
    yield np.zeros((3, 3))
    yield np.concatenate([np.atleast_1d(array)] * 2)
    if array.dtype.kind in "iuf" and array.size:
        member = array.copy()
        member.flat[-1] = 99
        yield member


@pytest.mark.slow
def test_each_array_is_checked(members, tmp_path):
    for name in [name for name in members if name.endswith(".npy")]:
        kept = [member for member in members.items() if member[0] != name]
        used(zip_of(tmp_path / "m", kept))
        for other in others(np.load(io.BytesIO(members[name]))):
            used(zip_of(tmp_path / "m", [*kept, (name, npy(other))]))


def test_columns_that_all_go_together_would_take_too_much_memory(tmp_path):
    """30 columns with a table for each two of them: the junction tree would have 3^30 cells."""
    columns = [gl.Categorical(f"c{place}", ["a", "b", "c"]) for place in range(30)]
    schema, pairs = gl.Schema("wide", columns), [(i, j) for i in range(30) for j in range(i)]
    table = private([("a",) * 30], schema, tmp_path)
    gl.MST().fit(table, spend=table.ledger.left).save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        members = {name: archive.read(name) for name in archive.namelist() if not name.startswith(("filled", "gapped"))}
    head = json.loads(members["model.json"])
    head.pop("gapped", None)
    members["model.json"] = json.dumps(head)
    members |= {"filled/sizes.npy": npy(np.full(30, 3)), "filled/total.npy": npy(np.array(1.0))}
    for number, pair in enumerate(pairs):
        members[f"filled/columns.{number}.npy"] = npy(np.array(pair))
        members[f"filled/potential.{number}.npy"] = npy(np.zeros((3, 3)))
    with pytest.raises(gl.errors.ModelError, match="its parts do not fit together"):
        gl.load(zip_of(tmp_path / "wide", members.items()))


def test_a_mixture_has_tables_of_one_or_two_columns(tmp_path):
    table = private(pl.DataFrame(CELLS), SCHEMA, tmp_path, budget=gl.Budget(10.0, 1e-6))
    METHODS["mixture"]().fit(table, spend=table.ledger.left).save(tmp_path / "m")
    with zipfile.ZipFile(tmp_path / "m") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["measurements/columns.0.npy"] = npy(np.array([0, 1, 2]))
    members["measurements/counts.0.npy"] = npy(np.zeros((3, 4, 3)))
    with pytest.raises(gl.errors.ModelError, match="its parts do not fit together"):
        gl.load(zip_of(tmp_path / "wide", members.items()))


def test_more_rows_than_memory_holds_are_refused_in_words(tmp_path):
    table = private([("x", 3, True)], SCHEMA, tmp_path)
    model = gl.Independent().fit(table, spend=table.ledger.left)
    with pytest.raises(gl.errors.ModelError, match="rows = "):
        model.sample(10**18)
    with pytest.raises(gl.errors.ModelError, match="not enough memory for 1,000,000,000,000 rows"):
        model.sample(10**12)


FEATURE_FILES = {
    "a vector that is too long": ("features.0", lambda kept: kept * 2),
    "a vector that overflows": ("features.0", lambda kept: np.full(kept.shape, np.iinfo(np.int64).min)),
    "vectors with a fraction": ("features.0", lambda kept: kept / 2),
    "a vector too few": ("features.1", lambda kept: kept[1:]),
    "no features": ("features.1", lambda kept: kept[:, :0]),
    "vectors of length 0": ("features.1", lambda kept: kept * 0),
    "fewer features than gaps and values": ("features.1", lambda kept: kept[:, :1]),
    "a group without a feature": ("groups.1", lambda kept: kept + 99),
    "a group below 0": ("groups.1", lambda kept: kept - 1),
    "a group too many": ("groups.1", lambda kept: np.append(kept, 0)),
    "groups of a column without an order": ("groups.0", None),
}


@pytest.fixture(scope="module", params=[gl.Extended(), gl.Observed()], ids=str)
def factors(request, tmp_path_factory):
    """What the file of a model of factors holds."""
    folder = tmp_path_factory.mktemp("factors")
    table = private(pl.DataFrame(CELLS), SCHEMA, folder, budget=gl.Budget(10.0, 1e-6))
    METHODS["factors"](missing=request.param).fit(table, spend=table.ledger.left).save(folder / "m")
    with zipfile.ZipFile(folder / "m") as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.mark.parametrize("change", FEATURE_FILES)
def test_features_that_do_not_fit_are_refused(change, factors, tmp_path):
    gl.load(zip_of(tmp_path / "kept", factors.items()))
    name, other = FEATURE_FILES[change]
    name = f"measurements/{name}.npy"
    kept = other(np.load(io.BytesIO(factors[name]))) if other else np.zeros(2, dtype=np.int64)
    with pytest.raises(gl.errors.ModelError, match="its parts do not fit together"):
        gl.load(zip_of(tmp_path / "changed", (factors | {name: npy(kept)}).items()))


def test_products_that_do_not_fit_their_features_are_refused(factors, tmp_path):
    """A product of other columns, of one column, with another shape, not finite, or twice."""
    *_, nodes, _ = (facts := np.load(io.BytesIO(factors["measurements/facts.npy"]))).tolist()
    tables, rows, hierarchy, heaps, products, _ = facts.tolist()[3:9]
    first = tables + rows + hierarchy + heaps
    assert nodes == 0
    assert products == 3
    columns, counts = (f"measurements/{name}.{first}.npy" for name in ("columns", "counts"))
    kept = np.load(io.BytesIO(factors[counts]))
    changed = [
        {columns: np.array([0, 9])},
        {columns: np.array([0])},
        {columns: np.array([0, 0])},
        {columns: np.array([0, 2]), counts: np.zeros((9, 9))},
        {counts: kept[:, 1:]},
        {counts: kept.T},
        {counts: np.full(kept.shape, np.nan)},
        {counts: np.full(kept.shape, 1e300)},
        {columns: np.load(io.BytesIO(factors[f"measurements/columns.{first + 1}.npy"]))},
        {f"measurements/noise_std.{first}.npy": np.array(-1.0)},
        {f"measurements/noise_std.{first}.npy": np.array(1e300)},
    ]
    for change in changed:
        members = factors | {name: npy(array) for name, array in change.items()}
        with pytest.raises(gl.errors.ModelError, match="is damaged"):
            gl.load(zip_of(tmp_path / "changed", members.items()))


def test_pair_rows_are_counted_only_where_rows_are_left_out(factors, tmp_path):
    facts = np.load(io.BytesIO(factors["measurements/facts.npy"]))
    facts[0] = 1 - facts[0]
    with pytest.raises(gl.errors.ModelError, match="its parts do not fit together"):
        gl.load(zip_of(tmp_path / "changed", (factors | {"measurements/facts.npy": npy(facts)}).items()))


def test_features_of_rows_to_balance_are_checked(factors, tmp_path):
    for other in (np.full((2, 2), np.inf), np.full((2, 2), 3.0), np.eye(9), np.ones(2), np.zeros((2, 1 << 15))):
        members = factors | {"filled/features.0.npy": npy(other)}
        with pytest.raises(gl.errors.ModelError, match="damaged"):
            gl.load(zip_of(tmp_path / "changed", members.items()))
