from __future__ import annotations

import subprocess
import sys

HEAVY = ("pandas", "sklearn", "numba", "jax", "sqlalchemy", "altair")


def test_importing_sumwise_imports_no_heavy_package():
    program = "import sys, sumwise; print(*sorted(sys.modules))"
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "sumwise" in loaded
    assert not set(HEAVY) & set(loaded)
