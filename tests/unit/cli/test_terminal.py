"""What is printed: control characters are shown, passwords are not."""

from gapless.cli.terminal import console, label, without_passwords


def test_control_characters_and_markup_are_shown_as_they_are(capsys):
    console.print("[bold]\x1b[31mred")
    assert "\x1b" not in capsys.readouterr().out
    assert label("[bold]") == r"\[bold]"


def test_passwords_are_hidden_in_words_and_in_values_of_options():
    url = "postgresql://ada:secret@host/db"
    assert "secret" not in without_passwords(f"no file {url!r}", ["synth", url])
    assert "secret" not in without_passwords(f"no file {url!r}", [f"--data={url}"])
    assert without_passwords("no file 'a.csv'", ["synth", "a.csv"]) == "no file 'a.csv'"
