"""Distributions built from released values only: nothing here has ever seen a row."""
