"""The built site in a browser: nothing leaves the machine, search finds, axe-core is content."""

from __future__ import annotations

import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from tests.browser.test_access import problems
from tests.browser.tools import PATIENCE, expect

PAGES = (
    "index.html",
    "reference.html",
    "reference/sumwise.Study.html",
    "reference/commands.html",
    "how-to.html",
    "stories/index.html",
)
OF_THE_THEME = (
    'label-content-name-mismatch: [\'<button type="button" class="btn search-button-field',  # is
    # called "Search", and shows the keys Ctrl+K as well
)
# the theme lets the keyboard reach code that is cut off, shortly after a page is there
REACHABLE = """() => [...document.querySelectorAll("pre")].every(
    (each) => each.scrollWidth <= each.clientWidth || each.tabIndex >= 0)"""
SIZES = {"wide": (1280, 800), "phone": (390, 844)}


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def served(site):
    """The address of the site on a server of this machine."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def visit(chromium):
    contexts, trouble = [], []

    def console(message):
        # without a server the browser lets no script read the pages that search would quote
        if message.type == "error" and "file://" not in message.text + message.page.url:
            trouble.append(message.text)

    def request(asked):
        if urlsplit(asked.url).hostname not in (None, "127.0.0.1"):
            trouble.append(f"a request left the machine: {asked.url}")

    def open_page(address, light="light", size="wide"):
        width, height = SIZES[size]
        contexts.append(
            chromium.new_context(viewport={"width": width, "height": height}, color_scheme=light)
        )
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        page.on("console", console)
        page.on("request", request)
        page.goto(address)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert trouble == []


@pytest.mark.parametrize(
    ("light", "size", "pages"), [("light", "wide", PAGES), ("dark", "phone", PAGES[2:4])]
)
def test_axe_finds_nothing_serious(served, visit, axe, light, size, pages):
    page, found = visit(f"{served}/genindex.html", light, size), []
    for name in pages:
        page.goto(f"{served}/{name}")
        page.wait_for_function(REACHABLE)
        serious = [each for each in problems(page, axe) if not any(map(each.count, OF_THE_THEME))]
        found += [f"{name}: {each}" for each in serious]
        assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0, name
    assert found == [], "\n".join(found)


def test_search_finds_a_method_and_a_page(served, visit):
    page = visit(f"{served}/search.html?q=tell_many")
    expect(page.locator("ul.search li a", has_text="tell_many").first).to_be_visible()
    page.goto(f"{served}/search.html?q=missing+values")
    expect(page.locator("ul.search li a").first).to_be_visible()


def test_search_works_in_files_without_a_server(site, visit):
    page = visit(f"file://{site}/index.html")
    page.goto(f"file://{site}/search.html?q=tell_many")
    expect(page.locator("ul.search li a", has_text="tell_many").first).to_be_visible()
