"""Elements of HTML and SVG with escaped text, the parts of a page, and pages that load nothing.

`small_table` is a table for the page of another program, such as a notebook. Its style affects nothing else there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from gapless.text import visible


class Html(str):
    """Text that is HTML, so that it is not escaped again."""

    __slots__ = ()


def tag(name: str, *content: object, **attributes: object) -> Html:
    """Return an element. Its text and attributes are escaped; `class_` becomes class, and `_` becomes `-`.

    >>> tag("p", "a < b ", tag("b", "!"), class_="soft")
    '<p class="soft">a &lt; b <b>!</b></p>'
    """
    return Html(f"<{name}{_attributes(attributes)}>{join(content)}</{name}>")


def shape(name: str, **attributes: object) -> Html:
    """Return an empty element.

    >>> shape("path", d="M0 0H28", stroke_width=2)
    '<path d="M0 0H28" stroke-width="2"/>'
    """
    return Html(f"<{name}{_attributes(attributes)}/>")


def _attributes(attributes: dict[str, object]) -> str:
    return "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(value)}"'
        for key, value in attributes.items()
        if value is not None
    )


def _text(content: object) -> str:
    """Escape a text. XML cannot represent control characters, so they become escape sequences."""
    return escape(visible(str(content), lines=True))


def join(parts: Iterable[object]) -> Html:
    """Concatenate parts; those that are not HTML are escaped."""
    return Html("".join(part if isinstance(part, Html) else _text(part) for part in parts))


def svg(width: float, height: float, title: str, *content: Html, about: str = "", class_: str | None = None) -> Html:
    """Return a drawing for a page, with a title, and a description for screen readers."""
    return tag(
        "svg",
        tag("title", title),
        tag("desc", about) if about else Html(""),
        *content,
        viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}",
        height=f"{height:.0f}",
        role="img",
        class_=class_,
    )


def svg_file(title: str, lines: Sequence[Html], **attributes: object) -> str:
    """Return a drawing as a separate file, with each element on its own line."""
    content = Html("\n".join(["", *lines, ""]))
    return tag("svg", content, xmlns="http://www.w3.org/2000/svg", **attributes, role="img", aria_label=title) + "\n"


# No script, no font, no picture: with this policy a browser loads nothing.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --page: #fbfbf9; --card: #ffffff; --ink: #1d2430; --soft: #596273; --line: #dfe2e8;
  --truth: #6b7a99; --other: #0b7a75; --hot: #c2410c; --cold: #eef0f4; --on-hot: #ffffff; --note: #f1f5f4;
  --warn: #fdeae0; --good: #1a6b3c; --fair: #8a5a00; --poor: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171c; --card: #1c2027; --ink: #e8eaee; --soft: #a8b0bf; --line: #333a46;
    --truth: #93a3c4; --other: #3fc1b6; --hot: #fb8b4b; --cold: #262b34; --on-hot: #14171c; --note: #1a2526;
    --warn: #40230f; --good: #6fce93; --fair: #f0b74a; --poor: #ff8a80; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.5 system-ui, sans-serif; }
main { max-width: 74rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.9rem; line-height: 1.2; margin: 0 0 .25rem; } h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1rem; margin: 0; }
.wide h3 { margin-bottom: .5rem; } .wide + .wide, .side + .wide { margin-top: .8rem; }
.side { display: flex; flex-wrap: wrap; gap: .8rem; align-items: flex-start; }
.side > .wide { flex: 1 1 24rem; margin: 0; min-width: 0; }
p { margin: .4rem 0 .8rem; max-width: 48rem; }
.soft { color: var(--soft); } small { font-size: .82rem; }
.note { background: var(--note); border-left: 4px solid var(--other); padding: .6rem 1rem; border-radius: 0 8px 8px 0;
  margin: 1rem 0; }
.note p { margin: .2rem 0; }
.warn { background: var(--warn); border: 2px solid var(--hot); border-left-width: 10px; border-radius: 8px; }
.warn strong { color: var(--hot); text-transform: uppercase; letter-spacing: .04em; }
.cards { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fit, minmax(13.5rem, 1fr)); padding: 0; }
.columns { columns: 19rem; column-gap: .8rem; } .columns .card { break-inside: avoid; margin-bottom: .8rem; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem;
  min-width: 0; }
.card b { display: block; font-size: 1.55rem; font-variant-numeric: tabular-nums; line-height: 1.25; }
.head { display: flex; justify-content: space-between; gap: .5rem; align-items: baseline; margin-bottom: .3rem; }
.columns .head { flex-wrap: wrap; }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 10px; padding: 1rem;
  background: linear-gradient(to right, var(--card) 40%, transparent) left / 2.5rem 100% no-repeat local,
    linear-gradient(to left, var(--card) 40%, transparent) right / 2.5rem 100% no-repeat local,
    linear-gradient(to right, rgba(127, 127, 127, .4), transparent) left / .6rem 100% no-repeat scroll,
    linear-gradient(to left, rgba(127, 127, 127, .4), transparent) right / .6rem 100% no-repeat scroll, var(--card); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; font-size: .85rem; } .right { text-align: right; white-space: nowrap; }
.side table { font-size: .86rem; } .side th, .side td { padding-right: .55rem; }
.wide th:first-child, .wide td:first-child { position: sticky; left: 0; background: var(--card); }
.card table { font-size: .85rem; margin-top: .5rem; } .card th, .card td { padding: .12rem .5rem .12rem 0; }
.card td:last-child, .card th:last-child { padding-right: 0; } .card .right { white-space: normal; }
svg { display: block; max-width: 100%; height: auto; }
.map { display: flex; width: max-content; } .map svg { flex: none; max-width: none; }
.map .stays { position: sticky; left: 0; background: var(--card); }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg .soft { fill: var(--soft); } .truth { fill: var(--truth); } .other { fill: var(--other); }
.hot { fill: var(--hot); } .cold { fill: var(--cold); } .rule { stroke: var(--line); }
.whisker { stroke: var(--ink); stroke-width: 1.3; } .halo { stroke: var(--card); stroke-width: 3.6; }
.point { fill: var(--other); fill-opacity: .45; } .fit { fill: none; stroke: var(--ink); stroke-width: 1.8; }
.band { fill: var(--hot); fill-opacity: .22; } .axis { fill: none; stroke: var(--soft); }
.plots { display: grid; gap: .8rem; grid-template-columns: repeat(auto-fill, minmax(17rem, 1fr)); }
.dense { columns: 19rem; column-gap: 1.5rem; font-size: .82rem; } .wide > ul.dense, .dense { padding-left: 1.1rem; }
.dense span { font-variant-numeric: tabular-nums; color: var(--soft); }
.reasons { font-size: .88rem; color: var(--soft); }
.ring { fill: none; stroke: var(--truth); stroke-width: 2.6; } svg .tiny { font-size: 10px; }
svg text.on-hot { fill: var(--on-hot); } .hole { fill: var(--card); stroke: var(--hot); stroke-width: 1.6; }
.key i { display: inline-block; width: .85em; height: .85em; border-radius: 3px; margin: 0 .35em 0 .9em; }
.key i:first-child { margin-left: 0; } .key .truth { background: var(--truth); }
.key .other { background: var(--other); }
.mark { font-size: .78rem; font-weight: 600; white-space: nowrap; border: 1.5px solid; border-radius: 99px;
  padding: .02rem .5rem; } td .mark { border: 0; padding: 0; }
.good { --of: var(--good); } .fair { --of: var(--fair); } .poor { --of: var(--poor); } .mark { color: var(--of); }
.card.good, .card.fair, .card.poor { border-left: 5px solid var(--of); }
.verdict { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: .8rem 1rem .4rem;
  margin: 1rem 0; } .verdict h2 { margin: .4rem 0; }
.grades { display: grid; gap: 0 1.2rem; grid-template-columns: repeat(auto-fit, minmax(16rem, 1fr)); }
.grades > div { border-left: 5px solid var(--of); padding-left: .8rem; margin: 0 0 .8rem; }
.verdict.card { border-left: 8px solid var(--of); } .verdict.card > h2 { color: var(--of); }
.verdict.card b { font-size: 1rem; }
.verdict > .wide { margin-bottom: .6rem; } .verdict ol { margin: .3rem 0 .8rem; padding-left: 1.5rem; }
.verdict ul { margin: .15rem 0 0; padding-left: 1.1rem; } .verdict b { color: var(--of); }
li { max-width: 48rem; margin: .15rem 0; overflow-wrap: anywhere; }
h3, .wide td:first-child { overflow-wrap: anywhere; }
.wide > ul { margin: 0; padding-left: 1.1rem; } .head .mark + .mark { margin-left: .25rem; }
details { margin: .4rem 0; } summary { cursor: pointer; color: var(--soft); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
@media (max-width: 30rem) { main { padding: 1.2rem .8rem 3rem; } h1 { font-size: 1.5rem; }
  .cards { gap: .5rem; } .card b { font-size: 1.25rem; } .wide { padding: .7rem; }
  .verdict { padding: .6rem .8rem .2rem; }
  .wide table { font-size: .85rem; } .wide .many th:first-child { display: none; }
  .wide .many tr { display: flex; flex-wrap: wrap; border-bottom: 1px solid var(--line); }
  .wide .many th, .wide .many td { flex: 1 1 0; min-width: 2.6rem; border: 0; white-space: normal;
    padding: .15rem .4rem .15rem 0; }
  .wide .many tr > :nth-child(2) { text-align: left; }
  .wide .many tr > :first-child { flex-basis: 100%; font-weight: 600; }
  .side > .wide { flex-basis: 100%; } .columns { columns: auto; } }
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc;
    --truth: #6b7a99; --other: #0b7a75; --hot: #c2410c; --cold: #eef0f4; --on-hot: #fff; --note: #fff;
    --warn: #fff; --good: #1a6b3c; --fair: #8a5a00; --poor: #b3261e; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0 2px; }
  h1, h2, h3, .head, .key, section > p:not(:last-child), thead { break-after: avoid; } p, li { orphans: 9; widows: 9; }
  .card, tr, .keep, .note, .verdict, p, li, .grades > div { break-inside: avoid; } .columns { columns: 2; }
  .columns svg { max-width: 84%; } .card table { font-size: .74rem; line-height: 1.3; } details { display: none; }
  .grades { grid-template-columns: repeat(auto-fit, minmax(11rem, 1fr)); font-size: .9em; }
  .dense { columns: 3; font-size: .72rem; }
  .cards { grid-template-columns: repeat(4, 1fr); gap: .5rem; font-size: .85em; } .cards .card { padding: .5rem .6rem; }
  .wide { overflow: visible; background: var(--card); } .map { width: auto; } .map svg { flex: 0 1 auto; min-width: 0; }
  .wide th:first-child, .wide td:first-child, .map .stays { position: static; } .side { display: block; }
  .side > .wide + .wide { margin-top: .8rem; } @page { margin: 16mm; } }
"""


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> Html:
    """Return a table; the columns in `right` are right-aligned. On a phone a wide row has its name above."""

    def cells(kind: str, row: Sequence[object]) -> Html:
        return tag("tr", *(tag(kind, cell, class_="right" if i in right else None) for i, cell in enumerate(row)))

    body = tag("tbody", *(cells("td", row) for row in rows))
    return tag("table", tag("thead", cells("th", head)), body, class_="many" if len(head) > 3 else None)


def section(title: str, *content: object) -> Html:
    """Return a part of a page under a heading."""
    return tag("section", tag("h2", title), *content)


def side(*cards: Html) -> Html:
    """Put cards side by side on a wide screen."""
    return tag("div", *cards, class_="side")


def titled(title: str, content: Html | None) -> list[Html]:
    """Return a card with a title, or nothing without content."""
    return [] if content is None else [tag("div", tag("h3", title), content, class_="wide keep")]


def unbroken(text: str) -> str:
    """Replace spaces so that a text stays on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def page(title: str, *content: object) -> str:
    """Return a complete page in one file."""
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html('<link rel="icon" href="data:,">'),
            tag("title", title),
            tag("style", Html(STYLE)),
        ]
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{tag("main", *content)}</body></html>\n'


# Half-transparent greys fit a light and a dark page.
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
    """Return a table of some rows with the kinds of the columns and a caption. None is a gap; texts are escaped.

    >>> small_table(["a<b"], ["boolean"], [[None]], caption="1 row").partition("</style>")[2][:62]
    '<table><thead><tr><th>a&lt;b<br><small>boolean</small></th></t'
    """
    head = [tag("th", name, Html("<br>"), tag("small", kind)) for name, kind in zip(names, kinds, strict=True)]
    body = [tag("tr", *(tag("td", tag("i", GAP) if cell is None else cell) for cell in row)) for row in rows]
    table = tag("table", tag("thead", tag("tr", *head)), tag("tbody", *body))
    return tag("div", tag("style", Html(_STYLE)), table, tag("p", caption), class_="gapless")
