"""What a study knows of its individuals and answers goes along when its pool changes."""

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.data.frames import Table, as_frame
from sumwise.data.geo import Geometry
from sumwise.errors import SettingError
from sumwise.web.app import create_app
from tests.web.apps import client_of, got

SIZES = (4, 3, 5, 2, 6, 3)


def table():
    rng = np.random.default_rng(0)
    names = np.repeat([f"s{a}" for a in range(len(SIZES))], SIZES)
    ids = np.arange(100, 100 + len(names))
    return pd.DataFrame({"set": names, "id": ids, "size": rng.normal(size=len(names))})


def begin(tmp_path, **options):
    sets = sw.Sets.from_frame(table(), by="set", x=["size"], id="id")
    return sw.create_study(tmp_path / "a.db", sets, seed=3, **options)


def joining(**more):
    return pd.DataFrame({"set": ["s0", "s9"], "id": [7, 8], "size": [0.5, 2.0], **more})


def wkb_of(ids):
    return [None if int(i) < 100 else f"shape {i}".encode() for i in ids]


def by_id(study):
    return dict(zip(study.sets.row_ids.tolist(), study.predict().mean.tolist(), strict=True))


def test_geometries_stay_with_their_individuals(tmp_path):
    study = begin(tmp_path, geometry=wkb_of(table()["id"]))
    study.tell("s0", 3.0)
    moved = pd.DataFrame({"id": [104], "set": ["s2"]})
    study.change_pool(add=joining(), drop=pd.DataFrame({"id": [101, 115]}), correct=moved)
    study.change_pool(drop=pd.DataFrame({"id": [112, 113]}))  # s3 is gone
    assert "s3" not in study.ids
    assert study.geometry == tuple(wkb_of(study.sets.row_ids))
    study.export(tmp_path / "out")
    with sw.import_study(tmp_path / "out", tmp_path / "b.db") as again:
        assert again.geometry == study.geometry


def test_those_who_join_bring_geometries_of_the_same_coordinate_system(tmp_path):
    study = begin(tmp_path, geometry=wkb_of(table()["id"]))
    frame, shapes = as_frame(joining()), [b"seven", b"eight"]
    other = Geometry(shapes, {"crs": {"type": "ProjectedCRS"}})
    with pytest.raises(SettingError, match="another coordinate system"):
        study.change_pool(add=Table(frame, "new.gpkg", geometry=other))
    fixed = as_frame(pd.DataFrame({"id": [100], "size": [4.0]}))
    with pytest.raises(SettingError, match=r"fixed\.gpkg has geometries"):
        study.change_pool(correct=Table(fixed, "fixed.gpkg", geometry=Geometry([b"no"])))
    assert study.geometry == tuple(wkb_of(table()["id"]))
    study.change_pool(add=Table(frame, "new.gpkg", geometry=Geometry(shapes)))
    known = dict(zip(study.sets.row_ids.tolist(), study.geometry, strict=True))
    assert (known[7], known[8], known[100]) == (b"seven", b"eight", b"shape 100")


def test_predictions_keep_within_bounds_and_to_totals_of_former_members(tmp_path):
    study = begin(tmp_path, low=0, high=1)
    for name, total in (("s0", 0.2), ("s1", 2.9), ("s2", 4.9), ("s4", 0.1)):
        study.tell(name, total)
    study.change_pool(add=joining(), drop=pd.DataFrame({"id": [104]}))
    means = by_id(study)
    assert 0 <= min(means.values()) <= max(means.values()) <= 1
    for name, total in (("s0", 0.2), ("s2", 4.9), ("s4", 0.1)):
        members = table()["id"][table()["set"] == name]
        assert sum(means[i] for i in members) == pytest.approx(total)
    assert 1.9 - 1e-9 <= sum(means[i] for i in (105, 106)) <= 2  # the one who left had at most 1
    rows = got(client_of(create_app(study)).get("/api/individuals?size=100"))["rows"]
    assert {int(row["id"]): row["mean"] for row in rows} == pytest.approx(means)
    found = study.predict_sets()
    assert found.ids == study.ids
    assert (found.mean >= 0).all()
    assert found.mean[found.ids.index("s9")] <= 1


def test_a_total_of_some_members_stays_theirs(tmp_path):
    study = begin(tmp_path)
    study.tell("s2", 1.5, of=[108, 110])
    study.tell("s4", 4.0)
    study.change_pool(add=pd.DataFrame({"set": ["s2"], "id": [7], "size": [0.5]}))
    former = study.answers[0]
    assert former.of == (2, 4)
    assert str(former.set_id).startswith("s2 (until ")
    means = by_id(study)
    assert means[108] + means[110] == pytest.approx(1.5)
    assert np.ma.getmaskarray(study.predict_sets().beside["measured"])[study.ids.index("s2")]


def test_a_report_knows_costs_and_sizes_of_former_sets(tmp_path):
    study = begin(tmp_path, cost=np.arange(1.0, 7.0))
    for name, total in (("s0", 0.2), ("s1", 2.9), ("s5", 4.9)):
        study.tell(name, total, of=None if name != "s5" else [120])
    study.change_pool(add=joining(), drop=pd.DataFrame({"id": [121]}), cost=9.0)
    page = study.report(tmp_path / "report.html").read_text()
    assert "1 of 3 individuals" in page
    status = study.status()
    assert (status.sets, status.answers) == (len(study.ids) + 2, 3)
