"""A study on Parquet files goes on with the files as they are."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose

import sumwise as sw
from sumwise.cli import main
from sumwise.outofcore import build, scanned_sets

MODEL = sw.AggregateRegressor("fourier", n_basis=6, random_state=1)
RNG = np.random.default_rng(2)


def write(folder, name, members):
    """A file with so many rows of each set."""
    sets = [f"m{a:02}" for a in sorted(members) for _ in range(members[a])]
    x = RNG.normal(size=(2, len(sets)))
    os.makedirs(folder, exist_ok=True)
    path = Path(folder) / name
    pq.write_table(pa.table({"meter": sets, "x0": x[0], "x1": x[1]}), path)
    write.clock += 1
    os.utime(path, ns=(write.clock, write.clock))


write.clock = 0


def scanned(folder, weights="sum"):
    return sw.Sets.scan_parquet(folder, by="meter", x=["x0", "x1"], weights=weights)


@pytest.fixture
def place(tmp_path):
    write(tmp_path / "files", "a.parquet", {a: 3 for a in range(10)})
    write(tmp_path / "files", "b.parquet", {a: 2 for a in range(9, 20)})
    return tmp_path


def begun(place, weights="sum", **options):
    made = MODEL.embed(scanned(place / "files", weights), place / "m.design")
    study = sw.create_study(place / "m.db", made, **options)
    study.tell_many(["m03", "m12"], [4.0, 5.0])
    return study


def totals(study):
    return {answer.set_id: answer.y_bar for answer in study.answers}


def test_sets_of_new_files_join_and_measured_sets_that_grew_go_on_beside_what_they_were(place):
    with begun(place) as study:
        before = study.predict_sets()
        write(place / "files", "c.parquet", {3: 1, 5: 2, 30: 4, 31: 4})
        said = study.refresh_pool(by="ann", note="November")
        assert said.startswith(
            "0 of 3 files changed, 1 new: 11 individuals joined, 2 sets grew, 2 "
        )
        assert "; 11 of 63 rows were read again; totals of former members kept as 'm03 (" in said
        assert study.history()[-1].what == "pool"
        assert study.history()[-1].note == f"{said}: November"
        assert study.history()[-1].by == "ann"
        former = next(name for name in totals(study) if name.startswith("m03 ("))
        assert totals(study)[former] == 4.0
        assert {"m03", "m30", "m31", "m05"} < {*study.ids}
        assert former not in study.ids
        assert len(study.ids) == 22
        assert study.progress == (2, 23)
        with pytest.raises(sw.SettingError, match="not part of the pool any more; it is 'm03' now"):
            study.claim(former)
        asked = {question.set_id for question in study.ask(21)}
        assert "m03" in asked
        assert former not in asked
        again = study.predict_sets()
        assert len(before.mean) == 20
        assert len(again.mean) == 22
        assert len(study.predict()) == 63
        assert study.status().answers == 2
        study.release("m03")
        study.tell("m03", 6.0)
        study.amend(former, 4.5)
        assert totals(study)[former] == 4.5
    with sw.open_study(place / "m.db") as study:
        assert len(study.answers) == 3


@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_the_pool_is_that_of_a_study_on_the_new_files(place, weights):
    with begun(place, weights) as study:
        write(place / "files", "c.parquet", {5: 2, 30: 4})
        write(place / "files", "b.parquet", {a: 2 for a in range(9, 20)})
        (place / "files" / "d.parquet").write_bytes((place / "files" / "c.parquet").read_bytes())
        study.refresh_pool()
        record = study.state.record
        scan = scanned(place / "files", weights)
        made = build.embed_scan(
            scan, MODEL.config(), place / "scratch", prepared=record.embedded.prepared
        )
        with sw.create_study(place / "s.db", made) as other:
            other.tell_many(["m03", "m12"], [4.0, 5.0])
            mine, theirs = study.predict_sets(), other.predict_sets()
            order = [study.ids.index(name) for name in other.ids]
            assert sorted(study.ids) == sorted(other.ids)
            assert_allclose(mine.mean[order], theirs.mean)
            assert_allclose(mine.std[order], theirs.std)
            assert study.ask().set_id == other.ask().set_id


def test_corrected_rows_keep_the_answer_with_the_set(place):
    with begun(place) as study:
        write(place / "files", "b.parquet", {a: 2 for a in range(9, 20)})
        said = study.refresh_pool()
        assert "1 of 2 files changed: 11 sets read again with as many individuals" in said
        assert totals(study)["m12"] == 5.0
        assert len(study.ids) == 20
        assert study.refresh_pool() == "no file has changed"
        assert len([event for event in study.history() if event.what == "pool"]) == 1


def test_a_set_that_is_gone_leaves_and_comes_back(place):
    with begun(place) as study:
        study.skip("m19")
        write(place / "files", "b.parquet", {a: 2 for a in range(9, 18) if a != 12})
        said = study.refresh_pool()
        assert "6 individuals left, 3 sets shrank, 3 sets gone" in said
        assert not {"m12", "m18", "m19"} & {*study.ids}
        assert totals(study)["m12"] == 5.0
        assert not study.skips
        assert len(study.sets) == 17
        assert study.sets.n_individuals == 46
        with pytest.raises(sw.SettingError, match="individuals are not in its files any more"):
            study.export(place / "out")
        write(place / "files", "b.parquet", {a: 2 for a in range(9, 20)})
        study.refresh_pool()
        assert len(study.ids) == 20
        assert [name for name in totals(study) if name.startswith("m12 (")]
        assert "m12" not in totals(study)


def test_a_set_that_is_being_measured_does_not_lose_its_last_member(place):
    with begun(place) as study:
        study.claim("m19", by="ann")
        write(place / "files", "b.parquet", {a: 2 for a in range(9, 19)})
        with pytest.raises(sw.SettingError, match="'m19' would lose its last member, and 'ann'"):
            study.refresh_pool()
        assert "m19" in study.ids


def test_new_sets_need_their_costs(place):
    cost = np.arange(1.0, 21.0)
    with begun(place, cost=cost) as study:
        write(place / "files", "c.parquet", {3: 1, 30: 4})
        with pytest.raises(sw.SettingError, match="'m30' is new, and the study has for each set"):
            study.refresh_pool()
        assert len(study.ids) == 20
        study.refresh_pool(cost=7.0)
        known = dict(zip(study.state.record.sets.ids, study.state.record.aims.cost, strict=True))
        assert known["m30"] == 7.0
        assert known["m03"] == 4.0


def test_another_program_sees_the_new_pool_or_the_old_one(place):
    with begun(place) as study, sw.open_study(place / "m.db") as other:
        other.propose(2)
        write(place / "files", "c.parquet", {30: 4})
        held = other.state
        study.refresh_pool()
        assert len(held.record.sets) == 20
        with pytest.raises(sw.StorageError, match="has just been changed by another program"):
            held.claim([None])
        assert len(other.ids) == 21
        assert other.ask() is not None


def test_designs_that_a_study_has_left_are_removed_and_the_first_is_not(place):
    with begun(place) as study:
        for number in range(4):
            write(place / "files", "b.parquet", {a: 2 for a in range(9, 20)})
            (place / "m.design" / "u-77.rows").write_bytes(b"of a program that was killed")
            study.refresh_pool(note=str(number))
        names = {path.name for path in (place / "m.design").iterdir()}
        manifests = sorted(name for name in names if name.startswith("manifest"))
        assert len(manifests) == 3
        assert "manifest.json" in manifests
        assert "u-77.rows" not in names
        assert sum(name.startswith("u-") for name in names) == 2
    sw.Embedded.open(place / "m.design")
    sw.open_study(place / "m.db").close()


def test_a_study_moves_along_with_its_files_and_is_refreshed_there(place):
    (place / "here").mkdir()
    shutil.move(place / "files", place / "here" / "files")
    begun(place / "here").close()
    (place / "here").rename(place / "there")
    write(place / "there" / "files", "c.parquet", {30: 4})
    with sw.open_study(place / "there" / "m.db") as study:
        assert "1 set new; 4 of 56 rows" in study.refresh_pool()
    shutil.move(place / "there" / "files", place / "elsewhere")
    with sw.open_study(place / "there" / "m.db") as study:
        with pytest.raises(sw.DataError, match="no file or folder"):
            study.refresh_pool()
        assert "no file has changed" in study.refresh_pool(place / "elsewhere")


def test_studies_in_memory_are_sent_to_the_other_commands_and_these_here(place):
    sets = sw.Sets.from_arrays([[[0.0, 1.0]], [[2.0, 3.0]]])
    with (
        sw.create_study(place / "a.db", sets) as study,
        pytest.raises(sw.SettingError, match="sumwise pool add, drop and correct"),
    ):
        study.refresh_pool()
    with begun(place) as study, pytest.raises(sw.SettingError, match="sumwise pool refresh"):
        study.change_pool(drop=pa.table({"set": ["m03"], "row": [1]}))


def test_the_shell_brings_a_study_up_to_date(place, monkeypatch):
    monkeypatch.chdir(place)
    monkeypatch.setenv("COLUMNS", "300")
    begun(place).close()
    write(place / "files", "c.parquet", {3: 1, 30: 4})
    done = CliRunner().invoke(main, ["pool", "refresh", "m.db", "--by", "ann"])
    said = " ".join(done.output.replace("│", "").split())
    assert "5 individuals joined, 1 set grew, 1 set new; 5 of 57 rows were read again" in said
    assert "The pool has 21 sets of 57 individuals now." in said
    done = CliRunner().invoke(main, ["pool", "refresh", "m.db", str(place / "files"), "--json"])
    assert '"changed": "no file has changed"' in done.output


@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_files_that_were_merged_into_one_change_nothing(place, weights):
    """Every set is read again from a new file, adds up to what it did, and keeps its answer."""
    with begun(place, weights) as study:
        before, asked = study.predict_sets(), study.propose(1)[0].set_id
        files = [place / "files" / name for name in ("a.parquet", "b.parquet")]
        merged = pa.concat_tables(pq.read_table(file) for file in files)
        for file in files:
            file.unlink()
        pq.write_table(merged, place / "files" / "all.parquet")
        said = study.refresh_pool()
        assert "0 of 1 file changed, 1 new, 2 gone: 20 sets read again" in said
        assert totals(study) == {"m03": 4.0, "m12": 5.0}
        assert study.ids == tuple(f"m{a:02}" for a in range(20))
        assert_allclose(study.predict_sets().mean, before.mean, rtol=1e-9)
        assert study.propose(1)[0].set_id == asked
        write(place / "files", "all.parquet", {3: 3, 9: 5})  # and gone
        (place / "files" / "all.parquet").rename(place / "files" / "new.parquet")
        study.refresh_pool()  # as many rows in a new file, and others: members changed
        assert "m03" not in totals(study)
        assert study.ids == ("m09", "m03")


def test_individuals_are_not_read_where_sets_have_left_the_pool(place, monkeypatch):
    """The design represents those who are in the files; individuals may not fit in memory."""
    with begun(place) as study:
        write(place / "files", "c.parquet", {3: 1, 30: 4})
        study.refresh_pool()
    monkeypatch.setattr(scanned_sets, "LARGEST_READ", 0)
    with sw.open_study(place / "m.db") as study:
        study.ask(2)
        assert study.status().answers == 2
        pool = study.state.fitted().pool
        targets = study.state.record.embedded.own_pool.targets
        assert pool.targets is targets
        assert targets.everyone == 57
        with pytest.raises(sw.SettingError, match="individuals into memory"):
            study.predict()
