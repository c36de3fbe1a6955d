"""Rules that hold for every public function, read from the signatures and the sources."""

import ast
import inspect
import re
import tomllib
from pathlib import Path

import gapless as gl
from gapless.privacy import Private
from helpers.package_sources import package_of, sources
from helpers.public_functions import SPEND_NOTHING, public_functions, public_objects

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def test_spend_is_asked_for_exactly_where_a_private_table_comes_in():
    checked = 0
    for name, function in public_functions():
        parameters = inspect.signature(function).parameters
        hints = [str(parameter.annotation) for parameter in parameters.values()]
        takes = any("PrivateTable" in hint for hint in hints)
        if name.startswith("PrivateTable."):  # takes itself: what comes out is sealed, or paid for
            takes = "Private[" not in (gives := str(inspect.signature(function).return_annotation))
            takes = takes and gives != "PrivateTable"
        spend = parameters.get("spend")
        if "Grant" in hints or name in SPEND_NOTHING:  # a grant is a permission to spend
            continue
        if inspect.signature(function).return_annotation == "PendingRelease":  # sealed sums, which a release opens
            continue
        assert takes == (spend is not None), name
        if spend is not None:
            assert spend.kind is inspect.Parameter.KEYWORD_ONLY, name
            assert spend.default is inspect.Parameter.empty, name
            checked += 1
    assert checked >= 1


def test_only_the_data_room_transforms_sealed_values():
    for module, source in sources():
        if package_of(module) != "data" and module != "privacy.private":
            tree = ast.parse(source)
            names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names}
            imported = names & {"transform", "gather"}
            assert not imported, (module, imported)


def test_only_the_gate_opens_sealed_values():
    """And `sealing`, into a new seal."""
    openers = {module for module, source in sources() if "._open(" in source}
    assert openers == {"privacy.grant", "privacy.private"}


def test_no_sealed_object_gives_a_hold_on_another_distance():
    """What can be reached by public names from a sealed object takes no function and makes no value of one's own."""
    for kind in (gl.PrivateTable, Private):
        for name, member in inspect.getmembers(kind, inspect.isroutine):
            if not name.startswith("_"):
                hints = [str(parameter.annotation) for parameter in inspect.signature(member).parameters.values()]
                assert not re.search(r"Callable|Contribution|Key|distance", " ".join(hints)), (kind, name)
    assert {name for name in dir(Private) if not name.startswith("_")} == {"distance", "reads"}


PUBLIC_CHANCE = {
    "data.table",  # values inside bins of a public table
    "data.filling",  # chance of a row's own, from secret words
    "synth.fitted",  # samples
    "synth.loading",  # some rows of a model from a file, to see that there are any
    "synth.constraint_sampler",  # what is chosen by chance for a model's rules, always the same
    "synth.copies",  # released tables with noise once more, samples
    "inference.support",  # other cells in a copy
    "inference.pooling",  # values drawn within bins of a copy
    "missing.gap_mechanisms",  # gaps in public tables
    "missing.diagnosis",  # simulation
    "evaluate.comparison",  # cuts a public truth into two parts
    "weights.discriminators",  # samples of a public table
    "evaluate.marginals",  # compares public tables, in directions that are always the same
}


def built_from_released_values():
    """The modules that may import no table: import-linter checks it."""
    linter = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]
    (contract,) = (found for found in linter["contracts"] if found.get("forbidden_modules") == ["gapless.data"])
    return {name.removeprefix("gapless.") for name in contract["source_modules"]}


def test_noise_and_cost_are_only_in_the_privacy_package():
    """No generator in the packages that measure: numpy's is for public samples, in models and in the modules above."""
    found = set()
    models = built_from_released_values()
    for module, source in sources():
        if "default_rng" in source or re.search(r"np\.random\.(?!Generator)", source):
            found |= {module} if package_of(module) not in {"testing", "model"} and module not in models else set()
    assert found == PUBLIC_CHANCE


def test_every_public_name_has_a_docstring():
    for name, member in public_objects():
        assert not callable(member) or inspect.getdoc(member), name
    for name, function in public_functions():
        assert inspect.getdoc(function), name


def test_only_questions_say_what_a_row_adds():
    """That a sum looks at each row by itself is proved for the functions of these two packages."""
    for module, source in sources():
        found = re.search(r"\bRowContribution\(|\bContribution\b|data\.sums import", source)
        assert package_of(module) in {"data", "query"} or not found, module
