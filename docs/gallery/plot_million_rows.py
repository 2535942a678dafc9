"""
A million homes on a laptop
===========================

A city has a million homes on 40,000 streets, and plans where district heating goes. It can have a street's heat demand
metered for a winter, at some cost, and knows of every home its floor area, its year of building, its altitude
and how many people live there. Tables of this size lie in Parquet files and need not be read into memory.

**A total is** the heat that the homes of a street use in a year, in MWh. All data are simulated, by the law below.
The script writes the files, and everything else is what one would do with one's own.
"""

# %%
# The city: forty thousand streets of one age and altitude each, and a million homes in four files. ``demand`` is what
# only the simulation knows.

import resource
import tempfile
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import sumwise as sw

homes, streets = 1_000_000, 40_000
rng = np.random.default_rng(0)
street = np.sort(np.concatenate([np.arange(streets), rng.integers(0, streets, homes - streets)]))
table = {
    "area": np.exp(rng.normal(np.log(90), 0.35, homes)),
    "built": rng.uniform(1900, 2020, streets)[street] + rng.normal(0, 12, homes),
    "altitude": rng.uniform(0, 600, streets)[street],
    "people": 1 + rng.poisson(1.3, homes),
}


def demand_of(home):
    """MWh a year: floor by the standard of its time, colder higher up, and hot water."""
    standard = 60 + 110 / (1 + np.exp((home["built"] - 1978) / 8))
    return home["area"] * standard * (1 + 0.0004 * home["altitude"]) / 1000 + 1.2 * home["people"]


demand = demand_of(table) * np.exp(rng.normal(0, 0.2, homes))
metered = np.bincount(street, demand)  # what a street's meter would show
folder = Path(tempfile.mkdtemp())
(folder / "homes").mkdir()
for number, rows in enumerate(np.array_split(np.arange(homes), 4)):
    part = pa.table({"street": street[rows]} | {name: x[rows] for name, x in table.items()})
    pq.write_table(part, folder / "homes" / f"part-{number}.parquet")

# %%
# ``scan_parquet`` reads nothing yet. ``embed`` streams the files once and keeps one row of features for each
# street; learners and studies ask from these rows. ``basis="fourier"`` is a smaller model than the default:
# its features take a third of the disk, and a million predictions take seconds in place of minutes.

pool = sw.Sets.scan_parquet(
    str(folder / "homes"), by="street", x=["area", "built", "altitude", "people"]
)
design = sw.AggregateRegressor("fourier").embed(pool, str(folder / "design"), dtype="float32")
print(design)
size = sum(file.stat().st_size for file in (folder / "design").rglob("*") if file.is_file())
print(f"{size / 1e6:.0f} MB on disk")

# %%
# Twelve streets, asked four at a time, as a joint batch. Errors are those of 20,000 homes drawn at random.

picked = rng.choice(homes, 20_000, replace=False)
sample = pd.DataFrame({name: x[picked] for name, x in table.items()})


def run(strategy, seed, rounds=3):
    """A learner after all rounds, and the error of homes after each, in MWh a year."""
    learner, errors = sw.ActiveLearner(design, strategy=strategy, seed=seed), []
    for _ in range(rounds):
        for ask in learner.ask(n=4):
            learner.tell(ask.set_id, float(metered[ask.set_id]))
        found = learner.model.predict(sample)
        errors.append(float(np.sqrt(np.mean((found - demand[picked]) ** 2))))
    return learner, errors


learner, chosen = run("IVR", seed=0)
at_random = np.array([run("Rand", seed)[1] for seed in range(4)])
guess = float(demand.std())
habits = float((demand - demand_of(table) * np.exp(0.2**2 / 2)).std())
print(f"chosen {np.round(chosen, 1)}, random {at_random.mean(axis=0).round(1)}")
print(f"guessing the mean {guess:.1f}; knowing the law {habits:.1f}")

# %%
# Predictions of all homes are streamed to files as well, in the order of the input.

learner.model.predict_parquet(pool, str(folder / "predicted"))
predicted = pq.ParquetDataset(folder / "predicted").read(columns=["mean"])["mean"].to_numpy()
error_of_all = float(np.sqrt(np.mean((predicted - demand) ** 2)))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
print(f"{len(predicted):,} homes predicted, off by {error_of_all:.1f}; {peak:.1f} GB at the most")
