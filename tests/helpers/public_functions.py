"""All public functions and methods of the package and its subpackages."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import gapless as gl

PACKAGES = (gl.data, gl.evaluate, gl.inference, gl.missing, gl.publish, gl.query, gl.schema, gl.synth, gl.weights)
# What these are asked to spend is shown, converted or granted, and nothing is paid.
SPEND_NOTHING = {"Ledger.grant", "Ledger.share", "preview"}


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield each public name and its object."""
    found: dict[str, Any] = {}
    for package in (gl, *PACKAGES):
        found |= {name: getattr(package, name) for name in vars(package)["__all__"]}
    yield from found.items()


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield functions by name and methods as `Class.method`, without those of exceptions."""
    for name, member in public_objects():
        if inspect.isclass(member):
            if issubclass(member, Exception):
                continue
            for method_name, method in inspect.getmembers(member, inspect.isfunction):
                if not method_name.startswith("_"):
                    yield f"{name}.{method_name}", method
        elif inspect.isfunction(member):
            yield name, member
