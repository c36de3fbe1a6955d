"""Checks of archive files against the published schemas, which are not part of the repository."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

REGISTRY = Path(__file__).parents[3] / "shared" / "data" / "registry" / "deployments-schema.yaml"


def registry_schema() -> dict[str, Any]:
    """The schema of the OpenDP deployments registry; the test is skipped where it is not there."""
    if not REGISTRY.exists():
        pytest.skip("no schema of the deployments registry beside the repository")
    schema: dict[str, Any] = yaml.safe_load(REGISTRY.read_text(encoding="utf-8"))
    return schema


def check_registry_entry(entry: dict[str, Any]) -> None:
    """Validate an entry for the registry."""
    jsonschema.validate(entry, registry_schema(), format_checker=jsonschema.FormatChecker())


def check_data_package(package: dict[str, Any]) -> None:
    """Validate a data package and the Table Schema of its first file by the profiles of Data Package 2.0."""
    found = importlib.util.find_spec("dplib")
    if found is None or not found.submodule_search_locations:
        pytest.skip("dplib-py, which has the profiles of Data Package 2.0, is not installed")
    profiles = Path(found.submodule_search_locations[0]) / "profiles" / "2.0"
    for name, content in {"datapackage": package, "tableschema": package["resources"][0]["schema"]}.items():
        profile = json.loads((profiles / f"{name}.json").read_text(encoding="utf-8"))
        jsonschema.Draft7Validator(profile).validate(content)
