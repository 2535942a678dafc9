"""Pictures of Altair charts for the gallery, drawn by vl-convert: no browser, no network.

A block of a story shows the chart that it ends with, or else the charts that it gives a name to and
that have a title.
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
    drawn = shown(ast.parse(block.content).body, variables["example_globals"])
    source, paths = Path(settings["src_dir"]), map(Path, variables["image_path_iterator"])
    return "".join(picture(chart, path, source) for chart, path in zip(drawn, paths, strict=False))


def shown(statements: list[ast.stmt], values: dict[str, Any]) -> list[Any]:
    """The charts that a block shows; sphinx-gallery calls the value that it ends with `___`."""
    if statements and isinstance(statements[-1], ast.Expr) and is_chart(values["___"]):
        return [values["___"]]
    assigned = (
        node.id
        for statement in statements
        if isinstance(statement, ast.Assign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    )
    charts = (values.get(name) for name in dict.fromkeys(assigned))
    return [each for each in charts if is_chart(each) and each.title is not alt.Undefined]


def is_chart(value: Any) -> bool:
    return isinstance(value, alt.TopLevelMixin)


def picture(chart: Any, path: Path, source: Path) -> str:
    """Draw a chart to a file; the directive that shows it, with the chart's title as its text."""
    said = chart.to_dict()
    drawn = vl_convert.vegalite_to_png(said, scale=SCALE)
    path.write_bytes(drawn)
    width = int.from_bytes(drawn[16:20], "big") // SCALE  # of a PNG, from its header
    title = said.get("title", "chart")
    text = title["text"] if isinstance(title, dict) else title
    text = " ".join([text] if isinstance(text, str) else text)
    where = path.relative_to(source).as_posix()
    return f"\n.. image:: /{where}\n    :alt: {text}\n    :width: {width}px\n\n"
