"""What Sphinx puts between a parameter and what is said of it is a dash, as in print.

`smartquotes` would do so, and would make one of every `--option` too.
"""

from __future__ import annotations

from typing import Any

from docutils.nodes import Text


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-resolved", draw)
    return {"parallel_read_safe": True}


def draw(app: Any, doctree: Any, page: str) -> None:
    del app, page
    for text in list(doctree.findall(Text)):
        if text == " -- ":
            text.parent.replace(text, Text(" – "))
