"""What a publication consists of: the calls that make one, its folder, its statement and its report."""

from gapless.publish.folder import model_of, rows_file
from gapless.publish.making import ModelFile, Release, make_model, make_release
from gapless.publish.opening import Balance, open_table
from gapless.publish.verifying import Verification, verify_release
from gapless.publish.weighing import WeightedFile, make_weights

__all__ = [
    "Balance",
    "ModelFile",
    "Release",
    "Verification",
    "WeightedFile",
    "make_model",
    "make_release",
    "make_weights",
    "model_of",
    "open_table",
    "rows_file",
    "verify_release",
]
