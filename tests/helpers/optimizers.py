"""Optimizers for tests."""

from gapless.model.neural.descent import Adam, CosineSchedule

_LARGE = 2.0**40


def plain_steps(rate: float = 1.0, steps: int = 1) -> Adam:
    """Steps of -`rate` times the gradient: no momentum, and √v vanishes beside a large `least`."""
    return Adam(rate=CosineSchedule(rate=rate * _LARGE, steps=steps), first=0.0, least=_LARGE)
