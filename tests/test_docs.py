"""The documents say what is there; tests/site has what holds of the site that is made of them."""

from __future__ import annotations

import re
from pathlib import Path

import sumwise as sw

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_every_public_name_has_a_docstring():
    for name in sw.__all__:
        if name not in ("ACQUISITIONS", "BASES"):
            assert getattr(sw, name).__doc__, name


def test_every_strategy_and_basis_is_in_the_reference():
    text = (DOCS / "reference.md").read_text()
    for name in (*sw.ACQUISITIONS, *sw.BASES):
        assert name in text


def test_links_between_documents_lead_somewhere():
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md", DOCS.parent / "CONTRIBUTING.md"):
        for link in re.findall(r"\]\(([\w./-]+)\)", page.read_text()):
            if "://" not in link:
                assert (page.parent / link).exists(), f"{page.name} links to {link}"
