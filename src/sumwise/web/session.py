"""A study as the page sees it: sets by position and text, and what totals are expected to be."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cached_property
from statistics import NormalDist
from typing import Any, Final

import numpy as np

from sumwise.errors import UnknownSetError
from sumwise.learning.propose import FEWEST
from sumwise.model import predict
from sumwise.model.leave_one_out import leave_one_out
from sumwise.study.storage.records import Snapshot
from sumwise.study.study import Study
from sumwise.util.text import by_text, find, shown

PATIENCE: Final = 10.0  # seconds to wait for others who write, while a page is waiting
LAG: Final = 10  # a model that checks new totals may miss one in so many answers
LEVEL: Final = 0.9  # of the intervals that are shown
REACH: Final = NormalDist().inv_cdf(0.5 + 0.5 * LEVEL)

Expectation = tuple[float, float]  # mean and standard deviation


class Session:
    """One study, for many threads."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.state = study.state
        self.record = study.state.record
        self.sets = study.state.record.sets  # individuals of a large study are read when first used

    # --- sets ---------------------------------------------------------------------------------

    @cached_property
    def texts(self) -> Sequence[str]:
        """Ids as they are shown."""
        return tuple(map(shown, self.sets.ids))

    @cached_property
    def _by_text(self) -> Mapping[str, Hashable | None]:
        return by_text(self.sets.ids)

    def position(self, position: int | None, text: str | None = None) -> int:
        """The position of a set that a client has named in one of two ways."""
        if position is None:
            assert text is not None
            return self.sets.position(find(self._by_text, text))
        if not 0 <= position < len(self.sets):
            last = len(self.sets) - 1
            raise UnknownSetError(f"there is no set {position}; positions are 0 to {last}")
        return position

    def id_at(self, position: int) -> Hashable:
        """The id of the set that a client has named by its position."""
        return self.sets.ids[self.position(position)]

    def name(self, position: int) -> dict[str, Any]:
        return {"position": position, "id": self.texts[position]}

    def size(self, position: int) -> int:
        """How many individuals a set has."""
        low, high = self.sets.starts[position : position + 2].tolist()
        return int(high - low)

    def cost(self, position: int) -> float | None:
        """The cost of measuring a set; None where measuring has no cost."""
        cost = self.record.aims.cost
        return None if cost is None else finite(cost[position])

    def spent(self, seen: Snapshot) -> float | None:
        """The cost of all answers."""
        cost = self.record.aims.cost
        if cost is None:
            return None
        return finite(cost[[answer.position for answer in seen.answers]].sum())

    @property
    def input_names(self) -> list[str]:
        names = self.sets.input_names
        return [f"x{d}" for d in range(self.sets.n_inputs)] if names is None else [*map(str, names)]

    # --- what totals are expected to be ---------------------------------------------------------

    def expected(self, position: int) -> Expectation | None:
        """The total that a model expects which may miss the latest answers.

        None if too little is known, or if models take long to learn and none is there yet.
        """
        fit = self.state.recent_fit(LAG)
        if fit is None or len(fit.seen.answers) < FEWEST:
            return None
        rows = fit.pool.design.rows([position])
        mean, std = predict.predict_sets(fit.model, rows, include_noise=True)
        return float(mean[0, 0]), float(std[0, 0])

    def expected_without(self, position: int) -> Expectation | None:
        """The total of an answered set that all other answers let one expect.

        λ, β and the basis are those of a model that may know the answer. None also for a dropout
        network, from which an answer cannot be left out.
        """
        fit, answers = self.state.recent_fit(LAG), self.state.snapshot().answers
        at = [answer.position for answer in answers]
        if fit is None or fit.model.spectrum is None or position not in at:
            return None
        if len(answers) <= FEWEST:
            return None
        y_bar = np.array([[answer.y_bar] for answer in answers])
        noise = np.array([answer.noise_std or 0.0 for answer in answers])
        planned, place = self.record.aims.noise_std, at.index(position)
        noise[place] = 0.0 if planned is None else planned[position]  # a new answer brings its own
        mean, std = leave_one_out(fit.model, fit.design.rows(at), y_bar, noise)
        return float(mean[place, 0]), float(std[place, 0])


def finite(value: Any) -> float | None:
    """A number as JSON can hold it: None for one that is missing or not finite."""
    return float(value) if value is not None and np.isfinite(value) else None


def interval(mean: Any, std: Any) -> dict[str, float | None]:
    """Mean, standard deviation and the ends of the interval that are shown."""
    values = (mean, std, mean - REACH * std, mean + REACH * std)
    return dict(zip(("expected", "std", "lower", "upper"), map(finite, values), strict=True))
