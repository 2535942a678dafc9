"""`kill -9` right before each single change that an operation makes to its files.

Random moments seldom fall between two writes of one commit, where only SQLite's log helps.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import sumwise as sw
from tests.builders import random_sets
from tests.marks import slow
from tests.reliability import invariants, tracing
from tests.reliability.children import run
from tests.reliability.scale import sized

SETS = random_sets([1, 2] * 40, np.random.default_rng(0), n_inputs=2)
LINEAR = sw.AggregateRegressor("linear")
ACTS = {
    "tell": lambda study: study.tell(50, 1.0),
    "amend": lambda study: study.amend(3, 1.0),
    "retract": lambda study: study.retract(3),
    "ask": lambda study: study.ask(3),
    "tell_many": lambda study: study.tell_many(range(20, 70), np.arange(50.0), note="n" * 200),
}


@pytest.fixture(scope="module", autouse=True)
def _traced(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tracing")
    run(try_tracing, folder)
    if not (folder / "works").exists():
        pytest.skip("processes may not be traced here")


@pytest.mark.parametrize("act", ["tell", *slow("amend", "retract", "ask", "tell_many")])
def test_an_operation_is_whole_or_not_at_all_wherever_it_stops(tmp_path, act):
    run(kill_everywhere, tmp_path, act)


@pytest.mark.slow
def test_a_study_is_made_or_not_wherever_it_stops(tmp_path):
    run(kill_while_making, tmp_path)


@pytest.mark.slow
def test_an_import_is_there_or_not_wherever_it_stops(tmp_path):
    run(kill_while_importing, tmp_path)


def try_tracing(folder: str) -> None:
    if tracing.may_trace():
        (Path(folder) / "works").touch()


def moments(n_changes: int) -> list[int]:
    """All of them, or as many as there is time for."""
    return np.unique(np.linspace(0, n_changes - 1, sized(16)).astype(int)).tolist()


def fresh(path: Path, template: Path | None) -> None:
    for end in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    if template is not None:
        shutil.copy(template, path)


def kill_everywhere(folder: str, name: str) -> None:
    """The study, closing included, and everything but the last step is either done or not."""
    template, path = Path(folder) / "template.db", Path(folder) / "a.db"
    with sw.create_study(template, SETS, model=LINEAR) as study:
        study.tell_many(range(10), np.arange(10.0))
        study.ask(2)
    before = invariants.check(template).events

    def opened() -> sw.Study:
        study = sw.open_study(path)
        study.propose(1)
        return study

    def act(study: sw.Study) -> None:
        ACTS[name](study)
        study.close()

    def events_after(n: int) -> tuple[int | None, list]:
        fresh(path, template)
        ended = tracing.killed_before(n, opened, act)
        found = invariants.check(path).events
        assert found[: len(before)] == before
        return ended, found[len(before) :]

    n_changes, whole = events_after(10**9)
    assert n_changes is not None
    expected = [(event.what, event.position) for event in whole]
    stored = []
    for n in moments(n_changes):
        ended, more = events_after(n)
        assert ended is None
        assert [(event.what, event.position) for event in more] in ([], expected)
        stored.append(bool(more))
        with sw.open_study(path) as study:  # it goes on
            study.tell(79, 1.0)
    assert stored == sorted(stored)  # first not, and from one moment on for good
    assert set(stored) == {False, True}
    assert expected


def kill_while_making(folder: str) -> None:
    path = Path(folder) / "a.db"

    def make(_: None) -> None:
        sw.create_study(path, SETS, model=LINEAR).close()

    make(None)  # what it imports is imported
    fresh(path, None)
    n_changes = tracing.killed_before(10**9, lambda: None, make)
    assert n_changes is not None
    there = []
    for n in moments(n_changes):
        fresh(path, None)
        assert tracing.killed_before(n, lambda: None, make) is None
        there.append("study" in names(path))
        if not there[-1]:
            make(None)  # nothing is in its way
        invariants.check(path)
    assert there == sorted(there)
    assert set(there) == {False, True}


def names(path: Path) -> list[str]:
    try:
        return invariants.names(path) if path.exists() else []
    except sw.StorageError as error:
        if "no such table" in str(error):
            return []
        raise


def kill_while_importing(folder: str) -> None:
    template, path = Path(folder) / "template.db", Path(folder) / "a.db"
    with sw.create_study(template, SETS, model=LINEAR) as study:
        study.tell_many(range(30), np.arange(30.0), note="n" * 200)
        study.ask(2)
        study.export(Path(folder) / "exported")
        origin = study.history()

    def bring_in(_: None) -> None:
        sw.import_study(Path(folder) / "exported", path, name="copy").close()

    fresh(path, template)
    bring_in(None)
    fresh(path, template)
    n_changes = tracing.killed_before(10**9, lambda: None, bring_in)
    assert n_changes is not None
    there = []
    for n in moments(n_changes):
        fresh(path, template)
        assert tracing.killed_before(n, lambda: None, bring_in) is None
        there.append("copy" in names(path))
        if not there[-1]:
            bring_in(None)
        invariants.check(path, "copy")
        with sw.open_study(path, "copy") as study:
            assert study.history() == origin
    assert there == sorted(there)
    assert set(there) == {False, True}
