"""The model and the strategy that a user means."""

from __future__ import annotations

from dataclasses import replace

from sumwise.acquisition.strategies import DEFAULT, Acquisition, named
from sumwise.data.sets import Sets
from sumwise.data.validate import count
from sumwise.errors import SettingError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.model import fit as core
from sumwise.model.basis import with_dropout
from sumwise.model.generalised.refusals import check_outputs, check_sets
from sumwise.outofcore.design_store import Embedded


def resolve(
    model: AggregateRegressor | None,
    strategy: str | Acquisition | None,
    seed: int,
    preset: str | None,
    sets: Sets | Embedded | None = None,
    outputs: str | None = None,
) -> tuple[core.ModelConfig, str | Acquisition]:
    """The model's settings and the strategy that these arguments mean.

    Contradictions are refused.

    Args:
        sets: Where they are embedded, they bring the model they were embedded with.
        outputs: Those of the model that is made where none is given.
    """
    if model is not None and not isinstance(model, AggregateRegressor):
        raise SettingError(
            f"model is {model!r}; give an AggregateRegressor, for example "
            "AggregateRegressor('linear')"
        )
    if preset not in (None, "paper"):
        raise SettingError(f"no preset is called {preset!r}; there is 'paper'")
    if preset is not None and (model is not None or strategy is not None):
        raise SettingError("a preset brings its own model and strategy; give one or the other")
    count(seed, "seed", 0)
    kind = "numbers" if outputs is None else check_outputs(outputs)
    if preset is not None and kind != "numbers":
        raise SettingError(f"preset={preset!r} is for plain numbers, not for {kind}; leave it out")
    if preset is not None:
        model = AggregateRegressor("fourier", hyperparameters="adam", random_state=int(seed))
        strategy = "AggMI"
    if isinstance(sets, Embedded):
        config = sets.config
        if model is not None and model.config() != config:
            own = AggregateRegressor.from_config(config)
            raise SettingError(
                f"these sets are embedded with {own!r}; leave model and preset out, or embed them "
                "anew with another model"
            )
    else:
        config = (model or AggregateRegressor(random_state=int(seed), outputs=kind)).config()
    if outputs is not None and outputs != config.outputs:
        raise SettingError(
            f"outputs is {outputs!r}, and the model has outputs={config.outputs!r}; give it the "
            f"same: AggregateRegressor(outputs={outputs!r}), or leave outputs out"
        )
    if not isinstance(sets, Embedded | None):
        check_sets(config.outputs, sets)
    strategy = DEFAULT if strategy is None else strategy
    if named(strategy).needs_dropout:
        config = replace(config, basis=with_dropout(config.basis, config.n_basis))
    return config, strategy
