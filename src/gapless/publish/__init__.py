"""Releases, models and weights in one call each: the calls that write them, and the check of a release."""

from gapless.publish.archive_files import Archive, archive
from gapless.publish.balance import Balance, notify_cautions
from gapless.publish.folder import model_of, rows_file
from gapless.publish.kept_copies import kept_copies
from gapless.publish.releases import (
    ModelFile,
    Release,
    ReleaseOptions,
    check_model_path,
    check_release,
    release,
    save_model,
)
from gapless.publish.verification import Verification, verify_release
from gapless.publish.weighted_file import WeightedFile, check_weighing, weigh

__all__ = [
    "Archive",
    "Balance",
    "ModelFile",
    "Release",
    "ReleaseOptions",
    "Verification",
    "WeightedFile",
    "archive",
    "check_model_path",
    "check_release",
    "check_weighing",
    "kept_copies",
    "model_of",
    "notify_cautions",
    "release",
    "rows_file",
    "save_model",
    "verify_release",
    "weigh",
]
