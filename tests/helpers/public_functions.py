"""All public functions and methods, of the package and of its subpackages."""

import inspect

import gapless as gl

PACKAGES = (gl.data, gl.evaluate, gl.inference, gl.missing, gl.publish, gl.query, gl.schema, gl.synth, gl.weights)
# What these are asked to spend is shown, converted or granted, and nothing is paid.
SPEND_NOTHING = {"Ledger.grant", "Ledger.share", "preview"}


def public_things():
    """Each name, and what it stands for."""
    yield from ((name, getattr(gl, name)) for name in gl.__all__)
    for package in PACKAGES:
        yield from ((name, getattr(package, name)) for name in package.__all__ if name not in gl.__all__)


def public_functions():
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
