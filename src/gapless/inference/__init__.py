"""Honest inference from a release: estimates from copies of it, pooled, with intervals that noise is in."""

from gapless.inference.columns import ColumnEstimates, column_estimates
from gapless.inference.estimates import columns_used
from gapless.inference.pooled import Pooled, PooledEstimate
from gapless.inference.pooling import pool

__all__ = ["ColumnEstimates", "Pooled", "PooledEstimate", "column_estimates", "columns_used", "pool"]
