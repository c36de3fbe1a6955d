"""Text from outside (names, levels, descriptions) in terminals and Markdown, where some characters are commands."""

from __future__ import annotations

import re

# Control characters of terminals (C0, DEL, C1), of lines, and of the direction of writing.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_MARKUP = re.compile(r"[\\`*\[\]|~]|(?<![^\W_])_|_(?![^\W_])")  # an underscore inside a word means nothing
_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_BLOCK_START = re.compile(r"^(?:[#+=-]|\d+(?=[.)](?:\s|$)))")  # of headings, lists and rules


def visible(text: str, *, lines: bool = False) -> str:
    r"""The text with every control character shown as its escape sequence, so that no terminal obeys it.

    Args:
        text: any text.
        lines: keep line breaks and tabs, for a text of several lines.

    >>> print(visible("\x1b[31mage"), visible("a\nb"))
    \x1b[31mage a\nb
    """
    return CONTROL.sub(lambda found: found[0] if lines and found[0] in "\n\t" else _shown(found[0]), text)


def _shown(letter: str) -> str:
    return repr(letter)[1:-1] if not letter.isprintable() else f"\\u{ord(letter):04x}"


def markdown(text: str) -> str:
    r"""Plain text for a Markdown page: nothing in it becomes markup, HTML or a second cell of a table.

    >>> print(markdown("a|b <script> *x* hours_per_week"))
    a\|b &lt;script&gt; \*x\* hours_per_week
    """
    escaped = _MARKUP.sub(r"\\\g<0>", visible(text).translate(_ENTITIES))
    return _BLOCK_START.sub(lambda found: f"&#{ord(found[0][0])};{found[0][1:]}", escaped.strip())


def code(text: str) -> str:
    r"""A text as a code span of Markdown, whatever backticks it has. Not for tables, where `|` would end a cell.

    >>> print(code("a`b"), code("age"))
    `` a`b `` `age`
    """
    text = visible(text)
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    padding = " " if text[:1] in ("`", " ", "") or text[-1:] in ("`", " ") or len(fence) > 1 else ""
    return f"{fence}{padding}{text}{padding}{fence}"
