"""The map of chosen sets: rows as values, the chart for what a reader needs."""

from __future__ import annotations

import json

import numpy as np
import pytest

from sumwise.experiments import chosen_sets
from sumwise.experiments.chosen_sets import EARLIER, NEW, REST
from sumwise.report import page

POINTS = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 1.0], [3.0, 1.0], [4.0, 2.0]])
SET_OF = np.array([0, 0, 1, 2, 3])
CHOSEN = (2, 0, 1)


def states(query, **settings):
    rows = chosen_sets.map_rows(POINTS, SET_OF, CHOSEN, queries=(query,), **settings)
    return {row["x"]: row["state"] for row in rows}


def draw(queries=(1, 2, 3)):
    rows = chosen_sets.map_rows(POINTS, SET_OF, CHOSEN, queries)
    return chosen_sets.chosen_sets_map(rows, title="a finding", subtitle=["a line"])


# --- rows ---------------------------------------------------------------------------------------


def test_at_each_query_a_set_is_new_or_chosen_earlier_or_neither():
    assert states(1) == {0.0: REST, 1.0: REST, 2.0: REST, 3.0: NEW, 4.0: REST}
    assert states(2) == {0.0: NEW, 1.0: NEW, 2.0: REST, 3.0: EARLIER, 4.0: REST}
    assert states(3) == {0.0: EARLIER, 1.0: EARLIER, 2.0: NEW, 3.0: EARLIER, 4.0: REST}


def test_every_individual_is_in_every_panel_where_it_was():
    rows = chosen_sets.map_rows(POINTS, SET_OF, CHOSEN, queries=(2, 3))
    for query in (2, 3):
        places = {(row["x"], row["y"], row["set"]) for row in rows if row["query"] == query}
        assert places == {(x, y, a) for (x, y), a in zip(POINTS.tolist(), SET_OF, strict=True)}


def test_what_is_new_comes_last_so_that_it_is_drawn_on_top():
    rows = chosen_sets.map_rows(POINTS, SET_OF, CHOSEN, queries=(3,))
    assert [row["state"] for row in rows] == [REST, EARLIER, EARLIER, EARLIER, NEW]


def test_rows_are_plain_values_that_json_can_hold():
    rows = chosen_sets.map_rows(POINTS, SET_OF, CHOSEN, queries=(2, 3))
    assert json.loads(json.dumps(rows)) == rows


def test_queries_are_counted_in_words():
    numbers = (1, 2, 3, 4, 11, 12, 13, 21, 102)
    words = ["1st", "2nd", "3rd", "4th", "11th", "12th", "13th", "21st", "102nd"]
    assert [chosen_sets.ordinal(number) for number in numbers] == words


# --- chart --------------------------------------------------------------------------------------


def test_a_panel_is_named_after_its_query_and_says_how_large_the_new_set_is():
    titles = [panel["title"] for panel in draw().to_dict()["hconcat"]]
    assert [title["text"] for title in titles] == ["1st query", "2nd query", "3rd query"]
    sizes = ["a set of 1 individual", "a set of 2 individuals", "a set of 1 individual"]
    assert [title["subtitle"] for title in titles] == sizes


def test_new_is_a_red_circle_and_earlier_a_blue_triangle():
    encoding = draw().to_dict()["hconcat"][0]["encoding"]
    shapes, colours = encoding["shape"]["scale"], encoding["color"]["scale"]
    assert shapes["domain"] == colours["domain"] == [NEW, EARLIER, REST]
    assert shapes["range"] == ["circle", "triangle-up", "circle"]
    red, green, blue = (int(colours["range"][0][i : i + 2], 16) for i in (1, 3, 5))
    assert red > 2 * max(green, blue)
    red, green, blue = (int(colours["range"][1][i : i + 2], 16) for i in (1, 3, 5))
    assert blue > max(red, green)


def test_both_axes_have_the_same_scale_in_all_panels():
    panels = draw().to_dict()["hconcat"]
    ends = [[p["encoding"][axis]["scale"]["domain"] for axis in "xy"] for p in panels]
    assert ends[0] == ends[1] == ends[2]
    (x_low, x_high), (y_low, y_high) = ends[0]
    assert x_high - x_low == pytest.approx(y_high - y_low)
    assert x_low < 0
    assert x_high > 4
    assert panels[0]["width"] == panels[0]["height"]


def test_a_map_of_one_point_can_be_drawn(tmp_path):
    rows = chosen_sets.map_rows(POINTS[:1], SET_OF[:1], (0,), queries=(1,))
    chart = chosen_sets.chosen_sets_map(rows, title="t")
    assert page.save(chart, tmp_path / "one", (".svg",))[0].stat().st_size > 1000


def test_one_legend_serves_all_panels(tmp_path):
    (path,) = page.save(draw(), tmp_path / "map", (".svg",))
    text = path.read_text()
    for words in ("a finding", "a line", NEW, EARLIER, REST):
        assert text.count(f">{words}<") == 1
