"""How long synthetic patients stay: two dates alone, with a rule, and with a declared difference.

    PYTHONPATH=tests python bench/stays.py                       factors, mixture, mst and aim, five runs each
    PYTHONPATH=tests python bench/stays.py --methods mst --runs 1

The table is that of tests/helpers/hospital.py: severity, admission and discharge of simulated patients. ε = 1,
δ = 1e-6, the whole budget in one fit, dates and lengths in learned bins, as many synthetic rows as there are rows. The
rule is `not = "t1.discharge < t1.admission"`; the difference is `length_of_stay = discharge - admission`. Printed are
the mean and the standard deviation over the runs of: the share of negative stays, the mean stay and its standard
deviation in days, and the correlation (Spearman) of the severity and the stay.
"""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import polars as pl

import gapless as gl
from gapless.synth import METHODS
from helpers.hospital import DECLARED, RULED, SEPARATE, SEVERITIES, lengths, stays

SCHEMAS = {"two dates": SEPARATE, "and a rule": RULED, "and a difference": DECLARED}
FIGURES = ("negative, %", "mean", "standard deviation", "correlation with severity")


def figures(frame):
    length = lengths(frame)
    severity = frame["severity"].cast(pl.Enum(SEVERITIES)).to_physical()
    together = pl.DataFrame({"x": severity, "y": length}).select(pl.corr("x", "y", method="spearman")).item()
    return 100 * (length.to_numpy() < 0).mean(), length.mean(), length.std(), together


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", choices=METHODS, default=["factors", "mixture", "mst", "aim"])
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    asked = parser.parse_args()
    truth = stays(asked.rows)
    print("| method | columns |", " | ".join(FIGURES), "|\n|---|---|" + "---:|" * len(FIGURES))
    print("| the table | |", " | ".join(f"{figure:.2f}" for figure in figures(truth)), "|")
    for method in asked.methods:
        for columns, schema in SCHEMAS.items():
            found = []
            for run in range(asked.runs):
                ledger = Path(tempfile.mkdtemp()) / "stays.ledger"
                table = gl.read(truth, schema, protect=gl.Rows(1), ledger=ledger, budget=gl.Budget(1.0, 1e-6))
                model = METHODS[method]().fit(table, spend="100%")
                found.append(figures(model.sample(asked.rows, seed=run).to_polars()))
            cells = zip(np.mean(found, axis=0), np.std(found, axis=0, ddof=min(1, asked.runs - 1)), strict=True)
            print(
                f"| `{method}` | {columns} |",
                " | ".join(f"{mean:.2f} ± {std:.2f}" for mean, std in cells),
                "|",
                flush=True,
            )


if __name__ == "__main__":
    main()
