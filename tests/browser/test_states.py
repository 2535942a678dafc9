"""Nothing yet, nothing left, and numbers in every hand."""

from __future__ import annotations

import pytest

import sumwise as sw
from tests.browser.places import TOWNS, Place, schools
from tests.browser.tools import expect, go
from tests.studies import with_wrong_total

VIEWS = ("next", "progress", "pool", "individuals", "history")


@pytest.mark.slow
def test_before_the_first_answer(serve, visit, shot, tmp_path):
    server = serve(schools(tmp_path / "new.db"))
    page = visit(server)
    for view in VIEWS:
        go(page, view)
        shot(page, f"empty-{view}", full=True)
    go(page, "history?show=answers")
    expect(page.get_by_text("Nothing is measured yet.", exact=True)).to_be_visible()
    go(page, "individuals")
    expect(page.get_by_text("appear here after the first answer")).to_be_visible()
    go(page, "progress")
    assert (
        not any(url.endswith("vega.js") for url in page.watch.requests)
        or page.locator(".chart svg.marks").count()
    )


@pytest.mark.slow
def test_when_every_set_is_measured(serve, visit, shot, tmp_path):
    place = schools(tmp_path / "done.db", answers=6, names=TOWNS[:6])
    server = serve(place)
    page = visit(server)
    expect(page.get_by_text("Every set is measured.")).to_be_visible()
    expect(page.get_by_role("button", name="Ask for me")).to_be_hidden()
    shot(page, "finished-next")
    page.get_by_role("link", name="See what is predicted").click()
    expect(page.get_by_role("heading", level=1, name="Individuals")).to_be_visible()
    go(page, "progress")
    shot(page, "finished-progress", full=True)


@pytest.mark.slow
def test_costs_what_was_spent_and_whether_to_stop(serve, visit, shot, tmp_path):
    wishes = {"strategy": "IVR", "cost": 12.5, "enough": 1e6}
    server = serve(schools(tmp_path / "costs.db", answers=4, **wishes))
    page = visit(server)
    expect(page.get_by_text("50 spent")).to_be_visible()
    card = page.locator(".part.proposed .card").first
    expect(card.get_by_text("costs 12.5", exact=False).first).to_be_visible()
    expect(card.get_by_text("Compared, for the same cost", exact=True)).to_be_visible()
    shot(page, "costs-next")
    card.get_by_role("button", name="Claim").click()
    expect(page.locator(".part.mine .card").get_by_text("costs 12.5", exact=False)).to_be_visible()
    go(page, "progress")
    advice = page.locator(".words.status p").first
    expect(advice).to_contain_text("You may stop")
    expect(page.get_by_text("You may stop")).to_have_count(1)
    expect(page.get_by_text("Answers so far have cost 50;")).to_be_visible()
    shot(page, "costs-progress")


@pytest.mark.slow
def test_an_answer_to_check_stands_on_top_of_progress(serve, visit, tmp_path):
    with_wrong_total(tmp_path / "wrong.db").close()
    page = visit(serve(Place(tmp_path / "wrong.db", {})))
    go(page, "progress")
    first = page.locator(".words.status p").first
    expect(first).to_contain_text("Check set 1 first: it is")
    expect(page.get_by_text("Check set 1 first")).to_have_count(1)
    expect(page.locator(".words.status")).not_to_contain_text("3 of 6 sets measured")
    first.get_by_role("link", name="Look at it").click()
    expect(page.get_by_role("heading", name="set 1")).to_be_visible()
    expect(page.get_by_role("button", name="Amend…")).to_be_visible()


@pytest.mark.slow
def test_without_costs_nothing_is_said_of_them(serve, visit, tmp_path):
    page = visit(serve(schools(tmp_path / "plain.db", answers=4)))
    expect(page.locator(".part.proposed .card").first).to_be_visible()
    expect(page.get_by_text("spent")).to_have_count(0)
    expect(page.get_by_text("costs")).to_have_count(0)
    expect(page.get_by_text("Compared with the next best", exact=True).first).to_be_visible()


@pytest.mark.slow
def test_when_the_rest_is_claimed_or_skipped(serve, visit, tmp_path):
    place = schools(tmp_path / "few.db", answers=2, names=TOWNS[:4])
    server = serve(place)
    with sw.open_study(place.path) as study:
        first = study.ask(by="bob").set_id
        study.skip(study.propose(1)[0].set_id, by="bob", note="closed")
    page = visit(server)
    expect(page.get_by_text("Nothing is free right now.")).to_be_visible()
    with sw.open_study(place.path) as study:
        study.tell(first, place.totals[first])
    expect(page.get_by_text("Every set is measured or skipped.")).to_be_visible()
    page.get_by_role("link", name="See the skipped ones").click()
    expect(page.get_by_role("button", name="Unskip")).to_be_visible()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locale", "typed", "kept"), [("de-DE", "327,125", 327.125), ("en-GB", "327,5", 327.5)]
)
def test_a_decimal_comma_is_read_back_before_it_is_saved(server, visit, locale, typed, kept):
    page = visit(server, locale=locale)
    card = page.locator(".part.proposed .card").first
    name = card.locator("h3").inner_text()
    card.get_by_role("button", name="Answer").click()
    card.get_by_label("Measured total").fill(typed)
    expect(card).to_contain_text(f"Saved as {kept}")
    card.get_by_role("button", name="Save answer").click()
    saved = page.get_by_text("13 of 30 sets measured")
    sure = page.get_by_role("button", name="Yes, save")
    expect(saved.or_(sure)).to_be_visible()
    if sure.is_visible():
        sure.click()
    expect(saved).to_be_visible()
    with sw.open_study(server.place.path) as study:
        assert {answer.set_id: answer.y_bar for answer in study.answers}[name] == kept
