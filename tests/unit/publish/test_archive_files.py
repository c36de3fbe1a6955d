"""Archive files of a release that a stranger has changed: facts are checked before any text is made of them."""

import json

import pytest

import gapless as gl
from gapless.publish.archive_files.checklist import checklist
from gapless.publish.archive_files.ddi_codebook import ddi_codebook
from gapless.publish.archive_files.facts import ReleaseFacts
from gapless.publish.archive_files.registry_entry import registry_entry, to_yaml
from helpers.hostile_files import changes, works
from helpers.release_files import LEDGER, MANIFEST

SCHEMA = gl.Schema("people", [gl.Categorical("sex", ["f", "m"])])


def texts(folder, manifest, ledger):
    facts = ReleaseFacts.of(folder, SCHEMA, manifest, ledger, "0")
    return [checklist(facts), ddi_codebook(facts), to_yaml(registry_entry(facts, {}))]


def test_the_facts_of_a_release_make_texts(tmp_path):
    assert all(texts(tmp_path, MANIFEST, LEDGER))


@pytest.mark.parametrize("changed", ["manifest", "ledger"])
def test_a_changed_file_works_or_is_refused(tmp_path, changed):
    refused = 0
    for place, text in changes(MANIFEST if changed == "manifest" else LEDGER):
        try:
            content = json.loads(text, parse_constant=float)
        except (ValueError, RecursionError):
            continue  # `parse_json` refuses it
        files = (content, LEDGER) if changed == "manifest" else (MANIFEST, content)
        try:
            refused += not works(lambda files=files: texts(tmp_path, *files))
        except Exception as error:
            error.add_note(f"{place}: {text[:300]}")
            raise
    assert refused > 100
