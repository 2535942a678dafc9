"""Pages of the pool and of individuals, against plain sorting of what the study says."""

from __future__ import annotations

import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sumwise as sw
from sumwise.data.sets import LazySets
from sumwise.study.storage import blobs
from sumwise.web import create_app
from sumwise.web.session import Known, SingleFlight
from tests.builders import random_sets
from tests.studies import play
from tests.web.apps import client_of, got


@pytest.fixture
def web(study, problem):
    """Some sets answered, one held, one skipped."""
    play(study, problem[1], 6)
    study.ask(by="ann")
    study.skip(study.propose(1)[0].set_id, by="bob", note="gone")
    return client_of(create_app(study))


def all_rows(web, path, **query):
    rows, page = [], 1
    while True:
        found = got(web.get(path, params={"page": page, "size": 7, **query}))
        assert (found["page"], found["size"]) == (page, 7)
        rows += found["rows"]
        if len(rows) >= found["total"]:
            assert len(rows) == found["total"]
            return rows
        page += 1


# --- sets -----------------------------------------------------------------------------------------


def test_every_set_is_there_once_with_what_the_study_predicts(web, study, problem):
    rows = all_rows(web, "/api/sets", sort="id", order="asc")
    assert [row["id"] for row in rows] == [f"set {a}" for a in range(40)]  # 9 comes before 10
    assert [row["position"] for row in rows] == list(range(40))
    expected = study.predict_sets()
    for name in ("std", "lower", "upper"):
        np.testing.assert_allclose([row[name] for row in rows], getattr(expected, name), rtol=1e-12)
    np.testing.assert_allclose([row["expected"] for row in rows], expected.mean, rtol=1e-12)
    assert [row["size"] for row in rows] == problem[0].sizes.tolist()
    told = {answer.set_id: answer.y_bar for answer in study.answers}
    held, skipped = study.claims[0].set_id, study.skips[0].set_id
    for row in rows:
        state = "answered" if row["id"] in told else "free"
        state = {held: "open", skipped: "skipped"}.get(row["id"], state)
        assert (row["state"], row["answer"]) == (state, told.get(row["id"]))
        assert row["by"] == {"open": "ann", "skipped": "bob"}.get(state)


def test_information_is_what_a_question_says_of_itself(web, study):
    rows = {row["id"]: row for row in all_rows(web, "/api/sets")}
    for _ in range(3):
        question = study.propose(1)[0]
        assert rows[question.set_id]["information"] == pytest.approx(question.information)
        study.ask()
        held = study.claims[-1].set_id
        rows = {row["id"]: row for row in all_rows(web, "/api/sets")}
        free = [row for row in rows.values() if row["state"] == "free"]
        assert max(free, key=lambda row: row["information"])["id"] == study.propose(1)[0].set_id
        alone = sw.score(study.sets, study.model, "AggMI")[study.sets.position(held)]
        assert rows[held]["information"] == pytest.approx(alone)
    assert {row["information"] for row in rows.values() if row["state"] == "answered"} == {0.0}


@pytest.mark.parametrize("sort", ["size", "state", "answer", "expected", "std", "information"])
def test_sets_in_order(web, sort):
    by_id = {row["position"]: row for row in all_rows(web, "/api/sets", sort="id", order="asc")}
    states = ("free", "open", "answered", "skipped")

    def value(row):
        return states.index(row["state"]) if sort == "state" else row[sort]

    for order in ("asc", "desc"):
        rows = all_rows(web, "/api/sets", sort=sort, order=order)
        assert sorted(row["position"] for row in rows) == sorted(by_id)
        there = [value(row) for row in rows if value(row) is not None]
        assert there == sorted(there, reverse=order == "desc")
        assert [value(row) for row in rows[: len(there)]] == there  # what is missing comes last


def test_sets_by_state_and_part_of_their_id(web):
    for state in ("free", "open", "answered", "skipped"):
        rows = all_rows(web, "/api/sets", state=state)
        assert {row["state"] for row in rows} == {state}
    found = all_rows(web, "/api/sets", search="SET 3", sort="id", order="asc")
    assert [row["id"] for row in found] == ["set 3", *(f"set {a}" for a in range(30, 40))]
    free = all_rows(web, "/api/sets", search="3", state="free", sort="id", order="asc")
    assert all("3" in row["id"] and row["state"] == "free" for row in free)
    assert all_rows(web, "/api/sets", search="nothing like it") == []
    assert all_rows(web, "/api/sets", search=".*") == []


def test_a_view_follows_every_change(web, study):
    def states():
        return {row["id"]: row["state"] for row in all_rows(web, "/api/sets")}

    before = states()
    free = [name for name, state in before.items() if state == "free"]
    study.tell(free[0], 1.0)
    assert states() == {**before, free[0]: "answered"}
    study.release(study.claims[0].set_id)
    assert "open" not in states().values()


# --- one set --------------------------------------------------------------------------------------


def test_all_about_one_set(web, study, problem):
    answer, claim, skip = study.answers[2], study.claims[0], study.skips[0]
    found = got(web.get(f"/api/sets/{answer.position}"))
    assert (found["answer"]["total"], found["answer"]["at"]) == (answer.y_bar, answer.at)
    assert (found["claim"], found["skip"], found["why"]) == (None, None, None)
    found = got(web.get(f"/api/sets/{claim.position}"))
    assert (found["claim"]["by"], found["claim"]["expires"]) == ("ann", claim.expires)
    asked = [event for event in study.history() if event.what == "asked"][-1]
    assert found["why"] == asked.question["why"]
    found = got(web.get(f"/api/sets/{skip.position}"))
    assert found["skip"] == {"by": "bob", "at": skip.at, "note": "gone"}
    del problem


def test_individuals_of_one_set(web, study, problem):
    sets, predicted = problem[0], study.predict()
    position = int(sets.sizes.argmax())
    first = sets.starts[position]
    pages = [got(web.get(f"/api/sets/{position}?size=3&page={page}")) for page in (1, 2, 3, 4)]
    rows = [row for page in pages for row in page["individuals"]["rows"]]
    assert [row["row"] for row in rows] == list(range(1, sets.sizes[position] + 1))
    assert pages[0]["individuals"]["total"] == sets.sizes[position]
    expected = predicted.mean[first : first + len(rows)]
    np.testing.assert_allclose([row["mean"] for row in rows], expected, rtol=1e-12)
    assert rows[1]["inputs"] == sets.x[first + 1].tolist()


# --- individuals ----------------------------------------------------------------------------------


def who(row):
    return row["set"]["position"], row["row"]


def test_every_individual_is_there_once_with_what_the_study_predicts(web, study, problem):
    rows, expected = all_rows(web, "/api/individuals"), study.predict()
    assert [row["set"]["id"] for row in rows] == list(expected.ids)
    for name in ("mean", "std", "lower", "upper"):
        np.testing.assert_allclose(
            [row[name] for row in rows], getattr(expected, name), rtol=1e-9, atol=1e-9
        )
    assert [row["inputs"] for row in rows] == problem[0].x.tolist()
    backwards = all_rows(web, "/api/individuals", order="desc")
    assert [who(row) for row in backwards] == [who(row) for row in rows[::-1]]


@pytest.mark.parametrize("sort", ["mean", "std"])
def test_individuals_in_order(web, sort):
    for order in ("asc", "desc"):
        rows = all_rows(web, "/api/individuals", sort=sort, order=order)
        steps = np.diff([row[sort] for row in rows]) * (1 if order == "asc" else -1)
        assert steps.min() > -1e-9
        assert steps.max() > 0.01
        assert len(set(map(who, rows))) == len(rows)


def test_individuals_by_set_and_search(web, problem):
    rows = all_rows(web, "/api/individuals", sort="set", search="set 1")
    names = ["set 1", *(f"set {a}" for a in range(10, 20))]
    expected = [name for name in names for _ in range(len(problem[0][name].x))]
    assert [row["set"]["id"] for row in rows] == expected
    some = all_rows(web, "/api/individuals", sort="mean", search="set 1")
    assert [who(row) for row in some] == [
        who(row) for row in sorted(rows, key=lambda row: row["mean"])
    ]


# --- large studies --------------------------------------------------------------------------------


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A study that is kept in pieces, as large ones are."""
    monkeypatch.setattr(blobs, "LARGE", 1)
    rng = np.random.default_rng(0)
    sets = random_sets(rng.integers(1, 5, 60).tolist(), rng)
    sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor("linear")).close()
    with sw.open_study(tmp_path / "a.db") as study:
        assert isinstance(study.state.record.sets, LazySets)
        yield study


def test_individuals_of_a_large_study_are_read_when_somebody_looks(large):
    web = client_of(create_app(large))
    asked = got(web.post("/api/questions", json={"n": 4}), 201)["questions"]
    for question in asked:
        got(web.post("/api/answers", json={"position": question["position"], "total": 1}), 201)
    for path in ("study", "next", "sets?sort=std", "history", "answers", "skips"):
        got(web.get(f"/api/{path}"))
    assert "whole" not in vars(large.state.record.sets)
    expected = large.predict_sets()
    rows = all_rows(web, "/api/sets", sort="id", order="asc")
    np.testing.assert_allclose([row["expected"] for row in rows], expected.mean, rtol=1e-9)
    got(web.get("/api/sets/3"))
    assert "whole" in vars(large.state.record.sets)


def test_looking_at_one_set_embeds_no_other(study, problem, monkeypatch):
    web = client_of(create_app(study))
    got(web.get("/api/sets/3"))
    seen, basis = [], type(study.state.record.prepared.basis)
    monkeypatch.setattr(
        basis, "__call__", lambda self, x: seen.append(len(x)) or _features(self, x)
    )
    got(web.get("/api/sets/3"))
    assert 0 < max(seen) <= problem[0].sizes[3]


def _features(scaled, x):
    return scaled.basis((x - scaled.shift) / scaled.scale)


def test_a_page_of_very_many_sets_is_a_sort_and_a_few_rows(tmp_path):
    sets = sw.Sets(tuple(range(30_000)), np.random.default_rng(0).normal(size=(30_000, 2)),
                   np.ones(30_000), np.arange(30_001))  # fmt: skip
    with sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor("linear")) as study:
        web = client_of(create_app(study))
        got(web.get("/api/sets?size=200"))
        begun = time.process_time()
        for sort in ("std", "id", "information"):
            got(web.get(f"/api/sets?size=200&sort={sort}&search=7&page=3"))
        assert time.process_time() - begun < 3  # a hundred times what it takes


# --- what is worked out once ----------------------------------------------------------------------


def in_threads(jobs):
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def test_a_value_is_worked_out_once_while_others_wait():
    keys, worked, results = ["now"], [], []
    go = threading.Barrier(8)

    def work(key):
        worked.append(key)
        time.sleep(0.05)
        return f"value of {key}"

    latest = SingleFlight(lambda: keys[-1], work)

    def ask():
        go.wait()
        results.append(latest.get())

    in_threads([ask] * 8)
    assert (worked, results) == (["now"], ["value of now"] * 8)
    assert latest.get() == "value of now"
    assert len(worked) == 1
    for key in ("later", "now"):
        keys.append(key)
        assert latest.get() == f"value of {key}"
    assert worked == ["now", "later", "now"]


def test_while_changes_pour_in_nobody_waits_for_more_than_two_rounds():
    """The clock goes on all the time: the first value is for one, the second for all who waited."""
    clock, worked, results = iter(range(1000)), [], []
    begun = threading.Event()

    def work(key):
        worked.append(key)
        begun.set()
        time.sleep(0.2)
        return key

    latest = SingleFlight(lambda: next(clock), work)

    def ask():
        came = next(clock)
        results.append((came, latest.get()))

    def later():
        begun.wait(60)
        ask()

    in_threads([ask] + [later] * 20)
    assert len(worked) == 2
    assert all(value > came for came, value in results)  # nobody is given what is older than they


def test_a_failure_is_not_kept():
    divisors = [1, 0]
    latest = SingleFlight(lambda: 5, lambda key: key / divisors.pop())
    with pytest.raises(ZeroDivisionError):
        latest.get()
    assert latest.get() == 5


texts = st.lists(st.text("abAß1\n", max_size=4), unique=True, min_size=1)


@example(["a", "b", "ab"], "AB")
@given(texts, st.text("abAß1", max_size=3))
def test_a_search_finds_what_each_id_holds_and_not_what_two_hold_together(ids, part):
    known = Known(SimpleNamespace(sets=SimpleNamespace(ids=ids)))
    expected = [part.casefold() in each.casefold() for each in ids]
    assert known.holding(part).tolist() == expected


@given(st.lists(st.sampled_from(["7", "07", "10", "9", "100", "set 9", "set 10"]), unique=True))
def test_ids_have_their_natural_order_whether_all_are_numbers_or_not(ids):
    known = Known(SimpleNamespace(sets=SimpleNamespace(ids=ids)))
    number = [int(each.split()[-1]) for each in ids]
    named = [each.startswith("set") for each in ids]
    order = sorted(range(len(ids)), key=lambda at: (named[at], number[at]))
    assert np.argsort(known.rank).tolist() == order
