"""Copies kept in a file beside the model of a release, so that only the first questions wait for them.

The file holds plain arrays, and a key of everything that determines them: the model file, the number of copies, the
seed, and the version of gapless. A file with another key, or one that is damaged, is ignored and written again. It is
no part of the release: `gapless verify` does not look into it, and it may be deleted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gapless import __version__
from gapless.data import Table
from gapless.errors import GaplessError, ReadError
from gapless.model import archive
from gapless.publish.folder import KEPT_COPIES, MANIFEST, digest_of
from gapless.schema.numeric import BinnedColumn
from gapless.synth.copies import Copies, Drawn

KIND = "copies"
VERSION = 1  # of the file, and of how copies are drawn


@contextmanager
def kept_copies(copies: Copies, release: str | Path) -> Iterator[Copies]:
    """Yield these copies with what a file in the release folder has of them; write what is drawn in the block.

    Args:
        copies: of the model of this release.
        release: the folder. Beside a model file, or where nothing can be written, nothing is kept.
    """
    folder = Path(release)
    if not (folder / MANIFEST).is_file():  # the folder of an unfinished release holds no other file
        yield copies
        return
    path, key = folder / KEPT_COPIES, _key(copies, folder / archive.MODEL)
    with suppress(GaplessError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        copies.parts.update(_read(path, key, copies))
    known = set(copies.parts)
    yield copies
    if set(copies.parts) != known:
        with suppress(ReadError):
            _write(path, key, copies)


def _key(copies: Copies, model: Path) -> str:
    """A hash of everything that determines the copies of a model file."""
    digest = hashlib.sha256(f"{VERSION} {__version__} {copies.many} {copies.seed} {digest_of(model)}".encode())
    return digest.hexdigest()


def _write(path: Path, key: str, copies: Copies) -> None:
    seeds = {name: [table.seed for table, _ in drawn] for name, drawn in copies.parts.items()}
    arrays = {
        f"{name}/{what}": array for name, drawn in copies.parts.items() for what, array in _to_arrays(drawn).items()
    }
    archive.save(path, {"key": key, "seeds": seeds}, arrays, kind=KIND, level=1)


def _read(path: Path, key: str, copies: Copies) -> dict[str, tuple[Drawn, ...]]:
    """Return all parts.

    Raises:
        GaplessError: There is no such file, or it is damaged.
        ValueError: It is of other copies, or its arrays do not fit together.
    """
    head, arrays = archive.load(path, kind=KIND)
    if head["key"] != key:
        raise ValueError("of other copies")
    return {
        name: tuple(_from_arrays({what: arrays[f"{name}/{what}"] for what in _names(name, arrays)}, seeds, copies))
        for name, seeds in head["seeds"].items()
    }


def _names(part: str, arrays: Mapping[str, NDArray[Any]]) -> list[str]:
    return [name.removeprefix(f"{part}/") for name in arrays if name.startswith(f"{part}/")]


def _to_arrays(drawn: Sequence[Drawn]) -> dict[str, NDArray[Any]]:
    """Arrays with the rows of all tables: the codes of each column, and its numbers where they are not drawn later."""
    tables = [table for table, _ in drawn]
    arrays: dict[str, NDArray[Any]] = {
        "rows": np.array([table.rows for table in tables]),
        "released": np.stack([measurements.numbers for _, measurements in drawn]),
    }
    for place in range(len(tables[0].codes)):
        arrays[f"codes.{place}"] = np.concatenate([table.codes[place] for table in tables])
        known = [values for table in tables if (values := table.known_values[place]) is not None]
        if known:
            numbers = np.concatenate(known)
            arrays[f"values.{place}"] = np.where(np.isnan(numbers), -np.inf, numbers)  # a file holds no NaN
    return arrays


def _from_arrays(arrays: Mapping[str, NDArray[Any]], seeds: Sequence[int], copies: Copies) -> Iterator[Drawn]:
    """The tables in these arrays, which may not be of this schema."""
    schema, total = copies.model.schema, int(arrays["rows"].sum())
    codes = [arrays[f"codes.{place}"] for place in range(len(schema.columns))]
    values = [arrays.get(f"values.{place}") for place in range(len(schema.columns))]
    for column, cells, numbers in zip(schema.columns, codes, values, strict=True):
        _require(cells.dtype.kind == "u" and cells.shape == (total,) and bool((cells < column.size).all()))
        if numbers is None:
            continue
        if not isinstance(column, BinnedColumn) or numbers.dtype != np.float64 or numbers.shape != (total,):
            raise ValueError("numbers do not fit their column")
        drawn_later = np.isinf(numbers)
        _require(bool(column.contains(numbers[~drawn_later]).all()))
        numbers[drawn_later] = np.nan
    _require(len(seeds) == len(arrays["rows"]) == len(arrays["released"]) and bool((arrays["rows"] >= 0).all()))
    ends = np.cumsum(arrays["rows"]).tolist()
    for seed, first, last, released in zip(seeds, [0, *ends], ends, arrays["released"], strict=False):
        _require(type(seed) is int and seed >= 0)
        part = [None if numbers is None else numbers[first:last] for numbers in values]
        table = Table(schema, [cells[first:last] for cells in codes], rows=last - first, seed=seed, values=part)
        yield Drawn(table, copies.measurements.with_numbers(released))


def _require(fits: bool) -> None:  # noqa: FBT001 an assertion
    if not fits:
        raise ValueError("arrays do not fit together")
