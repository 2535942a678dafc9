"""The paper's experiment: one split of one data set, every method on it (§5.1–5.3).

Within a split every method sees the same sets, basis and starting hyperparameters. All randomness
comes from the names involved, so any cell of the table can be run alone, in any process, and gives
the same figures. Where the paper is silent, docs/reproduction.md says what we chose.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sumwise.acquisition.strategies import ACQUISITIONS
from sumwise.data.sets import Sets
from sumwise.experiments.datasets import Dataset
from sumwise.learning import learner
from sumwise.model.basis import with_dropout
from sumwise.model.design import features
from sumwise.model.fit import ModelConfig
from sumwise.model.predict import predict_mean
from sumwise.util.shapes import Float

# Table 3's, in its order
METHODS: Final = tuple(strategy.name for strategy in ACQUISITIONS.values() if strategy.of_paper)
QUERIES: Final = 30
SPLITS: Final = 50
TRAINING_SHARE: Final = 0.8
LARGEST_SET: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Sets with totals to learn from, individuals to be tested on."""

    sets: Sets
    y_bar: Float[np.ndarray, " A"]
    x_test: Float[np.ndarray, "N D"]
    y_test: Float[np.ndarray, " N"]


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One cell: a method on a split of a data set, query by query."""

    dataset: str
    method: str
    split: int
    mse: Float[np.ndarray, " T"]
    seconds: Float[np.ndarray, " T"]  # to choose the set and learn from its total


def seed_of(*names: object) -> int:
    """A seed that depends on the names alone."""
    text = "/".join(map(str, names)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:4], "big")


def make_split(dataset: Dataset, number: int, largest_set: int = LARGEST_SET) -> Split:
    """Four fifths to learn from: of the groups where there are groups, else of the individuals."""
    rng = np.random.default_rng(seed_of(dataset.name, "split", number))
    if dataset.group is None:
        order = rng.permutation(len(dataset.y))
        n_train = round(TRAINING_SHARE * len(order))
        members = _cut(order[:n_train], largest_set, rng)
        test = order[n_train:]
    else:
        groups = rng.permutation(dataset.group.max() + 1)
        n_train = round(TRAINING_SHARE * len(groups))
        rows = np.argsort(dataset.group, kind="stable")
        bounds = np.searchsorted(dataset.group[rows], np.arange(len(groups) + 1))
        members = [rows[bounds[g] : bounds[g + 1]] for g in groups[:n_train]]
        test = np.flatnonzero(np.isin(dataset.group, groups[n_train:]))
    y_bar = np.array([dataset.y[rows].sum() for rows in members])
    sets = Sets.from_members(dataset.x, members)
    return Split(sets, y_bar, dataset.x[test], dataset.y[test])


def _cut(order: np.ndarray, largest_set: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Consecutive runs of 1 to `largest_set`; the last is what is left."""
    ends = np.cumsum(rng.integers(1, largest_set + 1, size=len(order)))
    return np.split(order, ends[ends < len(order)])


def paper_model(dataset: str, number: int) -> ModelConfig:
    """K = 128 Fourier features of length-scale 1, Adam from a random start; no scaling of ours."""
    seed = seed_of(dataset, "basis", number)
    return ModelConfig("fourier", hyperparameters="adam", standardize=False, random_state=seed)


def neural_model(dataset: str, number: int) -> ModelConfig:
    """A network of four layers, 32 hidden units and 128 outputs, trained along with λ and β."""
    return replace(paper_model(dataset, number), basis="neural")


@dataclass(frozen=True, slots=True)
class Experiment:
    """One of the paper's tables of errors."""

    name: str
    title: str
    methods: tuple[str, ...]
    model: Callable[[str, int], ModelConfig]  # of a data set and split
    published: str  # file with its figures


RFF: Final = Experiment(
    "rff", "The paper's table, run again", METHODS, paper_model, "published_mse_rff.csv"
)
NEURAL: Final = Experiment(
    "neural",
    "The paper's table with neural networks, run again",
    ("AggMI", "DAMI", "AggEnt", "DAEnt", *METHODS[2:]),
    neural_model,
    "published_mse_neural.csv",
)


def run_split(
    name: str,
    number: int,
    split: Split,
    config: ModelConfig,
    methods: Sequence[str] = METHODS,
    queries: int = QUERIES,
) -> list[Curve]:
    """The error after each query, for each method; equal to `ActiveLearner`'s, and cheaper.

    What methods share is done once: embedding the sets and, where the basis does not learn,
    evaluating it at the test inputs.
    """
    begun: dict[bool, tuple[learner.Progress, Float[np.ndarray, "N K"]]] = {}
    curves = []
    for method in methods:
        dropout = ACQUISITIONS[method].needs_dropout
        if dropout not in begun:
            basis = with_dropout(config.basis, config.n_basis) if dropout else config.basis
            first = learner.begin(replace(config, basis=basis), split.sets)
            begun[dropout] = first, features(first.prepared.basis, split.x_test)
        progress, phi = begun[dropout]
        seed = seed_of(name, method, number)
        mse, seconds = np.empty(queries), np.empty(queries)
        for query in range(queries):
            start = time.perf_counter()
            ask = learner.ask(progress, method, np.random.default_rng([seed, query]))
            index = split.sets.position(ask.set_id)
            progress = learner.tell(progress, index, float(split.y_bar[index]))
            seconds[query] = time.perf_counter() - start
            mse[query] = np.mean((_predict(progress, split.x_test, phi) - split.y_test) ** 2)
        curves.append(Curve(name, method, number, mse, seconds))
    return curves


def _predict(
    progress: learner.Progress, x: Float[np.ndarray, "N D"], phi: Float[np.ndarray, "N K"]
) -> Float[np.ndarray, " N"]:
    model = progress.model
    if model.basis is not progress.prepared.basis:
        return predict_mean(model, x)[:, 0]
    return model.offset[0] + model.posterior.output_scale[0] * (phi @ model.posterior.mean[:, 0])
