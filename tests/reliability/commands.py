"""Every command of the shell that writes, with what must hold if it is killed: all or nothing.

Each function here looks at a study, makes up arguments, and gives an `Attempt`: the words of the
command, and how to tell afterwards whether it was stored. Anything between is an `AssertionError`.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

import sumwise as sw
from sumwise.study.storage.database import Database
from sumwise.study.storage.schema import VERSION_TABLE, metadata
from sumwise.web import tokens
from tests.builders import random_sets
from tests.reliability import invariants, killing

ROOT = Path(__file__).resolve().parents[2]
SETS = random_sets([1, 2] * 30, np.random.default_rng(0), n_inputs=2)
LINEAR = sw.AggregateRegressor("linear")
MODEL = ("--basis", "linear", "--strategy", "AggMI")


@dataclass(frozen=True)
class Attempt:
    """A command, and how it must have ended."""

    words: list[str]
    says: str  # a pattern of what it prints when it is done
    stored: Callable[[], bool]  # whether it is done, whole; raises if it is half-done
    printed: Callable[[str], None] = lambda out: None  # compares what it says with what is stored


@dataclass
class Home:
    """A database with studies, and a folder for all that is beside it."""

    place: str
    folder: Path
    rng: np.random.Generator
    numbers: Iterator[int] = field(default_factory=itertools.count)
    exported: list = field(default_factory=list)  # events of the study in the folder `exported`
    copies: list[tuple[Path, str]] = field(default_factory=list)  # whole copies, and their digests
    known: dict[str, Any] = field(default_factory=dict)  # until another command has run

    @property
    def files_place(self) -> str:
        """A file of its own: a copy of it would need the design that was there then."""
        return self.place if self.on_server else str(self.folder / "files.db")

    def plain(self) -> invariants.Replay:
        """The study on arrays."""
        return self.once("plain", lambda: invariants.check(self.place, "plain"))

    def once(self, name: str, work: Callable[[], Any]) -> Any:
        if name not in self.known:
            self.known[name] = work()
        return self.known[name]

    @property
    def on_server(self) -> bool:
        return self.place.startswith("postgresql")

    def file(self, name: str, ending: str = "") -> Path:
        return self.folder / f"{name}{next(self.numbers)}{ending}"

    def write(self, text: str, ending: str = ".csv") -> str:
        path = self.file("given", ending)
        path.write_text(text)
        return str(path)

    def one_of(self, values) -> Any:
        values = [*values]
        return values[int(self.rng.integers(len(values)))]


def begun(place: str, folder: Path, seed: int) -> Home:
    """Three studies: on arrays, on a table whose rows have ids, and on Parquet files."""
    home = Home(place, folder, np.random.default_rng(seed))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    with sw.create_study(place, SETS, name="plain", model=LINEAR) as study:
        study.tell_many(range(8), np.arange(8.0))
        study.ask(3, by="ann")
        study.skip(20)
        study.export(folder / "exported")
        home.exported = invariants.check(place, "plain").events
    rows = [f"s{a},r{a}.{n},{(7 * a + 3 * n) % 5},{n}" for a in range(9) for n in range(3)]
    (folder / "pool.csv").write_text("\n".join(["set,id,a,b", *rows]) + "\n")
    made = killing.run(_init(home, "pool"))
    assert made.code == 0, made.err
    with sw.open_study(place, "pool") as study:
        study.tell_many(["s0", "s1"], [1.0, 2.0])
    (folder / "files").mkdir()
    for name, sets in {"a": [0, 0, 1, 2], "b": [2, 3, 3, 4]}.items():
        table = pa.table({"set": sets, "x": np.arange(4.0)})
        pq.write_table(table, folder / "files" / f"{name}.parquet")
    scan = sw.Sets.scan_parquet(folder / "files", by="set", x="x")
    made = LINEAR.embed(scan, folder / "design")
    with sw.create_study(home.files_place, made, name="files") as study:
        study.tell_many([3, 0], [1.5, 2.5])
    return home


def cleared(place: str) -> None:
    """Remove all studies of a server."""
    database = Database(place)
    with database.write() as connection:
        for table in reversed(metadata.sorted_tables):
            if table.name != VERSION_TABLE:
                connection.execute(table.delete())
    database.close()


# --- answers and questions ------------------------------------------------------------------------


def _on_plain(
    home: Home,
    words: list[str],
    says: str,
    expected: list[tuple[str, int]],
    totals: dict[int, float] | None = None,
) -> Attempt:
    """A command that adds these events, or none."""
    before = home.plain().events
    command, *rest = words

    def stored() -> bool:
        after = home.plain()
        assert after.events[: len(before)] == before
        new = [(event.what, event.position) for event in after.events[len(before) :]]
        assert new in ([], expected), (new, expected)
        if new and totals:
            assert {at: after.answers[at][1] for at in totals} == totals
        return bool(new)

    return Attempt([command, home.place, *rest, "--study", "plain"], says, stored)


def ask(home: Home) -> Attempt | None:
    before = home.plain()
    n = int(home.rng.integers(1, 5))
    if len(SETS) - len({*before.answers, *before.claims, *before.skips}) < n:
        return None

    def positions() -> list[int]:
        events = home.plain().events
        assert events[: len(before.events)] == before.events
        new = events[len(before.events) :]
        assert [event.what for event in new] in ([], ["asked"] * n)
        return [event.position for event in new]

    def printed(out: str) -> None:
        asked = [int(question["set"]) for question in json.loads(out)["questions"]]
        assert asked == positions()

    words = ["ask", home.place, "-n", str(n), "--json", "--study", "plain", "--by", "ann"]
    return Attempt(words, r"\}$", lambda: bool(positions()), printed)


def tell(home: Home) -> Attempt | None:
    free = sorted({*range(len(SETS))} - home.plain().answers.keys())
    if not free:
        return None
    at, total = home.one_of(free), float(home.rng.integers(1000))
    words = ["tell", str(at), str(total), "--note", "first visit"]
    return _on_plain(home, words, "Recorded", [("told", at)], {at: total})


def tell_from(home: Home) -> Attempt | None:
    free = sorted({*range(len(SETS))} - home.plain().answers.keys())
    if len(free) < 8:
        return None
    chosen = home.rng.permutation(free)[: home.rng.integers(2, 9)].tolist()
    totals = {at: float(home.rng.integers(1000)) for at in chosen}
    rows = [f"{at},{total}" for at, total in totals.items()]
    file = home.write("\n".join(["set,total", *rows]) + "\n")
    told = [("told", at) for at in totals]
    return _on_plain(home, ["tell", "--from", file], "recorded from", told, totals)


def amend(home: Home) -> Attempt | None:
    return _on_answer(
        home, "amend", "Corrected", "amended", str(float(home.rng.integers(2000, 9999)))
    )


def retract(home: Home) -> Attempt | None:
    return _on_answer(home, "retract", "Withdrawn", "retracted")


def _on_answer(home: Home, command: str, says: str, event: str, *total: str) -> Attempt | None:
    answers = home.plain().answers
    if not answers:
        return None
    at = home.one_of(answers)
    totals = {at: float(total[0])} if total else None
    return _on_plain(home, [command, str(at), *total], says, [(event, at)], totals)


def claim(home: Home) -> Attempt | None:
    before = home.plain()
    free = {*range(len(SETS))} - before.answers.keys() - before.claims.keys()
    return _about(home, "claim", sorted(free), "Held", "asked")


def renew(home: Home) -> Attempt | None:
    held = home.plain().claims
    return _about(home, "renew", held, "is held until", "renewed")


def release(home: Home) -> Attempt | None:
    return _about(home, "release", home.plain().claims, "is free again", "released")


def skip(home: Home) -> Attempt | None:
    answers = home.plain().answers
    return _about(home, "skip", sorted({*range(len(SETS))} - {*answers}), "is skipped", "skipped")


def unskip(home: Home) -> Attempt | None:
    skips = home.plain().skips
    return _about(home, "unskip", skips, "may be asked", "unskipped")


def _about(home: Home, command: str, positions, says: str, event: str) -> Attempt | None:
    if not positions:
        return None
    at = home.one_of(positions)
    return _on_plain(home, [command, str(at)], says, [(event, at)])


# --- the pool -------------------------------------------------------------------------------------


def _members(home: Home) -> tuple[dict[str, list[str]], list[float], list]:
    """Who is in which set, the totals, and the history; all that is stored can be read."""
    return home.once("pool", lambda: _read_members(home))


def _read_members(home: Home) -> tuple[dict[str, list[str]], list[float], list]:
    with sw.open_study(home.place, "pool") as study:
        told = sorted(answer.y_bar for answer in study.answers)
        members = {name: sorted(study.sets[name].row_ids.tolist()) for name in study.ids}
        history = [(event.what, event.note) for event in study.history()]
        assert np.isfinite(study.predict_sets().mean).all()
    return members, told, history


def _on_pool(home: Home, words: list[str], says: str, change: Callable[[dict], None]) -> Attempt:
    members, told, history = _members(home)
    expected = {name: [*rows] for name, rows in members.items()}
    change(expected)
    expected = {name: sorted(rows) for name, rows in expected.items() if rows}

    def stored() -> bool:
        now, totals, events = _members(home)
        assert totals == told
        assert events[: len(history)] == history
        if len(events) == len(history):
            assert now == members
            return False
        assert [what for what, _ in events[len(history) :]] == [says]
        assert now == expected
        return True

    return Attempt([*words, "--study", "pool"], "The pool has" if says == "pool" else ".", stored)


def pool_add(home: Home) -> Attempt | None:
    members, _, _ = _members(home)
    new = {f"n{next(home.numbers)}": name for name in (home.one_of(members), home.file("s").name)}
    table = [f"{name},{row},1.5,2" for row, name in new.items()]
    file = home.write("\n".join(["set,id,a,b", *table]) + "\n")

    def change(expected: dict[str, list[str]]) -> None:
        for row, name in new.items():
            expected.setdefault(name, []).append(row)

    return _on_pool(home, ["pool", "add", home.place, file], "pool", change)


def pool_drop(home: Home) -> Attempt | None:
    large = {name: rows for name, rows in _members(home)[0].items() if len(rows) > 1}
    if not large:
        return None
    name = home.one_of(large)
    row = home.one_of(large[name])
    file = home.write(f"id\n{row}\n")
    words = ["pool", "drop", home.place, file]
    return _on_pool(home, words, "pool", lambda expected: expected[name].remove(row))


def pool_correct(home: Home) -> Attempt | None:
    """One row moves to another set, and its input changes."""
    members, _, _ = _members(home)
    large = [name for name, rows in members.items() if len(rows) > 1]
    if not large:
        return None
    here = home.one_of(large)
    there, row = home.one_of({*members} - {here}), home.one_of(members[here])
    file = home.write(f"id,set,a\n{row},{there},{next(home.numbers)}\n")

    def change(expected: dict[str, list[str]]) -> None:
        expected[here].remove(row)
        expected[there].append(row)

    return _on_pool(home, ["pool", "correct", home.place, file], "pool", change)


def add_map(home: Home) -> Attempt | None:
    shapes = []
    for i, name in enumerate(_members(home)[0]):
        ring = [[i, 0], [i + 1, 0], [i + 1, 1], [i, 1], [i, 0]]
        square = {"type": "Polygon", "coordinates": [ring]}
        shapes.append({"type": "Feature", "properties": {"code": name}, "geometry": square})
    given = json.dumps({"type": "FeatureCollection", "features": shapes})
    file = home.write(given, ".geojson")
    words = ["map", home.place, "--map", file, "--map-id", "code"]
    return _on_pool(home, words, "map", lambda expected: None)


def pool_refresh(home: Home) -> Attempt | None:
    """A file joins and leaves, by turns."""
    third = home.folder / "files" / "c.parquet"

    def joined() -> bool:
        with sw.open_study(home.files_place, "files") as study:  # with all checksums
            found = 7 in study.ids
            assert {*study.ids} == {0, 1, 2, 3, 4} | ({7} if found else set())
            assert {told.y_bar for told in study.answers} == {1.5, 2.5}
            assert study.predict_sets().mean.shape == (len(study.ids),)
        return found

    before = joined()
    if before == third.exists():
        if before:
            third.unlink()
        else:
            pq.write_table(pa.table({"set": [7], "x": [9.0]}), third)
    words = ["pool", "refresh", home.files_place, "--study", "files"]
    return Attempt(words, "The pool has", lambda: joined() != before)


# --- studies and databases ------------------------------------------------------------------------


def _init(home: Home, name: str, place: str | None = None) -> list[str]:
    columns = ["--by", "set", "--x", "a", "--x", "b", "--id", "id"]
    table = str(home.folder / "pool.csv")
    return ["init", place or home.place, table, *columns, *MODEL, "--name", name]


def _names(place: Any) -> list[str]:
    """The studies there; none in a file that was begun and has no tables yet."""
    if isinstance(place, Path) and not place.exists():
        return []
    with suppress(sw.StorageError):
        return invariants.names(place)
    with sw.create_study(place, SETS, name="first", model=LINEAR):  # it is in no one's way
        return []


def init(home: Home) -> Attempt | None:
    """A study beside others."""
    name = home.file("init").name

    def stored() -> bool:
        there = name in invariants.names(home.place)
        if there:
            assert invariants.check(home.place, name).events == []
            with sw.open_study(home.place, name) as study:
                assert len(study.predict()) == 27
        return there

    return Attempt(_init(home, name), "9 sets", stored)


def init_new(home: Home) -> Attempt | None:
    """A study in a new file."""
    if home.on_server:
        return None
    path = home.file("new", ".db")

    def stored() -> bool:
        if "study" not in _names(path):
            return False
        with sw.open_study(path, "study") as study:
            assert len(study.predict()) == 27
        return True

    return Attempt(_init(home, "study", str(path)), "9 sets", stored)


def _is_the_export(place: Any, name: str, events: list) -> None:
    again = invariants.check(place, name).events
    assert [event[2:] for event in again] == [event[2:] for event in events]
    with sw.open_study(place, name) as study:
        assert len(study.predict_sets().mean) == len(SETS)


def import_(home: Home) -> Attempt | None:
    name = home.file("import").name

    def stored() -> bool:
        there = name in invariants.names(home.place)
        if there:
            _is_the_export(home.place, name, home.exported)
        return there

    words = ["import", str(home.folder / "exported"), home.place, "--name", name]
    return Attempt(words, "measured", stored)


def export(home: Home) -> Attempt | None:
    folder, events = home.file("export"), home.plain().events

    def stored() -> bool:
        if not folder.exists():
            return False
        copy = home.file("again", ".db")
        sw.import_study(folder, copy).close()
        _is_the_export(copy, "plain", events)
        return True

    words = ["export", home.place, str(folder), "--study", "plain"]
    return Attempt(words, "written to", stored)


def digest(place: Any) -> str:
    """Of everything in a database."""
    database, found = Database(place), hashlib.sha256()
    with database.read() as connection:
        assert connection.exec_driver_sql("PRAGMA integrity_check").scalar() == "ok"
        for table in metadata.sorted_tables:
            rows = connection.execute(sa.select(table)).all()
            found.update("\n".join(sorted(map(repr, rows))).encode())
    database.close()
    return found.hexdigest()


def backup(home: Home) -> Attempt | None:
    """To a new file, or over a former copy."""
    if home.on_server:
        return None
    over = home.copies and home.rng.random() < 0.5
    file, former = home.one_of(home.copies) if over else (home.file("copy", ".db"), None)
    now = digest(home.place)

    def stored() -> bool:
        if not file.exists():
            assert former is None
            return False
        found = digest(file)
        assert found in (former, now)
        if found == now:
            home.copies[:] = [pair for pair in home.copies if pair[0] != file] + [(file, now)]
        return found == now

    words = ["storage", "backup", home.place, str(file), *(["--force"] if over else [])]
    return None if former == now else Attempt(words, "copied to", stored)


def restore(home: Home) -> Attempt | None:
    before = None if home.on_server else digest(home.place)
    copies = [pair for pair in home.copies if pair[1] != before]
    if before is None or not copies:
        return None
    copy, whole = home.one_of(copies)
    files = {*home.folder.glob("*-before-*")}

    def stored() -> bool:
        now = digest(home.place)
        assert now in (before, whole)
        for file in {*home.folder.glob("*-before-*.db")} - files:
            assert digest(file) == before
            return now == whole
        assert now == before
        return False

    words = ["storage", "restore", home.place, str(copy)]
    return Attempt(words, "What was there before", stored)


def upgrade(home: Home) -> Attempt | None:
    if home.on_server:
        return None
    path = Path(shutil.copy(ROOT / "tests/databases/v0001.db", home.file("old", ".db")))

    def stored() -> bool:
        try:
            names = invariants.names(path)
            study = sw.open_study(path, names[0])
        except sw.DataError as error:
            assert "made by an older sumwise" in str(error)  # noqa: PT017
            return False
        with study:
            study.predict_sets()
        return True

    return Attempt(["storage", "upgrade", str(path)], "current schema", stored)


# --- files ----------------------------------------------------------------------------------------


def report(home: Home) -> Attempt | None:
    file = home.file("report", ".html")

    def stored() -> bool:
        if file.exists():
            assert file.read_text().rstrip().endswith("</html>")
        return file.exists()

    words = ["report", home.place, "-o", str(file), "--study", "plain"]
    return Attempt(words, "Report:", stored)


def predict(home: Home) -> Attempt | None:
    file = home.file("predicted", home.one_of([".csv", ".parquet"]))

    def stored() -> bool:
        if file.suffix == ".csv" and file.exists():
            text = file.read_text()
            assert text.count("\n") == 1 + len(SETS.x)
        elif file.exists():
            assert pq.read_table(file).num_rows == len(SETS.x)
        return file.exists()

    words = ["predict", home.place, "-o", str(file), "--study", "plain"]
    return Attempt(words, re.escape(str(file.name)), stored)


# --- tokens ---------------------------------------------------------------------------------------


def _people(home: Home) -> tuple[str, ...]:
    with sw.open_study(home.place, "plain") as study:
        return tuple(each.name for each in tokens.people(tokens.people_file(study.location)))


def token_add(home: Home) -> Attempt | None:
    before, name = _people(home), home.file("person").name

    def stored() -> bool:
        now = _people(home)
        assert now in (before, (*before, name))
        return now != before

    def printed(out: str) -> None:
        with sw.open_study(home.place, "plain") as study:
            given = tokens.Tokens(tokens.new_token(), tokens.people_file(study.location))
        holder = given.of_bearer(out.split()[0].encode())
        assert holder is not None
        assert holder.name == name

    words = ["token", "add", home.place, "--for", name, "--days", "9", "--study", "plain"]
    return Attempt(words, r"^\S{43}$", stored, printed)


def token_revoke(home: Home) -> Attempt | None:
    before = _people(home)
    if not before:
        return None
    name = home.one_of(before)

    def stored() -> bool:
        now = _people(home)
        assert now in (before, tuple(each for each in before if each != name))
        return now != before

    words = ["token", "revoke", home.place, name, "--study", "plain"]
    return Attempt(words, "Revoked", stored)


COMMANDS: dict[str, tuple[Callable[[Home], Attempt | None], float]] = {  # with how often
    "ask": (ask, 3),
    "tell": (tell, 4),
    "tell --from": (tell_from, 4),
    "amend": (amend, 2),
    "retract": (retract, 2),
    "claim": (claim, 1),
    "renew": (renew, 1),
    "release": (release, 1),
    "skip": (skip, 1),
    "unskip": (unskip, 1),
    "pool add": (pool_add, 1.5),
    "pool drop": (pool_drop, 1.5),
    "pool correct": (pool_correct, 1.5),
    "pool refresh": (pool_refresh, 1),
    "map": (add_map, 0.7),
    "init": (init, 1.5),
    "init, a new file": (init_new, 1),
    "import": (import_, 1.5),
    "export": (export, 1),
    "storage backup": (backup, 1.5),
    "storage restore": (restore, 1.5),
    "storage upgrade": (upgrade, 0.7),
    "report": (report, 0.3),
    "predict": (predict, 0.7),
    "token add": (token_add, 1),
    "token revoke": (token_revoke, 1),
}
