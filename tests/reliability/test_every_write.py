"""`kill -9` right before each single change that an operation makes to its files.

Random moments seldom fall between two writes of one commit, where only SQLite's log helps.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
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


def test_a_pool_is_refreshed_or_not_wherever_it_stops(tmp_path):
    run(kill_while_refreshing, tmp_path)


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


def kill_while_refreshing(folder: str) -> None:
    """The design on disk and the pool are the new ones or the old ones, and the rest goes on."""
    home, template = Path(folder) / "home", Path(folder) / "template"
    files = template / "files"
    files.mkdir(parents=True)
    for name, sets in {"a": [0, 0, 1, 2], "b": [2, 3, 3, 4]}.items():
        pq.write_table(pa.table({"set": sets, "x": np.arange(4.0)}), files / f"{name}.parquet")
    made = LINEAR.embed(sw.Sets.scan_parquet(files, by="set", x="x"), template / "design")
    with sw.create_study(template / "a.db", made) as study:
        study.tell(3, 1.5)
        study.tell(0, 2.5)
    pq.write_table(pa.table({"set": [3, 7], "x": [9.0, 8.0]}), files / "c.parquet")

    def opened() -> sw.Study:
        study = sw.open_study(home / "a.db")
        study.propose(1)
        return study

    def act(study: sw.Study) -> None:
        study.refresh_pool(run=map)  # in the thread that is traced
        study.close()

    def ended(n: int) -> tuple[int | None, int]:
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(template, home)
        changes = tracing.killed_before(n, opened, act)
        with sw.open_study(home / "a.db") as study:  # with all checksums
            return changes, _pool_of(study)

    n_changes, _ = ended(10**9)
    assert n_changes is not None
    stored = []
    for n in sorted({*moments(n_changes)[::2], *range(n_changes - 6, n_changes, 2)}):
        changes, joined = ended(n)
        assert changes is None or joined  # which files are opened varies a little
        stored.append(joined)
        with sw.open_study(home / "a.db") as study:  # it goes on
            study.refresh_pool()
            assert _pool_of(study)
            study.tell(7, 4.0)
        assert len(sw.Embedded.open(home / "design")) == 5  # what others use is as it was
    assert stored == sorted(stored)
    assert {*stored} == {False, True}


def _pool_of(study: sw.Study) -> bool:
    """Whether it has the new files; all that a study knows is of one pool."""
    told = {answer.set_id: answer.y_bar for answer in study.answers}
    joined, events = 7 in study.ids, [event.what for event in study.history()]
    assert study.ids == ((0, 1, 2, 4, 3, 7) if joined else (0, 1, 2, 3, 4))
    assert ("pool" in events) == joined
    assert told[0] == 2.5
    assert (3 in told) != joined
    assert len(told) == 2
    assert study.predict_sets().mean.shape == (len(study.ids),)
    rows = study.state.record.embedded.own_pool.design.u
    assert len(rows) == (7 if joined else 5)
    return joined
