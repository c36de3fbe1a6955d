"""Names that columns with the id of a person, a household or a record usually have."""

from __future__ import annotations

import re

PERSON = r"(person|patient|pat|subject|subj|respondent|resp|participant|member|individual|insured|pupil|student|child)"
_GROUP = r"(household|hh|family|case|client|customer|user|people|record)"
_ID = re.compile(
    rf"{PERSON}|({PERSON}|{_GROUP})_?(no|num|number|code|key)|({PERSON}|{_GROUP}|.*_)?_?(id|idnr|nr|uid|uuid)|pid|seqn"
)


def has_name_of_id(name: str) -> bool:
    """Whether a column has the name of an id: patient_id, PatientID, nr.

    >>> [name for name in ("patient_id", "PatientID", "pid", "nr", "age", "n_children", "paid") if has_name_of_id(name)]
    ['patient_id', 'PatientID', 'pid', 'nr']
    """
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])|[\W_]+", "_", name.strip()).lower().strip("_")
    return _ID.fullmatch(parts) is not None


def has_word_for_person(name: str) -> bool:
    """Whether a name contains a word for a person.

    >>> has_word_for_person("PatientID"), has_word_for_person("seqn")
    (True, False)
    """
    return re.search(PERSON, name.lower()) is not None
