"""Fit a model to totals of sets, and to what is known beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sumwise.acquisition.objective import read
from sumwise.data.about import About
from sumwise.data.known import Known, with_known
from sumwise.data.matching import by_id, match
from sumwise.data.sets import Sets
from sumwise.data.validate import check_labels
from sumwise.errors import LabelError, SettingError
from sumwise.model import fit as core
from sumwise.model.generalised.refusals import check_sets, refuse_noise
from sumwise.model.overlap import Overlap
from sumwise.outofcore.design_store import Embedded, as_sets
from sumwise.util.shapes import Float


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """A fitted model, and the sets and totals that it was fitted on."""

    prepared: core.Prepared
    fitted: core.Model
    measured: Sets
    labels: Float[np.ndarray, "A M"]
    one_output: bool


def fit_sets(
    config: core.ModelConfig,
    sets: Any,
    y_bar: Any,
    pool: Sets | None,
    noise_std: Any,
    known: Any,
) -> Learned:
    """`AggregateRegressor.fit` on sets."""
    all_sets = as_sets(sets)
    if isinstance(sets, Embedded):  # of which only some are measured
        named = y_bar is None or by_id(y_bar, all_sets, "totals", LabelError) is not None
        if config != sets.config or not named:
            raise SettingError(
                "on sets that are embedded already, fit takes the totals that are known as a "
                "dict by id, and a model with the settings they were embedded with"
            )
        prepared, pool = sets.prepared, None
    else:
        pool = all_sets if pool is None else as_sets(pool, "pool")
        prepared = pool.prepare(config)
    given = {} if y_bar is None and known is not None else y_bar
    at, values = match(given, all_sets, "totals", LabelError)
    noise = read(all_sets, {"noise_std": noise_std}, "fit", needed=at).noise_std
    noise = None if noise is None else noise[at]
    if config.outputs != "numbers":
        if noise is not None:
            refuse_noise(config.outputs)
        if not isinstance(sets, Embedded):
            check_sets(config.outputs, all_sets)
    more, beside = with_known(all_sets, known, About(outputs=config.outputs))
    if beside:
        at, values, noise = _joined(more, beside, at, values, noise)
        pool, all_sets = more if more is not all_sets else pool, more
    if isinstance(sets, Embedded):
        some = at.tolist()
        measured: Sets
        design, measured = sets.own_pool.design.rows(some), sets.some(some)
    else:
        in_order = np.array_equal(at, np.arange(len(all_sets)))
        measured = all_sets if in_order else all_sets.take(at.tolist())
        design = measured.pool(prepared).design
    labels = check_labels(values, measured.ids)
    fitted = core.fit(
        prepared,
        measured,
        design,
        labels,
        noise_std=noise,
        members=(measured.ids, partial(measured.take, range(len(measured)))),
        overlap=None if measured.members is None else Overlap.of(pool or measured, measured, noise),
    )
    return Learned(prepared, fitted, measured, labels, one_output=values.ndim < 2)


def _joined(
    sets: Sets, beside: Sequence[Known], at: Any, values: Any, noise: Any
) -> tuple[Any, Any, Any]:
    """Positions, totals and noise, those that are known beside included."""
    if values.ndim > 1:
        raise SettingError(
            "known works with one output, and totals have several; fit each output by itself"
        )
    for each in beside:
        if sets.position(each.set_id) in at:
            raise LabelError(f"the total of {each.set_id!r:.80} is in known too; leave one out")
    noise = np.zeros(len(at)) if noise is None else noise
    return (
        np.append(at, [sets.position(each.set_id) for each in beside]),
        np.append(values, [each.y_bar for each in beside]),
        np.append(noise, [each.noise_std or 0.0 for each in beside]),
    )
