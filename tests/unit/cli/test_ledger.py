"""Rates of gaps from words."""

import pytest
import typer

from gapless.cli.ledger import _assumption
from gapless.privacy import MCAR, MissingAtLeast


def test_rates_are_for_one_column_or_for_all():
    assert _assumption(["0.2"], None, dependent=False) == MCAR(0.2)
    dependent = _assumption(["income=0.2", "age=0.1"], None, dependent=True)
    assert dependent == MCAR({"income": 0.2, "age": 0.1}, columns="dependent")
    assert _assumption(None, ["income=0.1"], dependent=False) == MissingAtLeast({"income": 0.1})
    assert _assumption(None, None, dependent=False) is None


def test_the_last_equals_sign_separates_column_and_rate():
    assert _assumption(["a=b=0.2", "=c=0.1"], None, dependent=False) == MCAR({"a=b": 0.2, "=c": 0.1})
    assert _assumption(None, ["a=b=0.1"], dependent=False) == MissingAtLeast({"a=b": 0.1})


@pytest.mark.parametrize(
    ("mcar", "at_least", "dependent"),
    [
        (["0.2"], ["0.1"], False),
        (None, ["0.1"], True),
        (None, None, True),
        (["income"], None, False),
        (["income="], None, False),
        (["=0.2", "age=0.1"], None, False),
        (["income=0.1", "income=0.2"], None, False),
    ],
)
def test_options_that_contradict_each_other_are_refused(mcar, at_least, dependent):
    with pytest.raises(typer.BadParameter):
        _assumption(mcar, at_least, dependent=dependent)
