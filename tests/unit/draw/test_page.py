"""Elements of pages: text is escaped once."""

from gapless.draw import page


def test_text_is_escaped_and_html_is_not_twice():
    assert page.tag("p", "<", page.tag("b", "&"), title='"') == '<p title="&quot;">&lt;<b>&amp;</b></p>'
    assert page.tag("i", hidden=None) == "<i></i>"
    assert "<title>a &lt; b</title>" in page.page("a < b")
