"""Tables with missing cells: sealed and public, readers and writers, counting, stable transformations."""

from gapless.data.private_table import PrivateTable, read
from gapless.data.table import Table

__all__ = ["PrivateTable", "Table", "read"]
