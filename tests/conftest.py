"""What all tests share: fixtures, Hypothesis profiles, and a cache of compiled networks."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.postgres import database, place, postgres_server, postgres_url
from tests.studies import clock, problem, study

__all__ = [  # fixtures
    "clock",
    "database",
    "place",
    "postgres_server",
    "postgres_url",
    "problem",
    "study",
]

# examples are fixed by default, so that a failure can be replayed
settings.register_profile("quick", max_examples=12, derandomize=True, deadline=None)
settings.register_profile("default", max_examples=60, derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=1000, derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# each network is compiled once for all workers, their children and later runs
CACHE = Path(__file__).resolve().parents[1] / ".cache" / "jax"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE))
for limit, least in (("MIN_COMPILE_TIME_SECS", 0), ("MIN_ENTRY_SIZE_BYTES", -1)):
    os.environ.setdefault(f"JAX_PERSISTENT_CACHE_{limit}", str(least))
    if jax := sys.modules.get("jax"):  # a plugin has loaded it before this file was read
        jax.config.update(f"jax_persistent_cache_{limit.lower()}", least)
        jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])

# what is imported and collected stays to the end: looking through it for garbage took half of the
# time until the first test, and a share of every test after it
gc.disable()


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


PAGES = ("neural.md",)  # documents whose examples train networks of the usual size


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in PAGES:
            item.add_marker(pytest.mark.slow)
