"""What the browser tests share: waiting, finding cards, and words for those without a browser."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.browser import PATIENCE

try:
    from playwright.sync_api import expect
except ImportError:
    if os.environ.get("CI") == "true":
        raise
    pytest.skip("playwright is not installed: make setup", allow_module_level=True)

__all__ = ["card", "expect", "go", "overflow", "proposed", "settled"]

expect.set_options(timeout=PATIENCE)

BUSY = ".view:not([hidden]) :is([aria-busy=true], .working):visible"


def go(page: Any, view: str) -> None:
    """Go to a view, such as "pool?state=free", and wait until all of it is there."""
    page.evaluate("where => { location.hash = `#/${where}` }", view)
    page.locator(f"section.view.{view.partition('?')[0]}").wait_for()
    settled(page)


def settled(page: Any) -> None:
    """Wait until nothing on the page is loading any more."""
    expect(page.locator(BUSY)).to_have_count(0)


def card(page: Any, name: str) -> Any:
    """The card of a set on Next."""
    return page.locator(".card").filter(has=page.get_by_role("heading", name=name, exact=True))


def proposed(page: Any, rank: int = 1) -> str:
    """The name of a set that is proposed."""
    heading = page.locator(".part.proposed .card h3").nth(rank - 1)
    heading.wait_for()
    return str(heading.inner_text())


def overflow(page: Any, what: str = "document.scrollingElement") -> float:
    """How far something runs off the side, in pixels."""
    return float(page.evaluate(f"{what}.scrollWidth - innerWidth"))
