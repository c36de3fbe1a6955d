"""Labels that name gaps, and labels that do not."""

import pytest

from gapless.schema.gap_words import gap_kind, is_clearly_a_gap

LABELS = {
    "refused": (
        "Refused|REFUSED|Refusal|Refused to answer|Prefer not to say|No answer|Keine Angabe|k.A.|NR|"
        "Item nonresponse|(-9) Refused|Pas de réponse|No contesta|Would rather not say|Verweigert|"
        "Declined to answer"
    ),
    "dont-know": (
        "Don't know|DON’T KNOW|Do not know|dk|DK/NA|Weiß nicht|Ne sait pas|NS/NC|No sabe|Can't choose|"
        "Not sure|8: Don't know"
    ),
    "not-applicable": (
        "INAP|Inapplicable|Not applicable|N/A: not applicable|Legitimate skip|Valid skip|Trifft nicht zu|"
        "No aplica|Sans objet|Does not apply"
    ),
    "not-asked": (
        "Not asked|Not asked (split B)|Question not asked|Not administered|Routed out|Skip pattern|"
        "Nicht erhoben|Not in universe"
    ),
    "technical": (
        "Technical error|Interviewer error|Equipment failure|Sample lost|Illegible|Technischer Fehler|Could not obtain"
    ),
    "unknown": (
        "Missing|System missing|Unknown|Not stated|Not ascertained|Not available|Unbekannt|Desconocido|No information"
    ),
}
CASES = [(kind, label) for kind, text in LABELS.items() for label in text.split("|")]
LEVELS = (
    "Yes|No|None|Never|Other|Not at all|Not important|Rather not important|Married|Agree|Disagree|Neither|Not employed"
    "|Applied|Improved|Refused treatment|Unlikely|Unemployed|Nobody|0|North|Not married|Skipped breakfast|Missionary|"
)


@pytest.mark.parametrize(
    ("kind", "label"), [(kind, label) for kind, text in LABELS.items() for label in text.split("|")]
)
def test_labels_of_gaps_have_their_kind(kind, label):
    assert gap_kind(label) == kind


@pytest.mark.parametrize("label", LEVELS.split("|"))
def test_labels_of_values_have_none(label):
    assert gap_kind(label) is None


@pytest.mark.parametrize("label", ["NA", "Lost", "Declined", "Error", "Filter"])
def test_a_word_that_may_be_a_level_is_no_clear_gap(label):
    assert not is_clearly_a_gap(label)


def test_a_long_label_is_no_gap():
    assert gap_kind("refused " * 1000) is None
