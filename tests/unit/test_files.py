"""Text that a stranger may have written is parsed, or is a ValueError: nothing else, and in bounded time."""

import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.errors import ReadError
from gapless.files import MAX_DEPTH, parse_json, parse_toml, read_limited, read_rest
from helpers.examples import examples

JSON = {
    "deep lists": "[" * 100_000 + "]" * 100_000,
    "deep tables": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "a little too deep": "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1),
    "not a number": '{"loss": NaN}',
    "infinite": '{"version": Infinity}',
    "too large": "[1e999]",
    "5,000 digits": "9" * 5000,
    "5,000 digits after a point": "0." + "9" * 5000,
    "more than 64 bits": str(2**64),
    "cut off": '{"loss": 1',
    "bytes that are no text": b"\xff\xfe\xfd",
    "nothing": "",
}
TOML = {
    "20,000 dots": ".".join("a" * 20_000) + " = 1",
    "20,000 dots in a header": "[" + ".".join("a" * 20_000) + "]",
    "20,000 dots between quotes": " . ".join(["','"] * 20_000) + " = 1",
    "20,000 dots in an inline table": "x = {" + ".".join(['"\\""'] * 20_000) + " = 1}",
    "deep lists": "x = " + "[" * 100_000,
    "deep tables": "x = " + "{a = " * 100_000,
    "a little too deep": "x = " + "[" * MAX_DEPTH + "]" * MAX_DEPTH,
    "5,000 digits": "x = " + "9" * 5000,
    "5,000 digits of another kind": "x = 0x" + "f" * 5000,
    "half a letter": 'x = "\ud800"',
    "not TOML": "x = ",
}


@pytest.mark.parametrize("text", JSON.values(), ids=JSON)
def test_json_that_is_refused(text):
    with pytest.raises(ValueError):
        parse_json(text)


@pytest.mark.parametrize("text", TOML.values(), ids=TOML)
def test_toml_that_is_refused(text):
    with pytest.raises(ValueError):
        parse_toml(text)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e308, 1e308) | st.text(),
    lambda values: st.lists(values, max_size=4) | st.dictionaries(st.text(), values, max_size=4),
    max_leaves=20,
)


@examples(200)
@given(VALUES)
def test_plain_json_is_read_as_it_was_written(value):
    assert parse_json(json.dumps(value)) == value


@examples(300)
@given(st.text(alphabet="[]{}\"'\\.,=#ab1 \n\t-", max_size=200))
def test_no_text_does_anything_else(text):
    for parse in (parse_json, parse_toml):
        try:
            parse(text)
        except ValueError:
            continue


def test_texts_with_dots_in_them_are_no_long_keys():
    sentences = ". ".join(["One two"] * 1000)
    numbers = ", ".join(f"{number / 7}" for number in range(1000))
    found = parse_toml(f'description = "{sentences}"\nedges = [{numbers}]')
    assert found["description"] == sentences
    assert len(found["edges"]) == 1000


def test_a_file_is_read_up_to_a_limit(tmp_path):
    path = tmp_path / "a.toml"
    path.write_bytes(b"12345")
    assert read_limited(path, 5) == b"12345"
    with pytest.raises(ReadError, match="larger than") as refused:
        read_limited(path, 4)
    assert refused.value.hint


def test_memory_grows_with_what_is_there_and_not_with_the_limit():
    class Counting(io.BytesIO):
        largest = 0

        def read(self, size=-1, /):
            self.largest = max(self.largest, size)
            return super().read(size)

    file = Counting(b"12345")
    assert read_rest(file, 1 << 40) == b"12345"
    assert file.largest <= 1 << 20


def test_a_file_without_end_is_left_at_the_limit(tmp_path):
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ReadError):
        read_limited(tmp_path / "sparse", 1 << 22)
