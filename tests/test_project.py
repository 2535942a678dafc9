"""What is beside the code: workflows, citation, the oldest dependencies."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import sumwise as sw
from scripts import oldest

ROOT = Path(__file__).resolve().parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_workflows_call_targets_that_the_makefile_has():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    called = {
        target
        for file in WORKFLOWS
        for target in re.findall(r"run: make ([a-z-]+)", file.read_text())
    }
    assert {"test", "test-oldest", "test-newest", "dist", "docs"} <= called <= targets


def test_workflows_read_unless_a_job_says_that_it_writes():
    for file in WORKFLOWS:
        assert "\npermissions:\n  contents: read\n" in file.read_text(), file.name


def test_the_workflow_tries_each_python_that_the_package_names():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [each.rpartition(" ")[2] for each in project["classifiers"] if ":: 3." in each]
    tried = re.search(
        r"python: \[(.*)\]\n    steps", (ROOT / ".github/workflows/tests.yml").read_text()
    )
    assert tried is not None
    assert re.findall(r"[\d.]+", tried[1]) == named
    assert project["requires-python"] == f">={named[0]}"


def test_the_citation_names_this_version():
    assert f"\nversion: {sw.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_the_oldest_versions_are_lower_bounds_of_all_that_is_shipped():
    pinned = oldest.constraints()
    assert "numpy==2.2.*" in pinned
    assert all(re.fullmatch(r"[\w-]+==[\d.]+\.\*", line) for line in pinned)
    assert not any(line.startswith(("pytest", "torch")) for line in pinned)
