"""Hints in the words of whoever reads them: options on the command line, arguments in Python."""

import ast
import inspect
import re

import pytest

import gapless as gl
from gapless.cli.words import spoken
from helpers.package_sources import sources

QUESTIONS = ("count", "sum", "mean", "proportion", "variance")  # the language of `gapless ask`
KEYS = ("may_be_missing", "rows_per_person", "expected_rows")  # of a schema file
PACKAGES = (gl, gl.evaluate, gl.missing, gl.query, gl.synth, gl.weights)
CLASSES = [
    name
    for package in PACKAGES
    for name in package.__all__
    if inspect.isclass(getattr(package, name)) and not name.endswith("Error")
]
PYTHON = re.compile(
    rf"(?<![\w-])(?!(?:{'|'.join(QUESTIONS)})\()[\w.]+\("  # a call
    r"|(?<![\w-])(?!income)[a-z_]+=(?!=)"  # an argument
    rf"|\b(?!{'|'.join(KEYS)})[a-z]+_[a-z_]+\b"  # a name
    rf"|\b(?:{'|'.join(CLASSES)}|True|False|None)\b"
)

# Hints for slips that only Python allows: the command line checks, makes or leaves out what they are about.
ONLY_IN_PYTHON = """
data.checks: Table.read(data, schema), for data that are nobody's secret
data.checks: compare_private(table, fake, spend=…) compares it for a price
data.private_table: FromModel(MST()), or FromModel(load('people.model'))
data.private_table: Mean("income") or, for text, gapless.query.parse_question("mean(income)")
data.private_table: Schema.read('people.toml')
data.private_table: a Schema of gapless
data.private_table: pass one, such as Mean("income"), or a list of questions
data.private_table: pass rows="observed" or rows="extended"
data.private_table: protect=Rows(?)
data.io.source: collect() it yourself to see why
data.sums: plain_sum: a sum without filling
data.training: gaps are codes of their own, except in columns that needs= names
evaluate.comparison: schema=Schema.read('people.toml')
evaluate.private_comparison: compare(truth, fake), for a truth that is public
evaluate.private_comparison: pairs=[("age", "sex")]
evaluate.tasks: labels=[?]
evaluate.tasks: labels=[…, ?]
inference.pooling: model.copies(20)
missing.diagnosis: patterns(table), for free
missing.imputers: FromModel(MST()), or FromModel(load('people.model'))
missing.imputers: ImputeFirst(FromMean()), FromModel(MST()), …
missing.imputers: ImputeFirst(FromModel(model))
missing.imputers: use FromModel(MST()) or FromModel(AIM())
missing.little: describe_gaps(table, spend=…) has a check for it
missing.diagnosis: nothing needs to be estimated: MCAR({})
missing.diagnosis: patterns(table), for free
model.marginal: finite counts and a noise_std of 0 or more
privacy.assumptions: columns="independent" or columns="dependent"
privacy.budget: delta=0, or a budget without ground_truth and ledger.ground_truth(…) afterwards
privacy.budget: pass Rows(1), or the most rows per person
privacy.ground_truth: a loss and its columns: (0.1, {"age"}), (0.1, None)
privacy.ground_truth: public rates, or ledger.ground_truth(…), which adds the probability to δ
privacy.mechanisms: a Budget with delta > 0, or DiscreteLaplace
privacy.pricing: pass int or float distances, and a frozenset of str or None as reads
privacy.private: release something from it under a budget: Independent().fit(table, spend=…)
privacy.sgd: a Budget with delta > 0
privacy.sgd: numbers=program.numbers
privacy.sgd: trainable(table, program); counts take DiscreteLaplace or DiscreteGaussian
privacy.smooth: neighbour_sum(table, …); counts take DiscreteLaplace or DiscreteGaussian
privacy.teachers: a Budget with delta > 0
privacy.teachers: teachable(table, program); counts take DiscreteLaplace or DiscreteGaussian
privacy.teachers: teachers=program.teachers and the shape of its answers
query.hot_deck: leave missing= out, or people.ask(…)
query.hot_deck: people.ask(…); a deck answers what is made of sums
query.hot_deck: release(people, ['income'], spend=…)
query.questions: Drop(), Knn(neighbors=1, on=[…]) or HotDeck(on=[…])
query.questions: by="sex", or leave it out
query.several: [Count(), Mean("income")]
synth.sequential.kamino: fewer levels or bins, leave columns out with select(), or architecture="columns"
weights.discriminators: MisGAN().fit(…)
weights.discriminators: a model whose critic gets the noise, such as dpgan; LogisticWeights, for a part of the budget
weights.weighted_learners: table.ask(Mean(…), spend=…)
weights.discriminators: a larger regularization= or spend=, noise="gaussian", or debias=False
weights.discriminators: noise="knorm"
weights.weighted_learners: positive=?, which foretells this cell by a logistic regression
weights.weights: a PrivateTable; LogReg().fit(truth, fake) is for two public tables
"""


def texts(node):
    """The texts that an expression can be, with ? for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(part.value if isinstance(part, ast.Constant) else "?" for part in parts)
        case ast.IfExp(body=first, orelse=second):
            yield from (*texts(first), *texts(second))


def hints():
    for module, source in sources():
        for node in ast.walk(ast.parse(source)):
            for keyword in node.keywords if isinstance(node, ast.Call) else ():
                if keyword.arg in ("hint", "private", "public"):  # the latter two are passed on as one
                    yield from ((module, text) for text in texts(keyword.value))


def test_every_hint_speaks_the_language_of_the_command_line_or_is_for_python_only():
    found = {f"{module}: {hint}" for module, hint in hints() if PYTHON.search(spoken(hint))}
    assert found == set(ONLY_IN_PYTHON.strip().splitlines())


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("a larger spend=", "a larger --spend"),
        ("budget=Budget(epsilon=1.0, delta=1e-6)", "--epsilon 1 --delta 1e-6"),
        ("ledger=PATH names another place", "--ledger PATH names another place"),
        ('pass ledger="big/2024.ledger"', "pass --ledger big/2024.ledger"),
        ('pass ledger="my data/p.ledger"', "pass --ledger 'my data/p.ledger'"),
        ("read the table again with a budget=", "read the table again with --epsilon and --delta"),
        (
            "fewer bins, leave them out with select(), or raise cap_cells",
            "fewer bins, leave them out with ignore in the schema",
        ),
        (
            "keep protect=Rows(3): a promise for more rows covers fewer as well",
            "keep rows_per_person = 3 in the schema: a promise for more rows covers fewer as well",
        ),
        ('gaps="filled" or gaps="as-observed"', "--gaps filled or --gaps as-observed"),
        ('scheme="mean" or "majority", or neighbors=1', '--scheme mean or "majority", or --neighbors 1'),
        ("match on other columns, or ask with missing=Drop()", "match on other columns, or ask with --missing drop"),
        ("one of: .csv, .parquet; or a data frame", "one of: .csv, .parquet"),
        ('missing = ["", "NA"]', 'missing = ["", "NA"]'),
        ("--mcar income=0.2", "--mcar income=0.2"),
    ],
)
def test_what_an_argument_is_on_the_command_line(hint, shown):
    assert spoken(hint) == shown
