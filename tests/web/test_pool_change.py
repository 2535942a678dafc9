"""The pool is changed over the API, and by others while the page is open."""

import numpy as np
import pandas as pd
from fastapi.testclient import TestClient

import sumwise as sw
from sumwise.web import create_app

TOKEN = "a token for tests only"


def served(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"set": list("aabbcc"), "id": range(6), "x": rng.normal(size=6)})
    sets = sw.Sets.from_frame(frame, by="set", x=["x"], id="id")
    sw.create_study(tmp_path / "a.db", sets).close()
    client = TestClient(create_app(tmp_path / "a.db", token=TOKEN), base_url="http://127.0.0.1")
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    return client


def test_a_table_changes_the_pool_and_history_says_so(tmp_path):
    client = served(tmp_path)
    assert client.post("/api/answers", json={"set": "a", "total": 3.0}).status_code == 201
    body = {"change": "add", "csv": "set,id,x\na,10,0.5\nd,11,1.5\n", "by": "ann"}
    done = client.post("/api/pool", json=body)
    assert done.status_code == 201, done.text
    assert done.json()["words"].startswith("2 individuals joined 2 sets, 1 set new")
    study = client.get("/api/study").json()
    assert (study["sets"], study["answers"], study["individuals"]) == (5, 1, 8)
    listed = client.get("/api/sets").json()["rows"]
    assert sorted(row["id"][:1] for row in listed) == ["a", "a", "b", "c", "d"]
    people = client.get("/api/individuals").json()
    assert people["total"] == 8
    event = client.get("/api/history").json()["rows"][0]
    assert (event["what"], event["by"], event["note"]) == ("pool", "ann", done.json()["words"])


def test_a_table_that_cannot_be_used_is_refused_without_a_path(tmp_path):
    client = served(tmp_path)
    for csv, said in (
        ("set,id,x\na,10,much\n", "the table, line 2: 'x' is 'much', not a number"),
        ("set,id\na,10\n", "the table has no column 'x'"),
        ("set,id,x\na,0,1\n", "the id '0' already"),
    ):
        done = client.post("/api/pool", json={"change": "add", "csv": csv})
        assert done.status_code == 409
        assert said in done.json()["detail"]
        assert "/tmp" not in done.text
    anyone = {"Authorization": ""}
    body = {"change": "drop", "csv": "id\n1\n"}
    assert client.post("/api/pool", json=body, headers=anyone).status_code in (401, 403)


def test_the_page_notices_what_another_program_has_changed(tmp_path):
    client = served(tmp_path)
    assert client.get("/api/sets").json()["total"] == 3
    with sw.open_study(tmp_path / "a.db") as other:
        other.change_pool(drop=pd.DataFrame({"id": [0, 1]}))
    assert sorted(row["id"] for row in client.get("/api/sets").json()["rows"]) == ["b", "c"]
    assert len(client.get("/api/next").json()["questions"]) == 2


def test_the_columns_are_those_of_the_study_unless_others_are_named(tmp_path):
    frame = pd.DataFrame({"g": list("aabb"), "who": range(4), "x": [0.0, 1, 2, 3]})
    sets = sw.Sets.from_frame(frame, by="g", x=["x"], id="who")
    sw.create_study(tmp_path / "a.db", sets).close()
    client = TestClient(create_app(tmp_path / "a.db", token=TOKEN), base_url="http://127.0.0.1")
    client.headers["Authorization"] = f"Bearer {TOKEN}"
    for csv in ("g,who,x\na,10,0.5\n", "set,id,x\na,11,0.5\n"):
        done = client.post("/api/pool", json={"change": "add", "csv": csv})
        assert done.status_code == 201, done.text
