"""A study that designs its sets: who goes into a pool, lists to print, and the plate."""

from __future__ import annotations

import csv
import io
import re
import shutil

import pytest

import sumwise as sw
from tests.browser.places import Place, told
from tests.browser.test_access import problems
from tests.browser.test_keyboard import tab_to
from tests.browser.tools import card, expect, go, overflow, proposed, settled
from tests.marks import slow
from tests.web.designs import measure, sera

PAGE = re.compile(rb"/Type\s*/Page\b(?!s)")  # of a PDF


@pytest.fixture(scope="module")
def tubes(tmp_path_factory):
    """A study that pools sera, with three answers, to copy; and the level in each tube."""
    path = tmp_path_factory.mktemp("sera") / "sera.db"
    study, level = sera(path, n=120, design={"size": (3, 16)}, outcome="level", unit="IU")
    with study:
        for _ in range(3):
            measure(study, level, by="bob")
    return path, level


@pytest.fixture
def served(serve, tubes, tmp_path):
    """A server of that study."""
    return serve(Place(shutil.copy(tubes[0], tmp_path / "sera.db"), tubes[1]))


def members_of(box):
    """Who goes in, unfolded if they are folded."""
    if box.locator(".members summary").count():
        box.locator(".members summary").click()
    return box.locator(".members li bdi").all_inner_texts()


def test_a_pool_is_claimed_printed_and_answered_by_keyboard(served, visit, shot):
    page = visit(served)
    expect(page.get_by_text("3 pools measured · 0 being measured")).to_be_visible()
    name = proposed(page)
    first = page.locator(".part.proposed .card").first
    good = r"Reaches at least \d+ % of what any pool could teach"
    expect(first).to_contain_text(re.compile(good))
    shown = members_of(first)
    expect(first.get_by_role("button")).to_have_count(1)  # it can be claimed, and nothing else yet
    tab_to(page, f"Claim {name}")
    page.keyboard.press("Enter")
    mine = page.get_by_role("region", name="Yours")
    expect(mine.get_by_label("Measured total")).to_be_focused()
    assert members_of(card(page, name)) == shown
    page.get_by_role("button", name="Ask for me").click()
    expect(mine.locator(".card")).to_have_count(2)
    with sw.open_study(served.place.path) as study:
        pools, at = study.pools, study.sets.position(name)
        assert [claim.by for claim in study.claims] == ["ann", "ann"]
        claimed = [claim.set_id for claim in study.claims]
    assert list(pools[name]) == shown

    # lists for paper: a sheet for each pool, without the page around them
    mine.get_by_role("link", name="Lists to print").click()
    sheets = page.locator("article.list")
    expect(sheets).to_have_count(2)
    rows = sheets.first.locator("tbody tr")
    assert rows.locator("th").all_inner_texts() == shown
    assert rows.first.locator(".tick").count() == 1
    expect(sheets.first).to_contain_text("Signature")
    code = sheets.first.get_by_role("img", name=f"Code of the address where {name} is answered")
    assert code.evaluate("node => node.complete && node.naturalWidth > 0")
    address = f"{served.url}/#/next/set/{at}"
    expect(sheets.first).to_contain_text(f"Type it at {address}")
    assert len(PAGE.findall(page.pdf(format="A4"))) == 2
    page.emulate_media(media="print")
    expect(page.locator("header.top")).to_be_hidden()
    expect(page.get_by_role("button", name="Print")).to_be_hidden()
    page.emulate_media(media="screen")
    shot(page, "lists", full=True)

    with page.expect_download() as download:
        page.get_by_role("button", name="Plate layout (CSV)").click()
    table = [*csv.DictReader(io.StringIO(download.value.path().read_text()))]
    asked = [(pool, tube) for pool in claimed for tube in pools[pool]]
    assert [(row["pool"], row["individual"]) for row in table] == asked
    assert [row["well"] for row in table][:9] == [*(f"{row}1" for row in "ABCDEFGH"), "A2"]

    # what the code holds
    page.goto(address)
    sheet = page.get_by_role("dialog", name=name)
    total = round(sum(served.place.totals[tube] for tube in shown), 2)
    sheet.get_by_label("Measured total").fill(str(total))
    sheet.get_by_role("button", name="Save answer").click()
    expect(sheet.locator(".badge.answered")).to_be_visible()
    assert told(served.place)[name] == total
    page.keyboard.press("Escape")
    expect(page.get_by_text("4 pools measured · 1 being measured")).to_be_visible()


@pytest.mark.parametrize("look", slow("light", "dark", "phone"))
def test_axe_finds_nothing_serious_about_pools(served, visit, shot, axe, look):
    with sw.open_study(served.place.path) as study:
        asked = [study.ask(by="ann"), study.ask(by="bob")]
        study.skip("S001", by="bob", note="tube broken")
        at = study.sets.position(asked[0].set_id)
    page = visit(served, dark=look == "dark", phone=look == "phone")
    for view in ("next", "lists?of=all", "pool", "individuals", "history", f"lists?sets={at}"):
        go(page, view)
        if view == "next":
            for summary in page.locator(".members summary").all():
                summary.click()
        if view.startswith("lists"):
            page.locator("article.list").first.wait_for()
        shot(page, f"pools-{look}-{re.sub('[?=]', '-', view)}", full=view == "next")
        assert problems(page, axe) == [], view
        assert overflow(page) <= 0, view
    page.goto(f"{served.url}/#/pool/set/{at}")
    page.locator("dialog tbody tr").first.wait_for()
    shot(page, f"pools-{look}-inside")
    assert problems(page, axe) == []


@pytest.mark.slow
def test_pools_and_individuals_are_looked_up_and_set_aside(served, visit, shot):
    page = visit(served, at="pool")
    expect(page.get_by_role("heading", level=1, name="Pools")).to_be_visible()
    expect(page.locator("tbody tr")).to_have_count(3)
    expect(page.get_by_role("button", name="Change")).to_have_count(0)
    with sw.open_study(served.place.path) as study:
        pools = study.pools
    tube = pools["pool 2"][0]
    page.get_by_role("searchbox").fill(tube)
    expect(page.locator("tbody th a")).to_have_text(["pool 2"])
    go(page, "individuals")
    page.get_by_role("searchbox").fill(tube)
    page.get_by_role("link", name=tube).click()
    sheet = page.get_by_role("dialog", name=tube)
    expect(sheet.get_by_role("link", name="pool 2")).to_be_visible()
    expect(sheet.get_by_label("Measured total")).to_have_count(0)
    sheet.get_by_role("button", name="Set aside…").click()
    why = page.get_by_role("dialog", name=f"Set aside {tube}?")
    why.get_by_label("Why").fill("empty")
    why.get_by_role("button", name="Set it aside").click()
    expect(sheet.locator(".badge.skipped")).to_be_visible()
    shot(page, "pools-individual")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile(r"#/individuals(\?|$)"))
    go(page, "progress")
    expect(page.locator(".view.progress .lead")).to_contain_text("1 set aside")
    go(page, "history?show=skipped")
    expect(page.get_by_role("rowheader", name=tube)).to_be_visible()


@pytest.mark.slow
def test_a_pool_that_was_designed_anew_meanwhile_says_so(served, visit):
    page = visit(served)
    name = proposed(page)
    settled(page)
    former = members_of(page.locator(".part.proposed .card").first)
    page.route("**/api/next?*", lambda route: route.abort())  # the page does not hear of it
    with sw.open_study(served.place.path) as study:
        for tube in former[:2]:
            study.skip(tube, by="bob")
    page.locator(".part.proposed .card").first.get_by_role("button", name="Claim").click()
    expect(page.locator("#notices")).to_contain_text("has been designed again")
    with sw.open_study(served.place.path) as study:
        assert not {*former[:2]} & {*study.pools[name]}


@pytest.mark.slow
def test_when_no_pool_can_be_designed_any_more(serve, visit, shot, tmp_path):
    study, level = sera(tmp_path / "sera.db", n=6, design={"size": 3})
    with study:
        for _ in range(2):
            measure(study, level)
    page = visit(serve(Place(tmp_path / "sera.db", level)))
    expect(page.get_by_text("Every individual is used.")).to_be_visible()
    expect(page.get_by_text("6 of 6 individuals used")).to_be_visible()
    shot(page, "pools-finished")
