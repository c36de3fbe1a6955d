"""Numbers of a promise, written for people: never less than they are."""

from decimal import ROUND_CEILING, Decimal


def rounded_up(number: float, digits: int = 4) -> str:
    """A number for people, never less than it is.

    >>> rounded_up(0.87342), rounded_up(2.0), rounded_up(0.999999)
    ('0.8735', '2', '1')
    """
    exact = Decimal(repr(float(number)))
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return f"{exact.quantize(step, rounding=ROUND_CEILING).normalize():f}" if number else "0"


def told_up(number: float) -> str:
    """As short as usual where that is not less, else rounded up.

    >>> told_up(1e-6), told_up(0.5), told_up(0.12345649)
    ('1e-06', '0.5', '0.123457')
    """
    short = f"{number:g}"
    return short if float(short) >= number else rounded_up(number, 6)
