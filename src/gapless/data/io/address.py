"""Addresses of databases: what is a URL or a connection string, and what of it an error may show.

A URL or a connection string may hold a password. An error shows the given text only if it cannot hold one.
"""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

SCHEMES = ("postgresql", "postgres")
ACCEPTED = '"postgresql://ada@localhost:5432/registry", and keep the password in PGPASSWORD or ~/.pgpass'

# Keywords before an equals sign in a connection string of libpq, ODBC, ADO or JDBC.
_KEYWORDS = (
    "host|hostaddr|port|dbname|database|initial catalog|user|user ?name|user ?id|uid|server|data source|driver|dsn|"
    "service|servicefile|passfile|options|application_name|connect_timeout|client_encoding|target_session_attrs|"
    "ssl\\w*|gss\\w*|krbsrvname|channel_binding|require_auth"
)
_SECRETS = "password|passwd|passphrase|pass|pwd|secret"
_CONNECTION = re.compile(rf"(?:^|[\s;,?&])(?:{_KEYWORDS}|\w*(?:{_SECRETS}))\s*=(?!=)", re.IGNORECASE)
_SECRET = re.compile(rf"(?:{_SECRETS})\W{{0,3}}[=:](?!=)|:.*@", re.IGNORECASE | re.DOTALL)
_ANY_URL = re.compile(r"[a-z][\w+.:-]+:/", re.IGNORECASE)
_PLACE = re.compile(r"[\w.,:\[\]-]*/?[\w.-]*")


def is_database(data: object) -> bool:
    """Whether this is the URL of a database. A `Path` of a URL, which has lost a slash, counts as well.

    >>> is_database("postgresql://ada@localhost/registry"), is_database("people.csv")
    (True, False)
    """
    return isinstance(data, str | Path) and str(data).partition(":/")[0].lower() in SCHEMES


def is_url(data: object) -> bool:
    """Whether this is a URL of any kind. A `Path` of a URL, which has lost a slash, counts as well.

    >>> is_url("mysql://ada:secret@localhost/registry"), is_url("C:/people.csv")
    (True, False)
    """
    return _ANY_URL.match(str(data)) is not None


def is_connection_string(data: object) -> bool:
    """Whether this looks like a connection string of keywords and values, as in libpq and ODBC.

    >>> is_connection_string("host=db password=secret dbname=x"), is_connection_string("survey/people.csv")
    (True, False)
    """
    return isinstance(data, str | Path) and _CONNECTION.search(str(data)) is not None


def may_hold_password(data: object) -> bool:
    """Whether an error must not show this text, which names no file.

    >>> may_hold_password("ada:secret@localhost/registry"), may_hold_password("people (1).csv")
    (True, False)
    """
    return is_url(data) or is_connection_string(data) or _SECRET.search(str(data)) is not None


def redacted_url(url: object) -> str:
    """The host, port and name of a database, without the password and the options of its URL.

    >>> redacted_url("postgresql://ada:secret@localhost:5432/registry?sslpassword=secret")
    'postgresql://localhost:5432/registry'
    """
    try:
        parts = urlsplit(str(url))
        place = (parts.hostname or "") + ("" if parts.port is None else f":{parts.port}")
    except ValueError:  # an invalid port may be the end of a password
        return "this database"
    if "@" in place + parts.path + parts.query + parts.fragment:  # the text before it may be the start of a password
        return "this database"
    shown = place + (parts.path if parts.path.count("/") == 1 else "")
    return f"{parts.scheme}://{shown}" if _PLACE.fullmatch(shown) else "this database"
