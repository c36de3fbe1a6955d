"""A black-box attack on noise by smooth sensitivity, at the pair of tables that breaks the paper's calibration.

Every bound holds with probability at least 1 - 2e-6 for a correct mechanism; half the noise must be caught.
"""

import math
from fractions import Fraction

from gapless.privacy import Loss, Smooth, SmoothCauchy, SmoothValue
from gapless.privacy.noise import SystemNoise
from gapless.testing.audit import epsilon_at_least
from gapless.testing.noise import ScaledNoise

HONEST = SystemNoise()
TRIALS = 40_000
BEFORE, AFTER = SmoothValue(Fraction(11), Fraction(11)), SmoothValue(Fraction(0), Fraction(21))
NEAR = 2.0  # the event, fixed in advance: an answer this close to the one of the first table


def epsilon_bound(epsilon, source):
    mechanism = SmoothCauchy.for_loss(Loss(epsilon, math.inf), Smooth(1, 2.0))
    hits, others = (sum(abs(mechanism(value, source) - 11) <= NEAR for _ in range(TRIALS)) for value in (BEFORE, AFTER))
    return epsilon_at_least(hits, others, TRIALS)


def test_smooth_noise():
    epsilon = 2 * math.log(2)
    assert 0.5 < epsilon_bound(epsilon, HONEST) <= epsilon
    assert epsilon_bound(epsilon, ScaledNoise(0.5, HONEST)) > epsilon
