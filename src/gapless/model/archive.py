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

MODEL = "synthetic.model"  # its name in a release folder
VERSION = 3
READABLE = (2, 3)  # version 2 has no released tables
_FILE = "name a .model file that gapless fit wrote, or a release folder"


def save(path: Path, head: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write a model file; the old one stays until the new one is whole. The same model gives the same bytes."""
    with replace(path) as partial, zipfile.ZipFile(partial, "w", zipfile.ZIP_DEFLATED) as archive:
        whole = {"gapless": "model", "version": VERSION} | dict(head)
        archive.writestr(zipfile.ZipInfo("model.json"), json.dumps(whole, ensure_ascii=False, indent=1))
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.save(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue(), zipfile.ZIP_DEFLATED)


def load(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The head and the arrays of a model file."""
    try:
        with zipfile.ZipFile(path) as archive:
            head = json.loads(archive.read("model.json"))
            if head["gapless"] != "model":
                raise ValueError  # noqa: TRY301 one message for every foreign file
            version = int(head["version"])
            arrays = {
                name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
    except FileNotFoundError:
        raise ModelError(f"no model {path}", hint="gapless fit … -o people.model makes one") from None
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError):
        raise ModelError(f"{path} is not a gapless model, or is damaged", hint=_FILE) from None
    if version not in READABLE:
        older = "fit it again, or use the gapless that wrote it"
        raise ModelError(
            f"{path} is a model file of version {version}, and this gapless reads {READABLE[0]} to {READABLE[-1]}",
            hint=older if version < VERSION else "a newer gapless",
        )
    return head, arrays
