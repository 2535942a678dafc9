"""The paper's Figs. 3 and 4, on made-up runs; Fig. 4 on Abalone as well."""

from __future__ import annotations

import numpy as np
import pytest

import sumwise as sw
from sumwise.experiments import chosen_sets, datasets, protocol, reproduction_page
from sumwise.experiments.chosen_sets import EARLIER, NEW, REST
from sumwise.report.page import save
from tests.datasets import data_folder


@pytest.fixture(scope="module")
def small():
    """Two clusters of individuals, and an output that follows the first input."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(-0.7, 0.1, (70, 2)), rng.normal(0.7, 0.1, (80, 2))])
    return datasets.Dataset("made up", x, datasets.unit_range(x[:, 0]))


@pytest.fixture(scope="module")
def selection(small):
    return chosen_sets.selection_steps(small, 0)


def errors(*datasets_, **methods):
    runs = {name: np.full((2, 3), mean) for name, mean in methods.items()}
    return dict.fromkeys(datasets_, runs)


# --- Fig. 4 -------------------------------------------------------------------------------------


def test_four_different_sets_are_chosen_among_sets_of_at_most_ten(selection):
    sets, chosen = selection
    assert len(set(chosen)) == len(chosen) == 4
    assert max(chosen) < len(sets)
    assert sets.sizes.max() <= 10


def test_the_sets_chosen_are_those_that_the_learner_asks_for(small, selection):
    split = protocol.make_split(small, 0, largest_set=10)
    seed = protocol.paper_model("made up", 0).random_state
    model = sw.AggregateRegressor(
        "fourier", hyperparameters="adam", standardize=False, random_state=seed
    )
    learner = sw.ActiveLearner(split.sets, model=model, strategy="AggMI")
    for position in selection[1]:
        ask = learner.ask()
        assert split.sets.position(ask.set_id) == position
        learner.tell(ask.set_id, float(split.y_bar[position]))


def test_the_map_shows_chosen_sets_whole_and_as_many_others_as_there_is_room_for(selection):
    sets, chosen = selection
    n_chosen = int(sets.sizes[list(chosen)].sum())
    rows = chosen_sets.tsne_rows(sets, chosen, most=n_chosen + 20)
    for query, position in zip((2, 3, 4), chosen[1:], strict=True):
        panel = [row for row in rows if row["query"] == query]
        assert len(panel) == n_chosen + 20
        new = [row for row in panel if row["state"] == NEW]
        assert {row["set"] for row in new} == {position}
        assert len(new) == sets.sizes[position]
        earlier = [row for row in panel if row["state"] == EARLIER]
        assert {row["set"] for row in earlier} == set(chosen[: query - 1])


def test_a_map_with_too_little_room_still_holds_the_chosen_sets(selection):
    sets, chosen = selection
    rows = chosen_sets.tsne_rows(sets, chosen, most=1)
    assert len(rows) == 3 * int(sets.sizes[list(chosen)].sum())  # three panels
    rows = [row for row in rows if row["query"] == 4]
    assert not any(row["state"] == REST for row in rows)


def test_the_map_keeps_clusters_apart(small, selection):
    rows = [row for row in chosen_sets.tsne_rows(*selection) if row["query"] == 2]
    assert len(rows) == len(selection[0].x)  # all of them fit
    place = np.array([(row["x"], row["y"]) for row in rows])
    distances = np.linalg.norm(place[:, None] - place[None], axis=2) + 1e9 * np.eye(len(place))
    # cut the longest link of the tree that joins nearest neighbours: two halves are left
    joined, gaps = [0], []
    while len(joined) < len(place):
        left = np.setdiff1d(np.arange(len(place)), joined)
        between = distances[np.ix_(joined, left)]
        gaps.append(between.min())
        joined.append(int(left[between.min(axis=0).argmin()]))
    longest, second = sorted(gaps, reverse=True)[:2]
    assert longest > 2 * second


def test_the_same_map_comes_out_twice(selection):
    first, second = (chosen_sets.tsne_rows(*selection, most=60) for _ in range(2))
    assert first == second


def test_on_abalone_chosen_sets_lie_in_one_cluster_more_than_other_sets_of_their_size():
    abalone = datasets.load("Abalone", data_folder())
    ours, others = [], []
    for number in range(5):
        sets, chosen = chosen_sets.selection_steps(abalone, number)
        cluster = [sets.x[a:b, 0] for a, b in zip(sets.starts[:-1], sets.starts[1:], strict=True)]
        share = np.array([np.unique(c, return_counts=True)[1].max() / len(c) for c in cluster])
        for position in chosen:
            ours.append(share[position])
            others.append(share[sets.sizes == sets.sizes[position]].mean())
    gain = np.array(ours) - np.array(others)
    assert gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain))


# --- charts ------------------------------------------------------------------------------------


def test_the_headline_counts_where_aggmi_has_the_lowest_error():
    won, lost = errors("a", AggMI=1.0, Rand=2.0), errors("b", AggMI=3.0, Rand=2.0)
    opening = "AggMI's error, averaged over all queries, is the lowest on "
    assert reproduction_page.headline(won | lost) == opening + "1 of 2 data sets"
    assert reproduction_page.headline(lost | {"c": lost["b"]}) == opening + "none of 2 data sets"
    assert reproduction_page.headline(won) == opening + "1 of 1 data set"
    assert reproduction_page.headline(errors("a", Rand=1.0)).startswith(
        "Error of individual predictions"
    )


def test_figure_3_has_the_papers_data_sets_and_the_others_have_their_own_file():
    curves = errors("MAT", "Mg", "Abalone", AggMI=1.0, Rand=2.0)
    charts = reproduction_page.charts_of(curves)
    assert list(charts) == ["error-per-query", "error-per-query-others"]
    names = [panel["title"] for panel in charts["error-per-query"].to_dict()["concat"]]
    assert names == ["Abalone", "Mg"]  # in the paper's order
    assert list(reproduction_page.charts_of(errors("Cpu", AggMI=1.0))) == ["error-per-query"]
    assert list(reproduction_page.charts_of(errors("MAT", AggMI=1.0))) == ["error-per-query-others"]


def test_figure_4_names_its_data_set_and_counts_what_it_shows(small, tmp_path):
    charts = reproduction_page.charts_of(errors("Cpu", AggMI=1.0, Rand=2.0), small)
    assert set(charts) == {"error-per-query", "chosen-sets"}
    (path,) = save(charts["chosen-sets"], tmp_path / "map", (".svg",))
    assert ">Sets that AggMI chooses in made up<" in path.read_text()
    assert "of 120 individuals in" in path.read_text()


# --- the data these tests need ------------------------------------------------------------------


def test_without_data_a_test_is_skipped_saying_how_to_get_them_and_fails_in_ci(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("SUMWISE_DATA", str(tmp_path / "absent"))
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="absent: set SUMWISE_DATA to a folder with"):
        data_folder()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="absent: set SUMWISE_DATA to a folder with"):
        data_folder()
    monkeypatch.setenv("SUMWISE_DATA", str(tmp_path))
    assert data_folder() == tmp_path
