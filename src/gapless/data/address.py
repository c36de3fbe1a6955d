"""Where a table lies that is no file: the URL of a database, and what of it may be told."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

SCHEMES = ("postgresql", "postgres")


def is_database(data: object) -> bool:
    """Whether this names a database; as a path, too, which has lost a slash.

    >>> is_database("postgresql://ada@localhost/registry"), is_database("people.csv")
    (True, False)
    """
    return isinstance(data, str | Path) and str(data).partition(":/")[0].lower() in SCHEMES


def is_url(data: object) -> bool:
    """Whether this is a URL of any kind, which may have a password in it; as a path, too, which has lost a slash.

    >>> is_url("mysql://ada:secret@localhost/registry"), is_url("C:/people.csv")
    (True, False)
    """
    return re.match(r"[a-z][\w+.:-]+:/", str(data), re.IGNORECASE) is not None


def told(url: object) -> str:
    """A database without the password, and whatever else a URL may carry.

    >>> told("postgresql://ada:secret@localhost:5432/registry?sslpassword=secret")
    'postgresql://localhost:5432/registry'
    """
    try:
        parts = urlsplit(str(url))
        place = (parts.hostname or "") + ("" if parts.port is None else f":{parts.port}")
    except ValueError:  # a port that is no number may be the end of a password
        return "this database"
    if "@" in place + parts.path + parts.query + parts.fragment:  # what comes before may be the start of a password
        return "this database"
    return f"{parts.scheme}://{place}{parts.path if parts.path.count('/') == 1 else ''}"
