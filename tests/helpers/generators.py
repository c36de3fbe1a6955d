"""Small generators of each kind: plain, with a decoder, conditional on a cell of one column or of any column."""

import numpy as np

from gapless.synth.adversarial.game import Generator
from gapless.synth.adversarial.generative import network
from gapless.types import Floats

KINDS = ["plain", "decoder", "one column", "any column"]
SIZES = (3, 1, 4)
MARGINALS = (np.array([0.5, 0.3, 0.2]), np.ones(1), np.array([0.1, 0.2, 0.3, 0.4]))


def generator(kind: str, seed: int = 0) -> tuple[Generator, Floats]:
    """A generator of this kind, and parameters of its network."""
    rng = np.random.default_rng(seed)
    given: tuple[int, ...] = {"one column": (2,), "any column": (0, 2)}.get(kind, ())
    marginals = tuple(MARGINALS[column] for column in given)
    decoder = rng.standard_normal((3, 8)) if kind == "decoder" else None
    layers = network(5 + sum(map(len, marginals)), 6, 8 if decoder is None else 3)
    made = Generator(
        network=layers,
        sizes=SIZES,
        noise=5,
        bias=rng.standard_normal(8),
        decoder=decoder,
        given=given,
        marginals=marginals,
    )
    return made, rng.standard_normal(sum(layers.shapes))
