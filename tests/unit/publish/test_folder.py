"""Which folders are a release, and which are one that was begun."""

import pytest

from gapless.errors import ReadError
from gapless.publish import rows_file
from gapless.publish.folder import JOURNAL, README, is_begun, open_folder


def test_a_release_is_begun_as_soon_as_something_is_kept_in_it(tmp_path):
    assert not is_begun(tmp_path)
    (tmp_path / JOURNAL).touch()
    assert not is_begun(tmp_path)
    (tmp_path / README).write_text("This release is not finished: …")
    assert is_begun(tmp_path)
    with pytest.raises(ReadError, match="is not finished"):
        rows_file(tmp_path)


def test_an_empty_folder_is_removed_and_one_with_other_files_is_refused(tmp_path):
    folder = tmp_path / "a" / "b"
    with open_folder(folder, tmp_path / "people.ledger"):
        assert folder.is_dir()
    assert not (tmp_path / "a").exists()
    (tmp_path / "private.csv").touch()
    with pytest.raises(ReadError, match="holds other files"), open_folder(tmp_path, tmp_path / "people.ledger"):
        pass
