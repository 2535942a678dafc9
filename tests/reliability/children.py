"""Checks that need a process of their own: another user, a small disk, a limit on files.

`python -m tests.reliability.children NAME ARGUMENT…` runs one of them; it fails by an exception.
Root may write to everything, so whoever is root becomes nobody first, after all that will be needed
is imported (SciPy, which is loaded where it is used, as well): nobody may not look into the folder
where Python is.
"""

from __future__ import annotations

import os
import re
import resource
import secrets
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.special  # noqa: F401
from click.testing import CliRunner, Result

import sumwise as sw
from sumwise.cli import main
from tests import postgres
from tests.reliability import invariants
from tests.studies import SETS, small_study
from tests.workers import processes, value_of

NOBODY = 65534
NO_ROOM = r"could not be written .*everything that was stored before is intact; make room"
ROOT = Path(__file__).resolve().parents[2]


def run(check: Callable[..., None], *arguments: object, within: tuple[str, ...] = ()) -> None:
    """Run a check in a new process; one of this module can be started by the command `within`."""
    if within:
        program = [*within, sys.executable, "-m", "tests.reliability.children", check.__name__]
        done = subprocess.run(
            [*program, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return
    ours, theirs = processes.Pipe(duplex=False)
    child = processes.Process(target=_guarded, args=(check, arguments, theirs))
    child.start()
    theirs.close()
    said = ours.recv()
    child.join()
    assert said == "fine", said


def _guarded(check: Callable[..., None], arguments: tuple, pipe) -> None:
    try:
        check(*map(str, arguments))
        pipe.send("fine")
    except BaseException:
        pipe.send(traceback.format_exc())


def may_mount() -> bool:
    """Whether a file system may be mounted, in a namespace of its own that ends with the child."""
    try:
        done = subprocess.run([*MOUNTING, "true"], capture_output=True, check=False)
    except OSError:
        return False
    return done.returncode == 0


MOUNTING = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "-r")


# --- nobody, who may not write --------------------------------------------------------------------


def become_nobody(hyperparameters: str = "evidence") -> None:
    warm_up(hyperparameters)
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)


def warm_up(hyperparameters: str) -> None:
    """Import all that such a study imports when it is used."""
    with tempfile.TemporaryDirectory() as folder:
        path = small_study(Path(folder) / "a.db", hyperparameters)
        with sw.open_study(path) as study:
            study.tell_many([study.ask().set_id], [1.0])
            look(study)
            with pytest.raises(sw.LabelError):
                study.tell(1, 6.0)
        invariants.check(path)


def look(study: sw.Study) -> tuple:
    """Everything that reading gives."""
    predicted = study.predict(), study.predict_sets()
    numbers = [part.mean.tolist() + part.std.tolist() for part in predicted]
    shown = study.status(), study.propose(2), repr(study)
    return study.answers, study.claims, study.history(), numbers, shown, study.model.predict(SETS.x)


def refuses_to_write(path: str) -> None:
    """Every way of writing is refused in words, and nothing comes of it."""
    with sw.open_study(path) as study:
        before = study.history()
        for act in (
            lambda: study.tell(2, 1.0),
            lambda: study.tell_many([2], [1.0]),
            lambda: study.amend(1, 6.0),
            lambda: study.retract(1),
            lambda: study.ask(by="nobody"),
            lambda: sw.create_study(path, SETS, name="another"),
        ):
            with pytest.raises(sw.StorageError, match=r"cannot be written .*Nothing was changed"):
                act()
        assert study.history() == before


def reads_and_is_refused(path: str, hyperparameters: str = "evidence") -> None:
    """As nobody: reading works and leaves no trace, writing is refused."""
    become_nobody(hyperparameters)
    reads_where_nobody_writes(path)


def reads_where_nobody_writes(path: str) -> None:
    folder = Path(path).parent
    before = Path(path).read_bytes(), sorted(folder.iterdir())
    for _ in range(2):
        with sw.open_study(path) as study:
            assert study.answers[0].y_bar == 5.0
            look(study)
    refuses_to_write(path)
    assert (Path(path).read_bytes(), sorted(folder.iterdir())) == before


def reads_what_others_write(path: str, told: str) -> None:
    """As nobody, while the owner has the study open."""
    become_nobody()
    with sw.open_study(path) as study:
        assert [answer.set_id for answer in study.answers] == [int(a) for a in told.split(",")]
        look(study)
    refuses_to_write(path)


def is_refused_where_nothing_may_be_read(path: str) -> None:
    become_nobody()
    with pytest.raises(sw.StorageError, match=r"cannot be opened .*permissions"):
        sw.open_study(path)


def is_refused_a_new_file(path: str) -> None:
    become_nobody()
    with pytest.raises(sw.StorageError, match=r"cannot be opened .*permissions"):
        sw.create_study(path, SETS)


def is_told_to_copy(path: str) -> None:
    """As nobody: a study that was not closed needs a file that cannot be made here."""
    become_nobody()
    with pytest.raises(sw.StorageError, match=r"Copy both to a folder of yours"):
        sw.open_study(path)


def reads_on_a_read_only_disk(path: str) -> None:
    """Even root may not write there."""
    folder = str(Path(path).parent)
    subprocess.run(["mount", "--bind", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,ro,bind", folder], check=True)
    reads_where_nobody_writes(path)


# --- clocks that jump -----------------------------------------------------------------------------


def put(clock: Path, days: float) -> None:
    """Put the clock of all processes that read this file so far ahead of the machine's."""
    other = clock.with_name(f"{clock.name}-{secrets.token_hex(4)}")
    other.write_text(str(round(86_400 * days)))
    other.replace(clock)


def holds_claims_while_the_clock_jumps(folder: str, clock: str) -> None:
    """Claims last for seven days of whatever the clock says; each has a way out."""
    path, ahead = Path(folder) / "a.db", Path(clock)
    before = datetime.now(UTC)
    put(ahead, 1)
    assert timedelta(hours=23) < datetime.now(UTC) - before < timedelta(hours=25)
    put(ahead, 0)
    with sw.create_study(path, SETS, model=sw.AggregateRegressor("linear")) as study:
        first = study.ask(by="ann").set_id
        for days in (-400, -1, 0, 6.9):  # put back it lasts longer, and never ends at once
            put(ahead, days)
            assert [claim.set_id for claim in study.claims] == [first]
            assert study.propose(1)[0].set_id != first
        for days, held in ((7.1, []), (0, [first]), (7.1, [])):
            put(ahead, days)
            assert [claim.set_id for claim in study.claims] == held
        study.claim(first, by="bob")
        put(ahead, 0)
        assert [(claim.set_id, claim.by) for claim in study.claims] == [(first, "bob")]
        study.tell(first, 1.0, by="ann")  # kept, though bob holds the claim
        put(ahead, 400)
        late, later = (study.ask(by="eve").set_id for _ in range(2))
        put(ahead, 0)
        assert {claim.set_id for claim in study.claims} == {late, later}  # for more than a year
        study.renew(late, by="eve")
        study.release(later, by="ann")
        put(ahead, 7.1)
        assert study.claims == ()
        put(ahead, -400)
        study.amend(first, 2.0)
        what = [event.what for event in study.history()]
        told = ["asked", "expired", "asked", "told", "asked", "asked", "renewed", "released"]
        assert what == ["created", *told, "amended"]
    invariants.check(path)


def ends_tokens_while_the_clock_jumps(folder: str, clock: str) -> None:
    """A server that has seen a token expire does not accept it again."""
    from sumwise.web import tokens

    os.environ["XDG_STATE_HOME"], ahead = folder, Path(clock)
    put(ahead, 0)
    text, _ = tokens.add_person("a.db", "ann", days=1)
    longer, _ = tokens.add_person("a.db", "bob", days=9)
    server = tokens.Tokens(tokens.new_token(), tokens.people_file("a.db"))
    for days, accepted in ((-400, True), (0.9, True), (1.1, False), (0, False), (-400, False)):
        put(ahead, days)
        assert (server.of_bearer(text.encode()) is not None) == accepted, days
        assert server.of_bearer(longer.encode()) is not None


def works_while_the_clock_jumps(place: str, by: str, n: str, said: str) -> None:
    """Asks, tells, renews, releases and skips; writes down every total that was acknowledged."""
    rng = np.random.default_rng(len(by) + int(n))
    with sw.open_study(place) as study, open(said, "w", buffering=1) as acknowledged:
        for _ in range(int(n)):
            with suppress(
                sw.PoolExhaustedError, sw.SettingError, sw.LabelError
            ):  # others were faster
                own = study.ask(by=by).set_id
                kind = rng.choice(["tell", "renew", "release", "skip"], p=[0.7, 0.1, 0.1, 0.1])
                if kind == "tell":
                    study.tell(own, value_of(own), by=by)
                    acknowledged.write(f"{own}\n")
                else:
                    getattr(study, str(kind))(own, by=by)


# --- no locks -------------------------------------------------------------------------------------


def is_told_that_locks_are_missing(path: str) -> None:
    """At once, and not after a minute of waiting for another program; another place works."""
    for act in (lambda: sw.open_study(path), lambda: sw.create_study(path + "2", SETS)):
        with pytest.raises(sw.StorageError, match=r"on a disk without file locks .*PostgreSQL"):
            act()
    assert not Path(path + "2").exists()


def is_warned_that_tokens_are_not_locked(folder: str) -> None:
    from sumwise.web import tokens

    os.environ["XDG_STATE_HOME"] = folder
    with pytest.warns(UserWarning, match=r"cannot be locked .*two programs there at once"):
        tokens.add_person("a.db", "ann")
    assert [each.name for each in tokens.people(tokens.people_file("a.db"))] == ["ann"]


# --- no room --------------------------------------------------------------------------------------


def fill(study: sw.Study) -> int:
    """Write until there is no room; how many went well."""
    for written in range(10_000):
        try:
            study.amend(0, float(written), note=secrets.token_hex(4500))
        except sw.StorageError as error:
            return written if re.search(NO_ROOM, str(error)) else -1
    return -2


def survives_a_full_disk(path: str, make_room: Callable[[], None]) -> None:
    """Earlier answers are there while there is no room, and it goes on once there is some."""
    with sw.open_study(path) as study:
        study.tell(0, -1.0)
        written = fill(study)
        assert written > 10
        assert {told.set_id: told.y_bar for told in study.answers} == {1: 5.0, 0: written - 1.0}
        with pytest.raises(sw.StorageError, match=NO_ROOM):
            study.tell_many([2, 3], [1, 2], note=secrets.token_hex(4500))
        seen = look(study)
        assert len(study.answers) == 2
        invariants.check(path)
    with suppress(sw.StorageError), sw.open_study(path) as study:  # SQLite may want a little room
        assert study.history() == seen[2]
    make_room()
    with sw.open_study(path) as study:
        assert study.history() == seen[2]
        study.tell_many([2, 3], [1, 2], note=secrets.token_hex(4500))
        assert len(study.answers) == 4
    invariants.check(path)


def survives_a_small_disk(folder: str) -> None:
    """A file system of its own, mounted here, with room for less than a megabyte."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1000k", "tmpfs", folder], check=True)
    ballast = Path(folder) / "ballast"
    ballast.write_bytes(bytes(400_000))
    path = small_study(Path(folder) / "a.db")
    survives_a_full_disk(str(path), ballast.unlink)


def reads_on_a_full_disk(folder: str) -> None:
    """A study at rest is read without room for a single byte, and goes on once there is some."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1000k", "tmpfs", folder], check=True)
    path, ballast = small_study(Path(folder) / "a.db"), Path(folder) / "ballast"
    with sw.open_study(path) as study:
        before = look(study)
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    for _ in range(2):
        with sw.open_study(path) as study:
            assert look(study)[2] == before[2]
            with pytest.raises(sw.StorageError, match=NO_ROOM):
                study.tell(2, 1.0)
            assert look(study)[2] == before[2]
    with sw.open_study(path) as study:
        assert look(study)[2] == before[2]
        ballast.unlink()
        study.tell(2, 1.0)
        assert len(study.answers) == 2
    with sw.open_study(path) as study:
        assert len(study.answers) == 2


def survives_a_limit_on_files(folder: str) -> None:
    """The system refuses to let any file grow: the same, without a disk of one's own."""
    path = small_study(Path(folder) / "a.db")
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, most))
    survives_a_full_disk(str(path), lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))


def survives_a_full_server(folder: str) -> None:
    """A PostgreSQL of its own, whose studies are on a small disk."""
    import psycopg

    small = Path(folder) / "small"
    small.mkdir()
    options = "size=11m,mode=700,uid=postgres,gid=postgres"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", small], check=True)
    (small / "tables").mkdir(mode=0o700)
    shutil.chown(small / "tables", "postgres", "postgres")
    Path(folder).chmod(0o755)
    ballast = small / "ballast"
    ballast.write_bytes(bytes(1_000_000))
    server = postgres.start()
    try:
        with psycopg.connect(server["url"], autocommit=True) as connection:
            connection.execute(f"CREATE TABLESPACE small LOCATION '{small}/tables'")
            connection.execute("CREATE DATABASE small TABLESPACE small")
        url = server["url"].rpartition("/")[0] + "/small"
        small_study(url)
        survives_a_full_disk(url, ballast.unlink)
    finally:
        subprocess.run([postgres.SCRIPT, "stop", server["folder"]], check=True)


def embeds_on_a_small_disk(folder: str) -> None:
    """On a cluster of two processes; then the disk grows."""
    from distributed import Client, LocalCluster

    from sumwise import distributed

    small, rng = Path(folder) / "small", np.random.default_rng(0)
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", small], check=True)
    files = [Path(folder) / f"{number}.parquet" for number in range(8)]
    for number, file in enumerate(files):
        ids = np.repeat(np.arange(500 * number, 500 * number + 500), 3)
        pq.write_table(pa.table({"set": ids, "x": rng.random(1500)}), file)
    scan = sw.Sets.scan_parquet([str(file) for file in files], by="set", x=["x"])
    model = sw.AggregateRegressor("fourier", n_basis=128)
    expected = model.embed(scan, Path(folder) / "elsewhere").own_pool.design.u
    jobs_of: list[int] = []
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):

        def run(job: Callable, jobs: Sequence) -> Iterator:
            jobs_of.append(len(jobs))
            return distributed.on(client)(job, jobs)

        with pytest.raises(sw.DataError, match=r"cannot be written to .*No space left.*Make room"):
            model.embed(scan, small / "design", run=run)
        done = len(list((small / "design" / "parts").glob("*.npz")))
        assert 0 < done < 8
        with pytest.raises(sw.DataError, match="design"):
            sw.Embedded.open(small / "design")
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        made = model.embed(scan, small / "design", run=run)
    assert jobs_of[-1] <= 8 - done
    np.testing.assert_allclose(made.own_pool.design.u, expected, rtol=0, atol=1e-10)


def makes_a_study_whole_or_not_at_all(folder: str) -> None:
    """With less and less room; and what was left behind is in nobody's way."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1000k", "tmpfs", folder], check=True)
    path, ballast = Path(folder) / "a.db", Path(folder) / "ballast"
    refused = 0
    for room in range(0, 400_000, 24_576):
        ballast.write_bytes(bytes(1_000_000 - room))
        try:
            sw.create_study(path, SETS).close()
        except sw.StorageError as error:
            refused += bool(re.search(NO_ROOM, str(error)))
            ballast.unlink()
            sw.create_study(path, SETS).close()  # under the same name: it is not there
        invariants.check(path)
        for file in Path(folder).iterdir():
            file.unlink()
    assert 5 < refused < 16


def writes_all_or_nothing_with_less_and_less_room(folder: str, steps: str) -> None:
    """Every command that writes a file, on a disk that is full at each page of what it writes."""
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)
    os.environ["XDG_STATE_HOME"] = f"{folder}/state"
    path, new, ballast = Path(folder) / "a.db", Path(folder) / "new", Path(folder) / "ballast"
    table = Path(folder) / "table.csv"
    table.write_text("set,a\n" + "".join(f"s{i // 3},{i % 7}\n" for i in range(900)))
    done = command("init", path, table, "--by", "set", "--x", "a", "--basis", "linear")
    assert done.exit_code == 0, done.output
    with sw.open_study(path) as study:
        study.tell_many(study.ids[:100], np.arange(100.0), note="n" * 200)
        study.export(Path(folder) / "exported")
        kept = study.history()
    for name, words in {
        "export": ("export", path, new),
        "backup": ("storage", "backup", path, new),
        "import": ("import", Path(folder) / "exported", new),
        "init": ("init", new, table, "--by", "set", "--x", "a", "--basis", "linear"),
        "csv": ("predict", path, "-o", f"{new}.csv"),
        "parquet": ("predict", path, "-o", f"{new}.parquet"),
        "report": ("report", path, "-o", f"{new}.html"),
    }.items():
        needed, refused = _room_for(words, folder), 0
        for room in np.unique(np.linspace(0, needed // 4096, int(steps)).astype(int)):
            free = os.statvfs(folder)
            ballast.write_bytes(bytes(free.f_bavail * free.f_bsize - 4096 * int(room)))
            done = command(*words)
            made = [file.name for file in Path(folder).glob("new*")]
            ballast.unlink()
            if done.exit_code:
                said = " ".join(done.output.replace("│", " ").split())
                assert done.exit_code == 1, (name, room, done.output, done.exception)
                assert re.search(r"No space left|disk is full|disk I/O|room", said), (name, said)
                assert name in ("init", "import") or not made, (name, room, made)
                assert command(*words).exit_code == 0, (name, room, said)  # nothing is in its way
                refused += 1
            _is_whole(name, Path(folder))
            _remove(Path(folder))
        assert refused > 2, (name, refused)
        with sw.open_study(path) as study:
            assert study.history() == kept
        print(f"{name}: {refused} refused on the way to {needed} bytes")
    invariants.check(path)


def command(*words: object) -> Result:
    """A command of the shell in this process."""
    return CliRunner().invoke(main, [str(word) for word in words], env={"COLUMNS": "300"})


def _room_for(words: Sequence[object], folder: str) -> int:
    """The bytes that are taken by what a command makes."""
    command(*words)  # what it imports is imported, and what the study keeps is kept
    _remove(Path(folder))
    before = os.statvfs(folder)
    done = command(*words)
    assert done.exit_code == 0, done.output
    after = os.statvfs(folder)
    _remove(Path(folder))
    return (before.f_bavail - after.f_bavail) * before.f_bsize


def _remove(folder: Path) -> None:
    for file in folder.glob("new*"):
        shutil.rmtree(file) if file.is_dir() else file.unlink()


def _is_whole(name: str, folder: Path) -> None:
    assert not [*folder.glob(".sumwise-*")]
    new = folder / "new"
    if name in ("backup", "import", "init"):
        invariants.check(new)
        with sw.open_study(new) as study:
            assert len(study.answers) == (0 if name == "init" else 100)
            assert len(study.predict()) == 900
    elif name == "export":
        sw.import_study(new, folder / "new.db").close()
        invariants.check(folder / "new.db")
    elif name == "report":
        assert (folder / "new.html").read_text().rstrip().endswith("</html>")
    elif name == "csv":
        assert (folder / "new.csv").read_text().count("\n") == 901
    else:
        assert pq.read_table(folder / "new.parquet").num_rows == 900


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
