"""A hook of the documentation: formulas become MathML when the site is built, and pages load nothing from elsewhere.

A formula that is still LaTeX afterwards, in a text, a title or the contents, ends the build.
"""

import re
import unicodedata
from html import unescape

FORMULA = re.compile(r'<(span|div) class="arithmatex">(\$\$?)(.*?)\2</\1>', re.DOTALL)
IN_CONTENTS = re.compile(r"(\$)([^$]+)\$")  # headings come there as plain text
QUOTED = re.compile(r"<(pre|code|script|style)\b.*?</\1>", re.DOTALL)
RAW = re.compile(r"\$[^$<>\n]+\$|\\[A-Za-z]+")

# What the converter does not know in large delimiters, and how it would set the number of a formula.
DELIMITERS = {"lfloor": "⌊", "rfloor": "⌋", "lceil": "⌈", "rceil": "⌉", "lVert": "‖", "rVert": "‖"}
LARGE = re.compile(rf"(\\[bB]ig[lr]?)\\({'|'.join(DELIMITERS)})")
NUMBERED = re.compile(r"\\tag\{(.*?)\}")
# What browsers do not: letters of another alphabet by an attribute, the space behind the name of a function, and bars
# that are all of one size with no space around them.
STYLED = re.compile(r'<(m[ino]) mathvariant="(?!normal)([a-z-]+)">(\w)</\1>')
BAR = re.compile(r"<mo(?![^>]*form=)([^>]*)>(&#x0007C;|&#x02016;|[|‖])</mo>")
FUNCTION = re.compile(r"(<mi>(?:log|ln|exp|sinh|cosh|cos)</mi>)(?!<mo|</)")


def on_page_content(html, page, **_):
    """The page's formulas, and those of its headings in the contents."""
    for entry in _entries(page.toc):
        entry.title = IN_CONTENTS.sub(lambda found: mathml(found[2]), entry.title)
    return with_mathml(html)


def on_post_page(output, page, **_):
    """Refuse a page on which a formula was left as LaTeX."""
    if left := raw_formulas(output):
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{page.file.src_uri}: not shown as a formula: {left[0]}")
    return output


def with_mathml(html):
    """HTML with MathML in the place of each formula."""
    return FORMULA.sub(lambda found: mathml(found[3], block=found[1] == "div"), html)


def raw_formulas(html):
    """What looks like LaTeX outside of code."""
    return [found.group() for found in RAW.finditer(QUOTED.sub("", html))]


def mathml(latex, *, block=False):
    """One formula."""
    from latex2mathml.converter import convert

    latex = LARGE.sub(lambda found: found[1] + DELIMITERS[found[2]], unescape(latex).strip())
    formula = convert(NUMBERED.sub(r"\\qquad(\1)", latex), display="block" if block else "inline")
    formula = BAR.sub(_bar, STYLED.sub(_styled, formula))
    return FUNCTION.sub(r'\1<mspace width="0.167em"/>', formula)


def _bar(found):
    size = re.search(r'minsize="([^"]*)"', found[1])
    sized = f' mathsize="{size[1]}"' if size else ""
    return f'<mo{sized} stretchy="false" lspace="0" rspace="0">{found[2]}</mo>'


def _styled(found):
    """A letter or digit of another alphabet as the sign that Unicode has for it."""
    tag, style, sign = found.groups()
    name = unicodedata.name(sign).replace("LATIN ", "").replace("LETTER ", "")
    for called in (f"MATHEMATICAL {style.upper()} {name}", f"{style.upper()} {name}"):  # ℝ and a few others are older
        try:
            return f"<{tag}>{unicodedata.lookup(called)}</{tag}>"
        except KeyError:
            continue
    raise LookupError(f"no {style} {sign}")


def _entries(contents):
    for entry in contents:
        yield entry
        yield from _entries(entry.children)
