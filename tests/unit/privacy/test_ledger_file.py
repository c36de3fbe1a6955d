"""In which order a charge reaches the disk: first the seal, then the ledger, and only then is anything read."""

import os

import pytest

from gapless.privacy import for_counts
from gapless.privacy.ledger_file import append, seal_of
from gapless.privacy.private import transform
from gapless.testing.audit import letters_schema, private


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
