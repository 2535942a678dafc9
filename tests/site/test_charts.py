"""Which charts a block of a story shows, and what is said of them where they are not seen."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import altair as alt
import pytest

EXTENSION = Path(__file__).resolve().parents[2] / "docs" / "_ext" / "charts.py"


@pytest.fixture(scope="module")
def charts():
    return runpy.run_path(str(EXTENSION))


def chart(title=alt.Undefined):
    values = alt.InlineData(values=[{"x": 1}])
    return alt.Chart(values, title=title).mark_point().encode(x="x:Q")


@pytest.mark.parametrize(
    ("code", "titles"),
    [
        ("a = A\nplain = chart()\nnumber = 3", ["A"]),
        ("a, b = A, B\nprint(a)", ["A", "B"]),
        ("a = A\nC", ["C"]),
        ("a = A\na", ["A"]),
        ("def f():\n    a = A", []),
        ("", []),
    ],
)
def test_a_block_shows_the_chart_it_ends_with_or_those_that_have_a_title(charts, code, titles):
    statements = ast.parse(code).body
    values = {"a": chart("A"), "b": chart("B"), "plain": chart(), "number": 3, "___": None}
    if code.endswith(("C", "a")):
        values["___"] = chart(code[-1].upper())
    assert [each.title for each in charts["shown"](statements, values)] == titles


def test_a_picture_has_the_title_as_its_text_and_the_width_of_the_page(charts, tmp_path):
    drawn = chart(alt.Title(["Two", "lines"], subtitle="more")).properties(width=200)
    text = charts["picture"](drawn, tmp_path / "one.png", tmp_path)
    assert "image:: /one.png" in text
    assert ":alt: Two lines\n" in text
    width = int(text.partition(":width: ")[2].partition("px")[0])
    assert 200 < width < 260
