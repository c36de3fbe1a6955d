"""A table read and published in one call, as most tests need it: all that is left is spent unless they say how much."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import gapless as gl
from gapless.publish import ModelFile, Release, save_model

R = TypeVar("R")
SOURCE = ("protect", "budget", "ledger", "encoding", "engine", "query")


def read_and_release(data: Any, schema: gl.Schema, folder: str | Path, **arguments: Any) -> Release:
    return _published(gl.release, data, schema, folder, arguments)


def read_and_save(data: Any, schema: gl.Schema, path: str | Path, **arguments: Any) -> ModelFile:
    return _published(save_model, data, schema, path, arguments)


def _published(
    publish: Callable[..., R], data: Any, schema: gl.Schema, path: str | Path, arguments: dict[str, Any]
) -> R:
    source = {name: arguments.pop(name) for name in SOURCE if name in arguments}
    table = gl.read(data, schema, **source)
    return publish(table, path, **{"spend": table.ledger.left} | arguments)
