"""The report in a real browser: from a file, with nothing but itself."""

from __future__ import annotations

import pytest

from sumwise.report import study_page
from tests.browser import PATIENCE
from tests.browser.conftest import Watch
from tests.browser.test_access import ARRIVED
from tests.marks import slow

DRAWN = "[...document.querySelectorAll('.vega-embed svg.marks')].length"
SCREENS = 2 * 900


@pytest.fixture(scope="module")
def report(standing, tmp_path_factory):
    import sumwise as sw

    with sw.open_study(standing.place.path) as study:
        return study_page.write(study, tmp_path_factory.mktemp("report") / "report.html")


def opened(chromium, report, width=1280, dark=False):
    light = "dark" if dark else "light"
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=light)
    watch = Watch()
    watch.attach(page)
    page.set_default_timeout(PATIENCE)
    page.goto(report.as_uri())
    page.wait_for_function(f"{DRAWN} === 1")
    return page, watch


def quiet(watch) -> bool:
    """Whether the file was all that was asked for, and nothing went wrong."""
    return len(watch.requests) == 1 and all("file://" in each for each in watch.trouble)


@pytest.mark.parametrize("dark", [False, *slow(True)], ids=["light", "dark"])
def test_two_screens_come_first_and_the_rest_is_drawn_when_it_is_opened(
    chromium, report, axe, dark
):
    page, watch = opened(chromium, report, dark=dark)
    top = "document.querySelector('h2.appendix').getBoundingClientRect().top"
    assert page.evaluate(top) < SCREENS
    figures = page.locator("figure").count()
    assert figures > 1
    for summary in page.locator("summary:not(.vega-embed summary)").all():
        summary.click()
    page.wait_for_function(f"{DRAWN} === {figures}")
    narrow = "[...document.querySelectorAll('svg.marks')].filter((svg) => svg.clientWidth < 300)"
    assert page.evaluate(f"{narrow}.length") == 0
    page.evaluate(axe)
    page.evaluate(ARRIVED)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in serious] == []
    assert quiet(watch)
    page.close()


def test_wide_tables_scroll_in_their_frame_on_a_phone(chromium, report):
    page, watch = opened(chromium, report, width=390)
    for summary in page.locator("summary:not(.vega-embed summary)").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    table = page.get_by_role("region", name="Every answer")
    assert table.evaluate("(box) => box.scrollWidth > box.clientWidth")
    why = page.get_by_role("region", name="What to ask next").locator("td:last-child").first
    assert why.evaluate("(cell) => cell.clientWidth") > 190
    assert quiet(watch)
    page.close()


def test_a_long_outcome_leaves_room_for_the_chart_on_a_phone(chromium, tmp_path):
    import sumwise as sw

    sets = sw.Sets.from_arrays([[[float(a)]] for a in range(4)])
    with sw.create_study(tmp_path / "a.db", sets, outcome="W" * 80, seed=0) as study:
        study.tell_many([0, 1, 2], [1.0, 2.5, 3.0])
        written = study_page.write(study, tmp_path / "report.html")
    page, _ = opened(chromium, written, width=390)
    longest = "Math.max(...[...document.querySelectorAll('.role-axis-title text')].map((t) => "
    assert page.evaluate(f"{longest}t.getBBox().width))") < 0.65 * 390
    page.close()


def test_long_names_of_sets_leave_the_title_inside_the_chart_on_a_phone(chromium, tmp_path):
    import sumwise as sw

    names = [f"the district of the upper valley {a}" for a in range(4)]
    sets = sw.Sets.from_arrays([[[float(a)]] for a in range(4)], ids=names)
    with sw.create_study(tmp_path / "a.db", sets, outcome="pass rate", seed=0) as study:
        study.tell_many(names[:3], [1.0, 2.5, 3.0])
        written = study_page.write(study, tmp_path / "report.html")
    page, _ = opened(chromium, written, width=390)
    ends = "(e) => e.getBoundingClientRect().right"
    title = page.locator("svg.marks .role-title-text text").evaluate(ends)
    assert title <= page.locator("figure").first.evaluate(ends)
    page.close()


def test_what_is_closed_is_not_printed(chromium, report):
    page, _ = opened(chromium, report)
    page.emulate_media(media="print")
    assert page.get_by_role("heading", name="At a glance").is_visible()
    assert not page.get_by_role("heading", name="Appendix").is_visible()
    assert not page.get_by_role("heading", name="Every answer").is_visible()
    page.emulate_media(media="screen")
    page.get_by_role("heading", name="Every answer").click()
    page.emulate_media(media="print")
    assert page.get_by_role("region", name="Every answer").is_visible()
    assert page.get_by_role("heading", name="Appendix").is_visible()
    page.close()
