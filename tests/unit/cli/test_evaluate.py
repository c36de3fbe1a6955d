"""Mechanisms and rates from the words of `gapless gap`."""

import pytest
import typer

from gapless.cli.evaluate import _mechanism, _rates
from gapless.missing import MAR, MCAR, MNAR


def test_mechanisms_are_made_of_their_options():
    assert _mechanism("mcar", ["0.2"], None, None) == MCAR(0.2)
    assert _mechanism("mar", ["income=0.1"], None, ["age"]) == MAR({"income": 0.1}, observed=["age"])
    assert _mechanism("mnar", ["0.3"], "self", None) == MNAR(0.3, how="self")


@pytest.mark.parametrize(
    ("name", "how", "observed"), [("mcr", None, None), ("mcar", "self", None), ("mnar", None, ["age"])]
)
def test_options_of_another_mechanism_are_refused(name, how, observed):
    with pytest.raises(typer.BadParameter):
        _mechanism(name, ["0.2"], how, observed)


@pytest.mark.parametrize("texts", [["income=0.2", "income=0.3"], ["1.5"], ["income=many"], ["0.2", "income=0.3"]])
def test_rates_that_contradict_each_other_or_are_no_shares_are_refused(texts):
    with pytest.raises(typer.BadParameter):
        _rates(texts)
