"""Panels of a report in a notebook: charts as pictures that need no network, and single charts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from html import escape
from typing import Any

from sumwise.errors import SettingError
from sumwise.learning.insight import Insight
from sumwise.report.page import Section
from sumwise.report.panels import PANELS, study_panels
from sumwise.report.theme import WIDTH
from sumwise.util import html


def insight_html(insight: Insight) -> str:
    """What the report says of it."""
    return html.paragraphs(insight.status.words) + sections_html(study_panels(insight))


def sections_html(sections: Iterable[Section]) -> str:
    """Headings, words, pictures and the first rows of tables."""
    return "".join(map(_section, sections))


def panel_chart(insight: Insight, panel: str) -> Any:
    """One chart of the report; refused in the panel's words where there is nothing to draw."""
    if panel not in PANELS:
        raise SettingError(f"no chart is called {panel!r:.80}; there are {', '.join(PANELS)}")
    found = PANELS[panel](insight)
    if not found.charts:
        raise SettingError(" ".join(found.words))
    return fixed(found.charts[0])


def fixed(chart: Any) -> Any:
    """The chart in a width of its own, where there is no page to fill."""
    return chart.properties(width=WIDTH, autosize="pad")


def _section(section: Section) -> str:
    table = section.table
    cells = "" if table is None else html.table(table.columns, table.rows)
    pictures = "".join(map(_picture, section.charts))
    return f"<h4>{escape(section.title)}</h4>{html.paragraphs(section.words)}{pictures}{cells}"


def _picture(chart: Any) -> str:
    """The chart as an image, in which no script can run."""
    import vl_convert

    drawing = vl_convert.vegalite_to_svg(fixed(chart).to_dict())
    address = f"data:image/svg+xml;base64,{b64encode(drawing.encode()).decode()}"
    return f'<p><img alt="{escape(chart.description)}" src="{address}"></p>'
