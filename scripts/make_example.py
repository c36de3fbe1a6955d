"""Simulate examples/people.csv: nobody's data, with gaps, for the commands of the README. Always the same table."""

from pathlib import Path

import numpy as np
import polars as pl

ROWS = 3000
OUTPUT = Path(__file__).parents[1] / "examples" / "people.csv"


def people(rng: np.random.Generator) -> pl.DataFrame:
    """Age and education drive income and smoking; the young and the well paid leave gaps more often."""
    age = rng.integers(18, 91, ROWS)
    sex = rng.choice(["F", "M"], ROWS, p=[0.52, 0.48])
    region = rng.choice(["north", "east", "south", "west"], ROWS, p=[0.3, 0.2, 0.35, 0.15])
    schooling = np.clip(np.round(rng.normal(1.4 - 0.012 * (age - 50), 0.9, ROWS)), 0, 3).astype(int)
    education = np.array(["primary", "secondary", "college", "university"])[schooling]
    working = np.clip(1 - ((age - 48) / 45) ** 2, 0.2, 1)
    income = np.clip(np.exp(rng.normal(9.9 + 0.3 * schooling, 0.5, ROWS)) * working, 0, 120_000).round(-2).astype(int)
    smoker = rng.random(ROWS) < 0.32 - 0.06 * schooling
    answers = rng.random((2, ROWS))
    refused = answers[0] < 0.06 + 0.12 * (income > 40_000)
    skipped = answers[0] > 0.97 - 0.1 * (age < 30)
    income_text = np.where(refused, "-8", np.where(skipped, "", income.astype(str)))
    smokes = np.where(answers[1] < 0.08, "", np.where(smoker, "yes", "no"))
    return pl.DataFrame(
        {"age": age, "sex": sex, "region": region, "education": education, "income": income_text, "smoker": smokes}
    )


if __name__ == "__main__":
    people(np.random.default_rng(2024)).write_csv(OUTPUT)
