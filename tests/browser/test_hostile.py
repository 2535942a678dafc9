"""Names that want to be code, turn text round or fill the page stay what they are: names."""

from __future__ import annotations

import pytest

from tests.browser.places import TOWNS, schools
from tests.browser.servers import Thread
from tests.browser.tools import expect, go, overflow
from tests.marks import slow

SCRIPT = "<script>window.hacked=1</script>"
IMAGE = '<img src=x onerror="window.hacked=1">'
LINK = "javascript:window.hacked=1//"
TEMPLATE = "{{ 7*7 }} ${window.hacked=1} {% raw %}"
TURNED = "abc\u202egnp.exe"
BLANK = "\u200b\u2060\ufeff"
LONG = "x" * 10_000
EMOJI = "👩‍👩‍👧‍👦" * 40 + "🇨🇭"
STACKED = "Z" + "\u0353\u0344\u0301" * 60 + "algo"
QUOTES = "\"'></td></tr><h1>mine</h1>"
LINES = "two\nlines\tand a tab\x07"
NAMES = [
    SCRIPT,
    IMAGE,
    LINK,
    TEMPLATE,
    TURNED,
    BLANK,
    LONG,
    EMOJI,
    STACKED,
    QUOTES,
    LINES,
    *TOWNS[:8],
]
VIEWS = (
    "next",
    "progress",
    "pool",
    "pool?show=picture",
    "individuals",
    "history",
    "history?show=answers",
)
UNHARMED = (
    "window.hacked === undefined && !document.querySelector('main script, main img, h1 ~ h1')"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    place = schools(folder / "h.db", answers=14, names=NAMES, inputs=(SCRIPT, TURNED))
    server = Thread(place).start()
    yield server
    server.stop()


@pytest.mark.parametrize("phone", [False, *slow(True)], ids=["laptop", "phone"])
def test_hostile_names_do_nothing_on_any_view(server, visit, shot, phone):
    page = visit(server, who=IMAGE, phone=phone)
    for view in VIEWS:
        go(page, view)
        assert page.evaluate(UNHARMED), view
        assert overflow(page) <= 0, view
        shot(page, f"hostile-{view.replace('?', '-')}{'-phone' if phone else ''}", full=True)
    for position in range(len(NAMES)):
        page.goto(f"{server.url}/#/pool/set/{position}")
        page.locator("dialog tbody tr").first.wait_for()
        assert page.evaluate(UNHARMED), NAMES[position]
        assert overflow(page, "document.querySelector('dialog')") <= 0
    assert "\u202e" not in page.evaluate("document.body.innerText")


@pytest.mark.slow
def test_hostile_names_in_notices_notes_and_reasons(server, visit):
    ann, bob = visit(server, who=IMAGE), visit(server, who="bob")
    ann.get_by_role("button", name="Ask for me").click()
    expect(bob.locator("#notices")).to_contain_text("onerror")
    mine = ann.get_by_role("region", name="Yours").locator(".card")
    mine.get_by_role("button", name="Skip…").click()
    ann.get_by_role("dialog").get_by_label("Why").fill(f"{SCRIPT} {TURNED} {QUOTES}")
    ann.get_by_role("button", name="Skip it").click()
    expect(bob.locator("#notices")).to_contain_text("skipped")
    for page in (ann, bob):
        go(page, "history?show=skipped")
        expect(page.locator("tbody:visible")).to_contain_text(SCRIPT)
        expect(page.locator("tbody:visible")).to_contain_text("⟨202E⟩")
        assert page.evaluate(UNHARMED)


@pytest.mark.slow
def test_a_very_long_name_is_shown_whole_on_demand(server, visit):
    page = visit(server, at=f"pool/set/{NAMES.index(LONG)}")
    sheet = page.get_by_role("dialog")
    sheet.locator("h2 bdi").wait_for()
    heading = sheet.get_by_role("heading", level=2)
    assert len(heading.inner_text()) < 200
    sheet.get_by_role("button", name="whole name").click()
    assert len(heading.locator("bdi").inner_text()) == 10_000
    assert overflow(page, "document.querySelector('dialog')") <= 0
    sheet.get_by_role("button", name="shorter").click()
    assert len(heading.inner_text()) < 200
