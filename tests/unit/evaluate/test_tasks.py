"""What classifiers learn from a table."""

import numpy as np
import pytest

import gapless as gl
from gapless import evaluate as ev
from helpers.mixed_tables import MIXED, mixed, table


def test_the_rule_for_positive_labels_reads_the_schema_alone():
    small = mixed(5, 0)
    assert ev.positive_cells(small, "age").tolist() == [False, False, False, True, True]
    assert ev.positive_cells(small, "town").tolist() == [False, False, True, False]  # not applicable is negative
    assert ev.positive_cells(small, "smoker").tolist() == [False, True]
    assert ev.positive_cells(small, "only").tolist() == [False]
    assert ev.positive_cells(small, "town", ["a", "not applicable"]).tolist() == [True, False, False, True]
    with pytest.raises(gl.errors.SchemaError, match="has no cell 'z'"):
        ev.positive_cells(small, "town", ["z"])


def test_f1_is_high_from_good_data_and_low_from_shuffled():
    pytest.importorskip("sklearn")
    truth, good = mixed(400, 0), mixed(400, 1)
    rng = np.random.default_rng(2)
    bad = table(MIXED, [rng.permutation(codes) for codes in good.codes])
    steps = []
    scores = ev.f1_scores(truth, good, labels=["grade", "only"], progress=lambda *a: steps.append(a))
    assert list(scores) == ["grade"]  # a label that never changes is left out
    assert list(scores["grade"]) == list(ev.classifiers())
    assert len(scores["grade"]) == 9
    assert steps[-1] == ("grade", 9, 9)
    assert ev.mean_f1(scores) > 0.7
    assert ev.mean_f1(scores) > ev.mean_f1(ev.f1_scores(truth, bad, labels=["grade"])) + 0.2
    assert scores == ev.f1_scores(truth, good, labels=["grade"])
    named = ev.f1_scores(truth, good, labels=["grade"], positive={"grade": ["low"]})
    assert named != scores
    weights = np.where(good.codes[2] == 2, 1e-9, 1.0)  # hardly any positive label is left
    assert ev.mean_f1(ev.f1_scores(truth, good, labels=["grade"], weights=weights)) < ev.mean_f1(scores) - 0.1
    never = table(MIXED, [codes[good.codes[2] < 2] for codes in good.codes])
    assert ev.mean_f1(ev.f1_scores(truth, never, labels=["grade"])) == 0
    assert ev.roc_auc(truth, good, label="grade") > 0.8
    assert ev.roc_auc(truth, never, label="grade") == 0.5
    assert ev.roc_auc(truth, good, label="only") is None
    assert np.isnan(ev.mean_f1({}))


def test_coefficients_are_those_of_least_squares():
    pytest.importorskip("sklearn")
    truth, good = mixed(400, 0), mixed(400, 1)
    rng = np.random.default_rng(2)
    bad = table(MIXED, [rng.permutation(codes) for codes in good.codes])
    for label in ("age", "smoker", "town"):
        assert ev.coefficient_error(truth, good, label=label) < ev.coefficient_error(truth, bad, label=label)
    assert ev.coefficient_error(truth, good, label="only") is None
    assert ev.coefficient_error(truth, good, label="age", positive=["0..19"]) > 0


def test_detection_finds_shuffled_rows_and_not_an_equal_sample():
    pytest.importorskip("sklearn")
    truth, good = mixed(600, 0), mixed(600, 1)
    rng = np.random.default_rng(2)
    bad = table(MIXED, [rng.permutation(codes) for codes in good.codes])
    same, other = ev.detection(truth, good), ev.detection(truth, bad)
    assert 0.4 < same.auc < 0.6
    assert other.auc > 0.7
    assert same.propensity_mse < other.propensity_mse < 0.25
    filled = ev.detection(truth, mixed(600, 1, gaps=False))
    assert filled.complete
    assert filled.rows[0] < 600
    assert 0.4 < filled.auc < 0.6  # the gaps do not betray the truth
    assert ev.detection(truth, mixed(10, 0)) is None
    heavy = ev.detection(truth, bad, weights=np.where(np.arange(600) < 300, 1.0, 0.0))
    assert heavy.auc > 0.65


def test_learning_without_scikit_learn_names_the_package_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(
        gl.errors.ReadError, match=r"scikit-learn is not installed\n  Try: run pip install 'gapless\[learn\]'"
    ):
        ev.f1_scores(mixed(50, 0), mixed(50, 1))
