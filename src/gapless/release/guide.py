"""The analysis guide of a release with copies: what they are for, what they support, and code that pools them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from shlex import quote

from gapless.query import Mean, Proportion
from gapless.query.condition import quoted
from gapless.schema import Integer, Number, Schema
from gapless.synth.copies import Copies

_R = """\
# Estimates q and their variances u, of each copy; the estimate of model_rows.csv.gz.
rubin <- function(q, u, original) {
  m <- length(q); b <- (1 + 1 / m) * var(q); w <- mean(u)
  centre <- 2 * original - mean(q)
  half <- qt(0.975, min((m - 1) * (1 + w / b)^2, 1e6)) * sqrt(w + b)
  c(estimate = centre, low = centre - half, high = centre + half)
}
tables <- function(file) { rows <- read.csv(file, check.names = FALSE); split(rows, rows$copy) }
estimate <- function(rows) lm(EXPLAINED ~ BY, rows)  # your analysis
q <- function(fit) coef(fit)[[2]]
u <- function(fit) vcov(fit)[2, 2]
fits <- lapply(tables("copies.csv.gz"), estimate)
original <- q(estimate(read.csv("model_rows.csv.gz", check.names = FALSE)))
rubin(sapply(fits, q), sapply(fits, u), original)
# mice::pool(mice::as.mira(fits)) has the same variances; its centre is the mean of the copies.
"""
_R_GAPS = """\
# With gaps: the larger half-width of that and of a bootstrap.
with_gaps <- function(pooled, original, replicates) {
  B <- length(replicates)
  centre <- 2 * original - mean(replicates)
  half <- max((pooled[["high"]] - pooled[["low"]]) / 2, qt(0.975, B - 1) * sd(replicates) * sqrt(1 + 1 / B))
  c(estimate = centre, low = centre - half, high = centre + half)
}
replicates <- sapply(lapply(tables("replicates.csv.gz"), estimate), q)
with_gaps(rubin(sapply(fits, q), sapply(fits, u), original), original, replicates)
"""


def _example(schema: Schema, together: Sequence[Sequence[int]]) -> tuple[str, str, str, str]:
    """Something that the release supports, as far as it does: in R what is explained and by what; a question twice."""
    for columns in together:
        for place in columns:
            if isinstance(column := schema.columns[place], Integer | Number):
                (by, *_) = (schema.names[other] for other in columns if other != place)
                asked = Mean(column.name, by=by)
                return f"`{column.name}`", by, f"gl.Mean({column.name!r}, by={by!r})", str(asked)
    first, second = together[0][:2] if together else (0, 0)
    named = schema.columns[second]
    of, by = f"{quoted(named.name)} == {named.cells[0]!r}", schema.names[first]
    return f"(`{named.name}` == {named.cells[0]!r})", by, f"gl.Proportion({of!r})", str(Proportion(of))


def analysis_guide(copies: Copies) -> Iterator[str]:
    """The guide, for those who analyse the rows."""
    model, schema = copies.model, copies.model.schema
    together = sorted(sorted(columns) for columns in copies.evidence.together(schema) if len(columns) > 1)
    tables = [" × ".join(schema.names[c] for c in columns) for columns in together]
    if together == [list(pair) for pair in combinations(range(len(schema.columns)), 2)]:
        tables = ["every pair of columns"]
    explained, by, question, text = _example(schema, together)
    gaps = bool(copies.replicates)
    yield from (
        f"# How to analyse {schema.name}",
        "",
        "A synthetic table that is treated as if it were real gives intervals that are too narrow: the noise that "
        f"protects people is not in them. So there are {len(copies)} copies, of which each might have been released "
        "instead. Do the analysis with every copy and pool the results: estimates with honest 95 % intervals for the "
        "population from which the private rows were drawn. All this is computed from released values: it cost "
        "nothing.",
        "",
        "- `copies.csv.gz`: all copies, told apart by the first column, `copy`.",
        "- `model_rows.csv.gz`: many rows of the model without a second noise, with which copies are compared.",
        *(["- `replicates.csv.gz`: as many tables that show what gaps do."] if gaps else []),
        "- `synthetic.csv` is one table, for a look, for testing code and for training. It is no copy.",
        "",
        "## What can be estimated",
        "",
        "Columns by themselves, and columns that were measured together in one table: "
        + (f"{', '.join(tables)}." if tables else "none.")
        + " A linear regression needs each two of its columns in one of them. Anything else follows from assumptions "
        "and has no interval: not supported by this release.",
        "",
        "## Python",
        "",
        "```python",
        "import gapless as gl",
        "",
        f'copies = gl.load("synthetic.model").copies({len(copies)})',
        f"print(gl.pool(copies, {question}))  # or Proportion, Median, Quantile",
        "```",
        "",
        "It says what is supported; `lambda table: smf.ols(…, table.to_pandas()).fit()` in place of the question is a "
        f"regression. Without Python: `gapless estimate . {quote(text)}`.",
        "",
        "## R",
        "",
        "```r",
        *(line.replace("EXPLAINED", explained).replace("BY", f"`{by}`") for line in (_R + _R_GAPS * gaps).splitlines()),
        "```",
        "",
        f"Method: {model.method}. Noise and sampling are in the intervals"
        + (", and gaps that are missing at random" if gaps else "")
        + ". What is not: where in its bin a number lies, if bins were declared; that the columns measured together "
        "are the right ones.",
        "",
    )
