"""`gapless estimate` and `gapless copies` take a release or a model."""

import pytest

from helpers.command_line import run


@pytest.mark.parametrize("arguments", [("estimate", "release", "count()"), ("copies", "release", "-o", "copies.csv")])
def test_a_folder_that_is_no_release_is_refused_with_what_to_do(arguments, tmp_path):
    (tmp_path / "release").mkdir()
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 1
    assert "Try: " in done.stderr
    assert not (tmp_path / "copies.csv").exists()
