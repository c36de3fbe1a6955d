"""Text from outside is shown, never obeyed: in terminals and in Markdown as renderers read it."""

import re

import pytest
from markdown_it import MarkdownIt

from gapless.text import code, markdown, visible

HOSTILE = [
    "<script>alert(1)</script>",
    "a|b|c",
    "two\nlines\r\n# heading",
    "`code` ``",
    "[link](javascript:alert(1))",
    "![image](http://example.com/x.png)",
    "*bold* _soft_ ~~gone~~ **x**",
    "# heading",
    "- list",
    "1. list",
    "2) list",
    "---",
    "===",
    "&lt;b&gt; &#60;i> &copy;",
    "\\",
    "back\\`slash\\|",
    "<http://example.com>",
    "\x1b[31mred\x1b[0m \x9b31m",
    "\u202eevil\u2066",
    "    indented",
    "> quote",
    "| --- |",
    "plain_name_of_a_column",
]
SHOWN = MarkdownIt("gfm-like", {"html": True, "linkify": False})


def elements(page):
    """Names of all elements of a rendered page."""
    return re.findall(r"<(\w+)", SHOWN.render(page))


@pytest.mark.parametrize("text", HOSTILE)
def test_text_in_markdown_is_nothing_but_text(text):
    assert elements(f"Before {markdown(text)} after") == ["p"]
    assert elements(markdown(text)) == ["p"]
    assert elements(f"- {code(text)}") == ["ul", "li", "code"]
    row = f"| x | {markdown(text)} |"
    assert elements(f"| a | b |\n|---|---|\n{row}").count("td") == 2


@pytest.mark.parametrize("text", HOSTILE)
def test_rendered_text_equals_the_input(text):
    import html

    rendered = html.unescape(re.sub(r"</?(p|code)>", "", SHOWN.render(markdown(text)))).strip()
    assert rendered == visible(text).strip()


def test_control_characters_are_shown_and_lines_kept_where_they_are_ours():
    assert visible("a\x1b[2Jb\tc\n") == "a\\x1b[2Jb\\tc\\n"
    assert visible("one\n\ttwo\r\x07", lines=True) == "one\n\ttwo\\r\\x07"
    assert visible("\x9b\u202e\u2028") == "\\x9b\\u202e\\u2028"
    assert visible("größe × 年龄") == "größe × 年龄"
