"""The pages in a real browser: no error on the console, no request to anywhere."""

import json
import re
import shutil
import subprocess
from urllib.parse import urlsplit

import pytest

from helpers import command_line

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
PAGES = ("release/report.html", "comparison.html")  # of a release, and of the bundled table, which is public
BROWSER_ITSELF = "not an origin"  # who asks, when the browser itself does at every start, whatever page it shows


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    done = command_line.run("demo", "-o", "demo", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "demo"


def visit(page, folder):
    """What the console says, and which addresses on a network were asked for."""
    log = folder / "net.json"
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing leaves this machine
            f"--user-data-dir={folder / 'profile'}",
            "--enable-logging=stderr",
            f"--log-net-log={log}",
            "--dump-dom",
            page.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert "</html>" in done.stdout
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    asked = {
        event["params"]["url"]
        for event in events(log)
        if event.get("params", {}).get("initiator", BROWSER_ITSELF) != BROWSER_ITSELF
    }
    return console, sorted(url for url in asked if urlsplit(url).scheme not in ("file", "data"))


def events(log):
    text = log.read_text(encoding="utf-8")
    try:
        return json.loads(text)["events"]
    except json.JSONDecodeError:  # the browser left before it had closed the list
        return json.loads(text.rstrip().rstrip(",") + "]}")["events"]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("name", PAGES)
def test_the_pages_of_the_demo_are_silent_and_ask_for_nothing(demo, name, tmp_path):
    assert visit(demo / name, tmp_path) == ([], [])


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
@pytest.mark.parametrize("page", [*PAGES, None])
def test_no_page_is_wider_than_a_phone(demo, page, tmp_path):
    """390 px: what is wider scrolls by itself inside. A page with a wide table in the open is caught."""
    inner = tmp_path / "inner.html"
    bad = "<!doctype html><html><body><table><td style='width: 500px; display: block'>x</table></body></html>"
    inner.write_text(bad if page is None else (demo / page).read_text(encoding="utf-8"), encoding="utf-8")
    measure = "document.body.dataset.wide = phone.contentDocument.documentElement.scrollWidth"
    frame = f'<iframe id="phone" width="390" height="800" style="border: 0" src="inner.html" onload="{measure}">'
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!doctype html><html><body>{frame}</iframe></body></html>")
    done = subprocess.run(
        [
            CHROMIUM,
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--host-resolver-rules=MAP * ~NOTFOUND",
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            outer.as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    width = int(re.search(r'data-wide="(\d+)"', done.stdout)[1])
    assert (width <= 390) == (page is not None)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_page_that_shouts_and_asks_is_caught(tmp_path):
    page = tmp_path / "bad.html"
    page.write_text(
        "<!doctype html><html><body><img src='http://pictures.invalid/x.png'><script>console.error('x')</script></html>"
    )
    console, asked = visit(page, tmp_path)
    assert len(console) >= 1
    assert asked == ["http://pictures.invalid/x.png"]


@pytest.mark.parametrize("name", PAGES)
def test_the_pages_name_no_address_and_no_script(demo, name):
    text = (demo / name).read_text(encoding="utf-8")
    for word in ("http:", "https:", "//", "src=", "url(", "@import", "<script", "javascript:", "<iframe", "<object"):
        assert word not in text, word
    assert re.findall(r'href="([^"]*)"', text) == ["data:,"]
    assert "default-src 'none'" in text
    assert text.count("<svg") == text.count('role="img"') == len(re.findall(r"<svg[^>]*><title>[^<]+</title>", text))
    assert len(text) < 1_000_000


def test_the_report_of_a_release_explains_its_numbers(demo):
    text = (demo / PAGES[0]).read_text(encoding="utf-8")
    assert "not how close they are to the truth" in text
    assert "differential privacy" in text
    assert "whisker" in text
    compared = (demo / PAGES[1]).read_text(encoding="utf-8")
    assert "may be shown only if it is public" in compared
    assert not (demo / "release" / "comparison.html").exists()  # exact numbers have no place in a release folder
