"""What the package shows, what importing it costs, and what installing it pulls in."""

import ast
import inspect
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import gapless as gl
from gapless.testing.audit import letters_schema, private

PROJECT = Path(__file__).parents[2] / "pyproject.toml"

REFERENCE = PROJECT.parent / "docs" / "reference.md"


def test_the_reference_has_a_heading_for_every_name_and_for_no_other():
    """Names that are not in `gapless` itself are headed by their package: `missing.patterns`."""
    headings = re.findall(r"^### `([\w.]+)`$", REFERENCE.read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(heading for heading in headings if "." not in heading) == sorted(gl.__all__)
    for heading in headings:
        package, _, name = heading.rpartition(".")
        assert not package or hasattr(getattr(gl, package), name), heading
    assert len(headings) == len(set(headings))


@pytest.mark.parametrize("name", ["Ledger", "PrivateTable"])
def test_the_reference_lists_members_as_they_are(name, tmp_path):
    """Methods with their parameters, and attributes without brackets."""
    table = private([("a", "b")], letters_schema((2, 2)), tmp_path)
    owner = {"Ledger": table.ledger, "PrivateTable": table}[name]
    _, section = REFERENCE.read_text(encoding="utf-8").split(f"### `{name}`\n")
    section, *_ = section.split("\n### ")
    cells = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    members = [member for cell in cells for member in re.findall(r"`([^`]+)`", cell)]
    assert len(members) > 10
    for member in members:
        attribute, brackets, listed = member.partition("(")
        assert callable(getattr(owner, attribute)) == bool(brackets), member
        if brackets:
            call = ast.parse(f"def call({listed}: pass", mode="exec").body[0].args
            parameters = inspect.signature(getattr(owner, attribute)).parameters.values()
            assert [argument.arg for argument in call.kwonlyargs] == [
                p.name for p in parameters if p.kind is p.KEYWORD_ONLY
            ]
            assert [argument.arg for argument in call.args] == [
                p.name for p in parameters if p.kind is not p.KEYWORD_ONLY
            ]


def test_the_stub_and_the_package_list_the_same_names():
    stub = ast.parse(Path(gl.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    listed = [(line.module, name.name, name.asname) for line in stub.body[:-1] for name in line.names]
    names = [(f"gapless.{package}", name, name) for package, names in gl._NAMES.items() for name in names.split()]
    assert sorted(listed) == sorted(names + [("gapless", package, package) for package in gl._PACKAGES])
    assert len(gl.__all__) == len(set(gl.__all__)) <= 52


@pytest.mark.parametrize("package", gl._PACKAGES)
def test_packages_are_reached_without_importing_them(package):
    used = f"import gapless as gl\nassert 'gapless.{package}' not in sys.modules\ngl.{package}"
    assert package in dir(gl)
    subprocess.run([sys.executable, "-c", f"import sys\n{used}"], check=True)


@pytest.mark.parametrize("name", gl.__all__)
def test_every_name_imports_and_is_listed(name):
    assert getattr(gl, name).__name__ == name
    assert name in dir(gl)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'gapless' has no attribute 'Nothing'"):
        gl.Nothing  # noqa: B018 looking is enough


def modules_after(code):
    out = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys, json; print(json.dumps(sorted(sys.modules)))"],
        check=True,
        capture_output=True,
        text=True,
    )
    return {name.partition(".")[0] for name in json.loads(out.stdout)}


HEAVY = {"numpy", "scipy", "polars", "opendp", "pandas", "pyarrow", "dp_accounting", "narwhals", "typer"}


def test_importing_gapless_is_light():
    assert modules_after("import gapless").isdisjoint(HEAVY)


def test_the_commands_are_light_until_one_runs():
    assert modules_after("import gapless.cli.app").isdisjoint(HEAVY - {"typer"})


def test_the_building_blocks_of_drawings_know_no_other_package():
    code = "import gapless.draw.charts, gapless.draw.charts, gapless.draw.page, gapless.draw.ring"
    assert modules_after(code).isdisjoint(HEAVY)
    listed = f"{code}\nimport sys; print(*(name for name in sys.modules if name.startswith('gapless.')))"
    entered = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True, text=True).stdout.split()
    assert {name.split(".")[1] for name in entered} == {"draw", "errors", "text"}


def test_the_core_pulls_in_no_heavy_stack():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    core = " ".join(project["dependencies"]).lower()
    for heavy in ("jax", "torch", "spark", "matplotlib", "plotly", "altair", "tensorflow", "scikit-learn", "pandas"):
        assert heavy not in core
    assert project["requires-python"] == ">=3.11"
    assert project["version"] == gl.__version__


USERS_EXTRAS = ("pandas", "learn", "excel", "stat", "sql", "bayes", "spark", "all")
MODULES = {"dp-accounting": "dp_accounting", "scikit-learn": "sklearn"}  # where they differ from the requirement's name


def test_everything_that_is_required_is_imported():
    """Nobody installs what does nothing: each requirement, of the core and of an extra, is imported in the package."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = {name: lines for name, lines in project["optional-dependencies"].items() if name in USERS_EXTRAS}
    assert set(extras) | {"docs", "bench", "dev"} == set(project["optional-dependencies"])
    most = [name for name in extras if name not in ("spark", "all")]  # spark is half a gigabyte, and needs Java
    assert extras.pop("all") == [f"gapless[{','.join(most)}]"]
    source = "\n".join(path.read_text(encoding="utf-8") for path in (PROJECT.parent / "src").rglob("*.py"))
    for line in [*project["dependencies"], *(line for lines in extras.values() for line in lines)]:
        name = re.match(r"[\w-]+", line)[0]
        assert re.search(rf"^\s*(import|from) {MODULES.get(name, name)}\b", source, re.MULTILINE), name
