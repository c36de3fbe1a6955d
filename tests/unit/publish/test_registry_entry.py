"""The YAML of a registry entry: read back, it is what was written."""

import json

import yaml
from hypothesis import given
from hypothesis import strategies as st

from gapless.publish.archive_files.registry_entry import to_yaml

TEXTS = st.text(st.characters(exclude_categories=("Cs",)))
NUMBERS = st.integers() | st.floats(min_value=-1e300, max_value=1e300).filter(bool)
KEYS = st.sampled_from(["name", "epsilon", "delta", "notes"])
VALUES = st.recursive(
    TEXTS | NUMBERS,
    lambda values: st.lists(TEXTS, min_size=1, max_size=3) | st.dictionaries(KEYS, values, min_size=1, max_size=3),
    max_leaves=10,
)


@given(st.dictionaries(KEYS, VALUES, min_size=1))
def test_a_yaml_reader_gets_back_what_was_written(content):
    assert yaml.safe_load(to_yaml(content)) == content


def test_numbers_and_texts_keep_their_types():
    content = {"epsilon": 1e-05, "delta": "1e-5", "name": "no", "notes": "2026-01-31", "rho": 0.0, "tier": 1}
    read = yaml.safe_load(to_yaml(content))
    assert json.dumps(read) == json.dumps(content)


def test_a_text_cannot_begin_another_field():
    text = 'x"\nstatus: "Approved"\n# \u2028\x85\t\x00'
    assert yaml.safe_load(to_yaml({"name": text})) == {"name": text}
