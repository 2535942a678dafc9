"""The reference names everything public, and nothing that is not."""

from __future__ import annotations

import re
from pathlib import Path

import sumwise as sw
from scripts import reference

DOCS = Path(__file__).resolve().parents[1] / "docs"


def test_every_public_name_is_in_the_reference_and_nothing_else():
    names, _ = reference.FILE.read_text().split(reference.BEGIN)
    rows = re.findall(r"^\| `(\w+)` \|", names, flags=re.MULTILINE)
    assert sorted(rows) == sorted(sw.__all__)


def test_the_tables_of_members_and_commands_are_those_of_the_code():
    text = reference.FILE.read_text()
    assert reference.updated(text) == text, "run `make reference`"


def test_every_member_and_command_is_described():
    empty = [line for line in reference.generated().splitlines() if line.endswith("|  |")]
    assert empty == []


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
