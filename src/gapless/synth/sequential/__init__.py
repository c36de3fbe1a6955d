"""Synthesizers that model one column after another."""
