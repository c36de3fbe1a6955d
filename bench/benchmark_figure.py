"""Draw docs/benchmarks.svg from the tables of docs/benchmarks-appendix.md.

    python bench/benchmark_figure.py

Left: 2-way distance against processor seconds of a fit, Adult, ε = 1, gapless beside other tools. Right: 2-way distance
by number of rows and ε, simulated tables of the kind *mix* with 15 columns. Nothing is measured here.
"""

import math
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TypeAlias

Tools: TypeAlias = list[tuple[str, float, float]]
Curves: TypeAlias = dict[float, dict[str, list[tuple[int, float]]]]

DOCS = Path(__file__).resolve().parent.parent / "docs"
SOURCE = DOCS / "benchmarks-appendix.md"
TARGET = DOCS / "benchmarks.svg"

WIDTH, HEIGHT = 960, 400
COLORS = {"Independent": "#8a8a8a", "MST": "#b8860b", "AIM": "#c8553d", "Mixture": "#1f78b4"}
MARKERS = {"Independent": "square", "MST": "triangle", "AIM": "diamond", "Mixture": "circle"}
LABELS = {
    "**gapless aim**, extended": "gapless AIM",
    "**gapless mixture**, extended": "gapless Mixture",
    "**gapless mst**, extended": "gapless MST",
    "**gapless privbayes**, extended": "gapless PrivBayes",
    "**gapless independent**, extended": "gapless Independent",
    "dpmm-mst": "dpmm MST",
    "opendp-mst, rows drawn": "OpenDP MST",
    "smartnoise-mst, rows drawn": "SmartNoise MST",
    "dpmm-privbayes": "dpmm PrivBayes",
    "datasynthesizer": "DataSynthesizer",
}
# Where a label would cover another one: horizontal anchor and vertical shift in pixels.
SHIFTS = {
    "dpmm MST": ("start", 4),
    "OpenDP MST": ("end", 16),
    "SmartNoise MST": ("end", 2),
    "dpmm PrivBayes": ("end", -6),
    "DataSynthesizer": ("end", -8),
}


def main() -> None:
    """Read the tables, write the picture."""
    text = SOURCE.read_text(encoding="utf-8")
    tools = read_tools(text)
    curves = read_curves(text)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
        'role="img" aria-label="Accuracy and cost of gapless beside other tools, and accuracy by rows and epsilon">',
        "<style>text{font:11px sans-serif;fill:#222}.title{font-size:13px;font-weight:600}.grid{stroke:#ddd}"
        ".axis{fill:#555}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        *draw_tools(tools),
        *draw_curves(curves),
        "</svg>",
    ]
    TARGET.write_text("\n".join(parts) + "\n", encoding="utf-8")
    print(f"Wrote {TARGET}")


def read_section(text: str, heading: str) -> list[list[str]]:
    """Return the rows of all tables between a heading and the next one, as lists of cells."""
    lines = text.split("\n")
    start = lines.index(heading) + 1
    end = next((i for i in range(start, len(lines)) if lines[i].startswith("#")), len(lines))
    rows = [line for line in lines[start:end] if line.startswith("|") and not line.startswith("|---")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def read_tools(text: str) -> Tools:
    """Return label, processor seconds of fit and sample, and 2-way distance of each tool on Adult at ε = 1."""
    found = {}
    for heading in ("## Other tools and methods, of an earlier run", "### adult, ε = 1, δ = 1e-06"):
        header, *rows = read_section(text, heading)
        for row in rows:
            cells = dict(zip(header, row, strict=True))
            # Of a method in both tables the newer one counts; of other tools the one with more runs.
            if cells["tool"] not in LABELS or ("gapless" not in cells["tool"] and cells["tool"] in found):
                continue
            sample = 0.0 if cells["sample cpu s"] == "–" else float(cells["sample cpu s"])
            found[cells["tool"]] = (float(cells["fit cpu s"]) + sample, float(cells["2-way"]))
    return [(LABELS[tool], *point) for tool, point in found.items()]


def read_curves(text: str) -> Curves:
    """Return 2-way distances of tables *mix* with 15 columns: ε, then method, then (rows, distance)."""
    curves: Curves = {}
    rows = read_section(text, "## Which method is best where")
    header = next(row for row in rows if row[0] == "table")
    for row in rows:
        if len(row) != len(header) or row[:3] != ["mix", "15", ""]:
            continue
        cells = dict(zip(header, row, strict=True))
        for method in COLORS:
            points = curves.setdefault(float(cells["ε"]), {}).setdefault(method, [])
            points.append((int(cells["rows"].replace(",", "")), float(cells[method].split()[0])))
    return curves


def log_scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return a function that maps [low, high] to pixels on a logarithmic scale."""
    span = math.log(high / low)
    return lambda value: start + (end - start) * math.log(value / low) / span


def marker(kind: str, x: float, y: float, color: str) -> str:
    """Return a point of the picture."""
    shapes = {
        "square": f"M{x - 4:.1f} {y - 4:.1f}h8v8h-8z",
        "triangle": f"M{x:.1f} {y - 5:.1f}l5 9h-10z",
        "diamond": f"M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z",
    }
    if kind == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>'
    return f'<path d="{shapes[kind]}" fill="{color}"/>'


def label(x: float, y: float, text: str, anchor: str = "start", style: str = "") -> str:
    """Return a text of the picture."""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{style}>{escape(text)}</text>'


def draw_tools(tools: Tools) -> list[str]:
    """Return the left panel."""
    left, right, top, bottom = 52, 440, 52, 340
    x = log_scale(0.04, 1500, left, right)
    y = log_scale(0.01, 0.4, bottom, top)
    parts = [label(8, 18, "Adult, ε = 1: error and cost of one release", style=' class="title"')]
    for tick in (0.1, 1, 10, 100, 1000):
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{bottom}" class="grid"/>')
        parts.append(label(x(tick), bottom + 16, f"{tick:g}", "middle"))
    for tick in (0.01, 0.02, 0.05, 0.1, 0.2):
        parts.append(f'<line x1="{left}" x2="{right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" class="grid"/>')
        parts.append(label(left - 6, y(tick) + 4, f"{tick:g}", "end"))
    parts.append(label((left + right) / 2, bottom + 34, "processor seconds", "middle", ' class="axis"'))
    parts.append(label(8, 40, "2-way distance, smaller is better", style=' class="axis"'))
    for name, seconds, distance in tools:
        is_gapless = name.startswith("gapless")
        parts.append(
            marker(
                "circle" if is_gapless else "square", x(seconds), y(distance), "#1f78b4" if is_gapless else "#8a8a8a"
            )
        )
        anchor, shift = SHIFTS.get(name, ("start", 4))
        offset = 9 if anchor == "start" else -9
        parts.append(label(x(seconds) + offset, y(distance) + shift, name, anchor))
    parts.append(label((left + right) / 2, bottom + 52, "circles: gapless · squares: other tools", "middle"))
    return parts


def draw_curves(curves: Curves) -> list[str]:
    """Return the right panel."""
    first, gap, width, top, bottom = 520, 14, 132, 52, 340
    y = log_scale(0.0007, 0.5, bottom, top)
    parts = [label(478, 18, "Simulated tables, 15 columns: error by rows and ε", style=' class="title"')]
    parts.append(label(478, 40, "2-way distance", style=' class="axis"'))
    for number, (epsilon, methods) in enumerate(sorted(curves.items())):
        left = first + number * (width + gap)
        x = log_scale(1500, 270_000, left, left + width)
        parts.append(label(left + width / 2, top - 4, f"ε = {epsilon:g}", "middle"))
        for tick in (0.001, 0.01, 0.1):
            parts.append(f'<line x1="{left}" x2="{left + width}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" class="grid"/>')
            if number == 0:
                parts.append(label(left - 6, y(tick) + 4, f"{tick:g}", "end"))
        for tick, name in ((2_000, "2k"), (20_000, "20k"), (200_000, "200k")):
            parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{top}" y2="{bottom}" class="grid"/>')
            parts.append(label(x(tick), bottom + 16, name, "middle"))
        for method, points in methods.items():
            places = [(x(rows), y(distance)) for rows, distance in sorted(points)]
            path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{COLORS[method]}" stroke-width="2"/>')
            parts.extend(marker(MARKERS[method], a, b, COLORS[method]) for a, b in places)
    middle = first + (3 * width + 2 * gap) / 2
    parts.append(label(middle, bottom + 34, "rows of the table, in thousands (k)", "middle", ' class="axis"'))
    for number, method in enumerate(COLORS):
        parts.append(marker(MARKERS[method], first + 20 + 104 * number, bottom + 48, COLORS[method]))
        parts.append(label(first + 30 + 104 * number, bottom + 52, method))
    return parts


if __name__ == "__main__":
    main()
