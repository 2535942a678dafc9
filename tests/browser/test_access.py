"""axe-core finds nothing serious on any view in either light, and tokens do what they should."""

from __future__ import annotations

import pytest

import sumwise as sw
from tests.browser.places import schools
from tests.browser.tools import expect, go, settled
from tests.marks import slow

VIEWS = (
    "next",
    "progress",
    "pool",
    "pool?show=picture",
    "individuals",
    "history",
    "history?show=answers",
)

# what slides in is half transparent until it has arrived, and has less contrast until then
ARRIVED = """() => Promise.all(document.getAnimations()
    .filter((each) => each.effect.getComputedTiming().endTime !== Infinity)
    .map((each) => each.finished.catch(() => null)))"""


def problems(page, axe) -> list[str]:
    # our content policy rightly keeps scripts out that are not the page's own; the browser's own
    # evaluation is not subject to it
    page.evaluate(axe)
    settled(page)
    page.evaluate(ARRIVED)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{each['impact']} {each['id']}: {[node['html'][:160] for node in each['nodes'][:4]]}"
        for each in found["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("dark", [False, *slow(True)], ids=["light", "dark"])
def test_axe_finds_nothing_serious(standing, visit, shot, axe, dark):
    page = visit(standing, dark=dark)
    light = "dark" if dark else "light"
    for view in VIEWS:
        go(page, view)
        if view == "next":
            page.locator(".part.proposed").get_by_role("button", name="Note").first.click()
        shot(page, f"{light}-{view.replace('?', '-')}", full=view == "progress")
        assert problems(page, axe) == [], view

    page.goto(f"{standing.url}/#/pool/set/4")
    page.locator("dialog tbody tr").first.wait_for()
    shot(page, f"{light}-inside")
    assert problems(page, axe) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Help").click()
    shot(page, f"{light}-help")
    assert problems(page, axe) == []


@pytest.mark.slow
def test_axe_finds_nothing_serious_in_questions_and_without_a_token(standing, visit, shot, axe):
    page = visit(standing, token=False)
    page.locator(".card").first.wait_for()
    shot(page, "readonly")
    assert problems(page, axe) == []
    page = visit(standing)
    card = page.locator(".part.proposed .card").first
    card.get_by_role("button", name="Skip…").click()
    page.get_by_role("button", name="Skip it").click()
    shot(page, "skip")
    assert problems(page, axe) == []
    page.keyboard.press("Escape")
    card.get_by_role("button", name="Answer").click()
    card.get_by_label("Measured total").fill("1,234")
    card.get_by_role("button", name="Save answer").click()
    expect(card.get_by_label("Measured total")).to_have_attribute("aria-invalid", "true")
    shot(page, "ambiguous")
    assert problems(page, axe) == []


def test_without_a_token_one_can_look_and_paste_it(server, visit):
    page = visit(server, token=False)
    page.locator(".card").first.wait_for()
    expect(page.get_by_text("You can look, but not write")).to_be_visible()
    expect(page.get_by_role("button", name="Claim")).to_have_count(0)
    expect(page.get_by_role("button", name="Ask for me")).to_have_count(0)
    page.get_by_label("Token").fill(server.address)
    page.get_by_role("button", name="Use this token").click()
    expect(page.locator("#banner")).to_be_hidden()
    page.get_by_role("button", name="Ask for me").click()
    expect(page.get_by_role("region", name="Yours").locator(".card")).to_have_count(1)
    page.reload()
    expect(page.get_by_role("button", name="Ask for me")).to_be_visible()


@pytest.mark.slow
def test_a_server_for_others_shows_nothing_without_a_token(serve, visit, shot, tmp_path):
    server = serve(schools(tmp_path / "schools.db", answers=5), host="0.0.0.0")
    page = visit(server, token=False)
    expect(page.get_by_text("You need a token to see this study.")).to_be_visible()
    shot(page, "locked")
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Use this token").click()
    expect(page.get_by_text("does not accept this page's token")).to_be_visible()
    page.get_by_label("Token").fill(server.address)
    page.get_by_role("button", name="Use this token").click()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.get_by_text("5 of 30 sets measured")).to_be_visible()
    go(page, "individuals")
    with page.expect_download() as waiting:  # which a plain link could not do
        page.get_by_role("button", name="Download CSV").click()
    assert waiting.value.path().stat().st_size > 1000
    go(page, "progress")
    with sw.open_study(server.place.path) as study:  # and changes arrive
        name = study.ask(by="bob").set_id
    expect(page.locator("#notices")).to_contain_text(f"bob claimed {name}.")


LEAVE = """addEventListener("DOMContentLoaded", () => { location.hash = "#/pool" })"""


def test_a_page_that_moves_on_while_it_starts_keeps_its_token(server, visit):
    first = visit(server, token=False)
    first.context.add_init_script(LEAVE)
    page = first.context.new_page()
    page.goto(server.address)
    expect(page.locator("section.view.pool h1")).to_be_visible()
    page.locator("main[data-up-to]").wait_for()
    expect(page.locator("body")).not_to_have_class("readonly")
    page.get_by_role("button", name="Change", exact=True).click()
    expect(page.get_by_role("button", name="Let them join")).to_be_visible()


def test_a_wrong_token_is_noticed_at_once(server, visit):
    page = visit(server, token=False)
    page.goto(f"{server.url}/#token=wrong")
    expect(page).to_have_url(f"{server.url}/#/next")
    expect(page.get_by_text("does not accept this page's token")).to_be_visible()
    expect(page.locator(".part.proposed .card").first).to_be_visible()  # anyone may look


def test_a_token_that_is_taken_back_is_noticed_and_nothing_typed_is_lost(server, visit, person):
    page = visit(server, token=False)
    page.goto(f"{server.url}/#token={person(server, 'carol')}")
    page.locator("main[data-up-to]").wait_for()
    card = page.locator(".part.proposed .card").first
    card.get_by_role("button", name="Answer").click()
    card.get_by_label("Measured total").fill("123")
    person(server, "carol", revoke=True)
    card.get_by_role("button", name="Save answer").click()
    expect(page.get_by_text("does not accept this page's token")).to_be_visible()
    page.get_by_label("Token").fill(server.address.partition("#token=")[2])
    page.get_by_role("button", name="Use this token").click()
    expect(page.locator("#banner")).to_be_hidden()
    expect(card.get_by_label("Measured total")).to_have_value("123")


def test_who_has_a_token_of_their_own_writes_under_that_name(server, visit, person):
    page = visit(server, who="mallory", token=False)
    page.goto(f"{server.url}/#token={person(server, 'carol')}")
    expect(page.locator("#who")).to_have_text("You are carol")
    page.locator("#who").click()
    expect(page.get_by_text("This page's token is for carol")).to_be_visible()
    page.keyboard.press("Escape")
    with page.expect_request(lambda request: request.method == "POST") as asking:
        page.get_by_role("button", name="Ask for me").click()
    expect(page.get_by_role("region", name="Yours").locator(".card")).to_have_count(1)
    nonce = asking.value.headers["authorization"].split(":")[2]  # the server has proved itself
    assert len([url for url in page.watch.requests if url.endswith(f"&nonce={nonce}")]) == 1
    with sw.open_study(server.place.path) as study:
        assert [claim.by for claim in study.claims] == ["carol"]


def test_a_token_for_reading_shows_everything_and_writes_nothing(serve, visit, person, place):
    server = serve(place, closed=True)
    page = visit(server, token=False)
    expect(page.get_by_text("You need a token to see this study.")).to_be_visible()
    page.goto(f"{server.url}/#token={person(server, 'carol', writes=False)}")
    expect(page.get_by_text("this page's token is for reading only")).to_be_visible()
    page.locator(".part.proposed .card").first.wait_for()
    expect(page.get_by_role("button", name="Ask for me")).to_have_count(0)
    go(page, "individuals")
    with page.expect_download() as waiting:
        page.get_by_role("button", name="Download CSV").click()
    assert waiting.value.path().stat().st_size > 1000
    go(page, "progress")
    page.locator("main[data-up-to]").wait_for()
    with sw.open_study(place.path) as study:  # and changes arrive
        name = study.ask(by="bob").set_id
    expect(page.locator("#notices")).to_contain_text(f"bob claimed {name}.")
