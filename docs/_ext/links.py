"""Links of Markdown pages to folders of the repository, which the site has no page for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sphinx.addnodes import pending_xref


def setup(app: Any) -> dict[str, bool]:
    app.connect("doctree-read", unlink_folders)
    return {"parallel_read_safe": True}


def unlink_folders(app: Any, doctree: Any) -> None:
    """Leave the words of such a link alone; a folder that is not there stays a broken link."""
    here = Path(app.env.doc2path(app.env.docname)).parent
    for link in list(doctree.findall(pending_xref)):
        if link["reftype"] == "myst" and (here / link["reftarget"]).is_dir():
            link.replace_self(link.children)
