import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from gapless.errors import LedgerError
from gapless.privacy.row_key import key_of, row_key


def test_a_key_is_made_once_and_is_private(tmp_path):
    ledger = tmp_path / "people.ledger"
    key = row_key(ledger)
    assert len(key) == 32
    assert row_key(ledger) == key == key_of(ledger).read_bytes()
    assert stat.S_IMODE(key_of(ledger).stat().st_mode) == 0o600
    assert row_key(tmp_path / "others.ledger") != key


def test_a_lost_key_is_replaced_by_another(tmp_path):
    ledger = tmp_path / "people.ledger"
    before = row_key(ledger)
    key_of(ledger).unlink()
    assert row_key(ledger) != before


def test_a_crash_before_the_key_was_written_leaves_an_empty_file(tmp_path):
    ledger = tmp_path / "people.ledger"
    key_of(ledger).touch()
    key_of(ledger).chmod(0o666)  # or another program made it
    assert len(row_key(ledger)) == 32
    assert stat.S_IMODE(key_of(ledger).stat().st_mode) == 0o600


def test_processes_that_begin_together_have_one_key(tmp_path):
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(row_key, [tmp_path / "people.ledger"] * 32))) == 1


def test_a_link_has_the_key_of_its_ledger(tmp_path):
    ledger = tmp_path / "people.ledger"
    key = row_key(ledger)
    (tmp_path / "link.ledger").symlink_to(ledger)
    assert row_key(tmp_path / "link.ledger") == key
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.ledger", "people.ledger.key"]


@pytest.mark.parametrize("content", [b"short", b"x" * 33])
def test_another_file_in_its_place_is_refused_and_not_changed(content, tmp_path):
    key_of(tmp_path / "people.ledger").write_bytes(content)
    with pytest.raises(LedgerError, match="is not the key of a ledger"):
        row_key(tmp_path / "people.ledger")
    assert key_of(tmp_path / "people.ledger").read_bytes() == content


def test_a_folder_that_is_not_there_is_an_error_of_the_ledger(tmp_path):
    with pytest.raises(LedgerError, match=r"cannot read or write .*people\.ledger\.key"):
        row_key(tmp_path / "none" / "people.ledger")
