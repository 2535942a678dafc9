"""The page as a browser's parser sees it: nothing from outside, and text that stays text."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import altair as alt
import numpy as np
import pytest

from sumwise.errors import SettingError
from sumwise.report.curves import SIDES, differences, learning_curves
from sumwise.report.page import Section, TextTable, page, save_page

WICKED = "</script><img src=x onerror=alert(1)>\"'&<!--"
ERRORS = {
    "AggMI": np.array([[5.0, 3.0], [7.0, 3.0]]),
    "Rand": np.array([[6.0, 5.0], [6.0, 4.0]]),
    "MaxN": np.array([[6.5, 5.0], [6.0, 4.5]]),
}


class Elements(HTMLParser):
    """Tags with their attributes, and the text inside each kind of tag."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "meta":
            self._open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        for tag in set(self._open):
            self.texts[tag][-1] += data


def chart(title="a finding"):
    return (
        alt.Chart(alt.InlineData(values=[{"a": 1, "b": WICKED}]), title=title)
        .mark_point()
        .encode(alt.X("a:Q", title=WICKED))
    )


def curves():
    return learning_curves(
        ERRORS,
        lit=["AggMI", "Rand"],
        wide=True,
        title="a finding",
        subtitle=[],
        x_title="groups",
        y_title="error",
        reference=("mean", 6.0),
    )


def charts_in(text):
    scripts = [(tag, a) for tag, a in Elements(text).tags if tag == "script"]
    bodies = Elements(text).texts["script"]
    return [
        json.loads(body)
        for (_, attributes), body in zip(scripts, bodies, strict=True)
        if attributes.get("type") == "application/json"
    ]


@pytest.fixture(scope="module")
def full():
    table = TextTable(("name", "error"), [("a", "1.5 ± 0.1"), ("b", "−2.0")], "a caption", {(0, 1)})
    sections = [Section("One", ["words"], [chart(), curves()]), Section("Two", (), (), table)]
    return page("A title", "The finding.", sections)


# --- what is there --------------------------------------------------------------------------------


def test_the_page_has_a_title_a_language_and_headings_in_order(full):
    found = Elements(full)
    assert dict(found.tags)["html"] == {"lang": "en"}
    assert found.texts["title"] == ["A title"]
    assert found.texts["h1"] == ["A title"]
    assert found.texts["h2"] == ["One", "Two"]
    assert "The finding." in found.texts["p"]


def test_the_charts_are_those_that_were_given(full):
    assert charts_in(full) == [chart().to_dict(), curves().to_dict()]


def test_vega_is_in_the_page_once_however_many_charts_there_are(full):
    assert full.count("window.vegaEmbed=") == 1


def test_a_page_without_charts_goes_without_vega_and_runs_no_script():
    text = page("t", "l", [Section("words", ["only"])])
    assert len(text) < 10_000
    assert "<script" not in text
    assert "script-src 'none'" in text


def test_a_table_has_its_caption_bold_cells_and_numbers_to_the_right(full):
    found = Elements(full)
    assert found.texts["caption"] == ["a caption"]
    assert found.texts["strong"] == ["1.5 ± 0.1"]
    cells = [attributes for tag, attributes in found.tags if tag == "td"]
    assert cells == [{}, {"class": "number"}, {}, {"class": "number"}]


def test_a_column_of_mostly_numbers_may_hold_words_and_gaps():
    rows = [("12",), ("more than 30",), ("–",), ("-3",)]
    text = page("t", "l", [Section("s", table=TextTable(("needs",), rows))])
    assert text.count('class="number"') == 5  # the heading as well


def test_a_table_without_headings_has_no_empty_row_for_them():
    text = page("t", "l", [Section("s", table=TextTable(("", ""), [("a", "b")]))])
    assert "<thead" not in text


# --- what is not ----------------------------------------------------------------------------------


def test_nothing_is_loaded_from_anywhere(full):
    for tag, attributes in Elements(full).tags:
        assert tag not in ("link", "img", "iframe", "object", "embed", "base")
        assert not {"src", "href", "srcset", "action", "style"} & set(attributes)
    style = Elements(full).texts["style"][0]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.findall(r"cdn\.|unpkg|jsdelivr|fonts\.g", full)


def test_the_policy_runs_our_scripts_alone_and_forbids_the_network(full):
    found = Elements(full)
    policy = next(a["content"] for _, a in found.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe-eval" not in policy
    allowed = re.search(r"script-src ([^;]*)", policy)[1].split()
    bodies = [script for script in found.texts["script"] if not script.startswith("{")]
    digests = [base64.b64encode(hashlib.sha256(b.encode()).digest()).decode() for b in bodies]
    assert allowed == [f"'sha256-{digest}'" for digest in digests]


def test_wicked_text_stays_text_wherever_it_stands():
    table = TextTable((WICKED, "n"), [(WICKED, "1")], WICKED, frozenset({(0, 0)}))
    text = page(WICKED, WICKED, [Section(WICKED, [WICKED], [chart(WICKED)], table)])
    found = Elements(text)
    for tag in ("title", "h1", "h2", "caption", "strong", "p"):
        assert found.texts[tag][0] == WICKED
    assert not [tag for tag, _ in found.tags if tag == "img"]
    assert not [a for _, a in found.tags if any(name.startswith("on") for name in a)]
    assert charts_in(text)[0]["title"] == WICKED


# --- files ----------------------------------------------------------------------------------------


def test_a_page_is_saved_in_utf_8_in_a_folder_that_is_made(tmp_path):
    path = save_page("± é", tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8") == "± é"
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_a_page_that_cannot_be_written_is_reported_and_leaves_nothing(tmp_path):
    (tmp_path / "report.html").mkdir()  # a folder is in the way
    with pytest.raises(SettingError, match=r"cannot be written .* Choose another folder"):
        save_page("text", tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


# --- the charts of a comparison -------------------------------------------------------------------


def test_strategies_that_are_lit_have_names_and_the_others_are_there_in_grey():
    named = {data["name"]: data["values"] for data in _inline(curves().to_dict())}
    assert {row["strategy"] for row in named["curves"]} == {"AggMI", "Rand"}
    assert {row["strategy"] for row in named["rest"]} == {"MaxN"}
    assert [row["strategy"] for row in named["labels"]] == ["AggMI", "Rand", "mean"]


def test_curves_without_others_and_without_a_reference_can_be_drawn():
    errors = {"AggMI": np.array([[4.0]]), "Rand": np.array([[5.0]])}
    words = {"title": "t", "subtitle": [], "x_title": "x", "y_title": "y"}
    spec = learning_curves(errors, lit=["AggMI", "Rand"], **words).to_dict()
    named = {data["name"]: data["values"] for data in _inline(spec)}
    assert named["reference"] == named["rest"] == []
    assert len(named["labels"]) == 2


def test_differences_keep_their_order_and_say_which_side_they_are_on():
    rows = [
        {"strategy": "b", "mean": -1.0, "low": -2.0, "high": -0.5, "side": SIDES[0]},
        {"strategy": "a", "mean": 0.1, "low": None, "high": None, "side": SIDES[1]},
    ]
    spec = differences(rows, title="t", subtitle=[], x_title="x").to_dict()
    dots = spec["layer"][-1]
    assert dots["encoding"]["y"]["sort"] == ["b", "a"]
    assert dots["encoding"]["color"]["scale"]["domain"] == list(SIDES)
    assert _inline(spec)[1]["values"] == rows


def _inline(spec):
    """Data of each layer."""
    return [layer["data"] for layer in spec["layer"] if "data" in layer]
