"""Folders that are no release are refused, and changed releases have problems."""

import pytest

from gapless.errors import ReadError
from gapless.publish import verify_release


def test_a_folder_without_a_manifest_is_refused_and_an_empty_manifest_has_problems(tmp_path):
    with pytest.raises(ReadError, match="manifest"):
        verify_release(tmp_path)
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(ReadError, match="is not the manifest of a release"):
        verify_release(tmp_path)
    (tmp_path / "manifest.json").write_text('{"sha256": {}}')
    (tmp_path / "other.txt").touch()
    found = verify_release(tmp_path)
    assert "other.txt does not belong to the release" in found.problems
    assert "privacy.md is not in the manifest" in found.problems
    assert found.to_dict()["intact"] is False
    assert str(found).endswith(
        "\n  Try: remove files that do not belong to the release, or get the folder from its "
        "holder again; do not use it before"
    )
