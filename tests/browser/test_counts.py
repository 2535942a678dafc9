"""Studies of counts and of shares: whole numbers are asked for, shown and taken."""

from __future__ import annotations

import numpy as np
import pandas as pd

import sumwise as sw
from tests.browser.places import TOWNS, Place, told
from tests.browser.test_access import problems
from tests.browser.test_means import open_answer, save
from tests.browser.tools import expect, go, overflow, settled


def areas(path, outputs="counts", answers=5) -> Place:
    """Six areas in each of a few towns, with a population and deaths in it."""
    rng = np.random.default_rng(5)
    owners = np.repeat(TOWNS[:10], 6)
    frame = pd.DataFrame({"town": owners, "age": rng.uniform(20, 80, len(owners)).round(1)})
    frame["people"] = rng.integers(200, 2000, len(frame))
    frame["deaths"] = rng.poisson(frame.people * np.exp(-7 + 0.05 * frame.age))
    by = {"exposure": "people"} if outputs == "counts" else {"trials": "people"}
    sets = sw.Sets.from_frame(frame, by="town", x=["age"], **by)
    found = frame.groupby("town").deaths.sum().astype(float).to_dict()
    with sw.create_study(path, sets, outputs=outputs, outcome="deaths", name="Deaths") as study:
        for question in [study.ask(by="bob") for _ in range(answers)]:
            study.tell(question.set_id, found[question.set_id], by="bob")
    return Place(path, found)


def test_a_study_of_counts_asks_for_a_count_and_shows_whole_numbers(
    serve, visit, shot, axe, tmp_path
):
    place = areas(tmp_path / "a.db")
    page = visit(serve(place))
    name, mine = open_answer(page)
    field = mine.get_by_label("Measured count of deaths")
    expect(field).to_have_attribute("inputmode", "numeric")
    expect(mine).to_contain_text("At least 0")
    expect(mine).to_contain_text("exposure")
    assert mine.locator("strong.figure").inner_text().replace("\u202f", "").count(".") == 0
    expect(mine.get_by_text("This measurement has known noise…")).to_have_count(0)
    for odd, words in (("12.5", "the count, not the rate"), ("-3", "A count is at least 0")):
        field.fill(odd)
        save(page, mine)
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(mine.locator(".line .problem")).to_contain_text(words)
    shot(page, "counts-next")
    assert problems(page, axe) == []
    field.fill(f"{place.totals[name]:.0f}")
    save(page, mine)
    expect(page.locator(".part.proposed .card h3").first).not_to_have_text(name)
    assert told(place)[name] == place.totals[name]
    go(page, "individuals")
    settled(page)
    rows = page.locator("section.view.individuals tbody tr")
    heads = page.locator("section.view.individuals thead").inner_text()
    assert "Rate" in heads
    for cell in rows.first.locator("td.number").all_inner_texts()[1:2]:
        assert cell.replace("\u202f", "").isdecimal(), cell
    shot(page, "counts-individuals")
    assert overflow(page) <= 0


def test_successes_beyond_the_trials_are_refused_on_the_page(serve, visit, shot, tmp_path):
    place = areas(tmp_path / "a.db", "shares")
    page = visit(serve(place))
    _, mine = open_answer(page)
    field = mine.get_by_label("Measured count of deaths")
    expect(mine).to_contain_text("trials")
    expect(mine).to_contain_text("From 0 to")
    field.fill("1000000")
    save(page, mine)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(mine.locator(".line .problem")).to_contain_text("more successes than trials")
    shot(page, "shares-next")
