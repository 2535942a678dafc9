"""Splits, seeds, and runs that equal the plain learner's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import sumwise as sw
from sumwise.experiments import datasets, protocol
from sumwise.experiments.datasets import Dataset
from sumwise.experiments.protocol import RFF
from tests.datasets import data_folder
from tests.marks import each_with_one


def made_up(group=None):
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, size=(300, 3))
    return Dataset("made-up", x, np.sin(3 * x[:, 0]) * x[:, 1], group)


def test_seeds_depend_on_names_alone():
    assert protocol.seed_of("Abalone", "split", 3) == protocol.seed_of("Abalone", "split", 3)
    assert protocol.seed_of("Abalone", "split", 3) != protocol.seed_of("Abalone", "split", 4)


def test_individuals_are_split_four_to_one_into_sets_of_one_to_twenty():
    dataset = made_up()
    split = protocol.make_split(dataset, 0)
    assert (len(split.sets.x), len(split.y_test)) == (240, 60)
    assert split.sets.sizes.min() >= 1
    assert split.sets.sizes.max() <= 20
    rows = np.concatenate([split.sets.x, split.x_test])
    assert_allclose(np.sort(rows, axis=0), np.sort(dataset.x, axis=0))  # each row once
    lookup = {tuple(x): y for x, y in zip(dataset.x, dataset.y, strict=True)}
    for a, total in enumerate(split.y_bar):
        block = split.sets[a].x
        assert_allclose(total, sum(lookup[tuple(x)] for x in block))


def test_groups_are_split_four_to_one():
    group = np.repeat(np.arange(30), 10)
    split = protocol.make_split(made_up(group), 0)
    assert len(split.sets) == 24
    assert len(split.y_test) == 60
    assert_array_equal(split.sets.sizes, 10)


def test_other_splits_are_different():
    first, second = (protocol.make_split(made_up(), n) for n in (0, 1))
    assert not np.array_equal(first.y_test, second.y_test)


@pytest.mark.parametrize(("method", "name"), each_with_one(RFF.columns, ["Housing", "MAT"]))
def test_a_run_gives_the_errors_of_the_plain_learner(name, method):
    dataset = datasets.load(name, data_folder())
    split, config = protocol.make_split(dataset, 2), protocol.paper_model(name, 2)
    experiment = replace(RFF.only([method]), queries=6)
    (curve,) = protocol.run_split(experiment, name, 2, split)
    model = sw.AggregateRegressor(
        "fourier", hyperparameters="adam", standardize=False, random_state=config.random_state
    )
    seed = protocol.seed_of(name, method, 2)
    learner = sw.ActiveLearner(split.sets, model=model, strategy=method, seed=seed)
    for query in range(6):
        ask = learner.ask()
        learner.tell(ask.set_id, split.y_bar[ask.set_id])
        mse = np.mean((learner.model.predict(split.x_test) - split.y_test) ** 2)
        assert_allclose(curve.mse[query], mse, rtol=1e-9)


def test_a_run_alone_equals_a_run_among_others():
    split, short = protocol.make_split(made_up(), 0), replace(RFF, queries=4)
    together = protocol.run_split(short.only(["AggMI", "QBC", "Rand"]), "made-up", 0, split)
    (alone,) = protocol.run_split(short.only(["QBC"]), "made-up", 0, split)
    assert_array_equal(alone.mse, together[1].mse)
    assert (alone.seconds > 0).all()
