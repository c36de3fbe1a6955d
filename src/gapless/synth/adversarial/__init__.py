"""Synthesizers that train a generator against a critic."""
