"""What a draft says: a proposed schema, with each fact that was read from the data marked as such.

Levels, bounds and gaps that were read from the data are themselves private: a level that one person alone
has gives that person away. A draft is therefore not a schema until a person has checked it against a codebook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gapless.schema import toml
from gapless.schema.schema import Schema

_FACTS = ("levels", "bounds", "resolution", "scale", "may_be_missing", "missing", "kind")
_WRITTEN = ("separator", "encoding", "decimal", "thousands", "format", "spelling")
_HEAD = """\
# DRAFT: made by looking at the data. Lines marked "read from the data" are private facts: before a real
# release each must come from a codebook or from common knowledge. Then take the line "unchecked = true" away.

"""


@dataclass(frozen=True)
class Draft:
    """A proposed schema, the facts in it read from the data, what was left out and why, and what looks odd."""

    schema: Schema
    left_out: Mapping[str, str]
    remarks: Mapping[str, str]

    def to_toml(self) -> str:
        """The schema as TOML, with a comment behind each fact that was read from the data."""
        content = self.schema.to_dict()
        mark = "read from the data"
        comments = {
            ("column", name, key): mark for name, keys in content["column"].items() for key in keys if key in _FACTS
        }
        for section, name, keys in (
            ("table", "", content["table"]),
            *(("column", *c) for c in content["column"].items()),
        ):
            comments |= {(section, name, key): "as the data are written" for key in keys if key in _WRITTEN}
        for name, remark in self.remarks.items():
            key = "bounds" if "bounds" in content["column"][name] else "levels"
            comments["column", name, key] = f"{mark}; {remark}"
        if self.left_out:
            comments["table", "", "ignore"] = "; ".join(
                f"{name or 'the first column'}: {why}" for name, why in self.left_out.items()
            )
        return _HEAD + toml.dump(content, comments)

    def write(self, path: str | Path) -> None:
        """Write the marked TOML file."""
        toml.write(Path(path), self.to_toml())
