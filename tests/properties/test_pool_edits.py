"""Pools that change between answers, against dense Gaussian conditioning on all individuals.

The oracle keeps its own books: who is in which set now, and for each answer the weights of those
whom it was measured of. Of the study it takes the features of inputs alone.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import sumwise as sw
from sumwise.model.design import features

LAMBDA, BETA = 0.5, 4.0
NAMES = ["p", "q", "r", "s", "t"]


class Books:
    """Individuals by id: inputs, output, weight and set; and what was measured."""

    def __init__(self, weights, rng):
        self.weights, self.rng = weights, rng
        self.x, self.y, self.theta, self.home, self.told = {}, {}, {}, {}, {}
        for name, size in zip(NAMES, (3, 4, 2, 5, 3), strict=True):
            for _ in range(size):
                self.join(name)

    def join(self, name):
        own = 1000 + len(self.x)
        self.x[own], self.home[own] = self.rng.normal(size=2), name
        self.y[own] = self.rng.normal()
        sign = self.rng.choice([-1.0, 1.0]) if self.weights == "own" else 1.0
        self.theta[own] = sign * self.rng.uniform(0.5, 2) if self.weights == "own" else 1.0
        return own

    def members(self, name):
        return [i for i, home in self.home.items() if home == name]

    def row(self, some):
        if self.weights == "mean":
            return dict.fromkeys(some, 1 / len(some))
        return {i: self.theta[i] for i in some}

    def frame(self, some):
        columns = {"set": [self.home[i] for i in some], "id": some}
        columns |= {f"x{d}": [self.x[i][d] for i in some] for d in range(2)}
        return pd.DataFrame(columns | {"theta": [self.theta[i] for i in some]})

    def given_answers(self, phi, people):
        """Mean and covariance of all outputs given what was measured."""
        prior = phi @ phi.T / LAMBDA + np.eye(len(phi)) / BETA
        rows = np.array([[row.get(i, 0.0) for i in people] for row, _, _ in self.told.values()])
        y, noise = (np.array([each[k] for each in self.told.values()]) for k in (1, 2))
        inside = rows @ prior @ rows.T + np.diag(noise**2)
        pull = prior @ rows.T @ np.linalg.pinv(inside, rcond=1e-11, hermitian=True)
        return pull @ y, prior - pull @ rows @ prior


def change(study, books, rng):
    """Some join, one leaves, one moves and one is corrected, all at once."""
    everyone = list(books.home)
    leaves, moves, fixed = rng.permutation(everyone)[:3].tolist()
    to = rng.choice([*NAMES, f"new {len(books.x)}"])
    del books.home[leaves]
    books.home[moves] = to
    books.x[fixed] = rng.normal(size=2)
    correct = pd.concat([books.frame([moves]), books.frame([fixed])])
    new = [books.join(rng.choice(NAMES)) for _ in range(2)]
    weights = {"weights": "theta"} if books.weights == "own" else {}
    drop = pd.DataFrame({"id": [leaves]})
    study.change_pool(add=books.frame(new), drop=drop, correct=correct, **weights)


def tell(study, books, rng):
    """Measure a set, or a part of it, if there is one that has no answer."""
    answered = {answer.set_id for answer in study.answers}
    free = [name for name in study.ids if name not in answered]
    if not free:
        return
    name = rng.choice(free)
    some = books.members(name)
    of = some[: rng.integers(1, len(some) + 1)] if rng.uniform() < 0.5 else None
    noise = float(rng.choice([0.0, 0.3]))
    row = books.row(some if of is None else of)
    y = float(sum(row[i] * books.y[i] for i in row) + noise * rng.normal())
    study.tell(name, y, of=of, noise_std=noise)
    books.told[study.answers[-1].number] = row, y, noise


@pytest.mark.parametrize("weights", ["sum", "mean", "own"])
@pytest.mark.parametrize("seed", range(5))
def test_answers_mean_whom_they_were_measured_of_whatever_becomes_of_the_pool(
    tmp_path, seed, weights
):
    rng = np.random.default_rng(seed)
    books = Books(weights, rng)
    column = "theta" if weights == "own" else weights
    frame = books.frame(list(books.x))
    sets = sw.Sets.from_frame(frame, by="set", x=["x0", "x1"], id="id", weights=column)
    given = {"hyperparameters": (LAMBDA, BETA), "standardize": False}
    model = sw.AggregateRegressor("linear", **given)
    with sw.create_study(tmp_path / "a.db", sets, model=model, strategy="AggMI") as study:
        for _ in range(3):
            tell(study, books, rng)
            tell(study, books, rng)
            change(study, books, rng)
        forgotten = study.answers[1]
        study.retract(forgotten.set_id)
        del books.told[forgotten.number]
        found, totals, people = study.predict(), study.predict_sets(), list(books.x)
        assert {*study.ids} == {*books.home.values()}
        phi = features(study.state.fitted().model.basis, np.array([books.x[i] for i in people]))
        mean, covariance = books.given_answers(phi, people)
        at = [people.index(int(i)) for i in study.sets.row_ids]
        assert sorted(people[n] for n in at) == sorted(books.home)
        np.testing.assert_allclose(found.mean, mean[at], rtol=1e-6, atol=1e-7)
        for name, total, std in zip(study.ids, totals.mean, totals.std, strict=True):
            own = books.row(books.members(name))
            theta = np.array([own.get(i, 0.0) for i in people])
            assert total == pytest.approx(theta @ mean, rel=1e-6, abs=1e-7), name
            assert std**2 == pytest.approx(theta @ covariance @ theta, rel=1e-5, abs=1e-6), name
