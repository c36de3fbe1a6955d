"""Tools for tests: noise that repeats, neighbouring tables, audits. Nothing here keeps anybody's privacy."""

from gapless.testing.audit import (
    epsilon_at_least,
    letters_schema,
    lower_limit,
    mu_at_least,
    one_run_epsilon,
    private,
    upper_limit,
)
from gapless.testing.noise import fixed_noise, no_noise, scaled_noise, shared_noise

__all__ = [
    "epsilon_at_least",
    "fixed_noise",
    "letters_schema",
    "lower_limit",
    "mu_at_least",
    "no_noise",
    "one_run_epsilon",
    "private",
    "scaled_noise",
    "shared_noise",
    "upper_limit",
]
