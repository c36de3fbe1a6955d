"""Tables with missing cells: sealed and public, readers and writers, counting, stable transformations."""

from gapless.data.io.draft import draft_schema
from gapless.data.io.reading import read
from gapless.data.private_table import PrivateTable
from gapless.data.table import Table

__all__ = ["PrivateTable", "Table", "draft_schema", "read"]
