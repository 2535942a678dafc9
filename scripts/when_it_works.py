"""The figures of docs/when-it-works.md: small worlds in which one assumption is broken at a time.

    python scripts/when_it_works.py [WORLDS]

prints a row for each case, averaged over WORLDS worlds (20 if left out; a minute). In each world 30
sets are measured, drawn at random, and the individuals of all other sets are predicted.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np

import sumwise as sw

MEASURED: Final = 30
Figures = dict[str, float]


def world(
    rng: np.random.Generator, sizes: np.ndarray, alike: float = 0.5
) -> tuple[list[np.ndarray], np.ndarray]:
    """Two inputs of each individual, set by set, and the set of each.

    Args:
        alike: Share of the inputs' variance that lies between sets.
    """
    own = np.repeat(np.arange(len(sizes)), sizes)
    centres = rng.normal(size=(len(sizes), 2)) * np.sqrt(alike)
    x = centres[own] + rng.normal(size=(len(own), 2)) * np.sqrt(1 - alike)
    return np.split(x, np.cumsum(sizes)[:-1]), own


def signal(x: np.ndarray) -> np.ndarray:
    """What inputs explain: a line and a wave, with a variance of about 1."""
    return 0.8 * x[:, 0] + 0.8 * np.sin(2 * x[:, 1])


def judged(mean: np.ndarray, std: np.ndarray, y: np.ndarray, guess: float) -> Figures:
    """Error of individuals against that of one guess for all, the share of them in 90 % intervals,
    and how much too high predictions are on average."""
    error, naive = np.sqrt(np.mean((mean - y) ** 2)), np.sqrt(np.mean((guess - y) ** 2))
    held = np.mean(abs(mean - y) < 1.645 * std)
    return {"error": error / naive, "held": held, "too high by": np.mean(mean - y)}


def learned(
    blocks: list[np.ndarray],
    own: np.ndarray,
    y: np.ndarray,
    told: np.ndarray | None = None,
    measured: int = MEASURED,
) -> Figures:
    """Measure the first sets, predict the individuals of all others.

    Args:
        told: What is told of each set in place of its sum.
    """
    sets = sw.Sets.from_arrays(blocks)
    sums = np.bincount(own, y) if told is None else told
    model = sw.AggregateRegressor().fit(sets[:measured], sums[:measured], pool=sets)
    new = own >= measured
    mean, std = model.predict(sets.x[new], return_std=True)
    return judged(mean, std, y[new], float(np.mean(y[~new])))


def as_assumed(rng: np.random.Generator, measured: int = MEASURED) -> Figures:
    blocks, own = world(rng, rng.integers(2, 20, 80))
    y = signal(np.vstack(blocks)) + rng.normal(size=len(own)) * 0.5
    return learned(blocks, own, y, measured=measured)


def means_told_as_sums(rng: np.random.Generator) -> Figures:
    blocks, own = world(rng, rng.integers(2, 20, 80))
    y = 5 + signal(np.vstack(blocks)) + rng.normal(size=len(own)) * 0.5
    return learned(blocks, own, y, np.bincount(own, y) / np.bincount(own))


def nothing_explained(rng: np.random.Generator) -> Figures:
    blocks, own = world(rng, rng.integers(2, 20, 80))
    return learned(blocks, own, rng.normal(size=len(own)))


def effects_of_sets(rng: np.random.Generator) -> Figures:
    blocks, own = world(rng, rng.integers(2, 20, 80))
    effect = rng.normal(size=80)[own]
    return learned(
        blocks, own, signal(np.vstack(blocks)) + effect + rng.normal(size=len(own)) * 0.5
    )


def members_of(size: int, alike: float) -> Callable[[np.random.Generator], Figures]:
    def case(rng: np.random.Generator) -> Figures:
        blocks, own = world(rng, np.full(80, size), alike)
        return learned(blocks, own, signal(np.vstack(blocks)) + rng.normal(size=len(own)) * 0.5)

    return case


def ecological(rng: np.random.Generator, remedy: bool) -> Figures:
    """Rich places have more of it, rich people within a place have less.

    Args:
        remedy: Give the set's mean as an input, and 40 individuals of measured sets.
    """
    blocks, own = world(rng, rng.integers(5, 20, 80))
    x = np.vstack(blocks)[:, 0]
    place = (np.bincount(own, x) / np.bincount(own))[own]
    y = 3 * place - x + rng.normal(size=len(own)) * 0.3
    inputs = np.column_stack([x, place]) if remedy else x[:, None]
    sums = np.bincount(own, y)
    new = own >= MEASURED
    some = rng.choice(np.flatnonzero(~new), 40, replace=False)
    members = [np.flatnonzero(own == a) for a in range(80)] + [np.array([n]) for n in some]
    sets = sw.Sets.from_members(inputs, members)
    known = {a: sums[a] for a in range(MEASURED)}
    if remedy:
        known |= {80 + k: y[n] for k, n in enumerate(some)}
    model = sw.AggregateRegressor().fit(sets[list(known)], list(known.values()), pool=sets)
    mean, std = model.predict(inputs[new], return_std=True)
    within = [
        np.corrcoef(mean[own[new] == a], y[new][own[new] == a])[0, 1] for a in range(MEASURED, 80)
    ]
    found = judged(mean, std, y[new], float(np.mean(y[~new])))
    return {**found, "correlation within sets": float(np.mean(within))}


def beyond_the_measured(rng: np.random.Generator) -> Figures:
    """Measured sets lie below 0.5 in the first input, the others above 1.5."""
    sizes = rng.integers(2, 20, 80)
    blocks, own = world(rng, sizes)
    x = np.vstack(blocks)
    x[:, 0] = np.where(own < MEASURED, -1.5 + 2 * rng.random(len(own)), 1.5 + rng.random(len(own)))
    y = np.exp(0.8 * x[:, 0]) + rng.normal(size=len(own)) * 0.5
    return learned(np.split(x, np.cumsum(sizes)[:-1]), own, y)


def rare_counts(rng: np.random.Generator, outputs: str) -> Figures:
    """Events that most individuals have none of."""
    blocks, own = world(rng, rng.integers(2, 20, 80))
    sets = sw.Sets.from_arrays(blocks)
    y = rng.poisson(np.exp(-1 + 1.2 * sets.x[:, 0])).astype(float)
    model = sw.AggregateRegressor(outputs=outputs)
    model = model.fit(sets[:MEASURED], np.bincount(own, y)[:MEASURED], pool=sets)
    new = own >= MEASURED
    exposure = {"exposure": np.ones(np.sum(new))} if outputs == "counts" else {}
    found = model.intervals(sets.x[new], **exposure)
    error = np.sqrt(np.mean((found.mean - y[new]) ** 2))
    naive = np.sqrt(np.mean((np.mean(y[~new]) - y[new]) ** 2))
    held = np.mean((found.lower <= y[new]) & (y[new] <= found.upper))
    return {"error": error / naive, "held": held, "below 0": np.mean(found.mean < 0)}


def who_answers(rng: np.random.Generator, chosen: bool) -> Figures:
    """Half of each set answers, and its sum is scaled up.

    Args:
        chosen: The half with the higher outputs answers, not a random one.
    """
    blocks, own = world(rng, rng.integers(4, 20, 80))
    y = signal(np.vstack(blocks)) + rng.normal(size=len(own)) * 0.5
    told = np.zeros(80)
    for a in range(80):
        mine = np.sort(y[own == a]) if chosen else rng.permutation(y[own == a])
        told[a] = mine[len(mine) // 2 :].mean() * len(mine)
    return learned(blocks, own, y, told)


CASES: Final[Mapping[str, Callable[[np.random.Generator], Figures]]] = {
    "all is as assumed": as_assumed,
    "the same, 10 sets measured": lambda rng: as_assumed(rng, 10),
    "the same, 5 sets measured": lambda rng: as_assumed(rng, 5),
    "means are told as sums": means_told_as_sums,
    "inputs explain nothing": nothing_explained,
    "sets have effects of their own": effects_of_sets,
    "1 individual in each set": members_of(1, 0.5),
    "10, half alike": members_of(10, 0.5),
    "100, half alike": members_of(100, 0.5),
    "10, drawn at random": members_of(10, 0.0),
    "100, drawn at random": members_of(100, 0.0),
    "relation between sets is another than within": lambda rng: ecological(rng, False),
    "the same, with 40 known individuals": lambda rng: ecological(rng, True),
    "predictions beyond what was measured": beyond_the_measured,
    "rare counts as numbers": lambda rng: rare_counts(rng, "numbers"),
    "rare counts as counts": lambda rng: rare_counts(rng, "counts"),
    "a random half of each set answers": lambda rng: who_answers(rng, False),
    "the upper half of each set answers": lambda rng: who_answers(rng, True),
}


def figures(case: str, worlds: int) -> Figures:
    """Means over worlds; worlds are numbered, so that the same come out each time."""
    found = [CASES[case](np.random.default_rng(seed)) for seed in range(worlds)]
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


if __name__ == "__main__":
    for case in CASES:
        said = figures(case, int((sys.argv[1:] or ["20"])[0]))
        words = ", ".join(f"{name} {value:.2f}" for name, value in said.items())
        print(f"{case}: {words}", flush=True)
