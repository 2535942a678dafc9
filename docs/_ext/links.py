"""Links that would lead nowhere on the site are words alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from sphinx.addnodes import pending_xref


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", unlink_folders)
    app.connect("html-page-context", unlink_sources)
    return {"parallel_read_safe": True}


def unlink_folders(app: Any, doctree: Any) -> None:
    """Folders of the repository have no page; one that is not there stays a broken link."""
    here = Path(app.env.doc2path(app.env.docname)).parent
    for link in list(doctree.findall(pending_xref)):
        target = link["reftarget"]
        if target in app.env.found_docs:  # `reference` is a page, and beside it a folder of pages
            continue
        if link["reftype"] == "myst" and (here / target).is_dir():
            link.replace_self(link.children)


def unlink_sources(app: Any, page: str, template: str, context: dict[str, Any], _: Any) -> None:
    """Pages of source code link back by the first name that a module is documented under.

    `sumwise.simulate` is in `sumwise.experiments.simulated`, as `Simulated` is, which has no other
    name: one of them would have a broken link.
    """
    del template
    if page.startswith("_modules/"):
        known = app.env.domains["py"].objects
        link = r'<a class="viewcode-back" href="[^"#]*#([^"]+)">[^<]*</a>'
        context["body"] = re.sub(
            link, lambda found: found[0] if found[1] in known else "", context["body"]
        )
