"""Rows of persons: with and without all rows of one person the kept rows differ by at most `at_most` rows.

Persons have no row, one or many, some of them equal; ids have one part or two, some of them missing. Which rows are
kept is computed again from its definition. Planted errors are found: an occurrence number that counts the rows of other
persons, a number of kept rows that is larger, rows without an id as one person.
"""

import hashlib
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from unittest import mock

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import gapless as gl
from gapless.data.engines.disk import Files
from gapless.data.io import persons
from gapless.data.io.persons import RowLimit
from gapless.data.io.reading import open_engine
from helpers.databases import query_of
from helpers.examples import examples, repetitions

KEY = bytes(range(32))
COLUMNS = [
    gl.Categorical("word", ["a", "b"], may_be_missing=True),
    gl.Integer("age", bounds=(0, 99), bins=2, may_be_missing=True),
]
SINGLE = gl.Schema("visits", COLUMNS, person="name")
DOUBLE = gl.Schema("visits", COLUMNS, person=["name", "number"])

names = st.sampled_from(["1", " 1", "01", "1.0", "ä b", "-", "", " ", None])
numbers = st.sampled_from([1, -2, 30, None])
cells = st.tuples(st.sampled_from(["a", "b", None]), st.sampled_from([5, 6, None]))
# Few persons with several rows each; some rows several times.
rows_of = st.lists(st.tuples(names, numbers, cells, st.integers(1, 3)), max_size=10)


def frame_of(rows):
    """A frame of rows: name, number, cells and how often the row is there."""
    several = [(name, number, *content) for name, number, content, times in rows for _ in range(times)]
    types = {"name": pl.String, "number": pl.Int64, "word": pl.String, "age": pl.Int64}
    return pl.DataFrame(several, schema=types, orient="row")


def person_of(row, schema):
    """The person of a row by its definition: the texts of the id, None without an id."""
    parts = [None if cell is None else str(cell).strip() or None for cell in row[: len(schema.person)]]
    return None if parts == [None] * len(parts) else tuple(parts)


def without(frame, schema, person):
    """The rows of all other persons."""
    return frame.filter([person_of(row, schema) != person for row in frame.iter_rows()])


def codes_of(row):
    """The codes of a row at the finest resolution."""
    word, age = row[2:]
    return (2 if word is None else "ab".index(word), 100 if age is None else age)


def expected(frame, schema, limit):
    """The kept rows, computed from their definition."""
    found, of_person = Counter(), defaultdict(Counter)
    for row in frame.iter_rows():
        person = person_of(row, schema)
        (found if person is None else of_person[person])[codes_of(row)] += 1
    for person, rows in of_person.items():
        encoded = "".join("-" if part is None else f"{len(part.encode())}:{part}" for part in person)
        ranked = []
        for codes, times in rows.items():
            content = ",".join(map(str, codes))
            for occurrence in range(1, times + 1):
                inner = hashlib.sha256(limit.key + f"{encoded}{content};{occurrence}".encode()).digest()
                ranked.append((hashlib.sha256(limit.key + inner).digest(), content, codes))
        found.update(codes for _, _, codes in sorted(ranked)[: limit.at_most])
    return found


def rows_in(engine):
    """The rows of an engine, as a multiset of codes."""
    return Counter(row for batch in engine.batches((0, 1)) for row in zip(*batch.columns, strict=True))


def opened(frame, schema, at_most, *, how="memory", key=KEY, url=None):
    """The engine with the kept rows of a frame, from this kind of file or from the database."""
    frame = frame.select(*schema.person, *schema.names)
    limit = RowLimit(schema.person, at_most, key)
    engine, _, kind = how.partition(" ")
    data, query = (frame, None) if url is None else (url, query_of(frame))
    if kind:
        data = Path(tempfile.mkdtemp()) / f"visits.{kind}"
        if kind == "csv":
            frame.write_csv(data)
        else:
            frame.write_parquet(data, row_group_size=4)
    return open_engine(data, schema, engine=engine, query=query, encoding=None, limit=limit)


def read(*given, **how):
    """The kept rows."""
    return rows_in(opened(*given, **how))


def distance(frame, schema, person, at_most, **how):
    """By how many rows the kept rows differ with and without a person."""
    with_person, other = (read(rows, schema, at_most, **how) for rows in (frame, without(frame, schema, person)))
    return (with_person - other).total() + (other - with_person).total()


many = st.integers(1, 4)
schemas = st.sampled_from([SINGLE, DOUBLE])


@examples(60)
@given(rows=rows_of, schema=schemas, at_most=many, pick=st.integers(0, 99))
@example(rows=[("1", 1, ("a", 5), 3), (" 1", 1, ("a", 5), 3), ("01", 1, ("a", 5), 2)], schema=SINGLE, at_most=2, pick=0)
def test_a_person_changes_at_most_so_many_kept_rows(rows, schema, at_most, pick):
    frame = frame_of(rows)
    present = sorted({person_of(row, schema) for row in frame.iter_rows()} - {None}, key=repr)
    if present:
        person = present[pick % len(present)]
        assert distance(frame, schema, person, at_most) <= at_most


def test_persons_with_one_id_have_twice_the_distance():
    """Rows of others take the place of theirs."""
    shared = CROWD.filter(pl.col("name") == "1")
    others = shared.filter(pl.col("word") == "a")
    found = []
    for number in range(20):
        together, alone = (read(rows, SINGLE, 2, key=bytes([number]) * 32) for rows in (shared, others))
        found.append((together - alone).total() + (alone - together).total())
    assert max(found) == 2 * 2


@examples(40)
@given(rows=rows_of, schema=schemas, at_most=many, place=st.integers(0, 99))
def test_a_row_without_an_id_is_a_person_by_itself(rows, schema, at_most, place):
    frame = frame_of([*rows, (None, None, ("a", 5), 3), (" ", None, (None, None), 1)]).with_row_index("row")
    alone = frame.filter([person_of(row[1:], schema) is None for row in frame.iter_rows()])["row"]
    before = read(frame, schema, at_most)
    after = read(frame.filter(pl.col("row") != alone[place % len(alone)]), schema, at_most)
    assert (before - after).total() == 1
    assert not after - before


HOW = ("memory", "memory csv", "memory parquet", "disk csv", "disk parquet", "duckdb parquet")


@pytest.mark.parametrize("how", HOW)
@examples(12)
@given(rows=rows_of, schema=schemas, at_most=many, order=st.randoms(use_true_random=False))
def test_every_engine_keeps_the_rows_of_the_definition(how, rows, schema, at_most, order):
    """In any order of the rows, and in groups of any size."""
    frame = frame_of(rows)
    places = list(range(frame.height))
    order.shuffle(places)
    size = order.choice([1, 100, 1 << 20])
    with mock.patch.object(persons, "GROUP_BYTES", size), mock.patch.object(persons, "SLICE_BYTES", size):
        kept = read(frame[places], schema, at_most, how=how)
    assert kept == expected(frame, schema, RowLimit(schema.person, at_most, KEY))


@pytest.fixture(scope="module")
def examples_of_rows():
    """Random tables for the database, where each costs a query."""
    found = []

    @examples(12)
    @given(rows=rows_of, schema=schemas, at_most=many)
    def collect(rows, schema, at_most):
        found.append((rows, schema, at_most))

    collect()
    return found


def test_postgres_keeps_the_rows_of_the_definition(postgres, examples_of_rows):
    assert len(examples_of_rows) >= repetitions(12) // 2
    for rows, schema, at_most in examples_of_rows:
        frame = frame_of(rows)
        engine = opened(frame, schema, at_most, how="sql", url=postgres)
        assert rows_in(engine) == expected(frame, schema, RowLimit(schema.person, at_most, KEY))
        assert int(engine.count([()], [3, 101], [3, 101])[0]) == rows_in(engine).total()


def test_postgres_keeps_the_rows_of_files_with_a_difference_of_two_columns(postgres, tmp_path):
    """Its codes come from more steps, through which the whole id must pass."""
    start, end = (gl.Integer(name, bounds=(0, 99), may_be_missing=True) for name in ("start", "end"))
    stay = gl.Integer("stay", difference="end - start", bounds=(0, 9), may_be_missing=True)
    schema = gl.Schema("stays", [start, end, stay], person=["name", "number"])
    cells = {"name": ["1", "2", None], "number": [1, 2, 3, None], "start": [5, 6, None], "end": [7, 8, 9, 30, None]}
    frame = pl.DataFrame({name: [values[row % len(values)] for row in range(180)] for name, values in cells.items()})
    limit = RowLimit(schema.person, 2, KEY)
    frame.write_csv(tmp_path / "stays.csv")
    sources = {"memory": (frame, None), "disk": (tmp_path / "stays.csv", None), "sql": (postgres, query_of(frame))}
    found = [
        rows_in(open_engine(data, schema, engine=engine, query=query, encoding=None, limit=limit))
        for engine, (data, query) in sources.items()
    ]
    assert found[0].total() == 11 * 2 + 15
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("by_duckdb", [False, True])
def test_every_pass_returns_rows_in_the_order_of_the_file(by_duckdb, tmp_path):
    """Kept rows are known by their place."""
    rows = 200_000
    numbers_of_rows = np.arange(rows)
    frame = pl.DataFrame({"name": numbers_of_rows, "word": ["a"] * rows, "age": numbers_of_rows % 97})
    frame.write_parquet(tmp_path / "t.parquet", row_group_size=3_000)
    files = Files.at(tmp_path / "t.parquet", SINGLE, encoding=None, by_duckdb=by_duckdb)
    for columns in (["name"], ["age"], ["word", "age"]):
        assert pl.concat(files.frames(columns))[columns[-1]].to_list() == frame[columns[-1]].to_list()


def test_equal_hashes_are_ordered_by_content():
    frame = frame_of([("1", 1, ("b", 5), 2), ("1", 1, ("a", 6), 2), ("1", 1, ("a", 5), 1)])
    with mock.patch.object(persons, "keyed_hash", return_value=b"same"):
        assert read(frame, SINGLE, 2) == {(0, 5): 1, (0, 6): 1}
        assert read(frame, SINGLE, 4) == {(0, 5): 1, (0, 6): 2, (1, 5): 1}


# ------------------------------------------------------------------ planted errors

CROWD = frame_of([(name, 1, (word, age), 3) for name in ("1", "01", "ä b") for word in "ab" for age in (5, 6, None)])


def worst(frame, schema=SINGLE, at_most=2):
    """The largest distance over all persons."""
    present = {person_of(row, schema) for row in frame.iter_rows()}
    return max(distance(frame, schema, person, at_most) for person in present)


def test_the_search_finds_a_larger_number_of_kept_rows():
    assert worst(CROWD) == 2
    whole = persons._first_rows
    with mock.patch.object(
        persons, "_first_rows", lambda *given: whole(*given[:3], RowLimit(given[3].id, 2 * given[3].at_most, KEY))
    ):
        assert worst(CROWD) == 4


def test_the_search_finds_occurrences_that_count_the_rows_of_others():
    def mistaken(ids, columns, key):
        """All persons as one, in the numbers of equal rows."""
        together = hashed(["all"] * len(ids), columns, key)
        return together.with_columns(id=pl.Series(ids, dtype=pl.String))

    hashed = persons.hashed_rows
    times = {"1": 1, "01": 3, "ä b": 5}
    contents = [(word, age) for word in "ab" for age in (5, 6, None)]
    uneven = frame_of([(name, 1, content, times[name]) for name in times for content in contents])
    assert worst(uneven) == 2
    with mock.patch.object(persons, "hashed_rows", mistaken):
        assert worst(uneven) > 2


def test_the_search_finds_rows_without_an_id_as_one_person():
    frame = pl.concat([frame_of([(None, None, ("a", 5), 9)]), CROWD])
    numbers_of = persons.PersonNumbers.numbers
    with mock.patch.object(
        persons.PersonNumbers, "numbers", lambda self, frame: numbers_of(self, frame.with_columns(name=pl.lit("1")))
    ):
        assert read(frame, SINGLE, 2).total() < 9
    assert read(frame, SINGLE, 2).total() == 9 + 3 * 2


def test_another_key_keeps_other_rows_and_a_hash_without_the_key_is_noticed():
    keys = [bytes([number]) * 32 for number in range(8)]

    def different():
        return len({frozenset(read(CROWD, SINGLE, 3, key=key).items()) for key in keys})

    assert different() > 1
    with mock.patch.object(persons, "keyed_hash", lambda _key, message: hashlib.sha256(message).digest()):
        assert different() == 1


@pytest.mark.parametrize("how", ["disk csv", "disk parquet", "sql"])
def test_every_pass_counts_the_same_rows_and_filters_come_later(how, request):
    """Each pass has other columns or filters."""
    url = request.getfixturevalue("postgres") if how == "sql" else None
    engine = opened(CROWD, SINGLE, 2, how=how, url=url)
    rows, sizes = expected(CROWD, SINGLE, RowLimit(SINGLE.person, 2, KEY)), [3, 101]
    assert rows_in(engine) == rows
    for column, size in enumerate(sizes):
        counts = Counter(dict(enumerate(engine.count([(column,)], sizes, sizes)[0].tolist())))
        assert +counts == Counter(row[column] for row in rows.elements())
        for code in {row[column] for row in rows}:
            filtered = engine.keep({column: np.arange(size) == code})
            here = Counter({row: times for row, times in rows.items() if row[column] == code})
            assert rows_in(filtered) == here
            assert filtered.count([()], sizes, sizes)[0] == here.total()


def test_rows_are_kept_before_every_filter(tmp_path):
    """All filters see the same rows: those of both halves together are those that were kept."""

    def halves(read_half):
        return sum(read_half(word).total() for word in "ab")

    table = gl.read(
        CROWD.drop("number"), SINGLE, protect=gl.Persons("name", 2), budget=gl.Budget(1, 0), ledger=tmp_path / "l"
    )

    def filtered(word):
        found = table.where("word", [word])._rows._open(table.ledger._key)
        return rows_in(found)

    assert halves(filtered) == 3 * 2
    # Planted: the rows of each half are kept after the filter.
    assert halves(lambda word: read(CROWD.filter(pl.col("word") == word), SINGLE, 2)) == 2 * 3 * 2
