"""Text files made to fill the memory, or to take forever: each is refused by a public limit, in bounded time."""

import gzip
import subprocess
import sys
from unittest import mock

import pytest

import gapless as gl
from gapless.data.io import encode, source

SCHEMA = gl.Schema("t", [gl.Integer("a", bounds=(0, 9)), gl.Integer("b", bounds=(0, 9), may_be_missing=True)])
TOO_LONG = r"has a row of more than 1,000 letters\n  Try: close every quote"
ENGINES = ("memory", "disk")
ROW = b"1,2\n"


def read(path, engine="memory"):
    given = {"protect": gl.Rows(1), "budget": gl.Budget(1.0, 1e-6), "ledger": path.parent / "t.ledger"}
    return gl.read(path, SCHEMA, engine=engine, **given)


# ---------------------------------------------------------------------- gzip


@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_is_packed_too_tightly_is_refused(engine, tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n" + ROW * 30_000))
    read(path, engine)
    with mock.patch.multiple(source, UNPACKED=100_000, PART=1000):
        with pytest.raises(
            gl.errors.ReadError, match=r"more than 100,000 bytes and .* 100 times its size\n  Try: unpack it"
        ):
            read(path, engine)
        with mock.patch.object(source, "TIGHTEST", 1000):  # a large table that is packed as tables are
            read(path, engine)
        plain = tmp_path / "t.csv"
        plain.write_bytes(b"a,b\n" + ROW * 30_000)
        read(plain, engine)


def test_bytes_behind_one_that_cannot_be_decoded_are_limited_as_well(tmp_path):
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a,b\n\xff" + ROW * 30_000))
    with (
        mock.patch.multiple(source, UNPACKED=100_000, PART=1000),
        pytest.raises(gl.errors.ReadError, match="more than 100,000 bytes"),
    ):
        read(path)


# ---------------------------------------------------------------------- rows

ENDLESS = {
    "a quote that is not closed": b'a,b\n1,"' + ROW * 1000,
    "quotes in a quote": b'a,b\n1,"' + b'""\n' * 1000,
    "one line": b"a,b\n1," + b"2" * 3000,
    "a header": b"a,b" * 1000,
    "spaces before a header": b" " * 3000 + b"a,b\n1,2\n",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ENDLESS)
def test_a_row_that_does_not_end_is_refused(name, engine, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(ENDLESS[name])
    with mock.patch.multiple(source, PART=100, LONGEST_ROW=1000), pytest.raises(gl.errors.ReadError, match=TOO_LONG):
        read(path, engine)


def test_a_row_that_is_as_long_as_allowed_is_read_and_lines_without_cells_are_no_row(tmp_path):
    path = tmp_path / "t.csv"
    long = b'1,"' + b" " * 700 + b'2"\n'
    path.write_bytes(b"\n" * 3000 + b"a,b\n" + ROW + b"\n" * 3000 + long + b"\r\n" * 3000 + ROW + b"\n\n")
    with mock.patch.multiple(source, PART=100, LONGEST_ROW=1000):
        assert gl.Table.read(path, SCHEMA).rows == 3


# Run with less memory than the old code asked for.
READ = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
import gapless as gl
try:
    gl.Table.read(sys.argv[1], gl.Schema("t", [gl.Integer("a", bounds=(0, 9))]))
except gl.GaplessError as error:
    print(error)
"""


@pytest.mark.slow
def test_half_a_gigabyte_in_one_cell_is_refused_in_little_memory(tmp_path):
    path = tmp_path / "t.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b'a\n"')
        for _ in range(600):
            file.write(b"x" * (1 << 20))
    run = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, text=True, check=False, timeout=300)
    assert "has a row of more than 33,554,432 letters\n  Try: close" in run.stdout, run.stderr


# ---------------------------------------------------------------------- columns


class Name(str):
    """A name that counts how often it is compared with another."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other):
        Name.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


def test_a_header_is_checked_in_linear_time(tmp_path):
    """32,000 columns took 75 seconds, since each name was compared with all."""
    many = 2000
    names = [Name(f"column {place}") for place in range(many)]
    schema = gl.Schema("t", [gl.Integer("column 0", bounds=(0, 9))], ignore=[str(name) for name in names[1:]])
    Name.compared = 0
    source._check_header(names, tmp_path / "t.csv", ",", for_holder=True)
    encode.check_names(names, schema)
    assert Name.compared < 10 * many
    names[7] = Name("column 3")
    with pytest.raises(gl.errors.ReadError, match="two columns called 'column 3'"):
        source._check_header(names, tmp_path / "t.csv", ",", for_holder=True)
