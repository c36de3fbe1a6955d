"""Words of survey practice that name a gap, and the kind that each means: English, German, French and Spanish.

They are looked for in labels of codes, such as "Refused" for -9, and in cells among numbers.
"""

from __future__ import annotations

import re
import unicodedata

from gapless.schema.gap_codes import STRUCTURAL_KINDS, MissingKind

# Patterns for a whole label in lower case, without accents, apostrophes and signs. The first kind that fits is meant.
_NOUN = r"(answer|response|reply|information|info|data|value)"
_PATTERNS: tuple[tuple[MissingKind, str], ...] = (
    (
        "not-applicable",
        r"inap\w*|n ?/? ?a p|(n ?/? ?a |item |question )?(is |was )?(not|non|in) ?applicable( .*)?|"
        r"does not apply|doesnt apply|"
        r"(legitimate|valid|logical) skip( .*)?|skip(ped)? (legitimately|by design)|nicht zutreffend|trifft nicht zu|"
        r"entfallt|sans objet|non applicable|no (aplica|procede|aplicable)",
    ),
    (
        "not-asked",
        r"(question |item )?(was |were )?(not|never) (asked|administered|presented|shown|fielded|in version|"
        r"in split)( .*)?|"
        r"not in (this )?(universe|sample|wave|module|routing|survey|version)( .*)?|nicht (gefragt|erhoben)|"
        r"(question )?non posee|no (se )?(pregunt\w+|formulad\w+)|routed out|filter(ed out)?|"
        r"skip(ped)? (pattern|by routing|logic)|(module|split) not (asked|administered)|"
        r"filterfuhrung|frage nicht gestellt|missing by (design|filter)",
    ),
    (
        "refused",
        r"(item |unit )?refus(ed|als?|es|e|ing)?( to (answer|say|respond|state|disclose)( .*)?)?|"
        r"declined( to (answer|say|respond|state)( .*)?)?|(prefer|preferred|choose|chose|wish|"
        r"would rather) not( .*)?|"
        r"did not want to answer|item non ?response|(item )?non ?response|"
        r"no (answer|response|reply)( given)?|keine (angabe|antwort)|k ?a|verweigert|antwort verweigert|"
        r"(pas de|sans) reponse|non reponse|ne souhaite pas repondre|no (contesta|responde|contesto|respondio)|"
        r"n ?/? ?r|rechaz\w+|not answered|unanswered|refuse de repondre|angabe verweigert|"
        r"wei(ß|ss) nicht verweigert",
    ),
    (
        "dont-know",
        r"(i )?(do ?not|dont|does ?not|doesnt|did ?not|didnt|can ?not|cant|couldnt) (know|say|remember|recall|"
        r"choose)( .*)?|"
        r"dk|d k|dk ?/? ?(na|ref|nr)|not sure|unsure|(wei(ß|ss)) (es )?nicht|ne sai[st] pas|nsp|no (lo )?sabe( .*)?|"
        r"ns( ?/? ?nc)?|no opinion|keine meinung",
    ),
    (
        "technical",
        r"(technical|system|equipment|machine|instrument|device|recording|interviewer|coding|data ?entry|processing) "
        r"(error|problem|failure|fault|issue|malfunction)s?( .*)?|(error|invalid|corrupt\w*|unusable|"
        r"illegible|unreadable|uncodable|"
        r"uncodeable|not codable|lost)( (value|data|answer|response|code|sample|record))?|not (recorded|processed|"
        r"coded)|"
        r"(specimen|sample) (lost|insufficient|not (obtained|analyzed|analysed|collected))|insufficient (sample|"
        r"quantity)( .*)?|"
        r"technischer fehler|erreur technique|error tecnico|(nicht )?lesbar|nicht (auswertbar|verwertbar)|"
        r"could not obtain|not (done|performed|assessed|evaluable)",
    ),
    (
        "unknown",
        rf"(system |user |value |other )?missings?( {_NOUN})?|unknown( {_NOUN})?|not (known|stated|available|"
        rf"ascertained|"
        rf"determined|reported|specified|provided)( .*)?|unspecified|undetermined|no {_NOUN}( available)?|"
        r"(data |value )?(not|un) ?available|un(bekannt|clear)|nicht (bekannt|angegeben)|fehlend(er wert)?|fehlt|"
        r"inconnue?|manquante?|desconocid[oa]|sin (dato|datos|informacion)|perdidos?|blank|n ?/? ?a|nan|null|"
        r"datos? perdidos?|valeur manquante|donnee manquante|information not (available|provided)",
    ),
)
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in _PATTERNS)
# Notes for the interviewer within a label, and what separates two reasons.
_NOTES = re.compile(r"[(\[]\s*(do not read( out)?|dnr|vol\w*|specify)\W*[)\]]", re.IGNORECASE)
_SEPARATORS = re.compile(r"[/,;]|\b(?:or|and|oder|und|ou)\b", re.IGNORECASE)
_SHORT = {"ref": "refused", "rf": "refused"}  # beside another reason
_USUAL = re.compile(r"-\d+|9+|88+|77+")  # codes for gaps
_LONGEST = 80  # characters; a longer label is a sentence about something else
_LEVELS = frozenset(
    {"filter", "error", "ns", "nr", "na", "ka", "k a", "blank", "lost", "lesbar", "invalid", "declined"}
)


def gap_kind(label: str) -> MissingKind | None:
    """The kind of gap that a label means; None if it does not name a gap.

    Of a label with two reasons, such as "Don't know/Refused", it is the first; "unknown" if only one is structural.

    >>> [gap_kind(label) for label in ("Refused", "Don't know", "INAP.", "Keine Angabe", "Legitimate skip", "Married")]
    ['refused', 'dont-know', 'not-applicable', 'refused', 'not-applicable', None]
    >>> gap_kind("(DO NOT READ) Don't know/Refused"), gap_kind("Don't know/Inap."), gap_kind("None/Does not apply")
    ('dont-know', 'unknown', None)
    """
    kinds = [_kind(part) for part in _reasons(label)]
    found = [kind for kind in kinds if kind is not None]
    if not found or len(found) < len(kinds):
        return None
    return "unknown" if len({kind in STRUCTURAL_KINDS for kind in found}) > 1 else found[0]


def is_clearly_a_gap(label: str) -> bool:
    """Whether a label can hardly be a level: of two answers, "NA" may be one, "Refused to answer" is none.

    >>> is_clearly_a_gap("Refused"), is_clearly_a_gap("Lost"), is_clearly_a_gap("Married")
    (True, False, False)
    """
    return gap_kind(label) is not None and not _LEVELS.issuperset(_reasons(label))


def is_gap(code: str, label: str) -> bool:
    """Whether a code with this label is a gap: its label is clear, or it is one that surveys use, such as 9 or -1.

    >>> is_gap("2", "Lost"), is_gap("-1", "Lost"), is_gap("9", "k.A."), is_gap("NA", "NA")
    (False, True, True, False)
    """
    return is_clearly_a_gap(label) or (gap_kind(label) is not None and _USUAL.fullmatch(code) is not None)


def _kind(text: str) -> MissingKind | None:
    return next((kind for kind, pattern in _KINDS if pattern.fullmatch(text)), None)


def _reasons(label: str) -> list[str]:
    """The reasons that a label gives: "dont know" and "refused" of "Don't know/Refused"; else the label alone."""
    text = _plain(label)
    if not text or len(text) > _LONGEST:
        return []
    if _kind(text) is not None:
        return [text]
    parts = [_plain(part) for part in _SEPARATORS.split(_NOTES.sub(" ", label))]
    return [_SHORT.get(part, part) for part in parts if part] if len(parts) > 1 else parts


def _plain(label: str) -> str:
    """A label in lower case, without accents, apostrophes, brackets and a number in front."""
    text = unicodedata.normalize("NFKD", label[: 4 * _LONGEST].strip().casefold())
    text = "".join(letter for letter in text if not unicodedata.combining(letter))
    text = re.sub(r"['’`´]", "", text)
    text = re.sub(r"^[\s(\[<{]*-?\d+\s*[.:=)\-]\s*", "", text)
    return " ".join(re.sub(r"[^\w/]+", " ", text).replace("/", " / ").split()).strip("/ ").replace(" / ", "/")
