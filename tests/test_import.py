from __future__ import annotations

import subprocess
import sys

import sumwise as sw

HEAVY = ("pandas", "sklearn", "numba", "jax", "sqlalchemy", "altair")


def loaded_by(program):
    command = [sys.executable, "-c", f"import sys\n{program}\nprint(*sorted(sys.modules))"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_sumwise_imports_no_heavy_package():
    loaded = loaded_by("from sumwise import ActiveLearner, AggregateRegressor, Sets, score, Neural")
    assert "sumwise.learning.learner" in loaded
    assert not set(HEAVY) & loaded


def test_the_command_line_itself_needs_no_numpy():
    loaded = loaded_by("import sumwise.cli")
    assert "sumwise.cli" in loaded
    assert "numpy" not in loaded


def test_every_public_name_is_there_and_listed():
    for name in sw.__all__:
        assert getattr(sw, name) is not None
    assert set(sw.__all__) <= set(dir(sw))
    assert not hasattr(sw, "nothing_of_this_name")
