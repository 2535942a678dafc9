"""The documentation site as `make docs-check` has built it, and a browser to look at it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.conftest import axe, chromium

__all__ = ["axe", "chromium", "site"]


@pytest.fixture(scope="session")
def site() -> Path:
    built = os.environ.get("SUMWISE_SITE")
    if built is None:
        pytest.skip("the site is not built: run `make docs-check`")
    return Path(built).resolve()
