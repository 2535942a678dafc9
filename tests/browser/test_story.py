"""The whole story of somebody who opens the page for the first time."""

from __future__ import annotations

import csv
import io
import re

import pyarrow.parquet as pq
import pytest

from tests.browser.places import events, schools, told
from tests.browser.tools import card, expect, proposed, settled


def answer(page, name, text):
    where = card(page, name)
    where.get_by_label("Measured total").fill(text)
    where.get_by_role("button", name="Save answer").click()


def test_a_newcomer_measures_a_study(serve, visit, shot, tmp_path):
    place = schools(tmp_path / "schools.db")
    server = serve(place)
    page = visit(server, who="")

    # the token is kept and out of sight
    expect(page).to_have_url(f"{server.url}/#/next")
    expect(page).to_have_title("Next · Michigan schools · sumwise")
    expect(page.get_by_text("0 of 30 sets measured")).to_be_visible()
    first = proposed(page)
    expect(card(page, first)).to_contain_text("not known before the first answer")
    shot(page, "newcomer")

    # a name is a label, and says so
    expect(page.get_by_text("It is a label, not a login")).to_be_visible()
    page.get_by_label("Your name").fill("Ann")
    page.get_by_role("button", name="Use this name").click()
    expect(page.get_by_label("Your name")).to_have_count(0)
    expect(page.get_by_role("banner").get_by_role("button", name="You are Ann")).to_be_visible()

    # claim, look inside, come back
    card(page, first).get_by_role("button", name="Claim").click()
    mine = page.get_by_role("region", name="Yours")
    expect(mine.get_by_role("heading", name=first, exact=True)).to_be_visible()
    expect(card(page, first).get_by_label("Measured total")).to_be_focused()
    card(page, first).get_by_role("link", name="Look inside").click()
    sheet = page.get_by_role("dialog", name=first)
    expect(sheet.get_by_text("being measured")).to_be_visible()
    size = int(re.search(r"(\d+) individual", sheet.inner_text()).group(1))
    expect(sheet.locator("tbody tr")).to_have_count(size)
    expect(sheet.locator("svg.interval")).to_have_count(0)  # nothing is known yet
    expect(page).to_have_title(re.compile(f"^{first} · Next"))
    page.keyboard.press("Escape")
    expect(sheet).to_have_count(0)
    expect(page).to_have_url(f"{server.url}/#/next")

    # what can be read in two ways is not guessed
    answer(page, first, "1,234.5")
    expect(card(page, first)).to_contain_text("for instance 1234.5")
    assert told(place) == {}
    answer(page, first, str(place.totals[first]))
    expect(page.get_by_text("1 of 30 sets measured")).to_be_visible()
    assert told(place) == {first: place.totals[first]}

    # be asked for the best, three times
    for number in (2, 3, 4):
        page.get_by_role("button", name="Ask for me").click()
        mine.locator(".card").first.wait_for()
        asked = mine.locator(".card h3").first.inner_text()
        answer(page, asked, str(place.totals[asked]))
        expect(page.get_by_text(f"{number} of 30 sets measured")).to_be_visible()

    # by now something is known of the individuals of every set
    page.locator(".part.proposed .card").first.get_by_role("link", name="Look inside").click()
    inside = page.get_by_role("dialog")
    inside.locator("tbody tr").first.wait_for()
    drawn = inside.locator("tbody svg.interval circle")
    expect(drawn).to_have_count(inside.locator("tbody tr").count())
    shot(page, "inside")
    inside.get_by_role("button", name="Close").click()
    expect(inside).to_have_count(0)

    # a slip of the finger is noticed, and may be insisted on
    slip = proposed(page)
    card(page, slip).get_by_role("button", name="Answer").click()
    answer(page, slip, "8430000")
    sure = page.get_by_role("dialog", name="Sure?")
    expect(sure).to_contain_text("You typed")
    expect(sure).to_contain_text("8\u202f430\u202f000")
    expect(sure).to_contain_text("±")
    shot(page, "sure")
    sure.get_by_role("button", name="Change it").click()
    expect(card(page, slip).get_by_label("Measured total")).to_be_focused()
    expect(card(page, slip).get_by_label("Measured total")).to_have_value("8430000")
    assert slip not in told(place)
    card(page, slip).get_by_role("button", name="Save answer").click()
    sure.get_by_role("button", name="Yes, save").click()
    expect(page.get_by_text("5 of 30 sets measured")).to_be_visible()
    assert told(place)[slip] == 8430000

    # amend it, with a reason
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_role("button", name="Answers").click()
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=slip, exact=True))
    row.get_by_role("button", name="Amend…").click()
    amend = page.get_by_role("dialog", name=f"Amend the answer for {slip}")
    amend.get_by_label("Measured total").fill(str(place.totals[slip]))
    amend.get_by_role("button", name="Save the change").click()
    expect(amend).to_contain_text("Say why, in a few words.")
    amend.get_by_label("Why is it changed?").fill("a digit too many")
    amend.get_by_role("button", name="Save the change").click()
    expect(amend).to_have_count(0)
    assert told(place)[slip] == place.totals[slip]
    assert [event.note for event in events(place, "amended")] == ["a digit too many"]

    # retract another
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name=first, exact=True))
    row.get_by_role("button", name="Retract…").click()
    retract = page.get_by_role("dialog", name=f"Retract the answer for {first}?")
    retract.get_by_label("Why").fill("measured the wrong year")
    retract.get_by_role("button", name="Retract it").click()
    expect(row).to_have_count(0)
    assert first not in told(place)

    # skip one that cannot be measured, and take that back
    page.get_by_role("link", name="Next", exact=True).click()
    skipped = proposed(page)
    card(page, skipped).get_by_role("button", name="Skip…").click()
    skip = page.get_by_role("dialog", name=f"Skip {skipped}?")
    skip.get_by_role("button", name="Skip it").click()
    expect(skip).to_contain_text("Say why")
    skip.get_by_label("Why").fill("the archive burnt down")
    skip.get_by_role("button", name="Skip it").click()
    expect(card(page, skipped)).to_have_count(0)
    page.get_by_role("link", name="History", exact=True).click()
    page.get_by_role("button", name="Skipped").click()
    expect(page.get_by_text("the archive burnt down")).to_be_visible()
    page.get_by_role("button", name=f"Unskip {skipped}").click()
    expect(page.get_by_text("No set is skipped.")).to_be_visible()

    # everything is in the history, newest first
    page.get_by_role("button", name="Everything").click()
    lines = page.locator("section.history .table:visible tbody tr")
    expect(lines.first).to_contain_text("took back the skip of")
    expect(lines.first).to_contain_text("you")
    for words in ("claimed", "answered", "amended", "retracted", "skipped"):
        expect(page.locator("section.history")).to_contain_text(words)
    shot(page, "history")


def test_progress_shows_charts_with_the_same_figures_as_tables(standing, visit, shot):
    page = visit(standing, at="progress")
    settled(page)
    expect(page.get_by_text("has noise of its own")).to_be_visible()
    for title in (
        "Forecasts",
        "Predicted and answered",
        "Information per answer",
        "What to ask next",
    ):
        panel = page.locator(".panel").filter(has=page.get_by_role("heading", name=title))
        expect(panel.locator(".chart svg.marks")).to_have_count(1)
        panel.locator("summary").click()
        assert panel.locator("tbody tr").count() >= 5
        panel.locator("summary").click()
    page.locator(".panel").first.locator(
        "svg path[aria-roledescription], svg .mark-symbol path"
    ).first.hover(force=True)
    shot(page, "progress", full=True)


@pytest.mark.slow
def test_individuals_can_be_searched_sorted_and_taken_home(standing, visit, shot):
    page = visit(standing, at="individuals")
    page.get_by_role("button", name="Predicted").click()
    expect(page.get_by_role("columnheader", name="Predicted")).to_have_attribute(
        "aria-sort", "descending"
    )
    settled(page)
    values = [float(text) for text in page.locator("tbody td:nth-child(3)").all_inner_texts()]
    assert values == sorted(values, reverse=True)
    page.get_by_label("Search by set").fill("ann arb")
    expect(page.locator("tbody tr th").first).to_have_text("Ann Arbor")
    others = page.locator("tbody tr").filter(has_not_text="Ann Arbor")
    expect(others).to_have_count(0)
    shot(page, "individuals")
    # the address remembers it
    page.reload()
    expect(page.get_by_label("Search by set")).to_have_value("ann arb")
    expect(page.locator("tbody tr th").first).to_have_text("Ann Arbor")

    rows = {}
    for kind in ("CSV", "Parquet"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Download {kind}").click()
        rows[kind] = waiting.value
    table = list(csv.reader(io.StringIO(rows["CSV"].path().read_text())))
    parquet = pq.read_table(rows["Parquet"].path())
    assert len(table) - 1 == parquet.num_rows > 100
    assert rows["CSV"].suggested_filename == "Michigan-schools-individuals.csv"


@pytest.mark.slow
def test_the_pool_is_a_table_and_a_picture(standing, visit, shot):
    page = visit(standing, at="pool")
    settled(page)
    expect(page.locator("tbody tr")).to_have_count(30)
    page.get_by_role("button", name="Answered").click()
    expect(page.locator("tbody tr")).to_have_count(12)
    page.get_by_label("Search").fill("zzz")
    expect(page.get_by_text("No set has that name.")).to_be_visible()
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="All", exact=True).click()
    expect(page.locator("tbody tr")).to_have_count(30)
    page.get_by_role("button", name="Size").click()
    settled(page)
    shot(page, "pool")
    page.get_by_role("button", name="Picture").click()
    settled(page)
    expect(page.locator(".chart svg.marks")).to_have_count(1)
    shot(page, "picture", full=True)
    dot = page.locator(".chart svg .mark-symbol[role=graphics-object] path").last
    dot.hover(force=True)
    expect(page.get_by_role("tooltip")).to_contain_text("predicted")
    dot.click(force=True)
    expect(page.get_by_role("dialog")).to_contain_text("Predicted now")  # the last are answered
    page.keyboard.press("Escape")
    page.get_by_role("button", name="By similarity").click()
    expect(page.locator(".chart svg.marks")).to_have_count(1)


@pytest.mark.slow
def test_back_and_forward_find_the_same_places(standing, visit):
    page = visit(standing)
    page.get_by_role("link", name="Pool", exact=True).click()
    expect(page.get_by_role("heading", level=1, name="Pool")).to_be_focused()
    page.get_by_role("link", name="Ann Arbor").click()
    expect(page.get_by_role("dialog", name="Ann Arbor")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("link", name="Pool", exact=True)).to_have_attribute(
        "aria-current", "page"
    )
    page.go_back()
    expect(page.get_by_role("heading", level=1, name="What to measure next")).to_be_visible()
    page.go_forward()
    page.go_forward()
    expect(page.get_by_role("dialog", name="Ann Arbor")).to_be_visible()
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert page.url.startswith(f"{standing.url}/#/pool")
    page.goto(f"{standing.url}/#/pool/set/3")  # a link that somebody sent
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
