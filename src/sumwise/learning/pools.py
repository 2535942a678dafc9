"""Sets in memory and designs on disk, alike for learners, studies, `score` and `select`."""

from __future__ import annotations

from sumwise.data.sets import Sets
from sumwise.model import fit as core
from sumwise.model import predict
from sumwise.model.design import Pool, embed
from sumwise.model.fit import Model, ModelConfig, Prepared
from sumwise.outofcore.design_store import Embedded, no_sets


def as_sets(sets: Sets | Embedded) -> Sets:
    """The sets; of a design on disk, with individuals that are read when they are used."""
    if isinstance(sets, Embedded):
        return sets.sets
    if not isinstance(sets, Sets):
        raise no_sets(sets)
    return sets


def prepare(config: ModelConfig, sets: Sets | Embedded) -> Prepared:
    """What a model knows before any answer; a design on disk has it already."""
    return sets.prepared if isinstance(sets, Embedded) else core.prepare(config, sets)


def first_pool(config: ModelConfig, prepared: Prepared, sets: Sets | Embedded) -> Pool:
    """The sets under the basis as it was drawn."""
    if isinstance(sets, Embedded):
        return sets.pool
    compiled = config.hyperparameters == "adam"
    return Pool(sets, prepared.basis, embed(sets, prepared.basis, numba_anyway=compiled))


def pool_under(sets: Sets | Embedded, model: Model) -> Pool:
    """The sets as strategies see them under a fitted model."""
    if isinstance(sets, Embedded):
        return sets.under(model.basis)
    predict.check_inputs(model, as_sets(sets))
    return Pool(sets, model.basis, embed(sets, model.basis))
