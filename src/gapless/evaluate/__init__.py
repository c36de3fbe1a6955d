"""How good a public table is beside another: metrics on public tables."""

from gapless.evaluate.distance import kway_distance

__all__ = ["kway_distance"]
