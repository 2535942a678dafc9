"""Where the real data are, for tests that need them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"
HELP = (
    "set SUMWISE_DATA to a folder with libsvm/abalone, …, climate/na_3deg.csv; "
    "docs/reproduction.md says where to get them"
)


def data_folder() -> Path:
    """SUMWISE_DATA, else a data folder beside the repository; without one, skip, but fail in CI."""
    named = os.environ.get("SUMWISE_DATA")
    folder = Path(named) if named else BESIDE
    if folder.is_dir():
        return folder
    reason = f"there are no data in {folder}: {HELP}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
