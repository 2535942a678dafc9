"""Sample the posteriors of the fixed problems: `python -m tests.model.generalised.sample`.

This takes half an hour and writes `posteriors.json`, with what questions are worth (`worth.py`).

Two samplers that need no gradient: stretch moves of an ensemble (Goodman and Weare 2010) from the
prior's neighbourhood to the posterior, and then a Metropolis sampler whose proposals are draws from
a heavy-tailed distribution with the ensemble's mean and covariance. The second is kept; the first,
which shares no proposal with it, must agree.
"""

from __future__ import annotations

import json
import sys

import numpy as np

from tests.model.generalised.truth import FAMILIES, KEPT, Problem, heavy, log_posterior, problem
from tests.model.generalised.worth import worth

WALKERS, MOVES, WARM = 80, 4000, 500
PROPOSALS = 60_000
AT_ONCE = 1000


def ensemble(known: Problem, rng: np.random.Generator) -> np.ndarray:
    """States of all walkers after warming up: (moves, walkers, K)."""
    k = len(known.variances)
    w = 0.3 * rng.normal(size=(WALKERS, k)) * np.sqrt(known.variances)
    value, half, states = log_posterior(known, w), WALKERS // 2, []
    for move in range(MOVES):
        for low in (0, half):
            mine, others = np.arange(low, low + half), np.arange(half) + (half - low)
            stretch = (rng.uniform(size=half) + 1) ** 2 / 2  # between ½ and 2
            partner = w[rng.choice(others, half)]
            proposal = partner + stretch[:, None] * (w[mine] - partner)
            there = log_posterior(known, proposal)
            log_chance = (k - 1) * np.log(stretch) + there - value[mine]
            taken = mine[np.log(rng.uniform(size=half)) < log_chance]
            w[taken], value[taken] = proposal[taken - low], there[taken - low]
        if move >= WARM:
            states.append(w.copy())
    return np.array(states)


def independent(
    known: Problem, rng: np.random.Generator, mean: np.ndarray, covariance: np.ndarray
) -> tuple[np.ndarray, float]:
    """A Metropolis chain with independent proposals, and how many were accepted."""
    w, log_q = heavy(rng, mean, 1.2 * covariance, PROPOSALS)
    parts = [log_posterior(known, w[low : low + AT_ONCE]) for low in range(0, len(w), AT_ONCE)]
    ratio, at = np.concatenate(parts) - log_q, 0
    limit, chain = np.log(rng.uniform(size=len(w))), np.empty(len(w), dtype=int)
    for step in range(len(w)):
        at = step if limit[step] < ratio[step] - ratio[at] else at
        chain[step] = at
    return w[chain], float((np.diff(chain) != 0).mean())


def sampled(known: Problem) -> dict[str, object]:
    """What is kept of a problem."""
    rng = np.random.default_rng(29)
    states = ensemble(known, rng)
    flat = states.reshape(-1, states.shape[-1])
    chain, accepted = independent(known, rng, flat.mean(axis=0), np.cov(flat.T))
    mean, sd = chain.mean(axis=0), chain.std(axis=0)
    batches = chain.reshape(40, -1, chain.shape[1]).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(len(batches)) / sd
    return {
        "mean": mean.round(5).tolist(),
        "covariance": np.cov(chain.T).round(8).tolist(),
        "error of the mean, in sd": round(float(error.max()), 4),
        "ensemble's mean off by sd": round(float((np.abs(flat.mean(axis=0) - mean) / sd).max()), 4),
        "ensemble's sd off by": round(float(np.abs(flat.std(axis=0) / sd - 1).max()), 4),
        "accepted": round(accepted, 3),
        "checksum": known.checksum,
    }


def main(families: tuple[str, ...]) -> None:
    for family in families:
        for number in range(6):
            found = json.loads(KEPT.read_text(encoding="utf-8")) if KEPT.exists() else {}
            known = problem(family, number)
            one = sampled(known)
            found[f"{family} {number}"] = {**one, **worth(known, number, one)}
            rows = (f"{json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
            KEPT.write_text("{\n" + ",\n".join(rows) + "\n}\n", encoding="utf-8")
            print(family, number, list(found[f"{family} {number}"].values())[2:6], flush=True)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or FAMILIES)
