"""TOML files: read and written."""

import datetime as dt
import tomllib

import pytest

from gapless.errors import ReadError, SchemaError
from gapless.schema import toml

CONTENT = {
    "table": {"name": 'a "quoted" name\n', "rows": 3, "share": 0.1, "kept": True, "from": dt.date(2020, 1, 31)},
    "column": {"odd name": {"levels": ["ä", "\u007f", 1]}, "x": {"missing": [{"code": "-8", "kind": "refused"}]}},
    "constraint": [{"not": "t1.x < 15"}, {"not": "t1.x > 90", "weight": 2.0}],
}


def test_a_written_schema_reads_back(tmp_path):
    toml.write(tmp_path / "s.toml", toml.dump(CONTENT))
    assert toml.read(tmp_path / "s.toml") == CONTENT


def test_comments_stand_behind_their_lines_and_stay_in_them():
    text = toml.dump(CONTENT, {("column", "x", "missing"): "two\nlines", ("table", "", "rows"): "guessed"})
    assert tomllib.loads(text) == CONTENT
    assert "rows = 3  # guessed\n" in text
    assert text.count("# two lines\n") == 1


def test_invalid_toml_is_named(tmp_path):
    with pytest.raises(SchemaError, match="the schema is not valid TOML"):
        toml.parse("a = ", "the schema")
    with pytest.raises(ReadError, match="no file"):
        toml.read(tmp_path / "none.toml")
