"""Synthesizers that measure marginals and learn a model from them."""
