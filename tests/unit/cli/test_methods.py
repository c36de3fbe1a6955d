"""The help of --method and --missing names what there is."""

from gapless.cli.methods import methods_help, treatments_help
from gapless.synth import METHODS, TREATMENTS


def test_the_help_names_every_method_and_every_treatment():
    assert all(name in methods_help() for name in METHODS)
    assert all(name in treatments_help() for name in TREATMENTS)
