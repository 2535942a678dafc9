"""The model and strategy that a learner or a study works with; the paper's preset."""

from __future__ import annotations

from typing import Final

from sumwise.acquisition.strategies import DEFAULT, Acquisition, named
from sumwise.data.sets import Sets
from sumwise.errors import SettingError
from sumwise.learning.estimator import AggregateRegressor
from sumwise.model.basis import with_dropout
from sumwise.model.fit import check_seed
from sumwise.outofcore.design_store import Embedded

PRESETS: Final = ("paper",)


def resolve(
    model: AggregateRegressor | None,
    strategy: str | Acquisition | None,
    seed: int,
    preset: str | None,
) -> tuple[AggregateRegressor, str | Acquisition]:
    """The model and strategy that these arguments mean; contradictions are refused."""
    if preset is not None:
        if preset not in PRESETS:
            raise SettingError(f"no preset is called {preset!r}; there is 'paper'")
        if model is not None or strategy is not None:
            raise SettingError("a preset brings its own model and strategy; give one or the other")
    check_seed(seed, "seed")
    if preset == "paper":
        model = AggregateRegressor("fourier", hyperparameters="adam", random_state=int(seed))
        strategy = "AggMI"
    elif model is None:
        model = AggregateRegressor(random_state=int(seed))
    elif not isinstance(model, AggregateRegressor):
        raise SettingError(
            f"model is {model!r}; give an AggregateRegressor, for example "
            "AggregateRegressor('linear')"
        )
    model = AggregateRegressor(**model.get_params())  # a copy: the caller's is not changed
    strategy = DEFAULT if strategy is None else strategy
    if named(strategy).needs_dropout:
        model.set_params(basis=with_dropout(model.basis, model.n_basis))
    return model, strategy


def resolve_for(
    sets: Sets | Embedded,
    model: AggregateRegressor | None,
    strategy: str | Acquisition | None,
    seed: int,
    preset: str | None,
) -> tuple[AggregateRegressor, str | Acquisition]:
    """The same; sets that are embedded bring the model they were embedded with."""
    if not isinstance(sets, Embedded):
        return resolve(model, strategy, seed, preset)
    own = AggregateRegressor.from_config(sets.config)
    same = model is None or (
        isinstance(model, AggregateRegressor) and model.get_params() == own.get_params()
    )
    if preset is not None or not same:
        raise SettingError(
            f"these sets are embedded with {own!r}; leave model and preset out, or embed them anew "
            "with another model"
        )
    return resolve(own, strategy, seed, None)
