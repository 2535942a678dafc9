"""A report as one HTML page: words, tables and charts that answer to the pointer, all offline.

Vega is in the page once, however many charts there are; a page without charts goes without it.
Text comes from files and column names, so it is never trusted: the template escapes words, a chart
is inert JSON that one script of ours draws, and the page's own content policy runs that script and
Vega's and nothing else. It also keeps the page from asking the network for anything.
"""

from __future__ import annotations

import platform
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from typing import Any, Final

import numpy

import sumwise

NUMBER: Final = re.compile(r"(more than |less than )?[-−+±<>≤≥≈(]*\s*\.?\d")


@dataclass(frozen=True, slots=True)
class TextTable:
    """Cells as they are shown; `bold` holds (row, column), both from 0."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    bold: frozenset[tuple[int, int]] = frozenset()

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold mostly numbers; they are aligned to the right."""
        columns = [[row[at] for row in self.rows] for at in range(len(self.columns))]
        filled = [[cell for cell in cells if cell.strip(" –—")] for cells in columns]
        return [
            2 * sum(bool(NUMBER.match(cell)) for cell in cells) > len(cells) for cells in filled
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Section:
    """A heading, then words, charts (Altair) and a table, in this order."""

    title: str
    words: Sequence[str] = ()
    charts: Sequence[Any] = ()
    table: TextTable | None = None
    rows: Sequence[Mapping[str, Any]] = ()  # the numbers that the charts draw; not shown


def chart_page(chart: Any) -> str:
    """A page with nothing but a chart, whose own title says what it shows."""
    title = chart.description if isinstance(chart.description, str) else "Chart"
    return page(title, "", [Section("", charts=[chart])])


def versions() -> tuple[str, str]:
    """A row of a table: what the page was made with."""
    made_with = f"sumwise {sumwise.__version__}, NumPy {numpy.__version__}"
    return "versions", f"{made_with}, Python {platform.python_version()}"


def page(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The whole page.

    Args:
        lead: The finding, which stands below the title. A page without one shows no title either.
    """
    templates = _templates()
    drawn = any(section.charts for section in sections)
    scripts = [_vega(), templates.get_template("draw.js").render()] if drawn else []
    digests = [b64encode(sha256(script.encode()).digest()).decode() for script in scripts]
    policy = " ".join(f"'sha256-{digest}'" for digest in digests) or "'none'"
    return templates.get_template("page.html").render(
        title=title, lead=lead, sections=sections, scripts=scripts, policy=policy
    )


@cache
def _templates() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    templates = Environment(
        loader=PackageLoader("sumwise.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    templates.policies["json.dumps_kwargs"] = {}  # keep the order of keys, which Vega-Lite minds
    return templates


@cache
def _vega() -> str:
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return bundle.replace("</script", "<\\/script")
