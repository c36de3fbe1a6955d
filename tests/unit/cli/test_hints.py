"""A hint names arguments: each exists, Python and the command line have their own forms, and both can be followed."""

import ast
import functools
import inspect
import re
from importlib import import_module
from pathlib import Path

import pytest
import typer

import gapless as gl
from gapless import data, evaluate, missing, privacy, query, synth, weights
from gapless.cli.app import app
from gapless.cli.hints import ARGUMENTS, CALLS, OPTIONS, TREATMENTS, to_cli_hint
from gapless.data import neighbors, sums, training
from gapless.errors import Argument, Call, Hint, Variable
from gapless.model.marginal import Measurement
from gapless.privacy.budget import unit_call
from gapless.privacy.smooth import SmoothCauchy
from gapless.synth.fitted import FittedModel
from helpers.package_sources import sources

QUESTIONS = (  # as questions are written
    *("count", "sum", "mean", "proportion", "variance", "median", "quantile", "ols", "rows_per_person"),
)
KEYS = (
    "may_be_missing",
    "rows_per_person",
    "per_person",
    "expected_rows",
    "header_row",
    "escape_formulas",
)  # of a schema file
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
    rf"|\b(?:{'|'.join(name for name in CLASSES if name != 'MCAR')}|True|False|None)\b"
)
VERBS = [
    "add",
    "ask",
    "choose",
    "coarsen",
    "compare",
    "declare",
    "delete",
    "fit",
    "keep",
    "leave",
    "match",
    "measure",
    "name",
    "pass",
    "raise",
    "read",
    "release",
    "remove",
    "rename",
    "restore",
    "run",
    "take",
    "use",
    "write",
]
NOTES = ("inference.pooling", "inference.support")  # what they say of results is written as hints are

# Where the names that hints use are: what users import, and what only the library itself passes to each other.
MODULES = (gl, data, evaluate, missing, privacy, query, synth, weights, neighbors, sums, training)
INSTANCES = {"table": gl.PrivateTable, "people": gl.PrivateTable, "ledger": gl.Ledger, "model": FittedModel}
INTERNAL = (Measurement, SmoothCauchy, privacy.PrivateTraining, privacy.TeacherVotes, training.training_rows)

# Hints for slips that only Python allows: the command line checks, makes or leaves out what they are about.
ONLY_IN_PYTHON = """
data.checks: read the data with gapless.read(data, schema, protect=Rows(1), budget=Budget(epsilon=1.0, delta=1e-6))
data.checks: use gapless.Table.read(data, schema), if the rows are public or synthetic
data.filling: pass gapless.load("people.model"), or pass the result of MST().fit(people, spend="50%")
data.io.reading: pass Schema.read("people.toml")
data.private_table: ask gapless.Mean("income"), or read text with gapless.parse_question("mean(income)")
data.private_table: ask gapless.Mean("income"), or several questions
data.private_table: pass a schema from Schema.read("people.toml")
data.private_table: pass columns without gaps as given=
data.private_table: pass lowest="?" and highest="?"
data.sums: use plain_sum(…), which fills nothing
data.training: pass a program for these columns; each kind of gap is a further code, except in needs=
data.workload: use people.marginal(…) to count the rows that break it
evaluate.comparison: pass schema=Schema.read("people.toml")
evaluate.private_comparison: pass pairs=[("age", "sex")]
evaluate.private_comparison: use compare(truth, other), if the truth is public
evaluate.tasks: pass labels=["?"]
evaluate.tasks: pass labels=["?", "?"]
inference.pooling: pass gapless.parse_question("?")
inference.pooling: pass model.copies(20)
missing.diagnosis: use gapless.missing.patterns(table), which is free
missing.imputers: use ImputeFirst(gapless.missing.FromMean())
missing.imputers: use ImputeFirst(gapless.missing.FromModel(model))
missing.imputers: use gapless.missing.FromModel(MST()), or use gapless.missing.FromModel(AIM())
missing.imputers: use gapless.missing.FromModel(MST()), or use gapless.missing.FromModel(gapless.load("people.model"))
missing.little: use gapless.missing.describe_gaps(people, spend="5%"), which has a check for it
model.marginal: pass finite counts, and noise_std= of 0 or more
privacy.assumptions: pass columns="independent", or pass columns="dependent"
privacy.assumptions: pass failure=0.0 for public rates, or use gapless.missing.gap_rates(table), which estimates rates
privacy.budget: use losses from one ledger, such as people.ledger.share("10%")
privacy.budget: use people.ledger.share("10%"), which is a Loss
privacy.budget: pass Persons(id="patient_id", at_most=3)
privacy.budget: pass Rows(1), or the largest number of rows that one person has
privacy.sgd: pass numbers="?"
privacy.smooth: pass exponent=2.25
privacy.teachers: pass teachers="?" and the shape of the program's answers
privacy.ledger_file: leave out ground_truth=
query.ask: pass Schema.read("people.toml")
query.ask: pass a list, such as [Count(), Mean("income")]
query.hot_deck: pass columns=["income"]
query.questions: pass the lower and the upper bound, such as bounds=(0, 100)
query.questions: leave all_rows= out
query.questions: pass by="sex", or leave by= out
query.row_classes: ask gapless.query.RowsPerPerson(20) first, and pass its answer
schema.schema: use Schema.with_columns(…) of the table's schema; change only bins, or edges at borders of cells
synth.fitted: read the table with gapless.Table.read(data, model.schema)
synth.marginal.aim: pass workload={("age", "sex"): 1.0}
weights.calibration: use gapless.weights.LogReg().fit(truth, fake), if both are public
weights.discriminators: pass noise="knorm"
weights.discriminators: fit one with gapless.synth.DPGAN().fit(people, spend="50%")
weights.weighted_learners: pass positive="?" for a logistic regression of this cell
"""


NAMES = {"Hint": Hint, "Argument": Argument, "Call": Call, "Variable": Variable}


class Fixed(ast.NodeTransformer):
    """An expression with everything that is known only when it runs put as ?."""

    def __init__(self, module):
        self.module = module

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id in NAMES:
            return ast.Call(node.func, [self.visit(part) for part in node.args], [])
        return ast.Constant("?")

    def visit_Name(self, node):
        known = isinstance(getattr(self.module, node.id, None), Argument | Call | Hint | Variable)
        return node if known else ast.Constant("?")

    def visit_JoinedStr(self, node):
        return ast.Constant("".join(part.value if isinstance(part, ast.Constant) else "?" for part in node.values))

    def visit_IfExp(self, node):
        return self.visit(node.body)

    def generic_visit(self, node):
        known = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.BinOp, ast.BitOr, ast.Load)
        return super().generic_visit(node) if isinstance(node, known) else ast.Constant("?")


def is_made(node):
    """Whether it is a `Hint(…)`, or alternatives of which one is."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return is_made(node.left) or is_made(node.right)
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Hint"


def evaluated(node, module):
    """A hint, argument or call, from the expression in a module."""
    fixed = ast.fix_missing_locations(ast.Expression(Fixed(module).visit(node)))
    return eval(compile(fixed, "hint", "eval"), vars(module) | NAMES)  # noqa: S307 our own source


def made_in(node, module):
    """All hints that name arguments below a node, each with all its alternatives."""
    if is_made(node):
        yield evaluated(node, module)
        return
    for child in ast.iter_child_nodes(node):
        yield from made_in(child, module)


def texts(node):
    """The plain texts that an expression can be, with ? for what is put in."""
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(part.value if isinstance(part, ast.Constant) else "?" for part in parts)
        case ast.IfExp(body=first, orelse=second):
            yield from (*texts(first), *texts(second))


def module_of(name):
    return import_module(f"gapless.{name}" if name else "gapless")


TREES = {name: ast.parse(source) for name, source in sources() if name not in ("errors", "cli.hints", "__main__")}
HINTS = [(name, hint) for name, tree in TREES.items() for hint in made_in(tree, module_of(name))]


def plain_hints():
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            match node:
                case ast.Assign(targets=[ast.Name(id="hint")], value=value):
                    yield from ((name, text) for text in texts(value))
                case ast.keyword(arg="hint" | "private" | "public", value=value):  # the latter two are passed on as one
                    yield from ((name, text) for text in texts(value))


def named(kind):
    """All arguments, or calls, that hints name, wherever they are made."""
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == kind.__name__:
                yield evaluated(node, module_of(name))


def found(name):
    """What a call in a hint calls."""
    first, *rest = name.replace("()", "").split(".")
    if first == "gapless":
        return functools.reduce(getattr, rest, gl)
    if rest[:1] == ["ledger"]:
        return getattr(gl.Ledger, rest[1])
    owner = INSTANCES.get(first) or next(getattr(module, first) for module in MODULES if hasattr(module, first))
    return getattr(owner, rest[0]) if rest else owner


def parameters():
    """The names of all arguments that there are."""
    public = [
        getattr(module, name) for module in (gl, weights, query, synth, evaluate, missing) for name in module.__all__
    ]
    classes = [kind for kind in public if inspect.isclass(kind) and not issubclass(kind, Exception)]
    functions = [function for kind in classes for _, function in inspect.getmembers(kind, inspect.isfunction)]
    for callable_object in (*classes, *functions, *filter(inspect.isfunction, public), *INTERNAL):
        yield from inspect.signature(callable_object).parameters


def commands(command):
    for child in getattr(command, "commands", {}).values():
        yield child
        yield from commands(child)


FLAGS = {
    flag
    for command in commands(typer.main.get_command(app))
    for option in command.params
    for flag in option.opts
    if flag.startswith("--")
}


def has_option(hint):
    """Whether the command line has a separate form for one of the alternatives."""
    return any(
        to_cli_hint(Hint(*parts)) != str(Hint(*parts)) or not PYTHON.search(Hint(*parts)) for parts in hint.alternatives
    )


def test_there_are_hints_to_check():
    assert len(HINTS) > 80
    assert len(list(plain_hints())) > 300


def test_every_argument_that_a_hint_names_is_one():
    known = set(parameters())
    assert sorted({argument.name for argument in named(Argument)} - known - {"?"}) == []


def test_every_call_that_a_hint_recommends_can_be_made():
    for call in named(Call):
        if call.name != "?":
            given = inspect.signature(found(call.name)).parameters
            keywords = {part.name for part in call.arguments if isinstance(part, Argument)}
            assert keywords <= set(given), call


def test_every_hint_has_a_command_line_form_or_is_for_python_only():
    known = [(module, hint) for module, hint in HINTS if "?(" not in hint]  # else the tests of errors have it
    silent = {f"{module}: {hint}" for module, hint in known if not has_option(hint)}
    assert silent == set(ONLY_IN_PYTHON.strip().splitlines())
    for _, hint in known:
        assert not has_option(hint) or not PYTHON.search(to_cli_hint(hint)), hint


def test_a_plain_hint_has_no_python_and_no_options():
    assert sorted(f"{module}: {text}" for module, text in plain_hints() if PYTHON.search(text)) == []


def test_a_hint_begins_with_what_to_do():
    firsts = {parts[0].split()[0] for module, hint in HINTS if module not in NOTES for parts in hint.alternatives}
    assert sorted(firsts - set(VERBS)) == []


def test_every_option_that_a_hint_names_is_one():
    printed = {flag for _, hint in HINTS for flag in re.findall(r"--[a-z-]+", to_cli_hint(hint))}
    assert printed
    assert sorted(printed - FLAGS) == []
    assert sorted({f"--{name}" for name in OPTIONS} - FLAGS) == []


def test_the_tables_of_the_command_line_are_about_arguments_and_calls_that_there_are():
    assert sorted((OPTIONS | set(ARGUMENTS)) - set(parameters())) == []
    assert all(map(found, CALLS))
    assert set(TREATMENTS.values()) <= {*synth.TREATMENTS, "drop", "knn", "hot-deck"}
    for written, word in TREATMENTS.items():
        if word in synth.TREATMENTS:
            assert type(synth.TREATMENTS[word]()).__name__ == written.partition("(")[0]


@pytest.mark.parametrize(
    ("hint", "python", "command_line"),
    [
        (Hint("pass a larger ", Argument("spend")), "pass a larger spend=", "pass a larger --spend"),
        (
            Hint("pass ", Argument("budget", Call("Budget", Argument("epsilon", 1.0), Argument("delta", 1e-6)))),
            "pass budget=Budget(epsilon=1.0, delta=1e-6)",
            "pass --epsilon 1 --delta 1e-6",
        ),
        (Hint("leave ", Argument("budget"), " out"), "leave budget= out", "leave --epsilon and --delta out"),
        (
            Hint("pass ", Argument("ledger", Path("my data/p.ledger"))),
            'pass ledger="my data/p.ledger"',
            "pass --ledger 'my data/p.ledger'",
        ),
        (
            Hint("use fewer bins")
            | Hint("leave columns out with ", Call("people.select", ...))
            | Hint("raise ", Argument("cap_cells")),
            "use fewer bins, leave columns out with people.select(…), or raise cap_cells=",
            "use fewer bins, or leave columns out with ignore in the schema",
        ),
        (
            Hint("keep ", Argument("protect", Call("Rows", 3))),
            "keep protect=Rows(3)",
            "keep rows_per_person = 3 in the schema",
        ),
        (
            Hint("keep ", Argument("protect", unit_call(gl.Persons("name", 3)))),
            'keep protect=Persons(id="name", at_most=3)',
            'keep person = "name" and rows_per_person = 3 in the schema',
        ),
        (
            Hint("keep ", Argument("protect", unit_call(gl.Persons(["house", "number"], 1)))),
            'keep protect=Persons(id=["house", "number"], at_most=1)',
            'keep person = ["house", "number"] and rows_per_person = 1 in the schema',
        ),
        (
            Hint("pass ", Argument("gaps", "filled")) | Hint("pass ", Argument("gaps", "as-observed")),
            'pass gaps="filled", or pass gaps="as-observed"',
            "pass --gaps filled, or pass --gaps as-observed",
        ),
        (
            Hint("match on ", Argument("on", ["age", "sex"]), " with ", Argument("neighbors", 1)),
            'match on on=["age", "sex"] with neighbors=1',
            "match on --on age,sex with --neighbors 1",
        ),
        (
            Hint("use ", Call("AIM", Argument("always", [("age", "income"), ("a b", "sex")]))),
            'use AIM(always=[("age", "income"), ("a b", "sex")])',
            "use --method aim --always age+income --always 'a b+sex'",
        ),
        (
            Hint("pass ", Argument("query", "select age from people")),
            'pass query="select age from people"',
            "pass --query 'select age from people'",
        ),
        (
            Hint("assume ", Call("gapless.privacy.MissingAtLeast", {"income": 0.2, "age": 0.1})),
            'assume gapless.privacy.MissingAtLeast({"income": 0.2, "age": 0.1})',
            "assume --missing-at-least income=0.2 --missing-at-least age=0.1",
        ),
        (
            Hint("fill with ", Argument("missing", Call("ImputeFirst", Call("FromModel", ...)))),
            "fill with missing=ImputeFirst(FromModel(…))",
            "fill with missing=ImputeFirst(FromModel(…))",  # there is no option for it
        ),
        (
            Hint("rename ", "{0} %s '\x1b", " or pass ", Argument("labels", ['"\n'])),
            'rename {0} %s \'\x1b or pass labels=["\\"\\n"]'.replace('\\"', '\\"'),
            None,
        ),
        ('missing = ["", "NA"]', 'missing = ["", "NA"]', 'missing = ["", "NA"]'),
    ],
)
def test_the_two_forms_of_a_hint(hint, python, command_line):
    assert str(hint) == python
    assert to_cli_hint(hint) == (command_line or python)
    assert gl.GaplessError("it is wrong", hint=hint).hint == python


def test_an_argument_whose_name_varies_has_both_forms_too():
    with pytest.raises(gl.errors.QuestionError) as caught:
        gl.Knn(on="age")
    assert caught.value.hint == 'pass on=["age"]'
    assert to_cli_hint(caught.value.hint) == "pass --on age"
    with pytest.raises(gl.errors.SchemaError) as caught:
        gl.privacy.MissingAtLeast({"income": 2})
    assert to_cli_hint(caught.value.hint).endswith(": --missing-at-least income=0.2")
