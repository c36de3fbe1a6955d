"""Tables with a difference of two columns, and texts that these columns may hold."""

from dataclasses import replace
from typing import Any

import gapless as gl
from gapless.schema import Column
from helpers.odd_cells import DAYS, MOMENTS, NUMBERS

GAPS: dict[str, Any] = {
    "may_be_missing": True,
    "missing": ("NA", gl.MissingCode("-9", "refused"), gl.MissingCode("n/a", "not-applicable")),
}
LOST: dict[str, Any] = {"may_be_missing": True, "outside": "missing"}
DAY = ("2024-02-27", "2024-03-02")


def declared(first: Column, second: Column, **difference: Any) -> gl.Schema:
    """A table of two columns and their difference."""
    kind = gl.Number if "resolution" in difference else gl.Integer
    return gl.Schema("t", [second, first, kind("between", difference="b - a", **difference)])


SCHEMAS = {
    "days": declared(gl.Date("b", bounds=DAY, **GAPS), gl.Date("a", bounds=DAY, may_be_missing=True), bounds=(0, 3)),
    "days, gaps outside": declared(
        gl.Date("b", bounds=("2024-02-27", "2024-03-03"), **GAPS, outside="missing"),
        gl.Date("a", bounds=DAY, **LOST),
        bounds=(1, 3),
        **LOST,
    ),
    "months": declared(
        gl.Date("b", bounds=("2000-01-01", "2030-12-31"), resolution="month", format="%d.%m.%Y", may_be_missing=True),
        gl.Date("a", bounds=("1995-01-01", "2030-12-31"), resolution="month"),
        bounds=(0, 60),
    ),
    "seconds": declared(
        gl.DateTime("b", bounds=("2024-01-01", "2024-12-31"), bins="learned", **LOST),
        gl.DateTime("a", bounds=("2024-01-01", "2024-12-31"), **LOST),
        bounds=(0, 10**7),
        bins="learned",
    ),
    "whole": declared(
        replace(NUMBERS["whole"], name="b"), gl.Integer("a", bounds=(0, 20), may_be_missing=True), bounds=(-9, 30)
    ),
    "numbers": declared(
        gl.Number("b", bounds=(-2, 2001), resolution=0.25, decimal=",", thousands=".", **LOST),
        gl.Number("a", bounds=(-2, 2000), resolution=0.25, **LOST),
        bounds=(-1, 2),
        resolution=0.25,
        edges=(-1, 0, 0.5, 2),
    ),
    "tenths": declared(
        gl.Number("b", bounds=(0, 3), resolution=0.1, **GAPS),
        gl.Number("a", bounds=(0, 2.8), resolution=0.1, **LOST),
        bounds=(0.2, 2.2),
        resolution=0.1,
        **LOST,
    ),
    "refuse": declared(gl.Date("b", bounds=DAY, **GAPS), gl.Date("a", bounds=DAY), bounds=(0, 2), outside="refuse"),
    "minuend refuses": declared(
        gl.Date("b", bounds=DAY, may_be_missing=True, outside="refuse"), gl.Date("a", bounds=DAY), bounds=(0, 2)
    ),
    "no gaps": declared(gl.Date("b", bounds=DAY), gl.Date("a", bounds=DAY), bounds=(0, 2)),
}
TAKES_ALL = [name for name in SCHEMAS if name not in ("refuse", "minuend refuses", "no gaps", "months")]
NEAR = [f"2024-02-{day}" for day in (26, 27, 28, 29)] + [f"2024-03-0{day}" for day in (1, 2, 3)]
CALENDAR = [*NEAR, *(f"{day[8:]}.{day[5:7]}.{day[:4]}" for day in NEAR), "NA", "-9", "n/a", "", *MOMENTS, *DAYS[:20]]
SMALL = [str(number / 4) for number in range(-8, 20)] + ["1,5", "0,1", "NA", "-9", "n/a", "", "12", "21"]
