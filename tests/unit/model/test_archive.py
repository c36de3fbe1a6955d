"""Model files that a stranger made: they are read, or refused as damaged, and nothing in them is run or believed."""

import json
import zipfile

import numpy as np
import pytest

from gapless.errors import ModelError
from gapless.model import archive
from helpers.hostile_files import npy, works, zip_of

HEAD = {"gapless": "model", "version": archive.VERSION}
NUMBERS = npy(np.arange(6.0).reshape(2, 3))


def header(descr="'<f8'", shape="(3,)", more=""):
    """A .npy file that says this of itself, and has three numbers."""
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, {more}}}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + bytes(24)


def refused(path):
    with pytest.raises(ModelError, match="not a gapless model, or is damaged") as error:
        archive.load(path)
    assert error.value.hint


@pytest.mark.parametrize(
    "array",
    [
        np.array(1.5),
        np.array("graphical"),
        np.zeros((0, 3), dtype=np.float32),
        np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.array([-np.inf, 0.0]),
        np.array([True, False]),
        np.arange(5, dtype=">u4"),
    ],
)
def test_saved_arrays_read_back(array, tmp_path):
    archive.save(tmp_path / "m", {"total": 1.0}, {"filled/a.0": array})
    head, arrays = archive.load(tmp_path / "m")
    assert head == HEAD | {"total": 1.0}
    assert arrays["filled/a.0"].dtype == array.dtype
    assert np.array_equal(arrays["filled/a.0"], array)
    assert arrays["filled/a.0"].flags.writeable


HEADERS = {
    "of 10^12 entries": header(shape="(1000000000000,)"),
    "of a number of entries that overflows": header(shape="(4294967296, 4294967296, 3)"),
    "of fewer entries than there are": header(shape="(2,)"),
    "of objects": header(descr="'|O'"),
    "of records": header(descr="[('a', '<f8')]"),
    "of times": header(descr="'<M8[s]'"),
    "of texts without letters": header(descr="'<U0'", shape="(1000000000000,)"),
    "of texts that are very long": header(descr="'<U999999999'"),
    "of a type that there is not": header(descr="'<f7'"),
    "of a negative size": header(shape="(-1,)"),
    "nested deeply": header(shape="(" * 5000 + ")" * 5000),
    "very long": header(more="'a': " + "1" * 60_000 + ", "),
    "of a number of 5,000 digits": header(shape=f"({'9' * 5000},)"),
    "of too many axes": header(shape=f"({'1, ' * 99}3)"),
    "cut off": NUMBERS[:20],
    "of another version": b"\x93NUMPY\x09\x00" + NUMBERS[8:],
    "of a pickle": npy(np.array([{}, print], dtype=object)),
    "of what is not a number": npy(np.array([1.0, np.nan])),
    "of an infinite number": npy(np.array([np.inf])),
    "with more behind it": NUMBERS + b"0",
}


@pytest.mark.parametrize("content", HEADERS.values(), ids=HEADERS)
def test_arrays_are_as_long_as_they_say_and_made_of_numbers_or_texts(content, tmp_path):
    refused(zip_of(tmp_path / "m", [("model.json", json.dumps(HEAD)), ("filled/0.npy", content)]))


HEADS = {
    "a version without end": '{"gapless": "model", "version": Infinity}',
    "a version that is no whole number": '{"gapless": "model", "version": 3.5}',
    "a version of 5,000 digits": '{"gapless": "model", "version": ' + "9" * 5000 + "}",
    "a list": "[]",
    "deep": '{"gapless": "model", "version": 3, "facts": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "not JSON": "{",
    "of something else": '{"gapless": "ledger", "version": 3}',
}


@pytest.mark.parametrize("head", HEADS.values(), ids=HEADS)
def test_heads_that_are_none(head, tmp_path):
    refused(zip_of(tmp_path / "m", [("model.json", head), ("filled/0.npy", NUMBERS)]))


@pytest.mark.parametrize("name", ["filled/0.npy", "model.json"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_two_members_of_one_name_are_refused(name, tmp_path):
    members = [("model.json", json.dumps(HEAD)), ("filled/0.npy", NUMBERS)]
    refused(zip_of(tmp_path / "m", [*members, (name, dict(members)[name])]))


@pytest.mark.parametrize("name", ["../../a.npy", "/etc/a.npy", "filled/../a.npy", "a.txt", "a/b/c.npy", "C:\\a.npy"])
def test_names_that_are_none_of_an_array_are_refused(name, tmp_path):
    refused(zip_of(tmp_path / "m", [("model.json", json.dumps(HEAD)), (name, NUMBERS)]))


def test_all_arrays_together_are_unpacked_up_to_a_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "LARGEST", 3 * 8000 + 1000)
    arrays = {f"filled/{number}": np.zeros(1000) for number in range(4)}
    archive.save(tmp_path / "m", {}, arrays)
    refused(tmp_path / "m")
    del arrays["filled/3"]
    archive.save(tmp_path / "m", {}, arrays)
    assert len(archive.load(tmp_path / "m")[1]) == 3


def test_a_list_of_members_that_is_too_long_is_not_read(tmp_path, monkeypatch):
    archive.save(tmp_path / "m", {}, {f"filled/{number}": np.zeros(1) for number in range(2000)})
    archive.load(tmp_path / "m")
    monkeypatch.setattr(archive, "_LONGEST_LIST", 100_000)
    refused(tmp_path / "m")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_compress_are_refused(method, tmp_path):
    with zipfile.ZipFile(tmp_path / "m", "w", method) as file:
        file.writestr("model.json", json.dumps(HEAD))
    refused(tmp_path / "m")


def test_a_truncated_or_changed_file_is_refused_or_read(tmp_path):
    archive.save(tmp_path / "m", {"total": 1.0}, {"filled/0": np.arange(3.0)})
    whole = (tmp_path / "m").read_bytes()
    for place in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:place])
        refused(tmp_path / "cut")
        for flipped in (0, 255):
            (tmp_path / "cut").write_bytes(whole[:place] + bytes([flipped]) + whole[place + 1 :])
            works(lambda: archive.load(tmp_path / "cut"))
