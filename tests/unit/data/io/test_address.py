"""The printed address of a database: its location, without the password."""

import pytest

from gapless.data.io.address import redacted_url


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:12/se/cret@localhost/registry",
        "postgresql://ada:12/secret@localhost/registry",
        "postgresql://ada:12?secret@localhost/registry",
        "postgresql://ada:12#secret@localhost/registry",
        "postgresql://ada:se/cret@localhost/registry",
        "postgresql://ada:12/secret@localhost",
    ],
)
def test_a_password_that_cuts_the_url_is_not_taken_for_its_place(url):
    assert redacted_url(url) == "this database"


def test_the_host_and_the_database_are_shown():
    assert (
        redacted_url("postgresql://ada:sec@ret@localhost:5432/registry?x=1") == "postgresql://localhost:5432/registry"
    )
    assert redacted_url("postgresql://localhost/a/b") == "postgresql://localhost"
