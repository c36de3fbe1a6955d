"""The documentation's formulas: the hook that makes MathML of them refuses a page with LaTeX left on it."""

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def formulas():
    spec = importlib.util.spec_from_file_location("formulas", ROOT / "scripts" / "formulas.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_site_is_built_with_the_hook():
    assert "hooks:\n  - scripts/formulas.py\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("html", "left"),
    [
        ("<p>at $\\varepsilon = 1$ and</p>", ["$\\varepsilon = 1$"]),
        ('<span class="arithmatex">$x$</span>', ["$x$"]),
        ("<title>Choosing $\\delta$</title>", ["$\\delta$"]),
        ("<math><mo>\\lfloor</mo></math>", ["\\lfloor"]),
        ("<pre><code>$ gapless ledger a.ledger\n$ gapless demo</code></pre>", []),
        ("<p>it costs $5</p><p>or 6 $</p>", []),
        ("<script>/\\bx\\w/.test($)</script>", []),
    ],
)
def test_leftover_latex_is_found(formulas, html, left):
    assert formulas.raw_formulas(html) == left


def test_each_formula_is_handed_on_in_the_page_and_in_its_contents(formulas, monkeypatch):
    monkeypatch.setattr(formulas, "mathml", lambda latex, block=False: f"<math{' block' * block}>{latex}</math>")
    inner = SimpleNamespace(title="the $\\delta$", children=[])
    page = SimpleNamespace(toc=[SimpleNamespace(title="Choosing $a$ and $b$", children=[inner])])
    html = '<p><span class="arithmatex">$a$</span> is</p><div class="arithmatex">$$b\n&lt; c$$</div>'
    assert formulas.on_page_content(html, page) == "<p><math>a</math> is</p><math block>b\n&lt; c</math>"
    assert (page.toc[0].title, inner.title) == (
        "Choosing <math>a</math> and <math>b</math>",
        "the <math>\\delta</math>",
    )
