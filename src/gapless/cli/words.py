"""Hints of the library in the words of the command line: the option that does what an argument does in Python."""

import re
from ast import literal_eval
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from shlex import quote

_VALUES = {
    "Drop()": "drop",
    "HotDeck(…)": "hot-deck",
    "Extended()": "extended",
    "Observed()": "observed",
    "CompleteRows()": "complete-rows",
    "ImputeFirst()": "impute-random",
}
_OPTIONS = "engine|spend|delta|ledger|method|missing|on|neighbors|scheme|cover|limit|seed|gaps"
_PHRASES: tuple[tuple[str, str | Callable[[re.Match[str]], str] | None], ...] = (
    (r"leave budget= out: the ledger knows it", "leave --epsilon and --delta out: the ledger knows them"),
    (r"(?:budget=)?Budget\(epsilon=1\.0, delta=1e-6\)", "--epsilon 1 --delta 1e-6"),
    (r"delta=(\S+)", r"--delta \1"),
    (r'ledger="([^"]+)"', lambda found: f"--ledger {quote(found[1])}"),
    (r"with a budget=", "with --epsilon and --delta"),
    (r'query="([^"]+)"', r'--query "\1"'),
    (r"protect=Rows\((\d+)\)", r"rows_per_person = \1 in the schema"),
    (r'ledger\.ground_truth\(MCAR\({"income": 0\.2}\)\)', "--mcar income=0.2"),
    (r'MCAR\({"income": 0\.2}\)', "--mcar income=0.2"),
    (r'MissingAtLeast\({"income": 0\.2}\)', "--missing-at-least income=0.2"),
    (r'encoding="([\w-]+)" \(.*?\)', r"--encoding \1"),
    (r'\bon=\["age", "sex"\]', "--on age,sex"),
    (r"AIM\(always=\[(.+)\]\)", lambda found: _always(found[1])),
    (r"always=\[\(\"age\", \"income\"\)\]", "--always age+income"),
    (r"leave always= out", "leave --always out"),
    (r"leave them out with select\(\)", "leave them out with ignore in the schema"),
    (r",? or raise cap_cells", ""),
    (r"; or a data frame", ""),
    (r"; overwrite=True .*", ""),
    (r"quantile=\S+ or more", "a smaller --rate"),
    (r"\bMCAR$", "--mechanism mcar"),
    (r"compare_private\(…, spend=…\)", "--spend 5%"),
    (rf'\b({_OPTIONS})=(?:"([\w .%-]*)"|(\w*\(…?\)|\w*))', None),
)


def spoken(hint: str) -> str:
    """The hint as somebody at a terminal can follow it.

    >>> spoken("missing=HotDeck(…), which works at any ε, or a larger spend=")
    '--missing hot-deck, which works at any ε, or a larger --spend'
    """
    for pattern, words in _PHRASES:
        hint = re.sub(pattern, _option if words is None else words, hint)
    return hint


def shared_notes(notes: Iterable[tuple[str, str]], answers: int) -> list[str]:
    """Each note once: as it is if all answers have it, else with the questions that it is about.

    >>> shared_notes([("Free.", "count()"), ("No interval.", "median(age)"), ("Free.", "median(age)")], 2)
    ['Free.', 'median(age): No interval.']
    """
    from gapless.text import listing

    questions: dict[str, list[str]] = {}
    for note, question in notes:
        questions.setdefault(note, []).append(question)
    return [note if len(asked) == answers else f"{listing(asked)}: {note}" for note, asked in questions.items()]


def without_passwords(message: str, words: Sequence[str]) -> str:
    """A message without those words of the command that may hold a password, however they are quoted in it.

    >>> without_passwords("no file 'host=db password=x y'", ["synth", "host=db password=x y"])
    "no file '…'"
    """
    from gapless.data.io.address import may_hold_password

    values = [word.partition("=")[2] for word in words if word.startswith("-")]
    hidden = {form for word in (*words, *values) if may_hold_password(word) for form in (word, str(Path(word)))}
    for word in sorted({*hidden, *(repr(word)[1:-1] for word in hidden)}, key=len, reverse=True):
        message = message.replace(word, "…")
    return message


def _always(sets: str) -> str:
    """The sets of columns, written as in Python, as options."""
    return " ".join(["--method aim", *("--always " + quote("+".join(names)) for names in literal_eval(f"[{sets}]"))])


def _option(found: re.Match[str]) -> str:
    value = found[2] or found[3]
    return f"--{found[1]} {_VALUES.get(value, value).replace(' ', '-')}".strip()
