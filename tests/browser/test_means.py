"""Means with a name, a unit and bounds; answers of a part of a set; and a pool that changes."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from tests.browser.places import TOWNS, Place, events, told
from tests.browser.test_access import problems
from tests.browser.tools import card, expect, go, overflow, proposed, settled
from tests.marks import slow

ABOUT = {"outcome": "maths score", "unit": "points", "low": 0, "high": 100}


def pupils(path, *, answers=4, weights="mean", names=TOWNS[:10], known=None, **about) -> Place:
    """Five pupils with ids in each of a few towns."""
    rng = np.random.default_rng(3)
    owners = np.repeat(names, 5)
    frame = pd.DataFrame({"town": owners, "pupil": [f"p{n}" for n in range(len(owners))]})
    frame["hours"] = rng.uniform(0, 20, len(frame)).round(1)
    frame["score"] = (40 + 2 * frame.hours + rng.normal(0, 2, len(frame))).clip(0, 100).round(1)
    sets = sw.Sets.from_frame(frame, by="town", x=["hours"], id="pupil", weights=weights)
    found = frame.groupby("town").score.agg("mean" if weights else "sum").round(2).to_dict()
    known = None if known is None else frame.loc[frame.pupil.isin(known), ["pupil", "score"]]
    settings = {"name": "Maths", "model": sw.AggregateRegressor("linear"), "seed": 0}
    about = {**ABOUT, **about}
    with sw.create_study(path, sets, known=known, **settings, **about) as study:
        for question in [study.ask(by="bob") for _ in range(answers)]:
            study.tell(question.set_id, found[question.set_id], by="bob")
    return Place(path, found)


def open_answer(page, rank=1):
    name = proposed(page, rank)
    mine = card(page, name)
    mine.get_by_role("button", name="Answer").click()
    return name, mine


def save(page, mine):
    mine.get_by_role("button", name="Save answer").click()


@pytest.mark.parametrize("phone", [False, *slow(True)], ids=["desktop", "phone"])
def test_every_word_says_mean_with_its_name_unit_and_bounds(
    serve, visit, shot, axe, tmp_path, phone
):
    page = visit(serve(pupils(tmp_path / "a.db")), phone=phone)
    kind = "phone" if phone else "desktop"
    name, mine = open_answer(page)
    field = mine.get_by_label("Measured mean maths score (points)")
    expect(mine).to_contain_text("From 0 to 100 points")
    save(page, mine)
    expect(mine).to_contain_text("Type the measured mean first.")
    field.fill("101")
    save(page, mine)
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(mine.locator(".line .problem")).to_contain_text("so the mean is from 0 to 100")
    shot(page, f"means-impossible-{kind}")
    assert problems(page, axe) == []
    assert overflow(page) <= 0
    views = ("next", "pool", "individuals", "history", "progress")
    for view in views:
        go(page, view)
        settled(page)
        shot(page, f"means-{view}-{kind}")
        text = page.locator(f"section.view.{view}").inner_text()
        assert "total" not in text.lower(), view
        assert view in ("progress", "history") or "points" in text, view
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Help").click()
    helped = page.locator("dialog").inner_text()
    assert "total" not in helped
    assert "only a set's mean maths score can be measured" in helped
    assert "The value of each individual is from 0 to 100 points." in helped
    shot(page, f"means-help-{kind}")
    page.keyboard.press("Escape")
    go(page, "next")
    card(page, name).get_by_label("Measured mean").fill("61.5")
    save(page, card(page, name))
    yes = page.get_by_role("button", name="Yes, save")
    saved = page.locator("#notices").get_by_text(f"Saved 61.5 points for {name}.")
    expect(saved.or_(yes).first).to_be_visible()
    if yes.is_visible():
        expect(page.locator("dialog")).to_contain_text("far from the mean maths score")
        yes.click()
    expect(saved).to_be_visible()


@pytest.mark.parametrize("phone", slow(False, True), ids=["desktop", "phone"])
def test_a_share_is_scaled_up_and_can_be_amended(serve, visit, shot, axe, tmp_path, phone):
    place = pupils(tmp_path / "a.db", weights=None)
    page = visit(serve(place), phone=phone)
    kind = "phone" if phone else "desktop"
    name, mine = open_answer(page)
    expect(mine.get_by_label("Share of the set")).to_be_hidden()
    mine.get_by_text("Only part of the set answered?").click()
    share, members = mine.get_by_label("Share of the set"), mine.get_by_label("Or who answered")
    expect(mine).to_contain_text("From 0 to 500 points")
    share.fill("80")
    expect(mine).to_contain_text("From 0 to 400 points")
    members.fill("p1, p2")
    mine.get_by_label("Measured total").fill("200")
    save(page, mine)
    expect(mine).to_contain_text("Give a share or who answered, not both.")
    shot(page, f"part-form-{kind}")
    assert problems(page, axe) == []
    assert overflow(page) <= 0
    members.fill("")
    page.reload()  # what was typed is kept
    mine = card(page, name)
    expect(mine.get_by_label("Share of the set")).to_have_value("80")
    save(page, mine)
    expect(page.locator("#notices")).to_contain_text("Saved 250 points")
    assert told(place)[name] == 250
    go(page, "history?show=answers")
    row = page.locator("tbody tr").filter(has_text=name)
    expect(row).to_contain_text("from 80 % of the set")
    row.get_by_role("button", name="Amend").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Measured total")).to_have_value("200")
    expect(dialog.get_by_label("Share of the set")).to_have_value("80")
    shot(page, f"part-amend-{kind}")
    assert problems(page, axe) == []
    dialog.get_by_label("Measured total").fill("450")
    dialog.get_by_label("Why is it changed?").fill("counted again")
    dialog.get_by_role("button", name="Save the change").click()
    expect(dialog.locator(".field .problem").first).to_contain_text("from 0 to 500")
    dialog.get_by_label("Measured total").fill("210")
    dialog.get_by_role("button", name="Save the change").click()
    expect(page.locator("#notices")).to_contain_text("to 262.5 points")
    assert told(place)[name] == 262.5
    expect(row).to_contain_text("262.5")
    row.get_by_role("button", name="Amend").click()
    dialog.get_by_label("Share of the set").fill("")
    dialog.get_by_label("Why is it changed?").fill("all answered")
    dialog.get_by_role("button", name="Save the change").click()
    expect(row).not_to_contain_text("of the set")
    assert told(place)[name] == 210


def test_members_are_named_by_their_ids(serve, visit, tmp_path):
    place = pupils(tmp_path / "a.db", weights=None)
    page = visit(serve(place))
    name, mine = open_answer(page)
    mine.get_by_text("Only part of the set answered?").click()
    first = 5 * sorted_towns().index(name)
    members = mine.get_by_label("Or who answered")
    members.fill(f"p{first}, p{(first + 7) % 50}")
    mine.get_by_label("Measured total").fill("100")
    expect(mine).to_contain_text("From 0 to 200 points")
    save(page, mine)
    expect(members).to_have_attribute("aria-invalid", "true")
    expect(mine).to_contain_text("is not a member of set")
    members.fill(f"p{first}\np{first + 1}")
    save(page, mine)
    expect(page.locator("#notices")).to_contain_text("(2 of 5 individuals)")
    with sw.open_study(place.path) as study:
        assert study.answers[-1].of == (1, 2)


def sorted_towns() -> list[str]:
    return list(TOWNS[:10])


def test_what_was_known_is_no_set_to_measure(serve, visit, tmp_path):
    page = visit(serve(pupils(tmp_path / "a.db", answers=0, known=["p3", "p20"])))
    expect(page.get_by_text("0 of 10 sets measured")).to_contain_text("2 known from the start")
    expect(page.locator(".card").first).to_contain_text("points")
    go(page, "pool")
    expect(page.locator("tbody tr")).to_have_count(10)
    go(page, "individuals")
    expect(page.get_by_text("learned from 2 known from the start")).to_be_visible()


# --- the pool changes -----------------------------------------------------------------------------


@pytest.mark.parametrize("phone", [False, *slow(True)], ids=["desktop", "phone"])
def test_a_file_lets_individuals_join(serve, visit, shot, axe, tmp_path, phone):
    place = pupils(tmp_path / "a.db")
    page = visit(serve(place), phone=phone, at="pool")
    kind = "phone" if phone else "desktop"
    page.get_by_role("button", name="Change", exact=True).click()
    form = page.locator("form.change")
    expect(form.get_by_label("Column that names the set")).to_have_value("town")
    expect(form.get_by_label("Column with the id")).to_have_value("pupil")
    form.get_by_role("button", name="Let them join").click()
    expect(form).to_contain_text("Choose a file, or paste a table.")
    table = "town;pupil;lessons\nOwosso;q1;3,5\nÉvreux;q2;7,25\n".encode("latin-1")
    file = {"name": "new.csv", "mimeType": "text/csv", "buffer": table}
    form.get_by_label("CSV file").set_input_files(file)
    expect(form).to_contain_text("3 lines read as Latin-1")
    form.get_by_role("button", name="Let them join").click()
    expect(form.get_by_role("alert")).to_contain_text("the table has no column 'hours'")
    shot(page, f"change-refused-{kind}", full=True)
    assert problems(page, axe) == []
    assert overflow(page) <= 0
    form.get_by_label("Or paste the table").fill(
        table.decode("latin-1").replace("lessons", "hours")
    )
    form.get_by_label("Note").fill("a new term")
    form.get_by_role("button", name="Let them join").click()
    expect(page.locator(".changing .done")).to_contain_text("2 individuals joined 2 sets")
    expect(form.get_by_label("Or paste the table")).to_have_value("")
    shot(page, f"change-done-{kind}", full=True)
    assert problems(page, axe) == []
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.locator("tbody tr").filter(has_text="Évreux")).to_have_count(1)
    (event,) = events(place, "pool")
    assert event.by == "ann"
    assert "a new term" in event.note
    expect(page.locator("#notices")).not_to_contain_text("changed the pool")


def test_individuals_leave_and_move_and_drafts_stay(serve, visit, tmp_path):
    place = pupils(tmp_path / "a.db")
    page = visit(serve(place))
    name, mine = open_answer(page)
    mine.get_by_label("Measured mean").fill("44")
    go(page, "pool?show=change")
    form = page.locator("form.change")
    first = 5 * sorted_towns().index(name)
    form.get_by_role("button", name="Leave").click()
    form.get_by_label("Or paste the table").fill(f"pupil\np{first}\n")
    form.get_by_role("button", name="Let them leave").click()
    expect(page.locator(".changing .done")).to_contain_text("1 individual left")
    form.get_by_role("button", name="Correct", exact=True).click()
    form.get_by_label("Or paste the table").fill(f"pupil,town\np{first + 1},Alpena\n")
    form.get_by_role("button", name="Correct them").click()
    expect(page.locator(".changing .done")).to_contain_text("moved")
    go(page, "next")
    expect(card(page, name)).to_contain_text("3 individuals")
    expect(card(page, name).get_by_label("Measured mean")).to_have_value("44")


def test_without_a_token_the_pool_cannot_be_changed(serve, visit, tmp_path):
    page = visit(serve(pupils(tmp_path / "a.db")), token=False, at="pool?show=change")
    expect(page.get_by_text("To change the pool, this page needs the token.")).to_be_visible()
    expect(page.locator("form.change")).to_be_hidden()
