"""A report as one HTML page: words, tables and charts that answer to the pointer, all offline.

Vega is in the page once, however many charts there are; a page without charts goes without it.
Text comes from files and column names, so it is never trusted: words are escaped, a chart is inert
JSON that one script of ours draws, and the page's own content policy runs that script and Vega's
and nothing else. It also keeps the page from asking the network for anything.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from pathlib import Path
from typing import Any, Final

from sumwise.errors import SettingError
from sumwise.report.curves import OFFLINE_ACTIONS
from sumwise.util.files import write_file


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
    body = "\n".join(_section(section) for section in sections)
    scripts = [_vega(), DRAW] if any(section.charts for section in sections) else []
    policy = POLICY.format(scripts=" ".join(map(_hash, scripts)) or "'none'")
    return PAGE.format(
        policy=policy,
        title=escape(title),
        style=STYLE,
        lead=escape(lead),
        body=body,
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def save_page(text: str, path: Path) -> Path:
    """Write the page whole or not at all."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, text)
    except OSError as error:
        raise SettingError(
            f"the report cannot be written to {path} ({error.strerror}). "
            "Choose another place, or make room on the disk."
        ) from error
    return path


# --- parts --------------------------------------------------------------------------------------


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.title)}</h2>"]
    parts += [f"<p>{escape(paragraph)}</p>" for paragraph in section.paragraphs]
    parts += [_chart(chart) for chart in section.charts]
    if section.table is not None:
        parts.append(_table(section.table, section.title))
    return "<section>\n" + "\n".join(parts) + "\n</section>"


def _chart(chart: Any) -> str:
    spec = json.dumps(chart.to_dict()).replace("<", "\\u003c")
    return (
        f'<figure><div class="chart"></div><script type="application/json">{spec}</script></figure>'
    )


def _table(table: TextTable, title: str) -> str:
    sides = [_side([row[column] for row in table.rows]) for column in range(len(table.columns))]
    heads = zip(table.columns, sides, strict=True)
    head = "".join(f'<th scope="col"{side}>{escape(name)}</th>' for name, side in heads)
    head = f"<thead><tr>{head}</tr></thead>\n" if any(table.columns) else ""
    body = "\n".join(
        "<tr>"
        + "".join(
            f"<td{side}>{_cell(text, (r, c) in table.bold)}</td>"
            for c, (text, side) in enumerate(zip(row, sides, strict=True))
        )
        + "</tr>"
        for r, row in enumerate(table.rows)
    )
    caption = f"<caption>{escape(table.caption)}</caption>" if table.caption else ""
    # a wide table scrolls in its own box, by keyboard too
    return (
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(title)}">'
        f"<table>{caption}\n{head}<tbody>\n{body}\n</tbody></table></div>"
    )


def _cell(text: str, bold: bool) -> str:
    return f"<strong>{escape(text)}</strong>" if bold else escape(text)


_NUMBER = re.compile(r"(more than |less than )?[-−+±<>≤≥≈(]*\s*\.?\d")


def _side(cells: Sequence[str]) -> str:
    """A column of mostly numbers stands to the right."""
    filled = [cell for cell in cells if cell.strip(" –—")]
    numeric = sum(_NUMBER.match(cell) is not None for cell in filled)
    return ' class="number"' if filled and 2 * numeric > len(filled) else ""


def _hash(script: str) -> str:
    digest = hashlib.sha256(script.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


@cache
def _vega() -> str:
    import vl_convert

    bundle = str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))
    return bundle.replace("</script", "<\\/script")


# `ast` has Vega interpret its expressions, so that the policy can forbid eval
DRAW: Final = """
for (const figure of document.querySelectorAll("figure")) {
  const box = figure.querySelector(".chart");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  vegaEmbed(box, spec, {renderer: "svg", ast: true, actions: ACTIONS}).catch((error) => {
    box.textContent = "This chart could not be drawn: " + error.message;
  });
}
""".replace("ACTIONS", json.dumps(OFFLINE_ACTIONS))

POLICY: Final = (
    "default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)

STYLE: Final = """
:root { color-scheme: light dark; --ink: #1d2329; --soft: #58616b; --paper: #fff; --line: #d8dde2;
  --shade: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4e7ea; --soft: #a3acb5; --paper: #16191d;
  --line: #383f46; --shade: #1f2429; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 56rem; padding: 2rem 1.25rem 4rem; background: var(--paper);
  color: var(--ink); font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif;
  overflow-wrap: break-word; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.2rem; line-height: 1.3; margin: 2.5rem 0 .6rem; }
p { margin: 0 0 .8rem; max-width: 44rem; }
.lead { font-size: 1.12rem; }
figure { margin: 1rem 0 1.5rem; background: #fff; color: #1d2329; color-scheme: light;
  border: 1px solid var(--line); border-radius: 6px; overflow-x: auto; }
.chart, .chart.vega-embed { width: 100%; min-width: 32rem; }
.wide { overflow-x: auto; margin: 1rem 0 1.5rem; }
table { border-collapse: collapse; font-size: .93rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--soft); padding: 0 0 .5rem;
  max-width: min(44rem, 100vw - 2.5rem); }
th, td { padding: .35rem .75rem; text-align: left; vertical-align: top;
  border-bottom: 1px solid var(--line); overflow-wrap: normal; }
th { vertical-align: bottom; font-weight: 600; background: var(--shade); }
.number { text-align: right; white-space: nowrap; }
th.number { white-space: normal; }
@media print { :root { font-size: 10pt; --ink: #000; --soft: #444; --paper: #fff; --line: #bbb;
  --shade: #fff; }
  body { max-width: none; padding: 0; } .vega-embed summary { display: none; }
  figure { border: 0; overflow: visible; } .wide { overflow: visible; }
  h2 { break-after: avoid; } figure, tr { break-inside: avoid; } }
"""

PAGE: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="sumwise">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{title}</h1>
<p class="lead">{lead}</p>
{body}
</main>
<noscript><p>The charts need JavaScript; the tables hold the same figures.</p></noscript>
{scripts}
</body>
</html>
"""
