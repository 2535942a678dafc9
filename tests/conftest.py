"""Hypothesis: fixed examples by default, so that a failure can be replayed; more on request."""

from __future__ import annotations

import os

from hypothesis import settings

from tests.postgres import place, postgres_server, postgres_url
from tests.studies import clock, problem, study

__all__ = ["clock", "place", "postgres_server", "postgres_url", "problem", "study"]  # fixtures

settings.register_profile("default", max_examples=60, derandomize=True, deadline=None)
settings.register_profile("thorough", max_examples=1000, derandomize=False, deadline=None)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
