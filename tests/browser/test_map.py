"""A map on the page: hover says what is predicted, a click opens the set."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import shapely

import sumwise as sw
from tests.browser.places import TOWNS, Place
from tests.browser.tools import expect, go

NAMES = TOWNS[:12]


def begin(path, told=5):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"town": np.repeat(NAMES, 3), "a": rng.normal(size=36)})
    sets = sw.Sets.from_frame(frame, by="town", x=["a"])
    shapes = [
        {"type": "Feature", "properties": {"name": name}, "geometry": square(i)}
        for i, name in enumerate([*NAMES, "<b>nowhere</b>"])
    ]
    known = {"type": "FeatureCollection", "features": shapes}
    options = {"model": sw.AggregateRegressor("linear"), "outcome": "pass rate", "unit": "points"}
    with sw.create_study(path, sets, map=known, map_id="name", **options) as study:
        for i, name in enumerate(NAMES[:told]):
            study.tell(name, 30.0 + i)
        study.claim(NAMES[-1], by="ann")
    return Place(path, {})


def square(i):
    x, y = i % 4, 40 - i // 4
    return shapely.geometry.mapping(shapely.box(x, y, x + 1, y + 1))


@pytest.mark.parametrize(
    "look", [{}, pytest.param({"dark": True, "phone": True}, marks=pytest.mark.slow)]
)
def test_hover_says_what_is_predicted_and_a_click_opens_the_set(serve, visit, shot, tmp_path, look):
    page = visit(serve(begin(tmp_path / "map.db")), **look)
    go(page, "pool?show=picture&kind=prediction")
    shapes = page.locator(".chart svg g.mark-shape path")
    expect(shapes).to_have_count(13)
    expect(page.get_by_text("Predicted pass rate (points): mean of each set")).to_be_visible()
    shapes.nth(7).hover()
    tip = page.locator("#tip")
    expect(tip).to_contain_text(NAMES[7])
    expect(tip).to_contain_text(" ± ")
    expect(tip).to_contain_text("points")
    shapes.nth(12).hover()
    expect(tip).to_contain_text("<b>nowhere</b>")
    shot(page, f"map-prediction-{len(look)}", full=True)
    page.get_by_role("button", name="Map of status").click()
    expect(page.locator(".chart svg g.mark-text text").first).to_have_text("1")
    shapes.nth(2).hover()
    expect(tip).to_contain_text("measured: total 32 points")
    shot(page, f"map-status-{len(look)}", full=True)
    shapes.nth(2).click()
    expect(page.get_by_role("heading", name=NAMES[2])).to_be_visible()


def test_before_the_first_answer_the_map_says_that_nothing_is_predicted(serve, visit, tmp_path):
    place = begin(tmp_path / "map.db", told=0)
    page = visit(serve(place))
    go(page, "pool?show=picture&kind=prediction")
    expect(page.get_by_text("Nothing is predicted yet", exact=False)).to_be_visible()
