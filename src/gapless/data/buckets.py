"""How many pairs of rows break a rule: among rows that chance has put into pairs.

The number of all pairs that break a rule moves by as many as there are rows when one comes. So every row is put into a
bucket, by chance and by itself, and only buckets with exactly two rows are looked at: a row changes its own bucket.
"""

from __future__ import annotations

import numpy as np

from gapless.arguments import whole
from gapless.constraints.compatible import Between
from gapless.constraints.rules import parse
from gapless.constraints.violations import hold
from gapless.data.checks import check_private
from gapless.data.engines.engine import Engine
from gapless.data.private_table import PrivateTable, lacking
from gapless.errors import SchemaError
from gapless.privacy import noise
from gapless.privacy.private import L1, Private
from gapless.schema.schema import Constraint
from gapless.types import Integers


def violating_pairs(table: PrivateTable, rule: str, *, buckets: int) -> Private[Integers, L1]:
    """How many buckets of exactly two rows break a rule between two rows, and how many keep it; told by bins.

    Rows with a gap in one of the rule's columns are left out. A row's bucket is one of `buckets`, a public number, by
    secret chance of its own. About half as many buckets as rows make the most pairs.

    Distance: one row more takes its bucket from one row to two, and one count grows by 1; or from two to three, and one
    count falls by 1; or it changes nothing. So k rows move the counts by at most k in L1, for any fixed chance
    (docs/proofs/stability.md, section 4).
    """
    check_private(table, "violating_pairs()")
    schema, many = table.schema, whole("buckets", buckets, error=SchemaError, least=1)
    between = Between(parse(Constraint(str(rule)), schema), schema)
    if not between.rule.between_rows:
        raise SchemaError(f"the constraint {rule!r} is about one row", hint="a marginal counts the rows that break it")
    columns = between.columns
    observed = np.array([schema.columns[column].size for column in columns])
    needed = frozenset() if table.filled else lacking(schema, [schema.names[column] for column in columns])

    def count(engine: Engine) -> Integers:
        held = np.zeros(many, dtype=np.int64)  # rows in each bucket
        pairs = np.zeros((2, many, len(columns)), dtype=np.int64)  # the first two of them
        for batch in engine.batches(columns):
            bucket = (noise.current().words(batch.rows) % np.uint64(many)).astype(np.int64)
            cells = np.stack(batch.columns, axis=1).astype(np.int64)
            seen = (cells < observed).all(axis=1)
            bucket, cells = bucket[seen], cells[seen]
            order = np.argsort(bucket, kind="stable")
            bucket, cells = bucket[order], cells[order]
            place = held[bucket] + np.arange(len(bucket)) - np.searchsorted(bucket, bucket)
            for which in (0, 1):
                pairs[which, bucket[place == which]] = cells[place == which]
            held += np.bincount(bucket, minlength=many)
        one, other = (between.rows(rows[held == 2]) for rows in pairs)
        broken = hold(between.rule.terms, one, other) | hold(between.rule.terms, other, one)
        return np.array([broken.sum(), (~broken).sum()], dtype=np.int64)

    return table._sealed(count, distance=L1(table.protect.at_most), reads=(table._required | needed) or None)
