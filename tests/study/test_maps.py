"""Maps of studies: matched by id, kept whole, drawn, and written back with predictions."""

from __future__ import annotations

import json

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.data.geo import Geometry, of_parquet
from sumwise.errors import DataError, SettingError
from sumwise.report.maps import STATES, map_chart, map_of, map_panel, map_sections

N = 12
LINEAR = sw.AggregateRegressor("linear")


def squares(n=N, at=(500_000, 4_600_000), side=1000):
    """A row of squares, four of them wide, in metres."""
    return [
        shapely.box(x, y, x + side, y + side)
        for x, y in ((at[0] + side * (i % 4), at[1] + side * (i // 4)) for i in range(n))
    ]


def table():
    """Each district has one to three schools."""
    rng = np.random.default_rng(2)
    rows = [(f"d{i}", f"s{i}.{j}") for i in range(N) for j in range(1 + i % 3)]
    frame = pd.DataFrame(rows, columns=["district", "school"])
    return frame.assign(a=rng.normal(size=len(rows)), b=rng.normal(size=len(rows)))


def districts(crs=25832, **columns):
    known = {"code": [f"d{i}" for i in range(N)], **columns}
    return geopandas.GeoDataFrame(known, geometry=squares(), crs=crs)


def begin(tmp_path, name="s.db", told=0, by_id="school", **options):
    sets = sw.Sets.from_frame(table(), by="district", x=["a", "b"], id=by_id)
    study = sw.create_study(tmp_path / name, sets, model=LINEAR, unit="points", **options)
    for i in range(told):
        study.tell(f"d{i}", 10.0 * (i + 1))
    return study


def as_json(frame):
    return json.loads(frame.to_json())


def rows_of(chart):
    shapes = chart.to_dict()["datasets"]["shapes"]["objects"]["shapes"]["geometries"]
    return [shape["properties"] for shape in shapes]


# --- matching -------------------------------------------------------------------------------------


def test_a_map_belongs_to_sets_or_to_individuals_as_its_ids_say(tmp_path):
    study = begin(tmp_path)
    odd = pd.concat([districts().iloc[:10], districts().iloc[:1].assign(code="nowhere")])
    said = study.add_map(odd, "code")
    assert said == (
        "The shapes of the map are those of sets: 10 of 12 have one. Without a shape: d10, d11. "
        "1 shape belongs to none of them: nowhere."
    )
    assert (study.map.of, study.map.ids[-1]) == ("sets", "nowhere")  # kept whole
    schools = table()["school"]
    plots = geopandas.GeoDataFrame({"school": schools}, geometry=squares(len(schools)), crs=25832)
    assert "those of individuals: 24 of 24 have one" in study.add_map(plots)
    assert study.map.of == "individuals"
    assert study.history()[-1].what == "map"


def test_numbers_are_matched_with_text(tmp_path):
    frame = table().assign(district=lambda t: t["district"].str[1:].astype(int))
    sets = sw.Sets.from_frame(frame, by="district", x=["a", "b"])
    shapes = districts().assign(code=[f"{i}" for i in range(N)])
    study = sw.create_study(tmp_path / "s.db", sets, model=LINEAR, map=shapes, map_id="code")
    assert study.map.ids == tuple(range(N))


def test_sets_and_individuals_that_are_both_numbered_are_told_apart_by_how_many_there_are(tmp_path):
    rows = [[[float(i + j)] for j in range(3)] for i in range(N - 2)]
    frame = pd.DataFrame(
        {"a": np.concatenate(rows)[:, 0], "set": np.repeat(np.arange(N - 2), 3)}
    ).assign(row=lambda t: t.index)
    sets = sw.Sets.from_frame(frame, by="set", x=["a"], id="row")
    study = sw.create_study(tmp_path / "s.db", sets, model=LINEAR)
    said = study.add_map(districts().assign(code=range(N)), "code")  # two are outside of the study
    assert "those of sets: 10 of 10 have one. 2 shapes belong to none of them: 10, 11." in said
    plots = geopandas.GeoDataFrame(frame, geometry=squares(len(frame)), crs=25832)
    assert "those of individuals: 30 of 30 have one" in study.add_map(plots, "row")


def test_an_empty_geometry_is_no_shape(tmp_path):
    shapes = [None, shapely.Polygon(), *districts().geometry[2:]]
    said = begin(tmp_path).add_map(districts().set_geometry(shapes, crs=25832), "code")
    assert said.endswith("10 of 12 have one. Without a shape: d0, d1.")


def test_a_geodataframe_of_the_individuals_themselves_is_taken_row_by_row(tmp_path):
    frame = table().sample(frac=1, random_state=1)
    gdf = geopandas.GeoDataFrame(frame, geometry=squares(len(frame)), crs=25832)
    sets = sw.Sets.from_frame(gdf, by="district", x=["a", "b"])
    study = sw.create_study(tmp_path / "s.db", sets, model=LINEAR, map=gdf)
    of_input = {(a, b): s.wkb for a, b, s in zip(gdf.a, gdf.b, gdf.geometry, strict=True)}
    assert study.geometry == tuple(of_input[a, b] for a, b in study.sets.x.tolist())


@pytest.mark.parametrize(
    ("change", "map_id", "said"),
    [
        (lambda g: g, None, "In column 'code', 12 are ids of the study; name it as map_id"),
        (lambda g: g.assign(code="x"), "code", "sets are called d0, d1, d2 and 9 more"),
        (lambda g: g.assign(code=["d0"] * 2 + [*g.code[2:]]), "code", "row 1: 'code' is 'd0', as"),
        (lambda g: g, "kode", "has no column 'kode'"),
        (lambda g: g.set_crs(4326, allow_override=True), "code", "degrees of longitude"),
        (lambda g: pd.DataFrame({"code": g.code}), "code", "the map is DataFrame; give the path"),
        (lambda g: "no.geojson", "code", "there is no file no.geojson"),
        (lambda g: "no.shp", "code", r"no.shp is not GeoJSON.*Convert it, such as with geopandas"),
        (lambda g: g.geometry, "code", "the map has no column 'code'"),
        (lambda g: g, 5, "the map has no column '5'"),
        (lambda g: g[:0], "code", "the map has no geometries"),
        (lambda g: {"type": "FeatureCollection", "features": []}, "code", "has no geometries"),
        (lambda g: g.set_geometry([shapely.Polygon()] * N), "code", "all geometries of the map"),
        (lambda g: as_json(g.assign(code="d1")), "code", "feature 2: .* as in the map, feature 1"),
    ],
)
def test_a_map_that_cannot_be_is_refused_in_words(tmp_path, change, map_id, said):
    study = begin(tmp_path)
    with pytest.raises(DataError, match=said):
        study.add_map(change(districts()), map_id)
    assert study.map is None
    with pytest.raises(SettingError, match="there is no map: give one"):
        study.plot.map("status")


@pytest.mark.parametrize("ending", ["geojson", "gpkg", "parquet"])
def test_a_truncated_file_is_refused(tmp_path, ending):
    path = tmp_path / f"m.{ending}"
    known = districts()
    known.to_parquet(path) if ending == "parquet" else known.to_file(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 3])
    with pytest.raises(DataError, match="m\\."):
        begin(tmp_path).add_map(path, "code")


# --- keeping --------------------------------------------------------------------------------------


def test_a_map_goes_with_export_and_import_and_changes_of_the_pool(tmp_path):
    study = begin(tmp_path, told=4, map=districts(), map_id="code")
    study.change_pool(drop=pd.DataFrame({"school": ["s0.0"]}), id="school")
    study.export(tmp_path / "out")
    read = geopandas.read_parquet(tmp_path / "out" / "map.parquet")
    assert read.crs.to_epsg() == 25832
    assert read.geometry.geom_equals_exact(districts().geometry, 0).all()
    with sw.import_study(tmp_path / "out", tmp_path / "again.db") as again:
        assert again.map.ids == study.map.ids
        assert [*again.map.geometry.wkb] == [*study.map.geometry.wkb]
        one, other = (map_chart(map_of(each)).to_json() for each in (study, again))
        assert one == other
    (tmp_path / "out" / "map.parquet").write_bytes(b"x")
    with pytest.raises(DataError, match=r"map\.parquet is not what was exported"):
        sw.import_study(tmp_path / "out", tmp_path / "third.db")


# --- drawing --------------------------------------------------------------------------------------


def test_a_map_shows_group_means_their_errors_and_what_comes_next(tmp_path):
    study = begin(tmp_path, told=5, map=districts(), map_id="code")
    study.claim("d7", by="ann")
    study.skip("d8")
    rows = {row["name"]: row for row in rows_of(study.plot.map())}
    assert {*rows} == {*study.ids}
    totals = study.predict_sets()
    found = map_of(study)
    sizes = table().groupby("district").size()
    for name, mean, std in zip(found.names, found.mean, found.std, strict=True):
        at = totals.ids.index(name)
        assert mean == pytest.approx(totals.mean[at] / sizes[name])
        assert std == pytest.approx(totals.std[at] / sizes[name])
    assert rows["d4"]["said"] == f"{50 / 2:.2f} points"  # of two schools, and measured
    assert rows["d4"]["fate"] == "measured: total 50 points"
    assert " ± " in rows["d9"]["said"]
    states = {name: row["status"] for name, row in rows.items()}
    expected = dict.fromkeys(study.ids, "not measured") | {"d7": "being measured", "d8": "skipped"}
    expected |= {ask.set_id: "next" for ask in study.propose(5)}
    expected |= {answer.set_id: "measured" for answer in study.answers}
    assert states == expected
    numbers = study.plot.map("status").to_dict()["layer"][-2]["data"]["values"]
    assert [(row["number"], row["properties"]["name"]) for row in numbers] == [
        (str(rank), ask.set_id) for rank, ask in enumerate(study.propose(5), start=1)
    ]


def test_what_is_read_aloud_of_a_shape_names_no_field_of_ours(tmp_path):
    """A reader for the blind is given the title of each channel, or else the name of its field."""
    with begin(tmp_path, map=districts(), map_id="code", told=5) as study:
        drawn = map_chart(map_of(study)).to_dict()["layer"][0]["encoding"]
    titles = [drawn["color"]["title"], *(each["title"] for each in drawn["tooltip"])]
    assert titles == ["prediction", "set", "predicted", "status"]


def test_classes_hold_the_values_that_their_words_say(tmp_path):
    study = begin(tmp_path, told=6, map=districts(), map_id="code")
    found = map_of(study)
    for show, values in (("prediction", found.mean), ("uncertainty", found.std)):
        shades, looks = found.shades[show]
        assert len({*looks.values()}) == len(looks)
        for shade, value in zip(shades, values, strict=True):
            words = shade.replace("−", "-").replace(",", "").split()
            low = -np.inf if words[0] in ("below", "about") else float(words[0])
            high = float(words[-1]) if words[0] == "below" or "to" in words else np.inf
            assert low - 1e-9 <= value <= high + 1e-9


def test_before_the_first_answer_only_status_is_drawn(tmp_path):
    study = begin(tmp_path, map=districts(), map_id="code")
    with pytest.raises(SettingError, match="nothing is measured"):
        study.plot.map()
    assert {row["status"] for row in rows_of(study.plot.map("status"))} <= {*STATES}
    with pytest.raises(SettingError, match="no map is called 'x'"):
        study.plot.map("x")


def test_a_learner_draws_a_map_that_it_is_given_and_a_study_points_without_one(tmp_path):
    frame = table().rename(columns={"a": "lon", "b": "lat"})
    plain = sw.ActiveLearner(sw.Sets.from_frame(table(), by="district", x=["a"]), LINEAR)
    learner = sw.ActiveLearner(sw.Sets.from_frame(frame, by="district", x=["lon", "lat"]), LINEAR)
    learner.tell("d3", 5.0)
    rows = rows_of(learner.plot.map(map=districts(), map_id="code"))
    assert {row["name"] for row in rows} == {f"d{i}" for i in range(N)}
    points = learner.plot.map("status").to_dict()
    assert len(points["layer"][1]["data"]["values"]) == len(frame)
    with pytest.raises(SettingError, match="there is no map: give one"):
        plain.plot.map("status")
    assert learner.plot.panel("next").to_dict()["layer"]


def test_the_first_map_of_a_report_is_low_and_the_others_as_high_as_they_are(tmp_path):
    study = begin(tmp_path, told=4, map=tall(), map_id="code")
    assert study.plot.map().height > 600
    (section,) = map_sections(study)
    first, *others = (chart.height for chart in section.charts)
    assert first == 400
    assert min(others) > 600


def tall():
    frame = districts()
    return frame.set_geometry(frame.geometry.affine_transform([1, 0, 0, 2, 0, 0]))


def test_places_that_cannot_be_drawn_are_said_and_the_report_is_made(tmp_path):
    frame = table().assign(lon=5.0, lat=np.linspace(45, 49, len(table())))
    frame.loc[3, "lat"] = 455.0
    sets = sw.Sets.from_frame(frame, by="district", x=["a", "lon", "lat"])
    study = sw.create_study(tmp_path / "s.db", sets, model=LINEAR)
    for i in range(4):
        study.tell(f"d{i}", 10.0 * i)
    study.report(tmp_path / "r.html")
    assert "position of the map is (5, 455)" in (tmp_path / "r.html").read_text()
    assert "(5, 455)" in map_panel(study, "status").words[0]


def test_hostile_names_and_right_to_left_names_are_text(tmp_path):
    hostile = "</script><img src=x onerror=alert(1)>"
    frame = table().replace({"district": {"d0": hostile, "d1": "ירושלים"}})
    sets = sw.Sets.from_frame(frame, by="district", x=["a", "b"])
    shapes = districts().replace({"code": {"d0": hostile, "d1": "ירושלים"}})
    study = sw.create_study(tmp_path / "s.db", sets, model=LINEAR, map=shapes, map_id="code")
    study.tell("d3", 1.0)
    page = study.report(tmp_path / "r.html").read_text()
    assert "<img src=x" not in page
    assert "ירושלים" in page
    assert page.count('"Topology"') == 1  # once, however many maps


# --- in files -------------------------------------------------------------------------------------


def run(*words):
    return CliRunner().invoke(main, [str(word) for word in words])


def test_the_shell_begins_with_a_map_adds_one_and_draws(tmp_path):
    data, shapes, db = (tmp_path / name for name in ("t.csv", "m.gpkg", "s.db"))
    table().to_csv(data, index=False)
    districts().to_file(shapes, layer="all")
    own = ("--by", "district", "--x", "a,b", "--id", "school", "--basis", "linear")
    made = run("init", db, data, *own, "--map", shapes, "--map-id", "code")
    assert made.exit_code == 0, made.output
    assert "those of sets: 12 of 12 have one" in " ".join(made.output.split())
    again = run("map", db, "--map", shapes, "--map-id", "code", "--by", "ann")
    assert (again.exit_code, "12 of 12" in again.output) == (0, True)
    for ending, start in (("png", b"\x89PNG"), ("svg", b"<svg"), ("html", b"<!DOCTYPE")):
        out = tmp_path / f"map.{ending}"
        drawn = run("map", db, "--show", "status", "-o", out)
        assert drawn.exit_code == 0, drawn.output
        assert out.read_bytes().startswith(start)
    width = int.from_bytes((tmp_path / "map.png").read_bytes()[16:20], "big")
    assert width > 1000  # a width of its own, for there is no page to fill
    assert "exists" in run("map", db, "-o", tmp_path / "map.png").output
    assert run("map", db).exit_code == 2
    assert run("init", db, data, *own, "--map-id", "code").exit_code == 2


def test_a_map_that_cannot_be_drawn_yet_is_not_stored(tmp_path):
    shapes, study = tmp_path / "m.gpkg", begin(tmp_path)
    districts().to_file(shapes)
    given = "map", tmp_path / "s.db", "--map", shapes, "--map-id", "code", "-o", tmp_path / "m.svg"
    refused = run(*given)
    assert (refused.exit_code, "nothing is predicted yet" in refused.output) == (1, True)
    assert study.map is None
    study.tell("d1", 5.0)
    assert run(*given).exit_code == 0
    assert study.map.of == "sets"


@pytest.mark.parametrize("ending", ["geojson", "geoparquet"])
def test_geopandas_reads_predictions_with_their_coordinate_system(tmp_path, ending):
    study = begin(tmp_path, told=5, map=districts(), map_id="code")
    read = geopandas.read_file if ending == "geojson" else geopandas.read_parquet
    out = tmp_path / f"p.{ending}"
    assert run("predict", tmp_path / "s.db", "--sets", "-o", out).exit_code == 0
    found, expected = read(out), study.predict_sets().to_pandas()
    assert found.crs.to_epsg() == 25832
    assert found["set"].tolist() == expected["set"].tolist()
    np.testing.assert_allclose(found["mean"], expected["mean"], rtol=1e-12)
    known = dict(zip(districts().code, districts().geometry, strict=True))
    assert all(
        known[name].equals(shape) for name, shape in zip(found["set"], found.geometry, strict=True)
    )
    refused = run("predict", tmp_path / "s.db", "-o", out, "--force")
    assert "the study has no shapes of individuals." in refused.output


@pytest.mark.parametrize("ending", ["geojson", "geoparquet"])
def test_a_coordinate_system_without_its_definition_is_kept_by_its_code(tmp_path, ending):
    study, shapes = begin(tmp_path, told=3), tmp_path / "m.geojson"
    districts().to_file(shapes)
    assert json.loads(shapes.read_text())["crs"]
    study.add_map(shapes, "code")
    read = geopandas.read_file if ending == "geojson" else geopandas.read_parquet
    out = tmp_path / f"p.{ending}"
    assert run("predict", tmp_path / "s.db", "--sets", "-o", out).exit_code == 0
    assert read(out).crs.to_epsg() == 25832


def test_a_coordinate_system_that_is_named_or_unknown_stops_nothing(tmp_path):
    study = begin(tmp_path, told=3)
    known = as_json(districts())
    known["crs"] = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::999999"}}
    study.add_map(known, "code")
    out = tmp_path / "p.geoparquet"
    assert run("predict", tmp_path / "s.db", "--sets", "-o", out).exit_code == 0
    for name, axes in (("EPSG:25832", ("x", "y")), ("EPSG:4326", ("longitude", "latitude"))):
        geo = {"crs": name, "encoding": "WKB"}  # GeoParquet has a definition there
        about = {b"geo": json.dumps({"primary_column": "g", "columns": {"g": geo}}).encode()}
        assert Geometry([], of_parquet(about)[1]).axes == axes


def test_rows_of_a_file_keep_their_shapes(tmp_path):
    begin(tmp_path, told=4)
    frame = table().iloc[:3].assign(district="new")
    kinds = ["POINT (1 2)", "MULTIPOLYGON (((0 0, 1 0, 1 1, 0 0)), ((5 5, 6 5, 6 6, 5 5)))"]
    shapes = [*map(shapely.from_wkt, kinds), None]
    geopandas.GeoDataFrame(frame, geometry=shapes, crs=4326).to_file(tmp_path / "new.geojson")
    for ending, read in (("geojson", geopandas.read_file), ("geoparquet", geopandas.read_parquet)):
        out = tmp_path / f"out.{ending}"
        done = run("predict", tmp_path / "s.db", tmp_path / "new.geojson", "-o", out)
        assert done.exit_code == 0, done.output
        back = read(out)
        assert [*map(shapely.to_wkt, back.geometry[:2])] == [*map(shapely.to_wkt, shapes[:2])]
        assert back.geometry[2] is None
        assert back["mean"].notna().all()
