"""What all tests share: fixtures, Hypothesis profiles, and a cache of compiled networks."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import jaxtyping
import pytest
import sqlalchemy as sa
from hypothesis import settings

from tests.clusters import client, cluster, in_processes
from tests.postgres import database, place, postgres_server, postgres_url
from tests.studies import clock, problem, study

__all__ = [  # fixtures
    "client",
    "clock",
    "cluster",
    "database",
    "in_processes",
    "place",
    "postgres_server",
    "postgres_url",
    "problem",
    "study",
]

# examples are fixed by default, so that a failure can be replayed
settings.register_profile("quick", max_examples=8, derandomize=True, deadline=None)
settings.register_profile("default", max_examples=60, derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=1000, derandomize=False, deadline=None)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

# each network is compiled once for all workers, their children and later runs
ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache" / "jax"
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
    gc.set_threshold(50_000, 20, 20)  # modules that tests import are looked through less often
    gc.enable()


# in the quick profile, shapes are checked where the maths has its own tests: other tests lead
# through the same functions, and spent 8 % of their time on the checks
SHAPED = ("acquisition", "data", "model", "outofcore", "properties")


def pytest_runtest_setup(item):
    folder = item.path.relative_to(ROOT).parts[:2]
    off = PROFILE == "quick" and folder[0] != "src" and folder[-1] not in SHAPED
    jaxtyping.config.update("jaxtyping_disable", off)
    if altair := sys.modules.get("altair.utils.schemapi"):
        altair.DEBUG_MODE = False  # whole charts are checked when they are written, parts are not


class Compiled(dict):
    """Statements by all but their dialect object, of which every open database has its own."""

    def get(self, key, default=None):
        return super().get((key[0].name, *key[1:]), default)

    def __setitem__(self, key, value):
        super().__setitem__((key[0].name, *key[1:]), value)


COMPILED = Compiled()


# tests open thousands of databases, and would compile the same statements for each
@sa.event.listens_for(sa.Engine, "engine_connect")
def share_compiled(connection):
    connection.execution_options(compiled_cache=COMPILED)


PAGES = ("neural.md",)  # documents whose examples train networks of the usual size


def pytest_collection_modifyitems(items):
    for item in items:
        if item.path.name in PAGES:
            item.add_marker(pytest.mark.slow)
