"""Model files: a zip of JSON and plain numpy arrays. Nothing in it can run when it is opened."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless.errors import ModelError
from gapless.files import replace

VERSION = 1
_FILE = "the path of a .model file: the one that was fitted, or synthetic.model in a release folder"


def save(path: Path, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a model file; the old one stays until the new one is whole. The same model gives the same bytes."""
    with replace(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        head = {"gapless": "model", "version": VERSION} | dict(facts)
        archive.writestr(zipfile.ZipInfo("model.json"), json.dumps(head, ensure_ascii=False, indent=1))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)


def load(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The facts and arrays of a model file."""
    try:
        with zipfile.ZipFile(path) as archive:
            facts = json.loads(archive.read("model.json"))
            if facts["gapless"] != "model":
                raise ValueError  # noqa: TRY301 one message for every foreign file
            arrays = {
                name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except FileNotFoundError:
        raise ModelError(f"no model {path}", hint="gapless fit … -o people.model makes one") from None
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError):
        raise ModelError(f"{path} is not a gapless model, or is damaged", hint=_FILE) from None
    if facts["version"] != VERSION:
        raise ModelError(f"{path} is of version {facts['version']}", hint="a newer gapless")
    return facts, arrays
