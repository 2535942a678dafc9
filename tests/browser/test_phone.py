"""On a phone nothing runs off the side, and everything is large enough for a thumb."""

from __future__ import annotations

import pytest

from tests.browser.places import told
from tests.browser.tools import expect, go, overflow
from tests.marks import slow

VIEWS = ("next", "progress", "pool", "individuals", "history")

SMALL = """() => [...document.querySelectorAll("a, button, input, textarea, summary")]
  .filter((node) => node.checkVisibility() && !node.closest(".unseen, .skip, p"))
  .map((node) => [node.textContent.trim().slice(0, 30) || node.id, node.getBoundingClientRect()])
  .filter(([, box]) => box.width < 24 || box.height < 24)
  .map(([text, box]) => `${text}: ${box.width} x ${box.height}`)"""


@pytest.mark.parametrize("dark", [False, *slow(True)], ids=["light", "dark"])
def test_every_view_fits_a_phone(standing, visit, shot, dark):
    page = visit(standing, phone=True, dark=dark)
    for view in VIEWS:
        go(page, view)
        assert overflow(page) <= 0, view
        assert page.evaluate(SMALL) == [], view
        shot(page, f"phone-{view}{'-dark' if dark else ''}", full=view == "progress")
        if view == "progress":  # names at the ends of lines would leave no room for the lines
            legend = page.locator(".panel").first.locator("svg .role-legend-label")
            expect(legend).to_have_text(["forecast error", "same for everyone", "uncertainty"])
    page.goto(f"{standing.url}/#/pool/set/0")
    page.locator("dialog tbody tr").first.wait_for()
    assert page.get_by_role("dialog").get_by_role("heading", level=2).bounding_box()["height"] > 20
    assert page.evaluate(SMALL) == []
    assert overflow(page, "document.querySelector('dialog')") <= 0
    shot(page, f"phone-inside{'-dark' if dark else ''}")


@pytest.mark.slow
def test_a_set_is_claimed_and_answered_with_a_thumb(server, visit, shot):
    page = visit(server, phone=True)
    page.get_by_role("button", name="Ask for me").tap()
    mine = page.get_by_role("region", name="Yours").locator(".card")
    name = mine.locator("h3").inner_text()
    field = mine.get_by_label("Measured total")
    assert field.get_attribute("inputmode") == "decimal"  # a keyboard with digits
    field.fill(str(server.place.totals[name]))
    shot(page, "phone-answer")
    mine.get_by_role("button", name="Save answer").tap()
    expect(page.get_by_text("13 of 30 sets measured")).to_be_visible()
    assert told(server.place)[name] == server.place.totals[name]
