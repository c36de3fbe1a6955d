"""Elements of HTML and SVG: text is escaped unless it was made here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gapless.text import visible


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *inside: object, **attributes: object) -> Html:
    """An element; text inside and in attributes is escaped, `class_` is class and `_` becomes `-`.

    >>> tag("p", "a < b ", tag("b", "!"), class_="soft")
    '<p class="soft">a &lt; b <b>!</b></p>'
    """
    return Html(f"<{name}{_given(attributes)}>{join(inside)}</{name}>")


def shape(name: str, **attributes: object) -> Html:
    """An element of a drawing with nothing inside.

    >>> shape("path", d="M0 0H28", stroke_width=2)
    '<path d="M0 0H28" stroke-width="2"/>'
    """
    return Html(f"<{name}{_given(attributes)}/>")


def _given(attributes: dict[str, object]) -> str:
    return "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )


def _text(content: object) -> str:
    """Escaped text. XML has no way to write control characters, so they are shown as escape sequences."""
    return escape(visible(str(content), lines=True))


def join(parts: Iterable[object]) -> Html:
    """Pieces one after the other, escaped unless they are HTML."""
    return Html("".join(part if isinstance(part, Html) else _text(part) for part in parts))


def svg(width: float, height: float, title: str, *inside: Html, about: str = "", class_: str | None = None) -> Html:
    """A drawing inside a page, with a title, and a description for those who cannot see it."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", about) if about else Html(""),
        *inside,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        class_=class_,
    )


def svg_file(title: str, lines: Sequence[Html], **attributes: object) -> str:
    """A drawing that is a file of its own, element by element on lines of their own."""
    inside = Html("\n".join(["", *lines, ""]))
    return tag("svg", inside, xmlns="http://www.w3.org/2000/svg", **attributes, role="img", aria_label=title) + "\n"
