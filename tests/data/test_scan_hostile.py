"""Files, folders and settings that are hostile, damaged or odd: refused in words, or right."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import shutil
import threading
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.model import design
from sumwise.outofcore import build, embed_part
from sumwise.outofcore.design_store import Embedded

MODEL = sw.AggregateRegressor(n_basis=8)
X = np.random.default_rng(0).normal(size=60)
IDS = np.repeat(np.arange(20), 3)


def in_small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 5)
    monkeypatch.setattr(scanning, "PART_ROWS", 12)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    in_small_pieces(monkeypatch)


def written(folder, ids=IDS, x=X, name="a.parquet", group=6, **more):
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table({"g": ids, "x": x[: len(ids)], **more})
    pq.write_table(table, folder / name, row_group_size=group)
    return folder


def scanned(place, **change):
    return sw.Sets.scan_parquet(place, **{"by": "g", "x": "x", **change})


def stopped(scan, out, after=2):
    """An embedding that somebody has stopped after so many parts."""

    def run(job, jobs):
        for number, one in enumerate(jobs):
            if job.func is embed_part.embed_part and number == after:
                raise KeyboardInterrupt
            yield job(one)

    with pytest.raises(KeyboardInterrupt):
        MODEL.embed(scan, out, run=run)
    return out


def assert_equal(made, other):
    assert made.ids == other.ids
    np.testing.assert_array_equal(made.own_pool.design.u, other.own_pool.design.u)


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [[], None, b"files", 3, "", [None]])
def test_what_is_no_path_is_refused(path):
    with pytest.raises(sw.SumwiseError, match=r"give the path|at least one file|no file or folder"):
        scanned(path)


def test_a_file_that_is_named_twice_is_refused(tmp_path):
    folder = written(tmp_path / "d")
    with pytest.raises(sw.SettingError, match=r"is there twice.*would count twice"):
        scanned([folder, folder / "a.parquet"])
    (folder / "latest.parquet").symlink_to(folder / "a.parquet")
    with pytest.raises(sw.SettingError, match="is there twice"):
        scanned(folder)


def test_folders_may_be_called_like_files(tmp_path):
    folder = written(tmp_path / "d", ids=IDS[:30])
    written(folder / "2021.parquet", ids=IDS[30:], name="part 0 %20é.parquet")
    assert scanned(folder).rows == 60


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_links_to_files_are_read_and_links_to_folders_are_not(tmp_path, scheme):
    pytest.importorskip("fsspec")
    folder = written(tmp_path / "d", ids=IDS[:30])
    elsewhere = written(tmp_path / "e", ids=IDS[30:], name="b.parquet")
    (folder / "b.parquet").symlink_to(elsewhere / "b.parquet")
    (folder / "self").symlink_to(folder)
    (folder / "gone.parquet").symlink_to(tmp_path / "nowhere")
    with open(os.fsencode(folder) + b"/\xff.txt", "w"):  # a name that is not UTF-8
        pass
    assert scanned(f"{scheme}{folder}").rows == 60
    (folder / "c.parquet").symlink_to(folder / "a.parquet")
    with pytest.raises(sw.SettingError, match="is there twice"):
        scanned(f"{scheme}{folder}")


@pytest.mark.parametrize("scheme", ["", "file://", "memory://"])
@pytest.mark.parametrize("name", ["a\0b", "\ud800"])
def test_paths_that_no_file_can_have_are_refused(scheme, name):
    pytest.importorskip("fsspec")
    with pytest.raises(sw.DataError, match="there is no file or folder"):
        scanned(f"{scheme}/{name}")


@pytest.mark.parametrize("order", [[0, 0, 1, 1], [0, 1, 0, 1]])
def test_string_views_name_sets_and_long_decimals_are_numbers(tmp_path, order):
    ids = pa.array(["a", "b"]).take(pa.array(order))
    number = pa.array([1, 2, 3, 4]).cast(pa.decimal256(40, 2))
    plain = scanned(written(tmp_path / "p", ids=ids, w=np.arange(1.0, 5)), x="w", weights="w")
    odd = written(tmp_path / "d", ids=ids.cast(pa.string_view()), w=number)
    made = MODEL.embed(scanned(odd, x="w", weights="w"), tmp_path / "out")
    assert_equal(made, MODEL.embed(plain, tmp_path / "plain"))


def test_files_are_found_from_any_folder(tmp_path, monkeypatch):
    written(tmp_path / "here" / "d")
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with sw.create_study(tmp_path / "s.db", MODEL.embed(scanned("d"), "out")):
        pass
    monkeypatch.chdir(tmp_path / "there")
    with sw.open_study(tmp_path / "s.db") as study:
        assert study.sets.x.shape == (60, 1)


def test_files_beside_a_design_move_along_with_it(tmp_path):
    made = MODEL.embed(scanned(written(tmp_path / "old" / "d")), tmp_path / "old" / "out")
    shutil.move(tmp_path / "old", tmp_path / "new")
    moved = Embedded.open(tmp_path / "new" / "out")
    assert moved.scan.files[0].path == str(tmp_path / "new" / "d" / "a.parquet")
    assert moved.sets.x.shape == (60, 1)
    assert made.scan.files[0].path == str(tmp_path / "old" / "d" / "a.parquet")


def test_a_design_inside_the_folder_of_files_is_not_read_as_one_of_them(tmp_path):
    order = np.random.default_rng(1).permutation(60)
    folder = written(tmp_path / "d", ids=IDS[order])
    stopped(scanned(folder), folder / "out", after=0)
    assert any(build.SORTED in place for place, _, _ in os.walk(folder))
    assert scanned(folder).rows == 60
    assert scanned(f"file://{folder}").rows == 60


@pytest.mark.parametrize("use", ["embed", "resume", "predict", "individuals"])
def test_a_file_that_changed_since_it_was_scanned_is_refused(tmp_path, use):
    folder = written(tmp_path / "d")
    pool = scanned(folder)
    made = MODEL.embed(pool, tmp_path / "made")
    if use == "resume":
        stopped(pool, tmp_path / "out")
    written(folder, x=2 * X)
    fitted = sw.AggregateRegressor(n_basis=8).fit(made, {3: 1.0, 5: 2.0})
    uses = {
        "embed": lambda: MODEL.embed(pool, tmp_path / "out"),
        "resume": lambda: MODEL.embed(pool, tmp_path / "out"),
        "predict": lambda: fitted.predict_parquet(pool, tmp_path / "p"),
        "individuals": lambda: Embedded.open(tmp_path / "made").sets.x,
    }
    with pytest.raises(sw.DataError, match=r"a\.parquet has changed since it was scanned"):
        uses[use]()
    if use == "resume":
        with pytest.raises(sw.SettingError, match="a design of other files"):
            MODEL.embed(scanned(folder), tmp_path / "out")


def test_files_may_differ_in_the_order_of_columns_and_their_numbers(tmp_path):
    folder = written(tmp_path / "d", ids=IDS[:30], z=np.arange(30))
    other = pa.table({"z": np.arange(30) / 2, "x": X[30:].astype(np.float32), "g": IDS[30:]})
    pq.write_table(other, folder / "b.parquet")
    made = MODEL.embed(scanned(folder, x=["x", "z"]), tmp_path / "out")
    assert made.sets.x.shape == (60, 2)
    np.testing.assert_array_equal(made.sets.x[:, 1], [*np.arange(30), *np.arange(30) / 2])


# --- ids ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [0, 2, 4, 1, 3]])
def test_both_zeros_are_one_set(tmp_path, order):
    ids = np.array([0.0, 0.0, 1.0, -0.0, 2.0])[order]
    made = MODEL.embed(scanned(written(tmp_path / "d", ids=ids)), tmp_path / "out")
    assert sorted(made.ids) == [0.0, 1.0, 2.0]
    assert made.sets.sizes[made.ids.index(0.0)] == 3


def _back_at_three() -> pa.Array:
    """Half past two, twice: clocks went back in between."""
    utc = dt.UTC
    times = [dt.datetime(2020, 10, 25, hour, 30, tzinfo=utc) for hour in (0, 0, 1, 1)]
    return pa.array(times, pa.timestamp("us", "Europe/Berlin"))


HAS_NO_PYTZ = pytest.mark.skipif(
    find_spec("pytz") is not None, reason="Arrow uses pytz, which tells the two hours apart"
)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (pa.array([1, 1, 2, 2], pa.time64("ns")), "names two sets"),
        pytest.param(_back_at_three(), "names two sets", marks=HAS_NO_PYTZ),
        (pa.array([2**62, 2**62, 1, 1], pa.timestamp("us")), "cannot name a set"),
        (pa.array([1, 1, 2, 2], pa.timestamp("us", "Mars/Olympus")), "cannot name a set"),
        (pa.array(np.zeros(4, np.float16)), "cannot name a group"),
        (pa.array([bytes(16)] * 4, pa.uuid()), "cannot name a group"),
        (pa.array([b"a"] * 4, pa.binary_view()), "cannot name a group"),
        (pa.array([b"\xff", b"\xff", b"a", b"a"]).view(pa.string()), "cannot name a set .*UTF8"),
    ],
)
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [0, 2, 1, 3]])
def test_ids_that_python_cannot_tell_apart_or_hold_are_refused(tmp_path, ids, message, order):
    ids = pa.concat_arrays([ids.slice(at, 1) for at in order])
    with pytest.raises(sw.InvalidSetError, match=message):
        MODEL.embed(scanned(written(tmp_path / "d", ids=ids)), tmp_path / "out")


def test_a_frame_with_ids_that_python_cannot_hold_is_refused():
    table = pa.table({"g": pa.array([2**62], pa.timestamp("us")), "x": [1.0]})
    with pytest.raises(sw.InvalidSetError, match="cannot name a group"):
        sw.Sets.from_frame(table, by="g", x="x")


def test_a_group_column_that_is_named_twice_is_refused(tmp_path):
    with pytest.raises(sw.SettingError, match="'g' twice"):
        scanned(written(tmp_path / "d"), by=["g", "g"])


@pytest.mark.parametrize("name", ["position", "position of the set"])
def test_unsorted_files_may_have_any_column_and_lie_anywhere(tmp_path, name):
    order = np.random.default_rng(1).permutation(60)
    table = pa.table({name: IDS[order], "x": X[order], "position_": X[order]})
    (tmp_path / "d").mkdir()
    pq.write_table(table, tmp_path / "d" / "a.parquet")
    pool = scanned(tmp_path / "d", by=name, x=["x", "position_"])
    made = MODEL.embed(pool, tmp_path / "my.arrow.design")
    assert sorted(made.ids) == list(range(20))
    assert made.sets.sizes.tolist() == [3] * 20


# --- numbers --------------------------------------------------------------------------------------


@pytest.mark.slow  # large; small sets are quick in test_design_store
def test_single_precision_adds_up_large_sets_without_drifting(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(scanning, "BATCH_ROWS", 2**17)
    monkeypatch.setattr(design, "COMPILED_FROM", 0)
    ids, x = np.repeat([0, 1, 2], [2**16, 1, 1]), np.r_[np.full(2**16, 0.3), -1.0, 1.0]
    pool = scanned(written(tmp_path / "d", ids, x, group=2**17))
    for basis in ("fourier", "auto"):
        model = sw.AggregateRegressor(basis, n_basis=8)
        made = model.embed(pool, tmp_path / f"{basis} double")
        double = made.own_pool.design.u[0]
        single = model.embed(pool, tmp_path / f"{basis} single", dtype="float32")
        added = np.zeros(len(double))  # what each individual adds at most before it is centred
        if basis == "auto":  # where centring leaves nothing of individuals that are all the same
            for waves in made.prepared.basis.basis.waves:
                added[waves.first : waves.stop] = waves.amplitude
        error = abs(single.own_pool.design.u[0] - double)
        assert (error <= 1e-5 * np.maximum(abs(double), 2**16 * added)).all()


@pytest.mark.parametrize("weight", [1e-50, 2e38, 1e39])
def test_weights_beyond_single_precision_are_refused_there(tmp_path, weight):
    folder = written(tmp_path / "d", w=np.full(60, weight))
    pool = scanned(folder, weights="w")
    with pytest.raises(sw.SumwiseError, match=r"weights .*dtype='float64'"):
        MODEL.embed(pool, tmp_path / "single", dtype="float32")
    assert len(MODEL.embed(pool, tmp_path / "double")) == 20


def test_inputs_in_another_order_than_the_models_are_refused(tmp_path):
    folder = written(tmp_path / "d", y=2 * X)
    made = MODEL.embed(scanned(folder, x=["x", "y"]), tmp_path / "out")
    model = sw.AggregateRegressor(n_basis=8).fit(made, {3: 1.0, 5: 2.0})
    with pytest.raises(sw.InvalidSetError, match="in that order"):
        model.predict_parquet(scanned(folder, x=["y", "x"]), tmp_path / "p")


class Reluctant(io.BytesIO):
    """Takes a few bytes at a time, as unbuffered files may."""

    def write(self, content):
        return super().write(memoryview(content)[:3])


def test_everything_is_written_to_a_file_that_takes_a_little_at_a_time():
    file = Reluctant()
    embed_part.write_all(file, b"all of this")
    assert file.getvalue() == b"all of this"


# --- settings and places --------------------------------------------------------------------------


@pytest.mark.parametrize("memory", [0, -1, float("nan"), float("inf"), "1GB"])
def test_memory_must_be_a_number_of_bytes(tmp_path, memory):
    with pytest.raises(sw.SettingError, match="give a number of bytes"):
        MODEL.embed(scanned(written(tmp_path / "d")), tmp_path / "out", memory=memory)


@pytest.mark.parametrize("out", [None, "", b"out", 3])
def test_a_design_needs_a_place(tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(sw.SettingError, match="give the path of a new folder"):
        MODEL.embed(scanned(written(tmp_path / "d")), out)
    assert os.listdir(tmp_path) == ["d"]


def test_places_that_cannot_be_written_are_refused_in_words(tmp_path):
    pool = scanned(written(tmp_path / "d"))
    (tmp_path / "file").write_text("mine")
    made = MODEL.embed(pool, tmp_path / "out")
    model = sw.AggregateRegressor(n_basis=8).fit(made, {3: 1.0, 5: 2.0})
    for place in ("file", "file/below"):
        with pytest.raises(sw.DataError, match=r"the design cannot be written to .*another place"):
            MODEL.embed(pool, tmp_path / place)
    with pytest.raises(sw.SettingError, match="exists; name a new folder"):
        model.predict_parquet(pool, tmp_path / "file")
    with pytest.raises(sw.DataError, match="predictions cannot be written"):
        model.predict_parquet(pool, tmp_path / "nowhere" / "p.parquet")
    assert (tmp_path / "file").read_text() == "mine"


def test_two_at_once_do_not_write_over_one_another(tmp_path):
    pool, begins, goes_on = scanned(written(tmp_path / "d")), threading.Event(), threading.Event()

    def run(job, jobs):
        begins.set()
        assert goes_on.wait(60)
        yield from map(job, jobs)

    first = threading.Thread(target=MODEL.embed, args=(pool, tmp_path / "out"), kwargs={"run": run})
    first.start()
    assert begins.wait(60)
    try:
        with pytest.raises(sw.DataError, match="another process is embedding"):
            MODEL.embed(pool, tmp_path / "out")
    finally:
        goes_on.set()
        first.join()
    assert_equal(Embedded.open(tmp_path / "out"), MODEL.embed(pool, tmp_path / "alone"))


# --- damage ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ids.arrow", "sizes.npy", "basis.npz", "begun.json", "u.npy"])
@pytest.mark.parametrize("gone", [False, True])
def test_a_beginning_that_was_damaged_is_not_gone_on_with(tmp_path, name, gone):
    pool = scanned(written(tmp_path / "d"))
    out = stopped(pool, tmp_path / "out")
    content = (out / name).read_bytes()
    (out / name).unlink()
    if not gone:
        (out / name).write_bytes(content[:-20] + bytes(20))
    # parts in u.npy have checksums, and are done again; without begun.json everything is
    if (name, gone) in (("u.npy", False), ("begun.json", True)):
        assert_equal(MODEL.embed(pool, out), MODEL.embed(pool, tmp_path / "new"))
    else:
        with pytest.raises(sw.DataError, match=f"{name} (has changed since|cannot be read)"):
            MODEL.embed(pool, out)


def test_leftovers_of_a_run_that_was_killed_do_not_matter(tmp_path):
    pool = scanned(written(tmp_path / "d"))
    out = stopped(pool, tmp_path / "out")
    (out / "parts" / "000000.npz").write_bytes(b"cut off")
    assert_equal(MODEL.embed(pool, out), MODEL.embed(pool, tmp_path / "new"))
    (tmp_path / "early").mkdir()
    (tmp_path / "early" / "basis.npz.77.part").write_bytes(b"cut off")
    assert_equal(MODEL.embed(pool, tmp_path / "early"), Embedded.open(out))


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """A design that is made once, to copy; the files it is of stay where they are."""
    folder = tmp_path_factory.mktemp("once")
    with pytest.MonkeyPatch.context() as patch:
        in_small_pieces(patch)
        MODEL.embed(scanned(written(folder / "d")), folder / "out")
    return folder / "out"


@pytest.fixture
def out(once, tmp_path):
    Embedded.open(shutil.copytree(once, tmp_path / "out"))  # it is sound
    return tmp_path / "out"


def _edited(folder, **change):
    known = json.loads((folder / "manifest.json").read_text())
    (folder / "manifest.json").write_text(json.dumps({**known, **change}))


@pytest.mark.parametrize(
    "change",
    [
        {name: value}
        for name in ("pieces", "regions", "scan", "config", "sets", "features", "offset")
        for value in (None, "x", 3, [], [[-5, 10, 3]], [[0, 10**30, 3]], {"../../passwd": "0"})
    ],
    ids=str,
)
def test_a_manifest_that_was_edited_is_refused(out, change):
    _edited(out, **change)
    with pytest.raises(sw.DataError, match=r"cannot be read|has changed since"):
        Embedded.open(out)


@pytest.mark.parametrize("content", ["", "[]", "3", '{"format": []}'])
def test_a_manifest_that_is_something_else_is_refused(out, content):
    (out / "manifest.json").write_text(content)
    with pytest.raises(sw.DataError, match=r"cannot be read|has the format"):
        Embedded.open(out)


@pytest.mark.parametrize("name", ["ids.arrow", "sizes.npy", "basis.npz", "sums.npy", "u.npy"])
@pytest.mark.parametrize("damage", ["gone", "a folder", "empty", "flipped"])
def test_a_piece_that_was_damaged_is_refused(out, name, damage):
    piece = out / name
    content = bytearray(piece.read_bytes())
    piece.unlink()
    if damage == "a folder":
        piece.mkdir()
    elif damage != "gone":
        content[len(content) // 2] ^= 1
        piece.write_bytes(b"" if damage == "empty" else content)
    with pytest.raises(sw.DataError, match=name):
        Embedded.open(out)
    if damage != "flipped":  # whoever does not compare checksums is told as well
        with pytest.raises(sw.DataError):
            assert Embedded.open(out, check=False).ids


def test_parts_that_do_not_fit_together_are_refused(tmp_path, monkeypatch):
    pool = scanned(written(tmp_path / "d"))
    out = stopped(pool, tmp_path / "out")
    begun = build.read_begun(out)
    first, second, *rest = begun.first_sets
    wrong = replace(begun, first_sets=(first, second + 2, *rest))
    (out / "begun.json").write_text(wrong.to_json())
    with pytest.raises(sw.DataError, match="has changed since the design was begun"):
        build.embed_scan(pool, MODEL.config(), out)
