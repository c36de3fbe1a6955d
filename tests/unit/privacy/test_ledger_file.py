"""In which order a charge reaches the disk: first the seal, then the ledger, and only then is anything read."""

import json
import os

import numpy as np
import pytest

import gapless as gl
from gapless.errors import LedgerError
from gapless.privacy import for_counts, ledger_file
from gapless.privacy.ledger import Ledger
from gapless.privacy.ledger_file import append, hash_of, seal_of
from gapless.privacy.private import transform
from gapless.testing.audit import letters_schema, private
from helpers.hostile_files import changes, text_of, works


@pytest.fixture
def calls(monkeypatch):
    """What is written and flushed where, in order; writes are short, as a system may make them."""
    seen, paths = [], {}
    real_open, real_write, real_fsync = os.open, os.write, os.fsync

    def opened(path, *args, **kwargs):
        descriptor = real_open(path, *args, **kwargs)
        paths[descriptor] = os.path.realpath(path)
        return descriptor

    def written(descriptor, data):
        seen.append(("write", paths.get(descriptor)))
        return real_write(descriptor, data[:40])

    def flushed(descriptor):
        seen.append(("fsync", paths.get(descriptor)))
        real_fsync(descriptor)

    for name, function in (("open", opened), ("write", written), ("fsync", flushed)):
        monkeypatch.setattr(os, name, function)
    return seen


def in_short(calls, *names):
    """The calls that concern these files, several writes in a row as one."""
    names = {os.path.realpath(path): name for name, path in names}
    known = [(what, names[path]) for what, path in calls if path in names]
    return [call for place, call in enumerate(known) if place == 0 or call != known[place - 1]]


ORDER = [("write", "seal"), ("fsync", "seal"), ("write", "ledger"), ("fsync", "ledger")]


def test_the_seal_is_on_the_disk_before_the_ledger_is_touched(tmp_path, calls):
    path = tmp_path / "t.ledger"
    names = (("seal", seal_of(path)), ("ledger", path), ("folder", tmp_path))
    append(path, 0, "a line of the ledger that is longer than a short write\n")
    assert in_short(calls, *names) == [*ORDER, ("fsync", "folder")]  # the names of new files too
    calls.clear()
    append(path, path.stat().st_size, "another line of the ledger, also longer than a write\n")
    assert in_short(calls, *names) == ORDER
    assert len(path.read_text().splitlines()) == 2


def test_a_charge_is_on_the_disk_before_anything_is_read(tmp_path, calls):
    table = private([("a",), ("b",)], letters_schema([2]), tmp_path)
    calls.clear()
    path = table.ledger.path
    value = transform(
        table.marginal("x0"),
        lambda counts: (calls.append(("read", None)), counts)[1],
        distance=table.marginal("x0").distance,
        reads=None,
        key=table.ledger._key,
    )
    grant = table.ledger.grant(table.ledger.left, to="test")
    grant.release(value, for_counts(grant.left, value.distance), what="x0")
    place = calls.index(("read", None))
    assert in_short(calls[:place], ("seal", seal_of(path)), ("ledger", path)) == ORDER
    assert not in_short(calls[place:], ("seal", seal_of(path)), ("ledger", path))


# ------------------------------------------------------------------ hostile files


ROWS = [("a", "b"), ("b", None), ("a", "a")]
BUDGETS = (gl.Budget(1.0, 1e-6), gl.Budget(1.0, 0), gl.Budget(1.0, 0, ground_truth=gl.MCAR({"x0": 0.2})))


@pytest.fixture(params=BUDGETS, ids=["approximate", "pure", "complete table"])
def ledger(request, tmp_path):
    table = private(ROWS, letters_schema([2, 2]), tmp_path, budget=request.param)
    gl.MST().fit(table, spend=table.ledger.share("50%"))
    return table.ledger.path


def used(path):
    """Whether a ledger can be opened and summarized; else it is refused with a message."""

    def use():
        ledger = Ledger.open(path)
        json.dumps(ledger.summary())
        _ = str(ledger), ledger.guarantee(), ledger.ground_truth(gl.MCAR({"x0": 0.2}))

    return works(use)


def written(path, entries, changed, text):
    """The ledger with one line another, chained anew."""
    lines, previous = [], None
    for place, entry in enumerate(entries):
        if place == changed:
            line = text
        else:
            line = text_of(entry | ({} if previous is None or place < changed else {"previous": hash_of(previous)}))
        lines.append(f"{line}\n")
        previous = lines[-1]
    path.write_text("".join(lines))
    seal_of(path).unlink(missing_ok=True)


@pytest.mark.slow
def test_each_value_of_a_header_and_of_an_entry_is_checked(ledger):
    entries = [json.loads(line) for line in ledger.read_text().splitlines()]
    kinds = {entry.get("mechanism", {}).get("name"): place for place, entry in enumerate(entries)}
    for place in kinds.values():
        for _, text in changes(entries[place]):
            written(ledger, entries, place, text)
            used(ledger)


@pytest.mark.parametrize("version", ["Infinity", "NaN", "1e999", "9" * 5000, "[" * 100_000])
def test_versions_that_are_none(version, ledger):
    head, *others = ledger.read_text().splitlines(keepends=True)
    ledger.write_text(head.replace('"version": 4', f'"version": {version}') + "".join(others))
    seal_of(ledger).unlink()
    with pytest.raises(LedgerError, match="is not a gapless ledger"):
        Ledger.open(ledger)


@pytest.mark.parametrize(
    ("version", "hint"), [(3, "use the version of gapless that wrote it"), (5, "install a newer gapless")]
)
def test_a_ledger_of_another_version_is_refused(version, hint, ledger):
    head, *others = ledger.read_text().splitlines(keepends=True)
    ledger.write_text(head.replace('"version": 4', f'"version": {version}') + "".join(others))
    seal_of(ledger).unlink()
    with pytest.raises(LedgerError, match=rf"version {version}, and this gapless reads version 4\n  Try: {hint}"):
        Ledger.open(ledger)


@pytest.mark.parametrize("content", [b"\n" * 10**6, b"\0" * 10**6, b"[\n" * 10**6, b"\xff" * 10**6 + b"\n"])
def test_files_that_are_no_ledgers(content, ledger):
    before = ledger.read_bytes()
    for junk in (content, before + content):
        ledger.write_bytes(junk)
        seal_of(ledger).unlink(missing_ok=True)
        used(ledger)


@pytest.mark.parametrize(
    "seal",
    [
        "",
        "[" * 100_000,
        '{"at": 1e999, "text": ""}',
        '{"at": 18446744073709551615, "text": "a"}',
        '{"at": [], "text": 1}',
        '{"at": 0, "text": "\\ud800"}',
        '{"at": ' + "9" * 5000 + ', "text": ""}',
    ],
)
def test_seals_that_are_none(seal, ledger):
    seal_of(ledger).write_text(seal)
    used(ledger)


def test_a_ledger_is_read_up_to_a_limit_and_never_grows_beyond_it(ledger, monkeypatch):
    size = ledger.stat().st_size
    monkeypatch.setattr(ledger_file, "MAX_BYTES", size + 50)
    table = gl.read(
        gl.Table(letters_schema([2, 2]), [np.zeros(2, dtype=np.uint8)] * 2, rows=2).to_polars(),
        letters_schema([2, 2]),
        protect=gl.Rows(1),
        ledger=ledger,
    )
    with pytest.raises(LedgerError, match="would exceed"):
        gl.Independent().fit(table, spend=table.ledger.share("10%"))
    assert ledger.stat().st_size == size  # nothing was charged
    monkeypatch.setattr(ledger_file, "MAX_BYTES", size - 1)
    with pytest.raises(LedgerError, match="larger than"):
        Ledger.open(ledger)


@pytest.mark.parametrize("rows", [2**53 + 1, 10**400])
def test_a_unit_has_at_most_2_to_the_53_rows(rows):
    with pytest.raises(gl.errors.BudgetError, match=r"a whole number from 1 to 2\^53"):
        gl.Rows(rows)


def test_a_ledger_that_was_replaced_before_it_was_locked_is_refused(tmp_path, monkeypatch):
    """An entry that is appended to a file without a name is lost."""
    table = private([("a",), ("b",)], letters_schema([2]), tmp_path)
    path, content, real_open = table.ledger.path, table.ledger.path.read_bytes(), os.open

    def replaced(name, *args):
        descriptor = real_open(name, *args)
        path.unlink()
        path.write_bytes(content)
        return descriptor

    monkeypatch.setattr(os, "open", replaced)
    with pytest.raises(LedgerError, match="was replaced by another file"):
        table.ledger.refresh()
