"""Individuals as points: which are drawn, where, and as what."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.util.text import figure
from sumwise.web import create_app, picture
from sumwise.web.picture import ANSWERED, MOST, OPEN, PROPOSAL, REST, sample
from tests.builders import random_sets
from tests.studies import play
from tests.web.apps import client_of, got

LINEAR = sw.AggregateRegressor("linear")


def points(found):
    return found["chart"]["data"]["values"]


@pytest.fixture
def web(study):
    return client_of(create_app(study))


def test_every_individual_is_coloured_by_what_became_of_its_set(web, study, problem):
    play(study, problem[1], 3)
    study.ask()
    study.skip("set 39" if "set 39" not in {c.set_id for c in study.claims} else "set 38")
    found = got(web.get("/api/picture"))
    rows, sets = points(found), problem[0]
    assert len(rows) == len(sets.x)
    expected = dict.fromkeys(sets.ids, "not measured")
    expected |= {question.set_id: "proposed" for question in study.propose(5)}
    expected |= {skip.set_id: "skipped" for skip in study.skips}
    expected |= {claim.set_id: "being measured" for claim in study.claims}
    expected |= {answer.set_id: "answered" for answer in study.answers}
    assert {row["set"]: row["state"] for row in rows} == expected
    drawn = [row["state"] for row in rows]
    assert drawn == sorted(drawn, key=list(picture.LOOKS).index)  # what matters lies on top
    counted = [[name, drawn.count(name)] for name in reversed(picture.LOOKS) if name in drawn]
    assert found["table"]["rows"] == counted
    study.tell("set 20", 1.0)
    after = points(got(web.get("/api/picture")))
    assert {row["state"] for row in after if row["set"] == "set 20"} == {"answered"}


def test_every_point_knows_its_individual_and_what_is_predicted_for_it(web, study, problem):
    play(study, problem[1], 4)
    rows = points(got(web.get("/api/picture")))
    listed = got(web.get("/api/individuals", params={"size": 200}))["rows"]
    known = {(row["set"]["position"], row["row"]): row for row in listed}
    drawn = {(row["position"], row["row"]): row["predicted"] for row in rows}
    assert known.keys() <= drawn.keys()
    assert len(drawn) == len(rows)
    for key, row in known.items():
        assert drawn[key] == f"{figure(row['mean'], 4)} ± {figure(row['std'])}"


def test_the_plane_is_that_of_the_two_principal_components(web, problem):
    from sklearn.decomposition import PCA

    found = got(web.get("/api/picture?kind=pca"))
    x = problem[0].x
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    fitted = PCA(2).fit(x)
    drawn = np.array([(row["x"], row["y"]) for row in points(found)])
    mine, theirs = (p - p.mean(axis=0) for p in (drawn, fitted.transform(x)))
    far, near = (np.linalg.norm(p[:, None] - p[None], axis=2) for p in (mine, theirs))
    np.testing.assert_allclose(np.sort(far.ravel()), np.sort(near.ravel()), atol=1e-3)
    share = fitted.explained_variance_ratio_.sum()
    assert f"{share:.0%} of their variance" in found["words"][0]
    table = found["table"]
    assert sum(row[1] for row in table["rows"]) == len(x)


def test_one_input_is_a_line(tmp_path):
    sets = random_sets([2, 3, 1], np.random.default_rng(0), n_inputs=1)
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        rows = points(got(client_of(create_app(study)).get("/api/picture")))
    assert {row["y"] for row in rows} == {0.0}
    assert len({row["x"] for row in rows}) == 6


def test_inputs_that_are_all_the_same_are_one_point(tmp_path):
    sets = sw.Sets.from_arrays([np.ones((2, 2)), np.ones((3, 2))])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        web = client_of(create_app(study))
        assert {(row["x"], row["y"]) for row in points(got(web.get("/api/picture")))} == {
            (0.0, 0.0)
        }
        assert got(web.get("/api/picture?kind=tsne"))["chart"] is not None


# --- maps -----------------------------------------------------------------------------------------


@pytest.fixture
def plots(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": np.repeat(range(5), 4), "rain": rng.normal(size=20)})
    frame["lon"], frame["lat"] = rng.uniform(-120, -60, 20), rng.uniform(30, 60, 20)
    sets = sw.Sets.from_frame(frame, by="g", x=["lon", "rain", "lat"])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        yield frame, study


def test_a_map_shows_the_coordinates_that_were_named(plots):
    frame, study = plots
    web = client_of(create_app(study, places=("lon", "lat")))
    assert got(web.get("/api/study"))["places"] == {"x": "lon", "y": "lat"}
    found = got(web.get("/api/picture?kind=map"))
    drawn = sorted((row["x"], row["y"]) for row in points(found))
    expected = sorted(zip(frame["lon"], frame["lat"], strict=True))
    np.testing.assert_allclose(drawn, expected, atol=1e-3)
    titles = [found["chart"]["encoding"][axis]["title"] for axis in "xy"]
    assert titles == ["lon", "lat"]


def test_without_coordinates_there_is_no_map(plots):
    web = client_of(create_app(plots[1]))
    assert "--map LON,LAT" in got(web.get("/api/picture?kind=map"), 404)["detail"]
    with pytest.raises(sw.SettingError, match="no input is called 'long'; the inputs are 'lon'"):
        create_app(plots[1], places=("long", "lat"))


# --- t-SNE ----------------------------------------------------------------------------------------


def test_likeness_is_worked_out_once(tmp_path, monkeypatch):
    laid, tsne = [], picture._tsne
    monkeypatch.setattr(picture, "_tsne", lambda x: laid.append(len(x)) or tsne(x))
    sets = random_sets([2, 3, 4, 2], np.random.default_rng(0))
    study = sw.create_study(tmp_path / "a.db", sets, model=LINEAR)
    web = client_of(create_app(study))
    first = points(got(web.get("/api/picture?kind=tsne")))
    study.tell(3, 1.0)
    second = points(got(web.get("/api/picture?kind=tsne")))
    study.close()
    assert laid == [11]
    place = {(row["x"], row["y"]) for row in first}
    assert {(row["x"], row["y"]) for row in second} == place
    assert {row["state"] for row in second if row["set"] == "3"} == {"answered"}


def test_whoever_was_not_there_is_put_beside_their_likes(tmp_path, monkeypatch):
    """Two clouds far apart; only a part of them is laid out, the rest must join their own cloud."""
    monkeypatch.setattr(picture, "MOST", 40)
    rng = np.random.default_rng(0)
    blocks = [rng.normal(20 * (a % 2), 1, size=(4, 3)) for a in range(40)]
    with sw.create_study(tmp_path / "a.db", sw.Sets.from_arrays(blocks), model=LINEAR) as study:
        web = client_of(create_app(study))
        got(web.get("/api/picture?kind=tsne"))
        for a in (30, 31, 32, 33):
            study.tell(a, 1.0)
        rows = points(got(web.get("/api/picture?kind=tsne")))
        clouds = [
            np.array([(r["x"], r["y"]) for r in rows if int(r["set"]) % 2 == side])
            for side in (0, 1)
        ]
        assert {int(r["set"]) for r in rows} >= {30, 31, 32, 33}
        apart = np.linalg.norm(clouds[0].mean(axis=0) - clouds[1].mean(axis=0))
        for cloud in clouds:
            assert np.linalg.norm(cloud - cloud.mean(axis=0), axis=1).max() < apart


def test_too_few_individuals_for_likeness_are_words(tmp_path):
    sets = random_sets([1, 2], np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        found = got(client_of(create_app(study)).get("/api/picture?kind=tsne"))
    assert found["chart"] is None
    assert found["words"] == ["t-SNE takes at least 5 individuals."]


# --- samples --------------------------------------------------------------------------------------


def test_of_many_individuals_those_that_matter_are_drawn_first():
    starts = np.arange(0, 50_001, 10)  # 5,000 sets of 10
    state = np.full(5000, REST)
    state[:100], state[100:120], state[120:125] = ANSWERED, OPEN, PROPOSAL
    rows = sample(starts, state)
    assert len(rows) == MOST
    assert np.array_equal(rows[:1250], np.arange(1250))
    assert (np.diff(rows) > 0).all()
    assert rows[-1] > 49_000  # the rest from all over the pool
    assert np.array_equal(rows, sample(starts, state))


def test_of_very_many_answers_a_share_is_drawn():
    starts = np.arange(0, 50_001, 10)
    rows = sample(starts, np.full(5000, ANSWERED))
    assert len(rows) == len(set(rows.tolist())) == MOST
    rest = np.full(5000, ANSWERED)
    rest[4000:] = REST
    assert (sample(starts, rest) < 40_000).all()


def test_a_sample_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(picture, "MOST", 5)
    sets = random_sets([4, 3, 2], np.random.default_rng(0))
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        found = got(client_of(create_app(study)).get("/api/picture"))
    assert len(points(found)) == 5
    assert "Of 9 individuals 5 are drawn" in found["words"][1]


def test_inputs_beyond_all_bounds_are_not_drawn(tmp_path):
    sets = sw.Sets.from_arrays([[[1e308, 1.0]], [[-1e308, 2.0]], [[1e308, 3.0]]])
    with sw.create_study(tmp_path / "a.db", sets, model=LINEAR) as study:
        answer = client_of(create_app(study)).get("/api/picture")
    assert answer.status_code in (200, 409)


@pytest.mark.parametrize(
    ("low", "high", "degrees", "across"),
    [
        ((0, 0), (4, 3), False, 1.0),
        ((-87, 42), (-83, 46), True, np.cos(np.radians(44))),
        ((600_000, 5_000_000), (700_000, 5_050_000), True, 1.0),  # metres, not degrees
        ((0, 1), (1000, 2), False, 1.0),  # a thin line
        ((1, 0), (1, 1000), False, 1.0),
        ((3, 3), (3, 3), False, 1.0),  # all in one place
    ],
)
def test_a_step_is_as_long_up_as_across(low, high, degrees, across):
    points = np.array([low, high], dtype=float)
    ((left, right), (bottom, top)), ratio = picture.frame(points, degrees=degrees)
    assert left <= low[0] <= high[0] <= right
    assert bottom <= low[1] <= high[1] <= top
    assert 0.4 <= ratio <= 1.25
    # pixels for a unit: width 1 by height `ratio`
    assert ratio / (top - bottom) == pytest.approx(1 / ((right - left) * across))
