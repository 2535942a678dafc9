"""Pictures of Altair charts for the gallery, drawn by vl-convert: no browser, no network.

A block of a story shows the chart that it ends with, or else the charts that it gives a name to.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert

SCALE = 2  # pixels of a picture for one of the page


def scraper(block: Any, variables: dict[str, Any], settings: dict[str, Any]) -> str:
    """What sphinx-gallery puts below a block of code: its charts as pictures, in reST."""
    values = variables["example_globals"]
    found = (values.get(name) for name in names(block.content))
    charts = [value for value in found if isinstance(value, alt.TopLevelMixin)]
    drawn = zip(charts, map(Path, variables["image_path_iterator"]), strict=False)
    return "".join(picture(chart, path, Path(settings["src_dir"])) for chart, path in drawn)


def names(code: str) -> list[str]:
    """What code assigns at its top; or `___`, as sphinx-gallery calls a value that it ends with."""
    statements = ast.parse(code).body
    if statements and isinstance(statements[-1], ast.Expr):
        return ["___"]
    targets = (
        node.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(statement, ast.Assign)
        and isinstance(node, ast.Name)
        and isinstance(node.ctx, ast.Store)
    )
    return list(dict.fromkeys(targets))


def picture(chart: Any, path: Path, source: Path) -> str:
    """Draw a chart to a file; the directive that shows it, with the chart's title as its text."""
    said = chart.to_dict()
    drawn = vl_convert.vegalite_to_png(said, scale=SCALE)
    path.write_bytes(drawn)
    width = int.from_bytes(drawn[16:20], "big") // SCALE  # of a PNG, from its header
    title = said.get("title", "")
    text = said.get("description") or (title.get("text", "") if isinstance(title, dict) else title)
    text = " ".join(str(line) for line in ([text] if isinstance(text, str) else text))
    where = path.relative_to(source).as_posix()
    return f"\n.. image:: /{where}\n    :alt: {text or 'chart'}\n    :width: {width}px\n\n"
