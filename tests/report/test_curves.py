"""Rows are checked as numbers; files for what a reader's machine needs of them."""

from __future__ import annotations

import json
import re
import struct

import numpy as np
import pytest

from sumwise.errors import SettingError
from sumwise.report import curves, theme
from sumwise.report.page import check_folder, save

ERRORS = {
    "AggMI": np.array([[5.0, 3.0], [7.0, 3.0], [6.0, 3.0]]),
    "Random": np.array([[6.0, 5.0], [6.0, 4.0], [6.0, 3.0]]),
}


def draw(**changed):
    settings = {
        "title": "a finding",
        "subtitle": ["one line", "another"],
        "x_title": "questions",
        "y_title": "error (points)",
        "reference": ("a guess", 5.5),
    }
    return curves.learning_curves(ERRORS, **(settings | changed))


def inner_spec(page: str) -> dict:
    """The chart a browser would read from the page."""
    opening = '<script type="application/json">'
    start = page.rindex(opening) + len(opening)
    return json.JSONDecoder().raw_decode(page[start:])[0]


# --- rows ---------------------------------------------------------------------------------------


def test_a_row_holds_the_mean_and_its_standard_error():
    first = curves.learning_curve_rows(ERRORS)[0]
    assert (first["strategy"], first["question"], first["runs"]) == ("AggMI", 1, 3)
    assert first["mean"] == pytest.approx(6.0)
    assert first["standard_error"] == pytest.approx(1 / np.sqrt(3))  # of 5, 7, 6
    assert first["high"] - first["low"] == pytest.approx(2 / np.sqrt(3))


def test_there_is_one_row_per_strategy_and_question_in_order():
    rows = curves.learning_curve_rows(ERRORS)
    order = [(row["strategy"], row["question"]) for row in rows]
    assert order == [("AggMI", 1), ("AggMI", 2), ("Random", 1), ("Random", 2)]


def test_one_run_has_no_standard_error_and_an_empty_band():
    (row,) = curves.learning_curve_rows({"AggMI": np.array([[4.0]])})
    assert row["standard_error"] is None
    assert row["low"] == row["high"] == row["mean"] == 4.0


def test_rows_are_plain_values_that_json_can_hold():
    rows = curves.learning_curve_rows(ERRORS)
    assert json.loads(json.dumps(rows)) == rows


def test_labels_stand_at_the_ends_of_their_lines_where_there_is_room():
    labels = curves.label_rows(curves.learning_curve_rows(ERRORS))
    assert [(label["strategy"], label["place"]) for label in labels] == [
        ("AggMI", 3.0),
        ("Random", 4.0),
    ]


def test_labels_of_lines_that_end_together_are_pushed_apart():
    errors = {name: np.array([[9.0, 3.0]]) for name in ("a", "b", "c")}
    labels = curves.label_rows(curves.learning_curve_rows(errors))
    places = [label["place"] for label in labels]
    assert len(labels) == 3
    assert min(np.diff(places)) >= curves.LABEL_GAP * 6.0


# --- charts -------------------------------------------------------------------------------------


def test_the_chart_says_its_finding_and_its_units():
    spec = draw().to_dict()
    assert spec["title"]["text"] == "a finding"
    assert spec["title"]["subtitle"] == ["one line", "another"]
    text = json.dumps(spec)
    assert '"questions"' in text
    assert '"error (points)"' in text


def test_the_error_axis_covers_all_bands_and_the_reference():
    lines = draw(reference=("a guess", 50.0)).to_dict()["layer"][-2]["encoding"]
    low, high = lines["y"]["scale"]["domain"]
    assert low < 3.0
    assert high > 50.0


def test_a_flat_curve_still_has_an_axis():
    low, high = curves.error_span(curves.learning_curve_rows({"a": np.zeros((1, 2))}))
    assert low < 0 < high


@pytest.mark.parametrize("n_questions", [1, 2, 3, 30, 100, 461])
def test_ticks_start_at_one_and_are_few(n_questions):
    ticks = theme.ticks(n_questions)
    assert ticks[0] == 1
    assert ticks == sorted(set(ticks))
    assert ticks[-1] <= n_questions
    assert len(ticks) <= 11


def test_one_question_can_be_drawn(tmp_path):
    errors = {"AggMI": np.array([[4.0]])}
    chart = curves.learning_curves(errors, title="t", subtitle=[], x_title="x", y_title="y")
    assert save(chart, tmp_path / "one", (".svg",)) == [tmp_path / "one.svg"]


# --- files --------------------------------------------------------------------------------------


def test_the_png_is_a_picture_of_a_readable_size(tmp_path):
    (path,) = save(draw(), tmp_path / "chart", (".png",))
    content = path.read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])  # of the IHDR chunk
    assert width >= 2 * theme.WIDTH  # drawn at twice the size
    assert height >= 2 * theme.HEIGHT


def test_the_svg_holds_the_words_of_the_chart(tmp_path):
    (path,) = save(draw(), tmp_path / "chart", (".svg",))
    text = path.read_text()
    assert text.startswith("<svg")
    for words in ("a finding", "AggMI", "Random", "a guess", "error (points)"):
        assert words in text


def test_the_page_carries_vega_inside_and_loads_nothing(tmp_path):
    (path,) = save(draw(), tmp_path / "chart", (".html",))
    page = path.read_text()
    assert "window.vegaEmbed=" in page
    assert not re.findall(r"<script[^>]+src\s*=", page)
    assert not re.findall(r"<link\b", page)
    assert not re.findall(r"cdn\.|unpkg|jsdelivr", page)
    assert inner_spec(page) == draw().to_dict()
    assert "<title>a finding</title>" in page


def test_the_page_offers_no_button_that_opens_a_website(tmp_path):
    (path,) = save(draw(), tmp_path / "chart", (".html",))
    text = path.read_text()
    assert "actions = {export: true, source: false, compiled: false, editor: false}" in text
    assert "usermeta" not in inner_spec(text)


def test_a_title_cannot_run_code_in_the_page(tmp_path):
    wicked = "</script><script>alert(1)</script>"
    (path,) = save(draw(title=wicked), tmp_path / "chart", (".html",))
    page = path.read_text()
    assert "<script>alert" not in page
    assert inner_spec(page)["title"]["text"] == wicked  # and is shown as it is


def test_a_dot_in_the_stem_is_kept(tmp_path):
    (path,) = save(draw(), tmp_path / "v1.2", (".svg",))
    assert path == tmp_path / "v1.2.svg"


def test_save_makes_the_folder_and_names_the_files(tmp_path):
    paths = save(draw(), tmp_path / "new" / "er" / "chart", (".svg", ".html"))
    assert [path.name for path in paths] == ["chart.svg", "chart.html"]
    assert all(path.stat().st_size > 1000 for path in paths)


def test_a_folder_below_a_file_is_refused(tmp_path):
    (tmp_path / "note").write_text("")
    with pytest.raises(SettingError, match=r"note is a file, .* name a folder"):
        check_folder(tmp_path / "note" / "charts")


def test_a_folder_that_may_not_be_written_to_is_refused(tmp_path, monkeypatch):
    # by pretence, because nothing is forbidden to root, whom tests in a container run as
    monkeypatch.setattr("sumwise.report.page.os.access", lambda path, mode: False)
    with pytest.raises(SettingError, match="may not be written to; choose another folder"):
        check_folder(tmp_path / "charts")


def test_a_file_that_cannot_be_written_is_reported_in_words(tmp_path):
    (tmp_path / "chart.svg").mkdir()  # a folder is in the way
    with pytest.raises(SettingError, match=r"cannot be written .* Choose another folder"):
        save(draw(), tmp_path / "chart", (".svg",))


def test_a_folder_whose_name_is_too_long_is_reported_in_words(tmp_path):
    with pytest.raises(SettingError, match=r"cannot be written .* Choose another folder"):
        save(draw(), tmp_path / ("x" * 300) / "chart", (".svg",))
