"""The API of a study that designs its sets: pools that are proposed, claimed, and told."""

from __future__ import annotations

import asyncio
import csv
import io
from itertools import chain

import numpy as np
import pytest

import sumwise as sw
from sumwise.web import create_app
from sumwise.web.members import plate
from tests.web.apps import client_of, got
from tests.web.crowd import Connection
from tests.web.designs import LINEAR, measure, sera, villages
from tests.web.server import running


@pytest.fixture
def tubes(tmp_path):
    """A study of forty tubes of serum, and the level in each."""
    study, level = sera(tmp_path / "sera.db")
    with study:
        yield study, level


@pytest.fixture
def web(tubes):
    return client_of(create_app(tubes[0]))


def ids_of(row):
    return [member["id"] for member in row["members"]]


# --- the story ------------------------------------------------------------------------------------


def test_a_pool_is_proposed_claimed_by_its_name_and_told(tubes, web):
    study, level = tubes
    before = got(web.get("/api/study"))
    assert before["designing"] == {
        **{"alone": True, "begun": 40, "candidates": 40, "used": 0, "aside": 0},
        **{"uses": 1, "smallest": 2, "largest": 8},
    }
    assert before["words"] == [study.status().words[0]]
    twins = study.propose(5)
    shown = got(web.get("/api/next"))["questions"]
    for row, twin in zip(shown, twins, strict=True):
        assert (row["position"], row["id"], row["designed"]) == (None, twin.set_id, True)
        assert tuple(ids_of(row)) == twin.members
        assert [member["weight"] for member in row["members"]] == list(twin.pool.theta)
        assert row["bound"] == twin.pool.bound
        assert row["fraction"] == pytest.approx(twin.score / twin.pool.bound)
        assert (row["size"], row["why"]) == (len(twin.members), twin.why)
        assert row["expected"] == pytest.approx(twin.expected)
        assert row["std"] == pytest.approx(twin.std)
        first = row["members"][0]
        assert first["set"]["id"] == first["id"] == study.sets.ids[first["set"]["position"]]
    third = got(web.post("/api/claims", json={"set": "pool 3", "by": "ann"}), 201)
    claimed = {"position": 40, "by": "ann", "number": 0, "expires": third["expires"]}
    assert third == {**shown[2], **claimed}
    assert study.pools == {"pool 3": twins[2].members}
    claims = got(web.get("/api/next"))["claims"]
    assert [(row["position"], ids_of(row)) for row in claims] == [(40, list(twins[2].members))]
    assert claims[0]["fraction"] == third["fraction"]
    total = sum(level[tube] for tube in ids_of(third))
    told = got(web.post("/api/answers", json={"set": "pool 3", "total": total}), 201)
    assert (told["position"], told["id"]) == (40, "pool 3")
    now = got(web.get("/api/study"))
    assert now["designing"]["used"] == len(twins[2].members)
    assert (now["sets"], now["answers"], now["open"], now["known"]) == (1, 1, 0, 0)


def test_what_is_not_proposed_any_more_is_refused_in_words(web):
    shown = got(web.get("/api/next"))["questions"]
    got(web.post("/api/claims", json={"set": "pool 2"}), 201)
    left = got(web.get("/api/next?n=3"))["questions"]
    assert {*chain.from_iterable(map(ids_of, left))}.isdisjoint(ids_of(shown[1]))
    for name in ("pool 1", "pool 99"):  # others have these members now, or none ever had
        refused = got(web.post("/api/claims", json={"set": name}), 409)
        assert refused["code"] == "not_proposed"
    assert got(web.post("/api/claims", json={"set": "nobody"}), 404)["code"] == "unknown_set"
    assert got(web.post("/api/claims", json={"set": "pool 2"}), 409)["code"] == "held"


def test_pools_are_listed_with_their_members_and_individuals_once(tubes, web):
    study, level = tubes
    names = [measure(study, level) for _ in range(4)]
    asked = study.ask(by="bob")
    rows = got(web.get("/api/sets?sort=id&order=asc"))["rows"]
    assert [row["id"] for row in rows] == [*names, asked.set_id]
    assert [row["state"] for row in rows] == ["answered"] * 4 + ["open"]
    assert all(row["designed"] for row in rows)
    found = got(web.get(f"/api/sets?search={asked.members[0]}"))["rows"]
    assert [row["id"] for row in found] == [asked.set_id]

    everyone = got(web.get("/api/individuals?size=200"))
    assert [row["id"] for row in everyone["rows"]] == list(level)
    assert everyone["total"] == 40
    for sort in ("set", "mean", "std"):
        page = got(web.get(f"/api/individuals?size=200&order=desc&sort={sort}"))
        assert sorted(row["id"] for row in page["rows"]) == sorted(level)
    mean = {row["id"]: row["mean"] for row in everyone["rows"]}
    known = study.predict()
    np.testing.assert_allclose([*mean.values()], known.mean)

    one = got(web.get(f"/api/sets/{rows[0]['position']}"))
    inside = one["individuals"]["rows"]
    assert [row["id"] for row in inside] == ids_of(one) == list(study.pools[names[0]])
    assert [row["weight"] for row in inside] == [1.0] * len(inside)
    assert [row["mean"] for row in inside] == [mean[row["id"]] for row in inside]
    # predictions of members add up to what was measured
    assert sum(row["mean"] for row in inside) == pytest.approx(one["answer"]["total"])

    tube = got(web.get(f"/api/sets/{inside[0]['set']['position']}"))
    assert tube["designed"]
    alone = got(web.get(f"/api/sets/{one['members'][0]['set']['position']}"))
    assert (alone["id"], alone["designed"], alone["members"]) == (inside[0]["id"], False, None)
    assert [pool["id"] for pool in alone["pools"]] == [names[0]]


def test_what_is_given_back_or_taken_back_is_free_again(tubes, web):
    study, level = tubes
    name = measure(study, level)
    at = study.sets.position(name)
    got(web.post(f"/api/answers/{at}/retract"), 204)
    asked = got(web.post("/api/questions", json={"by": "ann"}), 201)["questions"][0]
    got(web.post(f"/api/claims/{asked['position']}/renew"), 200)
    got(web.post(f"/api/claims/{asked['position']}/release"), 204)
    assert got(web.get("/api/study"))["designing"]["used"] == 0
    states = {row["id"]: row["state"] for row in got(web.get("/api/sets"))["rows"]}
    assert states == {name: "free", asked["id"]: "free"}
    again = got(web.post("/api/claims", json={"position": at, "by": "bob"}), 201)
    assert (again["designed"], again["bound"], ids_of(again)) == (
        True,
        None,
        list(study.pools[name]),
    )
    what = [event["what"] for event in got(web.get("/api/history"))["rows"]]
    assert what[:5] == ["asked", "released", "renewed", "asked", "retracted"]


def test_individuals_and_pools_are_set_aside(tubes, web):
    study, _ = tubes
    asked = study.ask()
    at = study.sets.position(asked.set_id)
    got(web.post("/api/skips", json={"position": at, "note": "spilt"}), 201)
    got(web.post("/api/skips", json={"set": "S001", "note": "empty"}), 201)
    assert {row["id"] for row in got(web.get("/api/skips"))["rows"]} == {asked.set_id, "S001"}
    now = got(web.get("/api/study"))
    assert (now["skipped"], now["designing"]["aside"]) == (1, 1)
    assert now["designing"]["used"] == len(asked.members)
    rest = got(web.get("/api/next?n=50"))["questions"]
    proposed = {*chain.from_iterable(map(ids_of, rest))}
    assert proposed.isdisjoint({*asked.members, "S001"})


def test_given_sets_compete_with_pools_of_their_members(tmp_path):
    with villages(tmp_path / "villages.db") as study:
        web = client_of(create_app(study))
        got(web.post("/api/claims", json={"set": "Bem"}), 201)
        asked = [got(web.post("/api/questions"), 201)["questions"][0] for _ in range(3)]
        pools = [row for row in asked if row["designed"]]
        assert pools
        for row in pools:
            for member in row["members"]:
                assert member["id"] == f"{member['set']['id']} / {member['row']}"
        listed = got(web.get("/api/sets?sort=id&order=asc"))["rows"]
        assert [row["id"] for row in listed if not row["designed"]] == ["Aba", "Bem", "Cor"]
        assert sum(row["designed"] for row in listed) == len(pools)
        assert got(web.get("/api/individuals"))["total"] == 12
        inside = got(web.get(f"/api/sets/{pools[0]['position']}"))["individuals"]["rows"]
        assert [row["id"] for row in inside] == ids_of(pools[0])
        words = got(web.get("/api/study"))["words"]
        assert words == [study.status().words[0]]
        layout = [*csv.DictReader(io.StringIO(web.get("/api/plate.csv").text))]
        assert {row["pool"] for row in layout} == {row["id"] for row in pools}


def test_individuals_of_overlapping_sets_are_listed_once(tmp_path):
    x = np.random.default_rng(1).normal(size=(8, 2))
    sets = sw.Sets.from_members(x, [[0, 1, 2], [2, 3], [4, 5], [6, 7, 0]], ids=list("abcd"))
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR, design={"size": (2, 3)}) as study:
        study.ask()
        web = client_of(create_app(study))
        assert got(web.get("/api/study"))["individuals"] == 8
        for sort in ("row", "set", "mean"):
            rows = got(web.get(f"/api/individuals?sort={sort}"))["rows"]
            assert sorted(row["inputs"] for row in rows) == sorted(x.tolist())
        found = got(web.get("/api/individuals?search=d"))["rows"]  # two of its own, and one of a
        assert [(row["set"]["id"], row["row"]) for row in found] == [("d", 1), ("d", 2), ("d", 3)]


def test_every_route_follows_pools_that_another_program_designs(tubes, web, tmp_path):
    level = tubes[1]
    paths = [
        *("study", "next", "status", "sets", "individuals", "history", "answers", "skips"),
        *("picture", "charts/progress", "charts/next", "individuals.csv", "plate.csv"),
    ]
    with sw.open_study(tmp_path / "sera.db") as other:
        for _ in range(2):
            name = measure(other, level)
            held = other.ask(by="bob")
            for path in paths:
                assert web.get(f"/api/{path}").status_code == 200, path
            rows = got(web.get("/api/sets"))["rows"]
            assert {row["id"]: row["state"] for row in rows}[name] == "answered"
            assert held.set_id in {row["id"] for row in got(web.get("/api/next"))["claims"]}
            at = next(row["position"] for row in rows if row["id"] == held.set_id)
            assert ids_of(got(web.get(f"/api/sets/{at}"))) == list(held.members)
            total = sum(level[tube] for tube in held.members)
            got(web.post("/api/answers", json={"position": at, "total": total}), 201)


def test_a_total_far_off_is_asked_about_for_pools_that_are_new(tubes, web):
    study, level = tubes
    for _ in range(3):
        measure(study, level)
    asked = got(web.post("/api/questions"), 201)["questions"][0]
    far = {"position": asked["position"], "total": 1e6}
    refused = got(web.post("/api/answers", json=far), 409)
    assert refused["code"] == "unlikely"
    assert refused["expected"] == pytest.approx(asked["expected"])
    part = {"position": asked["position"], "total": 30.0, "of": ids_of(asked)[:2], "sure": True}
    told = got(web.post("/api/answers", json=part), 201)
    assert (told["of"], told["part"]) == (
        ids_of(asked)[:2],
        f"2 of {len(ids_of(asked))} individuals",
    )
    wrong = {"total": 1e6, "by": "ann"}
    assert got(web.patch("/api/answers/40", json=wrong), 409)["code"] == "unlikely"


def test_the_picture_shows_what_became_of_each_individual(tubes, web):
    study, level = tubes
    name = measure(study, level)
    held = study.ask()
    points = got(web.get("/api/picture"))["chart"]["data"]["values"]
    fate = {point["row"]: (point["state"], point["set"]) for point in points}
    assert len(fate) == len(points) == 40
    assert {fate[tube] for tube in study.pools[name]} == {("answered", name)}
    assert {fate[tube] for tube in held.members} == {("being measured", held.set_id)}
    ahead = {*chain.from_iterable(ask.members for ask in study.propose(5))}
    assert {tube for tube, (state, _) in fate.items() if state == "proposed"} == ahead


# --- a crowd --------------------------------------------------------------------------------------


def test_a_crowd_asks_at_once_and_nobody_is_in_two_pools(tmp_path):
    people, tubes = 9, 36
    study, _ = sera(tmp_path / "sera.db", n=tubes, design={"size": 3})
    study.close()
    seen: list[tuple[int, str]] = []
    pools: dict[str, tuple[str, ...]] = {}

    async def person(server, number):
        """Asks until nothing is left, in turns by a proposal's name, and looks round meanwhile."""
        connection, name = Connection(server), f"person {number}"

        async def send(method, path, body=None):
            status, content = await connection.raw(method, path, body)
            seen.append((status, f"{method} {path}: {content[:200]!r}"))
            return status, content

        async def asked():
            if number % 3 == 0:
                status, body = await connection.send("GET", "/api/next?n=2")
                seen.append((status, f"next: {body}"))
                for row in body["questions"][1:]:
                    claim = {"set": row["id"], "by": name}
                    status, body = await connection.send("POST", "/api/claims", claim)
                    seen.append((status, f"claim {row['id']}: {body}"))
                    if status == 201:
                        return 201, [body]
            status, body = await connection.send("POST", "/api/questions", {"by": name})
            seen.append((status, f"ask: {body}"))
            return status, body.get("questions")

        while True:
            status, rows = await asked()
            if status != 201:
                break
            for row in rows:
                assert row["id"] not in pools
                pools[row["id"]] = tuple(ids_of(row))
                at = row["position"]
                for path in ("/api/sets", f"/api/sets/{at}", "/api/history", "/api/next"):
                    await send("GET", path)
                told = {"position": at, "total": 30.0 + number, "by": name, "sure": True}
                if number % 2:
                    await send("POST", "/api/answers", told)
        await connection.close()

    async def crowd(server):
        await asyncio.gather(*(person(server, number) for number in range(people)))

    with running(tmp_path / "sera.db", tmp_path / "state") as server:
        with sw.open_study(tmp_path / "sera.db") as other:  # another program asks as well
            mine = other.ask()
        pools[mine.set_id] = mine.members
        asyncio.run(crowd(server))
    assert [words for status, words in seen if status >= 500] == []
    assert [words for status, words in seen if status not in (200, 201, 409)] == []
    everyone = [tube for members in pools.values() for tube in members]
    assert len(everyone) == len({*everyone}) == tubes
    with sw.open_study(tmp_path / "sera.db") as study:
        assert study.pools == pools
        assert len(study.claims) + len(study.answers) == len(pools)


# --- a plate --------------------------------------------------------------------------------------


def test_a_plate_is_filled_column_by_column(tubes, web):
    study, _ = tubes
    mine = [study.ask(by="ann"), study.ask(by="ann")]
    study.ask(by="bob")
    answer = web.get("/api/plate.csv?by=ann")
    assert 'filename="Sera-plate.csv"' in answer.headers["content-disposition"]
    rows = [*csv.DictReader(io.StringIO(answer.text))]
    expected = [(ask.set_id, tube) for ask in mine for tube in ask.members]
    assert [(row["pool"], row["individual"]) for row in rows] == expected
    wells = [f"{letter}{column}" for column in range(1, 13) for letter in "ABCDEFGH"]
    assert [row["well"] for row in rows] == wells[: len(rows)]
    assert {row["plate"] for row in rows} == {"1"}
    shares = [float(row["share"]) for row in rows if row["pool"] == mine[0].set_id]
    assert shares == pytest.approx([1 / len(shares)] * len(shares))
    everyone = [*csv.DictReader(io.StringIO(web.get("/api/plate.csv").text))]
    assert len(everyone) == len(rows) + len(study.pools["pool 3"])
    assert web.get("/api/plate.csv?by=").text.strip().splitlines()[1:] == []


def test_a_plate_that_is_full_is_followed_by_another():
    table = plate([("a", [str(n) for n in range(100)], np.ones(100)), ("b", ["x"], np.ones(1))])
    assert table["well"][95:98] == ["H12", "A1", "B1"]
    assert table["plate"][95:98] == [1, 2, 2]
    assert (table["pool"][-1], table["well"][-1]) == ("b", "E1")


def test_weights_of_both_signs_are_no_shares():
    assert plate([("a", ["x", "y"], np.array([1.0, -1.0]))])["share"] == [None, None]
    assert plate([("a", ["x", "y"], np.array([-1.0, -3.0]))])["share"] == [0.25, 0.75]


def test_a_spreadsheet_finds_no_formula_in_a_plate(tmp_path):
    sets = sw.Sets.from_arrays(
        [[[float(n)]] for n in range(3)], ids=["=1+1", "@SUM(A1)", "-cmd|' /C calc'!A0"]
    )
    design = {"size": 3}
    with sw.create_study(tmp_path / "a.db", sets, design=design, strategy="AggMI") as study:
        study.ask()
        text = client_of(create_app(study)).get("/api/plate.csv").text
    rows = [*csv.DictReader(io.StringIO(text))]
    assert [row["individual"] for row in rows] == ["'=1+1", "'@SUM(A1)", "'-cmd|' /C calc'!A0"]


def test_a_plate_of_an_ordinary_study_has_no_rows(study):
    study.ask()
    text = client_of(create_app(study)).get("/api/plate.csv").text
    assert len(text.strip().splitlines()) == 1
