"""A real browser on the real page of a real server.

Every page is watched: a request that leaves the machine, an error in the console, or anything that
the content policy had to stop fails the test that caused it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import sumwise as sw
from sumwise.web import tokens
from tests.browser import HOW, PATIENCE
from tests.browser.places import Place, schools
from tests.browser.servers import Process, Thread

ROOT = Path(__file__).resolve().parents[2]
SHOTS = ROOT / "test-output"
AXE = next(iter(sorted((ROOT / ".cache").glob("axe-core-*.js"))), None)
QUIET = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def unavailable(what: str) -> None:
    """In CI a browser has to be there; elsewhere its tests are skipped and say how to get it."""
    (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"{what}: {HOW}")


# --- the browser ----------------------------------------------------------------------------------


# for this folder, not the session: Playwright keeps an event loop running as long as it is there,
# and other tests run loops of their own
@pytest.fixture(scope="package")
def chromium() -> Iterator[object]:
    from playwright.sync_api import sync_playwright

    found = os.environ.get("SUMWISE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        unavailable("there is no Chromium")
    arguments = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    if AXE is None:
        unavailable("there is no axe-core")
    return AXE.read_text()


# --- the server -----------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def state(monkeypatch, tmp_path):
    """Tokens of people are kept for this test alone."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def person():
    """Make a token for a person, or take it back."""

    def change(server, name: str, *, writes: bool = True, revoke: bool = False) -> str:
        with sw.open_study(server.place.path) as study:
            where = study.location
        if revoke:
            return tokens.revoke(where, name)[0].id
        return tokens.add_person(where, name, writes=writes)[0]

    return change


@pytest.fixture
def serve(state):
    """Start a server for a place; all are stopped afterwards."""
    started = []

    def start(place: Place, host: str = "127.0.0.1", closed: bool = False) -> Thread:
        started.append(Thread(place, host, closed).start())
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture(scope="session")
def twelve(tmp_path_factory):
    """A study with twelve answers, to copy."""
    return schools(tmp_path_factory.mktemp("twelve") / "schools.db", answers=12)


@pytest.fixture
def place(twelve, tmp_path):
    """A study with twelve answers."""
    return Place(shutil.copy(twelve.path, tmp_path / "schools.db"), twelve.totals)


@pytest.fixture
def server(serve, place):
    """A server for a study with twelve answers."""
    return serve(place)


@pytest.fixture
def process(place, tmp_path):
    """The same as a process, which can be killed."""
    server = Process(place, tmp_path).start()
    yield server
    server.stop()


@pytest.fixture(scope="package")
def standing(chromium, twelve, tmp_path_factory):
    """A study in the middle of its life, for tests that only look at it."""
    path = shutil.copy(twelve.path, tmp_path_factory.mktemp("standing") / "schools.db")
    place = Place(path, twelve.totals)
    with sw.open_study(place.path) as study:
        study.ask(by="ann")
        study.ask(by="carol")
        study.skip(study.propose(1)[0].set_id, by="bob", note="the archive burnt down")
    server = Thread(place).start()
    yield server
    server.stop()


# --- pages ----------------------------------------------------------------------------------------


@dataclass
class Watch:
    """What a page did that it must not do."""

    requests: list[str] = field(default_factory=list)
    responses: list[Any] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def attach(self, page) -> None:
        page.on("request", self.request)
        page.on("response", lambda response: self.responses.append(response))
        page.on("console", self.console)
        page.on("pageerror", lambda error: self.trouble.append(f"error: {error}"))
        page.on("dialog", self.dialog)

    def dialog(self, dialog) -> None:
        self.trouble.append(f"alert: {dialog.message}")
        dialog.dismiss()

    def request(self, request) -> None:
        self.requests.append(request.url)
        parts = urlsplit(request.url)
        if parts.scheme not in ("data", "blob") and parts.hostname != "127.0.0.1":
            self.trouble.append(f"a request left the machine: {request.url}")

    def console(self, message) -> None:
        # a refusal (409) or a server that is down is part of the story; a script that fails is not
        refused = message.text.startswith("Failed to load resource")
        if message.type == "error" and not refused:
            self.trouble.append(f"console: {message.text}")


WATCH_POLICY = """
window.stopped = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.stopped.push(`${event.violatedDirective}: ${event.blockedURI} ${event.sourceFile}`);
});
"""

NAMED = 'localStorage.getItem("sumwise.who") ?? localStorage.setItem("sumwise.who", WHO)'


@pytest.fixture
def visit(chromium):
    """Open the page of a server: `visit(server, who="ann", dark=True, phone=True, token=False)`."""
    contexts, watch, pages = [], Watch(), []

    def open_page(server, who="ann", *, dark=False, phone=False, token=True, at="next", **options):
        size = {"width": 390, "height": 844} if phone else {"width": 1280, "height": 800}
        context = chromium.new_context(
            viewport=size,
            color_scheme="dark" if dark else "light",
            has_touch=phone,
            locale=options.get("locale", "en-GB"),
            accept_downloads=True,
        )
        contexts.append(context)
        context.set_default_timeout(PATIENCE)
        context.add_init_script(WATCH_POLICY)
        if who:
            context.add_init_script(NAMED.replace("WHO", json.dumps(who)))
        page = context.new_page()
        watch.attach(page)
        pages.append(page)
        page.watch = watch
        page.goto(server.address if token else server.url)
        if at != "next":
            page.goto(f"{server.url}/#/{at}")
        page.locator("main h1:visible").wait_for()
        if token:  # before it knows what has happened so far, a page tells no news
            page.locator("main[data-up-to]").wait_for()
        return page

    yield open_page
    for page in pages:
        watch.trouble += [f"policy: {line}" for line in page.evaluate("window.stopped")]
    for context in contexts:
        context.close()
    assert not watch.trouble


@pytest.fixture
def shot():
    """Keep a picture of a page in test-output/, for people to look at."""
    SHOTS.mkdir(exist_ok=True)

    def keep(page, name: str, *, full: bool = False) -> None:
        page.screenshot(path=SHOTS / f"{name}.png", full_page=full)

    return keep
