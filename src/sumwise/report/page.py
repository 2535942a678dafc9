"""A report as one HTML page: words, tables and charts that answer to the pointer, all offline.

Vega is in the page once, however many charts there are; a page without charts goes without it.
Text comes from files and column names, so it is never trusted: the template escapes words, a chart
is inert JSON that one script of ours draws, and the page's own content policy runs that script and
Vega's and nothing else. It also keeps the page from asking the network for anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy

import sumwise


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as they are shown; `bold` holds (row, column), both from 0."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A heading, then words, charts (Altair) and a table, in this order."""

    title: str
    paragraphs: Sequence[str] = ()
    charts: Sequence[Any] = ()
    table: TextTable | None = None


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole page. `lead` stands below the title: say the finding there."""
    return _render(title, sections, heading=True, lead=lead)


def chart_page(chart: Any) -> str:
    """A page with nothing but a chart, whose own title says what it shows."""
    title = getattr(chart, "description", None)
    sections = [Section("", charts=[chart])]
    return _render(title if isinstance(title, str) else "Chart", sections, heading=False)


def versions() -> tuple[str, str]:
    """A row of a table: what the page was made with."""
    made_with = f"sumwise {sumwise.__version__}, NumPy {numpy.__version__}"
    return "versions", f"{made_with}, Python {platform.python_version()}"


def _render(title: str, sections: Sequence[Section], *, heading: bool, lead: str = "") -> str:
    templates = _templates()
    drawn = any(section.charts for section in sections)
    scripts = [_vega(), templates.get_template("draw.js").render()] if drawn else []
    return templates.get_template("page.html").render(
        title=title,
        lead=lead,
        heading=heading,
        sections=sections,
        scripts=scripts,
        policy=" ".join(map(_hash, scripts)) or "'none'",
        json_of=_json_of,
        sides_of=_sides_of,
    )


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    return Environment(
        loader=PackageLoader("sumwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def _vega() -> str:
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return bundle.replace("</script", "<\\/script")


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def _json_of(chart: Any) -> str:
    """The chart in a form that cannot end the script element it stands in."""
    return json.dumps(chart.to_dict()).replace("<", "\\u003c")


_NUMBER: Final = re.compile(r"(more than |less than )?[-−+±<>≤≥≈(]*\s*\.?\d")


def _sides_of(table: TextTable) -> list[Any]:
    """An attribute for the cells of each column: one of mostly numbers stands to the right."""
    from markupsafe import Markup

    sides = []
    for column in range(len(table.columns)):
        filled = [row[column] for row in table.rows if row[column].strip(" –—")]
        numeric = sum(_NUMBER.match(cell) is not None for cell in filled)
        to_right = filled and 2 * numeric > len(filled)
        sides.append(Markup(' class="number"') if to_right else "")
    return sides
