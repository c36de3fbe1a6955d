"""Proposals for facts that a codebook does not give, from the name and the label of a column alone.

A proposal is public reasoning, such as that an age in years is between 0 and 120. It is not a fact until the holder
confirms it: until then nothing is released under a schema that has it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gapless.text import plural

YEARS = "a year"
_NUMBER = r"(-?\d{1,4}(?:\.\d+)?)"


@dataclass(frozen=True, slots=True)
class Proposal:
    """Bounds, and why they are likely."""

    bounds: tuple[float, float]
    reason: str


# The first that fits is proposed. They are looked for in the name and the label, in lower case, words apart.
_BY_WORDS: tuple[tuple[str, float, float, str], ...] = (
    (r"percent|percentage|pct|prozent|pourcentage|porcentaje", 0, 100, "a percentage"),
    (r"probability|proportion|fraction|wahrscheinlichkeit", 0, 1, "a proportion"),
    (
        r"(birth|born|geburts?|naissance|nacimiento) ?(year|jahr|yr)|(year|yr|jahr) (of )?(birth|born)|yob|birthyr",
        1900,
        2030,
        YEARS,
    ),
    (r"age in months|months old|age months|agemonths|agemo", 0, 1440, "an age in months"),
    (
        r"(hours?|hrs|stunden) (worked )?(per|a|each|pro|in the last|last) (week|woche)|weekly hours",
        0,
        168,
        "hours per week",
    ),
    (r"(hours?|hrs|stunden) (per|a|each|of|pro) (day|tag|night|sleep)|hour of (the )?day", 0, 24, "hours per day"),
    (r"(minutes?|mins?) (per|a|each|pro) (day|tag)", 0, 1440, "minutes per day"),
    (r"days? (per|a|each|pro|of the) (week|woche)|day of week|weekday|wochentag", 0, 7, "days of a week"),
    (r"days( .*)? (past|last|per|a|of the|in the) (30 days|month)", 0, 31, "days of a month"),
    (r"day of (the )?month|birth ?day", 1, 31, "a day of the month"),
    (r"(systolic|diastolic|blood pressure|sbp|dbp|bpsys|bpdia)", 20, 300, "a blood pressure in mmHg"),
    (r"(heart rate|pulse|herzfrequenz|puls|bpm)", 20, 250, "beats per minute"),
    (r"bmi|body mass index", 10, 100, "a body mass index"),
    (r"(height|groesse|taille)( .*)?( in)? (cm|centimet\w+|zentimet\w+)|(height|groesse)cm", 30, 250, "a height in cm"),
    (r"(weight|gewicht|poids)( .*)?( in)? (kg|kilo\w*)|weightkg", 0, 400, "a weight in kg"),
    (r"(body )?temp(erature)?( .*)? c(elsius)?|temperatur", 25, 45, "a body temperature in °C"),
    (r"number of (people|persons|members|adults|children)( .*)?|n children|nchild\w*", 0, 20, "a number of persons"),
    (r"household size|hhsize|haushaltsgroesse", 0, 20, "persons of a household"),
    (r"cigarettes|cigs|zigaretten", 0, 100, "cigarettes per day"),
    (r"age|alter|agey\w*|agegr|edad", 0, 120, "an age in years"),
    (r"(what|which|calendar) (year|jahr)|(year|jahr) (of|der|des) \w+", 1900, 2100, YEARS),
    (r"(what|which|calendar) month|(month|monat) (of|der|des) \w+", 1, 12, "a month"),
)
# Only in the name: a label such as "Income per month" is about something else.
_BY_NAME: tuple[tuple[str, float, float, str], ...] = (
    (r"month|monat|mois|mes", 1, 12, "a month"),
    (r"year|jahr|annee|ano|yr", 1900, 2100, YEARS),
    (r"hour|stunde|heure|hora", 0, 23, "an hour of the day"),
    (r"minute", 0, 59, "a minute of the hour"),
)
_ANYWHERE, _IN_NAMES = (
    tuple((re.compile(rf"\b(?:{pattern})\b"), Proposal((low, high), reason)) for pattern, low, high, reason in listed)
    for listed in (_BY_WORDS, _BY_NAME)
)
_SPAN = rf"{_NUMBER} ?(?:-|–|to|bis|and|und|\.\.) ?{_NUMBER}"
_SCALE = re.compile(rf"(?:scale|score|rating|rated?|skala|from|von|between|range|vas|index)\b\D{{0,40}}?{_SPAN}\b")
_IN_BRACKETS = re.compile(rf"[(\[]\s*{_SPAN}\s*[)\]]")
# Words of answers that have an order, from low to high or from high to low. Two of one list make an ordered scale.
_ORDERED = tuple(
    re.compile(rf"\b(?:{pattern})\b")
    for pattern in (
        r"(dis)?agree|zustimm\w*|stimme|d'accord|neither",
        r"(un|dis)?satisfied|zufrieden|unzufrieden",
        r"never|rarely|seldom|sometimes|often|always|usually|nie|selten|manchmal|oft|immer",
        r"excellent|very good|good|fair|poor|very poor|bad|very bad|sehr gut|gut|schlecht",
        r"not at all|a little|somewhat|moderately|quite a bit|very much|extremely|slightly",
        r"low|medium|moderate|high|very high|very low|niedrig|mittel|hoch",
        r"none|mild|moderate|severe|very severe",
        r"(un)?likely|(un)?important|easy|difficult|(un)?willing",
        r"daily|weekly|monthly|yearly|every day|once a (week|month|year)|less than once",
        r"strongly|totally|completely|partly|rather",
    )
)
LEAST_ORDERED = 3  # answers


def propose_bounds(name: str, label: str, digits: int | None = None) -> Proposal | None:
    """Bounds that a column of this name and label very likely has; None if nothing public speaks for any.

    >>> propose_bounds("age", "Age of the respondent"), propose_bounds("pain", "Pain on a scale from 0 to 10")
    (Proposal(bounds=(0, 120), reason='an age in years'), Proposal(bounds=(0, 10), reason='a scale from 0 to 10'))
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.\-/]+", " ", name).lower()
    stated = " ".join(label.lower().split())
    for pattern in (_SCALE, _IN_BRACKETS):
        if found := pattern.search(stated):
            low, high = float(found[1]), float(found[2])
            if low < high and not (1800 < low < 2200):
                bounds = (_whole(low), _whole(high))
                return Proposal(bounds, f"a scale from {bounds[0]} to {bounds[1]}")
    if "%" in label:
        return Proposal((0, 100), "a percentage")
    for text, known in ((f"{spaced} | {stated}", _ANYWHERE), (spaced, _IN_NAMES)):
        for pattern, proposal in known:
            if pattern.search(text):
                return proposal
    if digits is not None and digits <= 4:
        return Proposal((0, 10**digits - 1), f"at most {plural(digits, 'digit')}, by the width of its format")
    return None


def looks_ordered(labels: Sequence[str]) -> bool:
    """Whether answers are a scale from low to high, such as never, sometimes, often.

    >>> looks_ordered(["Never", "Sometimes", "Often"]), looks_ordered(["Married", "Widowed", "Single"])
    (True, False)
    """
    texts = [label.lower() for label in labels]
    return len(texts) >= LEAST_ORDERED and any(
        sum(pattern.search(text) is not None for text in texts) >= max(2, (len(texts) + 1) // 2) for pattern in _ORDERED
    )


def _whole(number: float) -> float:
    return int(number) if number == int(number) else number
