"""The server goes away and comes back; what was typed is still there, and counts once."""

from __future__ import annotations

import pytest

import sumwise as sw
from tests.browser.places import events, told
from tests.browser.tools import card, expect, proposed

DOWN = "The server does not answer."


def begin(page):
    """Start typing an answer for the first proposal."""
    name = proposed(page)
    where = card(page, name)
    where.get_by_role("button", name="Note").click()
    where.get_by_label("Note (optional)").fill("from the yearbook")
    expect(where.get_by_label("Known noise")).to_be_hidden()  # few need it
    where.get_by_label("Measured total").fill("32")
    return name, where


def test_a_server_killed_and_restarted_in_the_middle(process, visit, shot):
    page = visit(process)
    name, where = begin(page)
    process.kill()
    expect(page.get_by_text(DOWN).first).to_be_visible()
    field = where.get_by_label("Measured total")
    field.press_sequentially("7.5")
    where.get_by_role("button", name="Save answer").click()
    expect(where).to_contain_text("Not saved: the server does not answer.")
    shot(page, "offline")
    process.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(field).to_have_value("327.5")

    page.reload()  # the draft survives that too, and the token is still good
    expect(where.get_by_label("Measured total")).to_have_value("327.5")
    expect(where.get_by_label("Note (optional)")).to_have_value("from the yearbook")
    where.get_by_label("Measured total").fill(str(process.place.totals[name]))
    where.get_by_role("button", name="Save answer").click()
    expect(page.get_by_text("13 of 30 sets measured")).to_be_visible()
    assert told(process.place)[name] == process.place.totals[name]
    page.reload()
    page.locator(".card").first.wait_for()
    expect(page.get_by_text("No longer proposed")).to_be_hidden()  # once it is saved, it is gone


@pytest.mark.slow
def test_pressing_save_twice_is_one_answer(server, visit):
    page = visit(server)
    name, where = begin(page)
    where.get_by_label("Measured total").fill(str(server.place.totals[name]))
    where.get_by_role("button", name="Save answer").dblclick()
    expect(page.get_by_text("13 of 30 sets measured")).to_be_visible()
    assert [event.set_id for event in events(server.place, "told")].count(name) == 1


@pytest.mark.slow  # without a browser it is quick, in tests/web/test_api
def test_an_answer_whose_acknowledgement_was_lost_is_sent_again_unharmed(server, visit):
    page = visit(server)
    name, where = begin(page)

    def lose(route):
        route.fetch()  # the server keeps it, and nobody hears of that
        route.abort()

    page.route("**/api/answers", lose)
    where.get_by_label("Measured total").fill(str(server.place.totals[name]))
    where.get_by_role("button", name="Save answer").click()
    expect(where).to_contain_text("Not saved: the server does not answer.")
    page.unroute("**/api/answers")
    where.get_by_role("button", name="Save answer").click()
    expect(where).to_have_count(0)
    assert [event.set_id for event in events(server.place, "told")].count(name) == 1


@pytest.mark.slow
def test_a_draft_for_a_set_that_is_no_longer_proposed_is_not_lost(server, visit, shot):
    page = visit(server)
    name, where = begin(page)
    with sw.open_study(server.place.path) as study:
        study.skip(name, by="bob", note="no records")
    page.reload()
    expect(page.get_by_role("heading", name="No longer proposed")).to_be_visible()
    expect(where).to_contain_text("Skipped by bob meanwhile.")
    expect(where.get_by_label("Measured total")).to_have_value("32")
    shot(page, "draft")
    where.get_by_role("button", name="Cancel").click()
    page.reload()
    page.locator(".card").first.wait_for()
    expect(where).to_have_count(0)


@pytest.mark.slow
def test_the_page_opens_by_itself_when_the_server_comes_up_later(process, visit):
    page = visit(process)
    page.locator(".card").first.wait_for()
    process.kill()
    expect(page.get_by_text(DOWN).first).to_be_visible()
    page.get_by_role("link", name="Pool", exact=True).click()  # a view that was never loaded
    page.wait_for_timeout(300)
    process.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("section.pool tbody tr").first).to_be_visible()
