"""Parts of a page, and the whole one, which needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gapless.draw.markup import Html, join, tag

# No script, no font, no picture from anywhere: a browser that obeys this line cannot ask for anything.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

STYLE = """
:root { color-scheme: light dark; --page: #fbfbf9; --card: #ffffff; --ink: #1d2430; --soft: #596273; --line: #dfe2e8;
  --truth: #6b7a99; --other: #0b7a75; --hot: #c2410c; --cold: #eef0f4; --on-hot: #ffffff; --note: #f1f5f4;
  --warn: #fdeae0; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171c; --card: #1c2027; --ink: #e8eaee; --soft: #a8b0bf; --line: #333a46;
    --truth: #93a3c4; --other: #3fc1b6; --hot: #fb8b4b; --cold: #262b34; --on-hot: #14171c; --note: #1a2526;
    --warn: #40230f; } }
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
.wide { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100%; }
th, td { text-align: left; padding: .3rem .7rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; font-size: .85rem; } .right { text-align: right; }
svg { display: block; max-width: 100%; height: auto; } .wide svg { max-width: none; }
svg text { fill: var(--ink); font: 12px system-ui, sans-serif; font-variant-numeric: tabular-nums; }
svg .soft { fill: var(--soft); } .truth { fill: var(--truth); } .other { fill: var(--other); }
.hot { fill: var(--hot); } .cold { fill: var(--cold); } .rule { stroke: var(--line); }
.whisker { stroke: var(--ink); stroke-width: 1.3; } .halo { stroke: var(--card); stroke-width: 3.6; }
.ring { fill: none; stroke: var(--truth); stroke-width: 2.6; } svg .tiny { font-size: 10px; }
svg text.on-hot { fill: var(--on-hot); } .hole { fill: var(--card); stroke: var(--hot); stroke-width: 1.6; }
.key i { display: inline-block; width: .85em; height: .85em; border-radius: 3px; margin: 0 .35em 0 .9em; }
.key i:first-child { margin-left: 0; } .key .truth { background: var(--truth); }
.key .other { background: var(--other); }
footer { margin-top: 3rem; border-top: 1px solid var(--line); padding-top: .8rem; }
@media (max-width: 30rem) { main { padding: 1.2rem .8rem 3rem; } h1 { font-size: 1.5rem; } .about { display: none; }
  .cards { grid-template-columns: 1fr 1fr; gap: .5rem; } .card b { font-size: 1.25rem; } }
@media print {
  :root { color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --soft: #444; --line: #ccc;
    --truth: #6b7a99; --other: #0b7a75; --hot: #c2410c; --cold: #eef0f4; --on-hot: #fff; --note: #fff;
    --warn: #fff; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  body { font-size: 10.5pt; } main { max-width: none; padding: 0; } h2, section > p { break-after: avoid; }
  .card, tr, .keep { break-inside: avoid; } .columns { columns: 2; } .wide svg { max-width: 100%; }
  @page { margin: 16mm; } }
"""


def table(head: Sequence[str], rows: Iterable[Sequence[object]], *, right: Sequence[int] = ()) -> Html:
    """A table; the columns in `right` hold numbers."""

    def cells(kind: str, row: Sequence[object]) -> Html:
        return tag("tr", *(tag(kind, cell, class_="right" if i in right else None) for i, cell in enumerate(row)))

    return tag("table", tag("thead", cells("th", head)), tag("tbody", *(cells("td", row) for row in rows)))


def section(title: str, *inside: object) -> Html:
    """A part of a page under a heading."""
    return tag("section", tag("h2", title), *inside)


def side(*cards: Html) -> Html:
    """Cards side by side where there is room."""
    return tag("div", *cards, class_="side")


def titled(title: str, inside: Html | None) -> list[Html]:
    """A card with a title, if there is anything to put in."""
    return [] if inside is None else [tag("div", tag("h3", title), inside, class_="wide keep")]


def unbroken(text: str) -> str:
    """A text that stays on one line."""
    return text.replace(" ", "\N{NO-BREAK SPACE}")


def page(title: str, *inside: object) -> str:
    """A whole page that needs nothing else."""
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
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{tag("main", *inside)}</body></html>\n'
