"""Text in messages: names, plurals, lists, and escapes for terminals and Markdown.

Numbers of a privacy promise are rounded up, never down.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, Decimal

from gapless.errors import GaplessError

# Control characters of terminals (C0, DEL, C1), of lines, and of the direction of writing.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")  # an underscore inside a word means nothing
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_BLOCK_START = re.compile(r"^(?:[#+=-]|\d+(?=[.)](?:\s|$)))")  # of headings, lists and rules


def visible(text: str, *, lines: bool = False) -> str:
    r"""Replace every control character by its escape sequence, so that a terminal does not execute it.

    Args:
        text: any text.
        lines: keep line breaks and tabs, for a text of several lines.

    >>> print(visible("\x1b[31mage"), visible("a\nb"))
    \x1b[31mage a\nb
    """
    return CONTROL.sub(lambda found: found[0] if lines and found[0] in "\n\t" else repr(found[0])[1:-1], text)


def markdown(text: str) -> str:
    r"""Escape plain text for a Markdown page: nothing in it becomes markup, HTML or a second cell of a table.

    >>> print(markdown("a|b <script> *x* hours_per_week"))
    a\|b &lt;script&gt; \*x\* hours_per_week
    """
    escaped = _MARKUP.sub(r"\\\g<0>", visible(text).translate(_ENTITIES))
    return _BLOCK_START.sub(lambda found: f"&#{ord(found[0][0])};{found[0][1:]}", escaped.strip())


def code(text: str) -> str:
    r"""Format a text, also with backticks, as a Markdown code span. Not for tables, where `|` would end a cell.

    >>> print(code("a`b"), code("age"))
    `` a`b `` `age`
    """
    text = visible(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    padding = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") or len(fence) > 1 else ""
    return f"{fence}{padding}{text}{padding}{fence}"


def plural(number: int, noun: str, several: str | None = None) -> str:
    """Format a number with its noun, in the singular or plural.

    >>> plural(1, "row"), plural(3000, "row"), plural(0, "entry", "entries")
    ('1 row', '3,000 rows', '0 entries')
    """
    return f"{number:,} {noun if number == 1 else several or noun + 's'}"


def listing(names: Iterable[str], *, most: int = 12) -> str:
    """Join names by commas; after `most` names, only the number of the others is written.

    >>> listing(["a", "b"])
    'a, b'
    """
    names = list(names)
    return ", ".join(map(visible, names[:most])) + (f" … ({len(names) - most} more)" if len(names) > most else "")


WIDEST = 110  # characters of a line of a two-way table


def two_way(rows: Sequence[str], columns: Sequence[str], cells: Sequence[str]) -> list[str]:
    """Return the lines of a two-way table; none if they would be too wide.

    >>> two_way(["F", "M"], ["no", "yes"], ["12", "3", "9", "10"])
    ['     no  yes', '  F  12  3', '  M  9   10']
    """
    many = len(columns)
    grid = [["", *columns], *([name, *cells[row * many : (row + 1) * many]] for row, name in enumerate(rows))]
    widths = [max(map(len, column)) for column in zip(*grid, strict=True)]
    lines = ["  " + "  ".join(map(str.ljust, line, widths)).rstrip() for line in grid]
    return lines if max(map(len, lines)) <= WIDEST else []


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the names most similar to the one given, or all names if none is similar.

    >>> nearest("hour", ["sex", "hours"])
    'hours'
    >>> nearest("AIM", ["aim", "mst"])
    'aim'
    """
    names = list(names)
    same = [known for known in names if known.casefold() == name.casefold()]
    close = same or difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    return listing(close or [f"one of: {listing(names)}"])


def check_one_of(name: str, value: object, known: Iterable[str], *, error: type[GaplessError]) -> None:
    """Refuse a value that is not a known name; the error suggests the most similar names.

    >>> check_one_of("engine", "disc", ["memory", "disk"], error=GaplessError)
    Traceback (most recent call last):
    gapless.errors.GaplessError: engine = 'disc', but engine must be one of: memory, disk
      Try: choose disk
    """
    known = tuple(known)
    if value not in known:
        wrong = f"{name} = {value!r}, but {name} must be one of: {listing(known)}"
        raise error(wrong, hint=f"choose {nearest(str(value), known)}")


def repeated(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted; in one pass, since a header may have thousands.

    >>> repeated(["b", "a", "b"])
    ['b']
    """
    return sorted(name for name, times in Counter(names).items() if times > 1)


def shortened(text: str, most: int) -> str:
    """Shorten a text to at most `most` characters, cut in the middle: similar names often differ at their ends.

    >>> shortened("household_income × marital_status", 19)
    'household…al_status'
    """
    if len(text) <= most:
        return text
    head = most // 2
    return f"{text[:head]}…{text[len(text) - (most - head - 1) :]}"


def aligned(names: Iterable[str], *, most: int = 40) -> list[str]:
    """Pad names to equal width for the first column of a text table; long names are shortened.

    >>> aligned(["age", "income"])
    ['age   ', 'income']
    """
    short = [shortened(visible(name), most) for name in names]
    width = max(map(len, short), default=0)
    return [name.ljust(width) for name in short]


def rounded_up(number: float, digits: int = 4) -> str:
    """Format a number with this number of significant digits, rounded up.

    >>> rounded_up(0.87342), rounded_up(2.0), rounded_up(0.999999)
    ('0.8735', '2', '1')
    """
    exact = Decimal(repr(float(number)))
    step = Decimal(1).scaleb(exact.adjusted() + 1 - digits)
    return f"{exact.quantize(step, rounding=ROUND_CEILING).normalize():f}" if number else "0"


def format_rounded_up(number: float) -> str:
    """Format a number in short form if that is not less than the number, else rounded up.

    >>> format_rounded_up(1e-6), format_rounded_up(0.5), format_rounded_up(0.12345649)
    ('1e-06', '0.5', '0.123457')
    """
    short = f"{number:g}"
    return short if float(short) >= number else rounded_up(number, 6)


def type_name(value: object) -> str:
    """The name of a value's type as one writes it.

    >>> type_name(1), type_name(Decimal(1))
    ('int', 'decimal.Decimal')
    """
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
