"""What objects show in a notebook: tables and pictures, in which names from users are harmless."""

from __future__ import annotations

import base64
import re
from html.parser import HTMLParser

import altair as alt
import numpy as np
import pandas as pd
import pytest

import sumwise as sw

HOSTILE = "<script>alert('x')</script>"
ALLOWED = {"p", "h4", "table", "thead", "tbody", "tr", "th", "td", "img"}


class Tags(HTMLParser):
    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.rows = set(), [], 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.rows += tag == "tr"
        assert not [name for name, _ in attrs if name.startswith("on")]
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def checked(page, rows=None):
    """The page, of which every tag is closed and known."""
    found = Tags(page)
    assert found.open == []
    assert found.tags <= ALLOWED
    assert rows is None or found.rows == rows
    return page


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(2)
    names = [HOSTILE, *(f"town {a}" for a in range(1, 15))]
    frame = pd.DataFrame({"town": np.repeat(names, 3), "age": rng.uniform(20, 60, 45)})
    frame["who"] = [f"{HOSTILE}{i}" for i in range(45)]
    frame["income"] = 2 * frame["age"] + rng.normal(size=45)
    return frame


@pytest.fixture(scope="module")
def learner(frame):
    sets = sw.Sets.from_frame(frame, by="town", x=["age"], id="who")
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor("linear"))
    totals = frame.groupby("town")["income"].sum()
    for set_id in sets.ids[:12]:
        learner.tell(set_id, totals[set_id])
    return learner


def test_everything_shows_a_table_of_its_first_rows(learner, tmp_path):
    assert "The first 10 of 15." in checked(learner.sets._repr_html_(), rows=11)
    assert "The first 10 of 12." in checked(learner._repr_html_(), rows=11)
    assert "&lt;script&gt;" in learner.sets._repr_html_()
    assert "The first 10 of 45." in checked(learner.predict()._repr_html_(), rows=11)
    assert "<th>measured</th>" in checked(learner.predict_sets()._repr_html_())
    assert "12 of 15 sets measured" in checked(learner.status()._repr_html_(), rows=2)
    ask = learner.ask()
    assert f"<td>{ask.set_id}</td>" in checked(ask._repr_html_())
    assert "<td>expected</td>" in ask._repr_html_()
    assert "linear" in checked(learner.model._repr_html_())
    assert "Not fitted yet" in checked(sw.AggregateRegressor()._repr_html_())
    with sw.create_study(tmp_path / "a.db", learner.sets) as study:
        first = study.ask(by=HOSTILE)
        assert "<td>expected</td>" not in checked(first._repr_html_())  # nothing is known yet
        study.tell(HOSTILE, 3.0, by=HOSTILE)
        assert "1 of 15 sets measured" in checked(study._repr_html_(), rows=2)
        assert study.report(tmp_path / "a.html").read_text().startswith("<!DOCTYPE html>")


def test_an_insight_shows_the_panels_of_the_report_as_pictures(learner):
    insight = learner.insight()
    page = checked(insight._repr_mimebundle_()["text/html"])
    pictures = re.findall(r'src="data:image/svg\+xml;base64,([^"]+)"', page)
    assert len(pictures) == page.count("<img") == 5
    drawn = base64.b64decode(pictures[0]).decode()
    assert drawn.startswith("<svg")
    assert "<script" not in drawn


def test_charts_are_altair_charts_or_refused_in_words(learner):
    insight = learner.insight()
    for panel in ("progress", "information", "predicted", "calibration", "next"):
        chart = insight.plot(panel)
        assert isinstance(chart, alt.TopLevelMixin)
        assert chart.to_dict()["width"] == 600
    with pytest.raises(sw.SettingError, match="no chart is called 'pie'; there are progress"):
        insight.plot("pie")
    young = sw.ActiveLearner(learner.sets).insight()
    with pytest.raises(sw.SettingError, match="from 3 answers on; there are none yet"):
        young.plot()
    checked(young._repr_mimebundle_()["text/html"])
