"""A design on disk as parts that are worked on anywhere its folder can be read.

A worker opens the folder at its first part and keeps it open; the rows stay in the file, mapped to
memory, until they are used.
"""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np

from sumwise.data.sets import LazySets, Sets
from sumwise.errors import DataError, SettingError
from sumwise.model.design import Pool, Spread
from sumwise.outofcore.build import Run
from sumwise.outofcore.design_store import MANIFEST, Embedded, read_manifest
from sumwise.outofcore.kept_sets import KeptSets
from sumwise.util.files import sha256_of

PART_SETS: Final = 2**18  # sets of a part, about


def over(made: Any, run: Run | None) -> Any:
    """A design whose parts are run over by `run`; the same where there is none."""
    if run is None:
        return made
    if not isinstance(made, Embedded):
        raise SettingError(
            "run= is for a design on disk, whose folder all workers see, and these sets are in "
            "memory. Leave it out (in the shell: --dask), or embed the sets' Parquet files: "
            "AggregateRegressor().embed(Sets.scan_parquet(…), folder)"
        )
    if isinstance(made.sets, KeptSets):
        raise SettingError(
            f"the design of {made.config.outputs} changes after every answer, so it is not worked "
            "on in parts. Leave run= out (in the shell: --dask)."
        )
    if made.own_pool.targets is None:
        raise SettingError(
            f"{made.folder} was made by a former version and has no sample of individuals, which "
            "parts need. Embed the files again into another folder, or leave run= out (in the "
            "shell: --dask)."
        )
    n_parts = max(1, round(len(made) / PART_SETS))
    starts = np.linspace(0, len(made), n_parts + 1).astype(np.int64)
    source = partial(part_of, os.path.abspath(made.folder), made.digest)
    return replace(made, own_pool=replace(made.own_pool, spread=Spread(starts, source, run)))


def part_of(folder: str, digest: str, first: int, end: int) -> Pool:
    """The sets of a design between two positions, on whatever machine this is called."""
    try:
        read_manifest(folder)  # refuses a folder that is not there, also if it was open before
        if sha256_of(os.path.join(folder, MANIFEST)) != digest:
            raise DataError(f"{os.path.join(folder, MANIFEST)} is that of another design")
        return _part(folder, digest, first, end)
    except DataError as error:
        raise DataError(
            f"a worker cannot use the design: {error}. Let all workers see this folder at this "
            "path, as it was when it was opened, or do without them."
        ) from error


@lru_cache(maxsize=16)
def _part(folder: str, digest: str, first: int, end: int) -> Pool:
    held = opened(folder, digest)
    design = held.design.rows(slice(first, end))
    ids = partial(_ids_between, held.sets, first, end)
    sizes = np.diff(held.sets.starts[first : end + 1])
    known = ids, sizes, held.sets.n_inputs, held.sets.input_names
    sets = LazySets(*known, _no_individuals, recipe=held.sets.recipe)
    square = None if held.square is None else held.square[first:end]
    return replace(held, sets=sets, design=design, square=square)


@lru_cache(maxsize=2)
def opened(folder: str, digest: str) -> Pool:
    """The design in a folder, which stays open in this process."""
    del digest  # another one is opened anew
    return Embedded.open(folder, check=False).own_pool


def _ids_between(sets: Sets, first: int, end: int) -> tuple[Hashable, ...]:
    return sets.ids[first:end]


def _no_individuals() -> Any:
    raise SettingError("individuals stay in their files where a design is worked on in parts")
