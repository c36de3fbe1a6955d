"""Questions and treatments of gaps from the words of `gapless ask`."""

import pytest
import typer

import gapless as gl
from gapless.cli.ask import _names, _questions, _treatment


def test_treatments_are_made_of_their_options():
    assert _treatment("drop", "", None, None, None, None) == gl.Drop()
    assert _treatment("knn", "age, sex", 3, "mean", None, None) == gl.Knn(on=["age", "sex"], neighbors=3, scheme="mean")
    assert _treatment("hot-deck", "sex", None, None, None, 2) == gl.HotDeck(on=["sex"], limit=2)
    assert _names(" age , sex ") == ["age", "sex"]


@pytest.mark.parametrize(
    "options",
    [("drop", "age", None, None, None, None), ("hot-deck", "age", 2, None, None, None), ("nearest", *[""] * 5)],
)
def test_options_of_another_treatment_are_refused(options):
    with pytest.raises(typer.BadParameter):
        _treatment(*options)


def test_questions_come_from_arguments_and_from_a_file_with_comments(tmp_path):
    file = tmp_path / "questions.txt"
    file.write_text("# how many\ncount()\n\nmean(income)  # of all\n")
    read = [question for _, question in _questions(["sum(age)"], file, gl.Drop())]
    assert read == [gl.Sum("age"), gl.Count(), gl.Mean("income")]
    with pytest.raises(Exception, match="question"):
        _questions([], None, gl.Drop())
