"""Print constraints that pin every dependency of sumwise to the oldest version it says it takes.

`numpy>=2.0` in pyproject.toml becomes `numpy==2.2.*`. Tools for development are not pinned: they
test sumwise and are no part of it. `make test-oldest` installs what this prints.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1] / "pyproject.toml"
NOT_SHIPPED = ("all", "dev", "bench", "docs")  # extras that users do not install
LOWER_BOUND = re.compile(r"(?P<name>[\w-]+)(\[\w+\])?>=(?P<version>[\d.]+)")


def oldest(requirement: str) -> str:
    """One requirement at its lower bound.

    >>> oldest("psycopg[binary]>=3"), oldest("numpy>=2.2")
    ('psycopg==3.0.*', 'numpy==2.2.*')
    """
    found = LOWER_BOUND.fullmatch(requirement)
    if found is None:
        raise ValueError(f"pyproject.toml: {requirement!r} is not of the form name>=version")
    version = found["version"] if "." in found["version"] else f"{found['version']}.0"
    return f"{found['name']}=={version}.*"


def constraints() -> list[str]:
    project = tomllib.loads(PROJECT.read_text())["project"]
    shipped = list(project["dependencies"])
    for extra, requirements in project["optional-dependencies"].items():
        shipped += [] if extra in NOT_SHIPPED else requirements
    return sorted({oldest(each) for each in shipped})


if __name__ == "__main__":
    print("\n".join(constraints()))
