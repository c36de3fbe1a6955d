"""A simulated hospital: stays of about a week, most of them short, some long; longer for severe cases."""

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

import gapless as gl
from gapless.schema import Constraint

SEVERITIES = ("low", "middle", "high")
MEAN_STAYS = (5.0, 10.0, 22.0)  # of each severity, one day more
DATES: dict[str, Any] = {"bounds": ("2023-01-01", "2025-12-31"), "bins": "learned"}

SEPARATE = gl.Schema(
    "stays",
    [gl.Categorical("severity", SEVERITIES), gl.Date("admission", **DATES), gl.Date("discharge", **DATES)],
)
RULED = replace(SEPARATE, constraints=[Constraint("t1.discharge < t1.admission")])
DECLARED = gl.Schema(
    "stays",
    [
        *SEPARATE.columns,
        gl.Integer("length_of_stay", bounds=(0, 365), bins="learned", difference="discharge - admission"),
    ],
)


def stays(rows: int, seed: int = 0) -> pl.DataFrame:
    """Rows with a severity, an admission in 2023 or 2024 and a discharge. The mean stay is about 7 days."""
    rng = np.random.default_rng(seed)
    severity = rng.choice(3, rows, p=[0.6, 0.3, 0.1])
    length = np.minimum(rng.geometric(1 / np.array(MEAN_STAYS)[severity]) - 1, 365)
    admission = np.datetime64("2023-01-01") + rng.integers(0, 700, rows)
    return pl.DataFrame(
        {
            "severity": np.array(SEVERITIES)[severity],
            "admission": admission.astype("datetime64[D]"),
            "discharge": (admission + length).astype("datetime64[D]"),
        }
    )


def lengths(frame: pl.DataFrame) -> pl.Series:
    """The days of each stay."""
    return (frame["discharge"] - frame["admission"]).dt.total_days()
