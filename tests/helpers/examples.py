"""How many examples a property test tries."""

from hypothesis import settings


def examples(number: int) -> settings:
    """Settings for a test that tries `number` examples in an ordinary run, and proportionally more when exploring."""
    return settings(max_examples=repetitions(number))


def repetitions(number: int) -> int:
    """`number` in an ordinary run, and proportionally more when exploring.

    The profiles are in `tests/conftest.py`: 100 examples by default in an ordinary run, 500 when exploring.
    """
    return number * settings().max_examples // 100
