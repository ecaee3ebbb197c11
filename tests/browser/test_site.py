"""The documentation in a browser: nothing from elsewhere, no page wider than a phone, search."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from docs import pages as site

pytestmark = pytest.mark.slow


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *given):
        """Nothing: tests read their own output."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The site, built from the pages of now."""
    pytest.importorskip("zensical", reason="scripts/setup docs installs it")
    home = tmp_path_factory.mktemp("site")
    site.build(home)
    return home / "site"


@pytest.fixture(scope="module")
def address(folder):
    """Where the site is served."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def page(browser):
    context = browser.new_context(
        viewport={"width": 1400, "height": 900}, permissions=["clipboard-read", "clipboard-write"]
    )
    page = context.new_page()
    page.asked = set()
    page.on("request", lambda request: page.asked.add(urlsplit(request.url).hostname))
    yield page
    context.close()


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1400, "light")])
def test_no_page_is_too_wide_or_asks_elsewhere(page, address, picture, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    for name in site.navigation():
        page.goto(address + name.replace(".md", ".html"), wait_until="networkidle")
        beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert beyond <= 0, name
        picture(page, f"site-{name}-{width}-{scheme}")
    assert page.asked == {"127.0.0.1"}


def test_search_finds_and_the_button_copies_what_one_types(page, address):
    page.goto(address + "compare.html", wait_until="networkidle")
    page.locator("[data-md-type=copy]").first.click(force=True)
    page.wait_for_function("navigator.clipboard.readText().then(text => text.length > 0)")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith("assay compare dense.run")
    assert "95 % CI" not in copied  # what is printed below
    page.keyboard.press("Control+k")
    page.keyboard.type("expected ties")
    page.get_by_text("How the expectation is computed").first.wait_for()


def test_search_finds_where_the_site_is_opened_from_disk(page, folder):
    page.goto((folder / "compare.html").as_uri(), wait_until="networkidle")
    page.keyboard.press("Control+k")
    page.keyboard.type("expected ties")
    page.get_by_text("How the expectation is computed").first.wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(1400, "dark"), (420, "light")])
def test_axe_finds_nothing_wrong(page, address, axe, width, scheme):
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    wrong = {}
    for name in ("index", "crossmodal", "codes", "api", "glossary"):
        page.goto(f"{address}{name}.html", wait_until="networkidle")
        wrong[name] = axe(page)
    assert not any(wrong.values()), wrong
