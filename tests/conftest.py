"""What tests leave in the temporary folder goes when they are done."""

import os
import tempfile

import pytest


@pytest.fixture(scope="session", autouse=True)
def _temporary(tmp_path_factory):
    """A folder inside pytest's own, which is taken away if all went well; for processes that tests start as well."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))
