"""Visits of patients: a table with several rows per person."""

import numpy as np
import polars as pl

from gapless.schema import Categorical, Integer, MissingCode, Schema

SCHEMA = Schema(
    "visits",
    [
        Integer("age", bounds=(18, 97), bins=8),
        Categorical("sex", ["f", "m"]),
        Integer(
            "pressure", bounds=(80, 199), bins=12, may_be_missing=True, missing=(MissingCode(""), MissingCode("NA"))
        ),
    ],
    person="patient_id",
    rows_per_person=3,
)


def visits(patients: int, rows: int, seed: int = 0) -> pl.DataFrame:
    """So many rows of so many patients, at least one of each; sicker patients come more often."""
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 98, patients)
    risk = rng.gamma(1.5, size=patients) * (1 + age / 50)
    of = np.append(np.arange(patients), rng.choice(patients, rows - patients, p=risk / risk.sum()))
    rng.shuffle(of)
    pressure = np.clip(100 + age[of] / 3 + 8 * np.sqrt(risk[of]) + rng.normal(0, 8, rows), 80, 199).astype(int)
    seen = rng.random(rows) > age[of] / 400
    return pl.DataFrame(
        {
            "patient_id": 10_000 + of,
            "age": age[of],
            "sex": np.where(rng.random(patients) < 0.5, "f", "m")[of],
            "pressure": np.where(seen, pressure.astype(str), "NA"),
        }
    )
