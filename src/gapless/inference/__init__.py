"""Honest inference from a release: estimates from copies of it, pooled, with intervals that noise is in."""

from gapless.inference.estimates import columns_used
from gapless.inference.pooling import Pooled, PooledEstimate, pool

__all__ = ["Pooled", "PooledEstimate", "columns_used", "pool"]
