"""How many examples a property test tries."""

from hypothesis import settings


def examples(number: int) -> settings:
    """Settings for a test that tries `number` examples in an ordinary run, and proportionally more when exploring.

    The profiles are in `tests/conftest.py`: 100 examples by default in an ordinary run, 500 when exploring.
    """
    return settings(max_examples=number * settings().max_examples // 100)
