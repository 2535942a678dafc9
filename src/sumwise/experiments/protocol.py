"""The paper's experiment: one split of one data set, every method on it (§5.1–5.3).

Within a split every method sees the same sets, basis and starting hyperparameters. All randomness
comes from the names involved, so any cell of the table can be run alone, in any process, and gives
the same figures. Where the paper is silent, docs/reproduction.md says what we chose.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sumwise import loop
from sumwise.acquisition import ACQUISITIONS
from sumwise.design import features
from sumwise.experiments.datasets import Dataset
from sumwise.model import Model, ModelConfig
from sumwise.sets import Sets
from sumwise.shapes import Float

METHODS: Final = tuple(ACQUISITIONS)  # the paper's ten, in its order
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
    return ModelConfig(hyperparameters="adam", standardize=False, random_state=seed)


def run_split(
    name: str,
    number: int,
    split: Split,
    config: ModelConfig,
    methods: Sequence[str] = METHODS,
    queries: int = QUERIES,
) -> list[Curve]:
    """The error after each query, for each method; equal to `ActiveLearner`'s, and cheaper.

    The sets are embedded and the basis evaluated at the test inputs once for all methods.
    """
    begun = loop.begin(config, split.sets)
    phi = features(begun.prepared.basis, split.x_test)
    curves = []
    for method in methods:
        seed = seed_of(name, method, number)
        progress, mse, seconds = begun, np.empty(queries), np.empty(queries)
        for query in range(queries):
            start = time.perf_counter()
            ask = loop.ask(progress, method, np.random.default_rng([seed, query]))
            index = split.sets.position(ask.set_id)
            progress = loop.tell(progress, index, float(split.y_bar[index]))
            seconds[query] = time.perf_counter() - start
            mse[query] = np.mean((_predict(progress.model, phi) - split.y_test) ** 2)
        curves.append(Curve(name, method, number, mse, seconds))
    return curves


def _predict(model: Model, phi: Float[np.ndarray, "N K"]) -> Float[np.ndarray, " N"]:
    posterior = model.posterior
    return model.offset[0] + posterior.output_scale[0] * (phi @ posterior.mean[:, 0])
