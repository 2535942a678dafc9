"""Learners of counts, shares and amounts: what users give them, what is refused, what they say."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.errors import InvalidSetError, LabelError, SettingError
from tests.study.test_counts_study import areas, sets_of, totals_of


def learned(outputs="counts", n=6, **by):
    """A learner with some answers, and the table it is of."""
    frame = areas()
    if outputs == "amounts":
        frame["deaths"] = frame.people * np.exp(frame.age)
    learner = sw.ActiveLearner(sets_of(frame, **by), outputs=outputs)
    totals = totals_of(frame)
    for name in list(totals)[:n]:
        learner.tell(name, totals[name])
    return learner, frame


# --- what sets are made with ----------------------------------------------------------------------


def test_exposure_and_trials_are_names_of_the_weights():
    frame = areas()
    arrays, people = [frame[["age"]].to_numpy()], [frame.people.to_numpy()]
    for name in ("weights", "exposure", "trials"):
        made = sets_of(frame, **{name: "people"})
        np.testing.assert_array_equal(made.theta, sets_of(frame, weights="people").theta)
        assert made.origin.weights == "people"
        made = sets_of(frame, **{name: frame.people.to_numpy()})
        np.testing.assert_array_equal(made.theta, sets_of(frame, weights="people").theta)
        flat = sw.Sets.from_arrays(arrays, **{name: people})
        np.testing.assert_array_equal(flat.theta, frame.people)
    for two in ({"weights": "people", "exposure": "people"}, {"trials": "age", "exposure": "age"}):
        with pytest.raises(SettingError, match="all say how much"):
            sets_of(frame, **two)
    with pytest.raises(SettingError, match="all say how much"):
        sw.Sets.from_arrays(arrays, people, trials=people)
    renamed = frame.rename(columns={"people": "mean"})  # a column, whatever its name
    np.testing.assert_array_equal(sets_of(renamed, exposure="mean").theta, frame.people)


def test_a_missing_exposure_is_refused_by_its_row():
    frame = areas().astype({"people": float})
    frame.loc[2, "people"] = np.nan
    with pytest.raises(InvalidSetError, match=r"row 2.*people"):
        sets_of(frame)


@pytest.mark.parametrize(
    ("outputs", "by", "error", "words"),
    [
        ("counts", {"exposure": "zero"}, InvalidSetError, "individual 2 of set 'c0': the exposure"),
        ("amounts", {"exposure": "zero"}, InvalidSetError, "exposure is 0; it must be above 0"),
        ("shares", {"trials": "half"}, InvalidSetError, "trials is 2.5; it must be a whole number"),
        ("counts", {"weights": "mean"}, SettingError, "takes the count of a set, not a mean"),
        ("shares", {"weights": "mean"}, SettingError, "takes the number of successes of a set"),
        ("amounts", {"weights": "mean"}, SettingError, "takes the total of a set, not a mean"),
    ],
)
def test_weights_that_cannot_be_exposures_are_refused_by_row_set_and_value(
    outputs, by, error, words, tmp_path
):
    frame = areas().assign(zero=1.0, half=1.0)
    frame.loc[1, ["zero", "half"]] = 0.0, 2.5
    sets = sets_of(frame, **by)
    with pytest.raises(error, match=words):
        sw.ActiveLearner(sets, outputs=outputs)
    with pytest.raises(error, match=words):
        sw.create_study(tmp_path / "a.db", sets, outputs=outputs)
    with pytest.raises(error, match=words):
        sw.AggregateRegressor(outputs=outputs).fit(sets, {"c5": 3})
    assert not (tmp_path / "a.db").exists()


# --- settings -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"outputs": "rates"}, "give one of numbers, counts, shares, amounts"),
        ({"preset": "paper"}, "preset='paper' is for plain numbers, not for counts"),
        ({"model": sw.AggregateRegressor()}, "the model has outputs='numbers'"),
        ({"noise_std": 2.0}, "noise_std is noise of plain numbers"),
        ({"low": 0}, "a count is at least 0. Leave low and high"),
        ({"model": sw.AggregateRegressor(outputs="shares")}, "the model has outputs='shares'"),
    ],
)
def test_settings_that_contradict_counts_are_refused(given, words, tmp_path):
    given = {"outputs": "counts", **given}
    with pytest.raises(SettingError, match=words):
        sw.ActiveLearner(sets_of(areas()), **given)
    with pytest.raises(SettingError, match=words):
        sw.create_study(tmp_path / "a.db", sets_of(areas()), **given)
    assert not (tmp_path / "a.db").exists()


def test_outputs_may_be_said_of_the_model_or_beside_it():
    sets, model = sets_of(areas()), sw.AggregateRegressor(outputs="counts")
    for given in ({"model": model}, {"outputs": "counts"}, {"model": model, "outputs": "counts"}):
        learner = sw.ActiveLearner(sets, **given)
        assert learner.about.outputs == "counts"
        assert learner.about.word == "count"
        learner.tell("c1", 3)
        assert "outputs='counts'" in repr(learner)


def test_sets_that_share_individuals_are_refused():
    sets = sw.Sets.from_members(np.arange(4.0)[:, None], [[0, 1], [1, 2, 3]])
    with pytest.raises(SettingError, match="sets that share individuals"):
        sw.ActiveLearner(sets, outputs="counts")


# --- telling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "told", "error", "words"),
    [
        ("counts", {"y_bar": 2.5}, LabelError, "give the count, not the rate"),
        ("counts", {"y_bar": -1}, LabelError, "a count is at least 0"),
        ("counts", {"y_bar": 3, "noise_std": 1.0}, SettingError, "noise of their own"),
        ("counts", {"y_bar": 3, "covers": 0.5}, SettingError, "name the members that were"),
        ("amounts", {"y_bar": 0}, LabelError, "amounts are above 0"),
    ],
)
def test_what_cannot_be_told_of_counts_and_amounts_is_refused(outputs, told, error, words):
    learner, _ = learned(outputs)
    before = learner.answers
    with pytest.raises(error, match=words):
        learner.tell("c9", **told)
    with pytest.raises(error, match=f"row 1: .*{words}"):
        learner.tell_many(
            ["c8", "c9"],
            [3, told["y_bar"]],
            **{name: [None, value] for name, value in told.items() if name != "y_bar"},
        )
    assert learner.answers == before


def test_a_total_of_some_members_has_their_exposure_and_the_others_are_added_to_it():
    learner, frame = learned()
    own = frame[frame.county == "c9"]
    some = own.area.tolist()[:2]
    told = int(own.deaths[:2].sum())
    learner.tell("c9", told, of=some)
    found = learner.predict().to_pandas().set_index("id")
    assert found.loc[some, "mean"].sum() == pytest.approx(told)
    rest = found.loc[own.area.tolist()[2:], "mean"].sum()
    whole = learner.predict_sets().to_pandas().set_index("set").loc["c9"]
    assert whole["mean"] == pytest.approx(told + rest, rel=0.05)  # with the effect of the set
    assert whole["std"] > 0
    assert whole.lower >= told
    mean, std = learner.expected("c9")
    assert told < mean
    assert std > 0
    part, _ = learner.expected("c9", of=some)
    assert 0 < part < mean


def test_the_exposure_of_some_members_bounds_their_successes():
    learner, frame = learned("shares", trials="people")
    own = frame[frame.county == "c9"]
    with pytest.raises(LabelError, match="more successes than trials"):
        learner.tell("c9", int(own.people.iloc[0]) + 1, of=[own.area.iloc[0]])
    learner.tell("c9", int(own.people.iloc[0]), of=[own.area.iloc[0]])
    found = learner.predict().to_pandas().set_index("id").loc[own.area.iloc[0]]
    assert found["mean"] == found.lower == found.upper == own.people.iloc[0]


# --- predictions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outputs", "by", "name"),
    [
        ("counts", {"exposure": "people"}, "rate"),
        ("shares", {"trials": "people"}, "share"),
        ("amounts", {"exposure": "people"}, "rate"),
    ],
)
def test_predictions_are_of_each_individual_with_its_own_exposure(outputs, by, name):
    learner, frame = learned(outputs, **by)
    found = learner.predict().to_pandas()
    assert list(found.columns[-6:]) == ["mean", "std", "lower", "upper", name, "extrapolates"]
    assert found.extrapolates.dtype == bool
    e = frame.people.to_numpy()
    np.testing.assert_allclose(found[name], found["mean"] / e)
    sums = found.groupby("set")["mean"].sum()
    for own, total in learner.labels.items():
        assert sums[own] == pytest.approx(total, rel=1e-9)
    assert (found.lower >= 0).all()
    if outputs != "amounts":
        assert (found[["lower", "upper"]] % 1 == 0).all().all()
    if outputs == "shares":
        assert (found.upper <= e).all()
        assert not found.extrapolates.any()
    table = frame[["county", "age", "people"]]
    again = learner.predict(table).to_pandas()  # by the columns that the sets were made with
    np.testing.assert_allclose(again["mean"], found["mean"])
    rates = learner.predict(table[["county", "age"]]).to_pandas()
    near = 1e-3 if outputs == "shares" else 1e-9  # dispersion depends on trials, and p on that
    np.testing.assert_allclose(rates["mean"], found[name], rtol=near)
    double = learner.predict(table[["age"]], exposure=2 * e).to_pandas()
    alone = learner.predict(table[["age"]]).to_pandas()
    np.testing.assert_allclose(double["mean"], 2 * e * alone["mean"], rtol=near)


def test_numbers_have_neither_rates_nor_a_flag():
    sets = sets_of(areas())
    learner = sw.ActiveLearner(sets)
    learner.tell("c1", 3)
    assert list(learner.predict().to_pandas().columns[-4:]) == ["mean", "std", "lower", "upper"]
    with pytest.raises(SettingError, match="exposure is for counts"):
        learner.predict(areas()[["age"]], exposure=1.0)


def test_rows_far_beyond_what_was_measured_are_flagged():
    frame = areas()
    model = sw.AggregateRegressor("linear", outputs="counts")
    learner = sw.ActiveLearner(sets_of(frame), model)
    learner.tell_many(totals_of(frame))
    far = pd.DataFrame({"age": [0.5, 8.0], "people": [100, 100]})
    found = learner.predict(far).to_pandas()
    seen = max(t / frame.people[frame.county == own].sum() for own, t in learner.labels.items())
    assert found.rate[0] < 10 * seen
    assert found.extrapolates.tolist() == [False, bool(found.rate[1] > 10 * seen)]
    assert found.extrapolates[1]


def test_members_of_measured_sets_are_not_flagged_and_others_are():
    frame = areas().astype({"age": float})
    frame.loc[frame.area.isin([0, 55]), "age"] = 9.0  # in the first county and in the last
    totals = totals_of(frame) | {"c2": 0}
    learner = sw.ActiveLearner(sets_of(frame), sw.AggregateRegressor("linear", outputs="counts"))
    for name in ("c0", "c1", "c2", "c3", "c4", "c5"):
        learner.tell(name, totals[name])
    found = learner.predict().to_pandas().set_index("id")
    assert found.loc[8:11, "rate"].tolist() == [0, 0, 0, 0]  # of c2, where nobody died
    measured = found.set.isin(learner.labels)
    assert not found.extrapolates[measured].any()
    seen = [t / frame.people[frame.county == own].sum() for own, t in learner.labels.items()]
    far = found.rate > 10 * max(seen)
    assert found.extrapolates[~measured & far].all()
    assert found.extrapolates[55]


def test_rows_with_gaps_have_whole_intervals_and_the_flags_of_their_stand_ins():
    frame = areas().astype({"age": float}).assign(kind=lambda f: np.where(f.age > 0.5, "a", "b"))
    sets = sw.Sets.from_frame(frame, by="county", x=["age", "kind"], exposure="people")
    learner = sw.ActiveLearner(sets, outputs="counts")
    for name, total in list(totals_of(frame).items())[2:8]:
        learner.tell(name, total)
    known = frame[["age", "kind", "people"]].iloc[38:42]
    new = known.copy()
    new.loc[39, "age"], new.loc[40, "kind"] = np.nan, "never seen"
    found, full = (learner.predict(each).to_pandas() for each in (new, known))
    assert (found[["lower", "upper"]] % 1 == 0).all().all()
    assert (found.lower >= 0).all()
    assert ((found.lower <= found["mean"]) & (found["mean"] <= found.upper)).all()
    np.testing.assert_allclose(found.rate, found["mean"] / found.people)
    assert found["mean"].iloc[[0, 3]].tolist() == full["mean"].iloc[[0, 3]].tolist()
    assert (found["mean"].iloc[[1, 2]] != full["mean"].iloc[[1, 2]]).all()


def test_arrays_with_groups_and_exposures_fit_as_sets_do():
    frame = areas()
    sets, totals = sets_of(frame), totals_of(frame)
    model = sw.AggregateRegressor(outputs="counts").fit(sets, totals)
    x = frame[["age"]].to_numpy()
    other = sw.AggregateRegressor(outputs="counts")
    other.fit(x, totals, groups=frame.county, exposure=frame.people)
    np.testing.assert_allclose(other.predict(x), model.predict(x), rtol=1e-9)
    alone = sw.AggregateRegressor("linear", outputs="counts")
    alone.fit(x, frame.deaths, exposure=frame.people)  # rows are groups of their own
    assert np.corrcoef(alone.predict(x), np.exp(1.5 * frame.age))[0, 1] > 0.95
    for given in ({"sample_weight": frame.people}, {"weights": "mean"}):
        with pytest.raises(SettingError, match="give one"):
            other.fit(x, totals, groups=frame.county, exposure=frame.people, **given)
    with pytest.raises(SettingError, match="go with X, not sets"):
        other.fit(sets, totals, exposure=frame.people)


def test_what_is_joint_of_individuals_is_for_numbers():
    frame = areas()
    model = sw.AggregateRegressor(outputs="counts").fit(sets_of(frame), totals_of(frame))
    with pytest.raises(SettingError, match="sample_y is for numbers, not for counts"):
        model.sample_y(frame[["age"]])
    with pytest.raises(SettingError, match="return_cov is for numbers, not for counts"):
        model.predict(frame[["age"]], return_cov=True)


@pytest.mark.parametrize("outputs", ["counts", "shares", "amounts"])
def test_totals_are_surer_without_the_noise_of_counting(outputs):
    frame = areas().assign(deaths=lambda f: f.deaths + 1)
    sets, totals = sets_of(frame), totals_of(frame)
    known = {name: totals[name] for name in sets.ids[:9]}
    model = sw.AggregateRegressor(outputs=outputs).fit(sets[:9], known, pool=sets)
    mean, noisy = model.predict_sets(sets[9:], return_std=True)
    same, sure = model.predict_sets(sets[9:], return_std=True, include_noise=False)
    np.testing.assert_array_equal(mean, same)
    assert (sure < noisy).all()
    assert (sure > 0).all()
