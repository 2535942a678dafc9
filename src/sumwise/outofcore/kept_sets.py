"""Individuals on disk, for outputs whose design changes after every answer.

The design of counts, shares and amounts depends on the predictor of every individual
(`model.generalised.tangent`), so it cannot be stored. What is stored is what it is made of: a row
for each individual with its inputs and its exposure, set by set, in double precision. The file is
mapped to memory. A fit reads the rows of measured sets; after it, threads go through all rows once,
some sets at a time, and what is kept is one row of the design for each set.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, cast

import numpy as np

from sumwise.data.origin import Origin
from sumwise.data.sets import Sets
from sumwise.errors import DataError
from sumwise.model.design import Design, Pool, worth_compiling
from sumwise.model.fit import Model, Prepared, check_inputs
from sumwise.model.generalised.tangent import Sums, Tangent, add_members, design_of
from sumwise.outofcore.scanned_sets import ScannedSets
from sumwise.util.shapes import Float, Int
from sumwise.util.threads import one_thread

SPAN: Final = 2**16  # individuals that a thread goes through at a time, or one set if it is larger
IN_MEMORY: Final = 2**28  # bytes of a design; a larger one is in a file without a name


class KeptSets(ScannedSets):
    """Sets whose individuals are rows of a file that is mapped to memory."""

    @classmethod
    def on(cls, sets: ScannedSets, rows: Float[np.ndarray, "N D1"], folder: str) -> KeptSets:
        """The same sets with these rows: inputs, and the exposure in the last column.

        Args:
            folder: Where there is room for what does not fit into memory.
        """
        known, scan = sets.__dict__, sets.scan
        origin = Origin(scan.by, weights=scan.theta_column)
        about = sets.sizes, sets.n_inputs, sets.input_names, known["_load"], False, sets.recipe
        made = cls(known["_ids"], *about, origin)
        made.__dict__.update(kept=rows, folder=folder, scan=scan, grouped=known["grouped"], gone=())
        return made

    @property
    def x(self) -> Float[np.ndarray, "N D"]:
        return self.__dict__["kept"][:, :-1]

    @property
    def theta(self) -> Float[np.ndarray, " N"]:
        return self.__dict__["kept"][:, -1]

    rows_at, take, weight_sums = Sets.rows_at, Sets.take, Sets.weight_sums  # of mapped rows

    def unseen(self, prepared: Prepared) -> Pool:
        """The sets before a model is fitted: there is no design of them yet."""
        exposure = np.ones(len(self))
        return Pool(self, prepared.basis, Design(np.empty((len(self), 0)), exposure, exposure))

    def pool(self, model: Any) -> Pool:
        """The sets as strategies see them under a model, fitted or only prepared."""
        if not isinstance(model, Model) or model.generalised is None:
            return cast("Pool", model.pool(self))
        check_inputs(model, self.n_inputs, self.input_names)
        design = self._linearised(model.basis.tangent, model.posterior.noise_precision)
        return Pool(self, model.basis, design)

    def _linearised(self, tangent: Tangent, noise_precision: float) -> Design:
        """The design of all sets around E[w], by threads."""
        starts, n_sets = self.starts, len(self)
        u = room((n_sets, len(tangent.model.mean)), self.__dict__["folder"])
        rest = np.zeros((4, n_sets))
        compiled = worth_compiling(int(starts[-1]), tangent.scaled, again=True)

        def add(span: tuple[int, int]) -> None:
            first, last = span
            low, high = starts[[first, last]].tolist()
            sums = Sums(starts[first : last + 1] - low, u[first:last], rest[:, first:last])
            add_members(sums, tangent, self.x[low:high], self.theta[low:high], compiled)

        with one_thread(), ThreadPoolExecutor(os.cpu_count()) as threads:
            for _ in threads.map(add, spans(starts)):
                pass
        return design_of(tangent.model, Sums(starts, u, rest), noise_precision)


def spans(starts: Int[np.ndarray, " A1"]) -> Iterator[tuple[int, int]]:
    """Runs of sets that have about `SPAN` individuals."""
    first, n_sets = 0, len(starts) - 1
    while first < n_sets:
        end = int(np.searchsorted(starts, starts[first] + SPAN, side="right")) - 1
        yield first, (last := max(first + 1, end))
        first = last


def room(shape: tuple[int, int], folder: str) -> Float[np.ndarray, "A K"]:
    """Zeros; where there are many, in a file that is gone when they are."""
    n_bytes = 8 * math.prod(shape)
    if n_bytes <= IN_MEMORY:
        return np.zeros(shape)
    try:
        with tempfile.TemporaryFile(dir=folder if os.access(folder, os.W_OK) else None) as file:
            if hasattr(os, "posix_fallocate"):  # otherwise a full disk would end the process
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            return np.memmap(file, np.float64, "w+", shape=shape).view(np.ndarray)
    except OSError as error:
        raise DataError(
            f"there is no room in {folder} for the {n_bytes / 1e9:.1f} GB that {shape[0]} sets "
            f"take after a fit ({error.strerror or error}); make room"
        ) from error
