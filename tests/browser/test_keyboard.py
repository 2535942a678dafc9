"""Everything can be done without a mouse, and one always sees where one is."""

from __future__ import annotations

import pytest

import sumwise as sw
from tests.browser.places import told
from tests.browser.tools import card, expect, proposed

HERE = """() => {
  const node = document.activeElement;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  return {
    text: (node.ariaLabel ?? node.labels?.[0]?.textContent ?? node.textContent).trim(),
    tag: node.tagName,
    ringed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2,
    width: box.width,
    height: box.height,
    inView: box.bottom > 0 && box.top < innerHeight,
  };
}"""


def tab_to(page, text, most=40, key="Tab"):
    """Press Tab until something with this text has the focus; every stop on the way is visible."""
    for _ in range(most):
        page.keyboard.press(key)
        here = page.evaluate(HERE)
        assert here["ringed"], f"no focus ring on {here}"
        assert here["inView"], f"focus is out of sight on {here}"
        if here["text"].startswith(text):
            return here
    raise AssertionError(f"Tab does not reach {text!r}")


def test_a_set_is_claimed_answered_and_another_skipped_by_keyboard(server, visit):
    page = visit(server)
    name = page.locator(".part.proposed .card h3").first.inner_text()
    other = page.locator(".part.proposed .card h3").nth(1).inner_text()
    page.keyboard.press("Tab")
    assert page.evaluate(HERE)["text"] == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    tab_to(page, "Ask for me")
    tab_to(page, f"Claim {name}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Yours").get_by_label("Measured total")).to_be_focused()
    page.keyboard.type(str(server.place.totals[name]))
    page.keyboard.press("Enter")
    expect(page.get_by_text("13 of 30 sets measured")).to_be_visible()
    # that may be on the page before the answer is acknowledged, which moves the focus
    expect(page.get_by_role("heading", name="Proposed")).to_be_focused()
    assert told(server.place)[name] == server.place.totals[name]

    tab_to(page, f"Skip… {other}", most=60)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_label("Why")).to_be_focused()
    for _ in range(6):  # the focus goes round inside the dialog
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('dialog *, body')")
    page.keyboard.press("Escape")
    assert page.evaluate("document.querySelector('dialog')") is None  # keys pressed now are heard
    assert page.evaluate(HERE)["text"] == f"Skip… {other}"
    page.keyboard.press("Enter")
    page.keyboard.type("no records")
    tab_to(page, "Skip it")
    page.keyboard.press("Enter")
    expect(page.get_by_text("1 skipped")).to_be_visible()


FOCUSED_CARD = "document.activeElement.closest('.card')?.querySelector('h3').textContent"


def test_the_focus_stays_on_a_set_that_another_person_claims(server, visit):
    page = visit(server)
    name = proposed(page)
    tab_to(page, f"Claim {name}")
    with sw.open_study(server.place.path) as study:
        study.claim(name, by="bob")
    other = page.get_by_role("region", name="Others are measuring")
    expect(other.get_by_role("heading", name=name, exact=True)).to_be_focused()


@pytest.mark.slow  # the focus stays in the quick test before it
def test_a_late_acknowledgement_leaves_the_focus_where_it_has_gone(server, visit):
    page, held = visit(server), []
    name, other = proposed(page), proposed(page, 2)
    page.route("**/api/answers", lambda route: held.append((route, route.fetch())))
    tab_to(page, f"Claim {name}")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Yours").get_by_label("Measured total")).to_be_focused()
    page.keyboard.type(str(server.place.totals[name]))
    page.keyboard.press("Enter")
    expect(page.get_by_text("13 of 30 sets measured")).to_be_visible()  # the stream was quicker
    assert page.evaluate(FOCUSED_CARD) == name
    tab_to(page, f"Answer {other}")
    route, response = held[0]
    route.fulfill(response=response)
    expect(page.locator("#notices")).to_contain_text(f"for {name}.")
    expect(card(page, name)).to_have_count(0)
    assert page.evaluate(FOCUSED_CARD) == other


@pytest.mark.slow
def test_whoever_asks_may_type_at_once(server, visit):
    page, held = visit(server), []
    ask = page.get_by_role("button", name="Ask for me")
    ask.wait_for()
    page.route("**/api/questions", lambda route: held.append(route))
    ask.click()
    page.keyboard.type("37")  # the server is still thinking; 3 would be Pool
    expect(page.get_by_role("heading", name="What to measure next")).to_be_visible()
    held[0].continue_()
    field = page.get_by_role("region", name="Yours").get_by_label("Measured total")
    expect(field).to_be_focused()
    page.keyboard.type("6")
    expect(field).to_have_value("376")
    # and once that is over, a digit is a key again
    page.locator("h1").first.click()
    page.keyboard.press("3")
    expect(page.get_by_role("heading", level=1, name="Pool")).to_be_visible()


@pytest.mark.slow
def test_the_unlikely_question_starts_on_the_careful_answer(standing, visit):
    page = visit(standing)
    name = page.locator(".part.proposed .card h3").first.inner_text()
    tab_to(page, f"Answer {name}")
    page.keyboard.press("Enter")
    page.keyboard.type("9999999")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Change it")).to_be_focused()
    page.keyboard.press("Enter")
    expect(card(page, name).get_by_label("Measured total")).to_be_focused()
    assert name not in told(standing.place)


@pytest.mark.slow
def test_an_amendment_far_off_is_asked_about_too(standing, visit, shot):
    page = visit(standing, at="history?show=answers")
    page.get_by_role("button", name="Amend…").first.click()
    amend = page.get_by_role("dialog", name="Amend the answer")
    amend.get_by_label("Measured total").fill("9999999")
    amend.get_by_label("Why").fill("a slip")
    amend.get_by_role("button", name="Save the change").click()
    sure = page.get_by_role("dialog", name="Sure?")
    expect(sure.get_by_role("button", name="Change it")).to_be_focused()
    shot(page, "amend-sure")
    page.keyboard.press("Enter")
    expect(sure).to_have_count(0)
    expect(amend.get_by_label("Measured total")).to_have_value("9999999")  # to be changed
    assert 9999999 not in told(standing.place).values()


@pytest.mark.slow
def test_a_claimed_set_says_when_its_reason_was_given(standing, visit):
    page = visit(standing, at="pool?state=open")
    page.locator("tbody th a").first.click()
    expect(page.get_by_role("dialog")).to_contain_text("When it was asked for, ")


@pytest.mark.slow
def test_tables_are_sorted_paged_and_searched_by_keyboard(standing, visit):
    page = visit(standing, at="pool")
    page.locator("tbody tr").first.wait_for()
    page.keyboard.press("/")
    expect(page.get_by_label("Search")).to_be_focused()
    page.keyboard.type("kala")
    expect(page.locator("tbody tr")).to_have_count(1)
    tab_to(page, "Size")
    page.keyboard.press("Enter")
    expect(page.get_by_role("columnheader", name="Size")).to_have_attribute(
        "aria-sort", "descending"
    )
    page.keyboard.press("Space")
    expect(page.get_by_role("columnheader", name="Size")).to_have_attribute(
        "aria-sort", "ascending"
    )
    tab_to(page, page.locator("tbody tr th").first.inner_text())
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)


@pytest.mark.slow
def test_shortcuts_are_documented_harmless_and_can_be_switched_off(standing, visit):
    page = visit(standing)
    page.locator(".card").first.wait_for()
    page.keyboard.press("3")
    expect(page.get_by_role("heading", level=1, name="Pool")).to_be_visible()
    page.get_by_label("Search").fill("12")  # in a field they are only text
    expect(page.get_by_role("heading", level=1, name="Pool")).to_be_visible()
    page.get_by_role("heading", level=1, name="Pool").click()
    page.keyboard.press("?")
    help_ = page.get_by_role("dialog", name="How this works")
    expect(help_).to_contain_text("Next, Progress, Pool, Individuals, History")
    expect(help_.locator("dt")).to_have_text(
        ["Set", "Individual", "Expected total", "Compared with the next best", "Information"]
    )
    help_.get_by_label("Use these keys").uncheck()
    help_.get_by_role("button", name="Close").click()
    page.keyboard.press("1")
    page.wait_for_timeout(200)
    expect(page.get_by_role("heading", level=1, name="Pool")).to_be_visible()
