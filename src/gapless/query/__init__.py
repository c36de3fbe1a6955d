"""Questions to an incomplete table: counts, shares, means, quantiles, relations; and what is done about gaps."""

from gapless.query.answers import Answer
from gapless.query.ask import ask_all, preview
from gapless.query.hot_deck import HotDeck, ReleasedDeck
from gapless.query.knn import Knn
from gapless.query.parsing import parse_question
from gapless.query.persons import RowsPerPerson
from gapless.query.questions import Count, Mean, Median, Proportion, Quantile, Sum, Variance
from gapless.query.relations import Correlation, CrossTable, RankCorrelation, Regression
from gapless.query.treatments import Drop, Preview

__all__ = [
    "Answer",
    "Correlation",
    "Count",
    "CrossTable",
    "Drop",
    "HotDeck",
    "Knn",
    "Mean",
    "Median",
    "Preview",
    "Proportion",
    "Quantile",
    "RankCorrelation",
    "Regression",
    "ReleasedDeck",
    "RowsPerPerson",
    "Sum",
    "Variance",
    "ask_all",
    "parse_question",
    "preview",
]
