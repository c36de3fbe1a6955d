"""Fitting mixtures to noisy tables: the gradient, when it ends, gaps, forbidden cells."""

import numpy as np
import pytest

from gapless.model.marginal import Measurement
from gapless.synth.marginal import mixture_fit
from gapless.synth.marginal.mixture_fit import _Logits, _Tables, fit_mixture
from helpers.mixtures import SIZES, distance, random_model, tables_of


def gaps_in(codes, sizes, missing, states):
    """The same rows with a gap state instead of some cells."""
    return np.where(missing, np.array(sizes) + states, codes)


def chi_square(cells, rates, observed, sizes, measurements, total):
    """The loss as its formula says, in plain loops and double precision."""

    def softmax(logits):
        powers = np.exp(logits - logits.max(axis=0))
        return powers / powers.sum(axis=0)

    probabilities = []
    place, state = 0, 0
    for size, seen in zip(sizes, observed, strict=True):
        table, rate = softmax(cells[place : place + seen]), softmax(rates[state : state + 1 + size - seen])
        probabilities.append(np.vstack([rate[0] * table, rate[1:]]))
        place, state = place + seen, state + 1 + size - seen
    loss = 0.0
    for measured in measurements:
        parts = [probabilities[column] for column in measured.columns]
        table = np.einsum("ak->a", parts[0]) if len(parts) == 1 else np.einsum("ak,bk->ab", *parts)
        loss += (((total * table / cells.shape[1] - measured.counts) / measured.noise_std) ** 2).sum()
    return loss


@pytest.mark.parametrize("blocks", [1 << 22, 20])
@pytest.mark.parametrize("observed", [(3, 4, 2, 3), (2, 4, 1, 2)])
def test_the_gradient_is_that_of_the_loss(observed, blocks, monkeypatch):
    """Also with gaps, also in blocks; so is what reconciling changes a constant."""
    monkeypatch.setattr(mixture_fit, "_CELLS", blocks)
    rng, total = np.random.default_rng(0), 100.0
    codes = random_model(seed=2).sample(100, rng).astype(np.int64)
    measurements = tables_of(codes, SIZES, 0.5)
    measurements = [Measurement(m.columns, m.counts, 0.5 + i % 3) for i, m in enumerate(measurements)]
    monkeypatch.setattr(_Tables, "_gap_speed", lambda *_: 1.0)  # no chance added to the noise
    tables = _Tables(SIZES, observed, measurements, total, (), denoised=True)
    logits = _Logits(tables, 3, rng)
    logits.rates += rng.normal(size=logits.rates.shape).astype(np.float32)
    probabilities = logits.probabilities()
    found = logits.logit_gradients(probabilities, tables.gradient(probabilities.whole))
    parts = [logits.cells.astype(np.float64), logits.rates.astype(np.float64)]
    for which, gradient in enumerate(found):
        for place in np.ndindex(gradient.shape if gradient is not None else (0,)):
            sides = []
            for step in (1e-5, -1e-5):
                moved = [part.copy() for part in parts]
                moved[which][place] += step
                sides.append(chi_square(*moved, observed, SIZES, measurements, total))
            assert gradient[place] * 2 / 3 == pytest.approx((sides[0] - sides[1]) / 2e-5, rel=2e-3, abs=0.05)


def test_chi_square_of_each_table():
    total = 100.0
    measurements = [Measurement((0,), np.array([60.0, 40.0]), 2.0), Measurement((0, 1), np.full((2, 2), 25.0), 1.0)]
    tables = _Tables((2, 2), (2, 2), measurements, total, (), denoised=True)
    squares, _ = tables.compare(np.full((4, 6), 0.5, dtype=np.float32))
    agreed = 50 + 10 * (1 / 4) / (1 / 4 + 1 / 2)  # inverse-variance mean of 60 ± 2 and 50 ± √2
    assert squares[0, 0] == pytest.approx(2 * ((agreed - 50) / 2) ** 2, rel=1e-4)
    assert squares[0, 1] == pytest.approx(4 * ((agreed - 50) / 2) ** 2, rel=1e-4)
    assert squares[1, 0] == squares[1, 1] == 0
    assert tables.freedom.tolist() == [[1, 1], [0, 0]]


def test_a_fit_reaches_what_noise_allows():
    """Rows of a known mixture: tables of the fit are nearer to the truth than the noisy ones."""
    truth = random_model(components=3, seed=4)
    codes = truth.sample(20_000, np.random.default_rng(0)).astype(np.int64)
    measurements = tables_of(codes, SIZES, 60.0)
    found = fit_mixture(SIZES, measurements)
    assert found.gapped is None
    assert found.unexplained == ()
    assert found.total == pytest.approx(20_000, abs=300)
    pairs = [(measured, truth.marginal(measured.columns)) for measured in measurements if len(measured.columns) == 2]
    ours = np.mean([distance(found.filled.marginal(measured.columns), table) for measured, table in pairs])
    assert ours < 0.75 * np.mean([distance(measured.counts / 20_000, table) for measured, table in pairs])


def test_a_fit_is_repeatable_and_reports_progress():
    measurements = tables_of(random_model().sample(500, np.random.default_rng(0)).astype(np.int64), SIZES, 20.0)
    calls = []
    first = fit_mixture(SIZES, measurements, progress=lambda *now: calls.append(now))
    other = fit_mixture(SIZES, measurements)
    assert all(
        np.array_equal(a, b) for a, b in zip(first.filled.probabilities, other.filled.probabilities, strict=True)
    )
    assert calls[-1] == (1_000, 1_000)
    assert not np.array_equal(
        first.filled.probabilities[0], fit_mixture(SIZES, measurements, seed=1).filled.probabilities[0]
    )


def test_columns_that_decide_each_other_get_more_components():
    """Twenty-five components cannot represent forty copied cells."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 40, 20_000)
    found = fit_mixture((40, 40), tables_of(np.stack([cells, cells], axis=1), (40, 40), 5.0))
    assert found.unexplained == ()
    assert np.trace(found.filled.marginal((0, 1))) > 0.95


def test_tables_that_do_not_fit_are_unexplained(monkeypatch):
    """Three columns of which each two are said to be equal, and each two different."""
    monkeypatch.setattr(mixture_fit, "STEPS", 40)
    same, other = np.diag([500.0, 500.0]), 500 - np.diag([500.0, 500.0])
    tables = [Measurement((0, 1), same, 1.0), Measurement((1, 2), same, 1.0), Measurement((0, 2), other, 1.0)]
    assert fit_mixture((2, 2, 2), tables).unexplained


def test_unmeasured_columns_are_uniform_and_independent():
    found = fit_mixture((2, 3), [Measurement((0,), np.array([900.0, 100.0]), 1.0)]).filled
    assert found.marginal((0,)) == pytest.approx([0.9, 0.1], abs=0.01)
    assert found.marginal((0, 1)) == pytest.approx(np.outer([0.9, 0.1], np.full(3, 1 / 3)), abs=0.02)


def test_a_pair_alone_determines_both_columns():
    counts = np.array([[500.0, 100.0], [100.0, 300.0]])
    found = fit_mixture((2, 2), [Measurement((1, 0), counts.T, 5.0)]).filled
    assert found.marginal((0, 1)) == pytest.approx(counts / 1_000, abs=0.03)


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (1, 1)])
def test_columns_of_one_cell(sizes):
    measurements = tables_of(np.zeros((100, len(sizes)), dtype=np.int64), sizes, 1.0)
    found = fit_mixture(sizes, measurements).filled
    assert found.marginal((0,)) == pytest.approx([1.0])
    assert found.sample(10, np.random.default_rng(0)).max() == 0 or sizes == (1, 2)


def test_no_rows_but_noise():
    measurements = tables_of(np.zeros((0, 4), dtype=np.int64), SIZES, 30.0)
    found = fit_mixture(SIZES, measurements)
    assert found.total >= 1
    assert found.filled.sample(5, np.random.default_rng(0)).shape == (5, 4)


def test_exact_counts_are_fitted_all_the_same():
    codes = random_model(seed=3).sample(2_000, np.random.default_rng(0)).astype(np.int64)
    measurements = tables_of(codes, SIZES, 0.0)
    found = fit_mixture(SIZES, measurements).filled
    for measured in measurements:
        assert distance(found.marginal(measured.columns), measured.counts / 2_000) < 0.03


@pytest.mark.parametrize("with_gaps", [False, True])
def test_forbidden_cells_get_hardly_anything(with_gaps):
    """Noise alone would leave them a few in a hundred."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 3_000)
    other = np.where(first == 0, 0, rng.integers(0, 3, 3_000))
    forbidden = np.zeros((3, 3), dtype=np.bool_)
    forbidden[0, 1:] = True
    codes, sizes = np.stack([first, other], axis=1), (3, 3)
    if with_gaps:
        codes, sizes = np.where(rng.random(codes.shape) < 0.2, 3, codes), (4, 4)
    measurements = tables_of(codes, sizes, 100.0)
    free = fit_mixture(sizes, measurements, observed=(3, 3)).filled.marginal((0, 1))
    bound = fit_mixture(sizes, measurements, observed=(3, 3), zeros=[((0, 1), forbidden)]).filled.marginal((0, 1))
    assert bound[forbidden].sum() < 0.01
    assert bound[forbidden].sum() < 0.5 * free[forbidden].sum()
    again = fit_mixture(sizes, measurements, observed=(3, 3), zeros=[((1, 0), forbidden.T)]).filled.marginal((0, 1))
    assert again == pytest.approx(bound)


def correlated(rows=20_000, seed=0):
    """Three columns that go together."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, 3, rows)
    return np.stack([np.where(rng.random(rows) < 0.8, hidden, rng.integers(0, 3, rows)) for _ in range(3)], axis=1)


def test_gaps_that_depend_on_nothing_keep_the_rate_of_their_column():
    """Two kinds of gaps in one column, one in another, none in the last."""
    codes, rng = correlated(), np.random.default_rng(1)
    kind = rng.choice(3, len(codes), p=[0.7, 0.2, 0.1])
    rows = np.stack([np.where(kind > 0, 2 + kind, codes[:, 0]), codes[:, 1], codes[:, 2]], axis=1)
    rows[:, 1] = np.where(rng.random(len(rows)) < 0.2, 3, rows[:, 1])
    found = fit_mixture((5, 4, 3), tables_of(rows, (5, 4, 3), 50.0), observed=(3, 3, 3))
    assert found.gapped is not None
    assert np.ptp(found.gapped.probabilities[0][:, 3:], axis=0) == pytest.approx([0, 0], abs=1e-6)
    assert found.gapped.marginal((0,))[3:] == pytest.approx([0.2, 0.1], abs=0.01)
    truth = np.bincount(codes[:, 0] * 3 + codes[:, 1], minlength=9).reshape(3, 3) / len(codes)
    assert found.filled.sizes == (3, 3, 3)
    assert found.filled.marginal((0, 1)) == pytest.approx(truth, abs=0.012)


def test_gaps_that_depend_on_another_column_are_seen_through():
    """Missing at random: complete rows are nearer to the truth than those without gaps, and the gaps come back."""
    codes, rng = correlated(60_000), np.random.default_rng(1)
    missing = np.zeros(codes.shape, dtype=np.bool_)
    missing[:, 0] = rng.random(len(codes)) < np.array([0.6, 0.2, 0.0])[codes[:, 1]]
    rows = gaps_in(codes, (3, 3, 3), missing, 0)
    measurements = tables_of(rows, (4, 4, 4), 20.0)
    found = fit_mixture((4, 4, 4), measurements, observed=(3, 3, 3))
    truth = np.bincount(codes[:, 0], minlength=3) / len(codes)
    naive = np.bincount(codes[~missing[:, 0], 0], minlength=3) / (~missing[:, 0]).sum()
    assert distance(found.filled.marginal((0,)), truth) < 0.35 * distance(naive, truth)
    assert found.gapped is not None
    gaps = found.gapped.marginal((1, 0))[:3, 3]
    assert gaps / found.gapped.marginal((1,))[:3] == pytest.approx([0.6, 0.2, 0.0], abs=0.05)


def test_probabilities_of_all_cells_are_rate_times_observed():
    codes = correlated(3_000)
    rows = gaps_in(codes, (3, 3, 3), np.random.default_rng(0).random(codes.shape) < 0.3, 0)
    found = fit_mixture((4, 4, 4), tables_of(rows, (4, 4, 4), 20.0), observed=(3, 3, 3))
    for table, whole in zip(found.filled.probabilities, found.gapped.probabilities, strict=True):
        assert whole[:, :3] == pytest.approx((1 - whole[:, 3:]) * table, abs=1e-6)
        assert whole.sum(axis=1) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("worth", [0, 1 << 22])
def test_products_in_portions_are_products(worth, monkeypatch):
    monkeypatch.setattr(mixture_fit, "_NO_THREADS", 100)
    monkeypatch.setattr(mixture_fit, "_WORTH_THREADS", worth)
    left, right = np.random.default_rng(0).random((2, 30, 30), dtype=np.float32)
    assert mixture_fit._multiply(left[:, :7], right[:7]) == pytest.approx(left[:, :7] @ right[:7], rel=1e-5)
