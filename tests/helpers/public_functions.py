"""All public functions and methods, of the package and of its subpackages."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import gapless as gl

PACKAGES = (gl.data, gl.evaluate, gl.inference, gl.missing, gl.publish, gl.query, gl.schema, gl.synth, gl.weights)
# What these are asked to spend is shown, converted or granted, and nothing is paid.
SPEND_NOTHING = {"Ledger.grant", "Ledger.share", "preview"}


def public_things() -> Iterator[tuple[str, Any]]:
    """Each name, and what it stands for."""
    found: dict[str, Any] = {}
    for package in (gl, *PACKAGES):
        found |= {name: getattr(package, name) for name in vars(package)["__all__"]}
    yield from found.items()


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Functions by their names, methods as `Class.method`; of exceptions none."""
    for name, thing in public_things():
        if inspect.isclass(thing):
            if issubclass(thing, Exception):
                continue
            for method_name, method in inspect.getmembers(thing, inspect.isfunction):
                if not method_name.startswith("_"):
                    yield f"{name}.{method_name}", method
        elif inspect.isfunction(thing):
            yield name, thing
