"""A release with more rows than are drawn at once."""

from unittest import mock

import polars as pl

import gapless as gl
from gapless.publish import releases
from gapless.synth import fitted
from gapless.testing.audit import letters_schema
from helpers.read_and_release import read_and_release


def test_a_release_with_more_rows_than_are_drawn_at_once_is_written_part_by_part(tmp_path):
    rows = [("a", "b"), ("b", "c"), (None, "a")] * 50
    frame = pl.DataFrame(rows, schema=["x0", "x1"], orient="row")
    with mock.patch.object(releases, "PART_ROWS", 100), mock.patch.object(fitted, "PART_ROWS", 100):
        release = read_and_release(
            frame,
            letters_schema([2, 3]),
            tmp_path / "release",
            protect=gl.Rows(1),
            budget=gl.Budget(1.0, 1e-6),
            ledger=tmp_path / "l.ledger",
            method="independent",
            rows=250,
            seed=4,
        )
    assert release.rows == 250
    assert gl.publish.verify_release(release.folder).problems == ()
    assert "- Rows in this release: 250." in (release.folder / "privacy.md").read_text()
    assert "250 synthetic rows (the first 100 are shown)" in (release.folder / "report.html").read_text()
    drawn = gl.Table.read(release.folder / "synthetic.csv", release.model.schema)
    assert drawn.rows == 250
    first = release.model.sample(100, seed=4)
    assert all((codes[:100] == other).all() for codes, other in zip(drawn.codes, first.codes, strict=True))
