"""Tables as offices have them, from the shell: found, said, overridden; geometries go along."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

import sumwise as sw
from sumwise.cli import main
from sumwise.errors import SettingError
from tests.data.test_geo import SQUARE, features, write_geojson

TABLE = "Ort;Größe;Anteil\n" + "".join(f"Köln {n % 4};{n},5;0,{n}5\n" for n in range(12))
SAID = "read with ; between columns, decimal commas, Latin-1."


def run(*words, code=0):
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "d.csv"
    path.write_bytes(TABLE.encode("latin-1"))
    return path


def test_every_command_that_reads_a_table_finds_its_dialect_and_says_so(tmp_path, table):
    study = tmp_path / "s.db"
    made = run("init", study, table, "--by", "Ort", "--targets", table, "--json")
    assert json.loads(made.stdout)["inputs"] == ["Größe", "Anteil"]
    assert made.stderr.count(SAID) == 2  # DATA and --targets
    totals = tmp_path / "t.csv"
    totals.write_bytes("set;total\nKöln 1;12,5\n".encode("latin-1"))
    told = run("tell", study, "--from", totals)
    assert SAID in told.stderr
    with sw.open_study(str(study)) as opened:
        assert [answer.y_bar for answer in opened.answers] == [12.5]
        assert opened.geometry is None
    predicted = run("predict", study, table, "--json")
    assert SAID in predicted.stderr
    assert json.loads(predicted.stdout)["rows"][3]["Größe"] == 3.5


def test_what_is_given_overrides_and_is_repeated_in_the_next_command(tmp_path, table):
    study, given = tmp_path / "s.db", ("--sep", ";", "--decimal", ",", "--encoding", "latin-1")
    assert "read with" not in run("init", study, table, "--by", "Ort", *given).stderr
    shown = run("predict", study, table, *given)
    assert "--sep ';' --decimal , --encoding latin-1" in " ".join(shown.stderr.split())
    refused = run("init", tmp_path / "t.db", table, "--by", "Ort", "--decimal", "x", code=1)
    assert "--decimal is 'x'; give . or ," in refused.stderr


def test_geometries_go_with_a_study_its_export_and_its_import(tmp_path):
    shapes = [SQUARE, "POINT (1 2)", None, "LINESTRING (0 0, 2 2)"] * 3
    data = write_geojson(tmp_path / "d.geojson", features(shapes))
    study = tmp_path / "s.db"
    run("init", study, data, "--by", "g", "--centroid", "--x", "longitude,a")
    with sw.open_study(str(study)) as opened:
        kept = opened.geometry
        assert opened.sets.recipe is not None  # a feature without geometry leaves a gap
        opened.export(tmp_path / "out")
    made = [shapes[row] is None for row in [*range(0, 12, 2), *range(1, 12, 2)]]
    assert [wkb is None for wkb in kept] == made
    assert (tmp_path / "out" / "geometry.parquet").is_file()
    with sw.import_study(tmp_path / "out", str(tmp_path / "again.db")) as again:
        assert again.geometry == kept
    rows = json.loads(run("predict", study, data, "--centroid", "--json").stdout)["rows"]
    assert len(rows) == 12
    assert json.loads(run("predict", study, data, "--json").stdout)["rows"] == rows


def test_geometries_must_be_one_for_each_individual(tmp_path):
    sets = sw.Sets.from_arrays([[[1.0], [2.0]], [[3.0]]])
    for wrong in ([None], ["POINT (1 2)"] * 3):
        with pytest.raises(SettingError, match="one for each of 3 individuals"):
            sw.create_study(str(tmp_path / "s.db"), sets, geometry=wrong)
    with sw.create_study(str(tmp_path / "s.db"), sets, geometry=[b"x", None, b"y"]) as study:
        assert study.geometry == (b"x", None, b"y")


def test_an_import_refuses_geometries_of_other_individuals(tmp_path):
    sets = sw.Sets.from_arrays([[[1.0], [2.0]], [[3.0]]])
    for n, rows in (("a", sets), ("b", sets[[1]])):
        geometry = [b"x"] * len(rows.x)
        with sw.create_study(str(tmp_path / f"{n}.db"), rows, geometry=geometry) as study:
            study.export(tmp_path / n)
    head = json.loads((tmp_path / "a" / "study.json").read_text())
    other = json.loads((tmp_path / "b" / "study.json").read_text())
    name = "geometry.parquet"
    (tmp_path / "a" / name).write_bytes((tmp_path / "b" / name).read_bytes())
    head["sha256"][name] = other["sha256"][name]
    (tmp_path / "a" / "study.json").write_text(json.dumps(head))
    with pytest.raises(sw.DataError, match=r"geometry\.parquet cannot be used: 1 rows instead"):
        sw.import_study(tmp_path / "a", str(tmp_path / "c.db"))
