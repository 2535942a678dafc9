"""
Hello: one total after another
==============================

A few sets of numbers, and what a model knows of them.
"""

# %%
# Sets are groups of individuals with inputs.

import altair as alt
import numpy as np
import pandas as pd

import sumwise as sw

rng = np.random.default_rng(0)
x = [rng.uniform(-3, 3, size=(4, 1)) for _ in range(30)]
sets = sw.Sets.from_arrays(x)
learner = sw.ActiveLearner(sets, seed=0)
for _ in range(8):
    ask = learner.ask()
    learner.tell(ask.set_id, float(np.sin(x[ask.set_id]).sum()))
learner

# %%
# After eight totals it predicts every individual.

grid = np.linspace(-3, 3, 60)[:, None]
mean, std = learner.model.predict(grid, return_std=True)
table = pd.DataFrame({"x": grid[:, 0], "y": mean, "lower": mean - std, "upper": mean + std})
base = alt.Chart(table, title="Prediction of individuals").encode(x="x")
base.mark_area(opacity=0.3).encode(y="lower", y2="upper") + base.mark_line().encode(y="y")
