"""A study whose individuals stay in their files reads some of them at a time."""

from __future__ import annotations

import shutil
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.data import parquet as scanning
from sumwise.outofcore import scanned_sets
from sumwise.report import individuals as shown
from sumwise.report import study_page
from sumwise.web import picture
from sumwise.web.app import create_app
from tests import parquet
from tests.builders import random_sets, totals
from tests.cli.test_init_parquet import done, run
from tests.report.test_study_page import cells_of, sections_of
from tests.web.apps import client_of, got

MODEL = {"n_basis": 20, "lengthscale": 2.0}
MOST_READ = 60  # individuals at once; there are hundreds
ORDERS = ["grouped", "shuffled"]


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch):
    monkeypatch.setattr(scanning, "BATCH_ROWS", 11)
    monkeypatch.setattr(scanning, "PART_ROWS", 40)


@pytest.fixture(scope="module")
def sets() -> sw.Sets:
    rng = np.random.default_rng(1)
    sizes = [*rng.integers(1, 9, 60).tolist(), 200]  # the last is larger than what may be read
    return random_sets(sizes, rng, ids=[f"meter {a}" for a in range(61)])


@pytest.fixture(params=[pytest.param("grouped", marks=pytest.mark.slow), "shuffled"])
def twins(request, sets, tmp_path, monkeypatch):
    """The same study of files and in memory, after some answers; more individuals than `MOST_READ`
    cannot be read at once. Sets in memory have the order of those in files."""
    order = np.arange(len(sets.x))
    if request.param == "shuffled":
        order = np.random.default_rng(2).permutation(order)
    table = parquet.table_of(sets, order=order)
    pool = parquet.scan(parquet.write(table, tmp_path / "data", cuts=[100]))
    made = sw.AggregateRegressor(**MODEL).embed(pool, tmp_path / "s.design")
    same = sw.Sets.from_frame(table, by="set", x=["x0", "x1", "x2"], weights="theta")
    y = 5 + np.sin(2 * same.x[:, 0]) + same.x[:, 1]
    on_disk = sw.create_study(tmp_path / "s.db", made)
    in_memory = sw.create_study(tmp_path / "m.db", same, model=sw.AggregateRegressor(**MODEL))
    for study in (on_disk, in_memory):
        study.tell_many(dict(list(zip(same.ids, totals(same, y).tolist(), strict=True))[::7]))
        study.tell("meter 60", 900.0)
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 8 * (same.n_inputs + 2) * MOST_READ)
    with pytest.raises(sw.SettingError, match="individuals into memory"):
        _ = on_disk.sets.x
    with on_disk, in_memory:
        yield on_disk, in_memory


def test_rows_and_sets_are_those_of_the_files(twins):
    there, here = (study.sets for study in twins)
    rng = np.random.default_rng(3)
    for which in (rng.integers(0, len(here.x), 50), np.array([0]), np.empty(0, int)):
        for mine, theirs in zip(there.rows_at(which), here.rows_at(which), strict=True):
            assert mine.tolist() == theirs.tolist()
    some = there[["meter 7", "meter 3"]]
    assert some.x.tolist() == here[["meter 7", "meter 3"]].x.tolist()
    assert some.theta.tolist() == here[["meter 7", "meter 3"]].theta.tolist()
    assert_allclose(there.weight_sums(), here.weight_sums(), rtol=1e-12)


@pytest.mark.parametrize("most", [20, 10_000])
def test_a_report_shows_what_it_shows_of_a_study_in_memory(twins, monkeypatch, most):
    for module in (shown, study_page):
        monkeypatch.setattr(module, "MOST", most)
    if most > 20:
        monkeypatch.setattr(scanned_sets, "LARGEST_READ", 2**30)
    pages = [sections_of(study_page.page_of(study)) for study in twins]
    rows = [cells_of(page["Individuals"]) for page in pages]
    assert rows[0] == rows[1]
    assert len(rows[0]) == min(most, len(twins[1].sets.x))
    for name in ("Every set", "Every answer"):
        assert cells_of(pages[0][name]) == cells_of(pages[1][name])


def test_an_export_is_complete_and_its_study_goes_on_as_before(twins, tmp_path, monkeypatch):
    study, _ = twins
    monkeypatch.setattr(shown, "MOST", 20)
    folder = study.export(tmp_path / "export")
    names = [file.name for file in sorted(folder.iterdir()) if file.suffix == ".parquet"]
    assert names == ["basis.parquet", "individuals-000001.parquet", "individuals-000002.parquet"]
    for number, file in enumerate(study.scan.files, start=1):
        assert pq.read_table(folder / f"individuals-00000{number}.parquet").equals(
            pq.read_table(file.path)
        )
    (tmp_path / "data").rename(tmp_path / "gone")
    with sw.import_study(folder, tmp_path / "copy.db") as copy:
        folder.rename(tmp_path / "moved")  # nothing of it is needed any more
        assert copy.history() == study.history()
        question = copy.ask()
        assert question.set_id == study.ask().set_id
        found, expected = copy.predict_sets(), study.predict_sets()
        assert_allclose([found.mean, found.std], [expected.mean, expected.std], rtol=1e-9)
        assert len(cells_of(sections_of(study_page.page_of(copy))["Individuals"])) == 20


@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_weights_are_known_without_reading_individuals(sets, tmp_path, monkeypatch, weights):
    place = parquet.write(parquet.table_of(sets), tmp_path / "data")
    pool = parquet.scan(place, weights=weights)
    made = sw.AggregateRegressor(**MODEL).embed(pool, tmp_path / "s.design")
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 8 * 5 * MOST_READ)
    with sw.create_study(tmp_path / "s.db", made, low=0.0) as study:
        study.tell("meter 0", 1.0)
        folder = study.export(tmp_path / "export")
    with sw.import_study(folder, tmp_path / "copy.db") as copy:
        assert copy.about.weights == weights
        assert copy.about.ranges(copy.sets)[0].tolist() == [0.0] * len(sets)
        expected = sets.sizes if weights == "sum" else np.ones(len(sets))
        assert copy.sets.weight_sums()[0].tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["individuals-000001.parquet", "basis.parquet"])
def test_a_changed_file_of_an_export_is_refused_and_leaves_nothing(twins, tmp_path, name):
    folder = twins[0].export(tmp_path / "export")
    content = bytearray((folder / name).read_bytes())
    content[100] ^= 1
    (folder / name).write_bytes(content)
    with pytest.raises(sw.DataError, match=f"{name} is not what was exported"):
        sw.import_study(folder, tmp_path / "copy.db")
    assert not list(tmp_path.glob("copy*"))


def test_an_import_says_where_it_would_put_individuals(twins, tmp_path):
    folder = twins[0].export(tmp_path / "export")
    (tmp_path / "copy.design").mkdir()
    with pytest.raises(sw.DataError, match=r"copy.design exists; name another folder"):
        sw.import_study(folder, tmp_path / "copy.db")
    with sw.import_study(folder, tmp_path / "copy.db", sets_file=tmp_path / "people") as copy:
        assert {file.path for file in copy.scan.files} == {
            str(tmp_path / "people" / f"individuals-00000{n}.parquet") for n in (1, 2)
        }
    with pytest.raises(sw.DataError, match="name a folder for them"):
        sw.import_study(folder, "postgresql://ann@host/lab")


def test_predictions_are_streamed_to_a_table_and_shapes_are_missed_before(twins, tmp_path):
    _, other = twins
    done("predict", tmp_path / "s.db", "-o", tmp_path / "all.parquet")
    done("predict", tmp_path / "s.db", "-o", tmp_path / "all.csv")
    exact, text = (
        pq.read_table(tmp_path / "all.parquet"),
        pyarrow.csv.read_csv(tmp_path / "all.csv"),
    )
    assert text.column_names == exact.column_names
    for name in ("mean", "std", "lower", "upper"):
        assert_allclose(text[name].to_numpy(), exact[name].to_numpy(), rtol=1e-9)
    found = other.predict()
    assert_allclose(np.sort(exact["mean"].to_numpy()), np.sort(found.mean), rtol=1e-9)
    refused = run("predict", tmp_path / "s.db", "-o", tmp_path / "all.geojson")
    assert "the study has no shapes of individuals" in " ".join(refused.stderr.split())
    done("predict", tmp_path / "s.db", "--sets", "-o", tmp_path / "sets.csv")
    done("predict", tmp_path / "s.db")


def test_the_page_lists_individuals_and_draws_them(twins, monkeypatch):
    monkeypatch.setattr(picture, "MOST", 40)
    pair = [client_of(create_app(study)) for study in twins]
    large = twins[1].ids.index("meter 60")
    for path in (
        "/api/sets/3",
        f"/api/sets/{large}?page=4&size=40",
        "/api/individuals?page=3&size=25",
        "/api/individuals?sort=set&order=desc&size=30",
        "/api/individuals?search=meter%205",
    ):
        there, here = (got(client.get(path)) for client in pair)
        rows = [body.get("individuals", body) for body in (there, here)]
        rows = [body["rows"] for body in rows]
        assert len(rows[0]) == len(rows[1]) > 0
        for mine, theirs in zip(*rows, strict=True):
            assert [mine[name] for name in ("set", "row", "inputs")] == [
                theirs[name] for name in ("set", "row", "inputs")
            ]
            values = [[row[name] for name in ("mean", "std", "lower")] for row in (mine, theirs)]
            assert_allclose(*values, rtol=1e-9, atol=1e-12)
    refused = got(pair[0].get("/api/individuals?sort=mean"), 422)
    assert "listed set by set" in refused["detail"]
    drawn = got(pair[0].get("/api/picture?kind=pca"))
    assert "40 are drawn" in " ".join(drawn["words"])
    kinds = [pair[0].get(f"/api/individuals.{kind}") for kind in ("csv", "parquet")]
    assert [each.status_code for each in kinds] == [200, 200]
    assert kinds[0].text.count("\n") == 1 + len(twins[1].sets.x)


LONG = """
import resource, sys, pathlib, sumwise as sw
from sumwise.cli import main
folder = pathlib.Path(sys.argv[1])
def command(*words):
    main(list(map(str, words)), standalone_mode=False)
db = folder / "s.db"
command("init", db, folder / "data", "--by", "set", "--basis", "linear", "--weights", "mean")
with sw.open_study(db) as study:
    study.tell_many({name: float(n) for n, name in enumerate(study.ids[::20])})
command("report", db, "-o", folder / "report.html")
command("predict", db, "-o", folder / "all.csv")
command("export", db, folder / "export")
command("import", folder / "export", folder / "copy.db")
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
@pytest.mark.parametrize("order", ORDERS)
def test_memory_does_not_grow_with_individuals(order, tmp_path):
    peaks = []
    for n in (600_000, 4_000_000):  # inputs of the latter take 256 MB, predictions 128 MB
        rng, place = np.random.default_rng(0), tmp_path / str(n)
        (place / "data").mkdir(parents=True)
        owner = np.repeat(np.arange(500), n // 500)
        owner[: n // 2] = 0  # one set has half of them
        owner = rng.permutation(owner) if order == "shuffled" else owner
        columns = {"set": owner, **{f"x{d}": rng.random(n, dtype=np.float32) for d in range(8)}}
        pq.write_table(pa.table(columns), place / "data" / "a.parquet", row_group_size=2**18)
        made = subprocess.run(
            [sys.executable, "-c", LONG, place], capture_output=True, text=True, check=True
        )
        peaks.append(int(made.stdout.split()[-1]) / 1e6)
        shutil.rmtree(place)
    assert peaks[1] < peaks[0] + 0.2, peaks
