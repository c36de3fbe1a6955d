"""A table inside somebody else's page, such as a notebook: no style of it reaches beyond it, nor needs the page's."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.draw.markup import Html, tag

# Colours are those of the page, thinner: right on light and on dark ground, whatever decides between the two.
_STYLE = """
.gapless { overflow-x: auto; font-variant-numeric: tabular-nums; }
.gapless table { border-collapse: collapse; color: inherit; background: none; border: 0; }
.gapless th, .gapless td { padding: .2em .8em .2em 0; text-align: left; white-space: nowrap; background: none;
  border: 0; border-bottom: 1px solid rgba(128, 128, 128, .35); }
.gapless th small, .gapless i, .gapless p { opacity: .7; font-weight: normal; }
.gapless p { margin: .4em 0; }
"""
GAP = "missing"


def small_table(
    names: Sequence[str], kinds: Sequence[str], rows: Sequence[Sequence[str | None]], *, caption: str
) -> str:
    """Columns with their kinds, some rows, None for a gap, and a caption; all texts are escaped.

    >>> small_table(["a<b"], ["boolean"], [[None]], caption="1 row").partition("</style>")[2][:62]
    '<table><thead><tr><th>a&lt;b<br><small>boolean</small></th></t'
    """
    head = [tag("th", name, Html("<br>"), tag("small", kind)) for name, kind in zip(names, kinds, strict=True)]
    body = [tag("tr", *(tag("td", tag("i", GAP) if cell is None else cell) for cell in row)) for row in rows]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", tag("style", Html(_STYLE)), table, tag("p", caption), class_="gapless")
