"""Several people at once: each sees the others, and nobody is disturbed."""

from __future__ import annotations

import pytest

import sumwise as sw
from tests.browser.places import events, told
from tests.browser.tools import card, expect, proposed


def test_two_people_see_each_other(server, visit, shot):
    ann, bob = visit(server, "ann"), visit(server, "bob")
    name = proposed(ann)
    expect(card(bob, name)).to_be_visible()
    card(ann, name).get_by_role("button", name="Claim").click()
    other = bob.get_by_role("region", name="Others are measuring")
    expect(other.get_by_role("heading", name=name, exact=True)).to_be_visible()
    expect(bob.locator("#notices")).to_contain_text(f"ann claimed {name}.")
    expect(bob.locator("#said")).to_contain_text(f"ann claimed {name}.")
    shot(bob, "others")

    card(ann, name).get_by_label("Measured total").fill(str(server.place.totals[name]))
    card(ann, name).get_by_role("button", name="Save answer").click()
    expect(bob.get_by_text("13 of 30 sets measured")).to_be_visible()
    expect(bob.locator("#notices")).to_contain_text(f"ann answered {name}.")
    expect(card(bob, name)).to_have_count(0)
    # what one has done oneself is no news
    ann.wait_for_timeout(1000)
    expect(ann.locator("#notices")).not_to_contain_text("You claimed")
    expect(ann.locator("#notices")).not_to_contain_text("You answered")


@pytest.mark.slow
def test_nobody_claims_without_a_name_unawares(server, visit, shot):
    page, bob = visit(server, ""), visit(server, "bob")
    page.get_by_role("button", name="Ask for me").click()
    who = page.get_by_role("dialog", name="Who is going to measure?")
    expect(who.get_by_label("Your name")).to_be_focused()
    shot(page, "who-first")
    who.get_by_role("button", name="Use this name").click()
    expect(who).to_contain_text("Write a name, or go on without one.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("region", name="Others are measuring")).to_have_count(0)
    assert not events(server.place, "asked")[12:]  # nothing is claimed yet

    # without a name, if that is what one wants; who gives one later finds the claim with somebody
    page.get_by_role("button", name="Ask for me").click()
    who.get_by_role("button", name="Go on without a name").click()
    mine = page.get_by_role("region", name="Claimed without a name")
    expect(mine.get_by_label("Measured total")).to_be_focused()
    name = mine.locator("h3").inner_text()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Use this name").click()
    other = page.get_by_role("region", name="Others are measuring")
    expect(other).to_contain_text("claimed by someone")

    # anybody can give it back, when asked twice
    there = card(bob, name)
    there.get_by_role("button", name="Give back").click()
    expect(bob.get_by_role("dialog")).to_contain_text("claimed by someone")
    bob.get_by_role("button", name="Give it back").click()
    expect(other).to_have_count(0)
    assert [event.by for event in events(server.place, "released")] == ["bob"]


@pytest.mark.slow
def test_news_does_not_touch_focus_caret_text_or_scroll(server, visit):
    ann, bob = visit(server, "ann"), visit(server, "bob")
    name = proposed(ann, 5)  # the last one: others come and go above it
    card(ann, name).get_by_role("button", name="Answer").click()
    field = card(ann, name).get_by_label("Measured total")
    field.fill("12345")
    field.evaluate("node => node.setSelectionRange(2, 3)")
    before = field.bounding_box()["y"]
    for _ in range(2):
        bob.get_by_role("button", name="Ask for me").click()
        bob.get_by_role("region", name="Yours").locator("h3").first.wait_for()
    expect(ann.get_by_role("region", name="Others are measuring").locator(".card")).to_have_count(2)
    expect(field).to_be_focused()
    expect(field).to_have_value("12345")
    assert field.evaluate("node => [node.selectionStart, node.selectionEnd]") == [2, 3]
    assert abs(field.bounding_box()["y"] - before) <= 1
    ann.keyboard.type("x")
    expect(field).to_have_value("12x45")


@pytest.mark.slow
def test_somebody_else_answers_what_one_is_typing(server, visit, shot):
    ann, bob = visit(server, "ann"), visit(server, "bob")
    name = proposed(ann)
    total = server.place.totals[name]
    card(ann, name).get_by_role("button", name="Answer").click()
    field = card(ann, name).get_by_label("Measured total")
    field.fill(str(total + 1))
    card(bob, name).get_by_role("button", name="Answer").click()
    card(bob, name).get_by_label("Measured total").fill(str(total))
    card(bob, name).get_by_role("button", name="Save answer").click()
    expect(card(ann, name)).to_contain_text("by bob meanwhile. What you typed is not saved yet.")
    expect(field).to_be_focused()
    expect(field).to_have_value(str(total + 1))
    shot(ann, "meanwhile")
    expect(ann.get_by_role("heading", name="Answered by bob meanwhile")).to_be_visible()
    expect(card(ann, name).locator("button.primary:visible")).to_have_text(["Discard what I typed"])
    card(ann, name).get_by_role("button", name="Save answer").click()
    expect(card(ann, name)).to_contain_text("measured already")
    assert told(server.place)[name] == total
    card(ann, name).get_by_role("button", name="Amend it…").click()
    amend = ann.get_by_role("dialog")
    expect(amend.get_by_label("Measured total")).to_have_value(str(total + 1))
    amend.get_by_label("Why").fill("read it again")
    amend.get_by_role("button", name="Save the change").click()
    expect(amend).to_have_count(0)
    assert told(server.place)[name] == total + 1
    expect(card(ann, name)).to_have_count(0)


@pytest.mark.slow
def test_changes_from_the_command_line_appear_too(server, visit):
    page = visit(server, "ann", at="history")
    page.locator("tbody tr").first.wait_for()
    with sw.open_study(server.place.path) as study:
        question = study.ask(by="carol")
    expect(page.locator("tbody tr").first).to_contain_text("carol")
    expect(page.locator("tbody tr").first).to_contain_text(question.set_id)


@pytest.mark.slow
def test_many_changes_at_once_make_one_notice(server, visit):
    page = visit(server, "ann")
    proposed(page)
    page.wait_for_timeout(1000)
    with sw.open_study(server.place.path) as study:
        study.ask(8, by="carol")
    expect(page.locator("#notices")).to_contain_text("things have happened")
    assert page.locator(".notice").count() <= 3
