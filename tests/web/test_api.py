"""The API does what the study does: the same rules, the same numbers, on both databases."""

from __future__ import annotations

import csv
import io
import math
from datetime import timedelta

import numpy as np
import pyarrow.parquet
import pytest

import sumwise as sw
from sumwise.web import create_app
from tests.builders import random_sets
from tests.studies import with_wrong_total
from tests.web.apps import client_of, got

LINEAR = sw.AggregateRegressor("linear")


@pytest.fixture
def web(study):
    return client_of(create_app(study))


def names(response):
    return [row["id"] for row in response["rows"]]


def tell(web, answers, n, first=0):
    for position in range(first, first + n):
        body = {"position": position, "total": answers[f"set {position}"], "sure": True}
        got(web.post("/api/answers", json=body), 201)


# --- the story ------------------------------------------------------------------------------------


def test_asking_and_telling_from_first_to_last(place, problem):
    sets, answers = problem
    with sw.create_study(place, sets, model=LINEAR, claim_days=2) as study:
        web = client_of(create_app(study))
        twin = study.propose(3)
        asked = got(web.post("/api/questions", json={"n": 3, "by": "ann"}), 201)["questions"]
        assert [question["id"] for question in asked] == [each.set_id for each in twin]
        assert [question["why"] for question in asked] == [each.why for each in twin]
        assert [question["number"] for question in asked] == [0, 1, 2]
        assert {question["by"] for question in asked} == {"ann"}
        assert study.claims[0].expires == asked[0]["expires"]
        first = asked[0]
        assert sets.ids[first["position"]] == first["id"]
        assert first["size"] == sets.sizes[first["position"]]
        assert first["lower"] == pytest.approx(
            first["expected"] - 1.6448536269514722 * first["std"]
        )
        assert first["runner_up"] == {
            "position": sets.position(twin[0].runner_up),
            "id": twin[0].runner_up,
        }

        body = {"position": first["position"], "total": 12.5, "by": "ann", "note": "visit"}
        answer = got(web.post("/api/answers", json={**body, "noise_std": 0.5}), 201)
        assert (answer["total"], answer["note"], answer["noise_std"]) == (12.5, "visit", 0.5)
        assert [told.set_id for told in study.answers] == [first["id"]]
        assert got(web.get("/api/answers"))["rows"] == [answer]

        expires = got(web.post(f"/api/claims/{asked[1]['position']}/renew", json={"days": 30}))
        assert study.claims[0].expires == expires["expires"] > asked[1]["expires"]
        got(web.post(f"/api/claims/{asked[1]['position']}/release", json={"by": "bob"}), 204)
        assert [claim.set_id for claim in study.claims] == [asked[2]["id"]]

        amended = got(web.patch(f"/api/answers/{first['position']}", json={"total": 13}))
        assert (amended["total"], amended["noise_std"]) == (13.0, 0.5)
        got(web.post(f"/api/answers/{first['position']}/retract", json={"note": "wrong"}), 204)
        assert study.answers == ()

        skipped = got(
            web.post("/api/skips", json={"set": "set 7", "by": "bob", "note": "gone"}), 201
        )
        assert skipped == got(web.get("/api/skips"))["rows"][0]
        assert (skipped["position"], skipped["note"]) == (7, "gone")
        got(web.post("/api/skips/7/undo"), 204)
        assert study.skips == ()

        events = got(web.get("/api/history?size=200"))["rows"]
        assert [event["what"] for event in events[::-1]] == [e.what for e in study.history()]
        assert [event["number"] for event in events] == list(range(len(events), 0, -1))
        assert events[0]["set"] == {"position": 7, "id": "set 7"}
        assert events[-1]["set"] is None
        del answers


def test_a_set_of_ones_own_choice_can_be_claimed_by_position_or_id(web, study):
    got(web.post("/api/claims", json={"position": 5, "by": "ann"}), 201)
    by_id = got(web.post("/api/claims", json={"set": "set 6"}), 201)
    assert (by_id["position"], by_id["by"]) == (6, None)
    assert "chosen by hand" in by_id["why"]
    taken = got(web.post("/api/claims", json={"position": 5}), 409)
    assert taken["code"] == "held"
    assert "'ann'" in taken["detail"]
    study.tell("set 8", 1.0)
    assert got(web.post("/api/claims", json={"position": 8}), 409)["code"] == "answered"


# --- answers --------------------------------------------------------------------------------------


def test_the_same_answer_twice_is_fine_and_another_is_a_conflict(web, study):
    body = {"position": 3, "total": 5}
    first = got(web.post("/api/answers", json=body), 201)
    assert got(web.post("/api/answers", json={**body, "by": "bob"}), 200) == first
    refused = got(web.post("/api/answers", json={"position": 3, "total": 6}), 409)
    assert (refused["code"], refused["answer"]) == ("answered", first)
    assert "measured already" in refused["detail"]
    assert [told.y_bar for told in study.answers] == [5.0]


def test_a_total_far_from_what_is_expected_needs_to_be_sure(web, study, problem):
    tell(web, problem[1], 3)
    expected = study.predict_sets()
    far = {"position": 9, "total": expected.mean[9] + 4.1 * expected.std[9]}
    refused = got(web.post("/api/answers", json=far), 409)
    assert refused["code"] == "unlikely"
    assert refused["expected"] == pytest.approx(expected.mean[9])
    assert refused["std"] == pytest.approx(expected.std[9])
    assert refused["lower"] == pytest.approx(expected.lower[9])
    assert refused["upper"] == pytest.approx(expected.upper[9])
    assert len(study.answers) == 3
    near = {"position": 10, "total": expected.mean[10] - 3.9 * expected.std[10]}
    got(web.post("/api/answers", json=near), 201)
    got(web.post("/api/answers", json={**far, "sure": True}), 201)
    assert len(study.answers) == 5


def test_nothing_is_unlikely_before_the_third_answer(web, study, problem):
    tell(web, problem[1], 2)
    got(web.post("/api/answers", json={"position": 9, "total": 1e9}), 201)


def test_known_noise_makes_a_total_less_unlikely(web, study, problem):
    tell(web, problem[1], 3)
    expected = study.predict_sets()
    far = {"position": 9, "total": expected.mean[9] + 6 * expected.std[9]}
    got(web.post("/api/answers", json=far), 409)
    got(web.post("/api/answers", json={**far, "noise_std": 2 * expected.std[9]}), 201)


def test_another_answer_for_an_answered_set_is_answered_and_not_unlikely(web, study, problem):
    tell(web, problem[1], 4)
    assert (
        got(web.post("/api/answers", json={"position": 2, "total": 1e9}), 409)["code"] == "answered"
    )


def test_a_correction_counts_at_once_in_what_is_expected(web, study, problem):
    sets, answers = problem
    del sets
    for position in range(20):
        study.tell(f"set {position}", answers[f"set {position}"])
    study.tell("set 20", 1e6)
    wild = {"position": 25, "total": 5e5}
    got(web.post("/api/answers", json={**wild, "position": 26}), 201)  # all is possible
    study.retract("set 26")
    study.amend("set 20", answers["set 20"])
    assert got(web.post("/api/answers", json=wild), 409)["code"] == "unlikely"


def test_a_change_far_from_what_the_other_answers_say_needs_to_be_sure(web, study, problem):
    answers = problem[1]
    tell(web, answers, 12)
    row = next(row for row in study.insight().compared if row.set_id == "set 4")
    change = {"total": row.predicted + 4.1 * row.std, "note": "typed again"}
    refused = got(web.patch("/api/answers/4", json=change), 409)
    assert refused["code"] == "unlikely"
    assert refused["expected"] == pytest.approx(row.predicted)
    assert refused["std"] == pytest.approx(row.std)
    assert study.answers[4].y_bar == answers["set 4"]
    near = {"total": row.predicted - 3.9 * row.std}
    assert got(web.patch("/api/answers/4", json=near))["total"] == near["total"]
    assert got(web.patch("/api/answers/4", json={**change, "sure": True}))["note"] == "typed again"
    got(web.patch("/api/answers/4", json=change))  # as it is already


def test_a_wrong_answer_is_corrected_without_further_questions(web, study, problem):
    """It has no say in what is expected, however far off it was."""
    tell(web, problem[1], 12)
    got(web.patch("/api/answers/4", json={"total": 1e6, "sure": True}))
    got(web.patch("/api/answers/4", json={"total": problem[1]["set 4"]}))


def test_a_change_with_known_noise_may_be_further_off(web, study, problem):
    tell(web, problem[1], 12)
    row = next(row for row in study.insight().compared if row.set_id == "set 4")
    change = {"total": row.predicted + 6 * row.std}
    got(web.patch("/api/answers/4", json=change), 409)
    got(web.patch("/api/answers/4", json={**change, "noise_std": 2 * row.std}))


def test_no_change_is_unlikely_with_fewer_than_three_other_answers(web, study, problem):
    tell(web, problem[1], 3)
    got(web.patch("/api/answers/1", json={"total": 1e9}))


def test_proposals_say_what_they_allow_for(web, study):
    first, *others = got(web.get("/api/next", params={"n": 3}))["questions"]
    assert "allowing for" not in first["why"]
    for waiting, question in enumerate(others, start=1):
        assert f"allowing for {waiting} open question" in question["why"]


def test_the_check_of_a_total_does_not_fit_a_model_for_every_answer(web, study, problem):
    tell(web, problem[1], 20)
    models = study.state.models
    fits, fit = [], models._fit

    def counted(*arguments):
        fits.append(len(arguments[0]))
        return fit(*arguments)

    models._fit = counted
    for position in range(20, 40):
        body = {"position": position, "total": problem[1][f"set {position}"]}
        web.post("/api/answers", json=body)
    assert 3 <= len(fits) <= 10  # every tenth, about


def test_what_is_not_answered_cannot_be_amended_or_retracted(web):
    assert got(web.patch("/api/answers/3", json={"total": 1}), 409)["code"] == "not_answered"
    assert got(web.post("/api/answers/3/retract"), 409)["code"] == "not_answered"


def test_what_is_not_held_or_skipped_cannot_be_given_back(web, study):
    for path in ("claims/3/release", "claims/3/renew"):
        assert got(web.post(f"/api/{path}", json={}), 409)["code"] == "not_held"
    assert got(web.post("/api/skips/3/undo", json={}), 409)["code"] == "not_skipped"
    study.tell("set 3", 1.0)
    assert got(web.post("/api/skips", json={"position": 3}), 409)["code"] == "answered"


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('{"position": 7, "total": NaN}', "total: give a finite number"),
        ('{"position": 7, "total": 1e999}', "total: give a finite number"),
        ('{"position": 7, "total": -Infinity}', "total: give a finite number"),
        ('{"position": 7, "total": 1e151}', "total: give a number up to 1e+150"),
        ('{"position": 7, "total": "1,234.5"}', "total: give a number, without quotation marks"),
        ('{"position": 7, "total": "12"}', "total: give a number, without quotation marks"),
        ('{"position": 7, "total": true}', "total: give a number"),
        ('{"position": 7, "total": null}', "total: give a number"),
        ('{"position": 7}', "total: is missing"),
        ('{"position": 7, "total": 1, "y": 2}', "y: is not a known field"),
        ('{"position": true, "total": 1}', "position: give a whole number"),
        ('{"position": "7", "total": 1}', "position: give a whole number"),
        ('{"position": 7.5, "total": 1}', "position: give a whole number"),
        ('{"position": -1, "total": 1}', "position: give a number from 0 on"),
        ('{"total": 1}', "give either the position of a set or its id"),
        ('{"position": 7, "set": "set 7", "total": 1}', "give either the position of a set"),
        ('{"position": null, "set": "set 7", "total": 1}', "give either the position of a set"),
        ('{"position": 7, "total": 1, "note": "a\\u0000b"}', "note: give text without null"),
        ('{"position": 7, "total": 1, "by": "\\ud800"}', "by: give valid Unicode"),
        ('{"position": 7, "total": 1, "by": 7}', "by: give text"),
        ('{"position": 7, "total": 1, "sure": 1}', "sure: give true or false"),
        ('{"position": 7, "total": 1, "noise_std": -1}', "noise_std: give a number from 0 on"),
        ('{"position": 7, "total": 1' + "0" * 400 + "}", "total: give a number"),
        ("[]", "the body: give a JSON object"),
        ("null", "the body: give a JSON object"),
    ],
)
def test_what_cannot_be_used_is_refused_in_words(web, study, body, words):
    headers = {"Content-Type": "application/json"}
    refused = got(web.post("/api/answers", content=body, headers=headers), 422)
    assert refused["code"] == "invalid"
    assert words in refused["detail"]
    assert study.answers == ()


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 20_000, b"1" * 5_000 + b"}", b"NaN}"])
def test_what_is_no_json_is_refused(web, body):
    headers = {"Content-Type": "application/json"}
    response = web.post("/api/answers", content=body, headers=headers)
    assert response.status_code in (400, 422)
    assert set(response.json()) == {"code", "detail"}


def test_json_must_say_that_it_is_json(web, study):
    headers = {"Content-Type": "text/plain"}
    body = '{"position": 7, "total": 1}'
    refused = got(web.post("/api/answers", content=body, headers=headers), 422)
    assert "Content-Type: application/json" in refused["detail"]
    assert study.answers == ()


def test_whole_numbers_may_be_written_with_a_point(web, study):
    got(web.post("/api/answers", json={"position": 7.0, "total": 1}), 201)
    assert study.answers[0].set_id == "set 7"


def test_texts_up_to_ten_thousand_characters_are_kept_as_they_are(web, study):
    note = "\u202eשלום\t<script>\n" + "🐟" * (10_000 - 15)
    got(web.post("/api/answers", json={"position": 1, "total": 1, "note": note}), 201)
    assert study.answers[0].note == note
    assert got(web.get("/api/answers"))["rows"][0]["note"] == note
    refused = web.post("/api/answers", json={"position": 2, "total": 1, "note": note + "x"})
    assert "note: give up to 10000 characters" in got(refused, 422)["detail"]


@pytest.mark.parametrize(
    "position", ["40", "-1", "x", "9999999999999999999999", "1e3", "0x1", "%00"]
)
def test_sets_that_do_not_exist(web, position):
    assert web.get(f"/api/sets/{position}").status_code in (404, 422)
    assert web.post(f"/api/answers/{position}/retract").status_code in (404, 422)


def test_an_unknown_id_is_answered_with_similar_ones(web):
    refused = got(web.post("/api/claims", json={"set": "set 99"}), 404)
    assert refused["code"] == "unknown_set"
    assert "'set 9'" in refused["detail"]


@pytest.mark.parametrize(
    "query",
    ["page=0", "page=-1", "size=0", "size=201", "page=1e9", "sort=x", "order=up", "state=x"],
)
def test_pages_that_do_not_exist(web, query):
    assert got(web.get(f"/api/sets?{query}"), 422)["code"] == "invalid"


def test_a_page_beyond_the_last_is_empty(web):
    for path in ("sets", "individuals", "history", "answers"):
        found = got(web.get(f"/api/{path}?page=1000000000&size=200"))
        assert found["rows"] == []


def test_ids_of_every_kind(tmp_path):
    ids = [
        "a/b",
        "<script>alert(1)</script>",
        "q\"u'o",
        "🐟",
        "\u202eabc",
        "a\nb",
        7,
        7.5,
        ("MI", 1),
    ]
    sets = random_sets([1] * len(ids), np.random.default_rng(0), ids=ids)
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        web = client_of(create_app(study))
        shown = names(got(web.get("/api/sets?sort=size&order=asc")))
        assert shown[:6] == ids[:6]
        assert shown[6:] == ["7", "7.5", "MI / 1"]
        for position, text in enumerate(shown):
            got(web.post("/api/answers", json={"set": text, "total": position, "sure": True}), 201)
        assert [told.set_id for told in study.answers] == ids


# --- looking --------------------------------------------------------------------------------------


def test_what_the_study_is(web, study, problem):
    tell(web, problem[1], 4)
    study.ask(2)
    study.skip("set 30")
    found = got(web.get("/api/study"))
    assert found["words"] == [study.status().words[0]]
    assert (found["sets"], found["individuals"]) == (40, len(problem[0].x))
    assert (found["answers"], found["open"], found["skipped"], found["questions"]) == (4, 2, 1, 2)
    assert (found["inputs"], found["places"], found["level"]) == (["x0", "x1", "x2"], None, 0.9)
    assert found["changes"] == study.state.snapshot().changes
    assert (found["name"], found["strategy"], found["claim_days"]) == ("study", "AggMI", 7.0)


def test_the_status_is_the_studys_own(web, study, problem):
    tell(web, problem[1], 4)
    found, expected = got(web.get("/api/status")), study.status()
    assert found["words"] == list(expected.words)
    assert found["information_left"] == expected.information_left
    study.tell("set 5", 1.0)
    assert got(web.get("/api/status"))["answers"] == 5


def test_the_status_names_the_answer_to_check_first(tmp_path):
    with with_wrong_total(tmp_path / "wrong.db") as study:
        web, status = client_of(create_app(study)), study.status()
        found = got(web.get("/api/status"))
        assert found["headline"] == [status.to_check] == found["words"][:1]
        first, suspect = found["suspects"][0], status.suspects[0]
        assert (first["position"], first["id"]) == (1, "set 1")
        for name in ("total", "expected", "std", "z", "moves"):
            assert first[name] == getattr(suspect, name)
        assert len(found["suspects"]) == len(status.suspects)
        errors = found["typical_error"], found["typical_naive_error"]
        assert errors == (status.typical_error, status.typical_naive_error)
        got(web.patch("/api/answers/1", json={"total": suspect.total / 10, "sure": True}))
        after = got(web.get("/api/status"))
        assert (after["headline"], after["suspects"]) == ([], [])


def test_looking_at_what_comes_next_claims_nothing(web, study):
    before = got(web.get("/api/next?n=4"))
    assert [each["id"] for each in before["questions"]] == [e.set_id for e in study.propose(4)]
    assert {each["expires"] for each in before["questions"]} == {None}
    assert got(web.get("/api/next?n=2"))["questions"] == before["questions"][:2]
    assert study.claims == ()
    asked = study.ask(by="ann")
    after = got(web.get("/api/next?n=3"))
    assert [each["id"] for each in after["questions"]] == [e["id"] for e in before["questions"][1:]]
    (claim,) = after["claims"]
    assert (claim["id"], claim["by"], claim["why"]) == (asked.set_id, "ann", asked.why)
    assert claim["expected"] == pytest.approx(asked.expected)
    assert claim["std"] == pytest.approx(asked.std)
    assert claim["information"] == asked.information


def test_near_the_end_fewer_questions_are_proposed(tmp_path):
    sets = random_sets([1, 2, 1], np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        web = client_of(create_app(study))
        study.tell(0, 1.0)
        assert len(got(web.get("/api/next?n=5"))["questions"]) == 2
        assert got(web.post("/api/questions", json={"n": 3}), 409)["code"] == "exhausted"
        got(web.post("/api/questions", json={"n": 2}), 201)
        assert got(web.get("/api/next"))["questions"] == []
        assert got(web.post("/api/questions"), 409)["code"] == "exhausted"


def test_a_claim_that_expires_is_noticed_without_a_change(web, study, clock):
    asked = study.ask(by="ann")
    assert [claim["id"] for claim in got(web.get("/api/next"))["claims"]] == [asked.set_id]
    clock.ahead = timedelta(days=8)
    found = got(web.get("/api/next"))
    assert found["claims"] == []
    assert found["questions"][0]["id"] == asked.set_id
    assert got(web.get("/api/sets?state=open"))["rows"] == []


def test_charts_are_those_of_the_report(web, study, problem):
    tell(web, problem[1], 12)
    from sumwise.report import panels

    shown = {
        kind: got(web.get(f"/api/charts/{kind}")) for kind in ("progress", "predicted", "next")
    }
    insight = study.insight()
    assert shown["progress"]["chart"] == panels.progress(insight).charts[0].to_dict()
    assert shown["predicted"]["words"] == list(panels.predicted(insight).words)
    assert [row[0] for row in shown["next"]["table"]["rows"]] == [
        row["question"] for row in panels.questions(insight).rows
    ]
    study.tell("set 30", problem[1]["set 30"])
    assert got(web.get("/api/charts/progress"))["table"]["rows"][-1][:2] == [13, "set 30"]


def test_charts_without_answers_are_words(web):
    for kind in ("progress", "information", "predicted", "calibration"):
        found = got(web.get(f"/api/charts/{kind}"))
        assert found["chart"] is None
        assert found["words"]
    assert got(web.get("/api/charts/other"), 422)["code"] == "invalid"


def test_absurd_totals_leave_everything_readable(web):
    for position, total in enumerate([1e150, -1e150, 1e-300, 0.0, 1e149]):
        body = {"position": position, "total": total, "sure": True, "noise_std": 1e150}
        got(web.post("/api/answers", json=body), 201)
    for path in ("study", "status", "next", "sets", "sets/7", "individuals", "picture", "answers"):
        assert web.get(f"/api/{path}").status_code in (200, 409), path
    for kind in ("progress", "information", "predicted", "calibration", "next"):
        assert web.get(f"/api/charts/{kind}").status_code in (200, 409), kind


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", ["1_0", "+1", "1.0", "%201", "0x1", "\u0661", "1e0", "--1"])
def test_only_digits_are_a_whole_number_in_an_address(web, study, written):
    before = study.history()
    for path in (f"sets/{written}", f"sets/{written}/code.svg"):
        assert got(web.get(f"/api/{path}"), 422)["detail"].startswith("position: give a whole")
    for path in ("answers/{}/retract", "claims/{}/renew", "claims/{}/release", "skips/{}/undo"):
        got(web.post(f"/api/{path.format(written)}"), 422)
    got(web.patch(f"/api/answers/{written}", json={"total": 1}), 422)
    written = written.replace("+", "%2B")
    for path in ("sets?page", "sets?size", "individuals?page", "next?n", "history?size"):
        name = path.partition("?")[2]
        refused = got(web.get(f"/api/{path}={written}"), 422)
        assert refused["detail"].startswith(f"{name}: give a whole number, in digits")
    assert study.history() == before


def test_a_spreadsheet_runs_nothing_of_what_it_opens(tmp_path):
    ids = ["=1+1", "@SUM(A1)", "+cmd|' /C calc'!A0", "-2+3", "\t=1", "\r=1", "-5", "+1e-3", "a=1"]
    sets = random_sets([1] * len(ids), np.random.default_rng(0), ids=ids)
    with sw.create_study(tmp_path / "a.db", sets, model=sw.AggregateRegressor("linear")) as study:
        web = client_of(create_app(study))
        rows = list(csv.DictReader(io.StringIO(web.get("/api/individuals.csv").text, newline="")))
        content = web.get("/api/individuals.parquet").content
    assert [row["set"] for row in rows] == [f"'{each}" for each in ids[:6]] + ids[6:]
    exact = pyarrow.parquet.read_table(io.BytesIO(content))
    assert exact["set"].to_pylist() == ids


def test_downloads_hold_what_is_predicted_for_everybody(web, study, problem):
    tell(web, problem[1], 5)
    expected = study.predict()
    response = web.get("/api/individuals.csv")
    assert response.headers["content-disposition"] == 'attachment; filename="study.csv"'
    rows = list(csv.DictReader(io.StringIO(response.text)))
    assert [row["set"] for row in rows] == list(expected.ids)
    np.testing.assert_allclose([float(row["mean"]) for row in rows], expected.mean, rtol=1e-12)
    np.testing.assert_allclose([float(row["upper"]) for row in rows], expected.upper, rtol=1e-12)
    assert [row["row"] for row in rows[:3]] == ["1", "2", "3"]
    assert float(rows[0]["x1"]) == problem[0].x[0, 1]
    part = web.get("/api/individuals.csv", headers={"Range": "bytes=0-9"})  # of another file
    assert (part.status_code, part.text) == (200, response.text)
    content = web.get("/api/individuals.parquet").content
    table = pyarrow.parquet.read_table(io.BytesIO(content))
    np.testing.assert_allclose(table["std"], expected.std, rtol=1e-12)


def test_inputs_called_like_our_columns_keep_their_names(tmp_path):
    import pandas as pd

    frame = pd.DataFrame({"g": [0, 0, 1], "mean": [1.0, 2.0, 3.0], "set": [4.0, 5.0, 7.0]})
    sets = sw.Sets.from_frame(frame, by="g", x=["mean", "set"])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR, name='../"x"\r\n') as study:
        response = client_of(create_app(study)).get("/api/individuals.csv")
    head = next(csv.reader(io.StringIO(response.text)))
    assert head[:4] == ["sumwise_set", "sumwise_row", "mean", "set"]
    assert response.headers["content-disposition"] == 'attachment; filename="x.csv"'


def test_the_page_and_its_files(web):
    page = web.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert 'src="/static/app.js"' in page.text
    assert web.get("/static/app.js").headers["content-type"].startswith("text/javascript")
    vega = web.get("/static/vega.js")
    assert vega.headers["content-type"].startswith("text/javascript")
    assert "window.vegaEmbed" in vega.text
    assert not math.isnan(len(vega.content))


# --- costs and when to stop -----------------------------------------------------------------------


def test_costs_and_advice_are_the_studys_own(tmp_path, problem):
    sets, answers = problem
    cost = {set_id: 1.0 + a % 3 for a, set_id in enumerate(sets.ids)}
    wishes = {"cost": cost, "enough": 1e6}
    with sw.create_study(tmp_path / "c.db", sets, model=LINEAR, strategy="IVR", **wishes) as study:
        web = client_of(create_app(study))
        assert got(web.get("/api/study"))["spent"] == 0
        tell(web, answers, 4)
        paid = sum(cost[set_id] for set_id in sets.ids[:4])
        assert got(web.get("/api/study"))["spent"] == paid
        found, expected = got(web.get("/api/status")), study.status()
        assert (found["spent"], found["next_cost"]) == (paid, expected.next_cost)
        assert (found["enough"], found["stop"]) == (1e6, True)
        assert found["improvement"] == expected.improvement
        assert found["advice"] == expected.advice
        assert found["advice"].startswith("You may stop")
        assert found["advice"] in found["words"]
        (question,) = got(web.post("/api/questions", json={"by": "ann"}), 201)["questions"]
        assert question["cost"] == cost[question["id"]]
        assert question["score_per_cost"] == question["score"] / question["cost"]
        assert question["runner_up_score_per_cost"] <= question["score_per_cost"]
        following = got(web.get("/api/next?n=1"))
        assert following["claims"][0]["cost"] == question["cost"]
        assert following["questions"][0]["cost"] == cost[following["questions"][0]["id"]]


def test_a_study_without_costs_says_nothing_of_them(web, study, problem):
    tell(web, problem[1], 4)
    assert got(web.get("/api/study"))["spent"] is None
    status = got(web.get("/api/status"))
    assert {status[name] for name in ("spent", "next_cost", "enough", "stop", "advice")} == {None}
    study.ask()
    following = got(web.get("/api/next?n=1"))
    for row in (*following["questions"], *following["claims"]):
        assert row["cost"] is None
    assert following["questions"][0]["score_per_cost"] is None


def test_intervals_of_totals_are_those_of_the_mixture(place, problem):
    sets, answers = problem
    with sw.create_study(place, sets) as study:
        web = client_of(create_app(study))
        tell(web, answers, 4)
        (asked,) = got(web.post("/api/questions", json={"by": "ann"}), 201)["questions"]
        now, pool = got(web.get("/api/next")), got(web.get("/api/sets", params={"size": 40}))
        expected = study.predict_sets()
    assert set(expected.std[:4]) == {0.0}  # measured
    assert not np.allclose(expected.upper - expected.mean, 1.6448536269514722 * expected.std)
    rows = [asked, *now["questions"], *now["claims"], *pool["rows"]]
    for name in ("std", "lower", "upper"):
        wanted = getattr(expected, name)[[row["position"] for row in rows]]
        np.testing.assert_allclose([row[name] for row in rows], wanted, rtol=1e-9)
