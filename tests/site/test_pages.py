"""Links of the built pages lead somewhere, and nothing is fetched from another machine."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

LINK = re.compile(r'\s(href|src|action|poster|srcset|data)="([^"]*)"')
NAMED = re.compile(r'\s(?:id|name)="([^"]*)"')
FETCHED = re.compile(r"""(?:url\(|@import|import\s*\(|fetch\()\s*['"]?((?:https?:)?//[^'")\s]+)""")
DOCS = Path(__file__).parents[2] / "docs"
LEAVES = {"a", "form"}  # elements that ask another machine only when a reader wants it


@pytest.fixture(scope="module")
def pages(site):
    """Text of each page, by its path."""
    return {path: path.read_text() for path in site.rglob("*.html") if "_static" not in path.parts}


@pytest.fixture(scope="module")
def anchors(pages):
    return {path: {unescape(name) for name in NAMED.findall(text)} for path, text in pages.items()}


def test_links_lead_to_files_and_places_that_are_there(site, pages, anchors):
    broken = []
    for page, text in pages.items():
        for _, link in LINK.findall(text):
            parts = urlsplit(unescape(link))
            if parts.scheme or parts.netloc or not (parts.path or parts.fragment):
                continue
            target = (page.parent / unquote(parts.path)).resolve() if parts.path else page
            there = target.is_file() and target.is_relative_to(site)
            place = unquote(parts.fragment)
            if not there or (place and place not in anchors.get(target, {place})):
                broken.append(f"{page.relative_to(site)}: {link}")
    assert broken == [], "\n".join(broken)


def test_a_link_from_one_document_to_another_is_a_link_on_the_site(site, pages):
    for source in DOCS.glob("*.md"):
        written = source.read_text()
        page = pages.get(site / f"{source.stem}.html", "")
        for name in set(re.findall(r"\]\(([\w-]+)\.md\)", written)) if page else ():
            assert f'href="{name}.html"' in page, f"{source.name}: {name}.md"


def test_pages_fetch_nothing_from_other_machines(site, pages):
    asked = [
        f"{page.relative_to(site)}: {element}"
        for page, text in pages.items()
        for element in re.findall(r"<[a-z]\w*\s[^>]*>", text)
        if (name := element[1:].split(maxsplit=1)[0]) not in LEAVES
        for kind, link in LINK.findall(element)
        if urlsplit(unescape(link)).netloc and not (name == "link" and 'rel="canonical"' in element)
    ]
    for path in (*site.rglob("*.css"), *site.rglob("*.js")):
        asked += [f"{path.relative_to(site)}: {link}" for link in FETCHED.findall(path.read_text())]
    assert asked == []
